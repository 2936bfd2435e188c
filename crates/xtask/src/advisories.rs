//! Known holes in what the project is built of, and licences that it may not take: cargo-deny for crates, npm
//! for what the console is built with.
//!
//! Where a tool or a database cannot be had the check says so, and nobody takes it for passed.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// What cargo-deny looks at without asking anybody.
const OFFLINE: [&str; 4] = ["check", "licenses", "bans", "sources"];
/// Words of cargo-deny where its database cannot be had.
const UNREACHED: [&str; 3] = [
    "failed to fetch advisory database",
    "unable to fetch advisory database",
    "failed to acquire advisory database",
];

/// How the check ended.
#[derive(PartialEq, Eq, Debug)]
pub enum End {
    Passed,
    /// In part or in whole: why not.
    Skipped(&'static str),
}

/// Checks all that can be checked here.
pub fn run(root: &Path) -> Result<End, String> {
    match (crates(root)?, packages(root)?) {
        (End::Passed, End::Passed) => Ok(End::Passed),
        (End::Skipped(why), End::Passed) | (End::Passed, End::Skipped(why)) => Ok(End::Skipped(why)),
        (End::Skipped(_), End::Skipped(_)) => {
            Ok(End::Skipped("neither cargo-deny with its database nor npm's advisories can be had here"))
        }
    }
}

fn crates(root: &Path) -> Result<End, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let deny =
        |arguments: &[&str]| output(Command::new(&cargo).current_dir(root).arg("deny").args(arguments));
    let is_there = deny(&["--version"]).is_ok_and(|output| output.status.success());
    if !is_there {
        return Ok(End::Skipped("cargo-deny is not installed: `cargo install --locked cargo-deny`"));
    }
    let offline = deny(&OFFLINE)?;
    if !offline.status.success() {
        return Err(format!("cargo deny:\n{}", said(&offline)));
    }
    let asked = deny(&["check", "advisories"])?;
    match (asked.status.success(), said(&asked)) {
        (true, _) => Ok(End::Passed),
        (false, text) if UNREACHED.iter().any(|word| text.contains(word)) => {
            Ok(End::Skipped("the database of advisories of crates cannot be reached"))
        }
        (false, text) => Err(format!("cargo deny check advisories:\n{text}")),
    }
}

/// What the console's page is made of counts, and what builds it as well: that runs on our machines.
fn packages(root: &Path) -> Result<End, String> {
    let mut npm = Command::new("npm");
    npm.current_dir(root.join("console")).args(["audit", "--package-lock-only", "--json"]);
    match output(&mut npm) {
        Ok(asked) => judge(&String::from_utf8_lossy(&asked.stdout)),
        Err(_) => Ok(End::Skipped("npm is not installed")),
    }
}

/// What npm answered.
fn judge(answer: &str) -> Result<End, String> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let Some(counts) = answer["metadata"]["vulnerabilities"].as_object() else {
        return Ok(End::Skipped("npm's advisories cannot be reached"));
    };
    let bad: u64 =
        ["moderate", "high", "critical"].iter().filter_map(|level| counts.get(*level)?.as_u64()).sum();
    match bad {
        0 => Ok(End::Passed),
        count => Err(format!("npm audit tells of {count} holes: `npm audit` in console/ names them")),
    }
}

fn output(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| format!("{command:?} did not start: {error}"))
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_none() {
        let counts = |high: u64| {
            let level = format!(r#"{{"info":0,"low":2,"moderate":0,"high":{high},"critical":0,"total":2}}"#);
            format!(r#"{{"auditReportVersion":2,"metadata":{{"vulnerabilities":{level}}}}}"#)
        };
        assert_eq!(judge(&counts(0)), Ok(End::Passed));
        assert!(judge(&counts(1)).is_err_and(|why| why.contains("1 holes")));
        for none in ["", "rubbish", r#"{"message":"405 Method Not Allowed","error":{"code":"E405"}}"#] {
            assert!(matches!(judge(none), Ok(End::Skipped(_))), "{none}");
        }
    }
}
