//! The operations on objectives, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{Objective, ObjectiveSet, ObjectivesQuery, Problem};

/// All objectives of latency, and how they fare.
#[utoipa::path(
    get, path = "/v1/objectives", tag = "objectives", operation_id = "objectives_list",
    params(ObjectivesQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Objective>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn objectives_list() {}

/// One objective.
#[utoipa::path(
    get, path = "/v1/objectives/{objective}", tag = "objectives", operation_id = "objective_show",
    params(("objective" = String, Path, description = "name of the database or the volume")),
    responses(
        (status = 200, description = "the answer", body = Objective),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn objective_show() {}

/// Gives a database or a volume an objective, in place of the one that it has. Where both are called so the
/// database is meant.
#[utoipa::path(
    put, path = "/v1/objectives/{objective}", tag = "objectives", operation_id = "objective_set",
    params(("objective" = String, Path, description = "name of the database or the volume")),
    request_body = ObjectiveSet,
    responses(
        (status = 200, description = "it is changed", body = Objective),
        (status = 201, description = "it is new", body = Objective),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn objective_set() {}

/// Deletes an objective. It goes by itself with its database or volume.
#[utoipa::path(
    delete, path = "/v1/objectives/{objective}", tag = "objectives", operation_id = "objective_delete",
    params(("objective" = String, Path, description = "name of the database or the volume")),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn objective_delete() {}
