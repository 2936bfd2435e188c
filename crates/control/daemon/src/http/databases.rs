//! The operations on databases. Who reaches a database's superuser runs programs as its account: what makes
//! one, or tells its password, is for root over the socket, and for users and tokens whose role allows it.
//! What names commands or directories of this machine is for root alone.

use std::sync::Arc;

use ashlar_api as api;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;

use super::extract::{Body, Name, OptionalBody, Question};
use super::handlers::{
    AS_ROOT, Answer, Array, Created, Object, check_not_guest, check_owner, made_snapshot, to_the_end,
    with_pools,
};
use super::jobs::{Long, Task, Wait, object};
use super::lists;
use super::object::{Made, Shown};
use crate::error::Result;
use crate::places::Caller;
use crate::service::Service;
use crate::tag::Seen;

pub(super) fn check(caller: Caller) -> Result<()> {
    check_not_guest(caller, "work on databases", AS_ROOT)
}

pub(super) fn routes(service: &Arc<Service>) -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/databases", get(lists::databases).post(create))
        .route("/v1/databases/{database}", get(show).delete(remove))
        .route("/v1/databases/{database}/url", get(url))
        .route("/v1/databases/{database}/start", post(start))
        .route("/v1/databases/{database}/stop", post(stop))
        .route("/v1/databases/{database}/handover", get(handover))
        .route("/v1/databases/{database}/return", post(take_back))
        .route("/v1/databases/{database}/clone", post(clone))
        .route("/v1/databases/{database}/reset", post(reset))
        .route("/v1/databases/{database}/restore", post(restore))
        .route("/v1/databases/{database}/verify", post(verify))
        .route("/v1/databases/{database}/settings", get(settings).patch(settings_change))
        .route("/v1/databases/{database}/resize", post(resize))
        .route("/v1/databases/{database}/commands", put(commands))
        .route("/v1/databases/{database}/waits", get(waits))
        .route("/v1/database-snapshots", post(snapshot))
        .route("/v1/database-imports", post(import))
        .route("/v1/database-standbys", post(follow))
        .route("/v1/databases/{database}/promote", post(promote))
        .route("/v1/databases/{database}/expiry", put(expire))
        .route_layer(from_fn_with_state(service.clone(), with_pools))
}

/// What may stand behind the question mark of a deletion.
#[derive(Deserialize)]
pub(super) struct DeleteQuery {
    #[serde(default)]
    with_schedules: bool,
}

pub(super) async fn create(
    State(array): Array,
    caller: Caller,
    Body(request): Body<api::DatabaseCreate>,
) -> Created<api::DatabaseReady> {
    check(caller)?;
    if request.hooks.is_some() {
        check_owner(caller, "give a database commands", AS_ROOT)?;
    }
    let ready = to_the_end(async move { array.database_create(request).await }).await?;
    Ok(made(ready))
}

fn made(ready: api::DatabaseReady) -> Made<api::DatabaseReady> {
    Made::at(format!("/v1/databases/{}", ready.database.name), ready)
}

pub(super) async fn show(State(array): Array, Name(database): Name) -> Object<api::Database> {
    array.database(&database).await.map(Shown)
}

pub(super) async fn url(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
) -> Answer<api::DatabaseUrl> {
    check(caller)?;
    array.database_url(&database).await.map(Json)
}

pub(super) async fn remove(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    Question(query): Question<DeleteQuery>,
    seen: Seen,
) -> Answer<api::DatabaseDeletion> {
    check(caller)?;
    let with_schedules = query.with_schedules;
    to_the_end(async move { array.database_delete(&database, with_schedules, &seen).await }).await.map(Json)
}

pub(super) async fn start(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    OptionalBody(request): OptionalBody<api::DatabaseStart>,
) -> Answer<api::DatabaseReady> {
    check(caller)?;
    to_the_end(async move { array.database_start(&database, request).await }).await.map(Json)
}

pub(super) async fn stop(State(array): Array, caller: Caller, Name(database): Name) -> Answer<api::Database> {
    check(caller)?;
    to_the_end(async move { array.database_stop(&database).await }).await.map(Json)
}

pub(super) async fn handover(State(array): Array, Name(database): Name) -> Answer<api::DatabaseHandover> {
    array.database_handover(&database).await.map(Json)
}

pub(super) async fn take_back(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
) -> Answer<api::DatabaseReady> {
    check(caller)?;
    to_the_end(async move { array.database_return(&database).await }).await.map(Json)
}

pub(super) async fn clone(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    Body(request): Body<api::DatabaseClone>,
) -> Created<api::DatabaseReady> {
    check(caller)?;
    let ready = to_the_end(async move { array.database_clone(&database, request).await }).await?;
    Ok(made(ready))
}

pub(super) async fn reset(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    OptionalBody(request): OptionalBody<api::DatabaseReset>,
) -> Answer<api::DatabaseReady> {
    check(caller)?;
    to_the_end(async move { array.database_reset(&database, request).await }).await.map(Json)
}

pub(super) async fn restore(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    Body(request): Body<api::DatabaseRestore>,
) -> Answer<api::DatabaseReady> {
    check(caller)?;
    to_the_end(async move { array.database_restore(&database, request).await }).await.map(Json)
}

pub(super) async fn verify(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    wait: Wait,
    OptionalBody(request): OptionalBody<api::DatabaseVerify>,
) -> Result<Long<Json<api::DatabaseProof>>> {
    check(caller)?;
    let task = Task {
        kind: api::JobKind::Verify,
        object: object(api::ObjectKind::Database, &database),
        result: |proof: &Json<api::DatabaseProof>| api::JobResult {
            proof: Some(proof.0.clone()),
            ..api::JobResult::default()
        },
    };
    let of_task = array.clone();
    task.run(array, wait, async move { of_task.database_verify(&database, request).await.map(Json) }).await
}

pub(super) async fn settings(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
) -> Object<api::DatabaseSettings> {
    check(caller)?;
    array.database_settings(&database).await.map(Shown)
}

pub(super) async fn settings_change(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    seen: Seen,
    Body(request): Body<api::DatabaseSettingsChange>,
) -> Object<api::DatabaseSettings> {
    check(caller)?;
    let settings = async move { array.database_settings_change(&database, request, &seen).await };
    to_the_end(settings).await.map(Shown)
}

pub(super) async fn resize(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    Body(request): Body<api::DatabaseResize>,
) -> Answer<api::Database> {
    check(caller)?;
    to_the_end(async move { array.database_resize(&database, request).await }).await.map(Json)
}

/// What may stand behind the question mark of a look at waits.
#[derive(Deserialize)]
pub(super) struct WaitsQuery {
    seconds: Option<u64>,
}

pub(super) async fn waits(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    Question(query): Question<WaitsQuery>,
) -> Answer<api::DatabaseWaits> {
    check(caller)?;
    array.database_waits(&database, query.seconds).await.map(Json)
}

pub(super) async fn commands(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    seen: Seen,
    Body(request): Body<api::DatabaseHooks>,
) -> Object<api::Database> {
    check_owner(caller, "give a database commands", AS_ROOT)?;
    to_the_end(async move { array.database_commands(&database, request, &seen).await }).await.map(Shown)
}

pub(super) async fn expire(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
    seen: Seen,
    Body(request): Body<api::DatabaseExpiry>,
) -> Object<api::Database> {
    check(caller)?;
    to_the_end(async move { array.database_expire(&database, request, &seen).await }).await.map(Shown)
}

pub(super) async fn snapshot(
    State(array): Array,
    Body(request): Body<api::DatabaseSnapshot>,
) -> Created<api::Snapshot> {
    let snapshot = to_the_end(async move { array.database_snapshot(request).await }).await?;
    Ok(made_snapshot(snapshot))
}

pub(super) async fn import(
    State(array): Array,
    caller: Caller,
    wait: Wait,
    Body(request): Body<api::DatabaseImport>,
) -> Result<Long<Made<api::DatabaseReady>>> {
    check(caller)?;
    if request.from_directory.is_some() || request.configuration_directory.is_some() {
        check_owner(caller, "have directories of this machine read", AS_ROOT)?;
    }
    let task = bringing(api::JobKind::Import, &request.name);
    let of_task = array.clone();
    task.run(array, wait, async move { of_task.database_import(request).await.map(made) }).await
}

/// Without the address: it has a password in it.
fn bringing(kind: api::JobKind, name: &str) -> Task<Made<api::DatabaseReady>> {
    Task {
        kind,
        object: object(api::ObjectKind::Database, name),
        result: |ready| api::JobResult {
            database: Some(ready.value().database.clone()),
            ..api::JobResult::default()
        },
    }
}

pub(super) async fn follow(
    State(array): Array,
    caller: Caller,
    wait: Wait,
    Body(request): Body<api::DatabaseFollow>,
) -> Result<Long<Made<api::DatabaseReady>>> {
    check(caller)?;
    let task = bringing(api::JobKind::Follow, &request.name);
    let of_task = array.clone();
    task.run(array, wait, async move { of_task.database_follow(request).await.map(made) }).await
}

pub(super) async fn promote(
    State(array): Array,
    caller: Caller,
    Name(database): Name,
) -> Answer<api::DatabasePromotion> {
    check(caller)?;
    to_the_end(async move { array.database_promote(&database).await }).await.map(Json)
}
