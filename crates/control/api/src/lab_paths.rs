//! The operations on results of the lab, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{LabResult, Problem};

/// Results of the lab in the directory of the setting `lab_results`, the newest first; none without it.
#[utoipa::path(
    get, path = "/v1/lab-results", tag = "lab", operation_id = "lab_results",
    responses(
        (status = 200, description = "the answer", body = Vec<LabResult>),
        (status = 500, description = "the directory cannot be read", body = Problem),
    )
)]
fn lab_results() {}

/// A result of the lab; with `part`, of one experiment of a paper.
#[utoipa::path(
    get, path = "/v1/lab-results/{result}", tag = "lab", operation_id = "lab_result",
    params(
        ("result" = String, Path, description = "name of the result"),
        ("part" = Option<String>, Query, description = "an experiment of the paper"),
    ),
    responses(
        (status = 200, description = "the answer", body = LabResult),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 500, description = "the directory cannot be read", body = Problem),
    )
)]
fn lab_result() {}

/// The page of a result as a file: one HTML document that needs nothing else.
#[utoipa::path(
    get, path = "/v1/lab-results/{result}/report", tag = "lab", operation_id = "lab_report",
    params(
        ("result" = String, Path, description = "name of the result"),
        ("part" = Option<String>, Query, description = "an experiment of the paper"),
    ),
    responses(
        (status = 200, description = "the page", body = String, content_type = "text/html"),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 500, description = "the directory cannot be read", body = Problem),
    )
)]
fn lab_report() {}
