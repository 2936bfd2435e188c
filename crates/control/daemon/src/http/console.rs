//! The console's files, and how a browser is let in.

use std::sync::Arc;

use ashlar_api as api;
use ashlar_console::File;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::extract::Body;
use super::handlers::{Array, WithStatus, to_the_end};
use crate::asker::Asker;
use crate::error::Error;
use crate::server;
use crate::service::Service;

/// What a page of ours may load: our own files, and nothing that stands in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/console/") }))
        .route("/console", get(|| async { Redirect::temporary("/console/") }))
        .route("/console/", get(file))
        .route("/console/{*path}", get(file))
        .route("/v1/console-tickets", post(ticket_create))
        .route("/v1/console-sessions", post(session_create))
}

async fn file(uri: Uri, headers: HeaderMap) -> Response {
    let name = uri.path().strip_prefix("/console/").unwrap_or_default();
    // Every page of the console is the same file; which one it shows is its own business.
    let file = ashlar_console::file(name).unwrap_or_else(ashlar_console::page);
    let guards = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        (CACHE_CONTROL.as_str(), "no-cache"),
        (VARY.as_str(), ACCEPT_ENCODING.as_str()),
    ];
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known == Some(file.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        answer(&file, &headers)
    };
    for (name, value) in guards.into_iter().chain([(ETAG.as_str(), file.tag)]) {
        response.headers_mut().insert(name, value.parse().expect("these are letters of a header"));
    }
    response
}

fn answer(file: &File, headers: &HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let takes_gzip = accepted.split(',').any(|one| one.trim().split(';').next() == Some("gzip"));
    match takes_gzip {
        true => ([(CONTENT_TYPE, file.kind), (CONTENT_ENCODING, "gzip")], file.packed).into_response(),
        false => ([(CONTENT_TYPE, file.kind)], file.bytes).into_response(),
    }
}

async fn ticket_create(State(array): Array, asker: Asker) -> WithStatus<api::ConsoleTicket> {
    // It would outlive its session, and make the next.
    if asker.session.is_some() {
        return Err(Error::new(
            api::ErrorKind::Forbidden,
            "a session opens no other session",
            "log in, or ask with a token or over the socket",
        ));
    }
    let address = to_the_end({
        let array = array.clone();
        async move { server::open_console(&array).await }
    });
    let origin = address.await?;
    let ticket = array.console.sessions.ticket(asker.who)?;
    let ticket = api::ConsoleTicket {
        address: format!("{origin}/console/#ticket={ticket}"),
        expires_seconds: crate::sessions::TICKET_LIFE.as_secs(),
    };
    Ok((StatusCode::CREATED, Json(ticket)))
}

async fn session_create(
    State(array): Array,
    Body(request): Body<api::ConsoleSessionCreate>,
) -> WithStatus<api::ConsoleSession> {
    let token = array.console.sessions.open(&request.ticket, |who| array.access.asker(who).is_some())?;
    let expires_seconds = crate::sessions::SESSION_LIFE.as_secs();
    Ok((StatusCode::CREATED, Json(api::ConsoleSession { token, expires_seconds })))
}
