//! The operations on jobs, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{Job, JobsQuery, Problem};

/// The jobs of the present start, the newest last: work that takes long, and was asked for by a request.
/// Those that came to their end stay until 256 newer ones are there.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", operation_id = "jobs_list",
    params(JobsQuery),
    responses(
        (status = 200, description = "the answer", body = Vec<Job>),
        (status = 400, description = "the request is wrong", body = Problem),
    )
)]
fn jobs_list() {}

/// One job, with its progress, and what it found or made.
#[utoipa::path(
    get, path = "/v1/jobs/{job}", tag = "jobs", operation_id = "job_show",
    params(("job" = String, Path, description = "id of the job")),
    responses(
        (status = 200, description = "the answer", body = Job),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn job_show() {}

/// Ends a job that runs, where that is possible: a scrub behind the segment it is at, an import with all that
/// it made. Forgets one that has come to its end.
#[utoipa::path(
    delete, path = "/v1/jobs/{job}", tag = "jobs", operation_id = "job_cancel",
    params(("job" = String, Path, description = "id of the job")),
    responses(
        (status = 200, description = "the job as it is now", body = Job),
        (status = 403, description = "imports are ended by root over the socket", body = Problem),
        (status = 404, description = "no such object", body = Problem),
        (status = 409, description = "it cannot be ended before its time", body = Problem),
    )
)]
fn job_cancel() {}
