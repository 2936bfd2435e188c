//! How a run of `broker` goes about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use super::{TRADE_ORDER, TRADE_RESULT};

/// What a run may choose.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// How far transactions are kept from each other.
    pub isolation: Isolation,
    /// How often each kind comes.
    pub mix: Mix,
    /// The first client keeps the data in order so often; `None` is never. It is done between its other
    /// transactions.
    pub maintenance: Option<Duration>,
    /// No answer of the server within this means that it is lost.
    pub limit: Duration,
    /// Of the constants of what is drawn with a preference. The clients' draws have the plan's seed.
    pub seed: u64,
}

/// PostgreSQL's isolation levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// All read committed: an account is locked before its holdings are changed.
    ReadCommitted,
    /// Trade-Result serializable, Trade-Order and Trade-Update repeatable read, the others read committed.
    /// PostgreSQL finds conflicts by pages of indexes, and the newest trades share one. Measured with 1,000
    /// customers on two processors: eight clients had 1.3 repetitions a result and 0.76 of the transactions
    /// of read committed, 36 clients 7.5 and 0.44, and of their results one in eight gave up.
    ByKind,
}

/// How often each kind of transaction comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mix {
    /// In the order of [`super::KINDS`], without the last. They are dealt as shuffled cards, so the mix is
    /// exact after every deck.
    pub weights: [u32; 10],
}

impl Settings {
    /// The mix of the shape, in thousandths; read committed; maintenance every minute.
    #[must_use]
    pub fn new(seed: u64) -> Settings {
        Settings {
            isolation: Isolation::ReadCommitted,
            mix: Mix { weights: [190, 180, 140, 130, 101, 100, 80, 49, 20, 10] },
            maintenance: Some(Duration::from_secs(60)),
            // As for `orders`.
            limit: Duration::from_secs(60),
            seed,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let weights = self.mix.weights;
        let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        if !(1..=WEIGHTS_MAX).contains(&sum) {
            let bounds = format!("not 1 to {WEIGHTS_MAX}");
            return Err(Error::environment(format!("the weights of the mix sum up to {sum}, {bounds}")));
        }
        if weights[TRADE_RESULT] > weights[TRADE_ORDER] {
            let [orders, results] = [TRADE_ORDER, TRADE_RESULT].map(|kind| weights[kind]);
            return Err(Error::environment(format!("{results} trade results of {orders} trade orders")));
        }
        Ok(())
    }
}

/// Arbitrary: finer mixes than hundredths of a percent are not asked for.
const WEIGHTS_MAX: u64 = 10_000;
