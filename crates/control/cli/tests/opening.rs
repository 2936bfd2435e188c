//! Who opens a pool and with which drives, with real arrays: two of them over two paths of one drive, and
//! drives that went back to an earlier state.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::nbd::Nbd;
use support::{Array, can_attach};

const BLOCK: usize = 4096;

/// A second path of a file.
struct LoopDevice(String);

impl LoopDevice {
    fn over(file: &Path) -> LoopDevice {
        let made = Command::new("losetup").args(["--direct-io=on", "--find", "--show"]).arg(file).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        LoopDevice(String::from_utf8(made.stdout).unwrap().trim().to_string())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn pattern(seed: u8, block: u64) -> Vec<u8> {
    (0..BLOCK).map(|at| seed.wrapping_add(block as u8).wrapping_add((at % 251) as u8)).collect()
}

/// A second array opened a pool that the first was writing, through a loop device over its file: each lost
/// what the other wrote.
#[test]
fn a_pool_that_another_array_serves_is_refused_by_another_path_and_by_force_taken_over() {
    if !can_attach() {
        return;
    }
    let first = Array::with_pool();
    first.good(&["volume", "create", "v", "--size", "64MiB"]);
    let mut writer = Nbd::connect(first.state(), "v");
    (0..100).for_each(|block| writer.write(block * BLOCK as u64, &pattern(1, block)));
    let device = LoopDevice::over(&first.path("main.img"));
    let mut second = Array::unstarted();
    second.configure("takeover_wait_seconds = 1\n");
    second.start();
    let pid = first.pid().to_string();
    second.refused(
        &["pool", "import", "main", "--drive", &device.0],
        &["pool main is open on", &format!("process {pid}"), "--force"],
    );
    // Nothing was touched: the first goes on.
    (100..200).for_each(|block| writer.write(block * BLOCK as u64, &pattern(1, block)));
    second.good(&["pool", "import", "main", "--drive", &device.0, "--force", "--yes"]);
    let mut reader = Nbd::connect(second.state(), "v");
    for block in 0..200 {
        assert!(reader.read(block * BLOCK as u64, BLOCK) == pattern(1, block), "block {block}");
    }
    (0..50).for_each(|block| reader.write(block * BLOCK as u64, &pattern(2, block)));
    // The first stops within a beat, and says so.
    let end = Instant::now() + Duration::from_secs(10);
    while first.json(&["pool", "show", "main"])["state"] != "read-only" {
        assert!(Instant::now() < end, "{}", first.good(&["pool", "show", "main"]));
        let lost = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            writer.try_write(300 * BLOCK as u64, &pattern(9, 0)).is_err()
        }));
        if lost.unwrap_or(true) {
            writer = Nbd::connect(first.state(), "v");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(first.good(&["pool", "show", "main"]).contains("another array"));
    drop(writer);
    // What it knows of the pool is old.
    assert_eq!(Nbd::connect(first.state(), "v").try_read(0, BLOCK), None);
    drop(first);
    for block in 0..200 {
        let seed = if block < 50 { 2 } else { 1 };
        assert!(reader.read(block * BLOCK as u64, BLOCK) == pattern(seed, block), "block {block}");
    }
    drop(reader);
    assert!(second.good(&["pool", "check", "main"]).contains("all well"), "{}", second.log());
}

/// By force a second array made a pool of its own on a drive that the first was writing, through a loop
/// device: both acknowledged what they then destroyed.
#[test]
fn a_drive_that_another_array_writes_is_not_taken_by_force_and_its_loss_is_noticed() {
    if !can_attach() {
        return;
    }
    let first = Array::with_pool();
    first.good(&["volume", "create", "v", "--size", "64MiB"]);
    let mut writer = Nbd::connect(first.state(), "v");
    (0..100).for_each(|block| writer.write(block * BLOCK as u64, &pattern(1, block)));
    let device = LoopDevice::over(&first.path("main.img"));
    let second = Array::started();
    second.refused(
        &["pool", "create", "q", "--drive", &device.0, "--force", "--yes"],
        &["pool main is open on", "choose another drive"],
    );
    // What else was named by force is as it was.
    let given = second.path("given.img");
    let content = vec![7; 64 << 20];
    std::fs::write(&given, &content).unwrap();
    let given_text = given.display().to_string();
    second.refused(
        &["pool", "create", "q", "--drive", &given_text, "--drive", &device.0, "--force", "--yes"],
        &["pool main is open on"],
    );
    assert!(std::fs::read(&given).unwrap() == content);
    (100..200).for_each(|block| writer.write(block * BLOCK as u64, &pattern(1, block)));
    // While the first is frozen nobody beats, and the drive can be taken. Who wakes up finds it gone.
    let pid = first.pid().to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    let taken = second.run(&["pool", "create", "q", "--drive", &device.0, "--force", "--yes"]);
    signal("-CONT");
    assert_eq!(taken.status, 0, "{}{}", taken.out, taken.err);
    second.good(&["volume", "create", "w", "--size", "64MiB"]);
    let mut other = Nbd::connect(second.state(), "w");
    (0..100).for_each(|block| other.write(block * BLOCK as u64, &pattern(2, block)));
    let is_refused = Nbd::connect(first.state(), "v").is_refused(0, &pattern(9, 0));
    assert!(is_refused, "the first writes on: {}", first.good(&["pool", "show", "main"]));
    assert!(first.good(&["pool", "show", "main"]).contains("taken by somebody else"));
    drop(first);
    for block in 0..100 {
        assert!(other.read(block * BLOCK as u64, BLOCK) == pattern(2, block), "block {block}");
    }
    drop(other);
    assert!(second.good(&["pool", "check", "q"]).contains("all well"), "{}", second.log());
}

/// The only drive of a pool went back to an earlier state: it looks whole to itself, and the array knows
/// better.
#[test]
fn a_drive_that_went_back_is_noticed_at_the_next_start() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "v", "--size", "64MiB"]);
    assert_eq!(array.terminate(), Some(0));
    let (drive, old) = (array.path("main.img"), array.path("old.img"));
    std::fs::copy(&drive, &old).unwrap();
    array.start();
    let mut writer = Nbd::connect(array.state(), "v");
    (0..100).for_each(|block| writer.write(block * BLOCK as u64, &pattern(1, block)));
    drop(writer);
    let generation = array.json(&["pool", "show", "main"])["generation"].as_u64().unwrap();
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(&old, &drive).unwrap();
    array.start();
    let pool = array.json(&["pool", "show", "main"]);
    assert_eq!(pool["state"], "failed", "{pool}");
    let reason = pool["reason"].as_str().unwrap();
    assert!(reason.contains("older than this array knows it"), "{reason}");
    array.refused(&["pool", "import", "main"], &["generation", "--accept-older-state"]);
    let pool = array.json(&["pool", "import", "main", "--accept-older-state", "--yes"]);
    assert!(pool["generation"].as_u64().unwrap() < generation, "{pool}");
    assert_eq!(pool["state"], "online");
    assert!(array.log().contains("older states of its drives were accepted"), "{}", array.log());
    // From then on it is what this array knows.
    assert_eq!(array.terminate(), Some(0));
    array.start();
    assert_eq!(array.json(&["pool", "show", "main"])["state"], "online");
}

/// After SIGKILL the pool is open again at once: the owner is a process of this boot that is gone.
#[test]
fn a_killed_array_is_followed_without_waiting_for_its_beat() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "v", "--size", "64MiB"]);
    array.kill();
    let begun = Instant::now();
    array.start();
    while array.json(&["pool", "show", "main"])["state"] != "online" {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}\n{}", begun.elapsed(), array.log());
}
