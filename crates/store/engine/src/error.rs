//! What the engine answers when it cannot: few kinds, each with something to do.

use std::fmt;

use ashlar_block as block;
use ashlar_pool as pool;

/// Result of an engine request.
pub type Result<T> = std::result::Result<T, Error>;

/// The kinds callers act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The request makes no sense: mend it.
    Invalid,
    /// No such volume, snapshot, pool or drive: mend the name.
    NotFound,
    /// The name is taken: choose another.
    Exists,
    /// The pool is full: delete or unmap something, or add drives.
    NoSpace,
    /// What is on the drives is not what should be: restore from elsewhere.
    Damaged,
    /// A drive failed: mend or replace it.
    Medium,
    /// The volume takes no writes: write to a clone.
    ReadOnly,
    /// In use: stop the other user first.
    Busy,
    /// The pool is closing or stopped: reopen it.
    Closed,
    /// Somebody had this work ended: nothing is to be mended.
    Cancelled,
}

/// A failed engine request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What callers act on.
    pub kind: ErrorKind,
    /// What a person reads: object, reason, what to do.
    pub context: String,
    /// What to do about it, where that does not follow from the kind.
    pub action: Option<String>,
}

impl Error {
    /// A new error.
    #[must_use]
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into(), action: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn and_do(self, action: impl Into<String>) -> Error {
        Error { action: Some(action.into()), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        self.action.iter().try_for_each(|action| write!(f, ": {action}"))
    }
}

impl std::error::Error for Error {}

impl From<pool::Error> for Error {
    fn from(error: pool::Error) -> Error {
        let kind = match error.kind {
            pool::ErrorKind::Invalid => ErrorKind::Invalid,
            pool::ErrorKind::NotFound => ErrorKind::NotFound,
            pool::ErrorKind::Busy => ErrorKind::Busy,
            pool::ErrorKind::NoSpace => ErrorKind::NoSpace,
            pool::ErrorKind::Closed => ErrorKind::Closed,
            pool::ErrorKind::Medium => ErrorKind::Medium,
            pool::ErrorKind::Damaged => ErrorKind::Damaged,
        };
        Error { kind, context: error.context, action: error.action }
    }
}

impl From<Error> for block::Error {
    fn from(error: Error) -> block::Error {
        let kind = match error.kind {
            ErrorKind::Invalid => block::ErrorKind::Invalid,
            ErrorKind::NoSpace => block::ErrorKind::NoSpace,
            ErrorKind::ReadOnly => block::ErrorKind::ReadOnly,
            ErrorKind::NotFound
            | ErrorKind::Exists
            | ErrorKind::Busy
            | ErrorKind::Closed
            | ErrorKind::Cancelled => block::ErrorKind::Gone,
            ErrorKind::Damaged | ErrorKind::Medium => block::ErrorKind::Medium,
        };
        block::Error::new(kind, error.to_string())
    }
}
