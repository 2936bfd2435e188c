//! The write-ahead log: groups, group commit, replay.
//!
//! The engine hands over [`Draft`]s and gets them back, in order, as [`DurableGroup`]s; it applies
//! them to the map and only then acknowledges. The journal gives every chunk its address: a pool
//! without parity adopts journal segments in place, so a chunk is written once and stays there.
//!
//! ```text
//! submit ─► queue ─► builder: up to one group ─► writes in flight (at most WINDOW) ─► next_durable
//!            natural batching: what arrived while the last group was being built
//! ```
//!
//! Invariants:
//! 1. Group n is handed out only after groups up to n are durable.
//! 2. Group n + WINDOW is not submitted to a drive before group n was handed out. So a group found
//!    that far behind a gap proves that an acknowledged group is damaged, not torn.
//! 3. No address of a segment is written twice: after a crash the segment that was open is sealed, and
//!    writing goes on in another.
//! 4. What waits in the queue is bounded by whoever submits: each submission of a host carries credits, which
//!    go back when it is applied.
//! 5. After a failed write nothing more is handed out: the state of the drive is unknown until the
//!    pool is opened again.

mod builder;
mod queue;
mod replay;
mod writer;

use ashlar_format::chunk::Codec;
use ashlar_format::group::Record;
use ashlar_format::superblock::JournalPosition;
use ashlar_runtime::sync::{OneshotSender, Permit};
use ashlar_units::{Lsn, VolumeId};

pub use ashlar_pool::{Error, ErrorKind, Result};
pub use replay::{Replay, ReplayEnd, Replayed};
pub use writer::{Journal, JournalCounters};

/// Groups in flight at most. Measured on a virtio disk: four fill it, eight hide the jitter.
pub const WINDOW: u64 = 8;

/// A group takes drafts until it holds this much. Larger groups add latency, not throughput.
pub const GROUP_BYTES_TARGET: u64 = 512 << 10;

/// One change that asks for a place in the journal.
pub enum Draft {
    /// A record as it is.
    Record(Record),
    /// Blocks to be stored as one chunk and mapped.
    Chunk(ChunkDraft),
}

/// A chunk before it has an address.
pub struct ChunkDraft {
    /// The volume.
    pub volume: VolumeId,
    /// The first block.
    pub block: u64,
    /// How many blocks.
    pub blocks: u8,
    /// How the payload is stored.
    pub codec: Codec,
    /// The stored bytes.
    pub payload: Vec<u8>,
}

/// Called when a draft is applied, with what became of it.
pub type Completion<T> = OneshotSender<T>;

/// Changes that succeed or fail together, in one group.
pub struct Submission<T> {
    /// The changes, in order.
    pub drafts: Vec<Draft>,
    /// Given back when the changes are applied or have failed, whoever still waits for them.
    pub credits: Vec<Permit>,
    /// Told the outcome by the engine after applying, or by the journal when it fails.
    pub done: Completion<std::result::Result<T, Error>>,
}

impl<T> Submission<T> {
    /// Bytes that a group gets for it: those of its records and of its chunks' payloads. Never nothing, so
    /// that many small changes are worth a group, too.
    fn stored_bytes(&self) -> usize {
        let stored = |draft: &Draft| match draft {
            Draft::Record(record) => record.encoded_bytes(),
            Draft::Chunk(chunk) => Record::WRITE_BYTES + chunk.payload.len(),
        };
        self.drafts.iter().map(stored).sum()
    }
}

/// A submission's records with their LSNs, ready to be applied.
pub struct DurableSubmission<T> {
    /// The LSN of the first record.
    pub first_lsn: Lsn,
    /// The records, pointers filled in.
    pub records: Vec<Record>,
    /// As submitted.
    pub credits: Vec<Permit>,
    /// To be told after applying.
    pub done: Completion<std::result::Result<T, Error>>,
}

/// A group that is durable, as are all before it.
pub struct DurableGroup<T> {
    /// Its submissions in order.
    pub submissions: Vec<DurableSubmission<T>>,
    /// Where the next group goes: a checkpoint that contains this group replays from here.
    pub end: JournalPosition,
    /// The LSN after its last record.
    pub next_lsn: Lsn,
}
