//! The few ways a block request can fail, each with what the host should do.

use std::fmt;

/// Result of a block request.
pub type Result<T> = std::result::Result<T, Error>;

/// The kinds targets translate into their protocol's own words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The request is malformed, unaligned or out of range: mend the request.
    Invalid,
    /// The device takes no writes: write elsewhere.
    ReadOnly,
    /// The pool is full: free space and try again. Reads, unmap and deletes go on.
    NoSpace,
    /// The medium failed or its bytes are damaged; the same request may fail again.
    Medium,
    /// The device is gone (deleted, pool closing): reconnect later.
    Gone,
}

/// A failed block request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What the caller acts on.
    pub kind: ErrorKind,
    /// What a person reads.
    pub context: String,
}

impl Error {
    /// A new error.
    #[must_use]
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}
