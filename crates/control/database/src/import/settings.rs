//! The settings of a source: found where its distribution keeps them, and freed of what only the source may
//! have.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use ashlar_postgres::{add_settings, take_settings_out};

use super::failed;
use crate::error::{Error, Result};
use crate::postgres::Postgres;

/// Where Debian keeps the settings of each server: MAJOR/NAME.
const DEBIAN: &str = "/etc/postgresql";
const SERVER: &str = "postgresql.conf";
const RULES: &str = "pg_hba.conf";
const NAMES: &str = "pg_ident.conf";
const MORE: &str = "conf.d";
/// The array says them at every start, or they are the source's own: where it listens, which directories it
/// has, whom it follows, and where it archives.
const UNWANTED: [&str; 18] = [
    "data_directory",
    "hba_file",
    "ident_file",
    "external_pid_file",
    "stats_temp_directory",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
    "port",
    "listen_addresses",
    "cluster_name",
    "primary_conninfo",
    "primary_slot_name",
    "promote_trigger_file",
    "restore_command",
    "archive_cleanup_command",
    "recovery_end_command",
    "synchronous_standby_names",
];
/// The same, but whoever had them should know.
const ARCHIVES: [&str; 3] = ["archive_mode", "archive_command", "archive_library"];
/// Files that a server reads at its start; they may be anywhere.
const CERTIFICATES: [&str; 5] =
    ["ssl_cert_file", "ssl_key_file", "ssl_ca_file", "ssl_crl_file", "ssl_dh_params_file"];

/// Files of settings that are not in the data directory.
#[derive(Default)]
pub(super) struct Files {
    /// Each with its name in the copy.
    files: Vec<(PathBuf, PathBuf)>,
}

/// Finds them.
///
/// # Errors
/// When there are none.
pub(super) fn find_files(data: &Path, given: Option<&Path>, major: u32) -> Result<Files> {
    let directory = match given {
        Some(given) if !given.join(SERVER).is_file() => {
            let what = format!("{} holds no {SERVER}", given.display());
            return Err(Error::refused(what, "name the directory that does with --config"));
        }
        Some(given) => given.to_path_buf(),
        None if data.join(SERVER).is_file() => data.to_path_buf(),
        None => of_debian(data, major).ok_or_else(|| {
            Error::refused(
                format!("{} holds no {SERVER}, and no server in {DEBIAN}/{major} has it", data.display()),
                "name the directory that holds it with --config",
            )
        })?,
    };
    let mut files = Vec::new();
    let settings = fs::read(directory.join(SERVER)).unwrap_or_default();
    let settings = String::from_utf8_lossy(&settings).into_owned();
    for (name, setting) in [(SERVER, ""), (RULES, "hba_file"), (NAMES, "ident_file")] {
        let named = value_of(&settings, setting).map(PathBuf::from).filter(|path| path.is_absolute());
        let from = named.unwrap_or_else(|| directory.join(name));
        if from.is_file() && from != data.join(name) {
            files.push((from, PathBuf::from(name)));
        }
    }
    if directory != data {
        let more = fs::read_dir(directory.join(MORE)).into_iter().flatten().flatten();
        let more = more.map(|entry| entry.path()).filter(|path| path.is_file());
        files.extend(more.map(|path| {
            let name = Path::new(MORE).join(path.file_name().unwrap_or_default());
            (path, name)
        }));
    }
    Ok(Files { files })
}

/// The directory of settings whose server has this data.
fn of_debian(data: &Path, major: u32) -> Option<PathBuf> {
    let servers = fs::read_dir(Path::new(DEBIAN).join(major.to_string())).ok()?.flatten();
    servers.map(|entry| entry.path()).find(|directory| {
        let text = fs::read(directory.join(SERVER)).unwrap_or_default();
        let named = value_of(&String::from_utf8_lossy(&text), "data_directory");
        named.is_some_and(|named| fs::canonicalize(named).is_ok_and(|named| named == data))
    })
}

/// The last value of a setting in a file, where it is written as Debian does.
fn value_of(text: &str, name: &str) -> Option<String> {
    let value = |line: &str| {
        let rest = line.trim_start().strip_prefix(name)?.trim_start();
        let rest = rest.strip_prefix('=')?.trim_start();
        let value = rest.strip_prefix('\'').map_or_else(
            || rest.split([' ', '\t', '#']).next().unwrap_or("").to_string(),
            |inside| inside.split('\'').next().unwrap_or("").to_string(),
        );
        Some(value)
    };
    if name.is_empty() { None } else { text.lines().filter_map(value).next_back() }
}

/// Copies them into the copy of the data.
pub(super) fn copy_files(
    data: &Path,
    files: &Files,
    copy: &mut dyn FnMut(&Path, &Path) -> Result<()>,
) -> Result<()> {
    for (from, name) in &files.files {
        let to = data.join(name);
        if let Some(above) = to.parent().filter(|above| *above != data) {
            fs::create_dir_all(above).map_err(|error| failed("make", above, &error))?;
            // The server's account only reads it.
            let open = fs::set_permissions(above, fs::Permissions::from_mode(0o755));
            open.map_err(|error| failed("open", above, &error))?;
        }
        copy(from, &to)?;
    }
    Ok(())
}

/// Frees the settings of what only the source may have; what was taken that somebody may miss. Certificates
/// that are files of this machine are copied.
pub(super) fn take_over(postgres: &Postgres, is_local: bool) -> Result<Vec<String>> {
    let data = postgres.site().places().data;
    let account = postgres.installation().account;
    let is_elsewhere = |value: &str| Path::new(value).is_absolute();
    let taken = take_settings_out(&data, account, |name, value| {
        UNWANTED.contains(&name)
            || ARCHIVES.contains(&name)
            || name.starts_with("recovery_target")
            || (CERTIFICATES.contains(&name) || name == "log_directory") && is_elsewhere(value)
    })?;
    let (mut notes, mut more) = (Vec::new(), Vec::new());
    let last = |name: &str| taken.iter().rfind(|one| one.name == name).map(|one| one.value.as_str());
    let commands = ["archive_command", "archive_library"].into_iter().filter_map(last);
    if commands.into_iter().any(|command| !command.is_empty()) {
        notes.push("it archives nothing: its source's archive is no place for another's log".to_string());
    }
    if let Some(value) = last("log_directory") {
        notes.push(format!("what its server says is in its data directory, not in {value}"));
    }
    let mut is_without_certificate = false;
    for name in CERTIFICATES {
        let Some(value) = last(name) else { continue };
        let copy = format!("ashlar-{name}");
        if is_local && copy_secret(Path::new(value), &data.join(&copy), postgres).is_ok() {
            more.push((name.to_string(), copy));
        } else {
            is_without_certificate = true;
        }
    }
    if is_without_certificate {
        more.push(("ssl".to_string(), "off".to_string()));
        notes.push("TLS is off: the source's certificate is not in its data directory".to_string());
    }
    if !more.is_empty() {
        add_settings(&data, account, &more)?;
    }
    Ok(notes)
}

fn copy_secret(from: &Path, to: &Path, postgres: &Postgres) -> io::Result<()> {
    let bytes = fs::read(from)?;
    fs::write(to, bytes)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o600))?;
    match postgres.installation().owner() {
        Some((user, group)) => lchown(to, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// Files that a base backup did not bring, since its source keeps them elsewhere.
pub(super) fn make_missing(postgres: &Postgres, settings: &[(String, String)]) -> Result<bool> {
    let data = postgres.site().places().data;
    let is_missing = !data.join(SERVER).is_file();
    if is_missing {
        let is_wanted = |(name, _): &&(String, String)| {
            let name = name.as_str();
            let is_of_source = UNWANTED.contains(&name)
                || ARCHIVES.contains(&name)
                || name.starts_with("ssl")
                || name.starts_with("recovery_target")
                || ["config_file", "log_directory"].contains(&name);
            !is_of_source
        };
        let wanted: Vec<(String, String)> = settings.iter().filter(is_wanted).cloned().collect();
        add_settings(&data, postgres.installation().account, &wanted)?;
    }
    for (name, text) in [(RULES, "host all all 127.0.0.1/32 scram-sha-256\n"), (NAMES, "")] {
        let path = data.join(name);
        if !path.is_file() {
            fs::write(&path, text).map_err(|error| failed("write", &path, &error))?;
            if let Some((user, group)) = postgres.installation().owner() {
                lchown(&path, Some(user), Some(group)).map_err(|error| failed("give away", &path, &error))?;
            }
        }
    }
    Ok(is_missing)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn settings_are_found_where_debian_keeps_them() {
        let text =
            "#data_directory = '/no'\ndata_directory = '/var/lib/x'  # use\nhba_file='/etc/h'\nport = 5432\n";
        assert_eq!(value_of(text, "data_directory").as_deref(), Some("/var/lib/x"));
        assert_eq!(value_of(text, "hba_file").as_deref(), Some("/etc/h"));
        assert_eq!(value_of(text, "port").as_deref(), Some("5432"));
        assert_eq!(value_of(text, "ident_file"), None);
    }

    #[test]
    fn a_data_directory_without_settings_is_refused_by_name() {
        let scratch = tempfile::tempdir().unwrap();
        let error = find_files(scratch.path(), None, 9).err().unwrap();
        assert!(error.what.contains("postgresql.conf") && error.action.contains("--config"), "{error:?}");
        let config = scratch.path().join("etc");
        fs::create_dir_all(config.join("conf.d")).unwrap();
        for name in ["postgresql.conf", "pg_hba.conf", "conf.d/a.conf"] {
            fs::write(config.join(name), "").unwrap();
        }
        assert_eq!(find_files(scratch.path(), Some(&config), 9).unwrap().files.len(), 3);
    }
}
