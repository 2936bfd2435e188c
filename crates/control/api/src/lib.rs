//! The API: types of every resource and their OpenAPI description.
//!
//! The daemon answers with these types, the client and the command line read them, and
//! `docs/reference/openapi.json` is generated from them by [`openapi_json`]. This crate holds no
//! behaviour. Sizes and rates are plain numbers with the unit in the name.

mod access;
mod access_paths;
mod answers;
mod array_paths;
mod attachment;
mod bounds;
mod client;
mod console;
mod console_paths;
mod database;
mod database_change;
mod database_paths;
mod dedupe;
mod diff_paths;
mod difference;
mod error;
mod event;
mod figures;
mod handover;
mod hooks;
mod host;
mod host_paths;
mod import;
mod io;
mod io_profile;
mod job;
mod job_paths;
mod lab;
mod lab_paths;
mod lifecycle;
mod lists;
mod mark;
mod mark_paths;
mod objective;
mod objective_paths;
mod openapi;
mod paths;
mod pool;
mod problem;
mod roles;
mod schedule;
mod schedule_paths;
mod session;
mod settings;
mod settings_paths;
mod snapshot;
mod space;
mod status;
mod user;
mod volume;
mod waits;

#[cfg(test)]
mod tests;

pub use access::{
    ApiToken, AuditEntry, PASSWORD_LETTERS_MAX, PASSWORD_LETTERS_MIN, PasswordChange, Role, SessionCreate,
    SessionOpened, TOKEN_SECONDS_MAX, TokenCreate, TokenCreated, TokenScope, User, UserChange, UserCreate,
};
pub use attachment::{AttachRequest, Attachment, FileSystem, Outlives};
pub use bounds::{
    EVERY_SECONDS_MAX, EXPIRY_SECONDS_MAX, FLOOR_MICROS_MAX, HOOK_SECONDS_MAX, KEY_BYTES_MAX,
    LOOK_SECONDS_MAX, MEMORY_BYTES_MIN, PORT_MIN, START_SECONDS_MAX, VOLUME_BYTES_MAX, WITHIN_SECONDS_MAX,
};
pub use client::{DoorClient, Health};
pub use console::{ConsoleSession, ConsoleSessionCreate, ConsoleTicket};
pub use database::{
    Database, DatabaseClone, DatabaseCreate, DatabaseDeletion, DatabaseExpiry, DatabaseOrigin, DatabaseProof,
    DatabaseReady, DatabaseReset, DatabaseRestore, DatabaseSnapshot, DatabaseState, DatabaseTablespace,
    DatabaseUrl, DatabaseVerify, DatabaseVolume,
};
pub use database_change::{
    DatabaseAutoGrow, DatabaseResize, DatabaseSettings, DatabaseSettingsChange, DatabaseStart,
};
pub use dedupe::{Dedupe, DedupeAction, DedupeBlocks, DedupeRequest};
pub use difference::{
    ByteRange, DIFF_COPIES, DatabaseDiff, DatabaseDiffRequest, DatabaseVolumeDiff, FilesDiff, RANGES_DEFAULT,
    RANGES_MAX, RelationChange, RelationDiff, VolumeDiff,
};
pub use error::ErrorKind;
pub use event::{Event, EventLevel};
pub use figures::{
    Figures, Hello, History, HistoryPoint, HistoryRange, Latencies, Latency, LatencyStep, PoolFigures, Rates,
    SlowRequest, StageTime, VolumeFigures,
};
pub use handover::{DatabaseAway, DatabaseHandover, DatabaseHandoverVolume};
pub use hooks::{DatabaseCommands, DatabaseEngine, DatabaseHooks};
pub use host::{ChapLogin, Export, ExportCreate, Host, HostChange, HostCreate, HostSession, UNIT_MAX};
pub use import::{DatabaseFollow, DatabaseImport, DatabaseProgress, DatabasePromotion, DatabaseStandby};
pub use io::{DoorIo, OperationIo};
pub use io_profile::{IoProfile, RequestProfile, SizeClass};
pub use job::{Job, JobKind, JobProgress, JobResult, JobState, ProgressUnit};
pub use lab::{LabCheck, LabMetric, LabPart, LabResult, LabRow};
pub use lifecycle::{Program, StopRequest, UpgradeRequest};
pub use lists::{
    AttachmentSort, AttachmentsQuery, AuditQuery, AuditSort, ClientSort, ClientsQuery, DatabaseSort,
    DatabasesQuery, DeletedVolumeSort, DeletedVolumesQuery, EventSort, EventsQuery, ExportSort, ExportsQuery,
    HostSort, HostsQuery, JobSort, JobsQuery, LIMIT_MAX, MarkSort, MarksQuery, ObjectiveSort,
    ObjectivesQuery, Order, PageQuery, PoolSort, PoolsQuery, ScheduleSort, SchedulesQuery, SnapshotSort,
    SnapshotsQuery, TokenSort, TokensQuery, UserSort, UsersQuery, VolumeSort, VolumesQuery,
};
pub use mark::{DERIVED_MARKS_MAX, MARK_LETTERS_MAX, MARKS_MAX, Mark, MarkCreate, MarkKind};
pub use objective::{
    OBJECTIVE_MICROS_MAX, OBJECTIVE_SECONDS_MAX, OBJECTIVE_SECONDS_MIN, Objective, ObjectiveKind,
    ObjectiveRequests, ObjectiveSet,
};
pub use openapi::{
    conditional_operations, openapi, openapi_json, operations, operations_by_place, query_parameters,
    root_only_operations, root_operations, secret_operations,
};
pub use pool::{
    CheckReport, Drive, DriveChange, DriveOnline, DriveSpec, DrivesAdd, ParityCheck, Pool, PoolCreate,
    PoolImport, PoolState, Protection, Rebuild, Recovery, RecoveryStep, Removal,
    SEGMENT_NUMBERS_PERCENT_LATE, Scrub, ScrubAction, ScrubChange, ScrubReport, Space, TAKEN_OUT,
};
pub use problem::{ObjectKind, ObjectName, PROBLEM_MEDIA_TYPE, PROBLEMS_PATH, Problem, Reason, Remedy};
pub use roles::{Least, least_for, operations_above};
pub use schedule::{
    Schedule, ScheduleChange, ScheduleCreate, ScheduleDeletion, ScheduleProof, ScheduleState,
};
pub use session::{CallerKind, Session};
pub use settings::{ArraySettings, Reloaded, Setting};
pub use snapshot::{
    CloneCreate, HoldRequest, Restored, Snapshot, SnapshotCreate, SnapshotHold, SnapshotsDelete,
};
pub use space::{
    Holder, Holders, HoldersQuestion, PoolSpace, Reclaim, ReclaimRequest, SpaceBasis, SpaceParts,
    VolumeSpace, WITHIN_SECONDS_DEFAULT,
};
pub use status::{Door, DoorState, PoolSummary, Status};
pub use user::{Disconnected, UseKind, VolumeUser};
pub use volume::{
    Compression, DeletedVolume, Profile, Volume, VolumeClass, VolumeCreate, VolumeDeletion, VolumeFloor,
    VolumePolicy, VolumeResize, VolumeUndelete,
};
pub use waits::{DatabaseWait, DatabaseWaits, WaitCause};

/// The pattern every name of a pool, volume, snapshot or clone follows.
pub const NAME_PATTERN: &str = "[A-Za-z0-9][A-Za-z0-9._-]{0,62}";
