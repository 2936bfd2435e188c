//! Whether who asks may: each operation takes a role at least, as the table of `ashlar-api` says.
//!
//! Whatever is served and stands in no table is refused: what somebody forgot is closed, not open.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ashlar_api::{ErrorKind, Least, PROBLEMS_PATH, Reason, Role, TokenScope};
use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::asker::{Asker, Who};
use crate::error::Error;

/// The id of every operation, by method and path.
static OPERATIONS: LazyLock<BTreeMap<(String, String), String>> =
    LazyLock::new(ashlar_api::operations_by_place);

/// What is answered to `GET` besides the operations: files that hold nothing of the array, and what programs
/// ask that watch it.
const OTHERS: [(&str, Least); 9] = [
    ("/", Least::Nobody),
    ("/console", Least::Nobody),
    ("/console/", Least::Nobody),
    ("/console/{*path}", Least::Nobody),
    (PROBLEMS_PATH, Least::Nobody),
    ("/openapi.json", Least::Role(Role::Viewer)),
    ("/metrics", Least::Role(Role::Viewer)),
    ("/healthz", Least::Role(Role::Viewer)),
    ("/readyz", Least::Role(Role::Viewer)),
];
/// What a token for metrics alone is for, besides operations.
const OF_METRICS: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

/// Whether a path may be asked for by somebody who is not let in yet: our own files, and how one is let in.
pub(super) fn is_open(path: &str) -> bool {
    ["/", "/console", "/v1/console-sessions", "/v1/sessions", PROBLEMS_PATH].contains(&path)
        || path.starts_with("/console/")
}

/// Refuses requests of those whose role is too low.
pub(super) async fn only_who_may(path: MatchedPath, request: Request, next: Next) -> Response {
    let asker = request.extensions().get::<Asker>();
    match check(request.method(), path.as_str(), asker) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check(method: &Method, path: &str, asker: Option<&Asker>) -> Result<(), Error> {
    // What answers GET answers HEAD.
    let method = if method == Method::HEAD { Method::GET } else { method.clone() };
    let operation = OPERATIONS.get(&(method.to_string(), path.to_string())).map(String::as_str);
    let least = match operation {
        Some(operation) => ashlar_api::least_for(operation),
        None if method == Method::GET => OTHERS.iter().find(|(at, _)| *at == path).map(|(_, least)| *least),
        None => None,
    };
    let Some(least) = least else {
        return Err(Error::new(
            ErrorKind::Forbidden,
            format!("no role may {method} `{path}`: it stands in no table"),
            "tell the makers of this program",
        )
        .because(Reason::RoleTooLow));
    };
    let Least::Role(least) = least else { return Ok(()) };
    let Some(asker) = asker else {
        return Err(Error::unauthorized("nobody says who asks"));
    };
    let name = operation.unwrap_or(path);
    if let Some(only) = asker.only.filter(|only| !covers(*only, operation, path)) {
        return Err(Error::new(
            ErrorKind::Forbidden,
            format!("{} is for {} alone, and not for `{name}`", subject(asker), only.name()),
            "use another token: `ashlar token create` makes one",
        )
        .because(Reason::TokenLimited));
    }
    if asker.role < least {
        return Err(too_low(asker, name, least));
    }
    Ok(())
}

fn covers(only: TokenScope, operation: Option<&str>, path: &str) -> bool {
    match operation {
        Some(operation) => only.covers(operation),
        None => only == TokenScope::Metrics && OF_METRICS.contains(&path),
    }
}

fn subject(asker: &Asker) -> String {
    match &asker.who {
        Who::User { name, .. } => format!("user `{name}`"),
        Who::Token { name, .. } => format!("token `{name}`"),
        Who::Peer { .. } | Who::File => "this token".to_string(),
    }
}

fn too_low(asker: &Asker, operation: &str, least: Role) -> Error {
    let (who, has, takes) = (subject(asker), asker.role.name(), least.name());
    let action = match &asker.who {
        Who::Token { .. } => "use a token of that role: `ashlar token create` makes one",
        _ => "ask somebody with that role, or an admin to give it: `ashlar user set ... --role ...`",
    };
    Error::new(
        ErrorKind::Forbidden,
        format!("{who} has the role {has}, and `{operation}` takes {takes}"),
        action,
    )
    .because(Reason::RoleTooLow)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::places::Caller;

    fn asker(role: Role, only: Option<TokenScope>) -> Asker {
        let who = Who::Token { name: "t".to_string(), stamp: 1 };
        Asker { who, caller: Caller::Person, role, only, session: None }
    }

    #[test]
    fn each_operation_takes_its_role_and_what_is_in_no_table_is_closed() {
        for ((method, path), operation) in &*OPERATIONS {
            let method: Method = method.parse().unwrap();
            let least = ashlar_api::least_for(operation).unwrap();
            for role in Role::ALL {
                let is_free = least == Least::Nobody;
                let is_enough = matches!(least, Least::Role(least) if role >= least);
                let checked = check(&method, path, Some(&asker(role, None)));
                assert_eq!(checked.is_ok(), is_free || is_enough, "{method} {path} {role:?}");
            }
            let nobody = check(&method, path, None);
            assert_eq!(nobody.is_ok(), is_open(path), "{method} {path}");
        }
        let admin = asker(Role::Admin, None);
        for (method, path) in
            [(Method::GET, "/v1/forgotten"), (Method::PUT, "/v1/volumes"), (Method::POST, "/metrics")]
        {
            let error = check(&method, path, Some(&admin)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Forbidden, "{method} {path}");
        }
        assert!(check(&Method::HEAD, "/v1/volumes", Some(&admin)).is_ok());
    }

    #[test]
    fn a_token_for_one_thing_is_for_nothing_else() {
        let metrics = asker(Role::Admin, Some(TokenScope::Metrics));
        let may = |method: Method, path: &str, asker: &Asker| check(&method, path, Some(asker)).is_ok();
        for path in ["/metrics", "/healthz", "/readyz", "/v1/health"] {
            assert!(may(Method::GET, path, &metrics), "{path}");
        }
        assert!(!may(Method::GET, "/openapi.json", &metrics) && !may(Method::GET, "/v1/status", &metrics));
        let snapshots = asker(Role::Operator, Some(TokenScope::Snapshots));
        assert!(may(Method::POST, "/v1/snapshots", &snapshots));
        assert!(!may(Method::DELETE, "/v1/volumes/{volume}", &snapshots));
        assert!(!may(Method::GET, "/metrics", &snapshots));
        // Its role counts all the same.
        let viewer = asker(Role::Viewer, Some(TokenScope::Snapshots));
        let error = check(&Method::POST, "/v1/snapshots", Some(&viewer)).unwrap_err();
        assert_eq!(error.reason, Some(Reason::RoleTooLow));
        assert!(error.message.contains("takes operator"), "{error}");
    }
}
