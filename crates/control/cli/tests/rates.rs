//! Rates of volumes, as an operator sets them and a host meets them.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use support::Array;
use support::nbd::Nbd;

const BLOCK: usize = 4096;

/// Writes one after the other for so long: how many.
fn write_for(nbd: &mut Nbd, time: Duration) -> u64 {
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < time {
        nbd.write(count % 1000 * BLOCK as u64, &[count as u8; BLOCK]);
        count += 1;
    }
    count
}

fn requests_held_back(array: &Array) -> u64 {
    array.json(&["pool", "show", "main"])["counters"]["requests_held_back"].as_u64().unwrap()
}

#[test]
fn a_volume_keeps_to_its_rate_over_nbd_and_says_so() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "batch", "--size", "64MiB"]);
    let shown = array.good(&["volume", "set", "batch", "--iops", "50", "--bandwidth", "100MiB"]);
    assert!(shown.contains("50 at most") && shown.contains("100 MiB/s at most"), "{shown}");
    let mut nbd = Nbd::connect(array.state(), "batch");
    let count = write_for(&mut nbd, Duration::from_secs(4));
    // A slow machine reaches less; nothing reaches more.
    assert!((100..=202).contains(&count), "{count} writes in four seconds");
    let json = array.json(&["volume", "show", "batch"]);
    assert_eq!(json["requests_per_second"].as_u64(), Some(50), "{json}");
    assert_eq!(json["bytes_per_second"].as_u64(), Some(100 << 20), "{json}");
    assert!(requests_held_back(&array) > 75, "{count} writes");

    // It is kept over a stop, and gone when it is lifted.
    drop(nbd);
    array.terminate();
    array.start();
    assert_eq!(array.json(&["volume", "show", "batch"])["requests_per_second"].as_u64(), Some(50));
    array.good(&["volume", "set", "batch", "--iops", "none", "--bandwidth", "none"]);
    assert!(array.json(&["volume", "show", "batch"])["requests_per_second"].is_null());
    let mut nbd = Nbd::connect(array.state(), "batch");
    let count = write_for(&mut nbd, Duration::from_secs(2));
    // However slow the machine is: nothing waited for a turn.
    assert!(count > 0 && requests_held_back(&array) == 0, "{count} writes without a limit");
}

#[test]
fn rates_that_cannot_be_are_refused() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "batch", "--size", "64MiB"]);
    let set = |options: &[&'static str]| [&["volume", "set", "batch"], options].concat();
    array.refused(&set(&["--iops", "5"]), &["fewer than 10 requests"]);
    array.refused(&set(&["--bandwidth", "100KiB"]), &["less than 1 MiB"]);
    array.refused(&set(&["--burst", "10s"]), &["a burst needs a rate"]);
    array.refused(&set(&["--iops", "100", "--burst", "2h"]), &["longer than an hour"]);
    array.misused(&set(&["--iops", "fast"]), &["no number of requests"]);
}
