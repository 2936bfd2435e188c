//! Trade-Update: somebody puts the texts of up to twenty old trades right, in one of three ways.

use ashlar_postgres::Statement;

use crate::broker::desk::{Desk, Level};
use crate::broker::trader::Scene;
use crate::error::Result;
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::any_way;
use super::old_trades::{self, Which, read};

/// Who ordered, how it was settled, what was paid for.
const WAYS: [i32; 3] = [33, 33, 34];

/// Which ones, and what of them.
pub(in crate::broker) struct Input {
    way: usize,
    which: Which,
}

/// Each changes its text to another one, and the next time back.
pub(super) struct Statements<S = Statement> {
    changes: [S; 3],
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            changes: [
                session.prepare(
                    "UPDATE lab_broker.trade SET executor = CASE WHEN executor LIKE '% X %'
                        THEN replace(executor, ' X ', ' ') ELSE replace(executor, ' ', ' X ') END
                     WHERE id = ANY($1)",
                )?,
                session.prepare(
                    "UPDATE lab_broker.settlement SET kind = CASE kind WHEN 'cash account' THEN 'cash'
                        WHEN 'cash' THEN 'cash account' WHEN 'margin' THEN 'margin account' ELSE 'margin' END
                     WHERE trade = ANY($1)",
                )?,
                session.prepare(
                    "UPDATE lab_broker.cash_transaction SET name = CASE WHEN name LIKE '% shares of %'
                        THEN replace(name, ' shares of ', ' of ')
                        ELSE replace(name, ' of ', ' shares of ') END
                     WHERE trade = ANY($1)",
                )?,
            ],
        })
    }
}

impl Input {
    pub(super) fn draw(scene: &Scene, random: &mut Random) -> Input {
        let way = any_way(&WAYS, random);
        let which = match way {
            0 => Which::ids(scene, random),
            1 => Which::of_account(scene, random),
            _ => Which::of_security(scene, random),
        };
        Input { way, which }
    }

    pub(super) fn perform(
        &self,
        desk: &mut Desk,
        statements: &Statements,
        old_trades: &old_trades::Statements,
    ) -> Result<Done> {
        desk.begin(Level::RepeatableRead)?;
        let found = self.which.find(desk, old_trades)?;
        // Only what was paid at once has a payment.
        let is_changed = |completed: &&old_trades::Completed| self.way != 2 || completed.is_cash;
        let mut ids: Vec<i64> = found.iter().filter(is_changed).map(|completed| completed.trade).collect();
        ids.sort_unstable();
        desk.change("old trades changed", ids.len(), &statements.changes[self.way], &[&ids])?;
        read(&found, desk, old_trades)?;
        desk.commit()
    }
}
