//! An ETL job, as a data warehouse has them every night: rows of many sources, transformed, into one table.
//!
//! ```text
//!  tables source_1 … ── INSERT … SELECT, joined with ─────────────┐
//!                       day, product, customer ▸ region, currency ├──▶ lab_facts.fact ──▶ conditions
//!  files  source n+1 … ── read, the same in Rust, COPY ───────────┘    by run, round, source, batch
//! ```
//! One transaction brings in one batch, of one source. Clients take the next one from a common counter, the
//! sources taking turns; used up, all are begun again with the next round. So no batch is loaded twice in a
//! round; one that fails, or is drawn as the run ends, is left out of its round.
//!
//! Rows of files are transformed here and not by the server: through a staging table each byte would be
//! written and read again before it counts, where the paper's job reads 2.3 times what it writes. ETL tools
//! do the same: they look up in memory what is small, and send rows that are ready.
//!
//! The facts have no index and are not vacuumed while this workload has them: their pages are only added to.
//! Measured with PostgreSQL 15 and batches of 10,000 rows, half of them of tables: a row is 751 bytes to be
//! read, and 158 of the fact table and 161 of the server's log to be written: 70.2 % is read. The paper's row
//! has 720 and 310. A source that was read stays in memory as long as there is room: what of it is really
//! read from the target is for the target's own counters to tell.
//!
//! The payload of a source compresses as its shape says; facts are numbers, which lz4 makes 1.5 times smaller
//! in pages of 8 KB, and zstd -1 2.1 times.

pub mod conditions;
mod dimensions;
mod figures;
mod ledger;
mod load;
mod loader;
mod origin;
mod schema;
mod source;
mod transform;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ashlar_postgres::{Address, Session};

pub use figures::Figures;
pub use load::{Load, Loaded, load, unload};
pub use loader::Loader;
pub use origin::Shape;

use crate::error::{Error, Result};
use crate::prepare::Listed;
use crate::workload::{Kind, Workload};
use conditions::{Sent, Verdict};
use dimensions::Dimensions;
use ledger::{Ledger, Standing};
use origin::Batch;

/// The two kinds of transactions.
pub const KINDS: [&str; 2] = ["from_table", "from_file"];

/// Of a row of a source that is a table, with its part of the index. Measured.
pub const SOURCE_TABLE_ROW_BYTES: u64 = 767;
/// Of a row of a source that is a file.
pub const SOURCE_FILE_ROW_BYTES: u64 = 734;
/// Of a row of the fact table. Measured.
pub const FACT_ROW_BYTES: u64 = 158;

/// How a run goes about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Where the sources are that are files: as [`Load::files`], or where that is in a copy.
    pub files: PathBuf,
    /// No answer of the server within this means that it is lost. A batch is one statement.
    pub limit: Duration,
}

impl Settings {
    /// With the sources' files in this directory.
    #[must_use]
    pub fn new(files: impl Into<PathBuf>) -> Settings {
        // As for `orders`.
        Settings { files: files.into(), limit: Duration::from_secs(60) }
    }
}

/// What the two kinds ask of a server, for the first source; each between BEGIN and COMMIT.
#[must_use]
pub fn statements() -> Vec<Listed> {
    vec![
        Listed::new(KINDS[0], vec![transform::insert_statement(1)]),
        Listed::new(KINDS[1], vec![loader::COPY.to_string()]),
    ]
}

/// What all clients of a run know.
struct Scene {
    shape: Shape,
    settings: Settings,
    /// Tells its facts from those of other runs.
    run: i32,
    dimensions: Dimensions,
    /// Of the sources that are files.
    files: Vec<File>,
    /// How many batches were taken.
    tickets: AtomicU64,
    ledger: Ledger,
}

impl Scene {
    fn next_batch(&self) -> Batch {
        self.shape.batch(self.tickets.fetch_add(1, Ordering::Relaxed))
    }
}

/// The workload on a loaded database.
pub struct FactLoad {
    address: Address,
    scene: Arc<Scene>,
}

impl FactLoad {
    /// On a database that was loaded. What earlier ones loaded into the fact table stays there.
    ///
    /// # Errors
    /// When nothing is loaded there, a source's file is not there or not whole, or the server is lost.
    pub fn open(address: &Address, settings: Settings) -> Result<FactLoad> {
        let mut session = Session::open(address, "ashlar lab", settings.limit)?;
        let shape = Shape::read(&mut session)?;
        let files =
            (shape.tables + 1..=shape.sources()).map(|source| load::open(&shape, &settings.files, source));
        let files = files.collect::<Result<_>>()?;
        let dimensions = Dimensions::read(&mut session)?;
        let rows = session.run("SELECT nextval('lab_facts.run')")?;
        let run = rows.iter().flatten().next().and_then(|field| field.as_deref()?.parse().ok());
        let run = run.ok_or_else(|| Error::content("the number of the run is no number"))?;
        let (tickets, ledger) = (AtomicU64::new(0), Ledger::default());
        let scene = Arc::new(Scene { shape, settings, run, dimensions, files, tickets, ledger });
        Ok(FactLoad { address: address.clone(), scene })
    }

    /// What was loaded.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.scene.shape
    }

    /// How many batches the server acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        let sent = self.scene.ledger.sent();
        sent.values().filter(|standing| **standing == Standing::Acknowledged).count() as u64
    }

    /// Asks whether the facts hold, those of earlier runs too, and whether all that was acknowledged is
    /// there. Nobody may be loading meanwhile.
    ///
    /// # Errors
    /// When the server refuses or does not answer: then nobody knows.
    pub fn check(&self, session: &mut Session) -> Result<Vec<Verdict>> {
        let batches = self.scene.ledger.sent();
        conditions::check_all(session, Some(Sent { run: self.scene.run, batches: &batches }))
    }
}

impl Workload for FactLoad {
    type Client = Loader;

    fn kinds(&self) -> Vec<Kind> {
        KINDS.map(|name| Kind { name, keying: Duration::ZERO, think: Duration::ZERO }).to_vec()
    }

    fn client(&self, _number: usize, _clients: usize) -> Result<Loader> {
        Loader::open(&self.address, Arc::clone(&self.scene))
    }
}
