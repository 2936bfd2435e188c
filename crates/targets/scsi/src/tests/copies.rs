//! EXTENDED COPY between units of a target: lists, ranges, who may copy what, how it is told and ended.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use ashlar_block::BlockDevice;
use ashlar_layers::MemoryDevice;

use super::device::Held;
use super::{BLOCKS, Rig, poll, ten, unit_of};
use crate::copy::list;
use crate::{Answer, Begun, Saved, Unit, UnitAddress};

const COPY_ABORTED: u8 = 0xa;
const UNREACHABLE: u16 = 0x0804;

/// A rig with a second volume at address 1, of blocks of this size, and one that nobody sees.
struct Pair {
    rig: Rig,
    second: Rc<MemoryDevice>,
    unseen: Unit,
}

impl Pair {
    fn new(block: u32) -> Pair {
        let rig = Rig::new();
        let second = Rc::new(MemoryDevice::new(BLOCKS * 512, block));
        let unit = Rc::new(unit_of(4, second.clone()));
        assert!(rig.target.add(UnitAddress::new(1).unwrap(), unit));
        (0..3).for_each(|host| drop(rig.hear(host)));
        Pair { rig, second, unseen: unit_of(5, Rc::new(MemoryDevice::new(BLOCKS * 512, 512))) }
    }

    /// Descriptors of the first volume, the second, and the one that nobody sees.
    fn devices(&self) -> Vec<Vec<u8>> {
        let second = self.rig.target.unit(UnitAddress::new(1).unwrap()).unwrap();
        [&*self.rig.unit, &*second, &self.unseen].into_iter().map(device).collect()
    }

    fn stored(&self, byte: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut reading = self.second.read(byte, &mut bytes);
        poll(&mut reading).unwrap().unwrap();
        drop(reading);
        bytes
    }

    /// Key and code of a copy that must fail.
    fn bad(&self, list: &[u8]) -> (u8, u16) {
        self.rig.bad(0, &copy(list.len()), list)
    }
}

/// The descriptor that names a unit by its NAA name.
fn device(unit: &Unit) -> Vec<u8> {
    let name = &crate::inquiry::designators(unit.identity())[0];
    let mut bytes = vec![0; 32];
    bytes[0] = 0xe4;
    bytes[4..4 + name.len()].copy_from_slice(name);
    bytes[29..32].copy_from_slice(&unit.block_bytes().to_be_bytes()[1..]);
    bytes
}

fn segment(flags: u8, (source, from): (u16, u64), (target, to): (u16, u64), blocks: u16) -> Vec<u8> {
    let mut bytes = vec![0x02, flags, 0, 24];
    bytes.extend_from_slice(&source.to_be_bytes());
    bytes.extend_from_slice(&target.to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&blocks.to_be_bytes());
    bytes.extend_from_slice(&from.to_be_bytes());
    bytes.extend_from_slice(&to.to_be_bytes());
    bytes
}

/// A list with this identifier and usage.
fn list_of(id: u8, usage: u8, devices: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (devices, segments) = (devices.concat(), segments.concat());
    let mut bytes = vec![0; 16];
    (bytes[0], bytes[1]) = (id, usage << 3);
    bytes[2..4].copy_from_slice(&(devices.len() as u16).to_be_bytes());
    bytes[8..12].copy_from_slice(&(segments.len() as u32).to_be_bytes());
    [bytes, devices, segments].concat()
}

fn copy(length: usize) -> Vec<u8> {
    let mut cdb = vec![0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(length as u32).to_be_bytes());
    cdb
}

fn results(action: u8, id: u8) -> Vec<u8> {
    vec![0x84, action, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
}

#[test]
fn blocks_are_copied_between_units_and_within_one() {
    let pair = Pair::new(512);
    let data: Vec<u8> = (0..600 * 512).map(|index| (index / 512 % 251) as u8).collect();
    pair.rig.good(0, &ten(0x2a, 0, 100, 600), &data);
    let segments = [segment(0, (0, 100), (1, 7), 600), segment(0, (0, 100), (0, 2000), 5)];
    let list = list_of(0, 3, &pair.devices(), &segments);
    assert!(pair.rig.good(0, &copy(list.len()), &list).is_empty());
    assert!(pair.stored(7 * 512, 600 * 512) == data, "other bytes than were there");
    assert_eq!(pair.stored(607 * 512, 512), vec![0; 512]);
    assert!(pair.rig.stored(2000, 5) == data[..5 * 512]);
    pair.rig.good(0, &copy(0), &[]);
}

/// VMware copies some MiB at a time: more than a piece.
#[test]
fn a_copy_of_many_pieces_is_told_while_it_runs_and_once_behind_it() {
    let pair = Pair::new(512);
    pair.rig.good(0, &ten(0x2a, 0, 0, 4096), &vec![0x5a; 2 << 20]);
    let list = list_of(9, 0, &pair.devices(), &[segment(0, (0, 0), (1, 0), 4096)]);
    assert_eq!(pair.rig.pointer(0, &results(0, 9), &[]), [0xc0, 0, 2], "nothing is known of it");
    pair.rig.good(0, &copy(list.len()), &list);
    assert!(pair.stored(0, 2 << 20).iter().all(|byte| *byte == 0x5a));
    assert_eq!(pair.rig.pointer(1, &results(0, 9), &[]), [0xc0, 0, 2], "it is another host's");
    assert_eq!(pair.rig.good(0, &results(0, 9), &[]), [0, 0, 0, 8, 1, 0, 1, 0, 0, 0x20, 0, 0]);
    assert_eq!(pair.rig.pointer(0, &results(0, 9), &[]), [0xc0, 0, 2], "it was told");
    // Not held, without a name, and lost with its nexus.
    for (id, usage) in [(9, 2), (0, 3)] {
        let list = list_of(id, usage, &pair.devices(), &[segment(0, (0, 0), (1, 0), 1)]);
        pair.rig.good(0, &copy(list.len()), &list);
        assert_eq!(pair.rig.pointer(0, &results(0, id), &[]), [0xc0, 0, 2]);
    }
    pair.rig.good(0, &copy(list.len()), &list);
    pair.rig.target.detach(&pair.rig.hosts[0]);
    pair.rig.target.attach(&pair.rig.hosts[0]);
    pair.rig.hear(0);
    assert_eq!(pair.rig.pointer(0, &results(0, 9), &[]), [0xc0, 0, 2]);
}

#[test]
fn a_failed_copy_is_told_as_one_that_failed() {
    let pair = Pair::new(512);
    let far = segment(0, (0, 0), (1, BLOCKS - 1), 2);
    for (list, expected) in [
        (list_of(3, 0, &pair.devices(), std::slice::from_ref(&far)), (COPY_ABORTED, 0)),
        (list_of(3, 0, &pair.devices(), &[segment(0, (0, BLOCKS), (1, 0), 1)]), (COPY_ABORTED, 0)),
        (list_of(3, 0, &pair.devices(), &[segment(0, (0, 0), (3, 0), 1)]), (COPY_ABORTED, UNREACHABLE)),
    ] {
        assert_eq!(pair.bad(&list), expected);
        assert_eq!(pair.rig.good(0, &results(0, 3), &[])[4..7], [2, 0, 0]);
    }
    // Nothing moved, also of a segment before the wrong one.
    pair.rig.good(0, &ten(0x2a, 0, 0, 1), &[7; 512]);
    assert_eq!(
        pair.bad(&list_of(3, 0, &pair.devices(), &[segment(0, (0, 0), (1, 0), 1), far])).0,
        COPY_ABORTED
    );
    assert_eq!(pair.stored(0, 512), vec![0; 512]);
    pair.second.set_gone();
    let list = list_of(3, 0, &pair.devices(), &[segment(0, (0, 0), (1, 0), 1)]);
    assert_eq!(pair.bad(&list).0, COPY_ABORTED);
}

/// The loss would be data of a volume that a host was never to see.
#[test]
fn what_a_host_does_not_see_is_neither_read_nor_written() {
    let pair = Pair::new(512);
    for (from, to) in [(2, 0), (0, 2), (2, 2)] {
        let list = list_of(0, 3, &pair.devices(), &[segment(0, (from, 0), (to, 0), 1)]);
        assert_eq!(pair.bad(&list), (COPY_ABORTED, UNREACHABLE), "from {from} to {to}");
    }
    // Named, and not used.
    let list = list_of(0, 3, &pair.devices(), &[segment(0, (0, 0), (1, 0), 1)]);
    pair.rig.good(0, &copy(list.len()), &list);
    // Gone from the view.
    pair.rig.target.remove(UnitAddress::new(1).unwrap());
    pair.rig.hear(0);
    assert_eq!(pair.bad(&list), (COPY_ABORTED, UNREACHABLE));
}

#[test]
fn reservations_hold_on_both_sides() {
    let pair = Pair::new(512);
    let (first, second) = (UnitAddress::new(0), UnitAddress::new(1));
    let reserve = |address, cdb: &[u8]| loop {
        let Begun::Work(work) = pair.rig.target.begin(&pair.rig.hosts[1], address, cdb, 0) else {
            // The unit is new to the host.
            continue;
        };
        let mut running: Pin<Box<dyn Future<Output = Answer>>> = Box::pin(work.run(&[]));
        break poll(&mut running).unwrap().status;
    };
    let list = list_of(0, 3, &pair.devices(), &[segment(0, (1, 0), (0, 0), 1)]);
    let back = list_of(0, 3, &pair.devices(), &[segment(0, (0, 0), (1, 0), 1)]);
    assert_eq!(reserve(second, &[0x16, 0, 0, 0, 0, 0]), crate::Status::Good);
    assert_eq!(pair.bad(&list), (COPY_ABORTED, 0x0d01), "it may not read there");
    assert_eq!(pair.bad(&back), (COPY_ABORTED, 0x0d01), "it may not write there");
    assert_eq!(reserve(second, &[0x17, 0, 0, 0, 0, 0]), crate::Status::Good);
    pair.rig.good(0, &copy(list.len()), &list);
    assert_eq!(reserve(first, &[0x16, 0, 0, 0, 0, 0]), crate::Status::Good);
    assert!(pair.rig.is_conflict(0, &copy(list.len()), &list), "the unit that was asked is reserved itself");
}

#[test]
fn blocks_of_other_sizes_are_copied_where_they_fit() {
    let pair = Pair::new(4096);
    pair.rig.good(0, &ten(0x2a, 0, 0, 16), &vec![0x77; 16 * 512]);
    let two = list_of(0, 3, &pair.devices(), &[segment(0, (0, 0), (1, 5), 16)]);
    pair.rig.good(0, &copy(two.len()), &two);
    assert_eq!(pair.stored(5 * 4096, 8192), vec![0x77; 8192]);
    // Counted in blocks of the target.
    let one = list_of(0, 3, &pair.devices(), &[segment(2, (0, 0), (1, 9), 2)]);
    pair.rig.good(0, &copy(one.len()), &one);
    assert_eq!(pair.stored(9 * 4096, 8192), vec![0x77; 8192]);
    let odd = list_of(0, 3, &pair.devices(), &[segment(0, (0, 0), (1, 5), 15)]);
    assert_eq!(pair.bad(&odd), (COPY_ABORTED, 0x260a));
    let mut devices = pair.devices();
    devices[1][30] = 2;
    let wrong = list_of(0, 3, &devices, &[segment(0, (0, 0), (1, 5), 8)]);
    assert_eq!(pair.bad(&wrong), (COPY_ABORTED, 0x0d03), "the host takes its blocks for others");
}

#[test]
fn lists_that_cannot_be_are_refused_and_say_where() {
    let pair = Pair::new(512);
    let devices = pair.devices();
    let good = list_of(1, 0, &devices, &[segment(0, (0, 0), (1, 0), 1)]);
    let with = |at: usize, value: u8| {
        let mut list = good.clone();
        list[at] = value;
        list
    };
    let many = |devices: usize, segments: usize| {
        let (devices, segments) =
            (vec![pair.devices()[0].clone(); devices], vec![segment(0, (0, 0), (0, 0), 0); segments]);
        list_of(1, 0, &devices, &segments)
    };
    for (list, code) in [
        (good[..15].to_vec(), 0x1a00),
        (good[..good.len() - 1].to_vec(), 0x1a00),
        (many(17, 1), 0x2606),
        (many(1, 17), 0x2608),
        (many(17, 17), 0x1a00),
        (with(16, 0xe0), 0x2607),
        (with(16 + 96, 0x03), 0x2609),
        (with(15, 1), 0x260b),
    ] {
        assert_eq!(pair.bad(&list), (5, code));
    }
    for (list, pointer) in [
        (with(1, 1 << 3), [0x8c, 0, 1]),
        (with(1, 3 << 3), [0x80, 0, 0]),
        (with(16 + 7, 21), [0x80, 0, 23]),
        (with(16 + 96 + 3, 23), [0x80, 0, 16 + 96 + 2]),
        (with(3, 95), [0x80, 0, 2]),
    ] {
        assert_eq!(pair.rig.pointer(0, &copy(list.len()), &list), pointer, "{list:x?}");
    }
    let huge = list::LIST_BYTES_MAX + 1;
    assert_eq!(pair.rig.bad(0, &copy(huge), &vec![0; huge]), (5, 0x1a00));
    // 64 MiB and a block.
    let long = Rig::of(4096, Saved::default());
    let device = vec![device(&long.unit)];
    let list = list_of(1, 0, &device, &[segment(0, (0, 0), (0, 0), 16_385)]);
    assert_eq!(long.pointer(0, &copy(list.len()), &list), [0x80, 0, 16 + 32 + 10]);
    assert_eq!(pair.rig.pointer(0, &[0x83, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]), [0xcc, 0, 1]);
}

#[test]
fn limits_are_told_in_three_places() {
    let pair = Pair::new(512);
    let parameters = pair.rig.good(0, &results(3, 0), &[]);
    assert_eq!(parameters[..4], 42_u32.to_be_bytes());
    assert_eq!(parameters[8..12], [0, 16, 0, 16]);
    assert_eq!(parameters[12..20], [960_u32, 64 << 20].map(u32::to_be_bytes).concat());
    assert_eq!((parameters[36], parameters[37], &parameters[43..]), (4, 9, &[2, 0x02, 0xe4][..]));
    let page = pair.rig.good(0, &[0x12, 1, 0x8f, 4, 0, 0], &[]);
    assert_eq!(page[4..16], [0, 1, 0, 8, 7, 0x83, 1, 0, 0x84, 2, 0, 3]);
    assert_eq!(page[16..32], [0, 4, 0, 28, 0, 0, 0, 0, 0, 16, 0, 16, 0, 0, 3, 0xc0]);
    assert_eq!(page[48..56], [0, 8, 0, 4, 2, 0x02, 0xe4, 0]);
    assert_eq!(page[56..64], [0, 12, 0, 4, 0, 0, 0, 0]);
    assert_eq!(page[64..80], [0x80, 1, 0, 32, 0, 0, 0, 4, 0, 0, 0, 4, 4, 0, 0, 0]);
    assert_eq!(pair.rig.good(0, &[0x12, 0, 0, 0, 96, 0], &[])[5] & 0x08, 0x08, "3PC");
    let told = pair.rig.good(0, &[0xa3, 0x0c, 2, 0x84, 0, 3, 0, 0, 1, 0, 0, 0], &[]);
    assert_eq!(told[..6], [0, 3, 0, 16, 0x84, 3]);
}

/// What the device copies is not read and written, is told like any other copy, and waits for an atomic write
/// of its source. What it does not copy is read and written.
#[test]
fn a_device_that_can_copies_without_the_data() {
    const MIB: u64 = 1 << 20;
    let pair = Pair::new(512);
    let volume = Rc::new(Held::new(true));
    volume.can_copy.set(true);
    let unit = Rc::new(unit_of(6, volume.clone()));
    assert!(pair.rig.target.add(UnitAddress::new(2).unwrap(), unit.clone()));
    (0..3).for_each(|host| drop(pair.rig.hear(host)));
    poll(&mut volume.write(0, &vec![9; 2 << 20], false)).unwrap().unwrap();
    let devices = [pair.devices(), vec![device(&unit)]].concat();
    let list = list_of(1, 0, &devices, &[segment(0, (3, 0), (3, 4096), 4096)]);
    let read = || {
        let mut bytes = vec![0; 2 << 20];
        poll(&mut volume.read(2 << 20, &mut bytes)).unwrap().unwrap();
        bytes
    };
    pair.rig.good(0, &copy(list.len()), &list);
    assert_eq!(*volume.copies.borrow(), [(0, 2 * MIB, MIB), (MIB, 3 * MIB, MIB)]);
    assert!(read().iter().all(|byte| *byte == 0), "it was written besides");
    assert_eq!(pair.rig.good(0, &results(0, 1), &[]), [0, 0, 0, 8, 1, 0, 1, 0, 0, 0x20, 0, 0]);
    // Who has the source's blocks, or the target's, for himself goes first.
    for (lock, start) in [(&unit.reads, 0), (&unit.writes, 2 * MIB)] {
        volume.copies.borrow_mut().clear();
        let mut alone: Pin<Box<dyn Future<Output = _>>> = Box::pin(lock.exclusive(start, 512));
        let turn = poll(&mut alone).unwrap();
        let Begun::Work(work) = pair.rig.begin(0, &copy(list.len()), list.len() as u64) else {
            panic!("answered")
        };
        let mut running: Pin<Box<dyn Future<Output = Answer> + '_>> = Box::pin(work.run(&list));
        assert!(poll(&mut running).is_none() && volume.copies.borrow().is_empty());
        drop(turn);
        assert_eq!(poll(&mut running).unwrap().status, crate::Status::Good);
        assert_eq!(volume.copies.borrow().len(), 2);
        pair.rig.good(0, &results(0, 1), &[]);
    }
    volume.can_copy.set(false);
    pair.rig.good(0, &copy(list.len()), &list);
    assert!(read().iter().all(|byte| *byte == 9), "nobody copied");
    // From a device that is nobody's peer nothing is asked.
    volume.copies.borrow_mut().clear();
    let other = list_of(0, 3, &devices, &[segment(0, (0, 0), (3, 0), 8)]);
    pair.rig.good(0, &copy(other.len()), &other);
    assert!(volume.copies.borrow().is_empty());
}

#[test]
fn a_copy_is_told_while_it_runs_and_ends_when_it_is_asked_to() {
    let pair = Pair::new(512);
    let slow = Rc::new(Held::new(false));
    assert!(pair.rig.target.add(UnitAddress::new(2).unwrap(), Rc::new(unit_of(6, slow.clone()))));
    (0..3).for_each(|host| drop(pair.rig.hear(host)));
    pair.rig.good(0, &ten(0x2a, 0, 0, 4096), &vec![1; 2 << 20]);
    let target = pair.rig.target.unit(UnitAddress::new(2).unwrap()).unwrap();
    let devices = [pair.devices(), vec![device(&target)]].concat();
    let list = |id| list_of(id, 0, &devices, &[segment(0, (0, 0), (3, 0), 4096)]);
    let begin = |id| {
        let list = list(id);
        let Begun::Work(work) = pair.rig.begin(0, &copy(list.len()), list.len() as u64) else {
            panic!("answered")
        };
        let stop = work.stop().unwrap();
        let running: Pin<Box<dyn Future<Output = Answer>>> = Box::pin(async move { work.run(&list).await });
        (running, stop)
    };
    let (mut first, stop) = begin(1);
    assert!(poll(&mut first).is_none());
    assert_eq!(pair.rig.good(0, &results(0, 1), &[]), [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(pair.rig.good(0, &results(0, 1), &[])[4], 0, "it is told as often as it is asked");
    assert_eq!(pair.bad(&list(1)), (5, 0x0016), "two of one name");
    // Four at a time; the fifth comes again.
    let mut others: Vec<_> = (2..5).map(begin).collect();
    assert!(others.iter_mut().all(|(running, _)| poll(running).is_none()));
    let (mut fifth, _) = begin(5);
    assert_eq!(poll(&mut fifth).unwrap().status, crate::Status::TaskSetFull);
    // A piece that is being written is written whole; the next does not begin.
    stop.ask();
    slow.may_write.set(true);
    let answer = poll(&mut first).unwrap();
    assert_eq!((answer.status, answer.sense[2]), (crate::Status::CheckCondition, COPY_ABORTED));
    assert_eq!(pair.rig.good(0, &results(0, 1), &[]), [0, 0, 0, 8, 2, 0, 0, 0, 0, 0x10, 0, 0]);
    assert!(others.iter_mut().all(|(running, _)| poll(running).unwrap().status == crate::Status::Good));
    assert_eq!(pair.rig.good(0, &results(0, 3), &[])[4..7], [1, 0, 1]);
}
