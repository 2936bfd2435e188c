//! Rows of the tables that a run lets grow: trades, and all that follows from them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::broker::calendar::{date, day_of, moment, trading_millis};
use crate::broker::names::person;
use crate::broker::origin::Origin;
use crate::broker::past::{Past, held};
use crate::fields::{Line, Pieces, rows_of};
use crate::random::mixed;

use super::{BOUGHT, CASH, MARGIN, SOLD, flag};

/// Of trades, by their ids.
pub(in crate::broker) type Ids = RangeInclusive<i64>;

/// Statuses of a trade.
const PENDING: i32 = 1;
const SUBMITTED: i32 = 2;
const COMPLETED: i32 = 3;

/// When a trade was asked for, submitted and completed, in milliseconds of trading.
fn times(origin: &Origin, past: &Past) -> [i64; 3] {
    let bits = mixed(past.id as u64);
    let asked = trading_millis(origin, past.id);
    let waited = if past.kind.is_limit() { 1000 + (bits % 60_000) as i64 } else { 0 };
    [asked, asked + waited, asked + waited + 500 + (bits >> 32) as i64 % 5000]
}

fn completed(origin: &Origin, past: &Past) -> String {
    moment(times(origin, past)[2])
}

pub(in crate::broker) fn trades(origin: &Origin, ids: Ids) -> Pieces {
    let origin = *origin;
    rows_of(ids, move |id, piece| {
        let past = Past::of(&origin, id);
        let (first, last) = person("customer", i64::from(past.account) / 10);
        let mut line = Line::begin(piece);
        line.integer(id).text(completed(&origin, &past)).integer(past.account).integer(past.security);
        line.integer(past.quantity).integer(COMPLETED).integer(past.kind as i32).text(flag(past.is_cash));
        line.text(flag(id % 3 == 0)).cents(past.price).cents(past.price).cents(past.charge);
        line.cents(past.commission).cents(past.tax).text(format!("{first} {last}")).end();
    })
}

pub(in crate::broker) fn trade_history(origin: &Origin, ids: Ids) -> Pieces {
    let origin = *origin;
    rows_of(ids, move |id, piece| {
        let past = Past::of(&origin, id);
        let all = [PENDING, SUBMITTED, COMPLETED].into_iter().zip(times(&origin, &past));
        for (status, at) in all.skip(usize::from(!past.kind.is_limit())) {
            Line::begin(piece).integer(id).integer(status).text(moment(at)).end();
        }
    })
}

pub(in crate::broker) fn settlements(origin: &Origin, ids: Ids) -> Pieces {
    let origin = *origin;
    rows_of(ids, move |id, piece| {
        let past = Past::of(&origin, id);
        let due = date(day_of(&origin, id) + 2);
        let kind = if past.is_cash { CASH } else { MARGIN };
        Line::begin(piece).integer(id).text(due).cents(past.amount()).text(kind).end();
    })
}

pub(in crate::broker) fn cash_transactions(origin: &Origin, ids: Ids) -> Pieces {
    let origin = *origin;
    let paid = ids.map(move |id| Past::of(&origin, id)).filter(|past| past.is_cash);
    rows_of(paid, move |past, piece| {
        let did = if past.kind.is_sell() { SOLD } else { BOUGHT };
        let name = format!("{did} {} of security {}", past.quantity, past.security);
        let mut line = Line::begin(piece);
        line.integer(past.id).text(completed(&origin, &past)).cents(past.amount()).text(name).end();
    })
}

pub(in crate::broker) fn holding_history(origin: &Origin, ids: Ids) -> Pieces {
    let origin = *origin;
    rows_of(ids, move |id, piece| {
        for change in Past::of(&origin, id).changes() {
            let mut line = Line::begin(piece);
            line.integer(change.holding).integer(id).integer(change.before).integer(change.after).end();
        }
    })
}

pub(in crate::broker) fn holdings(origin: &Origin, customers: RangeInclusive<i32>) -> Pieces {
    let origin = *origin;
    rows_of(customers.flat_map(move |customer| held(&origin, customer)), move |past, piece| {
        let mut line = Line::begin(piece);
        line.integer(past.id).integer(past.account).integer(past.security);
        line.text(completed(&origin, &past)).cents(past.price).integer(past.quantity).end();
    })
}

pub(in crate::broker) fn holding_summaries(origin: &Origin, customers: RangeInclusive<i32>) -> Pieces {
    let origin = *origin;
    let sums = customers.flat_map(move |customer| {
        let mut sums: BTreeMap<(i32, i32), i32> = BTreeMap::new();
        for past in held(&origin, customer) {
            *sums.entry((past.account, past.security)).or_default() += past.quantity;
        }
        sums
    });
    rows_of(sums, |((account, security), quantity), piece| {
        Line::begin(piece).integer(account).integer(security).integer(quantity).end();
    })
}
