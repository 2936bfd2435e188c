//! Why inspecting ends without an answer.

use std::fmt;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The request is wrong: name other drives or volumes.
    Invalid,
    /// No drive that was named says what the pool is: name more of them.
    NoPool,
    /// Where images are to be written cannot be written: name another directory.
    Output,
}

/// Nothing can be said, or written.
#[derive(Clone, Debug)]
pub struct Error {
    /// What the caller acts on.
    pub kind: ErrorKind,
    /// What a person reads.
    pub context: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}
