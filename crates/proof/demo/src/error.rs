//! Why a demo ended early.

use std::fmt;

/// What the user does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The machine lacks something (root, a package, space): provide it and run again.
    Environment,
    /// A program failed: its output is in the message.
    Command,
    /// A proof did not hold: this is a defect of the array, please report it.
    Proof,
    /// The user pressed Ctrl-C.
    Interrupted,
}

/// An error of the demo.
#[derive(Clone, Debug)]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    /// What happened, to which object.
    pub context: String,
}

/// Result of a step of the demo.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn environment(context: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Environment, context: context.into() }
    }

    pub(crate) fn command(context: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Command, context: context.into() }
    }

    pub(crate) fn proof(context: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Proof, context: context.into() }
    }

    /// The same, with what it came after.
    pub(crate) fn after(self, what: &str) -> Self {
        Self { context: format!("after {what}: {}", self.context), ..self }
    }

    pub(crate) fn io(what: &str, error: std::io::Error) -> Self {
        Self::command(format!("{what}: {error}"))
    }
}

impl From<ashlar_programs::Error> for Error {
    fn from(error: ashlar_programs::Error) -> Self {
        let kind = match error.kind {
            ashlar_programs::ErrorKind::Environment => ErrorKind::Environment,
            ashlar_programs::ErrorKind::Command => ErrorKind::Command,
            ashlar_programs::ErrorKind::Interrupted => ErrorKind::Interrupted,
        };
        Self { kind, context: error.context }
    }
}

impl From<ashlar_postgres::Error> for Error {
    fn from(error: ashlar_postgres::Error) -> Self {
        let kind = match error.kind {
            ashlar_postgres::ErrorKind::Environment => ErrorKind::Environment,
            ashlar_postgres::ErrorKind::Command
            | ashlar_postgres::ErrorKind::Refused(_)
            | ashlar_postgres::ErrorKind::Lost
            | ashlar_postgres::ErrorKind::Late => ErrorKind::Command,
            ashlar_postgres::ErrorKind::Interrupted => ErrorKind::Interrupted,
        };
        Self { kind, context: error.context }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Proof => write!(f, "a proof did not hold: {}", self.context),
            ErrorKind::Environment | ErrorKind::Command | ErrorKind::Interrupted => {
                f.write_str(&self.context)
            }
        }
    }
}

impl std::error::Error for Error {}
