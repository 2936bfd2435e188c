//! Planted faults: known mistakes by which the simulator is judged.
//!
//! Each stands as one line in production code, `if planted(Fault::X)`. In every usual build [`planted`] is
//! the constant `false` and the line is not there. With the cargo feature `planted-faults`, which only the
//! simulator's own program turns on, one fault can be chosen; `cargo xtask planted` runs them all and writes
//! docs/internals/planted-faults.md. A fault that the simulator does not find is a gap of the simulator.

/// Declares the faults: name, file, what a user loses.
macro_rules! faults {
    ($($fault:ident $place:literal $loss:literal)*) => {
        /// A mistake that can be planted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Fault {
            $(#[doc = $loss] $fault,)*
        }

        impl Fault {
            /// All of them, in the order of the page.
            pub const ALL: &[Fault] = &[$(Fault::$fault,)*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Fault::$fault => stringify!($fault),)* }
            }

            /// The file it is planted in, below `crates`.
            #[must_use]
            pub fn place(self) -> &'static str {
                match self { $(Fault::$fault => $place,)* }
            }

            /// What goes wrong, and what a user loses by it.
            #[must_use]
            pub fn loss(self) -> &'static str {
                match self { $(Fault::$fault => $loss,)* }
            }
        }
    };
}

faults! {
    ToldBeforeFlushed "store/journal/src/writer.rs"
        "A group is written without a flush: an acknowledged write is lost with the power."
    ToldBeforeWritten "store/journal/src/writer.rs"
        "A group counts as durable while it is being written: an acknowledged write is lost in a crash."
    GroupTooFewReplayed "store/journal/src/replay.rs"
        "Replay leaves the last group out: the last acknowledged writes are lost in a crash."
    SealedUnderWay "store/journal/src/writer.rs"
        "A segment is sealed while groups of it are being written: a drive that fails one does not get it back."
    TornGroupReplayed "store/journal/src/replay.rs"
        "Replay takes the last groups without a look at their chunks: blocks that were never acknowledged become damage."
    StripesNotCompleted "store/journal/src/replay.rs"
        "Replay keeps a group whose columns do not agree: the next lost drive takes an acknowledged write along."
    RecordSkippedInReplay "store/engine/src/recovery.rs"
        "Replay leaves out the last record of a group of several: a part of a write is lost in a crash."
    NoSequenceJump "store/engine/src/recovery.rs"
        "Sequence numbers do not jump at an opening: a torn group of the life before may pass for a new one."
    AppliedOutOfOrder "store/engine/src/applier.rs"
        "The submissions of a group are applied last first: an older write wins over a newer one until the next replay."
    SnapshotLate "store/engine/src/applier.rs"
        "A snapshot is taken behind writes that came after it in its group: it is not the instant that was asked for."
    CloneWithoutReference "store/engine/src/apply.rs"
        "A clone copies the pointer to its source and no reference: what the one writes the other shows."
    RestoreForgetsVolume "store/engine/src/apply.rs"
        "The restore of a snapshot of several volumes leaves the first as it is."
    RestoreKeepsSize "store/engine/src/apply.rs"
        "A restore brings the content back and not the size."
    BackupBehindRestore "store/engine/src/control.rs"
        "A restore keeps what it made instead of what was there: the way back leads nowhere."
    DeletedIsNoRoot "store/engine/src/cleaner/mod.rs"
        "The cleaner does not count what a deleted volume refers to: it comes back without its content."
    ResizeLeavesTail "store/engine/src/apply.rs"
        "A volume that shrinks keeps what lay behind: grown again it shows old bytes instead of zeroes."
    FillOneBlockShort "store/engine/src/apply.rs"
        "An unmap or zeroing of many blocks leaves the last one: a read gives old bytes."
    ShareDoesNotLook "store/engine/src/apply.rs"
        "A share is applied although the block was written meanwhile: the newer write is undone."
    UnmapRoundsOutward "store/engine/src/write_path.rs"
        "An unmap of a part of a block drops the whole block: the neighbour's bytes become zeroes."
    PartLosesTail "store/engine/src/write_path.rs"
        "A write that ends inside a block does not read it first: the rest of the block becomes zeroes."
    ReplaceDoesNotWait "store/engine/src/write_path.rs"
        "A restore or resize does not wait for a partial write, which brings the old content back."
    PartDoesNotWait "store/engine/src/range_lock.rs"
        "A partial write does not wait for whole writes of its block: it brings back what they replaced."
    WholeDoesNotWait "store/engine/src/range_lock.rs"
        "A whole write does not wait for a partial write of its block: the partial one undoes it."
    PartsDoNotWait "store/engine/src/range_lock.rs"
        "Two partial writes of one block do not wait for each other: one undoes the other."
    CheckpointLsnTooHigh "store/engine/src/checkpoint.rs"
        "The superblock names one LSN too many: replay finds nothing, and what came after the checkpoint is lost."
    VolumeTablePageTooOld "store/engine/src/checkpoint.rs"
        "The checkpoint publishes an older page of the volume table: volumes go back in time at the next start."
    ChangedRootTakenForClean "store/engine/src/checkpoint.rs"
        "A volume that was written during a checkpoint counts as written by it: the next one leaves it out."
    GivenUpTableForgotten "store/engine/src/checkpoint.rs"
        "What a checkpoint that was given up was to write of the volume table is not written by the next."
    CheckpointNotFlushed "store/engine/src/checkpoint.rs"
        "A superblock names pages that the drives have in their caches: a loss of power leaves a pool that does not open."
    ReadNotTriedAgain "store/engine/src/read_path.rs"
        "A read that meets a segment freed under it fails, though the block is elsewhere."
    CacheWrongBlock "store/engine/src/read_path.rs"
        "What came along with a chunk is cached under its first block: a later read gives another block's bytes."
    EndlessWaitForRoom "store/engine/src/admission.rs"
        "A write that finds the pool full waits for ever instead of being refused."
    LimitNotKept "store/engine/src/allowance.rs"
        "A volume grows beyond its limit: a test clone fills the pool, and production stops."
    NoReserve "store/engine/src/admission.rs"
        "Hosts may fill the pool to the last segment: nothing can be deleted any more."
    SharedWithoutComparing "store/engine/src/dedupe/window.rs"
        "Blocks with one fingerprint's tag are shared unseen: a read gives another block's bytes."
    SharedWithCondemned "store/engine/src/dedupe/window.rs"
        "A block is shared with a chunk that the cleaner is about to free: the block is lost."
    TrimmedTakenForThere "store/engine/src/dedupe/window.rs"
        "A block is shared with one that was trimmed when its chunk moved: the block is lost."
    SharesNotMarked "store/engine/src/cleaner/mod.rs"
        "The mark does not know what dedupe shared since the checkpoint: the cleaner frees what is alive."
    CopyDoesNotHold "store/engine/src/copy.rs"
        "A copy does not wait for a write of part of a block that it covers: the host's bytes and the copy's mix."
    SharedTakenForDead "store/engine/src/cleaner/deaths.rs"
        "A block that was written over counts as dead although a snapshot shares it: the snapshot loses it."
    MovedTakenForDead "store/engine/src/cleaner/mod.rs"
        "The mark does not follow what was moved: its container is freed while it is alive."
    YoungSegmentCleaned "store/engine/src/cleaner/mod.rs"
        "The cleaner looks at journal segments that the checkpoint has not seen to their end: acknowledged writes are freed."
    UnpublishedCleaned "store/engine/src/cleaner/mod.rs"
        "The cleaner frees map pages that a checkpoint is writing: the pool cannot read its map."
    SharedChildNotCounted "store/map/src/tree.rs"
        "The copy of a shared map page does not count its children: one image changes another."
    DeltaForgetsSlot "store/map/src/lineage.rs"
        "A change to a map page is missing in its next difference: after a restart old bytes are read."
    DiffMissesUnmapped "store/map/src/diff.rs"
        "The difference of two volumes leaves out what was unmapped in the first: who copies what differs copies too little."
    PlaceReleasedEarly "media/pool/src/lib.rs"
        "A freed place is trimmed before the superblock that frees it: after a crash the older one names what is gone."
    SegmentNumberTwice "media/pool/src/frontier.rs"
        "A segment number is given out twice: a pointer leads to another volume's chunk."
    OpenedNotListed "media/pool/src/lib.rs"
        "Segments opened since the last table are not listed: recovery does not look there, and their writes are lost."
    OneDriveTooFew "media/pool/src/lib.rs"
        "A superblock counts with one drive fewer than a majority: the next opening may take the older one."
    FlushErrorIgnored "media/pool/src/lib.rs"
        "A flush that fails counts as done: the superblock names what the drive has lost."
    PreparingErrorIgnored "media/pool/src/lib.rs"
        "A failed flush of a place being prepared is ignored: what others wrote and flushed may be lost with it."
    ConfirmedTooHigh "media/pool/src/lib.rs"
        "A drive is said to hold a newer superblock than it does: a healthy drive is taken for an old one."
    SuperblockNotConfirmed "media/pool/src/lib.rs"
        "A pool takes writes before its drives tell that each has its last superblock: an older copy of a drive counts as whole."
    LateWritesNotAwaited "media/pool/src/owner.rs"
        "A pool is taken over from another machine whose last writes have not landed yet: they hit what came after."
    NewerOwnerIgnored "media/pool/src/owner.rs"
        "Who finds that another opened the pool meanwhile goes on: both write, and what the other was told is lost."
    BeatByWallClock "media/pool/src/owner.rs"
        "Whether a beat is overdue is told by a clock that people set: set back, two arrays write to one pool."
    LoserReads "media/pool/src/owner.rs"
        "Who lost the pool to another array goes on answering reads: a host gets old bytes."
    OldDriveTrusted "media/pool/src/generations.rs"
        "A drive that was away is taken for whole: reads give old bytes."
    FreedNotRebuilt "media/pool/src/table.rs"
        "A rebuild leaves out what was freed since the last checkpoint: after a crash the drive lacks what is in use again."
    CalledOutTooLate "media/pool/src/stripes.rs"
        "A write is acknowledged before a superblock calls the drive out that failed it: after a crash that drive counts."
    LastParityLeftOut "media/pool/src/stripes.rs"
        "Parity of the last stripe of a write is not computed: with a drive lost, its block is lost."
    QOfWrongColumns "media/pool/src/stripes.rs"
        "Q is computed with two columns exchanged: with two drives lost, blocks come back wrong."
    OutDriveRead "media/pool/src/homes.rs"
        "A drive that is out of service is still read: reads give what it held when it left."
    StaleFromTooHigh "media/pool/src/drives.rs"
        "A drive that comes back is restored from one segment too late: it serves what it never got."
    RebuildDoesNotWait "media/pool/src/rebuild.rs"
        "A rebuild does not wait for the writes that began before it: it restores from halves of them."
    RebuildOneStripeShort "media/pool/src/rebuild.rs"
        "A rebuild leaves out the last stripe of each segment: the drive serves what it never got."
    RebuiltNotFlushed "media/pool/src/rebuild.rs"
        "A rebuilt drive is taken into service before its cache is flushed: a loss of power leaves old bytes on it."
    ScrubSetsWrongColumn "media/pool/src/scrub.rs"
        "A scrub that mends a stripe writes it to the column beside the wrong one."
    NbdWrongCookie "targets/nbd/src/session.rs"
        "A reply carries the cookie of no request, or of another one: the client takes it for that one's."
    NbdHalfHole "targets/nbd/src/reply.rs"
        "A read leaves out a run whose first half is zero: the client gets zeroes for data."
    NbdErrorNotTold "targets/nbd/src/reply.rs"
        "A failed request is answered as done: the client believes a write that never was."
    FuseReadShort "targets/fuse/src/session.rs"
        "A read of the volume's file is answered 512 bytes short: the kernel takes the rest for the end of the file."
    FuseZeroesRounded "targets/fuse/src/session.rs"
        "Zeroing a part of a file reaches to the next whole sector: bytes behind it are lost."
}

/// Whether this fault is planted: never in a usual build.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
#[must_use]
pub const fn planted(_fault: Fault) -> bool {
    false
}

#[cfg(feature = "planted-faults")]
pub use chosen::{plant, planted, reached};

#[cfg(feature = "planted-faults")]
mod chosen {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::Fault;

    /// The chosen fault's number, from 1. One for the whole process: a run has one fault.
    static CHOSEN: AtomicUsize = AtomicUsize::new(0);
    /// How often its line was run.
    static REACHED: AtomicU64 = AtomicU64::new(0);

    /// Plants this fault, or none.
    pub fn plant(fault: Option<Fault>) {
        CHOSEN.store(fault.map_or(0, |fault| fault as usize + 1), Ordering::Relaxed);
    }

    /// How often the planted line was run.
    #[must_use]
    pub fn reached() -> u64 {
        REACHED.load(Ordering::Relaxed)
    }

    /// Whether this fault is planted.
    #[must_use]
    pub fn planted(fault: Fault) -> bool {
        let is_planted = CHOSEN.load(Ordering::Relaxed) == fault as usize + 1;
        if is_planted {
            REACHED.fetch_add(1, Ordering::Relaxed);
        }
        is_planted
    }
}
