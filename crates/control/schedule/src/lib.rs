//! Schedules of snapshots: when one is due, what it is called, which are kept, and times that people name.
//!
//! ```text
//!  Record (in the pool) ──► Every: is one due?  ──► snapshot_name: NAME.20261128T130507Z
//!                       └─► Keep: which of those there are go, in turn
//!  moment: `13:05:07`, `-10s`  ──► the second that is meant
//! ```
//!
//! All times are seconds since 1970 in UTC, and the caller tells what time it is: nothing here reads a clock,
//! takes a snapshot or deletes one.

mod calendar;
mod every;
mod keep;
mod moment;
mod name;
mod record;
mod room;

pub use calendar::{stamp, told};
pub use every::Every;
pub use keep::{Keep, Taken};
pub use moment::{moment, term};
pub use name::{NAME_BYTES_MAX, snapshot_name, time_in_name};
pub use record::{Record, Target};
pub use room::{FULL_PERCENT_MAX, has_room};
