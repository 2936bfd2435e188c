//! Old trades and all that is known of them: they are found by their ids, by account or by security, and lie
//! anywhere in the tables.

use ashlar_postgres::{Row, Statement};

use crate::broker::calendar::FIRST_DAY;
use crate::broker::desk::Desk;
use crate::broker::trader::Scene;
use crate::error::{Error, Result};
use crate::fields::{integer, wide};
use crate::prepare::Prepare;
use crate::random::Random;

use super::{any_account, any_moment, any_security};

/// So many are looked at together.
pub(super) const COUNT: usize = 20;

/// Which ones.
pub(super) enum Which {
    /// Any that were loaded; in order, all different.
    Ids(Vec<i64>),
    /// The next ones of an account since a moment.
    OfAccount { account: i32, since: i32 },
    /// The next ones of a security since a moment.
    OfSecurity { security: i32, since: i32 },
}

pub(in crate::broker) struct Statements<S = Statement> {
    by_ids: S,
    by_account: S,
    by_security: S,
    settlements: S,
    payments: S,
    history: S,
    pub(super) holdings: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        const TRADES: &str = "SELECT id, status::int, is_cash::int, kind::int, quantity, bid, price, executor
            FROM lab_broker.trade";
        let since = |column: &str| {
            format!(
                "{TRADES} WHERE {column} = $1
                    AND at >= TIMESTAMP '{FIRST_DAY}' + $2::int * INTERVAL '1 second'
                 ORDER BY at LIMIT {COUNT}"
            )
        };
        Ok(Statements {
            by_ids: session.prepare(&format!("{TRADES} WHERE id = ANY($1)"))?,
            by_account: session.prepare(&since("account"))?,
            by_security: session.prepare(&since("security"))?,
            settlements: session.prepare(
                "SELECT trade, due, amount, kind FROM lab_broker.settlement WHERE trade = ANY($1)",
            )?,
            payments: session.prepare(
                "SELECT trade, at, amount, name FROM lab_broker.cash_transaction WHERE trade = ANY($1)",
            )?,
            history: session
                .prepare("SELECT trade, status, at FROM lab_broker.trade_history WHERE trade = ANY($1)")?,
            holdings: session.prepare(
                "SELECT holding, trade, before, after FROM lab_broker.holding_history
                 WHERE holding IN (SELECT holding FROM lab_broker.holding_history WHERE trade = $1)
                 LIMIT 20",
            )?,
        })
    }
}

/// A trade that was completed when it was found.
#[derive(Clone, Copy)]
pub(super) struct Completed {
    pub(super) trade: i64,
    pub(super) is_cash: bool,
    /// Rows of its history: two, or three where it had a limit.
    steps: usize,
}

impl Which {
    pub(super) fn ids(scene: &Scene, random: &mut Random) -> Which {
        let all = scene.origin.trades();
        let mut ids: Vec<i64> = Vec::with_capacity(COUNT);
        while ids.len() < COUNT {
            let id = random.between_wide(1, all);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        Which::Ids(ids)
    }

    pub(super) fn of_account(scene: &Scene, random: &mut Random) -> Which {
        let since = any_moment(&scene.origin, random);
        Which::OfAccount { account: any_account(scene, random), since }
    }

    pub(super) fn of_security(scene: &Scene, random: &mut Random) -> Which {
        let since = any_moment(&scene.origin, random);
        Which::OfSecurity { security: any_security(&scene.origin, random), since }
    }

    /// Those of them that are completed. A trade that was loaded is there and completed.
    pub(super) fn find(&self, desk: &mut Desk, statements: &Statements) -> Result<Vec<Completed>> {
        let rows = match self {
            Which::Ids(ids) => desk.query(&statements.by_ids, &[ids])?,
            Which::OfAccount { account, since } => desk.query(&statements.by_account, &[account, since])?,
            Which::OfSecurity { security, since } => {
                desk.query(&statements.by_security, &[security, since])?
            }
        };
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            if integer(row, 1)? == 3 {
                found.push(completed(row)?);
            }
        }
        match self {
            Which::Ids(ids) if found.len() != ids.len() => {
                let is_lost = |id: &&i64| !found.iter().any(|completed| completed.trade == **id);
                let lost = ids.iter().find(is_lost);
                Err(Error::content(format!("loaded trades not found, or not completed: {lost:?}")))
            }
            _ => Ok(found),
        }
    }
}

fn completed(row: &Row) -> Result<Completed> {
    let steps = if integer(row, 3)? > 2 { 3 } else { 2 };
    Ok(Completed { trade: wide(row, 0)?, is_cash: integer(row, 2)? != 0, steps })
}

/// Reads what followed from completed trades, and sees that nothing is missing.
pub(super) fn read(found: &[Completed], desk: &mut Desk, statements: &Statements) -> Result<()> {
    let ids: Vec<i64> = found.iter().map(|completed| completed.trade).collect();
    let paid = found.iter().filter(|completed| completed.is_cash).count();
    let steps = found.iter().map(|completed| completed.steps).sum();
    let parts = [
        ("settlements", &statements.settlements, ids.len()),
        ("payments", &statements.payments, paid),
        ("rows of history", &statements.history, steps),
    ];
    for (what, statement, expected) in parts {
        let rows = desk.query(statement, &[&ids])?.len();
        if rows != expected {
            let which = format!("completed trades {ids:?}");
            return Err(Error::content(format!("{which}: {rows} {what}, not {expected}")));
        }
    }
    Ok(())
}
