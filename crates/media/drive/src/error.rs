//! What can go wrong with a drive, by what the pool does about it.

use std::fmt;
use std::io;

/// Result of a drive request.
pub type Result<T> = std::result::Result<T, Error>;

/// The kinds the pool acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// There is no such drive: mend the path.
    NotFound,
    /// Somebody else has it open: stop them.
    Busy,
    /// The file system under a file drive is full: make room there.
    NoSpace,
    /// The request failed; the content is unknown.
    Medium,
    /// What was written is not there.
    Damaged,
}

/// A failed drive request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What the pool acts on.
    pub kind: ErrorKind,
    /// What a person reads; names the drive.
    pub context: String,
}

impl Error {
    /// A new error.
    #[must_use]
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into() }
    }

    /// The error of a system call on a drive.
    #[must_use]
    pub fn io(path: &str, action: &str, error: &io::Error) -> Error {
        Error::new(kind_of(error), format!("{action} drive {path}: {error}"))
    }

    /// The error of opening a drive, which names it.
    #[must_use]
    pub fn opening(error: &io::Error) -> Error {
        Error::new(kind_of(error), error.to_string())
    }
}

fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy | io::ErrorKind::AddrInUse => ErrorKind::Busy,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Medium,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}
