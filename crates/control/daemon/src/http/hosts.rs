//! The operations on hosts and exports.

use std::sync::Arc;

use ashlar_api as api;
use ashlar_api::{ExportSort, HostSort};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use serde::Deserialize;

use super::extract::{Body, Name, Question};
use super::handlers::{Array, Created, Object, to_the_end, with_pools};
use super::lists::{List, begins, is};
use super::object::{Made, Shown};
use super::page::{Key, page};
use crate::error::Result;
use crate::service::Service;
use crate::tag::Seen;

pub(super) fn routes(service: &Arc<Service>) -> Router<Arc<Service>> {
    Router::new()
        .route("/v1/hosts", get(hosts).post(create_host))
        .route("/v1/hosts/{host}", get(show_host).patch(change_host).delete(remove_host))
        .route("/v1/exports", get(exports).post(create_export))
        .route("/v1/exports/{volume}", get(show_export).delete(remove_export))
        .route_layer(from_fn_with_state(service.clone(), with_pools))
}

/// What may stand behind the question mark of a deletion.
#[derive(Deserialize)]
struct DeleteQuery {
    #[serde(default)]
    force: bool,
}

async fn hosts(State(array): Array, uri: Uri, Question(query): Question<api::HostsQuery>) -> List<api::Host> {
    let mut hosts = array.hosts().await?;
    hosts.retain(|host| is(&host.pool, &query.pool) && begins(&host.name, &query.name_prefix));
    page(&uri, &query.page(), HostSort::Name, hosts, |host, sort| {
        let key = match sort {
            HostSort::Name => Key::Nothing,
            HostSort::Created => host.created_unix_seconds.into(),
        };
        (key, (&host.name).into())
    })
}

async fn create_host(State(array): Array, Body(request): Body<api::HostCreate>) -> Created<api::Host> {
    let host = to_the_end(async move { array.host_create(request).await }).await?;
    Ok(Made::at(format!("/v1/hosts/{}", host.name), host).tagged())
}

async fn show_host(State(array): Array, Name(host): Name) -> Object<api::Host> {
    array.host(&host).await.map(Shown)
}

async fn change_host(
    State(array): Array,
    Name(host): Name,
    seen: Seen,
    Body(request): Body<api::HostChange>,
) -> Object<api::Host> {
    to_the_end(async move { array.host_change(&host, request, &seen).await }).await.map(Shown)
}

async fn remove_host(
    State(array): Array,
    Name(host): Name,
    Question(query): Question<DeleteQuery>,
    seen: Seen,
) -> Result<StatusCode> {
    to_the_end(async move { array.host_delete(&host, query.force, &seen).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn exports(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::ExportsQuery>,
) -> List<api::Export> {
    let mut exports = array.exports().await?;
    let sees = |export: &api::Export| {
        query.host.as_ref().is_none_or(|host| export.hosts.is_empty() || export.hosts.contains(host))
    };
    exports.retain(|export| {
        is(&export.pool, &query.pool) && begins(&export.volume, &query.name_prefix) && sees(export)
    });
    page(&uri, &query.page(), ExportSort::Volume, exports, |export, sort| {
        let key = match sort {
            ExportSort::Volume => Key::Nothing,
            ExportSort::Created => export.created_unix_seconds.into(),
        };
        (key, (&export.volume).into())
    })
}

async fn create_export(State(array): Array, Body(request): Body<api::ExportCreate>) -> Created<api::Export> {
    let export = to_the_end(async move { array.export_create(request).await }).await?;
    Ok(Made::at(format!("/v1/exports/{}", export.volume), export).tagged())
}

async fn show_export(State(array): Array, Name(volume): Name) -> Object<api::Export> {
    array.export(&volume).await.map(Shown)
}

async fn remove_export(
    State(array): Array,
    Name(volume): Name,
    Question(query): Question<DeleteQuery>,
    seen: Seen,
) -> Result<StatusCode> {
    to_the_end(async move { array.export_delete(&volume, query.force, &seen).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
