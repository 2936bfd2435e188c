//! Events that are handed on: to a real command and to a real web server, and never in the array's way.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::Array;

const PATIENCE: Duration = Duration::from_secs(30);

/// A script that keeps each event that it gets as a line of a file.
fn script(array: &Array) -> (PathBuf, PathBuf) {
    let (path, file) = (array.path("keep.sh"), array.path("kept"));
    std::fs::write(&path, "#!/bin/sh\ncat >> \"$1\"\necho >> \"$1\"\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    (path, file)
}

/// A web server that takes whatever is posted.
fn server(listener: TcpListener) -> Receiver<(String, Value)> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut read = Vec::new();
            let mut part = [0; 4096];
            let (head, body) = loop {
                let count = stream.read(&mut part).unwrap();
                assert!(count > 0, "half a request: {}", String::from_utf8_lossy(&read));
                read.extend_from_slice(&part[..count]);
                let text = String::from_utf8_lossy(&read).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let lower = head.to_ascii_lowercase();
                let (_, length) = lower.split_once("content-length: ").unwrap();
                if body.len() == length.lines().next().unwrap().parse::<usize>().unwrap() {
                    break (head.to_string(), serde_json::from_str(body).unwrap());
                }
            };
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    receiver
}

fn is_about(event: &Value, object: &str, message: &str) -> bool {
    event["object"] == object && event["message"].as_str().unwrap().contains(message)
}

fn next_about(events: &Receiver<(String, Value)>, object: &str, message: &str) -> (String, Value) {
    let end = Instant::now() + PATIENCE;
    loop {
        let (head, event) = events.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap();
        if is_about(&event, object, message) {
            return (head, event);
        }
    }
}

fn kept(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    // The last line may be half written.
    text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
}

fn wait_kept(file: &Path, object: &str, message: &str) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(event) = kept(file).into_iter().find(|event| is_about(event, object, message)) {
            return event;
        }
        assert!(Instant::now() < end, "nothing about {object} in {:?}", kept(file));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_and_a_web_server_get_every_event_from_the_minimum_on() {
    let mut array = Array::unstarted();
    let (script, file) = script(&array);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let posted = server(listener);
    let settings = |minimum: &str| {
        format!(
            "event_minimum = \"{minimum}\"\nevent_command = [\"{}\", \"{}\"]\n\
             event_webhook = \"http://{address}/hook?key=1\"\n",
            script.display(),
            file.display()
        )
    };
    array.configure(&settings("info"));
    array.start();
    let drive = format!("{},size=1GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["volume", "create", "db", "--size", "1MiB"]);
    let (head, event) = next_about(&posted, "volume db", "");
    assert!(head.starts_with("POST /hook?key=1 HTTP/1.1"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
    let same = wait_kept(&file, "volume db", "");
    assert_eq!(event, same);
    let listed = array.json(&["events"]);
    let listed = listed.as_array().unwrap().iter().find(|one| one["object"] == "volume db").unwrap().clone();
    for field in ["sequence", "unix_millis", "level", "object", "message"] {
        assert_eq!(event[field], listed[field], "{field}");
    }
    assert!(!event["boot_id"].as_str().unwrap().is_empty() && event["machine"].is_string(), "{event}");

    // Below the minimum nothing goes out: what comes next is the warning.
    array.configure(&settings("warning"));
    array.good(&["reload"]);
    array.good(&["volume", "create", "other", "--size", "1MiB"]);
    array.configure("log_format = 7\n");
    array.refused(&["reload"], &["log_format"]);
    let process = rustix::process::Pid::from_raw(array.pid().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
    next_about(&posted, "settings", "not read again");
    wait_kept(&file, "settings", "not read again");
    assert!(!kept(&file).iter().any(|event| event["object"] == "volume other"), "{:?}", kept(&file));
    // In order, and none twice.
    let sequences: Vec<u64> = kept(&file).iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
}

#[test]
fn receivers_that_fail_are_told_once_and_hold_nothing_up() {
    let mut array = Array::unstarted();
    // A port that nobody listens at, and one where nobody answers.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    array.configure(&format!(
        "event_minimum = \"info\"\nevent_command = [\"/bin/false\", \"hunter2\"]\n\
         event_webhook = \"http://127.0.0.1:{port}/hunter2\"\n"
    ));
    array.start();
    let drive = format!("{},size=1GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    let begun = Instant::now();
    for number in 0..20 {
        array.good(&["volume", "create", &format!("v{number}"), "--size", "1MiB"]);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "commands waited: {:?}", begun.elapsed());
    array.wait_for_events(&[
        "event command: /bin/false ended with",
        &format!("event webhook: http://127.0.0.1:{port}: connect"),
    ]);
    array.good(&["volume", "create", "last", "--size", "1MiB"]);
    let told = |object: &str| {
        let events = array.json(&["events"]);
        events.as_array().unwrap().iter().filter(|event| event["object"] == object).count()
    };
    assert_eq!((told("event command"), told("event webhook")), (1, 1), "{}", array.log());
    assert!(!array.log().contains("hunter2"), "arguments and paths may be secrets");

    // One that comes back is told, and gets what happens from then on.
    let posted = server(TcpListener::bind(("127.0.0.1", port)).unwrap());
    array.good(&["volume", "create", "after", "--size", "1MiB"]);
    next_about(&posted, "volume after", "");
    array.wait_for_events(&["event webhook: takes events again"]);
    assert_eq!(told("event command"), 1);
    let begun = Instant::now();
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    assert!(begun.elapsed() < Duration::from_secs(10), "the stop waited: {:?}", begun.elapsed());
}

#[test]
fn a_receiver_that_hangs_is_no_reason_to_wait_at_the_stop() {
    let mut array = Array::unstarted();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = array.path("left");
    let left = format!("setsid sh -c 'echo $$ >> {}; exec sleep 600' & sleep 600", file.display());
    array.configure(&format!(
        "event_minimum = \"info\"\nevent_command = [\"/bin/sh\", \"-c\", \"{left}\"]\n\
         event_webhook = \"http://{}/\"\n",
        silent.local_addr().unwrap()
    ));
    array.start();
    array.wait_for_events(&["array: ready"]);
    let process = || std::fs::read_to_string(&file).unwrap_or_default().trim().to_string();
    let end = Instant::now() + PATIENCE;
    while process().is_empty() {
        assert!(Instant::now() < end, "the command was not run");
        std::thread::sleep(Duration::from_millis(10));
    }
    let begun = Instant::now();
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    assert!(begun.elapsed() < Duration::from_secs(10), "the stop waited: {:?}", begun.elapsed());
    // The harm: what it had started went on, also in a session of its own.
    let name = format!("/proc/{}/comm", process());
    while std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep") {
        assert!(begun.elapsed() < PATIENCE, "process {} is still there", process());
        std::thread::sleep(Duration::from_millis(10));
    }
}
