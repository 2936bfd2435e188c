//! Single objects as answers: with the tag of their state, and where a new one is.

use ashlar_api::{ObjectKind, ObjectName, Reason};
use axum::Json;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::header::{ETAG, IF_MATCH, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::extract::Told;
use crate::error::{Error, Result};
use crate::tag::{Seen, Tagged};

/// One object, with its tag.
pub(super) struct Shown<T>(pub(super) T);

impl<T: Serialize + Tagged> IntoResponse for Shown<T> {
    fn into_response(self) -> Response {
        let tag = self.0.tag();
        let mut response = Json(self.0).into_response();
        insert(&mut response, ETAG, &tag);
        response
    }
}

/// A new object, or something that holds it, and where it is.
pub(super) struct Made<T> {
    location: String,
    tag: Option<String>,
    value: T,
}

impl<T> Made<T> {
    /// At this path, whose parts are names of ours: they need no escapes.
    pub(super) fn at(location: String, value: T) -> Made<T> {
        Made { location, tag: None, value }
    }

    /// What is answered.
    pub(super) fn value(&self) -> &T {
        &self.value
    }

    /// With the tag of the object that this is.
    pub(super) fn tagged(self) -> Made<T>
    where
        T: Tagged,
    {
        Made { tag: Some(self.value.tag()), ..self }
    }
}

impl<T: Serialize> IntoResponse for Made<T> {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::CREATED, Json(self.value)).into_response();
        insert(&mut response, LOCATION, &self.location);
        if let Some(tag) = &self.tag {
            insert(&mut response, ETAG, tag);
        }
        response
    }
}

fn insert(response: &mut Response, name: axum::http::HeaderName, value: &str) {
    // Names of objects are letters of headers, too.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// What the caller last saw of the object.
impl<S: Send + Sync> FromRequestParts<S> for Seen {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Seen> {
        if !parts.headers.contains_key(IF_MATCH) {
            return Ok(Seen::Unsaid);
        }
        let values = parts.headers.get_all(IF_MATCH).iter().map(|value| value.to_str().unwrap_or_default());
        Seen::parse(values).ok_or_else(|| {
            Error::invalid(
                "the header `If-Match` is neither `*` nor a list of tags",
                "send the `ETag` of an answer as it is, with its quotes",
            )
            .because(Reason::WrongParameter)
        })
    }
}

/// Says of a problem which object is meant, where the error itself does not: the one that the path names.
pub(super) async fn name_object(
    path: MatchedPath,
    parameters: std::result::Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let object = parameters.ok().and_then(|parameters| {
        let all: Vec<(&str, &str)> = parameters.iter().collect();
        object_of(path.as_str(), &all)
    });
    let response = next.run(request).await;
    match (response.extensions().get::<Told>().cloned(), object) {
        (Some(Told(error)), Some(object)) if error.object.is_none() => {
            Error { object: Some(object), ..error }.into_response()
        }
        _ => response,
    }
}

pub(super) fn object_of(path: &str, parameters: &[(&str, &str)]) -> Option<ObjectName> {
    let value = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    if let (Some(pool), Some(number)) = (value("pool"), value("number")) {
        return Some(ObjectName { kind: ObjectKind::Drive, name: format!("{pool}/{number}") });
    }
    let of_volume = match path {
        path if path.starts_with("/v1/deleted-volumes/") => ObjectKind::DeletedVolume,
        path if path.starts_with("/v1/attachments/") => ObjectKind::Attachment,
        path if path.starts_with("/v1/exports/") => ObjectKind::Export,
        _ => ObjectKind::Volume,
    };
    let kinds = [
        ("pool", ObjectKind::Pool),
        ("volume", of_volume),
        ("snapshot", ObjectKind::Snapshot),
        ("database", ObjectKind::Database),
        ("schedule", ObjectKind::Schedule),
        ("objective", ObjectKind::Objective),
        ("mark", ObjectKind::Mark),
        ("host", ObjectKind::Host),
        ("client", ObjectKind::Client),
        ("job", ObjectKind::Job),
        ("result", ObjectKind::LabResult),
        ("user", ObjectKind::User),
        ("token", ObjectKind::Token),
    ];
    let (kind, name) = kinds.into_iter().find_map(|(key, kind)| Some((kind, value(key)?)))?;
    Some(ObjectName { kind, name: name.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_object() {
        let of = |path: &str, parameters: &[(&str, &str)]| {
            object_of(path, parameters).map(|object| (object.kind, object.name))
        };
        let named = |kind, name: &str| Some((kind, name.to_string()));
        assert_eq!(of("/v1/volumes/{volume}", &[("volume", "db")]), named(ObjectKind::Volume, "db"));
        assert_eq!(
            of("/v1/deleted-volumes/{volume}", &[("volume", "db:3")]),
            named(ObjectKind::DeletedVolume, "db:3")
        );
        assert_eq!(
            of("/v1/pools/{pool}/drives/{number}", &[("pool", "main"), ("number", "1")]),
            named(ObjectKind::Drive, "main/1")
        );
        assert_eq!(of("/v1/volumes", &[]), None);
        assert_eq!(of("/v1/space/holders/{name}", &[("name", "x")]), None);
    }
}
