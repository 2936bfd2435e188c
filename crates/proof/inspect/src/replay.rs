//! The journal's records over the catalogue of a checkpoint: what `engine` does when it opens, told anew.
//!
//! With a volume table that is whole every record is decided as the engine decided it. Where entries are
//! lost, what comes from them is lost too, and is never guessed.

use ashlar_format::Pointer;
use ashlar_format::catalogue::{Deleted, VolumeEntry, VolumeKind};
use ashlar_format::group::Record;
use ashlar_units::{BLOCK_BYTES, Lsn, VolumeId};

use crate::catalogue::{Catalogue, Image};
use crate::map::{self, Leaf, Slot};
use crate::media::Media;
use crate::why::Why;

/// Applies one record.
pub(crate) fn apply(media: &Media, catalogue: &mut Catalogue, lsn: Lsn, record: &Record) {
    match record {
        Record::Write { volume, block, blocks, pointer }
        | Record::Copy { volume, block, blocks, pointer } => {
            let blocks = usize::from(*blocks);
            let Some(image) = within(catalogue, *volume, *block, blocks as u64) else { return };
            map::set(media, &mut image.root, *block, blocks, *pointer);
        }
        Record::Fill { volume, block, blocks, is_zero } => {
            let value = if *is_zero { Pointer::ZERO } else { Pointer::HOLE };
            let Some(image) = within(catalogue, *volume, *block, *blocks) else { return };
            map::fill(media, &mut image.root, *block..*block + *blocks, &Slot::Stored(value));
        }
        Record::CreateVolume(entry) => create(catalogue, lsn, entry, Slot::Stored(Pointer::HOLE)),
        Record::ResizeVolume { volume, size_bytes } => resize(media, catalogue, *volume, *size_bytes),
        Record::Delete { images } => delete(catalogue, images),
        Record::Snapshot { name, created_unix_seconds, members } => {
            snapshot(catalogue, lsn, name, *created_unix_seconds, members);
        }
        Record::Clone { members } => clone_images(catalogue, lsn, members),
        Record::Restore { members } => restore(catalogue, members),
        Record::Share { volume, block, blocks, expected, pointer } => {
            share(media, catalogue, (*volume, *block, usize::from(*blocks)), *expected, *pointer);
        }
        Record::SetEntry { volume, name, compression, dedupe, carried } => {
            let is_alive = Deleted::of(carried).is_none();
            let is_taken = is_alive && catalogue.volume(name).is_some_and(|other| other.entry.id != *volume);
            let image = catalogue.images.get_mut(volume);
            let image = image.filter(|image| image.entry.kind == VolumeKind::Volume);
            // Also one that is deleted: this is how it comes back.
            if let Some(image) = image.filter(|_| !is_taken) {
                image.entry.name.clone_from(name);
                (image.entry.compression, image.entry.dedupe) = (*compression, *dedupe);
                image.entry.carried = *carried;
            }
        }
        Record::Notes { changes } => {
            let Catalogue { images, notebook, damage } = catalogue;
            // Of a volume whose entry is lost nobody knows that it is gone.
            notebook.apply(lsn, changes, |id| damage.is_empty() && !images.contains_key(&id));
        }
        // Of a later program, which said that it may be skipped.
        Record::Skipped { .. } => {}
    }
}

/// A volume that is alive: nothing changes one that is deleted.
fn volume_of(catalogue: &mut Catalogue, id: VolumeId) -> Option<&mut Image> {
    catalogue.images.get_mut(&id).filter(|image| image.entry.is_alive_volume())
}

/// The volume, if a range lies in it.
fn within(catalogue: &mut Catalogue, id: VolumeId, block: u64, blocks: u64) -> Option<&mut Image> {
    volume_of(catalogue, id)
        .filter(|image| block.saturating_add(blocks) <= image.entry.size_bytes / BLOCK_BYTES)
}

fn create(catalogue: &mut Catalogue, lsn: Lsn, entry: &VolumeEntry, root: Slot) {
    if catalogue.volume(&entry.name).is_some() || catalogue.images.contains_key(&entry.id) {
        return;
    }
    let entry = VolumeEntry { birth: lsn, ..entry.clone() };
    catalogue.images.insert(entry.id, Image { entry, root });
}

fn delete(catalogue: &mut Catalogue, images: &[VolumeId]) {
    for id in images {
        catalogue.images.remove(id);
        catalogue.notebook.drop_volume(*id);
    }
}

fn resize(media: &Media, catalogue: &mut Catalogue, id: VolumeId, size_bytes: u64) {
    let Some(image) = volume_of(catalogue, id) else { return };
    let (old, new) = (image.entry.size_bytes / BLOCK_BYTES, size_bytes / BLOCK_BYTES);
    if new < old {
        map::fill(media, &mut image.root, new..old, &Slot::Stored(Pointer::HOLE));
    }
    image.entry.size_bytes = size_bytes;
}

fn snapshot(
    catalogue: &mut Catalogue,
    lsn: Lsn,
    name: &str,
    created_unix_seconds: u64,
    members: &[(VolumeId, VolumeId)],
) {
    let is_unknown = |(volume, _): &(VolumeId, VolumeId)| {
        catalogue.images.get(volume).is_none_or(|image| !image.entry.is_alive_volume())
    };
    let is_refused = catalogue.is_complete() && members.iter().any(is_unknown);
    if catalogue.has_snapshot(name) || is_refused {
        return;
    }
    for (volume, image) in members {
        let Some(source) = volume_of(catalogue, *volume) else { continue };
        let entry = VolumeEntry {
            id: *image,
            kind: VolumeKind::Snapshot,
            created_unix_seconds,
            origin: *volume,
            group: members[0].1,
            birth: lsn,
            name: name.to_string(),
            origin_name: source.entry.name.clone(),
            ..source.entry.clone()
        };
        let root = source.root.clone();
        catalogue.images.insert(*image, Image { entry, root });
    }
}

fn clone_images(catalogue: &mut Catalogue, lsn: Lsn, members: &[(VolumeEntry, VolumeId)]) {
    let is_unknown = |(_, image): &(VolumeEntry, VolumeId)| !catalogue.images.contains_key(image);
    let is_refused = catalogue.is_complete() && members.iter().any(is_unknown);
    if is_refused || members.iter().any(|(entry, _)| catalogue.volume(&entry.name).is_some()) {
        return;
    }
    for (entry, image) in members {
        let (root, size_bytes) = match catalogue.images.get(image) {
            Some(source) => (source.root.clone(), source.entry.size_bytes),
            None => (Slot::Lost(Why::OriginLost), entry.size_bytes),
        };
        create(catalogue, lsn, &VolumeEntry { size_bytes, ..entry.clone() }, root);
    }
}

fn restore(catalogue: &mut Catalogue, members: &[(VolumeId, VolumeId)]) {
    let is_there = |(volume, image): &(VolumeId, VolumeId)| {
        let is_volume = |image: &Image| image.entry.is_alive_volume();
        catalogue.images.get(volume).is_some_and(is_volume) && catalogue.images.contains_key(image)
    };
    if catalogue.is_complete() && !members.iter().all(is_there) {
        return;
    }
    for (volume, image) in members {
        let source = catalogue.images.get(image).map(|source| (source.root.clone(), source.entry.size_bytes));
        let Some(target) = volume_of(catalogue, *volume) else { continue };
        match source {
            Some((root, size_bytes)) => {
                target.root = root;
                target.entry.size_bytes = size_bytes;
            }
            None => target.root = Slot::Lost(Why::OriginLost),
        }
    }
}

/// All or nothing, and only where the blocks still are what they were. What is lost stays so: whether it
/// was what the record expects cannot be told.
fn share(
    media: &Media,
    catalogue: &mut Catalogue,
    (id, block, blocks): (VolumeId, u64, usize),
    expected: Pointer,
    pointer: Pointer,
) {
    let Some(image) = within(catalogue, id, block, blocks as u64) else { return };
    let is_expected = |index: usize| {
        let wanted = expected.with_block_index(expected.block_index() + index);
        map::look_up(media, &image.root, block + index as u64) == Leaf::Data(wanted)
    };
    if (0..blocks).all(is_expected) {
        map::set(media, &mut image.root, block, blocks, pointer);
    }
}
