//! Volumes and snapshot images: from the volume table of the last checkpoint, then from the journal.

use std::collections::BTreeMap;

use ashlar_format::Pointer;
use ashlar_format::bytes::Reader;
use ashlar_format::catalogue::{VOLUME_ENTRY_BYTES, VolumeEntry, VolumeKind};
use ashlar_format::page::{PAGE_BYTES, PageContent};
use ashlar_units::VolumeId;

use crate::map::Slot;
use crate::media::Media;
use crate::notebook::Notebook;
use crate::pages::Expected;
use crate::why::Why;

/// A volume or a snapshot image.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) entry: VolumeEntry,
    pub(crate) root: Slot,
}

impl Image {
    /// How it is asked for: a volume by its name, an image by its volume's and the snapshot's. A deleted
    /// volume's name may be another's by now: its number is told with it.
    pub(crate) fn name(&self) -> String {
        self.entry.full_name()
    }
}

/// All that were found.
#[derive(Default)]
pub(crate) struct Catalogue {
    pub(crate) images: BTreeMap<VolumeId, Image>,
    pub(crate) notebook: Notebook,
    /// Parts of the table that cannot be had: volumes and snapshots may be missing.
    pub(crate) damage: Vec<String>,
}

impl Catalogue {
    /// Images go by the present name of their volume, where it is still there.
    pub(crate) fn name_origins(&mut self) {
        let volumes = self.images.values().filter(|image| image.entry.is_alive_volume());
        let names: BTreeMap<VolumeId, String> =
            volumes.map(|image| (image.entry.id, image.entry.name.clone())).collect();
        let snapshots = self.images.values_mut().filter(|image| image.entry.kind == VolumeKind::Snapshot);
        for image in snapshots {
            if let Some(name) = names.get(&image.entry.origin) {
                image.entry.origin_name.clone_from(name);
            }
        }
    }

    pub(crate) fn load(media: &Media, root: Pointer) -> Catalogue {
        let mut catalogue = Catalogue::default();
        if !root.is_page() {
            return catalogue;
        }
        let directory = |level, index| Expected { content: PageContent::Directory, level, index };
        let directories = match media.read_table_page(root, directory(2, 0)) {
            Ok(bytes) => pointers_in(&bytes),
            Err(why) => {
                catalogue.damage.push(format!("root of the volume table: {why}"));
                return catalogue;
            }
        };
        for (index, pointer) in directories.into_iter().enumerate() {
            match media.read_table_page(pointer, directory(1, index as u64)) {
                Ok(bytes) => catalogue.load_pages(media, index * (PAGE_BYTES / 8), &pointers_in(&bytes)),
                Err(why) => {
                    catalogue.damage.push(format!("directory {index} of the volume table: {why}"));
                }
            }
        }
        catalogue
    }

    fn load_pages(&mut self, media: &Media, first: usize, pages: &[Pointer]) {
        for (index, pointer) in pages.iter().enumerate() {
            let page = first + index;
            let expected = Expected { content: PageContent::VolumeTable, level: 0, index: page as u64 };
            match media.read_table_page(*pointer, expected) {
                Ok(bytes) => bytes.chunks_exact(VOLUME_ENTRY_BYTES).for_each(|slot| self.take(page, slot)),
                Err(why) => self.damage.push(format!("page {page} of the volume table: {why}")),
            }
        }
    }

    fn take(&mut self, page: usize, slot: &[u8]) {
        match VolumeEntry::decode(slot) {
            Ok(None) => {}
            Ok(Some(entry)) => {
                let is_good = !entry.root.is_data() && entry.root.as_in_memory().is_none();
                let root = if is_good { Slot::Stored(entry.root) } else { Slot::Lost(Why::MapDamaged) };
                self.images.insert(entry.id, Image { entry, root });
            }
            Err(damage) => self.damage.push(format!("page {page} of the volume table: {damage}")),
        }
    }

    /// Whether every volume and snapshot of the checkpoint was found.
    pub(crate) fn is_complete(&self) -> bool {
        self.damage.is_empty()
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&Image> {
        let mut volumes = self.images.values().filter(|image| image.entry.is_alive_volume());
        volumes.find(|image| image.entry.name == name)
    }

    pub(crate) fn has_snapshot(&self, name: &str) -> bool {
        let mut images = self.images.values();
        images.any(|image| image.entry.kind == VolumeKind::Snapshot && image.entry.name == name)
    }
}

/// A directory's pointers, trailing unused ones cut.
pub(crate) fn pointers_in(bytes: &[u8]) -> Vec<Pointer> {
    let mut reader = Reader::new(bytes);
    let mut pointers: Vec<Pointer> =
        (0..PAGE_BYTES / 8).map_while(|_| reader.u64().ok().map(Pointer)).collect();
    while pointers.last().is_some_and(|pointer| !pointer.is_page()) {
        pointers.pop();
    }
    pointers
}
