//! Objectives of latency and marks of the time line, through the command line of a real array.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::Array;
use support::nbd::Nbd;

/// Writes and looks at an objective until it is as it should be: a step has ten seconds, a minute sixty.
fn write_until(array: &Array, name: &str, is_as_it_should: impl Fn(&Value) -> bool) -> Value {
    let mut host = Nbd::connect(array.state(), "db");
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        host.write(4096, &[7; 4096]);
        let objective = array.json(&["objective", "show", name]);
        if is_as_it_should(&objective) {
            return objective;
        }
        assert!(Instant::now() < end, "{objective}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn an_objective_is_used_up_and_told_and_outlives_the_array() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.refused(&["objective", "set", "no", "--p99", "2ms", "--for", "99%"], &["`no`", "volume list"]);
    array.misused(&["objective", "set", "db", "--p99", "2", "--for", "99%"], &["2ms"]);
    array.misused(&["objective", "set", "db", "--p99", "2ms", "--for", "101%"], &["99.9%"]);
    array.refused(
        &["objective", "set", "db", "--p99", "2ms", "--for", "99%", "--over", "8d"],
        &["`db`", "seven days"],
    );
    // A write is never as fast as this; of an hour three seconds may be missed, so one minute is too much.
    let strict = ["objective", "set", "db", "--p99", "1us", "--for", "99.9%", "--writes", "--over", "1h"];
    let made = array.json(&strict);
    assert_eq!((&made["kind"], &made["left_percent"]), (&json!("volume"), &json!(100.0)), "{made}");
    assert_eq!((&made["permitted_seconds"], &made["is_met_now"]), (&json!(4), &json!(true)), "{made}");
    let missed = write_until(&array, "db", |objective| objective["is_met_now"] == false);
    assert!(missed["present_p99_micros"].as_u64().unwrap() > 1, "{missed}");
    let used_up = write_until(&array, "db", |objective| objective["is_used_up"] == true);
    assert!(used_up["missed_seconds"].as_u64().unwrap() >= 60, "{used_up}");
    assert_eq!((&used_up["left_percent"], &used_up["left_seconds"]), (&json!(0.0), &json!(0)), "{used_up}");
    array.wait_for_events(&["volume db: its objective of latency is used up"]);
    let metrics = array.http("GET", "/metrics", None).1;
    let sample = "ashlar_objective_used_up{pool=\"main\",kind=\"volume\",name=\"db\"} 1";
    assert!(metrics.lines().any(|line| line == sample), "{metrics}");
    assert!(array.good(&["objective", "list"]).contains("USED UP"));
    // Reads there were none: the same minutes are met.
    array.good(&["objective", "set", "db", "--p99", "1us", "--for", "99.9%", "--reads", "--over", "1h"]);
    array.wait_for_events(&["volume db: its objective of latency is well again"]);
    let reads = array.json(&["objective", "show", "db"]);
    assert_eq!((&reads["missed_seconds"], &reads["met_percent"]), (&json!(0), &json!(100.0)), "{reads}");
    array.good(&strict);

    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    array.start();
    let end = Instant::now() + Duration::from_secs(30);
    while array.json(&["objective", "show", "db"])["is_used_up"] != true {
        assert!(Instant::now() < end, "{}", array.json(&["objective", "show", "db"]));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_objective_has_an_address_and_a_state_and_goes_with_its_volume() {
    let array = Array::with_pool();
    for name in ["db", "docs"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    let set = |headers: &str, micros: u64| {
        let body = json!({ "p99_micros": micros, "for_percent": 99.9 }).to_string();
        array.ask("PUT", "/v1/objectives/db", headers, Some(&body))
    };
    let made = set("", 2000);
    assert_eq!((made.status, made.header("location")), (201, Some("/v1/objectives/db")), "{}", made.body);
    let old = format!("if-match: {}\r\n", made.header("etag").unwrap());
    assert_eq!((set(&old, 3000).status, set(&old, 4000).status), (200, 412));
    assert_eq!(array.ask("DELETE", "/v1/objectives/db", &old, None).status, 412);
    let wrong = set("", 0);
    assert_eq!((wrong.status, &wrong.json()["object"]["kind"]), (400, &json!("objective")), "{}", wrong.body);
    array.good(&["objective", "set", "docs", "--p99", "20ms", "--for", "99%"]);
    let names = |query: &str| {
        let all = array.ask("GET", &format!("/v1/objectives{query}"), "", None).json();
        all.as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["db", "docs"]);
    assert_eq!(names("?name_prefix=do&is_used_up=false"), ["docs"]);
    // 1 % of seven days is more than 0.1 %.
    assert_eq!(names("?sort=left&order=descending"), ["docs", "db"]);
    assert!(names("?is_used_up=true").is_empty() && names("?pool=other").is_empty());

    array.good(&["volume", "delete", "db", "--yes"]);
    array.refused(&["objective", "show", "db"], &["`db`", "objective list"]);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    assert_eq!(names(""), ["docs"], "another volume has nothing of it");
    array.good(&["volume", "undelete", "db", "--as", "back"]);
    assert_eq!(array.json(&["objective", "show", "back"])["p99_micros"], 3000);
    array.good(&["objective", "delete", "docs"]);
    array.refused(&["objective", "delete", "docs"], &["`docs`", "objective list"]);
    assert_eq!(names(""), ["back"]);
}

#[test]
fn marks_are_made_by_hand_and_of_what_happens() {
    let mut array = Array::with_pool();
    for name in ["db", "docs"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    let first = array.json(&["mark", "add", "version 4.2 goes live", "--volume", "db", "--at", "-1h"]);
    assert_eq!((&first["id"], &first["object"]), (&json!("1"), &json!("volume db")), "{first}");
    array.good(&["mark", "add", "cable changed"]);
    array.refused(&["mark", "add", "two\nlines"], &["one line"]);
    array.refused(&["mark", "add", "x", "--volume", "no"], &["`no`", "volume list"]);
    array.misused(&["mark", "add", "x", "--at", "noon"], &["13:05:07"]);
    let ahead = json!({ "text": "x", "unix_millis": u64::MAX }).to_string();
    assert_eq!(array.ask("POST", "/v1/marks", "", Some(&ahead)).status, 400);
    array.good(&["snapshot", "create", "noon", "docs"]);
    array.good(&["pool", "check", "main"]);

    let ids = |query: &str| {
        let all = array.ask("GET", &format!("/v1/marks{query}"), "", None).json();
        let ids = all.as_array().unwrap().iter().map(|mark| mark["id"].as_str().unwrap().to_string());
        ids.collect::<Vec<_>>()
    };
    let all = ids("");
    assert_eq!(all[0], "1", "the oldest first: {all:?}");
    assert!(all.contains(&"2".to_string()) && all.contains(&"snapshot:noon".to_string()), "{all:?}");
    assert!(all.iter().any(|id| id.starts_with("job:")), "{all:?}");
    assert_eq!(ids("?kind=by-hand"), ["1", "2"]);
    assert_eq!(ids("?kind=by-hand&volume=docs"), ["2"], "what is about the array is about each volume");
    assert_eq!(ids("?kind=snapshot&volume=docs"), ["snapshot:noon"]);
    assert!(ids("?kind=snapshot&volume=db").is_empty());
    let listed = array.good(&["mark", "list", "--since", "10m"]);
    assert!(listed.contains("cable changed") && !listed.contains("goes live"), "{listed}");
    let made = array.ask("POST", "/v1/marks", "", Some(r#"{"text":"made","database":"no"}"#));
    assert_eq!(made.status, 404, "{}", made.body);
    let made = array.ask("POST", "/v1/marks", "", Some(r#"{"text":"made"}"#));
    let location = made.header("location").unwrap();
    assert_eq!((made.status, location), (201, "/v1/marks/3"));
    assert_eq!(array.ask("GET", location, "", None).json(), made.json());

    array.refused(&["mark", "delete", "snapshot:noon"], &["`snapshot:noon`", "goes with it"]);
    array.refused(&["mark", "delete", "9"], &["`9`", "mark list"]);
    array.good(&["mark", "delete", "2"]);
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    array.start();
    let kept = array.json(&["mark", "list"]);
    let kept: Vec<&Value> = kept
        .as_array()
        .unwrap()
        .iter()
        .filter(|mark| mark["kind"] == "by-hand")
        .map(|mark| &mark["id"])
        .collect();
    assert_eq!(kept, ["1", "3"]);
}

/// The harm: a damaged file of marks took those of events and snapshots with it, without a word at the start.
#[test]
fn a_damaged_file_of_marks_is_put_aside_and_the_others_go_on() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.good(&["mark", "add", "goes live"]);
    let (file, aside) = (array.state().join("marks.toml"), array.state().join("marks.toml.damaged"));
    for damage in ["[[mark]]\nnumber = \"x\"\n", ""] {
        assert_eq!(array.terminate(), Some(0), "{}", array.log());
        let _ = std::fs::remove_file(&aside);
        std::fs::write(&file, damage).unwrap();
        array.start();
        array.wait_for_events(&["marks that were made by hand are lost"]);
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), damage);
        assert!(array.good(&["mark", "list"]).contains("noon"));
        array.good(&["mark", "add", "after"]);
        assert!(array.good(&["mark", "list"]).contains("after"));
    }
    // While it runs as well.
    std::fs::write(&file, "\0").unwrap();
    assert!(array.good(&["mark", "list"]).contains("noon"));
    array.good(&["mark", "add", "last"]);
}
