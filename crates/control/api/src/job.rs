//! Jobs: long work that is asked after instead of waited for.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CheckReport, Database, DatabaseProof, ObjectName, Problem, ScrubReport};

/// What a job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// Verifies a pool.
    Check,
    /// Checks a pool and sets right what is wrong.
    Scrub,
    /// Restores to a drive what it lacks.
    Rebuild,
    /// Brings a database in.
    Import,
    /// Makes a standby.
    Follow,
    /// Proves that a snapshot of a database recovers.
    Verify,
}

impl JobKind {
    /// The word for it in commands and requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JobKind::Check => "check",
            JobKind::Scrub => "scrub",
            JobKind::Rebuild => "rebuild",
            JobKind::Import => "import",
            JobKind::Follow => "follow",
            JobKind::Verify => "verify",
        }
    }
}

/// How far a job came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    Running,
    /// It came to its end; `result` says what it found or made.
    Done,
    /// `problem` says why.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

impl JobState {
    /// The word for it in commands and requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }
}

/// Long work. The array remembers the newest 256 jobs of its present start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// No other job of any start of the array has it.
    #[schema(example = "5f0c2a91-7")]
    pub id: String,
    pub kind: JobKind,
    /// What is worked on.
    pub object: ObjectName,
    pub state: JobState,
    pub started_unix_millis: u64,
    /// When it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_millis: Option<u64>,
    /// How far it is; absent where that is not known, and behind its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<JobProgress>,
    /// What it found or made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JobResult>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// It can be ended before its time.
    pub is_cancellable: bool,
}

/// What the numbers of a progress count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgressUnit {
    Bytes,
    Segments,
}

/// How far a job is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobProgress {
    /// What is being done.
    #[schema(example = "takes a base backup")]
    pub stage: String,
    pub unit: ProgressUnit,
    pub done_count: u64,
    /// 0: there is nothing to count in this stage.
    pub total_count: u64,
}

/// What a job found or made: the member of its kind.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct JobResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubReport>,
    /// The database that was brought in. `GET /v1/databases/{database}/url` tells its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<DatabaseProof>,
}
