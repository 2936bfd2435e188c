//! The operations on settings, declared as [`paths`](crate::paths) declares the others.

#![allow(dead_code)] // Declarations only: `utoipa` reads the attribute and generates what is used.

use crate::{ArraySettings, Problem, Reloaded};

/// Shows the settings in force, without secrets.
#[utoipa::path(
    get, path = "/v1/settings", tag = "array", operation_id = "settings_show",
    responses(
        (status = 200, description = "the answer", body = ArraySettings),
    )
)]
fn settings_show() {}

/// Reads the settings file again. Some settings are in force at once, the answer names those that need a
/// restart. A file with a mistake in it changes nothing. For root over the socket.
#[utoipa::path(
    post, path = "/v1/reload", tag = "array", operation_id = "reload",
    responses(
        (status = 200, description = "the answer", body = Reloaded),
        (status = 400, description = "there is no settings file, or a mistake in it", body = Problem),
        (status = 403, description = "only for root over the socket, and for users and tokens of its role",
            body = Problem),
    )
)]
fn reload() {}
