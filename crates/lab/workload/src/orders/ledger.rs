//! What the server acknowledged, written down by the clients: to be found again after a crash, in a snapshot,
//! in a restored copy.
//!
//! ```text
//!            send ─────────────▶ COMMIT ─────────────▶ answer
//!             │ written down        │                    ├─ acknowledged: must be there from now on
//!             │ before it is asked  │                    ├─ refused: withdrawn, must not be there
//!             ▼                     ▼                    └─ none: unknown, may be there
//!   epoch ──0──────1──────2──────────3──▶   a mark has two: its snapshot was begun, and was there
//! ```
//! 1. What was acknowledged before a mark began is in its snapshot, whole.
//! 2. What was sent after a mark ended is not in its snapshot.
//! 3. Nothing else than what was sent is there, but for what was there when the ledger began.
//!
//! An order is known by its number; a payment by a mark of its own in `H_DATA`. All clients of a run must
//! write into the same ledger, or what the others did counts as never sent.

mod book;
mod check;
mod file;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

pub use book::{Entry, OrderEntry, PaymentEntry};
pub use check::{Found, Problem, ProblemKind};

use crate::error::{Error, Result};
pub(super) use book::Book;
use book::Pages;
use file::LedgerFile;

/// The ledger of one or more runs on one database.
pub struct Ledger {
    /// Begins every payment's mark.
    name: String,
    base: Base,
    epoch: Arc<AtomicU32>,
    pages: Mutex<Vec<Arc<Mutex<Pages>>>>,
    file: Option<Arc<LedgerFile>>,
}

/// What was there when the ledger began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Base {
    /// By warehouse and district.
    next_orders: BTreeMap<(i32, i32), i32>,
    payments: u64,
}

/// A moment, or the time that it took to make a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// What has an answer before this epoch must be there.
    begin: u32,
    /// What is sent in this epoch or later must not be there.
    end: u32,
}

impl Ledger {
    /// Begins one on a database at rest; with a path, it is also written to a new file there, which must not
    /// lie on what is tested.
    ///
    /// # Errors
    /// When nothing is loaded there, the server does not answer, or the file cannot be made.
    pub fn begin(session: &mut Session, file: Option<&Path>) -> Result<Ledger> {
        let base = Base::read(session)?;
        // Two ledgers on one database must not have the same name; the engine draws it.
        let rows = session.run("SELECT lpad(to_hex((random() * 4294967295)::bigint), 8, '0')")?;
        let name = rows.into_iter().flatten().next().flatten();
        let name = name.ok_or_else(|| Error::content("the engine drew no name for the ledger"))?;
        let file = match file {
            Some(path) => Some(Arc::new(LedgerFile::create(path, &name, &base)?)),
            None => None,
        };
        Ok(Ledger { name, base, epoch: Arc::default(), pages: Mutex::default(), file })
    }

    /// Reads one that was written to a file, to check with it. What was under way when its writer ended
    /// counts as unknown.
    ///
    /// # Errors
    /// When the file cannot be read or is not a ledger.
    pub fn read(path: &Path) -> Result<Ledger> {
        file::read(path)
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
        let mut all = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = Arc::new(Mutex::new(Pages::default()));
        let number = all.len();
        all.push(Arc::clone(&pages));
        Book {
            name: self.name.clone(),
            number,
            pages,
            epoch: Arc::clone(&self.epoch),
            file: self.file.clone(),
        }
    }
}

impl Base {
    fn read(session: &mut Session) -> Result<Base> {
        let rows = session.run("SELECT d_w_id, d_id, d_next_o_id FROM lab_orders.district")?;
        let number = |field: &Option<String>| field.as_deref().and_then(|text| text.parse::<i32>().ok());
        let mut base = Base::default();
        for row in &rows {
            let [Some(warehouse), Some(district), Some(next)] =
                [0, 1, 2].map(|at| row.get(at).and_then(number))
            else {
                return Err(Error::content(format!("a district without numbers: {row:?}")));
            };
            base.next_orders.insert((warehouse, district), next);
        }
        let rows = session.run("SELECT count(*) FROM lab_orders.history")?;
        let count = rows.iter().flatten().next().and_then(|field| field.as_deref()?.parse().ok());
        base.payments = count.ok_or_else(|| Error::content("the number of payments is no number"))?;
        Ok(base)
    }
}

#[cfg(test)]
mod tests;
