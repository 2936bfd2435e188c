//! Whether something may become a drive: refused is what stands on the array's own volumes, what is a drive
//! already by another path, what is neither a file nor a block device, and, unless forced, what holds data.
//!
//! What is looked at of a drive's content stands in `drive_file`: the places where superblocks lie, both
//! ends, samples over the whole, and of a sparse file the beginning of each stretch that has data.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_api as api;
use ashlar_units::ByteCount;

use super::Service;
use crate::attach::{self, Below};
use crate::doors::Doors;
use crate::drive_file::{self, Before, Content, NotReady};
use crate::error::{Error, Result};
use crate::state::{NBD_SOCKET, VOLUMES};

/// How long looking at a drive may take. Arbitrary: a hard disk seeks through all samples in seconds, and one
/// that does not answer must not hold up other commands.
const LOOK_MAX: Duration = Duration::from_secs(30);
/// The same for giving a file its space, which a file system that has to write zeroes does at the disk's
/// speed.
const ALLOCATE_MAX: Duration = Duration::from_secs(600);

/// A pool that a drive is to join, and the drive whose place it takes.
pub(super) struct Joining<'a> {
    pub(super) pool: &'a api::Pool,
    pub(super) number: Option<u32>,
}

/// A drive of a pool that is known here.
struct Taken {
    path: String,
    /// As it is told.
    what: String,
}

impl Service {
    /// Refuses paths that cannot be drives whatever is on them: each stands on nothing of this array, and is
    /// named once.
    pub(super) async fn check_below(&self, paths: &[String], joining: Option<&Joining<'_>>) -> Result<()> {
        let taken = self.taken(joining);
        let own = self.own_volumes().await?;
        let paths = paths.to_vec();
        let look = move || {
            let mut seen: Vec<(String, Below)> = Vec::new();
            for path in paths {
                let below = look_below(&path, &own)?;
                if let Some((other, _)) = seen.iter().find(|(_, other)| is_same(other, &below)) {
                    let what = format!("drives {other} and {path} are one and the same");
                    return Err(Error::unfit(what, "name each drive once"));
                }
                seen.push((path, below));
            }
            check_no_loop_device(&seen, &own)?;
            seen.iter().try_for_each(|(path, _)| check_no_writer(path))?;
            for drive in taken {
                // One that is away is nobody's second path.
                let Ok(there) = attach::below(Path::new(&drive.path), &own) else { continue };
                if let Some((path, below)) = seen.iter().find(|(_, below)| is_same(below, &there)) {
                    let what = relation(path, below, &drive, &there);
                    return Err(Error::new(api::ErrorKind::Exists, what, "choose another drive"));
                }
            }
            Ok(())
        };
        within(LOOK_MAX, look).await
    }

    /// By what a volume of this array may come back as a drive.
    async fn own_volumes(&self) -> Result<attach::Own> {
        let clients = Doors::nbd_clients(&self.array).await?.into_iter();
        let client =
            |client: ashlar_nbd::Client| Some(attach::Client { peer: client.peer?, volume: client.export? });
        Ok(attach::Own {
            volumes: self.state().path(VOLUMES),
            socket: self.state().path(NBD_SOCKET),
            clients: clients.filter_map(client).collect(),
        })
    }

    /// The drives of pools that are known here, but for the one whose place is taken.
    fn taken(&self, joining: Option<&Joining<'_>>) -> Vec<Taken> {
        let known = self.known();
        let others = known.pools.iter().filter(|pool| joining.is_none_or(|own| own.pool.name != pool.name));
        let mut taken: Vec<Taken> = others
            .filter(|pool| known.is_opened(&pool.name) || known.waits.contains_key(&pool.name))
            .flat_map(|pool| {
                pool.drives.iter().map(|path| (path, format!("a drive of pool `{}`", pool.name)))
            })
            .map(|(path, what)| Taken { path: path.clone(), what })
            .collect();
        if let Some(own) = joining {
            let drives = own.pool.drives.iter().filter(|drive| !drive.path.is_empty());
            let others = drives.filter(|drive| own.number.is_none() || drive.number != own.number);
            taken.extend(others.map(|drive| {
                let number = drive.number.map_or_else(String::new, |number| format!(" {number}"));
                Taken { path: drive.path.clone(), what: format!("drive{number} of pool `{}`", own.pool.name) }
            }));
        }
        taken
    }

    /// Refuses drives that hold something, unless that is said to be given up. What carries a pool is left to
    /// the engine, which knows whether it may come back.
    pub(super) async fn check_content(&self, drives: &[api::DriveSpec]) -> Result<()> {
        for drive in drives.iter().filter(|drive| !drive.force && Path::new(&drive.path).exists()) {
            let path = PathBuf::from(&drive.path);
            let look = {
                let path = path.clone();
                move || drive_file::content(&path).map_err(|error| Error::file("read drive", &path, &error))
            };
            let found = match within(LOOK_MAX, look).await? {
                Content::Nothing | Content::Pool(_) => continue,
                Content::Remains => "damaged superblocks of a pool".to_string(),
                Content::Data { offset } => {
                    let probed = within(LOOK_MAX, move || probe(&path)).await?;
                    probed
                        .unwrap_or_else(|| format!("data of an unknown kind, at byte {offset} for instance"))
                }
            };
            let what = format!("drive {} carries {found}", drive.path);
            return Err(Error::new(api::ErrorKind::Busy, what, GIVE_UP));
        }
        Ok(())
    }

    /// Makes drives that are there already ready to be taken: a sparse file gets its space, and of one that
    /// is forced what marks it is wiped. Where one fails all are as they were.
    pub(super) async fn make_ready(
        &self,
        drives: &[api::DriveSpec],
        joining: Option<&Joining<'_>>,
    ) -> Result<Ready> {
        // All of them first: nothing is to be put back then.
        for drive in drives.iter().filter(|drive| drive.force && drive.size_bytes.is_none()) {
            self.check_not_served(Path::new(&drive.path), joining.map(|joining| joining.pool)).await?;
        }
        let mut ready = Ready(Vec::new());
        for drive in drives.iter().filter(|drive| drive.size_bytes.is_none()) {
            let path = PathBuf::from(&drive.path);
            let own = joining.map(|joining| joining.pool.clone());
            let is_forced = drive.force;
            let made = within(ALLOCATE_MAX, move || {
                let is_own = || match (drive_file::content(&path), &own) {
                    (Ok(Content::Pool(mark)), Some(own)) => is_drive_of(own, &mark),
                    _ => false,
                };
                let is_wiped = is_forced && !is_own();
                match drive_file::make_ready(&path, is_wiped) {
                    Ok(before) => Ok(Some(before)),
                    // In use: whoever takes drives says by whom. A drive that is its pool's own is one.
                    Err(NotReady::Io(error)) if is_in_use(&error) && !is_wiped => Ok(None),
                    Err(why) => Err(not_ready(&path, why)),
                }
            });
            match made.await {
                Ok(before) => ready.0.extend(before),
                Err(error) => {
                    ready.restore().await;
                    return Err(error);
                }
            }
        }
        Ok(ready)
    }

    /// Refuses to take by force a drive that another array writes at this moment.
    async fn check_not_served(&self, path: &Path, own: Option<&api::Pool>) -> Result<()> {
        let look = {
            let path = path.to_path_buf();
            move || Ok(drive_file::content(&path).ok())
        };
        match within(LOOK_MAX, look).await? {
            Some(Content::Pool(mark)) if own.is_none_or(|own| !is_drive_of(own, &mark)) => {
                self.array.check_not_served(path.display().to_string()).await
            }
            _ => Ok(()),
        }
    }

    /// Makes what a deleted pool left on its drives read as zeroes, where that costs nothing.
    pub(super) async fn empty_drives(&self, drives: Vec<String>) {
        let all = move || {
            for path in drives {
                let _ = drive_file::empty(Path::new(&path));
            }
            Ok(())
        };
        let _ = within(LOOK_MAX, all).await;
    }
}

/// What to do about a drive that holds something.
const GIVE_UP: &str = "choose another drive, or give up what is on this one with `--force`";

/// The refusal of a drive that carries another pool, with the way to free it.
pub(super) fn say_force(mut error: Error) -> Error {
    if error.message.contains(" belongs to pool ") {
        error.action = GIVE_UP.to_string();
    }
    error
}

/// Drives that were made ready.
pub(super) struct Ready(Vec<Before>);

impl Ready {
    /// Puts all back as they were.
    pub(super) async fn restore(self) {
        let all = move || {
            self.0.iter().for_each(Before::restore);
            Ok(())
        };
        let _ = within(LOOK_MAX, all).await;
    }
}

/// Work that may wait for a drive, on a thread of its own.
async fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::time::timeout(limit, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Error::stopping()),
        Err(_) => Err(Error::new(
            api::ErrorKind::Medium,
            format!("a drive was not looked through within {} s", limit.as_secs()),
            "look at the drives and at what serves their file systems, and at the kernel's log",
        )),
    }
}

fn look_below(path: &str, own: &attach::Own) -> Result<Below> {
    let below = attach::below(Path::new(path), own).map_err(|error| match error.kind {
        attach::ErrorKind::Invalid => Error::unfit(format!("drive {error}"), "name a file or a block device"),
        _ => Error::new(api::ErrorKind::NotFound, format!("drive {path}: {error}"), "check the path"),
    })?;
    let Some(on) = &below.volume else { return Ok(below) };
    let steps = if on.steps.is_empty() { String::new() } else { format!(" ({})", on.steps.join(", ")) };
    Err(Error::unfit(
        format!(
            "drive {path} stands on volume `{}` of this array{steps}: it would wait for itself",
            on.volume
        ),
        "choose a drive that lies on no volume of this array",
    ))
}

/// Refuses files that a loop device stands on: whoever uses it, a mount for one, would write over the pool.
fn check_no_loop_device(drives: &[(String, Below)], own: &attach::Own) -> Result<()> {
    let paths: Vec<&Path> = drives.iter().map(|(path, _)| Path::new(path)).collect();
    let found = attach::loop_device_on(&paths, own).map_err(|error| {
        Error::new(
            api::ErrorKind::Medium,
            error.to_string(),
            "mount /sys, by which users of a drive are found",
        )
    })?;
    let Some((device, index)) = found else { return Ok(()) };
    let (path, device) = (&drives[index].0, device.display());
    Err(Error::new(
        api::ErrorKind::Busy,
        format!("drive {path} is in use: the loop device {device} stands on it"),
        format!("unmount it and `losetup --detach {device}`, or choose another drive"),
    ))
}

/// Refuses what another program writes: a virtual machine, another array, the kernel's swap.
fn check_no_writer(path: &str) -> Result<()> {
    let Some(using) = attach::writer_of(Path::new(path)) else { return Ok(()) };
    let end = match &using {
        attach::Use::Swap { device } => format!("`swapoff {}`", device.display()),
        _ => "end that program".to_string(),
    };
    Err(Error::new(
        api::ErrorKind::Busy,
        format!("drive {path} is in use: {using}"),
        format!("{end}, or choose another drive"),
    ))
}

/// Two paths of the same bytes: one place, or one that the other stands on.
fn is_same(one: &Below, other: &Below) -> bool {
    one.places.contains(&other.place) || other.places.contains(&one.place)
}

/// What a path has to do with a drive that is taken.
fn relation(path: &str, below: &Below, drive: &Taken, there: &Below) -> String {
    let Taken { path: other, what } = drive;
    if path == other {
        return format!("drive {path} is {what}");
    }
    match (below.place == there.place, there.places.contains(&below.place)) {
        (true, _) => format!("drive {path} is {other}, {what}, by another path"),
        (false, true) => format!("on drive {path} lies {other}, {what}"),
        (false, false) => format!("drive {path} lies on {other}, {what}"),
    }
}

fn is_drive_of(pool: &api::Pool, mark: &drive_file::Mark) -> bool {
    pool.id == mark.pool_id && pool.drives.iter().any(|drive| Some(&drive.id) == mark.drive_id.as_ref())
}

/// What blkid finds.
fn probe(path: &Path) -> Result<Option<String>> {
    let found = attach::probe(path);
    found.map_err(|error| Error::invalid(format!("drive {}: {error}", path.display()), "install util-linux"))
}

fn is_in_use(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ResourceBusy
}

fn not_ready(path: &Path, why: NotReady) -> Error {
    let (shown, path) = (path, path.display());
    match why {
        NotReady::NoSpace { wanted_bytes, free_bytes } => Error::new(
            api::ErrorKind::NoSpace,
            format!(
                "drive {path} lacks {} of its space, and its file system has {} free",
                ByteCount(wanted_bytes),
                ByteCount(free_bytes)
            ),
            "a drive's file takes all its space when it joins: free some, or choose a smaller one",
        ),
        NotReady::Io(error) if is_in_use(&error) => {
            let uses = attach::uses_of_device(shown).unwrap_or_default();
            let who = uses.first().map_or_else(String::new, |using| format!(": {using}"));
            Error::new(api::ErrorKind::Busy, format!("drive {path} is in use{who}"), "end that use first")
        }
        NotReady::Io(error) => {
            Error::new(api::ErrorKind::Medium, format!("drive {path}: {error}"), "look at the kernel's log")
        }
    }
}
