//! The settings in force, and reading them again.

use ashlar_api::{ArraySettings, Reloaded};
use hyper::Method;

use crate::call::Client;
use crate::error::Result;

impl Client {
    /// The settings in force, without secrets.
    pub fn settings(&self) -> Result<ArraySettings> {
        self.get("/v1/settings")
    }

    /// Has the array read its settings again.
    pub fn reload(&self) -> Result<Reloaded> {
        self.send(Method::POST, "/v1/reload", None::<&()>)
    }
}
