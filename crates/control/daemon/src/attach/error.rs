//! What can go wrong while attaching, and what the operator does about it.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// What the caller acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ErrorKind {
    /// This machine lacks loop devices or a tool, or we lack the right: install it, or run as root.
    Unsupported,
    /// Somebody still uses the device or the mount point: stop them, then try again.
    Busy,
    /// The device carries data that would be overwritten: name another volume, or force it.
    HasData,
    /// What lies on the device is not to the kernel's liking: look at it.
    Content,
    /// A file system lost what was written to it: write it again, once there is room.
    NotWritten,
    /// The request itself is wrong: mend it.
    Invalid,
    /// The system refused a call it should grant; the context says which.
    System,
}

/// Result of attaching and its kin.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed attach, detach, format or mount.
#[derive(Debug)]
pub struct Error {
    /// What the caller acts on.
    pub kind: ErrorKind,
    /// What a person reads.
    pub context: String,
    /// The system's own error, where there is one.
    pub source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into(), source: None }
    }

    /// An error of the system; its number decides the kind where one stands out.
    pub(crate) fn system(context: impl Into<String>, source: io::Error) -> Error {
        let kind = match source.raw_os_error() {
            Some(libc::EBUSY) => ErrorKind::Busy,
            Some(libc::EPERM | libc::EACCES) => ErrorKind::Unsupported,
            _ => ErrorKind::System,
        };
        Error { kind, context: context.into(), source: Some(source) }
    }

    /// The last system call's error.
    pub(crate) fn last(context: impl Into<String>) -> Error {
        Error::system(context, io::Error::last_os_error())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.context),
            None => f.write_str(&self.context),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
