//! The rows that a warehouse begins with, as pieces for COPY: the same for the same seed.

use crate::fields::{Line, Pieces, rows_of};
use crate::random::Random;

use super::names::last_name;
use super::origin::{DISTRICTS, NAMES_MAX, Origin, Preferences, Size};

/// When all rows were made, whenever they are: the same seed loads the same bytes.
const LOADED_AT: &str = "2020-01-01 00:00:00";

/// Tables, as far as they have random numbers of their own; with the warehouse this names a stream.
#[derive(Clone, Copy)]
enum Table {
    Item = 1,
    Warehouse,
    Stock,
    Customer,
    History,
    Order,
    OrderLine,
    /// What orders and their lines have to agree on.
    OrderFacts,
}

fn stream(origin: &Origin, table: Table, warehouse: i32, district: i32) -> Random {
    let number = (table as u64) << 48 | (warehouse as u64) << 8 | district as u64;
    Random::new(origin.seed as u64, number)
}

/// Every number of every district.
fn places(count: i32) -> impl Iterator<Item = (i32, i32)> {
    (1..=DISTRICTS).flat_map(move |district| (1..=count).map(move |number| (district, number)))
}

pub(super) fn items(origin: &Origin) -> Pieces {
    let mut random = stream(origin, Table::Item, 0, 0);
    rows_of(1..=origin.size.items, move |item, piece| {
        let mut line = Line::begin(piece);
        line.integer(item).integer(random.between(1, 10_000));
        random.letters(14, 24, line.field());
        line.cents(random.between(100, 10_000).into());
        data(&mut random, line.field());
        line.end();
    })
}

/// 26 to 50 letters, with `ORIGINAL` somewhere in one of ten.
fn data(random: &mut Random, text: &mut Vec<u8>) {
    const MARK: &[u8] = b"ORIGINAL";
    let start = text.len();
    random.letters(26, 50, text);
    if random.is_percent(10.0) {
        let room = text.len() - start - MARK.len();
        let at = start + random.between(0, room as i32) as usize;
        text[at..at + MARK.len()].copy_from_slice(MARK);
    }
}

fn address(random: &mut Random, line: &mut Line) {
    for _ in 0..3 {
        random.letters(10, 20, line.field());
    }
    random.letters(2, 2, line.field());
    let zip = line.field();
    random.digits(4, zip);
    zip.extend_from_slice(b"11111");
}

/// Ten of payment from each customer.
const PAID_CENTS: i64 = 1000;

pub(super) fn warehouses(origin: &Origin) -> Pieces {
    let origin = *origin;
    rows_of(1..=origin.warehouses, move |warehouse, piece| {
        let mut random = stream(&origin, Table::Warehouse, warehouse, 0);
        let mut line = Line::begin(piece);
        line.integer(warehouse);
        random.letters(6, 10, line.field());
        address(&mut random, &mut line);
        line.rate(random.between(0, 2000));
        line.cents(PAID_CENTS * i64::from(origin.size.customers_per_district * DISTRICTS)).end();
    })
}

pub(super) fn districts(origin: &Origin) -> Pieces {
    let origin = *origin;
    let all = (1..=origin.warehouses).flat_map(|warehouse| (1..=DISTRICTS).map(move |d| (warehouse, d)));
    rows_of(all, move |(warehouse, district), piece| {
        let mut random = stream(&origin, Table::Warehouse, warehouse, district);
        let mut line = Line::begin(piece);
        line.integer(district).integer(warehouse);
        random.letters(6, 10, line.field());
        address(&mut random, &mut line);
        line.rate(random.between(0, 2000));
        line.cents(PAID_CENTS * i64::from(origin.size.customers_per_district));
        line.integer(origin.size.orders_per_district + 1).end();
    })
}

pub(super) fn stock(origin: &Origin, warehouse: i32) -> Pieces {
    let mut random = stream(origin, Table::Stock, warehouse, 0);
    rows_of(1..=origin.size.items, move |item, piece| {
        let mut line = Line::begin(piece);
        line.integer(item).integer(warehouse).integer(random.between(10, 100));
        for _ in 0..DISTRICTS {
            random.letters(24, 24, line.field());
        }
        line.integer(0).integer(0).integer(0);
        data(&mut random, line.field());
        line.end();
    })
}

pub(super) fn customers(origin: &Origin, warehouse: i32) -> Pieces {
    let mut random = stream(origin, Table::Customer, warehouse, 0);
    let name = Preferences::of_load(origin).name;
    rows_of(places(origin.size.customers_per_district), move |(district, customer), piece| {
        let mut line = Line::begin(piece);
        line.integer(customer).integer(district).integer(warehouse);
        random.letters(8, 16, line.field());
        let number = if customer <= NAMES_MAX { customer - 1 } else { name.draw(&mut random) };
        line.text("OE").text(last_name(number));
        address(&mut random, &mut line);
        random.digits(16, line.field());
        line.text(LOADED_AT).text(if random.is_percent(10.0) { "BC" } else { "GC" });
        line.cents(5_000_000).rate(random.between(0, 5000)).cents(-PAID_CENTS).cents(PAID_CENTS);
        line.integer(1).integer(0);
        random.letters(300, 500, line.field());
        line.end();
    })
}

pub(super) fn history(origin: &Origin, warehouse: i32) -> Pieces {
    let mut random = stream(origin, Table::History, warehouse, 0);
    rows_of(places(origin.size.customers_per_district), move |(district, customer), piece| {
        let mut line = Line::begin(piece);
        line.integer(customer).integer(district).integer(warehouse).integer(district).integer(warehouse);
        line.text(LOADED_AT).cents(PAID_CENTS);
        random.letters(12, 24, line.field());
        line.end();
    })
}

/// What the orders of a district and their lines have to agree on.
struct Facts {
    district: i32,
    /// By order: whose it is.
    customers: Vec<i32>,
    /// By order: how many lines it has.
    lines: Vec<i32>,
}

impl Facts {
    fn of(origin: &Origin, warehouse: i32, district: i32) -> Facts {
        let Size { customers_per_district, orders_per_district, .. } = origin.size;
        let mut random = stream(origin, Table::OrderFacts, warehouse, district);
        let mut customers: Vec<i32> = (1..=customers_per_district).collect();
        random.shuffle(&mut customers);
        let customers = customers.iter().copied().cycle().take(orders_per_district as usize).collect();
        let lines = (0..orders_per_district).map(|_| random.between(5, 15)).collect();
        Facts { district, customers, lines }
    }
}

/// Finds the facts of an order; those of its district are made when the first one is asked for.
fn facts(origin: &Origin, warehouse: i32) -> impl FnMut(i32, i32) -> (i32, i32) + Send + 'static {
    let origin = *origin;
    let mut known: Option<Facts> = None;
    move |district, order| {
        if known.as_ref().is_none_or(|facts| facts.district != district) {
            known = None;
        }
        let facts = known.get_or_insert_with(|| Facts::of(&origin, warehouse, district));
        let index = order as usize - 1;
        (facts.customers[index], facts.lines[index])
    }
}

pub(super) fn orders(origin: &Origin, warehouse: i32) -> Pieces {
    let mut random = stream(origin, Table::Order, warehouse, 0);
    let mut facts = facts(origin, warehouse);
    let delivered = origin.size.delivered();
    rows_of(places(origin.size.orders_per_district), move |(district, order), piece| {
        let (customer, lines) = facts(district, order);
        let mut line = Line::begin(piece);
        line.integer(order).integer(district).integer(warehouse).integer(customer).text(LOADED_AT);
        if order <= delivered {
            line.integer(random.between(1, 10))
        } else {
            line.null()
        };
        line.integer(lines).integer(1).end();
    })
}

pub(super) fn new_orders(origin: &Origin, warehouse: i32) -> Pieces {
    let delivered = origin.size.delivered();
    let open = places(origin.size.orders_per_district).filter(move |(_, order)| *order > delivered);
    rows_of(open, move |(district, order), piece| {
        Line::begin(piece).integer(order).integer(district).integer(warehouse).end();
    })
}

pub(super) fn order_lines(origin: &Origin, warehouse: i32) -> Pieces {
    let mut random = stream(origin, Table::OrderLine, warehouse, 0);
    let mut facts = facts(origin, warehouse);
    let (items, delivered) = (origin.size.items, origin.size.delivered());
    rows_of(places(origin.size.orders_per_district), move |(district, order), piece| {
        let (_, lines) = facts(district, order);
        for number in 1..=lines {
            let mut line = Line::begin(piece);
            line.integer(order).integer(district).integer(warehouse).integer(number);
            line.integer(random.between(1, items)).integer(warehouse);
            if order <= delivered {
                line.text(LOADED_AT)
            } else {
                line.null()
            };
            let cents = if order <= delivered { 0 } else { random.between(1, 999_999) };
            line.integer(5).cents(cents.into());
            random.letters(24, 24, line.field());
            line.end();
        }
    })
}
