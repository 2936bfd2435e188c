//! Objectives of latency: how fast requests should be, and for how much of the time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far back an objective looks at most, and where nothing else is said: as far as the array remembers.
pub const OBJECTIVE_SECONDS_MAX: u64 = 7 * 24 * 3600;
/// The shortest time that an objective may look back.
pub const OBJECTIVE_SECONDS_MIN: u64 = 3600;
/// The longest latency that an objective may name: 60 seconds.
pub const OBJECTIVE_MICROS_MAX: u64 = 60_000_000;

/// What has an objective.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveKind {
    Database,
    Volume,
}

impl ObjectiveKind {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ObjectiveKind::Database => "database",
            ObjectiveKind::Volume => "volume",
        }
    }
}

/// Which requests an objective looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveRequests {
    /// Reads and writes, each for itself: both must be fast enough.
    #[default]
    All,
    Reads,
    Writes,
}

impl ObjectiveRequests {
    /// The words for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ObjectiveRequests::All => "reads and writes",
            ObjectiveRequests::Reads => "reads",
            ObjectiveRequests::Writes => "writes",
        }
    }
}

/// Request to set an objective: in this share of the minutes 99 of 100 requests are as fast as this.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveSet {
    /// 1 to 60000000.
    #[schema(example = 2000)]
    pub p99_micros: u64,
    /// Above 0, at most 100.
    #[schema(example = 99.9)]
    pub for_percent: f64,
    #[serde(default)]
    pub requests: ObjectiveRequests,
    /// How far back it looks: 3600 to 604800, which is seven days and the default.
    #[serde(default = "over_seconds_default")]
    #[schema(example = 604800)]
    pub over_seconds: u64,
}

fn over_seconds_default() -> u64 {
    OBJECTIVE_SECONDS_MAX
}

/// An objective, and how it fares. It is judged by the minutes that the array remembers: one without requests
/// is met, and one in which the array did not run is not counted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Objective {
    /// Of the volume or the database.
    pub name: String,
    pub kind: ObjectiveKind,
    pub pool: String,
    /// Whose requests are looked at: a minute is met if it is for each of them.
    pub volumes: Vec<String>,
    pub p99_micros: u64,
    pub for_percent: f64,
    pub requests: ObjectiveRequests,
    pub over_seconds: u64,
    /// The 99th percentile of the last seconds, of the slowest volume; absent without such requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present_p99_micros: Option<u64>,
    /// The requests of the last seconds are fast enough, or there are none.
    pub is_met_now: bool,
    /// The share of the known minutes that were met.
    pub met_percent: f64,
    /// How much of the time that it looks back is known.
    pub covered_seconds: u64,
    /// The minutes that were not met.
    pub missed_seconds: u64,
    /// How much may be missed in all.
    pub permitted_seconds: u64,
    /// How much of that is left.
    pub left_seconds: u64,
    pub left_percent: f64,
    /// More was missed than is permitted.
    pub is_used_up: bool,
}
