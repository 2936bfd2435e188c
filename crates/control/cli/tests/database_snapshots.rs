//! Snapshots of databases: whose they are, how long they stay, and who waits for whom while they are taken.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::Array;

const PATIENCE: Duration = Duration::from_secs(60);

/// An array with a pool. Its databases go with it.
struct Site {
    array: Array,
}

impl Site {
    fn new() -> Option<Site> {
        support::array_for_databases("2GiB").map(|array| Site { array })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        support::end_databases(&self.array);
    }
}

/// A database without a server, which holds still for so many seconds.
fn make_still(site: &Site, name: &str, seconds: &str) {
    let freeze = format!("sleep {seconds}");
    let create = ["database", "create", name, "--engine", "none", "--size", "256MiB", "--account", "nobody"];
    let commands = ["--start", "true", "--stop", "true", "--freeze", freeze.as_str(), "--thaw", "true"];
    site.array.good(&[&create[..], &commands[..]].concat());
}

/// Of two schedules that fell into one second one failed, and so did who came by hand.
#[test]
fn snapshots_of_a_database_that_holds_still_wait_for_their_turn() {
    let Some(site) = Site::new() else { return };
    make_still(&site, "files", "0.4");
    for (name, every) in [("often", "1s"), ("seldom", "2s")] {
        let of = ["schedule", "create", name, "--of", "files", "--every", every, "--keep", "last=50"];
        site.array.good(&of);
    }
    let end = Instant::now() + Duration::from_secs(5);
    for number in 0.. {
        if Instant::now() > end {
            break;
        }
        site.array.good(&["database", "snapshot", "files", &format!("by-hand{number}")]);
        std::thread::sleep(Duration::from_millis(400));
    }
    for name in ["often", "seldom"] {
        let shown = site.array.json(&["schedule", "show", name]);
        assert!(shown["state"] == "active" && shown["snapshot_count"].as_u64().unwrap() > 0, "{shown}");
        site.array.good(&["schedule", "delete", name, "--yes"]);
    }
    assert!(!site.array.log().contains("is being worked on"), "{}", site.array.log());
}

/// The stop held what that work needed, and waited for it.
#[test]
fn an_upgrade_lets_work_on_a_database_come_to_its_end() {
    let Some(site) = Site::new() else { return };
    make_still(&site, "files", "2");
    let program = site.array.path("ashlar-new");
    std::fs::copy(env!("CARGO_BIN_EXE_ashlar"), &program).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.arg("--state").arg(site.array.state()).args(["database", "snapshot", "files", "kept"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let frozen = site.array.state().join("databases/files/frozen");
    let since = Instant::now();
    while !frozen.exists() {
        assert!(since.elapsed() < PATIENCE, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    site.array.good(&["upgrade", program.to_str().unwrap()]);
    assert!(since.elapsed() < PATIENCE, "{}", site.array.log());
    child.wait().unwrap();
    site.array.good(&["database", "show", "files"]);
    site.array.good(&["snapshot", "show", "kept"]);
    assert!(!frozen.exists(), "it goes on");
}

/// A name was given twice, and one clone took along what another was reset to.
#[test]
fn snapshots_are_those_of_this_database_and_stay_while_a_clone_needs_them() {
    let Some(site) = Site::new() else { return };
    let database = |words: &[&str]| site.array.good(&[&["database"][..], words].concat());
    let refused = |words: &[&str], said: &[&str]| {
        site.array.refused(&[&["database"][..], words].concat(), said);
    };
    make_still(&site, "files", "0");
    database(&["snapshot", "files", "former"]);
    database(&["delete", "files", "--yes"]);
    make_still(&site, "files", "0");
    std::thread::sleep(Duration::from_millis(1100));
    refused(&["clone", "files", "first", "--at", "-1s"], &["it has none at all"]);
    refused(&["clone", "files", "first", "--at", "former"], &["one of a former database `files`"]);
    refused(&["verify", "files@former"], &["one of a former database `files`"]);

    database(&["clone", "files", "first"]);
    std::thread::sleep(Duration::from_millis(1100));
    database(&["clone", "files", "second", "--at", "-1s"]);
    let second = site.array.json(&["database", "show", "second"]);
    assert_eq!(second["origin"]["snapshot"], "first.origin", "{second}");
    database(&["delete", "first", "--yes"]);
    database(&["reset", "second", "--yes"]);
    database(&["delete", "second", "--yes"]);
    site.array.refused(&["snapshot", "show", "first.origin"], &["does not exist"]);

    let schedule = ["schedule", "create", "undo", "--of", "files", "--every", "1s", "--keep", "last=3"];
    site.array.good(&schedule);
    let end = Instant::now() + PATIENCE;
    let taken = loop {
        let shown = site.array.json(&["schedule", "show", "undo"]);
        if let Some(taken) = shown["last_snapshot"].as_str() {
            break taken.to_string();
        }
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(50));
    };
    database(&["clone", "files", "third", "--at", &taken]);
    let stays = format!("snapshot {taken} is not kept any more, and stays while it is used: database third");
    site.array.wait_for_events(&[&stays]);
    database(&["reset", "third", "--yes"]);
    let deleted = site.array.json(&["schedule", "delete", "undo", "--with-snapshots", "--yes"]);
    assert_eq!(deleted["left_count"], 1, "{deleted}");
}
