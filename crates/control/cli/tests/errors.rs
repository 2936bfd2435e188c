//! What people get wrong: each a clear line, the right exit status, and nothing changed.

#![allow(clippy::unwrap_used)]

mod support;

use support::Array;

#[test]
fn without_an_array_every_command_says_how_to_start_one() {
    let array = Array::unstarted();
    for arguments in [vec!["status"], vec!["pool", "list"], vec!["volume", "show", "db"], vec!["events"]] {
        array.refused(&arguments, &["ashlar serve", "api.sock"]);
    }
}

#[test]
fn typing_mistakes_get_a_suggestion_and_status_2() {
    let array = Array::unstarted();
    array.misused(&["volum", "list"], &["volume"]);
    array.misused(&["volume", "craete", "db"], &["create"]);
    array.misused(&["volume", "create", "db", "--szie", "1GiB"], &["--size"]);
    array.misused(&["volume", "create", "db"], &["--size"]);
    array.misused(&["volume", "create", "db", "--size", "64 parsecs"], &["parsecs", "64GiB"]);
    array.misused(&["volume", "create", "db", "--size", "1GiB", "--profile", "fast"], &["oltp"]);
    array.misused(&["pool", "create", "p"], &["--drive"]);
    array.misused(&["pool", "create", "p", "--drive", "/a,sise=1GiB"], &["size=10GiB"]);
    array.misused(&["pool", "create", "p", "--drive", "/a", "--protection", "triple"], &["none"]);
    array.misused(&["attach", "db", "--format", "ntfs"], &["ext4"]);
    array.misused(&["snapshot", "create", "s"], &["VOLUME"]);
    array.misused(&[], &["Usage"]);
}

#[test]
fn names_that_are_missing_taken_or_impossible_are_named() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.refused(&["volume", "create", "db", "--size", "1GiB"], &["`db`", "exists"]);
    array.refused(&["snapshot", "create", "noon", "db"], &["`noon`", "exists"]);
    array.refused(&["snapshot", "create", "two", "db", "db"], &["twice"]);
    array.refused(&["snapshot", "create", "two", "nope"], &["`nope`", "does not exist"]);
    array.refused(&["snapshot", "delete", "nope", "--yes"], &["`nope`"]);
    array.refused(&["snapshot", "restore", "nope", "--no-backup", "--yes"], &["`nope`"]);
    array.refused(&["clone", "create", "c", "--from", "nope"], &["`nope`"]);
    array.refused(&["clone", "create", "c", "--from", "db@nope"], &["`nope`"]);
    array.refused(&["clone", "create", "c", "--from", "nope@noon"], &["`nope`", "db"]);
    array.refused(&["clone", "create", "db", "--from", "noon"], &["`db`", "exists"]);
    array.refused(&["volume", "delete", "nope", "--now", "--yes"], &["`nope`"]);
    array.refused(&["volume", "resize", "nope", "--size", "1GiB"], &["`nope`"]);
    array.refused(&["volume", "create", "x", "--size", "1GiB", "--pool", "nope"], &["`nope`"]);
    array.refused(&["pool", "show", "nope"], &["`nope`"]);
    array.refused(&["pool", "check", "nope"], &["`nope`"]);
    array.refused(&["pool", "delete", "nope", "--yes"], &["`nope`"]);
    array.refused(&["pool", "export", "nope"], &["`nope`"]);
    array.refused(&["attach", "nope"], &["`nope`"]);
    array.refused(&["detach", "nope"], &["`nope`"]);
    array.refused(&["detach", "db"], &["not attached"]);
    // A snapshot's name where a volume's belongs, and the other way round.
    array.refused(&["attach", "noon"], &["`noon`", "snapshot", "`db@noon`"]);
    array.refused(&["detach", "noon"], &["`noon`", "snapshot", "`db@noon`"]);
    array.refused(&["volume", "users", "noon"], &["`noon`", "snapshot", "`db@noon`"]);
    array.refused(&["volume", "delete", "noon", "--now", "--yes"], &["`noon`", "ashlar snapshot"]);
    array.refused(&["volume", "delete", "db@noon", "--now", "--yes"], &["`db@noon`", "clone create"]);
    array.refused(&["snapshot", "create", "late", "noon"], &["`noon`", "`db@noon`"]);
    array.refused(&["snapshot", "delete", "db@noon", "--yes"], &["`db@noon`", "`noon`"]);
    array.refused(&["snapshot", "restore", "db", "--yes"], &["`db`", "is a volume"]);
    array.refused(&["attach", "db@nope"], &["`nope`", "snapshot list"]);
    for name in ["a b", "../x", "a@b", "ä", "", "a\nb", &"x".repeat(64)] {
        array.refused(&["volume", "create", name, "--size", "1GiB"], &["letters"]);
        array.refused(&["pool", "create", name, "--drive", "/x,size=1GiB"], &["letters"]);
        array.refused(&["snapshot", "create", name, "db"], &["letters"]);
    }
    assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn impossible_sizes_are_refused() {
    let array = Array::with_pool();
    array.refused(&["volume", "create", "db", "--size", "0"], &["0 bytes"]);
    array.refused(&["volume", "create", "db", "--size", "257TiB"], &["256 TiB"]);
    let drive = format!("{},size=64KiB", array.path("small.img").display());
    array.refused(&["pool", "create", "small", "--drive", &drive], &["small.img"]);
    assert!(!array.path("small.img").exists(), "a refused pool leaves no file behind");
}

#[test]
fn impossible_drives_are_refused() {
    let array = Array::with_pool();
    let path = |name: &str| array.path(name).display().to_string();
    array.refused(
        &["pool", "create", "p", "--drive", &path("nope.img")],
        &["nope.img", "does not exist", "size="],
    );
    let existing = format!("{},size=1GiB", path("main.img"));
    array.refused(&["pool", "create", "p", "--drive", &existing], &["main.img"]);
    let twice = format!("{},size=1GiB", path("twice.img"));
    array.refused(&["pool", "create", "p", "--drive", &twice, "--drive", &twice], &["twice"]);
    array.refused(&["pool", "create", "p", "--drive", &path("")], &["ashlar-test"]);
    let nowhere = format!("{},size=1GiB", path("no/such/directory.img"));
    array.refused(&["pool", "create", "p", "--drive", &nowhere], &["no/such"]);
    let giant = format!("{},size=4000TiB", path("giant.img"));
    array.refused(&["pool", "create", "p", "--drive", &giant], &["giant.img", "does not fit", "free"]);
    assert!(!array.path("giant.img").exists());
    array.refused(&["pool", "create", "main", "--drive", &twice], &["`main`", "exists"]);
    array.refused(&["pool", "import", "main"], &["open already"]);
    array.refused(&["pool", "import", "gone"], &["--drive"]);
    std::fs::write(array.path("plain.txt"), vec![7_u8; 4 << 20]).unwrap();
    array.refused(&["pool", "import", "gone", "--drive", &path("plain.txt")], &["plain.txt"]);
}

#[test]
fn options_may_stand_before_or_after_the_command() {
    let array = Array::started();
    let state = array.state().display().to_string();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(support::program());
        support::done(command.env("ASHLAR_STATE", "/nonexistent").args(arguments).output().unwrap())
    };
    for arguments in [
        vec!["--state", &state, "--json", "status"],
        vec!["status", "--json", "--state", &state],
        vec!["--json", "pool", "list", "--state", &state],
        vec!["pool", "--state", &state, "list", "--json"],
    ] {
        let done = run(&arguments);
        assert_eq!(done.status, 0, "{arguments:?}: {}", done.err);
        serde_json::from_str::<serde_json::Value>(&done.out).unwrap();
    }
    let done = run(&["status"]);
    assert!(done.err.contains("/nonexistent/api.sock"), "{}", done.err);
}

/// Once a panic, and with it an abort, ended what could not say its error.
#[test]
fn output_that_cannot_be_written_ends_a_command_without_a_crash() {
    let array = Array::with_pool();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let command = |arguments: &[&str]| {
        let mut command = std::process::Command::new(support::program());
        command.arg("--state").arg(array.state()).args(arguments).stdin(std::process::Stdio::null());
        command
    };
    for (arguments, status) in [
        (&["pool", "show", "nope"][..], 1),
        (&["pool", "shwo", "nope"], 2),
        (&["pool", "scrub", "main"], 0),
        (&["sim", "--seeds", "1"], 0),
    ] {
        let ended = command(arguments).stderr(full()).stdout(std::process::Stdio::null()).status().unwrap();
        assert_eq!(ended.code(), Some(status), "{arguments:?} without stderr: {ended}");
    }
    for arguments in [&["pool", "list"][..], &["pool", "list", "--json"], &["--help"], &["--version"]] {
        let ended = command(arguments).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(ended.code(), Some(1), "{arguments:?} without any output: {ended}");
        let ended = support::done(command(arguments).stdout(full()).output().unwrap());
        assert!(ended.status == 1 && ended.err.contains("standard output"), "{arguments:?}: {}", ended.err);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = command(arguments).stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
        let ended = support::done(ended);
        assert!(ended.status == 0 && ended.err.is_empty(), "{arguments:?}: {} {}", ended.status, ended.err);
    }
}
