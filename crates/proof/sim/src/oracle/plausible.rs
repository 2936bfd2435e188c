//! What is demanded of a pool whose drives lied: never bytes that were not written at that address.
//!
//! Without redundancy a drive that loses or misplaces a write can take acknowledged data with it.
//! Errors are permitted then, and after a restart also older contents: but never another block's
//! bytes, those of a volume that has nothing to do with this name, or a mixture.

use std::collections::BTreeSet;

use super::{ImageKey, Operation, Oracle, Run};
use crate::content::{Value, describe, recognise};

impl Oracle {
    /// Judges bytes read from the image at `run` by the weaker demand.
    pub fn check_plausible(&self, key: &ImageKey, run: Run, bytes: &[u8]) -> Result<(), String> {
        let Some(image) = self.image(key) else { return Ok(()) };
        let (ImageKey::Live(volume) | ImageKey::Frozen { volume, .. }) = key;
        let Some(lineage) = self.lineages.get(volume) else { return Ok(()) };
        for (unit, bytes) in (run.first..).zip(bytes.chunks_exact(image.unit_bytes as usize)) {
            let sector = unit * image.unit_sectors();
            let is_plausible = match recognise(sector, bytes) {
                Some(Value::ZERO) => true,
                Some(value) if value.is_shared() => true,
                Some(value) => value.write_number().is_some_and(|number| {
                    let operation = self.operations.get(number as usize);
                    operation.is_some_and(|operation| {
                        let is_it = operation.value == value && operation.run.contains(unit);
                        is_it && lineage.contains(&operation.volume)
                    }) || self.was_copied(value, unit, lineage)
                }),
                None => false,
            };
            if !is_plausible {
                let what = describe(sector, bytes);
                return Err(format!("{}: block {unit} holds {what}, never written there", key.device_name()));
            }
        }
        Ok(())
    }

    /// Whether a copy put this there.
    fn was_copied(&self, value: Value, unit: u64, lineage: &BTreeSet<u32>) -> bool {
        let is_it = |operation: &&Operation| operation.value == value && operation.run.contains(unit);
        self.operations.iter().filter(is_it).any(|operation| lineage.contains(&operation.volume))
    }
}
