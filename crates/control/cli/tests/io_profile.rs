//! What the requests of a volume look like, and what hosts did over time, as people have it told.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::Array;
use support::nbd::Nbd;

/// 50 writes of 8 KiB one behind the other, 4 reads of 4 KiB apart from each other, an unmap.
fn load(array: &Array) {
    let mut host = Nbd::connect(array.state(), "db");
    (0..50).for_each(|block| host.write(block * 8192, &[7; 8192]));
    for place in [40_u64, 8, 24, 0] {
        host.read(place * 8192, 4096);
    }
    host.unmap(1 << 20, 1 << 20);
}

#[test]
fn requests_are_told_by_their_size_kind_and_order() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let idle = array.good(&["volume", "profile", "db"]);
    assert_eq!(idle, "no request of volume db since the array started\n");
    load(&array);
    let profile = array.json(&["volume", "profile", "db"]);
    let writes = json!({
        "count": 50, "sequential_count": 49, "sizes": [{ "up_to_bytes": 8192, "count": 50 }]
    });
    let reads = json!({ "count": 4, "sequential_count": 0, "sizes": [{ "up_to_bytes": 4096, "count": 4 }] });
    assert_eq!((&profile["writes"], &profile["reads"]), (&writes, &reads));
    assert_eq!((&profile["unmap_count"], &profile["flush_count"]), (&json!(1), &json!(0)));
    assert_eq!(profile.get("counted_seconds"), None, "all since the start");
    let told = array.good(&["volume", "profile", "db"]);
    for words in ["55 requests of volume db", "\nwrites         50   91 %        98 %\n", "\n8 KiB "] {
        assert!(told.contains(words), "{told}");
    }
    // Of a second what came in that second, and nothing of before.
    let is_over = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut host = Nbd::connect(array.state(), "db");
            let end = Instant::now() + Duration::from_secs(30);
            while !is_over.load(Ordering::Relaxed) && Instant::now() < end {
                host.read(0, 16_384);
            }
        });
        let counted = array.json(&["volume", "profile", "db", "--seconds", "1"]);
        is_over.store(true, Ordering::Relaxed);
        counted
    });
    assert_eq!((&counted["counted_seconds"], &counted["writes"]["count"]), (&json!(1), &json!(0)));
    let sizes = &counted["reads"]["sizes"];
    assert_eq!(sizes.as_array().unwrap().len(), 1, "{counted}");
    assert!(sizes[0]["up_to_bytes"] == 16_384 && sizes[0]["count"].as_u64() > Some(0), "{counted}");
    array.refused(&["volume", "profile", "no"], &["volume `no` does not exist"]);
    array.misused(&["volume", "profile", "db", "--seconds", "61"], &["61"]);
    let (status, body) = array.http("GET", "/v1/volumes/db/profile?seconds=0", None);
    assert!(status == 400 && body.contains("choose from 1 to 60 s"), "{status} {body}");
}

/// The series of the volume, once a step of it has ended: that takes ten seconds. Requests go on until then:
/// those before the first look at a volume's counters belong to no second.
fn series(array: &Array) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        load(array);
        let series = array.json(&["history", "--volume", "db"]);
        if !series["points"].as_array().unwrap().is_empty() {
            return series;
        }
        assert!(Instant::now() < end, "no step came to its end");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_span_of_the_history_is_a_file_for_other_programs() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let series = series(&array);
    assert_eq!((&series["object"], &series["step_seconds"]), (&json!("volume:db"), &json!(10)));
    let text = array.good(&["history", "--volume", "db", "--csv"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines[0][0], lines[0][2], lines[0].len()), ("time", "writes_per_second", 13));
    assert!(lines.len() >= 2 && lines.iter().all(|line| line.len() == 13), "{text}");
    let rate = series["points"][0]["rates"]["writes_per_second"].as_f64().unwrap();
    let told: f64 = lines[1][2].parse().unwrap();
    assert!(told > 0.0 && (told - rate).abs() < 0.001, "{text} is not {series}");
    // The pool's and the array's have it, too; what lies before the load has not.
    for of in [&["history", "--pool", "main"][..], &["history"]] {
        assert!(array.good(of).starts_with("UNTIL "), "{of:?}");
    }
    let before = array.good(&["history", "--volume", "db", "--from", "-1d", "--to", "-1h"]);
    assert_eq!(before, "no figures of volume:db in this time\n");
    array.refused(&["history", "--from", "-2w"], &["kept for a week"]);
    array.refused(&["history", "--from", "-1h", "--to", "-2h"], &["nothing lies between"]);
    array.refused(&["history", "--volume", "no"], &["volume `no` does not exist"]);
    array.misused(&["history", "--from", "yesterday"], &["`yesterday` is no time"]);
    array.misused(&["history", "--csv", "--json"], &["--json"]);
}
