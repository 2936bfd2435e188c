//! What may be asked of lists: a page, an order, and which objects.
//!
//! Every list takes `limit`, `cursor` and `order`. A list that is asked for none of these answers whole. With
//! `limit` the header `Link` with `rel="next"` leads to the next page while there is one. A cursor names the
//! place behind the last object of its page: objects that come and go meanwhile are on later pages or not,
//! and none is left out or told twice because of them. One whose place in the order changes meanwhile may be.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{EventLevel, JobKind, JobState, MarkKind, Role};

/// Objects of a page at most.
pub const LIMIT_MAX: u64 = 1000;

/// Which way a list goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    #[default]
    Ascending,
    Descending,
}

/// What is asked of every list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageQuery<'a, S> {
    pub limit: Option<u64>,
    pub cursor: Option<&'a str>,
    pub sort: Option<S>,
    pub order: Option<Order>,
}

/// Makes the parameters of a list of what every list takes and its own filters, and the words to sort by.
macro_rules! list_query {
    (
        $(#[$about:meta])* $name:ident by $sort:ident { $($key:ident),+ $(,)? }
        $( $(#[$filter_about:meta])* $filter:ident: $kind:ident, )*
    ) => {
        /// What the list may be sorted by.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $sort { $($key),+ }

        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// objects of a page at most; the header `Link` leads to the next one. Absent: all
            #[param(minimum = 1, maximum = 1000)]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub limit: Option<u64>,
            /// where the page begins: of the `Link` of the page before, with the same order
            #[serde(skip_serializing_if = "Option::is_none")]
            pub cursor: Option<String>,
            /// what to sort by, and by name where that is equal
            #[param(inline)]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub sort: Option<$sort>,
            /// which way; ascending if absent
            #[param(inline)]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub order: Option<Order>,
            $(
                $(#[$filter_about])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $filter: Option<$kind>,
            )*
        }

        impl $name {
            /// The part that every list has.
            #[must_use]
            pub fn page(&self) -> PageQuery<'_, $sort> {
                let Self { limit, cursor, sort, order, .. } = self;
                PageQuery { limit: *limit, cursor: cursor.as_deref(), sort: *sort, order: *order }
            }
        }
    };
}

list_query! {
    /// Which pools.
    PoolsQuery by PoolSort { Name, Free, Full }
    /// only those whose names begin so
    name_prefix: String,
}

list_query! {
    /// Which volumes.
    VolumesQuery by VolumeSort { Name, Created, Size, Written, Own }
    /// only those of this pool
    pool: String,
    /// only those whose names begin so
    name_prefix: String,
    /// only those cloned from this: a snapshot, a volume, or VOLUME@SNAPSHOT
    origin: String,
    /// only those of this database
    database: String,
}

list_query! {
    /// Which snapshots.
    SnapshotsQuery by SnapshotSort { Created, Name, Size }
    /// only those in this pool
    pool: String,
    /// only those whose names begin so
    name_prefix: String,
    /// only those of this volume
    volume: String,
    /// only those of a volume of this database
    database: String,
    /// only those that are held, or are not
    is_held: bool,
}

list_query! {
    /// Which deleted volumes.
    DeletedVolumesQuery by DeletedVolumeSort { Deleted, Name, Size }
    /// only those of this pool
    pool: String,
    /// only those whose names began so
    name_prefix: String,
}

list_query! {
    /// Which databases.
    DatabasesQuery by DatabaseSort { Name, Created, Expires }
    /// only those in this pool
    pool: String,
    /// only those whose names begin so
    name_prefix: String,
    /// only those cloned from this database
    origin: String,
}

list_query! {
    /// Which schedules.
    SchedulesQuery by ScheduleSort { Name, Created, Next }
    /// only those in this pool
    pool: String,
    /// only those whose names begin so
    name_prefix: String,
    /// only those that take snapshots of this database
    database: String,
    /// only those that take snapshots of this volume
    volume: String,
}

list_query! {
    /// Which attachments.
    AttachmentsQuery by AttachmentSort { Volume, Device }
    /// only those of volumes whose names begin so
    name_prefix: String,
    /// only those of volumes of this database
    database: String,
}

list_query! {
    /// Which hosts.
    HostsQuery by HostSort { Name, Created }
    /// only those of this pool
    pool: String,
    /// only those whose names begin so
    name_prefix: String,
}

list_query! {
    /// Which exports.
    ExportsQuery by ExportSort { Volume, Created }
    /// only those of volumes of this pool
    pool: String,
    /// only those of volumes whose names begin so
    name_prefix: String,
    /// only those that this host sees
    host: String,
}

list_query! {
    /// Which clients.
    ClientsQuery by ClientSort { Id, Volume }
    /// only those that use this volume, or VOLUME@SNAPSHOT
    volume: String,
}

list_query! {
    /// Which jobs.
    JobsQuery by JobSort { Started }
    /// only those of this kind
    #[param(inline)]
    kind: JobKind,
    /// only those in this state
    #[param(inline)]
    state: JobState,
    /// only those that work on an object of this name
    name: String,
}

list_query! {
    /// Which objectives.
    ObjectivesQuery by ObjectiveSort { Name, Left }
    /// only those in this pool
    pool: String,
    /// only those of databases and volumes whose names begin so
    name_prefix: String,
    /// only those that are used up, or are not
    is_used_up: bool,
}

list_query! {
    /// Which marks.
    MarksQuery by MarkSort { Time }
    /// only those of this kind
    #[param(inline)]
    kind: MarkKind,
    /// only those about this volume, its database, its pool or the whole array
    volume: String,
    /// only those about this database, its volumes, its pool or the whole array
    database: String,
    /// only those since then
    since_unix_millis: u64,
}

list_query! {
    /// Which events.
    EventsQuery by EventSort { Sequence }
    /// only events with a larger sequence number
    after: u64,
    /// the boot id that `after` goes with: of another start of the array all events are answered
    boot_id: String,
    /// only those of this level or a worse one
    #[param(inline)]
    level: EventLevel,
    /// only those about this object, as in `volume db`, or about objects of this kind, as in `volume`
    object: String,
    /// only those since then
    since_unix_millis: u64,
}

list_query! {
    /// Which users.
    UsersQuery by UserSort { Name, Created }
    /// only those whose names begin so
    name_prefix: String,
    /// only those of this role
    #[param(inline)]
    role: Role,
}

list_query! {
    /// Which tokens.
    TokensQuery by TokenSort { Name, Created, Expires }
    /// only those whose names begin so
    name_prefix: String,
    /// only those of this role
    #[param(inline)]
    role: Role,
}

list_query! {
    /// Which entries of the record of changes.
    AuditQuery by AuditSort { Sequence }
    /// only those with a larger sequence number
    after: u64,
    /// only those of this one, as in `user ada`
    who: String,
    /// only those since then
    since_unix_millis: u64,
    /// only those that were refused or failed, or were not
    is_refused: bool,
}
