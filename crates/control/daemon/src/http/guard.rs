//! Who may use a TCP port: who shows a token, that of its file, one of the array's, or of a session.
//!
//! Also a loopback port asks for one: every user of this machine and every container with its network reaches
//! it.

use std::sync::Arc;

use ashlar_api::{ErrorKind, Reason};
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::unread::end_behind;
use super::{audited, roles};
use crate::access::Access;
use crate::asker::Asker;
use crate::audit::Audit;
use crate::error::Error;
use crate::places::Caller;
use crate::sessions::Sessions;
use crate::strangers::{Standing, TooMany};
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
    /// Other machines reach it.
    pub(crate) is_far: bool,
}

/// Refuses requests that show none of these. Who showed one before and does no more loses the connection: it
/// holds a place that nobody else may take.
pub(crate) async fn only_with_token(State(keys): State<Keys>, mut request: Request, next: Next) -> Response {
    let is_open = keys.sessions.is_some() && roles::is_open(request.uri().path());
    let standing = request.extensions().get::<Arc<Standing>>().cloned();
    let asker = match keys.check(request.headers()) {
        Ok(asker) => asker,
        Err(error) => {
            let mut response = match is_open {
                true => next.run(request).await,
                false => {
                    keys.audit.note_refusal(audited::not_let_in(&request, &error)).await;
                    error.into_response()
                }
            };
            if standing.is_some_and(|standing| standing.has_shown_token()) {
                end_behind(response.headers_mut());
            }
            return response;
        }
    };
    let account = || asker.who.text();
    let counted = standing.map_or(Ok(()), |standing| standing.show_token(account));
    if is_open {
        return next.run(request).await;
    }
    if let Err(TooMany(count)) = counted {
        let what = format!("{} has {count} connections open here, the most of one", account());
        let error = Error::new(ErrorKind::Closed, what, "end some of them").because(Reason::Overloaded);
        let mut response = error.into_response();
        end_behind(response.headers_mut());
        return response;
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
        let mut asker = asker.ok_or_else(|| {
            Error::unauthorized("the token that the request shows opens nothing here, or no more")
        })?;
        // Who was root over the socket is an admin from elsewhere: no program is named from there.
        if self.is_far && asker.caller == Caller::Owner {
            asker.caller = Caller::Person;
        }
        Ok(asker)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::log::Log;
    use crate::state::State;

    #[test]
    fn only_the_right_token_in_the_right_words_passes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("token");
        let token = Token::load_or_make(&path, crate::token::Readers::Owner).unwrap();
        let text = std::fs::read_to_string(path).unwrap().trim().to_string();
        let sessions = Arc::new(Sessions::default());
        let owner = Asker::at_socket(Some(0), Caller::Owner);
        let session = sessions.open(&sessions.ticket(owner.who.clone()).unwrap(), |_| true).unwrap();
        let log = Arc::new(Log::plain());
        let state = State::open(scratch.path()).unwrap();
        let keys = Keys {
            tokens: [(token, Asker::with_file(None))].into(),
            sessions: Some(sessions),
            access: Arc::new(Access::load(&state, &log).unwrap()),
            audit: Audit::new(scratch.path(), log),
            is_far: false,
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
        let far = Keys { is_far: true, ..keys.clone() };
        let headers = HeaderMap::from_iter([(
            "authorization".parse().unwrap(),
            format!("Bearer {session}").parse().unwrap(),
        )]);
        let from_far = far.check(&headers).unwrap();
        assert_eq!((from_far.caller, from_far.role), (Caller::Person, ashlar_api::Role::Admin));
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
            assert_eq!(error.kind, ErrorKind::Unauthorized, "{value:?}");
            assert!(!error.to_string().contains(&text), "an error tells the token");
        }
    }
}
