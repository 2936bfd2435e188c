//! The payload of a DELTA page record: the slots in which a map page differs from its base.
//!
//! ```text
//! 0 u8 overrides   1 u8 high words
//! 2 high words, ascending: the first as u32, then each one's distance from the one before, LEB128
//!   overrides by ascending slot: u16 slot (9 bits) and which high word (7 bits) · u32 low word
//! ```
//!
//! Pointers are cut in halves because blocks written about the same time lie in few segments: the high
//! half (kind and segment) is shared. Six bytes and a bit for an override instead of ten.

use crate::bytes::{Reader, Writer};
use crate::page::PAGE_POINTERS;
use crate::{Damage, DamageKind, Pointer};

/// Overrides in a record at most: what the index of a high word can count.
pub const OVERRIDES_MAX: usize = 128;

const SLOT_BITS: u32 = 9;

/// A slot in which a page differs from its base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Override {
    /// Which.
    pub slot: u16,
    /// What it holds.
    pub pointer: Pointer,
}

/// Overrides as bytes.
///
/// # Panics
/// When they are too many or not sorted by slot.
#[must_use]
pub fn encode(overrides: &[Override]) -> Vec<u8> {
    assert!(overrides.len() <= OVERRIDES_MAX, "{} overrides in a record", overrides.len());
    assert!(overrides.is_sorted_by(|one, next| one.slot < next.slot), "overrides are not sorted");
    let mut highs: Vec<u32> = overrides.iter().map(high_of).collect();
    highs.sort_unstable();
    highs.dedup();
    let mut writer = Writer::new();
    writer.u8(overrides.len() as u8).u8(highs.len() as u8);
    let mut previous = None;
    for high in &highs {
        match previous {
            None => drop(writer.u32(*high)),
            Some(previous) => write_distance(&mut writer, high - previous),
        }
        previous = Some(*high);
    }
    for entry in overrides {
        assert!(usize::from(entry.slot) < PAGE_POINTERS, "slot {}", entry.slot);
        let index = highs.binary_search(&high_of(entry)).expect("every high word was gathered");
        writer.u16(entry.slot | (index as u16) << SLOT_BITS).u32(entry.pointer.0 as u32);
    }
    writer.into_bytes()
}

fn high_of(entry: &Override) -> u32 {
    (entry.pointer.0 >> 32) as u32
}

fn write_distance(writer: &mut Writer, mut distance: u32) {
    while distance >= 0x80 {
        writer.u8(distance as u8 | 0x80);
        distance >>= 7;
    }
    writer.u8(distance as u8);
}

fn read_distance(reader: &mut Reader<'_>) -> Result<u32, Damage> {
    let mut distance = 0;
    for shift in [0, 7, 14, 21, 28] {
        let byte = reader.u8()?;
        distance |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    u32::try_from(distance).map_err(|_| impossible())
}

fn impossible() -> Damage {
    Damage::new(DamageKind::Impossible, "overrides are not as they are written")
}

/// Bytes as overrides, sorted by slot. Accepts exactly what [`encode`] makes.
pub fn decode(bytes: &[u8]) -> Result<Vec<Override>, Damage> {
    let mut reader = Reader::new(bytes);
    let count = usize::from(reader.u8()?);
    let high_count = usize::from(reader.u8()?);
    let mut highs: Vec<u32> = Vec::with_capacity(high_count);
    for _ in 0..high_count {
        let high = match highs.last() {
            None => reader.u32()?,
            Some(last) => last.checked_add(read_distance(&mut reader)?).ok_or_else(impossible)?,
        };
        highs.push(high);
    }
    let mut overrides: Vec<Override> = Vec::with_capacity(count);
    for _ in 0..count {
        let packed = reader.u16()?;
        let high = highs.get(usize::from(packed >> SLOT_BITS)).ok_or_else(impossible)?;
        let pointer = Pointer(u64::from(*high) << 32 | u64::from(reader.u32()?));
        let slot = packed & (PAGE_POINTERS as u16 - 1);
        let is_sorted = overrides.last().is_none_or(|last| last.slot < slot);
        if !is_sorted || pointer.as_in_memory().is_some() {
            return Err(impossible());
        }
        overrides.push(Override { slot, pointer });
    }
    // One form only: high words that nobody uses, or written longer than needed, are no form of ours.
    if count > OVERRIDES_MAX || encode(&overrides) != bytes {
        return Err(impossible());
    }
    Ok(overrides)
}

const _: () = assert!(PAGE_POINTERS == 1 << SLOT_BITS && OVERRIDES_MAX << SLOT_BITS <= 1 << 16);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ashlar_units::SegmentId;

    use super::*;

    fn sample() -> Vec<Override> {
        let data = |segment: u32, units: u64| Pointer::data(SegmentId(segment), units * 64, 4128);
        let pointers =
            [Pointer::HOLE, data(70_000, 3), Pointer::ZERO, data(7, 1), data(7, 9), data(70_001, 0)];
        let slots = [0, 1, 77, 300, 301, 511];
        slots.into_iter().zip(pointers).map(|(slot, pointer)| Override { slot, pointer }).collect()
    }

    #[test]
    fn overrides_survive_the_trip() {
        let bytes = encode(&sample());
        assert_eq!(decode(&bytes).unwrap(), sample());
        let same_segment: Vec<Override> = (0..OVERRIDES_MAX as u16)
            .map(|slot| Override { slot, pointer: Pointer::data(SegmentId(9), u64::from(slot) * 64, 100) })
            .collect();
        let bytes = encode(&same_segment);
        assert_eq!(bytes.len(), 2 + 4 + 6 * OVERRIDES_MAX);
        assert_eq!(decode(&bytes).unwrap(), same_segment);
        assert_eq!(decode(&encode(&[])).unwrap(), []);
    }

    #[test]
    fn what_is_not_in_its_one_form_is_refused() {
        let bytes = encode(&sample());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(decode(&longer).is_err());
        let mut unsorted = encode(&sample()[1..3]);
        let at = unsorted.len() - 12;
        let (first, second) = (unsorted[at..at + 6].to_vec(), unsorted[at + 6..].to_vec());
        unsorted[at..].copy_from_slice(&[second, first].concat());
        assert!(decode(&unsorted).is_err());
        let in_memory = encode(&[Override { slot: 3, pointer: Pointer::in_memory(5) }]);
        assert!(decode(&in_memory).is_err());
        // A high word that nobody uses.
        assert!(decode(&[0, 1, 9, 0, 0, 0]).is_err());
    }
}
