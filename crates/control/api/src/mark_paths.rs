//! The operations on marks, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{Mark, MarkCreate, MarksQuery, Problem};

/// Marks of the time line, the oldest first: those by hand, and the newest 200 each of snapshots, jobs and
/// events of level warning or error.
#[utoipa::path(
    get, path = "/v1/marks", tag = "marks", operation_id = "marks_list",
    params(MarksQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Mark>),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn marks_list() {}

/// Makes a mark. The newest 500 that were made are kept, also over a restart.
#[utoipa::path(
    post, path = "/v1/marks", tag = "marks", operation_id = "mark_create",
    request_body = MarkCreate,
    responses(
        (status = 201, description = "the answer", body = Mark),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn mark_create() {}

/// One mark.
#[utoipa::path(
    get, path = "/v1/marks/{mark}", tag = "marks", operation_id = "mark_show",
    params(("mark" = String, Path, description = "id of the mark")),
    responses(
        (status = 200, description = "the answer", body = Mark),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn mark_show() {}

/// Deletes a mark that was made by hand. Others go with what they are of.
#[utoipa::path(
    delete, path = "/v1/marks/{mark}", tag = "marks", operation_id = "mark_delete",
    params(("mark" = String, Path, description = "id of the mark")),
    responses(
        (status = 204, description = "done"),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn mark_delete() {}
