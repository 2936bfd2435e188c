//! The operations on marks of the time line.

use std::sync::Arc;

use ashlar_api as api;
use ashlar_api::MarkSort;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use axum::{Json, Router};

use super::extract::{Body, Name, Question};
use super::handlers::{Answer, Array, Created, to_the_end};
use super::lists::List;
use super::object::Made;
use super::page::page;
use crate::error::Result;
use crate::service::Service;

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/marks", get(list).post(create))
        .route("/v1/marks/{mark}", get(show).delete(remove))
}

async fn list(State(array): Array, uri: Uri, Question(query): Question<api::MarksQuery>) -> List<api::Mark> {
    let mut marks = array.marks_of(query.volume.as_deref(), query.database.as_deref()).await?;
    marks.retain(|mark| {
        query.kind.is_none_or(|kind| mark.kind == kind)
            && query.since_unix_millis.is_none_or(|since| mark.unix_millis >= since)
    });
    page(&uri, &query.page(), MarkSort::Time, marks, |mark, sort| match sort {
        MarkSort::Time => (mark.unix_millis.into(), (&mark.id).into()),
    })
}

async fn create(State(array): Array, Body(request): Body<api::MarkCreate>) -> Created<api::Mark> {
    let mark = to_the_end(async move { array.mark_create(request).await }).await?;
    Ok(Made::at(format!("/v1/marks/{}", mark.id), mark))
}

async fn show(State(array): Array, Name(mark): Name) -> Answer<api::Mark> {
    array.mark(&mark).await.map(Json)
}

async fn remove(State(array): Array, Name(mark): Name) -> Result<StatusCode> {
    to_the_end(async move { array.mark_delete(&mark).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
