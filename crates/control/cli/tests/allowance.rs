//! Limits and reserves of volumes, as an operator sets them and a host meets them.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use support::nbd::Nbd;
use support::{Array, can_attach};

const PIECE_BYTES: usize = 1 << 20;
const ENOSPC: u32 = 28;

fn noise() -> Vec<u8> {
    let mut bytes = vec![0; PIECE_BYTES];
    File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

/// Writes pieces until one is refused for want of room; how many were not.
fn fill(nbd: &mut Nbd) -> u64 {
    for piece in 0..2000 {
        match nbd.error_of_write(piece * PIECE_BYTES as u64, &noise()) {
            0 => {}
            error => {
                assert_eq!(error, ENOSPC);
                return piece;
            }
        }
    }
    panic!("a volume without an end");
}

/// A test clone took production down: it wrote until the pool was full.
#[test]
fn a_test_clone_at_its_limit_leaves_production_alone() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "4GiB"]);
    let mut db = Nbd::connect(array.state(), "db");
    (0..64).for_each(|piece| db.write(piece * PIECE_BYTES as u64, &noise()));
    array.good(&["clone", "create", "test", "--from", "db", "--limit", "32MiB"]);
    let shown = array.json(&["volume", "show", "test"]);
    assert_eq!((shown["own_bytes"].as_u64(), shown["limit_bytes"].as_u64()), (Some(0), Some(32 << 20)));

    let mut test = Nbd::connect(array.state(), "test");
    let started = Instant::now();
    let written = fill(&mut test);
    // At once: nobody else can make this room.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!((28..=32).contains(&written), "{written} MiB");
    test.write(0, &noise());
    db.write(100 << 20, &noise());
    array.wait_for_events(&["volume test: at its limit"]);
    assert_eq!(array.json(&["pool", "show", "main"])["volumes_at_limit"][0], "test");
    let listed = array.json(&["volume", "list"]);
    assert_eq!(listed[1]["limit_bytes"].as_u64(), Some(32 << 20), "{listed}");

    array.kill();
    array.start();
    let mut test = Nbd::connect(array.state(), "test");
    assert_eq!(test.error_of_write(200 << 20, &[noise(), noise(), noise(), noise()].concat()), ENOSPC);
    test.unmap(0, 16 << 20);
    test.write(200 << 20, &noise());
    array.misused(&["volume", "set", "test"], &["--compression", "--iops"]);
    array.good(&["volume", "set", "test", "--limit", "none"]);
    (0..48).for_each(|piece| test.write((300 + piece) * PIECE_BYTES as u64, &noise()));
    assert!(array.json(&["volume", "show", "test"])["limit_bytes"].is_null());
    array.good(&["pool", "check", "main"]);
}

#[test]
fn a_volume_at_its_limit_and_one_above_it_are_told() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "small", "--size", "64MiB", "--limit", "5400KiB"]);
    let mut small = Nbd::connect(array.state(), "small");
    (0..5).for_each(|piece| small.write(piece * PIECE_BYTES as u64, &noise()));
    assert_eq!(small.error_of_write(8 << 20, &noise()), ENOSPC);
    array.wait_for_events(&["volume small: at its limit"]);
    let told = array.good(&["volume", "set", "small", "--limit", "1MiB"]);
    assert!(told.contains("more than its limit"), "{told}");
}

/// The harm: `detach` said "detached", and the files of a file system that had found no room were gone.
#[test]
fn a_detach_tells_what_a_file_system_could_not_write_at_the_limit() {
    if !can_attach() {
        return;
    }
    for kind in ["ext4", "xfs"] {
        let array = Array::with_pool();
        array.good(&["volume", "create", "db", "--size", "512MiB"]);
        let directory = array.path("mnt");
        let mount = directory.display().to_string();
        array.good(&["attach", "db", "--format", kind, "--mount", &mount]);
        array.good(&["volume", "set", "db", "--limit", "16MiB"]);
        // Nobody syncs: whoever writes hears of nothing.
        std::fs::write(directory.join("big"), (0..48).flat_map(|_| noise()).collect::<Vec<u8>>()).unwrap();
        array.refused(&["detach", "db"], &["`db`", "not all that was written to", &mount, "detach again"]);
        array.wait_for_events(&["volume db: at its limit"]);
        array.good(&["detach", "db"]);
        // A log to be replayed finds no room either.
        let mounted = array.run(&["attach", "db", "--mount", &mount]);
        let is_told = mounted.err.contains("at its limit") && mounted.err.contains("--limit");
        assert!(mounted.status == 0 || is_told, "{kind}: {}", mounted.err);
        array.good(&["volume", "set", "db", "--limit", "none"]);
        let _attached_already = array.run(&["attach", "db", "--mount", &mount]);
        std::fs::write(directory.join("again"), noise()).unwrap();
        array.good(&["detach", "db"]);
    }
}

#[test]
fn a_reserve_is_kept_from_other_volumes_and_told() {
    let mut array = Array::unstarted();
    array.configure("no_space_wait_seconds = 1\n");
    array.start();
    let drive = format!("{},size=512MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.refused(
        &["volume", "create", "db", "--size", "1GiB", "--reserve", "2GiB"],
        &["the reserve of volume db needs 2 GiB of free space, the pool has", "reserve less"],
    );
    array.refused(
        &["volume", "create", "db", "--size", "1GiB", "--reserve", "2MiB", "--limit", "1MiB"],
        &["a reserve of 2 MiB is more than its limit of 1 MiB"],
    );
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    let request = "{\"reserve_bytes\": 134217728}";
    let (status, body) = array.http("PUT", "/v1/volumes/db/policy", Some(request));
    assert_eq!(status, 200, "{body}");
    assert!(array.good(&["volume", "show", "db"]).contains("128 MiB"));
    let pool = array.json(&["pool", "show", "main"]);
    assert_eq!(pool["space"]["kept_bytes"].as_u64(), Some(128 << 20), "{pool}");
    let space = array.json(&["space", "--quick"]);
    assert!(space.to_string().contains("\"kept_bytes\":134217728"), "{space}");

    array.run(&["volume", "create", "other", "--size", "1GiB"]);
    let mut other = Nbd::connect(array.state(), "other");
    assert!(fill(&mut other) < 384);
    let written = fill(&mut Nbd::connect(array.state(), "db"));
    // Headers, padding and map pages come out of it, too.
    assert!(written >= 112, "{written} MiB");
    array.good(&["volume", "set", "db", "--reserve", "none"]);
    assert!(array.json(&["volume", "show", "db"])["reserve_bytes"].is_null());
}
