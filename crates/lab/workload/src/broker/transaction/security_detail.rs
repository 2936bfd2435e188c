//! Security-Detail: all about a security: its company and whom it competes with, its prices, its figures, and
//! what the news say, in half of all cases with their text.

use ashlar_postgres::Statement;

use crate::broker::calendar::FIRST_DAY;
use crate::broker::desk::{Desk, Level};
use crate::broker::names::symbol;
use crate::broker::rows::market::first_market_day;
use crate::broker::trader::Scene;
use crate::error::{Error, Result};
use crate::fields::{integer, only};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

use super::any_security;

/// Days of prices that are asked for.
const DAYS: i32 = 20;

/// Which one, since when.
pub(in crate::broker) struct Input {
    symbol: String,
    day: i32,
    with_texts: bool,
}

pub(super) struct Statements<S = Statement> {
    security: S,
    competitors: S,
    financials: S,
    prices: S,
    last: S,
    news: S,
    headlines: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            security: session.prepare(
                "SELECT s.id, c.id, s.name, s.shares, s.since, s.high, s.low, s.dividend, c.name, c.rating,
                    c.head, c.street, c.founded, c.about, p.code, p.town, e.name, e.opens, e.closes
                 FROM lab_broker.security s JOIN lab_broker.company c ON c.id = s.company
                 JOIN lab_broker.place p ON p.id = c.place JOIN lab_broker.exchange e ON e.id = s.exchange
                 WHERE s.symbol = $1",
            )?,
            competitors: session.prepare(
                "SELECT c.name, i.name FROM lab_broker.competitor o
                 JOIN lab_broker.company c ON c.id = o.competitor
                 JOIN lab_broker.industry i ON i.id = o.industry WHERE o.company = $1",
            )?,
            financials: session.prepare(
                "SELECT quarter, revenue, earned, per_share, assets, debts, shares FROM lab_broker.financial
                 WHERE company = $1 ORDER BY quarter LIMIT 20",
            )?,
            prices: session.prepare(&format!(
                "SELECT day, close, high, low, volume FROM lab_broker.daily_market
                 WHERE security = $1 AND day >= DATE '{FIRST_DAY}' + $2::int ORDER BY day LIMIT {DAYS}"
            ))?,
            last: session
                .prepare("SELECT price, opened, volume FROM lab_broker.last_trade WHERE security = $1")?,
            news: session.prepare(
                "SELECT at, author, headline, body FROM lab_broker.news WHERE company = $1
                 ORDER BY at LIMIT 2",
            )?,
            headlines: session.prepare(
                "SELECT at, author, headline FROM lab_broker.news WHERE company = $1 ORDER BY at LIMIT 2",
            )?,
        })
    }
}

impl Input {
    pub(super) fn draw(scene: &Scene, random: &mut Random) -> Input {
        let origin = &scene.origin;
        Input {
            symbol: symbol(any_security(origin, random)),
            day: random.between(first_market_day(origin), origin.size.trade_days - DAYS),
            with_texts: random.is_percent(50.0),
        }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin(Level::ReadCommitted)?;
        let rows = desk.query(&statements.security, &[&self.symbol])?;
        let row = only(&rows, "a security by its symbol")?;
        let (security, company) = (integer(row, 0)?, integer(row, 1)?);
        desk.query(&statements.competitors, &[&company])?;
        desk.query(&statements.financials, &[&company])?;
        let prices = desk.query(&statements.prices, &[&security, &self.day])?;
        if prices.len() as i32 != DAYS {
            let found = format!("{} days of prices, not {DAYS}", prices.len());
            return Err(Error::content(format!("security {security} from day {}: {found}", self.day)));
        }
        let last = desk.query(&statements.last, &[&security])?;
        only(&last, "the last trade of a security")?;
        let news = if self.with_texts { &statements.news } else { &statements.headlines };
        desk.query(news, &[&company])?;
        desk.commit()
    }
}
