//! The parameter list of EXTENDED COPY(LID1): bytes to devices and segments (SPC-4 6.4.3).

use super::{DEVICES_MAX, SEGMENTS_MAX};
use crate::bytes::{u16_at, u24_at, u32_at, u64_at};
use crate::sense::{Sense, code};

/// The header of the list.
const HEADER_BYTES: usize = 16;
/// A descriptor of a device, and the only type of them here: one that names it as INQUIRY does (6.4.4.1).
const DEVICE_BYTES: usize = 32;
pub(crate) const DEVICE_BY_IDENTIFICATION: u8 = 0xe4;
/// A name has so many bytes at most.
const DESIGNATOR_BYTES_MAX: usize = 20;
/// A segment of the one type there is, from blocks to blocks (6.4.6.3).
const SEGMENT_BYTES: usize = 28;
pub(crate) const SEGMENT_OF_BLOCKS: u8 = 0x02;
/// Where in it the number of blocks is.
pub(super) const BLOCKS_AT: usize = 10;
/// Descriptors of one list.
pub(crate) const DESCRIPTORS_BYTES_MAX: usize = DEVICES_MAX * DEVICE_BYTES + SEGMENTS_MAX * SEGMENT_BYTES;
/// Longer lists are not received: no list that is carried out is. Arbitrary, larger than the longest.
pub(crate) const LIST_BYTES_MAX: usize = 16 << 10;

/// What is asked for.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// The host's name for the copy, if it gave it one.
    pub id: Option<u8>,
    /// How it ended is told to who asks later.
    pub is_held: bool,
    pub devices: Vec<Designated>,
    pub segments: Vec<Segment>,
}

/// A device as the list names it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Designated {
    /// Peripheral device type.
    pub kind: u8,
    /// As it stands in the Device Identification page.
    pub designator: Vec<u8>,
    pub block_bytes: u32,
}

/// A run of blocks to copy.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub source: usize,
    pub target: usize,
    /// The number is one of blocks of the target (DC), else of the source.
    pub counts_target_blocks: bool,
    pub blocks: u64,
    pub source_start: u64,
    pub target_start: u64,
    /// Where it is in the list.
    pub at: usize,
}

/// Reads a list.
pub(crate) fn parse(list: &[u8]) -> Result<Request, Sense> {
    let too_short = Sense::illegal(code::PARAMETER_LIST_LENGTH);
    if list.len() < HEADER_BYTES {
        return Err(too_short);
    }
    let (devices_bytes, segments_bytes) = (usize::from(u16_at(list, 2)), u32_at(list, 8) as usize);
    let inline_bytes = u32_at(list, 12) as usize;
    if devices_bytes.saturating_add(segments_bytes) > DESCRIPTORS_BYTES_MAX {
        return Err(too_short);
    }
    let segments_at = HEADER_BYTES + devices_bytes;
    let (Some(devices), Some(segments)) =
        (list.get(HEADER_BYTES..segments_at), list.get(segments_at..segments_at + segments_bytes))
    else {
        return Err(too_short);
    };
    if inline_bytes > 0 {
        return Err(Sense::illegal(code::INLINE_DATA_LENGTH_EXCEEDED));
    }
    if !devices_bytes.is_multiple_of(DEVICE_BYTES) {
        return Err(Sense::field_in_list(2, None));
    }
    if devices_bytes / DEVICE_BYTES > DEVICES_MAX {
        return Err(Sense::illegal(code::TOO_MANY_TARGET_DESCRIPTORS));
    }
    let (id, is_held) = list_identifier(list)?;
    let devices = devices.chunks_exact(DEVICE_BYTES).enumerate();
    let device = |(index, bytes): (usize, &[u8])| device(bytes, HEADER_BYTES + index * DEVICE_BYTES);
    let devices = devices.map(device).collect::<Result<Vec<_>, _>>()?;
    Ok(Request { id, is_held, devices, segments: all_segments(segments, segments_at)? })
}

/// LIST IDENTIFIER and LIST ID USAGE (table 104): held, not held, none.
fn list_identifier(list: &[u8]) -> Result<(Option<u8>, bool), Sense> {
    let id = list[0];
    match list[1] >> 3 & 3 {
        0 => Ok((Some(id), true)),
        2 => Ok((Some(id), false)),
        3 if id == 0 => Ok((None, false)),
        3 => Err(Sense::field_in_list(0, None)),
        _ => Err(Sense::field_in_list(1, Some(4))),
    }
}

fn device(bytes: &[u8], at: usize) -> Result<Designated, Sense> {
    if bytes[0] != DEVICE_BY_IDENTIFICATION {
        return Err(Sense::illegal(code::UNSUPPORTED_TARGET_DESCRIPTOR));
    }
    let length = usize::from(bytes[7]);
    if length > DESIGNATOR_BYTES_MAX {
        return Err(Sense::field_in_list(at + 7, None));
    }
    let mut designator = vec![bytes[4] & 0x0f, bytes[5] & 0x3f, 0, bytes[7]];
    designator.extend_from_slice(&bytes[8..8 + length]);
    // LU ID TYPE and NUL mean nothing any more.
    Ok(Designated { kind: bytes[1] & 0x1f, designator, block_bytes: u24_at(bytes, 29) })
}

fn all_segments(mut bytes: &[u8], at: usize) -> Result<Vec<Segment>, Sense> {
    let mut segments = Vec::new();
    let end = at + bytes.len();
    while let Some(kind) = bytes.first() {
        if segments.len() == SEGMENTS_MAX {
            return Err(Sense::illegal(code::TOO_MANY_SEGMENT_DESCRIPTORS));
        }
        if *kind != SEGMENT_OF_BLOCKS {
            return Err(Sense::illegal(code::UNSUPPORTED_SEGMENT_DESCRIPTOR));
        }
        let at = end - bytes.len();
        let Some((one, rest)) = bytes.split_at_checked(SEGMENT_BYTES) else {
            return Err(Sense::illegal(code::PARAMETER_LIST_LENGTH));
        };
        // DESCRIPTOR LENGTH counts what is behind it.
        if usize::from(u16_at(one, 2)) != SEGMENT_BYTES - 4 {
            return Err(Sense::field_in_list(at + 2, None));
        }
        segments.push(Segment {
            source: usize::from(u16_at(one, 4)),
            target: usize::from(u16_at(one, 6)),
            counts_target_blocks: one[1] & 2 != 0,
            blocks: u64::from(u16_at(one, BLOCKS_AT)),
            source_start: u64_at(one, 12),
            target_start: u64_at(one, 20),
            at,
        });
        bytes = rest;
    }
    Ok(segments)
}
