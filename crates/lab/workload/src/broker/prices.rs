//! Prices and rates: rules of our own, each a function of the seed and of what it is asked for.
//!
//! ```text
//!  price ▲      .-'-.            a sum of noises with periods of 256, 64, 16, 4 and 1 days, so that any
//!        │ -.,-'     '-.,.--     day's price is known without the days before it
//!        └──────────────────▶ day
//! ```

use crate::random::mixed;

use super::origin::Origin;

/// What a trade is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TradeKind {
    MarketBuy = 1,
    MarketSell,
    LimitBuy,
    LimitSell,
    StopLoss,
}

impl TradeKind {
    pub(super) const ALL: [TradeKind; 5] = [
        TradeKind::MarketBuy,
        TradeKind::MarketSell,
        TradeKind::LimitBuy,
        TradeKind::LimitSell,
        TradeKind::StopLoss,
    ];

    pub(super) fn is_sell(self) -> bool {
        matches!(self, TradeKind::MarketSell | TradeKind::LimitSell | TradeKind::StopLoss)
    }

    /// It waits until the price is right.
    pub(super) fn is_limit(self) -> bool {
        matches!(self, TradeKind::LimitBuy | TradeKind::LimitSell | TradeKind::StopLoss)
    }

    /// In hundredths.
    pub(super) fn charge_cents(self, tier: i32) -> i64 {
        100 + 75 * self as i64 - 25 * i64::from(tier)
    }

    /// In ten-thousandths of what is paid.
    pub(super) fn commission_parts(self, tier: i32) -> i64 {
        40 + 5 * self as i64 - 8 * i64::from(tier)
    }
}

/// The taxes that there are: the first half of countries, the second of towns.
pub(super) const TAXES: i32 = 320;

/// In ten-thousandths of a gain.
pub(super) fn tax_parts(tax: i32) -> i64 {
    (mixed(tax as u64) % 1500) as i64 + if tax <= TAXES / 2 { 500 } else { 100 }
}

/// The two taxes that a customer pays.
pub(super) fn taxes_of(origin: &Origin, customer: i32) -> [i32; 2] {
    let bits = mixed(origin.seed as u64 ^ mixed(customer as u64));
    let half = TAXES as u64 / 2;
    [(bits % half) as i32 + 1, ((bits >> 32) % half + half) as i32 + 1]
}

/// A share of a sum, in hundredths; parts are ten-thousandths.
pub(super) fn share_cents(cents: i64, parts: i64) -> i64 {
    cents * parts / 10_000
}

/// Periods in days, and how far the price moves in them, in ten-thousandths.
const NOISES: [(i32, i64); 5] = [(256, 3000), (64, 1500), (16, 800), (4, 400), (1, 150)];
/// Above zero for all days that there are.
const DAYS_BEFORE: i32 = 1 << 16;

/// The price of a security at the end of a day, in hundredths: from 4 to 160.
pub(super) fn close_cents(origin: &Origin, security: i32, day: i32) -> i64 {
    let own = mixed(origin.seed as u64 ^ mixed(security as u64));
    let first = (own % 9000) as i64 + 1000;
    let day = day + DAYS_BEFORE;
    let noise = |(period, height): (i32, i64)| {
        let at = |step: i32| (mixed(own ^ ((period as u64) << 32 | step as u64)) % 2001) as i64 - 1000;
        let (step, rest) = (day / period, i64::from(day % period));
        let (left, right) = (at(step), at(step + 1));
        (left + (right - left) * rest / i64::from(period)) * height / 1000
    };
    first + share_cents(first, NOISES.into_iter().map(noise).sum())
}

/// The price of a loaded trade: near the close of its day.
pub(super) fn traded_cents(origin: &Origin, security: i32, day: i32, trade: i64) -> i64 {
    let close = close_cents(origin, security, day);
    close + share_cents(close, (mixed(trade as u64) % 101) as i64 - 50)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::origin::Size;

    #[test]
    fn prices_move_a_little_from_day_to_day_and_stay_in_bounds() {
        let origin = Origin::new(10, Size::FULL, 3).unwrap();
        for security in 1..200 {
            let prices: Vec<i64> = (-1000..300).map(|day| close_cents(&origin, security, day)).collect();
            assert!(prices.iter().all(|price| (400..=16_000).contains(price)), "{security}");
            let moved = |pair: &[i64]| (pair[1] - pair[0]).abs() * 100 > 8 * pair[0];
            assert!(prices.windows(2).filter(|pair| moved(pair)).count() < 40, "{security}");
            assert!(prices.iter().max() > prices.iter().min());
        }
        for tier in 1..=3 {
            for kind in TradeKind::ALL {
                assert!(kind.charge_cents(tier) > 0 && kind.commission_parts(tier) > 0);
            }
        }
    }
}
