//! What the server acknowledged, written down by the clients: to be found again after a crash, in a snapshot,
//! in a restored copy. The rules are those of the ledger of `orders`; it is kept in memory only.
//!
//! ```text
//!  order:   sent ▸ COMMIT ▸ answer     the trade is there, as it was sent
//!  result:  sent ▸ COMMIT ▸ answer     the trade is completed, at that price, with its settlement
//! ```
//! 1. What was acknowledged before a mark began is in its snapshot.
//! 2. What was sent after a mark ended is not in its snapshot.
//! 3. No other trades are there than what was sent, but for what was there when the ledger began.

mod check;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

pub use check::{Found, Problem, ProblemKind};

use crate::error::{Error, Result};

/// The ledger of one or more runs on one database.
pub struct Ledger {
    /// The last trade that was there when the ledger began.
    base: i64,
    epoch: Arc<AtomicU32>,
    pages: Mutex<Vec<Arc<Mutex<Vec<Written>>>>>,
}

/// A moment, or the time that it took to make a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// What has an answer before this epoch must be there.
    begin: u32,
    /// What is sent in this epoch or later must not be there.
    end: u32,
}

/// Something that a client asked the server to commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// A trade was ordered.
    Order { trade: i64, account: i32, security: i32, quantity: i32 },
    /// A trade was completed.
    Result { trade: i64, cents: i64 },
}

/// An entry, when it was sent, and when it was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Written {
    entry: Entry,
    sent: u32,
    /// `None` while the server has not answered.
    acknowledged: Option<u32>,
}

impl Ledger {
    /// Begins one on a database at rest.
    ///
    /// # Errors
    /// When nothing is loaded there, or the server does not answer.
    pub fn begin(session: &mut Session) -> Result<Ledger> {
        let rows = session.run("SELECT coalesce(max(id), 0) FROM lab_broker.trade")?;
        let base = rows.iter().flatten().next().and_then(|field| field.as_deref()?.parse().ok());
        let base = base.ok_or_else(|| Error::content("the number of the last trade is no number"))?;
        Ok(Ledger { base, epoch: Arc::default(), pages: Mutex::default() })
    }

    /// Has something done that makes a snapshot, and answers the mark to check it against.
    pub fn mark<T>(&self, make: impl FnOnce() -> T) -> (Mark, T) {
        let begin = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        let made = make();
        let end = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        (Mark { begin, end }, made)
    }

    /// Everything acknowledged until now, and nothing that was never sent.
    pub fn now(&self) -> Mark {
        self.mark(|| ()).0
    }

    /// Compares with what a session finds: in the database itself, or in a copy made at the mark.
    ///
    /// # Errors
    /// When the server refuses or does not answer: then nobody knows.
    pub fn check(&self, session: &mut Session, mark: Mark) -> Result<Found> {
        check::check(self, session, mark)
    }

    /// The pages for another client.
    pub(super) fn book(&self) -> Book {
        let pages = Arc::default();
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&pages));
        Book { pages, epoch: Arc::clone(&self.epoch) }
    }

    fn entries(&self) -> Vec<Written> {
        let all = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = all.iter().map(|pages| pages.lock().unwrap_or_else(PoisonError::into_inner).clone());
        pages.flatten().collect()
    }
}

/// The pages of a client that writes.
pub(super) struct Book {
    pages: Arc<Mutex<Vec<Written>>>,
    epoch: Arc<AtomicU32>,
}

impl Book {
    /// Before the commit is sent.
    pub(super) fn send(&mut self, entry: Entry) {
        let sent = self.epoch.load(Ordering::SeqCst);
        let written = Written { entry, sent, acknowledged: None };
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).push(written);
    }

    /// The server acknowledged what was sent last.
    pub(super) fn acknowledge(&mut self) {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let last = pages.last_mut().map(|written| written.acknowledged.replace(epoch));
        assert_eq!(last, Some(None), "what is acknowledged was sent, and is acknowledged once");
    }

    /// The server refused what was sent last.
    pub(super) fn withdraw(&mut self) {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).pop();
    }
}
