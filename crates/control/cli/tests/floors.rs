//! Floors and classes of volumes, as an operator sets them and hosts meet them.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::Array;
use support::nbd::Nbd;

const BLOCK: usize = 4096;

/// Writes one after the other for so long.
fn write_for(nbd: &mut Nbd, time: Duration) -> u64 {
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < time {
        nbd.write(count % 1000 * BLOCK as u64, &[1 + count as u8 % 200; BLOCK]);
        count += 1;
    }
    count
}

#[test]
fn a_floor_that_no_drive_keeps_holds_others_back_and_lets_them_go_on() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "log", "--size", "64MiB", "--floor", "2ms"]);
    array.good(&["volume", "create", "data", "--size", "64MiB"]);
    assert_eq!(array.json(&["volume", "show", "log"])["floor_micros"].as_u64(), Some(2000));
    // Over the file system of this machine nothing is durable so soon.
    let shown = array.good(&["volume", "set", "log", "--floor", "100us"]);
    assert!(shown.contains("100 us"), "{shown}");
    array.terminate();
    array.start();
    assert_eq!(array.json(&["volume", "show", "log"])["floor_micros"].as_u64(), Some(100));

    let is_over = Arc::new(AtomicBool::new(false));
    let hosts: Vec<_> = (0..4)
        .map(|_| {
            let (mut nbd, is_over) = (Nbd::connect(array.state(), "data"), is_over.clone());
            std::thread::spawn(move || {
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    count += write_for(&mut nbd, Duration::from_millis(50));
                }
                count
            })
        })
        .collect();
    let mut log = Nbd::connect(array.state(), "log");
    let begin = Instant::now();
    // A busy machine needs longer for enough windows.
    let floor = loop {
        write_for(&mut log, Duration::from_millis(500));
        let floor = array.json(&["volume", "show", "log"])["floor"].clone();
        if floor["depth_count"].as_u64() == Some(1) || begin.elapsed() > Duration::from_secs(30) {
            break floor;
        }
    };
    assert_eq!(floor["depth_count"].as_u64(), Some(1), "{floor}");
    assert!(floor["miss_count"].as_u64() > Some(10), "{floor}");
    assert!(array.good(&["volume", "show", "log"]).contains("missed by"));
    let (_, metrics) = array.http("GET", "/metrics", None);
    assert!(
        metrics.contains("ashlar_volume_floor_seconds{pool=\"main\",volume=\"log\"} 0.0001"),
        "{metrics}"
    );
    assert!(metrics.contains("ashlar_volume_floor_misses_total{pool=\"main\",volume=\"log\"}"), "{metrics}");
    let pool = array.json(&["pool", "show", "main"]);
    assert!(pool["counters"]["requests_gave_precedence"].as_u64() > Some(10), "{pool}");
    is_over.store(true, Ordering::Relaxed);
    let each: Vec<u64> = hosts.into_iter().map(|host| host.join().unwrap()).collect();
    assert!(each.iter().all(|count| *count > 5), "{each:?}");
    array.good(&["volume", "set", "log", "--floor", "none"]);
    assert!(array.json(&["volume", "show", "log"])["floor_micros"].is_null());
}

#[test]
fn a_class_is_set_shown_kept_and_refused_beside_a_floor() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "test", "--size", "64MiB", "--class", "low"]);
    array.good(&["snapshot", "create", "now", "test"]);
    array.good(&["clone", "create", "copy", "--from", "now"]);
    array.good(&["clone", "create", "meek", "--from", "now", "--class", "low"]);
    array.terminate();
    array.start();
    let class = |name: &str| array.json(&["volume", "show", name])["class"].as_str().unwrap().to_string();
    assert_eq!(["test", "copy", "meek"].map(class), ["low", "normal", "low"]);
    array.refused(&["volume", "set", "test", "--floor", "2ms"], &["gives way", "cannot have a floor"]);
    array.refused(&["volume", "set", "copy", "--floor", "50us"], &["less than 100 us"]);
    array.refused(&["volume", "set", "copy", "--floor", "2s"], &["more than a second"]);
    array.misused(&["volume", "set", "copy", "--floor", "2"], &["no latency"]);
    array.good(&["volume", "set", "test", "--class", "normal", "--floor", "2ms"]);
    array.refused(&["volume", "set", "test", "--class", "low"], &["cannot have a floor"]);
}
