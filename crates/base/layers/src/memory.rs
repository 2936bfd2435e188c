//! A block device in memory that knows holes, zeroes and data apart, for tests of targets and layers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::ops::Range;

use ashlar_block::{
    BlockDevice, Error, ErrorKind, Extent, ExtentKind, Geometry, LocalFuture, Result, check_range,
};

/// Bytes in a slab, the unit in which memory is taken. Arbitrary: large enough that a full volume has
/// few map entries, small enough that sparse ones stay small.
const SLAB_BYTES: u64 = 64 << 10;

struct Slab {
    bytes: Box<[u8]>,
    /// One for each logical block.
    kinds: Box<[ExtentKind]>,
}

/// A volume in memory. Nothing survives it; a flush has nothing to do.
pub struct MemoryDevice {
    size_bytes: Cell<u64>,
    logical_block_bytes: u32,
    is_read_only: Cell<bool>,
    is_gone: Cell<bool>,
    slabs: RefCell<BTreeMap<u64, Slab>>,
}

/// The part of a request that lies in one slab.
struct Piece {
    slab: u64,
    /// Within the slab, in bytes.
    start: usize,
    length: usize,
}

impl MemoryDevice {
    /// A device that is one hole. `logical_block_bytes` is 512 or 4096 and divides `size_bytes`.
    #[must_use]
    pub fn new(size_bytes: u64, logical_block_bytes: u32) -> MemoryDevice {
        assert!(logical_block_bytes == 512 || logical_block_bytes == 4096, "{logical_block_bytes}");
        assert!(size_bytes.is_multiple_of(u64::from(logical_block_bytes)), "{size_bytes}");
        MemoryDevice {
            size_bytes: Cell::new(size_bytes),
            logical_block_bytes,
            is_read_only: Cell::new(false),
            is_gone: Cell::new(false),
            slabs: RefCell::default(),
        }
    }

    /// Refuses or takes writes from now on.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.is_read_only.set(is_read_only);
    }

    /// Answers every further request with [`ErrorKind::Gone`], as a deleted volume does.
    pub fn set_gone(&self) {
        self.is_gone.set(true);
    }

    /// Grows or shrinks the device. What lies beyond a smaller size is forgotten.
    pub fn set_size(&self, size_bytes: u64) {
        assert!(size_bytes.is_multiple_of(u64::from(self.logical_block_bytes)), "{size_bytes}");
        let before = self.size_bytes.replace(size_bytes);
        if size_bytes < before {
            self.clear(size_bytes, before - size_bytes, ExtentKind::Hole);
        }
    }

    /// Bytes of memory that data take, in whole slabs.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.slabs.borrow().len() as u64 * SLAB_BYTES
    }

    fn check(&self, offset: u64, length: u64) -> Result<()> {
        if self.is_gone.get() {
            return Err(Error::new(ErrorKind::Gone, "memory device is gone"));
        }
        check_range(&self.geometry(), offset, length)
    }

    fn check_write(&self, offset: u64, length: u64) -> Result<()> {
        self.check(offset, length)?;
        if self.is_read_only.get() {
            return Err(Error::new(ErrorKind::ReadOnly, "memory device is read-only"));
        }
        Ok(())
    }

    /// Blocks of a slab that the range touches.
    fn blocks(&self, start: usize, length: usize) -> Range<usize> {
        let block = self.logical_block_bytes as usize;
        start / block..(start + length).div_ceil(block)
    }

    /// Blocks of a slab that lie wholly in the range: what is left of others keeps its kind.
    fn blocks_inside(&self, start: usize, length: usize) -> Range<usize> {
        let block = self.logical_block_bytes as usize;
        let first = start.div_ceil(block);
        first..((start + length) / block).max(first)
    }

    fn read_now(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check(offset, into.len() as u64)?;
        let slabs = self.slabs.borrow();
        let mut done = 0;
        for piece in pieces(offset, into.len() as u64) {
            let target = &mut into[done..done + piece.length];
            match slabs.get(&piece.slab) {
                Some(slab) => target.copy_from_slice(&slab.bytes[piece.start..piece.start + piece.length]),
                None => target.fill(0),
            }
            done += piece.length;
        }
        Ok(())
    }

    fn write_now(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_write(offset, data.len() as u64)?;
        let mut slabs = self.slabs.borrow_mut();
        let mut done = 0;
        for piece in pieces(offset, data.len() as u64) {
            let slab = slabs.entry(piece.slab).or_insert_with(|| self.new_slab());
            slab.bytes[piece.start..piece.start + piece.length]
                .copy_from_slice(&data[done..done + piece.length]);
            slab.kinds[self.blocks(piece.start, piece.length)].fill(ExtentKind::Data);
            done += piece.length;
        }
        Ok(())
    }

    fn new_slab(&self) -> Slab {
        let blocks = SLAB_BYTES as usize / self.logical_block_bytes as usize;
        Slab {
            bytes: vec![0; SLAB_BYTES as usize].into_boxed_slice(),
            kinds: vec![ExtentKind::Hole; blocks].into_boxed_slice(),
        }
    }

    fn clear(&self, offset: u64, length: u64, kind: ExtentKind) {
        let mut slabs = self.slabs.borrow_mut();
        if kind == ExtentKind::Hole {
            // Only slabs that exist can change: unmapping a huge hole costs nothing.
            let first = offset / SLAB_BYTES;
            let last = (offset + length).div_ceil(SLAB_BYTES);
            let present: Vec<u64> = slabs.range(first..last).map(|(number, _)| *number).collect();
            for number in present {
                let start = offset.max(number * SLAB_BYTES) - number * SLAB_BYTES;
                let end = (offset + length).min((number + 1) * SLAB_BYTES) - number * SLAB_BYTES;
                if end - start == SLAB_BYTES {
                    slabs.remove(&number);
                } else if let Some(slab) = slabs.get_mut(&number) {
                    slab.bytes[start as usize..end as usize].fill(0);
                    slab.kinds[self.blocks_inside(start as usize, (end - start) as usize)].fill(kind);
                }
            }
            return;
        }
        for piece in pieces(offset, length) {
            let slab = slabs.entry(piece.slab).or_insert_with(|| self.new_slab());
            slab.bytes[piece.start..piece.start + piece.length].fill(0);
            slab.kinds[self.blocks_inside(piece.start, piece.length)].fill(kind);
        }
    }

    fn extents_now(&self, offset: u64, length: u64, extents_max: usize) -> Result<Vec<Extent>> {
        self.check(offset, length)?;
        let slabs = self.slabs.borrow();
        let mut extents: Vec<Extent> = Vec::new();
        let block = self.logical_block_bytes as usize;
        for piece in pieces(offset, length) {
            let end = piece.start + piece.length;
            // The first and the last block may lie in the range in part.
            let inside =
                |index: usize| (end.min((index + 1) * block) - piece.start.max(index * block)) as u64;
            let runs: &mut dyn Iterator<Item = (ExtentKind, u64)> = match slabs.get(&piece.slab) {
                Some(slab) => {
                    let blocks = self.blocks(piece.start, piece.length);
                    &mut blocks.map(|index| (slab.kinds[index], inside(index)))
                }
                None => &mut std::iter::once((ExtentKind::Hole, piece.length as u64)),
            };
            for (kind, length_bytes) in runs {
                let is_full = extents.len() == extents_max.max(1);
                match extents.last_mut() {
                    Some(last) if last.kind == kind => last.length_bytes += length_bytes,
                    Some(_) if is_full => return Ok(extents),
                    Some(_) | None => extents.push(Extent { length_bytes, kind }),
                }
            }
        }
        Ok(extents)
    }
}

fn pieces(offset: u64, length: u64) -> impl Iterator<Item = Piece> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = at % SLAB_BYTES;
        let piece_length = (SLAB_BYTES - start).min(end - at);
        let piece = Piece { slab: at / SLAB_BYTES, start: start as usize, length: piece_length as usize };
        at += piece_length;
        Some(piece)
    })
}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.size_bytes.get(),
            logical_block_bytes: self.logical_block_bytes,
            optimal_block_bytes: 4096,
            is_read_only: self.is_read_only.get(),
        }
    }

    /// As the pools of usual drives say. Here any write would be.
    fn atomic_bytes_max(&self) -> u64 {
        128 << 10
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        Box::pin(ready(self.read_now(offset, into)))
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], _is_fua: bool) -> LocalFuture<'a, Result<()>> {
        Box::pin(ready(self.write_now(offset, data)))
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(ready(self.check(0, 0)))
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        let result = self.check_write(offset, length);
        if result.is_ok() {
            self.clear(offset, length, ExtentKind::Hole);
        }
        Box::pin(ready(result))
    }

    fn write_zeroes(&self, offset: u64, length: u64, may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        let result = self.check_write(offset, length);
        if result.is_ok() {
            self.clear(offset, length, if may_unmap { ExtentKind::Hole } else { ExtentKind::Zero });
        }
        Box::pin(ready(result))
    }

    fn extents(&self, offset: u64, length: u64, extents_max: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        Box::pin(ready(self.extents_now(offset, length, extents_max)))
    }
}
