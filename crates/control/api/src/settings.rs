//! The settings of an array as they are in force.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The settings in force.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ArraySettings {
    /// The settings file; absent: the array was started without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "/etc/ashlar/ashlar.toml")]
    pub file: Option<String>,
    pub settings: Vec<Setting>,
}

/// A setting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    #[schema(example = "deleted_volumes_hours")]
    pub name: String,
    /// As a settings file says it. Arguments of commands and paths of web addresses are left out.
    #[schema(example = "24")]
    pub value: String,
    pub is_default: bool,
    /// A reload changes it; otherwise the next start does.
    pub is_reloadable: bool,
}

/// What reading the settings again did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// The file that was read.
    pub file: String,
    /// Settings that are in force from now on.
    pub changed: Vec<String>,
    /// Settings that the file says otherwise, and that change at the next start.
    pub needs_restart: Vec<String>,
}
