//! The operations on the life of a database, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{
    Database, DatabaseDeletion, DatabaseHandover, DatabaseHooks, DatabaseReady, DatabaseStart, DatabaseUrl,
    DatabaseWaits, Problem,
};

/// Stops a database and deletes it with its volumes. Its clones stay. One with schedules is refused unless
/// they are to go, too.
#[utoipa::path(
    delete, path = "/v1/databases/{database}", tag = "databases", operation_id = "database_delete",
    params(
        ("database" = String, Path, description = "name of the database"),
        ("with_schedules" = Option<bool>, Query, description = "delete its schedules, too"),
    ),
    responses(
        (status = 200, description = "the answer", body = DatabaseDeletion),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_delete() {}

/// Gives a database without a server these commands instead of all that it has. The `ETag` of a database
/// tells which commands it has, and not their words.
#[utoipa::path(
    put, path = "/v1/databases/{database}/commands", tag = "databases", operation_id = "database_commands",
    params(("database" = String, Path, description = "name of the database")),
    request_body = DatabaseHooks,
    responses(
        (status = 200, description = "the answer", body = Database),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_commands() {}

/// What the sessions of a database wait for, looked at for some seconds.
#[utoipa::path(
    get, path = "/v1/databases/{database}/waits", tag = "databases", operation_id = "database_waits",
    params(
        ("database" = String, Path, description = "name of the database"),
        ("seconds" = Option<u64>, Query, description = "how long, 1 to 60; absent: 3"),
    ),
    responses(
        (status = 200, description = "the answer", body = DatabaseWaits),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "it does not run", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_waits() {}

/// Where a database is found, with the password of its superuser.
#[utoipa::path(
    get, path = "/v1/databases/{database}/url", tag = "databases", operation_id = "database_url",
    params(("database" = String, Path, description = "name of the database")),
    responses(
        (status = 200, description = "the answer", body = DatabaseUrl),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn database_url() {}

/// Mounts a database's volumes where they are not, and starts its server.
#[utoipa::path(
    post, path = "/v1/databases/{database}/start", tag = "databases", operation_id = "database_start",
    params(("database" = String, Path, description = "name of the database")),
    request_body = Option<DatabaseStart>,
    responses(
        (status = 200, description = "the answer", body = DatabaseReady),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_start() {}

/// Stops the server of a database. It is not started again until somebody asks.
#[utoipa::path(
    post, path = "/v1/databases/{database}/stop", tag = "databases", operation_id = "database_stop",
    params(("database" = String, Path, description = "name of the database")),
    responses(
        (status = 200, description = "the answer", body = Database),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_stop() {}

/// What the machine needs that a clone is away at, with a script that does it.
#[utoipa::path(
    get, path = "/v1/databases/{database}/handover", tag = "databases", operation_id = "database_handover",
    params(("database" = String, Path, description = "name of the clone")),
    responses(
        (status = 200, description = "the answer", body = DatabaseHandover),
        (status = 400, description = "it is not away", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "one of its volumes is exported no more", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_handover() {}

/// Takes a clone back that is away: its exports end, its volumes are mounted here, and its server starts.
/// Whatever still runs on the other machine loses them as by a loss of power.
#[utoipa::path(
    post, path = "/v1/databases/{database}/return", tag = "databases", operation_id = "database_return",
    params(("database" = String, Path, description = "name of the clone")),
    responses(
        (status = 200, description = "the answer", body = DatabaseReady),
        (status = 400, description = "it is not away", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_return() {}
