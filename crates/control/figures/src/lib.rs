//! From counters that only grow to figures of an interval, and to series of them.
//!
//! Who uses it: the daemon looks at the counters once a second and asks for what changed. Percentiles are of
//! the requests of that interval, never means of percentiles.

mod classes;
mod history;
mod kept;
mod minutes;
mod objective;
mod profile;
mod rates;

pub use classes::bounds_micros;
pub use history::History;
pub use kept::Slot;
pub use objective::Judged;
pub use profile::io_profile;
pub use rates::{ByVolume, StagePair, by_volume, rates, stage_times, sum};
