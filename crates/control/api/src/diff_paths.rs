//! The operations that tell what differs, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{DatabaseDiff, DatabaseDiffRequest, Problem, VolumeDiff};

/// What differs between two volumes or images of one pool, by their maps alone: no data is read, and what
/// they share costs nothing. Both are taken at one instant. What differs is listed in pages; of volumes in
/// use each page is of another instant, so name snapshots to have them agree.
#[utoipa::path(
    get, path = "/v1/volumes/{volume}/diff", tag = "volumes", operation_id = "volume_diff",
    params(
        ("volume" = String, Path, description = "VOLUME or VOLUME@SNAPSHOT"),
        ("with" = String, Query, description = "VOLUME or VOLUME@SNAPSHOT, of the same pool"),
        ("from_bytes" = Option<u64>, Query, description = "where to begin; `next_bytes` of the answer before"),
        ("ranges_count" = Option<u64>, Query, description = "ranges to list at most, 1 to 10000; 1000 if absent"),
        ("within_seconds" = Option<u64>, Query, description = "how long it may take, 1 to 3600; 60 if absent"),
    ),
    responses(
        (status = 200, description = "the answer", body = VolumeDiff),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "it would take longer, or the pool has no room left", body = Problem),
    )
)]
fn volume_diff() {}

/// What differs between two databases, or snapshots of them, by relation. Both are cloned and recover; pages
/// whose blocks differ by the maps are read and compared, no others. Then the clones are removed again.
#[utoipa::path(
    post, path = "/v1/databases/{database}/diff", tag = "databases", operation_id = "database_diff",
    params(("database" = String, Path, description = "name of the database")),
    request_body = DatabaseDiffRequest,
    responses(
        (status = 200, description = "the answer", body = DatabaseDiff),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_diff() {}
