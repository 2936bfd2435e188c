//! The generated reference pages are fresh, and every command has an example in its help.

#![allow(clippy::unwrap_used)]

use std::process::Command;

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference");

fn ashlar(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_ashlar")).args(arguments).output().unwrap()
}

#[test]
fn the_reference_pages_are_fresh() {
    // `ASHLAR_BLESS=1 cargo test -p ashlar-cli --test reference` writes them anew.
    if std::env::var_os("ASHLAR_BLESS").is_some() {
        assert!(ashlar(&["reference", REFERENCE]).status.success());
    }
    let checked = ashlar(&["reference", "--check", REFERENCE]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn every_command_has_an_example_in_its_help() {
    let scratch = tempfile::tempdir().unwrap();
    assert!(ashlar(&["reference", scratch.path().to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(scratch.path().join("cli.md")).unwrap();
    let commands: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert!(commands.len() > 25, "{} commands", commands.len());
    for command in commands {
        let name = command.lines().next().unwrap();
        assert!(command.contains("Example:\n  ashlar"), "`{name}` has no example");
    }
}

#[test]
fn doctor_looks_without_changing_anything() {
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path().join("not/yet");
    let output = ashlar(&["doctor", "--json", "--state", state.to_str().unwrap()]);
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for finding in findings.as_array().unwrap() {
        let is_good = finding["verdict"] == "good";
        assert_eq!(is_good, finding["action"] == "", "{finding}");
    }
    assert!(!state.exists());
    let long = scratch.path().join("x".repeat(120));
    let output = ashlar(&["doctor", "--state", long.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
}
