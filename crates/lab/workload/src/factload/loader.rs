//! A client of `factload`: takes the next batch, transforms it and commits it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ashlar_postgres::{Address, Session, Statement};

use crate::error::{Error, ErrorKind, Result};
use crate::fields::binary_pieces;
use crate::random::Random;
use crate::workload::{Client, Done};

use super::Scene;
use super::ledger::Book;
use super::load::file_offset;
use super::origin::Batch;
use super::source::{self, FILE_ROW_BYTES};
use super::transform::{Fact, insert_statement};

/// So many rows of a file are read at once: 394 KB. The paper's I/Os had 390 KB in the mean.
const ROWS_AT_ONCE: usize = 550;

/// Brings in rows that are transformed already.
pub(super) const COPY: &str = "COPY lab_facts.fact FROM STDIN (FORMAT binary)";

/// A client that loads facts.
pub struct Loader {
    session: Session,
    scene: Arc<Scene>,
    /// Of the sources that are tables.
    statements: Vec<Statement>,
    book: Book,
    batch: Option<Batch>,
}

impl Loader {
    pub(super) fn open(address: &Address, scene: Arc<Scene>) -> Result<Loader> {
        let mut session = Session::open(address, "ashlar lab factload", scene.settings.limit)?;
        // A plan for any range of keys would be one for a guessed number of rows.
        session.run("SET plan_cache_mode = force_custom_plan")?;
        let prepare = |source| Ok(session.prepare(&insert_statement(source))?);
        let statements = (1..=scene.shape.tables).map(prepare).collect::<Result<_>>()?;
        let book = scene.ledger.book();
        Ok(Loader { session, scene, statements, book, batch: None })
    }

    /// Answers how many rows came in.
    fn load_from_table(&mut self, batch: Batch) -> Result<u64> {
        let (after, last) = self.scene.shape.keys(batch.source, batch.number);
        let statement = &self.statements[batch.source as usize - 1];
        let run = self.scene.run;
        Ok(self.session.execute(statement, &[&after, &last, &run, &batch.round, &batch.number])?)
    }

    /// The same.
    fn load_from_file(&mut self, batch: Batch) -> Result<u64> {
        let scene = &self.scene;
        let mut rows = FileRows::of(scene, batch);
        let mut failure = None;
        let mut next = binary_pieces(|piece| match rows.next_fact(scene) {
            Some(Ok(fact)) => {
                fact.write(scene.run, batch, piece);
                true
            }
            Some(Err(error)) => {
                failure = Some(error);
                false
            }
            None => false,
        });
        let copied = self.session.copy(COPY, &mut next);
        drop(next);
        // What came in before is rolled back with the transaction.
        failure.map_or(Ok(copied?), Err)
    }

    /// Commits; before it is asked for, and after it was acknowledged or refused, it is written down.
    fn commit(&mut self, batch: Batch) -> Result<()> {
        self.book.send(batch);
        match self.session.run("COMMIT") {
            Ok(_) => self.book.acknowledge(),
            Err(error) => {
                let error = Error::from(error);
                if error.kind != ErrorKind::Lost {
                    self.book.withdraw();
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Client for Loader {
    fn draw(&mut self, _random: &mut Random) -> usize {
        let batch = self.scene.next_batch();
        self.batch = Some(batch);
        usize::from(!self.scene.shape.is_table(batch.source))
    }

    fn attempt(&mut self) -> Result<Done> {
        let batch = self.batch.ok_or_else(|| Error::content("a batch is drawn before it is tried"))?;
        self.session.run("BEGIN")?;
        let is_table = self.scene.shape.is_table(batch.source);
        let rows = if is_table { self.load_from_table(batch)? } else { self.load_from_file(batch)? };
        if rows != self.scene.shape.rows_per_batch as u64 {
            let Batch { source, number, .. } = batch;
            let asked = self.scene.shape.rows_per_batch;
            return Err(Error::content(format!(
                "batch {number} of source {source}: {rows} rows came in, not {asked}"
            )));
        }
        self.commit(batch)?;
        Ok(Done::Committed)
    }

    fn abandon(&mut self) -> Result<()> {
        self.session.run("ROLLBACK")?;
        Ok(())
    }
}

/// The rows of a batch, read in pieces from their file.
struct FileRows<'a> {
    file: Option<&'a File>,
    offset: u64,
    /// The key of the next one, and of the last one.
    next: i64,
    last: i64,
    piece: Vec<u8>,
    /// How much of the piece is done.
    at: usize,
}

impl FileRows<'_> {
    fn of(scene: &Scene, batch: Batch) -> FileRows<'_> {
        let shape = &scene.shape;
        let (after, last) = shape.keys(batch.source, batch.number);
        let file = scene.files.get((batch.source - shape.tables - 1) as usize);
        let offset = file_offset(shape, batch.number);
        FileRows { file, offset, next: after + 1, last, piece: Vec::new(), at: 0 }
    }

    /// `None` behind the last one.
    fn next_fact(&mut self, scene: &Scene) -> Option<Result<Fact>> {
        if self.next > self.last {
            return None;
        }
        if self.at == self.piece.len()
            && let Err(error) = self.read()
        {
            return Some(Err(error));
        }
        let row = source::read(self.next, &self.piece[self.at..self.at + FILE_ROW_BYTES]);
        self.next += 1;
        self.at += FILE_ROW_BYTES;
        Some(row.and_then(|row| Fact::of(&row, &scene.dimensions)))
    }

    fn read(&mut self) -> Result<()> {
        let rows = ROWS_AT_ONCE.min((self.last - self.next + 1) as usize);
        self.piece.resize(rows * FILE_ROW_BYTES, 0);
        let file = self.file.ok_or_else(|| Error::content("a source without a file"))?;
        let read = file.read_exact_at(&mut self.piece, self.offset);
        read.map_err(|error| Error::content(format!("read a source at byte {}: {error}", self.offset)))?;
        self.offset += self.piece.len() as u64;
        self.at = 0;
        Ok(())
    }
}
