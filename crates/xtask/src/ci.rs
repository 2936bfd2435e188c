//! `cargo xtask ci`: the steps CI runs, each with its name, its time and one verdict.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use crate::{advisories, fuzz, lanes, room, tidy};

/// Seeds of the simulator in CI, 1 to 200, as two processes run them: the first, how many, and with what.
/// `ashlar sim --seeds N` takes more. The first ones run twice and are compared: everything rests on a seed
/// doing the same thing again. 121 to 180 are with the tests: `seeds_meet_what_is_dangerous`.
const SIMULATOR: [[&[&str]; 2]; 2] = [
    [&["--first-seed", "1", "--seeds", "20", "--twice"], &["--first-seed", "21", "--seeds", "40"]],
    [&["--first-seed", "61", "--seeds", "60"], &["--first-seed", "181", "--seeds", "20"]],
];

/// Seconds each fuzz target runs in CI: enough to replay its seeds and find a fresh regression;
/// deeper searches are `cargo xtask fuzz --seconds N`.
const FUZZ_SECONDS: &str = "3";

/// How many tests passed and failed, as cargo's own closing lines tell.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    fn count(&mut self, line: &str) {
        if let Some((passed, failed)) = parse_test_result(line) {
            self.passed += passed;
            self.failed += failed;
        }
    }
}

/// How a step that did not fail ended.
enum Verdict {
    Passed,
    /// Could not run here, and why. Said again at the end, so that nobody takes it for passed.
    Skipped(&'static str),
}

type Outcome = Result<Verdict, String>;
type StepFunction = fn(&Path, &mut Tally) -> Outcome;

/// What a suite answers that cannot run here, as without root.
const EXIT_SKIPPED: i32 = 77;

/// Cheapest first, so that a slip is told within seconds.
const STEPS: [(&str, StepFunction); 5] = [
    ("format", |root, _| run_cargo(root, &["fmt", "--all", "--check"])),
    ("tidy", |root, _| tidy::run(root).map(|()| Verdict::Passed)),
    ("advisories", |root, _| match advisories::run(root)? {
        advisories::End::Passed => Ok(Verdict::Passed),
        advisories::End::Skipped(why) => Ok(Verdict::Skipped(why)),
    }),
    // Clippy beside the tests, because many of those wait. Generated documents are checked here: each has a
    // test that fails when it is stale. Without tests in documents: there are none, and looking takes as long
    // as many tests.
    ("test", |root, tally| {
        let counted = Mutex::new(tally);
        let closing = |line: &str| counted.lock().expect("no holder of this lock panics").count(line);
        lanes::run(root, cargo(root), closing, || clippy(root).map(drop)).map(|()| Verdict::Passed)
    }),
    ("proof", proof),
];

/// Parts of steps, for who names one.
const PARTS: [(&str, StepFunction); 6] = [
    ("clippy", |root, _| clippy(root)),
    ("simulator", |root, _| simulator(root)),
    ("fuzz", |root, _| fuzz::run(root, fuzz::BUILT, &["--seconds", FUZZ_SECONDS]).map(|()| Verdict::Passed)),
    ("end-to-end", end_to_end),
    ("console", console),
    ("api", api),
];

/// Runs all steps, or those named; stops at the first that fails.
pub fn run(root: &Path, only: &[&str]) -> Result<(), String> {
    let names: Vec<&str> = STEPS.iter().chain(&PARTS).map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|wanted| !names.contains(wanted)) {
        return Err(format!("ci has no step `{unknown}`; it has {}", names.join(", ")));
    }
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut skipped = Vec::new();
    room::warn(root);
    let wanted = |name: &str| only.contains(&name);
    let steps = STEPS.into_iter().filter(|(name, _)| only.is_empty() || wanted(name));
    for (name, step) in steps.chain(PARTS.into_iter().filter(|(name, _)| wanted(name))) {
        println!("ci: {name} ...");
        let step_started = Instant::now();
        let outcome = step(root, &mut tally);
        let seconds = step_started.elapsed().as_secs_f64();
        match outcome {
            Ok(Verdict::Passed) => println!("ci: {name} ok, {seconds:.1} s"),
            Ok(Verdict::Skipped(why)) => {
                println!("ci: {name} SKIPPED: {why}");
                skipped.push(name);
            }
            Err(message) => {
                println!("ci: {name} FAILED after {seconds:.1} s");
                summary(&tally, &skipped, started);
                room::warn(root);
                return Err(message);
            }
        }
    }
    summary(&tally, &skipped, started);
    Ok(())
}

fn summary(tally: &Tally, skipped: &[&str], started: Instant) {
    let skipped =
        if skipped.is_empty() { String::new() } else { format!("; skipped: {}", skipped.join(", ")) };
    println!(
        "ci: {} passed, {} failed, {:.0} s{skipped}",
        tally.passed,
        tally.failed,
        started.elapsed().as_secs_f64()
    );
}

fn cargo(root: &Path) -> Command {
    // Cargo tells its own path to what it runs, so that toolchains do not mix.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn run_cargo(root: &Path, arguments: &[&str]) -> Outcome {
    let what = format!("cargo {}", arguments.join(" "));
    let status =
        cargo(root).args(arguments).status().map_err(|error| format!("{what} did not start: {error}"))?;
    if status.success() { Ok(Verdict::Passed) } else { Err(format!("{what} ended with {status}")) }
}

/// At a low priority: nothing waits for it.
fn clippy(root: &Path) -> Outcome {
    let own = cargo(root);
    let mut command = Command::new("nice");
    command.current_dir(root).args(["-n", "12"]).arg(own.get_program());
    command.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    let status = command.status().map_err(|error| format!("clippy did not start: {error}"))?;
    if status.success() { Ok(Verdict::Passed) } else { Err(format!("clippy ended with {status}")) }
}

/// The end-to-end tests, and the console in a browser with the API's description behind it: all mostly wait.
/// The simulator and the fuzz targets beside them, at the lowest priority, so that they wait no longer.
fn proof(root: &Path, tally: &mut Tally) -> Outcome {
    let own_path = std::env::current_exe().map_err(|error| format!("find xtask's own path: {error}"))?;
    let mut beside = Command::new("nice");
    beside.current_dir(root).args(["-n", "19"]).arg(own_path).args(["ci", "simulator", "fuzz"]);
    let mut beside = beside.spawn().map_err(|error| format!("nice did not start: {error}"))?;
    let mut of_others = Tally::default();
    let (outcome, others) = std::thread::scope(|scope| {
        let others = scope.spawn(|| [console(root, &mut of_others), api(root, &mut of_others)]);
        let outcome = end_to_end(root, tally);
        let panicked = |_| [(); 2].map(|()| Err("the console's thread ended in a panic".to_string()));
        (outcome, others.join().unwrap_or_else(panicked))
    });
    tally.passed += of_others.passed;
    tally.failed += of_others.failed;
    let status = beside.wait().map_err(|error| format!("wait for the simulator and fuzz: {error}"))?;
    if !status.success() {
        return Err(format!("the simulator or fuzz ended with {status}"));
    }
    let [console, api] = others;
    match (outcome?, console?, api?) {
        (Verdict::Passed, Verdict::Passed, Verdict::Passed) => Ok(Verdict::Passed),
        (Verdict::Skipped(_), ..) => Ok(Verdict::Skipped("its end-to-end tests need root; the rest passed")),
        (_, Verdict::Skipped(why), _) | (.., Verdict::Skipped(why)) => Ok(Verdict::Skipped(why)),
    }
}

/// In the dev profile: with its light optimisation the seeds take a minute, and nothing is built twice. Two
/// processes at once: a seed runs on one thread.
fn simulator(root: &Path) -> Outcome {
    let program = program(root)?;
    let run = |arguments: &[&str]| {
        let status = Command::new(&program).current_dir(root).arg("sim").args(arguments).status();
        let status = status.map_err(|error| format!("{} did not start: {error}", program.display()))?;
        if status.success() { Ok(Verdict::Passed) } else { Err(format!("the simulator ended with {status}")) }
    };
    let run_all = |parts: [&[&str]; 2]| parts.into_iter().try_fold(Verdict::Passed, |_, part| run(part));
    let [first, second] = SIMULATOR;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run_all(second));
        let one = run_all(first);
        one.and(other.join().unwrap_or_else(|_| Err("the simulator's thread ended in a panic".to_string())))
    })
}

/// The program, as the step of the tests built it: for a package alone cargo would build most of it anew,
/// with fewer features of libraries. The test that is named needs it built.
fn program(root: &Path) -> Result<PathBuf, String> {
    run_cargo(root, &["test", "--quiet", "--workspace", "--test", "reference", "--no-run"])?;
    let own_path = std::env::current_exe().map_err(|error| format!("find xtask's own path: {error}"))?;
    // Both are built in the dev profile, so they lie side by side.
    Ok(own_path.with_file_name("ashlar"))
}

/// Real clients and file systems against the program.
fn end_to_end(root: &Path, tally: &mut Tally) -> Outcome {
    let program = program(root)?;
    let mut command = Command::new(root.join("tests/e2e/run.sh"));
    command.current_dir(root).env("ASHLAR_BIN", program);
    stream("tests/e2e/run.sh", command, tally, "it needs root")
}

/// The page in a real browser, against a mock and against the program.
fn console(root: &Path, tally: &mut Tally) -> Outcome {
    let program = program(root)?;
    let mut command = Command::new(root.join("tests/console/run.sh"));
    command.current_dir(root).env("ASHLAR_BIN", program);
    stream("tests/console/run.sh", command, tally, "Node 20, its packages or Chromium cannot be had here")
}

/// Whatever the API's description allows, and does not, asked of a real array.
fn api(root: &Path, tally: &mut Tally) -> Outcome {
    let program = program(root)?;
    let mut command = Command::new("python3");
    command.current_dir(root).arg("tests/api/run.py").env("ASHLAR_BIN", program);
    stream("tests/api/run.py", command, tally, "schemathesis cannot be had here")
}

/// Runs a command, hands its output through and counts what its closing lines tell.
fn stream(what: &str, mut command: Command, tally: &mut Tally, skipped: &'static str) -> Outcome {
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("{what} did not start: {error}"))?;
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(|error| format!("read the output of {what}: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        tally.count(&line);
        // A closed pipe below us is not a reason to leave the tests half run.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    let status = child.wait().map_err(|error| format!("wait for {what}: {error}"))?;
    match status.code() {
        Some(0) => Ok(Verdict::Passed),
        Some(EXIT_SKIPPED) => Ok(Verdict::Skipped(skipped)),
        _ => Err(format!("{what} ended with {status}")),
    }
}

/// Reads `test result: ok. 12 passed; 0 failed; ...` and `e2e: 12 passed, 0 failed in 9 s`.
fn parse_test_result(line: &str) -> Option<(u64, u64)> {
    let counts = match line.strip_prefix("test result: ") {
        Some(result) => result.split_once(". ")?.1,
        None => line.strip_prefix("e2e: ")?,
    };
    let mut parts = counts.split([';', ',']).map(|part| part.trim().split(' '));
    let mut number = |wanted: &str| {
        let mut words = parts.next()?;
        let number = words.next()?.parse().ok()?;
        (words.next()? == wanted).then_some(number)
    };
    Some((number("passed")?, number("failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(parse_test_result(line), Some((12, 3)));
        assert_eq!(parse_test_result("e2e: 12 passed, 3 failed in 9 s: a, b"), Some((12, 3)));
        assert_eq!(parse_test_result("test sizes_print ... ok"), None);
        assert_eq!(parse_test_result("e2e: 12 cases against target/debug/ashlar"), None);
    }

    #[test]
    fn an_unknown_step_is_refused_by_name() {
        let message = run(Path::new("/"), &["formatt"]).expect_err("there is no such step");
        assert!(message.contains("`formatt`"), "{message}");
    }
}
