//! Marks of the time line.

use ashlar_api::{Mark, MarkCreate};
use hyper::Method;

use crate::call::{Client, segment};
use crate::error::Result;

impl Client {
    /// Makes a mark.
    pub fn mark_create(&self, request: &MarkCreate) -> Result<Mark> {
        self.send(Method::POST, "/v1/marks", Some(request))
    }

    /// Deletes a mark that was made by hand.
    pub fn mark_delete(&self, id: &str) -> Result<()> {
        self.call(Method::DELETE, &format!("/v1/marks/{}", segment(id)), None).map(drop)
    }
}
