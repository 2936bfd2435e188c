//! Presets, and values that differ between them.
//!
//! A value is one literal, a table of presets with perhaps a `default`, or an `invariant`. A preset that is
//! not in the table takes the next smaller one that is; below stands the default or the invariant.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};

use crate::error::{Error, ErrorKind, Result, unknown_key_text};
use crate::formula::{Formula, Names};
use crate::quantity::{Measure, Quantity};

/// How large a rerun is; the paper's own size is the largest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Preset {
    Xs,
    S,
    M,
    L,
    Paper,
}

impl Preset {
    pub const ALL: [Preset; 5] = [Preset::Xs, Preset::S, Preset::M, Preset::L, Preset::Paper];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Preset::Xs => "xs",
            Preset::S => "s",
            Preset::M => "m",
            Preset::L => "l",
            Preset::Paper => "paper",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Preset> {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| Error::request(format!("`{name}` is no preset: they are xs, s, m, l and paper")))
    }
}

/// A value that may differ between presets.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaled<T> {
    presets: BTreeMap<Preset, T>,
    otherwise: Otherwise<T>,
}

#[derive(Clone, PartialEq, Debug)]
enum Otherwise<T> {
    Nothing,
    Value(T),
    Invariant(Formula),
}

const KEYS: [&str; 7] = ["xs", "s", "m", "l", "paper", "default", "invariant"];

impl<T: Measure + Copy> Scaled<T> {
    /// The same at every preset.
    pub(crate) fn same(value: T) -> Scaled<T> {
        Scaled { presets: BTreeMap::new(), otherwise: Otherwise::Value(value) }
    }

    /// The value at this preset; `key` is what the error calls it.
    pub fn at(&self, key: &str, preset: Preset, names: &Names) -> Result<T> {
        if let Some((_, value)) = self.presets.range(..=preset).next_back() {
            return Ok(*value);
        }
        match &self.otherwise {
            Otherwise::Value(value) => Ok(*value),
            Otherwise::Invariant(formula) => {
                let result = formula.evaluate(names).map_err(|error| error.within(key))?;
                T::of_result(result).ok_or_else(|| {
                    let text = formula.text();
                    Error::file(format!("{key}: invariant `{text}` gives {result}, not {}", T::WANTED))
                })
            }
            Otherwise::Nothing => {
                let context = format!("{key} has no value at preset {preset}, no smaller one and no default");
                Err(Error { kind: ErrorKind::Preset, context })
            }
        }
    }

    fn from_table(table: &toml::Table) -> Result<Scaled<T>> {
        let mut scaled = Scaled { presets: BTreeMap::new(), otherwise: Otherwise::Nothing };
        if table.contains_key("default") && table.contains_key("invariant") {
            return Err(Error::file("`default` and `invariant` exclude each other"));
        }
        for (key, value) in table {
            match key.as_str() {
                "default" => scaled.otherwise = Otherwise::Value(Quantity::from_value(value)?.to()?),
                "invariant" => {
                    let text = value.as_str().ok_or_else(|| Error::file("`invariant` is not a text"))?;
                    scaled.otherwise = Otherwise::Invariant(Formula::parse(text)?);
                }
                name => {
                    let preset = name.parse();
                    let preset = preset.map_err(|_| Error::file(unknown_key_text(name, KEYS.into_iter())))?;
                    scaled.presets.insert(preset, Quantity::from_value(value)?.to()?);
                }
            }
        }
        Ok(scaled)
    }
}

impl<'de, T: Measure + Copy> Deserialize<'de> for Scaled<T> {
    fn deserialize<D: Deserializer<'de>>(form: D) -> std::result::Result<Scaled<T>, D::Error> {
        let scaled = match toml::Value::deserialize(form)? {
            toml::Value::Table(table) => Scaled::from_table(&table),
            value => Quantity::from_value(&value).and_then(Quantity::to).map(Scaled::same),
        };
        scaled.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use ashlar_units::ByteCount;

    use super::*;

    const NAMES: Names = Names { data: None, users: None, cores: 2, memory: ByteCount(1 << 30), space: None };

    #[derive(serde::Deserialize)]
    struct File {
        v: Scaled<u64>,
    }

    fn read(text: &str) -> std::result::Result<Scaled<u64>, String> {
        toml::from_str::<File>(text).map(|file| file.v).map_err(|error| error.message().to_string())
    }

    fn at_each(text: &str) -> [Option<u64>; 5] {
        let scaled = read(text).unwrap();
        Preset::ALL.map(|preset| scaled.at("v", preset, &NAMES).ok())
    }

    #[test]
    fn a_missing_preset_takes_the_next_smaller_then_the_default() {
        assert_eq!(at_each("v = 7"), [Some(7); 5]);
        assert_eq!(at_each("v = { s = 2, l = 5 }"), [None, Some(2), Some(2), Some(5), Some(5)]);
        assert_eq!(at_each("v = { m = 3, default = 1 }"), [Some(1), Some(1), Some(3), Some(3), Some(3)]);
        let mixed = "v = { invariant = '18*cores', paper = 575 }";
        assert_eq!(at_each(mixed), [Some(36), Some(36), Some(36), Some(36), Some(575)]);
    }

    #[test]
    fn nothing_that_fits_names_the_key_and_the_preset() {
        let error = read("v = { m = 3 }").unwrap().at("phases.repeat", Preset::S, &NAMES).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Preset);
        assert!(error.to_string().starts_with("phases.repeat has no value at preset s"), "{error}");
    }

    #[test]
    fn tables_that_mean_nothing_are_refused() {
        let unknown = read("v = { papr = 3 }").unwrap_err();
        assert_eq!(unknown, "unknown key `papr`; the nearest known key is `paper`");
        assert!(read("v = { default = 1, invariant = '2' }").is_err());
        assert!(read("v = { s = '2GB' }").is_err());
        assert!(read("v = { invariant = 'data*' }").unwrap_err().contains("position 6"));
        let wrong = read("v = { invariant = 'memory' }").unwrap().at("v", Preset::S, &NAMES).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "v: invariant `memory` gives 1073741824 B, not a whole number from 1 to a million"
        );
    }

    #[test]
    fn presets_read_by_name() {
        assert!(Preset::ALL.into_iter().all(|preset| preset.name().parse() == Ok(preset)));
        assert_eq!("xl".parse::<Preset>().unwrap_err().kind, ErrorKind::Request);
    }
}
