//! The five transactions: what each draws, its statements, and what it does with them.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use ashlar_postgres::Statement;

use crate::error::Result;
use crate::prepare::{List, Listed, Prepare};
use crate::random::Random;
use crate::workload::Done;

use super::names::last_name;
use super::origin::DISTRICTS;
use super::settings::Isolation;
use super::terminal::{Desk, Place, Scene};

/// What a transaction was drawn to do.
pub(super) enum Input {
    NewOrder(new_order::Input),
    Payment(payment::Input),
    OrderStatus(order_status::Input),
    Delivery(delivery::Input),
    StockLevel(stock_level::Input),
}

/// Prepared, for one session.
pub(super) struct Statements<S = Statement> {
    new_order: new_order::Statements<S>,
    payment: payment::Statements<S>,
    order_status: order_status::Statements<S>,
    delivery: delivery::Statements<S>,
    stock_level: stock_level::Statements<S>,
}

impl<S> Statements<S> {
    pub(super) fn prepare(
        session: &mut impl Prepare<Statement = S>,
        isolation: Isolation,
    ) -> Result<Statements<S>> {
        Ok(Statements {
            new_order: new_order::Statements::prepare(session.of("new_order"), isolation)?,
            payment: payment::Statements::prepare(session.of("payment"))?,
            order_status: order_status::Statements::prepare(session.of("order_status"))?,
            delivery: delivery::Statements::prepare(session.of("delivery"))?,
            stock_level: stock_level::Statements::prepare(session.of("stock_level"))?,
        })
    }
}

/// What the kinds of transactions ask of a server.
pub(super) fn listed(isolation: Isolation) -> Vec<Listed> {
    let mut list = List::default();
    Statements::prepare(&mut list, isolation).expect("a list refuses nothing");
    list.0
}

impl Input {
    /// Draws all of it, so that it can be tried again as it is. `kind` is a place in [`super::KINDS`].
    pub(super) fn draw(kind: usize, place: Place, scene: &Scene, random: &mut Random) -> Input {
        match kind {
            0 => Input::NewOrder(new_order::Input::draw(place, scene, random)),
            1 => Input::Payment(payment::Input::draw(place, scene, random)),
            2 => Input::OrderStatus(order_status::Input::draw(place, scene, random)),
            3 => Input::Delivery(delivery::Input::draw(place, random)),
            4 => Input::StockLevel(stock_level::Input::draw(place, random)),
            _ => unreachable!("there are five kinds, not {kind}"),
        }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        match self {
            Input::NewOrder(input) => input.perform(desk, &statements.new_order),
            Input::Payment(input) => input.perform(desk, &statements.payment),
            Input::OrderStatus(input) => input.perform(desk, &statements.order_status),
            Input::Delivery(input) => input.perform(desk, &statements.delivery),
            Input::StockLevel(input) => input.perform(desk, &statements.stock_level),
        }
    }
}

/// A customer, as somebody asks for one.
struct Asked {
    warehouse: i32,
    district: i32,
    by: By,
}

enum By {
    Number(i32),
    LastName(String),
}

impl Asked {
    /// By last name in six of ten cases.
    fn draw(warehouse: i32, district: i32, scene: &Scene, random: &mut Random) -> Asked {
        let by = if random.is_percent(60.0) {
            By::LastName(last_name(scene.preferences.name.draw(random)))
        } else {
            By::Number(scene.preferences.customer.draw(random))
        };
        Asked { warehouse, district, by }
    }

    /// The customer's number: of several with the name, the middle one by first name, rounded up.
    fn number(&self, desk: &mut Desk, by_name: &ashlar_postgres::Statement) -> Result<i32> {
        let name = match &self.by {
            By::Number(number) => return Ok(*number),
            By::LastName(name) => name,
        };
        let rows = desk.query(by_name, &[&self.warehouse, &self.district, name])?;
        match rows.get(rows.len().div_ceil(2).wrapping_sub(1)) {
            Some(row) => crate::fields::integer(row, 0),
            None => Err(crate::error::Error::content(format!(
                "warehouse {} district {} has no customer {name}",
                self.warehouse, self.district
            ))),
        }
    }
}

/// Finds customers by last name, in the order of first names.
const CUSTOMERS_BY_NAME: &str = "SELECT c_id FROM lab_orders.customer
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";

/// A warehouse other than this one, where there is one.
fn remote(warehouse: i32, scene: &Scene, random: &mut Random) -> i32 {
    let others = scene.origin.warehouses - 1;
    if others == 0 {
        return warehouse;
    }
    let drawn = random.between(1, others);
    if drawn < warehouse { drawn } else { drawn + 1 }
}

fn any_district(random: &mut Random) -> i32 {
    random.between(1, DISTRICTS)
}

#[cfg(test)]
mod tests;
