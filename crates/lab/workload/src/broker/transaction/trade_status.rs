//! Trade-Status: a customer looks at the last fifty trades of an account.

use ashlar_postgres::Statement;

use crate::broker::desk::{Desk, Level};
use crate::broker::trader::Scene;
use crate::error::Result;
use crate::fields::only;
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::any_account;

/// Whose.
pub(in crate::broker) struct Input {
    account: i32,
}

pub(super) struct Statements<S = Statement> {
    trades: S,
    people: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            trades: session.prepare(
                "SELECT t.id, t.at, t.status, t.kind, t.quantity, t.charge, t.executor, s.symbol,
                    s.name, e.name
                 FROM lab_broker.trade t JOIN lab_broker.security s ON s.id = t.security
                 JOIN lab_broker.exchange e ON e.id = s.exchange
                 WHERE t.account = $1 ORDER BY t.at DESC LIMIT 50",
            )?,
            people: session.prepare(
                "SELECT c.first_name, c.last_name, b.name FROM lab_broker.account a
                 JOIN lab_broker.customer c ON c.id = a.customer JOIN lab_broker.broker b ON b.id = a.broker
                 WHERE a.id = $1",
            )?,
        })
    }
}

impl Input {
    pub(super) fn draw(scene: &Scene, random: &mut Random) -> Input {
        Input { account: any_account(scene, random) }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin(Level::ReadCommitted)?;
        desk.query(&statements.trades, &[&self.account])?;
        let rows = desk.query(&statements.people, &[&self.account])?;
        only(&rows, "the people of an account")?;
        desk.commit()
    }
}
