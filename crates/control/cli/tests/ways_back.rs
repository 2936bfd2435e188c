//! Nothing is destroyed by a slip: questions that only a terminal or `--yes` answers, held snapshots,
//! restores that keep what was there, deleted volumes that come back.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::nbd::Nbd;
use support::{Array, Done, done, has_program};

const PIECE: usize = 64 << 10;

fn writes(array: &Array, volume: &str, byte: u8) {
    let mut nbd = Nbd::connect(array.state(), volume);
    nbd.write(0, &[byte; PIECE]);
}

fn reads(array: &Array, volume: &str) -> u8 {
    let mut nbd = Nbd::connect(array.state(), volume);
    let bytes = nbd.read(0, PIECE);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
    bytes[0]
}

/// Runs a command whose standard input is a pipe with this in it.
fn piped(array: &Array, arguments: &[&str], input: &str) -> Done {
    let mut command = Command::new(support::program());
    command.arg("--state").arg(array.state()).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    done(child.wait_with_output().unwrap())
}

/// Runs a command at a terminal, where somebody types this.
fn typed(array: &Array, arguments: &[&str], input: &str) -> Done {
    let program = support::program();
    let line = format!("{program} --state {} {}", array.state().display(), arguments.join(" "));
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    done(child.wait_with_output().unwrap())
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// `echo n | ashlar volume delete prod` deleted it, and so did cron.
#[test]
fn without_a_terminal_nothing_is_destroyed_without_yes() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.good(&["volume", "delete", "db", "--yes"]);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let before = (array.good(&["volume", "list"]), array.good(&["snapshot", "list"]));
    let kept = array.path("kept.img");
    std::fs::write(&kept, vec![7; 8 << 20]).unwrap();
    let drive = kept.display().to_string();
    let all: &[&[&str]] = &[
        &["pool", "create", "p", "--force", "--drive", &drive],
        &["pool", "add-drive", "main", "--force", "--drive", &drive],
        &["pool", "replace-drive", "main", "0", "--force", "--with", &drive],
        &["volume", "delete", "db"],
        &["volume", "delete", "db", "--now"],
        &["volume", "delete", "db", "--force"],
        &["volume", "purge", "db"],
        &["volume", "resize", "db", "--size", "4MiB", "--shrink"],
        &["volume", "resize", "db", "--size", "4MiB", "--shrink", "--force"],
        &["snapshot", "delete", "noon"],
        &["snapshot", "delete", "noon", "--force"],
        &["snapshot", "restore", "noon"],
        &["snapshot", "restore", "noon", "--no-backup"],
        &["pool", "delete", "main"],
        &["pool", "delete", "main", "--force"],
        &["pool", "export", "main", "--force"],
        &["pool", "import", "main", "--force"],
        &["pool", "import", "main", "--accept-older-state"],
        &["pool", "remove-drive", "main", "0"],
        &["pool", "offline-drive", "main", "0"],
        &["detach", "db", "--force"],
        &["attach", "db", "--format", "ext4", "--force"],
    ];
    for arguments in all {
        // An answer that stands on standard input was not written for this question.
        for input in ["", "n\n", "y\n", "yes\n"] {
            let done = piped(&array, arguments, input);
            assert_eq!((done.status, done.out.as_str()), (2, ""), "{arguments:?}: {}", done.err);
            assert!(
                done.err.contains("--yes") && done.err.lines().count() == 1,
                "{arguments:?}: {}",
                done.err
            );
        }
    }
    assert_eq!((array.good(&["volume", "list"]), array.good(&["snapshot", "list"])), before);
    assert!(std::fs::read(&kept).unwrap() == vec![7; 8 << 20]);
    assert_eq!(names(&array.json(&["pool", "list"])), ["main"]);
    assert_eq!(array.json(&["volume", "list", "--deleted"]).as_array().unwrap().len(), 1);
}

#[test]
fn at_a_terminal_the_answer_is_read() {
    if !has_program("script") {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    for input in ["n\n", "\n", "\u{4}", "maybe\n"] {
        let done = typed(&array, &["volume", "delete", "db"], input);
        assert_eq!(done.status, 1, "{input:?}: {}{}", done.out, done.err);
        assert!(done.out.contains("delete volume `db` and its data? [y/N]"), "{}", done.out);
        assert_eq!(names(&array.json(&["volume", "list"])), ["db"], "{input:?}");
    }
    let done = typed(&array, &["volume", "delete", "db"], "y\n");
    assert_eq!(done.status, 0, "{}", done.out);
    assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 0);
}

/// `--size 100` made a volume of 4 KiB.
#[test]
fn a_size_without_a_unit_is_refused() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let file = format!("{},size=1000000000", array.path("new.img").display());
    for arguments in [
        &["volume", "create", "x", "--size", "100"][..],
        &["volume", "create", "x", "--size", "1GiB", "--limit", "100"],
        &["volume", "resize", "db", "--size", "200"],
        &["pool", "replace-drive", "main", "0", "--with", &file],
        &["pool", "create", "new", "--drive", &file],
        &["pool", "add-drive", "main", "--drive", &file],
        &["pool", "set-drive", "main", "0", "--endurance", "600"],
        &["pool", "dedupe", "resize", "main", "--index", "1000000"],
        &["space", "estimate", "db", "--sample-bytes", "1000"],
    ] {
        array.misused(arguments, &["give a unit, e.g.", "GiB"]);
    }
    assert_eq!(names(&array.json(&["volume", "list"])), ["db"]);
    // The API speaks bytes.
    let (status, body) = array.http("PATCH", "/v1/volumes/db", Some(r#"{"size_bytes":134217728}"#));
    assert_eq!(status, 200, "{body}");
}

#[test]
fn a_held_snapshot_stays_whoever_deletes_it() {
    let mut array = Array::with_pool();
    let other = format!("{},size=256MiB", array.path("other.img").display());
    array.good(&["pool", "create", "other", "--drive", &other]);
    array.good(&["volume", "create", "db", "--size", "64MiB", "--pool", "main"]);
    array.good(&["volume", "create", "log", "--size", "64MiB", "--pool", "other"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.good(&["snapshot", "create", "late", "db"]);
    array.good(&["snapshot", "create", "away", "log"]);
    let held = array.json(&["snapshot", "hold", "away", "--reason", "audit of 2026"]);
    assert_eq!(held["hold"]["reason"], "audit of 2026");
    array.good(&["snapshot", "hold", "noon"]);
    for names in [&["noon"][..], &["late", "away"], &["away", "late"]] {
        let arguments = [&["snapshot", "delete"][..], names, &["--yes", "--force"]].concat();
        array.refused(&arguments, &["held", "ashlar snapshot release"]);
    }
    array.refused(&["snapshot", "delete", "away", "--yes"], &["audit of 2026"]);
    let (status, body) = array.http("DELETE", "/v1/snapshots/noon", None);
    assert_eq!(status, 409, "{body}");
    // The oldest first; within a second those of a pool in the order in which they were taken.
    let snapshots = array.json(&["snapshot", "list"]);
    let mut listed = names(&snapshots);
    listed.retain(|name| *name != "away");
    assert_eq!(listed, ["noon", "late"]);
    assert!(array.good(&["snapshot", "list"]).contains("held"));
    assert!(array.good(&["snapshot", "show", "away"]).contains("audit of 2026"));
    let reclaim = array.json(&["space", "reclaim", "noon", "late"]);
    assert_eq!(reclaim["held"], serde_json::json!(["noon"]));

    // With the pool, over a crash and a move to another array.
    array.kill();
    array.start();
    array.refused(&["snapshot", "delete", "noon", "--yes"], &["held"]);
    array.good(&["pool", "export", "other"]);
    array.good(&["pool", "import", "other", "--drive", &array.path("other.img").display().to_string()]);
    array.refused(&["snapshot", "delete", "away", "--yes"], &["audit of 2026"]);

    array.good(&["snapshot", "release", "away"]);
    array.good(&["snapshot", "release", "away"]);
    array.good(&["snapshot", "release", "noon"]);
    array.good(&["snapshot", "delete", "noon", "late", "away", "--yes"]);
    array.refused(&["snapshot", "hold", "noon"], &["`noon`"]);
    array.refused(&["snapshot", "release", "noon"], &["`noon`"]);
}

#[test]
fn a_restore_keeps_what_was_there_before() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.good(&["volume", "create", "log", "--size", "64MiB"]);
    writes(&array, "db", 1);
    array.good(&["snapshot", "create", "noon", "db", "log"]);
    writes(&array, "db", 2);
    array.good(&["volume", "resize", "db", "--size", "128MiB"]);
    let told = array.good(&["snapshot", "restore", "noon", "--yes"]);
    assert!(told.contains("auto-before-restore-1"), "{told}");
    assert_eq!(reads(&array, "db"), 1);
    writes(&array, "db", 3);
    // One way back is as good as the other.
    let done = array.json(&["snapshot", "restore", "auto-before-restore-1", "--yes"]);
    assert_eq!(done["backup"], "auto-before-restore-2");
    array.kill();
    array.start();
    assert_eq!(reads(&array, "db"), 2);
    assert_eq!(array.json(&["volume", "show", "db"])["size_bytes"], 128 << 20);
    let done = array.json(&["snapshot", "restore", "auto-before-restore-2", "--yes", "--no-backup"]);
    assert_eq!(done["backup"], Value::Null);
    assert_eq!(reads(&array, "db"), 3);
    let all = array.json(&["snapshot", "list"]);
    assert_eq!(names(&all), ["noon", "auto-before-restore-1", "auto-before-restore-2"]);
    assert_eq!(all[0]["volumes"], serde_json::json!(["db", "log"]));
    // What is refused keeps nothing.
    array.good(&["volume", "delete", "log", "--yes"]);
    array.refused(&["snapshot", "restore", "noon", "--yes"], &["log", "undelete"]);
    assert_eq!(array.json(&["snapshot", "list"]).as_array().unwrap().len(), 3);
}

/// The sum of the parts, and what the savings leave of what is written: deleted volumes included.
fn accounts(array: &Array) -> Value {
    let space = array.json(&["space"])[0].clone();
    let parts = space["parts"].as_object().unwrap();
    let physical = parts["physical_bytes"].as_u64().unwrap();
    let sum: u64 = parts.values().map(|part| part.as_u64().unwrap()).sum();
    assert_eq!(sum - physical, physical, "{space}");
    let number = |name: &str| space[name].as_i64().unwrap();
    let alive = parts["data_alive_bytes"].as_i64().unwrap() + parts["recoverable_bytes"].as_i64().unwrap();
    let saved = number("sharing_saved_bytes") + number("compression_saved_bytes");
    assert_eq!(number("written_bytes") - saved, alive, "{space}");
    space
}

fn until(what: &str, array: &Array, is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}\n{}", array.log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// One typo with --yes was the loss of a database.
#[test]
fn a_deleted_volume_comes_back_with_all_it_held() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB", "--profile", "oltp"]);
    writes(&array, "db", 1);
    array.good(&["snapshot", "create", "noon", "db"]);
    writes(&array, "db", 2);
    let before = array.json(&["volume", "show", "db"]);
    let told = array.good(&["volume", "delete", "db", "--yes"]);
    assert!(told.contains("ashlar volume undelete db") && told.contains("24 hours"), "{told}");
    // No list, no door, no verb knows it, and its name is free.
    assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 0);
    array.refused(&["volume", "show", "db"], &["`db`"]);
    array.refused(&["attach", "db"], &["`db`"]);
    array.refused(&["snapshot", "create", "s", "db"], &["`db`"]);
    array.refused(&["clone", "create", "c", "--from", "db"], &["`db`"]);
    array.refused(&["snapshot", "restore", "noon", "--yes"], &["db", "undelete"]);
    array.good(&["clone", "create", "of-noon", "--from", "db@noon"]);
    assert_eq!(reads(&array, "of-noon"), 1);
    array.good(&["volume", "create", "db", "--size", "32MiB"]);
    writes(&array, "db", 3);
    let deleted = array.json(&["volume", "list", "--deleted"]);
    assert_eq!((names(&deleted), &deleted[0]["id"]), (vec!["db"], &before["id"]));
    assert!(deleted[0]["remaining_seconds"].as_u64().unwrap() > 23 * 3600, "{deleted}");
    array.refused(&["volume", "undelete", "db"], &["`db`", "--as NAME"]);
    array.refused(&["volume", "undelete", "db", "--as", "of-noon"], &["`of-noon`"]);
    array.refused(&["volume", "undelete", "nope"], &["`nope`", "--deleted"]);
    array.kill();
    array.start();
    let back = array.json(&["volume", "undelete", "db", "--as", "old"]);
    for same in ["id", "size_bytes", "profile", "written_bytes", "created_unix_seconds"] {
        assert_eq!(back[same], before[same], "{same}");
    }
    assert_eq!((reads(&array, "old"), reads(&array, "db"), reads(&array, "old@noon")), (2, 3, 1));
    assert_eq!(array.json(&["snapshot", "show", "noon"])["volumes"], serde_json::json!(["old"]));
    array.good(&["snapshot", "restore", "noon", "--yes"]);
    assert_eq!(reads(&array, "old"), 1);
    // Deleted twice under one name: the last one comes back, unless its number says which.
    array.good(&["volume", "delete", "old", "--yes"]);
    array.good(&["volume", "undelete", "old", "--as", "db2"]);
    for name in ["db", "db2"] {
        array.good(&["volume", "delete", name, "--yes"]);
    }
    array.good(&["volume", "undelete", "db2", "--as", "db"]);
    array.good(&["volume", "delete", "db", "--yes"]);
    array.refused(&["volume", "purge", "db", "--yes"], &["2 deleted volumes", "db:"]);
    let which = format!("db:{}", before["id"]);
    array.good(&["volume", "undelete", &which]);
    assert_eq!(reads(&array, "db"), 1);
    assert_eq!(array.terminate(), Some(0));
    array.start();
    assert_eq!(reads(&array, "db"), 1);
    array.good(&["volume", "purge", "db", "--yes"]);
    array.refused(&["volume", "undelete", "db", "--as", "x"], &["`db`"]);
    assert_eq!(array.json(&["pool", "check", "main"])["errors"], serde_json::json!([]));
}

#[test]
fn what_is_deleted_for_good_is_gone() {
    let mut array = Array::with_pool();
    for name in ["one", "two", "three"] {
        array.good(&["volume", "create", name, "--size", "8MiB"]);
    }
    let told = array.good(&["volume", "delete", "one", "--now", "--yes"]);
    assert_eq!(told, "deleted volume one\n");
    array.refused(&["volume", "undelete", "one"], &["`one`"]);
    array.good(&["volume", "delete", "two", "--yes"]);
    // A pool is not emptied of what can come back by its own deletion, and carries it elsewhere.
    array.good(&["volume", "delete", "three", "--now", "--yes"]);
    array.refused(&["pool", "delete", "main", "--yes"], &["1 deleted volumes", "--force"]);
    array.good(&["pool", "export", "main"]);
    assert_eq!(array.json(&["volume", "list", "--deleted"]).as_array().unwrap().len(), 0);
    array.good(&["pool", "import", "main", "--drive", &array.path("main.img").display().to_string()]);
    assert_eq!(names(&array.json(&["volume", "list", "--deleted"])), ["two"]);
    // Who shortens the time shortens it for all.
    assert_eq!(array.terminate(), Some(0));
    array.configure("deleted_volumes_hours = 0\n");
    array.start();
    let is_gone = || array.json(&["volume", "list", "--deleted"]).as_array().unwrap().is_empty();
    until("the time is over", &array, is_gone);
    assert!(
        array.log().contains("volume two: deleted before, given up: its time is over"),
        "{}",
        array.log()
    );
    array.good(&["volume", "create", "four", "--size", "8MiB"]);
    array.good(&["volume", "delete", "four", "--yes"]);
    array.refused(&["volume", "undelete", "four"], &["`four`"]);
    array.good(&["pool", "delete", "main", "--yes"]);
}

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(next).take(PIECE / 8).flat_map(u64::to_le_bytes).collect()
}

fn fill(array: &Array, volume: &str, pieces: u64) {
    let mut nbd = Nbd::connect(array.state(), volume);
    (0..pieces).for_each(|piece| nbd.write(piece * PIECE as u64, &noise(piece + 1)));
}

#[test]
fn what_deleted_volumes_hold_is_a_part_of_its_own() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    fill(&array, "db", 160);
    array.good(&["clone", "create", "copy", "--from", "db"]);
    assert_eq!(accounts(&array)["parts"]["recoverable_bytes"], 0);
    let alive = accounts(&array)["parts"]["data_alive_bytes"].as_u64().unwrap();
    array.good(&["volume", "delete", "db", "--yes"]);
    // The clone still holds all of it.
    let space = accounts(&array);
    assert_eq!(
        (&space["parts"]["recoverable_bytes"], &space["parts"]["data_alive_bytes"]),
        (&0.into(), &alive.into())
    );
    assert_eq!(space["provisioned_bytes"], 64 << 20);
    array.good(&["volume", "delete", "copy", "--yes"]);
    let space = accounts(&array);
    assert_eq!(
        (&space["parts"]["recoverable_bytes"], &space["parts"]["data_alive_bytes"]),
        (&alive.into(), &0.into())
    );
    assert_eq!(space["provisioned_bytes"], 0);
    assert_eq!(space["deleted_volumes"].as_array().unwrap().len(), 2);
    until("pools tell it", &array, || {
        let pool = array.json(&["pool", "show", "main"]);
        pool["deleted_volume_count"] == 2
            && pool["recoverable_bytes"].as_u64().is_some_and(|bytes| bytes >= alive)
    });
    assert!(array.good(&["pool", "list"]).contains("RECOVERABLE"));
    assert!(array.good(&["pool", "show", "main"]).contains("in 2 deleted volumes"));
    assert!(array.good(&["space"]).contains("DELETED VOLUME"));
    array.good(&["volume", "undelete", "copy"]);
    assert_eq!(accounts(&array)["parts"]["recoverable_bytes"], 0);
    array.good(&["volume", "delete", "copy", "--yes", "--now"]);
    let which = array.json(&["volume", "list", "--deleted"])[0]["id"].to_string();
    let reclaim = array.json(&["space", "reclaim", &format!("db:{which}")]);
    assert_eq!(reclaim["chunk_bytes"].as_u64(), Some(alive));
    array.good(&["volume", "purge", "db", "--yes"]);
    assert_eq!(accounts(&array)["parts"]["recoverable_bytes"], 0);
}

/// A pool that fills up takes the room of what was deleted first, and says so.
#[test]
fn room_that_is_needed_is_taken_from_what_was_deleted_first() {
    let array = Array::started();
    let drive = format!("{},size=256MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    for name in ["first", "second", "db"] {
        array.good(&["volume", "create", name, "--size", "1GiB"]);
    }
    fill(&array, "first", 1200);
    fill(&array, "second", 200);
    array.good(&["volume", "delete", "first", "--yes"]);
    std::thread::sleep(std::time::Duration::from_millis(2100));
    array.good(&["volume", "delete", "second", "--yes"]);
    let mut nbd = Nbd::connect(array.state(), "db");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(90);
    for piece in 0..2600_u64 {
        // It is refused while the array has not looked yet, and told to try again.
        while nbd.is_refused(piece * PIECE as u64, &noise(piece + 9)) {
            assert!(std::time::Instant::now() < end, "piece {piece}: no room came\n{}", array.log());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
    let log = array.log();
    assert!(log.contains("volume first: deleted before, given up: pool main is "), "{log}");
    assert_eq!(names(&array.json(&["volume", "list", "--deleted"])), ["second"], "{log}");
    array.good(&["volume", "undelete", "second"]);
    assert_eq!(array.json(&["pool", "check", "main"])["errors"], serde_json::json!([]));
}
