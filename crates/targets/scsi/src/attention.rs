//! Unit attentions: what a nexus must hear before its next command is carried out (SAM-5 5.14).
//!
//! A set for each nexus, so its size is bounded by the kinds there are, and an event that comes twice is told
//! once.

use std::collections::BTreeSet;

use crate::sense::{Sense, SenseKey, code};

/// An event that a nexus has not heard of. The order of the variants is the order of reporting (SAM-5
/// 5.14.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Attention {
    /// The unit is new to this nexus.
    PowerOn,
    /// LOGICAL UNIT RESET or a reset of the target.
    Reset,
    /// The nexus was gone and is back.
    NexusLoss,
    /// Another nexus cleared this one's commands.
    CommandsCleared,
    /// Another nexus preempted this one's reservation, or cleared all.
    ReservationsPreempted,
    /// A reservation that concerned this registrant is no more.
    ReservationsReleased,
    /// Another nexus removed this one's registration.
    RegistrationsPreempted,
    /// Another nexus changed a mode page.
    ModeParametersChanged,
    /// The unit's size changed.
    CapacityChanged,
    /// Units came to the target or went.
    ReportedUnitsChanged,
}

impl Attention {
    /// The additional sense code.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Attention::PowerOn => code::POWER_ON,
            Attention::Reset => code::RESET_OCCURRED,
            Attention::NexusLoss => code::NEXUS_LOSS,
            Attention::CommandsCleared => code::COMMANDS_CLEARED,
            Attention::ReservationsPreempted => code::RESERVATIONS_PREEMPTED,
            Attention::ReservationsReleased => code::RESERVATIONS_RELEASED,
            Attention::RegistrationsPreempted => code::REGISTRATIONS_PREEMPTED,
            Attention::ModeParametersChanged => code::MODE_PARAMETERS_CHANGED,
            Attention::CapacityChanged => code::CAPACITY_CHANGED,
            Attention::ReportedUnitsChanged => code::REPORTED_UNITS_CHANGED,
        }
    }

    /// Tells the host to look at everything anew, so earlier events need no word of their own.
    fn covers_everything(self) -> bool {
        self <= Attention::NexusLoss
    }
}

/// What one nexus has not heard of.
#[derive(Clone, Default, Debug)]
pub(crate) struct Attentions {
    waiting: BTreeSet<Attention>,
}

impl Attentions {
    pub fn add(&mut self, attention: Attention) {
        if attention.covers_everything() {
            let highest = self.waiting.first().copied().filter(|first| *first < attention);
            self.waiting.clear();
            self.waiting.insert(highest.unwrap_or(attention));
        } else {
            self.waiting.insert(attention);
        }
    }

    /// Takes the next one out, as the sense data that report it.
    pub fn take(&mut self) -> Option<Sense> {
        let attention = self.waiting.pop_first()?;
        Some(Sense::new(SenseKey::UnitAttention, attention.code()))
    }

    /// The host has seen the list of units by another way.
    pub fn forget(&mut self, attention: Attention) {
        self.waiting.remove(&attention);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(attentions: &mut Attentions) -> Vec<u16> {
        std::iter::from_fn(|| attentions.take().map(|sense| sense.code)).collect()
    }

    #[test]
    fn each_event_is_told_once_and_resets_come_first() {
        let mut attentions = Attentions::default();
        for attention in [Attention::PowerOn, Attention::CapacityChanged, Attention::CapacityChanged] {
            attentions.add(attention);
        }
        assert_eq!(all(&mut attentions), [0x2900, 0x2a09]);
        assert_eq!(all(&mut attentions), []);
    }

    #[test]
    fn a_reset_covers_what_came_before_it_and_nothing_that_comes_after() {
        let mut attentions = Attentions::default();
        attentions.add(Attention::ModeParametersChanged);
        attentions.add(Attention::Reset);
        attentions.add(Attention::NexusLoss);
        attentions.add(Attention::ReportedUnitsChanged);
        assert_eq!(all(&mut attentions), [0x2903, 0x3f0e]);
    }
}
