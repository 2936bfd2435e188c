//! `cargo xtask fuzz`: builds the parsers with coverage counters and runs `fuzz/`.
//!
//! The flags are stable ones, so no nightly toolchain is needed. Only the crates under test are
//! instrumented: this program stands in front of rustc (RUSTC_WORKSPACE_WRAPPER) and adds the flags
//! for them alone; see fuzz/src/coverage.rs for the other end.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Crates whose code the fuzzer should see inside.
const INSTRUMENTED: [&str; 9] = [
    "ashlar_format",
    "ashlar_reduction",
    "ashlar_map",
    "ashlar_journal",
    "ashlar_nbd",
    "ashlar_fuse",
    "ashlar_scsi",
    "ashlar_iscsi",
    "ashlar_units",
];

/// Counters on every edge, and the values of comparisons.
const COVERAGE_FLAGS: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Tells the wrapped copy of this program what it is.
const WRAPPER_MARK: &str = "ASHLAR_XTASK_IS_RUSTC_WRAPPER";

/// The profile that searches fastest.
pub const FAST: &str = "fuzz";
/// The profile whose dependencies are built already when the tests are: for a short run.
pub const BUILT: &str = "dev";

/// Builds the fuzzer in this profile and runs it with these arguments.
pub fn run(root: &Path, profile: &str, arguments: &[&str]) -> Result<(), String> {
    let own_path = std::env::current_exe().map_err(|error| format!("find xtask's own path: {error}"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--package", "ashlar-fuzz", "--profile", profile, "--"])
        .args(arguments)
        .current_dir(root)
        .env("RUSTC_WORKSPACE_WRAPPER", own_path)
        .env(WRAPPER_MARK, "1")
        .status()
        .map_err(|error| format!("cargo run -p ashlar-fuzz did not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("fuzz {} ended with {status}", arguments.join(" "))) }
}

/// When this program was started in front of rustc: runs rustc and hands back how it ended.
pub fn as_rustc_wrapper() -> Option<ExitCode> {
    std::env::var_os(WRAPPER_MARK)?;
    let mut arguments = std::env::args_os().skip(1);
    let rustc = arguments.next()?;
    let arguments: Vec<_> = arguments.collect();
    let names_crate = arguments.iter().position(|argument| argument == "--crate-name");
    let crate_name = names_crate.and_then(|at| arguments.get(at + 1)?.to_str());
    let is_instrumented = crate_name.is_some_and(|name| INSTRUMENTED.contains(&name));
    let mut command = Command::new(rustc);
    command.args(&arguments);
    if is_instrumented {
        command.args(COVERAGE_FLAGS);
    }
    let code = match command.status() {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
        Err(error) => {
            eprintln!("rustc did not start: {error}");
            1
        }
    };
    Some(ExitCode::from(code))
}
