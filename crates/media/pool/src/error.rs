//! What can go wrong with a pool, by what the engine or the operator does about it.

use std::fmt;

use ashlar_drive as drive;

/// Result of a pool request.
pub type Result<T> = std::result::Result<T, Error>;

/// The kinds the engine acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The request makes no sense: mend it.
    Invalid,
    /// A drive or the pool is not there.
    NotFound,
    /// In use, or already a pool: choose another drive or stop the other user.
    Busy,
    /// No free segment.
    NoSpace,
    /// The pool is being closed.
    Closed,
    /// A drive failed.
    Medium,
    /// What is on the drives is not what should be.
    Damaged,
}

/// A failed pool request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What is acted on.
    pub kind: ErrorKind,
    /// What a person reads.
    pub context: String,
    /// What to do about it, where that does not follow from the kind.
    pub action: Option<String>,
}

impl Error {
    /// A new error.
    #[must_use]
    pub fn new(kind: ErrorKind, context: String) -> Error {
        Error { kind, context, action: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn and_do(self, action: impl Into<String>) -> Error {
        Error { action: Some(action.into()), ..self }
    }
}

impl From<drive::Error> for Error {
    fn from(error: drive::Error) -> Error {
        let kind = match error.kind {
            drive::ErrorKind::NotFound => ErrorKind::NotFound,
            drive::ErrorKind::Busy => ErrorKind::Busy,
            drive::ErrorKind::NoSpace | drive::ErrorKind::Medium => ErrorKind::Medium,
            drive::ErrorKind::Damaged => ErrorKind::Damaged,
        };
        Error::new(kind, error.context)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        self.action.iter().try_for_each(|action| write!(f, ": {action}"))
    }
}

impl std::error::Error for Error {}
