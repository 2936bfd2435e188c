//! Reading what pointers name, wherever it is now: in its own segment, or moved by the cleaner.

use std::cell::RefCell;
use std::rc::Rc;

use ashlar_format::chunk::ChunkHeader;
use ashlar_format::page::{PAGE_HEADER_BYTES, PageContent, PageHeader, PageIdentity, pointers_from_bytes};
use ashlar_format::relocation;
use ashlar_format::{Damage, MediaKey, Pointer};
use ashlar_map::{Missing, Page, TrackedPage};
use ashlar_pool::Pool;
use ashlar_runtime::Buf;
use ashlar_units::SegmentId;

use crate::metadata::{StoredPage, decode_page, decode_record};
use crate::relocations::{Found, PageSlot, Relocations, identity};
use crate::{Error, ErrorKind, Result};

/// A read that meets a segment freed under it looks for its target again, this often at most.
const ATTEMPTS: usize = 8;

/// Where the target of a pointer is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Location {
    pub(crate) segment: SegmentId,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes_max: u64,
}

/// The drives of a pool, by pointer.
#[derive(Clone)]
pub(crate) struct Media {
    pub(crate) pool: Pool,
    pub(crate) relocations: Rc<RefCell<Relocations>>,
}

impl Media {
    pub(crate) fn new(pool: &Pool, relocations: Relocations) -> Media {
        Media { pool: pool.clone(), relocations: Rc::new(RefCell::new(relocations)) }
    }

    /// Grows whenever something moved.
    pub(crate) fn epoch(&self) -> u64 {
        self.relocations.borrow().epoch()
    }

    /// Where the target of a pointer is now.
    pub(crate) async fn locate(&self, pointer: Pointer) -> Result<Location> {
        loop {
            if self.pool.has_segment(pointer.segment()) {
                return Ok(Location {
                    segment: pointer.segment(),
                    offset_bytes: pointer.offset_bytes(),
                    length_bytes_max: pointer.length_bytes_max(),
                });
            }
            let found = self.relocations.borrow().find(pointer);
            match found {
                Found::Here(moved) => {
                    return Ok(Location {
                        segment: moved.container,
                        offset_bytes: moved.offset_bytes,
                        length_bytes_max: moved.length_bytes_max,
                    });
                }
                Found::Load(slot) => drop(self.relocated_from(slot).await?),
                Found::Nowhere => {
                    let what = format!("{pointer:?} is neither in a segment of the pool nor moved");
                    return Err(Error::new(ErrorKind::Damaged, what));
                }
            }
        }
    }

    /// Reads the target of a pointer: whole blocks, and where in them it starts.
    pub(crate) async fn read(&self, pointer: Pointer) -> Result<(Buf, usize)> {
        let at = self.locate(pointer).await?;
        Ok(self.pool.read(at.segment, at.offset_bytes, at.length_bytes_max).await?)
    }

    /// Has what a pointer names computed from the other columns and written back. `None` when nothing
    /// proves to be it.
    pub(crate) async fn mend(&self, pointer: Pointer) -> Result<Option<Vec<u8>>> {
        let at = self.locate(pointer).await?;
        let mended = self.pool.mend(at.segment, at.offset_bytes, at.length_bytes_max, |bytes| {
            stored_bytes(self.pool.key(), pointer, bytes)
        });
        Ok(mended.await?)
    }

    /// Reads what a pointer names; when it does not prove to be that, has it mended.
    pub(crate) async fn read_proven<T>(
        &self,
        pointer: Pointer,
        mut prove: impl FnMut(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = 0;
        loop {
            let epoch = self.epoch();
            match self.read_or_mend(pointer, &mut prove).await {
                // It may have been moved while it was read: look again.
                Err(_) if self.epoch() != epoch && attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    async fn read_or_mend<T>(
        &self,
        pointer: Pointer,
        prove: &mut impl FnMut(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let (bytes, skip) = self.read(pointer).await?;
        match prove(&bytes[skip..]) {
            Err(error) if error.kind == ErrorKind::Damaged => match self.mend(pointer).await? {
                Some(mended) => prove(&mended),
                None => Err(error),
            },
            result => result,
        }
    }

    /// Reads and verifies a map page: its record, and the one that it is a difference from.
    pub(crate) async fn read_map_page(&self, missing: Missing) -> Result<TrackedPage> {
        let Missing { pointer, level, index } = missing;
        let identity = PageIdentity { content: PageContent::Map, level, tree: 0, index };
        match self.read_record(pointer, identity).await? {
            StoredPage::Full(bytes) => Ok(TrackedPage::full(pointer, pointers_of(pointer, &bytes)?)),
            StoredPage::Delta(base, overrides) => match self.read_record(base, identity).await? {
                StoredPage::Full(bytes) => {
                    Ok(TrackedPage::delta(base, pointers_of(base, &bytes)?, &overrides))
                }
                StoredPage::Delta(..) => {
                    let what =
                        format!("map page {pointer:?} is a difference from {base:?}, which is one too");
                    Err(Error::new(ErrorKind::Damaged, what))
                }
            },
        }
    }

    async fn read_record(&self, pointer: Pointer, expected: PageIdentity) -> Result<StoredPage> {
        self.read_proven(pointer, |bytes| decode_record(self.pool.key(), pointer, expected, bytes)).await
    }

    /// The entries of a page of the relocation table.
    pub(crate) async fn relocated_from(&self, slot: PageSlot) -> Result<Rc<[relocation::Relocation]>> {
        loop {
            let (loaded, pointer) = {
                let relocations = self.relocations.borrow();
                let pointer = relocations.pointer(slot);
                if !pointer.is_page() && !relocations.is_page(slot) {
                    // Dropped by the cleaner since the caller saw it: nothing is there any more.
                    return Ok(Rc::from([]));
                }
                (relocations.entries(slot), pointer)
            };
            if let Some(entries) = loaded {
                return Ok(entries);
            }
            let read = self.read_page_here(pointer, identity(0, slot)).await;
            // Rewritten meanwhile: its old record may be gone.
            if self.relocations.borrow().pointer(slot) != pointer {
                continue;
            }
            let (_, entries) = relocation::decode_page(&read?).map_err(damaged)?;
            self.relocations.borrow_mut().keep(slot, entries);
        }
    }

    /// Records of tables are rewritten, never moved: reading one asks no other.
    pub(crate) async fn read_page_here(&self, pointer: Pointer, expected: PageIdentity) -> Result<Vec<u8>> {
        let (segment, offset, length) =
            (pointer.segment(), pointer.offset_bytes(), pointer.length_bytes_max());
        let (bytes, skip) = self.pool.read(segment, offset, length).await?;
        match decode_page(self.pool.key(), pointer, expected, &bytes[skip..]) {
            Err(error) => {
                let mended = self
                    .pool
                    .mend(segment, offset, length, |bytes| stored_bytes(self.pool.key(), pointer, bytes));
                mended
                    .await?
                    .map_or(Err(error), |bytes| decode_page(self.pool.key(), pointer, expected, &bytes))
            }
            page => page,
        }
    }

    /// Reads the directories of the relocation table.
    pub(crate) async fn load_relocations(&self, root: Pointer) -> Result<()> {
        if !root.is_page() {
            return Ok(());
        }
        let bytes = self.read_page_here(root, identity(2, 0)).await?;
        let directories = relocation::decode_root(&bytes).map_err(damaged)?;
        let mut pages = Vec::new();
        for (index, pointer) in directories.iter().enumerate() {
            let bytes = self.read_page_here(*pointer, identity(1, index)).await?;
            pages.extend(relocation::decode_directory(&bytes).map_err(damaged)?);
        }
        self.relocations.borrow_mut().load(root, directories, &pages);
        Ok(())
    }
}

/// Bytes of the chunk or page record that a pointer names, if these are it.
pub(crate) fn stored_bytes(key: &MediaKey, pointer: Pointer, bytes: &[u8]) -> Option<u64> {
    if pointer.is_page() {
        let (_, payload) = PageHeader::open(key, pointer, bytes).ok()?;
        return Some((PAGE_HEADER_BYTES + payload.len()) as u64);
    }
    let (header, _) = ChunkHeader::open_chunk_of(key, pointer, bytes).ok()?;
    Some(header.total_bytes())
}

fn pointers_of(record: Pointer, bytes: &[u8]) -> Result<Box<Page>> {
    pointers_from_bytes(bytes)
        .map_err(|damage| Error::new(ErrorKind::Damaged, format!("{record:?}: {damage}")))
}

fn damaged(damage: Damage) -> Error {
    Error::new(ErrorKind::Damaged, format!("relocation table: {damage}"))
}
