//! Order-Status: a customer asks for his last order.

use ashlar_postgres::Statement;

use crate::error::{Error, Result};
use crate::fields::{integer, only};
use crate::orders::settings::Isolation;
use crate::orders::terminal::{Desk, Place, Scene};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::{Asked, CUSTOMERS_BY_NAME, any_district};

/// Who asks.
pub(in crate::orders) struct Input {
    pub(super) customer: Asked,
    /// Where there are fewer orders than customers, some have none.
    may_have_none: bool,
}

pub(super) struct Statements<S = Statement> {
    by_name: S,
    customer: S,
    last_order: S,
    lines: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            by_name: session.prepare(CUSTOMERS_BY_NAME)?,
            customer: session.prepare(
                "SELECT c_balance, c_first, c_middle, c_last FROM lab_orders.customer
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            last_order: session.prepare(
                "SELECT o_id, o_ol_cnt, o_carrier_id, o_entry_d FROM lab_orders.orders
                 WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
            )?,
            lines: session.prepare(
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM lab_orders.order_line
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            )?,
        })
    }
}

impl Input {
    pub(super) fn draw(place: Place, scene: &Scene, random: &mut Random) -> Input {
        let size = scene.origin.size;
        let may_have_none = size.orders_per_district < size.customers_per_district;
        let district = any_district(random);
        Input { customer: Asked::draw(place.warehouse, district, scene, random), may_have_none }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        let Asked { warehouse, district, .. } = &self.customer;
        desk.begin_reading(Isolation::RepeatableRead)?;
        let customer = self.customer.number(desk, &statements.by_name)?;
        let rows = desk.query(&statements.customer, &[warehouse, district, &customer])?;
        only(&rows, "the customer of an order status")?;
        let orders = desk.query(&statements.last_order, &[warehouse, district, &customer])?;
        if orders.is_empty() && self.may_have_none {
            return desk.commit();
        }
        let order = only(&orders, "the last order of a customer")?;
        let (order, expected) = (integer(order, 0)?, integer(order, 1)?);
        let lines = desk.query(&statements.lines, &[warehouse, district, &order])?.len();
        if lines as i64 != i64::from(expected) {
            let which = format!("order {order} of warehouse {warehouse} district {district}");
            return Err(Error::content(format!("{which} has {lines} lines, not {expected}")));
        }
        desk.commit()
    }
}
