//! What outlives this process with the keeper: the connection of the directory of volumes.
//!
//! The keeper is started with the first mount. Whatever happens to it is mended once a second: what it is
//! to keep is here, too.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ashlar_fuse::Descriptors;
use ashlar_keeper::Keeper;

use crate::error::{Error, Result};
use crate::process::own_path;
use crate::state::State;

/// What the keeper calls the kernel's connection, and the memory of what is open.
const CONNECTION: &str = "fuse";
const LEGACY: &str = "open-files";

/// How long a supervisor may take to start the keeper again (RestartSec of its unit, and a start).
const SUPERVISOR_MAX: Duration = Duration::from_secs(2);
const SUPERVISOR_POLL: Duration = Duration::from_millis(50);

/// The keeper, and what it has of ours.
pub(crate) struct Keeping {
    state: PathBuf,
    /// How long it waits for an array.
    wait: Option<Duration>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    keeper: Option<Keeper>,
    kept: Option<Kept>,
}

/// How long what is attached has had no array, and still has none.
#[derive(Clone, Copy)]
pub(crate) struct Pause {
    before: Duration,
    since: Instant,
}

impl Pause {
    pub(crate) fn elapsed(self) -> Duration {
        self.before + self.since.elapsed()
    }
}

struct Kept {
    mount: PathBuf,
    connection: OwnedFd,
    legacy: OwnedFd,
}

impl Keeping {
    /// Looks for a keeper and for what the last array left with it.
    pub(crate) fn find(
        state: &State,
        wait: Option<Duration>,
    ) -> Result<(Keeping, Option<(Descriptors, Pause)>)> {
        let directory = state.directory().to_path_buf();
        let keeper = Keeper::find(&directory).map_err(|error| unheard(&error))?;
        let mut inner = Inner { keeper, kept: None };
        let left = inner.keeper.as_ref().map(left_with).transpose().map_err(|error| unheard(&error))?;
        let left = left.flatten();
        if let (Some((mount, descriptors, _)), Some(keeper)) = (&left, &inner.keeper) {
            keeper.wait_at_most(wait).map_err(|error| unheard(&error))?;
            let duplicate =
                |fd: &OwnedFd| fd.try_clone().map_err(|error| failed("duplicate a descriptor", &error));
            inner.kept = Some(Kept {
                mount: mount.clone(),
                connection: duplicate(&descriptors.connection)?,
                legacy: duplicate(&descriptors.legacy)?,
            });
        }
        let keeping = Keeping { state: directory, wait, inner: Mutex::new(inner) };
        Ok((keeping, left.map(|(_, descriptors, pause)| (descriptors, pause))))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock panics")
    }

    /// Has a mount kept.
    pub(crate) fn keep(&self, mount: &Path, descriptors: Descriptors) -> Result<()> {
        let Descriptors { connection, legacy } = descriptors;
        let mut inner = self.inner();
        inner.kept = Some(Kept { mount: mount.to_path_buf(), connection, legacy });
        self.hand_over(&mut inner)
            .map_err(|error| failed("have the keeper keep the directory of volumes", &error))
    }

    /// The directory is not mounted any more.
    pub(crate) fn forget(&self) {
        let mut inner = self.inner();
        inner.kept = None;
        let Some(keeper) = &inner.keeper else { return };
        // One that is gone has dropped it.
        let _ = keeper.drop(CONNECTION).and_then(|()| keeper.drop(LEGACY));
    }

    /// True while what is attached would outlive this process.
    pub(crate) fn is_keeping(&self) -> bool {
        let inner = self.inner();
        inner.kept.is_some() && inner.keeper.as_ref().is_some_and(Keeper::is_there)
    }

    /// From now on requests wait for the next array.
    pub(crate) fn leave(&self) {
        // Only the length of the pause would be told shorter.
        let _ = self.inner().keeper.as_ref().map(Keeper::leave);
    }

    /// For how long they do.
    pub(crate) fn patience(&self) -> String {
        self.wait.map_or("for ever".to_string(), |wait| format!("for {} s", wait.as_secs()))
    }

    /// Starts another keeper where the last one is gone; true when it had to.
    pub(crate) fn look(&self) -> Result<bool> {
        let mut inner = self.inner();
        if inner.kept.is_none() || inner.keeper.as_ref().is_some_and(Keeper::is_there) {
            return Ok(false);
        }
        inner.keeper = None;
        self.hand_over(&mut inner).map_err(|error| failed("start another keeper", &error))?;
        Ok(true)
    }

    /// The keeper that is there. A supervisor that has one of its own may be about to start it anew.
    fn found_patiently(&self) -> io::Result<Option<Keeper>> {
        let patience =
            if std::env::var_os("NOTIFY_SOCKET").is_some() { SUPERVISOR_MAX } else { Duration::ZERO };
        let end = Instant::now() + patience;
        loop {
            match Keeper::find(&self.state)? {
                Some(keeper) => return Ok(Some(keeper)),
                None if Instant::now() >= end => return Ok(None),
                None => std::thread::sleep(SUPERVISOR_POLL),
            }
        }
    }

    fn hand_over(&self, inner: &mut Inner) -> io::Result<()> {
        if inner.keeper.as_ref().is_none_or(|keeper| !keeper.is_there()) {
            let program = own_path()?;
            let state = self.state.to_string_lossy().into_owned();
            inner.keeper = Some(match self.found_patiently()? {
                Some(keeper) => keeper,
                None => Keeper::start(&self.state, &program, &["keep", "--state", &state])?,
            });
        }
        let (Some(keeper), Some(kept)) = (&inner.keeper, &inner.kept) else { return Ok(()) };
        keeper.wait_at_most(self.wait)?;
        keeper.keep(LEGACY, &[], &kept.legacy)?;
        keeper.keep(CONNECTION, kept.mount.as_os_str().as_bytes(), &kept.connection)
    }
}

/// Both descriptors of a mount, where it is, and how long it waits; `None` when nothing is kept.
fn left_with(keeper: &Keeper) -> io::Result<Option<(PathBuf, Descriptors, Pause)>> {
    let (mut entries, before) = keeper.list()?;
    let pause = Pause { before, since: Instant::now() };
    let (Some(connection), Some(legacy)) = (entries.remove(CONNECTION), entries.remove(LEGACY)) else {
        return Ok(None);
    };
    let mount = PathBuf::from(std::ffi::OsStr::from_bytes(&connection.note));
    let descriptors = Descriptors { connection: connection.descriptor, legacy: legacy.descriptor };
    Ok(Some((mount, descriptors, pause)))
}

/// Whoever starts without asking loses what is attached.
fn unheard(error: &io::Error) -> Error {
    Error::new(
        ashlar_api::ErrorKind::Busy,
        format!("ask the keeper (process ashlar-keep) what is attached: {error}"),
        "if it is stopped, `kill -CONT` it; `kill -KILL` it, and what is attached ends",
    )
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(
        ashlar_api::ErrorKind::Medium,
        format!("{what}: {error}"),
        "what is attached does not outlive this array until that works; see keeper.log in the state directory",
    )
}
