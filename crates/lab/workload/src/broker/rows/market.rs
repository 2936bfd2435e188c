//! Rows of companies, their securities and what is known of both.

use std::ops::RangeInclusive;

use crate::broker::calendar::{TRADING_SECONDS, date, moment};
use crate::broker::names::{EXCHANGES, company, person, symbol, words};
use crate::broker::origin::Origin;
use crate::broker::past::{Stream, stream};
use crate::broker::prices::{close_cents, share_cents};
use crate::fields::{Line, Pieces, rows_of};

use super::fixed::{PLACES, industries_count};

/// Quarters of which a company's figures are known.
const QUARTERS: i32 = 20;
/// News of a company.
const NEWS: i32 = 2;
/// Their text. Arbitrary: a page or two; PostgreSQL keeps it beside the table, compressed.
const BODY_BYTES: (i32, i32) = (2000, 20_000);
const COMPETITORS: i32 = 3;

/// By their numbers.
pub(in crate::broker) type Numbers = RangeInclusive<i32>;

fn industry_of(company: i32) -> i32 {
    (company - 1) % industries_count() + 1
}

/// Whose a security is: every company has one, the first ones have more.
fn company_of(origin: &Origin, security: i32) -> i32 {
    (security - 1) % origin.companies() + 1
}

pub(in crate::broker) fn companies(origin: &Origin) -> Pieces {
    let mut random = stream(origin, Stream::Company, 0);
    rows_of(1..=origin.companies(), move |number, piece| {
        const RATINGS: [&str; 6] = ["A1", "A2", "B1", "B2", "C1", "C2"];
        let (first, last) = person("head", number.into());
        let mut line = Line::begin(piece);
        line.integer(number).text(company(number)).integer(industry_of(number));
        line.text(RATINGS[random.between(0, 5) as usize]).text(format!("{first} {last}"));
        line.text(format!("{last} Square {}", random.between(1, 99))).integer(random.between(1, PLACES));
        line.text(date(-random.between(2000, 40_000)));
        words(&mut random, 100, line.field());
        line.end();
    })
}

pub(in crate::broker) fn competitors(origin: &Origin) -> Pieces {
    let count = origin.companies();
    let all = (1..=count).flat_map(|company| (1..=COMPETITORS).map(move |step| (company, step)));
    rows_of(all, move |(company, step), piece| {
        let competitor = (company - 1 + step * 5) % count + 1;
        Line::begin(piece).integer(company).integer(competitor).integer(industry_of(competitor)).end();
    })
}

pub(in crate::broker) fn financials(origin: &Origin) -> Pieces {
    let mut random = stream(origin, Stream::Company, 1);
    let all = (1..=origin.companies()).flat_map(|company| (1..=QUARTERS).map(move |back| (company, back)));
    rows_of(all, move |(company, back), piece| {
        let revenue = random.between_wide(100_000_000, 10_000_000_000);
        let earned = share_cents(revenue, random.between_wide(100, 2500));
        let shares = random.between_wide(1_000_000, 100_000_000);
        let mut line = Line::begin(piece);
        line.integer(company).text(date(-91 * back)).cents(revenue).cents(earned).cents(earned / shares);
        line.cents(revenue * 3).cents(revenue).integer(shares).end();
    })
}

pub(in crate::broker) fn news(origin: &Origin, companies: Numbers) -> Pieces {
    let origin = *origin;
    let all = companies.flat_map(|company| (0..NEWS).map(move |place| (company, place)));
    rows_of(all, move |(company, place), piece| {
        let number = company * NEWS + place;
        let mut random = stream(&origin, Stream::News, number.into());
        let (first, last) = person("author", number.into());
        let at = random.between_wide(0, i64::from(origin.size.trade_days) * TRADING_SECONDS - 1);
        let mut line = Line::begin(piece);
        line.integer(number).integer(company).text(moment(at * 1000)).text(format!("{first} {last}"));
        words(&mut random, 30, line.field());
        let (min, max) = BODY_BYTES;
        let bytes = random.between(min, max) as usize;
        words(&mut random, bytes, line.field());
        line.end();
    })
}

pub(in crate::broker) fn securities(origin: &Origin) -> Pieces {
    let origin = *origin;
    let mut random = stream(&origin, Stream::Security, 0);
    rows_of(1..=origin.securities(), move |security, piece| {
        let owner = company_of(&origin, security);
        let series = char::from(b'A' + ((security - 1) / origin.companies()) as u8);
        let price = close_cents(&origin, security, 0);
        let mut line = Line::begin(piece);
        line.integer(security).text(symbol(security)).text(format!("{} series {series}", company(owner)));
        line.integer(owner)
            .integer(exchange_of(security))
            .integer(random.between_wide(1_000_000, 100_000_000));
        line.text(date(-random.between(500, 20_000))).cents(price * 3 / 2).cents(price / 2);
        line.cents(random.between_wide(0, 500)).end();
    })
}

fn exchange_of(security: i32) -> i32 {
    security % EXCHANGES.len() as i32 + 1
}

/// Nothing was traded yet today.
pub(in crate::broker) fn last_trades(origin: &Origin) -> Pieces {
    let origin = *origin;
    let last_day = origin.size.trade_days - 1;
    let end = moment(i64::from(origin.size.trade_days) * TRADING_SECONDS * 1000 - 1);
    rows_of(1..=origin.securities(), move |security, piece| {
        let price = close_cents(&origin, security, last_day);
        Line::begin(piece).integer(security).text(&end).cents(price).cents(price).integer(0).end();
    })
}

/// The first day of which prices are kept.
pub(in crate::broker) fn first_market_day(origin: &Origin) -> i32 {
    origin.size.trade_days - origin.size.market_days
}

/// In the order of the days, as they came about.
pub(in crate::broker) fn daily_market(origin: &Origin, days: Numbers) -> Pieces {
    let origin = *origin;
    let all = days.flat_map(move |day| (1..=origin.securities()).map(move |security| (day, security)));
    rows_of(all, move |(day, security), piece| {
        let mut random =
            stream(&origin, Stream::Market, i64::from(day + (1 << 16)) << 32 | i64::from(security));
        let close = close_cents(&origin, security, day);
        let mut line = Line::begin(piece);
        line.text(date(day)).integer(security).cents(close);
        line.cents(close + share_cents(close, random.between_wide(0, 200)));
        line.cents(close - share_cents(close, random.between_wide(0, 200)));
        line.integer(random.between(1000, 10_000_000)).end();
    })
}
