//! `cargo xtask ci`: the steps CI runs, each with its name, its time and one verdict.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::{fuzz, tidy};

/// Seeds of the simulator in CI. The nightly run and `ashlar sim --seeds N` take more.
const SIMULATOR_SEEDS: &str = "200";

/// Seconds each fuzz target runs in CI: enough to replay its seeds and find a fresh regression;
/// deeper searches are `cargo xtask fuzz --seconds N`.
const FUZZ_SECONDS: &str = "5";

/// How many tests passed and failed, as cargo's own closing lines tell.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
}

type StepFunction = fn(&Path, &mut Tally) -> Result<(), String>;

/// Cheapest first, so that a slip is told within seconds.
const STEPS: [(&str, StepFunction); 6] = [
    ("format", |root, _| command(root, &["fmt", "--all", "--check"])),
    ("tidy", |root, _| tidy::run(root)),
    ("clippy", |root, _| {
        command(root, &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    ("test", tests),
    ("simulator", simulator),
    ("fuzz", |root, _| fuzz::run(root, &["--seconds", FUZZ_SECONDS])),
];

/// Runs all steps, or those named; stops at the first that fails.
pub fn run(root: &Path, only: &[&str]) -> Result<(), String> {
    let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|wanted| !names.contains(wanted)) {
        return Err(format!("ci has no step `{unknown}`; it has {}", names.join(", ")));
    }
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut steps_passed = 0;
    for (name, step) in STEPS {
        if !only.is_empty() && !only.contains(&name) {
            continue;
        }
        println!("ci: {name} ...");
        let step_started = Instant::now();
        let outcome = step(root, &mut tally);
        let seconds = step_started.elapsed().as_secs_f64();
        if let Err(message) = outcome {
            println!("ci: {name} FAILED after {seconds:.1} s");
            summary(&tally, steps_passed, started);
            return Err(message);
        }
        println!("ci: {name} ok, {seconds:.1} s");
        steps_passed += 1;
    }
    summary(&tally, steps_passed, started);
    Ok(())
}

fn summary(tally: &Tally, steps_passed: usize, started: Instant) {
    println!(
        "ci: {steps_passed} steps ok in {:.0} s; tests: {} passed, {} failed",
        started.elapsed().as_secs_f64(),
        tally.passed,
        tally.failed
    );
}

fn cargo() -> Command {
    // Cargo tells its own path to what it runs, so that toolchains do not mix.
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn command(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = cargo().args(arguments).current_dir(root).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {} ended with {status}", arguments.join(" "))),
        Err(error) => Err(format!("cargo {} did not start: {error}", arguments.join(" "))),
    }
}

/// All tests of the workspace. The generated documents have tests of their own that fail when stale.
fn tests(root: &Path, tally: &mut Tally) -> Result<(), String> {
    let mut child = cargo()
        .args(["test", "--workspace", "--no-fail-fast"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo test did not start: {error}"))?;
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(|error| format!("read the output of cargo test: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        if let Some((passed, failed)) = parse_test_result(&line) {
            tally.passed += passed;
            tally.failed += failed;
        }
        // A closed pipe below us is not a reason to leave the tests half run.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    let status = child.wait().map_err(|error| format!("wait for cargo test: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo test ended with {status}")) }
}

/// Reads `test result: ok. 12 passed; 0 failed; ...`.
fn parse_test_result(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut numbers = counts.split(';').map(|part| part.trim().split(' ').next().unwrap_or(""));
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The simulator in the dev profile: its crates are optimised there too, and nothing is built twice.
fn simulator(root: &Path, _: &mut Tally) -> Result<(), String> {
    command(root, &["run", "--quiet", "--package", "ashlar-cli", "--", "sim", "--seeds", SIMULATOR_SEEDS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_of_cargo_test_is_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(parse_test_result(line), Some((12, 3)));
        assert_eq!(parse_test_result("test sizes_print ... ok"), None);
    }

    #[test]
    fn an_unknown_step_is_refused_by_name() {
        let message = run(Path::new("/"), &["formatt"]).expect_err("there is no such step");
        assert!(message.contains("`formatt`"), "{message}");
    }
}
