//! Trade-Result: the exchange has done a trade; holdings, taxes, commission, settlement and cash follow.

use ashlar_postgres::{Row, Statement};

use crate::broker::desk::{Desk, Level};
use crate::broker::exchange::Exchange;
use crate::broker::ledger::Entry;
use crate::broker::prices::{TradeKind, share_cents};
use crate::broker::rows::{BOUGHT, CASH, MARGIN, SOLD};
use crate::error::{Error, Result};
use crate::fields::{integer, only, wide};
use crate::prepare::Prepare;
use crate::workload::Done;

use super::holdings::{Changes, Held};
use super::{HISTORY, RATES, TAXES};

/// Which trade; the deck lets no result come when none waits for it.
pub(in crate::broker) struct Input {
    trade: Option<i64>,
}

pub(super) struct Statements<S = Statement> {
    trade: S,
    account: S,
    summary: S,
    first_first: S,
    last_first: S,
    price: S,
    end_holdings: S,
    reduce_holding: S,
    begin_holding: S,
    holding_history: S,
    set_summary: S,
    end_summary: S,
    taxes: S,
    rates: S,
    complete: S,
    history: S,
    broker: S,
    settlement: S,
    balance: S,
    cash: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        let held = |order: &str| {
            format!(
                "SELECT trade, quantity, (price * 100)::bigint FROM lab_broker.holding
                 WHERE account = $1 AND security = $2 ORDER BY at {order}, trade {order}"
            )
        };
        Ok(Statements {
            trade: session.prepare(
                "SELECT account, security, quantity, kind::int, status::int, is_cash::int, is_last_first::int,
                    (bid * 100)::bigint, (charge * 100)::bigint FROM lab_broker.trade WHERE id = $1",
            )?,
            // Whoever has it may change the account's holdings.
            account: session.prepare(
                "SELECT a.customer, a.broker, a.is_taxed::int, c.tier::int FROM lab_broker.account a
                 JOIN lab_broker.customer c ON c.id = a.customer WHERE a.id = $1 FOR UPDATE OF a",
            )?,
            summary: session.prepare(
                "SELECT quantity FROM lab_broker.holding_summary WHERE account = $1 AND security = $2",
            )?,
            first_first: session.prepare(&held("ASC"))?,
            last_first: session.prepare(&held("DESC"))?,
            price: session
                .prepare("SELECT (price * 100)::bigint FROM lab_broker.last_trade WHERE security = $1")?,
            end_holdings: session.prepare("DELETE FROM lab_broker.holding WHERE trade = ANY($1)")?,
            reduce_holding: session.prepare("UPDATE lab_broker.holding SET quantity = $2 WHERE trade = $1")?,
            begin_holding: session.prepare(
                "INSERT INTO lab_broker.holding (trade, account, security, at, price, quantity)
                 VALUES ($1, $2, $3, localtimestamp, $4::bigint * 0.01, $5)",
            )?,
            holding_history: session.prepare(
                "INSERT INTO lab_broker.holding_history (holding, trade, before, after)
                 SELECT holding, $1::bigint, before, after
                 FROM unnest($2::bigint[], $3::int[], $4::int[]) AS change(holding, before, after)",
            )?,
            set_summary: session.prepare(
                "INSERT INTO lab_broker.holding_summary (account, security, quantity) VALUES ($1, $2, $3)
                 ON CONFLICT (account, security) DO UPDATE SET quantity = excluded.quantity",
            )?,
            end_summary: session
                .prepare("DELETE FROM lab_broker.holding_summary WHERE account = $1 AND security = $2")?,
            taxes: session.prepare(TAXES)?,
            rates: session.prepare(RATES)?,
            complete: session.prepare(
                "UPDATE lab_broker.trade SET status = 3, at = localtimestamp, price = $2::bigint * 0.01,
                    commission = $3::bigint * 0.01, tax = $4::bigint * 0.01 WHERE id = $1",
            )?,
            history: session.prepare(HISTORY)?,
            broker: session.prepare(
                "UPDATE lab_broker.broker SET trades = trades + 1, commission = commission + $2::bigint * 0.01
                 WHERE id = $1",
            )?,
            settlement: session.prepare(
                "INSERT INTO lab_broker.settlement (trade, due, amount, kind)
                 VALUES ($1, current_date + 2, $2::bigint * 0.01, $3)",
            )?,
            balance: session.prepare(
                "UPDATE lab_broker.account SET balance = balance + $2::bigint * 0.01 WHERE id = $1",
            )?,
            cash: session.prepare(
                "INSERT INTO lab_broker.cash_transaction (trade, at, amount, name)
                 VALUES ($1, localtimestamp, $2::bigint * 0.01, $3)",
            )?,
        })
    }
}

/// The trade as it was ordered, and whose it is.
struct Ordered {
    trade: i64,
    account: i32,
    security: i32,
    quantity: i32,
    kind: TradeKind,
    is_cash: bool,
    is_last_first: bool,
    charge: i64,
    /// What it is done at.
    cents: i64,
    customer: i32,
    broker: i32,
    is_taxed: bool,
    tier: i32,
}

impl Input {
    pub(super) fn draw(exchange: &mut Exchange) -> Input {
        Input { trade: exchange.next_submitted() }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        let nothing = || Error::environment("a result is asked for, and no trade waits for it");
        let trade = self.trade.ok_or_else(nothing)?;
        desk.begin(Level::Serializable)?;
        let ordered = Ordered::read(trade, desk, statements)?;
        let gain = ordered.change_holdings(desk, statements)?;
        let tax = ordered.tax(gain, desk, statements)?;
        let value = ordered.cents * i64::from(ordered.quantity);
        let rows = desk.query(&statements.rates, &[&(ordered.kind as i32), &ordered.tier])?;
        let commission = share_cents(value, wide(only(&rows, "the rates of a trade")?, 1)?);
        let completed = desk.execute(&statements.complete, &[&trade, &ordered.cents, &commission, &tax])?;
        desk.change("rows of history made", 1, &statements.history, &[&trade, &3])?;
        let sign = if ordered.kind.is_sell() { 1 } else { -1 };
        let amount = sign * value - ordered.charge - commission - tax;
        ordered.settle(amount, desk, statements)?;
        // The broker last: many trades wait for that row.
        let counted = desk.execute(&statements.broker, &[&ordered.broker, &commission])?;
        if (completed, counted) != (1, 1) {
            let found = format!("completed {completed} trades of {counted} brokers");
            return Err(Error::content(format!("trade {trade}: {found}")));
        }
        desk.commit_written(Entry::Result { trade, cents: ordered.cents })
    }
}

impl Ordered {
    fn read(id: i64, desk: &mut Desk, statements: &Statements) -> Result<Ordered> {
        let rows = desk.query(&statements.trade, &[&id])?;
        let trade = only(&rows, "a trade that was submitted")?;
        let number = integer(trade, 3)?;
        let kind = TradeKind::ALL.into_iter().find(|kind| *kind as i32 == number);
        let (Some(kind), 2) = (kind, integer(trade, 4)?) else {
            let status = integer(trade, 4)?;
            return Err(Error::content(format!("trade {id}: kind {number}, status {status}")));
        };
        let (account, security) = (integer(trade, 0)?, integer(trade, 1)?);
        let rows = desk.query(&statements.account, &[&account])?;
        let owner = only(&rows, "the account of a trade")?;
        let is_set = |row: &Row, at: usize| Ok::<_, Error>(integer(row, at)? != 0);
        let rows = desk.query(&statements.price, &[&security])?;
        let price = wide(only(&rows, "the price of a security")?, 0)?;
        Ok(Ordered {
            trade: id,
            account,
            security,
            quantity: integer(trade, 2)?,
            kind,
            is_cash: is_set(trade, 5)?,
            is_last_first: is_set(trade, 6)?,
            charge: wide(trade, 8)?,
            cents: if kind.is_limit() { wide(trade, 7)? } else { price },
            customer: integer(owner, 0)?,
            broker: integer(owner, 1)?,
            is_taxed: is_set(owner, 2)?,
            tier: integer(owner, 3)?,
        })
    }
    /// Answers what was gained by closing holdings.
    fn change_holdings(&self, desk: &mut Desk, statements: &Statements) -> Result<i64> {
        let Ordered { trade, account, security, cents, .. } = self;
        let rows = desk.query(&statements.summary, &[account, security])?;
        let summary = rows.first().map_or(Ok(0), |row| integer(row, 0))?;
        let statement = if self.is_last_first { &statements.last_first } else { &statements.first_first };
        let rows = desk.query(statement, &[account, security])?;
        let held =
            |row: &Row| Ok(Held { trade: wide(row, 0)?, quantity: integer(row, 1)?, cents: wide(row, 2)? });
        let held = rows.iter().map(held).collect::<Result<Vec<Held>>>()?;
        let sum: i32 = held.iter().map(|held| held.quantity).sum();
        if sum != summary {
            let which = format!("account {account} security {security}");
            return Err(Error::content(format!("{which}: {summary} held, its holdings are {sum}")));
        }
        let moved = if self.kind.is_sell() { -self.quantity } else { self.quantity };
        let changes = Changes::of(*trade, moved, *cents, &held);
        if !changes.ended.is_empty() {
            let count = changes.ended.len();
            desk.change("holdings ended", count, &statements.end_holdings, &[&changes.ended])?;
        }
        if let Some((holding, quantity)) = &changes.reduced {
            desk.change("holdings reduced", 1, &statements.reduce_holding, &[holding, quantity])?;
        }
        if let Some(quantity) = &changes.begun {
            let values: [&(dyn ashlar_postgres::ToSql + Sync); 5] =
                [trade, account, security, cents, quantity];
            desk.change("holdings begun", 1, &statements.begin_holding, &values)?;
        }
        let values: [&(dyn ashlar_postgres::ToSql + Sync); 4] =
            [trade, &changes.holdings, &changes.before, &changes.after];
        let count = changes.holdings.len();
        desk.change("rows of holdings' history made", count, &statements.holding_history, &values)?;
        match summary + moved {
            0 => desk.change("sums ended", 1, &statements.end_summary, &[account, security])?,
            quantity => {
                desk.change("sums set", 1, &statements.set_summary, &[account, security, &quantity])?;
            }
        }
        Ok(changes.gain)
    }

    fn tax(&self, gain: i64, desk: &mut Desk, statements: &Statements) -> Result<i64> {
        if !self.is_taxed || gain <= 0 {
            return Ok(0);
        }
        let rows = desk.query(&statements.taxes, &[&self.customer])?;
        Ok(share_cents(gain, wide(only(&rows, "the taxes of a customer")?, 0)?))
    }

    fn settle(&self, amount: i64, desk: &mut Desk, statements: &Statements) -> Result<()> {
        let kind = if self.is_cash { CASH } else { MARGIN };
        desk.change("settlements made", 1, &statements.settlement, &[&self.trade, &amount, &kind])?;
        if self.is_cash {
            let did = if self.kind.is_sell() { SOLD } else { BOUGHT };
            let name = format!("{did} {} of security {}", self.quantity, self.security);
            desk.change("balances changed", 1, &statements.balance, &[&self.account, &amount])?;
            desk.change("payments made", 1, &statements.cash, &[&self.trade, &amount, &name])?;
        }
        Ok(())
    }
}
