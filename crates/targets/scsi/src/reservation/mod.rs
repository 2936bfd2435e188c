//! Persistent reservations: who is registered on a unit, who holds it, and what others may do (SPC-4 5.13).
//!
//! ```text
//!   PERSISTENT RESERVE OUT ─► list (parameter list) ─► rules (state → state, who hears of it)
//!   PERSISTENT RESERVE IN  ─► report
//!   any command            ─► Reservations::allows
//! ```
//!
//! The state is a value: a service action makes a new one from the old, the unit saves it if the hosts asked
//! for that (APTPL), and puts it in place. So nothing is half done, and what was refused left no trace.
//!
//! Invariants: (1) who holds the unit is registered; (2) `by` is `None` exactly for the all registrants
//! types; (3) no registration has key zero; (4) there are at most [`REGISTRATIONS_MAX`].

mod list;
mod report;
mod rules;
mod transport_id;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::ready;

use ashlar_block::{LocalFuture, Result};

use crate::commands::Access;
use crate::sense::Sense;

pub(crate) use list::{Request, parse_list};
pub(crate) use report::report;
pub(crate) use rules::apply;

/// Registrations on one unit. Arbitrary: 256 hosts with one port each; a registration takes some hundred
/// bytes.
pub const REGISTRATIONS_MAX: usize = 256;

/// A path from a host to this target: its initiator port and the port here it came in by (SAM-5 4.7.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Nexus {
    /// The initiator port's name: for iSCSI the initiator's name, `,i,0x` and its ISID (RFC 7143 4.3).
    pub initiator: String,
    /// The relative identifier of the target port.
    pub port: u16,
}

/// The types of persistent reservation (SPC-4 table 68).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ReservationKind {
    /// The holder writes, everybody reads.
    WriteExclusive = 1,
    /// The holder alone reads and writes.
    ExclusiveAccess = 3,
    /// Registrants write, everybody reads; it goes with the registrant that reserved.
    WriteExclusiveRegistrants = 5,
    /// Registrants read and write; it goes with the registrant that reserved.
    ExclusiveAccessRegistrants = 6,
    /// Registrants write, everybody reads; it goes with the last registrant.
    WriteExclusiveAll = 7,
    /// Registrants read and write; it goes with the last registrant.
    ExclusiveAccessAll = 8,
}

impl ReservationKind {
    /// The type of this code; `None` for a code that is obsolete or reserved.
    #[must_use]
    pub fn from_wire(code: u8) -> Option<ReservationKind> {
        [
            ReservationKind::WriteExclusive,
            ReservationKind::ExclusiveAccess,
            ReservationKind::WriteExclusiveRegistrants,
            ReservationKind::ExclusiveAccessRegistrants,
            ReservationKind::WriteExclusiveAll,
            ReservationKind::ExclusiveAccessAll,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == code)
    }

    /// Every registrant holds it.
    fn is_for_all(self) -> bool {
        matches!(self, ReservationKind::WriteExclusiveAll | ReservationKind::ExclusiveAccessAll)
    }

    /// Registrants may do what the holder may.
    fn is_for_registrants(self) -> bool {
        !matches!(self, ReservationKind::WriteExclusive | ReservationKind::ExclusiveAccess)
    }

    /// Others may read.
    fn lets_read(self) -> bool {
        matches!(
            self,
            ReservationKind::WriteExclusive
                | ReservationKind::WriteExclusiveRegistrants
                | ReservationKind::WriteExclusiveAll
        )
    }
}

/// Service actions of PERSISTENT RESERVE IN (SPC-4 table 213).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InAction {
    ReadKeys,
    ReadReservation,
    ReportCapabilities,
    ReadFullStatus,
}

impl InAction {
    pub(crate) fn from_wire(code: u8) -> Option<InAction> {
        Some(match code {
            0 => InAction::ReadKeys,
            1 => InAction::ReadReservation,
            2 => InAction::ReportCapabilities,
            3 => InAction::ReadFullStatus,
            _ => return None,
        })
    }
}

/// Service actions of PERSISTENT RESERVE OUT (SPC-4 table 226).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutAction {
    Register,
    Reserve,
    Release,
    Clear,
    Preempt,
    PreemptAndAbort,
    RegisterAndIgnore,
    RegisterAndMove,
}

impl OutAction {
    pub(crate) fn from_wire(code: u8) -> Option<OutAction> {
        Some(match code {
            0 => OutAction::Register,
            1 => OutAction::Reserve,
            2 => OutAction::Release,
            3 => OutAction::Clear,
            4 => OutAction::Preempt,
            5 => OutAction::PreemptAndAbort,
            6 => OutAction::RegisterAndIgnore,
            7 => OutAction::RegisterAndMove,
            _ => return None,
        })
    }
}

/// A reservation, and who has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Its type.
    pub kind: ReservationKind,
    /// The holder; `None` where every registrant is one.
    pub by: Option<Nexus>,
}

/// What outlives a loss of power when the hosts asked for that (APTPL).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Saved {
    /// Registrants and their keys.
    pub registrations: Vec<(Nexus, u64)>,
    /// The reservation.
    pub held: Option<Held>,
}

/// Keeps [`Saved`] for one unit. A save is durable when its future ends.
pub trait ReservationStore {
    /// Replaces what was saved before.
    fn save<'a>(&'a self, saved: &'a Saved) -> LocalFuture<'a, Result<()>>;
}

/// A store that forgets when the process ends, for tests.
#[derive(Default)]
pub struct MemoryStore {
    saved: RefCell<Saved>,
}

impl MemoryStore {
    /// What was saved last.
    #[must_use]
    pub fn saved(&self) -> Saved {
        self.saved.borrow().clone()
    }
}

impl ReservationStore for MemoryStore {
    fn save<'a>(&'a self, saved: &'a Saved) -> LocalFuture<'a, Result<()>> {
        self.saved.replace(saved.clone());
        Box::pin(ready(Ok(())))
    }
}

/// The registrations and the reservation of one unit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reservations {
    /// PRGENERATION: counts changes of registrations since the power came on.
    generation: u32,
    registrations: BTreeMap<Nexus, u64>,
    held: Option<Held>,
    /// APTPL of the last registration: the state is saved.
    is_kept: bool,
}

impl Reservations {
    /// What was there before the power went. Entries that break an invariant are left out: a record that was
    /// damaged must not lock every host out.
    pub fn restored(saved: Saved) -> Reservations {
        let registrations: BTreeMap<Nexus, u64> =
            saved.registrations.into_iter().filter(|(_, key)| *key != 0).take(REGISTRATIONS_MAX).collect();
        let is_sound = |held: &Held| match &held.by {
            Some(nexus) => !held.kind.is_for_all() && registrations.contains_key(nexus),
            None => held.kind.is_for_all() && !registrations.is_empty(),
        };
        let held = saved.held.filter(is_sound);
        let is_kept = !registrations.is_empty();
        Reservations { generation: 0, registrations, held, is_kept }
    }

    /// What is to be saved now: nothing unless the hosts asked for it.
    pub fn to_save(&self) -> Saved {
        if !self.is_kept {
            return Saved::default();
        }
        let registrations = self.registrations.iter().map(|(nexus, key)| (nexus.clone(), *key)).collect();
        Saved { registrations, held: self.held.clone() }
    }

    /// Whether the nexus may use a command of this class now.
    pub fn allows(&self, nexus: &Nexus, access: Access) -> bool {
        let Some(held) = &self.held else { return true };
        let is_let_in = match access {
            Access::Always => true,
            Access::Read => held.kind.lets_read(),
            Access::Write => false,
        };
        is_let_in
            || held.by.as_ref() == Some(nexus)
            || (held.kind.is_for_registrants() && self.registrations.contains_key(nexus))
    }

    pub fn is_registered(&self, nexus: &Nexus) -> bool {
        self.registrations.contains_key(nexus)
    }

    /// Somebody is registered, so RESERVE and RELEASE mean little (SPC-4 5.13.3).
    pub fn is_in_use(&self) -> bool {
        !self.registrations.is_empty()
    }

    fn is_holder(&self, nexus: &Nexus) -> bool {
        match &self.held {
            None => false,
            Some(Held { by: Some(holder), .. }) => holder == nexus,
            Some(Held { by: None, .. }) => self.registrations.contains_key(nexus),
        }
    }

    fn assert_sound(&self) {
        assert!(self.registrations.len() <= REGISTRATIONS_MAX, "{} registrations", self.registrations.len());
        assert!(self.registrations.values().all(|key| *key != 0), "a registration has key zero");
        if let Some(held) = &self.held {
            assert_eq!(held.by.is_none(), held.kind.is_for_all(), "holder of {:?}", held.kind);
            let is_registered = held.by.as_ref().is_none_or(|nexus| self.registrations.contains_key(nexus));
            assert!(is_registered, "the holder is not registered");
            assert!(!self.registrations.is_empty(), "a reservation without registrants");
        }
    }
}

/// The scope and the type of a reservation, as the CDB gives them.
fn kind_of(scope: u8, kind: u8) -> std::result::Result<ReservationKind, Sense> {
    // Only a whole unit can be reserved (SPC-4 6.15.3.2).
    if scope != 0 {
        return Err(Sense::bit_in_cdb(2, 7));
    }
    ReservationKind::from_wire(kind).ok_or(Sense::bit_in_cdb(2, 3))
}
