//! Users of the array, tokens of programs, and the record of who did what.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ObjectName;

/// Letters of a password at least.
pub const PASSWORD_LETTERS_MIN: usize = 12;
/// And at most.
pub const PASSWORD_LETTERS_MAX: usize = 256;
/// The longest life of a token that has an end: ten years. Arbitrary.
pub const TOKEN_SECONDS_MAX: u64 = 10 * 366 * 24 * 60 * 60;

/// What somebody may do. Each may what the one before it may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sees everything but secrets, and changes nothing.
    Viewer,
    /// Does the work of every day: volumes, snapshots, clones, databases, schedules.
    Operator,
    /// Everything else, too: pools, drives, hosts, users, tokens, the array itself.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// The word for it in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// The only thing that a token is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TokenScope {
    /// `/metrics`, `/healthz`, `/readyz` and `GET /v1/health`.
    Metrics,
    /// Everything about snapshots and clones, as far as the role goes.
    Snapshots,
}

impl TokenScope {
    /// Every one, in the order of the variants.
    pub const ALL: [TokenScope; 2] = [TokenScope::Metrics, TokenScope::Snapshots];

    /// The word for it in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TokenScope::Metrics => "metrics",
            TokenScope::Snapshots => "snapshots",
        }
    }
}

/// A user of the array. The password is never shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct User {
    #[schema(example = "ada")]
    pub name: String,
    pub role: Role,
    /// It cannot log in.
    pub is_disabled: bool,
    pub created_unix_seconds: u64,
    pub password_set_unix_seconds: u64,
    /// Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_login_unix_seconds: Option<u64>,
    /// Where it is logged in now, counted.
    pub session_count: u64,
}

/// Request to make a user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserCreate {
    #[schema(example = "ada")]
    pub name: String,
    pub role: Role,
    /// 12 to 256 letters. Only a hash of it is kept.
    pub password: String,
}

/// Never shows the password.
impl fmt::Debug for UserCreate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserCreate({:?}, {})", self.name, self.role.name())
    }
}

/// Request to change a user: what is absent stays. Its sessions end.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Another password: 12 to 256 letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_disabled: Option<bool>,
}

/// Never shows the password.
impl fmt::Debug for UserChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_password = self.password.is_some();
        write!(f, "UserChange({:?}, {:?}, password {has_password})", self.role, self.is_disabled)
    }
}

/// Request of a user for another password of its own. All its sessions end.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordChange {
    /// The one it has.
    pub password: String,
    /// The one it wants: 12 to 256 letters.
    pub new_password: String,
}

/// Shows neither.
impl fmt::Debug for PasswordChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordChange")
    }
}

/// A token: what a program shows. Its secret is told once, when it is made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApiToken {
    #[schema(example = "backup")]
    pub name: String,
    pub role: Role,
    /// The only thing that it is for; absent: all that its role may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<TokenScope>,
    pub created_unix_seconds: u64,
    /// Who made it, as the record of changes has it.
    #[schema(example = "user ada")]
    pub created_by: String,
    /// Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_seconds: Option<u64>,
    /// Its end has come: it opens nothing.
    pub is_expired: bool,
    /// To a minute; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_unix_seconds: Option<u64>,
}

/// Request to make a token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    #[schema(example = "backup")]
    pub name: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<TokenScope>,
    /// How long it opens anything; absent: until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_seconds: Option<u64>,
}

/// A new token with its secret, which is told this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    pub token: ApiToken,
    /// For `Authorization: Bearer`.
    pub secret: String,
}

/// Never shows the secret.
impl fmt::Debug for TokenCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenCreated({:?})", self.token)
    }
}

/// Somebody logs in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCreate {
    #[schema(example = "ada")]
    pub user: String,
    pub password: String,
}

/// Never shows the password.
impl fmt::Debug for SessionCreate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCreate")
    }
}

/// A session of a user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionOpened {
    /// For `Authorization: Bearer`.
    pub token: String,
    pub user: String,
    pub role: Role,
    /// It ends then, and earlier when the user is deleted, disabled, or gets another role or password.
    pub expires_seconds: u64,
}

/// Never shows the token.
impl fmt::Debug for SessionOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionOpened({:?})", self.user)
    }
}

/// A change that somebody asked for, whether or not it was carried out, or a login that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Goes on over restarts.
    pub sequence: u64,
    pub unix_millis: u64,
    /// `user NAME`, `token NAME`, `uid NUMBER` of the socket, `token file`, or `nobody`: not let in.
    #[schema(example = "user ada")]
    pub who: String,
    /// Where it came from; absent: over the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "192.0.2.17:41222")]
    pub address: Option<String>,
    #[schema(example = "DELETE")]
    pub method: String,
    /// With what stood behind the question mark.
    #[schema(example = "/v1/volumes/db?force=true")]
    pub path: String,
    /// What it was about: what the path names, or what was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// The HTTP status of the answer.
    pub status: u16,
    /// What exactly was refused, where the answer says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// So many more failed logins were not written, because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_count: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
