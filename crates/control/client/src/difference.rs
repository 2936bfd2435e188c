//! What differs between volumes, and between databases.

use ashlar_api::{DatabaseDiff, DatabaseDiffRequest, VolumeDiff};
use hyper::Method;

use crate::call::{Client, segment};
use crate::error::Result;

impl Client {
    /// What differs between two volumes or images from there on: so many ranges of it, and all bytes.
    pub fn volume_diff(&self, a: &str, b: &str, from_bytes: u64, ranges_count: u64) -> Result<VolumeDiff> {
        let (a, b) = (segment(a), segment(b));
        self.get(&format!(
            "/v1/volumes/{a}/diff?with={b}&from_bytes={from_bytes}&ranges_count={ranges_count}"
        ))
    }

    /// What differs between two databases.
    pub fn database_diff(&self, name: &str, request: &DatabaseDiffRequest) -> Result<DatabaseDiff> {
        self.send(Method::POST, &format!("/v1/databases/{}/diff", segment(name)), Some(request))
    }
}
