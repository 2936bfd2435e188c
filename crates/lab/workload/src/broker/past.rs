//! The loaded trades: each is a function of the seed and its id, so that all tables can be made side by side.
//!
//! ```text
//!  a customer's trades, in threes:   buy a ▸ buy b ▸ sell what was bought `open` threes before
//!                                    └ one account, one security ┘   (the first ones: buy, and keep)
//! ```
//! So four holdings change with three trades, and `open` threes are still held at the end.

use crate::random::Random;

use super::calendar::day_of;
use super::origin::{Origin, account, tier_of};
use super::prices::{TradeKind, share_cents, tax_parts, taxes_of, traded_cents};

/// So many threes are held at the end, and as many purchases from the beginning: about fifty securities.
const OPEN_MAX: i64 = 25;
/// So many trades of a hundred are not paid at once.
pub(super) const MARGIN_PERCENT: f64 = 8.0;
/// So many trades of a hundred are orders with a limit.
pub(super) const LIMIT_PERCENT: f64 = 40.0;

/// A stream of random numbers of its own for each thing that is drawn.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Three = 1,
    Trade,
    Fixed,
    Customer,
    Account,
    Watch,
    Company,
    Security,
    Market,
    News,
}

pub(super) fn stream(origin: &Origin, stream: Stream, number: i64) -> Random {
    Random::new(origin.seed as u64, (stream as u64) << 56 | number as u64)
}

/// How a trade changed a holding, which is known by the trade that began it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Change {
    pub(super) holding: i64,
    pub(super) before: i32,
    pub(super) after: i32,
}

/// A trade that was completed before the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub(super) id: i64,
    pub(super) account: i32,
    pub(super) security: i32,
    pub(super) kind: TradeKind,
    pub(super) quantity: i32,
    pub(super) is_cash: bool,
    pub(super) price: i64,
    pub(super) charge: i64,
    pub(super) commission: i64,
    pub(super) tax: i64,
    changes: [Change; 2],
}

/// What is bought in a three, and kept from it.
struct Three {
    account: i32,
    security: i32,
    quantities: [i32; 2],
    kept: (i32, i32, i32),
}

impl Three {
    fn of(origin: &Origin, customer: i32, three: i64) -> Three {
        let mut random = stream(origin, Stream::Three, i64::from(customer) << 24 | three);
        let accounts = origin.accounts_of(customer);
        let mut place = || {
            let place = random.between(0, accounts - 1);
            (account(customer, place), random.between(1, origin.securities()), quantity(&mut random))
        };
        let (bought, kept) = (place(), place());
        let quantities = [bought.2, quantity(&mut random)];
        Three { account: bought.0, security: bought.1, quantities, kept }
    }
}

/// As large as most orders are.
pub(super) fn quantity(random: &mut Random) -> i32 {
    100 << random.between(0, 3)
}

/// Whether gains of an account are taxed when it sells: of two in three.
pub(super) fn is_taxed(account: i32) -> bool {
    account % 3 != 0
}

/// Threes of a customer that are open at the same time.
fn open(origin: &Origin, customer: i32) -> i64 {
    (origin.trades_of(customer) / 6).min(OPEN_MAX)
}

impl Past {
    pub(super) fn of(origin: &Origin, id: i64) -> Past {
        let (customer, place) = origin.turn(id);
        Past::at(origin, id, customer, place)
    }

    /// All of a customer's, in their order.
    pub(super) fn all_of(origin: &Origin, customer: i32) -> impl Iterator<Item = Past> {
        let at = move |place| Past::at(origin, origin.trade(customer, place), customer, place);
        (0..origin.trades_of(customer)).map(at)
    }

    fn at(origin: &Origin, id: i64, customer: i32, place: i64) -> Past {
        let (three, phase) = (place / 3, place % 3);
        let open = open(origin, customer);
        let mut own = stream(origin, Stream::Trade, id);
        let is_sell = phase == 2 && three >= open;
        let facts = Three::of(origin, customer, if is_sell { three - open } else { three });
        let bought = |quantity| [Change { holding: id, before: 0, after: quantity }, Change::default()];
        let (account, security, changes) = match phase {
            0 | 1 => (facts.account, facts.security, bought(facts.quantities[phase as usize])),
            _ if is_sell => {
                let sold = [0, 1].map(|at| Change {
                    holding: origin.trade(customer, (three - open) * 3 + at),
                    before: facts.quantities[at as usize],
                    after: 0,
                });
                (facts.account, facts.security, sold)
            }
            _ => (facts.kept.0, facts.kept.1, bought(facts.kept.2)),
        };
        let quantity = changes.iter().map(|change| (change.after - change.before).abs()).sum();
        let kind = kind(&mut own, is_sell);
        let price = traded_cents(origin, security, day_of(origin, id), id);
        let value = price * i64::from(quantity);
        let mut past = Past {
            id,
            account,
            security,
            kind,
            quantity,
            is_cash: !own.is_percent(MARGIN_PERCENT),
            price,
            charge: kind.charge_cents(tier_of(customer)),
            commission: share_cents(value, kind.commission_parts(tier_of(customer))),
            tax: 0,
            changes,
        };
        past.tax = past.tax_of(origin, customer);
        past
    }

    fn tax_of(&self, origin: &Origin, customer: i32) -> i64 {
        if !self.kind.is_sell() || !is_taxed(self.account) {
            return 0;
        }
        let gain = |change: &Change| {
            let paid = traded_cents(origin, self.security, day_of(origin, change.holding), change.holding);
            (self.price - paid) * i64::from(change.before - change.after)
        };
        let gains: i64 = self.changes().iter().map(gain).sum();
        share_cents(gains.max(0), taxes_of(origin, customer).into_iter().map(tax_parts).sum())
    }

    /// One holding that began, or two that ended.
    pub(super) fn changes(&self) -> &[Change] {
        if self.kind.is_sell() { &self.changes } else { &self.changes[..1] }
    }

    /// What it did to the account, in hundredths.
    pub(super) fn amount(&self) -> i64 {
        let value = self.price * i64::from(self.quantity);
        let sign = if self.kind.is_sell() { 1 } else { -1 };
        sign * value - self.charge - self.commission - self.tax
    }
}

fn kind(random: &mut Random, is_sell: bool) -> TradeKind {
    let is_limit = random.is_percent(LIMIT_PERCENT);
    match (is_sell, is_limit) {
        (false, false) => TradeKind::MarketBuy,
        (false, true) => TradeKind::LimitBuy,
        (true, false) => TradeKind::MarketSell,
        (true, true) if random.is_percent(50.0) => TradeKind::LimitSell,
        (true, true) => TradeKind::StopLoss,
    }
}

/// The purchases of a customer that were not sold again.
pub(super) fn held(origin: &Origin, customer: i32) -> Vec<Past> {
    let (count, open) = (origin.trades_of(customer), open(origin, customer));
    let is_held = |place: &i64| match place % 3 {
        2 => place / 3 < open,
        _ => (place / 3 + open) * 3 + 2 >= count,
    };
    let places = (0..count).filter(is_held);
    places.map(|place| Past::at(origin, origin.trade(customer, place), customer, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::origin::Size;
    use std::collections::BTreeMap;

    #[test]
    fn what_was_bought_and_not_sold_is_held() {
        let origin = Origin::new(20, Size { trade_days: 5, ..Size::FULL }, 9).unwrap();
        let mut rows = 0;
        for customer in 1..=20 {
            let mut open: BTreeMap<i64, (i32, i32, i32)> = BTreeMap::new();
            for past in Past::all_of(&origin, customer) {
                assert!(past.price > 0 && past.tax >= 0 && past.account / 10 == customer);
                for change in past.changes() {
                    rows += 1;
                    let before = open.get(&change.holding).map_or(0, |holding| holding.2);
                    assert_eq!(before, change.before, "{past:?}");
                    open.insert(change.holding, (past.account, past.security, change.after));
                }
                assert!(past.changes().iter().all(|change| open[&change.holding].0 == past.account));
            }
            open.retain(|_, holding| holding.2 > 0);
            let held: BTreeMap<_, _> = held(&origin, customer)
                .iter()
                .map(|past| (past.id, (past.account, past.security, past.quantity)))
                .collect();
            assert_eq!(open, held);
        }
        let ratio = f64::from(rows) / origin.trades() as f64;
        assert!((1.2..1.4).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_customer_holds_about_fifty_securities() {
        let origin = Origin::new(10, Size::FULL, 9).unwrap();
        assert!(held(&origin, 5).len() > 70 && held(&origin, 5).len() < 80);
        let past = Past::all_of(&origin, 5);
        let limits = past.filter(|past| past.kind.is_limit()).count() as f64;
        assert!((0.38..0.42).contains(&(limits / origin.trades_of(5) as f64)));
    }
}
