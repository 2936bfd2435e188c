//! What a run is asked to do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How many clients, for how long, at which pace.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Sessions, each driven by a thread.
    pub clients: usize,
    /// Before the measured phase.
    pub warm_up: Duration,
    /// The measured phase.
    pub measure: Length,
    /// When transactions begin.
    pub pace: Loop,
    /// Of all random numbers.
    pub seed: u64,
    /// A transaction in conflict with another one is tried again so many times.
    pub retries_max: u32,
    /// So many failed transactions end the run.
    pub errors_max: u64,
}

/// How long the measured phase is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// So long.
    Time(Duration),
    /// Until each client did so many transactions.
    TransactionsPerClient(u64),
}

/// When transactions begin.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loop {
    /// Each client begins its next one after the last one ended. A stalled server is asked less, so stalls
    /// weigh less in the latencies than users would feel.
    Closed {
        /// With the workload's keying and think times.
        with_pauses: bool,
    },
    /// Transactions arrive at random (Poisson) whatever the server does; a free client takes the next one.
    /// Latencies count from the arrival.
    Open {
        /// All clients together.
        per_second: f64,
    },
}

impl Plan {
    /// A closed loop without pauses; limits as most runs want them.
    #[must_use]
    pub fn closed(clients: usize, warm_up: Duration, measure: Duration, seed: u64) -> Plan {
        Plan {
            clients,
            warm_up,
            measure: Length::Time(measure),
            pace: Loop::Closed { with_pauses: false },
            seed,
            // Arbitrary: at twenty, somebody should ask why the transactions meet so often.
            retries_max: 20,
            // Arbitrary: enough to see that it is not an accident, few enough to end at once.
            errors_max: 100,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let is_countable = |rate: f64| rate.is_finite() && rate > 0.0;
        match (self.pace, self.measure) {
            _ if self.clients == 0 => Err(Error::environment("a run needs at least one client")),
            (Loop::Open { per_second }, _) if !is_countable(per_second) => {
                Err(Error::environment(format!("{per_second} arrivals a second: must be above 0")))
            }
            (Loop::Open { .. }, Length::TransactionsPerClient(_)) => {
                Err(Error::environment("arrivals are for a time, not for a number of transactions"))
            }
            _ => Ok(()),
        }
    }
}
