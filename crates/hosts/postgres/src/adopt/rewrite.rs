//! Settings that a copy must not have from its source: taken out of its files, line by line, and kept in them
//! as comments.

use std::fs;
use std::path::{Path, PathBuf};

use super::configuration::{AUTO_FILE, INCLUDES, assignment};
use crate::account::Account;
use crate::error::{Error, Result};
use crate::settings::{SERVER_FILE, end_line, replace};

/// In front of a line that was taken out, and of those that were put in.
const MARK: &str = "# ashlar: ";
const RULES_FILE: &str = "pg_hba.conf";
/// Settings files of one server. Arbitrary: Debian's have two.
const FILES_MAX: usize = 100;

/// A setting that was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingTaken {
    /// Its name.
    pub name: String,
    /// What it was set to.
    pub value: String,
}

/// Takes settings out of the files of a data directory that the server reads: those whose name and value are
/// not wanted. What lies outside of it, or is a link, is left as it is: the judge of the copy refuses it.
///
/// # Errors
/// When a file cannot be read or written.
pub fn take_settings_out(
    data: &Path,
    account: Option<Account>,
    is_unwanted: impl Fn(&str, &str) -> bool,
) -> Result<Vec<SettingTaken>> {
    let mut taken = Vec::new();
    let mut files = vec![data.join(SERVER_FILE), data.join(AUTO_FILE)];
    let mut next = 0;
    while next < files.len().min(FILES_MAX) {
        let path = files[next].clone();
        next += 1;
        if !is_within(data, &path) {
            continue;
        }
        let Ok(bytes) = fs::read(&path) else { continue };
        let mut is_changed = false;
        let mut fresh = Vec::with_capacity(bytes.len());
        // In whatever encoding: what is not taken out stays byte for byte.
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let found = assignment(&String::from_utf8_lossy(line));
            if let Some((name, value)) = found.as_ref().filter(|(name, value)| is_unwanted(name, value)) {
                taken.push(SettingTaken { name: name.clone(), value: value.clone() });
                fresh.extend(MARK.bytes());
                is_changed = true;
            } else if let Some((name, value)) = found {
                included(&path, &name, &value).into_iter().for_each(|file| {
                    if !files.contains(&file) {
                        files.push(file);
                    }
                });
            }
            fresh.extend(line);
        }
        if is_changed {
            replace(&path, fresh, account)?;
        }
    }
    Ok(taken)
}

/// Whether a file is one of the directory's own, by way of no link.
fn is_within(data: &Path, path: &Path) -> bool {
    let (Ok(data), Ok(found)) = (fs::canonicalize(data), fs::canonicalize(path)) else { return false };
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    is_file && found.starts_with(data)
}

/// The files that a line includes, below the directory of its own file.
fn included(path: &Path, name: &str, value: &str) -> Vec<PathBuf> {
    if !INCLUDES.contains(&name) || Path::new(value).is_absolute() {
        return Vec::new();
    }
    let target = path.parent().unwrap_or(Path::new("")).join(value);
    if name != "include_dir" {
        return vec![target];
    }
    let entries = fs::read_dir(target).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "conf"))
        .collect()
}

/// Adds settings at the end of the server's own file.
///
/// # Errors
/// When it cannot be read or written.
pub fn add_settings(data: &Path, account: Option<Account>, settings: &[(String, String)]) -> Result<()> {
    let path = data.join(SERVER_FILE);
    let mut text = read_if_any(&path)?;
    end_line(&mut text);
    for (name, value) in settings {
        let value = value.replace('\\', "\\\\").replace('\'', "''");
        text.extend(format!("{name} = '{value}'\n").bytes());
    }
    replace(&path, text, account)
}

/// Puts rules before all others of `pg_hba.conf`: the superuser needs no password on the socket, and one on
/// this machine's own address.
///
/// # Errors
/// When the file cannot be read or written.
pub fn put_before_access_rules(data: &Path, account: Option<Account>, superuser: &str) -> Result<()> {
    let path = data.join(RULES_FILE);
    let text = read_if_any(&path)?;
    let user = format!("\"{}\"", superuser.replace('"', "\"\""));
    let rules = format!(
        "{MARK}the next two lines let the array and its users in\n\
         local all {user} trust\n\
         host all {user} 127.0.0.1/32 scram-sha-256\n"
    );
    if text.starts_with(rules.as_bytes()) {
        return Ok(());
    }
    replace(&path, [rules.into_bytes(), text].concat(), account)
}

/// A file, or nothing where there is none.
fn read_if_any(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found.map_err(|error| Error::io(&format!("read {}", path.display()), &error)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The harm: the settings of the source itself were changed when its copy was made.
    #[test]
    fn files_outside_of_the_copy_are_left_as_they_are() {
        let scratch = tempfile::tempdir().unwrap();
        let (data, outside) = (scratch.path().join("data"), scratch.path().join("outside.conf"));
        let linked = scratch.path().join("linked.conf");
        fs::create_dir(&data).unwrap();
        for path in [&outside, &linked] {
            fs::write(path, "port = 1\n").unwrap();
        }
        fs::write(data.join(SERVER_FILE), "include '../outside.conf'\ninclude 'a.conf'\n").unwrap();
        std::os::unix::fs::symlink(&linked, data.join("a.conf")).unwrap();
        assert_eq!(take_settings_out(&data, None, |name, _| name == "port").unwrap(), []);
        for path in [&outside, &linked] {
            assert_eq!(fs::read_to_string(path).unwrap(), "port = 1\n");
        }
    }

    /// The harm: comments of a French DBA kept a database from being imported, or were lost.
    #[test]
    fn files_keep_their_bytes_in_whatever_encoding() {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path();
        fs::write(data.join(SERVER_FILE), b"# m\xe9moire\nport = 1\nwork_mem = 4MB # \xe9t\xe9").unwrap();
        take_settings_out(data, None, |name, _| name == "port").unwrap();
        add_settings(data, None, &[("a.b".to_string(), "c".to_string())]).unwrap();
        crate::Settings::new().write(data, None).unwrap();
        assert_eq!(
            fs::read(data.join(SERVER_FILE)).unwrap(),
            b"# m\xe9moire\n# ashlar: port = 1\nwork_mem = 4MB # \xe9t\xe9\na.b = 'c'\ninclude 'ashlar.conf'\n"
        );
    }

    #[test]
    fn unwanted_settings_are_comments_in_whatever_file_they_stand() {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path();
        fs::create_dir(data.join("conf.d")).unwrap();
        fs::write(data.join(SERVER_FILE), "port = 5432 # mine\nwork_mem = 4MB\ninclude_dir 'conf.d'\n")
            .unwrap();
        fs::write(data.join("conf.d/a.conf"), "archive_command='cp %p /x/%f'\n").unwrap();
        fs::write(data.join(AUTO_FILE), "listen_addresses = '*'\nwork_mem = '8MB'").unwrap();
        let unwanted = ["port", "archive_command", "listen_addresses"];
        let taken = take_settings_out(data, None, |name, _| unwanted.contains(&name)).unwrap();
        let names: Vec<&str> = taken.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["port", "listen_addresses", "archive_command"]);
        assert_eq!(taken[2].value, "cp %p /x/%f");
        let read = |name: &str| fs::read_to_string(data.join(name)).unwrap();
        assert_eq!(read("conf.d/a.conf"), "# ashlar: archive_command='cp %p /x/%f'\n");
        assert_eq!(read(AUTO_FILE), "# ashlar: listen_addresses = '*'\nwork_mem = '8MB'");
        // Nothing is left to be taken out.
        assert_eq!(take_settings_out(data, None, |name, _| unwanted.contains(&name)).unwrap(), []);
    }

    #[test]
    fn the_rules_of_ours_come_first_and_once() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join(RULES_FILE), "host all all all reject\n").unwrap();
        put_before_access_rules(scratch.path(), None, "od\"d").unwrap();
        put_before_access_rules(scratch.path(), None, "od\"d").unwrap();
        let text = fs::read_to_string(scratch.path().join(RULES_FILE)).unwrap();
        assert!(text.starts_with("# ashlar: ") && text.ends_with("host all all all reject\n"), "{text}");
        assert_eq!(text.matches("local all \"od\"\"d\" trust").count(), 1, "{text}");
    }
}
