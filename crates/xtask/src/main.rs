//! Developer tasks: `cargo xtask ci`, `cargo xtask tidy`, `cargo xtask fuzz`, `cargo xtask planted`.

mod advisories;
mod ci;
mod fuzz;
mod lanes;
mod namespace;
mod planted;
mod room;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  ci [STEP...]                  everything CI checks, or only the steps named
  tidy                          the rules no compiler keeps: layers, lengths, words, documents
  fuzz [TARGET] [--seconds N] [--seed S]
                                coverage-guided fuzzing of one parser, or of all in turn
  fuzz TARGET --input FILE      runs one saved input again
  planted [FAULT...] [--check] [--seeds N]
                                the simulator must find each planted fault; all of them: writes the page";

fn main() -> ExitCode {
    if let Some(code) = fuzz::as_rustc_wrapper() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["ci", steps @ ..] => {
            namespace::enter();
            ci::run(&root(), steps)
        }
        ["tidy"] => tidy::run(&root()),
        ["fuzz", rest @ ..] => fuzz::run(&root(), fuzz::FAST, rest),
        ["planted", rest @ ..] => planted::run(&root(), rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root: two folders above this crate.
fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("crates/xtask is two folders below the root").to_path_buf()
}
