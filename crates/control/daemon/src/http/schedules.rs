//! The operations on schedules. One that proves starts servers: it is for root over the socket.

use std::sync::Arc;

use ashlar_api as api;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::extract::{Body, Name, Question};
use super::handlers::{
    AS_ROOT, Answer, Array, Created, Object, check_not_guest, made_snapshot, to_the_end, with_pools,
};
use super::lists;
use super::object::{Made, Shown};
use crate::places::Caller;
use crate::service::Service;
use crate::tag::Seen;

pub(super) fn routes(service: &Arc<Service>) -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/schedules", get(lists::schedules).post(create))
        .route("/v1/schedules/{schedule}", get(show).patch(change).delete(remove))
        .route("/v1/schedules/{schedule}/run", post(run))
        .route("/v1/schedules/{schedule}/pause", post(pause))
        .route("/v1/schedules/{schedule}/resume", post(resume))
        .route_layer(from_fn_with_state(service.clone(), with_pools))
}

/// What may stand behind the question mark of a deletion.
#[derive(Deserialize)]
pub(super) struct DeleteQuery {
    #[serde(default)]
    with_snapshots: bool,
}

pub(super) async fn create(
    State(array): Array,
    caller: Caller,
    Body(request): Body<api::ScheduleCreate>,
) -> Created<api::Schedule> {
    if request.prove_every_count.is_some() {
        check_not_guest(caller, "have snapshots proven", AS_ROOT)?;
    }
    let schedule = to_the_end(async move { array.schedule_create(request).await }).await?;
    Ok(Made::at(format!("/v1/schedules/{}", schedule.name), schedule).tagged())
}

pub(super) async fn show(State(array): Array, Name(schedule): Name) -> Object<api::Schedule> {
    array.schedule(&schedule).await.map(Shown)
}

pub(super) async fn remove(
    State(array): Array,
    Name(schedule): Name,
    Question(query): Question<DeleteQuery>,
    seen: Seen,
) -> Answer<api::ScheduleDeletion> {
    let with_snapshots = query.with_snapshots;
    to_the_end(async move { array.schedule_delete(&schedule, with_snapshots, &seen).await }).await.map(Json)
}

pub(super) async fn change(
    State(array): Array,
    Name(schedule): Name,
    seen: Seen,
    Body(request): Body<api::ScheduleChange>,
) -> Object<api::Schedule> {
    to_the_end(async move { array.schedule_change(&schedule, request, &seen).await }).await.map(Shown)
}

pub(super) async fn run(State(array): Array, Name(schedule): Name) -> Created<api::Snapshot> {
    let snapshot = to_the_end(async move { array.schedule_run(&schedule).await }).await?;
    Ok(made_snapshot(snapshot))
}

pub(super) async fn pause(State(array): Array, Name(schedule): Name) -> Answer<api::Schedule> {
    to_the_end(async move { array.schedule_pause(&schedule, true).await }).await.map(Json)
}

pub(super) async fn resume(State(array): Array, Name(schedule): Name) -> Answer<api::Schedule> {
    to_the_end(async move { array.schedule_pause(&schedule, false).await }).await.map(Json)
}
