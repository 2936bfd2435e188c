//! The kinds of notes: what each is called, how much room it has, and who must know it.
//!
//! ```text
//! kind u16: bits 15, 14 class   bit 13 secret   bits 12..0 number, never given twice
//! class 0:  who does not know the kind keeps its notes and goes on
//! class 1:  who does not know it may only read the pool
//! class 2:  who does not know it must not open the pool; class 3 is taken for it
//! ```
//!
//! The engine enforces the quotas when notes are put, never when they are replayed: a later program may have
//! others. What a kind speaks of is part of the format: a volume that is deleted takes along the notes that
//! are about it, in every program alike.

use crate::notes::{NOTE_HEADER_BYTES, NOTE_VALUE_BYTES_MAX, NOTEBOOK_BYTES_MAX};

/// Events that the notebook remembers: the newest takes the place of the oldest.
pub const EVENTS_MAX: u16 = 4096;
/// Bytes of one event at most.
pub const EVENT_BYTES_MAX: usize = 256;

const CLASS_SHIFT: u32 = 14;
const SECRET: u16 = 1 << 13;

/// What a program does that does not know a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteClass {
    /// It keeps the notes, byte for byte.
    Keep,
    /// It may only read the pool.
    ReadOnly,
    /// It must not open the pool.
    Refuse,
}

impl NoteClass {
    /// The class that is written in a kind's code.
    #[must_use]
    pub fn of(kind: u16) -> NoteClass {
        match kind >> CLASS_SHIFT {
            0 => NoteClass::Keep,
            1 => NoteClass::ReadOnly,
            _ => NoteClass::Refuse,
        }
    }
}

/// Whether the values of a kind, known or not, must never be shown.
#[must_use]
pub fn is_secret(kind: u16) -> bool {
    kind & SECRET != 0
}

/// What the notes of a kind speak of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteSubject {
    /// The pool: the subject is 0.
    Pool,
    /// A volume or a snapshot's image, by its identity: its notes go when it goes.
    Volume,
    /// Something that the kind numbers itself.
    Number,
}

/// The kinds that this program knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoteKind {
    /// What a volume may take at most. Part 0: bytes of its own on the drives; 1 to 3: its rates; 4: its
    /// floor in microseconds; 5: its class, 1 is low.
    Limit,
    /// How many bytes on the drives are kept for a volume.
    Reserve,
    /// Who may do what.
    Role,
    /// Words that people attach to a volume or a snapshot.
    Label,
    /// A snapshot that must not be deleted until somebody releases it. About the first of its images.
    Hold,
    /// When snapshots are taken, of what, and how long they are kept.
    Schedule,
    /// Databases and the volumes they live on.
    Database,
    /// Volumes attached to this machine as block devices.
    Attachment,
    /// What happened to the pool, numbered; a ring.
    Event,
    /// Doors through which hosts reach a volume.
    Export,
    /// Hosts that may come in, with the passwords by which they prove who they are.
    Chap,
    /// Hosts that reserved a volume, across losses of power.
    Reservation,
    /// The pool and snapshot that a volume was received from.
    ReceivedFrom,
    /// What a volume was made from, where that is not in this pool.
    MadeFrom,
    /// Wrapped keys of volumes.
    VolumeKey,
    /// The oldest instant to which a volume can be taken back.
    HistoryFloor,
    /// How far a volume that moves has come.
    Moving,
    /// How far the pool's rows have been laid out anew.
    Restripe,
    /// How fast requests of a volume should be, and for how much of the time.
    Objective,
    /// The number that an export was given last, so that numbers come round late.
    LastUnit,
}

/// One line of the register.
struct Registered {
    kind: NoteKind,
    class: NoteClass,
    number: u16,
    is_secret: bool,
    name: &'static str,
    subject: NoteSubject,
    quota_bytes: usize,
}

const KIB: usize = 1 << 10;

#[rustfmt::skip]
const REGISTER: [Registered; 20] = {
    use NoteClass::{Keep, ReadOnly};
    use NoteSubject::{Number, Pool, Volume};
    [
        line(NoteKind::Limit,        Keep,     1,  false, "limit",         Volume, 1024 * KIB),
        line(NoteKind::Reserve,      Keep,     2,  false, "reserve",       Volume, 512 * KIB),
        line(NoteKind::Role,         Keep,     3,  false, "role",          Number, 256 * KIB),
        line(NoteKind::Label,        Keep,     4,  false, "label",         Volume, 2048 * KIB),
        line(NoteKind::Hold,         ReadOnly, 5,  false, "hold",          Volume, 1024 * KIB),
        line(NoteKind::Schedule,     Keep,     6,  false, "schedule",      Number, 512 * KIB),
        line(NoteKind::Database,     Keep,     7,  false, "database",      Number, 512 * KIB),
        line(NoteKind::Attachment,   Keep,     8,  false, "attachment",    Volume, 1024 * KIB),
        line(NoteKind::Event,        Keep,     9,  false, "event",         Number, EVENTS_BYTES),
        line(NoteKind::Export,       Keep,     10, false, "export",        Volume, 1024 * KIB),
        line(NoteKind::Chap,         Keep,     11, true,  "chap",          Number, 256 * KIB),
        line(NoteKind::Reservation,  Keep,     12, false, "reservation",   Volume, 1024 * KIB),
        line(NoteKind::ReceivedFrom, Keep,     13, false, "received-from", Volume, 512 * KIB),
        line(NoteKind::MadeFrom,     Keep,     14, false, "made-from",     Volume, 512 * KIB),
        line(NoteKind::VolumeKey,    Keep,     15, true,  "volume-key",    Number, 1024 * KIB),
        line(NoteKind::HistoryFloor, Keep,     16, false, "history-floor", Volume, 256 * KIB),
        line(NoteKind::Moving,       Keep,     17, false, "moving",        Volume, 256 * KIB),
        line(NoteKind::Restripe,     Keep,     18, false, "restripe",      Pool,   64 * KIB),
        line(NoteKind::Objective,    Keep,     19, false, "objective",     Volume, 256 * KIB),
        line(NoteKind::LastUnit,     Keep,     20, false, "last-unit",     Pool,   KIB),
    ]
};

const EVENTS_BYTES: usize = EVENTS_MAX as usize * (NOTE_HEADER_BYTES + EVENT_BYTES_MAX);

const fn line(
    kind: NoteKind,
    class: NoteClass,
    number: u16,
    is_secret: bool,
    name: &'static str,
    subject: NoteSubject,
    quota_bytes: usize,
) -> Registered {
    Registered { kind, class, number, is_secret, name, subject, quota_bytes }
}

const fn quotas() -> usize {
    let (mut index, mut sum) = (0, 0);
    while index < REGISTER.len() {
        // A kind's line is found by its place.
        assert!(REGISTER[index].kind as usize == index);
        assert!(REGISTER[index].number >> 13 == 0);
        sum += REGISTER[index].quota_bytes;
        index += 1;
    }
    sum
}

// No kind takes the room of another; what is left is for kinds of later programs.
const _: () = assert!(quotas() <= NOTEBOOK_BYTES_MAX);

impl NoteKind {
    /// All there are.
    pub fn all() -> impl Iterator<Item = NoteKind> {
        REGISTER.iter().map(|line| line.kind)
    }

    fn line(self) -> &'static Registered {
        &REGISTER[self as usize]
    }

    /// What stands for it on drives, class and all.
    #[must_use]
    pub fn code(self) -> u16 {
        let line = self.line();
        let class = match line.class {
            NoteClass::Keep => 0,
            NoteClass::ReadOnly => 1,
            NoteClass::Refuse => 2,
        };
        class << CLASS_SHIFT | if line.is_secret { SECRET } else { 0 } | line.number
    }

    /// The kind of a code, if this program knows it.
    #[must_use]
    pub fn from_code(code: u16) -> Option<NoteKind> {
        NoteKind::all().find(|kind| kind.code() == code)
    }

    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.line().name
    }

    /// What its notes speak of.
    #[must_use]
    pub fn subject(self) -> NoteSubject {
        self.line().subject
    }

    /// Bytes of all its notes at most, their headers included.
    #[must_use]
    pub fn quota_bytes(self) -> usize {
        self.line().quota_bytes
    }

    /// Whether notes of this code go with the volume that they are about.
    #[must_use]
    pub fn is_about_volumes(code: u16) -> bool {
        NoteKind::from_code(code).is_some_and(|kind| kind.subject() == NoteSubject::Volume)
    }

    /// Bytes of one value at most.
    #[must_use]
    pub fn value_bytes_max(self) -> usize {
        if self == NoteKind::Event { EVENT_BYTES_MAX } else { NOTE_VALUE_BYTES_MAX }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_code_and_a_name_of_its_own() {
        let codes: BTreeSet<u16> = NoteKind::all().map(NoteKind::code).collect();
        let names: BTreeSet<&str> = NoteKind::all().map(NoteKind::name).collect();
        assert_eq!((codes.len(), names.len()), (REGISTER.len(), REGISTER.len()));
        for kind in NoteKind::all() {
            assert_eq!(NoteKind::from_code(kind.code()), Some(kind));
            assert_eq!(NoteClass::of(kind.code()), kind.line().class);
            assert_eq!(is_secret(kind.code()), kind.line().is_secret);
        }
        // Written on drives: these never change.
        assert_eq!(NoteKind::Hold.code(), 0x4005);
        assert_eq!(NoteKind::Chap.code(), 0x200b);
        assert_eq!(NoteKind::from_code(0x0005), None);
    }

    #[test]
    fn a_class_that_nobody_gave_yet_refuses() {
        assert_eq!(NoteClass::of(0x1fff), NoteClass::Keep);
        assert_eq!(NoteClass::of(0x7fff), NoteClass::ReadOnly);
        assert_eq!(NoteClass::of(0x8001), NoteClass::Refuse);
        assert_eq!(NoteClass::of(0xc001), NoteClass::Refuse);
    }
}
