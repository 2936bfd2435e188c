//! A volume in memory that a test can hold up, and have copy.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;

use ashlar_block::{BlockDevice, Extent, Geometry, Identity, LocalFuture, Result};
use ashlar_layers::MemoryDevice;

use super::BLOCKS;

pub const IDENTITY: Identity = Identity { pool: 7, image: 6 };

/// Blocks of 512 bytes.
pub struct Held {
    below: MemoryDevice,
    /// Writes wait until they are let through.
    pub may_write: Cell<bool>,
    /// So do reads.
    pub may_read: Cell<bool>,
    /// Whether it copies without the data.
    pub can_copy: Cell<bool>,
    /// What it was asked to copy: from where, to where, how much.
    pub copies: RefCell<Vec<(u64, u64, u64)>>,
}

impl Held {
    pub fn new(may_write: bool) -> Held {
        Held {
            below: MemoryDevice::new(2 * BLOCKS * 512, 512),
            may_write: Cell::new(may_write),
            may_read: Cell::new(true),
            can_copy: Cell::new(false),
            copies: RefCell::default(),
        }
    }
}

impl BlockDevice for Held {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn atomic_bytes_max(&self) -> u64 {
        self.below.atomic_bytes_max()
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            poll_fn(|_| if self.may_read.get() { Poll::Ready(()) } else { Poll::Pending }).await;
            self.below.read(offset, into).await
        })
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], is_fua: bool) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            poll_fn(|_| if self.may_write.get() { Poll::Ready(()) } else { Poll::Pending }).await;
            self.below.write(offset, data, is_fua).await
        })
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        self.below.flush()
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        self.below.unmap(offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        self.below.write_zeroes(offset, length, may_unmap)
    }

    fn extents(&self, offset: u64, length: u64, extents_max: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        self.below.extents(offset, length, extents_max)
    }

    fn identity(&self) -> Option<Identity> {
        Some(IDENTITY)
    }

    fn copy_from(&self, source: Identity, from: u64, to: u64, length: u64) -> LocalFuture<'_, Result<bool>> {
        assert_eq!(source, IDENTITY);
        self.copies.borrow_mut().push((from, to, length));
        Box::pin(std::future::ready(Ok(self.can_copy.get())))
    }
}
