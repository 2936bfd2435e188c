//! Makes the sources: tables by COPY in its binary form, files of the same bytes, and what each batch must
//! sum up to.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Session};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fields::{binary_pieces, pieces};
use crate::jobs::{self, Job};

use super::dimensions::{Dimensions, tables};
use super::origin::{SOURCES_MAX, Shape};
use super::schema::{KEYS, TABLES, source_tables};
use super::source::{self, FILE_ROW_BYTES};
use super::transform::{Fact, SUMS};

/// What to load.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// The sources.
    pub shape: Shape,
    /// Where the sources that are files are made: a directory on the target, which must be there.
    pub files: PathBuf,
    /// Sessions side by side: as many as there are processors.
    pub sessions: usize,
    /// No answer within this means that the server is lost. An index of a source is one statement.
    pub limit: Duration,
}

/// What was loaded.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Loaded {
    /// In the database now.
    pub shape: Shape,
    /// All sources that are tables, with their indexes, as PostgreSQL counts them.
    pub tables_bytes: u64,
    /// All sources that are files.
    pub files_bytes: u64,
    /// Bringing in the rows.
    pub rows_seconds: f64,
    /// Keys, VACUUM and ANALYZE.
    pub rest_seconds: f64,
}

/// One COPY has about so many rows. Arbitrary: seconds of work, so that a stop is heard.
const ROWS_PER_JOB: i32 = 50_000;

/// The name of a source's file in its directory.
fn file_path(directory: &Path, source: i16) -> PathBuf {
    directory.join(format!("ashlar-source-{source}.rows"))
}

/// Loads the schema `lab_facts` of a database, and makes the files.
///
/// # Errors
/// When either is there already, the server refuses or is lost, a file cannot be written, or `stop` is set;
/// [`unload`] removes both.
pub fn load(address: &Address, load: &Load, stop: &AtomicBool) -> Result<Loaded> {
    let shape = load.shape;
    shape.check()?;
    let mut session = Session::open(address, "ashlar lab load", load.limit)?;
    if !session.run("SELECT 1 FROM pg_namespace WHERE nspname = 'lab_facts'")?.is_empty() {
        let shown = address.shown();
        return Err(Error::environment(format!("{shown} has a schema lab_facts already: unload it first")));
    }
    let files = (shape.tables + 1..=shape.sources()).map(|source| create(&file_path(&load.files, source)));
    let files: Vec<Arc<File>> = files.collect::<Result<_>>()?;
    let start = Instant::now();
    session.run(TABLES)?;
    session.run(&source_tables(&shape))?;
    jobs::run(address, load.sessions, load.limit, stop, rows(shape, &files))?;
    for file in &files {
        // What a run reads must not be written back meanwhile.
        file.sync_all().map_err(|error| cannot("flush", &load.files, &error))?;
    }
    let rows_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    jobs::run(address, load.sessions, load.limit, stop, keys(&shape))?;
    // Last: what has an origin is whole.
    session.run(&shape.insert_statement())?;
    let rest_seconds = start.elapsed().as_secs_f64();
    let tables_bytes = tables_bytes(&mut session)?;
    let files_bytes = shape.files as u64 * shape.rows_per_source as u64 * FILE_ROW_BYTES as u64;
    Ok(Loaded { shape, tables_bytes, files_bytes, rows_seconds, rest_seconds })
}

/// Drops the schema `lab_facts` with all that is in it, and removes the files of its sources.
///
/// # Errors
/// When the server refuses or does not answer, or a file cannot be removed.
pub fn unload(session: &mut Session, files: &Path) -> Result<()> {
    session.run("DROP SCHEMA IF EXISTS lab_facts CASCADE")?;
    // Also those of a load that did not come to its end.
    for source in 1..=SOURCES_MAX {
        let path = file_path(files, source);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot("remove", &path, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!("{what} {}: {error}", path.display()))
}

fn create(path: &Path) -> Result<Arc<File>> {
    File::create_new(path).map(Arc::new).map_err(|error| cannot("create", path, &error))
}

/// The file of a source, to be read.
pub(super) fn open(shape: &Shape, directory: &Path, source: i16) -> Result<File> {
    let path = file_path(directory, source);
    let file = File::open(&path).map_err(|error| cannot("open", &path, &error))?;
    let found = file.metadata().map_err(|error| cannot("ask about", &path, &error))?.len();
    let asked = file_offset(shape, shape.batches());
    if found != asked {
        let shown = path.display();
        return Err(Error::content(format!("{shown} has {found} bytes, not {asked} as were loaded")));
    }
    Ok(file)
}

/// The sources take turns, so that no two sessions are in one table: its rows lie in the order of their keys.
fn rows(shape: Shape, files: &[Arc<File>]) -> Vec<Job> {
    let dimensions = Arc::new(Dimensions::of_seed(shape.seed as u64));
    let copy = |(statement, text): (&'static str, Vec<u8>)| {
        let mut text = Some(text);
        Job::copy(statement, statement, move || text.take())
    };
    let mut jobs: Vec<Job> = tables(shape.seed as u64).into_iter().map(copy).collect();
    let batches_per_job = (ROWS_PER_JOB / shape.rows_per_batch).max(1);
    for first in (0..shape.batches()).step_by(batches_per_job as usize) {
        let after = first.saturating_add(batches_per_job).min(shape.batches());
        for source in 1..=shape.sources() {
            let file = files.get((source - shape.tables - 1) as usize).cloned();
            let part = Part { shape, source, batches: (first, after), dimensions: Arc::clone(&dimensions) };
            let what = format!("load batches {first} to {} of source {source}", after - 1);
            jobs.push(Job::new(what, move |session| part.make(session, file.as_deref())));
        }
    }
    jobs
}

/// Some batches of a source.
struct Part {
    shape: Shape,
    source: i16,
    /// From the first to before the second.
    batches: (i32, i32),
    dimensions: Arc<Dimensions>,
}

type Sums = [i64; SUMS.len()];

impl Part {
    /// Makes their rows, and keeps what each batch sums up to.
    fn make(&self, session: &mut Session, file: Option<&File>) -> Result<u64> {
        let first = self.shape.keys(self.source, self.batches.0).0;
        let mut sums: Vec<Sums> = Vec::new();
        for number in self.batches.0..self.batches.1 {
            sums.push(self.make_batch(number, session, file)?);
        }
        let values = (self.batches.0..).zip(&sums).map(|(number, sums)| {
            let sums = sums.map(|sum| sum.to_string()).join(", ");
            format!("({}, {number}, {sums})", self.source)
        });
        let values: Vec<String> = values.collect();
        session.run(&format!("INSERT INTO lab_facts.batch VALUES {}", values.join(", ")))?;
        Ok((self.shape.keys(self.source, self.batches.1).0 - first) as u64)
    }

    /// Answers what it sums up to.
    fn make_batch(&self, number: i32, session: &mut Session, file: Option<&File>) -> Result<Sums> {
        let (after, last) = self.shape.keys(self.source, number);
        let content = self.shape.content();
        let mut sums = [0; SUMS.len()];
        let mut failure = None;
        let mut id = after;
        let row = |piece: &mut Vec<u8>| {
            if id == last || failure.is_some() {
                return false;
            }
            id += 1;
            let start = piece.len();
            source::write(&content, id, piece);
            match source::read(id, &piece[start..]).and_then(|row| Fact::of(&row, &self.dimensions)) {
                Ok(fact) => fact.add_to(&mut sums),
                Err(error) => failure = Some(error),
            }
            true
        };
        match file {
            Some(file) => {
                let mut offset = file_offset(&self.shape, number);
                let mut next = pieces(row);
                while let Some(piece) = next() {
                    let written = file.write_all_at(&piece, offset);
                    written.map_err(|error| Error::environment(format!("write a source: {error}")))?;
                    offset += piece.len() as u64;
                }
            }
            None => {
                let statement = format!("COPY lab_facts.source_{} FROM STDIN (FORMAT binary)", self.source);
                session.copy(&statement, &mut binary_pieces(row))?;
            }
        }
        failure.map_or(Ok(sums), Err)
    }
}

/// Where a batch begins in its file.
pub(super) fn file_offset(shape: &Shape, number: i32) -> u64 {
    number as u64 * shape.rows_per_batch as u64 * FILE_ROW_BYTES as u64
}

fn keys(shape: &Shape) -> Vec<Job> {
    let sources = (1..=shape.tables).map(|source| (format!("source_{source}"), "id"));
    let others = KEYS.iter().map(|(table, key)| (table.to_string(), *key));
    let job = |(table, key): (String, &str)| {
        Job::statements(vec![
            format!("ALTER TABLE lab_facts.{table} ADD PRIMARY KEY ({key})"),
            // Without it, a run's first reads would write every page back, and plans would be guesses.
            format!("VACUUM (ANALYZE) lab_facts.{table}"),
        ])
    };
    sources.chain(others).map(job).collect()
}

fn tables_bytes(session: &mut Session) -> Result<u64> {
    let rows = session.run(
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'lab_facts'::regnamespace AND relname LIKE 'source\\_%'",
    )?;
    let field = rows.iter().flatten().next().and_then(|field| field.as_deref()?.parse().ok());
    field.ok_or_else(|| Error::content("the size of the sources is no number"))
}
