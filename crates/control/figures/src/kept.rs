//! Series as bytes, for whoever keeps them over a restart.
//!
//! ```text
//! slot:    "ASHLFIG1"  sequence u64  length u64  XXH3-64 of what follows u64  series
//! series:  length of the name u16 (bit 15: with minutes), name, time of the last request u64, each range:
//!          steps u32, steps; minutes u32, minutes
//! step:    end u64 (Unix milliseconds), 6 rates f32, latencies of reads and writes, classes of both
//! latencies: 0u8, or 1u8 and p50, p99, max, each u64
//! classes: how many u8, each u32
//! minute:  number since 1970 u64, p99 of reads u32, of writes u32
//! ```
//!
//! All numbers are little-endian. Of two slots the one with the higher sequence counts whose sum is right: a
//! write that is cut short loses what it was about to keep, and not what was kept before.

use ashlar_api::{HistoryPoint, HistoryRange, Latency, Rates};
use twox_hash::XxHash3_64;

use crate::history::Step;
use crate::minutes::{MINUTES_MAX, Minute, Minutes};

const MAGIC: &[u8; 8] = b"ASHLFIG1";
const HEADER_BYTES: usize = 32;
/// Of the length of a name: minutes follow, which an earlier version did not keep.
const WITH_MINUTES: u16 = 1 << 15;

/// What a slot says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// One more than that of the slot before.
    pub sequence: u64,
    /// Series, as [`History::kept`](crate::History::kept) gives them.
    pub series: Vec<u8>,
}

impl Slot {
    /// As it is written.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.series.len());
        bytes.extend(MAGIC);
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend((self.series.len() as u64).to_le_bytes());
        bytes.extend(XxHash3_64::oneshot(&self.series).to_le_bytes());
        bytes.extend(&self.series);
        bytes
    }

    /// How many bytes a slot has that begins with these; `None` where none does.
    #[must_use]
    pub fn length(beginning: &[u8]) -> Option<usize> {
        let mut reader = Reader(beginning);
        if reader.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let _sequence = reader.u64()?;
        usize::try_from(reader.u64()?).ok()?.checked_add(HEADER_BYTES)
    }

    /// What was written whole; `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Slot> {
        let length = Slot::length(bytes)?;
        let mut reader = Reader(bytes.get(MAGIC.len()..length)?);
        let (sequence, _length, sum) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let series = reader.0;
        (XxHash3_64::oneshot(series) == sum).then(|| Slot { sequence, series: series.to_vec() })
    }
}

/// A series on its way.
pub(crate) struct KeptSeries {
    pub(crate) object: String,
    pub(crate) busy_millis: u64,
    /// In the order of [`HistoryRange::ALL`].
    pub(crate) rings: Vec<Vec<Step>>,
    pub(crate) minutes: Vec<Minute>,
}

pub(crate) fn put_series<'a>(
    bytes: &mut Vec<u8>,
    object: &str,
    busy_millis: u64,
    rings: impl Iterator<Item = &'a std::collections::VecDeque<Step>>,
    minutes: &Minutes,
) {
    bytes.extend((object.len() as u16 | WITH_MINUTES).to_le_bytes());
    bytes.extend(object.as_bytes());
    bytes.extend(busy_millis.to_le_bytes());
    for steps in rings {
        bytes.extend((steps.len() as u32).to_le_bytes());
        steps.iter().for_each(|step| put_step(bytes, step));
    }
    bytes.extend((minutes.iter().len() as u32).to_le_bytes());
    for Minute { number, reads_micros, writes_micros } in minutes.iter() {
        bytes.extend(number.to_le_bytes());
        bytes.extend(reads_micros.to_le_bytes());
        bytes.extend(writes_micros.to_le_bytes());
    }
}

fn put_step(bytes: &mut Vec<u8>, step: &Step) {
    let HistoryPoint { unix_millis, rates } = &step.point;
    bytes.extend(unix_millis.to_le_bytes());
    for rate in [
        rates.reads_per_second,
        rates.writes_per_second,
        rates.others_per_second,
        rates.errors_per_second,
        rates.read_bytes_per_second,
        rates.write_bytes_per_second,
    ] {
        bytes.extend((rate as f32).to_le_bytes());
    }
    for latency in [rates.read_latency_micros, rates.write_latency_micros] {
        bytes.push(u8::from(latency.is_some()));
        if let Some(Latency { p50, p99, max }) = latency {
            [p50, p99, max].iter().for_each(|micros| bytes.extend(micros.to_le_bytes()));
        }
    }
    for classes in [&step.reads, &step.writes] {
        bytes.push(classes.len() as u8);
        classes.iter().for_each(|count| bytes.extend(count.to_le_bytes()));
    }
}

/// What the bytes hold; series behind a place that cannot be read are left out.
pub(crate) fn read_series(bytes: &[u8]) -> Vec<KeptSeries> {
    let mut reader = Reader(bytes);
    std::iter::from_fn(|| one_series(&mut reader)).collect()
}

fn one_series(reader: &mut Reader) -> Option<KeptSeries> {
    let length = reader.u16()?;
    let object = String::from_utf8(reader.take(usize::from(length & !WITH_MINUTES))?.to_vec()).ok()?;
    let busy_millis = reader.u64()?;
    let mut rings = Vec::new();
    for range in HistoryRange::ALL {
        let count = reader.u32()?;
        if u64::from(count) > range.seconds() / range.step_seconds() {
            return None;
        }
        rings.push((0..count).map(|_| one_step(reader)).collect::<Option<Vec<Step>>>()?);
    }
    let minutes = if length & WITH_MINUTES == 0 { Vec::new() } else { minutes(reader)? };
    Some(KeptSeries { object, busy_millis, rings, minutes })
}

fn minutes(reader: &mut Reader) -> Option<Vec<Minute>> {
    let count = reader.u32()?;
    if count as usize > MINUTES_MAX {
        return None;
    }
    let one = |_| {
        let number = reader.u64()?;
        Some(Minute { number, reads_micros: reader.u32()?, writes_micros: reader.u32()? })
    };
    (0..count).map(one).collect()
}

fn one_step(reader: &mut Reader) -> Option<Step> {
    let unix_millis = reader.u64()?;
    let mut rate = || Some(f64::from(f32::from_le_bytes(reader.array()?)));
    let rates = Rates {
        reads_per_second: rate()?,
        writes_per_second: rate()?,
        others_per_second: rate()?,
        errors_per_second: rate()?,
        read_bytes_per_second: rate()?,
        write_bytes_per_second: rate()?,
        read_latency_micros: one_latency(reader)?,
        write_latency_micros: one_latency(reader)?,
    };
    let point = HistoryPoint { unix_millis, rates };
    Some(Step { point, reads: one_row(reader)?, writes: one_row(reader)? })
}

/// The outer `None` is the end of the bytes.
fn one_latency(reader: &mut Reader) -> Option<Option<Latency>> {
    if reader.take(1)? == [0] {
        return Some(None);
    }
    Some(Some(Latency { p50: reader.u64()?, p99: reader.u64()?, max: reader.u64()? }))
}

fn one_row(reader: &mut Reader) -> Option<Box<[u32]>> {
    let count = reader.take(1)?[0];
    (0..count).map(|_| reader.u32()).collect()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_read_whole_or_not_at_all() {
        let slot = Slot { sequence: 7, series: (0..200).collect() };
        let bytes = slot.encode();
        assert_eq!(Slot::length(&bytes[..HEADER_BYTES]), Some(bytes.len()));
        let longer = [&bytes[..], &[0; 100]].concat();
        assert_eq!(Slot::decode(&longer), Some(slot), "what lies behind it is nothing");
        for end in 0..bytes.len() {
            assert_eq!(Slot::decode(&bytes[..end]), None);
        }
        for at in 16..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert_eq!(Slot::decode(&wrong), None, "byte {at}");
        }
        assert_eq!(Slot::decode(&[0; 4096]), None);
    }

    #[test]
    fn a_series_that_was_kept_without_minutes_is_read() {
        let mut minutes = Minutes::default();
        minutes.put_before(vec![Minute { number: 7, reads_micros: 1, writes_micros: 0 }]);
        let rings = HistoryRange::ALL.map(|_| std::collections::VecDeque::new());
        let mut bytes = Vec::new();
        put_series(&mut bytes, "volume:db", 9, rings.iter(), &minutes);
        let found = read_series(&bytes);
        assert_eq!(found[0].minutes, minutes.iter().copied().collect::<Vec<_>>());
        bytes.truncate(bytes.len() - 4 - 16);
        bytes[1] &= 0x7f;
        let found = read_series(&bytes);
        assert_eq!((found.len(), found[0].object.as_str(), found[0].minutes.len()), (1, "volume:db", 0));
    }
}
