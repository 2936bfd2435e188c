//! Why a call did not succeed.

use std::fmt;

use ashlar_api::{ErrorBody, ErrorKind};

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// A call that did not succeed. The array's own refusals keep their kind; a connection that cannot
/// be made or breaks is [`ErrorKind::Closed`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What the caller acts on.
    pub kind: ErrorKind,
    /// What went wrong, with which object, and why.
    pub message: String,
    /// What to do about it.
    pub action: String,
}

impl Error {
    /// A new error.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>, action: impl Into<String>) -> Error {
        Error { kind, message: message.into(), action: action.into() }
    }
}

impl From<ErrorBody> for Error {
    fn from(body: ErrorBody) -> Error {
        Error { kind: body.kind, message: body.message, action: body.action }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.action.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.message, self.action)
    }
}

impl std::error::Error for Error {}
