//! How a run of `orders` goes about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What a run may choose.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// How far transactions are kept from each other.
    pub isolation: Isolation,
    /// How often each kind comes.
    pub mix: Mix,
    /// Where a client is at home.
    pub home: Home,
    /// Which think times count where the pace has pauses.
    pub think: Think,
    /// No answer of the server within this means that it is lost.
    pub limit: Duration,
    /// Of the constants of what is drawn with a preference. The clients' draws have the plan's seed.
    pub seed: u64,
}

/// PostgreSQL's isolation levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// With rows locked by `SELECT … FOR UPDATE` before they are changed: what most users do.
    ReadCommitted,
    /// Conflicts are found when rows are changed, and the transaction is tried again.
    RepeatableRead,
    /// New-Order, Payment and Delivery serializable, Order-Status repeatable read, Stock-Level read
    /// committed.
    Serializable,
}

/// How often each kind of transaction comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mix {
    /// New-Order, Payment, Order-Status, Delivery, Stock-Level.
    pub weights: [u32; 5],
    /// How one is drawn.
    pub draw: Draw,
}

/// How the next kind is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// From shuffled cards, as many as the weights say: the mix is exact after every deck.
    Deck,
    /// Each one anew.
    Random,
}

/// Where a client is at home.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// At one warehouse, clients taking turns.
    Fixed,
    /// At another one for each transaction.
    All,
}

/// Whose think times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Think {
    /// Those of the rules that this derives from.
    Derived,
    /// HammerDB's: Order-Status and Delivery the other way round.
    HammerDb,
}

impl Settings {
    /// The mix of the rules that this derives from, read committed, at fixed warehouses.
    #[must_use]
    pub fn new(seed: u64) -> Settings {
        Settings {
            isolation: Isolation::ReadCommitted,
            mix: Mix { weights: [45, 43, 4, 4, 4], draw: Draw::Deck },
            home: Home::Fixed,
            think: Think::Derived,
            // Arbitrary: longer than a checkpoint stalls a sick array, shorter than a person waits.
            limit: Duration::from_secs(60),
            seed,
        }
    }

    /// What HammerDB does, so that a DBA can line up its numbers: ten, ten, one, one and one of 23, drawn
    /// anew each time, at a fixed warehouse. Run it for two minutes of warm-up and five measured, without
    /// pauses.
    #[must_use]
    pub fn hammerdb(seed: u64) -> Settings {
        let mix = Mix { weights: [10, 10, 1, 1, 1], draw: Draw::Random };
        Settings { mix, think: Think::HammerDb, ..Settings::new(seed) }
    }

    pub(super) fn check(&self) -> Result<()> {
        // A deck has as many cards.
        let sum: u64 = self.mix.weights.iter().map(|weight| u64::from(*weight)).sum();
        if (1..=WEIGHTS_MAX).contains(&sum) {
            return Ok(());
        }
        Err(Error::environment(format!("the weights of the mix sum up to {sum}, not 1 to {WEIGHTS_MAX}")))
    }
}

/// Arbitrary: finer mixes than hundredths of a percent are not asked for.
const WEIGHTS_MAX: u64 = 10_000;
