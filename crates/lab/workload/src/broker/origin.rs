//! What a database was loaded with, and all counts that follow. It stands in the database, so that no run has
//! to be told.
//!
//! ```text
//!  ten customers:  1 1 2 2 2 2 2 2 3 3   their tiers; so many turns has each in a round
//!  one round:      ten customers ▸ the next ten ▸ …   twenty trades of each ten
//!  loaded trades:  round 0 ▸ round 1 ▸ …   their ids follow, so an account's trades lie all over the table
//! ```

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::random::{NonUniform, Random, mixed};

/// Customers come in tens, of which so many are of each tier.
pub(super) const TEN: i32 = 10;
/// Trades of ten customers in a round.
const TURNS_PER_TEN: i64 = 20;

/// How much history there is. Anything but [`Size::FULL`] in `market_days` and `watch_items` is for tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Size {
    /// Days of trades, of about 57 a day and customer: how much cold data there is beside the warm.
    pub trade_days: i32,
    /// Days of which a security's prices are kept.
    pub market_days: i32,
    /// What a customer watches.
    pub watch_items: i32,
}

impl Size {
    /// As in what this derives from.
    pub const FULL: Size = Size { trade_days: 300, market_days: 1305, watch_items: 100 };

    /// With less history, so that the same size has more customers.
    #[must_use]
    pub const fn with_trade_days(self, trade_days: i32) -> Size {
        Size { trade_days, ..self }
    }

    /// Tables and indexes of a customer as loaded; of [`Size::FULL`] with any `trade_days`. Measured with
    /// PostgreSQL 15: 1,000 customers with 10 and 20 days gave both terms, 100 customers with 300 days have
    /// 12,608,962 bytes each, as it says; 3,000 with 2 days 3 % less.
    #[must_use]
    pub const fn bytes_per_customer(&self) -> u64 {
        106_900 + 41_673 * self.trade_days as u64
    }

    pub(super) fn check(&self) -> Result<()> {
        let Size { trade_days, market_days, watch_items } = *self;
        let is_possible = (1..=DAYS_MAX).contains(&trade_days)
            && (30..=DAYS_MAX).contains(&market_days)
            && (1..=1000).contains(&watch_items);
        if is_possible {
            return Ok(());
        }
        let bounds = format!("1 to {DAYS_MAX} days of trades, 30 to {DAYS_MAX} of prices, 1 to 1000 watched");
        Err(Error::environment(format!("{self:?}: {bounds}")))
    }
}

/// Arbitrary: more than anybody loads, few enough that no number overflows.
const DAYS_MAX: i32 = 5000;
/// The same: at full size 12.6 TB.
const CUSTOMERS_MAX: i32 = 1_000_000;

/// What was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// How many: a multiple of ten.
    pub customers: i32,
    /// How much history.
    pub size: Size,
    /// Of all that was drawn.
    pub seed: i64,
}

impl Origin {
    pub(super) fn new(customers: i32, size: Size, seed: u64) -> Result<Origin> {
        size.check()?;
        if customers % TEN == 0 && (TEN..=CUSTOMERS_MAX).contains(&customers) {
            return Ok(Origin { customers, size, seed: seed as i64 });
        }
        let bounds = format!("a multiple of {TEN} up to {CUSTOMERS_MAX}");
        Err(Error::environment(format!("{customers} customers: {bounds}")))
    }

    /// Of the database of this session.
    ///
    /// # Errors
    /// When nothing was loaded there.
    pub fn read(session: &mut Session) -> Result<Origin> {
        let rows = session
            .run("SELECT customers, trade_days, market_days, watch_items, seed FROM lab_broker.origin")?;
        let fields: Option<Vec<i64>> =
            rows.iter().flatten().map(|field| field.as_deref().and_then(|text| text.parse().ok())).collect();
        let damaged = || Error::content("lab_broker.origin is not as the load wrote it");
        let [customers, trade_days, market_days, watch_items, seed] =
            <[i64; 5]>::try_from(fields.ok_or_else(damaged)?).map_err(|_| damaged())?;
        let small = |field: i64| i32::try_from(field).map_err(|_| damaged());
        let size = Size {
            trade_days: small(trade_days)?,
            market_days: small(market_days)?,
            watch_items: small(watch_items)?,
        };
        Origin::new(small(customers)?, size, seed as u64)
    }

    pub(super) fn insert_statement(&self) -> String {
        let Size { trade_days, market_days, watch_items } = self.size;
        format!(
            "INSERT INTO lab_broker.origin VALUES ({}, {trade_days}, {market_days}, {watch_items}, {}, {})",
            self.customers,
            self.seed,
            self.trades()
        )
    }

    /// How many brokers there are: one for a hundred customers, never fewer than four.
    #[must_use]
    pub fn brokers(&self) -> i32 {
        (self.customers / 100).max(4)
    }

    /// How many companies there are.
    #[must_use]
    pub fn companies(&self) -> i32 {
        (self.customers / 2).max(20)
    }

    /// How many securities there are.
    #[must_use]
    pub fn securities(&self) -> i32 {
        (self.customers / 1000 * 685 + self.customers % 1000 * 685 / 1000).max(30)
    }

    /// How many trades were loaded; their ids are 1 to this.
    #[must_use]
    pub fn trades(&self) -> i64 {
        self.rounds() * self.turns_per_round()
    }

    /// 57.6 trades a day and customer in the mean, two in a round.
    pub(super) fn rounds(&self) -> i64 {
        i64::from(self.size.trade_days) * 288 / 10
    }

    fn turns_per_round(&self) -> i64 {
        i64::from(self.customers / TEN) * TURNS_PER_TEN
    }

    /// Of all accounts of a customer.
    pub(super) fn broker_of(&self, customer: i32) -> i32 {
        (customer - 1) / TEN % self.brokers() + 1
    }

    /// How many accounts a customer has: five in the mean.
    pub(super) fn accounts_of(&self, customer: i32) -> i32 {
        tier_of(customer) * 2 + (mixed(self.seed as u64 ^ mixed(customer as u64) ^ 1) % 3) as i32
    }

    /// How many of the loaded trades are a customer's.
    pub(super) fn trades_of(&self, customer: i32) -> i64 {
        self.rounds() * turns_of(customer)
    }

    /// The id of a loaded trade, by its place among the customer's, from 0.
    pub(super) fn trade(&self, customer: i32, place: i64) -> i64 {
        let (ten, within) = ((customer - 1) / TEN, i64::from((customer - 1) % TEN));
        let first_turn = match tier_of(customer) {
            1 => within,
            2 => 2 + (within - 2) * 2,
            _ => 14 + (within - 8) * 3,
        };
        let (round, turn) = (place / turns_of(customer), place % turns_of(customer));
        round * self.turns_per_round() + i64::from(ten) * TURNS_PER_TEN + first_turn + turn + 1
    }

    /// Whose a loaded trade is, and its place among the customer's.
    pub(super) fn turn(&self, trade: i64) -> (i32, i64) {
        let (round, rest) = ((trade - 1) / self.turns_per_round(), (trade - 1) % self.turns_per_round());
        let (within, turn) = turn_of(rest % TURNS_PER_TEN);
        let customer = (rest / TURNS_PER_TEN) as i32 * TEN + within + 1;
        (customer, round * turns_of(customer) + turn)
    }
}

/// Who has the n-th turn of ten, and which of his turns it is.
fn turn_of(turn: i64) -> (i32, i64) {
    match turn {
        0..2 => (turn as i32, 0),
        2..14 => (2 + (turn as i32 - 2) / 2, (turn - 2) % 2),
        _ => (8 + (turn as i32 - 14) / 3, (turn - 14) % 3),
    }
}

/// 1 to 3: the higher, the more a customer trades.
pub(super) fn tier_of(customer: i32) -> i32 {
    match (customer - 1) % TEN {
        0..2 => 1,
        2..8 => 2,
        _ => 3,
    }
}

fn turns_of(customer: i32) -> i64 {
    tier_of(customer).into()
}

/// An account's number, by its place among the customer's, from 0.
pub(super) fn account(customer: i32, place: i32) -> i32 {
    customer * TEN + place
}

/// Draws customers with a preference: for the tens as `orders` does for its customers, within ten by tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preference {
    tens: NonUniform,
}

impl Preference {
    pub(super) fn of_run(origin: &Origin, seed: u64) -> Preference {
        let high = origin.customers / TEN - 1;
        // A third to a sixth of the range, as 1023 is of 3000.
        let a = ((high + 1) as u32 / 3 + 1).next_power_of_two() as i32 - 1;
        let c = Random::new(seed, u64::MAX - 1).between(0, a);
        Preference { tens: NonUniform { a, low: 0, high, c } }
    }

    pub(super) fn customer(&self, random: &mut Random) -> i32 {
        let (within, _) = turn_of(random.between_wide(0, TURNS_PER_TEN - 1));
        self.tens.draw(random) * TEN + within + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loaded_trade_has_its_turn() {
        let origin = Origin::new(30, Size { trade_days: 2, ..Size::FULL }, 1).unwrap();
        assert_eq!(origin.trades(), 57 * 60);
        let mut counts = [0_i64; 31];
        for trade in 1..=origin.trades() {
            let (customer, place) = origin.turn(trade);
            assert_eq!(place, counts[customer as usize], "in the order of the ids");
            counts[customer as usize] += 1;
            assert_eq!(origin.trade(customer, place), trade);
        }
        assert!((1..=30).all(|customer| counts[customer as usize] == origin.trades_of(customer)));
    }

    #[test]
    fn who_is_of_a_higher_tier_is_drawn_more_often() {
        let origin = Origin::new(1000, Size::FULL, 1).unwrap();
        let preference = Preference::of_run(&origin, 7);
        let mut random = Random::new(1, 0);
        let mut counts = vec![0_u32; 1001];
        (0..100_000).for_each(|_| counts[preference.customer(&mut random) as usize] += 1);
        let of_tier = |tier| {
            let is_it = |customer: &usize| tier_of(*customer as i32) == tier;
            (1..=1000).filter(is_it).map(|customer| counts[customer]).sum::<u32>()
        };
        assert!((9500..10_500).contains(&of_tier(1)) && (29_000..31_000).contains(&of_tier(3)));
        assert!(counts.iter().max() > Some(&500), "a hundred would be uniform: {:?}", counts.iter().max());
    }

    #[test]
    fn counts_follow_from_the_number_of_customers() {
        let origin = Origin::new(1000, Size::FULL, 1).unwrap();
        let counts = [origin.brokers(), origin.companies(), origin.securities()];
        assert_eq!((counts, origin.trades()), ([10, 500, 685], 17_280_000));
        let accounts: i32 = (1..=1000).map(|customer| origin.accounts_of(customer)).sum();
        assert!((4900..5100).contains(&accounts), "{accounts}");
        assert!((1..=1000).all(|customer| (2..=8).contains(&origin.accounts_of(customer))));
        for customers in [0, 15, CUSTOMERS_MAX + 10] {
            assert!(Origin::new(customers, Size::FULL, 1).is_err());
        }
        assert!(Origin::new(10, Size { market_days: 29, ..Size::FULL }, 1).is_err());
    }
}
