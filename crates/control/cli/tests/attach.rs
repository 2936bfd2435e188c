//! Volumes as block devices of this machine, also after a crash of the array. Needs root.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use support::nbd::Nbd;
use support::{Array, can_attach, has_program};

/// What a test leaves must be nothing: no mount and no loop device that names its directory.
fn leftovers(array: &Array) -> Vec<String> {
    let base = array.path("").display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut left: Vec<String> =
        mounts.lines().filter(|line| line.contains(base.trim_end_matches('/'))).map(str::to_string).collect();
    for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.starts_with(base.trim_end_matches('/')) {
            left.push(backing);
        }
    }
    left
}

#[test]
fn a_volume_is_attached_formatted_mounted_resized_and_detached() {
    if !can_attach() {
        return;
    }
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    let mount = array.path("mnt/db");
    let mount_text = mount.display().to_string();
    array.refused(&["attach", "db", "--mount", &mount_text], &["db", "format"]);
    let out = array.good(&["attach", "db", "--format", "ext4", "--mount", &mount_text]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("/dev/loop"), "{out}");
    assert_eq!(lines[1..], [mount_text.as_str()]);
    std::fs::write(mount.join("file"), b"kept").unwrap();
    array.refused(&["attach", "db"], &["attached"]);
    array.refused(
        &["attach", "db", "--mount", &mount_text],
        &["`db` is attached already", "ashlar detach db"],
    );
    array.refused(&["volume", "delete", "db", "--now", "--yes"], &["attached", "ashlar detach db"]);
    array.refused(&["pool", "export", "main"], &["db", "attached"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.refused(&["snapshot", "restore", "noon", "--no-backup", "--yes"], &["attached"]);
    let shown = array.json(&["volume", "resize", "db", "--size", "2GiB"]);
    assert_eq!(shown["device"], lines[0]);
    let name = Path::new(lines[0]).file_name().unwrap();
    let sectors = std::fs::read_to_string(Path::new("/sys/block").join(name).join("size")).unwrap();
    assert_eq!(sectors.trim(), (2_u64 << 30 >> 9).to_string());
    array.good(&["detach", "db"]);
    assert!(!mount.join("file").exists());
    array.refused(&["attach", "db", "--format", "ext4"], &["db", "--format"]);
    let attached = array.json(&["attach", "db", "--mount", &mount_text]);
    assert_eq!(attached["mount"], mount_text);
    assert_eq!(std::fs::read(mount.join("file")).unwrap(), b"kept");
    assert_eq!(array.json(&["status"])["attachment_count"], 1);
    assert_eq!(array.terminate(), Some(0), "a stop detaches: {}", array.log());
    assert_eq!(leftovers(&array), Vec::<String>::new());
}

#[test]
fn a_bare_device_prints_its_path_and_nothing_else() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB", "--logical-block", "512"]);
    let out = array.good(&["attach", "db"]);
    let device = out.trim_end();
    assert_eq!(out, format!("{device}\n"));
    let name = Path::new(device).file_name().unwrap();
    let block = std::fs::read_to_string(Path::new("/sys/block").join(name).join("queue/logical_block_size"));
    assert_eq!(block.unwrap().trim(), "512");
    array.good(&["detach", "db"]);
    assert_eq!(leftovers(&array).len(), 1, "only the directory of volumes stays mounted");
}

#[test]
fn a_snapshot_is_attached_read_only() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    let mount = array.path("mnt").display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount]);
    std::fs::write(array.path("mnt/file"), b"then").unwrap();
    array.good(&["detach", "db"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.refused(&["attach", "db@nope"], &["nope"]);
    array.refused(&["attach", "db@noon", "--format", "ext4"], &["read-only"]);
    array.good(&["attach", "db@noon", "--mount", &mount]);
    assert_eq!(std::fs::read(array.path("mnt/file")).unwrap(), b"then");
    assert!(std::fs::write(array.path("mnt/file"), b"now").is_err());
    array.refused(&["snapshot", "delete", "noon", "--yes"], &["db@noon"]);
    array.good(&["detach", "db@noon"]);
    array.good(&["snapshot", "delete", "noon", "--yes"]);
}

#[test]
fn a_mount_in_use_is_not_detached_and_says_so() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    let mount = array.path("mnt").display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount]);
    let open = std::fs::File::create(array.path("mnt/open")).unwrap();
    array.refused(&["detach", "db"], &["db", "fuser"]);
    assert_eq!(array.json(&["status"])["attachment_count"], 1);
    drop(open);
    array.good(&["detach", "db"]);
}

#[test]
fn after_a_crash_it_is_attached_again_and_the_files_are_there() {
    if !can_attach() {
        return;
    }
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    let mount = array.path("mnt").display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount]);
    let file = std::fs::File::create(array.path("mnt/file")).unwrap();
    std::io::Write::write_all(&mut &file, b"synced").unwrap();
    file.sync_all().unwrap();
    drop(file);
    array.kill();
    array.start();
    array.wait_attached("db");
    assert_eq!(std::fs::read(array.path("mnt/file")).unwrap(), b"synced");
    // What was attached once, or detached since, is not.
    array.good(&["detach", "db"]);
    array.good(&["attach", "db", "--once"]);
    array.kill();
    array.start();
    array.wait_for_log("ready", 3);
    assert_eq!(leftovers(&array), Vec::<String>::new(), "{}", array.log());
    assert_eq!(array.json(&["status"])["attachment_count"], 0);
}

/// What cannot be attached again is told, tried at the next start, and given up by a person.
#[test]
fn what_is_not_attached_again_is_told() {
    if !can_attach() {
        return;
    }
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "256MiB"]);
    let mount = array.path("mnt").display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount]);
    assert_eq!(array.terminate(), Some(0));
    assert_eq!(leftovers(&array), Vec::<String>::new());
    // Something else is in its place.
    std::fs::remove_dir_all(&mount).unwrap();
    std::fs::write(&mount, "a file").unwrap();
    array.start();
    array.wait_for_log("not attached as it was before the start", 1);
    assert_eq!(array.json(&["status"])["attachment_count"], 0);
    array.terminate();
    std::fs::remove_file(&mount).unwrap();
    array.start();
    array.wait_attached("db");
    array.good(&["stop", "--detach"]);
    array.start_after_stop();
    array.wait_attached("db");
    assert_eq!(array.terminate(), Some(0));
    std::fs::remove_dir_all(&mount).unwrap();
    std::fs::write(&mount, "a file").unwrap();
    array.start();
    array.wait_for_log("not attached as it was before the start", 2);
    array.good(&["detach", "db"]);
    array.refused(&["detach", "db"], &["not attached"]);
}

#[test]
fn a_stop_that_detaches_is_refused_while_a_volume_is_in_use() {
    if !can_attach() {
        return;
    }
    let mut array = Array::with_pool();
    for name in ["a", "b"] {
        array.good(&["volume", "create", name, "--size", "256MiB"]);
        let mount = array.path(name).display().to_string();
        let once = if name == "a" { &["--once"][..] } else { &[] };
        array.good(&[&["attach", name, "--format", "ext4", "--mount", &mount], once].concat());
    }
    let open = std::fs::File::create(array.path("b/open")).unwrap();
    array.refused(&["stop", "--detach"], &["`b`", "used by process"]);
    array.wait_attached("a");
    array.wait_attached("b");
    drop(open);
    array.good(&["stop", "--detach"]);
    assert_eq!(leftovers(&array), Vec::<String>::new());
    array.start_after_stop();
    array.wait_attached("b");
    assert_eq!(array.json(&["status"])["attachment_count"], 1, "what was attached once is not again");
    array.good(&["detach", "b"]);
}

/// 4,741 of 6,177 acknowledged writes over NBD lost their first bytes to somebody who wrote 512 bytes of the
/// same block through the volume's file: the file read the block, and wrote it back older.
#[test]
fn whole_blocks_over_nbd_and_parts_of_them_through_the_file_lose_nothing() {
    const PART_AT: u64 = 2_048;
    const ROUNDS: u64 = 500;
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    for name in ["v", "other"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    // The directory of volumes is mounted by the first attachment, of whichever volume.
    array.good(&["attach", "other"]);
    let (is_done, parts) = (AtomicBool::new(false), AtomicU64::new(0));
    let file = std::fs::File::options().read(true).write(true).open(array.state().join("volumes/v")).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                let written = parts.load(Ordering::SeqCst) + 1;
                file.write_all_at(&written.to_le_bytes().repeat(64), PART_AT).unwrap();
                // Whoever writes over NBD may have been last; of whom it was, all 512 bytes are.
                let mut part = [0; 512];
                file.read_exact_at(&mut part, PART_AT).unwrap();
                assert!(part.chunks(8).all(|word| *word == part[..8]), "a torn part");
                let found = u64::from_le_bytes(part[..8].try_into().unwrap());
                assert!(found == written || found == u64::MAX, "part {written} is lost: {found}");
                parts.store(written, Ordering::SeqCst);
            }
        });
        let mut nbd = Nbd::connect(array.state(), "v");
        let mut lost = 0;
        for round in 0..ROUNDS {
            let mut block = round.to_le_bytes().repeat(4096 / 8);
            block[PART_AT as usize..][..512].fill(0xff);
            nbd.write(0, &block);
            // One part may have been on its way; it and the next are through before we look.
            let behind = parts.load(Ordering::SeqCst) + 2;
            while parts.load(Ordering::SeqCst) < behind && !writer.is_finished() {
                std::thread::yield_now();
            }
            let found = nbd.read(0, 4096);
            let (before, behind) = (PART_AT as usize, PART_AT as usize + 512);
            let is_there = found[..before] == block[..before] && found[behind..] == block[behind..];
            lost += u64::from(!is_there);
        }
        is_done.store(true, Ordering::SeqCst);
        writer.join().unwrap();
        assert_eq!(lost, 0, "of {ROUNDS} acknowledged writes, beside {parts:?} parts");
    });
    array.good(&["detach", "other"]);
}

/// Who writes a volume over NBD would be root by a set-uid program on it as soon as it is mounted.
/// `qemu-img convert` into the file of an attached volume overwrote the mounted file system without a word.
#[test]
fn the_file_of_an_attached_volume_takes_no_other_writer() {
    if !can_attach() {
        return;
    }
    let (array, _) = mounted();
    let file = array.state().join("volumes/db");
    let open = || std::fs::OpenOptions::new().write(true).open(&file);
    assert_eq!(open().unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    std::fs::File::open(&file).unwrap();
    let own_loop =
        std::process::Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
    let device = String::from_utf8_lossy(&own_loop.stdout).trim().to_string();
    if own_loop.status.success() {
        let name = Path::new(&device).file_name().unwrap();
        let is_read_only = std::fs::read_to_string(Path::new("/sys/block").join(name).join("ro")).unwrap();
        std::process::Command::new("losetup").args(["--detach", &device]).status().unwrap();
        assert_eq!(is_read_only.trim(), "1", "a second device over the file only reads");
    }
    array.good(&["detach", "db"]);
    open().unwrap();
    array.good(&["attach", "db", "--shared"]);
    open().unwrap();
    array.good(&["detach", "db"]);
}

/// An array with a mounted volume `db`, and where it is.
fn mounted() -> (Array, std::path::PathBuf) {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let mount = array.path("mnt");
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount.display().to_string()]);
    (array, mount)
}

fn losetup(arguments: &[&str]) -> String {
    let output = std::process::Command::new("losetup").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// A volume whose forced detach had ended stayed attached, to a device that soon was another's.
#[test]
fn a_device_that_went_with_its_last_user_is_detached() {
    if !can_attach() {
        return;
    }
    let (array, mount) = mounted();
    let mount_text = mount.display().to_string();
    let user = std::fs::File::create(mount.join("file")).unwrap();
    array.refused(&["detach", "db", "--force", "--yes"], &["in use"]);
    drop(user);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while array.json(&["status"])["attachment_count"] != 0 {
        assert!(std::time::Instant::now() < end, "still attached");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(array.good(&["events"]).contains("has gone with its last user"));
    array.good(&["attach", "db", "--mount", &mount_text]);
    array.good(&["detach", "db"]);
}

/// What stands on a file of a mounted volume held it, and nothing told.
#[test]
fn devices_on_files_of_a_mounted_volume_are_named() {
    if !can_attach() {
        return;
    }
    let (array, mount) = mounted();
    let inner = mount.join("inner.img");
    std::fs::File::create(&inner).unwrap().set_len(8 << 20).unwrap();
    let device = losetup(&["--find", "--show", &inner.display().to_string()]);
    let shown = array.good(&["volume", "users", "db"]);
    array.refused(&["detach", "db"], &[&device]);
    losetup(&["--detach", &device]);
    assert!(shown.contains(&device), "{shown}");
    array.good(&["detach", "db"]);
}

/// Refusals named verbs of the array for what it did not do, and "mend the request" for a file system in need
/// of a check.
#[test]
fn refusals_say_what_ends_them() {
    if !can_attach() {
        return;
    }
    let (array, mount) = mounted();
    let mount_text = mount.display().to_string();
    array.good(&["detach", "db"]);
    let file = array.state().join("volumes/db");
    let device = losetup(&["--find", "--show", &file.display().to_string()]);
    let mounted = std::process::Command::new("mount").args([&device, &mount_text]).status().unwrap();
    let refused = array.run(&["volume", "delete", "db", "--now", "--yes"]);
    assert!(std::process::Command::new("umount").arg(&mount_text).status().unwrap().success());
    losetup(&["--detach", &device]);
    assert!(mounted.success());
    assert!(refused.err.contains(&format!("`umount {mount_text}`")), "{}", refused.err);
    assert!(!refused.err.contains("ashlar detach"), "{}", refused.err);
    let damaged = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    // The table of the first block group.
    damaged.write_all_at(&[0xa5; 8192], 4096).unwrap();
    drop(damaged);
    array.refused(&["attach", "db", "--mount", &mount_text], &["without --mount", "fsck"]);
}

#[test]
fn what_is_mounted_makes_nobody_root_unless_asked_for() {
    if !can_attach() || !has_program("mkfs.ext4") {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.good(&["snapshot", "create", "empty", "db"]);
    let mount = array.path("mnt").display().to_string();
    let options = |volume: &str, more: &[&str]| {
        array.good(&[&["attach", volume, "--mount", &mount], more].concat());
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&mount)).unwrap();
        let options: Vec<String> = line.split(' ').nth(3).unwrap().split(',').map(str::to_string).collect();
        array.good(&["detach", volume]);
        ["nosuid", "nodev"].map(|option| options.iter().any(|set| set == option))
    };
    assert_eq!(options("db", &["--format", "ext4"]), [true, true]);
    array.good(&["snapshot", "create", "made", "db"]);
    assert_eq!(options("db@made", &[]), [true, true]);
    assert_eq!(options("db", &["--allow-suid"]), [false, true]);
    assert_eq!(options("db", &["--allow-suid", "--allow-devices"]), [false, false]);
    array.misused(&["attach", "db", "--allow-suid"], &["--mount"]);
}
