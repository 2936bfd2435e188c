//! The service actions of PERSISTENT RESERVE OUT as functions from state to state (SPC-4 5.13.7 to 5.13.11).

use crate::answer::Refusal;
use crate::attention::Attention;
use crate::reservation::{Held, Nexus, OutAction, REGISTRATIONS_MAX, Request, Reservations, kind_of};
use crate::sense::{Sense, code};

/// What a service action leads to.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub state: Reservations,
    /// Who hears what.
    pub heard: Vec<(Nexus, Attention)>,
    /// Somebody lost a right: the answer waits until every write that began before has ended.
    pub is_fence: bool,
}

/// Carries the request of this nexus out.
pub(crate) fn apply(state: &Reservations, nexus: &Nexus, request: &Request) -> Result<Change, Refusal> {
    let mut change = Change { state: state.clone(), heard: Vec::new(), is_fence: false };
    match request.action {
        OutAction::Register => register(&mut change, nexus, request, false)?,
        OutAction::RegisterAndIgnore => register(&mut change, nexus, request, true)?,
        OutAction::Reserve => reserve(&mut change, nexus, request)?,
        OutAction::Release => release(&mut change, nexus, request)?,
        OutAction::Clear => clear(&mut change, nexus, request)?,
        OutAction::Preempt | OutAction::PreemptAndAbort => preempt(&mut change, nexus, request)?,
        OutAction::RegisterAndMove => move_to(&mut change, nexus, request)?,
    }
    change.state.assert_sound();
    Ok(change)
}

impl Change {
    fn count(&mut self) {
        self.state.generation = self.state.generation.wrapping_add(1);
    }

    /// Tells every registrant but one.
    fn tell_registrants(&mut self, except: &Nexus, attention: Attention) {
        for nexus in self.state.registrations.keys().filter(|nexus| *nexus != except) {
            self.heard.push((nexus.clone(), attention));
        }
    }
}

/// A nexus must be registered, with the key it says, for anything but a registration.
fn check_key(state: &Reservations, nexus: &Nexus, request: &Request) -> Result<(), Refusal> {
    match state.registrations.get(nexus) {
        Some(key) if *key == request.key => Ok(()),
        Some(_) | None => Err(Refusal::Conflict),
    }
}

fn register(change: &mut Change, nexus: &Nexus, request: &Request, ignores_key: bool) -> Result<(), Refusal> {
    match change.state.registrations.get(nexus) {
        None if !ignores_key && request.key != 0 => return Err(Refusal::Conflict),
        Some(key) if !ignores_key && *key != request.key => return Err(Refusal::Conflict),
        // Nobody unregisters: nothing to do, and nothing counted.
        None if request.subject_key == 0 => return Ok(()),
        None if change.state.registrations.len() >= REGISTRATIONS_MAX => {
            return Err(Sense::illegal(code::INSUFFICIENT_REGISTRATION_RESOURCES).into());
        }
        None | Some(_) => {}
    }
    if request.subject_key == 0 {
        unregister(change, nexus);
    } else {
        change.state.registrations.insert(nexus.clone(), request.subject_key);
    }
    change.state.is_kept = request.is_kept;
    change.count();
    Ok(())
}

/// Takes a registration away, and the reservation if it goes with it (SPC-4 5.13.11.3).
fn unregister(change: &mut Change, nexus: &Nexus) {
    change.state.registrations.remove(nexus);
    let Some(held) = &change.state.held else { return };
    let is_over = match &held.by {
        Some(holder) => holder == nexus,
        None => change.state.registrations.is_empty(),
    };
    if is_over {
        let is_told = held.kind.is_for_registrants();
        change.state.held = None;
        if is_told {
            change.tell_registrants(nexus, Attention::ReservationsReleased);
        }
    }
}

fn reserve(change: &mut Change, nexus: &Nexus, request: &Request) -> Result<(), Refusal> {
    check_key(&change.state, nexus, request)?;
    let kind = kind_of(request.scope, request.kind)?;
    if let Some(held) = &change.state.held {
        // Again by who has it, with the same type, is no error and changes nothing.
        let is_again = held.kind == kind && change.state.is_holder(nexus);
        return if is_again { Ok(()) } else { Err(Refusal::Conflict) };
    }
    let by = (!kind.is_for_all()).then(|| nexus.clone());
    change.state.held = Some(Held { kind, by });
    // A write of somebody else that began before must not land after.
    change.is_fence = true;
    Ok(())
}

fn release(change: &mut Change, nexus: &Nexus, request: &Request) -> Result<(), Refusal> {
    check_key(&change.state, nexus, request)?;
    if !change.state.is_holder(nexus) {
        return Ok(());
    }
    let kind = kind_of(request.scope, request.kind)?;
    let is_told = match &change.state.held {
        Some(held) if held.kind == kind => held.kind.is_for_registrants(),
        Some(_) | None => return Err(Sense::illegal(code::INVALID_RELEASE_OF_RESERVATION).into()),
    };
    change.state.held = None;
    if is_told {
        change.tell_registrants(nexus, Attention::ReservationsReleased);
    }
    Ok(())
}

fn clear(change: &mut Change, nexus: &Nexus, request: &Request) -> Result<(), Refusal> {
    check_key(&change.state, nexus, request)?;
    change.tell_registrants(nexus, Attention::ReservationsPreempted);
    change.state.registrations.clear();
    change.state.held = None;
    change.count();
    change.is_fence = true;
    Ok(())
}

fn preempt(change: &mut Change, nexus: &Nexus, request: &Request) -> Result<(), Refusal> {
    check_key(&change.state, nexus, request)?;
    let key = request.subject_key;
    let takes_over = match &change.state.held {
        None => false,
        Some(Held { by: None, .. }) => key == 0,
        Some(Held { by: Some(holder), .. }) => change.state.registrations.get(holder) == Some(&key),
    };
    if takes_over {
        take_over(change, nexus, request)?;
    } else {
        if key == 0 {
            return Err(Sense::field_in_list(8, None).into());
        }
        // The registration of who asks goes too, if it has that key.
        let removed = remove(change, |_, registered| registered == key);
        if removed.is_empty() {
            return Err(Refusal::Conflict);
        }
        let others = removed.into_iter().filter(|other| other != nexus);
        change.heard.extend(others.map(|other| (other, Attention::RegistrationsPreempted)));
        if change.state.registrations.is_empty() {
            change.state.held = None;
        }
    }
    change.count();
    change.is_fence = true;
    Ok(())
}

/// Preempts the reservation itself (SPC-4 5.13.11.4.3).
fn take_over(change: &mut Change, nexus: &Nexus, request: &Request) -> Result<(), Refusal> {
    let kind = kind_of(request.scope, request.kind)?;
    let held = change.state.held.take().expect("only a reservation that is there is taken over");
    let is_all = held.by.is_none();
    let removed = remove(change, |other, key| other != nexus && (is_all || key == request.subject_key));
    if held.kind != kind {
        change.tell_registrants(nexus, Attention::ReservationsReleased);
    }
    change.heard.extend(removed.into_iter().map(|other| (other, Attention::RegistrationsPreempted)));
    let by = (!kind.is_for_all()).then(|| nexus.clone());
    change.state.held = Some(Held { kind, by });
    Ok(())
}

/// Takes registrations away and tells whose.
fn remove(change: &mut Change, is_meant: impl Fn(&Nexus, u64) -> bool) -> Vec<Nexus> {
    let meant = change.state.registrations.iter().filter(|(nexus, key)| is_meant(nexus, **key));
    let removed: Vec<Nexus> = meant.map(|(nexus, _)| nexus.clone()).collect();
    change.state.registrations.retain(|nexus, _| !removed.contains(nexus));
    removed
}

fn move_to(change: &mut Change, nexus: &Nexus, request: &Request) -> Result<(), Refusal> {
    check_key(&change.state, nexus, request)?;
    // Only a reservation of one can move (SPC-4 5.13.8).
    let is_mine = change.state.held.as_ref().is_some_and(|held| held.by.as_ref() == Some(nexus));
    if !is_mine {
        return Err(Refusal::Conflict);
    }
    if request.subject_key == 0 {
        return Err(Sense::field_in_list(8, None).into());
    }
    let target = request.target.as_ref().ok_or(Sense::field_in_list(24, None))?;
    if target == nexus {
        return Err(Sense::field_in_list(24, None).into());
    }
    let is_new = !change.state.registrations.contains_key(target);
    if is_new && change.state.registrations.len() >= REGISTRATIONS_MAX {
        return Err(Sense::illegal(code::INSUFFICIENT_REGISTRATION_RESOURCES).into());
    }
    change.state.registrations.insert(target.clone(), request.subject_key);
    if let Some(held) = &mut change.state.held {
        held.by = Some(target.clone());
    }
    if request.unregisters {
        change.state.registrations.remove(nexus);
    }
    change.state.is_kept = request.is_kept;
    change.count();
    change.is_fence = true;
    Ok(())
}
