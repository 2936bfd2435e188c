//! A request that shows an `Idempotency-Key` is carried out once: sent again, it gets the same answer.

use std::sync::{Arc, LazyLock};

use ashlar_api::{ErrorKind, KEY_BYTES_MAX, Reason};
use axum::body::{Body, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::LengthLimitError;

use super::extract::{BODY_BYTES_MAX, BODY_WAIT_MAX, not_whole, too_large, too_slow};
use crate::asker::Asker;
use crate::error::{Error, Result};
use crate::repeats::{Answer, Content, Found, Turn};
use crate::service::Service;

const KEY: &str = "idempotency-key";
/// On an answer that was given before.
const REPLAYED: &str = "idempotency-replayed";
/// The longest answer that is kept. Arbitrary: a clone of many volumes has some ten thousand bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The operations that answer with one.
static SECRET: LazyLock<Vec<(String, String)>> = LazyLock::new(ashlar_api::secret_operations);

pub(super) async fn only_once(
    State(array): State<Arc<Service>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    // A secret is told once, and nobody keeps it.
    let tells_secret =
        SECRET.iter().any(|(method, at)| method == request.method().as_str() && at == path.as_str());
    if request.method() != Method::POST || tells_secret || !request.headers().contains_key(KEY) {
        return next.run(request).await;
    }
    match once(&array, request, next).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn once(array: &Service, request: Request, next: Next) -> Result<Response> {
    let key = key(request.headers())?;
    let Some(caller) = request.extensions().get::<Asker>().map(|asker| asker.who.keys_of()) else {
        return Ok(next.run(request).await);
    };
    let address = request.uri().to_string();
    let (parts, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_WAIT_MAX, to_bytes(body, BODY_BYTES_MAX)).await;
    let body = body.map_err(|_| too_slow())?.map_err(|error| match is_too_long(&error) {
        true => too_large(),
        false => not_whole(),
    })?;
    let turn = match array.repeats.find(&caller, &key, Content::of(&address, &body)) {
        Found::New(turn) => turn,
        Found::Answered(answer) => return Ok(again(answer)),
        Found::UnderWay => return Err(under_way(&key)),
        Found::Other => return Err(of_another(&key)),
        Found::Full => return Err(Error::overloaded()),
    };
    // To the end, also when whoever asked hangs up: he asks again.
    let work = tokio::spawn(carry_out(Request::from_parts(parts, Body::from(body)), next, turn));
    work.await.unwrap_or_else(|_| Err(Error::stopping()))
}

async fn carry_out(request: Request, next: Next, turn: Turn) -> Result<Response> {
    let response = next.run(request).await;
    // A stream has no end to wait for.
    if !response.status().is_success() || is_stream(response.headers()) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.map_err(|_| Error::stopping())?;
    if body.len() <= ANSWER_BYTES_MAX {
        let (status, headers) = (parts.status, parts.headers.clone());
        turn.answered(Answer { status, headers, body: body.clone() });
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

fn is_too_long(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<LengthLimitError>())
}

fn key(headers: &HeaderMap) -> Result<String> {
    let values: Vec<&HeaderValue> = headers.get_all(KEY).iter().collect();
    let only = match values[..] {
        [only] => only.to_str().ok(),
        _ => None,
    };
    let is_good = |key: &&str| {
        (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
    };
    only.filter(is_good).map(str::to_string).ok_or_else(|| {
        Error::invalid(
            "the header `Idempotency-Key` is no key",
            format!("send it once, with 1 to {KEY_BYTES_MAX} visible ASCII letters"),
        )
        .because(Reason::WrongParameter)
    })
}

fn again(answer: Answer) -> Response {
    let Answer { status, headers, body } = answer;
    let mut response = (status, body).into_response();
    *response.headers_mut() = headers;
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

fn under_way(key: &str) -> Error {
    Error::new(
        ErrorKind::Busy,
        format!("the request with the key `{key}` is under way"),
        "send it again in a moment: it then gets the answer of that request",
    )
    .because(Reason::KeyUnderWay)
}

fn of_another(key: &str) -> Error {
    Error::new(
        ErrorKind::KeyReused,
        format!("the key `{key}` belongs to another request of the last 24 hours"),
        "make up a key for each request, and repeat it only with that request",
    )
}
