//! A client of `orders`: its session, what it draws, and how it commits.

use std::sync::Arc;

use ashlar_postgres::{Address, Row, Session, Statement, ToSql};

use crate::error::{ErrorKind, Result};
use crate::random::Random;
use crate::workload::{Client, Done};

use super::KINDS;
use super::ledger::{Book, Entry};
use super::origin::{DISTRICTS, Origin, Preferences};
use super::settings::{Draw, Home, Isolation, Settings};
use super::transaction::{Input, Statements};

/// What all terminals of a run know.
pub(super) struct Scene {
    pub(super) origin: Origin,
    pub(super) settings: Settings,
    pub(super) preferences: Preferences,
}

impl Scene {
    pub(super) fn new(origin: Origin, settings: Settings) -> Scene {
        Scene { origin, settings, preferences: Preferences::of_run(&origin, settings.seed) }
    }
}

/// Where a transaction comes from.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) warehouse: i32,
    /// The terminal's own, which only Stock-Level asks about.
    pub(super) district: i32,
}

/// A session in which rows are asked for and changed, and what it committed is written down.
pub(super) struct Desk {
    session: Session,
    isolation: Isolation,
    book: Option<Book>,
}

/// A client of the order workload.
pub struct Terminal {
    desk: Desk,
    scene: Arc<Scene>,
    statements: Statements,
    number: usize,
    deck: Vec<usize>,
    input: Option<Input>,
}

impl Terminal {
    pub(super) fn open(
        address: &Address,
        scene: Arc<Scene>,
        number: usize,
        book: Option<Book>,
    ) -> Result<Terminal> {
        let settings = &scene.settings;
        let mut session = Session::open(address, "ashlar lab orders", settings.limit)?;
        if settings.isolation == Isolation::Serializable {
            // A scan of a small table locks all of it against being changed (PostgreSQL, section 13.2.3), and
            // a table of a few warehouses is small: without this, every payment is in conflict with every
            // order. Measured with two warehouses and eight clients: 6,800 new orders a minute, 12,600 with
            // it.
            session.run("SET enable_seqscan = off")?;
        }
        let statements = Statements::prepare(&mut session, settings.isolation)?;
        let desk = Desk { session, isolation: settings.isolation, book };
        Ok(Terminal { desk, scene, statements, number, deck: Vec::new(), input: None })
    }

    fn place(&self, random: &mut Random) -> Place {
        let warehouses = self.scene.origin.warehouses;
        let turn = (self.number % warehouses as usize) as i32;
        let warehouse = match self.scene.settings.home {
            Home::Fixed => turn + 1,
            Home::All => random.between(1, warehouses),
        };
        let round = self.number / warehouses as usize % DISTRICTS as usize;
        Place { warehouse, district: round as i32 + 1 }
    }

    fn kind(&mut self, random: &mut Random) -> usize {
        let mix = self.scene.settings.mix;
        match mix.draw {
            Draw::Random => {
                let sum: u32 = mix.weights.iter().sum();
                let mut card = random.between_wide(0, i64::from(sum) - 1);
                let holds = |weight: &u32| {
                    card -= i64::from(*weight);
                    card < 0
                };
                mix.weights.iter().position(holds).expect("the card is below the sum")
            }
            Draw::Deck => {
                if self.deck.is_empty() {
                    let cards = |kind: usize| std::iter::repeat_n(kind, mix.weights[kind] as usize);
                    self.deck = (0..KINDS.len()).flat_map(cards).collect();
                    random.shuffle(&mut self.deck);
                }
                self.deck.pop().expect("the weights sum up to one or more")
            }
        }
    }
}

impl Client for Terminal {
    fn draw(&mut self, random: &mut Random) -> usize {
        let kind = self.kind(random);
        let place = self.place(random);
        self.input = Some(Input::draw(kind, place, &self.scene, random));
        kind
    }

    fn attempt(&mut self) -> Result<Done> {
        let input = self.input.as_ref().expect("a transaction is drawn before it is tried");
        input.perform(&mut self.desk, &self.statements)
    }

    fn abandon(&mut self) -> Result<()> {
        self.desk.roll_back()
    }
}

impl Desk {
    /// Begins a transaction that changes rows.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.begin_at(self.isolation)
    }

    /// Begins a transaction that only reads, at no more than this isolation.
    pub(super) fn begin_reading(&mut self, most: Isolation) -> Result<()> {
        let is_less = matches!(
            (self.isolation, most),
            (Isolation::ReadCommitted, _) | (Isolation::RepeatableRead, Isolation::RepeatableRead)
        );
        self.begin_at(if is_less { self.isolation } else { most })
    }

    fn begin_at(&mut self, isolation: Isolation) -> Result<()> {
        self.session.run(match isolation {
            Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        })?;
        Ok(())
    }

    pub(super) fn query(
        &mut self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        Ok(self.session.query(statement, values)?)
    }

    pub(super) fn execute(&mut self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> Result<u64> {
        Ok(self.session.execute(statement, values)?)
    }

    pub(super) fn roll_back(&mut self) -> Result<()> {
        self.session.run("ROLLBACK")?;
        Ok(())
    }

    /// The mark of the next entry, where there is a ledger.
    pub(super) fn next_mark(&self) -> Option<String> {
        self.book.as_ref().map(Book::next_mark)
    }

    /// Commits what only read, or is not written down.
    pub(super) fn commit(&mut self) -> Result<Done> {
        self.session.run("COMMIT")?;
        Ok(Done::Committed)
    }

    /// Commits; before it is asked for, and after it was acknowledged or refused, it is written down.
    pub(super) fn commit_written(&mut self, entry: Entry) -> Result<Done> {
        let Some(book) = &mut self.book else { return self.commit() };
        book.send(entry)?;
        match self.session.run("COMMIT") {
            Ok(_) => book.acknowledge()?,
            Err(error) => {
                let error = crate::error::Error::from(error);
                if error.kind != ErrorKind::Lost {
                    book.withdraw()?;
                }
                return Err(error);
            }
        }
        Ok(Done::Committed)
    }
}
