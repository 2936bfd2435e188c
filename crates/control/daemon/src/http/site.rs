//! By which names an address of the API may be called, and what browsers are told about its answers.
//!
//! A browser runs other people's programs: a page cannot hide where it comes from (`Origin`) nor the name it
//! used for us (`Host`). What comes for another name, or from a page of another site, is refused before
//! anything else, so that no page elsewhere reaches the array through somebody's browser.

use std::net::IpAddr;
use std::sync::Arc;

use ashlar_api::{ErrorKind, Reason};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::Error;
use crate::tls::Tls;

/// Browsers ask this name over TLS alone for so long. Half a year: arbitrary.
const ONLY_OVER_TLS: &str = "max-age=15552000";
/// What holds no page of ours shows none, and loads nothing.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// Headers that say who asks, and whom.
static ONCE: [&str; 3] = ["host", "origin", "authorization"];

/// An address, and what it is called.
#[derive(Clone)]
pub(crate) struct Site(Arc<Known>);

struct Known {
    address: IpAddr,
    /// More names that the settings give.
    names: Vec<String>,
    tls: Option<Tls>,
}

impl Site {
    pub(crate) fn new(address: IpAddr, names: &[String], tls: Option<Tls>) -> Site {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Site(Arc::new(Known { address, names, tls }))
    }

    /// Whether the array goes by this name here, as `Host` has it.
    fn is_called(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let known = &self.0;
        if known.address.is_loopback() && is_local(name) {
            return true;
        }
        let is_own = bare.parse().is_ok_and(|address: IpAddr| address == known.address);
        is_own
            || known.names.iter().any(|known| known.eq_ignore_ascii_case(name.trim_end_matches('.')))
            || known.tls.as_ref().is_some_and(|tls| tls.certificate().is_for(name))
    }

    fn scheme(&self) -> &'static str {
        if self.0.tls.is_some() { "https" } else { "http" }
    }

    fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Error> {
        // Who looks at another one of them than we would let in what we did not look at.
        if let Some(name) = ONCE.iter().find(|name| headers.get_all(**name).iter().count() > 1) {
            let what = format!("the request has more than one `{name}`");
            return Err(Error::invalid(what, "send one"));
        }
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let forbidden = |message: String| {
            let action = match self.0.tls {
                None => "call the API from a program on this machine, as http://127.0.0.1:PORT",
                Some(_) => "use a name of its certificate, or add that name to the setting `api_names`",
            };
            Err(Error::new(ErrorKind::Forbidden, message, action).because(Reason::OtherSite))
        };
        // RFC 9112, sections 3.2 and 3.2.2: each request has one, and a target with a host has the last word.
        let Some(host) = header("host") else {
            return Err(Error::invalid(
                "the request has no `Host`",
                "send the name by which it calls this array",
            ));
        };
        let host = target.authority().map_or(host, |authority| authority.as_str());
        if !self.is_called(host) {
            return forbidden(format!("`{}` is not a name of this array", host.escape_debug()));
        }
        match header("origin").map(|origin| (origin, origin.split_once("://"))) {
            None => Ok(()),
            Some((_, Some((scheme, from)))) if scheme == self.scheme() && from == host => Ok(()),
            Some((origin, _)) => {
                forbidden(format!("a page from `{}` may not use this array", origin.escape_debug()))
            }
        }
    }
}

/// Refuses requests for another name, and those that a page from elsewhere made; tells browsers what to make
/// of the answers.
pub(crate) async fn only_for_us(State(site): State<Site>, request: Request, next: Next) -> Response {
    let mut response = match site.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    let mut tell = |name: &'static str, value: &'static str| {
        if !headers.contains_key(name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    };
    tell("x-content-type-options", "nosniff");
    tell("content-security-policy", POLICY);
    tell("x-frame-options", "DENY");
    tell("referrer-policy", "no-referrer");
    tell("cross-origin-resource-policy", "same-origin");
    tell("cache-control", "no-store");
    if site.0.tls.is_some() {
        tell("strict-transport-security", ONLY_OVER_TLS);
    }
    response
}

fn is_local(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name == "[::1]"
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Of a request that names no host but by its headers.
    fn check(site: &Site, headers: &HeaderMap) -> Result<(), Error> {
        site.check(&"/v1/status".parse().unwrap(), headers)
    }

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
        let site = Site::new("127.0.0.1".parse().unwrap(), &[], None);
        for host in ["127.0.0.1:9410", "localhost:1", "[::1]:9410", "127.0.0.2", "LOCALHOST:9410"] {
            assert!(check(&site, &headers(host, None)).is_ok(), "{host}");
        }
        assert!(check(&site, &headers("localhost:9410", Some("http://localhost:9410"))).is_ok());
        for (host, origin) in [
            ("evil.example:9410", None),
            ("127.0.0.1.evil.example", None),
            ("localhost:9410", Some("http://evil.example")),
            ("localhost:9410", Some("null")),
            ("localhost:9410", Some("http://localhost:8080")),
            ("localhost:9410", Some("https://localhost:9410")),
        ] {
            assert!(check(&site, &headers(host, origin)).is_err(), "{host} {origin:?}");
        }
        assert!(check(&site, &HeaderMap::new()).is_err());
    }

    /// The harm: something before the array looks at the one and lets the request through, we at the other.
    #[test]
    fn what_says_who_asks_is_there_once() {
        let site = Site::new("127.0.0.1".parse().unwrap(), &[], None);
        for name in ONCE {
            let mut twice = headers("localhost:9410", Some("http://localhost:9410"));
            twice.insert("authorization", "Bearer x".parse().unwrap());
            assert!(check(&site, &twice).is_ok());
            let same = twice[name].clone();
            twice.append(name, same);
            let error = check(&site, &twice).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        }
        let elsewhere = "http://evil.example/v1/status".parse().unwrap();
        assert!(site.check(&elsewhere, &headers("localhost:9410", None)).is_err());
        let here = "http://localhost:9410/v1/status".parse().unwrap();
        assert!(site.check(&here, &headers("localhost:9410", None)).is_ok());
    }

    #[test]
    fn off_loopback_the_address_and_the_names_of_the_settings_count() {
        let names = ["Array.example".to_string()];
        let site = Site::new("192.0.2.7".parse().unwrap(), &names, None);
        for host in ["192.0.2.7:9410", "array.example:9410", "array.example", "ARRAY.example."] {
            assert!(check(&site, &headers(host, None)).is_ok(), "{host}");
        }
        for host in ["localhost:9410", "127.0.0.1", "192.0.2.8:9410", "evil.example", "x.array.example", ""] {
            assert!(check(&site, &headers(host, None)).is_err(), "{host}");
        }
        let site = Site::new("2001:db8::7".parse().unwrap(), &[], None);
        assert!(check(&site, &headers("[2001:db8::7]:9410", None)).is_ok());
    }
}
