//! One function an operation: takes the request apart, asks the service, answers.
//!
//! Changes run as tasks of their own: a client that hangs up half way must not leave a volume half
//! attached.

use std::future::Future;
use std::sync::Arc;

use ashlar_api as api;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::extract::{Body, DriveOf, Name, OptionalBody, Question};
use super::jobs::{Long, Task, Wait, object};
use super::object::{Made, Shown};
use crate::asker::Asker;
use crate::error::{Error, Result};
use crate::places::Caller;
use crate::service::Service;
use crate::tag::Seen;

pub(super) type Array = State<Arc<Service>>;
pub(super) type Answer<T> = Result<Json<T>>;
/// An object with the tag of its state.
pub(super) type Object<T> = Result<Shown<T>>;
/// A new object, and where it is.
pub(super) type Created<T> = Result<Made<T>>;
/// With a status of its own.
pub(super) type WithStatus<T> = Result<(StatusCode, Json<T>)>;

/// Runs a change to its end whether or not the client waits for it.
pub(super) async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(change).await.unwrap_or_else(|_| Err(Error::stopping()))
}

/// Answers once the pools are open that a start right behind another array is about to open.
pub(super) async fn with_pools(State(array): Array, request: Request, next: Next) -> Response {
    array.wait_for_pools().await;
    next.run(request).await
}

pub(super) async fn pool_create(
    State(array): Array,
    caller: Caller,
    Body(request): Body<api::PoolCreate>,
) -> Created<api::Pool> {
    array.places.check_drives(caller, request.drives.iter().map(|drive| drive.path.as_str()))?;
    let pool = to_the_end(async move { array.pool_create(request).await }).await?;
    Ok(Made::at(format!("/v1/pools/{}", pool.name), pool).tagged())
}

pub(super) async fn pool_show(State(array): Array, Name(pool): Name) -> Object<api::Pool> {
    array.pool(&pool).await.map(Shown)
}

pub(super) async fn pool_delete(
    State(array): Array,
    Name(pool): Name,
    Question(query): Question<ForceQuery>,
    seen: Seen,
) -> Result<StatusCode> {
    to_the_end(async move { array.pool_delete(&pool, query.force, &seen).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn pool_scrub(
    State(array): Array,
    Name(pool): Name,
    wait: Wait,
) -> Result<Long<Json<api::ScrubReport>>> {
    let task = Task {
        kind: api::JobKind::Scrub,
        object: object(api::ObjectKind::Pool, &pool),
        result: |report: &Json<api::ScrubReport>| api::JobResult {
            scrub: Some(report.0.clone()),
            ..api::JobResult::default()
        },
    };
    let of_task = array.clone();
    task.run(array, wait, async move { of_task.pool_scrub(&pool).await.map(Json) }).await
}

pub(super) async fn pool_scrub_change(
    State(array): Array,
    Name(pool): Name,
    Body(request): Body<api::ScrubChange>,
) -> Answer<api::Pool> {
    array.pool_scrub_change(&pool, request.action).await.map(Json)
}

/// The query of `/v1/pools/{pool}/check`, besides whether to wait.
#[derive(Deserialize)]
pub(super) struct CheckQuery {
    #[serde(default)]
    is_deep: bool,
}

pub(super) async fn pool_check(
    State(array): Array,
    Name(pool): Name,
    Question(query): Question<CheckQuery>,
    wait: Wait,
) -> Result<Long<Json<api::CheckReport>>> {
    let task = Task {
        kind: api::JobKind::Check,
        object: object(api::ObjectKind::Pool, &pool),
        result: |report: &Json<api::CheckReport>| api::JobResult {
            check: Some(report.0.clone()),
            ..api::JobResult::default()
        },
    };
    let of_task = array.clone();
    task.run(array, wait, async move { of_task.pool_check(&pool, query.is_deep).await.map(Json) }).await
}

/// The query of what takes something away.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForceQuery {
    #[serde(default)]
    force: bool,
}

pub(super) async fn pool_export(
    State(array): Array,
    Name(pool): Name,
    Question(query): Question<ForceQuery>,
) -> Result<StatusCode> {
    to_the_end(async move { array.pool_export(&pool, query.force).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn pool_import(
    State(array): Array,
    caller: Caller,
    Name(pool): Name,
    OptionalBody(request): OptionalBody<api::PoolImport>,
) -> Answer<api::Pool> {
    array.places.check_drives(caller, request.drives.iter().map(String::as_str))?;
    to_the_end(async move { array.pool_import(&pool, request).await }).await.map(Json)
}

pub(super) async fn pool_reopen(State(array): Array, Name(pool): Name) -> Answer<api::Pool> {
    to_the_end(async move { array.pool_reopen(&pool).await }).await.map(Json)
}

pub(super) async fn drives_add(
    State(array): Array,
    caller: Caller,
    Name(pool): Name,
    Body(request): Body<api::DrivesAdd>,
) -> Answer<api::Pool> {
    array.places.check_drives(caller, request.drives.iter().map(|drive| drive.path.as_str()))?;
    to_the_end(async move { array.drives_add(&pool, request).await }).await.map(Json)
}

pub(super) async fn drive_set(
    State(array): Array,
    DriveOf(pool, number): DriveOf,
    Body(request): Body<api::DriveChange>,
) -> Answer<api::Pool> {
    to_the_end(async move { array.drive_set(&pool, number, request).await }).await.map(Json)
}

pub(super) async fn drive_replace(
    State(array): Array,
    caller: Caller,
    DriveOf(pool, number): DriveOf,
    wait: Wait,
    Body(request): Body<api::DriveSpec>,
) -> Result<Long<Json<api::Pool>>> {
    array.places.check_drive(caller, &request.path)?;
    let of_change = array.clone();
    let pool = to_the_end(async move { of_change.drive_replace(&pool, number, request).await }).await?;
    joined(&array, pool, number, wait).await
}

/// A drive serves: what it lacks is rebuilt behind that, which is a job.
async fn joined(
    array: &Arc<Service>,
    pool: api::Pool,
    number: u32,
    wait: Wait,
) -> Result<Long<Json<api::Pool>>> {
    let is_rebuilt = |drive: &api::Drive| drive.number == Some(number) && drive.state == "rebuilding";
    if wait.0 && !pool.drives.iter().any(is_rebuilt) {
        return Ok(Long::Done(Json(pool)));
    }
    let job = array.follow_rebuild(&pool, number);
    match wait.0 {
        // That it is not remembered is no reason to say that the drive was not taken.
        true => Ok(Long::Done(Json(pool))),
        false => Ok(Long::UnderWay(Box::new(array.job(&array.job_id(job?)).await?))),
    }
}

pub(super) async fn drive_online(
    State(array): Array,
    caller: Caller,
    DriveOf(pool, number): DriveOf,
    wait: Wait,
    OptionalBody(request): OptionalBody<api::DriveOnline>,
) -> Result<Long<Json<api::Pool>>> {
    array.places.check_drives(caller, request.path.as_deref().into_iter())?;
    let of_change = array.clone();
    let pool = to_the_end(async move { of_change.drive_online(&pool, number, request).await }).await?;
    joined(&array, pool, number, wait).await
}

pub(super) async fn drive_remove(State(array): Array, DriveOf(pool, number): DriveOf) -> Answer<api::Pool> {
    to_the_end(async move { array.drive_remove(&pool, number).await }).await.map(Json)
}

pub(super) async fn drive_offline(State(array): Array, DriveOf(pool, number): DriveOf) -> Answer<api::Pool> {
    to_the_end(async move { array.drive_offline(&pool, number).await }).await.map(Json)
}

/// The query of `/v1/pools/{pool}/space`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpaceQuery {
    #[serde(default)]
    is_quick: bool,
    #[serde(default = "within_seconds_default")]
    within_seconds: u64,
}

/// The query of `/v1/space/holders/{name}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HoldersQuery {
    #[serde(default = "within_seconds_default")]
    within_seconds: u64,
}

fn within_seconds_default() -> u64 {
    api::WITHIN_SECONDS_DEFAULT
}

pub(super) async fn pool_space(
    State(array): Array,
    Name(pool): Name,
    Question(query): Question<SpaceQuery>,
) -> Answer<api::PoolSpace> {
    array.pool_space(&pool, query.is_quick, query.within_seconds).await.map(Json)
}

pub(super) async fn pool_dedupe(State(array): Array, Name(pool): Name) -> Answer<api::Dedupe> {
    array.pool_dedupe(&pool).await.map(Json)
}

pub(super) async fn pool_dedupe_change(
    State(array): Array,
    Name(pool): Name,
    Body(request): Body<api::DedupeRequest>,
) -> Answer<api::Dedupe> {
    to_the_end(async move { array.pool_dedupe_change(&pool, request).await }).await.map(Json)
}

pub(super) async fn space_reclaim(
    State(array): Array,
    Body(request): Body<api::ReclaimRequest>,
) -> Answer<api::Reclaim> {
    array.reclaim(request).await.map(Json)
}

pub(super) async fn space_holders(
    State(array): Array,
    Name(name): Name,
    Question(query): Question<HoldersQuery>,
) -> Answer<api::Holders> {
    array.holders(&name, query.within_seconds).await.map(Json)
}

pub(super) async fn volume_create(
    State(array): Array,
    Body(request): Body<api::VolumeCreate>,
) -> Created<api::Volume> {
    let volume = to_the_end(async move { array.volume_create(request).await }).await?;
    Ok(Made::at(format!("/v1/volumes/{}", volume.name), volume).tagged())
}

pub(super) async fn volume_show(State(array): Array, Name(volume): Name) -> Object<api::Volume> {
    array.volume(&volume).await.map(Shown)
}

pub(super) async fn volume_resize(
    State(array): Array,
    Name(volume): Name,
    seen: Seen,
    Body(request): Body<api::VolumeResize>,
) -> Object<api::Volume> {
    to_the_end(async move { array.volume_resize(&volume, request, &seen).await }).await.map(Shown)
}

pub(super) async fn volume_set(
    State(array): Array,
    Name(volume): Name,
    seen: Seen,
    Body(request): Body<api::VolumePolicy>,
) -> Object<api::Volume> {
    to_the_end(async move { array.volume_set(&volume, request, &seen).await }).await.map(Shown)
}

/// The query of a volume's delete.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteQuery {
    #[serde(default)]
    force: bool,
    #[serde(default)]
    now: bool,
}

pub(super) async fn volume_delete(
    State(array): Array,
    Name(volume): Name,
    Question(query): Question<DeleteQuery>,
    seen: Seen,
) -> Answer<api::VolumeDeletion> {
    let DeleteQuery { force, now } = query;
    to_the_end(async move { array.volume_delete_alone(&volume, force, now, &seen).await }).await.map(Json)
}

pub(super) async fn volume_undelete(
    State(array): Array,
    Name(volume): Name,
    OptionalBody(request): OptionalBody<api::VolumeUndelete>,
) -> Answer<api::Volume> {
    to_the_end(async move { array.volume_undelete(&volume, request).await }).await.map(Json)
}

pub(super) async fn deleted_volume_purge(State(array): Array, Name(volume): Name) -> Result<StatusCode> {
    to_the_end(async move { array.deleted_volume_purge(&volume).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn volume_users(State(array): Array, Name(volume): Name) -> Answer<Vec<api::VolumeUser>> {
    array.volume_users(&volume).await.map(Json)
}

pub(super) async fn volume_disconnect(State(array): Array, Name(volume): Name) -> Answer<api::Disconnected> {
    to_the_end(async move { array.volume_disconnect(&volume).await }).await.map(Json)
}

pub(super) async fn snapshot_create(
    State(array): Array,
    Body(request): Body<api::SnapshotCreate>,
) -> Created<api::Snapshot> {
    let snapshot = to_the_end(async move { array.snapshot_create(request).await }).await?;
    Ok(made_snapshot(snapshot))
}

pub(super) fn made_snapshot(snapshot: api::Snapshot) -> Made<api::Snapshot> {
    Made::at(format!("/v1/snapshots/{}", snapshot.name), snapshot).tagged()
}

pub(super) async fn snapshot_show(State(array): Array, Name(snapshot): Name) -> Object<api::Snapshot> {
    array.snapshot(&snapshot).await.map(Shown)
}

pub(super) async fn snapshot_delete(
    State(array): Array,
    Name(snapshot): Name,
    Question(query): Question<ForceQuery>,
    seen: Seen,
) -> Result<StatusCode> {
    to_the_end(async move { array.snapshot_delete(&snapshot, query.force, &seen).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn snapshots_delete(
    State(array): Array,
    Body(request): Body<api::SnapshotsDelete>,
) -> Result<StatusCode> {
    to_the_end(async move { array.snapshots_delete(request).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The query of a restore.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreQuery {
    #[serde(default)]
    force: bool,
    #[serde(default)]
    no_backup: bool,
}

pub(super) async fn snapshot_restore(
    State(array): Array,
    Name(snapshot): Name,
    Question(query): Question<RestoreQuery>,
) -> Answer<api::Restored> {
    let RestoreQuery { force, no_backup } = query;
    to_the_end(async move { array.snapshot_restore(&snapshot, force, !no_backup).await }).await.map(Json)
}

pub(super) async fn snapshot_hold(
    State(array): Array,
    Name(snapshot): Name,
    seen: Seen,
    OptionalBody(request): OptionalBody<api::HoldRequest>,
) -> Object<api::Snapshot> {
    to_the_end(async move { array.snapshot_hold(&snapshot, request, &seen).await }).await.map(Shown)
}

pub(super) async fn snapshot_release(
    State(array): Array,
    Name(snapshot): Name,
    seen: Seen,
) -> Object<api::Snapshot> {
    to_the_end(async move { array.snapshot_release(&snapshot, &seen).await }).await.map(Shown)
}

pub(super) async fn clone_create(
    State(array): Array,
    Body(request): Body<api::CloneCreate>,
) -> Created<Vec<api::Volume>> {
    let volumes = to_the_end(async move { array.clone_create(request).await }).await?;
    let first = volumes.first().map_or(String::new(), |volume| format!("/{}", volume.name));
    Ok(Made::at(format!("/v1/volumes{first}"), volumes))
}

pub(super) async fn attachment_create(
    State(array): Array,
    caller: Caller,
    Body(request): Body<api::AttachRequest>,
) -> Created<api::Attachment> {
    check_mount(&array, caller, &request)?;
    let attachment = to_the_end(async move { array.attach(request).await }).await?;
    Ok(Made::at(format!("/v1/attachments/{}", attachment.volume), attachment))
}

pub(super) async fn attachment_show(State(array): Array, Name(volume): Name) -> Answer<api::Attachment> {
    array.attachment(&volume).map(Json)
}

/// A mount by a guest covers no directory of root's, and makes nobody root.
fn check_mount(array: &Service, caller: Caller, request: &api::AttachRequest) -> Result<()> {
    if let Some(mount) = &request.mount {
        array.places.check_mount(caller, mount)?;
    }
    if request.allows_suid || request.allows_devices {
        let action = "leave allows_suid and allows_devices out";
        check_owner(caller, "mount with set-uid programs or device files in force", action)?;
    }
    Ok(())
}

pub(super) async fn attachment_delete(
    State(array): Array,
    Name(volume): Name,
    Question(query): Question<ForceQuery>,
) -> Result<StatusCode> {
    to_the_end(async move { array.detach(&volume, query.force).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn client_disconnect(State(array): Array, Name(client): Name) -> Result<StatusCode> {
    array.client_disconnect(&client).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn stop(
    State(array): Array,
    caller: Caller,
    Body(request): Body<api::StopRequest>,
) -> Result<StatusCode> {
    check_not_guest(caller, "stop the array", AS_ROOT)?;
    to_the_end(async move { array.stop_when_detached(request).await }).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn upgrade(
    State(array): Array,
    caller: Caller,
    Body(request): Body<api::UpgradeRequest>,
) -> WithStatus<api::Program> {
    check_owner(caller, "choose the array's program", AS_ROOT)?;
    let program = to_the_end(async move { array.upgrade(request).await }).await?;
    Ok((StatusCode::ACCEPTED, Json(program)))
}

pub(super) const AS_ROOT: &str = "ask on the machine itself, as root";

pub(super) fn check_owner(caller: Caller, what: &str, action: &str) -> Result<()> {
    match caller {
        Caller::Owner => Ok(()),
        Caller::Person | Caller::Guest => Err(root_only(what, action)),
    }
}

/// For root, and for users and tokens of the array: whether their role is enough is found before.
pub(super) fn check_not_guest(caller: Caller, what: &str, action: &str) -> Result<()> {
    match caller {
        Caller::Owner | Caller::Person => Ok(()),
        Caller::Guest => Err(root_only(what, action)),
    }
}

fn root_only(what: &str, action: &str) -> Error {
    let what = format!("only root over the socket may {what}");
    Error::new(api::ErrorKind::Forbidden, what, action).because(api::Reason::RootOnly)
}

pub(super) async fn health(State(array): Array) -> Answer<api::Health> {
    array.health().await.map(Json)
}

pub(super) async fn status(State(array): Array) -> Answer<api::Status> {
    array.status().await.map(Json)
}

pub(super) async fn session(State(array): Array, asker: Asker) -> Json<api::Session> {
    Json(array.session(&asker))
}

pub(super) async fn io(State(array): Array) -> Answer<Vec<api::DoorIo>> {
    array.io().await.map(Json)
}

pub(super) async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], api::openapi_json()).into_response()
}

/// The page that the `type` of problems leads to.
pub(super) async fn problems() -> Response {
    ([(CONTENT_TYPE, "text/markdown; charset=utf-8")], crate::problems_reference()).into_response()
}

pub(super) async fn metrics(State(array): Array) -> Result<Response> {
    let text = array.metrics().await?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// For who starts it again when it hangs: the thread that serves hosts answers.
pub(super) async fn healthz(State(array): Array) -> Result<&'static str> {
    array.health().await.map(|_| "ok\n")
}

/// For who sends work to it: all known pools take writes.
pub(super) async fn readyz(State(array): Array) -> (StatusCode, String) {
    let reasons = array.reasons_not_ready().await;
    match reasons.is_empty() {
        true => (StatusCode::OK, "ready\n".to_string()),
        false => (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
    }
}

pub(super) async fn only_metrics() -> Error {
    Error::new(
        api::ErrorKind::NotFound,
        "this address answers GET /metrics, /healthz and /readyz, and nothing else",
        "ask the API: the socket, or the address of the setting `api`",
    )
}

pub(super) async fn no_such_path(uri: Uri) -> Error {
    Error::new(
        api::ErrorKind::NotFound,
        format!("there is no `{}`", uri.path().escape_debug()),
        "/openapi.json describes every operation",
    )
}

pub(super) async fn no_such_method(method: Method, uri: Uri) -> Error {
    Error::new(
        api::ErrorKind::NoSuchMethod,
        format!("`{}` takes no {method}", uri.path().escape_debug()),
        "the header `Allow` lists what it takes, and /openapi.json describes every operation",
    )
}
