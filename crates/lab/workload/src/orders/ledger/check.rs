//! What the ledger says against what a database holds.

use std::sync::PoisonError;

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use super::book::{OrderEntry, Pages, PaymentEntry, Written};
use super::{Ledger, Mark};

/// Rows are asked for in pieces of so many.
const ROWS_AT_ONCE: usize = 5000;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Orders that had to be there.
    pub acknowledged_orders: u64,
    /// Payments that had to be there.
    pub acknowledged_payments: u64,
    /// What had no answer before the mark (it was under way, or the server was lost) and is there
    /// nevertheless.
    pub unknown_present: u64,
    /// What had no answer before the mark and is not there.
    pub unknown_absent: u64,
    /// What should not be; one for each kind.
    pub problems: Vec<Problem>,
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

/// What is wrong with an order or a payment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// It was acknowledged before the mark and is not there: the server or its storage lost it.
    OrderMissing,
    /// It is there, with other lines or another customer than were sent.
    OrderDiffers,
    /// Nobody sent it.
    OrderNeverSent,
    /// It was sent only after the mark: the copy is not of the mark.
    OrderFromLater,
    /// As with orders.
    PaymentMissing,
    /// As with orders.
    PaymentDiffers,
    /// As with orders; or it is there twice.
    PaymentNeverSent,
    /// As with orders.
    PaymentFromLater,
    /// There are more or less payments without a mark than when the ledger began.
    OtherPayments,
}

/// What an entry must, may or must not be at a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Present,
    Unknown,
    Absent,
}

impl<T> Written<T> {
    pub(super) fn standing(&self, mark: Mark) -> Standing {
        match self.acknowledged {
            Some(epoch) if epoch < mark.begin => Standing::Present,
            _ if self.sent >= mark.end => Standing::Absent,
            _ => Standing::Unknown,
        }
    }
}

pub(super) fn check(ledger: &Ledger, session: &mut Session, mark: Mark) -> Result<Found> {
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let mut found = Found::default();
    let answer = check_orders(ledger, session, mark, &mut found)
        .and_then(|()| check_payments(ledger, session, mark, &mut found));
    // It only reads: whether this is answered changes nothing of what was found.
    let ended = session.run("ROLLBACK");
    answer?;
    ended?;
    Ok(found)
}

fn check_orders(ledger: &Ledger, session: &mut Session, mark: Mark, found: &mut Found) -> Result<()> {
    let mut entries: Vec<Written<OrderEntry>> = Vec::new();
    for_pages(ledger, |_, pages| entries.extend_from_slice(&pages.orders));
    entries.sort_by_key(|written| key(&written.entry));
    let mut left = &entries[..];
    each_row(session, &orders_query(ledger), &mut |row| {
        let &[warehouse, district, order, customer, lines_told, lines, quantity] = row else {
            return Err(Error::content(format!("an order of seven numbers, not {row:?}")));
        };
        let there = OrderEntry { warehouse, district, order, customer, lines, quantity };
        let before = left.partition_point(|written| key(&written.entry) < key(&there));
        left[..before].iter().for_each(|written| absent_order(written, mark, found));
        left = &left[before..];
        let same = left.partition_point(|written| key(&written.entry) == key(&there));
        present_order(&there, lines_told, &left[..same], mark, found);
        left = &left[same..];
        Ok(())
    })?;
    left.iter().for_each(|written| absent_order(written, mark, found));
    Ok(())
}

fn key(entry: &OrderEntry) -> (i32, i32, i32) {
    (entry.warehouse, entry.district, entry.order)
}

/// All orders since the ledger began, with what their lines sum up to, in the order of their keys.
fn orders_query(ledger: &Ledger) -> String {
    let row =
        |((warehouse, district), next): (&(i32, i32), &i32)| format!("({warehouse}, {district}, {next})");
    let base: Vec<String> = ledger.base.next_orders.iter().map(row).collect();
    format!(
        "SELECT o_w_id, o_d_id, o_id, o_c_id, o_ol_cnt, lines, quantity
         FROM (VALUES {}) AS base (w, d, next)
         JOIN lab_orders.orders ON o_w_id = w AND o_d_id = d AND o_id >= next
         CROSS JOIN LATERAL (
             SELECT count(*) AS lines, coalesce(sum(ol_quantity), 0) AS quantity FROM lab_orders.order_line
             WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id) AS line
         ORDER BY o_w_id, o_d_id, o_id",
        base.join(", ")
    )
}

fn absent_order(written: &Written<OrderEntry>, mark: Mark, found: &mut Found) {
    match written.standing(mark) {
        Standing::Present => {
            found.acknowledged_orders += 1;
            found.add(ProblemKind::OrderMissing, || format!("{:?}", written.entry));
        }
        Standing::Unknown => found.unknown_absent += 1,
        Standing::Absent => {}
    }
}

/// An order that is there, and all that was sent with its number: more than one where a lost server gave the
/// number again.
fn present_order(
    there: &OrderEntry,
    lines_told: i32,
    entries: &[Written<OrderEntry>],
    mark: Mark,
    found: &mut Found,
) {
    let is_possible = |written: &&Written<OrderEntry>| written.standing(mark) != Standing::Absent;
    let possible: Vec<&Written<OrderEntry>> = entries.iter().filter(is_possible).collect();
    let is_whole = |written: &&Written<OrderEntry>| written.entry == *there && lines_told == there.lines;
    let is_due = |written: &&Written<OrderEntry>| written.standing(mark) == Standing::Present;
    // Two may be alike to the last line; only one of them is this one.
    let whole = || possible.iter().copied().filter(is_whole);
    let mut this = whole().find(is_due).or_else(|| whole().next());
    if entries.is_empty() {
        found.add(ProblemKind::OrderNeverSent, || format!("{there:?}"));
    } else if possible.is_empty() {
        found.add(ProblemKind::OrderFromLater, || format!("{there:?}"));
    } else if this.is_none() {
        let sent: Vec<OrderEntry> = possible.iter().map(|written| written.entry).collect();
        let example = || format!("{there:?} with {lines_told} lines by its head, sent were {sent:?}");
        found.add(ProblemKind::OrderDiffers, example);
        this = possible.iter().copied().find(is_due).or(possible.first().copied());
    }
    for written in possible {
        if !this.is_some_and(|this| std::ptr::eq(this, written)) {
            absent_order(written, mark, found);
        } else if is_due(&written) {
            found.acknowledged_orders += 1;
        } else {
            found.unknown_present += 1;
        }
    }
}

fn check_payments(ledger: &Ledger, session: &mut Session, mark: Mark, found: &mut Found) -> Result<()> {
    let mut entries: Vec<Vec<(Written<PaymentEntry>, bool)>> = Vec::new();
    for_pages(ledger, |_, pages| {
        entries.push(pages.payments.iter().map(|written| (*written, false)).collect());
    });
    each_row(session, &payments_query(ledger), &mut |row| {
        let &[book, place, warehouse, district, of_warehouse, of_district, customer, cents] = row else {
            return Err(Error::content(format!("a payment of eight numbers, not {row:?}")));
        };
        let there = PaymentEntry {
            warehouse,
            district,
            customer_warehouse: of_warehouse,
            customer_district: of_district,
            customer,
            cents,
        };
        let known = entries.get_mut(book as usize).and_then(|pages| pages.get_mut(place as usize));
        present_payment(&there, known, mark, found);
        Ok(())
    })?;
    for (written, is_seen) in entries.iter().flatten() {
        match written.standing(mark) {
            Standing::Present => {
                found.acknowledged_payments += 1;
                if !is_seen {
                    found.add(ProblemKind::PaymentMissing, || format!("{:?}", written.entry));
                }
            }
            Standing::Unknown if *is_seen => found.unknown_present += 1,
            Standing::Unknown => found.unknown_absent += 1,
            Standing::Absent => {}
        }
    }
    check_other_payments(ledger, session, found)
}

fn present_payment(
    there: &PaymentEntry,
    known: Option<&mut (Written<PaymentEntry>, bool)>,
    mark: Mark,
    found: &mut Found,
) {
    match known {
        Some((written, is_seen)) if !*is_seen => {
            *is_seen = true;
            if written.standing(mark) == Standing::Absent {
                found.add(ProblemKind::PaymentFromLater, || format!("{there:?}"));
            } else if written.entry != *there {
                let sent = written.entry;
                found.add(ProblemKind::PaymentDiffers, || format!("{there:?}, sent was {sent:?}"));
            }
        }
        _ => found.add(ProblemKind::PaymentNeverSent, || format!("{there:?}")),
    }
}

/// All payments with a mark of this ledger; the mark's parts in front. A mark that no client makes has -1.
fn payments_query(ledger: &Ledger) -> String {
    let hexadecimal = |part: u32| {
        format!(
            "CASE WHEN h_data ~ '^[0-9a-f]+\\.[0-9a-f]{{1,7}}\\.[0-9a-f]{{1,7}}$'
             THEN ('x' || lpad(split_part(h_data, '.', {part}), 8, '0'))::bit(32)::int ELSE -1 END"
        )
    };
    format!(
        "SELECT {}, {}, h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, (h_amount * 100)::int
         FROM lab_orders.history WHERE h_data LIKE '{}.%'",
        hexadecimal(2),
        hexadecimal(3),
        ledger.name
    )
}

fn check_other_payments(ledger: &Ledger, session: &mut Session, found: &mut Found) -> Result<()> {
    let query = format!("SELECT count(*) FROM lab_orders.history WHERE h_data NOT LIKE '{}.%'", ledger.name);
    let rows = session.run(&query)?;
    let count = rows.iter().flatten().next().and_then(|field| field.as_deref()?.parse::<u64>().ok());
    let count = count.ok_or_else(|| Error::content("the number of payments is no number"))?;
    if count != ledger.base.payments {
        let base = ledger.base.payments;
        found.add(ProblemKind::OtherPayments, || format!("{count} without this ledger's mark, not {base}"));
    }
    Ok(())
}

fn for_pages(ledger: &Ledger, mut see: impl FnMut(usize, &Pages)) {
    let all = ledger.pages.lock().unwrap_or_else(PoisonError::into_inner);
    for (number, pages) in all.iter().enumerate() {
        see(number, &pages.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Every row of a query of numbers, in pieces.
fn each_row(session: &mut Session, query: &str, see: &mut dyn FnMut(&[i32]) -> Result<()>) -> Result<()> {
    session.run(&format!("DECLARE ledger_rows NO SCROLL CURSOR FOR {query}"))?;
    loop {
        let rows = session.run(&format!("FETCH {ROWS_AT_ONCE} FROM ledger_rows"))?;
        for row in &rows {
            let numbers =
                row.iter().map(|field| field.as_deref()?.parse().ok()).collect::<Option<Vec<i32>>>();
            see(&numbers.ok_or_else(|| Error::content(format!("a row without numbers: {row:?}")))?)?;
        }
        if rows.len() < ROWS_AT_ONCE {
            session.run("CLOSE ledger_rows")?;
            return Ok(());
        }
    }
}
