//! Is a snapshot one instant? Judged from what was read of it.
//!
//! A write that the snapshot holds was issued before the instant; a write that it lacks was
//! acknowledged after it. If the earliest acknowledgement among the lacking is before the latest
//! issue among the held, no instant fits: some write is there without one it may depend on. This
//! holds across the volumes of a group, and for several blocks of one volume.

use super::image::{Candidate, Cell};
use super::{Image, ImageKey, OperationId, Oracle};

/// Images taken at one instant, and the writes that were in flight while it was chosen.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) images: Vec<Taken>,
    pub(super) writes: Vec<OperationId>,
}

/// An image taken of a volume.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) key: ImageKey,
    /// The snapshot's number or the clone's incarnation: the name may have gone to another since.
    pub(super) number: u32,
    /// The incarnation of the volume it was taken of.
    pub(super) volume: u32,
}

/// What an image tells about a write.
enum Trace {
    Held,
    Lacking,
    Unknown,
}

impl Oracle {
    /// Judges every snapshot taken under writes since the last call. Call it after all images were
    /// read in full: a block that was not read tells nothing.
    pub fn check_exactness(&mut self) -> Result<(), String> {
        for group in std::mem::take(&mut self.groups) {
            self.check_group(&group)?;
        }
        Ok(())
    }

    /// Judges one snapshot, if it was taken under writes and not judged yet. Call it after its images
    /// were read in full.
    pub fn check_exactness_of(&mut self, snapshot: &str) -> Result<(), String> {
        let is_wanted = |group: &Group| {
            let key = &group.images[0].key;
            matches!(key, ImageKey::Frozen { snapshot: name, .. } if name == snapshot)
        };
        let (wanted, rest) = std::mem::take(&mut self.groups).into_iter().partition(is_wanted);
        self.groups = rest;
        let wanted: Vec<Group> = wanted;
        wanted.iter().try_for_each(|group| self.check_group(group))
    }

    fn check_group(&self, group: &Group) -> Result<(), String> {
        let mut latest_held: Option<(u64, OperationId)> = None;
        let mut earliest_lacking: Option<(u64, OperationId)> = None;
        for id in &group.writes {
            let operation = &self.operations[id.0 as usize];
            if operation.value.write_number().is_none() {
                continue;
            }
            for taken in group.images.iter().filter(|taken| taken.volume == operation.volume) {
                let Some(image) = self.taken_image(taken) else { continue };
                for unit in operation.run.first..operation.run.end().min(image.units()) {
                    match self.trace(*id, image, unit) {
                        Trace::Held => latest_held = latest_held.max(Some((operation.issued_at, *id))),
                        Trace::Lacking => {
                            let end = operation.acknowledged_at.unwrap_or(u64::MAX);
                            let new = (end, *id);
                            earliest_lacking = Some(earliest_lacking.map_or(new, |old| old.min(new)));
                        }
                        Trace::Unknown => {}
                    }
                }
            }
        }
        match (latest_held, earliest_lacking) {
            (Some((issued_at, held)), Some((acknowledged_at, lacking))) if acknowledged_at < issued_at => {
                let names: Vec<String> = group.images.iter().map(|taken| taken.key.device_name()).collect();
                Err(format!(
                    "{} is not one instant: it holds write {} but lacks write {}, acknowledged before \
                     the other was issued",
                    names.join(" "),
                    held.0,
                    lacking.0
                ))
            }
            _ => Ok(()),
        }
    }

    fn taken_image(&self, taken: &Taken) -> Option<&Image> {
        (self.image_number(&taken.key)? == taken.number).then(|| self.image(&taken.key)).flatten()
    }

    fn trace(&self, id: OperationId, image: &Image, unit: u64) -> Trace {
        let Cell::One(Candidate { operation: found, .. }) = image.cell(unit) else { return Trace::Unknown };
        if found == id {
            return Trace::Held;
        }
        let (found, wanted) = (&self.operations[found.0 as usize], &self.operations[id.0 as usize]);
        match found.acknowledged_at {
            Some(end) if end < wanted.issued_at => Trace::Lacking,
            _ => Trace::Unknown,
        }
    }
}
