//! What a volume may take of its pool, and what is kept for it: its limit and its reserve, notes about it.
//!
//! Both go by what the volume has of its own (`own`), which each applied record keeps up to date. Writes
//! in flight are not in it yet, so a volume with a limit notes by how much each of its writes makes it grow,
//! from the check until the write is applied. Between the check and the journal nothing else runs.
//!
//! Invariants:
//! 1. A write is refused only if its volume would grow by it, and beyond its limit. So what a file system
//!    writes in place goes on at the limit, and whatever gives back passes.
//! 2. A volume is beyond its limit by no more than its bytes in flight: of two writes at once to the same
//!    blocks, each is told that it replaces what was there. The next write is checked against what came of
//!    it, so it does not add up. (Restores and a limit set lower leave it there, too: it just cannot grow.)
//! 3. Host writes of the others never take what is kept for a volume: its reserve less what it has of its
//!    own. It is kept like the pool's reserve, in whole segments, and deletes and checkpoints may use it.
//! 4. What is kept was free when the reserve was set, or given up by whoever had it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use ashlar_format::Pointer;
use ashlar_format::allowance::{ALLOWANCE_VERSION, decode, encode};
use ashlar_format::chunk::CHUNK_HEADER_BYTES;
use ashlar_format::group::Record;
use ashlar_format::note_kind::NoteKind;
use ashlar_format::notes::NoteKey;
use ashlar_format::pointer::LENGTH_UNIT_BYTES;
use ashlar_journal::Draft;
use ashlar_map::Missing;
use ashlar_runtime::sync::{Mutex, Permit, Semaphore};
use ashlar_units::{ByteCount, Fault, VolumeId, planted};

use crate::apply::WRITTEN_UNKNOWN;
use crate::cleaner::taken_bytes;
use crate::engine::Inner;
use crate::notebook::{NoteBatch, Notebook};
use crate::own::own_change;
use crate::{Error, ErrorKind, Result};

/// A volume is below its limit again when this fraction of it is free. Arbitrary: that it is told once.
const BELOW_FRACTION: u64 = 50;
/// How often a volume at its limit is counted anew before a write is refused. A write that is applied
/// meanwhile makes a count void.
const RECOUNTS_MAX: u32 = 3;

/// What a volume may take, and what is kept for it, in bytes on the drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    /// What it may have of its own at most.
    pub limit_bytes: Option<u64>,
    /// What of the pool is set aside for it, with what it has of its own already.
    pub reserve_bytes: Option<u64>,
}

impl Allowance {
    /// What the notes of a volume say.
    pub(crate) fn of(notebook: &Notebook, id: VolumeId) -> Allowance {
        let bytes = |kind| noted(notebook, kind, id);
        Allowance { limit_bytes: bytes(NoteKind::Limit), reserve_bytes: bytes(NoteKind::Reserve) }
    }

    /// The changes that make this one of another, with those of a batch.
    pub(crate) fn note(self, before: Allowance, id: VolumeId, batch: NoteBatch) -> NoteBatch {
        let change = |batch: NoteBatch, kind, before: Option<u64>, now: Option<u64>| match now {
            _ if before == now => batch,
            Some(bytes) => batch.put(kind, id.0, 0, ALLOWANCE_VERSION, encode(bytes)),
            None => batch.delete(kind, id.0, 0),
        };
        let batch = change(batch, NoteKind::Limit, before.limit_bytes, self.limit_bytes);
        change(batch, NoteKind::Reserve, before.reserve_bytes, self.reserve_bytes)
    }

    /// Refuses what no volume can have.
    pub(crate) fn check(self, name: &str) -> Result<()> {
        let invalid = |what: String, action: &str| {
            Err(Error::new(ErrorKind::Invalid, format!("volume {name}: {what}")).and_do(action))
        };
        if self.limit_bytes == Some(0) {
            return invalid("a limit of 0 bytes is not possible".to_string(), "no limit is `--limit none`");
        }
        match (self.limit_bytes, self.reserve_bytes) {
            (Some(limit), Some(reserve)) if reserve > limit => {
                let (reserve, limit) = (ByteCount(reserve), ByteCount(limit));
                let what = format!("a reserve of {reserve} is more than its limit of {limit} lets it use");
                invalid(what, "reserve less, or set a larger limit")
            }
            _ => Ok(()),
        }
    }
}

fn noted(notebook: &Notebook, kind: NoteKind, id: VolumeId) -> Option<u64> {
    let note = notebook.get(key_of(kind, id))?;
    decode(note.version, &note.value)
}

fn key_of(kind: NoteKind, id: VolumeId) -> NoteKey {
    NoteKey { kind: kind.code(), subject: id.0, part: 0 }
}

/// What volumes with a limit are about to take.
#[derive(Default)]
pub(crate) struct Growing {
    /// Permits that are out: bytes by which writes in flight make a volume grow.
    volumes: RefCell<BTreeMap<VolumeId, Semaphore>>,
    /// Volumes whose limit refused a write, and by how much that would have made them grow.
    refused: RefCell<BTreeMap<VolumeId, u64>>,
    /// One at a time counts a volume anew.
    recount_turn: Mutex<()>,
}

/// More than all volumes can take.
const GROWTH_MAX: usize = usize::MAX >> 1;

impl Growing {
    fn of(&self, id: VolumeId) -> Semaphore {
        self.volumes.borrow_mut().entry(id).or_insert_with(|| Semaphore::new(GROWTH_MAX)).clone()
    }
}

/// What a write would make of a volume with a limit.
enum Growth {
    /// It fits; what it grows by is noted while this is held.
    Fits(Option<Permit>),
    /// It has so many bytes and would grow by so many, beyond its limit.
    Beyond { own: u64, growth: u64 },
}

impl Inner {
    /// The right of a volume to store these drafts in place of what it has in a range. Nothing may be awaited
    /// between this and their submission.
    pub(crate) async fn grow(
        &self,
        id: VolumeId,
        range: Range<u64>,
        drafts: &[Draft],
    ) -> Result<Option<Permit>> {
        let Some(limit) = self.limit_of(id) else { return Ok(None) };
        let mut recounts = 0;
        loop {
            match self.growth(id, limit, range.clone(), drafts) {
                Ok(Growth::Fits(permit)) => return Ok(permit),
                Ok(Growth::Beyond { .. }) if self.is_uncounted(id) && recounts < RECOUNTS_MAX => {
                    recounts += 1;
                    let _turn = self.growing.recount_turn.lock().await;
                    if self.is_uncounted(id) {
                        self.recount_now(id).await?;
                    }
                }
                Ok(Growth::Beyond { own, growth }) => {
                    self.growing.refused.borrow_mut().insert(id, growth);
                    return Err(self.refused_by_limit(id, own, limit));
                }
                Err(missing) => self.load_page(missing).await?,
            }
        }
    }

    fn growth(
        &self,
        id: VolumeId,
        limit: u64,
        range: Range<u64>,
        drafts: &[Draft],
    ) -> std::result::Result<Growth, Missing> {
        let mut tree = self.tree.borrow_mut();
        let tree = &mut *tree;
        // Deleted meanwhile: applying will say so.
        let Some(entry) = tree.catalogue.get(id) else { return Ok(Growth::Fits(None)) };
        let new_bytes: u64 = drafts.iter().map(|draft| taken_by(draft, entry.own_from)).sum();
        let change = own_change(&mut tree.arena, entry.root, entry.own_from, range, |_| Pointer::HOLE)?;
        let growth = (change.after + new_bytes).saturating_sub(change.before);
        if growth == 0 || planted(Fault::LimitNotKept) {
            return Ok(Growth::Fits(None));
        }
        let growing = self.growing.of(id);
        let in_flight = (GROWTH_MAX - growing.available()) as u64;
        if entry.own_bytes.saturating_add(in_flight).saturating_add(growth) > limit {
            return Ok(Growth::Beyond { own: entry.own_bytes, growth });
        }
        Ok(Growth::Fits(growing.try_acquire(usize::try_from(growth).unwrap_or(GROWTH_MAX))))
    }

    /// What it has of its own is only known to be no more than what is counted.
    fn is_uncounted(&self, id: VolumeId) -> bool {
        let tree = self.tree.borrow();
        tree.catalogue.get(id).is_some_and(|entry| entry.written_blocks == WRITTEN_UNKNOWN)
    }

    fn refused_by_limit(&self, id: VolumeId, own: u64, limit: u64) -> Error {
        self.counters.borrow_mut().writes_refused_by_limit += 1;
        let tree = self.tree.borrow();
        let name = tree.catalogue.get(id).map_or_else(String::new, |entry| entry.name.clone());
        let (own, limit) = (ByteCount(own), ByteCount(limit));
        let what = format!("volume {name} is at its limit: it has {own} of its own, {limit} are allowed");
        let action = format!("delete and unmap in it, or `ashlar volume set {name} --limit`");
        Error::new(ErrorKind::NoSpace, what).and_do(action)
    }

    fn limit_of(&self, id: VolumeId) -> Option<u64> {
        noted(&self.tree.borrow().notebook, NoteKind::Limit, id)
    }

    /// Names of volumes whose limit has refused a write, as long as that would be refused still, or they are
    /// not well below it.
    pub(crate) fn volumes_at_limit(&self) -> Vec<String> {
        let tree = self.tree.borrow();
        let mut refused = self.growing.refused.borrow_mut();
        refused.retain(|id, growth| {
            let limit = noted(&tree.notebook, NoteKind::Limit, *id).unwrap_or(u64::MAX);
            let own = tree.catalogue.get(*id).filter(|entry| entry.is_alive_volume());
            own.is_some_and(|entry| {
                entry.own_bytes > limit.saturating_sub((*growth).max(limit / BELOW_FRACTION))
            })
        });
        refused.keys().filter_map(|id| tree.catalogue.get(*id)).map(|entry| entry.name.clone()).collect()
    }

    /// Segments that are kept for volumes, but for this one.
    pub(crate) fn kept_segments(&self, but_for: Option<VolumeId>) -> u64 {
        let tree = self.tree.borrow();
        let notes = tree.notebook.range(NoteKind::Reserve.code(), 0..=u64::MAX);
        let kept = notes.filter(|note| but_for != Some(VolumeId(note.key.subject))).map(|note| {
            let reserve = decode(note.version, &note.value).filter(|_| note.key.part == 0).unwrap_or(0);
            let entry = tree.catalogue.get(VolumeId(note.key.subject));
            // A deleted volume does not grow.
            let entry = entry.filter(|entry| entry.is_alive_volume());
            entry.map_or(0, |entry| reserve.saturating_sub(entry.own_bytes))
        });
        kept.fold(0, u64::saturating_add).div_ceil(self.pool.segment_bytes())
    }

    /// Refuses to keep more than is free. What is kept for this volume already may be kept on.
    pub(crate) fn check_reserve(&self, name: &str, wanted: u64, this: Option<VolumeId>) -> Result<()> {
        let taken = self.reserve_segments() + self.dirty_segments() + self.kept_segments(this);
        let free = self.pool.cells_available().saturating_sub(taken) * self.pool.segment_bytes();
        if wanted <= free {
            return Ok(());
        }
        let (wanted, free) = (ByteCount(wanted), ByteCount(free));
        let what = format!("the reserve of volume {name} needs {wanted} of free space, the pool has {free}");
        Err(Error::new(ErrorKind::NoSpace, what).and_do("reserve less, or delete something first"))
    }
}

/// Bytes that a draft adds to a volume's own, as they are counted when it is applied, or a few more: a chunk
/// that is copied to a region in several runs counts with each.
fn taken_by(draft: &Draft, own_from: u64) -> u64 {
    match draft {
        Draft::Record(Record::Copy { pointer, .. }) if pointer.birth_place() >= own_from => {
            taken_bytes(pointer.length_bytes_max())
        }
        Draft::Record(_) => 0,
        Draft::Chunk(chunk) => {
            let length = (CHUNK_HEADER_BYTES + chunk.payload.len()) as u64;
            taken_bytes(length.next_multiple_of(LENGTH_UNIT_BYTES))
        }
    }
}
