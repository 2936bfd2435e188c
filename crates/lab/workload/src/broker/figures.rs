//! The metric, counted by the clients and, as a cross-check, by the engine.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

use crate::driver::{self, Observer, Outcome, Phase, Plan, Progress};
use crate::error::{Error, Result};

use super::{Broker, KINDS, TRADE_RESULT};

/// Stands beside the figures wherever they are shown.
pub const NOTE: &str = "in the shape of TPC-E, not an implementation of it, not comparable with its results";

/// A run of `broker`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Of the driver.
    pub outcome: Outcome,
    /// Trade results a second: those that the server acknowledged.
    pub trades_per_second: f64,
    /// The same as the brokers' counts tell it; `None` when the engine could not be asked.
    pub engine_trades_per_second: Option<f64>,
    /// Transactions of all kinds a second, those rolled back on purpose included.
    pub transactions_per_second: f64,
    /// Trades that an earlier run left open, and that were called off before this one.
    pub called_off: u64,
}

/// What is still open is called off: pending and submitted trades are cancelled, requests go. Nobody else may
/// run on the database.
const CLEANUP: &str = "
DELETE FROM lab_broker.trade_request;
WITH open AS (
    UPDATE lab_broker.trade SET status = 4, at = localtimestamp
    WHERE id > (SELECT trades FROM lab_broker.origin) AND status IN (1, 2) RETURNING id, at),
history AS (
    INSERT INTO lab_broker.trade_history (trade, status, at) SELECT id, 4, at FROM open)
SELECT count(*) FROM open";

/// Calls off what earlier runs left open; answers how many trades. A run does it first.
///
/// # Errors
/// When nothing is loaded, or the server refuses or does not answer.
pub fn cleanup(session: &mut Session) -> Result<u64> {
    let rows = session.run(CLEANUP)?;
    let count = rows.iter().flatten().next().and_then(|field| field.as_deref()?.parse().ok());
    count.ok_or_else(|| Error::content("the number of open trades is no number"))
}

impl Broker {
    /// Calls off what is open, drives the workload, and counts trade results.
    ///
    /// # Errors
    /// As [`cleanup`] and [`driver::run`].
    pub fn run(&self, plan: &Plan, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Figures> {
        let limit = self.scene.settings.limit;
        let mut session = Session::open(&self.address, "ashlar lab observer", limit)?;
        let called_off = cleanup(&mut session)?;
        let mut counting = Counting { session, observer, counts: Vec::new() };
        let outcome = driver::run(self, plan, stop, &mut counting)?;
        let committed = outcome.kind(KINDS[TRADE_RESULT]).map_or(0, |kind| kind.committed);
        let per_second = |count: f64, seconds: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let of_engine = match &counting.counts[..] {
            [Some((first_at, first)), Some((last_at, last))] => {
                let seconds = last_at.duration_since(*first_at).as_secs_f64();
                Some(per_second((last - first) as f64, seconds))
            }
            _ => None,
        };
        Ok(Figures {
            trades_per_second: per_second(committed as f64, outcome.measured_seconds),
            engine_trades_per_second: of_engine,
            transactions_per_second: outcome.per_second(),
            called_off,
            outcome,
        })
    }
}

/// Asks the engine when the measured phase begins and ends.
struct Counting<'a> {
    session: Session,
    observer: &'a mut dyn Observer,
    /// `None` where it could not be asked.
    counts: Vec<Option<(Instant, i64)>>,
}

impl Counting<'_> {
    fn count(&mut self) -> Option<(Instant, i64)> {
        // A lost server is told by the run itself.
        let rows = self.session.run("SELECT sum(trades)::bigint FROM lab_broker.broker").ok()?;
        let count = rows.first()?.first()?.as_deref()?.parse().ok()?;
        Some((Instant::now(), count))
    }
}

impl Observer for Counting<'_> {
    fn began(&mut self, phase: Phase) {
        if phase != Phase::WarmUp {
            let counted = self.count();
            self.counts.push(counted);
        }
        self.observer.began(phase);
    }

    fn second(&mut self, progress: &Progress) {
        self.observer.second(progress);
    }
}
