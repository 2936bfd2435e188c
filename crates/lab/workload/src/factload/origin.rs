//! What a database was loaded with. It stands in the database, so that no run has to be told.

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::error::{Error, Result};

use super::source::PAYLOAD_SIZE_BYTES;

/// Each client has a statement for each of them. Arbitrary: more are not asked for.
pub(super) const SOURCES_MAX: i16 = 64;

/// The row numbers of a source have so many bits of a row's key; the number of the source is above them.
pub(super) const ROW_BITS: u32 = 40;

/// What a row of a source takes of a page beside its payload: an eleventh of a page has 745.
const ROW_BYTES: f64 = 105.0;

/// What is left of it by a compressor beside its random bytes. Measured, single pages of 8 KB: 121 by lz4, 95
/// by zstd -1.
const LEFT_BYTES: f64 = 108.0;

/// A batch is one transaction, and a client keeps nothing of it. Arbitrary: a hundred times the usual one.
const BATCH_ROWS_MAX: i32 = 1_000_000;

/// The sources.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// So many of the sources are tables of the database. They have the numbers from 1.
    pub tables: i16,
    /// So many are files. Their numbers follow.
    pub files: i16,
    /// Of each source; whole batches.
    pub rows_per_source: i64,
    /// What one transaction brings in.
    pub rows_per_batch: i32,
    /// How many times smaller a fast compressor makes the sources, page by page: 1 is not compressible.
    pub compression: f64,
    /// Of all that is drawn.
    pub seed: i64,
}

/// A batch: what one transaction brings in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Batch {
    /// How often the sources were used up before, in this run.
    pub(super) round: i32,
    /// From 1.
    pub(super) source: i16,
    /// From 0, within its source.
    pub(super) number: i32,
}

impl Shape {
    /// Of the database of this session.
    ///
    /// # Errors
    /// When nothing was loaded there.
    pub fn read(session: &mut Session) -> Result<Shape> {
        let rows = session.run(
            "SELECT tables, files, rows_per_source, rows_per_batch, compression, seed FROM lab_facts.origin",
        )?;
        let damaged = || Error::content("lab_facts.origin is not as the load wrote it");
        let row = rows.first().ok_or_else(damaged)?;
        let [Some(tables), Some(files), Some(of_source), Some(of_batch), Some(compression), Some(seed)] =
            &row[..]
        else {
            return Err(damaged());
        };
        let shape = Shape {
            tables: tables.parse().map_err(|_| damaged())?,
            files: files.parse().map_err(|_| damaged())?,
            rows_per_source: of_source.parse().map_err(|_| damaged())?,
            rows_per_batch: of_batch.parse().map_err(|_| damaged())?,
            compression: compression.parse().map_err(|_| damaged())?,
            seed: seed.parse().map_err(|_| damaged())?,
        };
        shape.check().map(|()| shape)
    }

    pub(super) fn insert_statement(&self) -> String {
        let Shape { tables, files, rows_per_source, rows_per_batch, compression, seed } = self;
        format!(
            "INSERT INTO lab_facts.origin VALUES \
             ({tables}, {files}, {rows_per_source}, {rows_per_batch}, {compression}, {seed})"
        )
    }

    pub(super) fn check(&self) -> Result<()> {
        let counts = 0..=SOURCES_MAX;
        let is_possible = counts.contains(&self.tables)
            && counts.contains(&self.files)
            && (1..=SOURCES_MAX).contains(&(self.tables + self.files))
            && (1..=BATCH_ROWS_MAX).contains(&self.rows_per_batch)
            && (1..1_i64 << ROW_BITS).contains(&self.rows_per_source)
            && self.rows_per_source % i64::from(self.rows_per_batch) == 0
            && self.rows_per_source / i64::from(self.rows_per_batch) <= i64::from(i32::MAX)
            && (1.0..=100.0).contains(&self.compression);
        if is_possible {
            return Ok(());
        }
        Err(Error::environment(format!("sources cannot be so (a source has whole batches): {self:?}")))
    }

    /// How many sources there are.
    #[must_use]
    pub fn sources(&self) -> i16 {
        self.tables + self.files
    }

    pub(super) fn is_table(&self, source: i16) -> bool {
        source <= self.tables
    }

    /// Of one source.
    pub(super) fn batches(&self) -> i32 {
        (self.rows_per_source / i64::from(self.rows_per_batch)) as i32
    }

    /// The `ticket`th batch of a run, from 0: the sources take turns, and are begun again when used up.
    pub(super) fn batch(&self, ticket: u64) -> Batch {
        let sources = self.sources() as u64;
        let per_round = sources * self.batches() as u64;
        let within = ticket % per_round;
        Batch {
            round: (ticket / per_round) as i32,
            source: (within % sources) as i16 + 1,
            number: (within / sources) as i32,
        }
    }

    /// The keys of a batch's rows: behind the first of these, up to the second.
    pub(super) fn keys(&self, source: i16, number: i32) -> (i64, i64) {
        let after = (i64::from(source) << ROW_BITS) + i64::from(number) * i64::from(self.rows_per_batch);
        (after, after + i64::from(self.rows_per_batch))
    }

    pub(super) fn content(&self) -> Content {
        let Shape { compression, seed, .. } = *self;
        Content {
            payload_size_bytes: PAYLOAD_SIZE_BYTES,
            compression,
            seed: seed as u64,
            row_bytes: ROW_BYTES,
            left_bytes: LEFT_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape =
        Shape { tables: 2, files: 1, rows_per_source: 400, rows_per_batch: 100, compression: 2.0, seed: 1 };

    #[test]
    fn every_batch_of_a_round_has_one_ticket() {
        let mut round: Vec<Batch> = (12..24).map(|ticket| SHAPE.batch(ticket)).collect();
        assert_eq!(round[0], Batch { round: 1, source: 1, number: 0 });
        assert_eq!(round[4], Batch { round: 1, source: 2, number: 1 });
        round.sort();
        round.dedup();
        assert_eq!(round.len(), 12);
        assert!(round.iter().all(|batch| batch.round == 1 && batch.number < 4 && batch.source <= 3));
        let (after, last) = SHAPE.keys(3, 3);
        assert_eq!((after & ((1 << ROW_BITS) - 1), last - (3 << ROW_BITS)), (300, 400));
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        assert!(SHAPE.check().is_ok());
        let wrong = [
            Shape { tables: 0, files: 0, ..SHAPE },
            Shape { files: -1, ..SHAPE },
            Shape { rows_per_batch: 150, ..SHAPE },
            Shape { rows_per_source: 0, ..SHAPE },
            Shape { compression: 0.5, ..SHAPE },
            Shape { tables: 40, files: 40, ..SHAPE },
        ];
        assert!(wrong.iter().all(|shape| shape.check().is_err()));
    }
}
