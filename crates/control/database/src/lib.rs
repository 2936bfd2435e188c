//! Databases by name: what is known of one, and the work on its files and its server.
//!
//! ```text
//!  Record (in the pool)  ──►  Site (where it is here)  ──►  Engine: make, bring, adopt, start, stop
//!                                                            └► Postgres
//! ```
//!
//! The array keeps the [`Record`] of each database, makes and mounts its volumes, and has every [`Task`] done
//! by a process of its own: it reads and writes files on volumes that the array itself serves. Nothing here
//! knows of pools or of the API.

mod care;
mod difference;
mod engine;
mod error;
mod handover;
mod hooked;
mod import;
mod isolation;
mod postgres;
mod progress;
mod proof;
mod record;
mod settings;
mod site;
mod standby;
mod take_back;
mod task;
mod tls;
mod url;
mod usage;
mod waits;

pub use care::{Care, Script};
pub use difference::{
    FileDifference, FilesChanged, Named, Pieces, RelationChanged, Side, State, by_relation, stems,
};
pub use engine::Engine;
pub use error::{Error, Result};
pub use handover::{FILE_SYSTEM, Handed, Handover};
pub use import::{Source, Space, Survey};
pub use progress::Progress;
pub use record::{
    AutoGrow, Away, CareKept, EngineKind, Expiry, Follows, Hooks, Limits, Origin, Part, Proof, Record, Role,
    ScriptKept, ServerFound, Stage,
};
pub use settings::settings_of_clone;
pub use site::Site;
pub use standby::Standing;
pub use task::{Outcome, Task, Work, carry_out};
pub use url::{Primary, Secret};
pub use usage::Usage;
