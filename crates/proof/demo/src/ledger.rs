//! Clients that keep their own list of what the database acknowledged.
//!
//! Each writer inserts 1, 2, 3, ... in transactions of its own and notes a number as sent before the
//! statement leaves and as acknowledged after the commit's answer came. The list lives in the demo's
//! memory, outside the array: what is on it must be in the database for ever.

use crate::error::{Error, Result};
use ashlar_postgres::{Address, Rows, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sessions that write at once: enough that commits share journal groups.
pub(crate) const WRITER_COUNT: usize = 4;
/// A commit that takes longer means that the database is gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The statement that makes the ledger's table.
pub(crate) const TABLE: &str =
    "create table ledger (writer int, number bigint, payload text, primary key (writer, number))";
/// The statement whose rows [`check`] reads.
pub(crate) const SUMMARY: &str = "select writer, count(*), min(number), max(number), \
     count(*) filter (where payload = md5(writer || ':' || number)) from ledger group by writer";

/// One writer's list. The numbers are consecutive, so the last one stands for all before it.
#[derive(Default)]
pub(crate) struct Page {
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

/// How far every writer was at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) sent: [u64; WRITER_COUNT],
    pub(crate) acknowledged: [u64; WRITER_COUNT],
}

/// Writers at work.
pub(crate) struct Ledger {
    pages: Arc<[Page; WRITER_COUNT]>,
    is_stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Ledger {
    /// Begins to write, after what `before` says is already there.
    pub(crate) fn start(address: &Address, before: Option<Mark>) -> Self {
        let pages: Arc<[Page; WRITER_COUNT]> = Arc::default();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for writer in 0..WRITER_COUNT {
            if let Some(mark) = before {
                pages[writer].sent.store(mark.sent[writer], Ordering::SeqCst);
                pages[writer].acknowledged.store(mark.acknowledged[writer], Ordering::SeqCst);
            }
            let (pages, is_stopping) = (pages.clone(), is_stopping.clone());
            let address = address.clone();
            threads.push(std::thread::spawn(move || write(&address, writer, &pages[writer], &is_stopping)));
        }
        Self { pages, is_stopping, threads }
    }

    /// Where the writers are now. Acknowledged is read before sent, so that it is never ahead.
    pub(crate) fn mark(&self) -> Mark {
        let acknowledged = std::array::from_fn(|w| self.pages[w].acknowledged.load(Ordering::SeqCst));
        let sent = std::array::from_fn(|w| self.pages[w].sent.load(Ordering::SeqCst));
        Mark { sent, acknowledged }
    }

    /// Ends the writers and hands out the final list.
    pub(crate) fn stop(mut self) -> Mark {
        self.join();
        self.mark()
    }

    fn join(&mut self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // A writer that panicked has aborted the demo already.
            let _ = thread.join();
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.join();
    }
}

/// One writer: until told to stop, or until the database goes away.
fn write(address: &Address, writer: usize, page: &Page, is_stopping: &AtomicBool) {
    let Ok(mut session) = Session::open(address, "ledger", ANSWER_LIMIT) else { return };
    while !is_stopping.load(Ordering::SeqCst) {
        let number = page.sent.load(Ordering::SeqCst) + 1;
        page.sent.store(number, Ordering::SeqCst);
        let statement = format!("insert into ledger values ({writer}, {number}, md5('{writer}:{number}'))");
        if session.run(&statement).is_err() {
            return;
        }
        page.acknowledged.store(number, Ordering::SeqCst);
    }
}

impl Mark {
    /// All commits on the list.
    pub(crate) fn total(&self) -> u64 {
        self.acknowledged.iter().sum()
    }
}

/// Checks the ledger of a database (the rows of [`SUMMARY`]) against the lists: it must hold every
/// number acknowledged by `low` and none beyond what `high` had sent, without gaps and intact.
/// Returns how many rows each writer has.
pub(crate) fn check(rows: &Rows, low: &Mark, high: &Mark) -> Result<[u64; WRITER_COUNT]> {
    let mut found = [0_u64; WRITER_COUNT];
    for row in rows {
        let value = |column: usize| -> Result<u64> {
            let text = row.get(column).and_then(Option::as_deref).unwrap_or("");
            text.parse().map_err(|_| Error::proof(format!("ledger summary holds {text:?}")))
        };
        let (writer, count, first, last, intact) =
            (value(0)? as usize, value(1)?, value(2)?, value(3)?, value(4)?);
        let Some(slot) = found.get_mut(writer) else {
            return Err(Error::proof(format!("ledger has rows of writer {writer}, who does not exist")));
        };
        if first != 1 || last != count || intact != count {
            return Err(Error::proof(format!(
                "ledger of writer {writer}: {count} rows from {first} to {last}, {intact} of them intact"
            )));
        }
        *slot = count;
    }
    for (writer, &count) in found.iter().enumerate() {
        let (least, most) = (low.acknowledged[writer], high.sent[writer]);
        if count < least {
            return Err(Error::proof(format!(
                "writer {writer}: {least} commits were acknowledged, only {count} are in the database"
            )));
        }
        if count > most {
            return Err(Error::proof(format!(
                "writer {writer}: {count} commits are in the database, only {most} were ever sent"
            )));
        }
    }
    Ok(found)
}
