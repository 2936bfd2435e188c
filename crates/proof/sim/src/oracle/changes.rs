//! Changes of metadata in the model: what each will leave behind, and what a crash leaves in doubt.

use std::collections::{BTreeMap, BTreeSet};

use super::exactness::{Group, Taken};
use super::image::Candidate;
use super::{
    Image, ImageKey, NoteName, Operation, OperationId, Oracle, Outcome, Run, Snapshot, Volume,
    note_of_creation,
};
use crate::content::Value;

/// Where a clone comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CloneSource {
    /// A snapshot; of several volumes: one clone each.
    Snapshot(String),
    /// One volume of a snapshot.
    SnapshotVolume {
        /// The snapshot.
        snapshot: String,
        /// The volume.
        volume: String,
    },
    /// A live volume, as it is at this instant.
    Volume(String),
}

/// A change of metadata, as it is requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A new empty volume.
    VolumeCreate { name: String, size_bytes: u64, unit_bytes: u32 },
    /// The volume goes.
    VolumeDelete { name: String },
    /// Grow or shrink.
    VolumeResize { name: String, size_bytes: u64 },
    /// One instant of several volumes.
    SnapshotCreate { name: String, volumes: Vec<String> },
    /// The snapshot goes.
    SnapshotDelete { name: String },
    /// Its volumes become again what they were.
    SnapshotRestore { name: String },
    /// Writable copies.
    Clone { name: String, source: CloneSource },
    /// The volume goes, and may come back.
    VolumeSetAside { name: String },
    /// It comes back.
    VolumeUndelete { name: String },
    /// It cannot come back any more.
    DeletedGiveUp { name: String },
    /// A restore that keeps what was there before in a snapshot.
    RestoreKeeping { name: String, backup: String },
}

/// How many kinds of changes there are, batches of notes included.
pub const CHANGE_KINDS: usize = 12;
/// Batches of notes, the last of them.
pub const NOTES_KIND: usize = 11;

impl Change {
    /// The kind's number, below [`CHANGE_KINDS`].
    #[must_use]
    pub fn kind(&self) -> usize {
        match self {
            Change::VolumeCreate { .. } => 0,
            Change::VolumeDelete { .. } => 1,
            Change::VolumeResize { .. } => 2,
            Change::SnapshotCreate { .. } => 3,
            Change::SnapshotDelete { .. } => 4,
            Change::SnapshotRestore { .. } => 5,
            Change::Clone { .. } => 6,
            Change::VolumeSetAside { .. } => 7,
            Change::VolumeUndelete { .. } => 8,
            Change::DeletedGiveUp { .. } => 9,
            Change::RestoreKeeping { .. } => 10,
        }
    }
}

/// What the change leaves behind if it happens.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    AddVolumes(Vec<(String, Volume)>),
    RemoveVolume(String),
    Resize(String, u64),
    AddSnapshot(String, Snapshot),
    RemoveSnapshot(String),
    Replace(Vec<(String, Image)>),
    SetAside(String),
    BringBack(String),
    GiveUp(String),
    /// Nothing is written to the volumes meanwhile.
    ReplaceKeeping(Vec<(String, Image)>, String, Snapshot),
}

impl Effect {
    /// What it makes of a run of a volume.
    fn replaces(&self, volume: &str, run: Run, before: &Image) -> Option<Image> {
        match self {
            Effect::Replace(images) | Effect::ReplaceKeeping(images, ..) => {
                images.iter().find(|(name, _)| name == volume).map(|(_, image)| image.excerpt(run))
            }
            Effect::Resize(name, size_bytes) if name == volume && *size_bytes < before.size_bytes => {
                let mut cut = before.clone();
                cut.resize(*size_bytes);
                Some(cut)
            }
            Effect::Resize(..)
            | Effect::AddVolumes(_)
            | Effect::RemoveVolume(_)
            | Effect::AddSnapshot(..)
            | Effect::RemoveSnapshot(_)
            | Effect::SetAside(_)
            | Effect::BringBack(_)
            | Effect::GiveUp(_) => None,
        }
    }
}

/// A change in flight.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) effect: Effect,
    /// The volumes whose image is taken, and the writes that were in flight meanwhile.
    watched: BTreeSet<u32>,
    writes: Vec<OperationId>,
    /// The change as an operation, for what it settles: a restore writes the whole volume.
    operation: OperationId,
}

impl Pending {
    /// True for a delete of this volume.
    pub(super) fn deletes(&self, volume: &str) -> bool {
        matches!(&self.effect, Effect::RemoveVolume(name) | Effect::SetAside(name) if name == volume)
    }

    /// What a restore or resize in flight may make of a run of an image, of which this is the content
    /// before.
    pub(super) fn replaces(&self, key: &ImageKey, run: Run, before: &Image) -> Option<Image> {
        let ImageKey::Live(volume) = key else { return None };
        self.effect.replaces(volume, run, before)
    }

    /// True for a restore or resize of this volume that ends before this many bytes.
    pub(super) fn cuts_below(&self, volume: &str, end_bytes: u64) -> bool {
        match &self.effect {
            Effect::Replace(images) | Effect::ReplaceKeeping(images, ..) => {
                images.iter().any(|(name, image)| name == volume && image.size_bytes < end_bytes)
            }
            Effect::Resize(name, size_bytes) => name == volume && *size_bytes < end_bytes,
            Effect::AddVolumes(_)
            | Effect::RemoveVolume(_)
            | Effect::AddSnapshot(..)
            | Effect::RemoveSnapshot(_)
            | Effect::SetAside(_)
            | Effect::BringBack(_)
            | Effect::GiveUp(_) => false,
        }
    }

    /// A write is issued while the change is in flight.
    pub(super) fn watch(&mut self, volume: u32, write: OperationId) {
        if self.watched.contains(&volume) {
            self.writes.push(write);
        }
    }
}

/// A change of which nobody knows yet whether it happened.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    effect: Effect,
    group: Option<Group>,
}

/// What the pool says it holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// Name, size in bytes, logical block in bytes.
    pub volumes: BTreeMap<String, (u64, u32)>,
    /// The same of deleted volumes that may come back, by the names they had.
    pub deleted: BTreeMap<String, (u64, u32)>,
    /// Name and the volumes in it, sorted.
    pub snapshots: BTreeMap<String, Vec<String>>,
    /// Notes and their contents, if it keeps any.
    pub notes: Option<BTreeMap<NoteName, u64>>,
}

/// Names the clones of a snapshot will have, each with its volume in the snapshot.
#[must_use]
pub fn clone_names(name: &str, volumes: &[String]) -> Vec<(String, String)> {
    match volumes {
        [one] => vec![(name.to_string(), one.clone())],
        many => many.iter().map(|volume| (format!("{name}-{volume}"), volume.clone())).collect(),
    }
}

impl Oracle {
    /// A change is issued. The caller keeps requests away from what the change destroys or replaces.
    pub fn change_begin(&mut self, change: &Change) -> u32 {
        let operation = self.change_operation();
        let mut watched = BTreeSet::new();
        let effect = match change {
            Change::VolumeCreate { name, size_bytes, unit_bytes } => {
                let incarnation = self.incarnation();
                let unit = (*unit_bytes).min(self.unit_bytes_max);
                let mut volume =
                    Volume::new(incarnation, Image::new(unit, *unit_bytes, *size_bytes, incarnation));
                volume.notes = note_of_creation(name, *size_bytes).into_iter().collect();
                Effect::AddVolumes(vec![(name.clone(), volume)])
            }
            Change::VolumeDelete { name } => Effect::RemoveVolume(name.clone()),
            Change::VolumeResize { name, size_bytes } => Effect::Resize(name.clone(), *size_bytes),
            Change::SnapshotCreate { name, volumes } => {
                let known = volumes.iter().map(|name| (name, &self.volumes[name]));
                watched.extend(known.clone().map(|(_, volume)| volume.incarnation));
                let images = known
                    .map(|(name, volume)| (name.clone(), (volume.incarnation, volume.image.clone())))
                    .collect();
                let number = self.number();
                Effect::AddSnapshot(name.clone(), Snapshot { number, images })
            }
            Change::SnapshotDelete { name } => Effect::RemoveSnapshot(name.clone()),
            Change::SnapshotRestore { name } => {
                let images = self.snapshots[name].images.iter();
                Effect::Replace(images.map(|(name, (_, image))| (name.clone(), image.clone())).collect())
            }
            Change::Clone { name, source } => {
                if let CloneSource::Volume(volume) = source {
                    watched.insert(self.volumes[volume].incarnation);
                }
                Effect::AddVolumes(self.clones(name, source))
            }
            Change::VolumeSetAside { name } => Effect::SetAside(name.clone()),
            Change::VolumeUndelete { name } => Effect::BringBack(name.clone()),
            Change::DeletedGiveUp { name } => Effect::GiveUp(name.clone()),
            Change::RestoreKeeping { name, backup } => {
                let images = self.snapshots[name].images.iter();
                let images: Vec<(String, Image)> =
                    images.map(|(name, (_, image))| (name.clone(), image.clone())).collect();
                let number = self.number();
                let kept = images.iter().map(|(name, _)| (name.clone(), &self.volumes[name]));
                let kept = kept.map(|(name, volume)| (name, (volume.incarnation, volume.image.clone())));
                let kept = Snapshot { number, images: kept.collect() };
                Effect::ReplaceKeeping(images, backup.clone(), kept)
            }
        };
        if let Effect::AddVolumes(volumes) = &effect {
            for (name, volume) in volumes {
                let known = self.lineages.entry(name.clone()).or_default();
                known.extend(volume.image.lineage.iter().copied());
            }
        }
        let flying = self.flying.keys().copied();
        let writes = flying.filter(|id| watched.contains(&self.operations[id.0 as usize].volume)).collect();
        let id = self.number();
        for reading in self.reads.values_mut() {
            if let ImageKey::Live(volume) = &reading.key {
                reading.alternatives.extend(effect.replaces(volume, reading.run, &reading.before));
            }
        }
        self.pending.insert(id, Pending { effect, watched, writes, operation });
        id
    }

    fn change_operation(&mut self) -> OperationId {
        let issued_at = self.tick();
        self.operations.push(Operation::issued(0, Run { first: 0, count: 0 }, Value::ZERO, issued_at));
        OperationId(self.operations.len() as u32 - 1)
    }

    fn incarnation(&mut self) -> u32 {
        self.incarnations += 1;
        self.incarnations
    }

    fn clones(&mut self, name: &str, source: &CloneSource) -> Vec<(String, Volume)> {
        let sources: Vec<(String, Image)> = match source {
            CloneSource::Volume(volume) => vec![(name.to_string(), self.volumes[volume].image.clone())],
            CloneSource::SnapshotVolume { snapshot, volume } => {
                vec![(name.to_string(), self.snapshots[snapshot].images[volume].1.clone())]
            }
            CloneSource::Snapshot(snapshot) => {
                let images = &self.snapshots[snapshot].images;
                let volumes: Vec<String> = images.keys().cloned().collect();
                let names = clone_names(name, &volumes).into_iter();
                names.map(|(clone, volume)| (clone, images[&volume].1.clone())).collect()
            }
        };
        let clone = |(name, image): (String, Image)| {
            let incarnation = self.incarnation();
            (name, Volume::new(incarnation, image.descend(incarnation)))
        };
        sources.into_iter().map(clone).collect()
    }

    /// The change's end.
    pub fn change_end(&mut self, id: u32, outcome: Outcome) -> Result<(), String> {
        let now = self.tick();
        if outcome == Outcome::Doubtful {
            // As good as in flight until the pool stops.
            return Ok(());
        }
        let pending = self.pending.remove(&id).expect("a change ends once");
        match outcome {
            Outcome::Refused | Outcome::Doubtful => Ok(()),
            Outcome::Done => {
                self.given_back_at = now;
                let doubt = self.doubt_of(pending, now);
                self.happen(doubt)
            }
        }
    }

    /// The final form of a change's effect: images taken under writes get what these writes may have
    /// put there.
    pub(super) fn doubt_of(&mut self, pending: Pending, now: u64) -> Doubt {
        let Pending { mut effect, writes, watched, operation } = pending;
        self.operations[operation.0 as usize].acknowledged_at = Some(now);
        if let Effect::Replace(images) | Effect::ReplaceKeeping(images, ..) = &mut effect {
            let issued_at = self.operations[operation.0 as usize].issued_at;
            for (name, image) in images {
                let Some(volume) = self.volumes.get(name) else { continue };
                // Writes still in flight must find restored zeroes recorded as such.
                for (write, _) in self.flying.iter().filter(|(_, (flying, _))| flying == name) {
                    let write = &self.operations[write.0 as usize];
                    if write.value != Value::ZERO {
                        image.touch(write.run.up_to(image.units()));
                    }
                }
                image.become_restored(&volume.image, operation, issued_at, now);
            }
        }
        let mut taken: Vec<Taken> = Vec::new();
        let images: Vec<(u32, &mut Image)> = match &mut effect {
            Effect::AddSnapshot(name, snapshot) => {
                let number = snapshot.number;
                let images = snapshot.images.iter_mut().map(|(volume, (incarnation, image))| {
                    let key = ImageKey::Frozen { snapshot: name.clone(), volume: volume.clone() };
                    taken.push(Taken { key, number, volume: *incarnation });
                    (*incarnation, image)
                });
                images.collect()
            }
            Effect::AddVolumes(volumes) => {
                // A clone of a live volume watches just that; others watch nothing.
                let source = watched.iter().next().copied().unwrap_or_default();
                let images = volumes.iter_mut().map(|(name, volume)| {
                    let (key, number) = (ImageKey::Live(name.clone()), volume.incarnation);
                    taken.push(Taken { key, number, volume: source });
                    (source, &mut volume.image)
                });
                images.collect()
            }
            Effect::RemoveVolume(_)
            | Effect::Resize(..)
            | Effect::RemoveSnapshot(_)
            | Effect::Replace(_)
            | Effect::SetAside(_)
            | Effect::BringBack(_)
            | Effect::GiveUp(_)
            | Effect::ReplaceKeeping(..) => Vec::new(),
        };
        for (volume, image) in images {
            let writes = || {
                let operations = writes.iter().map(|id| (*id, &self.operations[id.0 as usize]));
                operations.filter(|(_, operation)| operation.volume == volume)
            };
            for (_, operation) in writes().filter(|(_, operation)| operation.value != Value::ZERO) {
                image.touch(operation.run.up_to(image.units()));
            }
            for (id, operation) in writes() {
                let new =
                    Candidate { value: operation.value, operation: id, settled_at: now, doubtful_in_life: 0 };
                let run = operation.run.up_to(image.units());
                image.change(run, operation.value == Value::ZERO, |cell| cell.add(new));
            }
        }
        // Of a write that was cut off nothing need be there, whenever it came.
        let mut writes = writes;
        writes.retain(|id| self.operations[id.0 as usize].cut_at.is_none());
        let group = (!writes.is_empty()).then_some(Group { images: taken, writes });
        Doubt { effect, group }
    }

    fn happen(&mut self, doubt: Doubt) -> Result<(), String> {
        match doubt.effect {
            Effect::AddVolumes(volumes) => {
                for (name, volume) in volumes {
                    if self.volumes.insert(name.clone(), volume).is_some() {
                        return Err(format!("volume {name} was created although the name was taken"));
                    }
                }
            }
            Effect::RemoveVolume(name) => drop(self.volumes.remove(&name)),
            Effect::Resize(name, size_bytes) => {
                let volume = self.volumes.get_mut(&name).expect("a resized volume is kept alive");
                volume.image.resize(size_bytes);
                let end = volume.image.units();
                volume.units_min = volume.units_min.min(end);
                for (id, _) in self.flying.iter().filter(|(_, (flying, _))| *flying == name) {
                    let operation = &mut self.operations[id.0 as usize];
                    if operation.run.end() > end {
                        operation.cut_at = Some(operation.cut_at.map_or(end, |before| before.min(end)));
                    }
                }
            }
            Effect::AddSnapshot(name, snapshot) => self.keep_snapshot(name, snapshot)?,
            Effect::RemoveSnapshot(name) => drop(self.snapshots.remove(&name)),
            Effect::Replace(images) => self.replace(images),
            Effect::ReplaceKeeping(images, backup, kept) => {
                self.keep_snapshot(backup, kept)?;
                self.replace(images);
            }
            Effect::SetAside(name) => {
                let volume = self.volumes.remove(&name).expect("a deleted volume was alive");
                if self.deleted.insert(name.clone(), volume).is_some() {
                    return Err(format!("two deleted volumes {name}: the tester made a mistake"));
                }
            }
            Effect::BringBack(name) => {
                let volume = self.deleted.remove(&name).expect("it was deleted");
                if self.volumes.insert(name.clone(), volume).is_some() {
                    return Err(format!("volume {name} came back although the name was taken"));
                }
            }
            Effect::GiveUp(name) => drop(self.deleted.remove(&name)),
        }
        self.groups.extend(doubt.group);
        Ok(())
    }

    fn keep_snapshot(&mut self, name: String, snapshot: Snapshot) -> Result<(), String> {
        match self.snapshots.insert(name.clone(), snapshot) {
            None => Ok(()),
            Some(_) => Err(format!("snapshot {name} was created although the name was taken")),
        }
    }

    fn replace(&mut self, images: Vec<(String, Image)>) {
        for (name, image) in images {
            self.volumes.get_mut(&name).expect("a restored volume is kept alive").image = image;
        }
    }

    /// True while nothing is on its way to a volume, or left there in doubt.
    #[must_use]
    pub fn is_quiet(&self, volume: &str) -> bool {
        let is_whole = self.volumes.get(volume).is_some_and(|known| known.alternative.is_none());
        is_whole && self.flying.values().all(|(name, _)| name != volume)
    }

    /// Compares what the pool says it holds after a start with what it may hold, and settles the
    /// changes that were in doubt.
    pub fn reconcile(&mut self, listing: &Listing) -> Result<(), String> {
        for doubt in std::mem::take(&mut self.doubts) {
            self.settle_doubt(doubt, listing)?;
        }
        let expected: BTreeSet<&String> = self.volumes.keys().collect();
        let found: BTreeSet<&String> = listing.volumes.keys().collect();
        differ("volume", &expected, &found)?;
        for (name, (size_bytes, unit_bytes)) in &listing.volumes {
            let volume = self.volumes.get_mut(name).expect("the sets are equal");
            if let Some((fork, other)) = &volume.alternative
                && other.size_bytes != volume.image.size_bytes
            {
                // The size tells which of the two contents it is.
                let is_new = other.size_bytes == *size_bytes;
                if *self.fork_outcomes.entry(*fork).or_insert(is_new) != is_new {
                    return Err(half_restore(name));
                }
                if is_new {
                    volume.image = other.clone();
                }
                volume.alternative = None;
            }
            volume.units_min = volume.image.units();
            let image = &volume.image;
            if (image.size_bytes, image.block_bytes) != (*size_bytes, *unit_bytes) {
                return Err(format!(
                    "volume {name} has {size_bytes} bytes in blocks of {unit_bytes}, expected {} and {}",
                    image.size_bytes, image.block_bytes
                ));
            }
        }
        let expected: BTreeSet<&String> = self.deleted.keys().collect();
        let found: BTreeSet<&String> = listing.deleted.keys().collect();
        differ("deleted volume", &expected, &found)?;
        for (name, found) in &listing.deleted {
            let image = &self.deleted[name].image;
            let expected = (image.size_bytes, image.block_bytes);
            if expected != *found {
                return Err(format!("deleted volume {name} is {found:?}, expected {expected:?}"));
            }
        }
        let expected: BTreeSet<&String> = self.snapshots.keys().collect();
        let found: BTreeSet<&String> = listing.snapshots.keys().collect();
        differ("snapshot", &expected, &found)?;
        for (name, volumes) in &listing.snapshots {
            let expected: Vec<String> = self.snapshots[name].images.keys().cloned().collect();
            if expected != *volumes {
                return Err(format!("snapshot {name} holds {volumes:?}, expected {expected:?}"));
            }
        }
        listing.notes.as_ref().map_or(Ok(()), |notes| self.reconcile_notes(notes))
    }

    fn settle_doubt(&mut self, doubt: Doubt, listing: &Listing) -> Result<(), String> {
        let has_happened = match &doubt.effect {
            Effect::AddVolumes(volumes) => {
                let present = volumes.iter().filter(|(name, _)| listing.volumes.contains_key(name)).count();
                if present != 0 && present != volumes.len() {
                    let names: Vec<&String> = volumes.iter().map(|(name, _)| name).collect();
                    return Err(format!("a clone of several volumes happened in part: {names:?}"));
                }
                present > 0
            }
            Effect::RemoveVolume(name) => !listing.volumes.contains_key(name),
            Effect::Resize(name, size_bytes) => {
                listing.volumes.get(name).is_some_and(|(found, _)| found == size_bytes)
            }
            Effect::SetAside(name) => {
                let (is_alive, is_deleted) =
                    (listing.volumes.contains_key(name), listing.deleted.contains_key(name));
                if is_alive == is_deleted {
                    return Err(format!("volume {name} was deleted in part: {is_alive}, {is_deleted}"));
                }
                is_deleted
            }
            Effect::BringBack(name) => listing.volumes.contains_key(name),
            Effect::GiveUp(name) => !listing.deleted.contains_key(name),
            Effect::ReplaceKeeping(_, backup, _) => listing.snapshots.contains_key(backup),
            Effect::AddSnapshot(name, _) => listing.snapshots.contains_key(name),
            Effect::RemoveSnapshot(name) => !listing.snapshots.contains_key(name),
            Effect::Replace(_) => {
                // Only the contents can tell: both are kept until they are read.
                let fork = self.number();
                let Effect::Replace(images) = doubt.effect else { return Ok(()) };
                for (name, image) in images {
                    if let Some(volume) = self.volumes.get_mut(&name) {
                        volume.alternative = Some((fork, image));
                    }
                }
                return Ok(());
            }
        };
        if has_happened { self.happen(doubt) } else { Ok(()) }
    }
}

pub(super) fn half_restore(name: &str) -> String {
    format!("{name}: a restore of several volumes happened to some of them only")
}

fn differ(what: &str, expected: &BTreeSet<&String>, found: &BTreeSet<&String>) -> Result<(), String> {
    if let Some(name) = expected.difference(found).next() {
        return Err(format!("{what} {name} is lost"));
    }
    if let Some(name) = found.difference(expected).next() {
        return Err(format!("{what} {name} is there and should not be"));
    }
    Ok(())
}
