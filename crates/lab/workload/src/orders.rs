//! The order workload: a wholesaler's warehouses. Derived from TPC-C, not comparable with its results.
//!
//! ```text
//!  load ──▶ lab_orders (nine tables) ◀── terminals: new_order, payment, order_status, delivery, stock_level
//!                 │                            │ what the server acknowledged
//!            conditions (12)                 ledger ──▶ found again after a crash, in a snapshot
//! ```
//! What it leaves out of what it derives from: the queue of deferred deliveries (they are done at once),
//! foreign keys, the sixty days of space, and everything about prices. Items of one order are all different,
//! so that one statement can take all of them. Year-to-date sums have two digits more: a day without pauses
//! fills them.
//!
//! The metric is new orders a minute (NOPM): those committed, in the measured phase, by all clients.

pub mod conditions;
mod figures;
pub mod ledger;
mod load;
mod names;
mod origin;
mod rows;
mod schema;
mod settings;
mod terminal;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use ashlar_postgres::{Address, Session};

pub use figures::{Figures, NOTE};
pub use load::{Load, Loaded, is_loaded, load, unload};
pub use origin::{DISTRICTS, Origin, Size};
pub use settings::{Draw, Home, Isolation, Mix, Settings, Think};
pub use terminal::Terminal;

use crate::error::Result;
use crate::prepare::Listed;
use crate::workload::{Kind, Workload};
use ledger::Ledger;
use terminal::Scene;

/// The five kinds, in the order in which [`Mix::weights`] and results have them.
pub const KINDS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];

/// Keying and mean think times in seconds, as in the rules that this derives from.
const PAUSES: [(u64, u64); 5] = [(18, 12), (3, 12), (2, 10), (2, 5), (2, 5)];

/// What the five kinds ask of a server, each between BEGIN and COMMIT.
#[must_use]
pub fn statements(settings: &Settings) -> Vec<Listed> {
    transaction::listed(settings.isolation)
}

/// The workload on a loaded database.
pub struct Orders {
    address: Address,
    scene: Arc<Scene>,
    ledger: Option<Arc<Ledger>>,
}

impl Orders {
    /// On a database that was loaded; with a ledger, every client writes down what was acknowledged.
    ///
    /// # Errors
    /// When nothing is loaded there, or the server does not answer.
    pub fn open(address: &Address, settings: Settings, ledger: Option<Arc<Ledger>>) -> Result<Orders> {
        settings.check()?;
        let mut session = Session::open(address, "ashlar lab", settings.limit)?;
        let origin = Origin::read(&mut session)?;
        let scene = Arc::new(Scene::new(origin, settings));
        Ok(Orders { address: address.clone(), scene, ledger })
    }

    /// What was loaded.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.scene.origin
    }
}

impl Workload for Orders {
    type Client = Terminal;

    fn kinds(&self) -> Vec<Kind> {
        let mut pauses = PAUSES;
        if self.scene.settings.think == Think::HammerDb {
            let (order_status, delivery) = (pauses[2].1, pauses[3].1);
            (pauses[2].1, pauses[3].1) = (delivery, order_status);
        }
        let kind = |(name, (keying, think)): (&'static str, (u64, u64))| Kind {
            name,
            keying: Duration::from_secs(keying),
            think: Duration::from_secs(think),
        };
        KINDS.into_iter().zip(pauses).map(kind).collect()
    }

    fn client(&self, number: usize, _clients: usize) -> Result<Terminal> {
        let book = self.ledger.as_ref().map(|ledger| ledger.book());
        Terminal::open(&self.address, Arc::clone(&self.scene), number, book)
    }
}
