//! Copies in the model: of each block, the contents that may come to be there.
//!
//! A copy is a write of each block of 4 KiB. Of a block whose content is known it is one write of that. Of a
//! block that has several possible contents, or is written meanwhile, it is one of several writes, and only
//! what is read later tells which.

use std::collections::BTreeSet;

use super::image::Candidate;
use super::{ImageKey, OperationId, Oracle, Outcome, Run};
use crate::content::{COPIED_SECTORS, Value};

/// A copy in flight: one at a time.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    /// The incarnation of the volume that is read, if it is one that may change.
    source: Option<u32>,
    from: Run,
    volume: String,
    to: Run,
    /// How far up it goes.
    blocks: i64,
    writes: Vec<OperationId>,
    /// Units of the target of which it is not known what comes there.
    unsure: BTreeSet<u64>,
}

impl Copying {
    /// Where units of the source come to be.
    fn target_of(&self, run: Run) -> Run {
        Run { first: run.first - self.from.first + self.to.first, ..run }
    }
}

impl Oracle {
    /// True while a copy is in flight.
    #[must_use]
    pub fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// A copy is issued: from a run of an image to a volume of the same unit, whole blocks of 4 KiB each.
    /// Both are kept from being replaced meanwhile. Returns the number of its first write.
    pub fn copy_begin(&mut self, key: &ImageKey, from: Run, volume: &str, first: u64) -> OperationId {
        let image = self.image(key).expect("copies are of images that exist").excerpt(from);
        let to = Run { first, ..from };
        let units = COPIED_SECTORS / image.unit_sectors();
        let blocks = (to.first / units) as i64 - (from.first / units) as i64;
        let source = matches!(key, ImageKey::Live(_)).then(|| self.image_number(key)).flatten();
        let beside: Vec<(Run, Value)> = self
            .flying
            .iter()
            .filter(|(_, (_, incarnation))| Some(*incarnation) == source)
            .map(|(id, _)| (self.operations[id.0 as usize].run, self.operations[id.0 as usize].value))
            .collect();
        let (writes, unsure, volume) = (Vec::new(), BTreeSet::new(), volume.to_string());
        let mut copying = Copying { source, from, volume, to, blocks, writes, unsure };
        let possible = |unit: u64| -> BTreeSet<Value> {
            let flying = beside.iter().filter(|(run, _)| run.contains(unit)).map(|(_, value)| *value);
            image.cell(unit).candidates().iter().map(|one| one.value).chain(flying).collect()
        };
        let mut unit = from.first;
        while unit < from.end() {
            let values = possible(unit);
            let end = (unit / units + 1) * units;
            let count = (unit..end).take_while(|other| possible(*other) == values).count() as u64;
            self.begin_part(&mut copying, Run { first: unit, count }, &values);
            unit += count;
        }
        let first = copying.writes[0];
        self.copying = Some(copying);
        first
    }

    fn begin_part(&mut self, copying: &mut Copying, run: Run, values: &BTreeSet<Value>) {
        let to = copying.target_of(run);
        for value in values {
            copying.writes.push(self.write_begin(&copying.volume, to, value.copied(copying.blocks)));
        }
        if values.len() > 1 {
            copying.unsure.extend(to.first..to.end());
        }
    }

    /// A write is issued, which a copy in flight may see.
    pub(super) fn note_written_beside(&mut self, incarnation: u32, run: Run, value: Value) {
        let Some(mut copying) = self.copying.take() else { return };
        let seen = run.intersection(copying.from);
        if copying.source == Some(incarnation) && seen.count > 0 {
            let to = copying.target_of(seen);
            copying.unsure.extend(to.first..to.end());
            copying.writes.push(self.write_begin(&copying.volume, to, value.copied(copying.blocks)));
        }
        self.copying = Some(copying);
    }

    /// The copy's end.
    pub fn copy_end(&mut self, outcome: Outcome) {
        let copying = self.copying.take().expect("a copy ends once");
        let is_done = outcome == Outcome::Done && self.volumes.contains_key(&copying.volume);
        let mut settled = BTreeSet::new();
        for id in &copying.writes {
            let run = self.operations[id.0 as usize].run;
            let is_unsure = (run.first..run.end()).any(|unit| copying.unsure.contains(&unit));
            if !is_done || !is_unsure {
                self.write_end(*id, outcome);
                continue;
            }
            for unit in run.first..run.end() {
                self.leave_unsure(*id, &copying.volume, unit, settled.insert(unit));
            }
        }
    }

    /// One of several writes of a unit happened. None of them counts as acknowledged: it may be another.
    fn leave_unsure(&mut self, id: OperationId, volume: &str, unit: u64, is_first: bool) {
        let now = self.tick();
        self.flying.remove(&id);
        self.given_back_at = now;
        let (value, issued_at) =
            (self.operations[id.0 as usize].value, self.operations[id.0 as usize].issued_at);
        let new = Candidate { value, operation: id, settled_at: now, doubtful_in_life: 0 };
        let image = &mut self.volumes.get_mut(volume).expect("a copy keeps its volume alive").image;
        image.change(Run { first: unit, count: 1 }.up_to(image.units()), false, |cell| match is_first {
            true => cell.settle(new, issued_at),
            false => cell.add(new),
        });
    }
}
