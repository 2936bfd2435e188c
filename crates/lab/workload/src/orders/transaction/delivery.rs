//! Delivery: of each district of a warehouse, the oldest order that waits.

use ashlar_postgres::Statement;

use crate::error::{Error, Result};
use crate::fields::{integer, only, wide};
use crate::orders::origin::DISTRICTS;
use crate::orders::terminal::{Desk, Place};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

/// Who drives, and from where.
pub(in crate::orders) struct Input {
    warehouse: i32,
    carrier: i32,
}

pub(super) struct Statements<S = Statement> {
    take: S,
    order: S,
    lines: S,
    customer: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            // Whoever waits for the lock finds the row gone, and takes the next one.
            take: session.prepare(
                "DELETE FROM lab_orders.new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = (
                    SELECT no_o_id FROM lab_orders.new_order WHERE no_w_id = $1 AND no_d_id = $2
                    ORDER BY no_o_id LIMIT 1 FOR UPDATE)
                 RETURNING no_o_id",
            )?,
            order: session.prepare(
                "UPDATE lab_orders.orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3
                 RETURNING o_c_id, o_ol_cnt",
            )?,
            lines: session.prepare(
                "WITH line AS (
                    UPDATE lab_orders.order_line SET ol_delivery_d = localtimestamp
                    WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 RETURNING ol_amount)
                 SELECT count(*), coalesce(sum(ol_amount) * 100, 0)::bigint FROM line",
            )?,
            customer: session.prepare(
                "UPDATE lab_orders.customer SET c_balance = c_balance + $4::bigint * 0.01,
                    c_delivery_cnt = c_delivery_cnt + 1
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
        })
    }
}

impl Input {
    pub(super) fn draw(place: Place, random: &mut Random) -> Input {
        Input { warehouse: place.warehouse, carrier: random.between(1, 10) }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin()?;
        for district in 1..=DISTRICTS {
            self.deliver(district, desk, statements)?;
        }
        desk.commit()
    }

    fn deliver(&self, district: i32, desk: &mut Desk, statements: &Statements) -> Result<()> {
        let Input { warehouse, carrier } = self;
        let taken = desk.query(&statements.take, &[warehouse, &district])?;
        // A district in which everything is delivered is passed over.
        let Some(taken) = taken.first() else { return Ok(()) };
        let order = integer(taken, 0)?;
        let orders = desk.query(&statements.order, &[warehouse, &district, &order, carrier])?;
        let row = only(&orders, "the order of a new order")?;
        let (customer, expected) = (integer(row, 0)?, integer(row, 1)?);
        let sums = desk.query(&statements.lines, &[warehouse, &district, &order])?;
        let sums = only(&sums, "the sums of an order")?;
        let (lines, cents) = (wide(sums, 0)?, wide(sums, 1)?);
        let changed = desk.execute(&statements.customer, &[warehouse, &district, &customer, &cents])?;
        if lines != i64::from(expected) || changed != 1 {
            let which = format!("order {order} of warehouse {warehouse} district {district}");
            let found = format!("{lines} lines, not {expected}, and {changed} customers");
            return Err(Error::content(format!("{which} has {found}")));
        }
        Ok(())
    }
}
