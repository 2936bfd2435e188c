//! Objectives of latency.

use ashlar_api::{Objective, ObjectiveSet};
use hyper::Method;

use crate::call::{Client, segment};
use crate::error::Result;

impl Client {
    /// One objective.
    pub fn objective(&self, name: &str) -> Result<Objective> {
        self.get(&path(name))
    }

    /// Gives a database or a volume an objective.
    pub fn objective_set(&self, name: &str, request: &ObjectiveSet) -> Result<Objective> {
        self.send(Method::PUT, &path(name), Some(request))
    }

    /// Deletes one.
    pub fn objective_delete(&self, name: &str) -> Result<()> {
        self.call(Method::DELETE, &path(name), None).map(drop)
    }
}

fn path(name: &str) -> String {
    format!("/v1/objectives/{}", segment(name))
}
