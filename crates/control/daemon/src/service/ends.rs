//! Where what lies on a volume ends: read from the headers of file systems, partition tables and the like, so
//! that a shrink does not cut through one.
//!
//! Layouts are those of each format's own documentation; a header that is not understood is nothing.

use ashlar_api as api;
use ashlar_units::ByteCount;

use super::Service;
use crate::error::{Error, Result};

/// Every header looked at lies within so many bytes: that of btrfs is the last, behind 64 KiB.
const HEAD_BYTES: usize = 128 << 10;
const BTRFS_HEADER_AT: usize = 64 << 10;

/// What lies on a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Occupant {
    pub(super) name: &'static str,
    /// `None` for what takes all there is.
    pub(super) end_bytes: Option<u64>,
}

impl Service {
    /// What lies on a volume, if it is of a kind we know.
    pub(super) async fn occupant(&self, name: &str) -> Result<Option<Occupant>> {
        let geometry = self.array.geometry(name).await?;
        let block = geometry.map_or(4096, |geometry| geometry.logical_block_bytes);
        Ok(occupant(&self.array.first_bytes(name, HEAD_BYTES).await?, block as usize))
    }

    /// Refuses to cut through what lies on a volume.
    pub(super) async fn check_end(&self, name: &str, before_bytes: u64, size_bytes: u64) -> Result<()> {
        let Some(occupant) = self.occupant(name).await? else { return Ok(()) };
        // A damaged header may tell any number.
        let end_bytes = occupant.end_bytes.unwrap_or(before_bytes);
        if end_bytes <= size_bytes {
            return Ok(());
        }
        Err(Error::new(
            api::ErrorKind::Busy,
            format!(
                "volume `{name}` carries {} that ends at {}: {} would cut through it",
                occupant.name,
                ByteCount(end_bytes),
                ByteCount(size_bytes)
            ),
            "shrink it first, or lose it with --force",
        ))
    }
}

/// Tells what a volume that begins with `head` carries.
fn occupant(head: &[u8], block: usize) -> Option<Occupant> {
    let found = [
        ("ext4", ext(head)),
        ("xfs", xfs(head)),
        ("btrfs", btrfs(head)),
        ("swap space", swap(head)),
        ("an LVM physical volume", lvm(head)),
        ("NTFS", ntfs(head)),
        ("exFAT", exfat(head)),
        ("FAT", fat(head)),
        ("a GUID partition table", gpt(head, block)),
        ("a DOS partition table", dos(head, block)),
    ];
    let known = found.into_iter().find_map(|(name, end)| Some(Occupant { name, end_bytes: Some(end?) }));
    known.or_else(|| head.starts_with(b"LUKS\xba\xbe").then_some(Occupant { name: "LUKS", end_bytes: None }))
}

fn has(head: &[u8], at: usize, magic: &[u8]) -> bool {
    head.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

fn bytes<const N: usize>(head: &[u8], at: usize) -> Option<[u8; N]> {
    head.get(at..)?.first_chunk().copied()
}

fn le16(head: &[u8], at: usize) -> Option<u64> {
    bytes(head, at).map(|found| u64::from(u16::from_le_bytes(found)))
}

fn le32(head: &[u8], at: usize) -> Option<u64> {
    bytes(head, at).map(|found| u64::from(u32::from_le_bytes(found)))
}

fn le64(head: &[u8], at: usize) -> Option<u64> {
    bytes(head, at).map(u64::from_le_bytes)
}

/// ext2, ext3 and ext4: the superblock lies at 1024 (`struct ext4_super_block`).
fn ext(head: &[u8]) -> Option<u64> {
    const AT: usize = 1024;
    const INCOMPAT_64BIT: u64 = 0x80;
    if !has(head, AT + 0x38, &[0x53, 0xef]) {
        return None;
    }
    let is_64bit = le32(head, AT + 0x60)? & INCOMPAT_64BIT != 0;
    let high = if is_64bit { le32(head, AT + 0x150)? } else { 0 };
    let blocks = high << 32 | le32(head, AT + 0x04)?;
    let shift = u32::try_from(le32(head, AT + 0x18)?).ok()?.checked_add(10)?;
    blocks.checked_mul(1_u64.checked_shl(shift)?)
}

/// `struct xfs_dsb`, big-endian.
fn xfs(head: &[u8]) -> Option<u64> {
    if !has(head, 0, b"XFSB") {
        return None;
    }
    let block_bytes = u64::from(u32::from_be_bytes(bytes(head, 4)?));
    u64::from_be_bytes(bytes(head, 8)?).checked_mul(block_bytes)
}

/// The size of this device in `struct btrfs_super_block`, in its `dev_item`.
fn btrfs(head: &[u8]) -> Option<u64> {
    if !has(head, BTRFS_HEADER_AT + 0x40, b"_BHRfS_M") {
        return None;
    }
    le64(head, BTRFS_HEADER_AT + 0xd1)
}

/// Pages of 4 KiB; the magic ends the first one.
fn swap(head: &[u8]) -> Option<u64> {
    const PAGE_BYTES: u64 = 4096;
    if !has(head, PAGE_BYTES as usize - 10, b"SWAPSPACE2") {
        return None;
    }
    Some((le32(head, 1028)? + 1) * PAGE_BYTES)
}

/// A label in one of the first four sectors, and behind it the header with the size of the device.
fn lvm(head: &[u8]) -> Option<u64> {
    let label = (0..4).map(|sector| sector * 512).find(|at| has(head, *at, b"LABELONE"))?;
    let header = label.checked_add(usize::try_from(le32(head, label + 20)?).ok()?)?;
    le64(head, header.checked_add(32)?)
}

fn ntfs(head: &[u8]) -> Option<u64> {
    if !has(head, 3, b"NTFS    ") {
        return None;
    }
    // A copy of the first sector lies behind the last one.
    le64(head, 0x28)?.checked_add(1)?.checked_mul(le16(head, 0x0b)?)
}

fn exfat(head: &[u8]) -> Option<u64> {
    if !has(head, 3, b"EXFAT   ") {
        return None;
    }
    le64(head, 72)?.checked_mul(1_u64.checked_shl(u32::from(*head.get(108)?))?)
}

fn fat(head: &[u8]) -> Option<u64> {
    if !has(head, 54, b"FAT1") && !has(head, 82, b"FAT32") {
        return None;
    }
    let sectors = match le16(head, 0x13)? {
        0 => le32(head, 0x20)?,
        few => few,
    };
    sectors.checked_mul(le16(head, 0x0b)?)
}

/// The copy of the table is in the last block of the device that was partitioned.
fn gpt(head: &[u8], block: usize) -> Option<u64> {
    // An image made for the other size of blocks is one all the same.
    let unit = [block, 512, 4096].into_iter().find(|unit| has(head, *unit, b"EFI PART"))?;
    le64(head, unit + 32)?.checked_add(1)?.checked_mul(unit as u64)
}

/// The four entries at 446; each says where it begins and how many sectors it has.
fn dos(head: &[u8], block: usize) -> Option<u64> {
    if !has(head, 510, &[0x55, 0xaa]) {
        return None;
    }
    let mut end = 0;
    for entry in (0..4).map(|index| 446 + index * 16) {
        let (status, kind) = (*head.get(entry)?, *head.get(entry + 4)?);
        if status & 0x7f != 0 {
            // A boot sector of something else, with its program where the table would be.
            return None;
        }
        if kind != 0 {
            end = end.max(le32(head, entry + 8)? + le32(head, entry + 12)?);
        }
    }
    (end > 0).then(|| end * block as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rubbish_carries_nothing_and_short_heads_do_no_harm() {
        assert_eq!(occupant(&[], 512), None);
        assert_eq!(occupant(&[0; HEAD_BYTES], 4096), None);
        for length in 0..2048 {
            let mut head = vec![0xff; length];
            if length > 1082 {
                head[1080..1082].copy_from_slice(&[0x53, 0xef]);
            }
            // Numbers that overflow are no end.
            assert!(occupant(&head, 512).is_none_or(|found| found.end_bytes.is_some()));
        }
    }

    #[test]
    fn partitions_end_where_the_last_one_does() {
        let mut head = vec![0; HEAD_BYTES];
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        head[446 + 4] = 0x83;
        head[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
        head[446 + 12..446 + 16].copy_from_slice(&4096_u32.to_le_bytes());
        assert_eq!(occupant(&head, 512).unwrap().end_bytes, Some(6144 * 512));
        head[446] = 0x55;
        assert_eq!(occupant(&head, 512), None, "a boot sector");
        head[512..520].copy_from_slice(b"EFI PART");
        head[512 + 32..512 + 40].copy_from_slice(&9999_u64.to_le_bytes());
        assert_eq!(occupant(&head, 4096).unwrap().end_bytes, Some(10_000 * 512));
    }
}
