//! What can go wrong: error numbers for the kernel, and errors of mounting for the operator.

use std::fmt;
use std::io;

use ashlar_block::ErrorKind as BlockErrorKind;

/// A positive error number, as the kernel knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    pub(crate) const PERM: Errno = Errno(libc::EPERM);
    pub(crate) const NOT_FOUND: Errno = Errno(libc::ENOENT);
    pub(crate) const MEDIUM: Errno = Errno(libc::EIO);
    pub(crate) const OUT_OF_RANGE: Errno = Errno(libc::ENXIO);
    pub(crate) const BAD_HANDLE: Errno = Errno(libc::EBADF);
    pub(crate) const GONE: Errno = Errno(libc::ENODEV);
    pub(crate) const NOT_DIRECTORY: Errno = Errno(libc::ENOTDIR);
    pub(crate) const IS_DIRECTORY: Errno = Errno(libc::EISDIR);
    pub(crate) const INVALID: Errno = Errno(libc::EINVAL);
    pub(crate) const NO_SPACE: Errno = Errno(libc::ENOSPC);
    pub(crate) const TOO_MANY_FILES: Errno = Errno(libc::ENFILE);
    pub(crate) const BUSY: Errno = Errno(libc::EBUSY);
    pub(crate) const READ_ONLY: Errno = Errno(libc::EROFS);
    pub(crate) const NOT_IMPLEMENTED: Errno = Errno(libc::ENOSYS);
    pub(crate) const NOT_SUPPORTED: Errno = Errno(libc::EOPNOTSUPP);
    pub(crate) const STALE: Errno = Errno(libc::ESTALE);
}

impl From<ashlar_block::Error> for Errno {
    fn from(error: ashlar_block::Error) -> Errno {
        match error.kind {
            BlockErrorKind::Invalid => Errno::INVALID,
            BlockErrorKind::ReadOnly => Errno::READ_ONLY,
            BlockErrorKind::NoSpace => Errno::NO_SPACE,
            BlockErrorKind::Medium => Errno::MEDIUM,
            BlockErrorKind::Gone => Errno::GONE,
        }
    }
}

/// What the operator can do about a failed mount or unmount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// This machine has no FUSE or we may not use it: serve by NBD instead, or run as root.
    Unsupported,
    /// The mount point cannot be used: remove what is mounted there, or name another directory.
    MountPoint,
    /// The kernel and we do not understand each other: report it with the kernel's version.
    Protocol,
    /// The system refused a call it should grant; the source says which error number.
    System,
}

/// Result of mounting and unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed mount or unmount.
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

    pub(crate) fn system(kind: ErrorKind, context: impl Into<String>, source: io::Error) -> Error {
        Error { kind, context: context.into(), source: Some(source) }
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
