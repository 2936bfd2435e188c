//! Why known pools are not open, and which they are: the doors read that on another thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The names of pools that are known and not open, as the doors see them.
#[derive(Clone, Default)]
pub(crate) struct ClosedPools(Arc<Mutex<Vec<String>>>);

impl ClosedPools {
    /// What to add where a volume is not found; nothing while every pool is open.
    pub(crate) fn remark(&self) -> Option<String> {
        let names = self.0.lock().expect("no holder of this lock panics");
        let first = names.first()?;
        Some(format!("pool {first} is not open: `ashlar pool show {first}` says why"))
    }
}

/// Why known pools are not open, by their names.
#[derive(Default)]
pub(super) struct Failures {
    reasons: BTreeMap<String, String>,
    closed: ClosedPools,
}

impl Failures {
    pub(super) fn closed(&self) -> ClosedPools {
        self.closed.clone()
    }

    pub(super) fn insert(&mut self, pool: String, reason: String) {
        self.reasons.insert(pool, reason);
        self.publish();
    }

    pub(super) fn remove(&mut self, pool: &str) {
        self.reasons.remove(pool);
        self.publish();
    }

    pub(super) fn get(&self, pool: &str) -> Option<&String> {
        self.reasons.get(pool)
    }

    pub(super) fn contains(&self, pool: &str) -> bool {
        self.reasons.contains_key(pool)
    }

    pub(super) fn first(&self) -> Option<&String> {
        self.reasons.keys().next()
    }

    fn publish(&self) {
        let names = self.reasons.keys().cloned().collect();
        *self.closed.0.lock().expect("no holder of this lock panics") = names;
    }
}
