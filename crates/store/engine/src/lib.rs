//! Volumes, snapshots and clones over a pool: write path, read path, checkpoint, recovery.
//!
//! The engine lives on one shard. Hosts reach it through [`ashlar_block::BlockDevice`] (see
//! [`Engine::device`]), operators through the methods of [`Engine`]. It never sees a socket.
//!
//! ```text
//! write ─► chunks, LZ4 ─► journal group (durable) ─► apply to the map ─► acknowledge
//! read  ─► map ─► block cache ─► segment on a drive ─► verify ─► decode
//! ```
//!
//! Every change of a pool (write, unmap, create, resize, delete, snapshot, clone, restore) is one
//! journal record with an LSN. Records are applied one after the other by the same code when they
//! happen (`applier`) and when they are replayed (`recovery`), so a snapshot taken at an LSN is exact
//! by construction.
//!
//! Invariants:
//! 1. A change is acknowledged only after its group is durable and it is applied.
//! 2. `apply` is deterministic: the same records from the same checkpoint give the same state.
//! 3. A checkpoint holds exactly the changes below its LSN; replay starts right behind it.
//! 4. A segment is freed only if no image at a checkpoint refers to it, and reused only after the
//!    superblock that says so is durable.
//! 5. Host writes never take the last `reserve` segments: deletes, unmap and checkpoints need them.
//! 6. A read returns bytes whose chunk header names the address that the map names, or an error.
//! 7. Pointers never change. What the cleaner moves keeps its address; the relocation table says where
//!    it is.

mod accounting;
mod admission;
mod allowance;
mod applier;
mod apply;
mod catalogue;
mod check;
mod checkpoint;
mod cleaner;
mod control;
mod copy;
mod dedupe;
mod deleted;
mod device;
mod difference;
mod drives;
mod engine;
mod error;
#[cfg(test)]
mod future_tests;
mod holds;
mod info;
mod lineage;
mod listing;
mod media;
mod metadata;
mod mover;
mod notebook;
mod own;
mod pace;
mod precedence;
mod range_lock;
mod rates;
mod read_path;
mod recount;
mod recovery;
mod relocations;
mod removal;
mod room;
mod scrub;
mod settings;
mod stages;
mod tables;
mod terms;
mod under_way;
mod walk;
mod weigh;
mod write_path;

pub use accounting::{
    Holder, HoldersReport, ReclaimReport, SpaceParts, SpaceReport, VolumeSpace, WalkedSpace, WalkedVolume,
};
pub use allowance::Allowance;
pub use ashlar_format::catalogue::{Compression, Profile};
pub use ashlar_format::hold::Hold;
pub use ashlar_format::note_kind::{NoteKind, NoteSubject};
pub use ashlar_format::notes::{NOTE_VALUE_BYTES_MAX, Note};
pub use ashlar_format::segment::Protection;
pub use ashlar_pool::{
    Away, DriveCounters, DriveSpec, Identity, Opening, PoolSpec, ProcessProbe, Remembered, ScrubCount,
};
pub use difference::Difference;
pub use drives::RebuildStatus;
pub use engine::Engine;
pub use error::{Error, ErrorKind, Result};
pub use info::{
    CheckReport, Counters, DedupeCounters, DedupeStatus, DeletedVolume, DriveStatus, PoolStatus,
    RecoveryReport, ScrubReport, ScrubStatus, SnapshotInfo, Space, VolumeInfo, VolumePolicy, VolumeSpec,
};
pub use lineage::Lineage;
pub use notebook::{NoteBatch, NotesStatus};
pub use precedence::{Class, FloorStatus, Precedence};
pub use rates::Rates;
pub use removal::RemovalStatus;
pub use settings::Settings;
pub use stages::{KindStages, SlowRequest, Stage, StageTimes, StagesSnapshot};
pub use terms::Terms;
