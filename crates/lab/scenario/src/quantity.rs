//! Quantities as people write them: sizes, times, counts, shares and rates, each with its unit.
//!
//! `25GB` is decimal, `16GiB` binary, and `8k` is 8 KiB, as fio and DiskSpd say it. `m` is minutes; a
//! megabyte has no short form. A percentage is a number: `70%` is 0.7.

use std::fmt;
use std::time::Duration;

use ashlar_units::ByteCount;
use serde::de::{Deserialize, Deserializer, Error as _};

use crate::error::{Error, Result};

/// A number with what it counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantity {
    pub value: f64,
    pub unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Number,
    Bytes,
    Seconds,
    PerSecond,
}

/// Operations a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate(pub f64);

const UNITS: [(&str, f64, Unit); 18] = [
    ("", 1.0, Unit::Number),
    ("%", 0.01, Unit::Number),
    ("B", 1.0, Unit::Bytes),
    ("k", 1024.0, Unit::Bytes),
    ("kB", 1e3, Unit::Bytes),
    ("KB", 1e3, Unit::Bytes),
    ("MB", 1e6, Unit::Bytes),
    ("GB", 1e9, Unit::Bytes),
    ("TB", 1e12, Unit::Bytes),
    ("KiB", 1024.0, Unit::Bytes),
    ("MiB", 1_048_576.0, Unit::Bytes),
    ("GiB", 1_073_741_824.0, Unit::Bytes),
    ("TiB", 1_099_511_627_776.0, Unit::Bytes),
    ("ms", 0.001, Unit::Seconds),
    ("s", 1.0, Unit::Seconds),
    ("m", 60.0, Unit::Seconds),
    ("h", 3600.0, Unit::Seconds),
    ("/s", 1.0, Unit::PerSecond),
];

/// Beyond it a float no longer names every whole number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Arbitrary: more threads, files or outstanding operations than any machine has.
const COUNT_MAX: f64 = 1e6;

impl Quantity {
    #[must_use]
    pub fn number(value: f64) -> Quantity {
        Quantity { value, unit: Unit::Number }
    }

    pub(crate) fn of_size(size: ByteCount) -> Quantity {
        Quantity { value: size.0 as f64, unit: Unit::Bytes }
    }

    pub fn parse(text: &str) -> Result<Quantity> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit_name) = trimmed.split_at(digits);
        let Ok(number) = number.parse::<f64>() else {
            return Err(Error::file(format!("`{text}` does not begin with a number")));
        };
        let unit_name = unit_name.trim();
        let Some((_, factor, unit)) = UNITS.iter().find(|(name, ..)| *name == unit_name) else {
            let known: Vec<&str> = UNITS[1..].iter().map(|(name, ..)| *name).collect();
            let known = known.join(" ");
            return Err(Error::file(format!(
                "`{text}` has the unknown unit `{unit_name}`; known are {known}"
            )));
        };
        // Divided, because 70 x 0.01 is not the float that 0.7 is.
        let value = if *factor < 1.0 { number / (1.0 / factor) } else { number * factor };
        Ok(Quantity { value, unit: *unit })
    }

    pub(crate) fn from_value(value: &toml::Value) -> Result<Quantity> {
        match value {
            toml::Value::String(text) => Quantity::parse(text),
            toml::Value::Integer(whole) => Ok(Quantity::number(*whole as f64)),
            toml::Value::Float(float) => Ok(Quantity::number(*float)),
            other => Err(Error::file(format!("expected a quantity, found {}", other.type_str()))),
        }
    }

    /// As the type that is wanted, or an error that says what that is.
    pub(crate) fn to<T: Measure>(self) -> Result<T> {
        T::of(self).ok_or_else(|| Error::file(format!("{self} is not {}", T::WANTED)))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Number => " without a unit",
            Unit::Bytes => " B",
            Unit::Seconds => " s",
            Unit::PerSecond => "/s",
        };
        write!(f, "{}{unit}", self.value)
    }
}

/// A type that a quantity of the right unit and range can be.
pub trait Measure: Sized {
    /// What the error says was wanted.
    const WANTED: &'static str;

    fn of(quantity: Quantity) -> Option<Self>;

    /// From a formula's result, which need not be whole.
    fn of_result(quantity: Quantity) -> Option<Self> {
        Self::of(quantity)
    }
}

impl Measure for ByteCount {
    const WANTED: &'static str = "a size above nothing, as in 25GB, 16GiB or 8k";

    fn of(quantity: Quantity) -> Option<ByteCount> {
        let bytes = quantity.value.round();
        let is_size = quantity.unit == Unit::Bytes && (1.0..EXACT_MAX).contains(&bytes);
        is_size.then_some(ByteCount(bytes as u64))
    }
}

impl Measure for Duration {
    const WANTED: &'static str = "a time, as in 500ms, 30s, 2m or 1h";

    fn of(quantity: Quantity) -> Option<Duration> {
        if quantity.unit != Unit::Seconds {
            return None;
        }
        Duration::try_from_secs_f64(quantity.value).ok()
    }
}

/// How many files, threads, volumes or repetitions there are; never none.
impl Measure for u64 {
    const WANTED: &'static str = "a whole number from 1 to a million";

    fn of(quantity: Quantity) -> Option<u64> {
        let is_whole = quantity.unit == Unit::Number && quantity.value.fract() == 0.0;
        (is_whole && (1.0..=COUNT_MAX).contains(&quantity.value)).then_some(quantity.value as u64)
    }

    /// A quarter of a thread is one thread.
    fn of_result(quantity: Quantity) -> Option<u64> {
        Self::of(Quantity { value: quantity.value.round().max(1.0), ..quantity })
    }
}

/// A share or a ratio.
impl Measure for f64 {
    const WANTED: &'static str = "a number of at least 0, as in 0.7 or 70%";

    fn of(quantity: Quantity) -> Option<f64> {
        let is_share = quantity.unit == Unit::Number && quantity.value >= 0.0 && quantity.value.is_finite();
        is_share.then_some(quantity.value)
    }
}

impl Measure for Rate {
    const WANTED: &'static str = "a rate, as in 1000/s";

    fn of(quantity: Quantity) -> Option<Rate> {
        let is_rate =
            quantity.unit == Unit::PerSecond && (f64::MIN_POSITIVE..EXACT_MAX).contains(&quantity.value);
        is_rate.then_some(Rate(quantity.value))
    }
}

/// For serde: a quantity that is the same at every scale.
pub(crate) fn literal<'de, D: Deserializer<'de>, T: Measure>(form: D) -> std::result::Result<T, D::Error> {
    let value = toml::Value::deserialize(form)?;
    Quantity::from_value(&value).and_then(Quantity::to).map_err(D::Error::custom)
}

/// For serde: the same for a key that may be missing.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Measure>(
    form: D,
) -> std::result::Result<Option<T>, D::Error> {
    literal(form).map(Some)
}

/// A time as `1 h 5 m`, in whole seconds, or in milliseconds below one.
pub(crate) fn time_text(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{} ms", time.as_secs_f64() * 1000.0);
    }
    let seconds = time.as_secs_f64().round() as u64;
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
    parts.collect::<Vec<_>>().join(" ")
}

const DECIMAL_UNITS: [(&str, u64); 3] = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000)];

/// A size as files have it: decimal where that is a round number, else binary.
pub(crate) fn size_text(size: ByteCount) -> String {
    let is_round = |unit: u64| size.0 >= unit && size.0.is_multiple_of(unit / 10);
    match DECIMAL_UNITS.iter().find(|(_, unit)| is_round(*unit)) {
        Some((name, unit)) => format!("{} {name}", size.0 as f64 / *unit as f64),
        None => size.to_string(),
    }
}

/// An estimated size, to the tenth of a decimal unit.
pub(crate) fn size_about(size: ByteCount) -> String {
    let (name, unit) = DECIMAL_UNITS.iter().find(|(_, unit)| size.0 >= *unit).unwrap_or(&("MB", 1_000_000));
    format!("{} {name}", (size.0 as f64 / *unit as f64 * 10.0).round() / 10.0)
}

/// A share as a percentage, to the tenth.
pub(crate) fn percent_text(share: f64) -> String {
    format!("{}%", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (f64, Unit) {
        let quantity = Quantity::parse(text).unwrap();
        (quantity.value, quantity.unit)
    }

    #[test]
    fn quantities_read_as_people_write_them() {
        assert_eq!(parsed("25GB"), (25e9, Unit::Bytes));
        assert_eq!(parsed("16 GiB"), ((16_u64 << 30) as f64, Unit::Bytes));
        assert_eq!(parsed("8k"), (8192.0, Unit::Bytes));
        assert_eq!(parsed("0.5ms"), (0.0005, Unit::Seconds));
        assert_eq!(parsed("2m"), (120.0, Unit::Seconds));
        assert_eq!(parsed("1h"), (3600.0, Unit::Seconds));
        assert_eq!(parsed("70%"), (0.7, Unit::Number));
        assert_eq!(parsed("1000/s"), (1000.0, Unit::PerSecond));
    }

    #[test]
    fn a_wrong_quantity_says_what_is_wrong() {
        let message = |text| Quantity::parse(text).unwrap_err().to_string();
        assert_eq!(message("GB"), "`GB` does not begin with a number");
        assert_eq!(message("-3s"), "`-3s` does not begin with a number");
        assert!(message("16g").starts_with("`16g` has the unknown unit `g`; known are % B k"));
    }

    #[test]
    fn a_size_without_a_unit_is_refused() {
        let refusal = Quantity::number(25.0).to::<ByteCount>().unwrap_err();
        let said = "25 without a unit is not a size above nothing, as in 25GB, 16GiB or 8k";
        assert_eq!(refusal.to_string(), said);
        assert!(Quantity::parse("25").unwrap().to::<ByteCount>().is_err());
        assert!(Quantity::parse("30s").unwrap().to::<ByteCount>().is_err());
    }

    #[test]
    fn a_count_is_whole_and_above_0() {
        assert_eq!(Quantity::number(4.0).to::<u64>(), Ok(4));
        assert!(Quantity::number(1.5).to::<u64>().is_err());
        assert!(Quantity::number(0.0).to::<u64>().is_err());
        assert!(Quantity::number(1e7).to::<u64>().is_err());
        assert_eq!(u64::of_result(Quantity::number(0.25)), Some(1));
    }

    #[test]
    fn times_and_sizes_print_short() {
        assert_eq!(time_text(Duration::from_secs(3905)), "1 h 5 m 5 s");
        assert_eq!(time_text(Duration::from_secs(900)), "15 m");
        assert_eq!(time_text(Duration::from_micros(500)), "0.5 ms");
        assert_eq!(size_text(ByteCount(13_500_000_000_000)), "13.5 TB");
        assert_eq!(size_text(ByteCount(8192)), "8 KiB");
        assert_eq!(size_about(ByteCount(37_184_000_000)), "37.2 GB");
        assert_eq!(percent_text(0.949_15), "94.9%");
    }
}
