//! The operations on schedules, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{Problem, Schedule, ScheduleChange, ScheduleCreate, ScheduleDeletion, SchedulesQuery, Snapshot};

/// All schedules.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", operation_id = "schedules_list",
    params(SchedulesQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Schedule>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn schedules_list() {}

/// Makes a schedule: snapshots are taken by themselves, and deleted in turn. One with proofs is for root over
/// the socket alone.
#[utoipa::path(
    post, path = "/v1/schedules", tag = "schedules", operation_id = "schedule_create",
    request_body = ScheduleCreate,
    responses(
        (status = 201, description = "the answer", body = Schedule),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "with proofs only for root over the socket", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn schedule_create() {}

/// One schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}", tag = "schedules", operation_id = "schedule_show",
    params(("schedule" = String, Path, description = "name of the schedule")),
    responses(
        (status = 200, description = "the answer", body = Schedule),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn schedule_show() {}

/// Deletes a schedule. Its snapshots stay unless they are to go, too; those that are held or used stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{schedule}", tag = "schedules", operation_id = "schedule_delete",
    params(
        ("schedule" = String, Path, description = "name of the schedule"),
        ("with_snapshots" = Option<bool>, Query, description = "delete its snapshots, too"),
    ),
    responses(
        (status = 200, description = "the answer", body = ScheduleDeletion),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn schedule_delete() {}

/// Changes how often a schedule takes snapshots, which it keeps, and whether it pauses.
#[utoipa::path(
    patch, path = "/v1/schedules/{schedule}", tag = "schedules", operation_id = "schedule_change",
    params(("schedule" = String, Path, description = "name of the schedule")),
    request_body = ScheduleChange,
    responses(
        (status = 200, description = "the answer", body = Schedule),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn schedule_change() {}

/// Takes a snapshot now, also while the schedule is paused.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/run", tag = "schedules", operation_id = "schedule_run",
    params(("schedule" = String, Path, description = "name of the schedule")),
    responses(
        (status = 201, description = "the answer", body = Snapshot),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn schedule_run() {}

/// Takes no snapshots until somebody lets it go on, and deletes none.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/pause", tag = "schedules", operation_id = "schedule_pause",
    params(("schedule" = String, Path, description = "name of the schedule")),
    responses(
        (status = 200, description = "the answer", body = Schedule),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn schedule_pause() {}

/// Takes snapshots again.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/resume", tag = "schedules", operation_id = "schedule_resume",
    params(("schedule" = String, Path, description = "name of the schedule")),
    responses(
        (status = 200, description = "the answer", body = Schedule),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn schedule_resume() {}
