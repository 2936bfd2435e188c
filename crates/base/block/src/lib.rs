//! The narrow waist: the [`BlockDevice`] trait that targets serve and the engine implements.
//!
//! Targets (NBD, FUSE, later iSCSI and NVMe/TCP) see volumes only through this trait; the engine,
//! the memory device and every layer implement it. Devices live on one shard and are not `Send`.
//!
//! Contract:
//! 1. Offsets and lengths are bytes, of any alignment, inside the device's size; what reaches beyond
//!    is answered with [`ErrorKind::Invalid`] and changes nothing. A door whose protocol knows blocks
//!    holds its hosts to the logical block; one that shows files lets any byte through. Of a write of
//!    part of a block the device keeps the rest of the block, whatever else is written there at the
//!    same time by this door or another: no door reads, changes and writes blocks itself.
//! 2. A completed write is durable when the implementation says so; a completed `flush` makes every
//!    write completed before its start durable, always.
//! 3. Reads after a completed write, unmap or write-zeroes see it. Unmapped and zeroed ranges read
//!    as zeroes.
//! 4. Requests in flight at the same time may be applied in any order.
//! 5. A future is run to its end: callers do not drop it half way.

mod error;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

pub use error::{Error, ErrorKind, Result};

/// A future that stays on its shard.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What a host must know before it sends the first request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Size of the device in bytes.
    pub size_bytes: u64,
    /// The unit that hosts are told to address: 512 or 4096.
    pub logical_block_bytes: u32,
    /// The unit that costs no read-modify-write.
    pub optimal_block_bytes: u32,
    /// No write is accepted.
    pub is_read_only: bool,
}

/// What a run of bytes is backed by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentKind {
    /// Never written or unmapped: reads as zeroes, takes no space.
    Hole,
    /// Written as zeroes: reads as zeroes, takes no space.
    Zero,
    /// Data.
    Data,
}

/// A run of bytes of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes, never zero.
    pub length_bytes: u64,
    /// What backs it.
    pub kind: ExtentKind,
}

/// One block device, as a target sees it.
pub trait BlockDevice {
    /// The device's present geometry; `size_bytes` may grow or shrink between calls.
    fn geometry(&self) -> Geometry;

    /// Fills `into` with the bytes at `offset`.
    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>>;

    /// Writes `data` at `offset`. With `is_fua` the data are durable on completion.
    fn write<'a>(&'a self, offset: u64, data: &'a [u8], is_fua: bool) -> LocalFuture<'a, Result<()>>;

    /// A write of up to so many bytes, at a multiple of [`Geometry::optimal_block_bytes`] and of a length
    /// that is one, is there as a whole or not at all after a crash. What reads see while it is under way is
    /// another matter. Zero promises nothing.
    fn atomic_bytes_max(&self) -> u64 {
        0
    }

    /// Makes every completed write durable.
    fn flush(&self) -> LocalFuture<'_, Result<()>>;

    /// Gives the range back: it reads as zeroes and takes no space.
    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>>;

    /// Makes the range read as zeroes. With `may_unmap` it may become a hole.
    fn write_zeroes(&self, offset: u64, length: u64, may_unmap: bool) -> LocalFuture<'_, Result<()>>;

    /// What backs the range, as runs that cover it from `offset` on. May stop early after
    /// `extents_max` runs (at least one is returned for a non-empty range).
    fn extents(&self, offset: u64, length: u64, extents_max: usize) -> LocalFuture<'_, Result<Vec<Extent>>>;

    /// What the device is, for another device of its maker to find it by. `None` where nobody has to.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Makes a range what a range of another device (or of this one) is, without its data passing by. Each
    /// part becomes what was there at some moment of the request, and counts as written. `false` where that
    /// cannot be done here: then some of the range may be done already, and whoever asked reads and writes
    /// all of it.
    fn copy_from(
        &self,
        _source: Identity,
        _from: u64,
        _to: u64,
        _length: u64,
    ) -> LocalFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

/// What a device is, whatever it is called: never given to a second one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Identity {
    /// The pool's own number.
    pub pool: u128,
    /// The volume or snapshot in it.
    pub image: u64,
}

/// The devices a target may serve, by name.
pub trait Catalogue {
    /// The device of this name, if there is one.
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>>;

    /// The names of all devices, sorted.
    fn names(&self) -> Vec<String>;

    /// What is called so, for a successor to find it again. `None` where nobody can tell.
    fn identity(&self, _name: &str) -> Option<Identity> {
        None
    }

    /// What a person should know who asks for a name that is not there.
    fn absence(&self) -> Option<String> {
        None
    }

    /// Whether somebody else has a device for himself: nobody may begin to write to it.
    fn is_taken(&self, _name: &str) -> bool {
        false
    }
}

/// Checks contract point 1 for a request; every implementation calls it first.
pub fn check_range(geometry: &Geometry, offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= geometry.size_bytes => Ok(()),
        _ => Err(Error::new(
            ErrorKind::Invalid,
            format!("offset {offset} length {length} is beyond the end {}", geometry.size_bytes),
        )),
    }
}
