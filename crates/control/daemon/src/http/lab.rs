//! The operations on results of the lab.

use std::sync::Arc;

use ashlar_api as api;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;

use super::extract::{Name, Question};
use super::handlers::{Answer, Array};
use crate::error::Result;
use crate::service::Service;

/// A page may bring its own looks, and nothing else: no script of it runs in the array's name.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox";

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/lab-results", get(list))
        .route("/v1/lab-results/{result}", get(show))
        .route("/v1/lab-results/{result}/report", get(report))
}

/// What may stand behind the question mark.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartQuery {
    part: Option<String>,
}

async fn list(State(array): Array) -> Answer<Vec<api::LabResult>> {
    array.lab_results().await.map(Json)
}

async fn show(
    State(array): Array,
    Name(result): Name,
    Question(query): Question<PartQuery>,
) -> Answer<api::LabResult> {
    array.lab_result(&result, query.part).await.map(Json)
}

async fn report(
    State(array): Array,
    Name(result): Name,
    Question(query): Question<PartQuery>,
) -> Result<Response> {
    let page = array.lab_report(&result, query.part).await?;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CONTENT_DISPOSITION, "attachment; filename=\"report.html\""),
    ];
    Ok((headers, page).into_response())
}
