//! Results of `ashlar lab run` that lie in the directory of the setting `lab_results`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A result: of one experiment, or of all experiments of a paper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LabResult {
    /// The name of its directory.
    #[schema(example = "emc")]
    pub name: String,
    /// The experiment, or the paper.
    #[schema(example = "emc/headline")]
    pub experiment: String,
    /// `passed`, `failed`, or `not-valid`: it is a part, or it cannot be told.
    pub verdict: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// What was found, in a sentence or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why it is a part, or no valid result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub complaints: Vec<String>,
    /// The scale that it was run at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["ashlar:main", "/mnt/plain"]))]
    pub targets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_unix_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<LabCheck>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<LabMetric>,
    /// Of a paper: its experiments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<LabPart>,
}

/// An experiment of a paper.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LabPart {
    /// What to ask for it with; absent: it did not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "headline")]
    pub name: Option<String>,
    pub experiment: String,
    pub title: String,
    pub question: String,
    pub answer: String,
    /// `passed`, `failed` or `not-valid`.
    pub verdict: String,
}

/// A rule of an experiment, and whether it holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LabCheck {
    pub name: String,
    pub rule: String,
    /// `passed`, `failed`, or `cannot-tell`.
    pub answer: String,
    pub found: String,
}

/// What was measured, beside what was published.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LabMetric {
    #[schema(example = "iops.under(1ms)")]
    pub metric: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// What the paper says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub rows: Vec<LabRow>,
}

/// A figure on one target.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LabRow {
    pub target: String,
    /// Which variant; empty where there is one.
    pub of: String,
    /// Absent: it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Between which values it lies, at 95 of 100; absent with too few repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}
