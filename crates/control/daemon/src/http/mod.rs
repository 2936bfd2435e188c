//! The API over HTTP: routes, the same on the UNIX socket and on TCP.

mod access;
mod audited;
mod console;
mod databases;
mod difference;
mod extract;
mod guard;
mod handlers;
mod hosts;
mod jobs;
mod lab;
mod lists;
mod live;
mod marks;
mod object;
mod objectives;
mod once;
mod page;
mod question;
mod roles;
mod schedules;
mod settings;
mod site;
mod unread;
mod whole;

use std::sync::Arc;

use ashlar_api as api;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, patch, post, put};

use crate::service::Service;

pub(crate) use guard::{Keys, only_with_token};
pub(crate) use site::{Site, only_for_us};
pub(crate) use unread::Unread;

/// Every operation of the API; a test of the binary compares it with the description.
// tidy: long because it names every path once.
pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/pools", get(lists::pools).post(handlers::pool_create))
        .route("/v1/pools/{pool}", get(handlers::pool_show).delete(handlers::pool_delete))
        .route("/v1/pools/{pool}/check", post(handlers::pool_check))
        .route("/v1/pools/{pool}/scrub", post(handlers::pool_scrub).patch(handlers::pool_scrub_change))
        .route("/v1/pools/{pool}/export", post(handlers::pool_export))
        .route("/v1/pools/{pool}/import", post(handlers::pool_import))
        .route("/v1/pools/{pool}/reopen", post(handlers::pool_reopen))
        .route("/v1/pools/{pool}/drives", post(handlers::drives_add))
        .route("/v1/pools/{pool}/drives/{number}", patch(handlers::drive_set).delete(handlers::drive_remove))
        .route("/v1/pools/{pool}/drives/{number}/replace", post(handlers::drive_replace))
        .route("/v1/pools/{pool}/drives/{number}/online", post(handlers::drive_online))
        .route("/v1/pools/{pool}/drives/{number}/offline", post(handlers::drive_offline))
        .route("/v1/pools/{pool}/space", get(handlers::pool_space))
        .route("/v1/pools/{pool}/dedupe", get(handlers::pool_dedupe).post(handlers::pool_dedupe_change))
        .route("/v1/space/reclaim", post(handlers::space_reclaim))
        .route("/v1/space/holders/{name}", get(handlers::space_holders))
        .route("/v1/volumes", get(lists::volumes).post(handlers::volume_create))
        .route(
            "/v1/volumes/{volume}",
            get(handlers::volume_show).patch(handlers::volume_resize).delete(handlers::volume_delete),
        )
        .route("/v1/deleted-volumes", get(lists::deleted_volumes))
        .route("/v1/deleted-volumes/{volume}", delete(handlers::deleted_volume_purge))
        .route("/v1/deleted-volumes/{volume}/undelete", post(handlers::volume_undelete))
        .route("/v1/volumes/{volume}/policy", put(handlers::volume_set))
        .route("/v1/volumes/{volume}/users", get(handlers::volume_users))
        .route("/v1/volumes/{volume}/profile", get(live::volume_profile))
        .route("/v1/volumes/{volume}/disconnect", post(handlers::volume_disconnect))
        .route("/v1/snapshots", get(lists::snapshots).post(handlers::snapshot_create))
        .route("/v1/snapshot-deletions", post(handlers::snapshots_delete))
        .route("/v1/snapshots/{snapshot}", get(handlers::snapshot_show).delete(handlers::snapshot_delete))
        .route("/v1/snapshots/{snapshot}/restore", post(handlers::snapshot_restore))
        .route(
            "/v1/snapshots/{snapshot}/hold",
            put(handlers::snapshot_hold).delete(handlers::snapshot_release),
        )
        .route("/v1/clones", post(handlers::clone_create))
        .merge(databases::routes(&service))
        .merge(difference::routes())
        .merge(schedules::routes(&service))
        .merge(objectives::routes(&service))
        .merge(hosts::routes(&service))
        .merge(marks::routes())
        .merge(access::routes())
        .merge(console::routes())
        .merge(jobs::routes())
        .merge(lab::routes())
        .merge(settings::routes())
        .route("/v1/attachments", get(lists::attachments).post(handlers::attachment_create))
        .route("/v1/attachments/{volume}", get(handlers::attachment_show).delete(handlers::attachment_delete))
        .route("/v1/clients", get(lists::clients))
        .route("/v1/clients/{client}", delete(handlers::client_disconnect))
        .route("/v1/stop", post(handlers::stop))
        .route("/v1/upgrade", post(handlers::upgrade))
        .route("/v1/health", get(handlers::health))
        .route("/v1/live", get(live::live))
        .route("/v1/history", get(live::history))
        .route("/v1/latencies", get(live::latencies))
        .route("/v1/slow-requests", get(live::slow_requests))
        .route("/v1/status", get(handlers::status))
        .route("/v1/session", get(handlers::session))
        .route("/v1/io", get(handlers::io))
        .route("/v1/events", get(lists::events))
        .route("/openapi.json", get(handlers::openapi))
        .route(api::PROBLEMS_PATH, get(handlers::problems))
        .merge(watched())
        .route_layer(from_fn_with_state(service.clone(), once::only_once))
        .route_layer(from_fn(question::only_known))
        .route_layer(from_fn(roles::only_who_may))
        .route_layer(from_fn(object::name_object))
        .route_layer(from_fn_with_state(service.clone(), audited::note_changes))
        .fallback(handlers::no_such_path)
        .method_not_allowed_fallback(handlers::no_such_method)
        .with_state(service)
}

/// What programs ask that watch the array.
fn watched() -> Router<Arc<Service>> {
    Router::new()
        .route("/metrics", get(handlers::metrics))
        .route("/healthz", get(handlers::healthz))
        .route("/readyz", get(handlers::readyz))
}

/// What the address of metrics answers.
pub(crate) fn metrics_router(service: Arc<Service>) -> Router {
    watched()
        .route_layer(from_fn(question::only_known))
        .route_layer(from_fn(roles::only_who_may))
        .fallback(handlers::only_metrics)
        .method_not_allowed_fallback(handlers::only_metrics)
        .with_state(service)
}
