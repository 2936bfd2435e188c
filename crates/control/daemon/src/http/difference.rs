//! The operations that tell what differs.

use std::sync::Arc;

use ashlar_api as api;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::databases::check;
use super::extract::{Body, Name, Question};
use super::handlers::{Answer, Array, to_the_end};
use crate::places::Caller;
use crate::service::Service;

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/volumes/{volume}/diff", get(volume))
        .route("/v1/databases/{database}/diff", post(database))
}

/// The query of `/v1/volumes/{volume}/diff`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffQuery {
    with: String,
    #[serde(default)]
    from_bytes: u64,
    ranges_count: Option<u64>,
    within_seconds: Option<u64>,
}

pub(super) async fn volume(
    State(array): Array,
    Name(volume): Name,
    Question(query): Question<DiffQuery>,
) -> Answer<api::VolumeDiff> {
    let DiffQuery { with, from_bytes, ranges_count, within_seconds } = query;
    let ranges_count = ranges_count.unwrap_or(api::RANGES_DEFAULT);
    let within_seconds = within_seconds.unwrap_or(api::WITHIN_SECONDS_DEFAULT);
    array.volume_diff(volume, with, from_bytes, ranges_count, within_seconds).await.map(Json)
}

pub(super) async fn database(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    Body(request): Body<api::DatabaseDiffRequest>,
) -> Answer<api::DatabaseDiff> {
    check(caller)?;
    to_the_end(async move { array.database_diff(&database, request).await }).await.map(Json)
}
