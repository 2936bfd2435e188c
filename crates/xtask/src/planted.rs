//! `cargo xtask planted`: known mistakes are planted one after the other, and the simulator must find each.
//!
//! The faults stand in crates/base/units/src/planted.rs. The simulator's program `planted` is built once with
//! the feature that makes them possible; each fault has a process of its own, since many end in an assert. A
//! seed that fails is run again without the fault and must pass: then it is the fault that was found. The
//! whole run writes docs/internals/planted-faults.md.
//!
//! The seed that the page names for a fault is tried before all others: a search costs hours, a look whether
//! it still holds costs seconds.
//!
//! What a program has shown is kept beside it: a run that was interrupted goes on, and one of the same
//! program asks for nothing twice.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

const PAGE: &str = "docs/internals/planted-faults.md";

/// Where the program's answers are kept, beside it.
const ANSWERS: &str = "planted-answers";

/// Seeds within which each fault must be found. `make test` runs fewer; what needs more of them has to do
/// with rare moments, as when a copy of a drive was made.
const SEEDS: u64 = 2000;

/// So many of them run in `make test`.
const SEEDS_IN_TEST: u64 = 200;

/// Real seconds after which no further seed is begun: above what the seeds take on a busy machine, so that a
/// run does not depend on the machine's speed.
const SECONDS: u64 = 7200;

/// Seeds of one process: what crashed engines leave in its memory goes with it. Arbitrary.
const SEEDS_AT_ONCE: u64 = 250;

/// Processes at once. Arbitrary: the machines that run this have two cores.
const AT_ONCE: usize = 2;

/// Letters of a report that the page shows.
const REPORT_LETTERS: usize = 150;

/// A line of the page.
struct Judged {
    name: String,
    place: String,
    loss: String,
    outcome: Outcome,
}

enum Outcome {
    /// A seed that fails, and how.
    Found { seed: u64, how: String },
    /// So many seeds passed although the planted line was run so often.
    Missed { seeds: u64, reached: u64 },
}

/// Runs all faults, or those named.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut only = Vec::new();
    let (mut is_check, mut seeds) = (false, SEEDS);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--check" => is_check = true,
            "--seeds" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                seeds = number.ok_or("--seeds takes a number")?;
            }
            name => only.push(name),
        }
    }
    let program = build(root)?;
    let faults = faults(&program)?;
    if let Some(unknown) = only.iter().find(|wanted| !faults.iter().any(|fault| fault[0] == **wanted)) {
        return Err(format!("there is no planted fault `{unknown}`"));
    }
    let wanted = faults.into_iter().filter(|fault| only.is_empty() || only.contains(&fault[0].as_str()));
    let known = known_seeds(&std::fs::read_to_string(root.join(PAGE)).unwrap_or_default());
    let judged = judge(&program, wanted.collect(), &known, seeds)?;
    let missed: Vec<&str> = judged
        .iter()
        .filter(|one| matches!(one.outcome, Outcome::Missed { .. }))
        .map(|one| one.name.as_str())
        .collect();
    println!("planted: {} of {} faults found", judged.len() - missed.len(), judged.len());
    if only.is_empty() && !is_check {
        let path = root.join(PAGE);
        std::fs::write(&path, page(&judged, seeds)).map_err(|error| format!("write {PAGE}: {error}"))?;
        println!("planted: wrote {PAGE}");
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("planted: not found: {}", missed.join(", "))) }
}

/// In the profile that is fast and has every check.
fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "ashlar-sim", "--features", "planted-faults"])
        .args(["--bin", "planted", "--profile", "fuzz"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo build did not start: {error}"))?;
    if !status.success() {
        return Err(format!("building the simulator with planted faults ended with {status}"));
    }
    let own_path = std::env::current_exe().map_err(|error| format!("find xtask's own path: {error}"))?;
    // This program is built in the dev profile, the other one beside it.
    Ok(own_path.with_file_name("../fuzz/planted"))
}

/// Name, file and loss of each fault.
fn faults(program: &Path) -> Result<Vec<[String; 3]>, String> {
    let mut faults = Vec::new();
    for line in ask(program, &["list"])?.lines() {
        let parts: Vec<String> = line.split('\t').map(str::to_string).collect();
        faults.push(parts.try_into().map_err(|_| format!("`{line}` is not a fault"))?);
    }
    Ok(faults)
}

/// The seed of each fault that a page names.
fn known_seeds(page: &str) -> HashMap<String, u64> {
    let seed_of = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let name = cells.next()?.to_string();
        Some((name, cells.nth(2)?.parse().ok()?))
    };
    let found = page.split("\n## ").next().unwrap_or_default();
    found.lines().filter_map(seed_of).collect()
}

/// Runs each fault, some at a time.
fn judge(
    program: &Path,
    faults: Vec<[String; 3]>,
    known: &HashMap<String, u64>,
    seeds: u64,
) -> Result<Vec<Judged>, String> {
    let count = faults.len();
    let waiting: Mutex<VecDeque<_>> = Mutex::new(faults.into_iter().enumerate().collect());
    let done: Mutex<Vec<(usize, Result<Judged, String>)>> = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no holder panics").pop_front();
                    let Some((index, [name, place, loss])) = next else { return };
                    let judged = outcome_of(program, &name, known.get(&name), seeds).map(|outcome| {
                        println!("planted: {name}: {}", told(&outcome));
                        Judged { name, place, loss, outcome }
                    });
                    done.lock().expect("no holder panics").push((index, judged));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no holder panics");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, judged)| judged).collect()
}

fn outcome_of(program: &Path, name: &str, known: Option<&u64>, seeds: u64) -> Result<Outcome, String> {
    if let Some(known) = known
        && let found @ Outcome::Found { .. } = run_seeds(program, name, *known, 1)?
    {
        return Ok(found);
    }
    let begin = Instant::now();
    let (mut run, mut lines_run) = (0, 0);
    while run < seeds && begin.elapsed().as_secs() < SECONDS {
        let count = SEEDS_AT_ONCE.min(seeds - run);
        match run_seeds(program, name, run + 1, count)? {
            Outcome::Missed { reached, .. } => (run, lines_run) = (run + count, lines_run + reached),
            found @ Outcome::Found { .. } => return Ok(found),
        }
    }
    Ok(Outcome::Missed { seeds: run, reached: lines_run })
}

/// Runs seeds with a fault, and the one that fails without it, too: that must pass.
fn run_seeds(program: &Path, name: &str, first: u64, count: u64) -> Result<Outcome, String> {
    let time = SECONDS.to_string();
    let answer = ask(program, &[name, &first.to_string(), &count.to_string(), &time])?;
    let outcome = parse(&answer).ok_or_else(|| format!("{name}: the simulator answered `{answer}`"))?;
    if let Outcome::Found { seed, .. } = &outcome {
        let control = ask(program, &["none", &seed.to_string(), "1", &time])?;
        if !matches!(parse(&control), Some(Outcome::Missed { .. })) {
            return Err(format!("seed {seed} fails without {name}, too: {control}"));
        }
    }
    Ok(outcome)
}

/// What the program answers, or has answered before.
fn ask(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let kept = answers(program)?.join(arguments.join("-"));
    if let Ok(answer) = std::fs::read_to_string(&kept) {
        return Ok(answer);
    }
    let answer = run_program(program, arguments)?;
    let unwritten = |error: std::io::Error| format!("write {}: {error}", kept.display());
    // Two faults may be found in one seed, whose pass without them is then asked for twice at once.
    let passing = kept.with_extension(format!("{:?}", std::thread::current().id()));
    std::fs::write(&passing, &answer).and_then(|()| std::fs::rename(&passing, &kept)).map_err(unwritten)?;
    Ok(answer)
}

/// The directory of this very program's answers; those of another go.
fn answers(program: &Path) -> Result<PathBuf, String> {
    static DIRECTORY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let find = || {
        let bytes = std::fs::read(program).map_err(|error| format!("read {}: {error}", program.display()))?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let all = program.with_file_name(ANSWERS);
        let own = all.join(format!("{:016x}", hasher.finish()));
        if !own.exists() {
            // None may be there.
            let _ = std::fs::remove_dir_all(&all);
        }
        std::fs::create_dir_all(&own).map_err(|error| format!("make {}: {error}", own.display()))?;
        Ok(own)
    };
    DIRECTORY.get_or_init(find).clone()
}

/// Runs the program; its last line.
fn run_program(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{} did not start: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if output.status.success() {
        return Ok(text);
    }
    let trouble = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(format!("planted {} ended with {}: {text} {trouble}", arguments.join(" "), output.status))
}

fn parse(line: &str) -> Option<Outcome> {
    let parts: Vec<&str> = line.split('\t').collect();
    match parts.as_slice() {
        ["found", seed, _, how] => Some(Outcome::Found { seed: seed.parse().ok()?, how: how.to_string() }),
        ["missed", seeds, reached] => {
            Some(Outcome::Missed { seeds: seeds.parse().ok()?, reached: reached.parse().ok()? })
        }
        _ => None,
    }
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Found { seed, how } => format!("seed {seed}: {how}"),
        Outcome::Missed { seeds, reached } => {
            format!("NOT FOUND in {seeds} seeds, its line was run {reached} times")
        }
    }
}

fn page(judged: &[Judged], seeds: u64) -> String {
    let found: Vec<&Judged> =
        judged.iter().filter(|one| matches!(one.outcome, Outcome::Found { .. })).collect();
    let early = |one: &&&Judged| matches!(one.outcome, Outcome::Found { seed, .. } if seed <= SEEDS_IN_TEST);
    let in_test = found.iter().filter(early).count();
    let mut page = String::from("# Planted faults\n\nWritten by `cargo xtask planted`; do not edit.\n\n");
    let _ = writeln!(
        page,
        "Each of these is one line in production code that is there only in a build for this purpose \
         ([how](testing.md#planted-faults)). The simulator runs the seed that stood here before and, when that \
         one passes, seeds from 1 on until one fails; the limit of this run was {seeds}. The same seed passes \
         without the fault. {} of {} are found, {in_test} of them by the {SEEDS_IN_TEST} seeds of \
         `make test`.\n",
        found.len(),
        judged.len()
    );
    page.push_str("| fault | in | what goes wrong | seed | how it was reported |\n");
    page.push_str("| --- | --- | --- | --- | --- |\n");
    for one in found {
        let Outcome::Found { seed, how } = &one.outcome else { continue };
        let (Judged { name, place, loss, .. }, how) = (one, cell(how));
        let _ = writeln!(page, "| {name} | {place} | {loss} | {seed} | {how} |");
    }
    let missed = judged.iter().filter_map(|one| match &one.outcome {
        Outcome::Missed { seeds, reached } => Some((one, seeds, reached)),
        Outcome::Found { .. } => None,
    });
    let mut missed = missed.peekable();
    if missed.peek().is_some() {
        page.push_str(
            "\n## Not found\n\nGaps of the simulator: nobody would notice these within the limit.\n\n",
        );
        page.push_str("| fault | in | what goes wrong | seeds | times its line was run |\n");
        page.push_str("| --- | --- | --- | --- | --- |\n");
    }
    for (Judged { name, place, loss, .. }, seeds, reached) in missed {
        let _ = writeln!(page, "| {name} | {place} | {loss} | {seeds} | {reached} |");
    }
    page
}

/// A report as a cell of a table.
fn cell(how: &str) -> String {
    let mut text: String = how.chars().take(REPORT_LETTERS).collect();
    if text.len() < how.len() {
        text.push_str(" ...");
    }
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_simulator_are_read() {
        let found = parse("found\t7\t3\tan assert in map: page 3");
        assert!(matches!(found, Some(Outcome::Found { seed: 7, how }) if how == "an assert in map: page 3"));
        assert!(matches!(parse("missed\t200\t0"), Some(Outcome::Missed { seeds: 200, reached: 0 })));
        assert!(parse("seed 7 failed").is_none());
    }

    #[test]
    fn the_page_says_what_was_not_found() {
        let judged = |name: &str, outcome| Judged {
            name: name.to_string(),
            place: "a.rs".to_string(),
            loss: "Lost.".to_string(),
            outcome,
        };
        let found = Outcome::Found { seed: 7, how: "wrong | bytes".to_string() };
        let missed = Outcome::Missed { seeds: 200, reached: 5 };
        let page = page(&[judged("A", found), judged("B", missed)], 200);
        assert!(page.contains("1 of 2 are found"), "{page}");
        assert!(page.contains("| A | a.rs | Lost. | 7 | wrong \\| bytes |"), "{page}");
        assert_eq!(known_seeds(&page), HashMap::from([("A".to_string(), 7)]));
        assert!(page.contains("## Not found") && page.contains("| B | a.rs | Lost. | 200 | 5 |"), "{page}");
    }

    /// What the table says and what stands in the code are the same: each fault once, in its file.
    #[test]
    fn each_fault_is_planted_once_where_the_table_says() {
        let crates = crate::root().join("crates");
        let table = std::fs::read_to_string(crates.join("base/units/src/planted.rs")).unwrap();
        let entries = table.split_once("\nfaults! {").unwrap().1.split_once("\n}\n").unwrap().0;
        let entries: Vec<(&str, &str)> = entries
            .lines()
            .filter_map(|line| line.trim().split_once(' '))
            .filter(|(_, place)| place.starts_with('"') && place.ends_with(".rs\""))
            .map(|(name, place)| (name, place.trim_matches('"')))
            .collect();
        assert!(entries.len() >= 25, "{} faults", entries.len());
        for (name, place) in entries {
            let text = std::fs::read_to_string(crates.join(place)).unwrap();
            assert_eq!(text.matches(&format!("planted(Fault::{name})")).count(), 1, "{name} in {place}");
        }
    }
}
