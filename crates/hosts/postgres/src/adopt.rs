//! Turns a copy of another server's files into a server of its own.
//!
//! A copy still names its source: the links to the write-ahead log and to tablespaces are absolute, and so
//! may be paths in settings. A server started on it would write into its source's files. So every such name
//! is found first; each must lead into the new places, or be told where it leads now, or the copy is refused
//! with all of them by name. Nothing is changed before that.

mod configuration;
pub(crate) mod links;
mod rewrite;

pub use rewrite::{SettingTaken, add_settings, put_before_access_rules, take_settings_out};

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::processes::processes_below;
use crate::server::{Places, Server};

/// What the caller knows of a copy beside its new places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// Directories of the source, and where each is now: a link into the first is made one into the second.
    pub moves: Vec<(PathBuf, PathBuf)>,
    /// Directories outside of the copy that its settings may name, such as those of certificates.
    pub shared: Vec<PathBuf>,
}

/// A link that leads elsewhere now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relink {
    /// Its name in the data directory: `pg_wal`, `pg_tblspc/16385`.
    pub name: String,
    /// Where it led.
    pub from: PathBuf,
    /// Where it leads.
    pub to: PathBuf,
}

impl Server {
    /// Makes the copied files in this server's places its own: links lead into the new places, and the
    /// process that the copied lock file names is not ours. Returns the links that were changed.
    ///
    /// # Errors
    /// When a server still works there, or when something of the copy leads outside of it: each is named.
    pub fn adopt(&self, adoption: &Adoption) -> Result<Vec<Relink>> {
        let data = &self.places.data;
        let work = std::fs::canonicalize(data).map_err(|e| Error::io(&data.display().to_string(), &e))?;
        if !processes_below(&work).is_empty() {
            let shown = data.display();
            return Err(Error::environment(format!("adopt {shown}: a server works there, it is no copy")));
        }
        let (plan, mut problems) = links::plan(&self.places, adoption)?;
        let assignments = configuration::read(data, &self.settings)?;
        problems.extend(configuration::judge(&assignments, &Bounds::new(&self.places, adoption)));
        if !problems.is_empty() {
            return Err(Error::environment(format!(
                "adopt {}: it would use files outside of the copy:\n    {}",
                data.display(),
                problems.join("\n    ")
            )));
        }
        let account = self.installation.account;
        for link in &plan {
            links::apply(data, link, account)?;
        }
        if let Some(temporary) = &self.places.temporary {
            self.installation.make_directory(temporary)?;
            links::link_temporary(data, temporary, account)?;
        }
        links::rewrite_map(data, &plan, account)?;
        self.forget_lock()?;
        Ok(plan.into_iter().filter(|link| link.from != link.to).collect())
    }
}

/// Which paths a copy may name.
pub(crate) struct Bounds {
    data: PathBuf,
    inside: Vec<PathBuf>,
}

impl Bounds {
    pub(crate) fn new(places: &Places, adoption: &Adoption) -> Bounds {
        let Places { data, wal, tablespaces, socket, temporary, .. } = places;
        let own = [data, socket].into_iter().chain(wal).chain(tablespaces).chain(temporary);
        let told = adoption.moves.iter().map(|(_, to)| to).chain(&adoption.shared);
        Bounds { data: data.clone(), inside: own.chain(told).map(|path| plain(path)).collect() }
    }

    /// Whether a path, taken from the data directory, is inside. Links on the way are followed as far as they
    /// exist: a new place that is a link to the old one is the old one.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        let path = plain(&self.data.join(path));
        let is_inside = |path: &Path| self.inside.iter().any(|place| path.starts_with(place));
        let real = real(&path);
        let real_inside: Vec<PathBuf> = self.inside.iter().map(|place| self::real(place)).collect();
        is_inside(&path) && real_inside.iter().any(|place| real.starts_with(place))
    }
}

/// A path without `.` and `..`, by its text alone.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => out.push(component),
        }
    }
    out
}

/// A path without links; the end of it that does not exist stays as it is written.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for above in path.ancestors() {
        if let Ok(found) = std::fs::canonicalize(above) {
            return rest.iter().rev().fold(found, |path, name| path.join(name));
        }
        rest.extend(above.file_name());
    }
    path.to_path_buf()
}

#[cfg(test)]
mod tests;
