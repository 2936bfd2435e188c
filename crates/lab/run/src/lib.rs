//! A scenario run on targets, judged, and told: what was measured, and whether what is claimed holds.
//!
//! ```text
//! chosen ──▶ outline ──▶ begin or resume ──▶ work: data sets, then run after run ──▶ DIR/runs/ID/run.json
//!  scenario   plan, what   plan.json           jobs: what fio does                          │
//!             is left out                      figures: what fio found                      ▼
//!                          outcome ◄── judge: metrics, comparisons, checks ◄── what is kept in DIR
//!                             ├──▶ result.json, report.html, summary.md, junit.xml, runs.csv
//!                             └──▶ against: this result beside an earlier one
//! ```
//! Everything that is told is made from what is kept in the directory of the result, so that it can be made
//! again, and so that a run that was killed goes on where it was.

mod against;
mod answer;
mod begin;
mod chosen;
mod database;
mod figures;
mod jobs;
mod judge;
mod limits;
mod outcome;
mod outline;
mod page;
mod record;
mod simulated;
mod text;
mod verify;
mod work;

pub use against::{Against, Asked, against};
pub use ashlar_programs::{Error, ErrorKind, Result};
pub use begin::{Request, begin, named, report, resume};
pub use chosen::Chosen;
pub use judge::{Answer, Checked};
pub use outcome::{Outcome, Verdict};
pub use outline::{Outline, machine, outline, targets};
pub use verify::{Verified, verify};
pub use work::Progress;

#[cfg(test)]
mod tests;
