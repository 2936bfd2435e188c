//! The oracle's rules, one by one.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::content::Texture;

const UNIT: u64 = 4096;

fn oracle() -> Oracle {
    let mut oracle = Oracle::default();
    for name in ["a", "b"] {
        let change = Change::VolumeCreate { name: name.to_string(), size_bytes: 1 << 20, unit_bytes: 4096 };
        let id = oracle.change_begin(&change);
        oracle.change_end(id, Outcome::Done).unwrap();
    }
    oracle
}

fn run(first: u64) -> Run {
    Run { first, count: 1 }
}

fn begin(oracle: &mut Oracle, volume: &str, unit: u64) -> (OperationId, Value) {
    let value = Value::of_write(oracle.next_write_number(), Texture::Random);
    (oracle.write_begin(volume, run(unit), value), value)
}

fn write(oracle: &mut Oracle, volume: &str, unit: u64) -> Value {
    let (id, value) = begin(oracle, volume, unit);
    oracle.write_end(id, Outcome::Done);
    value
}

fn live(volume: &str) -> ImageKey {
    ImageKey::Live(volume.to_string())
}

fn frozen(snapshot: &str, volume: &str) -> ImageKey {
    ImageKey::Frozen { snapshot: snapshot.to_string(), volume: volume.to_string() }
}

fn read(oracle: &mut Oracle, key: &ImageKey, unit: u64, value: Value) -> Result<(), String> {
    let id = oracle.read_begin(key, run(unit));
    let mut bytes = vec![0; UNIT as usize];
    value.fill(unit * UNIT / 512, &mut bytes);
    oracle.read_end(id, &bytes)
}

fn snapshot(name: &str, volumes: &[&str]) -> Change {
    let volumes = volumes.iter().map(|name| (*name).to_string()).collect();
    Change::SnapshotCreate { name: name.to_string(), volumes }
}

#[test]
fn an_acknowledged_write_is_the_only_permitted_content() {
    let mut oracle = oracle();
    let value = write(&mut oracle, "a", 3);
    read(&mut oracle, &live("a"), 3, value).unwrap();
    read(&mut oracle, &live("a"), 3, Value::ZERO).unwrap_err();
    read(&mut oracle, &live("b"), 3, value).unwrap_err();
}

#[test]
fn a_write_in_flight_at_a_crash_is_there_or_not_and_stays_so_once_read() {
    for is_there in [false, true] {
        let mut oracle = oracle();
        let old = write(&mut oracle, "a", 3);
        let (_, new) = begin(&mut oracle, "a", 3);
        oracle.stop();
        let (told, other) = if is_there { (new, old) } else { (old, new) };
        read(&mut oracle, &live("a"), 3, told).unwrap();
        read(&mut oracle, &live("a"), 3, other).unwrap_err();
    }
}

#[test]
fn of_two_concurrent_writes_either_may_be_last() {
    let mut oracle = oracle();
    let (first, one) = begin(&mut oracle, "a", 3);
    let (second, other) = begin(&mut oracle, "a", 3);
    oracle.write_end(second, Outcome::Done);
    oracle.write_end(first, Outcome::Done);
    let mut same = oracle;
    read(&mut same, &live("a"), 3, other).unwrap();
    read(&mut same, &live("a"), 3, one).unwrap_err();
}

#[test]
fn a_write_replaces_what_was_acknowledged_before_it_was_issued() {
    let mut oracle = oracle();
    let (first, one) = begin(&mut oracle, "a", 3);
    let two = write(&mut oracle, "a", 3);
    let three = write(&mut oracle, "a", 3);
    oracle.write_end(first, Outcome::Done);
    // The first was in flight throughout: it may be the last. The second cannot be.
    read(&mut oracle, &live("a"), 3, two).unwrap_err();
    read(&mut oracle, &live("a"), 3, three).unwrap();
    read(&mut oracle, &live("a"), 3, one).unwrap_err();
}

#[test]
fn an_unmap_beside_a_write_may_win_although_nothing_was_written_before() {
    let mut oracle = oracle();
    let (first, _) = begin(&mut oracle, "a", 3);
    let unmap = oracle.write_begin("a", Run { first: 0, count: 256 }, Value::ZERO);
    oracle.write_end(unmap, Outcome::Done);
    oracle.write_end(first, Outcome::Done);
    read(&mut oracle, &live("a"), 3, Value::ZERO).unwrap();
}

#[test]
fn a_failed_write_may_come_and_go_until_the_pool_is_opened_again() {
    let mut oracle = oracle();
    let old = write(&mut oracle, "a", 3);
    let (id, new) = begin(&mut oracle, "a", 3);
    oracle.write_end(id, Outcome::Doubtful);
    read(&mut oracle, &live("a"), 3, old).unwrap();
    oracle.stop();
    read(&mut oracle, &live("a"), 3, new).unwrap();
    read(&mut oracle, &live("a"), 3, old).unwrap_err();
}

#[test]
fn a_snapshot_holds_what_was_acknowledged_before_and_nothing_issued_after() {
    let mut oracle = oracle();
    let before = write(&mut oracle, "a", 1);
    let (flying, during) = begin(&mut oracle, "a", 2);
    let id = oracle.change_begin(&snapshot("s", &["a"]));
    oracle.change_end(id, Outcome::Done).unwrap();
    oracle.write_end(flying, Outcome::Done);
    let after = write(&mut oracle, "a", 1);
    let key = frozen("s", "a");
    read(&mut oracle, &key, 1, after).unwrap_err();
    read(&mut oracle, &key, 1, before).unwrap();
    read(&mut oracle, &key, 2, Value::ZERO).unwrap();
    read(&mut oracle, &key, 2, during).unwrap_err();
}

#[test]
fn a_group_that_holds_the_effect_without_its_cause_is_not_one_instant() {
    for has_cause in [false, true] {
        let mut oracle = oracle();
        let id = oracle.change_begin(&snapshot("s", &["a", "b"]));
        let cause = write(&mut oracle, "a", 1);
        let effect = write(&mut oracle, "b", 1);
        oracle.change_end(id, Outcome::Done).unwrap();
        read(&mut oracle, &frozen("s", "b"), 1, effect).unwrap();
        let seen = if has_cause { cause } else { Value::ZERO };
        read(&mut oracle, &frozen("s", "a"), 1, seen).unwrap();
        assert_eq!(oracle.check_exactness().is_ok(), has_cause);
    }
}

#[test]
fn an_unfinished_change_happened_or_not_but_an_acknowledged_one_did() {
    let names = |volumes: &[&str]| Listing {
        volumes: volumes.iter().map(|name| ((*name).to_string(), (1 << 20, 4096))).collect(),
        ..Listing::default()
    };
    let delete = Change::VolumeDelete { name: "a".to_string() };
    for (listing, is_fine) in [(names(&["a", "b"]), true), (names(&["b"]), true), (names(&["a"]), false)] {
        let mut oracle = oracle();
        oracle.change_begin(&delete);
        oracle.stop();
        assert_eq!(oracle.reconcile(&listing).is_ok(), is_fine, "{listing:?}");
    }
    let mut oracle = oracle();
    let id = oracle.change_begin(&delete);
    oracle.change_end(id, Outcome::Done).unwrap();
    oracle.stop();
    oracle.reconcile(&names(&["a", "b"])).unwrap_err();
}

#[test]
fn an_unfinished_restore_is_all_old_or_all_new() {
    let pieces = |first: Value, second: Value| {
        let mut bytes = vec![0; 2 * UNIT as usize];
        first.fill(0, &mut bytes[..4096]);
        second.fill(8, &mut bytes[4096..]);
        vec![(Run { first: 0, count: 2 }, bytes)]
    };
    let prepare = || {
        let mut oracle = oracle();
        let old = (write(&mut oracle, "a", 0), write(&mut oracle, "a", 1));
        let id = oracle.change_begin(&snapshot("s", &["a"]));
        oracle.change_end(id, Outcome::Done).unwrap();
        let new = (write(&mut oracle, "a", 0), write(&mut oracle, "a", 1));
        oracle.change_begin(&Change::SnapshotRestore { name: "s".to_string() });
        oracle.stop();
        let listing = Listing {
            deleted: [].into(),
            volumes: ["a", "b"].map(|name| (name.to_string(), (1 << 20, 4096))).into(),
            snapshots: [("s".to_string(), vec!["a".to_string()])].into(),
            notes: None,
        };
        oracle.reconcile(&listing).unwrap();
        assert!(oracle.is_forked(&live("a")));
        (oracle, old, new)
    };
    let (mut oracle, old, new) = prepare();
    oracle.resolve_fork("a", &pieces(old.0, old.1)).unwrap();
    read(&mut oracle, &live("a"), 0, new.0).unwrap_err();
    let (mut oracle, old, new) = prepare();
    oracle.resolve_fork("a", &pieces(new.0, new.1)).unwrap();
    read(&mut oracle, &live("a"), 0, old.0).unwrap_err();
    let (mut oracle, old, new) = prepare();
    oracle.resolve_fork("a", &pieces(old.0, new.1)).unwrap_err();
}

#[test]
fn shrinking_forgets_what_was_beyond() {
    let mut oracle = oracle();
    let value = write(&mut oracle, "a", 200);
    for size_bytes in [100 * UNIT, 256 * UNIT] {
        let id = oracle.change_begin(&Change::VolumeResize { name: "a".to_string(), size_bytes });
        oracle.change_end(id, Outcome::Done).unwrap();
    }
    read(&mut oracle, &live("a"), 200, value).unwrap_err();
    read(&mut oracle, &live("a"), 200, Value::ZERO).unwrap();
}

/// A write that was on its way when its volume became smaller, and larger again, is there or cut off; what it
/// replaced is gone in any case. A read on its way may find zeroes.
#[test]
fn a_write_beside_a_shrink_is_there_or_cut_off_and_nothing_older() {
    for told in 0..3 {
        let mut oracle = oracle();
        let old = write(&mut oracle, "a", 200);
        let (id, new) = begin(&mut oracle, "a", 200);
        let reading = oracle.read_begin(&live("a"), run(200));
        for size_bytes in [100 * UNIT, 256 * UNIT] {
            let change = oracle.change_begin(&Change::VolumeResize { name: "a".to_string(), size_bytes });
            oracle.change_end(change, Outcome::Done).unwrap();
        }
        assert!(oracle.may_be_out_of_range("a", run(200)) && !oracle.may_be_out_of_range("a", run(99)));
        oracle.write_end(id, Outcome::Done);
        oracle.read_end(reading, &[0; UNIT as usize]).unwrap();
        let found = [new, Value::ZERO, old][told];
        assert_eq!(read(&mut oracle, &live("a"), 200, found).is_ok(), told < 2, "{found}");
    }
    // Where the volume ends no write leaves anything for later.
    let mut oracle = oracle();
    let (id, new) = begin(&mut oracle, "a", 200);
    let resize = |oracle: &mut Oracle, blocks: u64| {
        let size_bytes = blocks * UNIT;
        let change = oracle.change_begin(&Change::VolumeResize { name: "a".to_string(), size_bytes });
        oracle.change_end(change, Outcome::Done).unwrap();
    };
    resize(&mut oracle, 100);
    oracle.write_end(id, Outcome::Done);
    resize(&mut oracle, 256);
    read(&mut oracle, &live("a"), 200, new).unwrap_err();
}

/// Where hosts write parts of blocks a block is judged sector by sector: a part that is written back older is
/// a lost update.
#[test]
fn parts_of_a_block_are_judged_one_by_one() {
    let mut oracle = Oracle::new(512);
    let change = Change::VolumeCreate { name: "a".to_string(), size_bytes: 1 << 20, unit_bytes: 4096 };
    let id = oracle.change_begin(&change);
    oracle.change_end(id, Outcome::Done).unwrap();
    let block = Run { first: 8, count: 8 };
    let mut put = |run: Run| {
        let value = Value::of_write(oracle.next_write_number(), Texture::Random);
        let id = oracle.write_begin("a", run, value);
        oracle.write_end(id, Outcome::Done);
        let mut bytes = vec![0; 512 * run.count as usize];
        value.fill(run.first, &mut bytes);
        bytes
    };
    let old = put(block);
    let new = put(block);
    let part = put(Run { first: 12, count: 1 });
    let with_part = |mut bytes: Vec<u8>| {
        bytes[4 * 512..5 * 512].copy_from_slice(&part);
        bytes
    };
    for (bytes, is_right) in [(with_part(new.clone()), true), (with_part(old), false), (new, false)] {
        let id = oracle.read_begin(&live("a"), block);
        assert_eq!(oracle.read_end(id, &bytes).is_ok(), is_right);
    }
}

#[test]
fn what_images_share_by_copying_takes_room_once() {
    let mut oracle = oracle();
    let one = || (4096 + 64) + 16;
    let notes = oracle.demand_bytes_max();
    write(&mut oracle, "a", 3);
    assert_eq!(oracle.demand_bytes_max(), notes + one());
    let id = oracle.change_begin(&snapshot("s", &["a"]));
    oracle.change_end(id, Outcome::Done).unwrap();
    assert_eq!(oracle.demand_bytes_max(), notes + one() + 16);
    write(&mut oracle, "a", 3);
    assert_eq!(oracle.demand_bytes_max(), notes + 2 * one());
    write(&mut oracle, "b", 3);
    assert_eq!(oracle.demand_bytes_max(), notes + 3 * one());
}

#[test]
fn a_write_in_doubt_takes_no_room_beside_what_it_replaces() {
    let mut oracle = oracle();
    write(&mut oracle, "a", 3);
    let (settled, (id, _)) = (oracle.demand_bytes_max(), begin(&mut oracle, "a", 3));
    assert!(oracle.demand_bytes_max() > settled, "in flight it may lie beside it");
    oracle.write_end(id, Outcome::Doubtful);
    assert_eq!(oracle.demand_bytes_max(), settled);
}

#[test]
fn zeroes_give_room_back() {
    let mut oracle = oracle();
    let notes = oracle.demand_bytes_max();
    write(&mut oracle, "a", 3);
    let (before, _) = begin(&mut oracle, "a", 4);
    oracle.write_end(before, Outcome::Doubtful);
    let unmap = oracle.write_begin("a", Run { first: 3, count: 2 }, Value::ZERO);
    assert!(!oracle.gave_back_since(before));
    oracle.write_end(unmap, Outcome::Done);
    assert!(oracle.gave_back_since(before));
    let (after, _) = begin(&mut oracle, "a", 5);
    assert!(!oracle.gave_back_since(after));
    oracle.write_end(after, Outcome::Refused);
    assert_eq!(oracle.demand_bytes_max(), notes);
}
