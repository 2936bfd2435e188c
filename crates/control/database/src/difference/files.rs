//! The files of a PostgreSQL database that are compared, by the names that PostgreSQL gives them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::postgres::failed;
use crate::record::Role;
use crate::site::Site;

/// Directories of the data directory in which nothing is worth a comparison: what a server makes anew at its
/// start or writes at its stop, and slots, which a copy has not.
const LEFT_OUT: [&str; 8] = [
    "pg_dynshmem",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat",
    "pg_stat_tmp",
    "pg_subtrans",
];
/// What sorts and joins put aside, wherever it is.
const TEMPORARY: &str = "pgsql_tmp";
/// A cache of the catalogue that a server makes anew.
const CACHE: &str = "pg_internal.init";
const LOG: &str = "pg_wal";
const TABLESPACES: &str = "pg_tblspc";

/// A file.
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// The volume that it is on.
    pub(super) role: Role,
}

/// All of them. Files right in the data directory are settings and marks of the server: they are not of the
/// content, and those of a copy are its own.
pub(super) fn files(site: &Site) -> Result<BTreeMap<String, Found>> {
    let data = site.places().data;
    let mut files = BTreeMap::new();
    for (name, path) in entries(&data)? {
        if path.is_symlink() || !path.is_dir() || LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if name != TABLESPACES {
            add(&mut files, name, &path, &Role::Data)?;
        }
    }
    if let Some(log) = site.log() {
        add(&mut files, LOG.to_string(), &log, &Role::Log)?;
    }
    let links = entries(&data.join(TABLESPACES))?;
    for role in site.roles.iter().filter(|role| matches!(role, Role::Tablespace(_))) {
        let own = site.files_on(role);
        let is_own = |link: &PathBuf| fs::read_link(link).is_ok_and(|target| target == own);
        if let Some((number, _)) = links.iter().find(|(_, link)| is_own(link)) {
            add(&mut files, format!("{TABLESPACES}/{number}"), &own, role)?;
        }
    }
    Ok(files)
}

/// Adds every file below a directory; links are not followed.
fn add(files: &mut BTreeMap<String, Found>, name: String, directory: &Path, role: &Role) -> Result<()> {
    let mut waiting = vec![(name, directory.to_path_buf())];
    while let Some((name, directory)) = waiting.pop() {
        for (entry, path) in entries(&directory)? {
            let is_link = path.is_symlink();
            if is_link || entry.starts_with(TEMPORARY) || entry == CACHE {
                continue;
            }
            let name = format!("{name}/{entry}");
            if path.is_dir() {
                waiting.push((name, path));
            } else if path.is_file() {
                files.insert(name, Found { path, role: role.clone() });
            }
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let refused = |error: std::io::Error| failed("list", directory, &error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        entries.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    Ok(entries)
}
