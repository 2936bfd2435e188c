//! Settings that change while the array runs, and how the log is written.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::Array;

fn value(array: &Array, name: &str) -> String {
    let (status, body) = array.http("GET", "/v1/settings", None);
    assert_eq!(status, 200, "{body}");
    let all: Value = serde_json::from_str(&body).unwrap();
    let setting = all["settings"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    setting["value"].as_str().unwrap().to_string()
}

#[test]
fn a_reload_changes_what_can_change_and_names_what_waits_for_a_start() {
    let array = Array::with_pool();
    assert_eq!(value(&array, "deleted_volumes_hours"), "24");
    array.configure("deleted_volumes_hours = 48\ncache_bytes = \"64MiB\"\n");
    let done = array.json(&["reload"]);
    assert_eq!(done["changed"], json!(["deleted_volumes_hours"]), "{done}");
    assert_eq!(done["needs_restart"], json!(["cache_bytes"]), "{done}");
    assert_eq!(value(&array, "deleted_volumes_hours"), "48");
    assert_eq!(value(&array, "cache_bytes"), (256 << 20).to_string(), "it is not in force");
    // In force, and not only shown.
    array.good(&["volume", "create", "db", "--size", "1MiB"]);
    assert_eq!(array.json(&["volume", "delete", "db", "--yes"])["recoverable_seconds"], 48 * 3600);
    let text = array.good(&["reload"]);
    assert_eq!(text, "changed: nothing\nat the next start: cache_bytes\n");
    // A mistake changes nothing, and is told with its line.
    array.configure("deleted_volumes_hours = 12\ncashe_bytes = 1\n");
    array.refused(&["reload"], &["line 2", "cashe_bytes", "ashlar.toml"]);
    assert_eq!(value(&array, "deleted_volumes_hours"), "48");
}

/// The harm: a pipe as settings file held the answer up for ever; one that was gone was the machine's fault.
#[test]
fn a_reload_from_what_is_no_settings_file_is_refused_at_once() {
    let array = Array::started();
    array.configure("scrub_interval_days = 7\nevent_command = [\"mail\"]\n");
    let file = array.path("ashlar.toml");
    let refused = |word: &str| {
        let begun = Instant::now();
        let answer = array.ask("POST", "/v1/reload", "", None);
        let problem = answer.json();
        assert!(begun.elapsed() < Duration::from_secs(5), "{word}");
        assert_eq!((answer.status, &problem["reason"]), (400, &json!("wrong-settings")), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("ashlar.toml") && detail.contains(word), "{detail}");
        assert!(!problem["remedy"]["command"].as_str().unwrap().is_empty(), "{problem}");
    };
    refused("line 2: event_command");
    std::fs::remove_file(&file).unwrap();
    refused("there is none");
    std::fs::create_dir(&file).unwrap();
    refused("it is no file");
    std::fs::remove_dir(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    refused("it is no file");
}

#[test]
fn a_hangup_reads_the_settings_again_and_ends_nothing() {
    let array = Array::started();
    let hang_up = || {
        let process = rustix::process::Pid::from_raw(array.pid().cast_signed()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
    };
    array.wait_for_events(&["array: ready"]);
    array.configure("log_format = \"json\"\n");
    hang_up();
    array.wait_for_events(&["log_format changed"]);
    array.configure("log_format = \"xml\"\n");
    hang_up();
    array.wait_for_events(&["not read again", "xml"]);
    // The lines from then on are JSON, those before were words.
    let log = array.log();
    let line = log.lines().find(|line| line.contains("not read again")).unwrap();
    let event: Value = serde_json::from_str(line).unwrap();
    assert_eq!((event["level"].as_str(), event["object"].as_str()), (Some("warning"), Some("settings")));
    assert!(log.lines().any(|line| line.starts_with("info: array: ready")), "{log}");
}

#[test]
fn a_log_in_json_is_json_from_its_first_line_on() {
    let array = Array::unstarted();
    array.configure("log_format = \"json\"\n");
    let mut command = array.serve_command();
    let child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn();
    let child = child.unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while array.run(&["status"]).status != 0 {
        assert!(Instant::now() < end, "it does not answer");
        std::thread::sleep(Duration::from_millis(10));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let done = support::done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 0, "{}", done.err);
    let events: Vec<Value> = done.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sequences: Vec<u64> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<u64>>());
    assert!(events.iter().any(|event| event["message"] == "stopped"), "{}", done.err);
}

#[test]
fn without_a_settings_file_there_is_nothing_to_read_again() {
    let array = Array::unstarted();
    let mut command = std::process::Command::new(support::program());
    command.args(["serve", "--state"]).arg(array.state());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while array.run(&["status"]).status != 0 {
        assert!(Instant::now() < end, "it does not answer");
        std::thread::sleep(Duration::from_millis(10));
    }
    array.refused(&["reload"], &["without a settings file", "--config"]);
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}
