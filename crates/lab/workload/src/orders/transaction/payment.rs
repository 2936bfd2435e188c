//! Payment: a customer pays, and the sums of warehouse, district and customer move.

use ashlar_postgres::Statement;

use crate::error::Result;
use crate::fields::{only, text};
use crate::orders::ledger::{Entry, PaymentEntry};
use crate::orders::terminal::{Desk, Place, Scene};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::{Asked, CUSTOMERS_BY_NAME, any_district, remote};

/// Who pays what, and where.
pub(in crate::orders) struct Input {
    pub(super) warehouse: i32,
    pub(super) district: i32,
    pub(super) customer: Asked,
    pub(super) cents: i32,
}

pub(super) struct Statements<S = Statement> {
    warehouse: S,
    district: S,
    by_name: S,
    customer: S,
    history: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            warehouse: session.prepare(
                "UPDATE lab_orders.warehouse SET w_ytd = w_ytd + $2::int * 0.01 WHERE w_id = $1
                 RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
            )?,
            district: session.prepare(
                "UPDATE lab_orders.district SET d_ytd = d_ytd + $3::int * 0.01 WHERE d_w_id = $1 AND d_id = $2
                 RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
            )?,
            by_name: session.prepare(CUSTOMERS_BY_NAME)?,
            // Who has bad credit gets each payment written in front of what is known of him.
            customer: session.prepare(
                "UPDATE lab_orders.customer SET c_balance = c_balance - $4::int * 0.01,
                    c_ytd_payment = c_ytd_payment + $4 * 0.01, c_payment_cnt = c_payment_cnt + 1,
                    c_data = CASE c_credit WHEN 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, $6::int,
                        $5::int, $4 * 0.01) || '|' || c_data, 500) ELSE c_data END
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3
                 RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
                    c_since, c_credit, c_credit_lim, c_discount, c_balance",
            )?,
            history: session.prepare(
                "INSERT INTO lab_orders.history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount,
                    h_data)
                 VALUES ($1, $2, $3, $4, $5, localtimestamp, $6::int * 0.01, $7)",
            )?,
        })
    }
}

impl Input {
    pub(super) fn draw(place: Place, scene: &Scene, random: &mut Random) -> Input {
        let district = any_district(random);
        let (of_warehouse, of_district) = if random.is_percent(15.0) && scene.origin.warehouses > 1 {
            (remote(place.warehouse, scene, random), any_district(random))
        } else {
            (place.warehouse, district)
        };
        let customer = Asked::draw(of_warehouse, of_district, scene, random);
        Input { warehouse: place.warehouse, district, customer, cents: random.between(100, 500_000) }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        let Input { warehouse, district, cents, .. } = self;
        desk.begin()?;
        let warehouses = desk.query(&statements.warehouse, &[warehouse, cents])?;
        let warehouse_name = text(only(&warehouses, "the warehouse of a payment")?, 0)?;
        let districts = desk.query(&statements.district, &[warehouse, district, cents])?;
        let district_name = text(only(&districts, "the district of a payment")?, 0)?;
        let customer = self.customer.number(desk, &statements.by_name)?;
        let whose = &self.customer;
        let values: [&(dyn ashlar_postgres::ToSql + Sync); 6] =
            [&whose.warehouse, &whose.district, &customer, cents, warehouse, district];
        only(&desk.query(&statements.customer, &values)?, "the customer of a payment")?;
        let data = desk.next_mark().unwrap_or_else(|| format!("{warehouse_name}    {district_name}"));
        let values: [&(dyn ashlar_postgres::ToSql + Sync); 7] =
            [&whose.warehouse, &whose.district, &customer, warehouse, district, cents, &data];
        desk.execute(&statements.history, &values)?;
        desk.commit_written(Entry::Payment(PaymentEntry {
            warehouse: *warehouse,
            district: *district,
            customer_warehouse: whose.warehouse,
            customer_district: whose.district,
            customer,
            cents: *cents,
        }))
    }
}
