//! Why a command does not end with status 0, as one line.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// A command that was refused or failed.
#[derive(Debug)]
pub enum Failure {
    /// What, which object, why, and what to do.
    Said(String),
    /// It would destroy something, and nobody can be asked.
    Unasked(String),
    /// It could not be begun: the machine or the target lacks what it takes.
    Unable(String),
    /// It was done in part: what is missing was told.
    Part(String),
    /// It was done, and something was found that a person must see to.
    Finding(String),
    /// Standard output is closed.
    OutputClosed,
    /// Help, a version or wrong usage: all is said, and this is the status.
    Told(u8),
}

impl Failure {
    /// A failure in words: lower case, no full stop, object and value named, then what to do.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure::Said(message.into())
    }

    /// The status that the process ends with.
    pub fn status(&self) -> ExitCode {
        match self {
            Failure::Said(_) => ExitCode::FAILURE,
            // As wrong usage: `--yes` is missing, or something else.
            Failure::Unasked(_) | Failure::Unable(_) => ExitCode::from(2),
            // Neither done, nor refused or failed, nor wrong usage.
            Failure::Part(_) => ExitCode::from(3),
            Failure::Finding(_) => ExitCode::from(4),
            // The reader of our output went away, as in `ashlar events | head`: nothing failed.
            Failure::OutputClosed => ExitCode::SUCCESS,
            Failure::Told(status) => ExitCode::from(*status),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // One line whatever a tool's output held.
            Failure::Said(message)
            | Failure::Unasked(message)
            | Failure::Unable(message)
            | Failure::Part(message)
            | Failure::Finding(message) => {
                f.write_str(&message.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            Failure::OutputClosed => f.write_str("standard output is closed"),
            Failure::Told(status) => write!(f, "status {status}"),
        }
    }
}

impl From<ashlar_client::Error> for Failure {
    fn from(error: ashlar_client::Error) -> Failure {
        Failure::Said(error.to_string())
    }
}

impl From<ashlar_doctor::Error> for Failure {
    fn from(error: ashlar_doctor::Error) -> Failure {
        match error.kind {
            ashlar_doctor::ErrorKind::Environment | ashlar_doctor::ErrorKind::Command => {
                Failure::Unable(error.to_string())
            }
            ashlar_doctor::ErrorKind::Interrupted => Failure::Part(error.to_string()),
        }
    }
}

impl From<ashlar_inspect::Error> for Failure {
    fn from(error: ashlar_inspect::Error) -> Failure {
        Failure::Said(error.to_string())
    }
}

impl From<ashlar_daemon::Error> for Failure {
    fn from(error: ashlar_daemon::Error) -> Failure {
        Failure::Said(error.to_string())
    }
}

/// For writes to standard output only: other I/O says what it was about.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::Said(format!("write to standard output: {error}"))
    }
}
