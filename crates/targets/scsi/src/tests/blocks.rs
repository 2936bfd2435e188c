//! Operations on blocks: data, ranges, limits, errors of the device.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use ashlar_block::BlockDevice;

use super::device::Held;
use super::{BLOCKS, Rig, compare_and_write, poll, sixteen, ten, twelve, unit_of};
use crate::{Answer, Begun, Status, UnitAddress};

const LAST: u32 = BLOCKS as u32 - 1;

#[test]
fn every_length_of_read_and_write_moves_the_same_blocks() {
    for block in [512, 4096] {
        let rig = Rig::of(block, crate::Saved::default());
        let writes =
            [vec![0x0a, 0, 0, 1, 2, 0], ten(0x2a, 0, 3, 2), twelve(0xaa, 0, 5, 2), sixteen(0x8a, 0, 7, 2)];
        let reads =
            [vec![0x08, 0, 0, 1, 2, 0], ten(0x28, 0, 3, 2), twelve(0xa8, 0, 5, 2), sixteen(0x88, 0, 7, 2)];
        for (index, (write, read)) in writes.iter().zip(&reads).enumerate() {
            let data = rig.blocks_of(index as u8 + 1, 2);
            assert!(rig.good(0, write, &data).is_empty());
            assert_eq!(rig.good(1, read, &[]), data);
            assert_eq!(rig.stored(1 + 2 * index as u64, 2), data);
        }
        assert_eq!(rig.stored(9, 1), rig.blocks_of(0, 1), "nothing behind the last write");
    }
}

#[test]
fn a_length_of_zero_is_256_blocks_in_six_bytes_and_none_in_more() {
    let rig = Rig::new();
    assert_eq!(rig.good(0, &[0x08, 0, 0, 0, 0, 0], &[]).len(), 256 * 512);
    for cdb in [ten(0x28, 0, 0, 0), twelve(0xa8, 0, 0, 0), sixteen(0x88, 0, 0, 0)] {
        assert!(rig.good(0, &cdb, &[]).is_empty());
    }
    assert!(rig.good(0, &ten(0x2a, 0, LAST, 0), &[]).is_empty());
}

#[test]
fn what_reaches_beyond_the_end_is_refused_and_writes_nothing() {
    let rig = Rig::new();
    let out_of_range = (0x5, 0x2100);
    let two = rig.blocks_of(1, 2);
    for opcode in [0x28, 0x2a, 0x2e] {
        let data: &[u8] = if opcode == 0x28 { &[] } else { &two };
        assert_eq!(rig.bad(0, &ten(opcode, 0, LAST, 2), data), out_of_range, "{opcode:x}");
        assert_eq!(rig.bad(0, &ten(opcode, 0, LAST + 1, 0), &[]), out_of_range, "{opcode:x}");
    }
    for opcode in [0x88, 0x8a, 0x8b, 0x8e, 0x8f, 0x90, 0x91] {
        let data: &[u8] = if matches!(opcode, 0x8a | 0x8b | 0x8e) { &two } else { &[] };
        for start in [u64::from(LAST), u64::MAX, 1 << 63] {
            assert_eq!(rig.bad(0, &sixteen(opcode, 0, start, 2), data), out_of_range, "{opcode:x} {start}");
        }
    }
    assert_eq!(rig.stored(u64::from(LAST), 1), rig.blocks_of(0, 1));
}

#[test]
fn a_transfer_above_the_limit_is_refused_at_its_length_field() {
    let rig = Rig::new();
    let limits = crate::Limits { transfer_bytes_max: 8 * 512, ..crate::Limits::default() };
    let unit = crate::Unit::new(
        rig.device.clone(),
        crate::UnitSettings { limits, ..super::settings(&rig.store, crate::Saved::default()) },
    );
    for (cdb, at) in [(ten(0x28, 0, 0, 9), 7), (twelve(0xa8, 0, 0, 9), 6), (sixteen(0x88, 0, 0, 9), 10)] {
        let answer = unit.begin(&rig.hosts[0], &cdb, 0).unwrap_err();
        assert_eq!(answer.sense[12..18], [0x24, 0, 0, 0xc0, 0, at], "{cdb:x?}");
    }
    assert!(unit.begin(&rig.hosts[0], &ten(0x28, 0, 0, 8), 0).is_ok());
}

#[test]
fn a_host_that_brings_too_little_data_writes_the_blocks_that_it_brings_whole() {
    let rig = Rig::new();
    rig.good(0, &ten(0x2a, 0, 0, 2), &[]);
    rig.good(0, &ten(0x2a, 0, 0, 2), &[1; 511]);
    assert_eq!(rig.stored(0, 2), rig.blocks_of(0, 2));
    for opcode in [0x2a, 0x2e] {
        rig.good(0, &ten(opcode, 0, 0, 3), &rig.blocks_of(opcode, 1)[..]);
        assert_eq!(rig.stored(0, 1), rig.blocks_of(opcode, 1));
        assert_eq!(rig.stored(1, 2), rig.blocks_of(0, 2));
    }
    // What is read, changed and written, or only compared, is so whole or not at all.
    assert_eq!(rig.bad(0, &ten(0x2f, 0x02, 0, 2), &rig.blocks_of(1, 1)), (0x5, 0x0e03));
    // More than a write needs does no harm; more than WRITE SAME needs is an error.
    rig.good(0, &ten(0x2a, 0, 0, 1), &rig.blocks_of(1, 2));
    assert_eq!(rig.stored(0, 2)[512..], [0; 512]);
    for wrong in [vec![0; 256], vec![0; 1024]] {
        assert_eq!(rig.bad(0, &ten(0x41, 0x08, 0, 1), &wrong), (0x5, 0x0e03));
    }
    assert_eq!(rig.bad(0, &compare_and_write(0, 1), &rig.blocks_of(1, 1)), (0x5, 0x2400));
}

#[test]
fn verify_finds_the_block_that_differs() {
    let rig = Rig::new();
    rig.good(0, &ten(0x2a, 0, 10, 3), &rig.blocks_of(7, 3));
    let cdbs = |flags| [ten(0x2f, flags, 10, 3), twelve(0xaf, flags, 10, 3), sixteen(0x8f, flags, 10, 3)];
    let mut wrong = rig.blocks_of(7, 3);
    wrong[2 * 512 + 5] = 8;
    for index in 0..3 {
        rig.good(0, &cdbs(0)[index], &[]);
        rig.good(0, &cdbs(2)[index], &rig.blocks_of(7, 3));
        rig.good(0, &cdbs(6)[index], &rig.blocks_of(7, 1));
        let sense = rig.sense(0, &cdbs(2)[index], &wrong);
        assert_eq!((sense[2], &sense[12..14]), (0xe, &[0x1d, 0][..]));
        assert_eq!((sense[0], &sense[3..7]), (0xf0, &12u32.to_be_bytes()[..]), "the block's address");
        assert_eq!(rig.bad(0, &cdbs(6)[index], &rig.blocks_of(9, 1)), (0xe, 0x1d00));
        assert_eq!(rig.pointer(0, &cdbs(4)[index], &rig.blocks_of(7, 3)), [0xca, 0, 1], "BYTCHK 10b");
    }
}

#[test]
fn write_and_verify_writes_and_compares() {
    let rig = Rig::new();
    for (cdb, byte) in [(ten(0x2e, 0, 4, 2), 1), (twelve(0xae, 2, 4, 2), 2), (sixteen(0x8e, 2, 4, 2), 3)] {
        rig.good(0, &cdb, &rig.blocks_of(byte, 2));
        assert_eq!(rig.stored(4, 2), rig.blocks_of(byte, 2));
    }
    assert_eq!(rig.bad(0, &ten(0x2e, 6, 4, 2), &rig.blocks_of(1, 2)), (0x5, 0x2400));
}

#[test]
fn compare_and_write_tells_the_offset_of_the_first_difference_and_changes_nothing() {
    let rig = Rig::new();
    let old = rig.blocks_of(1, 2);
    let new = rig.blocks_of(2, 2);
    rig.good(0, &ten(0x2a, 0, 0, 2), &old);
    let mut expected = old.clone();
    expected[700] = 9;
    let sense = rig.sense(0, &compare_and_write(0, 2), &[expected, new.clone()].concat());
    assert_eq!((sense[0], sense[2], &sense[3..7]), (0xf0, 0xe, &700u32.to_be_bytes()[..]));
    assert_eq!(rig.stored(0, 2), old);
    rig.good(0, &compare_and_write(0, 2), &[old, new.clone()].concat());
    assert_eq!(rig.stored(0, 2), new);
    rig.good(0, &compare_and_write(0, 0), &[]);
}

/// Without turns both would read the old block, both would find what they expect, and one lock would have two
/// owners.
#[test]
fn of_two_compare_and_writes_at_the_same_time_one_loses() {
    let rig = Rig::new();
    let mut turn: Pin<Box<dyn Future<Output = _>>> = Box::pin(rig.unit.writes.shared(0, 512));
    let held = poll(&mut turn).unwrap();
    let mut running: Vec<Pin<Box<dyn Future<Output = Answer>>>> = Vec::new();
    let lists: Vec<Vec<u8>> =
        [1, 2].map(|byte| [rig.blocks_of(0, 1), rig.blocks_of(byte, 1)].concat()).to_vec();
    for (host, list) in lists.into_iter().enumerate() {
        let Begun::Work(work) = rig.begin(host, &compare_and_write(0, 1), 1024) else { panic!("refused") };
        running.push(Box::pin(async move { work.run(&list).await }));
    }
    assert!(running.iter_mut().all(|work| poll(work).is_none()), "a writer is under way");
    drop(held);
    let answers: Vec<Status> = running.iter_mut().map(|work| poll(work).unwrap().status).collect();
    assert_eq!(answers, [Status::Good, Status::CheckCondition]);
    assert_eq!(rig.stored(0, 1), rig.blocks_of(1, 1));
}

#[test]
fn orwrite_sets_bits_and_clears_none() {
    let rig = Rig::new();
    rig.good(0, &ten(0x2a, 0, 0, 1), &rig.blocks_of(0x0f, 1));
    rig.good(0, &sixteen(0x8b, 0, 0, 1), &rig.blocks_of(0x50, 1));
    assert_eq!(rig.stored(0, 1), rig.blocks_of(0x5f, 1));
}

#[test]
fn write_same_repeats_one_block_and_unmaps_only_zeroes() {
    let rig = Rig::new();
    rig.good(0, &ten(0x41, 0, 8, 3000), &rig.blocks_of(3, 1));
    assert_eq!(rig.stored(8, 3000), rig.blocks_of(3, 3000), "more than one piece");
    assert_eq!(rig.stored(7, 1), rig.blocks_of(0, 1));
    let full = rig.device.allocated_bytes();
    rig.good(0, &sixteen(0x93, 0x08, 8, 3000), &rig.blocks_of(4, 1));
    assert_eq!((rig.stored(8, 1), rig.device.allocated_bytes()), (rig.blocks_of(4, 1), full));
    // UNMAP with a block of zeroes, and NDOB without data.
    rig.good(0, &ten(0x41, 0x08, 0, 4000), &rig.blocks_of(0, 1));
    assert!(rig.device.allocated_bytes() < full);
    rig.good(0, &ten(0x2a, 0, 0, 1), &rig.blocks_of(1, 1));
    rig.good(0, &sixteen(0x93, 0x09, 0, 4000), &[]);
    assert_eq!(rig.stored(0, 1), rig.blocks_of(0, 1));
}

#[test]
fn write_same_of_nothing_of_too_much_and_with_anchor_is_refused() {
    let rig = Rig::new();
    let one = rig.blocks_of(0, 1);
    assert_eq!(rig.pointer(0, &ten(0x41, 0, 0, 0), &one), [0xc0, 0, 7]);
    assert_eq!(rig.pointer(0, &ten(0x41, 0x18, 0, 1), &one), [0xcc, 0, 1], "ANCHOR, bit 4 of byte 1");
    assert_eq!(rig.bad(0, &sixteen(0x93, 0, 0, u32::MAX), &one), (0x5, 0x2100));
    assert_eq!(rig.bad(0, &ten(0x41, 0x20, 0, 1), &one), (0x5, 0x2400), "WRPROTECT");
}

fn unmap_list(spans: &[(u64, u32)]) -> Vec<u8> {
    let bytes = spans.len() * 16;
    let mut list = ((bytes + 6) as u16).to_be_bytes().to_vec();
    list.extend_from_slice(&(bytes as u16).to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    for (start, blocks) in spans {
        list.extend_from_slice(&start.to_be_bytes());
        list.extend_from_slice(&blocks.to_be_bytes());
        list.extend_from_slice(&[0; 4]);
    }
    list
}

fn unmap(list: &[u8]) -> Vec<u8> {
    ten(0x42, 0, 0, list.len() as u16)
}

#[test]
fn unmap_gives_back_what_the_list_says_or_nothing() {
    let rig = Rig::new();
    rig.good(0, &ten(0x2a, 0, 0, 8), &rig.blocks_of(1, 8));
    let list = unmap_list(&[(0, 1), (4, 2), (BLOCKS, 0)]);
    rig.good(0, &unmap(&list), &list);
    let expected =
        [rig.blocks_of(0, 1), rig.blocks_of(1, 3), rig.blocks_of(0, 2), rig.blocks_of(1, 2)].concat();
    assert_eq!(rig.stored(0, 8), expected);

    let beyond = unmap_list(&[(1, 1), (BLOCKS - 1, 2)]);
    assert_eq!(rig.bad(0, &unmap(&beyond), &beyond), (0x5, 0x2100));
    let overflowing = unmap_list(&[(1, 1), (u64::MAX, 1)]);
    assert_eq!(rig.bad(0, &unmap(&overflowing), &overflowing), (0x5, 0x2100));
    assert_eq!(rig.stored(0, 8), expected, "the good descriptor before it was not carried out");
}

#[test]
fn unmap_lists_of_wrong_lengths_are_refused_and_empty_ones_are_not() {
    let rig = Rig::new();
    rig.good(0, &unmap(&[]), &[]);
    let empty = unmap_list(&[]);
    rig.good(0, &unmap(&empty), &empty);
    assert_eq!(rig.bad(0, &unmap(&[0; 7]), &[0; 7]), (0x5, 0x1a00));
    let mut cut = unmap_list(&[(0, 1), (1, 1)]);
    cut.truncate(8 + 16);
    assert_eq!(rig.bad(0, &unmap(&cut), &cut), (0x5, 0x1a00));
    let many = unmap_list(&[(0, 1); 257]);
    assert_eq!(rig.pointer(0, &unmap(&many), &many), [0x80, 0, 2]);
    // ANCHOR.
    let mut anchored = unmap(&empty);
    anchored[1] = 1;
    assert_eq!(rig.pointer(0, &anchored, &empty), [0xc8, 0, 1]);
}

#[test]
fn block_status_tells_mapped_from_unmapped() {
    let rig = Rig::new();
    rig.good(0, &ten(0x2a, 0, 2, 3), &rig.blocks_of(1, 3));
    let mut cdb = vec![0x9e, 0x12];
    cdb.extend_from_slice(&1u64.to_be_bytes());
    cdb.extend_from_slice(&(8u32 + 3 * 16).to_be_bytes());
    cdb.extend_from_slice(&[0, 0]);
    let bytes = rig.good(0, &cdb, &[]);
    assert_eq!(bytes[..8], [0, 0, 0, 52, 0, 0, 0, 0]);
    let run = |index: usize| {
        let at = 8 + 16 * index;
        (bytes[at + 7], u32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap()), bytes[at + 12])
    };
    assert_eq!([run(0), run(1), run(2)], [(1, 1, 1), (2, 3, 0), (5, BLOCKS as u32 - 5, 1)]);
    cdb[2..10].copy_from_slice(&BLOCKS.to_be_bytes());
    assert_eq!(rig.bad(0, &cdb, &[]), (0x5, 0x2100));
}

#[test]
fn synchronize_and_prefetch_take_zero_for_the_rest() {
    let rig = Rig::new();
    for cdb in [ten(0x35, 2, 0, 0), sixteen(0x91, 0, 5, 0), ten(0x34, 0, LAST, 0), sixteen(0x90, 2, 0, 7)] {
        assert_eq!(rig.send(0, &cdb, &[]).status, Status::Good, "{cdb:x?}");
    }
}

#[test]
fn errors_of_the_device_are_told_in_words_of_scsi() {
    let rig = Rig::new();
    rig.device.set_read_only(true);
    assert_eq!(rig.bad(0, &ten(0x2a, 0, 0, 1), &rig.blocks_of(1, 1)), (0x7, 0x2700));
    assert_eq!(rig.bad(0, &ten(0x41, 0, 0, 1), &rig.blocks_of(1, 1)), (0x7, 0x2700));
    rig.device.set_read_only(false);
    rig.device.set_gone();
    assert_eq!(rig.bad(0, &ten(0x28, 0, 0, 1), &[]), (0x2, 0x0400));
    assert_eq!(rig.bad(0, &ten(0x2a, 0, 0, 1), &rig.blocks_of(1, 1)), (0x2, 0x0400));
    assert_eq!(rig.bad(0, &ten(0x35, 0, 0, 0), &[]), (0x2, 0x0400));
}

#[test]
fn a_device_that_becomes_smaller_under_a_command_is_out_of_range() {
    let rig = Rig::new();
    let Begun::Work(work) = rig.begin(0, &ten(0x28, 0, LAST, 1), 0) else { panic!("refused") };
    rig.device.set_size(512 * 8);
    let mut running: Pin<Box<dyn Future<Output = Answer>>> = Box::pin(work.run(&[]));
    let answer = poll(&mut running).unwrap();
    assert_eq!((answer.sense[2], &answer.sense[12..14]), (0x5, &[0x21, 0][..]));
}

fn write_atomic(start: u64, blocks: u16) -> Vec<u8> {
    let mut cdb = sixteen(0x9c, 0, start, 0);
    cdb[12..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

#[test]
fn an_atomic_write_writes_up_to_what_the_limits_say_and_begins_where_they_say() {
    let rig = Rig::new();
    rig.good(0, &write_atomic(8, 256), &rig.blocks_of(7, 256));
    assert_eq!(rig.stored(8, 256), rig.blocks_of(7, 256));
    rig.good(0, &write_atomic(8, 0), &[]);
    // FUA and DPO are fields of it; a boundary, and protection, are not there.
    let mut cdb = write_atomic(0, 8);
    cdb[1] = 0x18;
    rig.good(0, &cdb, &rig.blocks_of(9, 8));
    for (byte, value, pointer) in [(11, 8, [0xcb, 0, 11]), (1, 0x20, [0xcd, 0, 1]), (1, 0x02, [0xc9, 0, 1])] {
        let mut cdb = write_atomic(0, 8);
        cdb[byte] = value;
        assert_eq!(rig.pointer(0, &cdb, &rig.blocks_of(1, 8)), pointer);
    }
    let wrong = [
        (write_atomic(1, 8), [0xc0, 0, 2]),
        (write_atomic(8, 7), [0xc0, 0, 12]),
        (write_atomic(0, 264), [0xc0, 0, 12]),
    ];
    for (cdb, pointer) in wrong {
        assert_eq!(rig.pointer(0, &cdb, &rig.blocks_of(1, 264)), pointer, "{cdb:x?}");
    }
    assert_eq!(rig.bad(0, &write_atomic(BLOCKS, 8), &rig.blocks_of(1, 8)), (5, 0x2100));
    assert_eq!(rig.bad(0, &write_atomic(BLOCKS - 8, 512), &rig.blocks_of(1, 512)), (5, 0x2100));
    assert_eq!(rig.stored(0, 8), rig.blocks_of(9, 8), "what was refused changed nothing");
}

/// A plain write of less than was announced writes the blocks that came. This one must not.
#[test]
fn an_atomic_write_with_too_little_data_writes_nothing() {
    let rig = Rig::new();
    assert_eq!(rig.bad(0, &write_atomic(0, 16), &rig.blocks_of(7, 8)), (5, 0x0e03));
    assert_eq!(rig.stored(0, 16), rig.blocks_of(0, 16));
}

#[test]
fn atomic_writes_are_told_among_the_commands_and_heed_reservations() {
    let rig = Rig::new();
    let asked = rig.good(0, &[0xa3, 0x0c, 1, 0x9c, 0, 0, 0, 0, 1, 0, 0, 0], &[]);
    assert_eq!(asked[..6], [0, 3, 0, 16, 0x9c, 0x18]);
    assert_eq!(asked[14..19], [0, 0, 0xff, 0xff, 0x1f]);
    rig.good(1, &[0x16, 0, 0, 0, 0, 0], &[]);
    assert!(rig.is_conflict(0, &write_atomic(0, 8), &rig.blocks_of(7, 8)));
}

/// The loss would be a page that is half old and half new to who reads it at that moment: a device is free to
/// show parts of a write that it has not answered.
#[test]
fn who_reads_comes_before_an_atomic_write_or_behind_it() {
    let rig = Rig::new();
    let slow = Rc::new(Held::new(false));
    assert!(rig.target.add(UnitAddress::new(1).unwrap(), Rc::new(unit_of(4, slow.clone()))));
    let begin = |cdb, data| begin_at_1(&rig, cdb, data);
    hear_of_1(&rig);
    let mut write = begin(write_atomic(8, 16), rig.blocks_of(7, 16));
    assert!(poll(&mut write).is_none());
    let mut inside = begin(ten(0x28, 0, 16, 1), Vec::new());
    assert!(poll(&mut inside).is_none(), "it would see what is not written whole");
    let mut beside = begin(ten(0x28, 0, 24, 8), Vec::new());
    assert_eq!(poll(&mut beside).unwrap().status, Status::Good);
    slow.may_write.set(true);
    assert_eq!(poll(&mut write).unwrap().status, Status::Good);
    assert_eq!(poll(&mut inside).unwrap().data.as_slice(), rig.blocks_of(7, 1));
}

type Running = Pin<Box<dyn Future<Output = Answer>>>;

/// A command at the second unit, which runs when it is polled.
fn begin_at_1(rig: &Rig, cdb: Vec<u8>, data: Vec<u8>) -> Running {
    let Begun::Work(work) = rig.target.begin(&rig.hosts[0], UnitAddress::new(1), &cdb, data.len() as u64)
    else {
        panic!("{cdb:x?} is answered")
    };
    Box::pin(async move { work.run(&data).await })
}

/// The second unit is new to the host.
fn hear_of_1(rig: &Rig) {
    while let Begun::Answered(_) = rig.target.begin(&rig.hosts[0], UnitAddress::new(1), &[0; 6], 0) {}
}

/// The loss would be a volume that was taken from a host and given to another one, or restored, and what the
/// first one had sent before comes into it.
#[test]
fn what_a_retired_unit_has_not_begun_it_does_not_do() {
    const MIB: usize = 1 << 20;
    let rig = Rig::new();
    let slow = Rc::new(Held::new(false));
    let unit = Rc::new(unit_of(4, slow.clone()));
    assert!(rig.target.add(UnitAddress::new(1).unwrap(), unit.clone()));
    hear_of_1(&rig);
    let begin = |cdb, data| begin_at_1(&rig, cdb, data);
    let swap = [rig.blocks_of(0, 1), rig.blocks_of(9, 1)].concat();
    let mut at_work = begin(ten(0x2a, 0, 0, 1), rig.blocks_of(7, 1));
    let mut of_pieces = begin(ten(0x41, 0, 2048, 4096), rig.blocks_of(5, 1));
    assert!(poll(&mut at_work).is_none() && poll(&mut of_pieces).is_none());
    slow.may_read.set(false);
    let mut has_read_nothing = begin(compare_and_write(8, 1), swap.clone());
    let mut bits = begin(sixteen(0x8b, 0, 16, 1), rig.blocks_of(9, 1));
    let mut behind_it = begin(compare_and_write(0, 1), swap);
    let mut without_data = begin(ten(0x2a, 0, 24, 1), rig.blocks_of(9, 1));
    let waiting = [&mut has_read_nothing, &mut bits, &mut behind_it];
    assert!(waiting.into_iter().all(|running| poll(running).is_none()));

    unit.retire();
    let mut over: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(unit.wait_for_writes());
    assert!(poll(&mut over).is_none(), "a write is at work");
    slow.may_read.set(true);
    slow.may_write.set(true);
    assert_eq!(poll(&mut at_work).unwrap().status, Status::Good);
    for refused in [&mut of_pieces, &mut has_read_nothing, &mut bits, &mut behind_it] {
        let answer = poll(refused).unwrap();
        assert_eq!((answer.status, &answer.sense[12..14]), (Status::CheckCondition, &[0x25, 0][..]));
    }
    assert!(poll(&mut over).is_some());
    assert_eq!(poll(&mut without_data).unwrap().sense[12..14], [0x25, 0]);
    let mut stored = vec![0; 4 * MIB];
    poll(&mut slow.read(0, &mut stored)).unwrap().unwrap();
    assert_eq!(stored[..512], rig.blocks_of(7, 1));
    assert!(stored[512..MIB].iter().all(|byte| *byte == 0), "it was written behind that");
    assert!(stored[MIB..2 * MIB].iter().all(|byte| *byte == 5), "the piece that was at work");
    assert!(stored[2 * MIB..].iter().all(|byte| *byte == 0), "the next piece");
}
