//! The operations on users, tokens and sessions.

use std::sync::Arc;

use ashlar_api as api;
use ashlar_api::{AuditSort, TokenSort, UserSort};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json, Router};

use super::audited::About;
use super::extract::{Body, Name, Question};
use super::handlers::{Answer, Array, Created, Object, to_the_end};
use super::lists::{List, begins};
use super::object::{Made, Shown};
use super::page::{Key, page};
use crate::asker::{Asker, Visitor};
use crate::error::{Error, Result};
use crate::service::Service;
use crate::tag::Seen;

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/users", get(users).post(user_create))
        .route("/v1/users/{user}", get(user_show).patch(user_change).delete(user_delete))
        .route("/v1/tokens", get(tokens).post(token_create))
        .route("/v1/tokens/{token}", get(token_show).delete(token_delete))
        .route("/v1/sessions", post(session_create))
        .route("/v1/session", delete(session_end))
        .route("/v1/session/password", put(password_change))
        .route("/v1/audit", get(audit))
}

async fn users(State(array): Array, uri: Uri, Question(query): Question<api::UsersQuery>) -> List<api::User> {
    let mut users = array.all_users()?;
    users.retain(|user| {
        begins(&user.name, &query.name_prefix) && query.role.is_none_or(|role| user.role == role)
    });
    page(&uri, &query.page(), UserSort::Name, users, |user, sort| {
        let key = match sort {
            UserSort::Name => Key::Nothing,
            UserSort::Created => user.created_unix_seconds.into(),
        };
        (key, (&user.name).into())
    })
}

async fn user_create(State(array): Array, Body(request): Body<api::UserCreate>) -> Created<api::User> {
    let user = to_the_end(async move { array.user_create(request).await }).await?;
    Ok(Made::at(format!("/v1/users/{}", user.name), user).tagged())
}

async fn user_show(State(array): Array, Name(user): Name) -> Object<api::User> {
    array.user(&user).map(Shown)
}

async fn user_change(
    State(array): Array,
    Name(user): Name,
    seen: Seen,
    Body(request): Body<api::UserChange>,
) -> Object<api::User> {
    to_the_end(async move { array.user_change(&user, request, &seen).await }).await.map(Shown)
}

async fn user_delete(State(array): Array, Name(user): Name, seen: Seen) -> Result<StatusCode> {
    to_the_end(async move { array.user_delete(&user, &seen).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn tokens(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::TokensQuery>,
) -> List<api::ApiToken> {
    let mut tokens = array.tokens()?;
    tokens.retain(|token| {
        begins(&token.name, &query.name_prefix) && query.role.is_none_or(|role| token.role == role)
    });
    page(&uri, &query.page(), TokenSort::Name, tokens, |token, sort| {
        let key = match sort {
            TokenSort::Name => Key::Nothing,
            TokenSort::Created => token.created_unix_seconds.into(),
            // What never ends is behind all that does.
            TokenSort::Expires => Key::Number(token.expires_unix_seconds.unwrap_or(u64::MAX)),
        };
        (key, (&token.name).into())
    })
}

async fn token_create(
    State(array): Array,
    asker: Asker,
    Body(request): Body<api::TokenCreate>,
) -> Created<api::TokenCreated> {
    let by = asker.who.text();
    let made = to_the_end(async move { array.token_create(request, by).await }).await?;
    Ok(Made::at(format!("/v1/tokens/{}", made.token.name), made))
}

async fn token_show(State(array): Array, Name(token): Name) -> Answer<api::ApiToken> {
    array.token(&token).map(Json)
}

async fn token_delete(State(array): Array, Name(token): Name) -> Result<StatusCode> {
    to_the_end(async move { array.token_delete(&token).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn session_create(
    State(array): Array,
    visitor: Visitor,
    Body(request): Body<api::SessionCreate>,
) -> Response {
    let user = request.user.clone();
    // What is no user may be a password in the wrong field: it is not written down.
    let known =
        array.user(&user).ok().map(|user| api::ObjectName { kind: api::ObjectKind::User, name: user.name });
    match to_the_end(async move { array.log_in(request, visitor).await }).await {
        Ok(opened) => {
            let about = About { who: Some(format!("user {user}")), object: known };
            (StatusCode::CREATED, Extension(about), Json(opened)).into_response()
        }
        Err(error) => (Extension(About { who: None, object: known }), error).into_response(),
    }
}

async fn session_end(State(array): Array, asker: Asker) -> Result<StatusCode> {
    let Some(session) = asker.session else {
        return Err(Error::unfit(
            "the request shows no session",
            "log out with the token of a session; a token is ended with `ashlar token delete`",
        ));
    };
    array.console.sessions.end(session);
    Ok(StatusCode::NO_CONTENT)
}

async fn password_change(
    State(array): Array,
    asker: Asker,
    visitor: Visitor,
    Body(request): Body<api::PasswordChange>,
) -> Result<StatusCode> {
    to_the_end(async move { array.password_change(&asker, request, visitor).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn audit(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::AuditQuery>,
) -> List<api::AuditEntry> {
    let mut entries = array.audit.entries().await?;
    entries.retain(|entry| {
        query.after.is_none_or(|after| entry.sequence > after)
            && query.who.as_ref().is_none_or(|who| entry.who == *who)
            && query.since_unix_millis.is_none_or(|since| entry.unix_millis >= since)
            && query.is_refused.is_none_or(|is_refused| is_refused == (entry.status >= 400))
    });
    page(&uri, &query.page(), AuditSort::Sequence, entries, |entry, sort| match sort {
        AuditSort::Sequence => (entry.sequence.into(), Key::Nothing),
    })
}
