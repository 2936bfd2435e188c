//! Market-Feed: twenty securities were traded elsewhere; orders that rested for such a price are submitted.
//!
//! Up to half of the twenty are securities that this trader's own orders rest for, at their price: so orders
//! do not rest for ever, however many securities there are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ashlar_postgres::Statement;

use crate::broker::desk::{Desk, Level};
use crate::broker::exchange::Exchange;
use crate::broker::prices::share_cents;
use crate::broker::trader::Scene;
use crate::error::{Error, Result};
use crate::fields::{integer, wide};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::any_security;

const TICKERS: usize = 20;
/// A price stays in these bounds, in hundredths. Arbitrary.
const PRICES: (i64, i64) = (100, 100_000);

/// What was traded, by security: all sessions lock in this order, so that none waits for one that waits for
/// it.
pub(in crate::broker) struct Input {
    tickers: BTreeMap<i32, Ticker>,
}

struct Ticker {
    price: Price,
    quantity: i32,
}

enum Price {
    At(i64),
    /// So much higher than the last one, in ten-thousandths.
    Moved(i64),
}

pub(super) struct Statements<S = Statement> {
    prices: S,
    update: S,
    trigger: S,
    submit: S,
    exchanges: S,
    volumes: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            prices: session.prepare(
                "SELECT security, (price * 100)::bigint FROM lab_broker.last_trade WHERE security = ANY($1)
                 ORDER BY security FOR UPDATE",
            )?,
            update: session.prepare(
                "UPDATE lab_broker.last_trade l SET at = localtimestamp, price = t.cents * 0.01,
                    volume = volume + t.quantity
                 FROM unnest($1::int[], $2::bigint[], $3::int[]) AS t(security, cents, quantity)
                 WHERE l.security = t.security",
            )?,
            // A sale with a limit waits for a higher price, all else for a lower one.
            trigger: session.prepare(
                "DELETE FROM lab_broker.trade_request r
                 USING unnest($1::int[], $2::bigint[]) AS t(security, cents)
                 WHERE r.security = t.security
                    AND CASE r.kind WHEN 4 THEN r.bid <= t.cents * 0.01 ELSE r.bid >= t.cents * 0.01 END
                 RETURNING r.trade",
            )?,
            // The order may have begun behind this one, which waited: its steps never go back in time.
            submit: session.prepare(
                "WITH submitted AS (
                    UPDATE lab_broker.trade SET status = 2, at = greatest(at, localtimestamp)
                    WHERE id = ANY($1) AND status = 1 RETURNING id, at)
                 INSERT INTO lab_broker.trade_history (trade, status, at) SELECT id, 2, at FROM submitted",
            )?,
            exchanges: session.prepare("SELECT id FROM lab_broker.exchange ORDER BY id FOR UPDATE")?,
            volumes: session.prepare(
                "UPDATE lab_broker.exchange e SET volume = volume + traded.quantity
                 FROM (SELECT s.exchange, sum(t.quantity) AS quantity
                    FROM unnest($1::int[], $2::int[]) AS t(security, quantity)
                    JOIN lab_broker.security s ON s.id = t.security GROUP BY s.exchange) traded
                 WHERE e.id = traded.exchange",
            )?,
        })
    }
}

impl Input {
    pub(super) fn draw(scene: &Scene, exchange: &mut Exchange, random: &mut Random) -> Input {
        let mut tickers = BTreeMap::new();
        for resting in exchange.take_resting(TICKERS / 2) {
            match tickers.entry(resting.security) {
                Entry::Occupied(_) => exchange.rest(resting),
                Entry::Vacant(place) => {
                    let quantity = 100 * random.between(1, 8);
                    place.insert(Ticker { price: Price::At(resting.cents), quantity });
                }
            }
        }
        while tickers.len() < TICKERS {
            let price = Price::Moved(random.between_wide(-100, 100));
            let ticker = Ticker { price, quantity: 100 * random.between(1, 8) };
            tickers.entry(any_security(&scene.origin, random)).or_insert(ticker);
        }
        Input { tickers }
    }

    pub(super) fn perform(
        &self,
        desk: &mut Desk,
        statements: &Statements,
        exchange: &mut Exchange,
    ) -> Result<Done> {
        desk.begin(Level::ReadCommitted)?;
        let securities: Vec<i32> = self.tickers.keys().copied().collect();
        let quantities: Vec<i32> = self.tickers.values().map(|ticker| ticker.quantity).collect();
        let cents = self.prices(&securities, desk, statements)?;
        let values: [&(dyn ashlar_postgres::ToSql + Sync); 3] = [&securities, &cents, &quantities];
        desk.change("last trades changed", TICKERS, &statements.update, &values)?;
        let rows = desk.query(&statements.trigger, &[&securities, &cents])?;
        let triggered = rows.iter().map(|row| wide(row, 0)).collect::<Result<Vec<i64>>>()?;
        if !triggered.is_empty() {
            desk.change("trades submitted", triggered.len(), &statements.submit, &[&triggered])?;
        }
        desk.query(&statements.exchanges, &[])?;
        desk.execute(&statements.volumes, &[&securities, &quantities])?;
        let done = desk.commit()?;
        triggered.into_iter().for_each(|trade| exchange.submit(trade));
        Ok(done)
    }

    /// The new prices, in the order of the securities.
    fn prices(&self, securities: &[i32], desk: &mut Desk, statements: &Statements) -> Result<Vec<i64>> {
        let rows = desk.query(&statements.prices, &[&securities])?;
        let mut prices = Vec::with_capacity(securities.len());
        for (row, (security, ticker)) in rows.iter().zip(&self.tickers) {
            let (found, last) = (integer(row, 0)?, wide(row, 1)?);
            if found != *security {
                return Err(Error::content(format!("the price of security {found} for {security}")));
            }
            prices.push(match ticker.price {
                Price::At(cents) => cents,
                Price::Moved(parts) => (last + share_cents(last, parts)).clamp(PRICES.0, PRICES.1),
            });
        }
        if prices.len() == securities.len() {
            return Ok(prices);
        }
        Err(Error::content(format!("prices of {} securities, not {}", prices.len(), securities.len())))
    }
}
