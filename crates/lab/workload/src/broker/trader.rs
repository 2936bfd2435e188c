//! A client of `broker`: what it draws, and when.

use std::sync::Arc;
use std::time::Instant;

use ashlar_postgres::{Address, Session};

use crate::error::{Error, Result};
use crate::random::Random;
use crate::workload::{Client, Done};

use super::desk::Desk;
use super::exchange::Exchange;
use super::ledger::Book;
use super::origin::{Origin, Preference};
use super::settings::{Isolation, Settings};
use super::transaction::{Input, Statements};
use super::{DATA_MAINTENANCE, TRADE_ORDER, TRADE_RESULT};

/// What all traders of a run know.
pub(super) struct Scene {
    pub(super) origin: Origin,
    pub(super) settings: Settings,
    pub(super) preference: Preference,
}

impl Scene {
    pub(super) fn new(origin: Origin, settings: Settings) -> Scene {
        Scene { origin, settings, preference: Preference::of_run(&origin, settings.seed) }
    }
}

/// A client of the brokerage workload.
pub struct Trader {
    desk: Desk,
    scene: Arc<Scene>,
    statements: Statements,
    deck: Deck,
    exchange: Exchange,
    maintenance: Maintenance,
    input: Option<Input>,
}

impl Trader {
    pub(super) fn open(
        address: &Address,
        scene: Arc<Scene>,
        number: usize,
        book: Option<Book>,
    ) -> Result<Trader> {
        let settings = &scene.settings;
        let mut session = Session::open(address, "ashlar lab broker", settings.limit)?;
        if settings.isolation == Isolation::ByKind {
            // As in `orders`: a scan of a small table locks all of it against being changed.
            session.run("SET enable_seqscan = off")?;
        }
        let statements = Statements::prepare(&mut session)?;
        let desk = Desk::new(session, settings.isolation, book);
        let deck = Deck { weights: settings.mix.weights, cards: Vec::new() };
        let maintenance = Maintenance { is_ours: number == 0, last: Instant::now(), turn: 0 };
        let exchange = Exchange::default();
        Ok(Trader { desk, scene, statements, deck, exchange, maintenance, input: None })
    }
}

impl Client for Trader {
    fn draw(&mut self, random: &mut Random) -> usize {
        let kind = if self.maintenance.is_due(&self.scene.settings) {
            DATA_MAINTENANCE
        } else {
            self.deck.draw(random, self.exchange.has_submitted())
        };
        let turn = self.maintenance.turn;
        self.input = Some(Input::draw(kind, turn, &self.scene, &mut self.exchange, random));
        kind
    }

    fn attempt(&mut self) -> Result<Done> {
        let nothing = || Error::environment("a transaction is tried that was not drawn");
        let input = self.input.as_ref().ok_or_else(nothing)?;
        input.perform(&mut self.desk, &self.statements, &mut self.exchange)
    }

    fn abandon(&mut self) -> Result<()> {
        self.desk.roll_back()
    }
}

/// The first client's second duty.
struct Maintenance {
    is_ours: bool,
    last: Instant,
    turn: usize,
}

impl Maintenance {
    fn is_due(&mut self, settings: &Settings) -> bool {
        let is_due = self.is_ours && settings.maintenance.is_some_and(|every| self.last.elapsed() >= every);
        if is_due {
            self.last = Instant::now();
            self.turn += 1;
        }
        is_due
    }
}

/// Shuffled cards, as many of each kind as the mix says.
struct Deck {
    weights: [u32; 10],
    cards: Vec<usize>,
}

impl Deck {
    /// The next kind. A result of which there is no trade changes places with the next order; where none is
    /// left, more cards are put below.
    fn draw(&mut self, random: &mut Random, has_submitted: bool) -> usize {
        if self.cards.is_empty() {
            self.refill(random);
        }
        if self.cards.last() == Some(&TRADE_RESULT) && !has_submitted {
            let is_order = |card: &usize| *card == TRADE_ORDER;
            if !self.cards.iter().any(is_order) {
                self.refill(random);
            }
            // There is one: a mix with results has as many orders or more.
            if let Some(order) = self.cards.iter().rposition(is_order) {
                let last = self.cards.len() - 1;
                self.cards.swap(order, last);
            }
        }
        // There is a card: the weights sum up to one or more.
        self.cards.pop().unwrap_or(TRADE_ORDER)
    }

    fn refill(&mut self, random: &mut Random) {
        let weights = self.weights;
        let cards = |kind: usize| std::iter::repeat_n(kind, weights[kind] as usize);
        let mut cards: Vec<usize> = (0..weights.len()).flat_map(cards).collect();
        random.shuffle(&mut cards);
        cards.append(&mut self.cards);
        self.cards = cards;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_waits_for_an_order_and_the_mix_stays() {
        let weights = Settings::new(1).mix.weights;
        let mut deck = Deck { weights, cards: Vec::new() };
        let mut random = Random::new(1, 0);
        let (mut submitted, mut counts) = (0, [0_u32; 10]);
        for _ in 0..100_000 {
            let kind = deck.draw(&mut random, submitted > 0);
            counts[kind] += 1;
            match kind {
                TRADE_ORDER => submitted += 1,
                TRADE_RESULT => submitted -= 1,
                _ => {}
            }
            assert!(submitted >= 0 && deck.cards.len() < 3000);
        }
        for (count, weight) in counts.into_iter().zip(weights) {
            assert!(count.abs_diff(weight * 100) <= 200, "{count} of {weight}");
        }
    }
}
