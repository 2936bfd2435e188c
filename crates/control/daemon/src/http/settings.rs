//! The settings in force, and reading them again.

use std::sync::Arc;

use ashlar_api as api;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};

use super::handlers::{AS_ROOT, Answer, Array, check_not_guest, to_the_end};
use crate::places::Caller;
use crate::service::Service;

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new().route("/v1/settings", get(shown)).route("/v1/reload", post(reload))
}

async fn shown(State(array): Array) -> Json<api::ArraySettings> {
    Json(array.settings.shown())
}

async fn reload(State(array): Array, caller: Caller) -> Answer<api::Reloaded> {
    check_not_guest(caller, "have the settings read again", AS_ROOT)?;
    to_the_end(async move { array.reload().await }).await.map(Json)
}
