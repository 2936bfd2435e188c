//! The read cache: decompressed blocks by their address.
//!
//! One per shard, used by the engine's read path only, single-threaded. The key is a data pointer: a
//! chunk's address and the block's place in it. Segment numbers are never reused, so what is at an
//! address never changes and nothing ever has to be invalidated: blocks of freed segments are not asked
//! for again and age out.
//!
//! S3-FIFO (Yang et al., SOSP 2023): new blocks enter a small queue, and only those used again there, or
//! asked for again soon after leaving it, enter the main queue. A scan passes through the small queue
//! and leaves the main one alone. A hit is one hash probe and a counter, with no list to relink.
//!
//! Blocks live in slots of large slabs, taken when first needed: dropping one touches neither its bytes
//! nor an allocator, which cost a quarter of an uncached read when every chunk was an allocation.

use std::collections::{HashMap, VecDeque};

use ashlar_format::Pointer;
use ashlar_units::BLOCK_BYTES_USIZE;
use rustc_hash::FxBuildHasher;

/// The small queue's part of the capacity: a tenth, as in the paper.
const SMALL_FRACTION: usize = 10;

/// Uses are counted up to here (paper: two bits).
const USES_MAX: u8 = 3;

/// Uses in the small queue that show a block is not just passing through (paper: more than one).
const USES_TO_STAY: u8 = 2;

/// What a block costs besides its bytes: index, slot, queue, ghost (estimated).
const SLOT_OVERHEAD_BYTES: usize = 64;

/// Slots of one slab: 1 MiB of blocks.
const SLAB_SLOTS: usize = 256;

/// What is in a slot.
struct Slot {
    key: u64,
    uses: u8,
}

/// A byte-bounded cache of decompressed blocks.
pub struct BlockCache {
    /// The slot of each cached block.
    index: HashMap<u64, u32, FxBuildHasher>,
    slots: Vec<Slot>,
    slabs: Vec<Box<[u8]>>,
    free: Vec<u32>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: Ghosts,
    capacity_blocks: usize,
    counters: CacheCounters,
}

/// What the cache has done since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Blocks found.
    pub hits: u64,
    /// Blocks not found.
    pub misses: u64,
    /// Blocks dropped to make room.
    pub evictions: u64,
}

impl BlockCache {
    /// A cache of at most `capacity_bytes`, with all overhead. 0 caches nothing.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> BlockCache {
        let capacity_blocks = capacity_bytes / (BLOCK_BYTES_USIZE + SLOT_OVERHEAD_BYTES);
        BlockCache {
            index: HashMap::default(),
            slots: Vec::new(),
            slabs: Vec::new(),
            free: Vec::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: Ghosts::new(capacity_blocks),
            capacity_blocks,
            counters: CacheCounters::default(),
        }
    }

    /// Copies the block that `pointer` names into `target`. False when it is not here.
    #[inline]
    #[must_use]
    pub fn copy(&mut self, pointer: Pointer, target: &mut [u8]) -> bool {
        let Some(&slot) = self.index.get(&pointer.0) else {
            self.counters.misses += 1;
            return false;
        };
        self.counters.hits += 1;
        assert_eq!(target.len(), BLOCK_BYTES_USIZE, "room for block {pointer:?}");
        let uses = &mut self.slots[slot as usize].uses;
        *uses = (*uses + 1).min(USES_MAX);
        target.copy_from_slice(self.bytes(slot));
        true
    }

    /// Keeps a block. Nothing happens when it is here already or the cache holds nothing at all.
    pub fn insert(&mut self, pointer: Pointer, block: &[u8]) {
        assert!(pointer.is_data(), "{pointer:?} is not in a chunk");
        assert_eq!(block.len(), BLOCK_BYTES_USIZE, "content of block {pointer:?}");
        if self.capacity_blocks == 0 || self.index.contains_key(&pointer.0) {
            return;
        }
        while self.blocks_used() >= self.capacity_blocks {
            self.evict_one();
        }
        let slot = self.take_slot(pointer.0);
        self.bytes_mut(slot).copy_from_slice(block);
        self.index.insert(pointer.0, slot);
        let queue = if self.ghosts.take(pointer.0) { &mut self.main } else { &mut self.small };
        queue.push_back(slot);
        let (used, capacity) = (self.blocks_used(), self.capacity_blocks);
        assert!(used <= capacity, "{used} blocks in a cache of {capacity}");
        assert_eq!(used, self.index.len(), "a block is queued once and found once");
    }

    /// Keeps a block that was asked for, when it is worth it. A full cache only remembers it, and keeps it
    /// when it is asked for again: most blocks read at random never are, and storing one only to drop
    /// another costs as much as all else the cache does. Blocks that came along with others enter by
    /// [`insert`](Self::insert): they have not been asked for yet.
    pub fn offer(&mut self, pointer: Pointer, block: &[u8]) {
        let is_full = self.blocks_used() >= self.capacity_blocks;
        if self.capacity_blocks > 0 && is_full && !self.ghosts.has(pointer.0) {
            self.ghosts.remember(pointer.0);
            return;
        }
        self.insert(pointer, block);
    }

    /// Bytes held, with overhead.
    #[must_use]
    pub fn bytes_used(&self) -> usize {
        self.blocks_used() * (BLOCK_BYTES_USIZE + SLOT_OVERHEAD_BYTES)
    }

    /// What the cache has done since the start.
    #[must_use]
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    fn blocks_used(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn bytes(&self, slot: u32) -> &[u8] {
        let at = slot as usize % SLAB_SLOTS * BLOCK_BYTES_USIZE;
        &self.slabs[slot as usize / SLAB_SLOTS][at..at + BLOCK_BYTES_USIZE]
    }

    fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        let at = slot as usize % SLAB_SLOTS * BLOCK_BYTES_USIZE;
        &mut self.slabs[slot as usize / SLAB_SLOTS][at..at + BLOCK_BYTES_USIZE]
    }

    fn take_slot(&mut self, key: u64) -> u32 {
        let filled = Slot { key, uses: 0 };
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = filled;
            return slot;
        }
        let slot = self.slots.len() as u32;
        self.slots.push(filled);
        if self.slots.len() > self.slabs.len() * SLAB_SLOTS {
            self.slabs.push(vec![0; SLAB_SLOTS * BLOCK_BYTES_USIZE].into());
        }
        slot
    }

    /// Drops one block. Terminates because each round drops one, moves one from small to main, or takes
    /// one use from a block in main.
    fn evict_one(&mut self) {
        let before = self.blocks_used();
        while self.blocks_used() == before {
            let small_target = self.capacity_blocks / SMALL_FRACTION;
            if self.main.is_empty() || self.small.len() > small_target {
                self.advance_small();
            } else {
                self.advance_main();
            }
        }
        self.counters.evictions += 1;
    }

    fn advance_small(&mut self) {
        let slot = self.small.pop_front().expect("a full cache with an empty main queue has a small one");
        let Slot { key, uses } = &mut self.slots[slot as usize];
        if *uses >= USES_TO_STAY {
            *uses = 0;
            self.main.push_back(slot);
            return;
        }
        self.ghosts.remember(*key);
        self.index.remove(key);
        self.free.push(slot);
    }

    fn advance_main(&mut self) {
        let slot = self.main.pop_front().expect("the main queue is not empty here");
        let Slot { key, uses } = &mut self.slots[slot as usize];
        if *uses > 0 {
            *uses -= 1;
            self.main.push_back(slot);
            return;
        }
        self.index.remove(key);
        self.free.push(slot);
    }

    /// Index, slots and queues agree. Expensive, for tests.
    pub fn verify(&self) -> Result<(), String> {
        for slot in self.small.iter().chain(&self.main) {
            let key = self.slots[*slot as usize].key;
            if self.index.get(&key) != Some(slot) {
                return Err(format!(
                    "block {key:x} is queued in slot {slot}, indexed in {:?}",
                    self.index.get(&key)
                ));
            }
        }
        let used = self.blocks_used();
        if used == self.index.len()
            && used + self.free.len() == self.slots.len()
            && used <= self.capacity_blocks
        {
            return Ok(());
        }
        Err(format!(
            "{used} blocks queued, {} indexed, {} slots of which {} free, capacity {}",
            self.index.len(),
            self.slots.len(),
            self.free.len(),
            self.capacity_blocks
        ))
    }
}

/// Blocks that left the small queue unused, without their bytes: a table of fingerprints as large as the
/// cache, in which a newer one takes an older one's place.
struct Ghosts {
    table: Vec<u32>,
}

impl Ghosts {
    fn new(capacity_blocks: usize) -> Ghosts {
        Ghosts { table: vec![0; capacity_blocks.next_power_of_two()] }
    }

    fn place(&self, key: u64) -> (usize, u32) {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // 0 means empty.
        ((mixed >> 32) as usize & (self.table.len() - 1), mixed as u32 | 1)
    }

    fn has(&self, key: u64) -> bool {
        let (at, fingerprint) = self.place(key);
        self.table[at] == fingerprint
    }

    fn remember(&mut self, key: u64) {
        let (at, fingerprint) = self.place(key);
        self.table[at] = fingerprint;
    }

    /// True when the block was here; it no longer is.
    fn take(&mut self, key: u64) -> bool {
        let (at, fingerprint) = self.place(key);
        let is_here = self.table[at] == fingerprint;
        if is_here {
            self.table[at] = 0;
        }
        is_here
    }
}
