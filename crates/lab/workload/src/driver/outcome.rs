//! What a run of the driver answers; what of it is kept in result files.

use ashlar_statistics::latencies::Latencies;
use serde::{Deserialize, Serialize};

use super::plan::Loop;

/// A run: what was asked, how it ended, and all figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// When transactions began.
    pub pace: Loop,
    /// How many sessions there were.
    pub clients: usize,
    /// Of all random numbers.
    pub seed: u64,
    /// How long the warm-up was.
    pub warm_up_seconds: f64,
    /// How long the measured phase really was: shorter than asked for when the run ended early.
    pub measured_seconds: f64,
    /// When the measured phase began, in milliseconds since 1970; `None` where there is no such phase.
    #[serde(default)]
    pub measured_unix_millis: Option<u64>,
    /// Whether it ran to its end.
    pub ending: Ending,
    /// Figures of the measured phase by kind of transaction. A transaction counts in the phase it was due in.
    pub kinds: Vec<KindOutcome>,
    /// One time line of all seconds of the run, without gaps. A transaction counts in the second it ended in.
    pub seconds: Vec<Second>,
    /// How well the arrivals were kept; of an open loop.
    pub arrivals: Option<Arrivals>,
    /// Processor seconds of this process in the measured phase; `None` where the system does not tell.
    pub client_processor_seconds: Option<f64>,
    /// Processors that this process may use.
    pub processors: usize,
}

/// How a run ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// As planned.
    Complete,
    /// Somebody asked to stop.
    Stopped,
    /// The server did not answer a client any more; this is what was seen first.
    Lost(Sight),
    /// Too many transactions failed; this is the last one's error.
    Failed(Sight),
}

/// What a client saw.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sight {
    /// Its number, from 0.
    pub client: usize,
    /// In which kind of transaction.
    pub kind: String,
    /// Since the run began.
    pub at_seconds: f64,
    /// The error.
    pub context: String,
}

/// Figures of a kind of transaction.
///
/// `attempted = committed + rolled_back + gave_up + errors + unknown`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct KindOutcome {
    /// As the workload calls it.
    pub name: String,
    /// How many were begun, repetitions not counted.
    pub attempted: u64,
    /// The server acknowledged them.
    pub committed: u64,
    /// Rolled back on purpose.
    pub rolled_back: u64,
    /// Repetitions after conflicts.
    pub retries: u64,
    /// Still in conflict after the last repetition.
    pub gave_up: u64,
    /// Refused, or with wrong content.
    pub errors: u64,
    /// No answer came: nobody knows.
    pub unknown: u64,
    /// What the first error was.
    pub first_error: Option<String>,
    /// Of those committed or rolled back on purpose: from when it was due to its end, repetitions included.
    pub latency: Latencies,
    /// The same from when it really began.
    pub service: Latencies,
}

/// A second of the run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Second {
    /// Which one, from 0.
    pub second: u64,
    /// By kind, in the order of [`Outcome::kinds`].
    pub kinds: Vec<SecondOfKind>,
}

/// What ended in a second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SecondOfKind {
    /// How many.
    pub count: u64,
    /// Their mean latency; `None` of none.
    pub mean_nanos: Option<u64>,
    /// Their 99th percentile; `None` of fewer than a thousand, which cannot tell it.
    pub p99_nanos: Option<u64>,
    /// The longest latency; `None` of none.
    pub max_nanos: Option<u64>,
}

/// The arrivals of an open loop that were due in the measured phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Arrivals {
    /// How many were due.
    pub due: u64,
    /// Of them, those that no client was free for until the end. They have no latency, so with many of them
    /// the latencies look better than they are.
    pub unserved: u64,
    /// From when one was due to when it really began.
    pub lag: Latencies,
    /// More were unserved than can be by chance: the clients or the server could not keep up with this rate.
    pub fell_behind: bool,
}

impl Outcome {
    /// The figures of a kind.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<&KindOutcome> {
        self.kinds.iter().find(|kind| kind.name == name)
    }

    /// Transactions that ended well, each second, of all kinds.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let done: u64 = self.kinds.iter().map(|kind| kind.committed + kind.rolled_back).sum();
        if self.measured_seconds > 0.0 { done as f64 / self.measured_seconds } else { 0.0 }
    }

    /// How busy the clients were, in percent of the processors that they can use; see
    /// [`ashlar_statistics::plausible::client_busy`]. What else this process does counts as theirs.
    #[must_use]
    pub fn client_busy_percent(&self) -> Option<f64> {
        let usable = self.processors.min(self.clients) as f64 * self.measured_seconds;
        let used = self.client_processor_seconds?;
        (usable > 0.0).then(|| 100.0 * used / usable)
    }
}

impl KindOutcome {
    /// Adds what another client counted of the same kind.
    pub(super) fn merge(&mut self, other: &KindOutcome) {
        assert_eq!(self.name, other.name, "only the same kind is added");
        self.attempted += other.attempted;
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.retries += other.retries;
        self.gave_up += other.gave_up;
        self.errors += other.errors;
        self.unknown += other.unknown;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
    }
}
