//! The array as a process: start, second array, stop, crash, settings, broken pools.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use support::{Array, done, has_program};

#[test]
fn a_second_array_on_one_state_directory_is_refused() {
    let array = Array::with_pool();
    let second = done(array.serve_command().output().unwrap());
    assert_eq!(second.status, 1);
    assert_eq!(second.err.lines().count(), 1, "{}", second.err);
    assert!(second.err.contains("another array serves"), "{}", second.err);
    assert_eq!(array.json(&["pool", "show", "main"])["state"], "online");
}

#[test]
fn a_termination_signal_stops_in_order_and_a_new_start_finds_everything() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    assert!(!array.state().join("api.sock").exists());
    assert!(!array.state().join("api.port").exists());
    array.start();
    assert_eq!(array.json(&["volume", "show", "db"])["size_bytes"], 1 << 30);
    assert_eq!(array.json(&["snapshot", "show", "noon"])["volumes"][0], "db");
    let status = array.json(&["status"]);
    assert_eq!(status["pools"][0]["recovery"]["groups_replayed"], 0, "a closed pool has nothing to replay");
    assert_eq!(array.end(rustix::process::Signal::INT), Some(0));
}

/// After a kill the kernel keeps the lock of a drive until what was in flight has ended. An array that was
/// started at once met it, and its pool stayed closed.
#[test]
fn a_pool_opens_once_its_drives_are_let_go() {
    let mut array = Array::with_pool();
    array.kill();
    let held = std::fs::File::open(array.path("main.img")).unwrap();
    held.lock().unwrap();
    let log = array.path("log");
    let letting_go = std::thread::spawn(move || {
        while !std::fs::read_to_string(&log).unwrap_or_default().contains("tried again") {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        drop(held);
    });
    array.start();
    letting_go.join().unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while array.json(&["pool", "show", "main"])["state"] != "online" {
        assert!(std::time::Instant::now() < end, "{}", array.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_killed_array_loses_nothing_that_was_acknowledged() {
    let mut array = Array::with_pool();
    for name in ["db", "gone"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    array.good(&["volume", "delete", "gone", "--now", "--yes"]);
    let has_data = has_program("nbdcopy") && {
        copy_in(&array, "db", 3);
        true
    };
    array.good(&["snapshot", "create", "noon", "db"]);
    array.good(&["clone", "create", "copy", "--from", "noon"]);
    for round in 0..3 {
        array.kill();
        array.start();
        assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 2, "round {round}");
        assert_eq!(array.json(&["snapshot", "list"])[0]["name"], "noon");
        let report = array.json(&["pool", "check", "main"]);
        assert_eq!(report["errors"], serde_json::json!([]));
    }
    if has_data {
        for name in ["db", "copy"] {
            assert!(copy_out(&array, name) == content(3), "{name} differs");
        }
        // Restored in place after new writes, through a crash.
        copy_in(&array, "db", 4);
        array.good(&["snapshot", "restore", "noon", "--no-backup", "--yes"]);
        array.kill();
        array.start();
        assert!(copy_out(&array, "db") == content(3));
    }
}

/// 64 MiB that no compressor can make much of, different for each seed.
fn content(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    (0..16 << 20).flat_map(|_| next().to_le_bytes()).collect()
}

fn uri(array: &Array, volume: &str) -> String {
    format!("nbd+unix:///{volume}?socket={}", array.state().join("nbd.sock").display())
}

fn copy_in(array: &Array, volume: &str, seed: u64) {
    let mut child = Command::new("nbdcopy")
        .args(["--flush", "-", &uri(array, volume)])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&content(seed)).unwrap();
    assert!(child.wait().unwrap().success());
}

fn copy_out(array: &Array, volume: &str) -> Vec<u8> {
    let output = Command::new("nbdcopy").args([&uri(array, volume), "-"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_volume_in_use_over_nbd_is_not_deleted() {
    if !has_program("nbdcopy") {
        return;
    }
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    copy_in(&array, "db", 5);
    // Reading from us into a pipe that nobody empties keeps the connection open.
    let mut child =
        Command::new("nbdcopy").args([&uri(&array, "db"), "-"]).stdout(Stdio::piped()).spawn().unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let io: serde_json::Value = serde_json::from_str(&array.http("GET", "/v1/io", None).1).unwrap();
        let is_read =
            |door: &serde_json::Value| door["volume"] == "db" && door["operations"][0]["count"] != 0;
        if io.as_array().unwrap().iter().any(is_read) {
            break;
        }
        assert!(std::time::Instant::now() < end, "nbdcopy does not read");
    }
    array.refused(&["volume", "delete", "db", "--now", "--yes"], &["`db`", "NBD"]);
    child.kill().unwrap();
    child.wait().unwrap();
    while array.run(&["volume", "delete", "db", "--now", "--yes"]).status != 0 {
        assert!(std::time::Instant::now() < end, "the connection stays");
    }
}

#[test]
fn a_pool_that_does_not_open_is_reported_and_the_others_serve() {
    let mut array = Array::with_pool();
    let drive = format!("{},size=256MiB", array.path("second.img").display());
    array.good(&["pool", "create", "second", "--drive", &drive]);
    array.good(&["volume", "create", "db", "--size", "1GiB", "--pool", "main"]);
    array.good(&["volume", "create", "lost", "--size", "1GiB", "--pool", "second"]);
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(array.path("second.img"), array.path("away.img")).unwrap();
    array.start();
    let pool = array.json(&["pool", "show", "second"]);
    assert_eq!(pool["state"], "waiting");
    assert!(pool["reason"].as_str().unwrap().contains("second.img"), "{pool}");
    assert!(pool.get("space").is_none());
    assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 1);
    array.refused(&["volume", "create", "x", "--size", "1GiB", "--pool", "second"], &["second", "import"]);
    array.refused(&["pool", "check", "second"], &["second"]);
    array.refused(&["pool", "delete", "second", "--yes"], &["second"]);
    array.refused(&["pool", "import", "second"], &["second.img"]);
    array.good(&["volume", "create", "more", "--size", "1GiB"]);
    std::fs::rename(array.path("away.img"), array.path("second.img")).unwrap();
    array.good(&["pool", "import", "second"]);
    assert_eq!(array.json(&["volume", "show", "lost"])["pool"], "second");
}

#[test]
fn a_drive_swapped_with_another_pools_or_truncated_is_refused() {
    let mut array = Array::with_pool();
    let drive = format!("{},size=256MiB", array.path("second.img").display());
    array.good(&["pool", "create", "second", "--drive", &drive]);
    assert_eq!(array.terminate(), Some(0));
    let (main, second) = (array.path("main.img"), array.path("second.img"));
    std::fs::rename(&main, array.path("third.img")).unwrap();
    std::fs::rename(&second, &main).unwrap();
    std::fs::rename(array.path("third.img"), &second).unwrap();
    array.start();
    for name in ["main", "second"] {
        let pool = array.json(&["pool", "show", name]);
        assert_eq!(pool["state"], "failed", "{pool}");
        assert!(pool["reason"].as_str().unwrap().contains("carry pool"), "{pool}");
    }
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(&main, array.path("third.img")).unwrap();
    std::fs::rename(&second, &main).unwrap();
    std::fs::rename(array.path("third.img"), &second).unwrap();
    std::fs::File::options().write(true).open(&second).unwrap().set_len(100 << 20).unwrap();
    array.start();
    assert_eq!(array.json(&["pool", "show", "main"])["state"], "online");
    let pool = array.json(&["pool", "show", "second"]);
    assert_eq!(pool["state"], "failed", "{pool}");
    assert!(pool["reason"].as_str().unwrap().contains("second.img"), "{pool}");
}

#[test]
fn wrong_settings_end_the_start_with_one_line() {
    let array = Array::unstarted();
    for (text, words) in [
        ("cashe_bytes = 1", ["line 1", "cashe_bytes"]),
        ("cache_bytes = \"1 parsec\"", ["line 1", "parsec"]),
        ("nbd_tcp = \"0.0.0.0:10809\"", ["line 1", "loopback"]),
        ("io_driver = 7", ["line 1", "settings.md"]),
    ] {
        array.configure(text);
        let done = done(array.serve_command().output().unwrap());
        assert_eq!(done.status, 1, "{text}");
        assert_eq!(done.err.lines().count(), 1, "{}", done.err);
        for word in words {
            assert!(done.err.contains(word), "{text}: {}", done.err);
        }
    }
    array.configure("");
    let done = done(array.serve_command().args(["--config", "/nonexistent.toml"]).output().unwrap());
    assert_eq!(done.status, 2, "one settings file is enough");
}

#[test]
fn taken_ports_are_reported_and_only_one_that_was_asked_for_ends_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut array = Array::unstarted();
    let mut command = Command::new(support::program());
    let refused =
        done(command.args(["serve", "--api", &address, "--state"]).arg(array.state()).output().unwrap());
    assert_eq!(refused.status, 1);
    let last = refused.err.lines().last().unwrap();
    assert!(last.contains(&address) && last.contains("127.0.0.1:0"), "{}", refused.err);
    array.configure(&format!("nbd_tcp = \"{address}\"\n"));
    array.start();
    let doors = array.json(&["status"])["doors"].clone();
    let state = |transport: &str| {
        let is_it = |door: &&serde_json::Value| door["name"] == "nbd" && door["transport"] == transport;
        doors.as_array().unwrap().iter().find(is_it).unwrap()["state"].clone()
    };
    assert_eq!(state("tcp"), "failed");
    assert_eq!(state("unix"), "serving");
}

#[test]
fn the_supervisor_is_told_and_the_journal_gets_priorities() {
    let mut array = Array::unstarted();
    let path = array.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let mut command = array.serve_command();
    command
        .env("NOTIFY_SOCKET", &path)
        .env("JOURNAL_STREAM", "1:2")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let mut heard = [0_u8; 64];
    let length = socket.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"READY=1");
    assert_eq!(array.json(&["status"])["process_id"], child.id());
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    let length = socket.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"STOPPING=1");
    let done = done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 0);
    assert!(done.err.lines().all(|line| line.starts_with('<')), "{}", done.err);
    array.start();
    assert!(array.log().lines().any(|line| line.starts_with("info: ")));
}

#[test]
fn an_idle_array_is_small_and_sleeps() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1TiB"]);
    let before = array.json(&["status"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let after = array.json(&["status"]);
    assert!(after["memory_resident_bytes"].as_u64().unwrap() < 200 << 20, "{after}");
    let used = after["cpu_micros"].as_u64().unwrap() - before["cpu_micros"].as_u64().unwrap();
    assert!(used < 40_000, "an idle array used {used} us of 2 s");
}

#[test]
fn a_full_state_directory_refuses_what_it_cannot_remember_and_goes_on() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to mount a small file system");
        return;
    }
    let mut array = Array::unstarted();
    let _mounted = support::on_small_state(&array, "64k");
    array.start();
    let first = format!("{},size=256MiB", array.path("first.img").display());
    array.good(&["pool", "create", "first", "--drive", &first]);
    let filler = array.state().join("filler");
    let _ = std::fs::write(&filler, vec![0_u8; 1 << 20]);
    let second = array.path("second.img").display().to_string();
    let create = ["pool", "create", "second", "--drive", &format!("{second},size=256MiB")];
    let told = array.run(&create).err;
    // A repeated create would be refused: the pool is on its drive.
    assert!(told.contains("free space") && told.contains("ashlar pool import second"), "{told}");
    assert!(!told.contains("repeat"), "{told}");
    assert_eq!(array.json(&["pool", "list"]).as_array().unwrap().len(), 1);
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    std::fs::remove_file(filler).unwrap();
    array.good(&["pool", "import", "second", "--drive", &second]);
    assert_eq!(array.terminate(), Some(0));
}
