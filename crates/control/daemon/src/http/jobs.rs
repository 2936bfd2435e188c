//! Long work: waited for, or had as a job (`wait=false`, or `Prefer: respond-async`, RFC 7240).

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_api::JobSort;
use axum::extract::{FromRequestParts, State};
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;

use super::extract::{Name, Question};
use super::handlers::{Answer, Array, to_the_end};
use super::lists::List;
use super::page::{Key, page};
use crate::error::{Error, Result};
use crate::places::Caller;
use crate::service::Service;

/// Who does not want to wait is told so of a refusal all the same, if it comes within so long. Arbitrary:
/// refusals take milliseconds.
const REFUSAL_MAX: Duration = Duration::from_millis(250);

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new().route("/v1/jobs", get(list)).route("/v1/jobs/{job}", get(show).delete(cancel))
}

async fn list(State(array): Array, uri: Uri, Question(query): Question<api::JobsQuery>) -> List<api::Job> {
    let mut jobs = array.job_views().await;
    jobs.retain(|job| {
        query.kind.is_none_or(|kind| job.kind == kind)
            && query.state.is_none_or(|state| job.state == state)
            && query.name.as_ref().is_none_or(|name| job.object.name == *name)
    });
    page(&uri, &query.page(), JobSort::Started, jobs, |job, sort| match sort {
        JobSort::Started => {
            let number = job.id.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
            (number.into(), Key::Nothing)
        }
    })
}

async fn show(State(array): Array, Name(job): Name) -> Answer<api::Job> {
    array.job(&job).await.map(Json)
}

async fn cancel(State(array): Array, caller: Caller, Name(job): Name) -> Answer<api::Job> {
    to_the_end(async move { array.job_cancel(caller, &job).await }).await.map(Json)
}

/// Whether the caller waits for the end.
#[derive(Clone, Copy)]
pub(super) struct Wait(pub(super) bool);

#[derive(Deserialize)]
struct WaitQuery {
    wait: Option<bool>,
}

impl<S: Send + Sync> FromRequestParts<S> for Wait {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Wait> {
        let Question(query) = Question::<WaitQuery>::from_request_parts(parts, state).await?;
        let values = parts.headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
        let mut wishes = values.flat_map(|value| value.split(',')).map(str::trim);
        let is_async = wishes.any(|wish| wish.eq_ignore_ascii_case("respond-async"));
        Ok(Wait(query.wait.unwrap_or(!is_async)))
    }
}

/// What long work is answered with.
pub(super) enum Long<T> {
    /// Its end.
    Done(T),
    /// The job that it goes on as.
    UnderWay(Box<api::Job>),
}

impl<T: IntoResponse> IntoResponse for Long<T> {
    fn into_response(self) -> Response {
        match self {
            Long::Done(done) => done.into_response(),
            Long::UnderWay(job) => {
                let location = format!("/v1/jobs/{}", job.id);
                (StatusCode::ACCEPTED, [(LOCATION, location)], Json(job)).into_response()
            }
        }
    }
}

/// Long work on an object, as it is remembered.
pub(super) struct Task<T> {
    pub(super) kind: api::JobKind,
    pub(super) object: api::ObjectName,
    /// What is remembered of its end.
    pub(super) result: fn(&T) -> api::JobResult,
}

impl<T: Send + 'static> Task<T> {
    /// Does it to its end, whether or not the client waits for it.
    pub(super) async fn run(
        self,
        array: Arc<Service>,
        wait: Wait,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Long<T>> {
        let Task { kind, object, result } = self;
        let since = Instant::now();
        let running = array.jobs.begin(kind, object.clone())?;
        let number = running.number();
        let id = array.job_id(number);
        let mut work = tokio::spawn(async move {
            let done = work.await.map_err(|error| match error.kind {
                api::ErrorKind::Cancelled => Error::cancelled(&id, kind, &object),
                _ => error,
            });
            running.end(done.as_ref().map(result).map_err(Error::problem));
            done
        });
        let end = match wait {
            Wait(true) => Some((&mut work).await),
            Wait(false) => tokio::time::timeout(REFUSAL_MAX, &mut work).await.ok(),
        };
        let end = end.map(|end| end.unwrap_or_else(|_| Err(Error::stopping()))).transpose();
        let is_cancelled = end.as_ref().is_err_and(|error| error.kind == api::ErrorKind::Cancelled);
        if end.is_err() && !is_cancelled && since.elapsed() < REFUSAL_MAX {
            // It never was work, and its caller knows.
            array.jobs.forget(number);
        }
        match end? {
            Some(done) if wait.0 => Ok(Long::Done(done)),
            _ => Ok(Long::UnderWay(Box::new(array.job(&array.job_id(number)).await?))),
        }
    }
}

/// An object by its kind and name.
pub(super) fn object(kind: api::ObjectKind, name: &str) -> api::ObjectName {
    api::ObjectName { kind, name: name.to_string() }
}
