//! A session in which rows are asked for and changed, and what it committed is written down.

use ashlar_postgres::{Row, Session, Statement, ToSql};

use crate::error::{Error, ErrorKind, Result};
use crate::workload::Done;

use super::ledger::{Book, Entry};
use super::settings::Isolation;

/// What a transaction asks for, where the settings leave it the choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// Values of a prepared statement.
pub(super) type Values<'a> = [&'a (dyn ToSql + Sync)];

pub(super) struct Desk {
    session: Session,
    isolation: Isolation,
    book: Option<Book>,
}

impl Desk {
    pub(super) fn new(session: Session, isolation: Isolation, book: Option<Book>) -> Desk {
        Desk { session, isolation, book }
    }

    pub(super) fn begin(&mut self, level: Level) -> Result<()> {
        self.session.run(match (self.isolation, level) {
            (Isolation::ReadCommitted, _) | (_, Level::ReadCommitted) => {
                "BEGIN ISOLATION LEVEL READ COMMITTED"
            }
            (Isolation::ByKind, Level::RepeatableRead) => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            (Isolation::ByKind, Level::Serializable) => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        })?;
        Ok(())
    }

    pub(super) fn query(&mut self, statement: &Statement, values: &Values) -> Result<Vec<Row>> {
        Ok(self.session.query(statement, values)?)
    }

    pub(super) fn execute(&mut self, statement: &Statement, values: &Values) -> Result<u64> {
        Ok(self.session.execute(statement, values)?)
    }

    /// Changes exactly so many rows.
    pub(super) fn change(
        &mut self,
        what: &str,
        rows: usize,
        statement: &Statement,
        values: &Values,
    ) -> Result<()> {
        let changed = self.execute(statement, values)?;
        if changed == rows as u64 {
            return Ok(());
        }
        Err(Error::content(format!("{what}: {changed} rows, not {rows}")))
    }

    pub(super) fn roll_back(&mut self) -> Result<()> {
        self.session.run("ROLLBACK")?;
        Ok(())
    }

    /// Commits what only read, or is not written down.
    pub(super) fn commit(&mut self) -> Result<Done> {
        self.session.run("COMMIT")?;
        Ok(Done::Committed)
    }

    /// Commits; before it is asked for, and after it was acknowledged or refused, it is written down.
    pub(super) fn commit_written(&mut self, entry: Entry) -> Result<Done> {
        let Some(book) = &mut self.book else { return self.commit() };
        book.send(entry);
        match self.session.run("COMMIT").map_err(Error::from) {
            Ok(_) => book.acknowledge(),
            Err(error) => {
                if error.kind != ErrorKind::Lost {
                    book.withdraw();
                }
                return Err(error);
            }
        }
        Ok(Done::Committed)
    }
}
