//! Sharing by clone told from sharing by content.
//!
//! A snapshot or a clone refers to a block at the address at which it was written. So references at one
//! address within a family of images are one, made several by copying a root; every further address,
//! and every further family, came to the block by its content. Images are of one family when one was
//! made from the other, or both from a third, or when they share a map page: content never makes them
//! share a page, and the image between two relatives may be long deleted.
//!
//! (Relatives without a page in common and with that image deleted are taken for strangers.)

use std::collections::BTreeMap;

use ashlar_format::Pointer;
use ashlar_format::catalogue::VolumeEntry;
use ashlar_units::{SegmentId, VolumeId};

/// References told apart at most: some 60 MB. Beyond it every reference counts as one by content.
const SPOTS_MAX: usize = 1 << 20;

/// Which images belong together: a forest of their indices.
pub(super) struct Families {
    parents: Vec<u32>,
}

impl Families {
    /// As far as their origins tell.
    pub(super) fn of(images: &[VolumeEntry]) -> Families {
        let mut families = Families { parents: (0..images.len() as u32).collect() };
        let mut known: BTreeMap<VolumeId, u32> = BTreeMap::new();
        for (index, image) in (0..).zip(images) {
            for id in [image.id, image.origin].into_iter().filter(|id| id.0 != 0) {
                let other = *known.entry(id).or_insert(index);
                families.join(index, other);
            }
        }
        families
    }

    pub(super) fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.find(one), self.find(other));
        self.parents[one.max(other) as usize] = one.min(other);
    }

    /// The image that stands for this one's family.
    pub(super) fn find(&mut self, image: u32) -> u32 {
        let mut at = image;
        while self.parents[at as usize] != at {
            let above = self.parents[self.parents[at as usize] as usize];
            self.parents[at as usize] = above;
            at = above;
        }
        at
    }
}

/// A place that refers to a chunk: an image's family, and the address its first block has or would have.
pub(super) type Spot = (u32, i64);

/// Chunks that were met at several spots.
#[derive(Default)]
pub(super) struct Spots {
    /// The blocks referred to from each spot.
    blocks: BTreeMap<(Pointer, Spot), u16>,
    beyond: u64,
}

impl Spots {
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// These blocks of a chunk are referred to from here.
    pub(super) fn add(&mut self, chunk: Pointer, spot: Spot, blocks: u16) {
        if self.blocks.len() < SPOTS_MAX {
            *self.blocks.entry((chunk, spot)).or_default() |= blocks;
        } else if let Some(known) = self.blocks.get_mut(&(chunk, spot)) {
            *known |= blocks;
        } else {
            self.beyond += u64::from(blocks.count_ones());
        }
    }

    /// Forgets what is counted in another round.
    pub(super) fn keep(&mut self, is_kept: impl Fn(SegmentId) -> bool) {
        self.blocks.retain(|(chunk, _), _| is_kept(chunk.segment()));
    }

    /// Blocks that would have to be stored once more if content were not shared. Families may have been
    /// joined since spots were noted.
    pub(super) fn shared_by_content(self, families: &mut Families) -> u64 {
        let mut shared = self.beyond;
        let mut rest = self.blocks.into_iter().peekable();
        while let Some(((chunk, first), blocks)) = rest.next() {
            let mut of_chunk: BTreeMap<Spot, u16> = BTreeMap::new();
            let mut add = |(family, base): Spot, blocks: u16| {
                *of_chunk.entry((families.find(family), base)).or_default() |= blocks;
            };
            add(first, blocks);
            while let Some(((_, spot), blocks)) = rest.next_if(|((other, _), _)| *other == chunk) {
                add(spot, blocks);
            }
            let stored = of_chunk.values().fold(0, |all, blocks| all | blocks).count_ones();
            let wanted: u64 = of_chunk.values().map(|blocks| u64::from(blocks.count_ones())).sum();
            shared += wanted - u64::from(stored);
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families(count: u32) -> Families {
        Families { parents: (0..count).collect() }
    }

    #[test]
    fn copies_of_a_root_are_one_place_and_content_is_several() {
        let chunk = Pointer::data(SegmentId(3), 640, 9000);
        let mut families = families(4);
        let mut spots = Spots::default();
        spots.add(chunk, (0, 100), 0b111);
        spots.add(chunk, (1, 100), 0b011);
        spots.add(chunk, (2, 100), 0b001);
        spots.add(chunk, (0, 50), 0b100);
        spots.add(Pointer::data(SegmentId(4), 640, 9000), (0, 7), 0b1);
        // Found out late that 1 is made from 0.
        families.join(1, 0);
        // Once more for 2, once more at another address.
        assert_eq!(spots.shared_by_content(&mut families), 2);
    }

    #[test]
    fn families_join_whatever_the_order() {
        let mut families = families(6);
        families.join(4, 5);
        families.join(1, 4);
        families.join(0, 3);
        families.join(5, 3);
        let found: Vec<u32> = (0..6).map(|image| families.find(image)).collect();
        assert_eq!(found, [0, 0, 2, 0, 0, 0]);
    }
}
