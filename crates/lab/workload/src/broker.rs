//! The brokerage workload: customers who trade. In the shape of TPC-E, not an implementation of it.
//!
//! ```text
//!  load ──▶ lab_broker                       ◀── traders: ten kinds of transactions, 77 % only read,
//!           fixed    sectors, rates, …             and now and then one that keeps the data in order
//!           scaling  customers, securities, …      │ each trader is the exchange of its own orders:
//!           growing  trades, holdings, …           │  order ▸ (rests until the price is right) ▸ result
//!                 │                                │ what the server acknowledged
//!            conditions (12)                     ledger ──▶ found again after a crash, in a snapshot
//! ```
//! Tables, texts, names and prices are made up here; nothing is taken from that benchmark's kit. What it
//! leaves out of the shape: lookups of a few rows that are merged into others, foreign keys, everything about
//! response times and prices, and the exchange as a program of its own: each trader keeps the orders that it
//! sent or whose price it brought about, and asks for their results. So a result waits until there is an
//! order, and the mix stays as it is.
//! An account may sell what it has not got; then its holding is below zero until it buys.
//!
//! One run at a time on a database: it begins by calling off what earlier ones left ([`cleanup`]).
//!
//! The metric is trade results a second: those committed, in the measured phase, by all clients.

mod calendar;
pub mod conditions;
mod desk;
mod exchange;
mod figures;
pub mod ledger;
mod load;
mod names;
mod origin;
mod past;
mod prices;
mod rows;
mod schema;
mod settings;
mod trader;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use ashlar_postgres::{Address, Session};

pub use figures::{Figures, NOTE, cleanup};
pub use load::{Load, Loaded, Spaces, is_loaded, load, unload};
pub use origin::{Origin, Size};
pub use settings::{Isolation, Mix, Settings};
pub use trader::Trader;

use crate::error::Result;
use crate::prepare::Listed;
use crate::workload::{Kind, Workload};
use ledger::Ledger;
use trader::Scene;

/// The ten kinds, in the order in which [`Mix::weights`] and results have them, and the one that the first
/// client does now and then.
pub const KINDS: [&str; 11] = [
    "trade_status",
    "market_watch",
    "security_detail",
    "customer_position",
    "trade_order",
    "trade_result",
    "trade_lookup",
    "broker_volume",
    "trade_update",
    "market_feed",
    "data_maintenance",
];

/// Places in [`KINDS`].
const TRADE_ORDER: usize = 4;
const TRADE_RESULT: usize = 5;
const DATA_MAINTENANCE: usize = 10;

/// What the kinds ask of a server, each between BEGIN and COMMIT. Trade-Update finds its trades as
/// Trade-Lookup does.
#[must_use]
pub fn statements() -> Vec<Listed> {
    transaction::listed()
}

/// The workload on a loaded database.
pub struct Broker {
    address: Address,
    scene: Arc<Scene>,
    ledger: Option<Arc<Ledger>>,
}

impl Broker {
    /// On a database that was loaded; with a ledger, every client writes down what was acknowledged.
    ///
    /// # Errors
    /// When nothing is loaded there, or the server does not answer.
    pub fn open(address: &Address, settings: Settings, ledger: Option<Arc<Ledger>>) -> Result<Broker> {
        settings.check()?;
        let mut session = Session::open(address, "ashlar lab", settings.limit)?;
        let origin = Origin::read(&mut session)?;
        let scene = Arc::new(Scene::new(origin, settings));
        Ok(Broker { address: address.clone(), scene, ledger })
    }

    /// What was loaded.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.scene.origin
    }
}

impl Workload for Broker {
    type Client = Trader;

    /// Without pauses: users of this load ask again as soon as they have an answer.
    fn kinds(&self) -> Vec<Kind> {
        KINDS.map(|name| Kind { name, keying: Duration::ZERO, think: Duration::ZERO }).to_vec()
    }

    fn client(&self, number: usize, _clients: usize) -> Result<Trader> {
        let book = self.ledger.as_ref().map(|ledger| ledger.book());
        Trader::open(&self.address, Arc::clone(&self.scene), number, book)
    }
}
