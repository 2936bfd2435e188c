//! Schedules: snapshots by the clock, kept by a rule; clones as a database was at a time; clones that expire.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ashlar_postgres::{Address, Session};
use serde_json::Value;
use support::nbd::Nbd;
use support::{Array, can_attach};

const PATIENCE: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Until something is so.
fn wait_until(array: &Array, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}:\n{}", array.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The second in `NAME.20261128T130507Z`, by the program's own `date`.
fn second_of(snapshot: &str) -> u64 {
    let stamp = snapshot.rsplit_once('.').unwrap().1;
    let text = format!(
        "{}-{}-{} {}:{}:{}Z",
        &stamp[..4],
        &stamp[4..6],
        &stamp[6..8],
        &stamp[9..11],
        &stamp[11..13],
        &stamp[13..15]
    );
    let date = std::process::Command::new("date").args(["-u", "+%s", "-d", &text]).output().unwrap();
    String::from_utf8(date.stdout).unwrap().trim().parse().unwrap()
}

fn snapshots(array: &Array, schedule: &str) -> Vec<String> {
    let all = array.json(&["snapshot", "list"]);
    let names = all.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_string());
    names.filter(|name| name.starts_with(&format!("{schedule}."))).collect()
}

fn events(array: &Array, text: &str) -> usize {
    array.good(&["events"]).lines().filter(|line| line.contains(text)).count()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_string()
}

/// A row of the ledger: when it was sent, and when it was acknowledged.
struct Row {
    number: i64,
    sent: u64,
    acknowledged: u64,
}

fn session(array: &Array, database: &str) -> Session {
    let url = array.good(&["database", "url", database]).trim().to_string();
    Session::open(&Address::Url(url), "test", Duration::from_secs(30)).unwrap()
}

fn ask(array: &Array, database: &str, statement: &str) -> String {
    let rows = session(array, database).run(statement).unwrap();
    rows.first().and_then(|row| row[0].clone()).unwrap_or_default()
}

fn numbers(array: &Array, database: &str) -> Vec<i64> {
    let rows = session(array, database).run("select number from ledger order by number").unwrap();
    rows.iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect()
}

/// A row every 0.3 s until the flag is up.
fn write_ledger(array: &Array, is_over: &AtomicBool) -> Vec<Row> {
    let mut session = session(array, "prod");
    let mut rows = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        let number = rows.len() as i64;
        let sent = millis();
        session.run(&format!("insert into ledger values ({number})")).unwrap();
        rows.push(Row { number, sent, acknowledged: millis() });
        std::thread::sleep(Duration::from_millis(300));
    }
    rows
}

/// A clone of one second holds what was acknowledged before it, nothing that was sent behind it, and no gap.
fn check_ledger(rows: &[Row], seen: &[i64], snapshot: &str, next_sent_after: u64) {
    let begin = second_of(snapshot) * 1000;
    assert_eq!(seen, (0..seen.len() as i64).collect::<Vec<_>>(), "{snapshot}: rows are missing");
    for row in rows {
        let is_seen = seen.contains(&row.number);
        assert!(is_seen || row.acknowledged >= begin, "{snapshot}: row {} is lost", row.number);
        assert!(!is_seen || row.sent < next_sent_after, "{snapshot}: row {} is of later", row.number);
    }
}

/// An array with a database, which goes with it.
struct WithDatabase(Array);

impl WithDatabase {
    fn new() -> WithDatabase {
        let array = support::array_for_databases("2GiB").unwrap();
        array.good(&["database", "create", "prod", "--size", "1GiB"]);
        WithDatabase(array)
    }
}

impl std::ops::Deref for WithDatabase {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.0
    }
}

impl Drop for WithDatabase {
    fn drop(&mut self) {
        support::end_databases(&self.0);
    }
}

/// A table is dropped on a busy database of which a snapshot is taken every second.
#[test]
fn a_dropped_table_is_undone_by_a_clone_of_the_right_second() {
    if !can_attach() {
        return;
    }
    let array = WithDatabase::new();
    ask(&array, "prod", "create table ledger (number bigint primary key)");
    let words = ["--of", "prod", "--every", "1s", "--keep", "seconds=3600,hourly=24"];
    let made = array.json(&[&["schedule", "create", "undo"], &words[..]].concat());
    assert_eq!((&made["state"], &made["every_seconds"]), (&"active".into(), &1.into()), "{made}");
    let is_over = AtomicBool::new(false);
    let rows = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_ledger(&array, &is_over));
        std::thread::sleep(Duration::from_millis(6500));
        is_over.store(true, Ordering::Release);
        writer.join().unwrap()
    });
    ask(&array, "prod", "drop table ledger");
    let dropped = millis();

    // By the time of day: the newest of that second or before.
    let middle = rows[rows.len() / 2].acknowledged / 1000;
    let seconds = middle % 86_400;
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let clone = array.json(&["database", "clone", "prod", "middle", "--at", &clock, "--expire", "1h"]);
    let snapshot = text(&clone["database"]["origin"]["snapshot"]);
    assert!(snapshot.starts_with("undo.") && second_of(&snapshot) <= middle, "{snapshot} at {clock}");
    assert!(second_of(&snapshot) + 2 >= middle, "{snapshot} is not the newest at {clock}");
    // Whatever the array was busy with: the one behind it was ordered when this one was there.
    let all = snapshots(&array, "undo");
    let next = &all[all.iter().position(|name| *name == snapshot).unwrap() + 1];
    let seen = numbers(&array, "middle");
    assert!(!seen.is_empty() && seen.len() < rows.len(), "{} of {}", seen.len(), rows.len());
    check_ledger(&rows, &seen, &snapshot, (second_of(next) + 1) * 1000);

    // By how long ago: as it was two seconds before the drop.
    let ago = (millis() - dropped).div_ceil(1000) + 2;
    let asked = millis() / 1000 - ago;
    let clone = array.json(&["database", "clone", "prod", "before", "--at", &format!("-{ago}s")]);
    let snapshot = text(&clone["database"]["origin"]["snapshot"]);
    let seen = numbers(&array, "before");
    check_ledger(&rows, &seen, &snapshot, dropped);
    assert!(!seen.is_empty() && second_of(&snapshot) + 2 >= asked, "{snapshot} is not the newest of {asked}");

    // A name still is a name, and a time that nothing is of is refused with what there is.
    array.refused(
        &["database", "clone", "prod", "no", "--at", "2020-01-01T00:00:00Z"],
        &["no snapshot of 2020-01-01 00:00:00Z or before", "the oldest is undo.2", "the newest undo.2"],
    );
    array.refused(
        &["database", "clone", "prod", "no", "--at", "25:00:00"],
        &["`25:00:00` is no time", "-10s"],
    );
    array
        .refused(&["database", "clone", "prod", "no", "--at", "never"], &["snapshot `never` does not exist"]);
    array.refused(&["database", "restore", "prod", "--to", "-2w", "--yes"], &["has no snapshot of"]);

    check_proofs(&array);
    check_expiry(&array);
    check_scheduled(&array);
    let deleted = array.json(&["schedule", "delete", "undo", "--with-snapshots", "--yes"]);
    assert!(deleted["deleted_count"].as_u64().unwrap() >= 6 && deleted["left_count"] == 0, "{deleted}");
    assert_eq!(snapshots(&array, "undo"), [""; 0]);
}

/// Every snapshot of a schedule is proven where that is wanted.
fn check_proofs(array: &Array) {
    array.good(&["schedule", "pause", "undo"]);
    let words = ["--of", "prod", "--every", "1d", "--keep", "daily=2", "--prove-every", "1"];
    array.good(&[&["schedule", "create", "proven"], &words[..]].concat());
    let taken = text(&array.json(&["schedule", "run", "proven"])["name"]);
    array.wait_for_events(&[&format!("{taken} is proven")]);
    let shown = array.json(&["schedule", "show", "proven"]);
    assert_eq!(shown["last_proof"]["snapshot"], taken.as_str(), "{shown}");
    assert_eq!(shown["last_proof"]["is_proven"], true);
    array.good(&["schedule", "delete", "proven", "--yes"]);
    assert_eq!(snapshots(array, "proven"), [taken], "its snapshots stay");
}

/// Two clones have an end, one is kept: the other goes behind a warning, and its volume can come back.
fn check_expiry(array: &Array) {
    let shown = array.good(&["database", "list"]);
    assert!(shown.contains("EXPIRES"), "{shown}");
    let end = array.json(&["database", "show", "middle"])["expires_unix_seconds"].as_u64().unwrap();
    assert!(end > millis() / 1000 + 3000 && end < millis() / 1000 + 3601);
    array.refused(&["database", "expire", "prod", "--after", "8h"], &["`prod` is no clone"]);
    array.refused(&["database", "expire", "middle", "--after", "0s"], &["cannot expire after 0 s"]);
    array.misused(&["database", "expire", "middle"], &["--after"]);
    array.good(&["database", "expire", "middle", "--after", "2s"]);
    let kept = array.json(&["database", "expire", "middle", "--never"]);
    assert!(kept["expires_unix_seconds"].is_null(), "{kept}");
    array.good(&["database", "expire", "before", "--after", "2s"]);
    array.wait_for_events(&["database before: expires", "database before: expired: deleted"]);
    let warned = array.log();
    assert!(warned.find("before: expires") < warned.find("before: expired: deleted"), "{warned}");
    array.refused(&["database", "show", "before"], &["database `before` does not exist"]);
    array.good(&["volume", "undelete", "before-data"]);
    array.good(&["volume", "delete", "before-data", "--yes"]);
    assert_eq!(ask(array, "middle", "select 1"), "1", "it was kept");
}

/// A database with schedules is not deleted by the way. One of several databases goes on with the rest.
fn check_scheduled(array: &Array) {
    let words = ["--every", "1d", "--keep", "daily=2"];
    array.good(&[&["schedule", "create", "alone", "--of", "middle"], &words[..]].concat());
    array.good(&[&["schedule", "create", "both", "--of", "prod,middle"], &words[..]].concat());
    let taken = text(&array.json(&["schedule", "run", "both"])["name"]);
    array.refused(
        &["database", "delete", "middle", "--yes"],
        &["database `middle` has the schedules alone, both", "--with-schedules"],
    );
    assert_eq!(ask(array, "middle", "select 1"), "1");
    let deleted = array.json(&["database", "delete", "middle", "--with-schedules", "--yes"]);
    assert_eq!(deleted["schedules"], serde_json::json!(["alone"]), "{deleted}");
    assert!(deleted["notes"][0].as_str().unwrap().contains("goes on without it: schedule both"), "{deleted}");
    array.refused(&["schedule", "show", "alone"], &["schedule `alone` does not exist"]);
    let both = array.json(&["schedule", "show", "both"]);
    assert_eq!((&both["databases"], &both["snapshot_count"]), (&serde_json::json!(["prod"]), &1.into()));
    let volumes = array.json(&["snapshot", "show", &taken])["volumes"].to_string();
    assert!(volumes.contains("middle-data"), "its snapshots stay: {volumes}");
    array.good(&["schedule", "run", "both"]);
    array.good(&["schedule", "delete", "both", "--with-snapshots", "--yes"]);
}

/// How often, what stays, and the pause of one that is there.
#[test]
fn a_schedule_changes_in_place_and_metrics_tell_of_it() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "data", "--size", "64MiB"]);
    let metric = |line: &str| {
        let (_, text) = array.http("GET", "/metrics", None);
        let found = text.lines().find_map(|one| one.strip_prefix(line)).map(str::trim);
        found.unwrap_or_else(|| panic!("no {line} in\n{text}")).parse::<f64>().unwrap()
    };
    let of_slow = |name: &str| metric(&format!("{name}{{pool=\"main\",schedule=\"slow\"}}"));
    assert_eq!(metric("ashlar_schedules{state=\"active\"}"), 0.0);
    let create = ["schedule", "create", "slow", "--of-volume", "data", "--every", "1d", "--keep", "last=9"];
    array.good(&create);
    for _ in 0..3 {
        array.good(&["schedule", "run", "slow"]);
    }
    let before = snapshots(&array, "slow");
    array.misused(&["schedule", "change", "slow"], &["--every"]);
    array.misused(&["schedule", "change", "slow", "--pause", "--resume"], &["cannot be used with"]);
    array.misused(&["schedule", "change", "slow", "--keep", "often"], &["WORD=COUNT"]);
    array
        .refused(&["schedule", "change", "nothing", "--every", "1h"], &["schedule `nothing` does not exist"]);
    let unasked = array.run(&["schedule", "change", "slow", "--keep", "last=1"]);
    assert!(unasked.status != 0 && unasked.err.contains("nothing was changed"), "{}", unasked.err);
    let paused = array.json(&["schedule", "change", "slow", "--keep", "last=1", "--pause", "--yes"]);
    assert_eq!((&paused["state"], &paused["keep"]), (&"paused".into(), &"last=1".into()), "{paused}");
    assert_eq!(metric("ashlar_schedules{state=\"paused\"}"), 1.0);
    assert_eq!((snapshots(&array, "slow"), of_slow("ashlar_schedule_snapshots")), (before.clone(), 3.0));
    let last = of_slow("ashlar_schedule_last_snapshot_unix_seconds");
    assert!(last as u64 + 60 > millis() / 1000, "{last}");

    // Those that were taken by the old rule are its own, and go by the new one.
    let resumed = array.json(&["schedule", "change", "slow", "--resume", "--every", "1h"]);
    assert_eq!((&resumed["state"], &resumed["every_seconds"]), (&"active".into(), &3600.into()), "{resumed}");
    wait_until(&array, "none is deleted", || snapshots(&array, "slow") == before[2..]);
    array.wait_for_events(&[
        "schedule slow: keeps last=1 instead of last=9, paused",
        "every 1h instead of 1d",
    ]);
    array.good(&["schedule", "change", "slow", "--every", "1s", "--keep", "last=2", "--yes"]);
    wait_until(&array, "none is taken", || snapshots(&array, "slow").len() >= 2);
    assert_eq!(of_slow("ashlar_schedule_failures_total"), 0.0);
    array.good(&["volume", "delete", "data", "--yes"]);
    wait_until(&array, "none fails", || of_slow("ashlar_schedule_failures_total") >= 1.0);
    assert_eq!(metric("ashlar_schedules{state=\"failing\"}"), 1.0);
    let (status, said) = array.http("PATCH", "/v1/schedules/slow", Some("{}"));
    assert!(status == 400 && said.contains("nothing is named to change"), "{status} {said}");
}

/// Of two volumes at once. What is no snapshot of the schedule stays, and so does what is held.
#[test]
fn the_rule_deletes_in_turn_and_leaves_what_is_held_or_of_others() {
    let array = Array::with_pool();
    for name in ["data", "log"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    // Named as the schedule would have named them.
    array.good(&["snapshot", "create", "both.20200101T000000Z", "data"]);
    array.good(&["snapshot", "create", "both.by-hand", "data", "log"]);
    let of = ["schedule", "create", "both", "--of-volume", "data,log", "--every", "1s"];
    array.good(&[&of[..], &["--keep", "last=2"]].concat());
    check_wrong_input(&array);
    array.refused(
        &["snapshot", "create", "both.20200101T000001Z", "data"],
        &["snapshots of schedule `both`", "ashlar schedule run both"],
    );
    let own = || -> Vec<String> {
        let all = snapshots(&array, "both").into_iter();
        all.filter(|name| !["both.20200101T000000Z", "both.by-hand"].contains(&name.as_str())).collect()
    };
    wait_until(&array, "none is taken", || !own().is_empty());
    let held = own()[0].clone();
    array.good(&["snapshot", "hold", &held]);
    let volumes = array.json(&["snapshot", "show", &held])["volumes"].clone();
    assert_eq!(volumes, serde_json::json!(["data", "log"]), "at one instant");
    // What is used stays as well, and keeps no other from going.
    wait_until(&array, "no second is taken", || own().len() >= 2);
    let used = own()[1].clone();
    let reader = Nbd::connect(array.state(), &format!("data@{used}"));
    let first = own();
    wait_until(&array, "none is deleted", || {
        let now = own();
        now.len() < 14
            && first.iter().skip(2).all(|name| !now.contains(name))
            && now.len() > 2
            && second_of(now.last().unwrap()) > second_of(&held) + 8
    });
    let now = own();
    assert!(now.contains(&held) && now.contains(&used), "{held} and {used} of {now:?}");
    array.wait_for_events(&[&format!("snapshot {used} is not kept any more, and stays while it is used")]);
    drop(reader);
    wait_until(&array, "it is used no more and stays", || !own().contains(&used));
    array.good(&["schedule", "pause", "both"]);
    let shown = array.json(&["schedule", "show", "both"]);
    assert_eq!((&shown["state"], &shown["held_count"]), (&"paused".into(), &1.into()), "{shown}");
    let count = own().len();
    assert_eq!(shown["snapshot_count"], count, "{shown}");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(own().len(), count, "paused");
    let kept = snapshots(&array, "both");
    assert!(
        kept.contains(&"both.20200101T000000Z".to_string()) && kept.contains(&"both.by-hand".to_string())
    );
    let deleted = array.json(&["schedule", "delete", "both", "--with-snapshots", "--yes"]);
    assert_eq!(deleted["left_count"], 1, "the held one");
    assert_eq!(own(), [held]);
    assert_eq!(array.json(&["schedule", "list"]), serde_json::json!([]));
}

fn check_wrong_input(array: &Array) {
    let rest = ["--every", "1h", "--keep", "last=1"];
    fn create<'a>(words: &[&'a str]) -> Vec<&'a str> {
        [&["schedule", "create", "wrong"], words].concat()
    }
    fn named<'a>(words: &[&'a str]) -> Vec<&'a str> {
        create(&[words, &["--every", "1h", "--keep", "last=1"]].concat())
    }
    array.misused(
        &create(&["--of-volume", "data", "--every", "15", "--keep", "last=1"]),
        &["`15` is no time"],
    );
    array.misused(
        &create(&["--of-volume", "data", "--every", "0s", "--keep", "last=1"]),
        &["from 1s to 366d"],
    );
    array.misused(&create(&["--of-volume", "data", "--every", "1h", "--keep", "often"]), &["WORD=COUNT"]);
    array.misused(&create(&["--of-volume", "data", "--every", "1h"]), &["--keep"]);
    array.misused(&named(&[]), &["--of"]);
    array.misused(&named(&["--of", "db", "--of-volume", "data"]), &["cannot be used with"]);
    array.refused(&named(&["--of", "nothing"]), &["database `nothing` does not exist"]);
    array.refused(&named(&["--of-volume", "nothing"]), &["volume `nothing` does not exist"]);
    array.refused(&named(&["--of-volume", "data,data"]), &["volume `data` is named twice"]);
    array.refused(&named(&["--of-volume", "data", "--prove-every", "2"]), &["cannot be proven", "databases"]);
    let both = [&["schedule", "create", "both", "--of-volume", "data"], &rest[..]].concat();
    array.refused(&both, &["schedule `both` exists"]);
    let long = "x".repeat(45);
    array
        .refused(&[&["schedule", "create", &long, "--of-volume", "data"], &rest[..]].concat(), &["44 bytes"]);
    array.refused(&["schedule", "show", "nothing"], &["schedule `nothing` does not exist", "schedule list"]);
    array.refused(&["schedule", "run", "nothing"], &["schedule `nothing` does not exist"]);
    let body = r#"{"name":"wrong","volumes":["data"],"every_seconds":0,"keep":"last=1"}"#;
    let (status, said) = array.http("POST", "/v1/schedules", Some(body));
    assert!(status == 400 && said.contains("every 0 s is not possible"), "{status} {said}");
}

/// Killed and started again later: one snapshot at once, none for the times that were missed, and the next
/// when it is due. A volume that is gone is told once.
#[test]
fn after_downtime_one_is_taken_at_once_and_then_by_the_clock() {
    const EVERY: u64 = 6;
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "data", "--size", "64MiB"]);
    array.good(&["volume", "create", "other", "--size", "64MiB"]);
    let create = |name, of| {
        array.good(&["schedule", "create", name, "--of-volume", of, "--every", "6s", "--keep", "last=9"])
    };
    create("slow", "data");
    create("gone", "other");
    wait_until(&array, "none is taken", || !snapshots(&array, "slow").is_empty());
    let first = snapshots(&array, "slow");
    assert_eq!(second_of(&first[0]) % EVERY, 0, "aligned to the clock: {first:?}");
    array.good(&["volume", "delete", "other", "--yes"]);
    array.kill();
    // The next is missed, and the one behind it is not due yet.
    let restart = (second_of(&first[0]) + EVERY + 2) * 1000;
    std::thread::sleep(Duration::from_millis(restart - millis()));
    array.start();
    let started = millis();
    wait_until(&array, "none after the start", || snapshots(&array, "slow").len() > first.len());
    let after = millis();
    wait_until(&array, "none by the clock", || snapshots(&array, "slow").len() > first.len() + 1);
    let all = snapshots(&array, "slow");
    assert_eq!(all[..first.len()], first, "what was there is there");
    let new: Vec<u64> = all[first.len()..].iter().map(|name| second_of(name)).collect();
    assert!(new[0] * 1000 + 1000 >= started && new[0] * 1000 <= after, "{all:?}");
    assert_eq!(new[1], (new[0] / EVERY + 1) * EVERY, "{all:?}");
    array.wait_for_events(&["schedule gone: takes no snapshot: volume `other` does not exist"]);
    let shown = array.json(&["schedule", "show", "gone"]);
    assert!(shown["state"] == "failing" && text(&shown["reason"]).contains("`other`"), "{shown}");
    assert_eq!(events(&array, "schedule gone: takes no snapshot"), 1);
    array.good(&["volume", "undelete", "other"]);
    array.wait_for_events(&["schedule gone: goes on"]);
    assert_eq!(array.json(&["schedule", "show", "gone"])["state"], "active");
}

/// Written over and over until the pool is as full as a schedule allows.
#[test]
fn a_full_pool_gets_no_snapshots_and_one_event_until_there_is_room() {
    let array = Array::started();
    let drive = format!("{},size=512MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["volume", "create", "data", "--size", "64MiB"]);
    array.run(&["volume", "create", "ballast", "--size", "2GiB"]);
    array.good(&["schedule", "create", "undo", "--of-volume", "data", "--every", "1s", "--keep", "last=100"]);
    let percent = || array.json(&["pool", "show", "main"])["full_percent"].as_u64().unwrap();
    let mut writer = Nbd::connect(array.state(), "ballast");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut written = 0;
    while percent() < 91 {
        let mut bytes = vec![0; MIB];
        for word in bytes.chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&(state ^ (state >> 29)).to_le_bytes());
        }
        writer.write((written * MIB) as u64, &bytes);
        written += 1;
    }
    array.wait_for_events(&["schedule undo: takes no snapshots, and deletes none early: its pool is 9"]);
    let before = snapshots(&array, "undo");
    let shown = array.json(&["schedule", "show", "undo"]);
    assert!(shown["state"] == "no-space" && text(&shown["reason"]).contains("from 90 % on"), "{shown}");
    array.refused(&["schedule", "run", "undo"], &["schedule `undo` takes no snapshot", "% full"]);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(snapshots(&array, "undo"), before, "none is taken, and none is deleted out of turn");
    writer.unmap(0, written * MIB);
    array.wait_for_events(&["schedule undo: goes on: pool main is"]);
    wait_until(&array, "none is taken again", || snapshots(&array, "undo").len() > before.len());
    assert_eq!(events(&array, "schedule undo: takes no snapshots"), 1);
    assert_eq!(array.json(&["schedule", "show", "undo"])["state"], "active");
}
