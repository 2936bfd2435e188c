//! What hosts did: series, and what the requests of a volume look like.

use ashlar_api::{History, HistoryRange, IoProfile};

use crate::call::{Client, segment};
use crate::error::Result;

impl Client {
    /// The series of `array`, `pool:NAME` or `volume:NAME`.
    pub fn history(&self, object: &str, range: HistoryRange) -> Result<History> {
        self.get(&format!("/v1/history?object={}&range={}", segment(object), range.name()))
    }

    /// What the requests of a volume look like: since the array started, or in so many seconds from now on.
    pub fn volume_profile(&self, name: &str, seconds: Option<u64>) -> Result<IoProfile> {
        let path = format!("/v1/volumes/{}/profile", segment(name));
        match seconds {
            Some(seconds) => self.get(&format!("{path}?seconds={seconds}")),
            None => self.get(&path),
        }
    }
}
