//! Persistent reservations and RESERVE: who may do what, who hears of it, what is saved.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::{Rig, poll, ten};
use crate::reservation::{Held, ReservationKind};
use crate::{Answer, Begun, Saved, Status};

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const IGNORE: u8 = 6;
const MOVE: u8 = 7;

const KINDS: [u8; 6] = [1, 3, 5, 6, 7, 8];

fn out(action: u8, kind: u8, length: usize) -> Vec<u8> {
    vec![0x5f, action, kind, 0, 0, 0, 0, 0, length as u8, 0]
}

fn list(key: u64, subject: u64, flags: u8) -> Vec<u8> {
    let mut list = [key.to_be_bytes(), subject.to_be_bytes()].concat();
    list.extend_from_slice(&[0, 0, 0, 0, flags, 0, 0, 0]);
    list
}

impl Rig {
    fn reserve_out(&self, host: usize, action: u8, kind: u8, key: u64, subject: u64) -> Answer {
        let list = list(key, subject, 0);
        self.send(host, &out(action, kind, list.len()), &list)
    }

    fn do_out(&self, host: usize, action: u8, kind: u8, key: u64, subject: u64) {
        let answer = self.reserve_out(host, action, kind, key, subject);
        assert_eq!(answer.status, Status::Good, "host {host} action {action}: {:x?}", answer.sense);
    }

    fn conflicts_out(&self, host: usize, action: u8, kind: u8, key: u64, subject: u64) -> bool {
        self.reserve_out(host, action, kind, key, subject).status == Status::ReservationConflict
    }

    /// Carries a command out past reservations and attentions, so that asking changes nothing.
    fn ask(&self, cdb: &[u8]) -> Vec<u8> {
        let operation = crate::parse(cdb).unwrap();
        let mut running: Pin<Box<dyn Future<Output = Answer>>> =
            Box::pin(self.unit.run(&self.hosts[0], operation, &[]));
        poll(&mut running).unwrap().data.as_slice().to_vec()
    }

    /// PRGENERATION and the keys.
    fn keys(&self) -> (u32, Vec<u64>) {
        let bytes = self.ask(&[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(bytes[4..8], (bytes.len() as u32 - 8).to_be_bytes());
        let generation = u32::from_be_bytes(bytes[..4].try_into().unwrap());
        (generation, bytes[8..].chunks(8).map(|key| u64::from_be_bytes(key.try_into().unwrap())).collect())
    }

    /// Key and type of the reservation.
    fn held(&self) -> Option<(u64, u8)> {
        let bytes = self.ask(&[0x5e, 1, 0, 0, 0, 0, 0, 1, 0, 0]);
        (bytes.len() > 8).then(|| (u64::from_be_bytes(bytes[8..16].try_into().unwrap()), bytes[21]))
    }

    fn may_read(&self, host: usize) -> bool {
        !self.is_conflict(host, &ten(0x28, 0, 0, 1), &[])
    }

    fn may_write(&self, host: usize) -> bool {
        !self.is_conflict(host, &ten(0x2a, 0, 0, 1), &self.blocks_of(1, 1))
    }
}

/// Host 0 holds, host 1 is registered, host 2 is not.
fn held_as(kind: u8) -> Rig {
    let rig = Rig::new();
    rig.do_out(0, REGISTER, 0, 0, 10);
    rig.do_out(1, REGISTER, 0, 0, 11);
    rig.do_out(0, RESERVE, kind, 10, 0);
    rig
}

#[test]
fn each_type_lets_in_whom_the_standard_says() {
    for kind in KINDS {
        let rig = held_as(kind);
        let lets_registrants = kind >= 5;
        let lets_read = matches!(kind, 1 | 5 | 7);
        assert_eq!(rig.held(), Some((if kind >= 7 { 0 } else { 10 }, kind)));
        assert!(rig.may_read(0) && rig.may_write(0), "type {kind}");
        assert_eq!((rig.may_read(1), rig.may_write(1)), (lets_registrants || lets_read, lets_registrants));
        assert_eq!((rig.may_read(2), rig.may_write(2)), (lets_read, false), "type {kind}");
        // Allowed to everybody: TEST UNIT READY, READ CAPACITY. To writers: UNMAP, MODE SENSE.
        for cdb in [vec![0; 6], ten(0x25, 0, 0, 0)] {
            rig.good(2, &cdb, &[]);
        }
        for cdb in [ten(0x42, 0, 0, 0), vec![0x1a, 0, 0x3f, 0, 255, 0], ten(0x35, 0, 0, 0)] {
            assert!(rig.is_conflict(2, &cdb, &[]), "{cdb:x?}");
        }
    }
}

#[test]
fn registering_needs_the_key_that_is_registered() {
    let rig = Rig::new();
    assert!(rig.conflicts_out(0, REGISTER, 0, 5, 10), "nobody is registered with key 5");
    rig.do_out(0, REGISTER, 0, 0, 0);
    assert_eq!(rig.keys(), (0, vec![]), "unregistering who is not registered counts for nothing");
    rig.do_out(0, REGISTER, 0, 0, 10);
    assert!(rig.conflicts_out(0, REGISTER, 0, 0, 12));
    rig.do_out(0, REGISTER, 0, 10, 12);
    rig.do_out(0, IGNORE, 0, 77, 13);
    assert_eq!(rig.keys(), (3, vec![13]));
    rig.do_out(0, REGISTER, 0, 13, 0);
    assert_eq!(rig.keys(), (4, vec![]));
}

#[test]
fn nothing_but_registering_works_without_a_registration() {
    let rig = held_as(1);
    for action in [RESERVE, RELEASE, CLEAR, PREEMPT] {
        assert!(rig.conflicts_out(2, action, 1, 0, 10), "action {action}");
        assert!(rig.conflicts_out(1, action, 1, 99, 10), "action {action} with a wrong key");
    }
    assert_eq!(rig.held(), Some((10, 1)));
}

#[test]
fn reserving_again_is_no_error_and_another_type_is_a_conflict() {
    let rig = held_as(5);
    rig.do_out(0, RESERVE, 5, 10, 0);
    assert!(rig.conflicts_out(0, RESERVE, 6, 10, 0));
    assert!(rig.conflicts_out(1, RESERVE, 5, 11, 0));
    // Of an all registrants type every registrant is a holder.
    let rig = held_as(7);
    rig.do_out(1, RESERVE, 7, 11, 0);
}

#[test]
fn scopes_and_types_that_are_not_there_are_told_with_their_place() {
    let rig = Rig::new();
    rig.do_out(0, REGISTER, 0, 0, 10);
    let list = list(10, 0, 0);
    assert_eq!(rig.pointer(0, &out(RESERVE, 0x12, 24), &list), [0xcf, 0, 2]);
    for kind in [0, 2, 4, 9, 15] {
        assert_eq!(rig.pointer(0, &out(RESERVE, kind, 24), &list), [0xcb, 0, 2], "type {kind}");
    }
}

#[test]
fn releasing_needs_the_right_type_and_tells_registrants() {
    for kind in KINDS {
        let rig = held_as(kind);
        let wrong = if kind == 1 { 3 } else { 1 };
        let list = list(10, 0, 0);
        assert_eq!(rig.bad(0, &out(RELEASE, wrong, 24), &list), (5, 0x2604));
        assert!(rig.held().is_some());
        rig.do_out(0, RELEASE, kind, 10, 0);
        assert_eq!(rig.held(), None);
        let heard: &[u16] = if kind >= 5 { &[0x2a04] } else { &[] };
        assert_eq!((rig.hear(0), rig.hear(1), rig.hear(2)), (vec![], heard.to_vec(), vec![]), "type {kind}");
        assert_eq!(rig.keys().1, [10, 11], "registrations stay");
    }
    // Of who holds nothing it is no error.
    let rig = held_as(1);
    rig.do_out(1, RELEASE, 1, 11, 0);
    assert_eq!(rig.held(), Some((10, 1)));
}

#[test]
fn a_reservation_goes_with_its_holder_or_with_the_last_registrant() {
    for kind in KINDS {
        let rig = held_as(kind);
        rig.do_out(0, REGISTER, 0, 10, 0);
        let is_for_all = kind >= 7;
        assert_eq!(rig.held().is_some(), is_for_all, "type {kind}");
        let heard: &[u16] = if matches!(kind, 5 | 6) { &[0x2a04] } else { &[] };
        assert_eq!(rig.hear(1), heard, "type {kind}");
        rig.do_out(1, REGISTER, 0, 11, 0);
        assert_eq!(rig.held(), None);
    }
}

#[test]
fn clear_takes_everything_and_tells_the_others() {
    let rig = held_as(3);
    rig.do_out(1, CLEAR, 0, 11, 0);
    assert_eq!((rig.held(), rig.keys()), (None, (3, vec![])));
    assert_eq!((rig.hear(0), rig.hear(1)), (vec![0x2a03], vec![]));
}

#[test]
fn preempting_the_holder_takes_the_reservation_over() {
    let rig = held_as(1);
    rig.do_out(1, PREEMPT, 5, 11, 10);
    assert_eq!((rig.held(), rig.keys().1), (Some((11, 5)), vec![11]));
    assert_eq!((rig.hear(0), rig.hear(1)), (vec![0x2a05], vec![]));
    assert!(!rig.may_write(0));
    // The holder may preempt itself to change the type.
    rig.do_out(1, PREEMPT, 6, 11, 11);
    assert_eq!((rig.held(), rig.keys().1), (Some((11, 6)), vec![11]));
}

#[test]
fn preempting_another_removes_its_registration_alone() {
    let rig = held_as(1);
    rig.do_out(2, REGISTER, 0, 0, 12);
    rig.do_out(1, PREEMPT, 3, 11, 12);
    assert_eq!((rig.held(), rig.keys().1), (Some((10, 1)), vec![10, 11]));
    assert_eq!(rig.hear(2), [0x2a05]);
    assert!(rig.conflicts_out(1, PREEMPT, 1, 11, 99), "nobody has key 99");
    let list = list(11, 0, 0);
    assert_eq!(rig.pointer(1, &out(PREEMPT, 1, 24), &list), [0x80, 0, 8], "key zero");
}

#[test]
fn preempting_all_registrants_with_key_zero_leaves_one() {
    let rig = held_as(7);
    rig.do_out(2, REGISTER, 0, 0, 12);
    rig.do_out(2, PREEMPT, 3, 12, 0);
    assert_eq!((rig.held(), rig.keys().1), (Some((12, 3)), vec![12]));
    assert_eq!((rig.hear(0), rig.hear(1)), (vec![0x2a05], vec![0x2a05]));
}

/// What fencing lives from: when the answer is there, no write of who was preempted lands any more.
#[test]
fn preempt_answers_only_when_the_writes_of_others_have_ended() {
    let rig = held_as(1);
    let mut turn: Pin<Box<dyn Future<Output = _>>> = Box::pin(rig.unit.writes.shared(0, 512));
    let held = poll(&mut turn).unwrap();
    let list = list(11, 10, 0);
    let Begun::Work(preempt) = rig.begin(1, &out(PREEMPT, 1, 24), 24) else { panic!("refused") };
    let mut preempt: Pin<Box<dyn Future<Output = Answer>>> = Box::pin(preempt.run(&list));
    // A write of the holder that has begun and whose turn has not come.
    let data = rig.blocks_of(9, 1);
    let Begun::Work(write) = rig.begin(0, &ten(0x2a, 0, 0, 1), 512) else { panic!("refused") };
    let mut write: Pin<Box<dyn Future<Output = Answer>>> = Box::pin(write.run(&data));
    assert!(poll(&mut preempt).is_none());
    assert!(poll(&mut write).is_none());
    drop(held);
    assert_eq!(poll(&mut preempt).unwrap().status, Status::Good);
    assert_eq!(poll(&mut write).unwrap().status, Status::ReservationConflict);
    assert_eq!(rig.stored(0, 1), rig.blocks_of(0, 1));
}

fn move_list(key: u64, subject: u64, flags: u8, initiator: &str) -> Vec<u8> {
    let mut list = [key.to_be_bytes(), subject.to_be_bytes()].concat();
    let name_bytes = (initiator.len() + 1).next_multiple_of(4);
    list.extend_from_slice(&[0, flags, 0, 1]);
    list.extend_from_slice(&(name_bytes as u32 + 4).to_be_bytes());
    list.extend_from_slice(&[0x45, 0, 0, name_bytes as u8]);
    list.extend_from_slice(initiator.as_bytes());
    list.resize(24 + 4 + name_bytes, 0);
    list
}

#[test]
fn a_reservation_moves_to_a_nexus_that_is_named() {
    let rig = held_as(3);
    let name = rig.hosts[2].initiator.clone();
    let moving = move_list(10, 12, 2, &name);
    rig.good(0, &out(MOVE, 3, moving.len()), &moving);
    assert_eq!((rig.held(), rig.keys().1), (Some((12, 3)), vec![11, 12]));
    assert!(rig.may_write(2) && !rig.may_write(0));
    // Not by who does not hold it, not to oneself, not of a type for all.
    let not_mine = move_list(11, 5, 0, &name);
    assert!(rig.is_conflict(1, &out(MOVE, 3, not_mine.len()), &not_mine));
    let to_me = move_list(12, 5, 0, &name);
    assert_eq!(rig.pointer(2, &out(MOVE, 3, to_me.len()), &to_me), [0x80, 0, 24]);
    let cut = &to_me[..to_me.len() - 4];
    assert_eq!(rig.bad(2, &out(MOVE, 3, cut.len()), cut), (5, 0x1a00));
}

#[test]
fn lists_of_wrong_length_and_flags_that_are_not_there_are_refused() {
    let rig = Rig::new();
    assert_eq!(rig.bad(0, &out(REGISTER, 0, 23), &[0; 23]), (5, 0x1a00));
    assert_eq!(rig.bad(0, &out(REGISTER, 0, 0), &[]), (5, 0x1a00));
    assert_eq!(rig.bad(0, &out(REGISTER, 0, 24), &[0; 8]), (5, 0x0e03));
    let others = list(0, 10, 8);
    assert_eq!(rig.pointer(0, &out(REGISTER, 0, 24), &others), [0x8b, 0, 20], "SPEC_I_PT");
    assert_eq!(rig.keys(), (0, vec![]));
}

#[test]
fn what_is_kept_comes_back_and_what_is_not_is_not_saved() {
    let rig = held_as(5);
    assert_eq!(rig.store.saved(), Saved::default(), "nobody asked for that");
    let kept = list(10, 10, 1);
    rig.good(0, &out(REGISTER, 0, 24), &kept);
    let saved = rig.store.saved();
    let nexus = |host: usize| rig.hosts[host].clone();
    assert_eq!(saved.registrations, [(nexus(0), 10), (nexus(1), 11)]);
    let by = Some(nexus(0));
    assert_eq!(saved.held, Some(Held { kind: ReservationKind::WriteExclusiveRegistrants, by }));
    let capabilities = rig.good(0, &[0x5e, 2, 0, 0, 0, 0, 0, 0, 8, 0], &[]);
    assert_eq!(capabilities, [0, 8, 0x15, 0xc1, 0xea, 1, 0, 0]);

    let again = Rig::of(512, saved);
    assert_eq!((again.held(), again.keys()), (Some((10, 5)), (0, vec![10, 11])));
    assert!(again.may_write(1) && !again.may_write(2));
    again.do_out(0, CLEAR, 0, 10, 0);
    assert_eq!(again.store.saved(), Saved::default());
}

#[test]
fn a_saved_reservation_of_nobody_is_not_taken_over() {
    let nobody = Rig::new().hosts[0].clone();
    let held = Some(Held { kind: ReservationKind::ExclusiveAccess, by: Some(nobody.clone()) });
    let rig = Rig::of(512, Saved { registrations: vec![(nobody, 0)], held });
    assert_eq!((rig.held(), rig.keys()), (None, (0, vec![])));
    assert!(rig.may_write(2));
}

#[test]
fn without_a_store_keeping_is_refused() {
    let rig = Rig::new();
    let settings = crate::UnitSettings { store: None, ..super::settings(&rig.store, Saved::default()) };
    let unit = Rc::new(crate::Unit::new(rig.device.clone(), settings));
    let Ok(operation) = unit.begin(&rig.hosts[0], &out(REGISTER, 0, 24), 24) else { panic!("refused") };
    let kept = list(0, 10, 1);
    let mut running: Pin<Box<dyn Future<Output = Answer>>> =
        Box::pin(unit.run(&rig.hosts[0], operation, &kept));
    let answer = poll(&mut running).unwrap();
    assert_eq!(answer.sense[12..18], [0x26, 0, 0, 0x88, 0, 20]);
}

#[test]
fn full_status_names_every_registrant_and_marks_the_holder() {
    let rig = held_as(1);
    let bytes = rig.good(0, &[0x5e, 3, 0, 0, 0, 0, 0, 4, 0, 0], &[]);
    assert_eq!(bytes[4..8], (bytes.len() as u32 - 8).to_be_bytes());
    let length = 24 + 4 + (rig.hosts[0].initiator.len() + 1).next_multiple_of(4);
    let descriptors: Vec<&[u8]> = bytes[8..].chunks(length).collect();
    assert_eq!(descriptors.len(), 2);
    assert_eq!((descriptors[0][7], descriptors[0][12], descriptors[0][13]), (10, 1, 1));
    assert_eq!((descriptors[1][7], descriptors[1][12], descriptors[1][13]), (11, 0, 0));
    for (host, descriptor) in descriptors.iter().enumerate() {
        let name = rig.hosts[host].initiator.as_bytes();
        assert_eq!((descriptor[19], descriptor[24]), (1, 0x45));
        assert_eq!(&descriptor[28..28 + name.len()], name);
    }
}

#[test]
fn only_so_many_hosts_can_be_registered() {
    let registrations: Vec<_> = (0..crate::reservation::REGISTRATIONS_MAX as u64)
        .map(|number| (crate::Nexus { initiator: format!("iqn.x:{number},i,0x0"), port: 1 }, number + 1))
        .collect();
    let rig = Rig::of(512, Saved { registrations, held: None });
    let list = list(0, 10, 0);
    assert_eq!(rig.bad(0, &out(REGISTER, 0, 24), &list), (5, 0x5504));
}

#[test]
fn reserve_keeps_others_out_and_goes_with_its_nexus() {
    let rig = Rig::new();
    for (reserve, release) in [
        ([0x16, 0, 0, 0, 0, 0].to_vec(), vec![0x17, 0, 0, 0, 0, 0]),
        (ten(0x56, 0, 0, 0), ten(0x57, 0, 0, 0)),
    ] {
        rig.good(0, &reserve, &[]);
        rig.good(0, &reserve, &[]);
        assert!(rig.is_conflict(1, &reserve, &[]));
        assert!(rig.is_conflict(1, &[0x1a, 0, 0x3f, 0, 255, 0], &[]) && !rig.may_read(1));
        rig.good(1, &[0x12, 0, 0, 0, 96, 0], &[]);
        rig.good(1, &release, &[]);
        assert!(!rig.may_read(1), "a release of who does not hold it releases nothing");
        assert!(rig.conflicts_out(0, REGISTER, 0, 0, 10), "no persistent reservation beside it");
        rig.good(0, &release, &[]);
        assert!(rig.may_write(1));
    }
    rig.good(0, &[0x16, 0, 0, 0, 0, 0], &[]);
    rig.target.detach(&rig.hosts[0]);
    assert!(rig.may_write(1));
}

/// SPC-4 5.13.3: what CRH=1 in the capabilities promises.
#[test]
fn with_registrants_reserve_means_nothing_to_them_and_a_conflict_to_others() {
    let rig = Rig::new();
    rig.do_out(0, REGISTER, 0, 0, 10);
    rig.good(0, &[0x16, 0, 0, 0, 0, 0], &[]);
    assert!(rig.may_write(1), "nothing was reserved");
    assert!(rig.is_conflict(1, &[0x16, 0, 0, 0, 0, 0], &[]));
    assert!(rig.is_conflict(1, &[0x17, 0, 0, 0, 0, 0], &[]));
}
