//! A scenario run on targets, judged, and told: what was measured, and whether what is claimed holds.
//!
//! ```text
//! chosen ──▶ outline ──▶ begin or resume ──▶ work: data sets, then run after run ──▶ DIR/runs/ID/run.json
//!  scenario   plan, what   plan.json           jobs: what fio does                          │
//!             is left out                      figures: what fio found                      ▼
//!                          outcome ◄── judge: metrics, comparisons, checks ◄── what is kept in DIR
//!                             ├──▶ result.json, report.html, summary.md, junit.xml, runs.csv
//!                             ├──▶ paper: all experiments of one paper, with a page over all
//!                             └──▶ against: this result beside an earlier one
//! ```
//! Everything that is told is made from what is kept in the directory of the result, so that it can be made
//! again, and so that a run that was killed goes on where it was.

mod against;
mod answer;
mod bases;
mod begin;
mod bill;
mod chosen;
mod copies;
mod database;
mod figures;
mod held;
mod jobs;
mod judge;
mod lay;
mod limits;
mod meanwhile;
mod mixed;
mod offered;
mod outcome;
mod outline;
mod pack;
mod page;
mod paper;
mod record;
mod restored;
mod several;
mod simulated;
mod space;
mod sql;
mod text;
mod verify;
mod work;

pub use against::{Against, Asked, against};
pub use ashlar_programs::{Error, ErrorKind, Result};
pub use bases::bases_told;
pub use begin::{Request, begin, named, report, resume};
pub use chosen::Chosen;
pub use judge::{Answer, Checked};
pub use outcome::{Outcome, Verdict};
pub use outline::{Figured, Outline, machine, measured_space, outline, targets, with_log};
pub use pack::{Imported, import, pack};
pub use paper::{
    PaperOutcome, PaperRequest, Part, begin_paper, experiments, is_paper, named_of_paper, papers, plan_paper,
    report_paper, resume_paper, verify_paper,
};
pub use sql::sql;
pub use verify::{Verified, verify};
pub use work::Progress;

#[cfg(test)]
mod tests;
