//! Scenario files: what an experiment asks, at which scale, and the runs it expands to; no I/O.
//!
//! ```text
//! experiments/SEED/NAME.toml ──▶ catalogue ──▶ file ──▶ plan ──▶ runs, in order, with estimates
//!                                               │ quantity, scale, formula: what a value is at a preset
//!                                               │ workload, mix, offer: what a variant does to its target
//!                                               │ metric: what is compared
//!                                               └──▶ explain ──▶ the experiment in words
//! ```
//! The rooms that run, judge and report call this one; it starts nothing and knows no clock.

mod bill;
mod catalogue;
mod database;
mod error;
mod explain;
mod file;
mod file_system;
mod formula;
mod held;
mod metric;
mod mix;
mod mixed;
mod offer;
mod plan;
mod quantity;
mod restored;
mod rows;
mod scale;
mod schema;
mod several;
mod space;
mod workload;

pub use bill::{Amount, Bill, Per, Piece};
pub use catalogue::{ids, load, text};
pub use database::{Base, DatabaseLoad, Processors, SOURCES, Tables};
pub use error::{Error, ErrorKind, Result};
pub use explain::{SqlOf, SqlOfKind, explain};
pub use file::{
    Axis, Check, Engine, Entry, Event, LogRole, Phases, Published, Role, Roles, Scenario, Source, TSql,
};
pub use file_system::FileSystem;
pub use formula::Names;
pub use held::{CloneUse, Held};
pub use metric::{Measured, Metric, Over, Returned, Taken};
pub use mix::{MixBy, Operation, Part, Pattern, bytes_mean, share_by_count, written_share};
pub use mixed::{MixedWork, Parts};
pub use offer::Share;
pub use plan::{
    ANY_SPACE_BYTES, Kept, Machine, OVER, Plan, Request, Run, Target, Variant, base_of, largest, plan,
    plan_as,
};
pub use quantity::{Measure, Quantity, Rate, Unit};
pub use restored::{RestoreLoad, Way};
pub use rows::{RowsCall, RowsJob, RowsWork};
pub use scale::{Preset, Scaled};
pub use schema::schema;
pub use several::{Place, Servers, SeveralLoad, Version};
pub use space::{Bases, Origin, SpaceLoad};
pub use workload::{Content, DataSet, IoLoad, Layout, Load, Map, Precondition};
