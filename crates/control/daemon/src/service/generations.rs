//! The newest generation seen of each pool: drives that went back to an earlier state look whole to
//! themselves, and this array alone can tell.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_engine::{Opening, Remembered};

use super::Service;
use crate::identity;

/// How often the file is written while pools are written to. Arbitrary: what a drive loses by going back
/// less than this is not noticed, and the file is small.
const INTERVAL: Duration = Duration::from_secs(10);

/// What is known, and when it was last written down.
#[derive(Default)]
pub(super) struct Generations(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    seen: BTreeMap<String, u64>,
    stored: BTreeMap<String, u64>,
    stored_at: Option<Instant>,
}

impl Service {
    fn generations(&self) -> MutexGuard<'_, Inner> {
        self.generations.0.lock().expect("no holder of this lock panics")
    }

    /// Reads what earlier runs saw. Without it the array serves all the same.
    pub(super) fn load_generations(&self) {
        match self.state().load_generations() {
            Ok(found) => {
                let mut inner = self.generations();
                (inner.seen, inner.stored) = (found.clone(), found);
            }
            Err(error) => {
                let what = format!("older states of drives are not noticed before the next stop: {error}");
                self.log.warning("array", what);
            }
        }
    }

    /// How this array opens a pool.
    pub(super) fn opening(&self, overruled: Overruled) -> Opening {
        let parse = |(pool, generation): (&String, &u64)| {
            let pool = u128::from_str_radix(pool, 16).ok()?;
            Some(Remembered { pool, generation: *generation })
        };
        Opening {
            identity: identity::own(),
            is_process_there: Some(identity::process_probe()),
            remembered: self.generations().seen.iter().filter_map(parse).collect(),
            is_forced: overruled.is_forced,
            landing: Some(Duration::from_secs(u64::from(self.settings.now().takeover_wait_seconds))),
            is_older_accepted: overruled.is_older_accepted,
        }
    }

    /// Takes notice of a pool's generation. One that was opened although it is older counts from there.
    pub(super) fn note_generation(&self, pool: &str, generation: u64) {
        self.generations().seen.insert(pool.to_string(), generation);
    }

    /// A pool that was destroyed is nobody's.
    pub(super) fn forget_generation(&self, pool: &str) {
        self.generations().seen.remove(pool);
        self.store_generations();
    }

    /// Takes notice of what pools are at, and writes it down now and then.
    pub(super) fn watch_generations(&self, pools: &[api::Pool]) {
        for pool in pools.iter().filter(|pool| !pool.id.is_empty()) {
            self.note_generation(&pool.id, pool.generation);
        }
        let is_due = self.generations().stored_at.is_none_or(|at| at.elapsed() >= INTERVAL);
        if is_due {
            self.store_generations();
        }
    }

    /// Writes down what was seen, where that is news.
    pub(super) fn store_generations(&self) {
        let seen = {
            let mut inner = self.generations();
            if inner.seen == inner.stored {
                return;
            }
            inner.stored_at = Some(Instant::now());
            inner.seen.clone()
        };
        match self.state().store_generations(&seen) {
            Ok(()) => self.generations().stored = seen,
            Err(error) => {
                self.log.warning("array", format!("the state of pools cannot be written down: {error}"));
            }
        }
    }
}

/// What a person overrules when a pool is opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Overruled {
    pub(crate) is_forced: bool,
    pub(crate) is_older_accepted: bool,
}
