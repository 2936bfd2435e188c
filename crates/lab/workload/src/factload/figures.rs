//! The metric: rows a second, and the bytes that they are.

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::driver::{self, Observer, Outcome, Plan};
use crate::error::Result;

use super::source::FILE_ROW_BYTES;
use super::{FACT_ROW_BYTES, FactLoad, KINDS, SOURCE_FILE_ROW_BYTES, SOURCE_TABLE_ROW_BYTES};

const _: () = assert!(FILE_ROW_BYTES as u64 == SOURCE_FILE_ROW_BYTES);

/// A run of `factload`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Of the driver.
    pub outcome: Outcome,
    /// Those of acknowledged batches of the measured phase. What the server's counters say of that phase is
    /// divided by these: its log (WAL) above all.
    pub rows: u64,
    /// The same each second.
    pub rows_per_second: f64,
    /// Of the sources, as they lie on the target: rows of tables with their index, rows of files.
    pub bytes_in_per_second: f64,
    /// Of the fact table as it lies on the target, without the server's log.
    pub bytes_out_per_second: f64,
}

impl FactLoad {
    /// Drives it, and counts rows.
    ///
    /// # Errors
    /// As [`driver::run`].
    pub fn run(&self, plan: &Plan, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Figures> {
        Ok(self.figures(driver::run(self, plan, stop, observer)?))
    }

    /// The figures of an outcome of this workload.
    #[must_use]
    pub fn figures(&self, outcome: Outcome) -> Figures {
        let rows_of = |kind: &str| {
            let committed = outcome.kind(kind).map_or(0, |kind| kind.committed);
            committed * self.shape().rows_per_batch as u64
        };
        let [of_tables, of_files] = KINDS.map(rows_of);
        let rows = of_tables + of_files;
        let bytes_in = of_tables * SOURCE_TABLE_ROW_BYTES + of_files * SOURCE_FILE_ROW_BYTES;
        let seconds = outcome.measured_seconds;
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        Figures {
            rows,
            rows_per_second: per_second(rows),
            bytes_in_per_second: per_second(bytes_in),
            bytes_out_per_second: per_second(rows * FACT_ROW_BYTES),
            outcome,
        }
    }
}
