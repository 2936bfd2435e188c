//! The one place that changes state: a record in, the next state out. Deterministic; used live and
//! in replay.

use ashlar_format::Pointer;
use ashlar_format::catalogue::{CARRIED_BYTES, Compression, Deleted, VolumeEntry, VolumeKind};
use ashlar_format::group::Record;
use ashlar_format::note_kind::NoteKind;
use ashlar_format::notes::NoteChange;
use ashlar_map::{Missing, PageArena};
use ashlar_units::{BLOCK_BYTES, Fault, Lsn, VolumeId, planted};

use crate::catalogue::{Catalogue, is_possible, is_size_possible};
use crate::notebook::Notebook;
use crate::own::{OwnChange, edges_of, own_change};

/// `written_blocks` when a large unmap dropped more than it counted.
pub(crate) const WRITTEN_UNKNOWN: u64 = u64::MAX;

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Applied.
    Done,
    /// Its volume or snapshot is not there (any more).
    Gone,
    /// It reaches beyond the volume's end.
    OutOfRange,
    /// The name is taken.
    Exists,
    /// What it speaks of changed since it was decided on.
    Overtaken,
}

/// What records change.
pub(crate) struct Tree {
    pub(crate) arena: PageArena,
    pub(crate) catalogue: Catalogue,
    pub(crate) notebook: Notebook,
    /// Where the next chunk is born at the earliest ([`Pointer::birth_place`]).
    pub(crate) born_next: u64,
}

/// What a record says of a volume's entry.
struct EntryChange<'a> {
    name: &'a str,
    compression: Compression,
    dedupe: bool,
    carried: &'a [u8; CARRIED_BYTES],
}

impl Tree {
    /// Applies one record. After [`Missing`] nothing has changed: load the page and call again.
    pub(crate) fn apply(&mut self, lsn: Lsn, record: &Record) -> Result<Outcome, Missing> {
        match record {
            Record::Write { volume, block, blocks, pointer } => {
                self.write(*volume, *block, usize::from(*blocks), *pointer)
            }
            Record::Fill { volume, block, blocks, is_zero } => {
                let value = if *is_zero { Pointer::ZERO } else { Pointer::HOLE };
                self.fill(*volume, *block, *blocks, value)
            }
            Record::CreateVolume(entry) => Ok(self.create(lsn, entry, Pointer::HOLE, 0)),
            Record::ResizeVolume { volume, size_bytes } => self.resize(*volume, *size_bytes),
            Record::Delete { images } => Ok(self.delete(images)),
            Record::Snapshot { name, created_unix_seconds, members } => {
                Ok(self.snapshot(lsn, name, *created_unix_seconds, members))
            }
            Record::Clone { members } => Ok(self.clone_images(lsn, members)),
            Record::Restore { members } => Ok(self.restore(lsn, members)),
            Record::Copy { volume, block, blocks, pointer } => {
                self.map_blocks(*volume, *block, usize::from(*blocks), *pointer)
            }
            Record::Share { volume, block, blocks, expected, pointer } => {
                self.share(*volume, *block, usize::from(*blocks), *expected, *pointer)
            }
            Record::SetEntry { volume, name, compression, dedupe, carried } => {
                let entry = EntryChange { name, compression: *compression, dedupe: *dedupe, carried };
                Ok(self.set_entry(*volume, &entry))
            }
            Record::Notes { changes } => Ok(self.note(lsn, changes)),
            // Of a later program, which said that it may be skipped.
            Record::Skipped { .. } => Ok(Outcome::Done),
        }
    }

    fn write(
        &mut self,
        id: VolumeId,
        block: u64,
        blocks: usize,
        pointer: Pointer,
    ) -> Result<Outcome, Missing> {
        let outcome = self.map_blocks(id, block, blocks, pointer)?;
        if outcome == Outcome::Done {
            debug_assert!(
                pointer.birth_place() >= self.born_next,
                "{pointer:?} was born before {}",
                self.born_next
            );
            self.born_next = self.born_next.max(pointer.birth_place() + 1);
        }
        Ok(outcome)
    }

    /// Blocks become blocks of a chunk, whatever they were.
    fn map_blocks(
        &mut self,
        id: VolumeId,
        block: u64,
        blocks: usize,
        pointer: Pointer,
    ) -> Result<Outcome, Missing> {
        let Some(entry) = self.volume(id) else { return Ok(Outcome::Gone) };
        if block.saturating_add(blocks as u64) > entry.size_bytes / BLOCK_BYTES {
            return Ok(Outcome::OutOfRange);
        }
        let mut pointers = [Pointer::HOLE; 16];
        for (index, slot) in pointers[..blocks].iter_mut().enumerate() {
            *slot = pointer.with_block_index(pointer.block_index() + index);
        }
        let (mut root, from) = (entry.root, entry.own_from);
        let range = block..block + blocks as u64;
        let own = own_change(&mut self.arena, root, from, range, |at| pointers[(at - block) as usize])?;
        let outcome = self.arena.set(&mut root, block, &pointers[..blocks])?;
        let entry = self.catalogue.get_mut(id).expect("looked up above");
        entry.root = root;
        if entry.written_blocks != WRITTEN_UNKNOWN {
            let (before, after) = (outcome.data_blocks_before, outcome.data_blocks_after);
            entry.written_blocks = recounted(entry.written_blocks, before, after);
        }
        own.of(entry);
        Ok(Outcome::Done)
    }

    fn fill(&mut self, id: VolumeId, block: u64, blocks: u64, value: Pointer) -> Result<Outcome, Missing> {
        let Some(entry) = self.volume(id) else { return Ok(Outcome::Gone) };
        if block.saturating_add(blocks) > entry.size_bytes / BLOCK_BYTES {
            return Ok(Outcome::OutOfRange);
        }
        self.fill_unchecked(
            id,
            block,
            blocks - u64::from(planted(Fault::FillOneBlockShort) && blocks > 8),
            value,
        )
    }

    fn fill_unchecked(
        &mut self,
        id: VolumeId,
        block: u64,
        blocks: u64,
        value: Pointer,
    ) -> Result<Outcome, Missing> {
        let Some(entry) = self.volume(id) else { return Ok(Outcome::Gone) };
        if blocks == 0 {
            return Ok(Outcome::Done);
        }
        let (mut root, from) = (entry.root, entry.own_from);
        self.arena.prefetch_check_fill(root, block, blocks)?;
        let mut own = OwnChange::default();
        for edge in edges_of(block..block + blocks) {
            own.add(own_change(&mut self.arena, root, from, edge, |_| value)?);
        }
        let outcome = self.arena.fill(&mut root, block, blocks, value)?;
        let entry = self.catalogue.get_mut(id).expect("looked up above");
        entry.root = root;
        entry.written_blocks = match outcome.data_blocks_before {
            // Nothing at all is mapped: known again.
            _ if !root.is_page() => 0,
            Some(before) if entry.written_blocks != WRITTEN_UNKNOWN => {
                recounted(entry.written_blocks, before, 0)
            }
            _ => WRITTEN_UNKNOWN,
        };
        own.of(entry);
        if !root.is_page() {
            entry.own_bytes = 0;
        }
        Ok(Outcome::Done)
    }

    fn create(&mut self, lsn: Lsn, entry: &VolumeEntry, root: Pointer, written_blocks: u64) -> Outcome {
        if !is_possible(entry) {
            self.arena.release(root);
            return Outcome::OutOfRange;
        }
        if self.catalogue.volume(&entry.name).is_some() || self.catalogue.get(entry.id).is_some() {
            self.arena.release(root);
            return Outcome::Exists;
        }
        self.catalogue.insert(VolumeEntry { root, birth: lsn, written_blocks, ..entry.clone() });
        Outcome::Done
    }

    fn resize(&mut self, id: VolumeId, size_bytes: u64) -> Result<Outcome, Missing> {
        let Some(entry) = self.volume(id) else { return Ok(Outcome::Gone) };
        if !is_size_possible(size_bytes) {
            return Ok(Outcome::OutOfRange);
        }
        let (old, new) = (entry.size_bytes / BLOCK_BYTES, size_bytes / BLOCK_BYTES);
        if new < old && !planted(Fault::ResizeLeavesTail) {
            self.fill_unchecked(id, new, old - new, Pointer::HOLE)?;
        }
        self.catalogue.get_mut(id).expect("looked up above").size_bytes = size_bytes;
        Ok(Outcome::Done)
    }

    fn delete(&mut self, images: &[VolumeId]) -> Outcome {
        let mut outcome = Outcome::Gone;
        for id in images {
            if let Some(entry) = self.catalogue.remove(*id) {
                self.arena.release(entry.root);
                self.notebook.drop_volume(*id);
                outcome = Outcome::Done;
            }
        }
        outcome
    }

    fn snapshot(&mut self, lsn: Lsn, name: &str, created: u64, members: &[(VolumeId, VolumeId)]) -> Outcome {
        if self.catalogue.snapshot(name).is_some() {
            return Outcome::Exists;
        }
        if members.is_empty() || members.iter().any(|(volume, _)| self.volume(*volume).is_none()) {
            return Outcome::Gone;
        }
        let is_taken = |at: usize, image: VolumeId| {
            self.catalogue.get(image).is_some() || members[..at].iter().any(|(_, other)| *other == image)
        };
        if members.iter().enumerate().any(|(at, (_, image))| is_taken(at, *image)) {
            return Outcome::Exists;
        }
        let group = members[0].1;
        for (volume, image) in members {
            let source = self.catalogue.get_mut(*volume).expect("checked above");
            source.newest_snapshot = lsn;
            let entry = VolumeEntry {
                id: *image,
                kind: VolumeKind::Snapshot,
                created_unix_seconds: created,
                root: self.arena.share(source.root),
                origin: *volume,
                group,
                birth: lsn,
                name: name.to_string(),
                origin_name: source.name.clone(),
                ..source.clone()
            };
            self.catalogue.insert(entry);
        }
        Outcome::Done
    }

    fn clone_images(&mut self, lsn: Lsn, members: &[(VolumeEntry, VolumeId)]) -> Outcome {
        if members.iter().any(|(_, image)| self.catalogue.get(*image).is_none()) {
            return Outcome::Gone;
        }
        if members.iter().any(|(entry, _)| self.catalogue.volume(&entry.name).is_some()) {
            return Outcome::Exists;
        }
        for (entry, image) in members {
            let source = self.catalogue.get_mut(*image).expect("checked above");
            source.newest_snapshot = lsn;
            let root = if planted(Fault::CloneWithoutReference) {
                source.root
            } else {
                self.arena.share(source.root)
            };
            let written = source.written_blocks;
            let size_bytes = source.size_bytes;
            let own_from = self.born_next;
            let clone =
                VolumeEntry { size_bytes, newest_snapshot: lsn, own_bytes: 0, own_from, ..entry.clone() };
            self.create(lsn, &clone, root, written);
        }
        Outcome::Done
    }

    fn restore(&mut self, lsn: Lsn, members: &[(VolumeId, VolumeId)]) -> Outcome {
        let is_there = |(volume, image): &(VolumeId, VolumeId)| {
            self.volume(*volume).is_some() && self.catalogue.get(*image).is_some()
        };
        if !members.iter().all(is_there) {
            return Outcome::Gone;
        }
        let left_out = usize::from(planted(Fault::RestoreForgetsVolume) && members.len() > 1);
        for (volume, image) in &members[left_out..] {
            let image = self.catalogue.get(*image).expect("checked above").clone();
            let root = self.arena.share(image.root);
            let entry = self.catalogue.get_mut(*volume).expect("checked above");
            let before = std::mem::replace(&mut entry.root, root);
            if !planted(Fault::RestoreKeepsSize) {
                entry.size_bytes = image.size_bytes;
            }
            entry.written_blocks = image.written_blocks;
            (entry.own_bytes, entry.own_from) = (image.own_bytes, image.own_from);
            entry.newest_snapshot = lsn;
            self.arena.release(before);
        }
        Outcome::Done
    }

    /// All or nothing: with a block changed since the contents were compared, the rest would seldom be
    /// worth a share of its own.
    fn share(
        &mut self,
        id: VolumeId,
        block: u64,
        blocks: usize,
        expected: Pointer,
        pointer: Pointer,
    ) -> Result<Outcome, Missing> {
        let Some(entry) = self.volume(id) else { return Ok(Outcome::Gone) };
        if block.saturating_add(blocks as u64) > entry.size_bytes / BLOCK_BYTES {
            return Ok(Outcome::OutOfRange);
        }
        let (mut root, from) = (entry.root, entry.own_from);
        let mut found = Vec::with_capacity(blocks);
        self.arena.lookup_run(root, block, blocks as u64, &mut found)?;
        let of = |first: Pointer, index| first.with_block_index(first.block_index() + index);
        if !planted(Fault::ShareDoesNotLook) && (0..blocks).any(|index| found[index] != of(expected, index)) {
            return Ok(Outcome::Overtaken);
        }
        let shared: Vec<Pointer> = (0..blocks).map(|index| of(pointer, index)).collect();
        let range = block..block + blocks as u64;
        let own = own_change(&mut self.arena, root, from, range, |at| shared[(at - block) as usize])?;
        // Data for data: what is written does not change in number.
        self.arena.set(&mut root, block, &shared)?;
        let entry = self.catalogue.get_mut(id).expect("looked up above");
        entry.root = root;
        own.of(entry);
        Ok(Outcome::Done)
    }

    fn set_entry(&mut self, id: VolumeId, change: &EntryChange<'_>) -> Outcome {
        // Also one that is deleted: this is how it comes back.
        if self.catalogue.get(id).is_none_or(|entry| entry.kind != VolumeKind::Volume) {
            return Outcome::Gone;
        }
        let is_alive = Deleted::of(change.carried).is_none();
        if is_alive && self.catalogue.volume(change.name).is_some_and(|other| other.id != id) {
            return Outcome::Exists;
        }
        self.catalogue.rename(id, change.name, change.carried);
        let entry = self.catalogue.get_mut(id).expect("looked up above");
        (entry.compression, entry.dedupe) = (change.compression, change.dedupe);
        Outcome::Done
    }

    /// All or nothing: notes about a volume that was deleted since they were checked would never go. Quotas
    /// are not looked at: they are not the same in every program.
    fn note(&mut self, lsn: Lsn, changes: &[NoteChange]) -> Outcome {
        let is_orphan = |change: &NoteChange| {
            change.value.is_some()
                && NoteKind::is_about_volumes(change.key.kind)
                && self.catalogue.get(VolumeId(change.key.subject)).is_none()
        };
        if changes.iter().any(is_orphan) {
            return Outcome::Gone;
        }
        self.notebook.apply(lsn, changes);
        Outcome::Done
    }

    /// A volume that is alive: what is still on its way to one that was deleted meanwhile must not change it.
    fn volume(&self, id: VolumeId) -> Option<&VolumeEntry> {
        self.catalogue.get(id).filter(|entry| entry.is_alive_volume())
    }
}

/// What is written after so many blocks were and so many are. A count comes from a drive and is only a count:
/// when it cannot be right it is counted anew, and nothing stops.
fn recounted(written_blocks: u64, before: u64, after: u64) -> u64 {
    let without = written_blocks.checked_sub(before);
    without.and_then(|blocks| blocks.checked_add(after)).unwrap_or(WRITTEN_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use ashlar_format::catalogue::Profile;
    use ashlar_units::SegmentId;

    use super::*;

    fn entry(id: u64, size_bytes: u64) -> VolumeEntry {
        VolumeEntry {
            id: VolumeId(id),
            kind: VolumeKind::Volume,
            profile: Profile::General,
            compression: Compression::Lz4,
            dedupe: false,
            logical_block_shift: 12,
            created_unix_seconds: 1,
            size_bytes,
            root: Pointer::HOLE,
            origin: VolumeId(0),
            group: VolumeId(0),
            birth: Lsn(0),
            newest_snapshot: Lsn(0),
            written_blocks: 0,
            own_bytes: 0,
            own_from: 0,
            name: format!("volume-{id}"),
            origin_name: String::new(),
            carried: [0; CARRIED_BYTES],
        }
    }

    fn tree() -> Tree {
        let mut tree = Tree {
            arena: PageArena::new(1 << 20),
            catalogue: Catalogue::default(),
            notebook: Notebook::default(),
            born_next: 0,
        };
        let created = tree.apply(Lsn(1), &Record::CreateVolume(Box::new(entry(1, 1 << 20))));
        assert_eq!(created.ok(), Some(Outcome::Done));
        tree
    }

    fn apply(tree: &mut Tree, record: Record) -> Outcome {
        tree.apply(Lsn(9), &record).expect("nothing is on a drive")
    }

    /// Records come from drives, and a right checksum does not make them right. Each of these stopped the
    /// process, again at every start.
    #[test]
    fn records_that_no_pool_can_have_change_nothing() {
        let mut tree = tree();
        let volume = VolumeId(1);
        let too_large = 257 << 40;
        for record in [
            Record::CreateVolume(Box::new(entry(2, too_large))),
            Record::CreateVolume(Box::new(entry(u64::MAX, 4096))),
            Record::ResizeVolume { volume, size_bytes: too_large },
            Record::ResizeVolume { volume, size_bytes: u64::MAX },
        ] {
            assert_eq!(apply(&mut tree, record), Outcome::OutOfRange);
        }
        let snapshot = |name: &str, images: &[u64]| Record::Snapshot {
            name: name.to_string(),
            created_unix_seconds: 1,
            members: images.iter().map(|image| (volume, VolumeId(*image))).collect(),
        };
        assert_eq!(apply(&mut tree, snapshot("own", &[1])), Outcome::Exists);
        assert_eq!(apply(&mut tree, snapshot("twice", &[7, 7])), Outcome::Exists);
        assert_eq!(apply(&mut tree, snapshot("right", &[7])), Outcome::Done);
        assert_eq!(tree.catalogue.entries().count(), 2);
    }

    #[test]
    fn a_count_of_blocks_that_cannot_be_right_is_counted_anew() {
        let mut tree = tree();
        let pointer = Pointer::data(SegmentId(3), 4096, 4096);
        let write = || Record::Write { volume: VolumeId(1), block: 0, blocks: 1, pointer };
        assert_eq!(apply(&mut tree, write()), Outcome::Done);
        // As from a table that counted less than there is.
        tree.catalogue.get_mut(VolumeId(1)).expect("made above").written_blocks = 0;
        let fill = Record::Fill { volume: VolumeId(1), block: 0, blocks: 1, is_zero: true };
        assert_eq!(apply(&mut tree, fill), Outcome::Done);
        assert_eq!(tree.catalogue.get(VolumeId(1)).expect("made above").written_blocks, WRITTEN_UNKNOWN);
    }
}
