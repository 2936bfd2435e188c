//! Stock-Level: how many items of the last twenty orders of a district run short.

use ashlar_postgres::Statement;

use crate::error::Result;
use crate::fields::{integer, only, wide};
use crate::orders::settings::Isolation;
use crate::orders::terminal::{Desk, Place};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

/// Where, and what is short.
pub(in crate::orders) struct Input {
    place: Place,
    threshold: i32,
}

pub(super) struct Statements<S = Statement> {
    district: S,
    short: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            district: session
                .prepare("SELECT d_next_o_id FROM lab_orders.district WHERE d_w_id = $1 AND d_id = $2")?,
            short: session.prepare(
                "SELECT count(DISTINCT s_i_id) FROM lab_orders.order_line
                 JOIN lab_orders.stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3::int - 20 AND ol_o_id < $3
                    AND s_quantity < $4",
            )?,
        })
    }
}

impl Input {
    pub(super) fn draw(place: Place, random: &mut Random) -> Input {
        Input { place, threshold: random.between(10, 20) }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        let Place { warehouse, district } = &self.place;
        desk.begin_reading(Isolation::ReadCommitted)?;
        let rows = desk.query(&statements.district, &[warehouse, district])?;
        let next = integer(only(&rows, "the district of a stock level")?, 0)?;
        let rows = desk.query(&statements.short, &[warehouse, district, &next, &self.threshold])?;
        wide(only(&rows, "a stock level")?, 0)?;
        desk.commit()
    }
}
