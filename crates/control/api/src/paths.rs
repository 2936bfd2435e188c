//! Every operation of the API, declared for the OpenAPI description; the daemon serves exactly these.
//!
//! The functions have no bodies: the attribute turns each into a description.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{
    CheckReport, CloneCreate, Database, DatabaseClone, DatabaseCreate, DatabaseExpiry, DatabaseFollow,
    DatabaseImport, DatabasePromotion, DatabaseProof, DatabaseReady, DatabaseReset, DatabaseResize,
    DatabaseRestore, DatabaseSettings, DatabaseSettingsChange, DatabaseSnapshot, DatabaseVerify,
    DatabasesQuery, Dedupe, DedupeRequest, DeletedVolume, DeletedVolumesQuery, Disconnected, DriveChange,
    DriveOnline, DriveSpec, DrivesAdd, HoldRequest, Holders, Pool, PoolCreate, PoolImport, PoolSpace,
    PoolsQuery, Problem, Reclaim, ReclaimRequest, Restored, ScrubChange, ScrubReport, Snapshot,
    SnapshotCreate, SnapshotsDelete, SnapshotsQuery, Volume, VolumeCreate, VolumeDeletion, VolumePolicy,
    VolumeResize, VolumeUndelete, VolumeUser, VolumesQuery,
};

/// All pools, also those that could not be opened.
#[utoipa::path(
    get, path = "/v1/pools", tag = "pools", operation_id = "pools_list",
    params(PoolsQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Pool>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn pools_list() {}

/// Makes a pool of drives. Drives that carry a pool are refused.
#[utoipa::path(
    post, path = "/v1/pools", tag = "pools", operation_id = "pool_create",
    request_body = PoolCreate,
    responses(
        (status = 201, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn pool_create() {}

/// One pool with its drives and space.
#[utoipa::path(
    get, path = "/v1/pools/{pool}", tag = "pools", operation_id = "pool_show",
    params(("pool" = String, Path, description = "name of the pool")),
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn pool_show() {}

/// Destroys an empty pool: its drives no longer carry it.
#[utoipa::path(
    delete, path = "/v1/pools/{pool}", tag = "pools", operation_id = "pool_delete",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("force" = Option<bool>, Query, description = "though deleted volumes in it can still come back"),
    ),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn pool_delete() {}

/// Walks every root and verifies every header and checksum, and all parity if asked.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/check", tag = "pools", operation_id = "pool_check",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("is_deep" = Option<bool>, Query, description = "compare every segment with its parity, too"),
    ),
    responses(
        (status = 200, description = "the answer", body = CheckReport),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn pool_check() {}

/// Checks a pool, then compares every segment with its parity and sets right what is wrong.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/scrub", tag = "pools", operation_id = "pool_scrub",
    params(("pool" = String, Path, description = "name of the pool")),
    responses(
        (status = 200, description = "the answer", body = ScrubReport),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn pool_scrub() {}

/// Holds the scrub of a pool, lets it go on, or ends it.
#[utoipa::path(
    patch, path = "/v1/pools/{pool}/scrub", tag = "pools", operation_id = "pool_scrub_change",
    params(("pool" = String, Path, description = "name of the pool")),
    request_body = ScrubChange,
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong, or no scrub is under way", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn pool_scrub_change() {}

/// Closes a pool and forgets it; its drives keep it for an import.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/export", tag = "pools", operation_id = "pool_export",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("force" = Option<bool>, Query, description = "close it though volumes are in use; their users then get errors"),
    ),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn pool_export() {}

/// Opens a pool from its drives and remembers it.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/import", tag = "pools", operation_id = "pool_import",
    params(("pool" = String, Path, description = "name of the pool")),
    request_body = PoolImport,
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn pool_import() {}

/// Opens a pool again that stopped writing, or that is not open. One that takes writes is left alone.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/reopen", tag = "pools", operation_id = "pool_reopen",
    params(("pool" = String, Path, description = "name of the pool")),
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "the drives take no writes", body = Problem),
    )
)]
fn pool_reopen() {}

/// Adds drives to a pool. Nothing is moved: when it answers, there is more room.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/drives", tag = "pools", operation_id = "drives_add",
    params(("pool" = String, Path, description = "name of the pool")),
    request_body = DrivesAdd,
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "a drive or a tool of this machine failed", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn drives_add() {}

/// Declares what may be written to a drive in its life.
#[utoipa::path(
    patch, path = "/v1/pools/{pool}/drives/{number}", tag = "pools", operation_id = "drive_set",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("number" = u32, Path, description = "number of the drive in its pool, from 0"),
    ),
    request_body = DriveChange,
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn drive_set() {}

/// Puts a new drive in the place of another. Answers when the pool writes to it; what it lacks is rebuilt in
/// the background. A drive that is in service goes on serving until then.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/drives/{number}/replace", tag = "pools", operation_id = "drive_replace",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("number" = u32, Path, description = "number of the drive in its pool, from 0"),
    ),
    request_body = DriveSpec,
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "a drive or a tool of this machine failed", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn drive_replace() {}

/// Takes a drive back into service that was away: what was written meanwhile is rebuilt in the background.
/// One that is leaving stays. Changes nothing when the drive is in service.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/drives/{number}/online", tag = "pools", operation_id = "drive_online",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("number" = u32, Path, description = "number of the drive in its pool, from 0"),
    ),
    request_body = DriveOnline,
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "a drive or a tool of this machine failed", body = Problem),
    )
)]
fn drive_online() {}

/// Takes a drive out of service, if the pool can do without it. Changes nothing when it is out already.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/drives/{number}/offline", tag = "pools", operation_id = "drive_offline",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("number" = u32, Path, description = "number of the drive in its pool, from 0"),
    ),
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn drive_offline() {}

/// Lets a drive leave for good: what is on it moves to the others without protection, and with it to spare
/// space, also when the drive is out of service. Answers when that is under way in the background; when
/// all is elsewhere the drive no longer carries the pool. Without protection the others may have to win room
/// first. Changes nothing when it is leaving already. Taken back into service, it stays.
#[utoipa::path(
    delete, path = "/v1/pools/{pool}/drives/{number}", tag = "pools", operation_id = "drive_remove",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("number" = u32, Path, description = "number of the drive in its pool, from 0"),
    ),
    responses(
        (status = 200, description = "the answer", body = Pool),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "a drive or a tool of this machine failed", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn drive_remove() {}

/// Where a pool's bytes are, in parts that sum to physical; each volume's and snapshot's share.
#[utoipa::path(
    get, path = "/v1/pools/{pool}/space", tag = "space", operation_id = "pool_space",
    params(
        ("pool" = String, Path, description = "name of the pool"),
        ("is_quick" = Option<bool>, Query, description = "answer at once by the last mark, do not walk"),
        ("within_seconds" = Option<u64>, Query, description = "a walk ends after so long, 60 by default; \
            the answer is then by the last mark and says so"),
    ),
    responses(
        (status = 200, description = "the answer", body = PoolSpace),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 503, description = "the pool does not serve", body = Problem),
    )
)]
fn pool_space() {}

/// The fingerprint index of a pool, and what was found with it.
#[utoipa::path(
    get, path = "/v1/pools/{pool}/dedupe", tag = "pools", operation_id = "pool_dedupe",
    params(("pool" = String, Path, description = "name of the pool")),
    responses(
        (status = 200, description = "the answer", body = Dedupe),
        (status = 404, description = "no such object", body = Problem),
        (status = 503, description = "the pool does not serve", body = Problem),
    )
)]
fn pool_dedupe() {}

/// Rebuilds, drops or resizes the fingerprint index, while the pool serves.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/dedupe", tag = "pools", operation_id = "pool_dedupe_change",
    params(("pool" = String, Path, description = "name of the pool")),
    request_body = DedupeRequest,
    responses(
        (status = 200, description = "the answer", body = Dedupe),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 503, description = "the pool does not serve", body = Problem),
    )
)]
fn pool_dedupe_change() {}

/// What deleting a set of volumes and snapshots together would give back. Deletes nothing.
#[utoipa::path(
    post, path = "/v1/space/reclaim", tag = "space", operation_id = "space_reclaim",
    request_body = ReclaimRequest,
    responses(
        (status = 200, description = "the answer", body = Reclaim),
        (status = 400, description = "the request is wrong, or a name is ambiguous", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "not counted in the time allowed", body = Problem),
    )
)]
fn space_reclaim() {}

/// What keeps the overwritten space of a volume, or the space of a snapshot.
#[utoipa::path(
    get, path = "/v1/space/holders/{name}", tag = "space", operation_id = "space_holders",
    params(
        ("name" = String, Path, description = "a volume, a snapshot, or VOLUME@SNAPSHOT"),
        ("within_seconds" = Option<u64>, Query, description = "counting ends after so long, 60 by default"),
    ),
    responses(
        (status = 200, description = "the answer", body = Holders),
        (status = 400, description = "the request is wrong, or the name is ambiguous", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "not counted in the time allowed", body = Problem),
    )
)]
fn space_holders() {}

/// All volumes of all pools.
#[utoipa::path(
    get, path = "/v1/volumes", tag = "volumes", operation_id = "volumes_list",
    params(VolumesQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Volume>),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn volumes_list() {}

/// Makes a thin volume.
#[utoipa::path(
    post, path = "/v1/volumes", tag = "volumes", operation_id = "volume_create",
    request_body = VolumeCreate,
    responses(
        (status = 201, description = "the answer", body = Volume),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn volume_create() {}

/// One volume.
#[utoipa::path(
    get, path = "/v1/volumes/{volume}", tag = "volumes", operation_id = "volume_show",
    params(("volume" = String, Path, description = "name of the volume")),
    responses(
        (status = 200, description = "the answer", body = Volume),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn volume_show() {}

/// Changes a volume's size, also while it is attached.
#[utoipa::path(
    patch, path = "/v1/volumes/{volume}", tag = "volumes", operation_id = "volume_resize",
    params(("volume" = String, Path, description = "name of the volume")),
    request_body = VolumeResize,
    responses(
        (status = 200, description = "the answer", body = Volume),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn volume_resize() {}

/// Changes how a volume's data are reduced from now on.
#[utoipa::path(
    put, path = "/v1/volumes/{volume}/policy", tag = "volumes", operation_id = "volume_set",
    params(("volume" = String, Path, description = "name of the volume")),
    request_body = VolumePolicy,
    responses(
        (status = 200, description = "the answer", body = Volume),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn volume_set() {}

/// Deletes a volume that nobody uses. Its snapshots stay. It can come back for as long as the setting
/// `deleted_volumes_hours` says, unless room is needed.
#[utoipa::path(
    delete, path = "/v1/volumes/{volume}", tag = "volumes", operation_id = "volume_delete",
    params(
        ("volume" = String, Path, description = "name of the volume"),
        ("force" = Option<bool>, Query, description = "though somebody uses it, who then gets errors, or a database has it"),
        ("now" = Option<bool>, Query, description = "delete it for good"),
    ),
    responses(
        (status = 200, description = "done", body = VolumeDeletion),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn volume_delete() {}

/// The deleted volumes that can come back, of all pools, the one kept longest first.
#[utoipa::path(
    get, path = "/v1/deleted-volumes", tag = "volumes", operation_id = "deleted_volumes_list",
    params(DeletedVolumesQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<DeletedVolume>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn deleted_volumes_list() {}

/// Brings a deleted volume back with all it held.
#[utoipa::path(
    post, path = "/v1/deleted-volumes/{volume}/undelete", tag = "volumes", operation_id = "volume_undelete",
    params(("volume" = String, Path, description = "NAME of the one deleted last, or NAME:ID")),
    request_body = Option<VolumeUndelete>,
    responses(
        (status = 200, description = "the answer", body = Volume),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn volume_undelete() {}

/// Gives up a deleted volume: it cannot come back, and its space is free.
#[utoipa::path(
    delete, path = "/v1/deleted-volumes/{volume}", tag = "volumes", operation_id = "deleted_volume_purge",
    params(("volume" = String, Path, description = "NAME, if there is one deleted volume of it, or NAME:ID")),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn deleted_volume_purge() {}

/// Everybody who uses a volume or an image of it: attachments, mounts in every namespace, devices built on
/// it, processes, NBD clients.
#[utoipa::path(
    get, path = "/v1/volumes/{volume}/users", tag = "volumes", operation_id = "volume_users",
    params(("volume" = String, Path, description = "VOLUME, its snapshots included, or VOLUME@SNAPSHOT")),
    responses(
        (status = 200, description = "the answer", body = Vec<VolumeUser>),
        (status = 404, description = "no such object", body = Problem),
        (status = 500, description = "a drive or a tool of this machine failed", body = Problem),
    )
)]
fn volume_users() {}

/// Cuts off the NBD clients of a volume or of an image. Unmounts and detaches nothing: the answer says what
/// remains.
#[utoipa::path(
    post, path = "/v1/volumes/{volume}/disconnect", tag = "volumes", operation_id = "volume_disconnect",
    params(("volume" = String, Path, description = "VOLUME, its snapshots included, or VOLUME@SNAPSHOT")),
    responses(
        (status = 200, description = "the answer", body = Disconnected),
        (status = 404, description = "no such object", body = Problem),
        (status = 500, description = "a drive or a tool of this machine failed", body = Problem),
    )
)]
fn volume_disconnect() {}

/// All snapshots of all pools, the oldest first.
#[utoipa::path(
    get, path = "/v1/snapshots", tag = "snapshots", operation_id = "snapshots_list",
    params(SnapshotsQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Snapshot>),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn snapshots_list() {}

/// Takes a snapshot of all the named volumes at one instant.
#[utoipa::path(
    post, path = "/v1/snapshots", tag = "snapshots", operation_id = "snapshot_create",
    request_body = SnapshotCreate,
    responses(
        (status = 201, description = "the answer", body = Snapshot),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn snapshot_create() {}

/// One snapshot.
#[utoipa::path(
    get, path = "/v1/snapshots/{snapshot}", tag = "snapshots", operation_id = "snapshot_show",
    params(("snapshot" = String, Path, description = "name of the snapshot")),
    responses(
        (status = 200, description = "the answer", body = Snapshot),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn snapshot_show() {}

/// Deletes a snapshot. Clones made from it stay. Refused while it is held.
#[utoipa::path(
    delete, path = "/v1/snapshots/{snapshot}", tag = "snapshots", operation_id = "snapshot_delete",
    params(
        ("snapshot" = String, Path, description = "name of the snapshot"),
        ("force" = Option<bool>, Query, description = "though somebody reads it, who gets errors, or a clone is reset to it"),
    ),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn snapshot_delete() {}

/// Deletes several snapshots for little more than the time of one. All are checked first, and none is
/// deleted where one cannot be. Where a pool fails on the way, the error tells how many are deleted.
#[utoipa::path(
    post, path = "/v1/snapshot-deletions", tag = "snapshots", operation_id = "snapshots_delete",
    request_body = SnapshotsDelete,
    responses(
        (status = 204, description = "done"),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn snapshots_delete() {}

/// Sets its volumes back to the snapshot. What they were before is kept in another snapshot, taken in the
/// same instant. Refused while one is attached.
#[utoipa::path(
    post, path = "/v1/snapshots/{snapshot}/restore", tag = "snapshots", operation_id = "snapshot_restore",
    params(
        ("snapshot" = String, Path, description = "name of the snapshot"),
        ("force" = Option<bool>, Query, description = "cut off NBD clients, and processes that have a file of a volume open"),
        ("no_backup" = Option<bool>, Query, description = "keep nothing: what was written since is lost"),
    ),
    responses(
        (status = 200, description = "done", body = Restored),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn snapshot_restore() {}

/// Holds a snapshot: nobody and nothing deletes it until it is released.
#[utoipa::path(
    put, path = "/v1/snapshots/{snapshot}/hold", tag = "snapshots", operation_id = "snapshot_hold",
    params(("snapshot" = String, Path, description = "name of the snapshot")),
    request_body = Option<HoldRequest>,
    responses(
        (status = 200, description = "the answer", body = Snapshot),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn snapshot_hold() {}

/// Ends the hold of a snapshot, if there is one.
#[utoipa::path(
    delete, path = "/v1/snapshots/{snapshot}/hold", tag = "snapshots", operation_id = "snapshot_release",
    params(("snapshot" = String, Path, description = "name of the snapshot")),
    responses(
        (status = 200, description = "the answer", body = Snapshot),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn snapshot_release() {}

/// Makes writable volumes from a snapshot, at no space.
#[utoipa::path(
    post, path = "/v1/clones", tag = "snapshots", operation_id = "clone_create",
    request_body = CloneCreate,
    responses(
        (status = 201, description = "the answer", body = Vec<Volume>),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn clone_create() {}

/// All databases.
#[utoipa::path(
    get, path = "/v1/databases", tag = "databases", operation_id = "databases_list",
    params(DatabasesQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Database>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn databases_list() {}

/// Makes an empty database and starts its server.
#[utoipa::path(
    post, path = "/v1/databases", tag = "databases", operation_id = "database_create",
    request_body = DatabaseCreate,
    responses(
        (status = 201, description = "the answer", body = DatabaseReady),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_create() {}

/// One database.
#[utoipa::path(
    get, path = "/v1/databases/{database}", tag = "databases", operation_id = "database_show",
    params(("database" = String, Path, description = "name of the database")),
    responses(
        (status = 200, description = "the answer", body = Database),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn database_show() {}

/// Makes a database of the content of another, at no space, and starts its server.
#[utoipa::path(
    post, path = "/v1/databases/{database}/clone", tag = "databases", operation_id = "database_clone",
    params(("database" = String, Path, description = "name of the database")),
    request_body = DatabaseClone,
    responses(
        (status = 201, description = "the answer", body = DatabaseReady),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_clone() {}

/// Gives a clone the content of its origin: what it holds is lost.
#[utoipa::path(
    post, path = "/v1/databases/{database}/reset", tag = "databases", operation_id = "database_reset",
    params(("database" = String, Path, description = "name of the database")),
    request_body = Option<DatabaseReset>,
    responses(
        (status = 200, description = "the answer", body = DatabaseReady),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_reset() {}

/// Sets a database back to a snapshot of its volumes. What it was before is kept in another snapshot.
#[utoipa::path(
    post, path = "/v1/databases/{database}/restore", tag = "databases", operation_id = "database_restore",
    params(("database" = String, Path, description = "name of the database")),
    request_body = DatabaseRestore,
    responses(
        (status = 200, description = "the answer", body = DatabaseReady),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_restore() {}

/// Starts a server on a clone of a snapshot, has everything in it checked, and removes the clone.
#[utoipa::path(
    post, path = "/v1/databases/{database}/verify", tag = "databases", operation_id = "database_verify",
    params(("database" = String, Path, description = "name of the database")),
    request_body = Option<DatabaseVerify>,
    responses(
        (status = 200, description = "the answer", body = DatabaseProof),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_verify() {}

/// The settings of a database's server that Ashlar keeps, and which of them wait for a restart.
#[utoipa::path(
    get, path = "/v1/databases/{database}/settings", tag = "databases", operation_id = "database_settings",
    params(("database" = String, Path, description = "name of the database")),
    responses(
        (status = 200, description = "the answer", body = DatabaseSettings),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_settings() {}

/// Changes settings of a database's server, which reads them at once.
#[utoipa::path(
    patch, path = "/v1/databases/{database}/settings", tag = "databases",
    operation_id = "database_settings_change",
    params(("database" = String, Path, description = "name of the database")),
    request_body = DatabaseSettingsChange,
    responses(
        (status = 200, description = "the answer", body = DatabaseSettings),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_settings_change() {}

/// Enlarges volumes of a database with their file systems, while it runs.
#[utoipa::path(
    post, path = "/v1/databases/{database}/resize", tag = "databases", operation_id = "database_resize",
    params(("database" = String, Path, description = "name of the database")),
    request_body = DatabaseResize,
    responses(
        (status = 200, description = "the answer", body = Database),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_resize() {}

/// Takes a snapshot of databases of one pool at one instant, without stopping them.
#[utoipa::path(
    post, path = "/v1/database-snapshots", tag = "databases", operation_id = "database_snapshot",
    request_body = DatabaseSnapshot,
    responses(
        (status = 201, description = "the answer", body = Snapshot),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_snapshot() {}

/// Brings a database in: from a directory of a stopped server, by a base backup, or by a dump.
#[utoipa::path(
    post, path = "/v1/database-imports", tag = "databases", operation_id = "database_import",
    request_body = DatabaseImport,
    responses(
        (status = 201, description = "the answer", body = DatabaseReady),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_import() {}

/// Makes a standby of a running server: it streams the primary's log.
#[utoipa::path(
    post, path = "/v1/database-standbys", tag = "databases", operation_id = "database_follow",
    request_body = DatabaseFollow,
    responses(
        (status = 201, description = "the answer", body = DatabaseReady),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
        (status = 507, description = "no space left", body = Problem),
    )
)]
fn database_follow() {}

/// Ends the following of a standby: it becomes a database of its own.
#[utoipa::path(
    post, path = "/v1/databases/{database}/promote", tag = "databases", operation_id = "database_promote",
    params(("database" = String, Path, description = "name of the database")),
    responses(
        (status = 200, description = "the answer", body = DatabasePromotion),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "this machine or the database is at fault", body = Problem),
    )
)]
fn database_promote() {}

/// Sets when a clone is deleted, or that it is not.
#[utoipa::path(
    put, path = "/v1/databases/{database}/expiry", tag = "databases", operation_id = "database_expire",
    params(("database" = String, Path, description = "name of the clone")),
    request_body = DatabaseExpiry,
    responses(
        (status = 200, description = "the answer", body = Database),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
    )
)]
fn database_expire() {}
