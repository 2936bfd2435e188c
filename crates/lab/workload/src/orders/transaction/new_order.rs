//! New-Order: five to fifteen items are ordered; one order in a hundred names an item that does not exist and
//! is rolled back.

use ashlar_postgres::Statement;

use crate::error::{Error, Result};
use crate::fields::{integer, only, text};
use crate::orders::ledger::{Entry, OrderEntry};
use crate::orders::settings::Isolation;
use crate::orders::terminal::{Desk, Place, Scene};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::{any_district, remote};

/// What is ordered.
pub(in crate::orders) struct Input {
    pub(super) warehouse: i32,
    pub(super) district: i32,
    pub(super) customer: i32,
    /// By warehouse and item: all sessions lock stock in this order, so that none waits for one that waits
    /// for it.
    pub(super) lines: Vec<LineInput>,
    /// One of the items does not exist.
    pub(super) is_rolled_back: bool,
}

/// An item that is ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LineInput {
    pub(super) supply_warehouse: i32,
    pub(super) item: i32,
    pub(super) quantity: i32,
}

pub(super) struct Statements<S = Statement> {
    customer: S,
    district: S,
    raise_order_number: S,
    insert_order: S,
    insert_new_order: S,
    items: S,
    stock: S,
    update_stock: S,
    insert_lines: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(
        session: &mut impl Prepare<Statement = S>,
        isolation: Isolation,
    ) -> Result<Statements<S>> {
        // At the higher levels the change itself finds who changed the row before.
        let lock = if isolation == Isolation::ReadCommitted { " FOR UPDATE" } else { "" };
        let lock_stock = if isolation == Isolation::ReadCommitted { " FOR UPDATE OF stock" } else { "" };
        Ok(Statements {
            customer: session.prepare(
                "SELECT c_last, c_credit, (c_discount * 10000)::int, (w_tax * 10000)::int
                 FROM lab_orders.warehouse JOIN lab_orders.customer ON c_w_id = w_id
                 WHERE w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            district: session.prepare(&format!(
                "SELECT d_next_o_id, (d_tax * 10000)::int FROM lab_orders.district
                 WHERE d_w_id = $1 AND d_id = $2{lock}"
            ))?,
            raise_order_number: session.prepare(
                "UPDATE lab_orders.district SET d_next_o_id = $3 WHERE d_w_id = $1 AND d_id = $2",
            )?,
            insert_order: session.prepare(
                "INSERT INTO lab_orders.orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
                 VALUES ($1, $2, $3, $4, localtimestamp, $5, $6)",
            )?,
            insert_new_order: session.prepare(
                "INSERT INTO lab_orders.new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)",
            )?,
            items: session.prepare(
                "SELECT i_id, (i_price * 100)::int, i_name, i_data FROM lab_orders.item WHERE i_id = ANY($1)",
            )?,
            stock: session.prepare(&format!(
                "SELECT s_w_id, s_i_id, s_quantity, s_data, CASE $3::int
                    WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
                    WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
                    WHEN 9 THEN s_dist_09 ELSE s_dist_10 END
                 FROM unnest($1::int[], $2::int[]) AS line(w, i)
                 JOIN lab_orders.stock ON s_w_id = line.w AND s_i_id = line.i
                 ORDER BY s_w_id, s_i_id{lock_stock}"
            ))?,
            update_stock: session.prepare(
                "UPDATE lab_orders.stock SET s_quantity = line.left_over, s_ytd = s_ytd + line.quantity,
                    s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + line.remote
                 FROM unnest($1::int[], $2::int[], $3::int[], $4::int[], $5::int[])
                    AS line(w, i, quantity, left_over, remote)
                 WHERE s_w_id = line.w AND s_i_id = line.i",
            )?,
            insert_lines: session.prepare(
                "INSERT INTO lab_orders.order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_supply_w_id, ol_i_id,
                    ol_quantity, ol_amount, ol_dist_info)
                 SELECT $1::int, $2::int, $3::int, number, w, i, quantity, cents * 0.01, info
                 FROM unnest($4::int[], $5::int[], $6::int[], $7::int[], $8::text[]) WITH ORDINALITY
                    AS line(w, i, quantity, cents, info, number)",
            )?,
        })
    }
}

/// Columns of the lines whose items exist, as the statements take them.
#[derive(Default)]
struct Lines {
    warehouses: Vec<i32>,
    items: Vec<i32>,
    quantities: Vec<i32>,
    left_over: Vec<i32>,
    remote: Vec<i32>,
    cents: Vec<i32>,
    info: Vec<String>,
}

impl Input {
    pub(super) fn draw(place: Place, scene: &Scene, random: &mut Random) -> Input {
        let district = any_district(random);
        let customer = scene.preferences.customer.draw(random);
        let count = random.between(5, 15) as usize;
        let is_rolled_back = random.is_percent(1.0);
        let mut lines: Vec<LineInput> = Vec::with_capacity(count);
        while lines.len() < count {
            let drawn = scene.preferences.item.draw(random);
            let item = other_than(drawn, &lines, scene.origin.size.items);
            let is_remote = random.is_percent(1.0);
            let supply_warehouse =
                if is_remote { remote(place.warehouse, scene, random) } else { place.warehouse };
            lines.push(LineInput { supply_warehouse, item, quantity: random.between(1, 10) });
        }
        if is_rolled_back && let Some(last) = lines.last_mut() {
            last.item = scene.origin.size.items + 1;
        }
        lines.sort();
        Input { warehouse: place.warehouse, district, customer, lines, is_rolled_back }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin()?;
        let order = self.insert_order(desk, statements)?;
        let prices = self.prices(desk, statements)?;
        let lines = self.take_from_stock(&prices, desk, statements)?;
        let Lines { warehouses, items, quantities, cents, info, .. } = &lines;
        let key: [&(dyn ashlar_postgres::ToSql + Sync); 3] = [&self.warehouse, &self.district, &order];
        let inserted = desk.execute(
            &statements.insert_lines,
            &[key[0], key[1], key[2], warehouses, items, quantities, cents, info],
        )?;
        expect("lines inserted", inserted, items.len())?;
        if self.is_rolled_back {
            desk.roll_back()?;
            return Ok(Done::RolledBack);
        }
        desk.commit_written(Entry::Order(OrderEntry {
            warehouse: self.warehouse,
            district: self.district,
            order,
            customer: self.customer,
            lines: self.lines.len() as i32,
            quantity: self.lines.iter().map(|line| line.quantity).sum(),
        }))
    }

    /// Takes the district's next number for the order; answers it.
    fn insert_order(&self, desk: &mut Desk, statements: &Statements) -> Result<i32> {
        let Input { warehouse, district, customer, .. } = self;
        let rows = desk.query(&statements.customer, &[warehouse, district, customer])?;
        only(&rows, "the customer of a new order")?;
        let rows = desk.query(&statements.district, &[warehouse, district])?;
        let order = integer(only(&rows, "the district of a new order")?, 0)?;
        let raised = desk.execute(&statements.raise_order_number, &[warehouse, district, &(order + 1)])?;
        expect("districts changed", raised, 1)?;
        let lines = self.lines.len() as i32;
        let is_local = i32::from(self.lines.iter().all(|line| line.supply_warehouse == *warehouse));
        let values: [&(dyn ashlar_postgres::ToSql + Sync); 6] =
            [warehouse, district, &order, customer, &lines, &is_local];
        desk.execute(&statements.insert_order, &values)?;
        desk.execute(&statements.insert_new_order, &values[..3])?;
        Ok(order)
    }

    /// The prices in hundredths of the items that exist: all, but for the one of an order to be rolled back.
    fn prices(&self, desk: &mut Desk, statements: &Statements) -> Result<Vec<(i32, i32)>> {
        let asked: Vec<i32> = self.lines.iter().map(|line| line.item).collect();
        let rows = desk.query(&statements.items, &[&asked])?;
        let expected = asked.len() - usize::from(self.is_rolled_back);
        expect("items found", rows.len() as u64, expected)?;
        rows.iter().map(|row| Ok((integer(row, 0)?, integer(row, 1)?))).collect()
    }

    fn take_from_stock(
        &self,
        prices: &[(i32, i32)],
        desk: &mut Desk,
        statements: &Statements,
    ) -> Result<Lines> {
        let mut lines = Lines::default();
        for line in &self.lines {
            let Some((_, price)) = prices.iter().find(|(item, _)| *item == line.item) else { continue };
            lines.warehouses.push(line.supply_warehouse);
            lines.items.push(line.item);
            lines.quantities.push(line.quantity);
            lines.remote.push(i32::from(line.supply_warehouse != self.warehouse));
            lines.cents.push(price * line.quantity);
        }
        let rows = desk.query(&statements.stock, &[&lines.warehouses, &lines.items, &self.district])?;
        expect("rows of stock found", rows.len() as u64, lines.items.len())?;
        for (row, (item, quantity)) in rows.iter().zip(lines.items.iter().zip(&lines.quantities)) {
            if integer(row, 1)? != *item {
                return Err(Error::content(format!("stock of item {} for item {item}", integer(row, 1)?)));
            }
            let left = integer(row, 2)? - quantity;
            lines.left_over.push(if left >= 10 { left } else { left + 91 });
            lines.info.push(text(row, 4)?.to_string());
        }
        let Lines { warehouses, items, quantities, left_over, remote, .. } = &lines;
        let values: [&(dyn ashlar_postgres::ToSql + Sync); 5] =
            [warehouses, items, quantities, left_over, remote];
        let updated = desk.execute(&statements.update_stock, &values)?;
        expect("rows of stock changed", updated, items.len())?;
        Ok(lines)
    }
}

/// The drawn item, or the next one that is not among the lines: an order names an item once.
fn other_than(drawn: i32, lines: &[LineInput], items: i32) -> i32 {
    let mut item = drawn;
    while lines.iter().any(|line| line.item == item) {
        item = item % items + 1;
    }
    item
}

fn expect(what: &str, found: u64, expected: usize) -> Result<()> {
    if found == expected as u64 {
        return Ok(());
    }
    Err(Error::content(format!("{what}: {found}, not {expected}")))
}
