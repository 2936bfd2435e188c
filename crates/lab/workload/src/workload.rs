//! What the driver needs to know of a workload, and what a workload is told by the driver.

use std::time::Duration;

use crate::error::Result;
use crate::random::Random;

/// A kind of transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Kind {
    /// As results call it.
    pub name: &'static str,
    /// How long a person types before it, where the pace has pauses.
    pub keying: Duration,
    /// How long a person thinks after it, in the mean, where the pace has pauses.
    pub think: Duration,
}

/// How a transaction ended that went as it was meant to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// The server acknowledged it.
    Committed,
    /// It was rolled back on purpose.
    RolledBack,
}

/// Transactions that many clients do at the same time.
pub trait Workload: Sync {
    /// One of them.
    type Client: Client;

    /// Its kinds of transactions. A client names them by their place in this list.
    fn kinds(&self) -> Vec<Kind>;

    /// Client `number` (from 0) of `clients`, connected and ready. Called in the thread that then drives it.
    ///
    /// # Errors
    /// When it cannot connect or a statement is refused.
    fn client(&self, number: usize, clients: usize) -> Result<Self::Client>;
}

/// One client: its session and what it does next.
pub trait Client {
    /// Draws the next transaction, its kind and all its input; answers the kind.
    fn draw(&mut self, random: &mut Random) -> usize;

    /// Tries the transaction drawn last. It may be tried again after [`Client::abandon`].
    ///
    /// # Errors
    /// What the server answered, or that it did not, or that the data is wrong.
    fn attempt(&mut self) -> Result<Done>;

    /// Leaves whatever transaction a failed attempt left open.
    ///
    /// # Errors
    /// When the server does not answer.
    fn abandon(&mut self) -> Result<()>;
}
