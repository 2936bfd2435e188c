//! What everything that may be alive takes at most: by that a refusal for want of space is judged.
//!
//! Nothing is compressed here and nothing shared by content. What images share by having been copied
//! from each other counts once: a block that the same write put at the same address.

use std::collections::BTreeSet;

use super::changes::Effect;
use super::{Image, Operation, OperationId, Oracle};
use crate::content::Value;

/// What the pool maps and compresses.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// A block stored as it is, alone in its chunk: behind a header, and up to where the next may start.
const STORED_BLOCK_BYTES: u64 = BLOCK_BYTES + 64;
/// What one image's mapping of a block takes in map pages, written as differences from others or whole:
/// generous, since few pages are of one image alone.
const MAPPING_BYTES: u64 = 16;

/// A block of an image, and a write that may have made it what it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    /// The volume from which the image descends.
    family: u32,
    block: u64,
    image: usize,
    operation: OperationId,
}

impl Oracle {
    /// Bytes that everything which may be alive takes at most.
    #[must_use]
    pub fn demand_bytes_max(&self) -> u64 {
        let mut claims = Vec::new();
        for (number, image) in self.images_that_may_be().enumerate() {
            note_claims(image, number, &mut claims);
        }
        claims.sort_unstable();
        let settled: u64 = claims
            .chunk_by(|one, next| (one.family, one.block) == (next.family, next.block))
            .map(|of_block| {
                let images: BTreeSet<usize> = of_block.iter().map(|claim| claim.image).collect();
                let makers: BTreeSet<OperationId> = of_block.iter().map(|claim| claim.operation).collect();
                // Of the writes that may have made a block, one has made that of each image.
                let stored = images.len().min(makers.len()) as u64;
                stored * STORED_BLOCK_BYTES + images.len() as u64 * MAPPING_BYTES
            })
            .sum();
        settled + self.flying_bytes() + self.notes_bytes_max()
    }

    /// True when space may have been given back after this write was issued: the pool may have looked
    /// before.
    #[must_use]
    pub fn gave_back_since(&self, write: OperationId) -> bool {
        self.given_back_at > self.operations[write.0 as usize].issued_at
    }

    /// Every image that exists, or may come to exist by what is in flight or in doubt.
    fn images_that_may_be(&self) -> impl Iterator<Item = &Image> {
        let live = self.volumes.values().chain(self.deleted.values()).map(|volume| &volume.image);
        let forks = self.volumes.values().filter_map(|volume| Some(&volume.alternative.as_ref()?.1));
        let frozen = self.snapshots.values().flat_map(|snapshot| snapshot.images.values());
        let coming = self.pending.values().flat_map(|pending| images_of_effect(&pending.effect));
        live.chain(forks).chain(frozen.map(|(_, image)| image)).chain(coming)
    }

    /// What writes in flight may have put on drives already.
    fn flying_bytes(&self) -> u64 {
        let bytes_of = |(id, (volume, _)): (&OperationId, &(String, u32))| {
            let Operation { run, value, .. } = &self.operations[id.0 as usize];
            let unit_bytes =
                self.volumes.get(volume).map_or(BLOCK_BYTES, |volume| volume.image.unit_bytes.into());
            // And the blocks that are hit in part at both ends.
            let blocks = (run.count * unit_bytes).div_ceil(BLOCK_BYTES) + 1;
            if *value == Value::ZERO { 0 } else { blocks * STORED_BLOCK_BYTES }
        };
        self.flying.iter().map(bytes_of).sum()
    }
}

fn images_of_effect(effect: &Effect) -> Vec<&Image> {
    match effect {
        Effect::AddVolumes(volumes) => volumes.iter().map(|(_, volume)| &volume.image).collect(),
        Effect::AddSnapshot(_, snapshot) => snapshot.images.values().map(|(_, image)| image).collect(),
        Effect::Replace(images) => images.iter().map(|(_, image)| image).collect(),
        Effect::ReplaceKeeping(images, _, kept) => {
            let kept = kept.images.values().map(|(_, image)| image);
            images.iter().map(|(_, image)| image).chain(kept).collect()
        }
        Effect::RemoveVolume(_)
        | Effect::RemoveSnapshot(_)
        | Effect::Resize(..)
        | Effect::SetAside(_)
        | Effect::BringBack(_)
        | Effect::GiveUp(_) => Vec::new(),
    }
}

/// Claims of the blocks of which some part may be other than zeroes.
fn note_claims(image: &Image, number: usize, claims: &mut Vec<Claim>) {
    let family = image.lineage[0];
    let units_per_block = (BLOCK_BYTES / u64::from(image.unit_bytes)) as usize;
    for (first_unit, cells) in image.written_cells() {
        for (units, first) in cells.chunks(units_per_block).zip((first_unit..).step_by(units_per_block)) {
            let candidates = || units.iter().flat_map(|cell| cell.candidates());
            if candidates().all(|candidate| candidate.value == Value::ZERO) {
                continue;
            }
            let block = first / units_per_block as u64;
            // Before everything nothing was written.
            let makers = candidates().map(|candidate| candidate.operation).filter(|maker| maker.0 > 0);
            claims.extend(makers.map(|operation| Claim { family, block, image: number, operation }));
        }
    }
}
