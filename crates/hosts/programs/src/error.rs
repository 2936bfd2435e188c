//! Why a program did not do what it was started for.

use std::fmt;

/// What the user does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The machine lacks something (a package, root, space): provide it and run again.
    Environment,
    /// A program failed: what it said is in the message.
    Command,
    /// The user pressed Ctrl-C.
    Interrupted,
}

/// A program that was not found, failed, or was interrupted.
#[derive(Clone, Debug)]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    /// What happened, to which program.
    pub context: String,
}

/// Result of running a program.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The machine lacks something.
    pub fn environment(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Environment, context: context.into() }
    }

    /// A program failed.
    pub fn command(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Command, context: context.into() }
    }

    /// The user pressed Ctrl-C.
    #[must_use]
    pub fn interrupted() -> Error {
        Error { kind: ErrorKind::Interrupted, context: "stopped by a signal".into() }
    }

    /// A file or a program could not be used.
    pub fn io(what: &str, error: &std::io::Error) -> Error {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Error::no_room(what),
            _ => Error::command(format!("{what}: {error}")),
        }
    }

    /// A file cannot grow.
    #[must_use]
    pub fn no_room(what: &str) -> Error {
        Error::environment(format!("{what}: no space is left on its file system: make room there"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}
