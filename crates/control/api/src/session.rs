//! What the one who asks may do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Role;

/// Who asks, as the array sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CallerKind {
    /// Root, or the user who runs the array, over the socket; or a session of the console that such a one
    /// opened.
    Owner,
    /// A user or a token of the array: may what its role may.
    Person,
    /// Anybody else who was let in: by the token of the file, or as a member of the socket's group.
    Guest,
}

/// What the one who asks may do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Session {
    pub caller: CallerKind,
    pub role: Role,
    /// The user who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The token that was shown, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The ids of operations of this description that are refused to it.
    #[schema(example = json!(["database_create", "stop"]))]
    pub refused_operations: Vec<String>,
    /// Where it may name drives; absent: anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_places: Option<Vec<String>>,
    /// Where it may mount; absent: anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_places: Option<Vec<String>>,
    /// Another one for each start of the array.
    pub boot_id: String,
}
