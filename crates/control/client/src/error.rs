//! Why a call did not succeed.

use std::fmt;

use ashlar_api::{ErrorKind, ObjectName, Problem, Reason};

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
    /// What to do about it, in words of the command line.
    pub action: String,
    /// The object that is meant, where the array names one.
    pub object: Option<ObjectName>,
    /// What exactly, where the array says so.
    pub reason: Option<Reason>,
}

impl Error {
    /// A new error.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>, action: impl Into<String>) -> Error {
        Error { kind, message: message.into(), action: action.into(), object: None, reason: None }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        let Problem { kind, detail, object, reason, remedy, .. } = problem;
        Error { kind, message: detail, action: remedy.command, object, reason }
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
