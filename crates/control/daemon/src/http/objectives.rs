//! The operations on objectives of latency.

use std::sync::Arc;

use ashlar_api as api;
use ashlar_api::ObjectiveSort;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::extract::{Body, Name, Question};
use super::handlers::{Array, Object, to_the_end, with_pools};
use super::lists::{List, begins, is};
use super::object::{Made, Shown};
use super::page::{Key, page};
use crate::error::Result;
use crate::service::Service;
use crate::tag::Seen;

pub(super) fn routes(service: &Arc<Service>) -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/objectives", get(list))
        .route("/v1/objectives/{objective}", get(show).put(set).delete(remove))
        .route_layer(from_fn_with_state(service.clone(), with_pools))
}

async fn list(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::ObjectivesQuery>,
) -> List<api::Objective> {
    let mut objectives = array.objectives().await?;
    objectives.retain(|objective| {
        is(&objective.pool, &query.pool)
            && begins(&objective.name, &query.name_prefix)
            && query.is_used_up.is_none_or(|is_used_up| is_used_up == objective.is_used_up)
    });
    page(&uri, &query.page(), ObjectiveSort::Name, objectives, |objective, sort| {
        let key = match sort {
            ObjectiveSort::Name => Key::Nothing,
            ObjectiveSort::Left => objective.left_seconds.into(),
        };
        // A database and a volume may be called alike.
        (key, Key::Text(format!("{} {}", objective.name, objective.kind.name())))
    })
}

async fn show(State(array): Array, Name(objective): Name) -> Object<api::Objective> {
    array.objective(&objective).await.map(Shown)
}

async fn set(
    State(array): Array,
    Name(objective): Name,
    seen: Seen,
    Body(request): Body<api::ObjectiveSet>,
) -> Result<Response> {
    let set = to_the_end(async move { array.objective_set(&objective, request, &seen).await });
    let (objective, is_new) = set.await?;
    let location = format!("/v1/objectives/{}", objective.name);
    Ok(match is_new {
        true => Made::at(location, objective).tagged().into_response(),
        false => Shown(objective).into_response(),
    })
}

async fn remove(State(array): Array, Name(objective): Name, seen: Seen) -> Result<StatusCode> {
    to_the_end(async move { array.objective_delete(&objective, &seen).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
