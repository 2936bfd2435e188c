//! What the engine tells of itself: volumes, snapshots, space, recovery, checks.

use std::time::Duration;

use ashlar_format::catalogue::{Compression, Profile};
use ashlar_format::hold::Hold;
use ashlar_format::segment::Protection;
use ashlar_pool::{Away, DriveCounters, ScrubCount};

use crate::allowance::Allowance;
use crate::precedence::{Class, Precedence};
use crate::rates::Rates;

/// A volume to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpec {
    /// Its name.
    pub name: String,
    /// Its size; a multiple of 4096.
    pub size_bytes: u64,
    /// 512 or 4096.
    pub logical_block_bytes: u32,
    /// What it is for.
    pub profile: Profile,
    /// How it is compressed.
    pub compression: Compression,
    /// Whether equal blocks are to be found.
    pub dedupe: bool,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    /// Its identity within the pool.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// 512 or 4096.
    pub logical_block_bytes: u32,
    /// What it is for.
    pub profile: Profile,
    /// How it is compressed.
    pub compression: Compression,
    /// Whether equal blocks are looked for.
    pub dedupe: bool,
    /// Bytes mapped to data; `None` while they are counted anew, after a large unmap for one.
    pub written_bytes: Option<u64>,
    /// Bytes on the drives of the chunks that it wrote itself and refers to. At most so many while it is
    /// being counted.
    pub own_bytes: u64,
    /// What it may take, and what is kept for it.
    pub allowance: Allowance,
    /// How much hosts may ask of it in a second.
    pub rates: Rates,
    /// Who goes before it, and before whom it goes.
    pub precedence: Precedence,
    /// What it was cloned from.
    pub origin: Option<String>,
    /// When it was made.
    pub created_unix_seconds: u64,
}

/// A snapshot: the images of one or more volumes at one instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// Its place in the order in which the pool's snapshots were taken; says nothing else.
    pub order: u64,
    /// The volumes, by their names at that time.
    pub volumes: Vec<String>,
    /// When it was taken.
    pub created_unix_seconds: u64,
    /// The sum of the volumes' sizes.
    pub size_bytes: u64,
    /// Why it must not be deleted.
    pub hold: Option<Hold>,
}

/// A volume that is served no more and may still come back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletedVolume {
    /// What it was; its name may be another volume's by now.
    pub info: VolumeInfo,
    /// When it was deleted, by the clock of the wall.
    pub deleted_unix_seconds: u64,
    /// How long it has been seen so, as far as that is durable ([`Engine::deleted_seen`](crate::Engine)).
    pub seen_seconds: u64,
}

/// A drive of the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveStatus {
    /// Drawn when it joined, in hexadecimal: another drive in its place has another.
    pub id: String,
    /// Its path.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// `online`, `rebuilding`, `moving`, `spare`, `out`, `leaving`, or `gone` for one that has left: its
    /// number is not used again.
    pub state: String,
    /// Why it is not online.
    pub reason: Option<String>,
    /// What kept it out from the opening on.
    pub away: Option<Away>,
    /// It is no more: the others hold what it held, or will, in spare space.
    pub is_in_spare_space: bool,
    /// What was asked of it since it was opened.
    pub counters: DriveCounters,
}

/// Where the pool's bytes are. All parts but `physical_bytes` and `dead_bytes` sum to `physical_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Space {
    /// The drives' sizes.
    pub physical_bytes: u64,
    /// Free for the writes of any host.
    pub free_bytes: u64,
    /// Free, kept for volumes that have a reserve.
    pub kept_bytes: u64,
    /// Segments of chunks, live or not.
    pub data_bytes: u64,
    /// Segments of map and table pages, live or not.
    pub metadata_bytes: u64,
    /// Of both, what the last mark found dead: the cleaner makes room of it when writes need it.
    pub dead_bytes: u64,
    /// The journal segment being written.
    pub journal_bytes: u64,
    /// Free, kept for deletes, unmap and checkpoints.
    pub reserve_bytes: u64,
    /// Superblock areas.
    pub superblock_bytes: u64,
    /// What no segment can lie in: what larger drives have beyond the others, what is left at the drives'
    /// ends, and what is free on a drive that leaves.
    pub unusable_bytes: u64,
    /// Parity columns.
    pub parity_bytes: u64,
    /// Spare space that no drive lives in.
    pub spare_bytes: u64,
    /// Freed, not yet reusable.
    pub freed_bytes: u64,
}

/// How the last opening went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// How long it took.
    pub millis: u64,
    /// Journal groups replayed.
    pub groups_replayed: u64,
    /// Records in them.
    pub records_replayed: u64,
    /// Steps and their microseconds.
    pub steps: Vec<(String, u64)>,
}

/// What the pool has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Checkpoints published.
    pub checkpoints: u64,
    /// Map and table pages written by them.
    pub pages_written: u64,
    /// Map pages among them that were written as the difference from an earlier record.
    pub delta_pages_written: u64,
    /// Bytes of metadata written by them.
    pub metadata_bytes_written: u64,
    /// Journal groups made durable.
    pub journal_groups: u64,
    /// The most changes that waited for a journal group at once.
    pub journal_queued_max: u64,
    /// Bytes written to the journal, chunks included.
    pub journal_bytes_written: u64,
    /// Bytes hosts wrote.
    pub host_bytes_written: u64,
    /// Writes that waited because the pool was full.
    pub writes_waited_for_room: u64,
    /// Writes refused because the pool was full.
    pub writes_refused_for_room: u64,
    /// Writes refused because their volume was at its limit.
    pub writes_refused_by_limit: u64,
    /// Requests held back by the rates of their volume.
    pub requests_held_back: u64,
    /// Requests that waited for volumes that go first.
    pub requests_gave_precedence: u64,
    /// Bytes hosts read.
    pub host_bytes_read: u64,
    /// Chunk payload bytes stored for them.
    pub stored_bytes: u64,
    /// Zero blocks not stored.
    pub zero_blocks: u64,
    /// Blocks copied between volumes by reference, without their data.
    pub copied_blocks: u64,
    /// Blocks stored as they are because compressing them would not have saved a sixteenth.
    pub incompressible_blocks: u64,
    /// Blocks stored as they are because their volume is not to be compressed.
    pub uncompressed_blocks: u64,
    /// Blocks read from the cache.
    pub cache_hits: u64,
    /// Blocks read that the cache did not have.
    pub cache_misses: u64,
    /// Segments freed by the cleaner, emptied ones included.
    pub segments_freed: u64,
    /// Of these, segments that had to be emptied first.
    pub segments_emptied: u64,
    /// Bytes of chunks and page records the cleaner moved.
    pub moved_bytes: u64,
    /// Chunks not moved because they died after the mark.
    pub left_behind_chunks: u64,
    /// Bytes saved by compressing moved chunks with Zstandard instead of LZ4.
    pub recompressed_saved_bytes: u64,
    /// Blocks of moved chunks that were left out because nothing refers to them.
    pub trimmed_blocks: u64,
    /// Blocks of drives that were wrong or could not be read, computed from the others and written back.
    pub mended_blocks: u64,
    /// Marks completed.
    pub marks: u64,
    /// Damage met: checksums, misplaced or missing structures.
    pub damage: u64,
}

/// The pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: String,
    /// How many superblocks it has written.
    pub generation: u64,
    /// `online`, or why it takes no writes.
    pub state: String,
    /// Why no space comes back, if something damaged is in the way.
    pub cleaner_trouble: Option<String>,
    /// How it survives drives.
    pub protection: Protection,
    /// Its drives.
    pub drives: Vec<DriveStatus>,
    /// What was named at the opening and is no drive of it, and why.
    pub unused_drives: Vec<String>,
    /// Where its bytes are.
    pub space: Space,
    /// Writes that wait for room now.
    pub writes_waiting_for_room: u64,
    /// Volumes whose limit has refused a write and that are not well below it since.
    pub volumes_at_limit: Vec<String>,
    /// The sizes of its volumes, added up: more than hosts can use where volumes are thin.
    pub provisioned_bytes: u64,
    /// How much of what hosts can use is alive or kept for some volume, in per cent: what is free or known
    /// to be dead since the last mark does not count.
    pub full_percent: u8,
    /// How much of the segment numbers that hosts may use up is used, in per cent: at 100 their writes are
    /// refused.
    pub segment_numbers_percent: u8,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// How the last opening went.
    pub recovery: RecoveryReport,
    /// What it has done.
    pub counters: Counters,
    /// Bytes of the caches in use.
    pub cache_bytes_used: u64,
    /// Bytes of map pages in memory.
    pub map_bytes_used: u64,
    /// What dedupe has done and is doing.
    pub dedupe: DedupeStatus,
}

/// What dedupe has done since the pool was opened, all in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DedupeCounters {
    /// Looked up in the index.
    pub looked_up: u64,
    /// With an entry that turned out to hold the same bytes.
    pub hits: u64,
    /// Compared byte by byte with what an entry or a neighbour led to.
    pub compared: u64,
    /// Found equal beside a hit, without a look-up.
    pub extended: u64,
    /// Made to share a chunk that was there already.
    pub shared: u64,
    /// Of these, while the cleaner was at work.
    pub shared_in_cycle: u64,
    /// Of these, with a chunk that the cleaner has moved.
    pub shared_moved: u64,
    /// Left alone: an entry led to other bytes.
    pub mismatched: u64,
    /// Left alone: an entry led to what is gone, or moved and no longer where it was written.
    pub stale: u64,
    /// Left alone: the cleaner may be about to free what an entry led to.
    pub condemned: u64,
    /// Left alone: too few in a row.
    pub short: u64,
    /// Left alone: others of the same chunk have no equal, so the chunk would stay.
    pub partial: u64,
    /// Left alone: written over, or their volume changed, between decision and journal.
    pub overtaken: u64,
    /// Never looked at: more was written than the queue holds.
    pub dropped: u64,
    /// Never looked at: the pool was full.
    pub without_room: u64,
    /// Left alone: they could not be read.
    pub unreadable: u64,
}

/// Dedupe as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DedupeStatus {
    /// Entries of the index.
    pub index_entries: u64,
    /// Bytes the index may come to take; 0 while there is none.
    pub index_bytes: u64,
    /// Bytes it is made with at most.
    pub index_bytes_max: u64,
    /// Blocks that wait to be looked at.
    pub queued_blocks: u64,
    /// How far a rebuild is, in per cent; absent when none runs.
    pub rebuild_percent: Option<u8>,
    /// What was done.
    pub counters: DedupeCounters,
}

/// What is to be changed of a volume from now on; what is absent stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VolumePolicy {
    /// How new chunks are compressed.
    pub compression: Option<Compression>,
    /// Whether equal blocks are looked for.
    pub dedupe: Option<bool>,
    /// What it may have of its own on the drives at most, or that there is no limit.
    pub limit_bytes: Option<Option<u64>>,
    /// What is kept for it on the drives, or that nothing is.
    pub reserve_bytes: Option<Option<u64>>,
    /// How many requests hosts may make in a second, or that there is no limit.
    pub requests_per_second: Option<Option<u64>>,
    /// How many bytes hosts may read and write in a second, or that there is no limit.
    pub bytes_per_second: Option<Option<u64>>,
    /// Of how many seconds it saves up what it does not use, or that it does not.
    pub burst_seconds: Option<Option<u64>>,
    /// Within what time its requests should be answered, or that it has no floor.
    pub floor: Option<Option<Duration>>,
    /// Whether it gives way to others.
    pub class: Option<Class>,
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// Map and table pages read and verified.
    pub pages: u64,
    /// Chunks read and verified.
    pub chunks: u64,
    /// Bytes of those chunks on the drives.
    pub live_bytes: u64,
    /// What is wrong, one line each.
    pub errors: Vec<String>,
}

/// How far a scrub is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubStatus {
    /// Segments compared with their parity.
    pub done_segments: u64,
    /// Segments to compare; none while everything is being checked, which comes first.
    pub total_segments: u64,
    /// How long it has taken so far.
    pub elapsed_millis: u64,
    /// It is held.
    pub is_paused: bool,
}

/// What a scrub found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubReport {
    /// Everything in use, read and verified; what was wrong was computed from the other columns.
    pub check: CheckReport,
    /// What was compared with parity, and set right.
    pub parity: ScrubCount,
    /// Blocks computed from the others and written back since the opening, this scrub included.
    pub mended_blocks: u64,
}
