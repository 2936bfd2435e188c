//! The one shape of every answer that is no success: problem details (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ErrorKind;

/// The type of such an answer's body.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";
/// Where the array answers the page of problems, and where it is in the sources.
pub const PROBLEMS_PATH: &str = "/docs/reference/errors.md";

/// Body of every answer that is not a success, as `application/problem+json` (RFC 9457).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Where this kind of problem is described, at the array that answers.
    #[serde(rename = "type")]
    #[schema(example = "/docs/reference/errors.md#not-found")]
    pub type_uri: String,
    /// The same for every problem of this kind.
    #[schema(example = "There is no such object")]
    pub title: String,
    /// The HTTP status.
    #[schema(example = 404)]
    pub status: u16,
    /// What went wrong, with which object, and why.
    #[schema(example = "volume `db` does not exist")]
    pub detail: String,
    pub kind: ErrorKind,
    /// The object that is meant: the one that is missing, taken, in use or changed; where none of these is,
    /// the one that the path names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// What exactly, where programs do different things about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    pub remedy: Remedy,
}

/// An object by its kind and name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ObjectName {
    pub kind: ObjectKind,
    /// As paths of requests have it. A drive is called `POOL/NUMBER`.
    #[schema(example = "db")]
    pub name: String,
}

/// What to do about a problem, twice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Remedy {
    /// For a person at the command line.
    #[schema(example = "`ashlar volume list` shows those there are")]
    pub command: String,
    /// For a program: the same with requests and fields in the place of commands and options.
    #[schema(example = "`GET /v1/volumes` shows those there are")]
    pub request: String,
}

/// A kind of object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectKind {
    Pool,
    Drive,
    Volume,
    Snapshot,
    DeletedVolume,
    Database,
    Schedule,
    Objective,
    Mark,
    Attachment,
    Host,
    Export,
    Client,
    Job,
    LabResult,
    User,
    Token,
}

impl ObjectKind {
    /// Every kind, in the order of the variants.
    pub const ALL: [ObjectKind; 17] = [
        ObjectKind::Pool,
        ObjectKind::Drive,
        ObjectKind::Volume,
        ObjectKind::Snapshot,
        ObjectKind::DeletedVolume,
        ObjectKind::Database,
        ObjectKind::Schedule,
        ObjectKind::Objective,
        ObjectKind::Mark,
        ObjectKind::Attachment,
        ObjectKind::Host,
        ObjectKind::Export,
        ObjectKind::Client,
        ObjectKind::Job,
        ObjectKind::LabResult,
        ObjectKind::User,
        ObjectKind::Token,
    ];

    /// What messages call it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ObjectKind::Pool => "pool",
            ObjectKind::Drive => "drive",
            ObjectKind::Volume => "volume",
            ObjectKind::Snapshot => "snapshot",
            ObjectKind::DeletedVolume => "deleted volume",
            ObjectKind::Database => "database",
            ObjectKind::Schedule => "schedule",
            ObjectKind::Objective => "objective",
            ObjectKind::Mark => "mark",
            ObjectKind::Attachment => "attachment",
            ObjectKind::Client => "client",
            ObjectKind::Job => "job",
            ObjectKind::LabResult => "lab result",
            ObjectKind::Host => "host",
            ObjectKind::Export => "export",
            ObjectKind::User => "user",
            ObjectKind::Token => "token",
        }
    }

    /// The kind of this name, as messages have it.
    #[must_use]
    pub fn of_word(word: &str) -> Option<ObjectKind> {
        ObjectKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// What exactly went wrong. More may come: treat one that you do not know as none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The body is no JSON.
    NotJson,
    /// A field of the body is missing, unknown or of another type.
    WrongField,
    /// A parameter behind the question mark is missing or has no possible value.
    WrongParameter,
    /// The operation does not take that parameter, or that header.
    UnknownParameter,
    /// The name has letters that names do not have.
    WrongName,
    /// The cursor is none, or of another list or order.
    WrongCursor,
    /// Each value is possible, but not with the others, or not for the object as it is.
    DoesNotFit,
    /// The settings file is missing or has a mistake.
    WrongSettings,
    /// The request comes for another host or from a page of another site.
    OtherSite,
    /// Only root over the socket may do that.
    RootOnly,
    /// It takes a higher role.
    RoleTooLow,
    /// The token is for something else alone.
    TokenLimited,
    /// The end of the token has come.
    TokenExpired,
    /// The user or the password is wrong, or the user is disabled.
    WrongLogin,
    /// The setting `guest_drives` or `guest_mounts` does not name that place.
    PlaceNotAllowed,
    /// Somebody has it open: `GET /v1/volumes/{volume}/users` tells who.
    InUse,
    /// It is attached to this machine.
    Attached,
    /// Hosts reach it over iSCSI: `GET /v1/exports/{volume}` tells which.
    Exported,
    /// Somebody put a hold on it.
    Held,
    /// It holds others that must go first.
    NotEmpty,
    /// Something else works on it at the moment.
    WorkedOn,
    /// The first request with this idempotency key is under way.
    KeyUnderWay,
    /// The job cannot be ended before its time.
    NotCancellable,
    /// Somebody had the job ended that did it.
    JobEnded,
    /// The array is stopping.
    Stopping,
    /// More is asked for at the same time than the array takes.
    Overloaded,
    /// The pool is not open.
    PoolClosed,
}

impl Reason {
    /// Every reason, in the order of the variants.
    pub const ALL: [Reason; 27] = [
        Reason::NotJson,
        Reason::WrongField,
        Reason::WrongParameter,
        Reason::UnknownParameter,
        Reason::WrongName,
        Reason::WrongCursor,
        Reason::DoesNotFit,
        Reason::WrongSettings,
        Reason::OtherSite,
        Reason::RootOnly,
        Reason::RoleTooLow,
        Reason::TokenLimited,
        Reason::TokenExpired,
        Reason::WrongLogin,
        Reason::PlaceNotAllowed,
        Reason::InUse,
        Reason::Attached,
        Reason::Exported,
        Reason::Held,
        Reason::NotEmpty,
        Reason::WorkedOn,
        Reason::KeyUnderWay,
        Reason::NotCancellable,
        Reason::JobEnded,
        Reason::Stopping,
        Reason::Overloaded,
        Reason::PoolClosed,
    ];

    /// What it says, and of which kind a problem with it is.
    #[must_use]
    pub fn about(self) -> (ErrorKind, &'static str) {
        match self {
            Reason::NotJson => (ErrorKind::Invalid, "the body is no JSON"),
            Reason::WrongField => {
                (ErrorKind::Invalid, "a field of the body is missing, unknown or of another type")
            }
            Reason::WrongParameter => (ErrorKind::Invalid, "a parameter is missing or has no possible value"),
            Reason::UnknownParameter => {
                (ErrorKind::Invalid, "the operation does not take that parameter, or that header")
            }
            Reason::WrongName => (ErrorKind::Invalid, "the name has letters that names do not have"),
            Reason::WrongCursor => (ErrorKind::Invalid, "the cursor is none, or of another list or order"),
            Reason::DoesNotFit => (
                ErrorKind::Invalid,
                "each value is possible, but not with the others, or not for the object as it is",
            ),
            Reason::WrongSettings => (ErrorKind::Invalid, "the settings file is missing or has a mistake"),
            Reason::OtherSite => {
                (ErrorKind::Forbidden, "it comes for another host or from a page of another site")
            }
            Reason::RootOnly => (ErrorKind::Forbidden, "only root over the socket may do that"),
            Reason::RoleTooLow => (ErrorKind::Forbidden, "it takes a higher role: `detail` names it"),
            Reason::TokenLimited => (ErrorKind::Forbidden, "the token is for something else alone"),
            Reason::TokenExpired => (ErrorKind::Unauthorized, "the end of the token has come"),
            Reason::WrongLogin => {
                (ErrorKind::Unauthorized, "the user or the password is wrong, or the user is disabled")
            }
            Reason::PlaceNotAllowed => {
                (ErrorKind::Forbidden, "`guest_drives` or `guest_mounts` does not name that place")
            }
            Reason::InUse => {
                (ErrorKind::Busy, "somebody has it open: `GET /v1/volumes/{volume}/users` tells who")
            }
            Reason::Attached => (ErrorKind::Busy, "it is attached to this machine"),
            Reason::Exported => (ErrorKind::Busy, "hosts reach it over iSCSI"),
            Reason::Held => (ErrorKind::Busy, "somebody put a hold on it"),
            Reason::NotEmpty => (ErrorKind::Busy, "it holds others that must go first"),
            Reason::WorkedOn => (ErrorKind::Busy, "something else works on it at the moment"),
            Reason::KeyUnderWay => {
                (ErrorKind::Busy, "the first request with this idempotency key is under way")
            }
            Reason::NotCancellable => (ErrorKind::Busy, "the job cannot be ended before its time"),
            Reason::JobEnded => (ErrorKind::Cancelled, "somebody had the job ended that did it"),
            Reason::Stopping => (ErrorKind::Closed, "the array is stopping"),
            Reason::Overloaded => {
                (ErrorKind::Closed, "more is asked for at the same time than the array takes")
            }
            Reason::PoolClosed => (ErrorKind::Closed, "the pool is not open"),
        }
    }
}
