//! The operations on users, tokens and sessions, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{
    ApiToken, AuditEntry, AuditQuery, PasswordChange, Problem, SessionCreate, SessionOpened, TokenCreate,
    TokenCreated, TokensQuery, User, UserChange, UserCreate, UsersQuery,
};

/// The users of the array.
#[utoipa::path(
    get, path = "/v1/users", tag = "access", operation_id = "users_list",
    params(UsersQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<User>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn users_list() {}

/// Makes a user.
#[utoipa::path(
    post, path = "/v1/users", tag = "access", operation_id = "user_create",
    request_body = UserCreate,
    responses(
        (status = 201, description = "the answer", body = User),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "the file of users is damaged or cannot be written", body = Problem),
    )
)]
fn user_create() {}

/// One user.
#[utoipa::path(
    get, path = "/v1/users/{user}", tag = "access", operation_id = "user_show",
    params(("user" = String, Path, description = "name of the user")),
    responses(
        (status = 200, description = "the answer", body = User),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn user_show() {}

/// Gives a user another role or password, or keeps it out. Its sessions end.
#[utoipa::path(
    patch, path = "/v1/users/{user}", tag = "access", operation_id = "user_change",
    params(("user" = String, Path, description = "name of the user")),
    request_body = UserChange,
    responses(
        (status = 200, description = "the answer", body = User),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 500, description = "the file of users is damaged or cannot be written", body = Problem),
    )
)]
fn user_change() {}

/// Deletes a user. Its sessions end.
#[utoipa::path(
    delete, path = "/v1/users/{user}", tag = "access", operation_id = "user_delete",
    params(("user" = String, Path, description = "name of the user")),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 500, description = "the file of users is damaged or cannot be written", body = Problem),
    )
)]
fn user_delete() {}

/// The tokens of programs.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "access", operation_id = "tokens_list",
    params(TokensQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<ApiToken>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn tokens_list() {}

/// Makes a token. Its secret is in this answer and nowhere else.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "access", operation_id = "token_create",
    request_body = TokenCreate,
    responses(
        (status = 201, description = "the answer", body = TokenCreated),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 409, description = "taken, in use, or read-only", body = Problem),
        (status = 500, description = "the file of users is damaged or cannot be written", body = Problem),
    )
)]
fn token_create() {}

/// One token, without its secret.
#[utoipa::path(
    get, path = "/v1/tokens/{token}", tag = "access", operation_id = "token_show",
    params(("token" = String, Path, description = "name of the token")),
    responses(
        (status = 200, description = "the answer", body = ApiToken),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn token_show() {}

/// Deletes a token: it opens nothing from now on.
#[utoipa::path(
    delete, path = "/v1/tokens/{token}", tag = "access", operation_id = "token_delete",
    params(("token" = String, Path, description = "name of the token")),
    responses(
        (status = 204, description = "done"),
        (status = 404, description = "no such object", body = Problem),
        (status = 500, description = "the file of users is damaged or cannot be written", body = Problem),
    )
)]
fn token_delete() {}

/// A user logs in. Needs no token. Whoever fails again and again waits longer each time.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "access", operation_id = "session_create",
    request_body = SessionCreate, security(()),
    responses(
        (status = 201, description = "the answer", body = SessionOpened),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 401, description = "the user or the password is wrong", body = Problem),
        (status = 429, description = "too many logins failed: `Retry-After` says when", body = Problem),
    )
)]
fn session_create() {}

/// Logs out: ends the session whose token the request shows.
#[utoipa::path(
    delete, path = "/v1/session", tag = "access", operation_id = "session_end",
    responses(
        (status = 204, description = "done"),
        (status = 400, description = "the request shows no session", body = Problem),
    )
)]
fn session_end() {}

/// The user who asks gets another password. All its sessions end.
#[utoipa::path(
    put, path = "/v1/session/password", tag = "access", operation_id = "password_change",
    request_body = PasswordChange,
    responses(
        (status = 204, description = "done"),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 401, description = "the password is wrong", body = Problem),
        (status = 429, description = "too many logins failed: `Retry-After` says when", body = Problem),
        (status = 500, description = "the file of users is damaged or cannot be written", body = Problem),
    )
)]
fn password_change() {}

/// Who changed what, and which logins failed, the oldest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "access", operation_id = "audit_list",
    params(AuditQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<AuditEntry>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn audit_list() {}
