//! What a disk's bytes are written to and read from: the file, with a lie in between if it has one.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::backing::Backing;
use crate::counters::{Counters, Tally};
use crate::error::Result;
use crate::flash::FlashCache;
use crate::held::Held;
use crate::locked;
use crate::spec::{Kind, Liar, Spec};
use crate::stale::Stale;

/// The bytes of a disk.
#[derive(Debug)]
pub(crate) struct Medium {
    backing: Backing,
    lie: Lie,
    /// In front of all.
    flash: Option<FlashCache>,
    is_cut: AtomicBool,
    tally: Arc<Tally>,
}

/// A liar answers one request at a time: nobody measures its speed.
#[derive(Debug)]
enum Lie {
    None,
    Held(Mutex<Held>),
    Stale(Mutex<Stale>),
}

impl Medium {
    pub(crate) fn open(spec: &Spec, tally: Arc<Tally>) -> Result<Medium> {
        let lie = match &spec.kind {
            Kind::Plain | Kind::Limit(_) | Kind::Model(_) | Kind::Flash(_) => Lie::None,
            Kind::Liar(Liar::Flush { true_every }) => Lie::Held(Mutex::new(Held::new(false, *true_every))),
            Kind::Liar(Liar::Memory) => Lie::Held(Mutex::new(Held::new(true, 0))),
            Kind::Liar(Liar::Stale { share }) => Lie::Stale(Mutex::new(Stale::new(*share, spec.seed))),
        };
        let is_cached = matches!(spec.kind, Kind::Model(_));
        let flash = match &spec.kind {
            Kind::Flash(flash) => Some(FlashCache::new(flash)),
            Kind::Plain | Kind::Limit(_) | Kind::Model(_) | Kind::Liar(_) => None,
        };
        let backing = Backing::open(spec, is_cached)?;
        Ok(Medium { backing, lie, flash, is_cut: AtomicBool::new(false), tally })
    }

    /// Forgets what was counted before.
    pub(crate) fn begin_counting(&self) {
        self.tally.add(|counters| *counters = Counters::default());
        if let Lie::Held(held) = &self.lie {
            locked(held).flush_count = 0;
        }
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.check_power()?;
        if let Some(flash) = &self.flash {
            let is_hit = flash.read(&self.backing, offset, into)?;
            self.tally.add(|counters| counters.cache_hits += u64::from(is_hit));
            return Ok(());
        }
        match &self.lie {
            Lie::None => self.backing.read(offset, into)?,
            Lie::Held(held) => {
                let is_hit = locked(held).read(&self.backing, offset, into)?;
                self.tally.add(|counters| counters.cache_hits += u64::from(is_hit));
            }
            Lie::Stale(stale) => {
                let is_old = locked(stale).read(&self.backing, offset, into)?;
                self.tally.add(|counters| counters.lies += u64::from(is_old));
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_power()?;
        if let Some(flash) = &self.flash {
            return flash.write(&self.backing, offset, data);
        }
        match &self.lie {
            Lie::None => self.backing.write(offset, data),
            Lie::Held(held) => locked(held).write(&self.backing, offset, data),
            Lie::Stale(stale) => locked(stale).write(&self.backing, offset, data),
        }
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        self.check_power()?;
        match &self.lie {
            Lie::None | Lie::Stale(_) => self.backing.flush(),
            Lie::Held(held) => {
                let is_true = locked(held).flush(&self.backing)?;
                self.tally.add(|counters| counters.lies += u64::from(!is_true));
                Ok(())
            }
        }
    }

    /// Writes down what is held in memory, as any drive does before it is switched off.
    pub(crate) fn settle(&self) -> io::Result<()> {
        if self.check_power().is_err() {
            return Ok(());
        }
        match &self.lie {
            Lie::None | Lie::Stale(_) => self.backing.flush(),
            Lie::Held(held) => locked(held).settle(&self.backing),
        }
    }

    /// From now on every request fails, and what was in memory only is gone.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        if let Lie::Held(held) = &self.lie {
            locked(held).lose();
        }
    }

    /// See [`crate::Disk::cut_power_in_lies`]. No flush comes between the look and the cut.
    pub(crate) fn cut_in_lies(&self) -> bool {
        let Lie::Held(held) = &self.lie else { return false };
        let mut held = locked(held);
        let is_deep = held.is_deep_in_lies();
        if is_deep {
            self.is_cut.store(true, Ordering::SeqCst);
            held.lose();
        }
        is_deep
    }

    fn check_power(&self) -> io::Result<()> {
        match self.is_cut.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())),
            false => Ok(()),
        }
    }
}
