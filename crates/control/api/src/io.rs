//! What hosts did with each volume through each door.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Counters of one volume through one door, since the array started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DoorIo {
    pub volume: String,
    /// `nbd` or `fuse`.
    pub door: String,
    pub operations: Vec<OperationIo>,
}

/// Counters of one kind of request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct OperationIo {
    /// `read`, `write`, `flush`, `unmap` or `write_zeroes`.
    pub operation: String,
    pub count: u64,
    pub errors: u64,
    pub bytes: u64,
    pub latency_micros_p50: u64,
    pub latency_micros_p99: u64,
    pub latency_micros_max: u64,
}
