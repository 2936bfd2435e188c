//! Events: what changed and what went wrong, newest last.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much a person must care.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventLevel {
    /// A state changed as asked.
    Info,
    /// Something is not as configured, service goes on.
    Warning,
    /// A person must look.
    Error,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counts from 1 since the array started.
    pub sequence: u64,
    /// Of the start that `sequence` counts from: another one for each.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    pub unix_millis: u64,
    pub level: EventLevel,
    /// The object it is about, as in `volume db`.
    pub object: String,
    pub message: String,
}
