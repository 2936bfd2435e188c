//! Loads the table, by COPY in its binary form: random bytes would double in the text form.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Session};
use serde::{Deserialize, Serialize};

use crate::content::{Content, checksum, payload};
use crate::error::{Error, Result};
use crate::fields::binary_pieces;
use crate::jobs::{self, Job};

use super::Shape;

/// What to load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// The table.
    pub shape: Shape,
    /// Sessions side by side. With one, rows lie in the order of their ids; more of them take turns with
    /// pages.
    pub sessions: usize,
    /// Afterwards the table is rewritten in the order of its ids, so that a range is of neighbouring pages.
    /// Costs all rows a second time, and their space until then; one session needs it not.
    pub is_clustered: bool,
    /// No answer within this means that the server is lost. The index is one statement.
    pub limit: Duration,
}

/// What was loaded.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Loaded {
    /// In the database now.
    pub shape: Shape,
    /// Table and index, as PostgreSQL counts them.
    pub size_bytes: u64,
    /// Bringing in the rows.
    pub rows_seconds: f64,
    /// The key, the order if asked for, and VACUUM and ANALYZE.
    pub rest_seconds: f64,
}

const TABLES: &str = "
CREATE SCHEMA lab_points;
CREATE TABLE lab_points.origin (
    rows bigint NOT NULL, payload_size int NOT NULL, compression float8 NOT NULL, seed bigint NOT NULL);
CREATE TABLE lab_points.point (id bigint NOT NULL, checksum bigint NOT NULL, payload bytea NOT NULL);
ALTER TABLE lab_points.point ALTER payload SET STORAGE PLAIN";

/// One COPY has so many rows. Arbitrary: seconds of work, so that a stop is heard, and many for each session.
const ROWS_PER_JOB: i64 = 50_000;

/// A row with its header must fit into a page of 8 KB, and is never compressed or moved out by PostgreSQL.
const PAYLOAD_MAX_BYTES: i32 = 8000;

/// What a row takes of a page beside its payload: headers, id, checksum.
const ROW_BYTES: f64 = 64.0;

/// What is left of a row by a compressor beside its random bytes. Measured with 960 bytes of payload, single
/// pages of 8 KB: 78 by lz4, 46 by zstd -1.
const LEFT_BYTES: f64 = 62.0;

/// Loads the schema `lab_points` of a database.
///
/// # Errors
/// When it is there already, the server refuses or is lost, or `stop` is set; [`unload`] drops it.
pub fn load(address: &Address, load: &Load, stop: &AtomicBool) -> Result<Loaded> {
    load.shape.check()?;
    let mut session = Session::open(address, "ashlar lab load", load.limit)?;
    if !session.run("SELECT 1 FROM pg_namespace WHERE nspname = 'lab_points'")?.is_empty() {
        let shown = address.shown();
        return Err(Error::environment(format!("{shown} has a schema lab_points already: unload it first")));
    }
    session.run(TABLES)?;
    let start = Instant::now();
    let firsts = (1..=load.shape.rows).step_by(ROWS_PER_JOB as usize);
    let copies = firsts.map(|first| copy(load.shape, first)).collect();
    jobs::run(address, load.sessions, load.limit, stop, copies)?;
    let rows_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    session.run("ALTER TABLE lab_points.point ADD CONSTRAINT point_key PRIMARY KEY (id)")?;
    if load.is_clustered && load.sessions > 1 {
        session.run("CLUSTER lab_points.point USING point_key")?;
    }
    session.run("VACUUM (ANALYZE) lab_points.point")?;
    session.run(&load.shape.insert_statement())?;
    let rest_seconds = start.elapsed().as_secs_f64();
    let rows = session.run("SELECT pg_total_relation_size('lab_points.point')")?;
    let size_bytes = rows.iter().flatten().next().and_then(|field| field.as_deref()?.parse().ok());
    let size_bytes = size_bytes.ok_or_else(|| Error::content("the size of lab_points is no number"))?;
    Ok(Loaded { shape: load.shape, size_bytes, rows_seconds, rest_seconds })
}

/// Drops the schema `lab_points` with all that is in it.
///
/// # Errors
/// When the server refuses or does not answer.
pub fn unload(session: &mut Session) -> Result<()> {
    session.run("DROP SCHEMA IF EXISTS lab_points CASCADE")?;
    Ok(())
}

fn copy(shape: Shape, first: i64) -> Job {
    let after = (first + ROWS_PER_JOB).min(shape.rows + 1);
    let what = format!("load rows {first} to {}", after - 1);
    let mut next = first;
    Job::copy(
        "COPY lab_points.point FROM STDIN (FORMAT binary)",
        what,
        binary_pieces(move |piece| {
            if next == after {
                return false;
            }
            row(&shape, next, piece);
            next += 1;
            true
        }),
    )
}

/// Three fields, each behind its length.
fn row(shape: &Shape, id: i64, piece: &mut Vec<u8>) {
    piece.extend_from_slice(&3_i16.to_be_bytes());
    piece.extend_from_slice(&8_i32.to_be_bytes());
    piece.extend_from_slice(&id.to_be_bytes());
    piece.extend_from_slice(&8_i32.to_be_bytes());
    let checksum_at = piece.len();
    piece.extend_from_slice(&[0; 8]);
    piece.extend_from_slice(&shape.payload_size_bytes.to_be_bytes());
    let start = piece.len();
    payload(&shape.content(), id, piece);
    let sum = checksum(id, &piece[start..]);
    piece[checksum_at..checksum_at + 8].copy_from_slice(&sum.to_be_bytes());
}

impl Shape {
    /// What was loaded into the database of this session.
    ///
    /// # Errors
    /// When nothing was.
    pub fn read(session: &mut Session) -> Result<Shape> {
        let rows = session.run("SELECT rows, payload_size, compression, seed FROM lab_points.origin")?;
        let damaged = || Error::content("lab_points.origin is not as the load wrote it");
        let row = rows.first().ok_or_else(damaged)?;
        let [Some(rows), Some(payload_size), Some(compression), Some(seed)] = &row[..] else {
            return Err(damaged());
        };
        let shape = Shape {
            rows: rows.parse().map_err(|_| damaged())?,
            payload_size_bytes: payload_size.parse().map_err(|_| damaged())?,
            compression: compression.parse().map_err(|_| damaged())?,
            seed: seed.parse().map_err(|_| damaged())?,
        };
        shape.check().map(|()| shape)
    }

    fn check(&self) -> Result<()> {
        let is_possible = self.rows >= 1
            && (1..=PAYLOAD_MAX_BYTES).contains(&self.payload_size_bytes)
            && (1.0..=100.0).contains(&self.compression);
        if is_possible {
            return Ok(());
        }
        Err(Error::environment(format!("a table cannot be so: {self:?}")))
    }

    fn content(&self) -> Content {
        let Shape { payload_size_bytes, compression, seed, .. } = *self;
        Content {
            payload_size_bytes: payload_size_bytes as usize,
            compression,
            seed: seed as u64,
            row_bytes: ROW_BYTES,
            left_bytes: LEFT_BYTES,
        }
    }

    fn insert_statement(&self) -> String {
        let Shape { rows, payload_size_bytes, compression, seed } = self;
        format!("INSERT INTO lab_points.origin VALUES ({rows}, {payload_size_bytes}, {compression}, {seed})")
    }
}
