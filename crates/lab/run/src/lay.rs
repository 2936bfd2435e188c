//! Lays the ground for a database: its directory on the target, one for its log where that lies apart, and
//! what a base has of it; and keeps it as a base.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ashlar_target::{Copied, Footing, Laid, Manifest, Refusal, Shelf, count_tree, free_bytes};

use crate::bases::{FromBase, MadeOf, Way, now};
use crate::work::{Progress, Set, Work, scratch};
use crate::{Error, Result};

/// Provisioned for a log apart: a server keeps up to 2 GiB of it. Volumes and files are thin.
const LOG_BYTES: u64 = 3 << 30;
/// What a file system must have left behind a base.
const LEFT_SHARE: f64 = 0.1;

/// Where a database lies, and what is there of it.
pub(crate) struct Grounds {
    pub(crate) laid: Laid,
    /// Clones of a base; its files are copied later.
    base: Option<(Manifest, Instant)>,
}

impl Work<'_> {
    /// Makes the directories; on a pool, of a base's clones where there is one.
    pub(crate) fn lay(
        &self,
        set: &Set<'_>,
        made_of: Option<&MadeOf>,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Grounds> {
        let begun = Instant::now();
        let place = self.place(set.address);
        if let (Some(made_of), Some(volumes)) = (made_of, place.volumes())
            && self.is_on_one_place(set)
            && self.kept(set, made_of)?
        {
            let (mount, log) = self.mounts(set);
            let laid = volumes.clone_base(&made_of.name(), &mount, set.log.is_some().then_some(&*log));
            self.records.keep_left(&self.left())?;
            let laid = laid.map_err(refused)?;
            let found = Manifest::read(&laid.data).filter(|_| was_stopped(&laid.data));
            match found.filter(|found| found.made_of == made_of.values) {
                Some(manifest) => return Ok(Grounds { laid, base: Some((manifest, begun)) }),
                None => volumes.forget_at(&laid).map_err(refused)?,
            }
            tell(&Progress::note(format!("base {} is not what its name says: not used", made_of.name())));
        }
        let laid = self.lay_empty(set);
        self.records.keep_left(&self.left())?;
        Ok(Grounds { laid: laid.map_err(refused)?, base: None })
    }

    fn lay_empty(&self, set: &Set<'_>) -> std::result::Result<Laid, Refusal> {
        let (mount, log) = self.mounts(set);
        let place = self.place(set.address);
        match set.log {
            None => Ok(Laid { data: place.lay_directory(set.needs, &mount)?, log: None }),
            Some(address) if address == set.address => place.lay_apart(set.needs, LOG_BYTES, (&mount, &log)),
            Some(address) => {
                let data = place.lay_directory(set.needs, &mount)?;
                let log = self.place(address).lay_log(set.needs.number, LOG_BYTES, &log)?;
                Ok(Laid { data, log: Some(log) })
            }
        }
    }

    /// Of the data, and of the log.
    fn mounts(&self, set: &Set<'_>) -> (PathBuf, PathBuf) {
        let of = |what: &str| scratch().join(format!("{what}-{}", set.needs.number));
        (of("mount"), of("mount-log"))
    }

    /// Does something to make a data set: drives that are not there take no time for it.
    pub(crate) fn unpaced<T>(&self, set: &Set<'_>, work: impl FnOnce() -> T) -> T {
        self.place(set.address).unpaced(|| match set.log {
            Some(address) if address != set.address => self.place(address).unpaced(work),
            _ => work(),
        })
    }

    /// Copies what a base has; `None` where nothing can be had from one.
    pub(crate) fn take_base(
        &self,
        set: &Set<'_>,
        (grounds, made_of): (&Grounds, Option<&MadeOf>),
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Option<FromBase>> {
        let Some(made_of) = made_of else { return Ok(None) };
        if let Some((manifest, begun)) = &grounds.base {
            return Ok(Some(from_base(made_of, manifest, Way::Clone, *begun)));
        }
        let Some(shelf) = self.shelf(set)? else { return Ok(None) };
        let name = made_of.name();
        let Some(path) = shelf.path_of(&name).filter(|path| path.exists()) else { return Ok(None) };
        let begun = Instant::now();
        let manifest = Manifest::read(&path).filter(|found| found.made_of == made_of.values);
        let Some(manifest) = manifest.filter(|_| was_stopped(&path.join("data"))) else {
            tell(&Progress::note(format!("{}: the base was cut short: not used", path.display())));
            return Ok(None);
        };
        let is_stopped = || self.launcher.is_interrupted();
        match shelf.take((&name, &manifest), &grounds.laid, &is_stopped) {
            Ok(Copied { bytes, shared_bytes, .. }) => {
                let way = if shared_bytes == bytes { Way::Reflink } else { Way::Copy };
                Ok(Some(from_base(made_of, &manifest, way, begun)))
            }
            Err(_) if is_stopped() => Err(Error::interrupted()),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                tell(&Progress::note(format!("{error}: not used")));
                Ok(None)
            }
            Err(error) => Err(Error::io(&format!("copy base {name}"), &error)),
        }
    }

    /// Keeps what was loaded, as its server left it when it was stopped. Where it cannot be that is told.
    pub(crate) fn keep_base(
        &self,
        set: &Set<'_>,
        (laid, made_of): (&Laid, &MadeOf),
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<()> {
        let name = made_of.name();
        match self.put_base(set, (laid, made_of)) {
            Ok(()) => {}
            Err(_) if self.launcher.is_interrupted() => return Err(Error::interrupted()),
            Err(error) => tell(&Progress::note(format!("base {name} is not kept: {error}"))),
        }
        Ok(())
    }

    fn put_base(&self, set: &Set<'_>, (laid, made_of): (&Laid, &MadeOf)) -> Result<()> {
        let unable = |error: std::io::Error| Error::io("write it", &error);
        let mut counted = count_tree(&laid.data).map_err(unable)?;
        if let Some(log) = &laid.log {
            let of_log = count_tree(log).map_err(unable)?;
            (counted.files, counted.bytes) = (counted.files + of_log.files, counted.bytes + of_log.bytes);
        }
        let place = self.place(set.address);
        if let Some(volumes) = place.volumes() {
            if !self.is_on_one_place(set) {
                return Err(Error::environment("its log lies elsewhere, and a snapshot is of one pool"));
            }
            let manifest = Manifest::new(made_of.values.clone(), now(), counted);
            manifest.write(&laid.data).map_err(unable)?;
            if let Some(log) = &laid.log {
                let open = std::fs::File::open(log).map_err(unable)?;
                rustix::fs::syncfs(&open).map_err(|error| unable(error.into()))?;
            }
            return volumes.keep_as(&made_of.name(), laid).map_err(refused);
        }
        let own = place.made_directories();
        let (Some(shelf), Some(own)) = (self.shelf(set)?, own.first()) else {
            return Err(Error::environment(format!("{} keeps none", set.address)));
        };
        let free = free_bytes(own).map_err(refused)? as f64;
        if (1.0 - LEFT_SHARE) * free < counted.bytes as f64 {
            return Err(Error::environment(format!(
                "{} are needed, and a tenth of what is free is left alone",
                ashlar_report::bytes(counted.bytes)
            )));
        }
        let is_stopped = || self.launcher.is_interrupted();
        let put = shelf.put(&made_of.name(), (laid, own), &made_of.values, (now(), &is_stopped));
        put.map(drop).map_err(unable)
    }

    fn shelf(&self, set: &Set<'_>) -> Result<Option<Shelf>> {
        Shelf::of(set.address, &self.access).map_err(refused)
    }

    fn kept(&self, set: &Set<'_>, made_of: &MadeOf) -> Result<bool> {
        match self.shelf(set)? {
            Some(shelf) => Ok(shelf.find(&made_of.name()).map_err(refused)?.is_some()),
            None => Ok(false),
        }
    }

    /// Data and log are of one target.
    fn is_on_one_place(&self, set: &Set<'_>) -> bool {
        set.log.is_none_or(|log| log == set.address)
    }

    /// For snapshots of data and log at one moment; `None` where the target has none.
    pub(crate) fn copies(&self, set: &Set<'_>, laid: &Laid) -> Result<Option<ashlar_target::Copies>> {
        let copies = self.place(set.address).copies(&laid.data);
        let Some(copies) = copies.filter(|_| !self.plan.snapshots_at.is_empty()) else { return Ok(None) };
        let Some((address, log)) = set.log.zip(laid.log.as_ref()) else { return Ok(Some(copies)) };
        let of_log = self.place(address).copies(log).ok_or_else(|| {
            Error::environment(format!(
                "{address}: a snapshot of data and log is of one moment, and it takes none"
            ))
        })?;
        copies.with_log(&of_log).map(Some).map_err(refused)
    }
}

/// The one that a database lies on, and the one of its log where that is another.
pub(crate) fn devices(laid: &Laid) -> (Option<String>, Option<String>) {
    let of = |path: &Path| Some(Footing::of(path).ok()?.devices.first()?.name.clone());
    let (data, log) = (of(&laid.data), laid.log.as_ref().and_then(|log| of(log)));
    let log = log.filter(|log| Some(log) != data.as_ref());
    (data, log)
}

/// The servers below a directory, of which there are some.
fn was_stopped(below: &Path) -> bool {
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut servers = entries.filter(|path| path.join("PG_VERSION").exists()).peekable();
    servers.peek().is_some() && servers.all(|data| ashlar_postgres::was_shut_down(&data))
}

fn from_base(made_of: &MadeOf, manifest: &Manifest, way: Way, begun: Instant) -> FromBase {
    FromBase {
        name: made_of.name(),
        made_unix_seconds: manifest.made_unix_seconds,
        age_seconds: now().saturating_sub(manifest.made_unix_seconds),
        way,
        bytes: manifest.bytes,
        took_seconds: begun.elapsed().as_secs_f64(),
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::environment(refusal.to_string())
}
