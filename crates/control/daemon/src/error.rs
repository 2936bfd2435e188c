//! Why the daemon refused or failed, in the shape the API answers with.

use std::fmt;
use std::io;
use std::path::Path;

use ashlar_api::{ErrorBody, ErrorKind};

/// Result of the daemon's work.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal or a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What the caller acts on.
    pub kind: ErrorKind,
    /// What went wrong, with which object, and why.
    pub message: String,
    /// What to do about it.
    pub action: String,
    /// A server did not start within its time, and was ended.
    pub(crate) is_late: bool,
}

impl Error {
    /// A new error.
    pub fn new(kind: ErrorKind, message: impl Into<String>, action: impl Into<String>) -> Error {
        Error { kind, message: message.into(), action: action.into(), is_late: false }
    }

    pub(crate) fn invalid(message: impl Into<String>, action: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message, action)
    }

    pub(crate) fn not_found(what: &str, name: &str) -> Error {
        let action = format!("`ashlar {what} list` shows those there are");
        Error::new(ErrorKind::NotFound, format!("{what} `{name}` does not exist"), action)
    }

    /// What no command lists.
    pub(crate) fn not_found_in(what: &str, name: &str, action: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("{what} `{}` does not exist", name.escape_debug()), action)
    }

    pub(crate) fn exists(what: &str, name: &str, pool: &str) -> Error {
        let message = format!("{what} `{name}` exists in pool `{pool}`");
        Error::new(ErrorKind::Exists, message, "choose another name: names are unique over all pools")
    }

    /// A file of this machine could not be used.
    pub(crate) fn file(what: &str, path: &Path, error: &io::Error) -> Error {
        let action = match error.kind() {
            io::ErrorKind::PermissionDenied => "run as the owner of the directory",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space on its file system, then repeat"
            }
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::ReadOnlyFilesystem => "mount its file system writable",
            _ => "check the path and its file system",
        };
        Error::new(ErrorKind::Medium, format!("{what} {}: {error}", path.display()), action)
    }

    pub(crate) fn stopping() -> Error {
        Error::new(ErrorKind::Closed, "the array is stopping", "start it again with `ashlar serve`")
    }

    /// The array is in the middle of an upgrade.
    pub(crate) fn going_on() -> Error {
        Error::new(
            ErrorKind::Closed,
            "the array goes on as another program in this moment",
            "repeat it once `ashlar status` answers",
        )
    }

    pub(crate) fn overloaded() -> Error {
        Error::new(ErrorKind::Closed, "the array has too many requests under way", "ask again later")
    }

    /// Whoever asks must show a token, and shows none or another.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Error {
        let action =
            "send `Authorization: Bearer TOKEN` with the line of the token file; the socket asks for none";
        Error::new(ErrorKind::Unauthorized, message, action)
    }

    /// The body of the answer.
    pub(crate) fn body(&self) -> ErrorBody {
        ErrorBody { kind: self.kind, message: self.message.clone(), action: self.action.clone() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.action.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.message, self.action)
    }
}

impl std::error::Error for Error {}
