//! Data-Maintenance: now and then somebody puts one row of one table right, the tables taking turns.

use ashlar_postgres::Statement;

use crate::broker::desk::{Desk, Level};
use crate::broker::prices::TAXES;
use crate::broker::trader::Scene;
use crate::error::Result;
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::{any_account, any_security};

/// Which row.
pub(in crate::broker) struct Input {
    change: usize,
    number: i32,
}

#[derive(Clone, Copy)]
enum Of {
    Customer,
    Account,
    Security,
    Company,
    Exchange,
    Tax,
}

/// Twelve tables, each with whose row it is and how it is changed; most change back the next time.
const CHANGES: [(Of, &str); 12] = [
    (
        Of::Account,
        "permission SET level = CASE level WHEN '0001' THEN '0011' ELSE '0001' END WHERE account = $1",
    ),
    (Of::Customer, "customer SET email = second_email, second_email = email WHERE id = $1"),
    (Of::Company, "company SET rating = CASE rating WHEN 'A1' THEN 'B1' ELSE 'A1' END WHERE id = $1"),
    // The first one is a country's; there are half as many of them.
    (Of::Customer, "customer_tax SET tax = tax % 160 + 1 WHERE customer = $1 AND place = 1"),
    (
        Of::Security,
        "daily_market SET volume = volume + 100 WHERE security = $1
            AND day = (SELECT max(day) FROM lab_broker.daily_market WHERE security = $1)",
    ),
    (
        Of::Exchange,
        "exchange SET name = CASE WHEN name LIKE 'The %' THEN substr(name, 5) ELSE 'The ' || name END
            WHERE id = $1",
    ),
    (Of::Company, "financial SET per_share = per_share + 0.01 WHERE company = $1"),
    (Of::Company, "news SET author = reverse(author) WHERE company = $1"),
    (Of::Security, "security SET since = since + 1 WHERE id = $1"),
    (
        Of::Tax,
        "tax SET name = CASE WHEN name LIKE 'The %' THEN substr(name, 5) ELSE 'The ' || name END
            WHERE id = $1",
    ),
    (
        Of::Customer,
        "watch_item SET security = (SELECT max(id) FROM lab_broker.security) WHERE customer = $1
            AND security = (SELECT max(security) FROM lab_broker.watch_item WHERE customer = $1)",
    ),
    (Of::Account, "account SET name = reverse(name) WHERE id = $1"),
];

pub(super) struct Statements<S = Statement> {
    changes: Vec<S>,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        let mut changes = Vec::with_capacity(CHANGES.len());
        for (_, change) in CHANGES {
            changes.push(session.prepare(&format!("UPDATE lab_broker.{change}"))?);
        }
        Ok(Statements { changes })
    }
}

impl Input {
    pub(super) fn draw(turn: usize, scene: &Scene, random: &mut Random) -> Input {
        let change = turn % CHANGES.len();
        let number = match CHANGES[change].0 {
            Of::Customer => scene.preference.customer(random),
            Of::Account => any_account(scene, random),
            Of::Security => any_security(&scene.origin, random),
            Of::Company => random.between(1, scene.origin.companies()),
            Of::Exchange => random.between(1, 4),
            Of::Tax => random.between(1, TAXES),
        };
        Input { change, number }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin(Level::ReadCommitted)?;
        desk.execute(&statements.changes[self.change], &[&self.number])?;
        desk.commit()
    }
}
