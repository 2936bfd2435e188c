//! A volume or snapshot image as a block device.

use std::rc::Rc;

use ashlar_block as block;
use ashlar_block::{BlockDevice, Extent, ExtentKind, Geometry, Identity, LocalFuture, check_range};
use ashlar_format::catalogue::{VolumeEntry, VolumeKind};
use ashlar_map as map;
use ashlar_units::{BLOCK_BYTES, VolumeId};

use crate::copy::Stretch;
use crate::engine::Inner;
use crate::lineage::Lineage;
use crate::{Error, ErrorKind, Result};

/// Holds the pool weakly: a door that keeps a device does not keep a closed pool's drives. It goes on when
/// the pool is opened again.
pub(crate) struct VolumeDevice {
    pool: Lineage,
    id: VolumeId,
    /// Of the volume before this was made. Who kept a device of a deleted volume does not have it again
    /// when it comes back: by then it may serve somebody else, under another name.
    returns: u32,
}

impl VolumeDevice {
    pub(crate) fn new(pool: Lineage, id: VolumeId) -> VolumeDevice {
        let returns = pool.returns_of(id);
        VolumeDevice { pool, id, returns }
    }

    fn open(&self) -> Result<Rc<Inner>> {
        self.pool.pool().ok_or_else(|| Error::new(ErrorKind::Closed, "the pool is closed"))
    }

    /// The pool, once the request is known to make sense.
    fn check(&self, offset: u64, length: u64, is_write: bool) -> block::Result<Rc<Inner>> {
        let inner = self.open()?;
        let geometry = self.geometry();
        if geometry.size_bytes == 0 {
            return Err(block::Error::new(block::ErrorKind::Gone, "the volume was deleted"));
        }
        check_range(&geometry, offset, length)?;
        if is_write && geometry.is_read_only {
            return Err(block::Error::new(block::ErrorKind::ReadOnly, "a snapshot takes no writes"));
        }
        Ok(inner)
    }
}

impl BlockDevice for VolumeDevice {
    fn geometry(&self) -> Geometry {
        let gone = Geometry {
            size_bytes: 0,
            logical_block_bytes: 4096,
            optimal_block_bytes: 4096,
            is_read_only: true,
        };
        let Some(inner) = self.pool.pool() else { return gone };
        let tree = inner.tree.borrow();
        let is_there =
            |entry: &&VolumeEntry| entry.deleted().is_none() && self.pool.returns_of(self.id) == self.returns;
        let entry = tree.catalogue.get(self.id).filter(is_there);
        entry.map_or(gone, |entry| Geometry {
            size_bytes: entry.size_bytes,
            logical_block_bytes: 1 << entry.logical_block_shift,
            optimal_block_bytes: BLOCK_BYTES as u32,
            is_read_only: entry.kind == VolumeKind::Snapshot,
        })
    }

    fn atomic_bytes_max(&self) -> u64 {
        self.pool.pool().map_or(0, |inner| inner.atomic_bytes_max())
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, block::Result<()>> {
        Box::pin(async move {
            let inner = self.check(offset, into.len() as u64, false)?;
            inner.read(self.id, offset, into).await?;
            Ok(inner.check_still_ours().await?)
        })
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], _is_fua: bool) -> LocalFuture<'a, block::Result<()>> {
        Box::pin(async move {
            // Every acknowledged write is durable, so FUA asks for nothing more.
            let inner = self.check(offset, data.len() as u64, true)?;
            Ok(inner.write(self.id, offset, data).await?)
        })
    }

    fn flush(&self) -> LocalFuture<'_, block::Result<()>> {
        Box::pin(async move {
            // What was acknowledged is durable already; a stopped pool must not promise more.
            Ok(self.open()?.check_online()?)
        })
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, block::Result<()>> {
        Box::pin(async move {
            let inner = self.check(offset, length, true)?;
            Ok(inner.fill(self.id, offset, length, false).await?)
        })
    }

    fn write_zeroes(&self, offset: u64, length: u64, may_unmap: bool) -> LocalFuture<'_, block::Result<()>> {
        Box::pin(async move {
            let inner = self.check(offset, length, true)?;
            Ok(inner.fill(self.id, offset, length, !may_unmap).await?)
        })
    }

    fn identity(&self) -> Option<Identity> {
        let is_there = self.geometry().size_bytes > 0;
        let inner = self.pool.pool().filter(|_| is_there)?;
        Some(Identity { pool: inner.pool.superblock().pool.0, image: self.id.0 })
    }

    fn copy_from(
        &self,
        source: Identity,
        from: u64,
        to: u64,
        length: u64,
    ) -> LocalFuture<'_, block::Result<bool>> {
        Box::pin(async move {
            let inner = self.check(to, length, true)?;
            let is_whole = [from, to, length].iter().all(|bytes| bytes.is_multiple_of(BLOCK_BYTES));
            if source.pool != inner.pool.superblock().pool.0 || !is_whole {
                return Ok(false);
            }
            let stretch = |image, offset: u64| Stretch {
                image,
                first_block: offset / BLOCK_BYTES,
                blocks: length / BLOCK_BYTES,
            };
            Ok(inner.copy(stretch(VolumeId(source.image), from), stretch(self.id, to)).await?)
        })
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> LocalFuture<'_, block::Result<Vec<Extent>>> {
        Box::pin(async move {
            let inner = self.check(offset, length, false)?;
            let extents = inner.extents(self.id, offset, length, extents_max).await?;
            inner.check_still_ours().await?;
            Ok(extents)
        })
    }
}

impl Inner {
    /// Before a host is told what a volume holds: another array may have the pool by now.
    async fn check_still_ours(&self) -> Result<()> {
        Ok(self.pool.check_still_ours().await?)
    }

    pub(crate) async fn extents(
        &self,
        id: VolumeId,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let first = offset / BLOCK_BYTES;
        let count = (offset + length).div_ceil(BLOCK_BYTES) - first;
        let runs = loop {
            let attempt = {
                let mut tree = self.tree.borrow_mut();
                let tree = &mut *tree;
                let Some(entry) = tree.catalogue.get(id) else {
                    return Err(Error::new(ErrorKind::NotFound, "the volume was deleted"));
                };
                tree.arena.extents(entry.root, first, count, extents_max.max(1))
            };
            match attempt {
                Ok(runs) => break runs,
                Err(missing) => self.load_page(missing).await?,
            }
        };
        // Whole blocks to bytes: the first run loses what lies before the offset, the last what lies
        // behind the end.
        let mut extents = Vec::with_capacity(runs.len());
        let mut at = first * BLOCK_BYTES;
        for run in runs {
            let end = at + run.blocks * BLOCK_BYTES;
            let length_bytes = end.min(offset + length) - at.max(offset);
            let kind = match run.kind {
                map::ExtentKind::Hole => ExtentKind::Hole,
                map::ExtentKind::Zero => ExtentKind::Zero,
                map::ExtentKind::Data => ExtentKind::Data,
            };
            extents.push(Extent { length_bytes, kind });
            at = end;
        }
        Ok(extents)
    }
}
