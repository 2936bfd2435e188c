//! Which role each operation takes at least: the one table, which the array checks every request against.
//!
//! An operation that stands in no row is refused to everybody; a test finds one that is missing.

use utoipa::Modify;
use utoipa::openapi::OpenApi;
use utoipa::openapi::extensions::ExtensionsBuilder;

use crate::answers::operations;
use crate::{Role, TokenScope};

/// What an operation asks of who asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Least {
    /// Nothing: it is how somebody is let in.
    Nobody,
    /// This role or a higher one.
    Role(Role),
}

/// The operations of each level, by their ids.
const TABLE: [(Least, &[&str]); 4] = [
    (Least::Nobody, &["console_session_create", "session_create"]),
    (
        Least::Role(Role::Viewer),
        &[
            "attachments_list",
            "attachment_show",
            "clients_list",
            "console_ticket_create",
            "databases_list",
            "database_handover",
            "database_settings",
            "database_show",
            "database_waits",
            "deleted_volumes_list",
            "events",
            "exports_list",
            "export_show",
            "health",
            "history",
            "hosts_list",
            "host_show",
            "io",
            "jobs_list",
            "job_show",
            "lab_report",
            "lab_result",
            "lab_results",
            "latencies",
            "live",
            "marks_list",
            "mark_show",
            "objectives_list",
            "objective_show",
            "password_change",
            "pools_list",
            "pool_dedupe",
            "pool_show",
            "pool_space",
            "schedules_list",
            "schedule_show",
            "session",
            "session_end",
            "settings_show",
            "slow_requests",
            "snapshots_list",
            "snapshot_show",
            "space_holders",
            "space_reclaim",
            "status",
            "volumes_list",
            "volume_diff",
            "volume_profile",
            "volume_show",
            "volume_users",
        ],
    ),
    (
        Least::Role(Role::Operator),
        &[
            "attachment_create",
            "attachment_delete",
            "client_disconnect",
            "clone_create",
            "database_clone",
            "database_create",
            "database_delete",
            "database_diff",
            "database_expire",
            "database_follow",
            "database_import",
            "database_promote",
            "database_reset",
            "database_resize",
            "database_restore",
            "database_return",
            "database_settings_change",
            "database_snapshot",
            "database_start",
            "database_stop",
            // It tells a password.
            "database_url",
            "database_verify",
            "deleted_volume_purge",
            "job_cancel",
            "mark_create",
            "mark_delete",
            "objective_delete",
            "objective_set",
            "pool_check",
            "pool_dedupe_change",
            "pool_reopen",
            "pool_scrub",
            "pool_scrub_change",
            "schedule_change",
            "schedule_create",
            "schedule_delete",
            "schedule_pause",
            "schedule_resume",
            "schedule_run",
            "snapshots_delete",
            "snapshot_create",
            "snapshot_delete",
            "snapshot_hold",
            "snapshot_release",
            "snapshot_restore",
            "volume_create",
            "volume_delete",
            "volume_disconnect",
            "volume_resize",
            "volume_set",
            "volume_undelete",
        ],
    ),
    (
        Least::Role(Role::Admin),
        &[
            "audit_list",
            "database_commands",
            "drives_add",
            "drive_offline",
            "drive_online",
            "drive_remove",
            "drive_replace",
            "drive_set",
            "export_create",
            "export_delete",
            "host_change",
            "host_create",
            "host_delete",
            "pool_create",
            "pool_delete",
            "pool_export",
            "pool_import",
            "reload",
            "stop",
            "tokens_list",
            "token_create",
            "token_delete",
            "token_show",
            "upgrade",
            "users_list",
            "user_change",
            "user_create",
            "user_delete",
            "user_show",
        ],
    ),
];

/// The operations of tokens that are for snapshots alone.
const OF_SNAPSHOTS: [&str; 14] = [
    "clone_create",
    "database_snapshot",
    "databases_list",
    "health",
    "session",
    "snapshots_delete",
    "snapshots_list",
    "snapshot_create",
    "snapshot_delete",
    "snapshot_hold",
    "snapshot_release",
    "snapshot_show",
    "volumes_list",
    "volume_show",
];

/// What an operation takes at least; `None` for one that nobody may use.
#[must_use]
pub fn least_for(operation: &str) -> Option<Least> {
    let row = TABLE.iter().find(|(_, operations)| operations.contains(&operation));
    row.map(|(least, _)| *least)
}

/// The operations that a role may not use, by their ids.
#[must_use]
pub fn operations_above(role: Role) -> Vec<&'static str> {
    let is_above = |least: &Least| matches!(least, Least::Role(least) if *least > role);
    TABLE.iter().filter(|(least, _)| is_above(least)).flat_map(|(_, all)| all.iter().copied()).collect()
}

impl TokenScope {
    /// Whether a token that is for this alone may use an operation, as far as its role goes.
    #[must_use]
    pub fn covers(self, operation: &str) -> bool {
        match self {
            TokenScope::Metrics => ["health", "session"].contains(&operation),
            TokenScope::Snapshots => OF_SNAPSHOTS.contains(&operation),
        }
    }
}

/// Says of every operation which role it takes.
pub(crate) struct Roles;

impl Modify for Roles {
    fn modify(&self, openapi: &mut OpenApi) {
        for item in openapi.paths.paths.values_mut() {
            for (_, operation) in operations(item) {
                let id = operation.operation_id.clone().unwrap_or_default();
                let word = match least_for(&id) {
                    Some(Least::Role(role)) => role.name(),
                    Some(Least::Nobody) => "none",
                    None => continue,
                };
                let extensions = operation.extensions.get_or_insert_default();
                extensions.merge(ExtensionsBuilder::new().add("x-least-role", word).build());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_operation_stands_in_one_row() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let items = document["paths"].as_object().unwrap().values();
        let all = items.flat_map(|item| item.as_object().unwrap().values());
        let described: BTreeSet<&str> = all.map(|one| one["operationId"].as_str().unwrap()).collect();
        let rows: Vec<&str> = TABLE.iter().flat_map(|(_, all)| all.iter().copied()).collect();
        let known: BTreeSet<&str> = rows.iter().copied().collect();
        assert_eq!(known.len(), rows.len(), "one stands in two rows");
        assert_eq!(known, described);
        assert!(OF_SNAPSHOTS.iter().all(|one| known.contains(one)));
        assert_eq!(least_for("no_such_operation"), None);
    }

    #[test]
    fn what_only_looks_is_for_viewers_and_what_changes_is_not() {
        // Questions that are no GET, and changes of who asks himself.
        let own = ["space_reclaim", "console_ticket_create", "session_end", "password_change"];
        let let_in = ["console_session_create", "session_create"];
        let secret = ["database_url", "audit_list", "users_list", "user_show", "tokens_list", "token_show"];
        for ((method, path), operation) in crate::operations_by_place() {
            let is_viewers = least_for(&operation) == Some(Least::Role(Role::Viewer));
            let looks = method == "GET" && !secret.contains(&operation.as_str());
            let is_free = let_in.contains(&operation.as_str());
            let expected = looks || own.contains(&operation.as_str());
            assert_eq!(is_viewers, expected && !is_free, "{method} {path}: {operation}");
        }
    }

    #[test]
    fn a_higher_role_may_more() {
        let above = |role| operations_above(role).len();
        assert!(above(Role::Viewer) > above(Role::Operator) && above(Role::Operator) > above(Role::Admin));
        assert_eq!(above(Role::Admin), 0);
        assert!(TokenScope::Snapshots.covers("snapshot_create"));
        assert!(!TokenScope::Snapshots.covers("volume_delete") && !TokenScope::Metrics.covers("status"));
    }
}
