//! Rows of customers and what they have, and of brokers.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::broker::calendar::date;
use crate::broker::names::{broker, person, tax_number};
use crate::broker::origin::{Origin, TEN, account, tier_of};
use crate::broker::past::{Past, Stream, is_taxed, stream};
use crate::broker::prices::taxes_of;
use crate::fields::{Line, Pieces, rows_of};

use super::fixed::PLACES;
use super::flag;

/// By their numbers.
pub(in crate::broker) type Customers = RangeInclusive<i32>;

pub(in crate::broker) fn customers(origin: &Origin, customers: Customers) -> Pieces {
    let origin = *origin;
    rows_of(customers, move |customer, piece| {
        let mut random = stream(&origin, Stream::Customer, customer.into());
        let (first, last) = person("customer", customer.into());
        let mut line = Line::begin(piece);
        line.integer(customer).text(tax_number(customer)).integer(tier_of(customer)).text(&last).text(first);
        line.text(date(-random.between(7000, 30_000)));
        random.digits(16, line.field());
        line.text(format!("{first}.{last}@mail.example").to_lowercase());
        line.text(format!("{customer}.{last}@post.example").to_lowercase());
        line.text(format!("{last} Street {}", random.between(1, 400)))
            .integer(random.between(1, PLACES))
            .end();
    })
}

pub(in crate::broker) fn customer_taxes(origin: &Origin, customers: Customers) -> Pieces {
    let origin = *origin;
    let all = customers.flat_map(move |customer| {
        (1..).zip(taxes_of(&origin, customer)).map(move |(place, tax)| (customer, place, tax))
    });
    rows_of(all, |(customer, place, tax), piece| {
        Line::begin(piece).integer(customer).integer(tax).integer(place).end();
    })
}

/// With the balances that the loaded trades led to.
pub(in crate::broker) fn accounts(origin: &Origin, customers: Customers) -> Pieces {
    let origin = *origin;
    rows_of(customers, move |customer, piece| {
        let mut random = stream(&origin, Stream::Account, customer.into());
        let mut moved = [0_i64; TEN as usize];
        for past in Past::all_of(&origin, customer).filter(|past| past.is_cash) {
            moved[(past.account % TEN) as usize] += past.amount();
        }
        for (place, moved) in (0..origin.accounts_of(customer)).zip(moved) {
            let account = account(customer, place);
            let start = random.between_wide(100_000, 100_000_000);
            let mut line = Line::begin(piece);
            line.integer(account).integer(customer).integer(origin.broker_of(customer));
            line.text(flag(is_taxed(account))).text(format!("account {} of {customer}", place + 1));
            line.cents(start).cents(start + moved).end();
        }
    })
}

/// Of others than the owner: one account in two has one.
pub(in crate::broker) fn permissions(origin: &Origin, customers: Customers) -> Pieces {
    let origin = *origin;
    let accounts = customers.flat_map(move |customer| {
        (0..origin.accounts_of(customer)).map(move |place| account(customer, place)).filter(has_permitted)
    });
    rows_of(accounts, move |account, piece| {
        let other = permitted(&origin, account);
        let (first, last) = person("customer", other.into());
        let level = if account % 4 == 0 { "0001" } else { "0011" };
        Line::begin(piece).integer(account).text(tax_number(other)).text(level).text(last).text(first).end();
    })
}

/// Somebody else than the owner may trade for this account.
pub(in crate::broker) fn has_permitted(account: &i32) -> bool {
    account % 2 == 0
}

/// Who may trade for an account beside its owner.
pub(in crate::broker) fn permitted(origin: &Origin, account: i32) -> i32 {
    (account / TEN + account % TEN) % origin.customers + 1
}

/// With the sums of the loaded trades of their customers.
pub(in crate::broker) fn brokers(origin: &Origin, number: i32) -> Pieces {
    let origin = *origin;
    rows_of(std::iter::once(number), move |number, piece| {
        let (mut trades, mut commission) = (0, 0);
        for customer in (1..=origin.customers).filter(|customer| origin.broker_of(*customer) == number) {
            trades += origin.trades_of(customer);
            commission += Past::all_of(&origin, customer).map(|past| past.commission).sum::<i64>();
        }
        Line::begin(piece).integer(number).text(broker(number)).integer(trades).cents(commission).end();
    })
}

pub(in crate::broker) fn watch_items(origin: &Origin, customers: Customers) -> Pieces {
    let origin = *origin;
    // Of few securities nobody watches more than half.
    let count = origin.size.watch_items.min(origin.securities() / 2) as usize;
    let all = customers.flat_map(move |customer| {
        let mut random = stream(&origin, Stream::Watch, customer.into());
        let mut watched = BTreeSet::new();
        while watched.len() < count {
            watched.insert(random.between(1, origin.securities()));
        }
        watched.into_iter().map(move |security| (customer, security))
    });
    rows_of(all, |(customer, security), piece| {
        Line::begin(piece).integer(customer).integer(security).end();
    })
}
