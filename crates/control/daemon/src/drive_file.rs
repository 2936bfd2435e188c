//! A file or a device before it becomes a drive: what is on it, its space, and the way back.
//!
//! All functions block for as long as the drive takes. None of them opens what it could wait at: a pipe, a
//! device without a medium.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ashlar_format::superblock::{MARKS_END_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock};
use ashlar_format::traces;
use ashlar_runtime::{UDEV_WAIT_MAX, UDEV_WAIT_STEP};
use rustix::fs::{FallocateFlags, fallocate};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Read at the front of a drive: superblocks of nearly all file systems, partition tables, LVM, LUKS, md,
/// ZFS, headers of disk images and of raw databases lie there, and a pool's own first segment.
const FRONT_BYTES: u64 = 2 * MIB;
/// Read at the end: backup partition tables, md of the older kinds, ZFS, what RAID controllers write.
const END_BYTES: u64 = MIB;
/// Where second superblocks lie: ext4 with blocks of 1, 2 and 4 KiB; btrfs, twice.
const SECOND_SUPERBLOCKS: [u64; 5] = [8 * MIB, 16 * MIB, 128 * MIB, 64 * MIB, 256 << 30];
/// Samples, evenly over the whole drive. Arbitrary: 16 MiB, half a second of a hard disk's seeks.
const SAMPLES: u64 = 256;
const SAMPLE_BYTES: u64 = 64 * KIB;
/// Stretches of data of a sparse file of which the beginning is read. Arbitrary.
const EXTENTS_MAX: usize = 1024;
const BLOCK_BYTES: usize = 4096;

/// What a drive holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Zeroes, or what a pool left that was deleted or that the drive has left.
    Nothing,
    /// A pool's superblock, whole.
    Pool(Mark),
    /// Superblocks of a pool, none of them whole.
    Remains,
    /// Something else, which begins here at the latest.
    Data {
        /// Where the first byte was found that is not zero.
        offset: u64,
    },
}

/// Which drive of which pool one says that it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// The pool's name.
    pub(crate) pool: String,
    /// Its identity, as the API shows it.
    pub(crate) pool_id: String,
    /// The drive's.
    pub(crate) drive_id: Option<String>,
}

/// Looks at a bounded part of a drive.
pub(crate) fn content(path: &Path) -> io::Result<Content> {
    let file = open(path, false)?;
    let size = size(&file)?;
    let mut front = vec![0; FRONT_BYTES.min(size) as usize];
    file.read_exact_at(&mut front, 0)?;
    if let Some(found) = superblocks(&front) {
        return Ok(found);
    }
    let marks = &front[..front.len().min(MARKS_END_BYTES as usize)];
    if let Some(at) = first_not_zero(marks) {
        return Ok(Content::Data { offset: at as u64 });
    }
    let mut data = None;
    let mut piece = vec![0; END_BYTES as usize];
    for range in ranges(&file, size)? {
        let part = &mut piece[..(range.end - range.start) as usize];
        file.read_exact_at(part, range.start)?;
        if part.chunks(BLOCK_BYTES).any(traces::is_of_segment) {
            // A pool was here and gave the drive back: its marks are gone and only its segments stay.
            return Ok(Content::Nothing);
        }
        if let Some(at) = first_not_zero(part)
            && data.is_none()
        {
            data = Some(range.start + at as u64);
        }
    }
    Ok(data.map_or(Content::Nothing, |offset| Content::Data { offset }))
}

fn first_not_zero(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte != 0)
}

/// What the slots of superblocks hold, if they hold any.
fn superblocks(front: &[u8]) -> Option<Content> {
    let slots = front.chunks(SUPERBLOCK_BYTES).take(SUPERBLOCK_SLOTS as usize);
    let slots: Vec<&[u8]> = slots.filter(|slot| traces::is_superblock(slot)).collect();
    if slots.is_empty() {
        return None;
    }
    let whole = slots.iter().filter_map(|slot| Superblock::decode(slot).ok());
    let newest = whole.max_by_key(|superblock| superblock.generation);
    Some(newest.map_or(Content::Remains, |superblock| {
        let entry = superblock.drives.get(usize::from(superblock.drive.0));
        Content::Pool(Mark {
            pool: superblock.name.clone(),
            pool_id: superblock.pool.to_string(),
            drive_id: entry.map(|entry| format!("{:032x}", entry.id)),
        })
    }))
}

/// What is read, in pieces of at most a MiB, each inside the drive.
fn ranges(file: &File, size: u64) -> io::Result<Vec<Range<u64>>> {
    let mut starts: Vec<(u64, u64)> = vec![(0, MIB), (MIB, FRONT_BYTES - MIB)];
    starts.extend(SECOND_SUPERBLOCKS.map(|at| (at, SAMPLE_BYTES)));
    let step = (size / SAMPLES).next_multiple_of(BLOCK_BYTES as u64).max(SAMPLE_BYTES);
    starts.extend((0..SAMPLES).map(|number| (number * step, SAMPLE_BYTES)));
    starts.push((size.saturating_sub(END_BYTES), END_BYTES));
    if file.metadata()?.is_file() {
        starts
            .extend(stretches(file, size)?.into_iter().take(EXTENTS_MAX).map(|at| (at.start, SAMPLE_BYTES)));
    }
    let inside = |(start, length): (u64, u64)| start..(start + length).min(size);
    Ok(starts.into_iter().map(inside).filter(|range| range.start < range.end).collect())
}

/// Where a file has data, by what its file system knows; all of it where that knows nothing.
fn stretches(file: &File, size: u64) -> io::Result<Vec<Range<u64>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size && found.len() <= EXTENTS_MAX {
        let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))?;
        found.push(start..end.min(size));
        at = end;
    }
    Ok(found)
}

fn open(path: &Path, is_written: bool) -> io::Result<File> {
    let is_device = std::fs::metadata(path)?.file_type().is_block_device();
    let exclusive = if is_written && is_device { libc::O_EXCL } else { 0 };
    OpenOptions::new()
        .read(true)
        .write(is_written)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | exclusive)
        .open(path)
}

fn size(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Opens a drive to change it; refuses one that somebody has open as a drive.
fn open_alone(path: &Path) -> io::Result<File> {
    let file = open(path, true)?;
    // Who has a device as a drive was found by O_EXCL: only udev and its like lock it without that.
    let is_device = file.metadata()?.file_type().is_block_device();
    let patience = if is_device { UDEV_WAIT_MAX } else { Duration::ZERO };
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if since.elapsed() < patience => {
                std::thread::sleep(UDEV_WAIT_STEP);
            }
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// How a drive was before it was made ready.
pub(crate) struct Before {
    path: PathBuf,
    /// Its first bytes, where a pool's marks come; none of a drive that had such marks and keeps them:
    /// whoever owns them may write them at any time.
    front: Option<Vec<u8>>,
    /// Stretches without space that were given some.
    holes: Vec<Range<u64>>,
}

/// Why a drive could not be made ready.
pub(crate) enum NotReady {
    /// Its file lacks so many bytes, and its file system has only so many free.
    NoSpace {
        /// To be allocated.
        wanted_bytes: u64,
        /// What there is.
        free_bytes: u64,
    },
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for NotReady {
    fn from(error: io::Error) -> NotReady {
        NotReady::Io(error)
    }
}

/// Gives a sparse file all its space, so that a full file system cannot stop its pool later; with `is_forced`
/// wipes what marks the drive as somebody's, at both ends. What fails leaves the drive as it was.
pub(crate) fn make_ready(path: &Path, is_forced: bool) -> Result<Before, NotReady> {
    let file = open_alone(path)?;
    let size = size(&file)?;
    let mut front = vec![0; MARKS_END_BYTES.min(size) as usize];
    file.read_exact_at(&mut front, 0)?;
    let front = (is_forced || first_not_zero(&front).is_none()).then_some(front);
    let mut before = Before { path: path.to_path_buf(), front, holes: Vec::new() };
    allocate(&file, size, &mut before)?;
    if is_forced && let Err(error) = wipe_ends(&file, size) {
        before.restore_to(&file);
        return Err(error.into());
    }
    Ok(before)
}

fn allocate(file: &File, size: u64, before: &mut Before) -> Result<(), NotReady> {
    let metadata = file.metadata()?;
    let allocated_bytes = metadata.blocks() * 512;
    if !metadata.is_file() || allocated_bytes >= size {
        return Ok(());
    }
    let wanted_bytes = size - allocated_bytes;
    let space = rustix::fs::fstatvfs(file).map_err(io::Error::from)?;
    if space.f_blocks == 0 {
        // It tells nothing of its space, as many a FUSE file system: nothing can be said of this file's.
        return Ok(());
    }
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    if wanted_bytes > free_bytes {
        return Err(NotReady::NoSpace { wanted_bytes, free_bytes });
    }
    let data = stretches(file, size)?;
    if data.len() <= EXTENTS_MAX {
        before.holes = holes(&data, size);
    }
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => Ok(()),
        // No preallocation here; blocks come as they are written.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        Err(error) => {
            before.restore_to(file);
            match error {
                rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT => {
                    Err(NotReady::NoSpace { wanted_bytes, free_bytes })
                }
                error => Err(NotReady::Io(error.into())),
            }
        }
    }
}

/// What lies between stretches of data.
fn holes(data: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    let starts = std::iter::once(0).chain(data.iter().map(|stretch| stretch.end));
    let ends = data.iter().map(|stretch| stretch.start).chain(std::iter::once(size));
    starts.zip(ends).map(|(start, end)| start..end).filter(|hole| hole.start < hole.end).collect()
}

fn wipe_ends(file: &File, size: u64) -> io::Result<()> {
    for start in [0, size.saturating_sub(END_BYTES)] {
        let mut piece = vec![0; MIB.min(size - start) as usize];
        file.read_exact_at(&mut piece, start)?;
        if first_not_zero(&piece).is_some() {
            piece.fill(0);
            file.write_all_at(&piece, start)?;
        }
    }
    file.sync_all()
}

impl Before {
    /// Puts a drive back as it was, of which no pool came to be. One that somebody took meanwhile is left
    /// alone.
    pub(crate) fn restore(&self) {
        if let Ok(file) = open_alone(&self.path) {
            self.restore_to(&file);
        }
    }

    fn restore_to(&self, file: &File) {
        // Whatever fails here: the refusal that led here is what a person must hear of.
        if let Some(front) = &self.front {
            let _ = file.write_all_at(front, 0);
        }
        for hole in &self.holes {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(file, flags, hole.start, hole.end - hole.start);
        }
        let _ = file.sync_all();
    }
}

/// Makes a drive read as zeroes that its pool gave back, where that costs no writing. True when it does.
pub(crate) fn empty(path: &Path) -> io::Result<bool> {
    let file = open_alone(path)?;
    let size = size(&file)?;
    let mut front = vec![0; MARKS_END_BYTES.min(size) as usize];
    file.read_exact_at(&mut front, 0)?;
    if first_not_zero(&front).is_some() || !file.metadata()?.is_file() {
        return Ok(false);
    }
    let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    let zeroed = fallocate(&file, flags, 0, size);
    Ok(zeroed.is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn file(directory: &tempfile::TempDir, size: u64) -> (PathBuf, File) {
        let path = directory.path().join("drive");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(size).unwrap();
        (path, file)
    }

    #[test]
    fn data_is_found_wherever_a_sparse_file_has_some() {
        let directory = tempfile::tempdir().unwrap();
        let size = 1 << 30;
        for at in [0, 1, 65_536, 512 * KIB, 64 * MIB, 77_777_777, size - 1] {
            let (path, file) = file(&directory, size);
            assert_eq!(content(&path).unwrap(), Content::Nothing);
            file.write_all_at(&[1], at).unwrap();
            assert!(matches!(content(&path).unwrap(), Content::Data { .. }), "{at}");
        }
        // Zeroes that were written are nothing.
        let (path, file) = file(&directory, 4 * MIB);
        file.write_all_at(&vec![0; 4 << 20], 0).unwrap();
        assert_eq!(content(&path).unwrap(), Content::Nothing);
        let (path, _file) = self::file(&directory, 0);
        assert_eq!(content(&path).unwrap(), Content::Nothing);
    }

    #[test]
    fn what_was_made_ready_is_put_back_with_its_holes() {
        let directory = tempfile::tempdir().unwrap();
        let (path, file) = file(&directory, 16 * MIB);
        file.write_all_at(b"mine", 3 * MIB).unwrap();
        file.write_all_at(b"front", 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let blocks = std::fs::metadata(&path).unwrap().blocks();
        let Ok(before) = make_ready(&path, true) else { panic!("not ready") };
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut front = [9; 5];
        file.read_exact_at(&mut front, 0).unwrap();
        assert_eq!((front, file.metadata().unwrap().blocks() * 512 >= 16 * MIB), ([0; 5], true));
        file.write_all_at(b"pool", 64 * KIB).unwrap();
        before.restore();
        file.read_exact_at(&mut front, 0).unwrap();
        assert_eq!(&front, b"front");
        assert!(std::fs::metadata(&path).unwrap().blocks() <= blocks + 8 + MARKS_END_BYTES / 512);
    }
}
