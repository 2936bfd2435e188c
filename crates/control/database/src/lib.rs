//! Databases by name: what is known of one, and the work on its files and its server.
//!
//! ```text
//!  Record (in the pool)  ──►  Site (where it is here)  ──►  Engine: make, adopt, start, stop
//!                                                            └► Postgres
//! ```
//!
//! The array keeps the [`Record`] of each database, makes and mounts its volumes, and has every [`Task`] done
//! by a process of its own: it reads and writes files on volumes that the array itself serves. Nothing here
//! knows of pools or of the API.

mod engine;
mod error;
mod postgres;
mod proof;
mod record;
mod site;
mod task;

pub use engine::Engine;
pub use error::{Error, Result};
pub use record::{EngineKind, Expiry, Origin, Part, Proof, Record, Role, Stage};
pub use site::Site;
pub use task::{Outcome, Task, Work, carry_out};
