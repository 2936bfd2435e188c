//! A pool that fills up under a mounted file system: it is told, and there is a way out that loses nothing.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Array, can_attach, has_program};

const PIECE_BYTES: usize = 8 << 20;

/// An array whose writes wait a second for room, with a pool of 512 MiB.
fn small_array() -> Array {
    let mut array = Array::unstarted();
    array.configure("no_space_wait_seconds = 1\n");
    array.start();
    let drive = format!("{},size=512MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array
}

fn write_synced(path: &Path) -> std::io::Result<()> {
    let mut bytes = vec![0; PIECE_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut file = File::create(path)?;
    file.write_all(&bytes)?;
    file.sync_all()
}

/// Files until one is refused; their number.
fn fill(directory: &Path) -> u32 {
    for number in 0..200 {
        if write_synced(&directory.join(format!("file-{number}"))).is_err() {
            return number;
        }
    }
    panic!("a pool without an end");
}

/// The loss: the file system went read-only at the first error, and could not be mounted any more, because
/// its log had no room to be replayed.
#[test]
fn a_file_system_comes_back_from_a_full_pool() {
    if !can_attach() {
        return;
    }
    for kind in ["ext4", "xfs"].into_iter().filter(|kind| has_program(&format!("mkfs.{kind}"))) {
        let array = small_array();
        let out = array.run(&["volume", "create", "db", "--size", "2GiB"]);
        assert!(out.out.contains("times the"), "provisioning is told: {}", out.out);
        let mount = array.path("mnt");
        let place = mount.display().to_string();
        array.good(&["attach", "db", "--format", kind, "--mount", &place]);
        let daily = ["schedule", "create", "daily", "--of-volume", "db", "--every", "1d", "--keep", "last=1"];
        array.good(&daily);
        let files = std::thread::scope(|scope| {
            let filling = scope.spawn(|| fill(&mount));
            let mut answers = Vec::new();
            while !filling.is_finished() {
                answers.push(array.http("GET", "/readyz", None));
                std::thread::sleep(Duration::from_millis(20));
            }
            let is_told = |(status, why): &(u16, String)| *status == 503 && why.contains("pool main: full");
            assert!(answers.iter().any(is_told), "{answers:?}");
            filling.join().unwrap()
        });
        assert!(files > 15, "{kind}: {files} files of 8 MiB");
        // However fast: from nothing to full in seconds.
        array.wait_for_events(&["80 % full", "90 % full", "95 % full", "full: a write waits 1 s for room"]);
        let pool = array.json(&["pool", "show", "main"]);
        assert!(pool["counters"]["writes_refused_for_room"].as_u64().unwrap() > 0, "{pool}");

        // What makes room is not refused for want of room.
        array.good(&["schedule", "pause", "daily"]);
        array.good(&["schedule", "delete", "daily", "--with-snapshots", "--yes"]);

        // What the file system could not write out is lost, as with any device that is full, and told once.
        array.refused(&["detach", "db"], &["not all that was written to", "detach again"]);
        array.good(&["detach", "db"]);
        array.good(&["attach", "db", "--mount", &place]);
        for number in 0..files / 2 {
            std::fs::remove_file(mount.join(format!("file-{number}"))).unwrap();
        }
        Command::new("sync").arg("-f").arg(&mount).status().unwrap();
        // Discarded by the mount: nobody has to trim.
        let end = Instant::now() + Duration::from_secs(60);
        while write_synced(&mount.join("after")).is_err() {
            assert!(Instant::now() < end, "{kind}: no room after {} files were deleted", files / 2);
            std::thread::sleep(Duration::from_millis(500));
        }
        assert_eq!(std::fs::read(mount.join("after")).unwrap().len(), PIECE_BYTES);
        array.good(&["detach", "db"]);
        array.good(&["pool", "check", "main"]);
    }
}

/// A deleted volume that could still come back makes room for a host that waits.
#[test]
fn a_deleted_volume_gives_way_to_a_write_that_waits() {
    if !can_attach() {
        return;
    }
    let mut array = Array::unstarted();
    array.configure("no_space_wait_seconds = 60\n");
    array.start();
    let drive = format!("{},size=512MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    let mounts = ["old", "new"].map(|name| {
        array.run(&["volume", "create", name, "--size", "2GiB"]);
        let mount = array.path(name);
        array.good(&["attach", name, "--format", "ext4", "--mount", &mount.display().to_string()]);
        mount
    });
    for number in 0..24 {
        write_synced(&mounts[0].join(format!("file-{number}"))).unwrap();
    }
    array.good(&["detach", "old"]);
    array.good(&["volume", "delete", "old", "--yes"]);
    // More than is free without it, less than with it.
    for number in 0..40 {
        write_synced(&mounts[1].join(format!("file-{number}"))).unwrap();
    }
    let deleted = array.json(&["volume", "list", "--deleted"]);
    assert_eq!(deleted.as_array().map(Vec::len), Some(0), "{deleted}");
    array.good(&["detach", "new"]);
}
