//! The oracle: an independent, naive model of every acknowledged write, and judge of every read.
//!
//! What it demands, per logical block (the unit of atomicity; nothing larger is promised), or per sector
//! of it where hosts write parts of blocks:
//! 1. A read returns the last acknowledged content, or that of a request that was in flight at the
//!    same time as the read or as that last request.
//! 2. After a crash every acknowledged write is there. A request that was in flight is there or not;
//!    once a read has told, it stays so.
//! 3. A snapshot holds everything acknowledged before its request was issued and nothing issued after
//!    its completion. Across the volumes of a group it is one instant: if it holds a write, it holds
//!    every write acknowledged before that one was issued ([`exactness`]).
//! 4. A change of metadata, or a batch of notes, that was in flight at a crash happened wholly or not at all.
//!
//! It shares no code with the engine, knows nothing of segments or journals, and keeps only names,
//! addresses and contents.

mod changes;
mod copies;
mod demand;
mod exactness;
mod image;
mod notes;
mod plausible;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use changes::{CHANGE_KINDS, Change, CloneSource, Listing, NOTES_KIND, clone_names};
pub use image::{Image, OperationId, Run};
pub use notes::{NoteEdit, NoteName, content_of, deleted_name, note_bytes, note_of_creation};

use ashlar_block::{Extent, ExtentKind};

use crate::content::Value;
use changes::{Doubt, Pending};
use copies::Copying;
use exactness::Group;
use image::Candidate;
use notes::Notes;

/// Names an image: a volume's live content or a volume's part of a snapshot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ImageKey {
    /// The volume itself.
    Live(String),
    /// The volume as the snapshot keeps it.
    Frozen {
        /// The snapshot's name.
        snapshot: String,
        /// The volume's name.
        volume: String,
    },
}

impl ImageKey {
    /// The name under which the device is served.
    #[must_use]
    pub fn device_name(&self) -> String {
        match self {
            ImageKey::Live(volume) => volume.clone(),
            ImageKey::Frozen { snapshot, volume } => format!("{volume}@{snapshot}"),
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Acknowledged.
    Done,
    /// Refused with an error that promises nothing was changed.
    Refused,
    /// Failed half way: old or new, until the pool is opened again and a read tells.
    Doubtful,
}

/// A live volume.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Distinguishes volumes that had the same name at different times.
    pub incarnation: u32,
    /// Its content.
    pub image: Image,
    /// What else the whole content may be: an unfinished restore. Tells the restore by number.
    alternative: Option<(u32, Image)>,
    /// The fewest units it had since the pool was opened: requests of before may be told so.
    units_min: u64,
    /// What is noted about it.
    notes: BTreeMap<u16, u64>,
}

impl Volume {
    fn new(incarnation: u32, image: Image) -> Volume {
        let units_min = image.units();
        Volume { incarnation, image, alternative: None, units_min, notes: BTreeMap::new() }
    }
}

/// A snapshot.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Distinguishes snapshots that had the same name at different times.
    number: u32,
    /// Per volume name: the volume's incarnation and its content at the instant.
    pub images: BTreeMap<String, (u32, Image)>,
}

#[derive(Clone, Debug)]
struct Operation {
    volume: u32,
    run: Run,
    value: Value,
    issued_at: u64,
    acknowledged_at: Option<u64>,
    /// Where the volume ended for a while, when it became smaller while this was in flight.
    cut_at: Option<u64>,
}

impl Operation {
    /// An operation that is issued now.
    fn issued(volume: u32, run: Run, value: Value, issued_at: u64) -> Operation {
        Operation { volume, run, value, issued_at, acknowledged_at: None, cut_at: None }
    }
}

#[derive(Clone, Debug)]
struct Reading {
    key: ImageKey,
    /// Which volume or snapshot of that name.
    number: u32,
    run: Run,
    before: Image,
    flying: Vec<(Run, Value)>,
    /// Contents that a restore in flight meanwhile may put there.
    alternatives: Vec<Image>,
}

impl Reading {
    /// Judges bytes of a part of the run.
    fn compare(&self, run: Run, bytes: &[u8]) -> Result<Vec<Value>, String> {
        if self.alternatives.is_empty() {
            return self.before.compare(run, bytes, &self.flying);
        }
        // The read may fall before or behind the restore, block by block.
        let unit_bytes = self.before.unit_bytes as usize;
        let mut seen = Vec::new();
        for (unit, bytes) in (run.first..).zip(bytes.chunks_exact(unit_bytes)) {
            let unit = Run { first: unit, count: 1 };
            let old = self.before.compare(unit, bytes, &self.flying);
            let new = self.alternatives.iter().find_map(|new| new.compare(unit, bytes, &self.flying).ok());
            seen.extend(new.map_or(old, Ok)?);
        }
        Ok(seen)
    }
}

/// Names a read in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReadId(u32);

/// The model.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// No unit is larger.
    unit_bytes_max: u32,
    clock: u64,
    life: u32,
    incarnations: u32,
    operations: Vec<Operation>,
    volumes: BTreeMap<String, Volume>,
    /// Deleted volumes that may come back, by the names they had: one of a name.
    deleted: BTreeMap<String, Volume>,
    snapshots: BTreeMap<String, Snapshot>,
    /// Writes in flight, each with its volume's name and incarnation: the volume may be deleted and
    /// its name used again meanwhile.
    flying: BTreeMap<OperationId, (String, u32)>,
    pending: BTreeMap<u32, Pending>,
    copying: Option<Copying>,
    /// When something that may give space back was acknowledged last.
    given_back_at: u64,
    reads: BTreeMap<ReadId, Reading>,
    doubts: Vec<Doubt>,
    fork_outcomes: BTreeMap<u32, bool>,
    groups: Vec<Group>,
    notes: Notes,
    /// Whose bytes any volume of this name ever held: a pool that lost its latest changes to a lying
    /// drive may be back at an earlier volume of the name.
    lineages: BTreeMap<String, BTreeSet<u32>>,
    numbers: u32,
}

impl Default for Oracle {
    fn default() -> Self {
        Oracle::new(u32::MAX)
    }
}

impl Oracle {
    /// The model of an empty pool. Its units are logical blocks, but no larger than this.
    #[must_use]
    pub fn new(unit_bytes_max: u32) -> Oracle {
        let beginning = Operation {
            acknowledged_at: Some(0),
            ..Operation::issued(0, Run { first: 0, count: 0 }, Value::ZERO, 0)
        };
        Oracle {
            unit_bytes_max,
            clock: 1,
            life: 1,
            incarnations: 0,
            operations: vec![beginning],
            volumes: BTreeMap::new(),
            deleted: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            flying: BTreeMap::new(),
            pending: BTreeMap::new(),
            copying: None,
            given_back_at: 0,
            reads: BTreeMap::new(),
            doubts: Vec::new(),
            fork_outcomes: BTreeMap::new(),
            groups: Vec::new(),
            notes: Notes::default(),
            lineages: BTreeMap::new(),
            numbers: 0,
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// The live volumes.
    #[must_use]
    pub fn volumes(&self) -> &BTreeMap<String, Volume> {
        &self.volumes
    }

    /// Deleted volumes that may come back.
    #[must_use]
    pub fn deleted(&self) -> &BTreeMap<String, Volume> {
        &self.deleted
    }

    /// The snapshots.
    #[must_use]
    pub fn snapshots(&self) -> &BTreeMap<String, Snapshot> {
        &self.snapshots
    }

    /// The number the next write will have: what its content is made from.
    #[must_use]
    pub fn next_write_number(&self) -> u32 {
        self.operations.len() as u32
    }

    /// The image of this name, if it exists for sure.
    #[must_use]
    pub fn image(&self, key: &ImageKey) -> Option<&Image> {
        match key {
            ImageKey::Live(volume) => self.volumes.get(volume).map(|volume| &volume.image),
            ImageKey::Frozen { snapshot, volume } => {
                self.snapshots.get(snapshot)?.images.get(volume).map(|(_, image)| image)
            }
        }
    }

    /// Tells images apart that had the same name at different times.
    fn image_number(&self, key: &ImageKey) -> Option<u32> {
        Some(match key {
            ImageKey::Live(name) => self.volumes.get(name)?.incarnation,
            ImageKey::Frozen { snapshot, .. } => self.snapshots.get(snapshot)?.number,
        })
    }

    fn image_mut(&mut self, key: &ImageKey) -> Option<&mut Image> {
        match key {
            ImageKey::Live(volume) => self.volumes.get_mut(volume).map(|volume| &mut volume.image),
            ImageKey::Frozen { snapshot, volume } => {
                self.snapshots.get_mut(snapshot)?.images.get_mut(volume).map(|(_, image)| image)
            }
        }
    }

    /// Every image that exists for sure.
    #[must_use]
    pub fn image_keys(&self) -> Vec<ImageKey> {
        let live = self.volumes.keys().map(|name| ImageKey::Live(name.clone()));
        let frozen = self.snapshots.iter().flat_map(|(snapshot, known)| {
            known
                .images
                .keys()
                .map(|volume| ImageKey::Frozen { snapshot: snapshot.clone(), volume: volume.clone() })
        });
        live.chain(frozen).collect()
    }

    /// A write (or, with [`Value::ZERO`], an unmap or write-zeroes) is issued to a live volume.
    pub fn write_begin(&mut self, volume: &str, run: Run, value: Value) -> OperationId {
        let issued_at = self.tick();
        let id = OperationId(self.operations.len() as u32);
        let incarnation = self.volumes[volume].incarnation;
        self.operations.push(Operation::issued(incarnation, run, value, issued_at));
        self.flying.insert(id, (volume.to_string(), incarnation));
        for pending in self.pending.values_mut() {
            pending.watch(incarnation, id);
        }
        for reading in self.reads.values_mut() {
            let is_same = reading.number == incarnation
                && matches!(&reading.key, ImageKey::Live(name) if name == volume);
            if is_same && reading.run.overlaps(run) {
                reading.flying.push((run, value));
            }
        }
        self.note_written_beside(incarnation, run, value);
        id
    }

    /// True when this run ends within a block in which another write is on its way.
    #[must_use]
    pub fn is_part_beside_another(&self, volume: &str, run: Run) -> bool {
        let Some(Volume { image, .. }) = self.volumes.get(volume) else { return false };
        let units = demand::BLOCK_BYTES / u64::from(image.unit_bytes);
        let whole = Run { first: run.first / units * units, count: 0 };
        let whole = Run { count: run.end().next_multiple_of(units) - whole.first, ..whole };
        let mut flying = self.flying.iter().filter(|(_, (name, _))| name == volume);
        whole != run && flying.any(|(id, _)| self.operations[id.0 as usize].run.overlaps(whole))
    }

    /// The write's end.
    pub fn write_end(&mut self, id: OperationId, outcome: Outcome) {
        let now = self.tick();
        let (volume, incarnation) = self.flying.remove(&id).expect("a write ends once");
        match outcome {
            Outcome::Refused => {}
            // Its volume was deleted meanwhile.
            Outcome::Doubtful | Outcome::Done if !self.is_alive(&volume, incarnation) => {}
            Outcome::Doubtful => self.leave_doubtful(id, &volume, now),
            Outcome::Done => self.settle(id, &volume, now),
        }
    }

    /// True while the volume of this name is this one.
    #[must_use]
    pub fn is_alive(&self, volume: &str, incarnation: u32) -> bool {
        self.volumes.get(volume).is_some_and(|known| known.incarnation == incarnation)
    }

    /// True while a delete of this volume is in flight.
    #[must_use]
    pub fn is_being_deleted(&self, volume: &str) -> bool {
        self.pending.values().any(|pending| pending.deletes(volume))
    }

    /// True while a run of this volume may rightly be called out of range: a restore or a resize made the
    /// volume smaller while the request was on its way, or may have.
    #[must_use]
    pub fn may_be_out_of_range(&self, volume: &str, run: Run) -> bool {
        let end = run.first + run.count;
        let Some(known) = self.volumes.get(volume) else { return true };
        let end_bytes = end * u64::from(known.image.unit_bytes);
        known.image.units().min(known.units_min) < end
            || self.pending.values().any(|pending| pending.cuts_below(volume, end_bytes))
    }

    fn settle(&mut self, id: OperationId, volume: &str, now: u64) {
        let rivals: Vec<Run> = self
            .flying
            .iter()
            .filter(|(_, (name, _))| *name == volume)
            .map(|(rival, _)| &self.operations[rival.0 as usize])
            // Of zeroes beside zeroes nothing has to be remembered, and such runs may be huge.
            .filter(|rival| rival.value != Value::ZERO)
            .map(|rival| rival.run)
            .collect();
        let operation = &mut self.operations[id.0 as usize];
        operation.acknowledged_at = Some(now);
        let (run, value, issued_at) = (operation.run, operation.value, operation.issued_at);
        let cut_at = operation.cut_at;
        if value == Value::ZERO {
            self.given_back_at = now;
        }
        let image = &mut self.volumes.get_mut(volume).expect("writes keep their volume alive").image;
        let new = Candidate { value, operation: id, settled_at: now, doubtful_in_life: 0 };
        // What lay beyond the end for a while was cut off, or written when the end was behind it again.
        let run = run.up_to(image.units());
        let cut_off = cut_at.map_or(Run { first: run.end(), count: 0 }, |end| run.from(end));
        image.change(cut_off, value == Value::ZERO, |cell| cell.add(new));
        let run = run.up_to(cut_off.first);
        if value == Value::ZERO {
            for rival in rivals.into_iter().filter(|rival| rival.overlaps(run)) {
                image.touch(rival.intersection(run));
            }
        }
        image.change(run, value == Value::ZERO, |cell| cell.settle(new, issued_at));
    }

    fn leave_doubtful(&mut self, id: OperationId, volume: &str, now: u64) {
        let operation = &self.operations[id.0 as usize];
        let (run, value) = (operation.run, operation.value);
        let new = Candidate { value, operation: id, settled_at: now, doubtful_in_life: self.life };
        if let Some(Volume { image, .. }) = self.volumes.get_mut(volume) {
            image.change(run.up_to(image.units()), value == Value::ZERO, |cell| cell.add(new));
        }
    }

    /// A read is issued.
    pub fn read_begin(&mut self, key: &ImageKey, run: Run) -> ReadId {
        let before = self.image(key).expect("reads are issued to images that exist").excerpt(run);
        let flying = match key {
            ImageKey::Frozen { .. } => Vec::new(),
            ImageKey::Live(volume) => self
                .flying
                .iter()
                .filter(|(_, (name, _))| name == volume)
                .map(|(id, _)| &self.operations[id.0 as usize])
                .filter(|operation| operation.run.overlaps(run))
                .map(|operation| (operation.run, operation.value))
                .collect(),
        };
        let id = ReadId(self.number());
        let number = self.image_number(key).expect("it exists, see above");
        let mut reading = Reading { key: key.clone(), number, run, before, flying, alternatives: Vec::new() };
        for pending in self.pending.values() {
            reading.alternatives.extend(pending.replaces(key, run, &reading.before));
        }
        self.reads.insert(id, reading);
        id
    }

    /// The read returned these bytes: judges them, and fixes what they tell.
    pub fn read_end(&mut self, id: ReadId, bytes: &[u8]) -> Result<(), String> {
        let reading = self.reads.remove(&id).expect("a read ends once");
        let seen = reading
            .compare(reading.run, bytes)
            .map_err(|wrong| format!("{}: {wrong}", reading.key.device_name()))?;
        let life = self.life;
        if !reading.alternatives.is_empty() || self.image_number(&reading.key) != Some(reading.number) {
            return Ok(());
        }
        if let Some(image) = self.image_mut(&reading.key) {
            image.observe(reading.run, &seen, life, |unit| {
                !reading.flying.iter().any(|(run, _)| run.contains(unit))
            });
        }
        Ok(())
    }

    /// The device told what backs the range: holes and zeroes must read as zeroes.
    pub fn extents_end(&mut self, id: ReadId, extents: &[Extent]) -> Result<(), String> {
        let reading = self.reads.remove(&id).expect("a read ends once");
        let name = reading.key.device_name();
        let unit_bytes = u64::from(reading.before.unit_bytes);
        if extents.is_empty() {
            return Err(format!("{name}: no extent for block {}", reading.run.first));
        }
        let mut offset = reading.run.first * unit_bytes;
        for extent in extents {
            let end = offset + extent.length_bytes;
            if extent.length_bytes == 0 || end > reading.run.end() * unit_bytes {
                return Err(format!("{name}: extent {extent:?} at {offset} does not fit the request"));
            }
            if extent.kind != ExtentKind::Data {
                // Blocks that are wholly inside; an extent need not end at a logical block.
                let first = offset.div_ceil(unit_bytes);
                let run = Run { first, count: (end / unit_bytes).saturating_sub(first) };
                let zeroes = vec![0; (run.count * unit_bytes) as usize];
                let seen = reading.compare(run, &zeroes);
                seen.map_err(|wrong| format!("{name}: {extent:?} at {offset}: {wrong}"))?;
            }
            offset = end;
        }
        Ok(())
    }

    /// The read failed: it tells nothing.
    pub fn read_abandon(&mut self, id: ReadId) {
        self.reads.remove(&id);
    }

    /// The pool stopped, by a crash or by a clean close: whatever was in flight is in doubt now.
    pub fn stop(&mut self) {
        let now = self.tick();
        self.reads.clear();
        self.copying = None;
        // Writes first: an unfinished restore keeps what was written beside it.
        for (id, (volume, incarnation)) in std::mem::take(&mut self.flying) {
            if self.is_alive(&volume, incarnation) {
                self.leave_doubtful(id, &volume, now);
            }
        }
        for (_, pending) in std::mem::take(&mut self.pending) {
            let doubt = self.doubt_of(pending, now);
            self.doubts.push(doubt);
        }
        self.notes.stop();
        self.life += 1;
    }

    /// True while a change of metadata is in flight.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        !self.pending.is_empty() || self.notes.is_changing()
    }

    /// True when an unfinished restore leaves two contents possible for this volume as a whole.
    #[must_use]
    pub fn is_forked(&self, key: &ImageKey) -> bool {
        matches!(key, ImageKey::Live(name) if self.volumes[name].alternative.is_some())
    }

    /// True while it is open for some volume which of two contents it has.
    #[must_use]
    pub fn has_forks(&self) -> bool {
        self.volumes.values().any(|volume| volume.alternative.is_some())
    }

    /// The runs a full comparison of the image must read: everything that was ever written.
    #[must_use]
    pub fn runs_to_verify(&self, key: &ImageKey) -> Vec<Run> {
        let mut runs = self.image(key).map(Image::written_runs).unwrap_or_default();
        if let ImageKey::Live(name) = key
            && let Some((_, other)) = &self.volumes[name].alternative
        {
            runs.extend(other.written_runs());
        }
        runs
    }

    /// Decides from a full read which of a forked volume's two contents is the true one.
    pub fn resolve_fork(&mut self, name: &str, pieces: &[(Run, Vec<u8>)]) -> Result<(), String> {
        let life = self.life;
        let volume = self.volumes.get_mut(name).expect("the volume exists");
        let Some((fork, other)) = volume.alternative.take() else { return Ok(()) };
        let compare = |image: &Image| -> Result<(), String> {
            for (run, bytes) in pieces.iter().filter(|(run, _)| run.end() <= image.units()) {
                image.compare(*run, bytes, &[])?;
            }
            Ok(())
        };
        let (old, new) = (compare(&volume.image), compare(&other));
        let is_new = match (&old, &new) {
            (Err(old), Err(new)) => {
                return Err(format!("{name}: neither content of an unfinished restore: {old}; {new}"));
            }
            (Ok(()), Ok(())) => None,
            (Ok(()), Err(_)) => Some(false),
            (Err(_), Ok(())) => Some(true),
        };
        // Where both fit, the volume's partners in the group decide.
        let known = self.fork_outcomes.get(&fork).copied();
        if let (Some(known), Some(is_new)) = (known, is_new)
            && known != is_new
        {
            return Err(changes::half_restore(name));
        }
        if let Some(is_new) = is_new {
            self.fork_outcomes.insert(fork, is_new);
        }
        if is_new.or(known).unwrap_or(false) {
            volume.image = other;
        }
        for (run, bytes) in pieces {
            if run.end() <= volume.image.units() {
                let seen = volume.image.compare(*run, bytes, &[])?;
                volume.image.observe(*run, &seen, life, |_| true);
            }
        }
        Ok(())
    }
}
