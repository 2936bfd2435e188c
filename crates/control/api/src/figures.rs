//! What hosts do: figures of the last second, sent as they come, and series of them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a stream of figures begins with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hello {
    /// Another one than before: the array was started anew, and what was known of it may be old.
    pub boot_id: String,
    /// Time between two figures.
    pub interval_millis: u64,
    pub version: String,
}

/// What hosts did in the last interval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// The end of the interval.
    pub unix_millis: u64,
    pub interval_millis: u64,
    /// All volumes together.
    pub array: Rates,
    pub pools: Vec<PoolFigures>,
    /// Volumes with requests in the interval.
    pub volumes: Vec<VolumeFigures>,
}

/// A pool in one interval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolFigures {
    pub pool: String,
    pub full_percent: u8,
    /// Its volumes together.
    pub rates: Rates,
    pub drive_read_bytes_per_second: f64,
    pub drive_write_bytes_per_second: f64,
    /// Where the time of reads went, by stage; empty without reads.
    #[serde(default)]
    pub read_stages: Vec<StageTime>,
    /// Where the time of writes went, by stage; empty without writes.
    #[serde(default)]
    pub write_stages: Vec<StageTime>,
}

/// What a stage took in an interval. The means of all stages add up to the mean time in the pool; what the
/// door counts beyond that is its queue and the wire.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StageTime {
    /// `turn`: another request to the same blocks. `map`: pages of the map. `room`: in memory and in the
    /// pool. `reduction`: the processor, compressing and back. `journal`: until a write is durable.
    /// `drive`: a read of the drives.
    pub stage: String,
    /// Over all requests, also those without this stage.
    pub mean_micros: f64,
    /// Of the requests that had it.
    pub p99_micros: u64,
}

/// A request that took long.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SlowRequest {
    pub pool: String,
    /// The volume, or the image as in `db@noon`; absent when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// `read` or `write`.
    pub operation: String,
    pub offset_bytes: u64,
    pub length_bytes: u64,
    /// When it ended.
    pub unix_millis: u64,
    /// The whole time in the pool.
    pub micros: u64,
    /// By stage, in microseconds; those that took nothing are left out.
    pub stages: std::collections::BTreeMap<String, u64>,
}

/// A volume in one interval, over all doors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeFigures {
    pub volume: String,
    pub rates: Rates,
}

/// Requests of hosts in one interval.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct Rates {
    pub reads_per_second: f64,
    pub writes_per_second: f64,
    /// Flushes, unmaps and writes of zeroes.
    pub others_per_second: f64,
    /// Requests that were refused or failed.
    pub errors_per_second: f64,
    pub read_bytes_per_second: f64,
    pub write_bytes_per_second: f64,
    /// Absent without reads in the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency_micros: Option<Latency>,
    /// Absent without writes in the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency_micros: Option<Latency>,
}

/// How long requests took, in microseconds; each at most 6.25 % too high.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

/// How far back a series goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryRange {
    /// In steps of 10 seconds.
    Hour,
    /// In steps of 5 minutes.
    Day,
    /// In steps of half an hour.
    Week,
}

impl HistoryRange {
    /// Every range, the shortest first.
    pub const ALL: [HistoryRange; 3] = [HistoryRange::Hour, HistoryRange::Day, HistoryRange::Week];

    /// The word for it in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HistoryRange::Hour => "hour",
            HistoryRange::Day => "day",
            HistoryRange::Week => "week",
        }
    }

    /// Seconds from one point to the next.
    #[must_use]
    pub const fn step_seconds(self) -> u64 {
        match self {
            HistoryRange::Hour => 10,
            HistoryRange::Day => 300,
            HistoryRange::Week => 1800,
        }
    }

    /// Seconds in all.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            HistoryRange::Hour => 3600,
            HistoryRange::Day => 24 * 3600,
            HistoryRange::Week => 7 * 24 * 3600,
        }
    }
}

/// What hosts did over a longer time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// `array`, or as in `pool:main` and `volume:db`.
    pub object: String,
    pub range: HistoryRange,
    pub step_seconds: u64,
    /// Oldest first. One that is missing is of a time in which the array did not run, or the object was not
    /// among the busiest.
    pub points: Vec<HistoryPoint>,
}

/// How long requests took over a longer time: a histogram for each step of the series.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Latencies {
    /// `array`, or as in `pool:main` and `volume:db`.
    pub object: String,
    pub range: HistoryRange,
    pub step_seconds: u64,
    /// Where the classes end, from the fastest on: a request is in the first class that ends above its time.
    /// Behind them is one more class, which has no end.
    pub bounds_micros: Vec<f64>,
    /// Oldest first; steps without requests are left out.
    pub steps: Vec<LatencyStep>,
}

/// Requests of one step, by class.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LatencyStep {
    /// The end of the step.
    pub unix_millis: u64,
    /// How many reads are in each class; empty classes at the end are left out.
    pub reads: Vec<u64>,
    /// How many writes are in each class; empty classes at the end are left out.
    pub writes: Vec<u64>,
}

/// One step of a series.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct HistoryPoint {
    /// The end of the step.
    pub unix_millis: u64,
    pub rates: Rates,
}
