//! The tables in their three classes, and what is built on them once the rows are in.

/// A class of tables. Each may lie in a tablespace of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// As many rows however many customers there are.
    Fixed,
    /// Rows by the number of customers; a run changes them and adds none.
    Scaling,
    /// A run adds rows.
    Growing,
}

/// Numbers of kinds of trades: 1 market buy, 2 market sell, 3 limit buy, 4 limit sell, 5 stop loss.
/// Of statuses: 1 pending, 2 submitted, 3 completed, 4 cancelled.
pub(super) const SCHEMA: &str = "
CREATE SCHEMA lab_broker;
CREATE TABLE lab_broker.origin (
    customers int NOT NULL, trade_days int NOT NULL, market_days int NOT NULL, watch_items int NOT NULL,
    seed bigint NOT NULL, trades bigint NOT NULL);
";

pub(super) const FIXED: &str = "
CREATE TABLE lab_broker.sector (id int NOT NULL, name varchar(30) NOT NULL);
CREATE TABLE lab_broker.industry (id int NOT NULL, sector int NOT NULL, name varchar(50) NOT NULL);
CREATE TABLE lab_broker.exchange (
    id int NOT NULL, name varchar(100) NOT NULL, opens time NOT NULL, closes time NOT NULL,
    volume bigint NOT NULL);
CREATE TABLE lab_broker.place (id int NOT NULL, code char(5) NOT NULL, town varchar(80) NOT NULL);
CREATE TABLE lab_broker.tax (id int NOT NULL, name varchar(50) NOT NULL, rate numeric(4,4) NOT NULL);
CREATE TABLE lab_broker.rate (
    kind smallint NOT NULL, tier smallint NOT NULL, charge numeric(10,2) NOT NULL,
    commission numeric(4,4) NOT NULL);
";

pub(super) const SCALING: &str = "
CREATE TABLE lab_broker.customer (
    id int NOT NULL, tax_number char(10) NOT NULL, tier smallint NOT NULL, last_name varchar(25) NOT NULL,
    first_name varchar(20) NOT NULL, born date NOT NULL, phone char(16) NOT NULL, email varchar(80) NOT NULL,
    second_email varchar(80) NOT NULL, street varchar(80) NOT NULL, place int NOT NULL);
CREATE TABLE lab_broker.customer_tax (customer int NOT NULL, tax int NOT NULL, place smallint NOT NULL);
CREATE TABLE lab_broker.account (
    id int NOT NULL, customer int NOT NULL, broker int NOT NULL, is_taxed boolean NOT NULL,
    name varchar(50) NOT NULL, start_balance numeric(14,2) NOT NULL, balance numeric(14,2) NOT NULL);
CREATE TABLE lab_broker.permission (
    account int NOT NULL, tax_number char(10) NOT NULL, level char(4) NOT NULL,
    last_name varchar(25) NOT NULL, first_name varchar(20) NOT NULL);
CREATE TABLE lab_broker.broker (
    id int NOT NULL, name varchar(60) NOT NULL, trades bigint NOT NULL, commission numeric(16,2) NOT NULL);
CREATE TABLE lab_broker.company (
    id int NOT NULL, name varchar(60) NOT NULL, industry int NOT NULL, rating char(4) NOT NULL,
    head varchar(50) NOT NULL, street varchar(80) NOT NULL, place int NOT NULL, founded date NOT NULL,
    about varchar(200) NOT NULL);
CREATE TABLE lab_broker.competitor (company int NOT NULL, competitor int NOT NULL, industry int NOT NULL);
CREATE TABLE lab_broker.security (
    id int NOT NULL, symbol varchar(15) NOT NULL, name varchar(80) NOT NULL, company int NOT NULL,
    exchange int NOT NULL, shares bigint NOT NULL, since date NOT NULL, high numeric(8,2) NOT NULL,
    low numeric(8,2) NOT NULL, dividend numeric(10,2) NOT NULL);
CREATE TABLE lab_broker.last_trade (
    security int NOT NULL, at timestamp NOT NULL, price numeric(8,2) NOT NULL, opened numeric(8,2) NOT NULL,
    volume bigint NOT NULL);
CREATE TABLE lab_broker.daily_market (
    day date NOT NULL, security int NOT NULL, close numeric(8,2) NOT NULL, high numeric(8,2) NOT NULL,
    low numeric(8,2) NOT NULL, volume bigint NOT NULL);
CREATE TABLE lab_broker.financial (
    company int NOT NULL, quarter date NOT NULL, revenue numeric(15,2) NOT NULL,
    earned numeric(15,2) NOT NULL, per_share numeric(10,2) NOT NULL, assets numeric(15,2) NOT NULL,
    debts numeric(15,2) NOT NULL, shares bigint NOT NULL);
CREATE TABLE lab_broker.news (
    id int NOT NULL, company int NOT NULL, at timestamp NOT NULL, author varchar(50) NOT NULL,
    headline varchar(100) NOT NULL, body text NOT NULL);
CREATE TABLE lab_broker.watch_item (customer int NOT NULL, security int NOT NULL);
";

pub(super) const GROWING: &str = "
CREATE TABLE lab_broker.trade (
    id bigint NOT NULL, at timestamp NOT NULL, account int NOT NULL, security int NOT NULL,
    quantity int NOT NULL, status smallint NOT NULL, kind smallint NOT NULL, is_cash boolean NOT NULL,
    is_last_first boolean NOT NULL, bid numeric(8,2) NOT NULL, price numeric(8,2),
    charge numeric(10,2) NOT NULL, commission numeric(10,2) NOT NULL, tax numeric(10,2) NOT NULL,
    executor varchar(60) NOT NULL);
CREATE TABLE lab_broker.trade_history (
    trade bigint NOT NULL, status smallint NOT NULL, at timestamp NOT NULL);
CREATE TABLE lab_broker.settlement (
    trade bigint NOT NULL, due date NOT NULL, amount numeric(12,2) NOT NULL, kind varchar(40) NOT NULL);
CREATE TABLE lab_broker.cash_transaction (
    trade bigint NOT NULL, at timestamp NOT NULL, amount numeric(12,2) NOT NULL, name varchar(100) NOT NULL);
CREATE TABLE lab_broker.holding (
    trade bigint NOT NULL, account int NOT NULL, security int NOT NULL, at timestamp NOT NULL,
    price numeric(8,2) NOT NULL, quantity int NOT NULL);
CREATE TABLE lab_broker.holding_history (
    holding bigint NOT NULL, trade bigint NOT NULL, before int NOT NULL, after int NOT NULL);
CREATE TABLE lab_broker.holding_summary (account int NOT NULL, security int NOT NULL, quantity int NOT NULL);
CREATE TABLE lab_broker.trade_request (
    trade bigint NOT NULL, broker int NOT NULL, security int NOT NULL, kind smallint NOT NULL,
    quantity int NOT NULL, bid numeric(8,2) NOT NULL);
CREATE SEQUENCE lab_broker.trade_id;
";

/// A table, its key, and its other indexes.
pub(super) type Key = (Class, &'static str, &'static str, &'static [&'static str]);

/// Largest first: they are built side by side.
pub(super) const KEYS: [Key; 27] = [
    (Class::Growing, "trade", "id", &["account, at", "security, at"]),
    (Class::Growing, "trade_history", "trade, status", &[]),
    (Class::Growing, "holding_history", "holding, trade", &["trade"]),
    (Class::Growing, "settlement", "trade", &[]),
    (Class::Growing, "cash_transaction", "trade", &[]),
    (Class::Scaling, "daily_market", "security, day", &[]),
    (Class::Scaling, "watch_item", "customer, security", &[]),
    (Class::Growing, "holding", "trade", &["account, security, at"]),
    (Class::Growing, "holding_summary", "account, security", &[]),
    (Class::Scaling, "news", "id", &["company, at"]),
    (Class::Scaling, "account", "id", &["customer"]),
    (Class::Scaling, "permission", "account, tax_number", &[]),
    (Class::Scaling, "customer", "id", &["tax_number"]),
    (Class::Scaling, "customer_tax", "customer, place", &[]),
    (Class::Scaling, "financial", "company, quarter", &[]),
    (Class::Scaling, "security", "id", &["symbol", "company"]),
    (Class::Scaling, "competitor", "company, competitor", &[]),
    (Class::Scaling, "company", "id", &["industry"]),
    (Class::Scaling, "last_trade", "security", &[]),
    (Class::Scaling, "broker", "id", &["name"]),
    (Class::Growing, "trade_request", "trade", &["security", "broker"]),
    (Class::Fixed, "place", "id", &[]),
    (Class::Fixed, "tax", "id", &[]),
    (Class::Fixed, "industry", "id", &["sector"]),
    (Class::Fixed, "rate", "kind, tier", &[]),
    (Class::Fixed, "sector", "id", &[]),
    (Class::Fixed, "exchange", "id", &[]),
];
