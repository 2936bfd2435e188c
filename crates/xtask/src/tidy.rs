//! `cargo xtask tidy`: the rules that no compiler keeps. Each finding names the place and the way out.
//!
//! What is checked: who may depend on whom ([`layers`]), lengths and first lines of Rust files and
//! where `unsafe` may stand ([`source`]), words ([`words`]), documents and the tree ([`documents`]).

mod documents;
mod layers;
mod source;
mod words;

use std::path::Path;
use std::process::Command;

/// What all checks write to: one line a finding.
#[derive(Default)]
pub(crate) struct Findings {
    lines: Vec<String>,
}

impl Findings {
    /// A finding about a whole file or thing.
    fn add(&mut self, place: &str, message: impl AsRef<str>) {
        self.lines.push(format!("{place}: {}", message.as_ref()));
    }

    /// A finding at a line, counted from 0 as slices do.
    fn at(&mut self, path: &str, line_index: usize, message: impl AsRef<str>) {
        self.add(&format!("{path}:{}", line_index + 1), message);
    }
}

/// A file of the repository: its path from the root, and its text.
pub(crate) struct SourceFile {
    path: String,
    text: String,
}

/// Runs every check and prints what it found.
pub fn run(root: &Path) -> Result<(), String> {
    let files = repository_files(root)?;
    let mut findings = Findings::default();
    layers::check(root, &mut findings)?;
    for file in &files {
        words::check_text(file, &mut findings);
        if file.path.ends_with(".rs") {
            source::check(file, &mut findings);
            words::check_identifiers(file, &mut findings);
        }
    }
    documents::check(root, &files, &mut findings)?;
    if findings.lines.is_empty() {
        return Ok(());
    }
    findings.lines.sort();
    for line in &findings.lines {
        println!("tidy: {line}");
    }
    Err(format!("tidy: {} findings", findings.lines.len()))
}

/// All text files git knows or would add, so that a file is checked before its first commit.
fn repository_files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let listed = git(root, &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut files = Vec::new();
    for path in listed.lines() {
        // Deleted but not yet committed, or not text: neither can be checked.
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            files.push(SourceFile { path: path.to_string(), text });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("git did not start: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), stderr.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
