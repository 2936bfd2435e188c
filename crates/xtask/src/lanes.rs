//! The tests of the workspace in two lanes at once: those that mostly wait, for arrays, databases and disks,
//! and beside them, at a low priority, those that compute.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::namespace;

/// The packages whose tests wait, by the ends of their directories. They hold real programs to their times,
/// so nothing may go before them.
const WAITING: [&str; 3] = ["crates/control/cli", "crates/lab/disk", "crates/lab/workload"];

/// Of these some hold nothing to a time: they run beside the others, which end sooner.
const PATIENT: [&str; 8] = [
    "tests/database_snapshots.rs",
    "tests/databases.rs",
    "tests/forged.rs",
    "tests/imports.rs",
    "tests/inspect.rs",
    "tests/iscsi.rs",
    "tests/lab_bases.rs",
    "tests/schedules.rs",
];

/// How far the others stand back.
const NICE_OF_OTHERS: &str = "10";

/// A program of tests that cargo built.
struct Program {
    name: String,
    directory: PathBuf,
    executable: PathBuf,
}

/// Builds the tests, runs them all whichever fail, and hands each closing line to `closing`. `beside` runs
/// beside the tests.
pub fn run(
    root: &Path,
    mut cargo: Command,
    closing: impl Fn(&str) + Sync,
    beside: impl FnOnce() -> Result<(), String> + Send,
) -> Result<(), String> {
    let programs = build(&mut cargo)?;
    let is_patient = |program: &Program| PATIENT.iter().any(|end| program.name.ends_with(end));
    let is_waiting = |program: &Program| {
        WAITING.iter().any(|end| program.directory.ends_with(end)) && !is_patient(program)
    };
    let (waiting, others): (Vec<Program>, Vec<Program>) = programs.into_iter().partition(is_waiting);
    let failed = Mutex::new(Vec::new());
    let lane = |programs: &[Program], nice: &str| {
        for program in programs {
            let is_good = program.run(root, nice, &closing).unwrap_or_else(|message| {
                println!("{message}");
                false
            });
            if !is_good {
                failed.lock().expect("no holder of this lock panics").push(program.name.clone());
            }
        }
    };
    let beside = std::thread::scope(|scope| {
        let beside = scope.spawn(beside);
        scope.spawn(|| lane(&others, NICE_OF_OTHERS));
        lane(&waiting, "0");
        beside.join().unwrap_or_else(|_| Err("what ran beside the tests ended in a panic".to_string()))
    });
    let failed = failed.into_inner().expect("no holder of this lock panics");
    if !failed.is_empty() {
        return Err(format!("tests failed in {}", failed.join(", ")));
    }
    beside
}

fn build(cargo: &mut Command) -> Result<Vec<Program>, String> {
    cargo.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-run"]);
    cargo.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let built = cargo.output().map_err(|error| format!("cargo test did not start: {error}"))?;
    if !built.status.success() {
        return Err(format!("cargo test --no-run ended with {}", built.status));
    }
    let programs: Vec<Program> = String::from_utf8_lossy(&built.stdout).lines().filter_map(program).collect();
    if programs.is_empty() { Err("cargo built no tests".to_string()) } else { Ok(programs) }
}

/// The program of tests that a message of cargo tells of.
fn program(message: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let executable = PathBuf::from(message["executable"].as_str()?);
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let name = source.strip_prefix(&directory).unwrap_or(source).display().to_string();
    let package = directory.file_name()?.to_string_lossy().into_owned();
    Some(Program { name: format!("{package} {name}"), directory, executable })
}

impl Program {
    /// Runs the tests where cargo would. What they print is shown when they have ended, so that two lanes do
    /// not mix.
    fn run(&self, root: &Path, nice: &str, closing: &impl Fn(&str)) -> Result<bool, String> {
        let mut command = namespace::apart("nice");
        command.args(["-n", nice]).arg(&self.executable).current_dir(&self.directory);
        command.env("CARGO_MANIFEST_DIR", &self.directory).stderr(Stdio::inherit());
        let ended = command.output().map_err(|error| format!("{} did not start: {error}", self.name))?;
        let place = self.executable.strip_prefix(root).unwrap_or(&self.executable);
        let text = String::from_utf8_lossy(&ended.stdout);
        // A closed pipe below us is not a reason to leave the tests half run.
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "     Running {} ({})\n{text}", self.name, place.display());
        text.lines().for_each(closing);
        if !ended.status.success() {
            let _ = writeln!(out, "{} ended with {}\n", self.name, ended.status);
        }
        Ok(ended.status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_told_from_what_else_cargo_builds() {
        let message = |is_test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/control/cli/Cargo.toml",
                "target":{{"src_path":"/w/crates/control/cli/tests/late.rs"}},"profile":{{"test":{is_test}}},
                "executable":{executable}}}"#
            )
        };
        let found = program(&message(true, "\"/w/target/debug/deps/late-1\"")).expect("it is one");
        assert_eq!(
            (found.name.as_str(), found.directory),
            ("cli tests/late.rs", "/w/crates/control/cli".into())
        );
        assert!(program(&message(false, "\"/w/target/debug/ashlar\"")).is_none(), "a program");
        assert!(program(&message(true, "null")).is_none(), "checked only");
        assert!(program("{\"reason\":\"build-finished\"}").is_none());
    }
}
