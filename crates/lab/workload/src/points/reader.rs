//! A client of `points`: asks for rows, and looks at what it gets.

use ashlar_postgres::{Address, Row, Session, Statement};

use crate::content::checksum;
use crate::error::{Error, Result};
use crate::fields::{bytes, wide};
use crate::random::Random;
use crate::workload::{Client, Done};

use super::Settings;
use super::keys::Keys;

/// Rows by their keys.
pub(super) const KEYS: &str =
    "SELECT id, checksum, payload FROM lab_points.point WHERE id = ANY($1::bigint[])";

/// Neighbours. A number of rows is planned for what it is; an upper bound as a value would be guessed.
pub(super) fn range_statement(rows: u32) -> String {
    format!("SELECT id, checksum, payload FROM lab_points.point WHERE id >= $1 ORDER BY id LIMIT {rows}")
}

/// A client that reads by key.
pub struct Reader {
    session: Session,
    keys_statement: Statement,
    range_statement: Statement,
    settings: Settings,
    keys: Keys,
    /// What must come back, in order.
    asked: Vec<i64>,
    is_range: bool,
}

impl Reader {
    pub(super) fn open(address: &Address, settings: Settings, keys: Keys) -> Result<Reader> {
        let mut session = Session::open(address, "ashlar lab points", settings.limit)?;
        // Left to itself the server would plan each read anew, because it takes an unknown array for ten
        // keys; measured: 8,500 reads a second of one key so, 16,000 with one plan, as pgbench gets of its
        // array of one.
        session.run("SET plan_cache_mode = force_generic_plan")?;
        let keys_statement = session.prepare(KEYS)?;
        let range_statement = session.prepare(&range_statement(settings.range_rows))?;
        let asked = Vec::new();
        Ok(Reader { session, keys_statement, range_statement, settings, keys, asked, is_range: false })
    }

    fn check(&self, rows: &[Row]) -> Result<()> {
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            let (id, sum) = (wide(row, 0)?, wide(row, 1)?);
            let found = checksum(id, bytes(row, 2)?);
            if found != sum {
                let sums = format!("stored {sum:016x}, computed {found:016x}");
                return Err(Error::content(format!("row {id} checksum mismatch: {sums}")));
            }
            ids.push(id);
        }
        ids.sort_unstable();
        if ids == self.asked {
            return Ok(());
        }
        let lost = self.asked.iter().find(|id| ids.binary_search(id).is_err());
        let foreign = ids.iter().find(|id| self.asked.binary_search(id).is_err());
        Err(Error::content(format!(
            "asked for {} rows, found {}; not found: {lost:?}, not asked for: {foreign:?}",
            self.asked.len(),
            ids.len()
        )))
    }
}

impl Client for Reader {
    fn draw(&mut self, random: &mut Random) -> usize {
        self.asked.clear();
        self.is_range = random.is_percent(self.settings.range_percent);
        if self.is_range {
            let count = i64::from(self.settings.range_rows);
            // The last rows have less than a range behind them.
            let first = self.keys.draw(random).min(self.keys.rows - count + 1);
            self.asked.extend(first..first + count);
        } else {
            let keys = std::iter::repeat_with(|| self.keys.draw(random));
            self.asked.extend(keys.take(self.settings.keys_per_read));
            self.asked.sort_unstable();
            self.asked.dedup();
        }
        usize::from(self.is_range)
    }

    fn attempt(&mut self) -> Result<Done> {
        let rows = if self.is_range {
            let first = self.asked.first().copied().unwrap_or(1);
            self.session.query(&self.range_statement, &[&first])?
        } else {
            self.session.query(&self.keys_statement, &[&self.asked])?
        };
        self.check(&rows)?;
        Ok(Done::Committed)
    }

    /// A statement on its own leaves nothing open.
    fn abandon(&mut self) -> Result<()> {
        Ok(())
    }
}
