//! Trade-Order: somebody orders a trade. In six of ten cases at the market's price, and then it waits for its
//! result; else at a price of its own, and then it rests until the market is there.

use ashlar_postgres::{Row, Statement};

use crate::broker::desk::{Desk, Level};
use crate::broker::exchange::{Exchange, Resting};
use crate::broker::ledger::Entry;
use crate::broker::names::{symbol, tax_number};
use crate::broker::past::{LIMIT_PERCENT, MARGIN_PERCENT, quantity};
use crate::broker::prices::{TradeKind, share_cents};
use crate::broker::rows::people::{has_permitted, permitted};
use crate::broker::trader::Scene;
use crate::error::{Error, Result};
use crate::fields::{integer, only, text, wide};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::{HISTORY, RATES, TAXES, any_account, any_security};

/// What is ordered.
pub(in crate::broker) struct Input {
    account: i32,
    /// Somebody else than the owner orders: the tax number.
    executor: Option<String>,
    symbol: String,
    /// A sale is of the so-many-th of what the account holds, if it holds something.
    held_place: i32,
    kind: TradeKind,
    quantity: i32,
    is_cash: bool,
    is_last_first: bool,
    /// How far the limit is from the price, in ten-thousandths of it.
    distance: i64,
    is_rolled_back: bool,
}

pub(super) struct Statements<S = Statement> {
    account: S,
    permission: S,
    held: S,
    security: S,
    holdings: S,
    assets: S,
    taxes: S,
    rates: S,
    insert: S,
    request: S,
    history: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            account: session.prepare(
                "SELECT a.customer, a.broker, c.tier::int, c.first_name, c.last_name, a.name, b.name,
                    c.tax_number
                 FROM lab_broker.account a JOIN lab_broker.customer c ON c.id = a.customer
                 JOIN lab_broker.broker b ON b.id = a.broker WHERE a.id = $1",
            )?,
            permission: session.prepare(
                "SELECT first_name, last_name, level FROM lab_broker.permission
                 WHERE account = $1 AND tax_number = $2",
            )?,
            held: session.prepare(
                "SELECT s.symbol FROM lab_broker.holding_summary h
                 JOIN lab_broker.security s ON s.id = h.security WHERE h.account = $1 AND h.quantity > 0",
            )?,
            security: session.prepare(
                "SELECT s.id, (l.price * 100)::bigint, s.name, c.name FROM lab_broker.security s
                 JOIN lab_broker.company c ON c.id = s.company
                 JOIN lab_broker.last_trade l ON l.security = s.id WHERE s.symbol = $1",
            )?,
            holdings: session.prepare(
                "SELECT quantity, price FROM lab_broker.holding WHERE account = $1 AND security = $2
                 ORDER BY at",
            )?,
            assets: session.prepare(
                "SELECT sum(h.quantity * l.price) FROM lab_broker.holding_summary h
                 JOIN lab_broker.last_trade l ON l.security = h.security WHERE h.account = $1",
            )?,
            taxes: session.prepare(TAXES)?,
            rates: session.prepare(RATES)?,
            insert: session.prepare(
                "INSERT INTO lab_broker.trade (id, at, account, security, quantity, status, kind, is_cash,
                    is_last_first, bid, charge, commission, tax, executor)
                 VALUES (nextval('lab_broker.trade_id'), localtimestamp, $1, $2, $3, $4::int, $5::int, $6, $7,
                    $8::bigint * 0.01, $9::bigint * 0.01, $10::bigint * 0.01, 0, $11) RETURNING id",
            )?,
            request: session.prepare(
                "INSERT INTO lab_broker.trade_request (trade, broker, security, kind, quantity, bid)
                 VALUES ($1, $2, $3, $4::int, $5, $6::bigint * 0.01)",
            )?,
            history: session.prepare(HISTORY)?,
        })
    }
}

/// Who orders, and through whom.
struct Parties {
    customer: i32,
    broker: i32,
    tier: i32,
    executor: String,
}

impl Input {
    pub(super) fn draw(scene: &Scene, random: &mut Random) -> Input {
        let account = any_account(scene, random);
        let is_other = random.is_percent(10.0) && has_permitted(&account);
        Input {
            account,
            executor: is_other.then(|| tax_number(permitted(&scene.origin, account))),
            symbol: symbol(any_security(&scene.origin, random)),
            held_place: random.between(0, i32::MAX),
            kind: kind(random),
            quantity: quantity(random),
            is_cash: !random.is_percent(MARGIN_PERCENT),
            is_last_first: random.is_percent(35.0),
            distance: random.between_wide(5, 200),
            is_rolled_back: random.is_percent(1.0),
        }
    }

    pub(super) fn perform(
        &self,
        desk: &mut Desk,
        statements: &Statements,
        exchange: &mut Exchange,
    ) -> Result<Done> {
        desk.begin(Level::RepeatableRead)?;
        let parties = self.parties(desk, statements)?;
        let symbol = self.symbol(desk, statements)?;
        let rows = desk.query(&statements.security, &[&symbol])?;
        let row = only(&rows, "a security that is ordered")?;
        let (security, price) = (integer(row, 0)?, wide(row, 1)?);
        let bid = self.bid(price);
        let (charge, commission) = self.costs(bid, security, &parties, desk, statements)?;
        let status = if self.kind.is_limit() { 1 } else { 2 };
        let rows = desk.query(
            &statements.insert,
            &[
                &self.account,
                &security,
                &self.quantity,
                &status,
                &(self.kind as i32),
                &self.is_cash,
                &self.is_last_first,
                &bid,
                &charge,
                &commission,
                &parties.executor,
            ],
        )?;
        let trade = wide(only(&rows, "a trade that was ordered")?, 0)?;
        if self.kind.is_limit() {
            let kind = self.kind as i32;
            let values: [&(dyn ashlar_postgres::ToSql + Sync); 6] =
                [&trade, &parties.broker, &security, &kind, &self.quantity, &bid];
            desk.change("requests made", 1, &statements.request, &values)?;
        }
        desk.change("rows of history made", 1, &statements.history, &[&trade, &status])?;
        if self.is_rolled_back {
            desk.roll_back()?;
            return Ok(Done::RolledBack);
        }
        let (account, quantity) = (self.account, self.quantity);
        let done = desk.commit_written(Entry::Order { trade, account, security, quantity })?;
        if self.kind.is_limit() {
            exchange.rest(Resting { security, cents: bid });
        } else {
            exchange.submit(trade);
        }
        Ok(done)
    }

    fn parties(&self, desk: &mut Desk, statements: &Statements) -> Result<Parties> {
        let rows = desk.query(&statements.account, &[&self.account])?;
        let row = only(&rows, "the account of an order")?;
        let name =
            |row: &Row, at: usize| Ok::<_, Error>(format!("{} {}", text(row, at)?, text(row, at + 1)?));
        let executor = match &self.executor {
            None => name(row, 3)?,
            Some(other) => {
                let rows = desk.query(&statements.permission, &[&self.account, other])?;
                name(only(&rows, "the permission to order")?, 0)?
            }
        };
        Ok(Parties { customer: integer(row, 0)?, broker: integer(row, 1)?, tier: integer(row, 2)?, executor })
    }

    fn symbol(&self, desk: &mut Desk, statements: &Statements) -> Result<String> {
        if !self.kind.is_sell() {
            return Ok(self.symbol.clone());
        }
        let held = desk.query(&statements.held, &[&self.account])?;
        let place = self.held_place as usize % held.len().max(1);
        held.get(place).map_or_else(|| Ok(self.symbol.clone()), |row| Ok(text(row, 0)?.to_string()))
    }

    /// The price that is asked for: buyers with a limit and stopped losses wait for a lower one.
    fn bid(&self, price: i64) -> i64 {
        let distance = share_cents(price, self.distance).max(1);
        match self.kind {
            TradeKind::MarketBuy | TradeKind::MarketSell => price,
            TradeKind::LimitBuy | TradeKind::StopLoss => (price - distance).max(1),
            TradeKind::LimitSell => price + distance,
        }
    }

    /// Charge and commission; taxes and assets are looked at, as a broker would.
    fn costs(
        &self,
        bid: i64,
        security: i32,
        parties: &Parties,
        desk: &mut Desk,
        statements: &Statements,
    ) -> Result<(i64, i64)> {
        desk.query(&statements.holdings, &[&self.account, &security])?;
        if self.kind.is_sell() {
            desk.query(&statements.taxes, &[&parties.customer])?;
        }
        if !self.is_cash {
            desk.query(&statements.assets, &[&self.account])?;
        }
        let rows = desk.query(&statements.rates, &[&(self.kind as i32), &parties.tier])?;
        let row = only(&rows, "the rates of a trade")?;
        Ok((wide(row, 0)?, share_cents(bid * i64::from(self.quantity), wide(row, 1)?)))
    }
}

/// As the loaded trades are: half are sales, and four of ten have a limit.
fn kind(random: &mut Random) -> TradeKind {
    let (is_sell, is_limit) = (random.is_percent(50.0), random.is_percent(LIMIT_PERCENT));
    match (is_sell, is_limit) {
        (false, false) => TradeKind::MarketBuy,
        (false, true) => TradeKind::LimitBuy,
        (true, false) => TradeKind::MarketSell,
        (true, true) if random.is_percent(50.0) => TradeKind::LimitSell,
        (true, true) => TradeKind::StopLoss,
    }
}
