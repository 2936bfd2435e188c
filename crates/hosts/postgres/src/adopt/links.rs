//! The links of a data directory: where they lead, and where they must lead in a copy.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Adoption, Bounds, Relink, plain, real};
use crate::account::Account;
use crate::error::{Error, Result};
use crate::server::Places;
use crate::settings::replace;

/// Where tablespaces hang.
const TABLESPACES: &str = "pg_tblspc";
/// Where temporary files are. Nothing in them is needed by a server that starts.
const TEMPORARY: &str = "base/pgsql_tmp";
/// PostgreSQL's own are three deep.
const DEPTH_MAX: u32 = 32;
/// Of what is wrong, so much is told.
const PROBLEMS_MAX: usize = 50;
/// Written by a backup: the server makes the links anew from it at its first start.
const MAP_FILE: &str = "tablespace_map";

/// Where every link leads from now on, and what is wrong with those that cannot be led.
pub(super) fn plan(places: &Places, adoption: &Adoption) -> Result<(Vec<Relink>, Vec<String>)> {
    let data = &places.data;
    let (mut plan, mut problems) = (Vec::new(), Vec::new());
    wal_link(places, adoption, &mut plan, &mut problems)?;
    let bounds = Bounds::new(places, adoption);
    // Two servers may read one certificate, but never write one tablespace.
    let own = Bounds::new(places, &Adoption { shared: Vec::new(), ..adoption.clone() });
    let mut tablespaces = links_in(data, TABLESPACES)?;
    tablespaces.extend(map_entries(data)?.into_iter().map(|(name, from)| (in_tablespaces(&name), from)));
    for (name, from) in tablespaces {
        let to = moved(data, &from, adoption);
        let link = Relink { name, from, to };
        match fault(&link, &own, adoption) {
            Some(fault) => problems.push(format!("{} leads to {}: {fault}", link.name, link.from.display())),
            // A backup may name a tablespace by its link and in its map.
            None if plan.contains(&link) => {}
            None => plan.push(link),
        }
    }
    for (index, link) in plan.iter().enumerate() {
        let is_twin = |other: &&Relink| other.name != link.name && other.to == link.to;
        if let Some(twin) = plan[..index].iter().find(is_twin) {
            let to = link.to.display();
            problems.push(format!("{} and {} would both lead to {to}", twin.name, link.name));
        }
    }
    // Anything else that leads out of the data directory is nothing that PostgreSQL makes.
    let is_led = |path: &Path| {
        let name = path.strip_prefix(data).unwrap_or(path);
        name == Path::new("pg_wal")
            || name.parent() == Some(Path::new(TABLESPACES))
            || name == Path::new(TEMPORARY) && places.temporary.is_some()
    };
    let elsewhere = plan.iter().map(|link| link.to.as_path()).filter(|to| !to.starts_with(data));
    for place in std::iter::once(data.as_path()).chain(elsewhere) {
        for (link, from) in links_below(place, 0)? {
            let around = link.parent().unwrap_or(place);
            if !is_led(&link) && !bounds.holds(&around.join(&from)) {
                let name = link.strip_prefix(data).unwrap_or(&link).display().to_string();
                problems.push(format!("{name} leads to {}: it is outside of the copy", from.display()));
            }
        }
    }
    problems.truncate(PROBLEMS_MAX);
    Ok((plan, problems))
}

/// Every link below a directory, and where it leads. None is followed.
fn links_below(directory: &Path, depth: u32) -> Result<Vec<(PathBuf, PathBuf)>> {
    let context = |e: std::io::Error| Error::io(&directory.display().to_string(), &e);
    let (mut links, mut entries) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).map_err(context)? {
        entries.push(entry.map_err(context)?);
    }
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(context)?;
        if kind.is_symlink() {
            links.push((entry.path(), target(&entry.path())?));
        } else if kind.is_dir() && depth < DEPTH_MAX {
            links.extend(links_below(&entry.path(), depth + 1)?);
        } else if kind.is_dir() {
            let what = format!("{}: directories are more than {DEPTH_MAX} deep", entry.path().display());
            return Err(Error::environment(what));
        }
    }
    Ok(links)
}

fn wal_link(
    places: &Places,
    adoption: &Adoption,
    plan: &mut Vec<Relink>,
    problems: &mut Vec<String>,
) -> Result<()> {
    let link = places.data.join("pg_wal");
    let is_link = fs::symlink_metadata(&link).map(|found| found.file_type().is_symlink());
    let is_link = is_link.map_err(|e| Error::io(&link.display().to_string(), &e))?;
    match (&places.wal, is_link) {
        (None, false) => {}
        (None, true) => {
            let from = target(&link)?;
            problems.push(format!("pg_wal leads to {}: name the copy's own place for it", from.display()));
        }
        (Some(to), true) if !to.is_dir() => {
            problems.push(format!("{}: the copied write-ahead log is not there", to.display()));
        }
        (Some(to), true) => {
            let from = target(&link)?;
            if is_the_sources(&from, to, adoption) {
                problems.push(format!("pg_wal: {} is still the source's", to.display()));
            }
            plan.push(Relink { name: "pg_wal".into(), from, to: to.clone() });
        }
        (Some(to), false) => {
            problems.push(format!("pg_wal is inside the copy, and not in {}", to.display()));
        }
    }
    Ok(())
}

/// The links in a folder of the data directory, by name.
fn links_in(data: &Path, folder: &str) -> Result<Vec<(String, PathBuf)>> {
    let directory = data.join(folder);
    let context = |e: std::io::Error| Error::io(&directory.display().to_string(), &e);
    let mut links = Vec::new();
    for entry in fs::read_dir(&directory).map_err(context)? {
        let entry = entry.map_err(context)?;
        if entry.file_type().map_err(context)?.is_symlink() {
            let name = Path::new(folder).join(entry.file_name()).display().to_string();
            links.push((name, target(&entry.path())?));
        }
    }
    links.sort();
    Ok(links)
}

fn target(link: &Path) -> Result<PathBuf> {
    fs::read_link(link).map_err(|e| Error::io(&link.display().to_string(), &e))
}

fn in_tablespaces(name: &str) -> String {
    format!("{TABLESPACES}/{name}")
}

/// Where a directory of the source is now; the longest move that fits counts.
fn moved(data: &Path, from: &Path, adoption: &Adoption) -> PathBuf {
    // PostgreSQL's own links are absolute.
    let from = plain(&data.join(TABLESPACES).join(from));
    let fitting =
        adoption.moves.iter().filter_map(|(old, new)| Some((new, from.strip_prefix(plain(old)).ok()?)));
    match fitting.min_by_key(|(_, rest)| rest.components().count()) {
        Some((new, rest)) if rest.as_os_str().is_empty() => new.clone(),
        Some((new, rest)) => new.join(rest),
        None => from,
    }
}

/// Whether a new place turns out to be the old one, by way of a link.
fn is_the_sources(from: &Path, to: &Path, adoption: &Adoption) -> bool {
    let was_moved = adoption.moves.iter().any(|(old, _)| plain(from).starts_with(plain(old)));
    was_moved && real(from) == real(to)
}

/// Why a tablespace cannot be led there.
fn fault(link: &Relink, own: &Bounds, adoption: &Adoption) -> Option<String> {
    let Relink { from, to, .. } = link;
    let shown = to.display();
    // Asked first: a link to the source leads outside of the copy too, and this says more.
    if is_the_sources(from, to, adoption) {
        return Some(format!("{shown} is still the source's"));
    }
    if !own.holds(to) {
        return Some("it is outside of the copy, and no new place is told".into());
    }
    let has_data = fs::read_dir(to).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("PG_"))
    });
    (!has_data).then(|| format!("{shown} holds no copy of it"))
}

/// Makes a link lead elsewhere.
pub(super) fn apply(data: &Path, link: &Relink, account: Option<Account>) -> Result<()> {
    let path = data.join(&link.name);
    let context = |e: std::io::Error| Error::io(&format!("link {}", path.display()), &e);
    match fs::read_link(&path) {
        Ok(now) if now == link.to => return Ok(()),
        Ok(_) => fs::remove_file(&path).map_err(context)?,
        // Named by a backup's map alone: the server makes it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(context(error)),
    }
    symlink(&link.to, &path).map_err(context)?;
    account.map_or(Ok(()), |account| account.own(&path))
}

/// Has temporary files written to a directory outside of the data directory.
pub(crate) fn link_temporary(data: &Path, to: &Path, account: Option<Account>) -> Result<()> {
    let path = data.join(TEMPORARY);
    let context = |e: std::io::Error| Error::io(&format!("link {}", path.display()), &e);
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&path).map_err(context)?,
        Ok(_) => fs::remove_file(&path).map_err(context)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(context(error)),
    }
    symlink(to, &path).map_err(context)?;
    account.map_or(Ok(()), |account| account.own(&path))
}

/// Tablespaces in a backup's map: `16385 /path`, with backslashes before what would end the line.
fn map_entries(data: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entry = |line: &str| {
        let (name, path) = line.split_once(' ')?;
        Some((name.to_string(), PathBuf::from(path.replace("\\\\", "\\"))))
    };
    Ok(map_text(data)?.lines().filter_map(entry).collect())
}

fn map_text(data: &Path) -> Result<String> {
    let path = data.join(MAP_FILE);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|e| Error::io(&path.display().to_string(), &e)),
    }
}

/// Has a backup's map name the new places.
pub(super) fn rewrite_map(data: &Path, plan: &[Relink], account: Option<Account>) -> Result<()> {
    let entries = map_entries(data)?;
    if entries.is_empty() {
        return Ok(());
    }
    let line = |(name, from): &(String, PathBuf)| {
        let link = plan.iter().find(|link| link.name == in_tablespaces(name));
        let to = link.map_or(from, |link| &link.to).display().to_string();
        format!("{name} {}\n", to.replace('\\', "\\\\"))
    };
    replace(&data.join(MAP_FILE), entries.iter().map(line).collect::<String>(), account)
}
