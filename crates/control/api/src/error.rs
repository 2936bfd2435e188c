//! The one shape of every refused or failed request.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the caller should act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The request is wrong: mend it. HTTP 400.
    Invalid,
    /// The request shows no token, or not the right one. HTTP 401.
    Unauthorized,
    /// The request comes from a place that may not ask, or for what its caller may not. HTTP 403.
    Forbidden,
    /// The named object does not exist. HTTP 404.
    NotFound,
    /// The name or the drive is taken. HTTP 409.
    Exists,
    /// The object is in use: end that use first. HTTP 409.
    Busy,
    /// The pool takes no writes. HTTP 409.
    ReadOnly,
    /// No space is left. HTTP 507.
    NoSpace,
    /// Bytes on a drive are damaged. HTTP 500.
    Damaged,
    /// A drive or a tool of this machine failed. HTTP 500.
    Medium,
    /// The array is stopping or does not answer. HTTP 503.
    Closed,
}

/// Body of every answer that is not a success.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub kind: ErrorKind,
    /// What went wrong, with which object, and why.
    #[schema(example = "volume `db` does not exist")]
    pub message: String,
    /// What to do about it.
    #[schema(example = "`ashlar volume list` shows the volumes there are")]
    pub action: String,
}

impl ErrorKind {
    /// Every kind, in the order of the variants.
    pub const ALL: [ErrorKind; 11] = [
        ErrorKind::Invalid,
        ErrorKind::Unauthorized,
        ErrorKind::Forbidden,
        ErrorKind::NotFound,
        ErrorKind::Exists,
        ErrorKind::Busy,
        ErrorKind::ReadOnly,
        ErrorKind::NoSpace,
        ErrorKind::Damaged,
        ErrorKind::Medium,
        ErrorKind::Closed,
    ];

    /// What it means and what to do, in a line.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            ErrorKind::Invalid => "the request is wrong: mend it",
            ErrorKind::Unauthorized => {
                "the request shows no token or a wrong one: send the line of the token file, or use the socket"
            }
            ErrorKind::Forbidden => {
                "the request comes from a place that may not ask, or names what only root over the socket may name"
            }
            ErrorKind::NotFound => "the named object does not exist: the list commands show what there is",
            ErrorKind::Exists => "the name or the drive is taken: choose another",
            ErrorKind::Busy => "the object is in use: end that use first",
            ErrorKind::ReadOnly => "the pool takes no writes: `ashlar pool show` says why",
            ErrorKind::NoSpace => "no space is left: delete or unmap something",
            ErrorKind::Damaged => "bytes on a drive are not what was written: `ashlar pool check` lists them",
            ErrorKind::Medium => {
                "a drive, a directory or a tool of this machine failed: the message names it"
            }
            ErrorKind::Closed => "the array or the pool does not serve: start or import it",
        }
    }

    /// The HTTP status that goes with this kind.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            ErrorKind::Invalid => 400,
            ErrorKind::Unauthorized => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound => 404,
            ErrorKind::Exists | ErrorKind::Busy | ErrorKind::ReadOnly => 409,
            ErrorKind::NoSpace => 507,
            ErrorKind::Damaged | ErrorKind::Medium => 500,
            ErrorKind::Closed => 503,
        }
    }
}
