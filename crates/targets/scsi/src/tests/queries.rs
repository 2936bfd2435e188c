//! Commands that ask: INQUIRY, capacity, units, codes, ports; and CDBs that are wrong.

use super::{BLOCKS, Rig, ten};
use crate::{Begun, Data, Status, UnitAddress, parse};

fn inquiry(page: Option<u8>, allocation: u16) -> Vec<u8> {
    let [high, low] = allocation.to_be_bytes();
    vec![0x12, u8::from(page.is_some()), page.unwrap_or(0), high, low, 0]
}

#[test]
fn standard_inquiry_says_what_the_unit_is() {
    let rig = Rig::new();
    let bytes = rig.good(0, &inquiry(None, 260), &[]);
    assert_eq!(bytes.len(), 96);
    assert_eq!(bytes[..8], [0, 0, 6, 0x12, 91, 0x18, 0x10, 2]);
    assert_eq!(&bytes[8..36], b"ASHLAR  Volume          1   ");
    assert_eq!(bytes[58..66], [0x00, 0xa0, 0x09, 0x60, 0x04, 0x60, 0x04, 0xc0]);
    for allocation in [0, 5, 95, 96, 511] {
        assert_eq!(rig.good(0, &inquiry(None, allocation), &[]), bytes[..96.min(usize::from(allocation))]);
    }
    assert_eq!(rig.pointer(0, &[0x12, 0, 1, 1, 0, 0], &[]), [0xc0, 0, 2]);
}

#[test]
fn every_page_in_the_list_of_pages_is_there_and_tells_its_length() {
    let rig = Rig::new();
    let list = rig.good(0, &inquiry(Some(0), 255), &[]);
    assert_eq!(list[4..], [0x00, 0x80, 0x83, 0x86, 0x8f, 0xb0, 0xb1, 0xb2]);
    for page in &list[4..] {
        let bytes = rig.good(0, &inquiry(Some(*page), 1024), &[]);
        assert_eq!((bytes[0], bytes[1]), (0, *page));
        assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len() - 4, "page {page:x}");
    }
    assert_eq!(rig.pointer(0, &inquiry(Some(0xb5), 255), &[]), [0xc0, 0, 2]);
}

#[test]
fn pages_of_limits_and_provisioning_say_what_commands_keep() {
    let rig = Rig::of(4096, crate::Saved::default());
    let limits = rig.good(0, &inquiry(Some(0xb0), 255), &[]);
    assert_eq!((limits.len(), limits[3]), (64, 0x3c));
    assert_eq!((limits[4], limits[5]), (1, 255));
    assert_eq!(limits[8..12], 4096u32.to_be_bytes(), "16 MiB");
    assert_eq!(limits[20..24], (1u32 << 20).to_be_bytes());
    assert_eq!(limits[24..28], 256u32.to_be_bytes());
    assert_eq!(limits[36..44], 4096u64.to_be_bytes(), "16 MiB");
    let atomic = [32u32, 1, 1].map(u32::to_be_bytes).concat();
    assert_eq!(limits[44..56], atomic, "128 KiB, at every block, of any length");
    assert_eq!(limits[56..64], [0; 8], "none with a boundary");
    let small = Rig::new().good(0, &inquiry(Some(0xb0), 255), &[]);
    assert_eq!(small[44..56], [256u32, 8, 8].map(u32::to_be_bytes).concat(), "blocks of 512 in whole 4096");
    assert_eq!(rig.good(0, &inquiry(Some(0xb2), 255), &[]), [0, 0xb2, 0, 4, 0, 0xe4, 2, 0]);
    assert_eq!(rig.good(0, &inquiry(Some(0xb1), 255), &[])[..6], [0, 0xb1, 0, 60, 0, 1]);
}

#[test]
fn designators_name_unit_port_and_target() {
    let rig = Rig::new();
    let bytes = rig.good(0, &inquiry(Some(0x83), 1024), &[]);
    let mut designators = Vec::new();
    let mut rest = &bytes[4..];
    while let [first, second, _, length, tail @ ..] = rest {
        let (body, tail) = tail.split_at(usize::from(*length));
        designators.push((*first, *second, body.to_vec()));
        rest = tail;
    }
    let kinds: Vec<(u8, u8)> = designators.iter().map(|(first, second, _)| (*first, *second)).collect();
    assert_eq!(
        kinds,
        [(0x01, 0x03), (0x02, 0x01), (0x01, 0x0a), (0x51, 0x94), (0x51, 0x95), (0x53, 0x98), (0x53, 0xa8)]
    );
    assert_eq!(designators[0].2[0] >> 4, 3, "NAA locally assigned");
    assert!(designators[1].2.starts_with(b"ASHLAR  "));
    assert_eq!(designators[5].2, b"iqn.2026-11.io.ashlar:p,t,0x0001\0\0\0\0");
}

#[test]
fn capacity_is_told_in_both_lengths() {
    let rig = Rig::new();
    assert_eq!(rig.good(0, &ten(0x25, 0, 0, 0), &[]), [0, 0, 0x0f, 0xff, 0, 0, 2, 0]);
    assert_eq!(rig.pointer(0, &ten(0x25, 0, 5, 0), &[]), [0xc0, 0, 2], "an address without PMI");
    let cdb = [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
    let bytes = rig.good(0, &cdb, &[]);
    assert_eq!(bytes[..8], (BLOCKS - 1).to_be_bytes());
    assert_eq!(bytes[8..16], [0, 0, 2, 0, 0, 3, 0xc0, 0]);
    assert_eq!(bytes.len(), 32);
}

#[test]
fn units_are_listed_in_order_and_absent_ones_say_so() {
    let rig = Rig::new();
    let far = UnitAddress::new(300).unwrap();
    assert!(rig.target.add(far, rig.unit.clone()));
    assert!(!rig.target.add(far, rig.unit.clone()), "an address is given once");
    let cdb = |select, allocation| [0xa0, 0, select, 0, 0, 0, 0, 0, 0, allocation, 0, 0];
    let bytes = rig.good(0, &cdb(0, 64), &[]);
    assert_eq!(bytes[..4], [0, 0, 0, 16]);
    assert_eq!((bytes[8..16].to_vec(), bytes[16..18].to_vec()), (vec![0; 8], vec![0x41, 0x2c]));
    assert_eq!(rig.good(0, &cdb(1, 16), &[]), [0; 8]);
    assert_eq!(rig.pointer(0, &cdb(3, 64), &[]), [0xc0, 0, 2]);
    assert_eq!(rig.pointer(0, &cdb(0, 15), &[]), [0xc0, 0, 6]);

    let absent = |address, cdb: &[u8]| match rig.target.begin(&rig.hosts[0], address, cdb, 0) {
        Begun::Answered(answer) => answer,
        Begun::Work(_) => panic!("no unit is there"),
    };
    for address in [UnitAddress::new(9), None] {
        let answer = absent(address, &inquiry(None, 96));
        assert_eq!((answer.status, answer.data.as_slice()[0]), (Status::Good, 0x7f));
        assert_eq!(absent(address, &cdb(0, 64)).data.as_slice(), bytes);
        let answer = absent(address, &[0; 6]);
        assert_eq!((answer.sense[2], &answer.sense[12..14]), (5, &[0x25, 0][..]));
        let answer = absent(address, &[0x03, 0, 0, 0, 252, 0]);
        assert_eq!((answer.status, answer.data.as_slice()[12]), (Status::Good, 0x25));
        assert_eq!(absent(address, &inquiry(Some(0x80), 96)).sense[12], 0x25);
    }
}

#[test]
fn every_command_in_the_list_of_codes_is_parsed_and_asked_for_alone() {
    let rig = Rig::new();
    let cdb = |options: u8, opcode: u8, action: u8| {
        [0xa3, 0x0c, options, opcode, 0, action, 0, 0, 0xff, 0xff, 0, 0]
    };
    let list = rig.good(0, &cdb(0, 0, 0), &[]);
    assert_eq!(list[..4], (list.len() as u32 - 4).to_be_bytes());
    for descriptor in list[4..].chunks(8) {
        let [opcode, _, _, action, _, flags, _, length] = descriptor else { panic!("8 bytes") };
        let (right, wrong) = if flags & 1 != 0 { (2, 1) } else { (1, 2) };
        let one = rig.good(0, &cdb(right, *opcode, *action), &[]);
        assert_eq!((one[1], one[3], one.len()), (3, *length, 4 + usize::from(*length)));
        assert_eq!(one[4], *opcode);
        assert_eq!(rig.good(0, &cdb(3, *opcode, *action), &[]), one);
        assert_eq!(rig.bad(0, &cdb(wrong, *opcode, *action), &[]), (5, 0x2400));
        // A CDB of zeroes but for the opcode may have a bad value in a field, but never a bad code.
        let mut bare = vec![0; 16];
        (bare[0], bare[1]) = (*opcode, if flags & 1 != 0 { *action } else { 0 });
        assert!(parse(&bare).map_or_else(|sense| sense.code != 0x2000, |_| true), "{opcode:x}");
    }
    let timed = rig.good(0, &cdb(0x80, 0, 0), &[]);
    assert_eq!(timed[4 + 5] & 2, 2);
    assert_eq!((timed.len() - 4) / 20, (list.len() - 4) / 8);
    assert_eq!(timed[12..14], [0, 0x0a]);
    assert_eq!(rig.good(0, &cdb(1, 0x04, 0), &[]), [0, 1, 0, 0], "FORMAT UNIT is not there");
}

#[test]
fn port_groups_and_task_management_functions_are_told() {
    let rig = Rig::new();
    let mut cdb = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0];
    assert_eq!(rig.good(0, &cdb, &[]), [0, 0, 0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]);
    cdb[1] = 0x2a;
    let extended = rig.good(0, &cdb, &[]);
    assert_eq!((extended.len(), extended[3], extended[4]), (20, 16, 0x10));
    cdb[1] = 0x4a;
    assert_eq!(rig.bad(0, &cdb, &[]), (5, 0x2400));
    let functions = rig.good(0, &[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[]);
    assert_eq!(functions, [0xda, 0, 0, 0]);
    assert_eq!(rig.good(0, &[0xa3, 0x0d, 0x80, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[]).len(), 16);
}

#[test]
fn wrong_codes_actions_and_bits_are_told_apart() {
    let rig = Rig::new();
    assert_eq!(rig.bad(0, &[0x04, 0, 0, 0, 0, 0], &[]), (5, 0x2000));
    assert_eq!(rig.pointer(0, &[0x04, 0, 0, 0, 0, 0], &[]), [0; 3]);
    assert_eq!(rig.pointer(0, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0, 8, 0], &[]), [0xcc, 0, 1]);
    // RDPROTECT 001b, a reserved byte, NACA.
    assert_eq!(rig.pointer(0, &ten(0x28, 0x20, 0, 1), &[]), [0xcd, 0, 1]);
    assert_eq!(rig.pointer(0, &[0x28, 0, 0, 0, 0, 0, 0x80, 0, 1, 0], &[]), [0xcf, 0, 6]);
    assert_eq!(rig.pointer(0, &[0, 0, 0, 0, 0, 0x04], &[]), [0xca, 0, 5]);
    // A CDB that is too short for its opcode.
    assert_eq!(rig.pointer(0, &[0x28, 0, 0, 0], &[]), [0xc0, 0, 4]);
    assert_eq!(rig.bad(0, &[], &[]), (5, 0x2000));
}

#[test]
fn no_opcode_with_any_byte_set_panics() {
    let rig = Rig::new();
    // Small, so that commands about the rest of the volume take no time.
    rig.device.set_size(64 * 512);
    rig.hear(0);
    for opcode in 0..=255_u8 {
        for index in 1..16 {
            for value in [0x01, 0x1f, 0xff] {
                let mut cdb = [0; 16];
                (cdb[0], cdb[index]) = (opcode, value);
                let answer = rig.send(0, &cdb, &[0; 64]);
                assert_eq!(answer.sense.is_empty(), answer.status != Status::CheckCondition);
                assert!(answer.status == Status::Good || matches!(answer.data, Data::None));
            }
        }
    }
}

#[test]
fn stopping_a_unit_that_others_use_stops_nothing() {
    let rig = Rig::new();
    for cdb in [[0x1b, 1, 0, 0, 0, 0], [0x1b, 0, 0, 0, 1, 0], [0x1b, 0, 0, 0, 0x32, 0]] {
        assert_eq!(rig.send(0, &cdb, &[]).status, Status::Good);
    }
    assert_eq!(rig.pointer(0, &[0x1b, 0, 0, 0, 2, 0], &[]), [0xc9, 0, 4], "LOEJ");
    rig.good(1, &[0; 6], &[]);
}
