//! What the ledger says against what a database holds.

use std::collections::BTreeMap;

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use super::{Entry, Ledger, Mark, Written};

/// Rows are asked for in pieces of so many.
const ROWS_AT_ONCE: usize = 5000;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Orders that had to be there.
    pub acknowledged_orders: u64,
    /// Results that had to be there.
    pub acknowledged_results: u64,
    /// What had no answer before the mark and is there nevertheless.
    pub unknown_present: u64,
    /// What had no answer before the mark and is not there.
    pub unknown_absent: u64,
    /// What should not be; one for each kind.
    pub problems: Vec<Problem>,
}

/// Something that should not be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// What it is.
    pub kind: ProblemKind,
    /// How often it was found.
    pub count: u64,
    /// The first one.
    pub example: String,
}

/// What is wrong with a trade.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// It was acknowledged before the mark and is not there: the server or its storage lost it.
    OrderMissing,
    /// It is there, for another account, security or quantity than were sent.
    OrderDiffers,
    /// Nobody sent it.
    OrderNeverSent,
    /// It was sent only after the mark: the copy is not of the mark.
    OrderFromLater,
    /// Its result was acknowledged before the mark, and the trade is not completed or not settled.
    ResultMissing,
    /// It was completed at another price than was sent.
    ResultDiffers,
    /// It was completed, and nobody asked for that.
    ResultNeverSent,
    /// It is completed, and that was asked for only after the mark.
    ResultFromLater,
}

impl Found {
    /// Everything that was acknowledged is there, and nothing that was never sent.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, kind: ProblemKind, example: impl FnOnce() -> String) {
        match self.problems.iter_mut().find(|problem| problem.kind == kind) {
            Some(problem) => problem.count += 1,
            None => self.problems.push(Problem { kind, count: 1, example: example() }),
        }
    }
}

/// What an entry must, may or must not be at a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Present,
    Unknown,
    Absent,
}

impl Written {
    fn standing(&self, mark: Mark) -> Standing {
        match self.acknowledged {
            Some(epoch) if epoch < mark.begin => Standing::Present,
            _ if self.sent >= mark.end => Standing::Absent,
            _ => Standing::Unknown,
        }
    }
}

/// A trade, as it is there.
struct There {
    account: i32,
    security: i32,
    quantity: i32,
    /// Its price, when it is completed and settled.
    cents: Option<i64>,
}

pub(super) fn check(ledger: &Ledger, session: &mut Session, mark: Mark) -> Result<Found> {
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let there = read(ledger.base, session);
    // It only reads: whether this is answered changes nothing of what was found.
    let ended = session.run("ROLLBACK");
    let there = there?;
    ended?;
    Ok(compare(ledger, &there, mark))
}

/// All trades since the ledger began.
fn read(base: i64, session: &mut Session) -> Result<BTreeMap<i64, There>> {
    let mut all = BTreeMap::new();
    let mut last = base;
    loop {
        let rows = session.run(&format!(
            "SELECT t.id, account, security, quantity,
                CASE WHEN status = 3 AND s.trade IS NOT NULL THEN (price * 100)::bigint END
             FROM lab_broker.trade t LEFT JOIN lab_broker.settlement s ON s.trade = t.id
             WHERE t.id > {last} ORDER BY t.id LIMIT {ROWS_AT_ONCE}"
        ))?;
        for row in &rows {
            let number = |at: usize| row.get(at)?.as_deref()?.parse::<i64>().ok();
            let [Some(trade), Some(account), Some(security), Some(quantity)] = [0, 1, 2, 3].map(number)
            else {
                return Err(Error::content(format!("a trade without numbers: {row:?}")));
            };
            let [account, security, quantity] = [account, security, quantity].map(|number| number as i32);
            all.insert(trade, There { account, security, quantity, cents: number(4) });
            last = trade;
        }
        if rows.len() < ROWS_AT_ONCE {
            return Ok(all);
        }
    }
}

fn compare(ledger: &Ledger, there: &BTreeMap<i64, There>, mark: Mark) -> Found {
    let mut found = Found::default();
    let (mut orders, mut results) = (BTreeMap::new(), BTreeMap::new());
    for written in ledger.entries() {
        match written.entry {
            Entry::Order { trade, .. } => keep(&mut orders, trade, written),
            Entry::Result { trade, .. } if trade > ledger.base => keep(&mut results, trade, written),
            Entry::Result { .. } => {}
        }
    }
    for (trade, written) in &orders {
        order(written, there.get(trade), mark, &mut found);
    }
    for (trade, written) in &results {
        result(written, there.get(trade).and_then(|there| there.cents), mark, &mut found);
    }
    for (trade, there) in there {
        if !orders.contains_key(trade) {
            found.add(ProblemKind::OrderNeverSent, || format!("trade {trade}"));
        }
        if there.cents.is_some() && !results.contains_key(trade) {
            found.add(ProblemKind::ResultNeverSent, || format!("trade {trade}"));
        }
    }
    found
}

/// A lost server may give a number again that nobody had an answer for; only one of them can be there.
fn keep(all: &mut BTreeMap<i64, Written>, trade: i64, written: Written) {
    let kept = all.entry(trade).or_insert(written);
    if kept.acknowledged.is_none() {
        *kept = written;
    }
}

fn order(written: &Written, there: Option<&There>, mark: Mark, found: &mut Found) {
    let Entry::Order { account, security, quantity, .. } = written.entry else { return };
    let example = || format!("{:?}", written.entry);
    let standing = written.standing(mark);
    found.acknowledged_orders += u64::from(standing == Standing::Present);
    match (standing, there) {
        (Standing::Present, None) => found.add(ProblemKind::OrderMissing, example),
        (Standing::Unknown, None) => found.unknown_absent += 1,
        (Standing::Absent, None) => {}
        (Standing::Absent, Some(_)) => found.add(ProblemKind::OrderFromLater, example),
        (Standing::Present | Standing::Unknown, Some(there)) => {
            found.unknown_present += u64::from(standing == Standing::Unknown);
            if (there.account, there.security, there.quantity) != (account, security, quantity) {
                found.add(ProblemKind::OrderDiffers, example);
            }
        }
    }
}

fn result(written: &Written, there: Option<i64>, mark: Mark, found: &mut Found) {
    let Entry::Result { cents, .. } = written.entry else { return };
    let example = || format!("{:?}", written.entry);
    let standing = written.standing(mark);
    found.acknowledged_results += u64::from(standing == Standing::Present);
    match (standing, there) {
        (Standing::Present, None) => found.add(ProblemKind::ResultMissing, example),
        (Standing::Unknown, None) => found.unknown_absent += 1,
        (Standing::Absent, None) => {}
        (Standing::Absent, Some(_)) => found.add(ProblemKind::ResultFromLater, example),
        (Standing::Present | Standing::Unknown, Some(there)) => {
            found.unknown_present += u64::from(standing == Standing::Unknown);
            if there != cents {
                found.add(ProblemKind::ResultDiffers, example);
            }
        }
    }
}
