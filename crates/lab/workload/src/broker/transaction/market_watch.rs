//! Market-Watch: how far the value of what somebody watches, holds or follows has changed since a day.

use ashlar_postgres::Statement;

use crate::broker::calendar::FIRST_DAY;
use crate::broker::desk::{Desk, Level};
use crate::broker::rows::fixed::industries_count;
use crate::broker::rows::market::first_market_day;
use crate::broker::trader::Scene;
use crate::error::{Error, Result};
use crate::fields::{integer, only, wide};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::{any_account, any_way};

/// What is looked at, and since when.
pub(in crate::broker) struct Input {
    way: usize,
    /// A customer, an account or an industry.
    whose: i32,
    day: i32,
}

/// A customer's list, an account's holdings, an industry.
const WAYS: [i32; 3] = [60, 35, 5];

pub(super) struct Statements<S = Statement> {
    lists: [S; 3],
    change: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            lists: [
                session.prepare("SELECT security FROM lab_broker.watch_item WHERE customer = $1")?,
                session.prepare("SELECT security FROM lab_broker.holding_summary WHERE account = $1")?,
                session.prepare(
                    "SELECT s.id FROM lab_broker.company c JOIN lab_broker.security s ON s.company = c.id
                     WHERE c.industry = $1",
                )?,
            ],
            change: session.prepare(&format!(
                "SELECT count(*), sum(s.shares * m.close)::float8, sum(s.shares * l.price)::float8
                 FROM lab_broker.security s JOIN lab_broker.last_trade l ON l.security = s.id
                 JOIN lab_broker.daily_market m ON m.security = s.id AND m.day = DATE '{FIRST_DAY}' + $2::int
                 WHERE s.id = ANY($1)"
            ))?,
        })
    }
}

impl Input {
    pub(super) fn draw(scene: &Scene, random: &mut Random) -> Input {
        let way = any_way(&WAYS, random);
        let whose = match way {
            0 => scene.preference.customer(random),
            1 => any_account(scene, random),
            _ => random.between(1, industries_count()),
        };
        let day = random.between(first_market_day(&scene.origin), scene.origin.size.trade_days - 1);
        Input { way, whose, day }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin(Level::ReadCommitted)?;
        let rows = desk.query(&statements.lists[self.way], &[&self.whose])?;
        let securities = rows.iter().map(|row| integer(row, 0)).collect::<Result<Vec<i32>>>()?;
        let rows = desk.query(&statements.change, &[&securities, &self.day])?;
        let found = wide(only(&rows, "a change of value")?, 0)?;
        if found != securities.len() as i64 {
            let asked = format!("{} securities on day {}", securities.len(), self.day);
            return Err(Error::content(format!("asked for {asked}, found {found}")));
        }
        desk.commit()
    }
}
