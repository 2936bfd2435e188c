//! What differs between two volumes or two databases.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Ranges that an answer lists when nothing is said.
pub const RANGES_DEFAULT: u64 = 1000;
/// Ranges that an answer lists at most.
pub const RANGES_MAX: u64 = 10_000;
/// What the copies that a database diff makes and removes again are called behind the databases' names.
pub const DIFF_COPIES: [&str; 2] = [".diff-a", ".diff-b"];

/// A piece of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ByteRange {
    /// From the volume's beginning; a multiple of 4096.
    pub offset_bytes: u64,
    /// A multiple of 4096.
    pub length_bytes: u64,
}

/// What differs between two volumes or images, found by their maps alone: blocks that are stored at the same
/// place are equal, and so are zeroes and what was never written. A block that is told may be equal all the
/// same, if the same bytes were written again; one that is not told is equal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeDiff {
    pub a: String,
    pub b: String,
    /// The size of `a`.
    pub a_size_bytes: u64,
    /// The size of `b`.
    pub b_size_bytes: u64,
    /// Where the question begins: nothing before it is counted or listed.
    pub from_bytes: u64,
    /// All that differs from there to the end, listed below or not.
    pub different_bytes: u64,
    /// What differs, in order, as far as it is listed.
    pub ranges: Vec<ByteRange>,
    /// Where the list goes on; absent: it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_bytes: Option<u64>,
    /// How long it took.
    pub duration_millis: u64,
}

/// Request to compare a database, or a snapshot of it, with another of the same pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseDiffRequest {
    /// A snapshot of the database, or a time: then the newest at or before it. Absent: as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The other database; may be the same.
    #[schema(example = "dev")]
    pub with: String,
    /// The same of the other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_snapshot: Option<String>,
}

/// What differs between two databases after both have recovered: pages whose bytes differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseDiff {
    pub a: String,
    pub b: String,
    /// Of a page.
    pub page_bytes: u64,
    /// The volumes, and what their maps say of them: an upper bound, with the file system's own.
    pub volumes: Vec<DatabaseVolumeDiff>,
    /// Tables, indexes and whatever else has pages: those that differ, the most different first.
    pub relations: Vec<RelationDiff>,
    /// The write-ahead log and other files that differ. Settings and temporary files are left out.
    pub files: Vec<FilesDiff>,
    /// The whole comparison, with the copies' recovery.
    pub took_millis: u64,
}

/// What differs of two volumes with the same role.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseVolumeDiff {
    /// `data`, `log`, or `tablespace-` and the name of one.
    pub role: String,
    pub different_bytes: u64,
}

/// How a relation differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RelationChange {
    /// Some of its pages differ.
    Changed,
    /// It has another file, as after VACUUM FULL, TRUNCATE or REINDEX: all pages count.
    Rewritten,
    /// Only `a` has it.
    OnlyInA,
    /// Only `b` has it.
    OnlyInB,
}

/// A relation that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct RelationDiff {
    /// The database within the server; absent: all of them share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// With its schema; the path of its file where the catalogue names none.
    #[schema(example = "public.orders")]
    pub name: String,
    /// `table`, `index`, `toast`, `toast-index`, `sequence`, `materialized-view`, or `unnamed` where no
    /// catalogue that can be read has it.
    #[schema(example = "table")]
    pub kind: String,
    /// The table that an index or a toast table belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// It is of PostgreSQL's own catalogues.
    pub is_system: bool,
    pub change: RelationChange,
    /// Pages that differ, with those of its free space and visibility maps.
    pub different_pages_count: u64,
    pub different_bytes: u64,
}

/// Files that differ and are no relation's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct FilesDiff {
    /// Their directory, or the file. `pg_wal` is the write-ahead log.
    #[schema(example = "pg_wal")]
    pub name: String,
    /// How many of them.
    pub files_count: u64,
    pub different_pages_count: u64,
    pub different_bytes: u64,
}
