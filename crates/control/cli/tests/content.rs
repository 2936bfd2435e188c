//! What a volume holds is not lost by a command that need not lose it; a mounted snapshot shows all of it.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use support::nbd::Nbd;
use support::{Array, can_attach, has_program};

const MIB: u64 = 1 << 20;

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a file system with the tool a person would use, and mounts it.
fn attach_with(array: &Array, kind: &str, mount: &str) {
    let device = array.good(&["attach", "db"]);
    let quiet = if kind == "ext4" { "-qF" } else { "-q" };
    run(&format!("mkfs.{kind}"), &[quiet, device.trim()]);
    array.good(&["detach", "db"]);
    array.good(&["attach", "db", "--mount", mount]);
}

fn can_make(kind: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap();
    known.contains(kind) && has_program(&format!("mkfs.{kind}"))
}

/// The loss: the mount left the file system's log out, so files that were synced before the snapshot were not
/// there, and nobody was told.
#[test]
fn a_mounted_snapshot_shows_what_was_synced_before_it() {
    if !can_attach() {
        return;
    }
    for kind in ["ext4", "xfs", "btrfs"].into_iter().filter(|kind| can_make(kind)) {
        let array = Array::with_pool();
        array.good(&["volume", "create", "db", "--size", "512MiB"]);
        let (mount, old) = (array.path("mnt"), array.path("old"));
        let old_text = old.display().to_string();
        attach_with(&array, kind, &mount.display().to_string());
        for number in 0..20 {
            let mut file = File::create(mount.join(format!("file-{number}"))).unwrap();
            file.write_all(b"synced").unwrap();
            file.sync_all().unwrap();
        }
        std::fs::rename(mount.join("file-19"), mount.join("renamed")).unwrap();
        File::open(&mount).unwrap().sync_all().unwrap();
        array.good(&["snapshot", "create", "noon", "db"]);
        std::fs::remove_file(mount.join("file-0")).unwrap();
        let out = array.good(&["attach", "db@noon", "--mount", &old_text]);
        let device = out.lines().next().unwrap();
        for name in (0..19).map(|number| format!("file-{number}")).chain(["renamed".to_string()]) {
            assert_eq!(std::fs::read(old.join(&name)).unwrap(), b"synced", "{kind} {name}");
        }
        assert!(File::create(old.join("new")).is_err());
        assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 1);
        assert_eq!(array.json(&["pool", "show", "main"])["volume_count"], 1);
        let names = std::fs::read_dir(array.state().join("volumes")).unwrap();
        assert_eq!(names.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["db"]);
        let users = array.json(&["volume", "users", "db@noon"]);
        assert!(users.to_string().contains(device) && users.to_string().contains(&old_text), "{users}");
        array.refused(&["snapshot", "delete", "noon", "--yes"], &["db@noon", "ashlar detach db@noon"]);
        array.refused(&["pool", "export", "main"], &["in use"]);
        array.good(&["detach", "db@noon"]);
        array.good(&["detach", "db"]);
        // A pool that holds anything is not destroyed: the clone is gone.
        array.good(&["snapshot", "delete", "noon", "--yes"]);
        array.good(&["volume", "delete", "db", "--now", "--yes"]);
        array.good(&["pool", "delete", "main", "--yes"]);
    }
}

#[test]
fn the_clone_of_a_mounted_snapshot_is_gone_after_a_crash() {
    if !can_attach() {
        return;
    }
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "256MiB"]);
    let mount = array.path("mnt").display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.good(&["detach", "db"]);
    array.good(&["attach", "db@noon", "--mount", &mount, "--once"]);
    array.kill();
    array.start();
    // The name of a clone that was made for another snapshot before is free again.
    array.good(&["attach", "db@noon", "--mount", &mount, "--once"]);
    array.kill();
    array.start();
    array.good(&["snapshot", "delete", "noon", "--yes"]);
    array.good(&["volume", "delete", "db", "--now", "--yes"]);
    array.good(&["pool", "delete", "main", "--yes"]);
}

/// The loss: 32 MiB of a kind that blkid does not know were formatted away without a question.
#[test]
fn a_volume_with_data_of_any_kind_is_not_formatted_unless_forced() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    let make = |name: &str| array.good(&["volume", "create", name, "--size", "64MiB"]);
    for (name, offset) in [("raw", 0), ("tail", 64 * MIB - 4096), ("middle", 33 * MIB)] {
        make(name);
        Nbd::connect(array.state(), name).write(offset, &[7; 4096]);
        array.refused(&["attach", name, "--format", "ext4"], &[name, "data", "--force"]);
        assert_eq!(Nbd::connect(array.state(), name).read(offset, 4096), [7; 4096]);
    }
    array.good(&["clone", "create", "copy", "--from", "raw"]);
    array.refused(&["attach", "copy", "--format", "xfs"], &["copy", "data"]);
    array.good(&["attach", "raw", "--format", "ext4", "--force", "--yes"]);
    array.good(&["detach", "raw"]);
    array.refused(&["attach", "raw", "--format", "ext4"], &["raw", "ext4"]);
    // Zeroes are no data, however they came.
    make("zero");
    let mut nbd = Nbd::connect(array.state(), "zero");
    nbd.write(0, &[0; 65536]);
    nbd.write(MIB, &[9; 8192]);
    nbd.unmap(MIB, 8192);
    drop(nbd);
    array.good(&["attach", "zero", "--format", "ext4"]);
    array.good(&["detach", "zero"]);
}

/// The loss: the file system was made before it was seen that the directory is none.
#[test]
fn a_directory_that_cannot_be_mounted_on_is_refused_before_anything_is_written() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "256MiB"]);
    array.good(&["volume", "create", "other", "--size", "256MiB"]);
    let text = |name: &str| array.path(name).display().to_string();
    std::fs::write(array.path("file"), b"kept").unwrap();
    std::os::unix::fs::symlink(array.path("nowhere"), array.path("link")).unwrap();
    array.good(&["attach", "other", "--format", "ext4", "--mount", &text("taken")]);
    let state = array.state().display().to_string();
    for directory in [&text("file"), &text("file/below"), &text("link"), &text("taken"), &state] {
        array.refused(&["attach", "db", "--format", "ext4", "--mount", directory], &[directory]);
        assert_eq!(array.json(&["volume", "show", "db"])["written_bytes"], 0, "{directory}");
    }
    // What was made for an attempt that failed goes with it.
    array.refused(&["attach", "db", "--mount", &text("new/deep")], &["db", "format"]);
    assert!(!array.path("new").exists());
    let body = format!(r#"{{"volume":"db","mount":"{}"}}"#, text("file"));
    let (status, answer) = array.http("POST", "/v1/attachments", Some(&body));
    assert_eq!(status, 400, "{answer}");
    array.good(&["attach", "db", "--format", "ext4", "--mount", &text("new/deep")]);
    array.good(&["detach", "db"]);
    array.good(&["detach", "other"]);
}

/// The loss: half of a file system was dropped at once.
#[test]
fn a_shrink_does_not_cut_through_a_file_system_unless_forced() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    for kind in ["ext4", "xfs", "btrfs"].into_iter().filter(|kind| can_make(kind)) {
        array.good(&["volume", "create", "db", "--size", "512MiB"]);
        attach_with(&array, kind, &array.path("mnt").display().to_string());
        array.good(&["detach", "db"]);
        let shrink = ["volume", "resize", "db", "--size", "256MiB", "--shrink", "--yes"];
        array.refused(&shrink, &["db", kind, "512 MiB", "--force"]);
        array.good(&["volume", "resize", "db", "--size", "1GiB"]);
        array.good(&["volume", "resize", "db", "--size", "512MiB", "--shrink", "--yes"]);
        if kind == "ext4" && has_program("resize2fs") {
            let device = array.good(&["attach", "db"]);
            run("e2fsck", &["-fp", device.trim()]);
            run("resize2fs", &[device.trim(), "200M"]);
            array.good(&["detach", "db"]);
            array.good(&shrink);
        } else {
            array.good(&[&shrink[..], &["--force"]].concat());
        }
        array.good(&["volume", "delete", "db", "--now", "--yes"]);
    }
    // A partition counts as what lies in it.
    array.good(&["volume", "create", "db", "--size", "512MiB", "--logical-block", "512"]);
    let mut table = [0; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&(600 * 2048_u32).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    Nbd::connect(array.state(), "db").write(0, &table);
    let shrink = ["volume", "resize", "db", "--size", "128MiB", "--shrink", "--yes"];
    array.refused(&shrink, &["db", "partition", "--force"]);
    array.good(&[&shrink[..], &["--force"]].concat());
}
