//! Attaching where something is odd: what lies on the volume is not for this kernel, or /dev is a
//! container's.

#![allow(clippy::unwrap_used)]

mod support;

use std::process::{Command, Stdio};

use support::nbd::Nbd;
use support::{Array, can_attach, has_program};

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The answer was "Invalid argument, see doctor", which knew nothing of it either.
#[test]
fn what_the_kernel_does_not_mount_is_told_with_its_reason() {
    if !can_attach() || !has_program("mkfs.ext4") {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "small", "--size", "64MiB"]);
    // Made as a file, where blocks of 1 KiB are fine.
    let image = array.path("image");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    run("mkfs.ext4", &["-qF", "-b", "1024", &image.display().to_string()]);
    let mut nbd = Nbd::connect(array.state(), "small");
    for (number, piece) in std::fs::read(&image).unwrap().chunks(1 << 20).enumerate() {
        nbd.write((number as u64) << 20, piece);
    }
    drop(nbd);
    let mount = array.path("mnt").display().to_string();
    array.refused(&["attach", "small", "--mount", &mount], &["`small`", "ext4", "Invalid argument", ";"]);
    let body = format!(r#"{{"volume":"small","mount":"{mount}"}}"#);
    let (status, answer) = array.http("POST", "/v1/attachments", Some(&body));
    assert_eq!(status, 400, "{answer}");
    assert!(
        answer.contains("the kernel says: EXT4-fs") || answer.contains("--logical-block 512"),
        "{answer}"
    );
    // Nothing stays of the attempts.
    assert_eq!(array.http("GET", "/v1/attachments", None).1, "[]");
    assert!(!array.path("mnt").exists());
}

#[test]
fn a_partition_table_is_named_as_one() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "vm", "--size", "64MiB", "--logical-block", "512"]);
    let mut table = [0; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&4096_u32.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    Nbd::connect(array.state(), "vm").write(0, &table);
    let mount = array.path("mnt").display().to_string();
    array.refused(&["attach", "vm", "--mount", &mount], &["partition table (dos)", "partx"]);
    array.good(&["attach", "vm"]);
    array.good(&["detach", "vm"]);
}

/// The kernel gives out a free number, and in a container nobody makes its node.
#[test]
fn a_missing_loop_node_is_made_where_it_may_be() {
    if !can_attach() {
        return;
    }
    let mut array = Array::unstarted();
    array.start_in_bare_dev();
    let drive = format!("{},size=256MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let device = array.good(&["attach", "db"]);
    let seen = format!("/proc/{}/root{}", array.pid(), device.trim());
    assert!(std::fs::symlink_metadata(seen).is_ok(), "{device}");
    array.good(&["detach", "db"]);
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
}
