//! The operations on hosts and exports, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{Export, ExportCreate, ExportsQuery, Host, HostChange, HostCreate, HostsQuery, Problem};

/// The hosts that may come in over iSCSI.
#[utoipa::path(
    get, path = "/v1/hosts", tag = "hosts", operation_id = "hosts_list",
    params(HostsQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Host>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn hosts_list() {}

/// Lets a host in.
#[utoipa::path(
    post, path = "/v1/hosts", tag = "hosts", operation_id = "host_create",
    request_body = HostCreate,
    responses(
        (status = 201, description = "the answer", body = Host),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn host_create() {}

/// One host.
#[utoipa::path(
    get, path = "/v1/hosts/{host}", tag = "hosts", operation_id = "host_show",
    params(("host" = String, Path, description = "name of the host")),
    responses(
        (status = 200, description = "the answer", body = Host),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn host_show() {}

/// Changes what a host proves, from its next login on. Its sessions and exports stay.
#[utoipa::path(
    patch, path = "/v1/hosts/{host}", tag = "hosts", operation_id = "host_change",
    params(("host" = String, Path, description = "name of the host")),
    request_body = HostChange,
    responses(
        (status = 200, description = "the answer", body = Host),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn host_change() {}

/// Lets a host in no more. Refused while exports name it, and while it is logged in.
#[utoipa::path(
    delete, path = "/v1/hosts/{host}", tag = "hosts", operation_id = "host_delete",
    params(
        ("host" = String, Path, description = "name of the host"),
        ("force" = Option<bool>, Query, description = "also one that is logged in: its sessions end"),
    ),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn host_delete() {}

/// The volumes that are exported over iSCSI.
#[utoipa::path(
    get, path = "/v1/exports", tag = "hosts", operation_id = "exports_list",
    params(ExportsQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Export>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn exports_list() {}

/// Exports a volume: hosts that are logged in see it at once.
#[utoipa::path(
    post, path = "/v1/exports", tag = "hosts", operation_id = "export_create",
    request_body = ExportCreate,
    responses(
        (status = 201, description = "the answer", body = Export),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn export_create() {}

/// The export of one volume.
#[utoipa::path(
    get, path = "/v1/exports/{volume}", tag = "hosts", operation_id = "export_show",
    params(("volume" = String, Path, description = "name of the volume")),
    responses(
        (status = 200, description = "the answer", body = Export),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn export_show() {}

/// Exports a volume no more, and forgets its reservations. Refused while a host that sees it is logged in.
#[utoipa::path(
    delete, path = "/v1/exports/{volume}", tag = "hosts", operation_id = "export_delete",
    params(
        ("volume" = String, Path, description = "name of the volume"),
        ("force" = Option<bool>, Query, description = "also one in use: hosts get errors"),
    ),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn export_delete() {}
