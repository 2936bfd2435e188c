//! Trade-Lookup: somebody looks for old trades, in one of four ways: random reads.

use crate::broker::desk::{Desk, Level};
use crate::broker::trader::Scene;
use crate::error::Result;
use crate::random::Random;
use crate::workload::Done;

use super::any_way;
use super::old_trades::{Statements, Which, read};

/// By ids, by account, by security, or by what an account held.
const WAYS: [i32; 4] = [30, 30, 30, 10];

/// Which ones.
pub(in crate::broker) struct Input {
    which: Which,
    /// Only what became of the first one's holdings.
    is_of_holdings: bool,
}

impl Input {
    pub(super) fn draw(scene: &Scene, random: &mut Random) -> Input {
        let way = any_way(&WAYS, random);
        let which = match way {
            0 => Which::ids(scene, random),
            2 => Which::of_security(scene, random),
            _ => Which::of_account(scene, random),
        };
        Input { which, is_of_holdings: way == 3 }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin(Level::ReadCommitted)?;
        let found = self.which.find(desk, statements)?;
        if !self.is_of_holdings {
            read(&found, desk, statements)?;
        } else if let Some(first) = found.first() {
            desk.query(&statements.holdings, &[&first.trade])?;
        }
        desk.commit()
    }
}
