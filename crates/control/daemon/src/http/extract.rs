//! Requests into values, and errors into answers: every refusal has the shape of `Problem`.

use std::time::Duration;

use ashlar_api::{ErrorKind, PROBLEM_MEDIA_TYPE, Reason};
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::whole;
use crate::asker::{Asker, Visitor};
use crate::error::Error;
use crate::places::Caller;

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.kind.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self.problem()).expect("problems are plain data");
        let mut response = (status, [(CONTENT_TYPE, PROBLEM_MEDIA_TYPE)], body).into_response();
        if self.kind == ErrorKind::Unauthorized {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        let is_momentary = matches!(self.reason, Some(Reason::Overloaded | Reason::KeyUnderWay));
        if let Some(seconds) = self.wait_seconds.or(is_momentary.then_some(1)) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        // Whoever knows what the path names may say so.
        response.extensions_mut().insert(Told(self));
        response
    }
}

/// The error that an answer tells.
#[derive(Clone)]
pub(super) struct Told(pub(super) Error);

/// How long a body may take. Arbitrary: the largest has 2 MiB.
pub(super) const BODY_WAIT_MAX: Duration = Duration::from_secs(10);
/// The longest body: what the library takes.
pub(super) const BODY_BYTES_MAX: usize = 2 << 20;

/// Who asks, as the connection was found to be.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Self::Rejection> {
        Ok(parts.extensions.get::<Caller>().copied().unwrap_or(Caller::Guest))
    }
}

/// Who asks, for what only somebody who is known may ask.
impl<S: Send + Sync> FromRequestParts<S> for Asker {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asker, Error> {
        let asker = parts.extensions.get::<Asker>().cloned();
        asker.ok_or_else(|| Error::unauthorized("nobody says who asks"))
    }
}

/// Where it comes from.
impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Visitor, Self::Rejection> {
        Ok(parts.extensions.get::<Visitor>().copied().unwrap_or(Visitor { address: None }))
    }
}

/// A JSON body of known shape.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned + Serialize, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Error> {
        // A page in a browser can send other types to us without being asked whether it may.
        check_is_json(request.headers())?;
        // Of what says that it is too long nobody waits for the end.
        if request.body().size_hint().lower() > BODY_BYTES_MAX as u64 {
            return Err(too_large());
        }
        let body = tokio::time::timeout(BODY_WAIT_MAX, Bytes::from_request(request, state)).await;
        let bytes = body.map_err(|_| too_slow())?.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => not_whole(),
        })?;
        parse(&bytes).map(Body)
    }
}

const NOT_JSON: &str = "the request's body is not JSON";
const NOT_TAKEN: &str = "the request's body is not what this operation takes";

fn check_is_json(headers: &HeaderMap) -> Result<(), Error> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::MediaType,
        format!("the request's content type is `{}`", kind.escape_debug()),
        "send `content-type: application/json`",
    ))
}

pub(super) fn too_slow() -> Error {
    let what = format!("the request's body did not come within {} s", BODY_WAIT_MAX.as_secs());
    Error::invalid(what, "send it at once")
}

pub(super) fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, "the request's body is longer than 2 MiB", "send less")
}

pub(super) fn not_whole() -> Error {
    Error::invalid("the request's body did not come whole", "send it again")
}

fn parse<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, Error> {
    let parsed = parse_as_written(bytes);
    // Whole numbers with a point are looked at only where something is wrong: few programs write them.
    let is_of_field = matches!(&parsed, Err(error) if error.reason == Some(Reason::WrongField));
    match is_of_field.then(|| whole::in_digits(bytes)).flatten() {
        Some(bytes) => parse_as_written(&bytes),
        None => parsed,
    }
}

fn parse_as_written<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, Error> {
    let action = "/openapi.json describes every operation";
    let is_json = || serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    if bytes.trim_ascii_start().starts_with(b"[") && is_json() {
        // Fields without their names would be taken by their order.
        let what = format!("{NOT_TAKEN}: it is a list, and not an object");
        return Err(Error::invalid(what, action).because(Reason::WrongField));
    }
    let mut input = serde_json::Deserializer::from_slice(bytes);
    let parsed: T = serde_path_to_error::deserialize(&mut input).map_err(|error| {
        let (what, reason) = match is_json() {
            true => (NOT_TAKEN, Reason::WrongField),
            false => (NOT_JSON, Reason::NotJson),
        };
        Error::invalid(format!("{what}: {error}"), action).because(reason)
    })?;
    let end = input.end();
    end.map_err(|error| Error::invalid(format!("{NOT_JSON}: {error}"), action).because(Reason::NotJson))?;
    // The same for what is in it.
    let written = serde_json::from_slice(bytes).unwrap_or_default();
    let taken = serde_json::to_value(&parsed).unwrap_or_default();
    match list_for_object(&written, &taken) {
        None => Ok(parsed),
        Some(path) => {
            let what = format!("{NOT_TAKEN}: {path}: it is a list, and not an object");
            Err(Error::invalid(what, action).because(Reason::WrongField))
        }
    }
}

/// Where a list was written, and an object was taken from it.
fn list_for_object(written: &Value, taken: &Value) -> Option<String> {
    match (written, taken) {
        (Value::Array(_), Value::Object(_)) => Some(String::new()),
        (Value::Array(written), Value::Array(taken)) => {
            written.iter().zip(taken).enumerate().find_map(|(index, (written, taken))| {
                list_for_object(written, taken).map(|path| format!("[{index}]{path}"))
            })
        }
        (Value::Object(written), Value::Object(taken)) => written.iter().find_map(|(name, written)| {
            let path = list_for_object(written, taken.get(name)?)?;
            let point = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            Some(format!("{name}{point}{path}"))
        }),
        _ => None,
    }
}

/// A JSON body that may be left out.
pub(super) struct OptionalBody<T>(pub(super) T);

impl<T: DeserializeOwned + Serialize + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<OptionalBody<T>, Error> {
        // A body whose type is not told would be left out unseen.
        let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let has_none = length.is_none_or(|length| length.trim() == "0");
        if has_none && !request.headers().contains_key(CONTENT_TYPE) {
            return Ok(OptionalBody(T::default()));
        }
        // What is left out may be said to be nothing, too.
        let body: Body<Option<T>> = Body::from_request(request, state).await?;
        Ok(OptionalBody(body.0.unwrap_or_default()))
    }
}

/// The one name in a path.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Name, Error> {
        let found = Path::<String>::from_request_parts(parts, state).await;
        found
            .map(|Path(name)| Name(name))
            .map_err(|_| Error::invalid("the name in the path is not UTF-8", "check the path"))
    }
}

/// A drive's place in a path: its pool and its number.
pub(super) struct DriveOf(pub(super) String, pub(super) u32);

impl<S: Send + Sync> FromRequestParts<S> for DriveOf {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<DriveOf, Error> {
        let found = Path::<(String, u32)>::from_request_parts(parts, state).await;
        found.map(|Path((pool, number))| DriveOf(pool, number)).map_err(|_| {
            Error::invalid(
                "the path names no drive",
                "write the pool's name and the drive's number; `ashlar pool show` tells both",
            )
        })
    }
}

/// The values after the question mark.
pub(super) struct Question<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Question<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Question<T>, Error> {
        let found = Query::<T>::from_request_parts(parts, state).await;
        found.map(|Query(value)| Question(value)).map_err(|error| {
            // In front stand words of the library, behind them the parameter and what is wrong with it.
            let text = error.body_text();
            let why = text.split_once(": ").map_or(text.as_str(), |(_, why)| why);
            Error::invalid(
                format!("the query is not what this operation takes: {why}"),
                "/openapi.json describes every operation",
            )
            .because(Reason::WrongParameter)
        })
    }
}
