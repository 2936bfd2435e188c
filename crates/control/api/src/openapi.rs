//! The OpenAPI description, generated from the types and the declared operations.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::answers::{Answers, is_conditional, tells_secret};
use crate::bounds::Bounds;
use crate::roles::Roles;
use crate::{Figures, Hello};
use crate::{
    access_paths, array_paths, console_paths, database_paths, diff_paths, host_paths, job_paths, lab_paths,
    mark_paths, objective_paths, paths, schedule_paths, settings_paths,
};

/// How operations say that a guest may not use them at all.
const ROOT_ONLY: &str = "only for root over the socket";
/// And that users and tokens of the array may, with its role.
const ROOT_OR_ROLE: &str = "only for root over the socket, and for users and tokens of its role";

/// Collects the operations; the types come with them.
#[derive(OpenApi)]
#[openapi(
    modifiers(&Token, &Answers, &Bounds, &Roles),
    info(
        title = "Ashlar",
        description = "The management interface of the array. Every answer that is no success is a Problem \
            (RFC 9457, `application/problem+json`), but for what is no HTTP or has too long a head, which gets \
            400, 414 or 431 without a body; a method that a path does not take gets 405 with `Allow`, and \
            a parameter that an operation does not describe 400. Over TCP every request carries a token \
            (`Authorization: Bearer`) and gets 401 without; over the socket none is needed. `x-least-role` says which \
            role an operation takes at least: `viewer`, `operator` or `admin`, or `none` where nobody need be let in. \
            Who has a lower one gets 403.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "pools", description = "drives managed as one space"),
        (name = "volumes", description = "what hosts see as block devices"),
        (name = "snapshots", description = "images of volumes, and clones of them"),
        (name = "databases", description = "database servers by name, each with its volumes"),
        (name = "schedules", description = "snapshots that are taken by themselves, and deleted in turn"),
        (name = "objectives", description = "how fast requests should be, and for how much of the time"),
        (name = "marks", description = "moments on the time line, with words to them"),
        (name = "space", description = "where bytes are, and what would give them back"),
        (name = "attachments", description = "volumes as block devices of this machine"),
        (name = "hosts", description = "machines that reach volumes over iSCSI, and what is exported to them"),
        (name = "jobs", description = "long work that is asked after instead of waited for"),
        (name = "console", description = "the console, and figures as they come"),
        (name = "lab", description = "results of the lab"),
        (name = "access", description = "users, tokens, sessions, and who changed what"),
        (name = "array", description = "state, counters and events"),
    ),
    components(schemas(Hello, Figures)),
    paths(
        paths::pools_list,
        paths::pool_create,
        paths::pool_show,
        paths::pool_delete,
        paths::pool_check,
        paths::pool_scrub,
        paths::pool_scrub_change,
        paths::pool_export,
        paths::pool_import,
        paths::pool_reopen,
        paths::drives_add,
        paths::drive_set,
        paths::drive_replace,
        paths::drive_online,
        paths::drive_offline,
        paths::drive_remove,
        paths::pool_space,
        paths::pool_dedupe,
        paths::pool_dedupe_change,
        paths::space_reclaim,
        paths::space_holders,
        paths::volumes_list,
        paths::volume_create,
        paths::volume_show,
        paths::volume_resize,
        paths::volume_set,
        paths::volume_delete,
        paths::deleted_volumes_list,
        paths::volume_undelete,
        paths::deleted_volume_purge,
        paths::volume_users,
        paths::volume_disconnect,
        diff_paths::volume_diff,
        paths::snapshots_list,
        paths::snapshot_create,
        paths::snapshot_show,
        paths::snapshot_delete,
        paths::snapshots_delete,
        paths::snapshot_restore,
        paths::snapshot_hold,
        paths::snapshot_release,
        paths::clone_create,
        paths::databases_list,
        paths::database_create,
        paths::database_show,
        database_paths::database_delete,
        database_paths::database_commands,
        database_paths::database_url,
        database_paths::database_waits,
        database_paths::database_start,
        database_paths::database_stop,
        database_paths::database_handover,
        database_paths::database_return,
        paths::database_clone,
        paths::database_reset,
        paths::database_restore,
        paths::database_verify,
        diff_paths::database_diff,
        paths::database_settings,
        paths::database_settings_change,
        paths::database_resize,
        paths::database_snapshot,
        paths::database_import,
        paths::database_follow,
        paths::database_promote,
        paths::database_expire,
        schedule_paths::schedules_list,
        schedule_paths::schedule_create,
        schedule_paths::schedule_show,
        schedule_paths::schedule_change,
        schedule_paths::schedule_delete,
        schedule_paths::schedule_run,
        schedule_paths::schedule_pause,
        schedule_paths::schedule_resume,
        objective_paths::objectives_list,
        objective_paths::objective_show,
        objective_paths::objective_set,
        objective_paths::objective_delete,
        mark_paths::marks_list,
        mark_paths::mark_create,
        mark_paths::mark_show,
        mark_paths::mark_delete,
        job_paths::jobs_list,
        job_paths::job_show,
        job_paths::job_cancel,
        console_paths::console_ticket_create,
        console_paths::console_session_create,
        console_paths::live,
        console_paths::history,
        console_paths::latencies,
        console_paths::slow_requests,
        console_paths::volume_profile,
        lab_paths::lab_results,
        lab_paths::lab_result,
        lab_paths::lab_report,
        array_paths::attachments_list,
        array_paths::attachment_create,
        array_paths::attachment_show,
        array_paths::attachment_delete,
        host_paths::hosts_list,
        host_paths::host_create,
        host_paths::host_show,
        host_paths::host_change,
        host_paths::host_delete,
        host_paths::exports_list,
        host_paths::export_create,
        host_paths::export_show,
        host_paths::export_delete,
        array_paths::clients_list,
        array_paths::client_disconnect,
        array_paths::stop,
        array_paths::upgrade,
        array_paths::health,
        array_paths::status,
        array_paths::session,
        array_paths::io,
        array_paths::events,
        access_paths::users_list,
        access_paths::user_create,
        access_paths::user_show,
        access_paths::user_change,
        access_paths::user_delete,
        access_paths::tokens_list,
        access_paths::token_create,
        access_paths::token_show,
        access_paths::token_delete,
        access_paths::session_create,
        access_paths::session_end,
        access_paths::password_change,
        access_paths::audit_list,
        settings_paths::settings_show,
        settings_paths::reload,
    )
)]
struct Description;

/// Says of every operation that it takes the token, or nothing: over the socket none is needed.
struct Token;

impl Modify for Token {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "A token of `POST /v1/tokens`, of a session, or the line of the token file. Needed over TCP, not \
                 over the socket.",
            ))
            .build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
        let nothing = SecurityRequirement::default();
        openapi.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new()), nothing]);
    }
}

/// The description as a structure.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

/// The description as the text that `docs/reference/openapi.json` holds and `/openapi.json` answers.
#[must_use]
pub fn openapi_json() -> String {
    let mut text = openapi().to_pretty_json().expect("the description is plain data");
    text.push('\n');
    text
}

/// Method (upper case) and path of every operation, for checking that each is served.
#[must_use]
pub fn operations() -> Vec<(String, String)> {
    query_parameters().into_keys().collect()
}

/// What may stand after the question mark of every operation, by method (upper case) and path.
#[must_use]
pub fn query_parameters() -> BTreeMap<(String, String), Vec<String>> {
    let parameters = |operation: &Value| {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let of_query = parameters.filter(|parameter| parameter["in"] == "query");
        of_query.filter_map(|parameter| parameter["name"].as_str().map(str::to_string)).collect()
    };
    each_operation().into_iter().map(|(at, operation)| (at, parameters(&operation))).collect()
}

/// The operations that heed `If-Match`, by method (upper case) and path.
#[must_use]
pub fn conditional_operations() -> Vec<(String, String)> {
    let is_one = |operation: &Value| operation["operationId"].as_str().is_some_and(is_conditional);
    let all = each_operation().into_iter();
    all.filter(|(_, operation)| is_one(operation)).map(|(at, _)| at).collect()
}

/// The ids of operations that guests may not use, with their method (upper case) and path: only root over the
/// socket, and of some also users and tokens of the array.
#[must_use]
pub fn root_operations() -> BTreeMap<String, (String, String)> {
    refused_with(&[ROOT_ONLY, ROOT_OR_ROLE])
}

/// Those of them that only root over the socket may use.
#[must_use]
pub fn root_only_operations() -> BTreeMap<String, (String, String)> {
    refused_with(&[ROOT_ONLY])
}

fn refused_with(words: &[&str]) -> BTreeMap<String, (String, String)> {
    let said = |operation: &Value| {
        operation["responses"]["403"]["description"].as_str().unwrap_or_default().to_string()
    };
    let all = each_operation().into_iter();
    let all = all.filter(|(_, operation)| words.contains(&said(operation).as_str()));
    all.map(|(at, operation)| (id_of(&operation), at)).collect()
}

/// The operations whose answer is a secret, by method (upper case) and path: nothing repeats it.
#[must_use]
pub fn secret_operations() -> Vec<(String, String)> {
    let all = operations_by_place().into_iter();
    all.filter(|(_, operation)| tells_secret(operation)).map(|(at, _)| at).collect()
}

/// The id of every operation, by method (upper case) and path.
#[must_use]
pub fn operations_by_place() -> BTreeMap<(String, String), String> {
    each_operation().into_iter().map(|(at, operation)| (at, id_of(&operation))).collect()
}

fn id_of(operation: &Value) -> String {
    operation["operationId"].as_str().unwrap_or_default().to_string()
}

/// Method (upper case) and path of every operation, with what is said of it.
fn each_operation() -> Vec<((String, String), Value)> {
    let document: Value = serde_json::to_value(openapi()).expect("the description is plain data");
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for method in ["get", "post", "patch", "delete", "put"] {
            let Some(operation) = item.get(method) else { continue };
            found.push(((method.to_uppercase(), path.clone()), operation.clone()));
        }
    }
    found
}
