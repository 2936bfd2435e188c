//! Unit attentions: who hears what, when, and what passes them by.

use std::future::Future;
use std::pin::Pin;

use super::{Rig, poll, ten};
use crate::{Begun, UnitAddress};

#[test]
fn a_new_nexus_hears_of_power_on_once_and_asking_commands_pass() {
    let rig = Rig::new();
    rig.target.detach(&rig.hosts[0]);
    rig.target.attach(&rig.hosts[0]);
    rig.good(0, &[0x12, 0, 0, 0, 96, 0], &[]);
    rig.good(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[]);
    assert_eq!(rig.bad(0, &[0; 6], &[]), (6, 0x2900));
    rig.good(0, &[0; 6], &[]);
    rig.good(1, &[0; 6], &[]);
}

#[test]
fn a_nexus_that_comes_again_without_going_hears_that_it_was_lost() {
    let rig = Rig::new();
    rig.good(0, &[0x16, 0, 0, 0, 0, 0], &[]);
    assert!(rig.is_conflict(1, &[0; 6], &[]));
    rig.target.attach(&rig.hosts[0]);
    assert_eq!(rig.hear(0), [0x2907]);
    rig.good(1, &[0; 6], &[]);
}

#[test]
fn a_command_that_hears_an_attention_does_nothing() {
    let rig = Rig::new();
    rig.target.attach(&rig.hosts[0]);
    assert_eq!(rig.bad(0, &ten(0x2a, 0, 0, 1), &rig.blocks_of(1, 1)), (6, 0x2907));
    assert_eq!(rig.stored(0, 1), rig.blocks_of(0, 1));
}

#[test]
fn everybody_hears_that_the_size_changed() {
    let rig = Rig::new();
    rig.device.set_size(512 * 8);
    assert_eq!(rig.bad(0, &[0; 6], &[]), (6, 0x2a09));
    rig.good(0, &[0; 6], &[]);
    assert_eq!(rig.bad(1, &[0; 6], &[]), (6, 0x2a09));
    assert_eq!(rig.good(1, &ten(0x25, 0, 0, 0), &[])[3], 7);
}

#[test]
fn everybody_but_who_did_it_hears_that_a_mode_page_changed() {
    let rig = Rig::new();
    let list = [0, 0, 0, 0, 0x0a, 10, 4, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0, 0];
    let cdb = [0x15, 0x10, 0, 0, 16, 0];
    rig.good(0, &cdb, &list);
    rig.good(0, &[0; 6], &[]);
    // Descriptor form now.
    let sense = rig.sense(1, &[0; 6], &[]);
    assert_eq!(sense[1..4], [6, 0x2a, 0x01]);
    // The same once more is no change.
    rig.good(1, &cdb, &list);
    rig.good(1, &[0; 6], &[]);
    assert_eq!(rig.sense(2, &[0; 6], &[])[2..4], [0x2a, 0x01]);
}

#[test]
fn a_new_unit_is_told_at_the_others_and_reading_the_list_is_enough() {
    let rig = Rig::new();
    let address = UnitAddress::new(5).unwrap();
    let unit = std::rc::Rc::new(crate::Unit::new(
        rig.device.clone(),
        super::settings(&rig.store, crate::Saved::default()),
    ));
    assert!(rig.target.add(address, unit));
    assert_eq!(rig.bad(0, &[0; 6], &[]), (6, 0x3f0e));
    rig.good(1, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], &[]);
    rig.good(1, &[0; 6], &[]);
    assert!(rig.target.remove(address).is_some());
    assert!(rig.target.remove(address).is_none());
    assert_eq!(rig.bad(1, &[0; 6], &[]), (6, 0x3f0e));
}

#[test]
fn a_reset_waits_for_writes_gives_up_reserve_and_is_heard_by_all() {
    let rig = Rig::new();
    rig.good(0, &[0x16, 0, 0, 0, 0, 0], &[]);
    let mut turn: Pin<Box<dyn Future<Output = _>>> = Box::pin(rig.unit.writes.shared(0, 512));
    let held = poll(&mut turn).unwrap();
    let mut reset: Pin<Box<dyn Future<Output = ()>>> = Box::pin(rig.unit.reset());
    assert!(poll(&mut reset).is_none());
    drop(held);
    assert!(poll(&mut reset).is_some());
    assert_eq!([rig.hear(0), rig.hear(1)], [[0x2903], [0x2903]]);
    rig.good(1, &[0; 6], &[]);
}

/// A reservation conflict does not use an attention up (SAM-5 5.3.3).
#[test]
fn a_conflict_leaves_the_attention_for_later() {
    let rig = Rig::new();
    rig.good(0, &[0x16, 0, 0, 0, 0, 0], &[]);
    rig.target.attach(&rig.hosts[1]);
    assert!(rig.is_conflict(1, &[0; 6], &[]));
    rig.good(0, &[0x17, 0, 0, 0, 0, 0], &[]);
    assert_eq!(rig.bad(1, &[0; 6], &[]), (6, 0x2907));
}

#[test]
fn begin_takes_the_attention_so_run_does_not_tell_it_again() {
    let rig = Rig::new();
    let Begun::Work(work) = rig.begin(0, &ten(0x28, 0, 0, 1), 0) else { panic!("refused") };
    rig.target.attach(&rig.hosts[0]);
    let mut running: Pin<Box<dyn Future<Output = _>>> = Box::pin(work.run(&[]));
    assert_eq!(poll(&mut running).unwrap().status, crate::Status::Good);
    assert_eq!(rig.hear(0), [0x2907]);
}
