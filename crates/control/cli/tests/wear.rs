//! The wear gauge of a real array: what was written to drives outlives restarts and crashes of the array.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::Array;
use support::nbd::Nbd;

const MEBIBYTE: u64 = 1 << 20;

/// An array with a pool `main` that survives one of its three drives, and a volume `db`.
fn protected() -> Array {
    let array = Array::started();
    let drives: Vec<String> = (0..3).map(|number| drive(&array, &format!("{number}.img"))).collect();
    let mut arguments = vec!["pool", "create", "main", "--protection", "single"];
    for drive in &drives {
        arguments.extend(["--drive", drive]);
    }
    array.good(&arguments);
    array.good(&["volume", "create", "db", "--size", "64MiB", "--compression", "off"]);
    array
}

fn drive(array: &Array, name: &str) -> String {
    format!("{},size=64MiB", array.path(name).display())
}

fn write(array: &Array, mebibytes: u64) {
    let mut nbd = Nbd::connect(array.state(), "db");
    for number in 0..mebibytes {
        nbd.write(number * MEBIBYTE, &vec![number as u8 + 1; MEBIBYTE as usize]);
    }
}

fn shown(array: &Array, number: usize) -> Value {
    array.json(&["pool", "show", "main"])["drives"][number].clone()
}

fn written(array: &Array) -> Vec<u64> {
    (0..3).map(|number| shown(array, number)["written_bytes"].as_u64().unwrap()).collect()
}

fn has_grown(before: &[u64], after: &[u64]) -> bool {
    before.iter().zip(after).all(|(before, after)| after >= before)
}

#[test]
fn what_was_written_to_a_drive_outlives_restarts_and_crashes() {
    let mut array = protected();
    write(&array, 8);
    let first = written(&array);
    assert!(first.iter().sum::<u64>() > 8 * MEBIBYTE, "{first:?}");
    let since = shown(&array, 1)["counted_since_unix_seconds"].clone();
    assert!(since.is_u64());

    assert_eq!(array.terminate(), Some(0));
    array.start();
    let second = written(&array);
    assert!(has_grown(&first, &second), "{first:?} {second:?}");
    assert_eq!(shown(&array, 1)["counted_since_unix_seconds"], since);

    write(&array, 8);
    // What a declaration finds counted is stored with it; otherwise it would be within a minute.
    let pool = array.json(&["pool", "set-drive", "main", "1", "--endurance", "600TB"]);
    let stored: Vec<u64> = pool["drives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|drive| drive["written_bytes"].as_u64().unwrap())
        .collect();
    assert!(stored.iter().sum::<u64>() > second.iter().sum::<u64>() + 8 * MEBIBYTE, "{second:?} {stored:?}");
    array.kill();
    array.start();
    let third = written(&array);
    // Beyond the answer the store may lack what was written while it was given.
    let lacks = stored.iter().zip(&third).map(|(stored, third)| stored.saturating_sub(*third)).max();
    assert!(lacks < Some(MEBIBYTE), "{stored:?} {third:?}");
    let drive = shown(&array, 1);
    assert_eq!(
        (&drive["endurance_bytes"], &drive["worn_percent"]),
        (&600_000_000_000_000_u64.into(), &0.into())
    );
    assert!(drive.get("worn_out_unix_seconds").is_none(), "no forecast before a day: {drive}");
    assert!(shown(&array, 0).get("worn_percent").is_none());
    array.good(&["pool", "check", "main"]);
}

#[test]
fn a_drive_in_the_place_of_another_starts_at_zero() {
    let mut array = protected();
    write(&array, 32);
    array.good(&["pool", "set-drive", "main", "2", "--endurance", "1TB"]);
    let before = shown(&array, 2);
    array.good(&["pool", "offline-drive", "main", "2", "--yes"]);
    array.good(&["pool", "online-drive", "main", "2", "--wait"]);
    let back = shown(&array, 2);
    assert_eq!((&back["id"], &back["endurance_bytes"]), (&before["id"], &before["endurance_bytes"]));
    assert!(back["written_bytes"].as_u64() >= before["written_bytes"].as_u64(), "{before} {back}");

    // The old drive has taken this range twice, the new one takes it once.
    write(&array, 32);
    array.good(&["pool", "offline-drive", "main", "2", "--yes"]);
    let old = shown(&array, 2);
    let pool = array.json(&["pool", "replace-drive", "main", "2", "--with", &drive(&array, "spare.img")]);
    let new = &pool["drives"][2];
    assert_ne!(new["id"], old["id"]);
    assert!(new["written_bytes"].as_u64() < old["written_bytes"].as_u64(), "{old} {new}");
    assert!(new.get("endurance_bytes").is_none(), "{new}");
    let is_online = |array: &Array| shown(array, 2)["state"] == "online";
    let end = Instant::now() + Duration::from_secs(30);
    while !is_online(&array) {
        assert!(Instant::now() < end, "{}", array.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = written(&array);
    assert_eq!(array.terminate(), Some(0));
    array.start();
    assert!(has_grown(&before, &written(&array)), "{before:?}");
}

#[test]
fn a_pool_that_moves_out_and_back_keeps_its_drives_lives() {
    let array = protected();
    write(&array, 8);
    array.good(&["pool", "set-drive", "main", "0", "--endurance", "1TiB"]);
    let before = written(&array);
    array.good(&["pool", "export", "main"]);
    let paths: Vec<String> =
        (0..3).map(|number| array.path(&format!("{number}.img")).display().to_string()).collect();
    let mut arguments = vec!["pool", "import", "main"];
    for path in &paths {
        arguments.extend(["--drive", path]);
    }
    array.good(&arguments);
    let after = written(&array);
    assert!(has_grown(&before, &after), "{before:?} {after:?}");
    // Nothing is counted twice: opening and closing write little.
    assert!(after.iter().sum::<u64>() < 2 * before.iter().sum::<u64>(), "{before:?} {after:?}");
    assert_eq!(shown(&array, 0)["endurance_bytes"], 1_u64 << 40);
}

/// How often the log told of a worn drive.
fn told(array: &Array, number: u32) -> usize {
    let start = format!("warning: pool main: drive {number} (");
    array.log().lines().filter(|line| line.starts_with(&start) && line.contains("% worn;")).count()
}

fn until_told(array: &Array, number: u32) {
    let end = Instant::now() + Duration::from_secs(20);
    while told(array, number) == 0 {
        assert!(Instant::now() < end, "no event:\n{}", array.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_worn_drive_is_told_of_once_and_shown() {
    let mut array = protected();
    write(&array, 8);
    array.good(&["pool", "set-drive", "main", "0", "--endurance", "1MiB"]);
    until_told(&array, 0);
    let text = array.good(&["pool", "show", "main"]);
    assert!(text.contains("endurance 1 MiB") && text.contains("% worn, worn out"), "{text}");
    let metrics = array.http("GET", "/metrics", None).1;
    let labels = "{pool=\"main\",drive=\"0\"}";
    assert!(metrics.contains(&format!("ashlar_drive_endurance_bytes{labels} 1048576")), "{metrics}");
    assert!(metrics.contains(&format!("ashlar_drive_worn_percent{labels} ")), "{metrics}");
    assert_eq!(array.terminate(), Some(0));
    array.start();
    write(&array, 8);
    // One look at the drives tells of all of them: that of drive 1 would tell of drive 0 again.
    array.good(&["pool", "set-drive", "main", "1", "--endurance", "1MiB"]);
    until_told(&array, 1);
    assert_eq!(told(&array, 0), 1, "{}", array.log());
    array.good(&["pool", "set-drive", "main", "0", "--endurance", "none"]);
    assert!(shown(&array, 0).get("endurance_bytes").is_none());
}

#[test]
fn declarations_are_strict_and_a_damaged_file_costs_no_start() {
    let mut array = protected();
    array.refused(&["pool", "set-drive", "main", "7", "--endurance", "1TB"], &["`main`", "no drive 7"]);
    array.refused(&["pool", "set-drive", "nope", "0", "--endurance", "1TB"], &["`nope`"]);
    array.refused(&["pool", "set-drive", "main", "0", "--endurance", "9000PiB"], &["8 EiB"]);
    array.misused(&["pool", "set-drive", "main", "0"], &["--endurance"]);
    array.misused(&["pool", "set-drive", "main", "0", "--endurance", "long"], &["long", "none"]);
    for (body, status) in [
        ("{}", 400),
        (r#"{"endurance_bytes":0}"#, 400),
        (r#"{"endurance_bytes":5,"life":1}"#, 400),
        (r#"{"endurance_bytes":5}"#, 200),
        (r#"{"endurance_bytes":null}"#, 200),
    ] {
        let (got, answer) = array.http("PATCH", "/v1/pools/main/drives/0", Some(body));
        assert_eq!(got, status, "{body}: {answer}");
    }
    // The pools' file holds nothing that an older program would refuse.
    let pools = std::fs::read_to_string(array.state().join("pools.toml")).unwrap();
    assert!(!pools.contains("endurance"), "{pools}");
    assert_eq!(array.terminate(), Some(0));
    std::fs::write(array.state().join("wear.toml"), "[[drive]]\nid = 7\n").unwrap();
    array.start();
    assert!(array.log().contains("counts from now"), "{}", array.log());
    assert!(array.state().join("wear.toml.damaged").exists());
    assert_eq!(shown(&array, 0)["state"], "online");
}
