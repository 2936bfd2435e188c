//! The kinds of problem: what a caller acts on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the caller should act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The request is wrong: mend it. HTTP 400.
    Invalid,
    /// The request shows no token, or not the right one. HTTP 401.
    Unauthorized,
    /// The request comes from a place that may not ask, or for what its caller may not. HTTP 403.
    Forbidden,
    /// The named object does not exist. HTTP 404.
    NotFound,
    /// The path is there and takes other methods. HTTP 405.
    NoSuchMethod,
    /// The name or the drive is taken. HTTP 409.
    Exists,
    /// The object is in use: end that use first. HTTP 409.
    Busy,
    /// Somebody had the work ended on request. HTTP 409.
    Cancelled,
    /// The pool takes no writes. HTTP 409.
    ReadOnly,
    /// The object is not as `If-Match` says. HTTP 412.
    Changed,
    /// The body is too long. HTTP 413.
    TooLarge,
    /// The body is not said to be JSON. HTTP 415.
    MediaType,
    /// The idempotency key was used for another request. HTTP 422.
    KeyReused,
    /// Too many logins failed: wait. HTTP 429.
    TooMany,
    /// No space is left. HTTP 507.
    NoSpace,
    /// Bytes on a drive are damaged. HTTP 500.
    Damaged,
    /// A drive or a tool of this machine failed. HTTP 500.
    Medium,
    /// The array is stopping or does not answer. HTTP 503.
    Closed,
}

/// What there is to say of a kind, on the page of problems and in every answer.
struct About {
    name: &'static str,
    status: u16,
    title: &'static str,
    meaning: &'static str,
    remedy: &'static str,
}

impl ErrorKind {
    /// Every kind, in the order of their statuses.
    pub const ALL: [ErrorKind; 18] = [
        ErrorKind::Invalid,
        ErrorKind::Unauthorized,
        ErrorKind::Forbidden,
        ErrorKind::NotFound,
        ErrorKind::NoSuchMethod,
        ErrorKind::Exists,
        ErrorKind::Busy,
        ErrorKind::Cancelled,
        ErrorKind::ReadOnly,
        ErrorKind::Changed,
        ErrorKind::TooLarge,
        ErrorKind::MediaType,
        ErrorKind::KeyReused,
        ErrorKind::TooMany,
        ErrorKind::Damaged,
        ErrorKind::Medium,
        ErrorKind::Closed,
        ErrorKind::NoSpace,
    ];

    /// The word for it in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// The same for every problem of this kind.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.about().title
    }

    /// When it comes.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.about().meaning
    }

    /// What a caller does about it in general; the answer says it of the case at hand.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        self.about().remedy
    }

    /// The HTTP status that goes with this kind.
    #[must_use]
    pub fn http_status(self) -> u16 {
        self.about().status
    }

    /// Where its description is: a path at which the array answers the page of problems itself.
    #[must_use]
    pub fn type_uri(self) -> String {
        format!("{}#{}", crate::PROBLEMS_PATH, self.name())
    }

    // tidy: long because it is a table
    fn about(self) -> About {
        let about = |name, status, title, meaning, remedy| About { name, status, title, meaning, remedy };
        match self {
            ErrorKind::Invalid => about(
                "invalid",
                400,
                "The request is wrong",
                "A field, a parameter, a header or the path is not what the operation takes, or its values do \
                 not go together. Nothing was changed.",
                "Mend what `detail` names, then send it again.",
            ),
            ErrorKind::Unauthorized => about(
                "unauthorized",
                401,
                "No token, or not the right one",
                "The address asks for a token, and the request shows none, another, or one that opens nothing any \
                 more. A session ends after twelve hours, and when its user is deleted, disabled, or gets \
                 another role or password. Or a login gave a wrong user or password.",
                "Send `Authorization: Bearer TOKEN` with a token of `POST /v1/tokens`, of a session, or the line \
                 of the token file; or use the socket.",
            ),
            ErrorKind::Forbidden => about(
                "forbidden",
                403,
                "Not for this caller",
                "The request comes from a page of another site, asks for what takes a higher role, or for what \
                 only root over the socket may do or name.",
                "Ask somebody with that role, or as root over the socket. `GET /v1/session` tells what a caller \
                 may.",
            ),
            ErrorKind::NotFound => about(
                "not-found",
                404,
                "There is no such object",
                "The object that `object` names does not exist, or there is no such path.",
                "Look at the list that `remedy` names.",
            ),
            ErrorKind::NoSuchMethod => about(
                "no-such-method",
                405,
                "The path takes other methods",
                "The path is there; the header `Allow` lists the methods that it takes.",
                "Use one of these.",
            ),
            ErrorKind::Exists => about(
                "exists",
                409,
                "The name or the drive is taken",
                "An object of this name is there, in any pool, or the drive belongs to something.",
                "Choose another. Whoever repeats a create that may have been done sends an \
                 `Idempotency-Key` with both.",
            ),
            ErrorKind::Busy => about(
                "busy",
                409,
                "The object is in use",
                "Somebody or something uses it, holds it, or works on it. Nothing was changed.",
                "End that use first, or wait for its end; `remedy` says how.",
            ),
            ErrorKind::Cancelled => about(
                "cancelled",
                409,
                "The work was ended on request",
                "Somebody had the job ended that did it: a check, a scrub, or an import, of which nothing is \
                 left. Nothing is in use.",
                "Send it again to begin anew.",
            ),
            ErrorKind::ReadOnly => about(
                "read-only",
                409,
                "The pool takes no writes",
                "A drive too many is out, or the pool stopped to lose nothing.",
                "`GET /v1/pools/{pool}` says why.",
            ),
            ErrorKind::Changed => about(
                "changed",
                412,
                "The object is not as it was seen",
                "`If-Match` names no state in which the object is: somebody changed it meanwhile. Nothing was \
                 changed.",
                "Get the object again, decide anew, and send the `ETag` of that answer.",
            ),
            ErrorKind::TooLarge => about(
                "too-large",
                413,
                "The body is too long",
                "A body has at most 2 MiB.",
                "Send less, in several requests where there are lists.",
            ),
            ErrorKind::MediaType => about(
                "media-type",
                415,
                "The body is not said to be JSON",
                "The request has a body whose `Content-Type` is none, or another than `application/json`.",
                "Send `Content-Type: application/json`.",
            ),
            ErrorKind::KeyReused => about(
                "key-reused",
                422,
                "The key belongs to another request",
                "The same caller used this `Idempotency-Key` within 24 hours for a request with another path, \
                 query or body. Nothing was changed.",
                "Make up a key for each request, and repeat it only with that request.",
            ),
            ErrorKind::TooMany => about(
                "too-many",
                429,
                "Too many logins failed",
                "Logins of this user or from this address failed again and again. Nothing was looked at.",
                "Wait as long as `Retry-After` says.",
            ),
            ErrorKind::Damaged => about(
                "damaged",
                500,
                "Bytes on a drive are not what was written",
                "A checksum or a header on a drive is wrong, and no other drive can make up for it.",
                "`POST /v1/pools/{pool}/check` lists what is damaged; restore that from a backup.",
            ),
            ErrorKind::Medium => about(
                "medium",
                500,
                "This machine failed",
                "A drive, a directory, a tool or the server of a database on this machine failed; `detail` \
                 names it.",
                "Mend that, then send it again.",
            ),
            ErrorKind::Closed => about(
                "closed",
                503,
                "The array or the pool does not serve",
                "The array is stopping or has too much to do, or the pool is not open.",
                "Send it again later, or open the pool.",
            ),
            ErrorKind::NoSpace => about(
                "no-space",
                507,
                "No space is left",
                "The pool, a volume's limit or a file system of this machine is full.",
                "Delete or unmap something, or add drives.",
            ),
        }
    }
}
