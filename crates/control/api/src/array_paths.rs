//! The operations on attachments, clients, and the array as a whole, declared as [`paths`](crate::paths)
//! declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{
    AttachRequest, Attachment, AttachmentsQuery, ClientsQuery, DoorClient, DoorIo, Event, EventsQuery,
    Health, Problem, Program, Session, Status, StopRequest, UpgradeRequest,
};

/// The attached volumes.
#[utoipa::path(
    get, path = "/v1/attachments", tag = "attachments", operation_id = "attachments_list",
    params(AttachmentsQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Attachment>),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn attachments_list() {}

/// Attaches a volume as a block device of this machine.
#[utoipa::path(
    post, path = "/v1/attachments", tag = "attachments", operation_id = "attachment_create",
    request_body = AttachRequest,
    responses(
        (status = 201, description = "the answer", body = Attachment),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "a drive or a tool of this machine failed", body = Problem),
    )
)]
fn attachment_create() {}

/// One attachment.
#[utoipa::path(
    get, path = "/v1/attachments/{volume}", tag = "attachments", operation_id = "attachment_show",
    params(("volume" = String, Path, description = "name of the volume")),
    responses(
        (status = 200, description = "the answer", body = Attachment),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn attachment_show() {}

/// Unmounts and detaches a volume.
#[utoipa::path(
    delete, path = "/v1/attachments/{volume}", tag = "attachments", operation_id = "attachment_delete",
    params(
        ("volume" = String, Path, description = "name of the volume"),
        ("force" = Option<bool>, Query, description = "unmount lazily what is in use; the device goes with its last user"),
    ),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "a drive or a tool of this machine failed", body = Problem),
    )
)]
fn attachment_delete() {}

/// The clients that are connected to NBD, and the initiators that are logged in over iSCSI.
#[utoipa::path(
    get, path = "/v1/clients", tag = "array", operation_id = "clients_list",
    params(ClientsQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<DoorClient>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn clients_list() {}

/// Cuts a client off. Its requests under way run to their end; it may come back.
#[utoipa::path(
    delete, path = "/v1/clients/{client}", tag = "array", operation_id = "client_disconnect",
    params(("client" = u64, Path, description = "id of the client")),
    responses(
        (status = 204, description = "done"),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn client_disconnect() {}

/// Stops the array in order, as SIGTERM does. The answer comes before the end;
/// with `detach`, after every volume is detached.
#[utoipa::path(
    post, path = "/v1/stop", tag = "array", operation_id = "stop",
    request_body = StopRequest,
    responses(
        (status = 202, description = "it stops"),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 409, description = "a volume is in use", body = Problem),
        (status = 500, description = "a volume could not be detached", body = Problem),
    )
)]
fn stop() {}

/// Stops the array in order and goes on with another program in the same process. What is attached waits
/// meanwhile. For root over the socket only.
#[utoipa::path(
    post, path = "/v1/upgrade", tag = "array", operation_id = "upgrade",
    request_body = UpgradeRequest,
    responses(
        (status = 202, description = "it goes on with this program", body = Program),
        (status = 400, description = "that program cannot take over", body = Problem),
        (status = 403, description = "only for root over the socket", body = Problem),
    )
)]
fn upgrade() {}

/// Answers when the thread that serves hosts answers.
#[utoipa::path(
    get, path = "/v1/health", tag = "array", operation_id = "health",
    responses(
        (status = 200, description = "the answer", body = Health),
    )
)]
fn health() {}

/// The array as a whole.
#[utoipa::path(
    get, path = "/v1/status", tag = "array", operation_id = "status",
    responses(
        (status = 200, description = "the answer", body = Status),
    )
)]
fn status() {}

/// What the one who asks may do.
#[utoipa::path(
    get, path = "/v1/session", tag = "array", operation_id = "session",
    responses(
        (status = 200, description = "the answer", body = Session),
    )
)]
fn session() {}

/// What hosts did, per volume and door.
#[utoipa::path(
    get, path = "/v1/io", tag = "array", operation_id = "io",
    responses(
        (status = 200, description = "the answer", body = Vec<DoorIo>),
    )
)]
fn io() {}

/// The newest events, oldest first. With `limit` and `order=descending` the newest ones first.
#[utoipa::path(
    get, path = "/v1/events", tag = "array", operation_id = "events",
    params(EventsQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Event>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn events() {}
