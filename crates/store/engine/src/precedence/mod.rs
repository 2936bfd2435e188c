//! Who goes first: volumes with a floor before others while it is missed, class normal before class low.
//!
//! A floor is a time within which the requests of a volume should be answered. While they are not, background
//! work leaves the drives to hosts for longer, and then the other volumes may have fewer requests in the
//! engine: those without a floor, and those with a longer one. What a volume waits by its own rates does not
//! count; what it waits for others here does.
//!
//! [`floor`] judges, [`gate`] counts and has requests wait. Which volumes are what is in their notes.

mod floor;
mod gate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_format::allowance::{ALLOWANCE_VERSION, decode, encode};
use ashlar_format::note_kind::NoteKind;
use ashlar_format::notes::NoteKey;
use ashlar_units::VolumeId;

pub use self::floor::FloorStatus;
use self::gate::Entry;
pub(crate) use self::gate::{Gate, Place};
use crate::engine::{Engine, Inner};
use crate::notebook::{NoteBatch, Notebook};
use crate::stages::{Course, Stage};
use crate::{Error, ErrorKind, Result};

/// Parts of a volume's note of its limits: 0 is of bytes on the drives, 1 to 3 are of rates.
const FLOOR: u16 = 4;
const CLASS: u16 = 5;

/// What the note of the class says of low; normal has none.
const LOW: u64 = 1;

/// Below the least that a drive takes for a write. Who asks for less would hold all others for ever.
const FLOOR_MIN: Duration = Duration::from_micros(100);
/// Who waits for longer notices no windows of a tenth of a second.
const FLOOR_MAX: Duration = Duration::from_secs(1);

/// Whether a volume's requests give way to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Class {
    /// They do not.
    #[default]
    Normal,
    /// While volumes of class normal are at work few of its requests are in the engine.
    Low,
}

/// Who goes before a volume, and before whom it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Precedence {
    /// Its reads and writes should be answered within this time. Kept in microseconds.
    pub floor: Option<Duration>,
    /// Whether it gives way.
    pub class: Class,
}

impl Precedence {
    /// What the notes of a volume say.
    pub(crate) fn of(notebook: &Notebook, id: VolumeId) -> Precedence {
        let noted = |part| {
            let note = notebook.get(NoteKey { kind: NoteKind::Limit.code(), subject: id.0, part })?;
            decode(note.version, &note.value)
        };
        let floor = noted(FLOOR).map(Duration::from_micros).filter(|floor| !floor.is_zero());
        let class = if noted(CLASS) == Some(LOW) { Class::Low } else { Class::Normal };
        Precedence { floor, class }
    }

    /// The changes that make this one of another, with those of a batch.
    pub(crate) fn note(self, before: Precedence, id: VolumeId, batch: NoteBatch) -> NoteBatch {
        let change = |batch: NoteBatch, part, before: Option<u64>, now: Option<u64>| match now {
            _ if before == now => batch,
            Some(value) => batch.put(NoteKind::Limit, id.0, part, ALLOWANCE_VERSION, encode(value)),
            None => batch.delete(NoteKind::Limit, id.0, part),
        };
        let batch = change(batch, FLOOR, before.floor_micros(), self.floor_micros());
        change(batch, CLASS, before.class_noted(), self.class_noted())
    }

    fn floor_micros(self) -> Option<u64> {
        self.floor.map(|floor| u64::try_from(floor.as_micros()).unwrap_or(u64::MAX))
    }

    fn class_noted(self) -> Option<u64> {
        (self.class == Class::Low).then_some(LOW)
    }

    /// Refuses what no volume can have.
    pub(crate) fn check(self, name: &str) -> Result<()> {
        let refused = |what: &str, action: &str| {
            Err(Error::new(ErrorKind::Invalid, format!("volume {name}: {what}")).and_do(action))
        };
        match self.floor {
            Some(floor) if floor < FLOOR_MIN => refused(
                "a floor of less than 100 us is not possible",
                "name a longer time, or take the floor away with `--floor none`",
            ),
            Some(floor) if floor > FLOOR_MAX => {
                refused("a floor of more than a second is not possible", "name a shorter time")
            }
            Some(_) if self.class == Class::Low => refused(
                "what gives way to others cannot have a floor",
                "set `--class normal`, or take the floor away with `--floor none`",
            ),
            Some(_) | None => Ok(()),
        }
    }
}

impl Engine {
    /// How a volume's floor is kept; `None` of one without.
    #[must_use]
    pub fn floor_status(&self, volume: &str) -> Option<FloorStatus> {
        let inner = &self.inner;
        inner.follow_precedence();
        let id = inner.tree.borrow().catalogue.volume(volume)?.id;
        inner.gate.status(id)
    }
}

impl Inner {
    /// Lets the gate know what the notebook says.
    pub(crate) fn follow_precedence(&self) {
        let tree = self.tree.borrow();
        let limits = tree.notebook.limits_lsn();
        if self.gate.has_seen(limits) {
            return;
        }
        let notes = tree.notebook.range(NoteKind::Limit.code(), 0..=u64::MAX);
        let noted = notes.filter(|note| matches!(note.key.part, FLOOR | CLASS));
        let members: BTreeMap<VolumeId, Precedence> = noted
            .map(|note| VolumeId(note.key.subject))
            .map(|id| (id, Precedence::of(&tree.notebook, id)))
            .filter(|(_, precedence)| *precedence != Precedence::default())
            .collect();
        self.gate.follow(limits, members);
    }

    /// Has a request wait while others go before its volume. It is in the engine until its place is dropped.
    pub(crate) async fn take_place(&self, id: VolumeId, course: Option<&mut Course<'_>>) -> Option<Place> {
        self.follow_precedence();
        let waiting = match self.gate.enter(id)? {
            Entry::Free(place) => return Some(place),
            Entry::Waiting(waiting) => waiting,
        };
        self.counters.borrow_mut().requests_gave_precedence += 1;
        let _task = self.as_task();
        let place = waiting.await.ok();
        if let Some(course) = course {
            course.passed(Stage::Precedence);
        }
        place
    }
}
