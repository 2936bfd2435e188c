//! The metric, counted by the clients and, as a cross-check, by the engine.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

use crate::driver::{self, Observer, Outcome, Phase, Plan, Progress};
use crate::error::{Error, Result};

use super::{KINDS, Orders};

/// Stands beside the figures wherever they are shown.
pub const NOTE: &str = "derived from TPC-C, not comparable with its results";

/// A run of `orders`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Of the driver.
    pub outcome: Outcome,
    /// New orders a minute: those that the server acknowledged.
    pub new_orders_per_minute: f64,
    /// The same as the districts' numbers tell it; `None` when the engine could not be asked.
    pub engine_new_orders_per_minute: Option<f64>,
    /// Transactions a minute as the engine counts them, in all databases, rolled back ones included.
    pub engine_transactions_per_minute: Option<f64>,
}

impl Figures {
    /// The line in which HammerDB tells its result; only for runs with its settings.
    #[must_use]
    pub fn hammerdb_line(&self) -> Option<String> {
        let (orders, transactions) =
            self.engine_new_orders_per_minute.zip(self.engine_transactions_per_minute)?;
        Some(format!("TEST RESULT : System achieved {orders:.0} NOPM from {transactions:.0} PostgreSQL TPM"))
    }
}

impl Orders {
    /// Drives it, and counts new orders.
    ///
    /// # Errors
    /// As [`driver::run`].
    pub fn run(&self, plan: &Plan, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Figures> {
        let limit = self.scene.settings.limit;
        let session = Session::open(&self.address, "ashlar lab observer", limit)?;
        let mut counting = Counting { session, observer, counts: Vec::new() };
        let outcome = driver::run(self, plan, stop, &mut counting)?;
        let committed = outcome.kind(KINDS[0]).map_or(0, |kind| kind.committed);
        let per_minute = |count: f64, seconds: f64| if seconds > 0.0 { count * 60.0 / seconds } else { 0.0 };
        let of_engine = |place: usize| match &counting.counts[..] {
            [Some(first), Some(last)] => {
                let seconds = last.at.duration_since(first.at).as_secs_f64();
                Some(per_minute((last.counts[place] - first.counts[place]) as f64, seconds))
            }
            _ => None,
        };
        Ok(Figures {
            new_orders_per_minute: per_minute(committed as f64, outcome.measured_seconds),
            engine_new_orders_per_minute: of_engine(0),
            engine_transactions_per_minute: of_engine(1),
            outcome,
        })
    }
}

/// Asks the engine when the measured phase begins and ends.
struct Counting<'a> {
    session: Session,
    observer: &'a mut dyn Observer,
    /// `None` where it could not be asked.
    counts: Vec<Option<EngineCounts>>,
}

struct EngineCounts {
    at: Instant,
    /// New orders, and transactions.
    counts: [i64; 2],
}

impl Counting<'_> {
    fn count(&mut self) -> Result<EngineCounts> {
        let rows = self.session.run(
            "SELECT sum(d_next_o_id)::bigint FROM lab_orders.district;
             SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database",
        )?;
        let at = Instant::now();
        let numbers = rows.iter().flatten().map(|field| field.as_deref()?.parse().ok());
        let counts: Option<Vec<i64>> = numbers.collect();
        let counts = counts.and_then(|counts| counts.try_into().ok());
        let counts = counts.ok_or_else(|| Error::content("the engine's counts are no two numbers"))?;
        Ok(EngineCounts { at, counts })
    }
}

impl Observer for Counting<'_> {
    fn began(&mut self, phase: Phase) {
        if phase != Phase::WarmUp {
            // A lost server is told by the run itself.
            let counted = self.count().ok();
            self.counts.push(counted);
        }
        self.observer.began(phase);
    }

    fn second(&mut self, progress: &Progress) {
        self.observer.second(progress);
    }
}
