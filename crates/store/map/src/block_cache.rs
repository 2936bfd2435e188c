//! The read cache: decompressed chunks by their address.
//!
//! One per shard, used by the engine's read path only, single-threaded. The key is a chunk's address: a
//! data pointer without its block index. Segment numbers are never reused, so a chunk at an address
//! never changes and nothing ever has to be invalidated: entries of freed segments are not asked for
//! again and age out.
//!
//! S3-FIFO (Yang et al., SOSP 2023): new chunks enter a small queue, and only those used again there, or
//! asked for again soon after leaving it, enter the main queue. A scan passes through the small queue
//! and leaves the main one alone. A hit is one hash probe and a counter, with no list to relink.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use ashlar_format::Pointer;
use rustc_hash::FxBuildHasher;

/// The small queue's part of the capacity: a tenth, as in the paper.
const SMALL_FRACTION: usize = 10;

/// Uses are counted up to here (paper: two bits).
const USES_MAX: u8 = 3;

/// Uses in the small queue that show a chunk is not just passing through (paper: more than one).
const USES_TO_STAY: u8 = 2;

/// What an entry costs besides its bytes: table, queue, reference counts (estimated).
const ENTRY_OVERHEAD_BYTES: usize = 96;

struct Entry {
    bytes: Rc<[u8]>,
    uses: u8,
    is_in_main: bool,
}

/// A byte-bounded cache of decompressed chunks.
pub struct BlockCache {
    entries: HashMap<u64, Entry, FxBuildHasher>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    /// Addresses that left the small queue unused, without their bytes; the set is for asking.
    ghosts: VecDeque<u64>,
    ghost_set: HashSet<u64, FxBuildHasher>,
    small_bytes: usize,
    main_bytes: usize,
    capacity_bytes: usize,
    counters: CacheCounters,
}

/// What the cache has done since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Chunks found.
    pub hits: u64,
    /// Chunks not found.
    pub misses: u64,
    /// Chunks dropped to make room.
    pub evictions: u64,
}

impl BlockCache {
    /// A cache of at most `capacity_bytes`, with all overhead. 0 caches nothing.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> BlockCache {
        BlockCache {
            entries: HashMap::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            ghost_set: HashSet::default(),
            small_bytes: 0,
            main_bytes: 0,
            capacity_bytes,
            counters: CacheCounters::default(),
        }
    }

    /// The chunk that `pointer` points into, whichever of its blocks.
    #[inline]
    #[must_use]
    pub fn get(&mut self, pointer: Pointer) -> Option<Rc<[u8]>> {
        let Some(entry) = self.entries.get_mut(&pointer.chunk().0) else {
            self.counters.misses += 1;
            return None;
        };
        self.counters.hits += 1;
        entry.uses = (entry.uses + 1).min(USES_MAX);
        Some(Rc::clone(&entry.bytes))
    }

    /// Keeps a chunk. Nothing happens when it is here already or larger than the whole cache.
    pub fn insert(&mut self, pointer: Pointer, bytes: Rc<[u8]>) {
        assert!(pointer.is_data(), "{pointer:?} is not in a chunk");
        let key = pointer.chunk().0;
        let cost = cost_bytes(&bytes);
        if cost > self.capacity_bytes || self.entries.contains_key(&key) {
            return;
        }
        while self.bytes_used() + cost > self.capacity_bytes {
            self.evict_one();
        }
        let is_in_main = self.ghost_set.remove(&key);
        if is_in_main {
            self.main.push_back(key);
            self.main_bytes += cost;
        } else {
            self.small.push_back(key);
            self.small_bytes += cost;
        }
        self.entries.insert(key, Entry { bytes, uses: 0, is_in_main });
    }

    /// Changes the capacity and drops what exceeds it.
    pub fn set_capacity_bytes(&mut self, capacity_bytes: usize) {
        self.capacity_bytes = capacity_bytes;
        while self.bytes_used() > self.capacity_bytes {
            self.evict_one();
        }
    }

    /// Bytes held, with overhead.
    #[must_use]
    pub fn bytes_used(&self) -> usize {
        self.small_bytes + self.main_bytes
    }

    /// What the cache has done since the start.
    #[must_use]
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// Drops one chunk. Terminates because each round drops one, moves one from small to main, or takes
    /// one use from a chunk in main.
    fn evict_one(&mut self) {
        let length_before = self.entries.len();
        while self.entries.len() == length_before {
            let small_target = self.capacity_bytes / SMALL_FRACTION;
            if self.main.is_empty() || self.small_bytes > small_target {
                self.advance_small();
            } else {
                self.advance_main();
            }
        }
        self.counters.evictions += 1;
    }

    fn advance_small(&mut self) {
        let key =
            self.small.pop_front().expect("an over-full cache with an empty main queue has a small one");
        let entry = self.entries.get_mut(&key).expect("queued chunks have entries");
        let cost = cost_bytes(&entry.bytes);
        self.small_bytes -= cost;
        if entry.uses >= USES_TO_STAY {
            entry.uses = 0;
            entry.is_in_main = true;
            self.main.push_back(key);
            self.main_bytes += cost;
        } else {
            self.entries.remove(&key);
            self.remember(key);
        }
    }

    fn advance_main(&mut self) {
        let key = self.main.pop_front().expect("the main queue is not empty here");
        let entry = self.entries.get_mut(&key).expect("queued chunks have entries");
        if entry.uses > 0 {
            entry.uses -= 1;
            self.main.push_back(key);
        } else {
            self.main_bytes -= cost_bytes(&entry.bytes);
            self.entries.remove(&key);
        }
    }

    /// As many ghosts as there are chunks in the cache (paper: as many as in the main queue).
    fn remember(&mut self, key: u64) {
        if self.ghost_set.insert(key) {
            self.ghosts.push_back(key);
        }
        while self.ghosts.len() > self.entries.len().max(1) {
            let oldest = self.ghosts.pop_front().expect("the queue is longer than 1");
            self.ghost_set.remove(&oldest);
        }
    }

    /// The bytes and queues agree with the entries. Expensive, for tests.
    pub fn verify(&self) -> Result<(), String> {
        let mut sums = [0, 0];
        for (queue, is_in_main) in [(&self.small, false), (&self.main, true)] {
            for key in queue {
                let entry = self.entries.get(key).ok_or(format!("chunk {key:x} is queued without entry"))?;
                if entry.is_in_main != is_in_main {
                    return Err(format!("chunk {key:x} is in the wrong queue"));
                }
                sums[usize::from(is_in_main)] += cost_bytes(&entry.bytes);
            }
        }
        let lengths_agree = self.small.len() + self.main.len() == self.entries.len();
        let bytes_agree = sums == [self.small_bytes, self.main_bytes];
        let is_within_capacity = self.bytes_used() <= self.capacity_bytes;
        let are_ghosts_queued = self.ghost_set.len() <= self.ghosts.len();
        if lengths_agree && bytes_agree && is_within_capacity && are_ghosts_queued {
            return Ok(());
        }
        Err(format!(
            "{} entries, queues {} + {}, bytes {} + {}, counted {sums:?}, capacity {}",
            self.entries.len(),
            self.small.len(),
            self.main.len(),
            self.small_bytes,
            self.main_bytes,
            self.capacity_bytes
        ))
    }
}

fn cost_bytes(bytes: &Rc<[u8]>) -> usize {
    bytes.len() + ENTRY_OVERHEAD_BYTES
}
