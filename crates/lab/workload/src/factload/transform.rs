//! What becomes of a row: codes looked up, texts made numbers, measures derived. It is here twice: for rows
//! of files in Rust, for rows of tables as one statement.
//!
//! ```text
//!  gross = price × quantity × rate    discount = gross × customer's    net    = gross − discount
//!  tax   = net × region's             cost = quantity × product's      margin = net − cost
//!  seal  = all columns, each rotated by another number of bits, exclusive or
//! ```
//! All are whole numbers and divisions cut off, or the two would round in different ways. What a batch must
//! sum up to is worked out by the first while the sources are made: each batch of a table tests the other.

use crate::error::{Error, Result};

use super::dimensions::Dimensions;
use super::origin::{Batch, ROW_BITS};
use super::source::SourceRow;

/// What a seal covers, in the order of the columns: all but itself and what a batch is known by beside its
/// source.
const SEALED: [&str; 22] = [
    "checksum", "id", "gross", "discount", "net", "tax", "cost", "margin", "weight", "day", "product",
    "customer", "quantity", "unit", "source", "region", "category", "segment", "currency", "month",
    "quarter", "year",
];

/// So many of them have 64 bits, so many of the others 32; the rest has 16.
const WIDE: usize = 9;
const MIDDLE: usize = 5;

/// What batches are compared by: sums, or exclusive or, over their rows.
pub(super) const SUMS: [(&str, &str); 11] = [
    ("rows", "count(*)"),
    ("checksums", "bit_xor(checksum)"),
    ("seals", "bit_xor(seal)"),
    ("gross", "sum(gross)"),
    ("discount", "sum(discount)"),
    ("net", "sum(net)"),
    ("tax", "sum(tax)"),
    ("cost", "sum(cost)"),
    ("margin", "sum(margin)"),
    ("weight", "sum(weight)"),
    ("quantity", "sum(quantity)"),
];

/// The values of a row of the fact table that its source decides, in the order of [`SEALED`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fact([i64; SEALED.len()]);

impl Fact {
    /// # Errors
    /// When a code stands for nothing, or a number is none.
    pub(super) fn of(row: &SourceRow, dimensions: &Dimensions) -> Result<Fact> {
        let fact = Fact::made(row, dimensions);
        fact.ok_or_else(|| {
            let codes = [row.sold, row.product, row.customer, row.currency, row.quantity, row.price];
            let codes = codes.map(String::from_utf8_lossy).join(" ");
            Error::content(format!("row {:x} cannot be transformed: {codes}", row.id))
        })
    }

    fn made(row: &SourceRow, dimensions: &Dimensions) -> Option<Fact> {
        let [day, month, quarter, year] = dimensions.days.get(row.sold)?.map(i64::from);
        let [product, category, cost_cents, weight_grams] =
            dimensions.products.get(row.product)?.map(i64::from);
        let [customer, region, segment, discount_permille, tax_permille] =
            dimensions.customers.get(row.customer)?.map(i64::from);
        let [currency, rate_micros] = dimensions.currencies.get(row.currency)?.map(i64::from);
        let (quantity, unit) = (whole(row.quantity)?, whole(row.price)?);
        let gross = unit * quantity * rate_micros / 1_000_000;
        let discount = gross * discount_permille / 1000;
        let net = gross - discount;
        let tax = net * tax_permille / 1000;
        let cost = quantity * cost_cents;
        let (margin, weight) = (net - cost, quantity * weight_grams);
        let source = row.id >> ROW_BITS;
        Some(Fact([
            row.checksum,
            row.id,
            gross,
            discount,
            net,
            tax,
            cost,
            margin,
            weight,
            day,
            product,
            customer,
            quantity,
            unit,
            source,
            region,
            category,
            segment,
            currency,
            month,
            quarter,
            year,
        ]))
    }

    fn seal(&self) -> i64 {
        let turned = |(place, value): (usize, &i64)| (value << turn(place)) ^ (value >> (64 - turn(place)));
        self.0.iter().enumerate().map(turned).fold(0, |seal, value| seal ^ value)
    }

    /// Adds a row to what its batch sums up to.
    pub(super) fn add_to(&self, sums: &mut [i64; SUMS.len()]) {
        let [checksum, _, gross, discount, net, tax, cost, margin, weight, _, _, _, quantity, ..] = self.0;
        sums[1] ^= checksum;
        sums[2] ^= self.seal();
        let added = [1, 0, 0, gross, discount, net, tax, cost, margin, weight, quantity];
        sums.iter_mut().zip(added).for_each(|(sum, more)| *sum += more);
    }

    /// Appends it as COPY's binary form has it: run, round and batch, the seal, the values.
    pub(super) fn write(&self, run: i32, batch: Batch, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&COLUMNS.to_be_bytes());
        let mut field = |value: &[u8]| {
            bytes.extend_from_slice(&(value.len() as i32).to_be_bytes());
            bytes.extend_from_slice(value);
        };
        let (wide, rest) = self.0.split_at(WIDE);
        let (middle, small) = rest.split_at(MIDDLE);
        field(&self.seal().to_be_bytes());
        wide.iter().for_each(|value| field(&value.to_be_bytes()));
        middle.iter().for_each(|value| field(&(*value as i32).to_be_bytes()));
        [run, batch.round, batch.number].iter().for_each(|value| field(&value.to_be_bytes()));
        small.iter().for_each(|value| field(&(*value as i16).to_be_bytes()));
    }
}

/// Beside the sealed ones: seal, run, round, batch.
const COLUMNS: i16 = SEALED.len() as i16 + 4;

/// By how many bits the value at a place is rotated: never by none or all.
const fn turn(place: usize) -> usize {
    1 + 2 * place
}

/// A number of digits, with or without a point, which is left out.
fn whole(text: &[u8]) -> Option<i64> {
    let digits = text.iter().filter(|byte| **byte != b'.');
    digits
        .copied()
        .try_fold(0_i64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

/// The seal of a row in SQL. `>>` of a negative number brings in ones there as here.
pub(super) fn seal_expression() -> String {
    let turned = |(place, name): (usize, &&str)| {
        let (left, right) = (turn(place), 64 - turn(place));
        format!("({name}::bigint << {left} # ({name}::bigint >> {right}))")
    };
    SEALED.iter().enumerate().map(turned).collect::<Vec<_>>().join(" # ")
}

/// Transforms the rows of a table whose keys are behind $1 and up to $2, for run $3, round $4, batch $5.
///
/// `OFFSET 0` keeps the planner from putting an expression wherever its value is used.
pub(super) fn insert_statement(source: i16) -> String {
    let seal = seal_expression();
    let (wide, rest) = SEALED.split_at(WIDE);
    let (middle, small) = rest.split_at(MIDDLE);
    let [wide, middle, small] = [wide, middle, small].map(|names| names.join(", "));
    format!(
        "INSERT INTO lab_facts.fact
         SELECT {seal}, {wide}, {middle}, $3::int, $4::int, $5::int, {small}
         FROM (SELECT *, net * tax_permille / 1000 AS tax, net - cost AS margin
         FROM (SELECT *, gross - discount AS net
         FROM (SELECT *, gross * discount_permille / 1000 AS discount
         FROM (SELECT s.id, s.checksum, s.unit, s.quantity, {source}::smallint AS source,
                   d.day, d.month, d.quarter, d.year, p.product, p.category, u.currency,
                   c.customer, c.region, c.segment, c.discount_permille, r.tax_permille,
                   s.unit::bigint * s.quantity * u.rate_micros / 1000000 AS gross,
                   s.quantity::bigint * p.cost_cents AS cost, s.quantity::bigint * p.weight_grams AS weight
             FROM (SELECT id, checksum, to_date(sold, 'YYYYMMDD') AS date, product, customer, currency,
                       quantity::int, replace(price, '.', '')::int AS unit
                   FROM lab_facts.source_{source} WHERE id > $1 AND id <= $2 OFFSET 0) AS s
             JOIN lab_facts.day AS d USING (date)
             JOIN lab_facts.product AS p ON p.code = s.product
             JOIN lab_facts.customer AS c ON c.code = s.customer
             JOIN lab_facts.region AS r USING (region)
             JOIN lab_facts.currency AS u ON u.code = s.currency
             OFFSET 0) AS looked_up) AS discounted) AS summed OFFSET 0) AS derived"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_part_in_the_seal() {
        let fact = Fact(std::array::from_fn(|at| 1000 - 77 * at as i64));
        for (at, name) in SEALED.iter().enumerate() {
            for bit in 0..64 {
                let mut other = fact;
                other.0[at] ^= 1 << bit;
                assert_ne!(other.seal(), fact.seal(), "{name} bit {bit}");
            }
        }
    }

    #[test]
    fn numbers_are_read_and_what_is_none_is_not() {
        assert_eq!([&b"0042"[..], b"01234.56"].map(whole), [Some(42), Some(123_456)]);
        assert_eq!([&b"00a2"[..], b"-001", b"1\xff"].map(whole), [None; 3]);
    }
}
