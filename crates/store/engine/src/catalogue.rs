//! The volume table in memory: volumes and snapshot images by identity and by name.
//!
//! Invariants: a volume's name is unique among the volumes that are alive (those that are deleted and may
//! come back have no name that leads to them); a snapshot's name is unique among
//! snapshots and its images have different volumes; each entry has one place in the table, and a
//! changed entry marks its table page dirty.

use std::collections::{BTreeMap, BTreeSet};

use ashlar_format::bytes::Writer;
use ashlar_format::catalogue::{CARRIED_BYTES, VOLUME_ENTRY_BYTES, VolumeEntry, VolumeKind};
use ashlar_format::chunk::CHUNK_HEADER_BYTES;
use ashlar_format::page::PAGE_BYTES;
use ashlar_format::{Damage, DamageKind, Pointer};
use ashlar_map::BLOCKS_MAX;
use ashlar_units::{BLOCK_BYTES, VolumeId};

use crate::apply::WRITTEN_UNKNOWN;

const ENTRIES_PER_PAGE: usize = PAGE_BYTES / VOLUME_ENTRY_BYTES;

struct Placed {
    place: usize,
    entry: VolumeEntry,
}

/// The catalogue.
#[derive(Default)]
pub(crate) struct Catalogue {
    by_id: BTreeMap<VolumeId, Placed>,
    volumes: BTreeMap<String, VolumeId>,
    snapshots: BTreeMap<String, Vec<VolumeId>>,
    /// Volumes that are deleted and may come back.
    deleted: BTreeSet<VolumeId>,
    places: Vec<Option<VolumeId>>,
    free_places: BTreeSet<usize>,
    dirty_pages: BTreeSet<usize>,
    /// Entries whose root may be a page in memory.
    dirty_roots: BTreeSet<VolumeId>,
    /// The next identity.
    pub(crate) volume_next: u64,
}

impl Catalogue {
    pub(crate) fn get(&self, id: VolumeId) -> Option<&VolumeEntry> {
        self.by_id.get(&id).map(|placed| &placed.entry)
    }

    /// The entry, to be changed: its page becomes dirty, its root may become a page in memory.
    pub(crate) fn get_mut(&mut self, id: VolumeId) -> Option<&mut VolumeEntry> {
        let placed = self.by_id.get_mut(&id)?;
        self.dirty_pages.insert(placed.place / ENTRIES_PER_PAGE);
        self.dirty_roots.insert(id);
        Some(&mut placed.entry)
    }

    /// The root, to be replaced by the same tree's media pointer: no change of content.
    pub(crate) fn root_mut(&mut self, id: VolumeId) -> Option<&mut Pointer> {
        self.by_id.get_mut(&id).map(|placed| &mut placed.entry.root)
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&VolumeEntry> {
        self.volumes.get(name).and_then(|id| self.get(*id))
    }

    /// The images of a snapshot, in the order they were named.
    pub(crate) fn snapshot(&self, name: &str) -> Option<Vec<&VolumeEntry>> {
        let images = self.snapshots.get(name)?;
        Some(images.iter().filter_map(|id| self.get(*id)).collect())
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &VolumeEntry> {
        self.volumes.values().filter_map(|id| self.get(*id))
    }

    /// Volumes that are deleted and may come back, by identity: the one deleted last need not be the last.
    pub(crate) fn deleted(&self) -> impl Iterator<Item = &VolumeEntry> {
        self.deleted.iter().filter_map(|id| self.get(*id))
    }

    pub(crate) fn snapshots(&self) -> impl Iterator<Item = (&String, Vec<&VolumeEntry>)> {
        self.snapshots.iter().map(|(name, ids)| (name, ids.iter().filter_map(|id| self.get(*id)).collect()))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &VolumeEntry> {
        self.by_id.values().map(|placed| &placed.entry)
    }

    pub(crate) fn insert(&mut self, entry: VolumeEntry) {
        let place = self.free_places.pop_first().unwrap_or(self.places.len());
        self.insert_at(place, entry);
        self.dirty_pages.insert(place / ENTRIES_PER_PAGE);
    }

    fn insert_at(&mut self, place: usize, entry: VolumeEntry) {
        while self.places.len() <= place {
            let fresh = self.places.len();
            self.places.push(None);
            if fresh != place {
                self.free_places.insert(fresh);
            }
        }
        self.free_places.remove(&place);
        self.places[place] = Some(entry.id);
        match entry.kind {
            VolumeKind::Volume if entry.deleted().is_some() => drop(self.deleted.insert(entry.id)),
            VolumeKind::Volume => {
                self.volumes.insert(entry.name.clone(), entry.id);
            }
            VolumeKind::Snapshot => self.snapshots.entry(entry.name.clone()).or_default().push(entry.id),
        }
        self.volume_next = self.volume_next.max(entry.id.0.saturating_add(1));
        self.dirty_roots.insert(entry.id);
        let before = self.by_id.insert(entry.id, Placed { place, entry });
        assert!(before.is_none(), "a volume identity is given out once");
    }

    pub(crate) fn remove(&mut self, id: VolumeId) -> Option<VolumeEntry> {
        let Placed { place, entry } = self.by_id.remove(&id)?;
        self.places[place] = None;
        self.free_places.insert(place);
        self.dirty_pages.insert(place / ENTRIES_PER_PAGE);
        self.dirty_roots.remove(&id);
        self.deleted.remove(&id);
        match entry.kind {
            VolumeKind::Volume => self.forget_name(&entry.name, id),
            VolumeKind::Snapshot => {
                if let Some(images) = self.snapshots.get_mut(&entry.name) {
                    images.retain(|image| *image != id);
                    if images.is_empty() {
                        self.snapshots.remove(&entry.name);
                    }
                }
            }
        }
        Some(entry)
    }

    /// Gives a volume another name, and what is carried with it, which says whether it is alive. No other
    /// volume that is alive has that name.
    pub(crate) fn rename(&mut self, id: VolumeId, name: &str, carried: &[u8; CARRIED_BYTES]) {
        let Some(entry) = self.get_mut(id) else { return };
        assert_eq!(entry.kind, VolumeKind::Volume, "entry {id} is no volume");
        let before = std::mem::replace(&mut entry.name, name.to_string());
        entry.carried = *carried;
        let is_alive = entry.is_alive_volume();
        self.forget_name(&before, id);
        if is_alive {
            self.deleted.remove(&id);
            let other = self.volumes.insert(name.to_string(), id);
            assert!(other.is_none(), "volume name {name} given twice");
        } else {
            self.deleted.insert(id);
        }
    }

    /// The name leads to this volume no more, if it did.
    fn forget_name(&mut self, name: &str, id: VolumeId) {
        if self.volumes.get(name) == Some(&id) {
            self.volumes.remove(name);
        }
    }

    /// The image of a volume in a snapshot. The volume goes by the name it has now; where it was deleted,
    /// by the name it had.
    pub(crate) fn image(&self, volume: &str, snapshot: &str) -> Option<&VolumeEntry> {
        let images = self.snapshot(snapshot)?;
        images.into_iter().find(|image| self.is_image_of(image, volume))
    }

    pub(crate) fn is_image_of(&self, image: &VolumeEntry, volume: &str) -> bool {
        self.origin_name(image) == volume
    }

    /// What the volume of an image is called; one that is deleted has the name it had in the snapshot.
    pub(crate) fn origin_name<'a>(&'a self, image: &'a VolumeEntry) -> &'a str {
        let volume = self.get(image.origin).filter(|volume| volume.is_alive_volume());
        volume.map_or(&image.origin_name, |volume| &volume.name)
    }

    /// As a person names it: `db`, or `db@noon`.
    pub(crate) fn full_name(&self, entry: &VolumeEntry) -> String {
        match entry.kind {
            VolumeKind::Volume => entry.name.clone(),
            VolumeKind::Snapshot => format!("{}@{}", self.origin_name(entry), entry.name),
        }
    }

    /// What a volume was made from: the volume or the image that its origin is, by its present name.
    pub(crate) fn made_from(&self, volume: &VolumeEntry) -> Option<String> {
        let origin = self.get(volume.origin).filter(|origin| origin.deleted().is_none());
        let origin = origin.map(|origin| self.full_name(origin));
        origin.or_else(|| (!volume.origin_name.is_empty()).then(|| volume.origin_name.clone()))
    }

    /// Entries whose root may be in memory.
    pub(crate) fn dirty_roots(&self) -> Vec<VolumeId> {
        self.dirty_roots.iter().copied().collect()
    }

    /// The root of `id` is on a drive now.
    pub(crate) fn root_is_clean(&mut self, id: VolumeId) {
        self.dirty_roots.remove(&id);
    }

    /// The content of the pages changed since the last call, as of now.
    pub(crate) fn take_dirty_pages(&mut self) -> Vec<FrozenTablePage> {
        let pages = std::mem::take(&mut self.dirty_pages);
        pages.into_iter().map(|page| self.freeze(page)).collect()
    }

    fn freeze(&self, page: usize) -> FrozenTablePage {
        let places = self.places.iter().skip(page * ENTRIES_PER_PAGE).take(ENTRIES_PER_PAGE);
        FrozenTablePage { page, entries: places.map(|id| id.and_then(|id| self.get(id).cloned())).collect() }
    }

    /// Those pages were not written after all.
    pub(crate) fn mark_dirty(&mut self, pages: impl Iterator<Item = usize>) {
        self.dirty_pages.extend(pages);
    }

    /// Takes a page as read from a drive.
    pub(crate) fn load_page(&mut self, page: usize, bytes: &[u8]) -> Result<(), Damage> {
        for (index, slot) in bytes.chunks_exact(VOLUME_ENTRY_BYTES).enumerate() {
            if let Some(mut entry) = VolumeEntry::decode(slot)? {
                // A pointer into memory would lead to whatever page has that number now.
                if entry.root.is_data() || entry.root.as_in_memory().is_some() {
                    return Err(Damage::new(
                        DamageKind::Impossible,
                        "root of a volume is no page on a drive",
                    ));
                }
                let id = entry.id;
                if !is_possible(&entry) {
                    return Err(Damage::new(DamageKind::Impossible, "volume entry that no volume can have"));
                }
                if self.by_id.contains_key(&id) {
                    return Err(Damage::new(DamageKind::Impossible, "two volumes with one identity"));
                }
                distrust_own(&mut entry);
                self.insert_at(page * ENTRIES_PER_PAGE + index, entry);
                self.dirty_roots.remove(&id);
            }
        }
        Ok(())
    }
}

/// Where all that is written is a volume's own and yet nothing counts as such, a program wrote the entry that
/// does not count it: it is counted anew, and until then is at most all of it.
fn distrust_own(entry: &mut VolumeEntry) {
    if entry.own_from == 0 && entry.own_bytes == 0 && entry.written_blocks > 0 {
        let block_bytes = BLOCK_BYTES + CHUNK_HEADER_BYTES.next_multiple_of(64) as u64;
        entry.own_bytes = entry.written_blocks.saturating_mul(block_bytes);
        entry.written_blocks = WRITTEN_UNKNOWN;
    }
}

/// Whether a volume may be so large and have such an identity, whoever says so: a record or a table. What the
/// map cannot hold must not come into the catalogue, where the map asserts it.
pub(crate) fn is_possible(entry: &VolumeEntry) -> bool {
    is_size_possible(entry.size_bytes) && entry.id.0 <= u64::MAX / 2
}

/// The part of it about the size.
pub(crate) fn is_size_possible(size_bytes: u64) -> bool {
    size_bytes.is_multiple_of(BLOCK_BYTES) && size_bytes / BLOCK_BYTES <= BLOCKS_MAX
}

/// A page of the volume table at a checkpoint's LSN; roots may still be pages in memory.
pub(crate) struct FrozenTablePage {
    pub(crate) page: usize,
    pub(crate) entries: Vec<Option<VolumeEntry>>,
}

impl FrozenTablePage {
    /// The page's bytes, with `root_of` giving each entry's root on a drive.
    pub(crate) fn encode(&self, root_of: impl Fn(&VolumeEntry) -> Pointer) -> Vec<u8> {
        let mut writer = Writer::new();
        for entry in &self.entries {
            match entry {
                None => VolumeEntry::encode_empty(&mut writer),
                Some(entry) => VolumeEntry { root: root_of(entry), ..entry.clone() }.encode(&mut writer),
            }
        }
        writer.pad_to(PAGE_BYTES);
        writer.into_bytes()
    }
}
