//! Checksums put right after a mutation, so that fuzzing gets past them to the fields.
//!
//! The recipes are written down here a second time on purpose: the tests of `targets` fail when the
//! format's own recipe and this one disagree.

use ashlar_format::{Kind, MediaKey, checksum};

/// The key of all inputs but superblocks, which bring their own.
pub fn key() -> MediaKey {
    MediaKey::new(0xf022 << 64)
}

/// A chunk: header 0..24 and payload, by the length field at 12.
pub fn chunk(bytes: &mut [u8]) {
    // Of a trimmed chunk the upper half of the length is the mask of its blocks.
    let is_trimmed = bytes.get(2).is_some_and(|codec| codec & 0x80 != 0);
    let length = if is_trimmed { length_u16(bytes, 12) } else { length_u32(bytes, 12) };
    let Some(payload) = payload_range(bytes, 32, length) else { return };
    let sum = of_both(Kind::Chunk, &bytes[..24], &bytes[payload]);
    bytes[24..32].copy_from_slice(&sum.to_le_bytes());
}

/// A page record: header 0..56 and payload, by the length field at 10.
pub fn page(bytes: &mut [u8]) {
    let Some(payload) = payload_range(bytes, 64, length_u16(bytes, 10)) else { return };
    let sum = of_both(Kind::Page, &bytes[..56], &bytes[payload]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
}

/// A journal group: header 0..56 and records, by the header length field at 12.
pub fn group(bytes: &mut [u8]) {
    let records = length_u32(bytes, 12).and_then(|length| length.checked_sub(64));
    let Some(records) = payload_range(bytes, 64, records) else { return };
    let sum = of_both(Kind::Group, &bytes[..56], &bytes[records]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
}

/// A superblock: its body's checksum with the key at 80, then the public one of the root block.
pub fn superblock(bytes: &mut [u8]) {
    let Some(raw) = bytes.get(80..96).and_then(|raw| raw.try_into().ok()) else { return };
    let Some(body) = length_u32(bytes, 12).and_then(|length| payload_range(bytes, 4096, Some(length))) else {
        return;
    };
    let key = MediaKey::new(u128::from_le_bytes(raw));
    let sum = key.checksum(Kind::Superblock, &bytes[body]);
    bytes[248..256].copy_from_slice(&sum.to_le_bytes());
    let sum = checksum(0x7375_7065, &bytes[..4088]);
    bytes[4088..4096].copy_from_slice(&sum.to_le_bytes());
}

/// A structure with its checksum of everything before it at a fixed place.
pub fn prefix(kind: Kind, at: usize, bytes: &mut [u8]) {
    if bytes.len() >= at + 8 {
        let sum = key().checksum(kind, &bytes[..at]);
        bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The checksum of a header, and of its payload's checksum behind it.
fn of_both(kind: Kind, header: &[u8], payload: &[u8]) -> u64 {
    let mut joined = header.to_vec();
    joined.extend_from_slice(&key().checksum(kind, payload).to_le_bytes());
    key().checksum(kind, &joined)
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
