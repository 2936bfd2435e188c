//! What stands after the question mark: an operation takes what its description names, and nothing else. A
//! parameter that is ignored looks like one that works.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ashlar_api as api;
use axum::extract::{MatchedPath, Query, Request};
use axum::http::header::IF_MATCH;
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::Error;

/// The parameters of every operation, by method and path.
static KNOWN: LazyLock<BTreeMap<(String, String), Vec<String>>> = LazyLock::new(api::query_parameters);

/// The operations that heed `If-Match`.
static CONDITIONAL: LazyLock<Vec<(String, String)>> = LazyLock::new(api::conditional_operations);

/// Refuses requests with parameters that their operation does not take.
pub(super) async fn only_known(path: MatchedPath, request: Request, next: Next) -> Response {
    let checked = check(request.method(), path.as_str(), request.uri());
    let heeded = request.headers().contains_key(IF_MATCH);
    match checked.and_then(|()| if heeded { check_heeds(request.method(), path.as_str()) } else { Ok(()) }) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Refuses `If-Match` where nothing would heed it: the change would be made whatever somebody else did.
fn check_heeds(method: &Method, path: &str) -> Result<(), Error> {
    let is_change = ![Method::GET, Method::HEAD].contains(method);
    let heeds = CONDITIONAL.iter().any(|(known, at)| known == method.as_str() && at == path);
    if heeds || !is_change {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{method} `{path}` does not heed `If-Match`"),
        "leave that header out; /openapi.json says which operations take it",
    )
    .because(api::Reason::UnknownParameter))
}

fn check(method: &Method, path: &str, uri: &Uri) -> Result<(), Error> {
    // What stands behind a page of the console is for the page.
    if uri.query().is_none_or(str::is_empty) || path.starts_with("/console/") {
        return Ok(());
    }
    // What answers GET answers HEAD.
    let method = if method == Method::HEAD { Method::GET } else { method.clone() };
    let known = match KNOWN.get(&(method.to_string(), path.to_string())) {
        Some(known) => known.as_slice(),
        // Refused for its method.
        None if path.starts_with("/v1/") => return Ok(()),
        None => &[],
    };
    // What is no list of names and values is refused by whoever needs one.
    let Ok(Query(given)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else { return Ok(()) };
    let Some((unknown, _)) = given.iter().find(|(name, _)| !known.contains(name)) else { return Ok(()) };
    let takes = match known {
        [] => "it takes none".to_string(),
        known => format!("it takes `{}`", known.join("`, `")),
    };
    Err(Error::invalid(
        format!("`{}` takes no parameter `{}`", uri.path().escape_debug(), unknown.escape_debug()),
        format!("{takes}: /openapi.json describes every operation"),
    )
    .because(api::Reason::UnknownParameter))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_what_an_operation_describes_passes() {
        let check = |method: Method, path: &str, uri: &str| check(&method, path, &uri.parse().unwrap());
        assert!(check(Method::GET, "/v1/pools", "/v1/pools").is_ok());
        assert!(check(Method::GET, "/v1/pools", "/v1/pools?").is_ok());
        assert!(check(Method::GET, "/v1/events", "/v1/events?after=3").is_ok());
        assert!(check(Method::DELETE, "/v1/volumes/{volume}", "/v1/volumes/x?force=true&now=true").is_ok());
        assert!(check(Method::PUT, "/v1/volumes", "/v1/volumes?a=1").is_ok(), "refused for its method");
        let error = check(Method::DELETE, "/v1/volumes/{volume}", "/v1/volumes/x?now=true&limit=1");
        let error = error.unwrap_err();
        assert_eq!(error.reason, Some(api::Reason::UnknownParameter));
        assert!(error.message.contains("`limit`") && error.action.contains("`force`, `now`"), "{error}");
        for (method, uri) in [(Method::GET, "/v1/status?limit=10"), (Method::HEAD, "/v1/status?limit")] {
            let error = check(method, "/v1/status", uri).unwrap_err();
            assert!(error.message.contains("`limit`") && error.action.contains("takes none"), "{error}");
        }
        assert!(check(Method::GET, "/metrics", "/metrics?x=1").is_err());
        assert!(check(Method::GET, "/console/{*path}", "/console/volumes/docs?tab=users").is_ok());
        for (method, path, is_taken) in [
            (Method::DELETE, "/v1/volumes/{volume}", true),
            (Method::GET, "/v1/volumes/{volume}", true),
            (Method::POST, "/v1/snapshots/{snapshot}/restore", false),
            (Method::PATCH, "/v1/pools/{pool}/scrub", false),
        ] {
            assert_eq!(check_heeds(&method, path).is_ok(), is_taken, "{method} {path}");
        }
    }
}
