//! Who may use a TCP port: who shows a token, and no page but ours in a browser on this machine.
//!
//! The port answers to this machine only, but every user and every container with its network reaches it, so
//! it asks for a token: that of its file, one of the array's, or of a session. And a browser here runs other
//! people's programs: a page cannot hide where it comes from (`Origin`) nor the name it used for us (`Host`).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{audited, roles};
use crate::access::Access;
use crate::asker::Asker;
use crate::audit::Audit;
use crate::error::Error;
use crate::sessions::Sessions;
use crate::strangers::Standing;
use crate::token::Token;

/// What opens an address.
#[derive(Clone)]
pub(crate) struct Keys {
    /// Tokens of files, and who comes with each.
    pub(crate) tokens: Arc<[(Token, Asker)]>,
    /// Where people log in, too.
    pub(crate) sessions: Option<Arc<Sessions>>,
    pub(crate) access: Arc<Access>,
    pub(crate) audit: Audit,
}

/// Refuses requests that show none of these.
pub(crate) async fn only_with_token(State(keys): State<Keys>, mut request: Request, next: Next) -> Response {
    if keys.sessions.is_some() && roles::is_open(request.uri().path()) {
        return next.run(request).await;
    }
    let asker = match keys.check(request.headers()) {
        Ok(asker) => asker,
        Err(error) => {
            keys.audit.note_refusal(audited::not_let_in(&request, &error)).await;
            return error.into_response();
        }
    };
    if let Some(standing) = request.extensions().get::<Arc<Standing>>() {
        standing.show_token();
    }
    request.extensions_mut().insert(asker.caller);
    request.extensions_mut().insert(asker);
    next.run(request).await
}

impl Keys {
    /// Who shows a token that opens this address.
    fn check(&self, headers: &HeaderMap) -> Result<Asker, Error> {
        let shown = shown_token(headers)?;
        if let Some((_, asker)) = self.tokens.iter().find(|(token, _)| token.is(shown)) {
            return Ok(asker.clone());
        }
        if let Some(found) = self.access.holder(shown) {
            return found;
        }
        let session = self.sessions.as_ref().and_then(|sessions| sessions.who(shown));
        let asker = session.and_then(|(number, who)| Some(self.access.asker(&who)?.in_session(number)));
        asker.ok_or_else(|| {
            Error::unauthorized("the token that the request shows opens nothing here, or no more")
        })
    }
}

fn shown_token(headers: &HeaderMap) -> Result<&str, Error> {
    let Some(shown) = headers.get("authorization") else {
        return Err(Error::unauthorized("this address asks for a token, and the request shows none"));
    };
    // RFC 7235, section 2.1: the scheme is the same in any case.
    let token = shown
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    token.ok_or_else(|| Error::unauthorized("the request's `Authorization` is not `Bearer` and a token"))
}

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
        )
        .because(ashlar_api::Reason::OtherSite))
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
    name.eq_ignore_ascii_case("localhost")
        || name == "[::1]"
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::log::Log;
    use crate::places::Caller;
    use crate::state::State;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("host", host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert("origin", origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_the_right_token_in_the_right_words_passes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("token");
        let token = Token::load_or_make(&path, crate::token::Readers::Owner).unwrap();
        let text = std::fs::read_to_string(path).unwrap().trim().to_string();
        let sessions = Arc::new(Sessions::default());
        let owner = Asker::at_socket(Some(0), Caller::Owner);
        let session = sessions.open(&sessions.ticket(owner.who.clone()).unwrap()).unwrap();
        let log = Arc::new(Log::plain());
        let state = State::open(scratch.path()).unwrap();
        let keys = Keys {
            tokens: [(token, Asker::with_file(None))].into(),
            sessions: Some(sessions),
            access: Arc::new(Access::load(&state, &log).unwrap()),
            audit: Audit::new(scratch.path(), log),
        };
        let check = |value: Option<String>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert("authorization", value.parse().unwrap());
            }
            keys.check(&headers)
        };
        assert_eq!(check(Some(format!("Bearer {text}"))), Ok(Asker::with_file(None)));
        assert_eq!(check(Some(format!("Bearer {session}"))), Ok(owner.in_session(1)));
        assert!(check(Some(format!("bearer  {text}"))).is_ok());
        let wrong = [
            String::new(),
            "Bearer".to_string(),
            "Bearer ".to_string(),
            text.clone(),
            format!("Basic {text}"),
            format!("Bearer {text}x"),
            format!("Bearer {}", &text[1..]),
            format!("Bearer {text} {text}"),
        ];
        for value in wrong.into_iter().map(Some).chain([None]) {
            let error = check(value.clone()).unwrap_err();
            assert_eq!(error.kind, ashlar_api::ErrorKind::Unauthorized, "{value:?}");
            assert!(!error.to_string().contains(&text), "an error tells the token");
        }
    }

    #[test]
    fn programs_and_our_own_pages_pass_and_other_pages_do_not() {
        for host in ["127.0.0.1:9410", "localhost:1", "[::1]:9410", "127.0.0.2", "LOCALHOST:9410"] {
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
