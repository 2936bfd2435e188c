//! MODE SENSE and MODE SELECT.

use super::{BLOCKS, Rig, ten};
use crate::Saved;

fn sense(page: u8, flags: u8) -> Vec<u8> {
    vec![0x1a, flags, page, 0, 255, 0]
}

fn select(list: &[u8]) -> Vec<u8> {
    vec![0x15, 0x10, 0, 0, list.len() as u8, 0]
}

/// A MODE SELECT(6) list with one page, made of what MODE SENSE told.
fn list(page: &[u8]) -> Vec<u8> {
    [&[0; 4][..], page].concat()
}

const CONTROL: [u8; 12] = [0x0a, 10, 0, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0, 0];

#[test]
fn all_pages_come_behind_a_header_and_a_descriptor() {
    let rig = Rig::new();
    let bytes = rig.good(0, &sense(0x3f, 0), &[]);
    assert_eq!(bytes[..4], [bytes.len() as u8 - 1, 0, 0x10, 8]);
    assert_eq!(bytes[4..12], [0, 0, 0x10, 0, 0, 0, 2, 0]);
    assert_eq!((bytes[12], bytes[32], bytes[44], bytes.len()), (0x08, 0x0a, 0x1c, 56));
    let short = rig.good(0, &sense(0x0a, 0x08), &[]);
    assert_eq!(short, [&[15, 0, 0x10, 0][..], &CONTROL].concat());
    let long = rig.good(0, &[0x5a, 0x18, 0x0a, 0, 0, 0, 0, 1, 0, 0], &[]);
    assert_eq!(long, [&[0, 18, 0, 0x10, 0, 0, 0, 0][..], &CONTROL].concat());
    assert_eq!(rig.good(0, &[0x1a, 0, 0x3f, 0, 4, 0], &[]), bytes[..4]);
}

#[test]
fn changeable_default_and_saved_values_are_told_apart() {
    let rig = Rig::new();
    let changeable = rig.good(0, &sense(0x40 | 0x0a, 8), &[]);
    assert_eq!(changeable[4..], [0x0a, 10, 4, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    let cache = rig.good(0, &sense(0x80 | 0x08, 8), &[]);
    assert_eq!(cache[4..7], [0x08, 18, 4]);
    assert_eq!(rig.bad(0, &sense(0xc0 | 0x08, 8), &[]), (5, 0x3900));
    assert_eq!(rig.pointer(0, &sense(0x01, 8), &[]), [0xcd, 0, 2]);
    assert_eq!(rig.pointer(0, &[0x1a, 0, 0x3f, 1, 255, 0], &[]), [0xc0, 0, 3]);
}

#[test]
fn a_volume_too_large_for_the_short_descriptor_has_a_long_one() {
    let rig = Rig::of(4096, Saved::default());
    rig.device.set_size((1 << 33) * 4096);
    rig.hear(0);
    rig.good(0, &[0; 6], &[0; 0]);
    let bytes = rig.good(0, &[0x5a, 0x10, 0x0a, 0, 0, 0, 0, 1, 0, 0], &[]);
    assert_eq!((bytes[4], bytes[7]), (1, 16));
    assert_eq!(bytes[8..24], [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0]);
    let short = rig.good(0, &sense(0x0a, 0), &[]);
    assert_eq!(short[4..12], [0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0]);
}

#[test]
fn descriptor_sense_is_used_once_asked_for() {
    let rig = Rig::new();
    let mut control = CONTROL;
    control[2] = 4;
    rig.good(0, &select(&list(&control)), &list(&control));
    let sense = rig.sense(0, &ten(0x28, 0, BLOCKS as u32, 1), &[]);
    assert_eq!(sense, [0x72, 5, 0x21, 0, 0, 0, 0, 0]);
}

#[test]
fn software_write_protection_refuses_writes_and_lets_go_again() {
    let rig = Rig::new();
    let mut control = CONTROL;
    control[4] = 8;
    rig.good(0, &select(&list(&control)), &list(&control));
    assert_eq!(rig.good(0, &sense(0x3f, 0), &[])[2], 0x90);
    assert_eq!(rig.bad(0, &ten(0x2a, 0, 0, 1), &rig.blocks_of(1, 1)), (7, 0x2702));
    rig.good(0, &ten(0x28, 0, 0, 1), &[]);
    rig.good(0, &select(&list(&CONTROL)), &list(&CONTROL));
    rig.good(0, &ten(0x2a, 0, 0, 1), &rig.blocks_of(1, 1));
}

#[test]
fn a_list_with_one_wrong_byte_changes_nothing() {
    let rig = Rig::new();
    let before = rig.good(0, &sense(0x3f, 0), &[]);
    let mut cache = before[12..32].to_vec();
    cache[2] = 0;
    let mut control = CONTROL;
    control[3] = 0x20;
    // The caching page is right and comes first.
    let both = list(&[&cache[..], &control].concat());
    assert_eq!(rig.pointer(0, &select(&both), &both), [0x8d, 0, 27]);
    assert_eq!(rig.good(0, &sense(0x3f, 0), &[]), before);
    let unknown = list(&[0x02, 2, 0, 0]);
    assert_eq!(rig.pointer(0, &select(&unknown), &unknown), [0x8d, 0, 4]);
    let cut = list(&cache[..10]);
    assert_eq!(rig.bad(0, &select(&cut), &cut), (5, 0x1a00));
    assert_eq!(rig.bad(0, &select(&[0; 3]), &[0; 3]), (5, 0x1a00));
    rig.good(0, &select(&[]), &[]);
    // Without PF, and with SP.
    assert_eq!(rig.pointer(0, &[0x15, 0, 0, 0, 4, 0], &[0; 4]), [0xcc, 0, 1]);
    assert_eq!(rig.pointer(0, &[0x15, 0x11, 0, 0, 4, 0], &[0; 4]), [0xc8, 0, 1]);
}

#[test]
fn a_block_descriptor_must_say_what_is() {
    let rig = Rig::new();
    let with = |blocks: u32, block: u8| {
        let mut list = vec![0, 0, 0, 8];
        list.extend_from_slice(&blocks.to_be_bytes());
        list.extend_from_slice(&[0, 0, block, 0]);
        list
    };
    for blocks in [0, u32::MAX, BLOCKS as u32] {
        rig.good(0, &select(&with(blocks, 2)), &with(blocks, 2));
    }
    assert_eq!(rig.pointer(0, &select(&with(5, 2)), &with(5, 2)), [0x80, 0, 4]);
    assert_eq!(rig.pointer(0, &select(&with(0, 16)), &with(0, 16)), [0x80, 0, 9]);
}
