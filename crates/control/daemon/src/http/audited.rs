//! What goes into the record of changes: every request that could change something, and every one that was
//! refused for who asked.

use std::sync::Arc;

use ashlar_api::{AuditEntry, ObjectKind, ObjectName};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::header::LOCATION;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::extract::Told;
use super::object::object_of;
use crate::asker::{Asker, Visitor};
use crate::error::Error;
use crate::service::{Service, unix_millis};

/// What a handler knows better: who was let in by this request, or tried to be.
#[derive(Clone)]
pub(super) struct About {
    pub(super) who: Option<String>,
    pub(super) object: Option<ObjectName>,
}

/// Collections whose objects a `Location` names, and their kinds.
const MADE: [(&str, ObjectKind); 13] = [
    ("pools", ObjectKind::Pool),
    ("volumes", ObjectKind::Volume),
    ("snapshots", ObjectKind::Snapshot),
    ("databases", ObjectKind::Database),
    ("schedules", ObjectKind::Schedule),
    ("objectives", ObjectKind::Objective),
    ("marks", ObjectKind::Mark),
    ("attachments", ObjectKind::Attachment),
    ("hosts", ObjectKind::Host),
    ("exports", ObjectKind::Export),
    ("jobs", ObjectKind::Job),
    ("users", ObjectKind::User),
    ("tokens", ObjectKind::Token),
];

/// Writes down what was done, before its answer goes out.
pub(super) async fn note_changes(
    State(array): State<Arc<Service>>,
    path: MatchedPath,
    parameters: std::result::Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let could_change = ![Method::GET, Method::HEAD].contains(request.method());
    let is_stranger = request.extensions().get::<Asker>().is_none();
    let mut entry = entry_of(&request);
    let named = parameters.ok().and_then(|parameters| {
        let all: Vec<(&str, &str)> = parameters.iter().collect();
        object_of(path.as_str(), &all)
    });
    let response = next.run(request).await;
    // What strangers fail at is no change, whatever is wrong with it.
    let has_failed = is_stranger && could_change && !response.status().is_success();
    let is_refused = is_refusal(response.status()) || has_failed;
    if !could_change && !is_refused {
        return response;
    }
    let about = response.extensions().get::<About>();
    if let Some(who) = about.and_then(|about| about.who.clone()) {
        entry.who = who;
    }
    entry.object = about.and_then(|about| about.object.clone()).or(named).or_else(|| made(&response));
    entry.status = response.status().as_u16();
    entry.reason = response.extensions().get::<Told>().map(|told| reason(&told.0));
    match is_refused {
        true => array.audit.note_refusal(entry).await,
        false => array.audit.note(entry).await,
    }
    response
}

/// A request that did not come so far as to be one of somebody.
pub(super) fn not_let_in(request: &Request, error: &Error) -> AuditEntry {
    AuditEntry { status: error.kind.http_status(), reason: Some(reason(error)), ..entry_of(request) }
}

/// Refused for who asked, and not for what.
fn is_refusal(status: StatusCode) -> bool {
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS].contains(&status)
}

fn entry_of(request: &Request) -> AuditEntry {
    let asker = request.extensions().get::<Asker>();
    let visitor = request.extensions().get::<Visitor>();
    AuditEntry {
        sequence: 0,
        unix_millis: unix_millis(),
        who: asker.map_or_else(|| "nobody".to_string(), |asker| asker.who.text()),
        address: visitor.and_then(|visitor| visitor.address).map(|address| address.to_string()),
        method: request.method().to_string(),
        path: request.uri().path_and_query().map_or("/", |path| path.as_str()).to_string(),
        object: None,
        status: 0,
        reason: None,
        left_out_count: 0,
    }
}

fn reason(error: &Error) -> String {
    let word = error.reason.and_then(|reason| serde_json::to_value(reason).ok());
    word.and_then(|word| word.as_str().map(str::to_string)).unwrap_or_else(|| error.kind.name().to_string())
}

/// The object that an answer says it made.
fn made(response: &Response) -> Option<ObjectName> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let (collection, name) = location.strip_prefix("/v1/")?.split_once('/')?;
    let (_, kind) = MADE.iter().find(|(known, _)| *known == collection)?;
    Some(ObjectName { kind: *kind, name: name.to_string() })
}
