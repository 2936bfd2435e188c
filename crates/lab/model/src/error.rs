//! The one error of this crate.

use std::fmt;

/// What went wrong, in words for the person who wrote the address or the load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    /// What is wrong: the key or value, and what is allowed.
    pub context: String,
}

/// Who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The description of the array is wrong: mend the key that the context names.
    Description,
    /// The load does not fit the array: take a smaller region or block.
    Load,
    /// More is offered than the array can do, so the queue only grows: offer less.
    Overload,
}

/// A value, or the one error of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(crate) fn description(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Description, context: context.into() }
    }

    pub(crate) fn load(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Load, context: context.into() }
    }

    pub(crate) fn overload(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Overload, context: context.into() }
    }
}
