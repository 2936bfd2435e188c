//! Keeps pages in a browser on this machine from using the TCP port.
//!
//! The port answers to this machine only, but a browser here runs other people's programs. A page
//! cannot hide where it comes from (`Origin`) nor the name it used for us (`Host`).

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::Error;

/// Refuses requests that a page from elsewhere made.
pub(crate) async fn only_local(request: Request, next: Next) -> Response {
    match check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check(headers: &HeaderMap) -> Result<(), Error> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let forbidden = |message: String| {
        Err(Error::new(
            ashlar_api::ErrorKind::Forbidden,
            message,
            "call the API from a program on this machine, as http://127.0.0.1:PORT",
        ))
    };
    let Some(host) = header("host") else { return forbidden("the request names no host".to_string()) };
    if !is_local(host) {
        return forbidden(format!("`{}` is not a name of this array", host.escape_debug()));
    }
    match header("origin") {
        Some(origin) if origin.split_once("://").is_none_or(|(_, from)| from != host) => {
            forbidden(format!("a page from `{}` may not use this array", origin.escape_debug()))
        }
        _ => Ok(()),
    }
}

fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name == "localhost"
        || name == "[::1]"
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("host", host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert("origin", origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn programs_and_our_own_pages_pass_and_other_pages_do_not() {
        for host in ["127.0.0.1:9410", "localhost:1", "[::1]:9410", "127.0.0.2", "localhost"] {
            assert!(check(&headers(host, None)).is_ok(), "{host}");
        }
        assert!(check(&headers("localhost:9410", Some("http://localhost:9410"))).is_ok());
        for (host, origin) in [
            ("evil.example:9410", None),
            ("127.0.0.1.evil.example", None),
            ("localhost:9410", Some("http://evil.example")),
            ("localhost:9410", Some("null")),
            ("localhost:9410", Some("http://localhost:8080")),
        ] {
            assert!(check(&headers(host, origin)).is_err(), "{host} {origin:?}");
        }
        assert!(check(&HeaderMap::new()).is_err());
    }
}
