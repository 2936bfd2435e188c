//! The logical to physical map: a persistent copy-on-write radix tree in memory, pages on drives.
//!
//! Called by `engine` alone. Everything is synchronous and does no I/O: an operation that needs a page
//! which is not loaded answers [`Missing`], the engine reads the page, gives it to
//! [`PageArena::insert_clean`] and asks again. An operation that answers [`Missing`] has changed nothing.
//! The pages of one operation must stay loaded together, about 4 MiB of them always can: keep the ranges of
//! look-ups and [`PageArena::set`] below 64 Ki blocks. Fills and extents may have any length.
//!
//! ```text
//! root pointer ─► level 3 ─► level 2 ─► level 1 ─► level 0 (leaf) ─► data, zero or hole
//!                 512 GiB    1 GiB      2 MiB      4 KiB             a slot covers
//!                 512 pointers of 8 bytes in a page at every level: 256 TiB
//! ```
//!
//! A tree is nothing but its root [`Pointer`]: hole or zero (the whole volume), a page in memory, or a
//! page on a drive. A hole or zero at an inner level stands for the whole subtree. A snapshot is a second
//! root to the same page ([`PageArena::share`]); the next change copies the pages on its path.
//!
//! Life of a page:
//!
//! ```text
//!           set, fill                  set_persisted               evict
//!   (new) ────────────► dirty ──────────────────────────► clean ──────────► free
//!                         │ last reference dropped          ▲
//!                         ▼                                 │ insert_clean (read from a drive)
//!                     condemned ──── reap ───► free       (new)
//! ```
//!
//! Invariants, checked by [`PageArena::verify`]:
//!
//! 1. A page's reference count is the number of in-memory pointers to it: from dirty and condemned
//!    pages, and from the roots the engine holds. Media pointers are not counted.
//! 2. A clean page contains no in-memory pointer.
//! 3. A dirty page has at least one reference; a condemned page has none and waits to be reaped once.
//! 4. An in-memory pointer in a page of level n leads to a dirty or clean page of level n − 1.
//! 5. Each clean page is found by its media pointer and waits in the eviction queue exactly once; no
//!    other page does either.
//! 6. Leaves hold hole, zero and data; inner pages hold hole, zero and page pointers.
//! 7. A dirty page is changed in place only if it and every page above it on the path have exactly one
//!    reference: then no other root can reach it. (Not visible in one state; the model test checks it.)
//! 8. A page is its base with the overrides noted, and the base of a dirty page is alive when the page
//!    is next published: see `lineage`. (The second half is not visible in one state either.)

pub mod block_cache;

mod arena;
mod checkpoint;
mod diff;
mod error;
mod geometry;
mod lineage;
mod tree;
mod verify;
mod walk;

#[cfg(test)]
mod tests;

pub use arena::{ArenaCounters, PageArena, PageNumber};
pub use block_cache::BlockCache;
pub use checkpoint::{PageRecord, PageToWrite, WriteOrder};
pub use diff::{PagePair, TreeDiff};
pub use error::{Missing, PageInvalid};
pub use geometry::{BLOCKS_MAX, LEVELS, PAGE_POINTERS, Page, ROOT_LEVEL, page_index, slot_span_blocks};
pub use lineage::{Delta, RecordForm, TrackedPage};
pub use tree::{Extent, ExtentKind, FillOutcome, SetOutcome};
pub use walk::{PageVisit, PageWalk};
