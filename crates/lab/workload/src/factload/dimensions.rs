//! The tables that a row's codes are looked up in: what they hold, and the lookup that a client keeps.
//!
//! ```text
//!  day       2,557   20160930    ▸ month, quarter, year
//!  product   5,000   P0001234    ▸ category, cost, weight
//!  customer 20,000   C00012345   ▸ region, segment, discount ─▶ region 25 ▸ tax
//!  currency     12   EUR         ▸ rate
//! ```
//! The load makes them from the seed; a client that transforms rows itself reads them back from the server.

use std::collections::HashMap;

use ashlar_postgres::Session;

use crate::error::{Error, Result};
use crate::fields::Line;
use crate::random::{Random, mixed};

/// From 2010 to 2016.
pub(super) const DAYS: i32 = 2557;
/// Arbitrary, as the next one: small enough to stay in memory, large enough that a lookup is work.
pub(super) const PRODUCTS: i32 = 5000;
pub(super) const CUSTOMERS: i32 = 20_000;
const REGIONS: i32 = 25;
pub(super) const CURRENCIES: [&str; 12] =
    ["EUR", "USD", "GBP", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "CAD", "AUD"];

/// What a code stands for.
type Entries<const N: usize> = HashMap<Vec<u8>, [i32; N]>;

/// All of them, by their codes.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Dimensions {
    /// Number, month, quarter, year.
    pub(super) days: Entries<4>,
    /// Number, category, cost in cents, weight in grams.
    pub(super) products: Entries<4>,
    /// Number, region, segment, discount in thousandths, tax of the region in thousandths.
    pub(super) customers: Entries<5>,
    /// Number, and how many millionths of the facts' currency one is.
    pub(super) currencies: Entries<2>,
}

impl Dimensions {
    /// As a seed has them.
    pub(super) fn of_seed(seed: u64) -> Dimensions {
        let code = |code: String| code.into_bytes();
        Dimensions {
            days: (0..DAYS).map(|at| (code(date_code(at)), day(at))).collect(),
            products: (0..PRODUCTS).map(|at| (code(product_code(at)), product(seed, at))).collect(),
            customers: (0..CUSTOMERS).map(|at| (code(customer_code(at)), customer(seed, at))).collect(),
            currencies: CURRENCIES
                .iter()
                .zip(0..)
                .map(|(code, at)| (code.as_bytes().to_vec(), currency(at)))
                .collect(),
        }
    }

    /// As the database of this session has them.
    pub(super) fn read(session: &mut Session) -> Result<Dimensions> {
        let customers = "SELECT code, customer, region, segment, discount_permille, tax_permille
            FROM lab_facts.customer JOIN lab_facts.region USING (region)";
        Ok(Dimensions {
            days: entries(
                session,
                "SELECT to_char(date, 'YYYYMMDD'), day, month, quarter, year FROM lab_facts.day",
            )?,
            products: entries(
                session,
                "SELECT code, product, category, cost_cents, weight_grams FROM lab_facts.product",
            )?,
            customers: entries(session, customers)?,
            currencies: entries(session, "SELECT code, currency, rate_micros FROM lab_facts.currency")?,
        })
    }
}

fn entries<const N: usize>(session: &mut Session, query: &str) -> Result<Entries<N>> {
    let entry = |row: Vec<Option<String>>| {
        let mut fields = row.into_iter().flatten();
        let code = fields.next()?.into_bytes();
        let numbers: Option<Vec<i32>> = fields.map(|field| field.parse().ok()).collect();
        Some((code, numbers?.try_into().ok()?))
    };
    let entries: Option<Entries<N>> = session.run(query)?.into_iter().map(entry).collect();
    entries.ok_or_else(|| Error::content(format!("not what was loaded: {query}")))
}

/// `YYYYMMDD` of a day, from 0.
pub(super) fn date_code(at: i32) -> String {
    let (year, month, of_month) = date(at);
    format!("{year:04}{month:02}{of_month:02}")
}

pub(super) fn product_code(at: i32) -> String {
    format!("P{at:07}")
}

pub(super) fn customer_code(at: i32) -> String {
    format!("C{at:08}")
}

/// Year, month and day of the month.
fn date(at: i32) -> (i32, i32, i32) {
    let (mut year, mut left) = (2010, at);
    // True from 1901 to 2099.
    let february = |year| if year % 4 == 0 { 29 } else { 28 };
    while left >= 337 + february(year) {
        left -= 337 + february(year);
        year += 1;
    }
    let mut month = 1;
    for days in [31, february(year), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    (year, month, left + 1)
}

fn day(at: i32) -> [i32; 4] {
    let (year, month, _) = date(at);
    [at + 1, month, (month - 1) / 3 + 1, year]
}

fn product(seed: u64, at: i32) -> [i32; 4] {
    let mut random = Random::new(mixed(seed), at as u64);
    [at + 1, random.between(1, 40), random.between(50, 50_000), random.between(5, 40_000)]
}

fn customer(seed: u64, at: i32) -> [i32; 5] {
    let mut random = Random::new(mixed(seed ^ 1), at as u64);
    let region = random.between(1, REGIONS);
    [at + 1, region, random.between(1, 8), random.between(0, 250), tax_permille(region)]
}

fn tax_permille(region: i32) -> i32 {
    50 + region * 8
}

fn currency(at: i32) -> [i32; 2] {
    // Arbitrary: all different, none a round number.
    [at + 1, 1_000_000 / (at + 1) + 7919]
}

/// The rows of all five tables, each with the statement that takes them.
pub(super) fn tables(seed: u64) -> [(&'static str, Vec<u8>); 5] {
    let mut texts: [Vec<u8>; 5] = Default::default();
    let [days, products, customers, regions, currencies] = &mut texts;
    for at in 0..DAYS {
        row(days, &date_code(at), &day(at));
    }
    for at in 0..PRODUCTS {
        row(products, &product_code(at), &product(seed, at));
    }
    for at in 0..CUSTOMERS {
        row(customers, &customer_code(at), &customer(seed, at)[..4]);
    }
    for region in 1..=REGIONS {
        row(regions, &region.to_string(), &[tax_permille(region)]);
    }
    for (code, at) in CURRENCIES.iter().zip(0..) {
        row(currencies, code, &currency(at));
    }
    let [days, products, customers, regions, currencies] = texts;
    [
        ("COPY lab_facts.day FROM STDIN", days),
        ("COPY lab_facts.product FROM STDIN", products),
        ("COPY lab_facts.customer FROM STDIN", customers),
        ("COPY lab_facts.region FROM STDIN", regions),
        ("COPY lab_facts.currency FROM STDIN", currencies),
    ]
}

fn row(text: &mut Vec<u8>, code: &str, numbers: &[i32]) {
    let mut line = Line::begin(text);
    line.text(code);
    for number in numbers {
        line.integer(*number);
    }
    line.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let codes = [0, 58, 59, 364, 365, 365 + 365 + 59, DAYS - 1].map(date_code);
        let right = ["20100101", "20100228", "20100301", "20101231", "20110101", "20120229", "20161231"];
        assert_eq!(codes, right);
        assert_eq!(day(365 + 120), [486, 5, 2, 2011]);
    }

    #[test]
    fn every_code_stands_for_something() {
        let dimensions = Dimensions::of_seed(3);
        assert_eq!(dimensions.days.len() as i32, DAYS);
        assert_eq!(dimensions.products.len() as i32, PRODUCTS);
        assert_eq!(dimensions.customers.len() as i32, CUSTOMERS);
        assert_eq!(dimensions.currencies.len(), CURRENCIES.len());
        assert_ne!(dimensions, Dimensions::of_seed(4));
    }
}
