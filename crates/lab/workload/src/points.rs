//! Reads by key: rows at random places of one large table, and short ranges of neighbours.
//!
//! ```text
//!  load ──▶ lab_points.point (id, checksum, payload)  ◀── keys:  k rows at random, WHERE id = ANY(…)
//!           about 1 KB a row, 8 rows a page           ◀── range: 64 neighbours, about 64 KB
//! ```
//! A row names its own id and a checksum of its payload: a row that is not the one asked for, or not as it
//! was loaded, is an error.

mod keys;
mod load;
mod reader;

use std::time::Duration;

use ashlar_postgres::{Address, Session};
use serde::{Deserialize, Serialize};

pub use keys::Skew;
pub use load::{Load, Loaded, load, unload};
pub use reader::Reader;

use crate::error::{Error, Result};
use crate::prepare::Listed;
use crate::workload::{Kind, Workload};
use keys::Keys;

/// The two kinds of reads.
pub const KINDS: [&str; 2] = ["keys", "range"];

/// A table. It stands in the database, so that no run has to be told.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Their ids are 1 to this.
    pub rows: i64,
    /// Of a row; 960 make a row of about 1 KB, of which a page of PostgreSQL holds eight.
    pub payload_size_bytes: i32,
    /// How many times smaller a fast compressor makes the table, page by page: 1 is not compressible at all.
    pub compression: f64,
    /// Of the payloads.
    pub seed: i64,
}

/// How a run reads.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// So many rows are asked for at once by key.
    pub keys_per_read: usize,
    /// Which rows are asked for.
    pub skew: Skew,
    /// So many of a hundred reads are of a range.
    pub range_percent: f64,
    /// So many neighbours are a range.
    pub range_rows: u32,
    /// No answer of the server within this means that it is lost.
    pub limit: Duration,
}

impl Settings {
    /// One row at a time, all alike.
    #[must_use]
    pub fn single_keys() -> Settings {
        Settings {
            keys_per_read: 1,
            skew: Skew::Uniform,
            range_percent: 0.0,
            range_rows: 64,
            // As for `orders`.
            limit: Duration::from_secs(60),
        }
    }

    /// Seven of ten bytes in reads of one page, three of ten in reads of eight pages: so many reads are of
    /// eight.
    #[must_use]
    pub fn mixed_sizes() -> Settings {
        let (single, range) = (70.0 / 8.0, 30.0 / 64.0);
        Settings { range_percent: 100.0 * range / (single + range), ..Settings::single_keys() }
    }

    fn check(&self, shape: &Shape) -> Result<()> {
        let is_possible = (1..=KEYS_MAX).contains(&self.keys_per_read)
            && (0.0..=100.0).contains(&self.range_percent)
            && (1..=shape.rows).contains(&i64::from(self.range_rows));
        if is_possible {
            return self.skew.check();
        }
        Err(Error::environment(format!("reads of {} rows cannot be: {self:?}", shape.rows)))
    }
}

/// Arbitrary: a statement of more keys is a scan in disguise.
const KEYS_MAX: usize = 10_000;

/// What reads of these settings ask of a server.
#[must_use]
pub fn statements(settings: &Settings) -> Vec<Listed> {
    let mut kinds = vec![Listed::new(KINDS[0], vec![reader::KEYS.to_string()])];
    if settings.range_percent > 0.0 {
        kinds.push(Listed::new(KINDS[1], vec![reader::range_statement(settings.range_rows)]));
    }
    kinds
}

/// The workload on a loaded database.
pub struct Points {
    address: Address,
    shape: Shape,
    settings: Settings,
    keys: Keys,
}

impl Points {
    /// On a database that was loaded.
    ///
    /// # Errors
    /// When nothing is loaded there, the settings do not fit it, or the server does not answer.
    pub fn open(address: &Address, settings: Settings) -> Result<Points> {
        let mut session = Session::open(address, "ashlar lab", settings.limit)?;
        let shape = Shape::read(&mut session)?;
        settings.check(&shape)?;
        let keys = Keys::new(settings.skew, shape.rows);
        Ok(Points { address: address.clone(), shape, settings, keys })
    }

    /// What was loaded.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}

impl Workload for Points {
    type Client = Reader;

    fn kinds(&self) -> Vec<Kind> {
        KINDS.map(|name| Kind { name, keying: Duration::ZERO, think: Duration::ZERO }).to_vec()
    }

    fn client(&self, _number: usize, _clients: usize) -> Result<Reader> {
        Reader::open(&self.address, self.settings, self.keys)
    }
}
