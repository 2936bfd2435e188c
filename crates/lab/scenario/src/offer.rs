//! What an open loop offers: a rate, or a share of what a run without one has found.
//!
//! `rate = "1000/s"`, or `rate = "50% of max"`: then the entry `max` of the same axis is the closed loop,
//! which comes first in every repetition.

use serde::de::{Deserialize, Deserializer, Error as _};

use crate::error::Result;
use crate::formula::Names;
use crate::quantity::{Quantity, Rate};
use crate::scale::{Preset, Scaled};

/// As the file states it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Offer {
    At(Scaled<Rate>),
    Share(Share),
}

/// A part of what the entry `of` found.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    /// 0.5 is half of it.
    pub share: f64,
    /// An entry of the same axis.
    pub of: String,
}

impl Offer {
    /// The rate, or what it is a share of.
    pub(crate) fn at(&self, preset: Preset, names: &Names) -> Result<(Option<Rate>, Option<Share>)> {
        match self {
            Offer::At(rate) => rate.at("rate", preset, names).map(|rate| (Some(rate), None)),
            Offer::Share(share) => Ok((None, Some(share.clone()))),
        }
    }
}

impl<'de> Deserialize<'de> for Offer {
    fn deserialize<D: Deserializer<'de>>(form: D) -> std::result::Result<Offer, D::Error> {
        let value = toml::Value::deserialize(form)?;
        let Some((share, of)) = value.as_str().and_then(|text| text.split_once(" of ")) else {
            return Scaled::deserialize(value)
                .map(Offer::At)
                .map_err(|error| D::Error::custom(error.message()));
        };
        let share: f64 = Quantity::parse(share).and_then(Quantity::to).map_err(D::Error::custom)?;
        if share <= 0.0 {
            return Err(D::Error::custom("a share of nothing is no rate"));
        }
        Ok(Offer::Share(Share { share, of: of.trim().to_string() }))
    }
}
