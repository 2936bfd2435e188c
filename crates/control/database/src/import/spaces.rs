//! Tablespaces of a source: each comes onto a volume of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::failed;
use crate::error::{Error, Result};
use crate::record::Role;
use crate::site::Site;

/// The links to tablespaces in a data directory.
pub(super) const LINKS: &str = "pg_tblspc";
/// Longest name of a volume.
const VOLUME_BYTES_MAX: usize = 63;

/// A tablespace of a source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Space {
    /// What its volume is called after: its name or, where no volume can be called so or nobody tells it,
    /// `oid` and its number.
    pub name: String,
    /// What its link is called.
    pub(super) link: String,
    /// Where it is at the source.
    pub(super) location: PathBuf,
    /// Its files, where the source tells.
    pub bytes: Option<u64>,
}

impl Space {
    fn new(site: &Site, link: &str, name: Option<&str>, location: PathBuf, bytes: Option<u64>) -> Space {
        let is_good = |name: &&str| is_plain(name) && fits(site, name);
        let name = name.filter(is_good).map_or_else(|| format!("oid{link}"), str::to_string);
        Space { name, link: link.to_string(), location, bytes }
    }

    /// Where its files come to be.
    pub(super) fn files(&self, site: &Site) -> PathBuf {
        site.files_on(&Role::Tablespace(self.name.clone()))
    }
}

/// A name that PostgreSQL takes without quotes.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().next().is_some_and(|first| first.is_ascii_lowercase()) && name.bytes().all(is_plain)
}

fn fits(site: &Site, name: &str) -> bool {
    site.name.len() + Role::Tablespace(name.to_string()).name().len() < VOLUME_BYTES_MAX
}

/// What a server tells of its tablespaces. Those inside of its data directory come with it.
pub(super) const STATEMENT: &str = "select oid, spcname, pg_tablespace_location(oid), \
    case when has_tablespace_privilege(oid, 'CREATE') or pg_has_role('pg_read_all_stats', 'MEMBER') \
    then pg_tablespace_size(oid) else -1 end from pg_tablespace where oid not in (1663, 1664) order by oid";

/// Of the rows of that statement.
pub(super) fn of_rows(site: &Site, rows: Vec<Vec<String>>) -> Result<Vec<Space>> {
    let space = |row: Vec<String>| {
        let [oid, name, location, bytes] = <[String; 4]>::try_from(row).map_err(|row| {
            Error::failed(format!("tablespaces of the source: `{}` is no answer", row.join(" ")), "")
        })?;
        Ok(Space::new(site, &oid, Some(&name), location.into(), bytes.parse().ok()))
    };
    let all: Result<Vec<Space>> = rows.into_iter().map(space).collect();
    Ok(all?.into_iter().filter(|space| space.location.is_absolute()).collect())
}

/// Of the links of a data directory; how large each is, `measure` tells.
pub(super) fn of_links(
    site: &Site,
    data: &Path,
    measure: impl Fn(&Path) -> Result<u64>,
) -> Result<Vec<Space>> {
    let directory = data.join(LINKS);
    let mut all = Vec::new();
    for entry in fs::read_dir(&directory).map_err(|error| failed("read", &directory, &error))? {
        let entry = entry.map_err(|error| failed("read", &directory, &error))?;
        let Ok(to) = fs::read_link(entry.path()) else { continue };
        let link = entry.file_name().to_string_lossy().into_owned();
        let location = directory.join(&to);
        if !location.is_dir() {
            return Err(Error::refused(
                format!(
                    "tablespace {link} of {} leads to {}, which is not there",
                    data.display(),
                    to.display()
                ),
                "bring that directory back, or drop the tablespace on its server",
            ));
        }
        let bytes = measure(&location)?;
        all.push(Space::new(site, &link, None, location, Some(bytes)));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// How pg_basebackup is told where one comes to be: `OLD=NEW`, with a backslash before `=` in a path.
pub(super) fn mapping(space: &Space, site: &Site) -> String {
    let escaped = |path: &Path| path.display().to_string().replace('=', "\\=");
    format!("--tablespace-mapping={}={}", escaped(&space.location), escaped(&space.files(site)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::record::{Part, Record};

    #[test]
    fn a_volume_is_called_after_a_name_that_it_can_have() {
        let record = Record::beginning("prod", 1, Vec::<Part>::new(), 0);
        let site = Site::of(&record, "/s/prod".into());
        let row = |name: &str, location: &str| {
            vec!["16385".to_string(), name.to_string(), location.to_string(), "-1".to_string()]
        };
        let rows = vec![row("archive", "/x=y"), row("Odd Name", "/b"), row("inside", "pg_tblspc/16385")];
        let found = of_rows(&site, rows).unwrap();
        let names: Vec<&str> = found.iter().map(|space| space.name.as_str()).collect();
        assert_eq!(names, ["archive", "oid16385"]);
        assert_eq!(found[0].bytes, None, "nobody says");
        let told = mapping(&found[0], &site);
        assert_eq!(told, "--tablespace-mapping=/x\\=y=/s/prod/tablespace-archive/files");
        assert_eq!(of_rows(&site, vec![row(&"x".repeat(50), "/a")]).unwrap()[0].name, "oid16385");
    }
}
