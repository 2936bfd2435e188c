//! Arrays as lists of parts: what they draw, take and cost, and what that is for each thing that they do.
//!
//! Nothing of it is run: a variant of this kind is worked out from its file alone. What the parts come to is
//! here; what an array does for it, such as transactions a second, is found by another experiment.

use ashlar_units::ByteCount;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::file::is_name;
use crate::quantity::{literal, optional};

/// What the target of a variant is called that has none; its id is what its values are.
pub(crate) const CALCULATED: &str = "calculated";

/// The keys of `kind = "bill"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parts {
    values: String,
    currency: String,
    #[serde(default)]
    rates_of: Vec<String>,
    #[serde(default = "one", deserialize_with = "literal")]
    reduction: f64,
    #[serde(default)]
    parts: Vec<Piece>,
}

fn one() -> f64 {
    1.0
}

/// An array with every value known.
#[derive(Clone, PartialEq, Debug)]
pub struct Bill {
    /// Where the values come from, in a word that stands beside each: `illustrative`, `quoted`.
    pub values: String,
    /// Of all prices.
    pub currency: String,
    /// Experiments whose results have entries of the same names, and tell what the arrays do.
    pub rates_of: Vec<String>,
    /// Bytes of hosts that lie in one byte of the array.
    pub reduction: f64,
    pub parts: Vec<Piece>,
}

/// Some of the same parts.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    pub name: String,
    #[serde(deserialize_with = "literal")]
    pub count: u64,
    /// Of rack space; of each, as all below.
    #[serde(default, deserialize_with = "literal")]
    pub units: f64,
    #[serde(deserialize_with = "literal")]
    pub watts_idle: f64,
    #[serde(deserialize_with = "literal")]
    pub watts_busy: f64,
    #[serde(deserialize_with = "literal")]
    pub price: f64,
    /// What is left of it for data behind RAID and spares.
    #[serde(default, deserialize_with = "optional")]
    pub usable: Option<ByteCount>,
}

/// What parts add up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    WattsBusy,
    WattsIdle,
    RackUnits,
    Price,
    UsableTerabytes,
}

/// What an amount is divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    Whole,
    /// A transaction a second.
    Transaction,
    /// A thousand requests a second.
    ThousandRequests,
    /// A usable terabyte, as it is.
    Terabyte,
    /// A usable terabyte, with what reduction makes of it.
    ReducedTerabyte,
}

/// Every amount and what it may be divided by: how files name it, and how people do.
const NAMES: [(&str, &str, Amount, Per); 21] = [
    ("watts_busy", "watts busy", Amount::WattsBusy, Per::Whole),
    ("watts_idle", "watts idle", Amount::WattsIdle, Per::Whole),
    ("rack_units", "rack units", Amount::RackUnits, Per::Whole),
    ("price", "price", Amount::Price, Per::Whole),
    ("usable_tb", "usable TB", Amount::UsableTerabytes, Per::Whole),
    ("watts_busy_per_tps", "watts busy per TPS", Amount::WattsBusy, Per::Transaction),
    ("watts_idle_per_tps", "watts idle per TPS", Amount::WattsIdle, Per::Transaction),
    ("rack_units_per_tps", "rack units per TPS", Amount::RackUnits, Per::Transaction),
    ("price_per_tps", "price per TPS", Amount::Price, Per::Transaction),
    ("watts_busy_per_1000_iops", "watts busy per 1,000 IOPS", Amount::WattsBusy, Per::ThousandRequests),
    ("watts_idle_per_1000_iops", "watts idle per 1,000 IOPS", Amount::WattsIdle, Per::ThousandRequests),
    ("rack_units_per_1000_iops", "rack units per 1,000 IOPS", Amount::RackUnits, Per::ThousandRequests),
    ("price_per_1000_iops", "price per 1,000 IOPS", Amount::Price, Per::ThousandRequests),
    ("watts_busy_per_tb", "watts busy per usable TB", Amount::WattsBusy, Per::Terabyte),
    ("watts_idle_per_tb", "watts idle per usable TB", Amount::WattsIdle, Per::Terabyte),
    ("rack_units_per_tb", "rack units per usable TB", Amount::RackUnits, Per::Terabyte),
    ("price_per_tb", "price per usable TB", Amount::Price, Per::Terabyte),
    (
        "watts_busy_per_reduced_tb",
        "watts busy per TB with reduction",
        Amount::WattsBusy,
        Per::ReducedTerabyte,
    ),
    (
        "watts_idle_per_reduced_tb",
        "watts idle per TB with reduction",
        Amount::WattsIdle,
        Per::ReducedTerabyte,
    ),
    (
        "rack_units_per_reduced_tb",
        "rack units per TB with reduction",
        Amount::RackUnits,
        Per::ReducedTerabyte,
    ),
    ("price_per_reduced_tb", "price per TB with reduction", Amount::Price, Per::ReducedTerabyte),
];

const TERABYTE: f64 = 1e12;

/// Of a metric's name; its place in [`NAMES`].
pub(crate) fn amount(name: &str) -> Option<(Amount, Per)> {
    NAMES.iter().find(|(known, ..)| *known == name).map(|(_, _, amount, per)| (*amount, *per))
}

impl Amount {
    pub const ALL: [Amount; 4] = [Amount::WattsBusy, Amount::WattsIdle, Amount::RackUnits, Amount::Price];

    /// For people; of usable space nothing is divided.
    #[must_use]
    pub fn in_words(self, per: Per) -> &'static str {
        let found = NAMES.iter().find(|(_, _, amount, of)| (*amount, *of) == (self, per));
        found.map_or("usable TB", |(_, words, ..)| words)
    }
}

impl Per {
    pub const ALL: [Per; 5] =
        [Per::Whole, Per::Transaction, Per::ThousandRequests, Per::Terabyte, Per::ReducedTerabyte];
}

impl Parts {
    pub(crate) fn at(&self) -> Result<Bill> {
        if !is_name(&self.values) {
            return Err(Error::file(format!(
                "values: `{}` is not a word of a-z, 0-9 and -, such as illustrative or quoted",
                self.values
            )));
        }
        if self.parts.is_empty() {
            return Err(Error::file("parts: an array has at least one"));
        }
        if self.reduction <= 0.0 {
            return Err(Error::file("reduction: it is above 0, and 1 where nothing is reduced"));
        }
        let Parts { values, currency, rates_of, reduction, parts } = self.clone();
        Ok(Bill { values, currency, rates_of, reduction, parts })
    }
}

impl Piece {
    /// Of one.
    #[must_use]
    pub fn each(&self, amount: Amount) -> f64 {
        match amount {
            Amount::WattsBusy => self.watts_busy,
            Amount::WattsIdle => self.watts_idle,
            Amount::RackUnits => self.units,
            Amount::Price => self.price,
            Amount::UsableTerabytes => self.usable.map_or(0.0, |bytes| bytes.0 as f64 / TERABYTE),
        }
    }

    /// Of all of them, as a reader may check it; nothing where they have none.
    #[must_use]
    pub fn term(&self, amount: Amount) -> Option<String> {
        let each = self.each(amount);
        (each > 0.0).then(|| format!("{} x {each}", self.count))
    }
}

impl Bill {
    /// Of all parts together.
    #[must_use]
    pub fn whole(&self, amount: Amount) -> f64 {
        self.parts.iter().map(|piece| piece.count as f64 * piece.each(amount)).sum()
    }

    /// For a sentence.
    #[must_use]
    pub fn in_words(&self) -> String {
        let piece = |piece: &Piece| format!("{} x {}", piece.count, piece.name);
        let parts: Vec<String> = self.parts.iter().map(piece).collect();
        format!("{} ({} values)", parts.join(", "), self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(name: &str, count: u64, units: f64, watts: f64, usable: Option<u64>) -> Piece {
        Piece {
            name: name.into(),
            count,
            units,
            watts_idle: watts / 2.0,
            watts_busy: watts,
            price: 10.0,
            usable: usable.map(ByteCount),
        }
    }

    #[test]
    fn parts_add_up() {
        let parts =
            vec![piece("shelf", 2, 2.0, 50.0, None), piece("drive", 24, 0.0, 6.0, Some(500_000_000_000))];
        let bill =
            Bill { values: "v".into(), currency: "USD".into(), rates_of: vec![], reduction: 1.0, parts };
        assert_eq!(bill.whole(Amount::RackUnits), 4.0);
        assert_eq!(bill.whole(Amount::WattsBusy), 244.0);
        assert_eq!(bill.whole(Amount::WattsIdle), 122.0);
        assert_eq!(bill.whole(Amount::Price), 260.0);
        assert_eq!(bill.whole(Amount::UsableTerabytes), 12.0);
    }

    #[test]
    fn every_amount_has_one_name() {
        for (name, words, of, per) in NAMES {
            assert_eq!(amount(name), Some((of, per)));
            assert_eq!(of.in_words(per), words);
        }
        for of in Amount::ALL {
            assert!(Per::ALL.iter().all(|per| NAMES.iter().any(|(_, _, one, by)| (*one, *by) == (of, *per))));
        }
    }
}
