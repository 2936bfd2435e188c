//! Checksums put right after a mutation, so that fuzzing gets past them to the fields.
//!
//! The recipes are written down here a second time on purpose: the tests of `targets` fail when the
//! format's own recipe and this one disagree.

use ashlar_format::checksum;

const CHUNK_SEED: u64 = 0x0063_6875_6e6b;
const PAGE_SEED: u64 = 0x7061_6765;
const GROUP_SEED: u64 = 0x6772_6f75;

/// A chunk: header 0..24 and payload, by the length field at 12.
pub fn chunk(bytes: &mut [u8]) {
    // Of a trimmed chunk the upper half of the length is the mask of its blocks.
    let is_trimmed = bytes.get(2).is_some_and(|codec| codec & 0x80 != 0);
    let length = if is_trimmed { length_u16(bytes, 12) } else { length_u32(bytes, 12) };
    let Some(payload) = payload_range(bytes, 32, length) else { return };
    let mut joined = bytes[..24].to_vec();
    joined.extend_from_slice(&checksum(CHUNK_SEED, &bytes[payload]).to_le_bytes());
    let sum = checksum(CHUNK_SEED, &joined);
    bytes[24..32].copy_from_slice(&sum.to_le_bytes());
}

/// A page record: header 0..56 and payload, by the length field at 10.
pub fn page(bytes: &mut [u8]) {
    let Some(payload) = payload_range(bytes, 64, length_u16(bytes, 10)) else { return };
    let header = checksum(PAGE_SEED, &bytes[..56]);
    let sum = checksum(PAGE_SEED ^ header, &bytes[payload]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
}

/// A journal group: header 0..56 and records, by the header length field at 12.
pub fn group(bytes: &mut [u8]) {
    let records = length_u32(bytes, 12).and_then(|length| length.checked_sub(64));
    let Some(records) = payload_range(bytes, 64, records) else { return };
    let header = checksum(GROUP_SEED, &bytes[..56]);
    let sum = checksum(GROUP_SEED ^ header, &bytes[records]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
}

/// A structure with its checksum of everything before it at a fixed place.
pub fn prefix(seed: u64, at: usize, bytes: &mut [u8]) {
    if bytes.len() >= at + 8 {
        let sum = checksum(seed, &bytes[..at]);
        bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    }
}

fn payload_range(bytes: &[u8], header: usize, length: Option<usize>) -> Option<std::ops::Range<usize>> {
    let end = header.checked_add(length?)?;
    (bytes.len() >= end).then_some(header..end)
}

fn length_u16(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at + 2)?;
    Some(usize::from(u16::from_le_bytes(field.try_into().ok()?)))
}

fn length_u32(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at + 4)?;
    usize::try_from(u32::from_le_bytes(field.try_into().ok()?)).ok()
}
