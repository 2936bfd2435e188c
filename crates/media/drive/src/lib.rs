//! One flash device or a file standing for one: open, read, write, flush, trim, superblock ring.
//!
//! Called by `pool` only. It knows nothing of segments: it reads and writes aligned ranges, says in
//! one [`Error`] what failed on which drive, and keeps the ring of superblock slots at the front of
//! the drive. It never retries: whether a failure is survivable is the pool's decision.

mod error;

use std::cell::Cell;

use ashlar_format::owner::{OWNER_BYTES, Owner};
use ashlar_format::superblock::{
    MARKS_END_BYTES, OWNER_START_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock,
};
use ashlar_format::{Damage, DamageKind, MediaKey};
use ashlar_runtime::{Buf, DriveFile, Durability, OpenDrive, Runtime};
use ashlar_units::BLOCK_BYTES;

pub use error::{Error, ErrorKind, Result};

/// An open drive.
pub struct Drive {
    runtime: Runtime,
    file: DriveFile,
    path: String,
    counters: Cell<DriveCounters>,
    /// Its owner block was written.
    has_owner: Cell<bool>,
}

/// What was asked of a drive since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveCounters {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written: what wears it.
    pub written_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Blocks written again because they were not what they should have been.
    pub mended_blocks: u64,
    /// Reads that others answered because it was slow.
    pub steered_reads: u64,
}

/// What the ring of a drive holds.
#[derive(Default)]
pub struct Ring {
    /// Superblocks that decode, newest first.
    pub valid: Vec<Superblock>,
    /// True when a slot carries our magic but does not decode: a pool was here, whatever it says.
    pub has_remains: bool,
    /// What is said of a slot of another version, or with features that this program does not know.
    pub other_version: Option<String>,
}

impl Drive {
    /// Opens a drive, or makes its file when `create_size_bytes` says how large.
    pub async fn open(runtime: &Runtime, path: &str, create_size_bytes: Option<u64>) -> Result<Drive> {
        let options = OpenDrive { create_size_bytes, is_read_only: false };
        let file = runtime.open_drive(path, options).await.map_err(|error| Error::opening(&error))?;
        Ok(Drive {
            runtime: runtime.clone(),
            file,
            path: path.to_string(),
            counters: Cell::default(),
            has_owner: Cell::new(false),
        })
    }

    /// What was asked of it since it was opened.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        self.counters.get()
    }

    /// A block was wrong and is written again.
    pub fn note_mended(&self) {
        self.count(|counters| counters.mended_blocks += 1);
    }

    /// It was slow, and others answered.
    pub fn note_steered(&self) {
        self.count(|counters| counters.steered_reads += 1);
    }

    fn count(&self, change: impl FnOnce(&mut DriveCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// An error of a request, counted.
    fn failure(&self, what: &str, error: &std::io::Error) -> Error {
        self.count(|counters| counters.errors += 1);
        Error::io(&self.path, what, error)
    }

    /// Where things are on a drive is told by drives, so a range behind its end is an error and no bug. A
    /// file would simply grow.
    fn check_inside(&self, what: &str, offset: u64, length: u64) -> Result<()> {
        let size_bytes = self.size_bytes();
        if offset.checked_add(length).is_some_and(|end| end <= size_bytes) {
            return Ok(());
        }
        let range = format!("{what} {length} bytes at {offset} of drive {}", self.path);
        Err(Error::new(ErrorKind::Damaged, format!("{range}: it has only {size_bytes}")))
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// Its size now: a file may have been cut short since it was opened.
    pub fn size_bytes_now(&self) -> Result<u64> {
        self.file.size_bytes_now().map_err(|error| Error::io(&self.path, "measure", &error))
    }

    /// Reads `length` bytes at `offset`, both whole blocks.
    pub async fn read(&self, offset: u64, length: usize) -> Result<Buf> {
        check_aligned("read", offset, length as u64);
        self.check_inside("read", offset, length as u64)?;
        let (result, buffer) = self.file.read(offset, self.runtime.buffer(length)).await;
        match result {
            Ok(()) => {
                self.count(|counters| counters.read_bytes += length as u64);
                Ok(buffer)
            }
            Err(error) => Err(self.failure(&format!("read {length} bytes at {offset} of"), &error)),
        }
    }

    /// Writes whole blocks at `offset`.
    pub async fn write(&self, offset: u64, buffer: Buf, durability: Durability) -> Result<()> {
        let length = buffer.len();
        check_aligned("write", offset, length as u64);
        self.check_inside("write", offset, length as u64)?;
        let (result, _buffer) = self.file.write(offset, buffer, durability).await;
        result.map_err(|error| self.failure(&format!("write {length} bytes at {offset} of"), &error))?;
        self.count(|counters| counters.written_bytes += length as u64);
        Ok(())
    }

    /// Makes every completed write durable.
    pub async fn sync(&self) -> Result<()> {
        self.file.sync().await.map_err(|error| self.failure("flush", &error))
    }

    /// True where a range must be written over once before small durable writes to it are quick.
    #[must_use]
    pub fn needs_preparing(&self) -> bool {
        self.file.is_first_write_slow()
    }

    /// Writes over a range once.
    pub async fn prepare(&self, offset: u64, length: u64) -> Result<()> {
        check_aligned("prepare", offset, length);
        self.check_inside("prepare", offset, length)?;
        let filled = self.file.fill_with_zeroes(offset, length).await;
        filled.map_err(|error| self.failure("prepare a segment of", &error))?;
        self.count(|counters| counters.written_bytes += length);
        Ok(())
    }

    /// Tells the drive that a range holds nothing. A file is left alone: punching a hole would make
    /// its next durable writes as slow as the first.
    pub async fn trim(&self, offset: u64, length: u64) -> Result<()> {
        check_aligned("trim", offset, length);
        if self.needs_preparing() {
            return Ok(());
        }
        self.check_inside("trim", offset, length)?;
        self.file.discard(offset, length).await.map_err(|error| Error::io(&self.path, "trim", &error))
    }

    /// Reads the ring of superblocks.
    pub async fn read_ring(&self) -> Result<Ring> {
        let length = SUPERBLOCK_BYTES * SUPERBLOCK_SLOTS as usize;
        if self.size_bytes() < length as u64 {
            return Ok(Ring::default());
        }
        let bytes = self.read(0, length).await?;
        let mut ring = Ring::default();
        for slot in bytes.chunks_exact(SUPERBLOCK_BYTES) {
            match Superblock::decode(slot) {
                Ok(superblock) => ring.valid.push(superblock),
                Err(Damage { kind: DamageKind::Absent, .. }) => {}
                Err(damage) => {
                    ring.has_remains = true;
                    if damage.kind == DamageKind::Version {
                        ring.other_version = Some(damage.to_string());
                    }
                }
            }
        }
        if ring.valid.is_empty() {
            // Slots of version 1 were 4 KiB apart.
            let slots = bytes[..SUPERBLOCK_BYTES].chunks_exact(BLOCK_BYTES as usize);
            let mut told = slots.filter_map(|slot| Superblock::decode(slot).err()).rev();
            let version = told.find(|damage| damage.kind == DamageKind::Version);
            ring.other_version = ring.other_version.or(version.map(|damage| damage.to_string()));
        }
        assert!(ring.valid.len() as u64 <= SUPERBLOCK_SLOTS, "{} superblocks in a ring", ring.valid.len());
        ring.valid.sort_by_key(|superblock| std::cmp::Reverse(superblock.generation));
        Ok(ring)
    }

    /// Writes a superblock into its slot, durably, and reads it back: everything hangs on it, so a
    /// write the drive acknowledged and lost must be known now.
    pub async fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        let offset = superblock.generation % SUPERBLOCK_SLOTS * SUPERBLOCK_BYTES as u64;
        let bytes = superblock.encode();
        assert!(superblock.generation > 0, "a superblock before the first");
        assert!(
            bytes.len() <= SUPERBLOCK_BYTES,
            "superblock {} of {} bytes",
            superblock.generation,
            bytes.len()
        );
        let mut buffer = self.runtime.buffer(bytes.len());
        buffer.copy_from_slice(&bytes);
        self.write(offset, buffer, Durability::Durable).await?;
        let back = self.read(offset, bytes.len()).await?;
        if back[..] == bytes[..] {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Damaged,
            format!(
                "drive {} acknowledged superblock {} and lost it: replace the drive",
                self.path, superblock.generation
            ),
        ))
    }

    /// Reads the owner block; `None` where none of this key is.
    pub async fn read_owner(&self, key: &MediaKey) -> Result<Option<Owner>> {
        let block = self.read(OWNER_START_BYTES, OWNER_BYTES).await?;
        Ok(Owner::decode(key, &block).ok())
    }

    /// Writes the owner block, durably.
    pub async fn write_owner(&self, key: &MediaKey, owner: &Owner) -> Result<()> {
        let buffer = self.runtime.buffer_from(&owner.encode(key));
        self.write(OWNER_START_BYTES, buffer, Durability::Durable).await?;
        self.has_owner.set(true);
        Ok(())
    }

    /// Whether an owner block was written since it was opened.
    #[must_use]
    pub fn has_owner(&self) -> bool {
        self.has_owner.get()
    }

    /// Takes from a drive what it held before it joins a pool: its marks, and what would lie behind the
    /// journal's end otherwise, where a reader could take it for damage. Where that cannot be had without
    /// writing the drive keeps it.
    pub async fn wipe(&self) -> Result<()> {
        const PIECE: u64 = 1 << 30;
        self.wipe_ring().await?;
        let end = self.size_bytes() / BLOCK_BYTES * BLOCK_BYTES;
        let mut at = MARKS_END_BYTES.min(end);
        while at < end {
            let length = PIECE.min(end - at);
            // A hint: what is wrong with the drive is told by the writes that matter.
            if self.file.blank(at, length).await.is_err() {
                break;
            }
            at += length;
        }
        self.sync().await
    }

    /// Wipes the ring and what stands behind it, so that the drive carries no pool.
    pub async fn wipe_ring(&self) -> Result<()> {
        let length = MARKS_END_BYTES.min(self.size_bytes() / BLOCK_BYTES * BLOCK_BYTES);
        let mut buffer = self.runtime.buffer(length as usize);
        buffer.fill(0);
        self.write(0, buffer, Durability::Durable).await
    }
}

/// Drives are written in whole blocks; whoever asks for less has computed something wrong.
fn check_aligned(what: &str, offset: u64, length: u64) {
    assert!(offset.is_multiple_of(BLOCK_BYTES), "{what} at {offset}, which is inside a block");
    assert!(length.is_multiple_of(BLOCK_BYTES), "{what} of {length} bytes at {offset}, no whole blocks");
    assert!(length > 0, "{what} of nothing at {offset}");
}

#[cfg(test)]
mod tests;
