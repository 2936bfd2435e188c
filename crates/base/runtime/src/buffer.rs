//! I/O buffers: page-aligned, owned, from the shard's registered region while it has room.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::buddy::Buddy;

/// Alignment of every buffer, and the unit of drive I/O.
pub const BUFFER_ALIGNMENT: usize = 4096;

/// What simulated buffers start as, so that code relying on zeroes fails its tests.
const SIM_FILL: u8 = 0xA5;

/// One mapped region cut into buffers; the heap serves what it cannot.
pub(crate) struct BufferPool {
    region: Option<Region>,
    fill: Option<u8>,
}

struct Region {
    base: NonNull<u8>,
    bytes: usize,
    free: RefCell<Buddy>,
}

enum Home {
    /// The region's pool and the block's order.
    Pool(Rc<BufferPool>, u8),
    Heap,
}

/// An owned buffer. Its bytes are initialised but arbitrary.
pub struct Buf {
    pointer: NonNull<u8>,
    length: usize,
    capacity: usize,
    home: Home,
}

impl BufferPool {
    /// A pool over a fresh mapping of `bytes` (rounded down to whole 4 MiB); none when zero.
    pub(crate) fn new(bytes: usize) -> BufferPool {
        let bytes = bytes / Buddy::LARGEST_BYTES * Buddy::LARGEST_BYTES;
        BufferPool { region: Region::map(bytes), fill: None }
    }

    /// A pool without a region, whose buffers start as a fixed pattern.
    pub(crate) fn simulated() -> BufferPool {
        BufferPool { region: None, fill: Some(SIM_FILL) }
    }

    /// The region, for registration with the kernel.
    pub(crate) fn region(&self) -> Option<(*mut u8, usize)> {
        self.region.as_ref().map(|region| (region.base.as_ptr(), region.bytes))
    }

    pub(crate) fn take(self: &Rc<BufferPool>, length: usize) -> Buf {
        if let Some(region) = &self.region {
            let taken = region.free.borrow_mut().take(length);
            if let Some((offset, order)) = taken {
                // SAFETY: the allocator hands out offsets inside the region only.
                let pointer = unsafe { region.base.add(offset) };
                let capacity = Buddy::order_bytes(order);
                return Buf { pointer, length, capacity, home: Home::Pool(self.clone(), order) };
            }
        }
        let mut buf = Buf::on_heap(length);
        if let Some(fill) = self.fill {
            buf.fill(fill);
        }
        buf
    }
}

impl Region {
    fn map(bytes: usize) -> Option<Region> {
        if bytes == 0 {
            return None;
        }
        // SAFETY: a fresh anonymous mapping; no existing memory is named.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        let base = NonNull::new(address.cast::<u8>())?;
        // SAFETY: advice about the mapping just made; failure changes nothing.
        unsafe { libc::madvise(address, bytes, libc::MADV_HUGEPAGE) };
        Some(Region { base, bytes, free: RefCell::new(Buddy::new(bytes)) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` and `bytes` describe the mapping made in `map`; every buffer holds the pool
        // by Rc, so none is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl Buf {
    /// A zeroed buffer outside any pool; for tests and for places without a runtime.
    #[must_use]
    pub fn on_heap(length: usize) -> Buf {
        let capacity = length.max(1).next_multiple_of(BUFFER_ALIGNMENT);
        let layout = Buf::heap_layout(capacity);
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { alloc_zeroed(layout) };
        let Some(pointer) = NonNull::new(pointer) else { handle_alloc_error(layout) };
        Buf { pointer, length, capacity, home: Home::Heap }
    }

    fn heap_layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, BUFFER_ALIGNMENT)
            .expect("a buffer is smaller than the address space")
    }

    /// Bytes in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// No byte is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that could be in use.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the bytes in use.
    ///
    /// # Panics
    /// When `length` is more than the capacity.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity, "length {length} is more than the capacity {}", self.capacity);
        self.length = length;
    }

    /// The buffer lies in the region registered with the kernel.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        matches!(self.home, Home::Pool(..))
    }

    /// Where the bytes are; stays the same while the buffer lives, moved or not.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.pointer.as_ptr() as u64
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the block holds `capacity >= length` initialised bytes (mapped or zero-allocated),
        // and is ours alone.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.length) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        match &self.home {
            Home::Pool(pool, order) => {
                let region = pool.region.as_ref().expect("a pooled buffer came from a region");
                let offset = self.pointer.as_ptr() as usize - region.base.as_ptr() as usize;
                region.free.borrow_mut().give_back(offset, *order);
            }
            // SAFETY: allocated in `on_heap` with this layout.
            Home::Heap => unsafe { dealloc(self.pointer.as_ptr(), Buf::heap_layout(self.capacity)) },
        }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.length, self.capacity)
    }
}
