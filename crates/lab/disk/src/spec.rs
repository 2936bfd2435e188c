//! What a disk is to be: where its bytes lie, how many, and how it behaves.

use std::path::PathBuf;
use std::time::Duration;

use ashlar_model::address::{self, SCHEME};
use ashlar_model::array::Array;
use ashlar_model::array::spec::{Flash, Spec as ArraySpec};

use crate::error::{Error, ErrorKind, Result};

/// Disks are whole multiples of it, and liars know versions of it.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// What the address of a limit begins with.
const LIMIT_SCHEME: &str = "limit:";
/// And that of a liar.
const LIAR_SCHEME: &str = "liar:";
/// And that of flash in front of what is there.
const FLASH_SCHEME: &str = "sim-flash:";
/// All that an address may begin with.
pub const SCHEMES: [&str; 4] = [SCHEME, LIMIT_SCHEME, LIAR_SCHEME, FLASH_SCHEME];
/// The liar about flushes does every eighth of them: a drive that flushes when its cache is full.
const TRUE_EVERY: u32 = 8;
/// The liar with old blocks returns one for so many reads: seldom enough to be overlooked.
const STALE_SHARE: f64 = 0.01;

/// A description of a disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// The file with the bytes. One that is not there is made; one that is there is the disk as it was.
    pub backing: PathBuf,
    /// A multiple of 4 KiB; what a file that is there already has.
    pub size_bytes: u64,
    /// How it behaves.
    pub kind: Kind,
    /// For where the platters stand, and for which reads are stale.
    pub seed: u64,
}

/// How a disk behaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// As the file does: direct I/O, and a flush when one is asked for.
    Plain,
    /// Answers come when drives like these would have answered. The disk is the first part of the array: the
    /// smaller it is, the less far the heads move. A flush takes the controller's time only: what the model
    /// answered is on its drives, or in memory that survives a power cut.
    Model(Box<ArraySpec>),
    /// As the file does, but not faster than this.
    Limit(Limit),
    /// As the file does; what was read before is answered as flash would. Its bytes are in this machine's
    /// memory.
    Flash(Flash),
    /// It lies, to see whether the lab finds out.
    Liar(Liar),
}

/// What a disk does at most. [`Limit::default`] is no limit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Limit {
    /// Reads and writes per second.
    pub requests_per_second: Option<u32>,
    /// Bytes per second, of reads and writes together.
    pub bytes_per_second: Option<u64>,
    /// How long each request takes at least, flushes too.
    pub latency: Duration,
}

/// How a disk lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Liar {
    /// Writes and flushes are answered while the data are in memory. Every so many flushes one is true, with
    /// zero none; a power cut loses what came since the last true one.
    Flush {
        /// How many flushes a true one comes after.
        true_every: u32,
    },
    /// So large a share of reads gets, of each block that was ever written over, what was there before.
    Stale {
        /// From 0 to 1.
        share: f64,
    },
    /// What was read or written once is answered from memory, and writes stay there: a power cut loses all.
    Memory,
}

impl Kind {
    /// From the address of a target: `sim-hdd:drives=2,model=10k-300g`, any of the three of
    /// `limit:iops=500,rate=20MB/s,latency=1ms`, or `liar:flush`, `liar:stale`, `liar:memory`.
    ///
    /// # Errors
    /// When it is none of them, or has an unknown key or value: the error says what is allowed.
    pub fn parse(text: &str) -> Result<Kind> {
        if text.starts_with(SCHEME) {
            let array = ArraySpec::parse(text).map_err(|error| wrong(error.to_string()))?;
            return Ok(Kind::Model(Box::new(array)));
        }
        if let Some(settings) = text.strip_prefix(LIMIT_SCHEME) {
            return Ok(Kind::Limit(Limit::parse(settings)?));
        }
        if let Some(settings) = text.strip_prefix(FLASH_SCHEME) {
            return parse_flash(settings).map(Kind::Flash);
        }
        let liar = match text.strip_prefix(LIAR_SCHEME) {
            Some("flush") => Liar::Flush { true_every: TRUE_EVERY },
            Some("stale") => Liar::Stale { share: STALE_SHARE },
            Some("memory") => Liar::Memory,
            Some(_) => return Err(wrong(format!("`{text}`: liars are flush, stale and memory"))),
            None => {
                let known = SCHEMES.map(|scheme| format!("`{scheme}`")).join(", ");
                return Err(wrong(format!("`{text}` begins with none of {known}")));
            }
        };
        Ok(Kind::Liar(liar))
    }

    /// In words, for a report.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Kind::Plain => "a file as a device".into(),
            Kind::Model(array) => array.in_words(),
            Kind::Limit(limit) => limit.in_words(),
            Kind::Flash(flash) => {
                format!("{} MiB of flash in front, filled on first read; simulated", flash.size_bytes >> 20)
            }
            Kind::Liar(Liar::Flush { .. }) => "a liar that acknowledges flushes it does not do".into(),
            Kind::Liar(Liar::Stale { .. }) => "a liar that returns old blocks".into(),
            Kind::Liar(Liar::Memory) => "a liar that keeps everything in memory".into(),
        }
    }
}

fn parse_flash(settings: &str) -> Result<Flash> {
    let mut flash = Flash::default();
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let is_known = match name {
            "size" => address::size(value).map(|bytes| flash.size_bytes = bytes),
            "rate" => {
                let bytes = value.strip_suffix("/s").and_then(address::size);
                bytes.map(|bytes| flash.bytes_per_second = bytes)
            }
            "latency" => address::time(value).map(|time| flash.latency = time),
            _ => None,
        };
        if is_known.is_none() {
            return Err(wrong(format!(
                "`{setting}`: allowed are size=SIZE as in 4GiB, rate=SIZE/s as in 1GB/s, latency=TIME as in 100us"
            )));
        }
    }
    Ok(flash)
}

impl Limit {
    fn in_words(self) -> String {
        let mut words = Vec::new();
        words.extend(self.requests_per_second.map(|count| format!("{count} requests a second")));
        words.extend(self.bytes_per_second.map(|bytes| format!("{:.1} MB a second", bytes as f64 / 1e6)));
        if !self.latency.is_zero() {
            words.push(format!("at least {} ms each", self.latency.as_secs_f64() * 1e3));
        }
        match words.is_empty() {
            true => "no limit".into(),
            false => format!("a limit of {}", words.join(", ")),
        }
    }

    fn parse(settings: &str) -> Result<Limit> {
        let mut limit = Limit::default();
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let is_known = match name {
                "iops" => value.parse().ok().map(|count| limit.requests_per_second = Some(count)),
                "rate" => {
                    let bytes = value.strip_suffix("/s").and_then(address::size);
                    bytes.map(|bytes| limit.bytes_per_second = Some(bytes))
                }
                "latency" => address::time(value).map(|time| limit.latency = time),
                _ => None,
            };
            if is_known.is_none() {
                return Err(wrong(format!(
                    "`{setting}`: allowed are iops=COUNT, rate=SIZE/s as in 20MB/s, latency=TIME as in 1ms"
                )));
            }
        }
        Ok(limit)
    }
}

impl Spec {
    /// Refuses what cannot work, and says what could.
    pub(crate) fn check(&self) -> Result<()> {
        let size_bytes = self.size_bytes;
        if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(wrong(format!(
                "a disk of {size_bytes} bytes: a multiple of {BLOCK_BYTES} is allowed"
            )));
        }
        match &self.kind {
            Kind::Model(array) => {
                let array = Array::new((**array).clone(), self.seed);
                let capacity = array.map_err(|error| wrong(error.to_string()))?.capacity_bytes();
                if size_bytes > capacity {
                    return Err(wrong(format!(
                        "a disk of {size_bytes} bytes on an array of {capacity}: make it smaller, or take \
                         more drives"
                    )));
                }
            }
            Kind::Limit(Limit { requests_per_second, bytes_per_second, .. }) => {
                if *requests_per_second == Some(0) || *bytes_per_second == Some(0) {
                    return Err(wrong("a limit of zero: leave it out, or allow something".to_string()));
                }
            }
            Kind::Flash(flash) if flash.size_bytes < BLOCK_BYTES || flash.bytes_per_second == 0 => {
                return Err(wrong("flash without size or rate: say size=4GiB".to_string()));
            }
            Kind::Liar(Liar::Stale { share }) if !(0.0..=1.0).contains(share) => {
                return Err(wrong(format!("a share of {share} of reads: 0 to 1 is allowed")));
            }
            Kind::Liar(_) | Kind::Plain | Kind::Flash(_) => {}
        }
        Ok(())
    }
}

fn wrong(context: String) -> Error {
    Error::new(ErrorKind::Description, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_drives_and_limits_are_read_and_errors_say_what_is_allowed() {
        let Kind::Limit(limit) = Kind::parse("limit:iops=500,rate=20MB/s,latency=1ms").unwrap() else {
            panic!("a limit");
        };
        assert_eq!(limit.requests_per_second, Some(500));
        assert_eq!(limit.bytes_per_second, Some(20_000_000));
        assert_eq!(limit.latency, Duration::from_millis(1));
        let Kind::Model(array) = Kind::parse("sim-hdd:drives=14,flash=1GiB").unwrap() else {
            panic!("a model");
        };
        assert_eq!((array.drives, array.flash.size_bytes), (14, 1 << 30));
        let Kind::Flash(flash) = Kind::parse("sim-flash:size=64MiB,rate=2GB/s,latency=80us").unwrap() else {
            panic!("flash");
        };
        assert_eq!((flash.size_bytes, flash.bytes_per_second), (64 << 20, 2_000_000_000));
        assert_eq!(flash.latency, Duration::from_micros(80));
        for wrong in [
            "sim-flash:depth=3",
            "limit:iops=x",
            "limit:rate=20MB",
            "limit:speed=1",
            "sim-hdd:drive=1",
            "/some/path",
        ] {
            assert_eq!(Kind::parse(wrong).unwrap_err().kind, ErrorKind::Description, "{wrong}");
        }
    }

    #[test]
    fn a_disk_that_cannot_be_is_refused() {
        let spec = |size_bytes, kind| Spec { backing: PathBuf::from("x"), size_bytes, kind, seed: 1 };
        let one_drive = || Kind::parse("sim-hdd:drives=1,raid=0").unwrap();
        assert!(spec(1 << 30, one_drive()).check().is_ok());
        assert!(spec(1 << 40, one_drive()).check().is_err());
        assert!(spec(1000, Kind::Plain).check().is_err());
        assert!(spec(4096, Kind::Liar(Liar::Stale { share: 1.5 })).check().is_err());
        assert!(spec(4096, Kind::parse("limit:iops=0").unwrap()).check().is_err());
        assert!(spec(4096, Kind::parse("sim-flash:rate=1GB/s").unwrap()).check().is_err());
    }
}
