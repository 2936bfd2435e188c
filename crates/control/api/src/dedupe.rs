//! Dedupe: the fingerprint index of a pool, and what was found with it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Dedupe of a pool as it is now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Dedupe {
    pub pool: String,
    /// Memory the fingerprint index may come to take; 0 while there is none.
    pub index_bytes: u64,
    /// What it is made with at most; 0: dedupe is off.
    pub index_max_bytes: u64,
    /// Blocks it knows.
    pub index_entry_count: u64,
    /// Written blocks that wait to be looked at.
    pub queued_block_count: u64,
    /// How far a pass over everything is; absent when none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_percent: Option<u8>,
    /// Since the pool was opened.
    pub blocks: DedupeBlocks,
}

/// What became of written blocks of volumes with dedupe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DedupeBlocks {
    /// Looked up in the index.
    pub looked_up_count: u64,
    /// Looked up, and the same bytes were found.
    pub hit_count: u64,
    /// Compared byte by byte.
    pub compared_count: u64,
    /// Found equal beside a hit, without a look-up.
    pub extended_count: u64,
    /// Made to share what was there already.
    pub shared_count: u64,
    /// The same in bytes, before compression.
    pub shared_bytes: u64,
    /// Of these, while the cleaner was at work.
    pub shared_beside_cleaning_count: u64,
    /// Of these, with what the cleaner has moved since it was written.
    pub shared_moved_count: u64,
    /// Left alone: an entry led to other bytes.
    pub mismatched_count: u64,
    /// Left alone: an entry led to what is gone, or moved and no longer where it was written.
    pub stale_count: u64,
    /// Left alone: the cleaner may free what an entry led to.
    pub condemned_count: u64,
    /// Left alone: too few equal blocks in a row.
    pub short_run_count: u64,
    /// Left alone: other blocks of their chunk have no equal, so it would stay.
    pub partial_chunk_count: u64,
    /// Left alone: written over meanwhile.
    pub overtaken_count: u64,
    /// Never looked at: more was written than the queue holds.
    pub dropped_count: u64,
    /// Never looked at: the pool was full.
    pub no_room_count: u64,
    /// Left alone: they could not be read.
    pub unreadable_count: u64,
}

/// What to do with the fingerprint index. Nothing of it is needed to read data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DedupeAction {
    /// Look at everything again, in the background.
    Rebuild,
    /// Forget it and give its memory back.
    Drop,
    /// Forget it and make one of `index_max_bytes`, rebuilt in the background.
    Resize,
}

/// Request to do something with the fingerprint index of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DedupeRequest {
    pub action: DedupeAction,
    /// Of a resize: memory at most, from 64 KiB; 0 switches dedupe off until the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_max_bytes: Option<u64>,
}
