//! Why PostgreSQL, or one of its programs, did not do what it was asked.

use std::fmt;

use tokio_postgres::error::{Severity, SqlState};

/// What whoever asked does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The machine lacks something (a package, root, space): provide it and run again.
    Environment,
    /// A program failed: what it said is in the message.
    Command,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The server answered, and refused: with this code (PostgreSQL, appendix A).
    Refused(SqlState),
    /// No answer came: whether the statement was done is not known.
    Lost,
    /// A server that was started did not answer within its time.
    Late,
}

/// An error of PostgreSQL.
#[derive(Clone, Debug)]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    /// What happened, to which object.
    pub context: String,
}

/// Result of asking PostgreSQL.
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

    /// No answer came.
    pub fn lost(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Lost, context: context.into() }
    }

    /// A file or a program could not be used.
    pub fn io(what: &str, error: &std::io::Error) -> Error {
        Error::command(format!("{what}: {error}"))
    }

    /// The transaction met another one and may be tried again as it is (PostgreSQL, section 13.5).
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        matches!(&self.kind, ErrorKind::Refused(code) if conflicts.contains(code))
    }

    /// Of a statement that the client gave up or the server refused.
    pub(crate) fn of_client(what: &str, error: &tokio_postgres::Error) -> Error {
        match error.as_db_error() {
            // What ends a session may come before or after the statement was done.
            Some(refusal) if !ends_session(refusal.parsed_severity(), refusal.code()) => Error {
                kind: ErrorKind::Refused(refusal.code().clone()),
                context: format!("{what}: {} ({})", refusal.message(), refusal.code().code()),
            },
            Some(refusal) => Error::lost(format!("{what}: {}", refusal.message())),
            None => {
                let source = std::error::Error::source(error).map(|source| format!(": {source}"));
                Error::lost(format!("{what}: {error}{}", source.unwrap_or_default()))
            }
        }
    }
}

/// Class 57P: the server, or somebody at it, ended the session. So does whatever is fatal, or makes the
/// server panic: a commit whose log could not be written may be in it all the same.
fn ends_session(severity: Option<Severity>, code: &SqlState) -> bool {
    matches!(severity, Some(Severity::Fatal | Severity::Panic)) || code.code().starts_with("57P")
}

impl From<ashlar_programs::Error> for Error {
    fn from(error: ashlar_programs::Error) -> Error {
        let kind = match error.kind {
            ashlar_programs::ErrorKind::Environment => ErrorKind::Environment,
            ashlar_programs::ErrorKind::Command => ErrorKind::Command,
            ashlar_programs::ErrorKind::Interrupted => ErrorKind::Interrupted,
        };
        Error { kind, context: error.context }
    }
}

impl From<Error> for ashlar_programs::Error {
    fn from(error: Error) -> ashlar_programs::Error {
        match error.kind {
            ErrorKind::Environment => ashlar_programs::Error::environment(error.context),
            ErrorKind::Interrupted => ashlar_programs::Error::interrupted(),
            ErrorKind::Command | ErrorKind::Refused(_) | ErrorKind::Lost | ErrorKind::Late => {
                ashlar_programs::Error::command(error.context)
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_the_session_says_nothing_of_the_commit() {
        let is_end = |severity, code: &SqlState| ends_session(Some(severity), code);
        assert!(is_end(Severity::Panic, &SqlState::IO_ERROR), "the log could not be flushed");
        assert!(is_end(Severity::Fatal, &SqlState::TOO_MANY_CONNECTIONS));
        assert!(is_end(Severity::Error, &SqlState::CRASH_SHUTDOWN));
        assert!(!is_end(Severity::Error, &SqlState::IO_ERROR), "a page could not be read: it is rolled back");
        assert!(!is_end(Severity::Error, &SqlState::T_R_SERIALIZATION_FAILURE));
    }
}
