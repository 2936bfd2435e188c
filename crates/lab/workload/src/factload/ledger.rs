//! Which batches the clients sent, and which of them the server acknowledged.
//!
//! Each client writes into pages of its own: before its commit is asked for, and after it was answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::origin::Batch;

/// What is known of a batch that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// It must be there.
    Acknowledged,
    /// No answer came: it may be there.
    Unknown,
}

type Pages = Arc<Mutex<Vec<(Batch, Standing)>>>;

/// Of all clients of a run.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Vec<Pages>>);

/// A client's pages.
pub(super) struct Book(Pages);

impl Ledger {
    /// The pages for another client.
    pub(super) fn book(&self) -> Book {
        let pages = Pages::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&pages));
        Book(pages)
    }

    /// All that was sent and not refused.
    pub(super) fn sent(&self) -> BTreeMap<Batch, Standing> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = |pages: &Pages| pages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().flat_map(written).collect()
    }
}

impl Book {
    /// Before the commit is asked for.
    pub(super) fn send(&mut self, batch: Batch) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((batch, Standing::Unknown));
    }

    /// The server acknowledged what was sent last.
    pub(super) fn acknowledge(&mut self) {
        if let Some((_, standing)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            *standing = Standing::Acknowledged;
        }
    }

    /// The server refused what was sent last.
    pub(super) fn withdraw(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
    }
}
