//! `ashlar lab`: what it measures, what it refuses, and that nothing of it stays.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Done, can_attach, done, program};

fn lab(arguments: &[&str]) -> Done {
    done(Command::new(program()).arg("lab").args(arguments).stdin(Stdio::null()).output().unwrap())
}

/// A directory on a file system that takes direct I/O.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn a_directory_is_examined_and_left_as_it_was() {
    let (target, kept) = (directory(), directory());
    let (path, output) = (target.path().display().to_string(), kept.path().join("doctor"));
    let output_text = output.display().to_string();
    let took = ["doctor", "--target", &path, "--time", "10s", "--size", "64MiB", "--output", &output_text];
    let done = lab(&took);
    assert!([0, 4].contains(&done.status), "{}{}", done.out, done.err);
    assert!(
        done.out.contains("A commit waits") && done.out.contains("Does fsync reach the drive?"),
        "{}",
        done.out
    );
    assert!(done.err.contains("13/13") && done.err.contains("left)"), "how far it is: {}", done.err);
    assert!(is_empty(target.path()), "nothing stays");
    let json = std::fs::read_to_string(output.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(result["size_bytes"], 64 << 20);
    assert_eq!(result["steps"].as_array().unwrap().len(), 12);
    assert!(result["steps"].as_array().unwrap().iter().all(|step| step["requests"].as_u64().unwrap() > 0));
    assert_eq!(result["compared"]["wrong"], 0);
    assert!(result["compared"]["reads"].as_u64().unwrap() > 4000);
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("http"), "a page with pictures that needs no network");
    for step in ["fill", "commits", "load-50"] {
        assert!(
            output.join(format!("fio/{step}.fio")).is_file()
                && output.join(format!("fio/{step}.json")).is_file()
        );
    }
    let done = lab(&took);
    assert!(done.status == 2 && done.err.contains(&output_text), "results are never mixed: {}", done.err);
}

#[test]
fn what_cannot_be_examined_is_told_before_anything_is_written() {
    let target = directory();
    let path = target.path().display().to_string();
    let file = target.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let file = file.display().to_string();
    for (arguments, word) in [
        (&["--target", "/nowhere"][..], "No such file"),
        (&["--target", &file], "not a directory"),
        (&["--target", "block:/nowhere", "--destroy"], "No such file"),
        (&["--target", &format!("block:{file}"), "--destroy"], "not a block device"),
        (&["--target", &path, "--size", "16MiB"], "64.0 MiB are needed"),
        (&["--target", &path, "--size", "900TiB"], "are free"),
    ] {
        let done = lab(&[&["doctor"], arguments].concat());
        assert!(done.status == 2 && done.err.contains(word), "{arguments:?}: {} {}", done.status, done.err);
    }
    for wrong in ["--time=5s", "--time=ten", "--time=10", "--size=100"] {
        assert_eq!(lab(&["doctor", "--target", &path, wrong]).status, 2);
    }
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 1, "nothing but the file is there");
}

#[test]
fn a_device_is_overwritten_only_with_leave_and_when_nobody_uses_it() {
    if !can_attach() {
        return;
    }
    let array = support::Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "256MiB"]);
    let mount = array.path("mnt");
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount.display().to_string()]);
    let device = array.json(&["volume", "show", "db"])["device"].as_str().unwrap().to_string();
    let target = format!("block:{device}");
    for (arguments, word) in [
        (&["doctor", "--target", &target][..], "--destroy"),
        (&["doctor", "--target", &device], "block:/dev/"),
        (&["doctor", "--target", &target, "--destroy"], "mounted or in use"),
    ] {
        let done = lab(arguments);
        assert!(done.status == 2 && done.err.contains(word), "{arguments:?}: {}", done.err);
    }
    array.good(&["detach", "db"]);
    array.good(&["attach", "db"]);
    let device = array.json(&["volume", "show", "db"])["device"].as_str().unwrap().to_string();
    let target = format!("block:{device}");
    let done =
        lab(&["doctor", "--target", &target, "--destroy", "--time", "10s", "--size", "64MiB", "--json"]);
    assert!([0, 4].contains(&done.status), "{}{}", done.out, done.err);
    let result: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(result["compared"]["wrong"], 0);
    array.good(&["detach", "db"]);
}

#[test]
fn an_interruption_ends_it_with_what_was_measured() {
    let target = directory();
    let mut command = Command::new(program());
    command.args(["lab", "doctor", "--time", "5m", "--size", "64MiB", "--target"]).arg(target.path());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while is_empty(target.path()) && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(5));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let done = done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 3, "{}{}", done.out, done.err);
    assert!(begun.elapsed() < Duration::from_secs(60) && done.err.contains("interrupted"), "{}", done.err);
    assert!(done.out.contains("This is a part"), "{}", done.out);
    assert!(is_empty(target.path()), "nothing stays");
}
