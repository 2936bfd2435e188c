//! What a kind of drive can do, and three kinds that the papers speak of.
//!
//! Seek times of the first two are the design's. Transfer rates are the makers' sustained ones, which include
//! changes of the track. What no maker publishes is marked as such.

use std::time::Duration;

/// A kind of drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// Its name in an address.
    pub name: &'static str,
    /// Its name in a report.
    pub words: &'static str,
    /// How many bytes it holds.
    pub capacity_bytes: u64,
    /// The time of one turn.
    pub revolution: Duration,
    /// A seek to the next track, and a change of the surface.
    pub seek_track: Duration,
    /// A seek over a third of the stroke: the mean of all seeks is very nearly as long.
    pub seek_average: Duration,
    /// A seek over the whole stroke.
    pub seek_full: Duration,
    /// What a write waits longer than a read until the head is still enough.
    pub write_settle: Duration,
    /// Sustained bytes per second at the outer edge, where offsets begin.
    pub outer_bytes_per_second: u64,
    /// Sustained bytes per second at the inner edge.
    pub inner_bytes_per_second: u64,
    /// How many surfaces have a head.
    pub heads: u64,
    /// How far it reads on into its buffer while nothing else is asked of it.
    pub read_ahead_bytes: u64,
}

/// One buffer segment. Arbitrary: makers publish the whole buffer (16 to 128 MiB) and not its use.
const READ_AHEAD_BYTES: u64 = 1 << 20;

impl Model {
    /// 15,000 turns a minute, 300 GB, 2.5 inch: of the class of Savvio 15K.3 and Ultrastar C15K600.
    ///
    /// The latter's manual has 2.9 ms of average seek for reads. Rates and settle are the former's as known,
    /// without a manual at hand.
    #[must_use]
    pub fn k15_300g() -> Model {
        Model {
            name: "15k-300g",
            words: "15K 300 GB",
            capacity_bytes: 300_000_000_000,
            revolution: Duration::from_micros(4000),
            seek_track: Duration::from_micros(200),
            seek_average: Duration::from_micros(2900),
            seek_full: Duration::from_micros(6500),
            write_settle: Duration::from_micros(400),
            outer_bytes_per_second: 202_000_000,
            inner_bytes_per_second: 152_000_000,
            heads: 4,
            read_ahead_bytes: READ_AHEAD_BYTES,
        }
    }

    /// 10,000 turns a minute, 300 GB, 2.5 inch: of the class of Savvio 10K.3.
    ///
    /// Its manual has 67 to 124 MB/s; the first Savvio's has 0.4 ms more for writes than for reads.
    #[must_use]
    pub fn k10_300g() -> Model {
        Model {
            name: "10k-300g",
            words: "10K 300 GB",
            capacity_bytes: 300_000_000_000,
            revolution: Duration::from_micros(6000),
            seek_track: Duration::from_micros(300),
            seek_average: Duration::from_micros(3800),
            seek_full: Duration::from_micros(7500),
            write_settle: Duration::from_micros(400),
            outer_bytes_per_second: 124_000_000,
            inner_bytes_per_second: 67_000_000,
            heads: 4,
            read_ahead_bytes: READ_AHEAD_BYTES,
        }
    }

    /// 7,200 turns a minute, 2 TB, 3.5 inch: of the class of Constellation ES.3.
    ///
    /// Its manual has 83 to 175 MB/s and five heads. The average seek of 8.5 ms for reads and 1 ms more for
    /// writes is usual for the class (Deskstar 7K1000.C: 8.5 and 9.5). The shortest seek is an estimate, and
    /// the longest is taken as twice the average.
    #[must_use]
    pub fn k7_2000g() -> Model {
        Model {
            name: "7k2",
            words: "7.2K 2 TB",
            capacity_bytes: 2_000_000_000_000,
            revolution: Duration::from_nanos(8_333_333),
            seek_track: Duration::from_micros(600),
            seek_average: Duration::from_micros(8500),
            seek_full: Duration::from_micros(17_000),
            write_settle: Duration::from_micros(1000),
            outer_bytes_per_second: 175_000_000,
            inner_bytes_per_second: 83_000_000,
            heads: 5,
            read_ahead_bytes: READ_AHEAD_BYTES,
        }
    }

    /// The kinds that an address can name.
    #[must_use]
    pub fn presets() -> [Model; 3] {
        [Model::k15_300g(), Model::k10_300g(), Model::k7_2000g()]
    }
}
