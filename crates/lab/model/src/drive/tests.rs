//! One drive: places, seeks, the angle, reading on, and the order of requests.

use std::time::Duration;

use super::discipline::{Discipline, PASSED_OVER_MAX};
use super::geometry::Geometry;
use super::preset::Model;
use super::{Access, Drive};
use crate::Kind::{self, Read, Write};
use ashlar_statistics::random::SplitMix64;

const TURN: u64 = 4_000_000;

fn geometry() -> Geometry {
    Geometry::new(&Model::k15_300g())
}

/// Does the accesses one after the other, each given to the drive when the one before is done and `pause`
/// has passed; answers when each was done.
fn one_by_one(accesses: &[(Kind, u64, u64)], pause: u64) -> Vec<u64> {
    let (geometry, mut drive, mut now) = (geometry(), Drive::new(1234), 0);
    let mut done = Vec::new();
    for (kind, offset, length) in accesses {
        now += pause;
        drive.push(Access { step: 0, kind: *kind, offset: *offset, length: *length });
        now = drive.start(&geometry, Discipline::Fcfs, 1, now).unwrap();
        drive.finish();
        done.push(now);
    }
    done
}

/// The order in which a drive takes these reads, given all at once while it is busy at `head`.
fn order(discipline: Discipline, window: usize, head: u64, offsets: &[u64]) -> Vec<u64> {
    let (geometry, mut drive) = (geometry(), Drive::new(0));
    let access = |offset: &u64| Access { step: 0, kind: Read, offset: *offset, length: 4096 };
    drive.push(access(&head));
    let mut now = drive.start(&geometry, discipline, window, 0).unwrap();
    offsets.iter().for_each(|offset| drive.push(access(offset)));
    drive.finish();
    let mut taken = Vec::new();
    while let Some(finish) = drive.start(&geometry, discipline, window, now) {
        now = finish;
        taken.push(drive.finish().offset);
    }
    taken
}

#[test]
fn zones_hold_the_capacity_and_the_outer_ones_more_on_a_track() {
    for model in Model::presets() {
        let geometry = Geometry::new(&model);
        let track_bytes = |byte: u64| {
            let track = geometry.place(byte).track;
            (1..).find(|more| geometry.place(byte + more * 4096).track > track).unwrap() * 4096
        };
        let (outer, inner) = (track_bytes(0), track_bytes(model.capacity_bytes - 5_000_000));
        assert!(outer > inner, "{}: {outer} {inner}", model.name);
        let last = geometry.place(model.capacity_bytes - 1).track;
        // Tracks of the last cylinder may be left over, as the zones have as many each.
        let full = geometry.seek(0, last, false) as f64 / model.seek_full.as_nanos() as f64;
        assert!((0.999..=1.0).contains(&full), "{}: {full}", model.name);
    }
}

#[test]
fn seeks_take_what_the_maker_says() {
    let geometry = geometry();
    let last = geometry.place(geometry.capacity - 1).track;
    let third = geometry.seek(0, last / 3, false);
    assert!(third.abs_diff(2_900_000) < 3_000, "{third}");
    assert_eq!(geometry.seek(7, 7, true), 0, "on the track is on the track");
    assert_eq!(geometry.seek(0, 1, false), 200_000, "another surface");
    assert_eq!(geometry.seek(3, 4, false), 200_000, "the next cylinder");
    assert_eq!(geometry.seek(0, last / 2, true) - geometry.seek(0, last / 2, false), 400_000, "settle");
    let seeks: Vec<u64> = (0..=100).map(|percent| geometry.seek(0, last * percent / 100, false)).collect();
    assert!(seeks.is_sorted());
    let half = 2_900_000 + 3_600_000 / 4;
    assert!(seeks[50].abs_diff(half) < 3_000, "a straight line beyond a third: {}", seeks[50]);
}

#[test]
fn the_mean_seek_is_the_published_one() {
    let (geometry, mut random) = (geometry(), SplitMix64::new(1));
    let last = geometry.place(geometry.capacity - 1).track;
    let count = 100_000;
    let seek = |_| geometry.seek(random.below(last), random.below(last), false);
    let sum: u64 = (0..count).map(seek).sum();
    let mean = sum / count;
    assert!(mean.abs_diff(2_900_000) < 40_000, "{mean}");
}

#[test]
fn a_transfer_is_the_sum_of_its_parts() {
    let (geometry, mut random) = (geometry(), SplitMix64::new(2));
    for _ in 0..2000 {
        let from = random.below(geometry.capacity - 8_000_000);
        let between = from + 1 + random.below(3_000_000);
        let to = between + 1 + random.below(3_000_000);
        let parts =
            geometry.transfer(from, between) + geometry.gap_before(between) + geometry.transfer(between, to);
        assert_eq!(geometry.transfer(from, to), parts, "{from} {between} {to}");
    }
}

#[test]
fn the_same_sector_comes_once_a_turn() {
    // Writes, because they go past the buffer. A pause shorter than a turn changes nothing.
    for pause in [0, 1_000_000, 3_000_000] {
        let done = one_by_one(&[(Write, 5_000_000, 4096); 5], pause);
        assert!(done.windows(2).all(|pair| pair[1] - pair[0] == TURN), "{pause}: {done:?}");
    }
    let near_and_far = [(Write, 0, 4096), (Write, 200_000_000_000, 4096)].repeat(20);
    let done = one_by_one(&near_and_far, 123_457);
    let angles: Vec<u64> = done.iter().map(|done| done % TURN).collect();
    assert!(angles.chunks(2).all(|pair| pair == &angles[..2]), "a place has one angle: {angles:?}");
}

#[test]
fn sequential_accesses_that_wait_already_are_done_without_a_gap() {
    let geometry = geometry();
    for kind in [Read, Write] {
        let blocks: Vec<_> = (0..200).map(|block| (kind, block * 65_536, 65_536)).collect();
        let done = one_by_one(&blocks, 0);
        let took = done[199] - done[0];
        assert_eq!(took, geometry.gap_before(65_536) + geometry.transfer(65_536, 200 * 65_536), "{kind:?}");
    }
}

#[test]
fn a_read_that_comes_a_moment_late_finds_the_drive_reading_on_and_a_write_loses_a_turn() {
    let read = one_by_one(&[(Read, 0, 65_536), (Read, 65_536, 65_536)], 50_000);
    let write = one_by_one(&[(Write, 0, 65_536), (Write, 65_536, 65_536)], 50_000);
    // 64 KiB at the 232 MB/s of a turn without changes of the track take 0.282 ms.
    assert!((read[1] - read[0]).abs_diff(282_000) < 1_000, "{read:?}");
    assert!((write[1] - write[0]).abs_diff(TURN + 282_000) < 1_000, "{write:?}");
}

#[test]
fn what_was_read_on_comes_out_of_the_buffer_and_what_was_not_takes_a_seek() {
    // A tenth of a second later the segment of 1 MiB has long been read, and the head has stopped.
    let late = 100_000_000;
    let done = one_by_one(&[(Read, 0, 65_536), (Read, 65_536, 65_536), (Read, 1_200_000, 65_536)], late);
    assert_eq!(done[1] - done[0] - late, (65_536_u64 * 5).div_ceil(3), "600 MB/s");
    assert!(done[2] - done[1] - late > 282_000, "{done:?}");
    // The first half of the last one is in the buffer, which ends 1 MiB behind the first.
    let across = [(Read, 0, 65_536), (Read, 65_536 + (1 << 20) - 32_768, 65_536)];
    let done = one_by_one(&across, late);
    let took = done[1] - done[0] - late;
    assert!(took < 2 * TURN, "{took}");
}

#[test]
fn every_discipline_has_its_order() {
    let offsets = [90, 20, 60, 10, 70].map(|gigabytes| gigabytes * 1_000_000_000);
    let sorted = |order: [u64; 5]| order.map(|gigabytes| gigabytes * 1_000_000_000).to_vec();
    let head = 50_000_000_000;
    assert_eq!(order(Discipline::Fcfs, 5, head, &offsets), offsets);
    assert_eq!(order(Discipline::CScan, 5, head, &offsets), sorted([60, 70, 90, 10, 20]));
    assert_eq!(order(Discipline::CScan, 2, head, &offsets), sorted([90, 20, 60, 70, 10]));
    assert_eq!(order(Discipline::Sptf, 1, head, &offsets), offsets);
    let mut all = order(Discipline::Sptf, 5, head, &offsets);
    all.sort_unstable();
    assert_eq!(all, sorted([10, 20, 60, 70, 90]));
}

#[test]
fn the_shortest_positioning_time_is_taken_first() {
    let (geometry, mut random) = (geometry(), SplitMix64::new(5));
    let mut offset = || random.below(200_000_000_000);
    for _ in 0..100 {
        let offsets = [offset(), offset(), offset()];
        let head = offset();
        let taken = order(Discipline::Sptf, 3, head, &offsets)[0];
        let begin = |target: u64| {
            let done = one_by_one(&[(Read, head, 4096), (Read, target, 4096)], 0);
            done[1] - done[0] - geometry.transfer(target, target + 4096)
        };
        // The platter stands elsewhere at the start here; from the first read on, all is the same.
        let fastest = offsets.into_iter().min_by_key(|target| begin(*target)).unwrap();
        assert_eq!(taken, fastest);
    }
}

#[test]
fn nobody_is_passed_over_for_ever() {
    let (geometry, mut drive, mut now) = (geometry(), Drive::new(0), 0);
    let far = Access { step: 1, kind: Read, offset: 250_000_000_000, length: 4096 };
    drive.push(far);
    // Never less than two requests near the head: the far one is never the nearest.
    let near = |index: u64| Access { step: 0, kind: Read, offset: index % 7 * 100_000, length: 4096 };
    (0..2).for_each(|index| drive.push(near(index)));
    for index in 0..=u64::from(PASSED_OVER_MAX) {
        now = drive.start(&geometry, Discipline::Sptf, 3, now).unwrap();
        let is_far = drive.finish().step == 1;
        assert_eq!(is_far, index == u64::from(PASSED_OVER_MAX), "{index}");
        drive.push(near(index));
    }
}

#[test]
fn random_accesses_wait_half_a_turn() {
    let (geometry, mut random) = (geometry(), SplitMix64::new(9));
    let count = 20_000;
    let mut sum = 0;
    for _ in 0..count {
        let place = geometry.place(random.below(geometry.capacity));
        let now = random.below(1 << 40);
        sum += geometry.under_head(&place, now, 77) - now;
    }
    let mean = Duration::from_nanos(sum / count).as_secs_f64() * 1000.0;
    assert!((mean - 2.0).abs() < 0.03, "{mean} ms");
}
