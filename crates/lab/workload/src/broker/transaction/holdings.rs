//! What a trade does to the holdings of an account in a security, without a server.
//!
//! A sale takes from what was bought, a purchase from what was sold without having it; what is left of the
//! trade is a holding of its own.

/// What is held, by the trade that began it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) trade: i64,
    /// Below zero: sold without having it.
    pub(super) quantity: i32,
    pub(super) cents: i64,
}

/// What a trade changes, as the statements take it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Changes {
    /// By holding: its trade, how much it was, how much it is.
    pub(super) holdings: Vec<i64>,
    pub(super) before: Vec<i32>,
    pub(super) after: Vec<i32>,
    /// Holdings that are gone.
    pub(super) ended: Vec<i64>,
    /// A holding that is smaller now.
    pub(super) reduced: Option<(i64, i32)>,
    /// What is left of the trade is a holding of its own.
    pub(super) begun: Option<i32>,
    /// What was gained by closing holdings, in hundredths.
    pub(super) gain: i64,
}

impl Changes {
    /// Of a trade of so much (below zero: a sale) at a price; `held` in the order in which it is taken.
    pub(super) fn of(trade: i64, quantity: i32, cents: i64, held: &[Held]) -> Changes {
        let mut changes = Changes::default();
        let mut left = quantity;
        for held in held.iter().filter(|held| held.quantity.signum() == -quantity.signum()) {
            if left == 0 {
                break;
            }
            let closed = held.quantity.abs().min(left.abs()) * held.quantity.signum();
            let after = held.quantity - closed;
            left += closed;
            changes.gain += (cents - held.cents) * i64::from(closed);
            changes.push(held.trade, held.quantity, after);
            if after == 0 {
                changes.ended.push(held.trade);
            } else {
                changes.reduced = Some((held.trade, after));
            }
        }
        if left != 0 {
            changes.push(trade, 0, left);
            changes.begun = Some(left);
        }
        changes
    }

    fn push(&mut self, holding: i64, before: i32, after: i32) {
        self.holdings.push(holding);
        self.before.push(before);
        self.after.push(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(trade: i64, quantity: i32) -> Held {
        Held { trade, quantity, cents: 1000 }
    }

    #[test]
    fn a_sale_takes_what_was_bought_in_turn() {
        let changes = Changes::of(9, -500, 1100, &[held(1, 200), held(2, 400), held(3, 100)]);
        assert_eq!(
            (changes.holdings, changes.before, changes.after),
            (vec![1, 2], vec![200, 400], vec![0, 100])
        );
        assert_eq!((changes.ended, changes.reduced, changes.begun), (vec![1], Some((2, 100)), None));
        assert_eq!(changes.gain, 50_000);
    }

    #[test]
    fn what_nobody_has_is_owed_until_it_is_bought() {
        let changes = Changes::of(9, -300, 1100, &[held(1, 200)]);
        assert_eq!((changes.ended, changes.begun), (vec![1], Some(-100)));
        let changes = Changes::of(10, 400, 900, &[held(9, -100)]);
        assert_eq!((changes.ended, changes.begun, changes.gain), (vec![9], Some(300), 10_000));
        let changes = Changes::of(11, 400, 900, &[held(10, 300)]);
        assert_eq!((changes.holdings, changes.before, changes.after), (vec![11], vec![0], vec![400]));
    }
}
