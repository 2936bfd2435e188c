//! A result as one file that can be carried to another machine, and taken in there.
//!
//! ```text
//! DIR ──▶ pack ──▶ FILE ──┐
//! DIR (a copy) ───────────┴──▶ import: look at every name, write, verify ──▶ a new DIR, or nothing
//! ```
//! What comes from elsewhere is not trusted: only files that a result has are written, none outside of the
//! new directory, and what the old machine had left on its targets is no business of this one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use ashlar_target::Machine;
use serde::{Deserialize, Serialize};

use crate::record::{Records, json, make};
use crate::{Error, Result, Verified};

/// Version of the file.
const FORMAT: u32 = 1;
/// Of all files of a result together: the largest seen is some ten MiB. Arbitrary, and far above.
const BYTES_MAX: u64 = 1 << 30;
/// Arbitrary, and far above what a plan of a thousand variants leaves.
const FILES_MAX: usize = 100_000;
/// What a result has beside what lies in [`DIRECTORIES`].
const FILES: [&str; 8] = [
    "plan.json",
    "scenario.toml",
    "ended.txt",
    "result.json",
    "report.html",
    "summary.md",
    "junit.xml",
    "runs.csv",
];
const DIRECTORIES: [&str; 2] = ["data", "runs"];

#[derive(Serialize, Deserialize)]
struct Packed {
    /// Says what the file is to whoever opens it.
    what: String,
    format: u32,
    /// By their path in the directory of the result.
    files: BTreeMap<String, String>,
    /// Files that are no text.
    left_out: Vec<String>,
}

/// What was taken in.
#[derive(Clone, Debug, Serialize)]
pub struct Imported {
    pub verified: Verified,
    pub files: usize,
    /// The machine that measured it.
    pub machine: Machine,
    /// By another version: its pages were made anew.
    pub made_by: Option<String>,
    pub left_out: Vec<String>,
}

/// A result as one file.
///
/// # Errors
/// When the directory holds no result, or more than a result has.
pub fn pack(directory: &Path) -> Result<String> {
    refuse_paper(directory)?;
    Records::new(directory).begun()?;
    let (files, left_out) = texts(collect(directory)?);
    Ok(json(&Packed { what: "a result of ashlar lab".into(), format: FORMAT, files, left_out }))
}

/// Takes in a result that another machine made: a copy of its directory, or a file that [`pack`] made.
///
/// # Errors
/// When it is no result, or is not what it was made from: then nothing is kept.
pub fn import(from: &Path, output: &Path) -> Result<Imported> {
    let is_directory = fs::metadata(from).map_err(|error| unable(from, &error.to_string()))?.is_dir();
    let (files, left_out) = if is_directory { copied(from)? } else { unpacked(from)? };
    fs::create_dir(output)
        .map_err(|error| unable(output, &format!("{error}: name a new directory with -o")))?;
    let taken = take_in(&files, output).map(|(verified, machine, made_by)| {
        let files = files.len();
        Imported { verified, files, machine, made_by, left_out }
    });
    match &taken {
        Ok(imported) if imported.verified.differences.is_empty() => {}
        Ok(_) | Err(_) => {
            let _nothing_is_kept = fs::remove_dir_all(output);
        }
    }
    taken
}

fn unable(path: &Path, why: &str) -> Error {
    Error::environment(format!("{}: {why}", path.display()))
}

type Files = BTreeMap<String, Vec<u8>>;

fn copied(from: &Path) -> Result<(Files, Vec<String>)> {
    refuse_paper(from)?;
    Records::new(from).begun()?;
    Ok((collect(from)?, Vec::new()))
}

fn unpacked(from: &Path) -> Result<(Files, Vec<String>)> {
    let size = fs::metadata(from).map_err(|error| unable(from, &error.to_string()))?.len();
    if size > 2 * BYTES_MAX {
        return Err(unable(from, "it is larger than any result"));
    }
    let text = fs::read_to_string(from).map_err(|error| unable(from, &error.to_string()))?;
    let packed: Packed = serde_json::from_str(&text).map_err(|error| {
        unable(from, &format!("{error}: `ashlar lab export DIR > FILE` makes such a file"))
    })?;
    if packed.format != FORMAT {
        return Err(unable(from, &format!("format {} is unknown, this is {FORMAT}", packed.format)));
    }
    if let Some(name) = packed.files.keys().find(|name| !is_of_result(Path::new(name))) {
        return Err(unable(from, &format!("`{name}` is no file of a result: nothing is taken in")));
    }
    let files = packed.files.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    Ok((files, packed.left_out))
}

fn refuse_paper(directory: &Path) -> Result<()> {
    if !crate::is_paper(directory) {
        return Ok(());
    }
    Err(unable(directory, "it holds a whole paper: name the directory of one experiment in it"))
}

/// Writes it, and holds it against what it was made from.
fn take_in(files: &Files, output: &Path) -> Result<(Verified, Machine, Option<String>)> {
    for (name, bytes) in files {
        let path = output.join(name);
        make(path.parent().unwrap_or(output))?;
        fs::write(&path, bytes).map_err(|error| unable(&path, &error.to_string()))?;
    }
    let begun = Records::new(output).begun()?;
    let made_by = Some(begun.version).filter(|version| version != env!("CARGO_PKG_VERSION"));
    // Other versions make other pages of the same figures.
    if made_by.is_some() {
        crate::report(output)?;
    }
    Ok((crate::verify(output)?, begun.machine, made_by))
}

/// Relative, without a way out, and one that a result has.
fn is_of_result(path: &Path) -> bool {
    let names: Option<Vec<&str>> = path
        .components()
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    match names.as_deref() {
        Some([name]) => FILES.contains(name),
        Some([first, _, ..]) => DIRECTORIES.contains(first),
        Some([]) | None => false,
    }
}

/// The files of a result; no link is followed.
fn collect(directory: &Path) -> Result<Files> {
    let mut found = Files::new();
    let mut total = 0;
    let mut pending: Vec<PathBuf> = FILES.iter().chain(&DIRECTORIES).map(PathBuf::from).collect();
    while let Some(relative) = pending.pop() {
        let path = directory.join(&relative);
        let told = |error: std::io::Error| unable(&path, &error.to_string());
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            for entry in fs::read_dir(&path).map_err(told)? {
                pending.push(relative.join(entry.map_err(told)?.file_name()));
            }
            continue;
        }
        let name = relative.to_str().filter(|_| metadata.is_file() && is_of_result(&relative));
        let Some(name) = name else { continue };
        total += metadata.len();
        if total > BYTES_MAX || found.len() == FILES_MAX {
            return Err(unable(directory, "it has more files or bytes than any result"));
        }
        found.insert(name.to_string(), fs::read(&path).map_err(told)?);
    }
    Ok(found)
}

/// Those that are text, and the names of the others.
fn texts(files: Files) -> (BTreeMap<String, String>, Vec<String>) {
    let mut texts = BTreeMap::new();
    let mut left_out = Vec::new();
    for (name, bytes) in files {
        match String::from_utf8(bytes) {
            Ok(text) => {
                texts.insert(name, text);
            }
            Err(_) => left_out.push(name),
        }
    }
    (texts, left_out)
}

impl Imported {
    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![self.verified.text(), String::new()];
        lines.push(format!(
            "Taken in: {} files, measured on {} cores of {}.",
            self.files, self.machine.cores, self.machine.processor
        ));
        lines.extend(self.made_by.iter().map(|version| {
            format!("Version {version} made it: its pages were made anew, from the same figures.")
        }));
        if !self.left_out.is_empty() {
            lines.push(format!("Not packed, because they are no text: {}.", self.left_out.join(", ")));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_result_have_names_that_are_taken() {
        for good in ["plan.json", "report.html", "runs/r1-a/run.json", "data/set-1/f1-fill.fio"] {
            assert!(is_of_result(Path::new(good)), "{good}");
        }
        let bad =
            ["", "places.json", "/plan.json", "../plan.json", "runs/../../x", "runs", "log/x", "a/plan.json"];
        for bad in bad {
            assert!(!is_of_result(Path::new(bad)), "{bad}");
        }
    }

    #[test]
    fn a_file_with_a_way_out_is_refused_before_anything_is_written() {
        let scratch = tempfile::tempdir().unwrap();
        let (file, output) = (scratch.path().join("f"), scratch.path().join("out"));
        for name in ["../evil", "/tmp/evil", "runs/../../evil", "places.json"] {
            let files = BTreeMap::from([(name.to_string(), "x".to_string())]);
            let packed = Packed { what: String::new(), format: FORMAT, files, left_out: Vec::new() };
            fs::write(&file, json(&packed)).unwrap();
            let refused = import(&file, &output).unwrap_err().to_string();
            assert!(refused.contains("no file of a result") && !output.exists(), "{refused}");
        }
        fs::write(&file, "{}").unwrap();
        assert!(import(&file, &output).unwrap_err().to_string().contains("lab export DIR > FILE"));
    }
}
