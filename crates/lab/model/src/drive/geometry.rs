//! Where a byte lies on the platters, and how long the ways between places are.
//!
//! ```text
//!   offset ─► zone ─► track ─► place on the track ─► angle
//!                       └────► cylinder = track / heads
//! ```
//! All times are whole nanoseconds, so that the byte behind an access that just ended is under the head
//! exactly then, and not a rounding error and a whole turn later.

use super::preset::Model;
use crate::nanos;

/// Zones of equal width. Real drives have 15 to 30; what is between is a step of 2 % of the rate.
const ZONES: u64 = 16;

/// Data lie in sectors of so many bytes; a track holds whole ones.
const SECTOR_BYTES: u64 = 512;

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_byte: u64,
    first_track: u64,
    track_bytes: u64,
}

/// A byte's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) track: u64,
    /// From the start of the track.
    offset: u64,
    track_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    revolution: u64,
    /// The start of a track lies so much later than that of the one before, that the head, also one that
    /// writes, is there in time.
    skew: u64,
    heads: u64,
    cylinders: u64,
    seek_track: u64,
    seek_average: u64,
    seek_full: u64,
    write_settle: u64,
    pub(crate) capacity: u64,
    pub(crate) read_ahead: u64,
}

impl Geometry {
    pub(crate) fn new(model: &Model) -> Geometry {
        let revolution = nanos(model.revolution);
        let (seek_track, write_settle) = (nanos(model.seek_track), nanos(model.write_settle));
        let skew = seek_track + write_settle;
        assert!(skew < revolution, "a change of the track takes longer than a turn");
        assert!(model.outer_bytes_per_second >= model.inner_bytes_per_second, "zones are faster outside");
        let step = (model.outer_bytes_per_second - model.inner_bytes_per_second) / (ZONES - 1);
        // The sustained rate is over turns and changes of the track.
        let track_bytes = |zone: u64| {
            let rate = u128::from(model.outer_bytes_per_second - zone * step);
            let bytes = rate * u128::from(revolution + skew) / 1_000_000_000;
            bytes as u64 / SECTOR_BYTES * SECTOR_BYTES
        };
        let bytes_of_one_each: u64 = (0..ZONES).map(track_bytes).sum();
        let tracks_of_zone = model.capacity_bytes.div_ceil(bytes_of_one_each);
        let mut zones = Vec::new();
        let mut first_byte = 0;
        for zone in 0..ZONES {
            let track_bytes = track_bytes(zone);
            zones.push(Zone { first_byte, first_track: zone * tracks_of_zone, track_bytes });
            first_byte += tracks_of_zone * track_bytes;
        }
        Geometry {
            zones,
            revolution,
            skew,
            heads: model.heads,
            cylinders: (ZONES * tracks_of_zone).div_ceil(model.heads),
            seek_track,
            seek_average: nanos(model.seek_average),
            seek_full: nanos(model.seek_full),
            write_settle,
            capacity: model.capacity_bytes,
            read_ahead: model.read_ahead_bytes,
        }
    }

    pub(crate) fn place(&self, byte: u64) -> Place {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_byte <= byte) - 1];
        let in_zone = byte - zone.first_byte;
        Place {
            track: zone.first_track + in_zone / zone.track_bytes,
            offset: in_zone % zone.track_bytes,
            track_bytes: zone.track_bytes,
        }
    }

    /// The time from the start of the track to the place.
    fn way(&self, place: &Place) -> u64 {
        place.offset * self.revolution / place.track_bytes
    }

    /// From when on a head that is on the track at `now` is over the place, for a platter that is `phase`
    /// ahead.
    pub(crate) fn under_head(&self, place: &Place, now: u64, phase: u64) -> u64 {
        let angle = (self.way(place) + place.track * self.skew) % self.revolution;
        let stands_at = (now + phase) % self.revolution;
        now + (angle + self.revolution - stands_at) % self.revolution
    }

    /// The time of a seek: a square root up to a third of the stroke, a straight line from there.
    pub(crate) fn seek(&self, from_track: u64, to_track: u64, is_write: bool) -> u64 {
        if from_track == to_track {
            return 0;
        }
        // The next cylinder takes as long as another surface: what the skew leaves time for.
        let distance = (from_track / self.heads).abs_diff(to_track / self.heads);
        let share = distance.saturating_sub(1) as f64 / self.cylinders as f64;
        let (track, average, full) =
            (self.seek_track as f64, self.seek_average as f64, self.seek_full as f64);
        let seek = if share * 3.0 <= 1.0 {
            track + (average - track) * (share * 3.0).sqrt()
        } else {
            average + (full - average) * (share * 3.0 - 1.0) / 2.0
        };
        seek as u64 + if is_write { self.write_settle } else { 0 }
    }

    /// The time in which the bytes from `from` to before `to` pass under the head.
    pub(crate) fn transfer(&self, from: u64, to: u64) -> u64 {
        let mut place = self.place(from);
        let mut left = to - from;
        let mut time = 0;
        loop {
            let on_track = place.track_bytes - place.offset;
            let end = Place { offset: place.offset + left.min(on_track), ..place };
            time += self.way(&end) - self.way(&place);
            if left <= on_track {
                return time;
            }
            left -= on_track;
            time += self.skew;
            place = self.place(to - left);
        }
    }

    /// What the head waits before `byte` when it comes from the byte before.
    pub(crate) fn gap_before(&self, byte: u64) -> u64 {
        if self.place(byte).offset == 0 { self.skew } else { 0 }
    }
}
