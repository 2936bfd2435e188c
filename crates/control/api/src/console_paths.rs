//! The operations of the console and of who watches, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{
    ConsoleSession, ConsoleSessionCreate, ConsoleTicket, History, HistoryRange, IoProfile, Latencies,
    Problem, SlowRequest,
};

/// Makes an address that opens the console in a browser, once. The first call opens a loopback address for it
/// where the setting `api` names none.
#[utoipa::path(
    post, path = "/v1/console-tickets", tag = "console", operation_id = "console_ticket_create",
    responses(
        (status = 201, description = "the answer", body = ConsoleTicket),
        (status = 409, description = "the address is taken", body = Problem),
    )
)]
fn console_ticket_create() {}

/// Takes a ticket for a session. Needs no token: the ticket is one.
#[utoipa::path(
    post, path = "/v1/console-sessions", tag = "console", operation_id = "console_session_create",
    request_body = ConsoleSessionCreate, security(()),
    responses(
        (status = 201, description = "the answer", body = ConsoleSession),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 401, description = "the ticket is used up, too old or none", body = Problem),
    )
)]
fn console_session_create() {}

/// Figures and events as they come: server-sent events (HTML standard, section 9.2). `hello` comes first
/// (`Hello`), then `figures` once a second (`Figures`) and `event` (`Event`), whose `id` is the boot id, a
/// colon and the sequence number. Who shows the last one as `Last-Event-ID` gets the events that were missed.
#[utoipa::path(
    get, path = "/v1/live", tag = "console", operation_id = "live",
    responses(
        (status = 200, description = "the stream", body = String, content_type = "text/event-stream"),
    )
)]
fn live() {}

/// What hosts did in the last hour, day or week.
#[utoipa::path(
    get, path = "/v1/history", tag = "console", operation_id = "history",
    params(
        ("object" = String, Query, description = "`array`, `pool:NAME` or `volume:NAME`"),
        ("range" = HistoryRange, Query, description = "how far back"),
    ),
    responses(
        (status = 200, description = "the answer", body = History),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn history() {}

/// How long requests took in the last hour, day or week: a histogram for each step of the series.
#[utoipa::path(
    get, path = "/v1/latencies", tag = "console", operation_id = "latencies",
    params(
        ("object" = String, Query, description = "`array`, `pool:NAME` or `volume:NAME`"),
        ("range" = HistoryRange, Query, description = "how far back"),
    ),
    responses(
        (status = 200, description = "the answer", body = Latencies),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn latencies() {}

/// The slowest requests of the last five minutes, the slowest first, with the time of each stage.
#[utoipa::path(
    get, path = "/v1/slow-requests", tag = "console", operation_id = "slow_requests",
    responses(
        (status = 200, description = "the answer", body = Vec<SlowRequest>),
    )
)]
fn slow_requests() {}

/// What the requests of a volume look like: their lengths, kinds, and whether they follow one another. With
/// `seconds` those of so many seconds from now on, answered then.
#[utoipa::path(
    get, path = "/v1/volumes/{volume}/profile", tag = "volumes", operation_id = "volume_profile",
    params(
        ("volume" = String, Path, description = "name of the volume"),
        ("seconds" = Option<u64>, Query,
            description = "how long to count, 1 to 60; absent: since the array started"),
    ),
    responses(
        (status = 200, description = "the answer", body = IoProfile),
        (status = 400, description = "the request is wrong", body = Problem),
        (status = 404, description = "no such object", body = Problem),
    )
)]
fn volume_profile() {}
