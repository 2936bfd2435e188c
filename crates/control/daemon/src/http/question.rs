//! What stands after the question mark: an operation takes what its description names, and nothing else. A
//! parameter that is ignored looks like one that works.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ashlar_api as api;
use axum::extract::{MatchedPath, Query, Request};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::Error;

/// The parameters of every operation, by method and path.
static KNOWN: LazyLock<BTreeMap<(String, String), Vec<String>>> = LazyLock::new(api::query_parameters);

/// Refuses requests with parameters that their operation does not take.
pub(super) async fn only_known(path: MatchedPath, request: Request, next: Next) -> Response {
    match check(request.method(), path.as_str(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
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
    ))
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
        assert!(error.message.contains("`limit`") && error.action.contains("`force`, `now`"), "{error}");
        for (method, uri) in [(Method::GET, "/v1/pools?limit=10"), (Method::HEAD, "/v1/pools?limit")] {
            let error = check(method, "/v1/pools", uri).unwrap_err();
            assert!(error.message.contains("`limit`") && error.action.contains("takes none"), "{error}");
        }
        assert!(check(Method::GET, "/metrics", "/metrics?x=1").is_err());
        assert!(check(Method::GET, "/console/{*path}", "/console/volumes/docs?tab=users").is_ok());
    }
}
