//! How far long work on a database is, for whoever asks the array meanwhile, and the wish that it end.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ashlar_postgres::Installation;
use ashlar_programs::{Finished, Running};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::record::Role;
use crate::site::Site;

/// Their names in a database's directory.
pub(crate) const PROGRESS: &str = "progress";
pub(crate) const PROGRESS_ASIDE: &str = "progress.new";
pub(crate) const CANCEL: &str = "cancel";
/// How often it is told. Arbitrary: often enough to see it move.
const TELL_INTERVAL: Duration = Duration::from_millis(200);
/// How often a program is looked after.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// A program that copies a database may take days.
const NO_LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How far something is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done.
    pub stage: String,
    /// Of the bytes to copy, those that are.
    pub done_bytes: u64,
    /// By estimate; zero: there is nothing to count.
    pub total_bytes: u64,
}

/// Tells it.
pub(crate) struct Teller {
    site: Site,
    now: Progress,
    told: Option<Instant>,
    /// What the volumes held at first.
    before_bytes: u64,
}

impl Teller {
    pub(crate) fn new(site: &Site) -> Teller {
        Teller { site: site.clone(), now: Progress::default(), told: None, before_bytes: 0 }
    }

    /// Something else is being done from now on.
    pub(crate) fn stage(&mut self, stage: &str, total_bytes: u64) -> Result<()> {
        self.now = Progress { stage: stage.to_string(), done_bytes: 0, total_bytes };
        self.before_bytes = self.volume_bytes();
        self.told = None;
        self.tell()
    }

    /// More is done.
    ///
    /// # Errors
    /// When somebody wants this to end.
    pub(crate) fn done(&mut self, bytes: u64) -> Result<()> {
        self.now.done_bytes += bytes;
        self.tell()
    }

    fn tell(&mut self) -> Result<()> {
        if self.told.is_some_and(|told| told.elapsed() < TELL_INTERVAL) {
            return Ok(());
        }
        self.told = Some(Instant::now());
        if self.site.is_asked_to_end() {
            return Err(Error::refused("its making was ended on request", "nothing of it is left"));
        }
        let path = self.site.directory.join(PROGRESS);
        let aside = self.site.directory.join(PROGRESS_ASIDE);
        let text = serde_json::to_vec(&self.now).unwrap_or_default();
        // It is shown and decides nothing.
        let _ = fs::write(&aside, text).and_then(|()| fs::rename(&aside, &path));
        Ok(())
    }

    /// Waits for a program, and tells how the volumes fill meanwhile.
    pub(crate) fn watch(&mut self, installation: &Installation, mut running: Running) -> Result<Finished> {
        while running.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.look()?;
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(installation.launcher().wait(running, NO_LIMIT).map_err(ashlar_postgres::Error::from)?)
    }

    /// Tells how full the volumes are.
    pub(crate) fn look(&mut self) -> Result<()> {
        if self.told.is_none_or(|told| told.elapsed() >= TELL_INTERVAL) {
            self.now.done_bytes = self.volume_bytes().saturating_sub(self.before_bytes);
        }
        self.tell()
    }

    fn volume_bytes(&self) -> u64 {
        let used = |role: &Role| {
            let found = rustix::fs::statvfs(self.site.mount(role)).ok()?;
            Some(found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize)
        };
        self.site.roles.iter().filter_map(used).sum()
    }
}

/// Ends with the work that it is for.
pub(crate) struct Watch {
    is_done: Arc<AtomicBool>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::Relaxed);
    }
}

/// Sets this as soon as somebody asks the work on a site to end.
pub(crate) fn interrupt_when_asked(site: &Site, is_interrupted: &Arc<AtomicBool>) -> Watch {
    let is_done = Arc::new(AtomicBool::new(false));
    let (site, is_interrupted, is_over) = (site.clone(), is_interrupted.clone(), is_done.clone());
    std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) && !is_interrupted.load(Ordering::Relaxed) {
            is_interrupted.store(site.is_asked_to_end(), Ordering::Relaxed);
            std::thread::sleep(LOOK_INTERVAL);
        }
    });
    Watch { is_done }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.site.directory.join(PROGRESS));
    }
}
