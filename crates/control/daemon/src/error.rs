//! Why the daemon refused or failed, in the shape the API answers with.

use std::fmt;
use std::io;
use std::path::Path;

use ashlar_api::{ErrorKind, JobKind, ObjectKind, ObjectName, Problem, Reason, Remedy};

use crate::remedy;

/// What to do about trouble of a database or its server that says nothing of its own.
pub(crate) const MEND: &str = "mend that, then repeat";
/// What to do about work that was ended on request.
pub(crate) const BEGIN_ANEW: &str = "nothing is in use: repeat it to begin anew";

/// Result of the daemon's work.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal or a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What the caller acts on.
    pub kind: ErrorKind,
    /// What went wrong, with which object, and why.
    pub message: String,
    /// What to do about it, in words of the command line.
    pub action: String,
    /// The same in words of requests, where it cannot be told from `action`.
    pub(crate) over_rest: Option<String>,
    /// The object that is meant.
    pub(crate) object: Option<ObjectName>,
    /// What exactly.
    pub(crate) reason: Option<Reason>,
    /// After so many seconds it may be asked again.
    pub(crate) wait_seconds: Option<u32>,
    /// A server did not start within its time, and was ended.
    pub(crate) is_late: bool,
}

impl Error {
    /// A new error.
    pub fn new(kind: ErrorKind, message: impl Into<String>, action: impl Into<String>) -> Error {
        let (message, action) = (message.into(), action.into());
        Error {
            kind,
            message,
            action,
            over_rest: None,
            object: None,
            reason: None,
            wait_seconds: None,
            is_late: false,
        }
    }

    /// The same about this object.
    #[must_use]
    pub(crate) fn about(self, kind: ObjectKind, name: impl Into<String>) -> Error {
        Error { object: Some(ObjectName { kind, name: name.into() }), ..self }
    }

    /// The same for this reason.
    #[must_use]
    pub(crate) fn because(self, reason: Reason) -> Error {
        Error { reason: Some(reason), ..self }
    }

    /// The same, to be asked again in so many seconds.
    #[must_use]
    pub(crate) fn in_seconds(self, seconds: u64) -> Error {
        Error { wait_seconds: Some(u32::try_from(seconds).unwrap_or(u32::MAX)), ..self }
    }

    /// The same with what to do over REST, where other words do not say it.
    #[must_use]
    pub(crate) fn over_rest(self, action: impl Into<String>) -> Error {
        Error { over_rest: Some(action.into()), ..self }
    }

    pub(crate) fn invalid(message: impl Into<String>, action: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message, action)
    }

    /// Each value is possible, but not with the others, or not for the object that is meant.
    pub(crate) fn unfit(message: impl Into<String>, action: impl Into<String>) -> Error {
        Error::invalid(message, action).because(Reason::DoesNotFit)
    }

    pub(crate) fn not_found(what: &str, name: &str) -> Error {
        let action = format!("`ashlar {what} list` shows those there are");
        let error = Error::new(ErrorKind::NotFound, format!("{what} `{name}` does not exist"), action);
        error.named(what, name)
    }

    /// The same about what messages call so.
    fn named(self, what: &str, name: &str) -> Error {
        match ObjectKind::of_word(what) {
            Some(kind) => self.about(kind, name),
            None => self,
        }
    }

    /// What no command lists.
    pub(crate) fn not_found_in(what: &str, name: &str, action: &str) -> Error {
        let message = format!("{what} `{}` does not exist", name.escape_debug());
        Error::new(ErrorKind::NotFound, message, action).named(what, name)
    }

    pub(crate) fn exists(what: &str, name: &str, pool: &str) -> Error {
        let message = format!("{what} `{name}` exists in pool `{pool}`");
        let action = "choose another name: names are unique over all pools";
        Error::new(ErrorKind::Exists, message, action).named(what, name)
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
        let action = "start it again with `ashlar serve`";
        Error::new(ErrorKind::Closed, "the array is stopping", action)
            .because(Reason::Stopping)
            .over_rest("send it again when the array answers")
    }

    /// The array is in the middle of an upgrade.
    pub(crate) fn going_on() -> Error {
        Error::new(
            ErrorKind::Closed,
            "the array goes on as another program in this moment",
            "repeat it once `ashlar status` answers",
        )
    }

    /// Somebody had this job ended, for whoever waits for it.
    pub(crate) fn cancelled(job: &str, kind: JobKind, of: &ObjectName) -> Error {
        let (doing, object, name) = (kind.name(), of.kind.word(), &of.name);
        let what = format!("job `{job}`, {doing} of {object} `{name}`, was ended on request");
        Error::new(ErrorKind::Cancelled, what, BEGIN_ANEW)
            .because(Reason::JobEnded)
            .about(of.kind, name.as_str())
    }

    pub(crate) fn overloaded() -> Error {
        let what = "the array has too many requests under way";
        Error::new(ErrorKind::Closed, what, "ask again later").because(Reason::Overloaded)
    }

    /// Whoever asks must show a token, and shows none or another.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Error {
        let action = "name the file of a token that opens it, as `ashlar token create` prints one; the socket asks for none";
        let request = "send `Authorization: Bearer TOKEN` with a token of `ashlar token create` or of a session, or the line of \
             the token file; the socket asks for none";
        Error::new(ErrorKind::Unauthorized, message, action).over_rest(request)
    }

    /// The body of the answer.
    pub(crate) fn problem(&self) -> Problem {
        let request = self.over_rest.clone().unwrap_or_else(|| remedy::in_requests(&self.action));
        Problem {
            type_uri: self.kind.type_uri(),
            title: self.kind.title().to_string(),
            status: self.kind.http_status(),
            detail: self.message.clone(),
            kind: self.kind,
            object: self.object.clone(),
            reason: self.reason,
            remedy: Remedy { command: self.action.clone(), request },
        }
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
