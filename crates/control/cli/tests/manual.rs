//! Manual pages and completions: made from the command line's definition, and read by what they are for.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;

use support::{done, has_program, program};

fn good(arguments: &[&str]) -> String {
    let done = done(Command::new(program()).args(arguments).output().unwrap());
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{arguments:?}");
    done.out
}

#[test]
fn every_command_has_a_manual_page_that_groff_takes() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("man8");
    let told = good(&["man", directory.to_str().unwrap(), "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let pages: Vec<String> = told["pages"].as_array().unwrap().iter().map(text_of).collect();
    // The generated reference names every command that people see.
    good(&["reference", scratch.path().to_str().unwrap()]);
    let reference = std::fs::read_to_string(scratch.path().join("cli.md")).unwrap();
    let commands: Vec<&str> = reference.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(commands.len() > 25, "{} commands", commands.len());
    for command in &commands {
        let name = format!("{}.8", command.replace(' ', "-"));
        assert!(pages.contains(&name), "{name} is not in {pages:?}");
        let text = std::fs::read_to_string(directory.join(&name)).unwrap();
        for heading in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH EXAMPLES"] {
            assert!(text.contains(heading), "{name} has no {heading}");
        }
    }
    assert_eq!(pages.len(), commands.len(), "{pages:?}");
    if has_program("groff") {
        let text = formatted(&directory.join("ashlar-pool-create.8"));
        for words in ["ashlar-pool-create", "--drive", "EXAMPLES", "ashlar pool create"] {
            assert!(text.contains(words), "`{words}` is not in:\n{text}");
        }
    }
}

fn text_of(value: &serde_json::Value) -> String {
    value.as_str().unwrap().to_string()
}

/// The page as a terminal without letters beyond ASCII shows it. Whatever groff has to say about it fails.
fn formatted(page: &Path) -> String {
    let shown = done(Command::new("groff").args(["-man", "-Tascii", "-P-cbou"]).arg(page).output().unwrap());
    assert_eq!((shown.status, shown.err.as_str()), (0, ""), "{}", page.display());
    shown.out
}

#[test]
fn bash_completes_commands_and_options_and_no_hidden_command() {
    let scratch = tempfile::tempdir().unwrap();
    let script = scratch.path().join("ashlar.bash");
    std::fs::write(&script, good(&["completions", "bash"])).unwrap();
    let complete = |words: &[&str]| {
        let (current, before) = (words[words.len() - 1], words[words.len() - 2]);
        let typed = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={}; _ashlar ashlar '{current}' '{before}'; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
        );
        let done = done(Command::new("bash").args(["--norc", "-c", &typed]).output().unwrap());
        assert_eq!((done.status, done.err.as_str()), (0, ""), "{words:?}");
        done.out.trim().to_string()
    };
    assert_eq!(complete(&["ashlar", "pool", "cre"]), "create");
    assert_eq!(complete(&["ashlar", "volume", "create", "--prof"]), "--profile");
    assert_eq!(complete(&["ashlar", "kee"]), "", "a command that is hidden");
    assert_eq!(complete(&["ashlar", "completions", "z"]), "zsh");
}

#[test]
fn zsh_and_fish_get_scripts_of_their_own() {
    let scratch = tempfile::tempdir().unwrap();
    for (shell, begin, words) in [("zsh", "#compdef ashlar", "--drive"), ("fish", "", "-l drive")] {
        let script = good(&["completions", shell]);
        assert!(script.starts_with(begin) && script.contains(words), "{shell}");
        assert!(!script.contains("database-work"), "{shell} completes a hidden command");
        if has_program(shell) {
            let path = scratch.path().join(shell);
            std::fs::write(&path, &script).unwrap();
            let checked = done(Command::new(shell).arg("-n").arg(&path).output().unwrap());
            assert_eq!((checked.status, checked.err.as_str()), (0, ""), "{shell}");
        }
    }
    let told: serde_json::Value = serde_json::from_str(&good(&["completions", "fish", "--json"])).unwrap();
    assert_eq!(told["shell"], "fish");
    assert!(told["script"].as_str().unwrap().contains("-l drive"));
    let refused = done(Command::new(program()).args(["completions", "csh"]).output().unwrap());
    assert_eq!(refused.status, 2);
}
