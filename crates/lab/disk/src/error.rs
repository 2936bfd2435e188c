//! The one error of this crate.

use std::fmt;
use std::io;

/// What went wrong, in words for the person who asked for the disk.
#[derive(Debug)]
pub struct Error {
    /// Who has to act.
    pub kind: ErrorKind,
    /// What was done, and on what.
    pub context: String,
    /// What the system said.
    pub source: Option<io::Error>,
}

/// Who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The description is wrong: mend what the context names.
    Description,
    /// This machine lacks FUSE or loop devices, or we lack the right: do without such disks, and say so.
    Unsupported,
    /// Somebody uses the file or the device: end it, and try again.
    Busy,
    /// The system refused: the context says what.
    System,
}

/// A value, or the one error of this crate.
pub type Result<T> = std::result::Result<T, Error>;

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
        self.source.as_ref().map(|source| source as _)
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into(), source: None }
    }

    /// For `map_err`.
    pub(crate) fn system<E: Into<io::Error>>(context: impl Into<String>) -> impl FnOnce(E) -> Error {
        let context = context.into();
        move |source| Error { kind: ErrorKind::System, context, source: Some(source.into()) }
    }

    pub(crate) fn of_kind(self, kind: ErrorKind) -> Error {
        Error { kind, ..self }
    }
}
