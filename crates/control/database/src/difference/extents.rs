//! Where a file lies on its volume (`FS_IOC_FIEMAP`, Documentation/filesystems/fiemap.rst of the kernel).

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::ioctl::{Opcode, Updater, ioctl};

/// `_IOWR('f', 11, struct fiemap)`: the size in it is that of the 32 bytes before the extents.
const FS_IOC_FIEMAP: Opcode = 0xC020_660B;
/// What is in memory only is written first.
const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 1;
/// Its place is not known (`UNKNOWN`), not yet (`DELALLOC`), or no plain piece of the volume (`ENCODED`,
/// `DATA_ENCRYPTED`, `NOT_ALIGNED`, `DATA_INLINE`, `DATA_TAIL`).
const FIEMAP_EXTENT_NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
/// Reads as zeroes.
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;
/// Extents of one call. Arbitrary: 14 KiB of them.
const EXTENTS_AT_ONCE: usize = 256;

/// A piece of a file that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// Which bytes of the file.
    pub(super) range: Range<u64>,
    /// Where they begin on the volume, if that is known.
    pub(super) place: Option<u64>,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap`.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS_AT_ONCE],
}

const _: () = assert!(size_of::<RawExtent>() == 56 && size_of::<Request>() == 32 + 56 * EXTENTS_AT_ONCE);

/// All of a file that is not a hole, in order.
pub(super) fn of(file: &File) -> io::Result<Vec<Extent>> {
    let mut extents = Vec::new();
    let mut start = 0;
    loop {
        let mut request = Request {
            start,
            length: u64::MAX - start,
            flags: FIEMAP_FLAG_SYNC,
            mapped_extents: 0,
            extent_count: EXTENTS_AT_ONCE as u32,
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS_AT_ONCE],
        };
        // SAFETY: the request has the kernel's layout and room for as many extents as it says; the kernel
        // writes nothing else. Safe code has no such call.
        unsafe { ioctl(file, Updater::<FS_IOC_FIEMAP, Request>::new(&mut request)) }?;
        let found = &request.extents[..(request.mapped_extents as usize).min(EXTENTS_AT_ONCE)];
        let is_there = |raw: &&RawExtent| raw.flags & FIEMAP_EXTENT_UNWRITTEN == 0;
        extents.extend(found.iter().filter(is_there).map(|raw| Extent {
            range: raw.logical..raw.logical + raw.length,
            place: (raw.flags & FIEMAP_EXTENT_NO_PLACE == 0).then_some(raw.physical),
        }));
        match found.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 && last.length > 0 => {
                start = last.logical + last.length;
            }
            _ => return Ok(extents),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_was_written_is_in_extents_and_holes_are_not() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 8192], 0).unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        let extents = match of(&file) {
            Ok(extents) => extents,
            // The tests' file system has no such call: those of databases are ext4.
            Err(error) if error.raw_os_error() == Some(95) => return,
            Err(error) => panic!("{error}"),
        };
        let covers = |at: u64| extents.iter().any(|extent| extent.range.contains(&at));
        assert!(covers(0) && covers(8191) && covers(1 << 20), "{extents:?}");
        assert!(!covers(1 << 19), "{extents:?}");
        assert!(extents.is_sorted_by_key(|extent| extent.range.start));
    }
}
