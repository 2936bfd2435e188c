//! Whether a superblock that decodes can be one of this program's: its numbers leave room to go on
//! counting, and its lengths fit each other.
//!
//! Everything behind the opening computes with these numbers and asserts what it computes. So what no pool
//! can have is refused here, as damage, and stops no process.

use ashlar_format::superblock::Superblock;
use ashlar_units::BLOCK_BYTES;

use crate::create::SEGMENT_BYTES_FULL;
use crate::frontier::SEGMENT_NUMBERS_END;
use crate::{Error, ErrorKind, Result};

/// No count of a pool comes near this one in centuries, and whatever is added to it is still a number.
const COUNT_MAX: u64 = u64::MAX / 2;
/// The same for openings.
const SESSION_MAX: u32 = u32::MAX / 2;

/// Refuses a superblock that no pool can have.
pub(crate) fn check(superblock: &Superblock) -> Result<()> {
    let Superblock { name, segment_bytes, cell_bytes, journal, frontier, .. } = superblock;
    let refuse = |what: String| {
        let context = format!("the superblock of pool {name} is impossible: {what}");
        Err(Error::new(ErrorKind::Damaged, context))
    };
    for (what, count) in [
        ("generation", superblock.generation),
        ("checkpoint", superblock.checkpoint.0),
        ("journal sequence", journal.sequence),
        ("next volume", superblock.volume_next),
    ] {
        if count > COUNT_MAX {
            return refuse(format!("{what} {count}"));
        }
    }
    if superblock.session > SESSION_MAX {
        return refuse(format!("opening {}", superblock.session));
    }
    let columns = superblock.layout.as_ref().map_or(1, |layout| {
        u64::from(layout.width).saturating_sub(u64::from(superblock.protection.parity_strips()))
    });
    let (segment_bytes, cell_bytes) = (u64::from(*segment_bytes), u64::from(*cell_bytes));
    let is_geometry = cell_bytes > 0
        && cell_bytes.is_multiple_of(BLOCK_BYTES)
        && segment_bytes == columns * cell_bytes
        && segment_bytes <= SEGMENT_BYTES_FULL;
    if !is_geometry {
        return refuse(format!("segments of {segment_bytes} bytes in {columns} cells of {cell_bytes}"));
    }
    if journal.offset_bytes > segment_bytes || !journal.offset_bytes.is_multiple_of(BLOCK_BYTES) {
        return refuse(format!("the journal goes on at {} of a segment", journal.offset_bytes));
    }
    let numbers = frontier.iter().map(|entry| entry.segment.0);
    match numbers.max().filter(|number| *number >= SEGMENT_NUMBERS_END) {
        Some(number) => refuse(format!("segment number {number}")),
        None => Ok(()),
    }
}
