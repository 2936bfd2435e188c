//! Marks: moments on the time line, with words to them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::EventLevel;

/// Marks by hand that are kept: a new one takes the place of the one that was made first.
pub const MARKS_MAX: usize = 500;
/// So many of the newest snapshots, jobs and events each are marks.
pub const DERIVED_MARKS_MAX: usize = 200;
/// Letters of a mark's text at most.
pub const MARK_LETTERS_MAX: usize = 200;

/// What a mark is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// Somebody made it.
    ByHand,
    /// A snapshot was taken.
    Snapshot,
    /// A job began.
    Job,
    /// An event of level warning or error.
    Event,
}

impl MarkKind {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MarkKind::ByHand => "by hand",
            MarkKind::Snapshot => "snapshot",
            MarkKind::Job => "job",
            MarkKind::Event => "event",
        }
    }
}

/// A moment on the time line. Those by hand are kept; the others are made of what is there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Mark {
    /// A number, where it was made by hand; it is never given twice.
    #[schema(example = "7")]
    pub id: String,
    pub kind: MarkKind,
    pub unix_millis: u64,
    pub text: String,
    /// What it is about, as in `volume db`; absent: the whole array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Of an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<EventLevel>,
}

/// Request to make a mark.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkCreate {
    /// One line of 1 to 200 letters.
    #[schema(example = "version 4.2 goes live")]
    pub text: String,
    /// It is about this volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// It is about this database. Neither: about the whole array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// When it was; absent: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_millis: Option<u64>,
}
