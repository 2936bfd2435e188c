//! What the settings files of a copy say, and which of it leads outside of the copy.
//!
//! The files are read as the server reads them (section 20.1 of its manual): a name set again has its last
//! value, `postgresql.auto.conf` comes last, and the file of ours is the one that the next start will write.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Bounds;
use crate::error::{Error, Result};
use crate::settings::{SERVER_FILE, SETTINGS_FILE, Settings};

/// Written by `ALTER SYSTEM`; read after all others.
pub(super) const AUTO_FILE: &str = "postgresql.auto.conf";
/// As deep as the server itself follows includes.
const DEPTH_MAX: u32 = 10;
pub(super) const INCLUDES: [&str; 3] = ["include", "include_if_exists", "include_dir"];
/// Settings that are one path.
const PATHS: [&str; 14] = [
    "data_directory",
    "hba_file",
    "ident_file",
    "external_pid_file",
    "log_directory",
    "stats_temp_directory",
    "promote_trigger_file",
    "krb_server_keyfile",
    "ssl_ca_file",
    "ssl_cert_file",
    "ssl_crl_dir",
    "ssl_crl_file",
    "ssl_dh_params_file",
    "ssl_key_file",
];
/// Settings that write where the source's archive is, whatever they look like.
const ARCHIVES: [&str; 2] = ["archive_command", "archive_library"];
/// Archiving that does nothing.
const HARMLESS: [&str; 5] = ["", ":", "true", "/bin/true", "/usr/bin/true"];
/// Settings that are a line for the shell.
const COMMANDS: [&str; 4] =
    ["restore_command", "archive_cleanup_command", "recovery_end_command", "ssl_passphrase_command"];
/// Programs may be named by their whole path, and nothing may be thrown away.
const PROGRAM_PLACES: [&str; 7] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/lib/postgresql", "/dev"];

/// One line of a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: String,
    /// The file and the line in it.
    pub(super) place: String,
}

/// Everything the settings files of a data directory say, in order; `ours` stands for the file of ours.
pub(super) fn read(data: &Path, ours: &Settings) -> Result<Vec<Assignment>> {
    let mut reader = Reader { data, ours: ours.text()?, found: Vec::new() };
    reader.file(&data.join(SERVER_FILE), 0)?;
    // The next start includes it at the end if nothing does so far.
    if !reader.found.iter().any(|one| one.name == "include" && one.value == SETTINGS_FILE) {
        reader.text(&reader.ours.clone(), &data.join(SETTINGS_FILE), 0)?;
    }
    let automatic = data.join(AUTO_FILE);
    if automatic.exists() {
        reader.file(&automatic, 0)?;
    }
    Ok(reader.found)
}

struct Reader<'a> {
    data: &'a Path,
    ours: String,
    found: Vec<Assignment>,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: u32) -> Result<()> {
        if path == self.data.join(SETTINGS_FILE) {
            return self.text(&self.ours.clone(), path, depth);
        }
        let text = fs::read(path).map_err(|e| Error::io(&format!("read {}", path.display()), &e))?;
        self.text(&String::from_utf8_lossy(&text), path, depth)
    }

    fn text(&mut self, text: &str, path: &Path, depth: u32) -> Result<()> {
        for (index, line) in text.lines().enumerate() {
            let Some((name, value)) = assignment(line) else { continue };
            let shown = path.strip_prefix(self.data).unwrap_or(path).display();
            let place = format!("{shown} line {}", index + 1);
            self.found.push(Assignment { name: name.clone(), value: value.clone(), place });
            // What lies elsewhere is refused as it stands, so there is no need to read it.
            if INCLUDES.contains(&name.as_str()) && Path::new(&value).is_relative() && depth < DEPTH_MAX {
                self.include(&name, &path.parent().unwrap_or(self.data).join(&value), depth + 1)?;
            }
        }
        Ok(())
    }

    fn include(&mut self, kind: &str, path: &Path, depth: u32) -> Result<()> {
        if kind != "include_dir" {
            let is_ours = path == self.data.join(SETTINGS_FILE);
            // A missing file is the server's to complain about.
            return if is_ours || path.exists() { self.file(path, depth) } else { Ok(()) };
        }
        let entries = fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
        let mut files: Vec<PathBuf> = entries.unwrap_or_default();
        files.retain(|file| file.extension().is_some_and(|ending| ending == "conf"));
        files.sort();
        files.iter().try_for_each(|file| self.file(file, depth))
    }
}

/// Name and value of a line: `name = value`, `name value`, either in quotes, with a comment at its end.
pub(super) fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let length = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '$'));
    let (name, rest) = line.split_at(length.unwrap_or(line.len()));
    if name.is_empty() {
        return None;
    }
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let value = match rest.strip_prefix('\'') {
        Some(inside) => unquoted(inside),
        None => rest.split(|c: char| c.is_whitespace() || c == '#').next().unwrap_or("").to_string(),
    };
    Some((name.to_ascii_lowercase(), value))
}

/// What is between quotes: two of them are one, and so is whatever follows a backslash.
fn unquoted(inside: &str) -> String {
    let mut value = String::new();
    let mut chars = inside.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' if chars.peek() == Some(&'\'') => value.extend(chars.next()),
            '\'' => break,
            '\\' => value.extend(chars.next()),
            _ => value.push(c),
        }
    }
    value
}

/// What of it leads outside of the copy, one line each.
pub(super) fn judge(assignments: &[Assignment], bounds: &Bounds) -> Vec<String> {
    let mut problems = Vec::new();
    let mut last: BTreeMap<&str, &Assignment> = BTreeMap::new();
    for one in assignments {
        if INCLUDES.contains(&one.name.as_str()) {
            if !bounds.holds(Path::new(&one.value)) {
                problems.push(said(one, "it is outside of the copy"));
            }
        } else {
            last.insert(&one.name, one);
        }
    }
    for (name, one) in last {
        let is_outside = |path: &str| !path.is_empty() && !bounds.holds(Path::new(path));
        if PATHS.contains(&name) && is_outside(&one.value) {
            problems.push(said(one, "it is outside of the copy"));
        }
        if ARCHIVES.contains(&name) && !HARMLESS.contains(&one.value.trim()) {
            problems.push(said(one, "a copy must not archive where its source does"));
        }
        if COMMANDS.contains(&name) {
            let outside = paths_in(&one.value).find(|path| is_outside(path) && !is_program(path));
            problems.extend(outside.map(|path| said(one, &format!("{path} is outside of the copy"))));
        }
    }
    problems
}

fn said(one: &Assignment, why: &str) -> String {
    let Assignment { name, value, place } = one;
    format!("{place}: {name} = '{value}': {why}; set it anew in the settings of this server or take it out")
}

/// The whole paths in a line for the shell.
fn paths_in(command: &str) -> impl Iterator<Item = &str> {
    let is_border = |c: char| c.is_whitespace() || "'\"=;|&<>():,`".contains(c);
    command.split(is_border).filter(|word| word.starts_with('/'))
}

fn is_program(path: &str) -> bool {
    PROGRAM_PLACES.iter().any(|place| Path::new(path).starts_with(place))
}

#[cfg(test)]
mod tests;
