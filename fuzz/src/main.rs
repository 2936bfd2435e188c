//! Coverage-guided fuzzing of every parser, on a stable toolchain: `cargo xtask fuzz` builds and runs it.
//!
//! The crates under test are compiled with LLVM's coverage counters (xtask passes the flags, this
//! crate receives the counters in [`coverage`]). The loop is the usual one: mutate an input of the
//! corpus, run it, keep it if it reached something new. A panic, an abort, a run longer than ten
//! seconds or one huge allocation is a failure; the input is saved and its path printed.

mod corpus;
mod coverage;
mod guard;
mod mutation;
mod random;
mod seal;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use corpus::Corpus;
use targets::Target;

const USAGE: &str =
    "usage: cargo xtask fuzz [TARGET] [--seconds N] [--seed S] [--keep] | TARGET --input FILE | --list";

/// What the command line asked for.
struct Options {
    target: Option<String>,
    seconds: u64,
    seed: u64,
    is_keeping: bool,
    input: Option<PathBuf>,
    is_listing: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("fuzz: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let options = parse(std::env::args().skip(1))?;
    if options.is_listing {
        println!("{}", names());
        return Ok(());
    }
    let chosen: Vec<&Target> = match &options.target {
        None => targets::all().collect(),
        Some(name) => {
            let target = targets::all().find(|target| target.name == name);
            vec![target.ok_or_else(|| format!("no target `{name}`; there are {}", names()))?]
        }
    };
    if let Some(path) = &options.input {
        let [target] = chosen.as_slice() else { return Err("--input needs a target".into()) };
        let bytes = std::fs::read(path).map_err(|error| format!("read {}: {error}", path.display()))?;
        (target.run)(&bytes);
        println!("fuzz: {}: {} bytes, no failure", target.name, bytes.len());
        return Ok(());
    }
    for target in chosen {
        fuzz(target, &options)?;
    }
    Ok(())
}

fn names() -> String {
    targets::all().map(|target| target.name).collect::<Vec<_>>().join(", ")
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options =
        Options { target: None, seconds: 10, seed: 1, is_keeping: false, input: None, is_listing: false };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value; {USAGE}"));
        match argument.as_str() {
            "--list" => options.is_listing = true,
            "--seconds" => options.seconds = number(&value()?)?,
            "--seed" => options.seed = number(&value()?)?,
            "--keep" => options.is_keeping = true,
            "--input" => options.input = Some(value()?.into()),
            name if !name.starts_with('-') && options.target.is_none() => options.target = Some(argument),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number; {USAGE}"))
}

/// Runs one target until its time is up.
fn fuzz(target: &Target, options: &Options) -> Result<(), String> {
    let started = Instant::now();
    let until = started + Duration::from_secs(options.seconds);
    let guard = guard::Guard::start(target.name, options.seed)?;
    let mut random = random::Random::new(options.seed);
    let mut corpus = Corpus::load(target)?;
    let mut runs = 0_u64;
    let mut execute = |input: &[u8]| {
        guard.before(input);
        coverage::reset();
        (target.run)(input);
        guard.after();
        runs += 1;
    };
    for input in corpus.initial() {
        execute(&input);
        corpus.offer(&input);
    }
    while Instant::now() < until {
        // The clock is read once for so many runs; a run takes microseconds.
        for _ in 0..64 {
            let (parent, partner) = corpus.pick(&mut random);
            let input = mutation::mutate(parent, partner, &mut random);
            execute(&input);
            if corpus.offer(&input) && options.is_keeping {
                corpus.keep(&input)?;
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "fuzz: {:<16} ok: seed {}, {runs} runs in {seconds:.1} s, {} inputs kept, {} of {} places reached",
        target.name,
        options.seed,
        corpus.len(),
        corpus.reached(),
        coverage::count(),
    );
    guard.finish();
    Ok(())
}
