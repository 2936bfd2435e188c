//! The ten transactions and the maintenance: what each draws, its statements, and what it does with them.

mod broker_volume;
mod customer_position;
mod data_maintenance;
mod holdings;
mod market_feed;
mod market_watch;
mod old_trades;
mod security_detail;
mod trade_lookup;
mod trade_order;
mod trade_result;
mod trade_status;
mod trade_update;

use ashlar_postgres::Statement;

use crate::error::Result;
use crate::prepare::{List, Listed, Prepare};
use crate::random::Random;
use crate::workload::Done;

use super::calendar::{TRADING_SECONDS, since_midnight};
use super::desk::Desk;
use super::exchange::Exchange;
use super::origin::{Origin, account};
use super::trader::Scene;

/// What a transaction was drawn to do.
pub(super) enum Input {
    TradeStatus(trade_status::Input),
    MarketWatch(market_watch::Input),
    SecurityDetail(security_detail::Input),
    CustomerPosition(customer_position::Input),
    TradeOrder(trade_order::Input),
    TradeResult(trade_result::Input),
    TradeLookup(trade_lookup::Input),
    BrokerVolume(broker_volume::Input),
    TradeUpdate(trade_update::Input),
    MarketFeed(market_feed::Input),
    DataMaintenance(data_maintenance::Input),
}

/// Prepared, for one session.
pub(super) struct Statements<S = Statement> {
    trade_status: trade_status::Statements<S>,
    market_watch: market_watch::Statements<S>,
    security_detail: security_detail::Statements<S>,
    customer_position: customer_position::Statements<S>,
    trade_order: trade_order::Statements<S>,
    trade_result: trade_result::Statements<S>,
    old_trades: old_trades::Statements<S>,
    broker_volume: broker_volume::Statements<S>,
    trade_update: trade_update::Statements<S>,
    market_feed: market_feed::Statements<S>,
    data_maintenance: data_maintenance::Statements<S>,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            trade_status: trade_status::Statements::prepare(session.of("trade_status"))?,
            market_watch: market_watch::Statements::prepare(session.of("market_watch"))?,
            security_detail: security_detail::Statements::prepare(session.of("security_detail"))?,
            customer_position: customer_position::Statements::prepare(session.of("customer_position"))?,
            trade_order: trade_order::Statements::prepare(session.of("trade_order"))?,
            trade_result: trade_result::Statements::prepare(session.of("trade_result"))?,
            old_trades: old_trades::Statements::prepare(session.of("trade_lookup"))?,
            broker_volume: broker_volume::Statements::prepare(session.of("broker_volume"))?,
            trade_update: trade_update::Statements::prepare(session.of("trade_update"))?,
            market_feed: market_feed::Statements::prepare(session.of("market_feed"))?,
            data_maintenance: data_maintenance::Statements::prepare(session.of("data_maintenance"))?,
        })
    }
}

/// What the kinds of transactions ask of a server.
pub(super) fn listed() -> Vec<Listed> {
    let mut list = List::default();
    Statements::prepare(&mut list).expect("a list refuses nothing");
    list.0
}

impl Input {
    /// Draws all of it, so that it can be tried again as it is. `kind` is a place in [`super::KINDS`], `turn`
    /// which maintenance it would be.
    pub(super) fn draw(
        kind: usize,
        turn: usize,
        scene: &Scene,
        exchange: &mut Exchange,
        random: &mut Random,
    ) -> Input {
        match kind {
            0 => Input::TradeStatus(trade_status::Input::draw(scene, random)),
            1 => Input::MarketWatch(market_watch::Input::draw(scene, random)),
            2 => Input::SecurityDetail(security_detail::Input::draw(scene, random)),
            3 => Input::CustomerPosition(customer_position::Input::draw(scene, random)),
            4 => Input::TradeOrder(trade_order::Input::draw(scene, random)),
            5 => Input::TradeResult(trade_result::Input::draw(exchange)),
            6 => Input::TradeLookup(trade_lookup::Input::draw(scene, random)),
            7 => Input::BrokerVolume(broker_volume::Input::draw(scene, random)),
            8 => Input::TradeUpdate(trade_update::Input::draw(scene, random)),
            9 => Input::MarketFeed(market_feed::Input::draw(scene, exchange, random)),
            10 => Input::DataMaintenance(data_maintenance::Input::draw(turn, scene, random)),
            _ => unreachable!("there are eleven kinds, not {kind}"),
        }
    }

    pub(super) fn perform(
        &self,
        desk: &mut Desk,
        statements: &Statements,
        exchange: &mut Exchange,
    ) -> Result<Done> {
        match self {
            Input::TradeStatus(input) => input.perform(desk, &statements.trade_status),
            Input::MarketWatch(input) => input.perform(desk, &statements.market_watch),
            Input::SecurityDetail(input) => input.perform(desk, &statements.security_detail),
            Input::CustomerPosition(input) => input.perform(desk, &statements.customer_position),
            Input::TradeOrder(input) => input.perform(desk, &statements.trade_order, exchange),
            Input::TradeResult(input) => input.perform(desk, &statements.trade_result),
            Input::TradeLookup(input) => input.perform(desk, &statements.old_trades),
            Input::BrokerVolume(input) => input.perform(desk, &statements.broker_volume),
            Input::TradeUpdate(input) => {
                input.perform(desk, &statements.trade_update, &statements.old_trades)
            }
            Input::MarketFeed(input) => input.perform(desk, &statements.market_feed, exchange),
            Input::DataMaintenance(input) => input.perform(desk, &statements.data_maintenance),
        }
    }
}

/// An account of a customer who is drawn with preference.
fn any_account(scene: &Scene, random: &mut Random) -> i32 {
    let customer = scene.preference.customer(random);
    account(customer, random.between(0, scene.origin.accounts_of(customer) - 1))
}

/// All are alike.
fn any_security(origin: &Origin, random: &mut Random) -> i32 {
    random.between(1, origin.securities())
}

/// A moment of the loaded past, in seconds since its first midnight.
fn any_moment(origin: &Origin, random: &mut Random) -> i32 {
    since_midnight(random.between_wide(0, i64::from(origin.size.trade_days) * TRADING_SECONDS - 1))
}

/// One of several ways, each with its weight of a hundred in all; answers its place.
fn any_way(weights: &[i32], random: &mut Random) -> usize {
    let mut left = random.between(0, 99);
    let is_it = |weight: &i32| {
        left -= weight;
        left < 0
    };
    weights.iter().position(is_it).unwrap_or(0)
}

/// The taxes of customer $1 together, in ten-thousandths.
const TAXES: &str = "SELECT sum(t.rate * 10000)::bigint FROM lab_broker.customer_tax c
    JOIN lab_broker.tax t ON t.id = c.tax WHERE c.customer = $1";
/// What a kind of trade costs a tier: hundredths, and ten-thousandths of its value.
const RATES: &str = "SELECT (charge * 100)::bigint, (commission * 10000)::bigint FROM lab_broker.rate
    WHERE kind = $1::int AND tier = $2::int";
/// One more row of a trade's history.
const HISTORY: &str = "INSERT INTO lab_broker.trade_history (trade, status, at)
    VALUES ($1, $2::int, localtimestamp)";
