//! The brokerage workload on a real server: what is loaded, what runs, what the conditions see.

mod ledger;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_postgres::Session;
use ashlar_workload::broker::conditions::{CONDITIONS, check};
use ashlar_workload::broker::ledger::Ledger;
use ashlar_workload::broker::{
    Broker, Figures, Isolation, KINDS, Load, Loaded, Mix, NOTE, Origin, Settings, Size, Spaces, cleanup,
    is_loaded, load, unload,
};
use ashlar_workload::driver::{Ending, Plan};
use ashlar_workload::{ErrorKind, Workload};

use super::database::{Database, SERVER, counted};
use super::server::LIMIT;

const SIZE: Size = Size { trade_days: 2, market_days: 40, watch_items: 10 };
const CUSTOMERS: i32 = 30;

fn what(seed: u64, sessions: usize) -> Load {
    Load { customers: CUSTOMERS, size: SIZE, seed, spaces: Spaces::default(), sessions, limit: LIMIT }
}

fn loaded(name: &str, seed: u64) -> (Database, Loaded) {
    let database = Database::new(name);
    let loaded = load(&database.address, &what(seed, 2), &AtomicBool::new(false)).expect("it loads");
    (database, loaded)
}

fn run(database: &Database, settings: Settings, ledger: Option<&Arc<Ledger>>, plan: &Plan) -> Figures {
    let broker = Broker::open(&database.address, settings, ledger.map(Arc::clone)).expect("it is loaded");
    broker.run(plan, &AtomicBool::new(false), &mut ()).expect("it runs")
}

fn assert_holds(session: &mut Session) {
    for verdict in check(session).expect("the conditions are asked for") {
        assert!(verdict.holds, "{verdict:?}");
    }
}

#[test]
fn a_load_has_the_rows_and_the_ratios() {
    let (database, loaded) = loaded("broker_rows", 1);
    assert_eq!(Origin::read(&mut database.session()).expect("it is there"), loaded.origin);
    assert_holds(&mut database.session());
    let count = |table: &str| database.number(&format!("SELECT count(*) FROM lab_broker.{table}"));
    let exact = [
        ("customer", 30),
        ("customer_tax", 60),
        ("broker", 4),
        ("company", 20),
        ("competitor", 60),
        ("financial", 400),
        ("news", 40),
        ("security", 30),
        ("last_trade", 30),
        ("daily_market", 1200),
        ("watch_item", 300),
        ("trade", 3420),
        ("settlement", 3420),
        ("trade_request", 0),
        ("sector", 12),
        ("industry", 96),
        ("exchange", 4),
        ("rate", 15),
        ("tax", 320),
        ("place", 2000),
    ];
    for (table, rows) in exact {
        assert_eq!(count(table), rows, "{table}");
    }
    let ratio = |table| count(table) as f64 / 3420.0;
    assert!((2.3..2.5).contains(&ratio("trade_history")), "{}", ratio("trade_history"));
    assert!((0.90..0.94).contains(&ratio("cash_transaction")), "{}", ratio("cash_transaction"));
    assert!((1.1..1.4).contains(&ratio("holding_history")), "{}", ratio("holding_history"));
    assert!((120..180).contains(&count("account")), "{}", count("account"));
    let rest =
        ["trade_history", "cash_transaction", "holding_history", "holding", "holding_summary", "account"];
    let rest: i64 = rest.into_iter().chain(["permission"]).map(count).sum();
    assert_eq!(exact.iter().map(|(_, rows)| rows).sum::<i64>() + rest, loaded.rows as i64);
    let rules = [
        "SELECT count(*) FROM lab_broker.trade WHERE status <> 3 OR account / 10 NOT BETWEEN 1 AND 30
            OR price <= 0 OR at::date NOT IN ('2020-01-01', '2020-01-02')",
        "SELECT count(*) FROM lab_broker.trade t JOIN lab_broker.trade n ON n.id = t.id + 60
            WHERE t.at >= n.at AND t.at - n.at > INTERVAL '70 seconds'",
        "SELECT count(*) FROM lab_broker.daily_market WHERE low > close OR close > high
            OR day NOT BETWEEN '2019-11-24' AND '2020-01-02'",
        "SELECT count(*) FROM lab_broker.holding WHERE quantity <= 0",
        "SELECT count(*) FROM lab_broker.news WHERE length(body) NOT BETWEEN 2000 AND 20100",
    ];
    for rule in rules {
        assert_eq!(database.number(rule), 0, "{rule}");
    }
}

#[test]
fn the_same_seed_loads_the_same_rows_and_another_one_others() {
    let database = Database::new("broker_seeds");
    let tables =
        ["trade", "trade_history", "holding", "account", "broker", "daily_market", "news", "watch_item"];
    let sums = |seed, sessions| {
        load(&database.address, &what(seed, sessions), &AtomicBool::new(false)).expect("it loads");
        let sums = tables.map(|table| {
            let hash = "bit_xor(hashtextextended(t::text, 0))";
            database.number(&format!("SELECT {hash} FROM lab_broker.{table} AS t"))
        });
        assert!(is_loaded(&mut database.session()).expect("it answers"));
        unload(&mut database.session()).expect("it is dropped");
        sums
    };
    let (first, again, other) = (sums(3, 2), sums(3, 1), sums(4, 2));
    assert_eq!(first, again);
    first.iter().zip(other).for_each(|(one, other)| assert_ne!(*one, other));
    assert!(!is_loaded(&mut database.session()).expect("it answers"));
}

#[test]
fn what_is_there_is_not_loaded_over_and_what_is_not_there_is_told() {
    let (database, _) = loaded("broker_twice", 1);
    let error = load(&database.address, &what(1, 2), &AtomicBool::new(false)).expect_err("it is there");
    assert!(error.kind == ErrorKind::Environment && error.context.contains("already"), "{error}");
    unload(&mut database.session()).expect("it is dropped");
    let error = load(&database.address, &what(1, 2), &AtomicBool::new(true)).expect_err("it was stopped");
    assert_eq!(error.kind, ErrorKind::Interrupted);
    assert!(!is_loaded(&mut database.session()).expect("it answers"), "half a load is none");
    let error =
        Broker::open(&database.address, Settings::new(1), None).err().expect("nothing is whole there");
    assert_eq!(error.kind, ErrorKind::Content);
    let mut unfit = Settings::new(1);
    unfit.mix.weights[5] = 102;
    let error = Broker::open(&database.address, unfit, None).err().expect("more results than orders");
    assert_eq!(error.kind, ErrorKind::Environment);
}

#[test]
fn each_class_of_tables_lies_in_its_own_space() {
    let database = Database::new("broker_spaces");
    let classes = ["fixed", "scaling", "growing"];
    for class in classes {
        let place = SERVER.data().with_file_name(format!("space_{class}")).display().to_string();
        SERVER.command("mkdir", &[&place]);
        let space = format!("CREATE TABLESPACE lab_{class} LOCATION '{place}'");
        SERVER.session().run(&space).expect("a tablespace");
    }
    let [fixed, scaling, growing] = classes.map(|class| Some(format!("lab_{class}")));
    let spaces = Spaces { fixed, scaling, growing };
    load(&database.address, &Load { spaces, ..what(1, 2) }, &AtomicBool::new(false)).expect("it loads");
    let tables = classes.map(|class| {
        database.number(&format!(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'lab_broker' AND tablespace = 'lab_{class}'"
        ))
    });
    assert_eq!(tables, [6, 13, 8]);
    let apart = "SELECT count(*) FROM pg_indexes i JOIN pg_tables t USING (schemaname, tablename)
        WHERE schemaname = 'lab_broker' AND i.tablespace IS DISTINCT FROM t.tablespace";
    assert_eq!(database.number(apart), 0, "indexes lie with their tables");
    assert_holds(&mut database.session());
}

#[test]
fn at_every_isolation_the_mix_runs_and_what_was_acknowledged_is_there() {
    let (database, _) = loaded("broker_isolation", 1);
    for isolation in [Isolation::ByKind, Isolation::ReadCommitted] {
        let ledger = Arc::new(Ledger::begin(&mut database.session()).expect("it begins"));
        let before = database.number("SELECT sum(trades) FROM lab_broker.broker");
        let maintenance = Some(Duration::from_millis(50));
        let settings = Settings { isolation, maintenance, ..Settings::new(9) };
        let plan = Plan { retries_max: 1000, ..counted(4, 250) };
        let figures = run(&database, settings, Some(&ledger), &plan);
        let outcome = &figures.outcome;
        assert_eq!(outcome.ending, Ending::Complete, "{isolation:?}");
        assert_eq!(outcome.kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>(), KINDS);
        // By the clock, in the place of others.
        let kept_in_order = outcome.kind("data_maintenance").map_or(0, |kind| kind.attempted);
        for (kind, weight) in outcome.kinds.iter().zip(settings.mix.weights) {
            assert_eq!(kind.committed + kind.rolled_back, kind.attempted, "{kind:?}");
            let lacking = u64::from(weight).abs_diff(kind.attempted);
            assert!(
                lacking <= 60 + kept_in_order,
                "{isolation:?} {}: {} of {}",
                kind.name,
                kind.attempted,
                weight
            );
        }
        let committed = |name: &str| outcome.kind(name).map_or(0, |kind| kind.committed);
        assert!(committed("data_maintenance") > 3, "{isolation:?}");
        let retries: Vec<u64> = outcome.kinds.iter().map(|kind| kind.retries).collect();
        println!("{isolation:?}: retries {retries:?}, {:.0} a second", figures.transactions_per_second);
        if isolation == Isolation::ReadCommitted {
            assert!(retries.iter().sum::<u64>() < 5, "locks are taken in one order: {retries:?}");
        }
        let after = database.number("SELECT sum(trades) FROM lab_broker.broker");
        assert_eq!(after - before, committed("trade_result") as i64);
        assert_holds(&mut database.session());
        let found = ledger.check(&mut database.session(), ledger.now()).expect("it answers");
        assert!(found.holds(), "{found:?}");
        assert_eq!(found.acknowledged_orders, committed("trade_order"));
        assert_eq!(found.acknowledged_results, committed("trade_result"));
    }
    // What a run leaves open is called off, once.
    let open = "SELECT count(*) FROM lab_broker.trade WHERE status < 3";
    let open = database.number(open) as u64;
    assert!(open > 0, "some orders rest");
    assert_eq!([(); 2].map(|()| cleanup(&mut database.session()).expect("it answers")), [open, 0]);
    assert_holds(&mut database.session());
}

#[test]
fn the_metric_is_counted_by_clients_and_engine_alike() {
    let (database, _) = loaded("broker_metric", 1);
    let plan = Plan::closed(2, Duration::from_millis(300), Duration::from_millis(2500), 1);
    let figures = run(&database, Settings::new(1), None, &plan);
    let engines = figures.engine_trades_per_second.expect("the engine was asked");
    let ratio = figures.trades_per_second / engines;
    assert!(
        (0.8..1.25).contains(&ratio),
        "{} by the clients, {engines} by the engine",
        figures.trades_per_second
    );
    let share = figures.trades_per_second / figures.transactions_per_second;
    assert!((0.06..0.14).contains(&share), "one of ten: {share}");
    println!("{:.0} trades a second of {:.0}", figures.trades_per_second, figures.transactions_per_second);
    assert!(!NOTE.to_lowercase().contains("tpse") && NOTE.contains("not comparable"));
    let broker = Broker::open(&database.address, Settings::new(1), None).expect("it is loaded");
    assert!(broker.kinds().iter().all(|kind| kind.keying.is_zero() && kind.think.is_zero()));
}

#[test]
fn what_is_missing_is_an_error_and_no_answer() {
    let (database, _) = loaded("broker_wrong", 1);
    database.session().run("DELETE FROM lab_broker.settlement WHERE trade % 20 = 7").expect("they go");
    let only_lookups = Mix { weights: [0, 0, 0, 0, 0, 0, 1, 0, 0, 0] };
    let settings = Settings { mix: only_lookups, ..Settings::new(1) };
    let outcome = run(&database, settings, None, &Plan { errors_max: 3, ..counted(1, 1000) }).outcome;
    assert!(matches!(outcome.ending, Ending::Failed(_)), "{:?}", outcome.ending);
    let told = outcome.kind("trade_lookup").and_then(|kind| kind.first_error.clone()).expect("an error");
    assert!(told.contains("settlements, not 20"), "{told}");
}

/// For each condition, how to break it.
const BREAKS: [&str; 12] = [
    "UPDATE lab_broker.holding SET quantity = quantity + 100
        WHERE trade = (SELECT min(trade) FROM lab_broker.holding)",
    "DELETE FROM lab_broker.holding_summary
        WHERE (account, security) = (SELECT account, security FROM lab_broker.holding_summary LIMIT 1)",
    "UPDATE lab_broker.account SET balance = balance + 0.01 WHERE id = 10",
    "UPDATE lab_broker.broker SET commission = commission - 0.01 WHERE id = 1",
    "DELETE FROM lab_broker.settlement WHERE trade = 77",
    "UPDATE lab_broker.cash_transaction SET amount = amount + 1
        WHERE trade = (SELECT max(trade) FROM lab_broker.cash_transaction)",
    "DELETE FROM lab_broker.trade_history WHERE trade = 5 AND status = 2",
    "UPDATE lab_broker.trade SET quantity = quantity + 100 WHERE id = 9",
    "DELETE FROM lab_broker.trade_request
        WHERE trade = (SELECT min(trade) FROM lab_broker.trade_request)",
    "UPDATE lab_broker.last_trade SET volume = volume + 100 WHERE security = 3",
    "UPDATE lab_broker.settlement SET amount = amount + 0.01 WHERE trade = 12",
    "DELETE FROM lab_broker.trade WHERE id = 700",
];

/// Rows that belong to nothing are seen as well.
const ORPHANS: [(usize, &str); 6] = [
    (1, "INSERT INTO lab_broker.holding VALUES (999999, 10, 1, now(), 5, 100)"),
    (3, "INSERT INTO lab_broker.cash_transaction VALUES (999999, now(), 5, '')"),
    (5, "INSERT INTO lab_broker.settlement VALUES (999999, now(), 5, '')"),
    (7, "INSERT INTO lab_broker.trade_history VALUES (999999, 2, now())"),
    (8, "INSERT INTO lab_broker.holding_history VALUES (5, 999999, 0, 100)"),
    (9, "INSERT INTO lab_broker.trade_request VALUES (5, 1, 1, 3, 100, 10)"),
];

#[test]
fn every_condition_sees_what_breaks_it() {
    let (database, _) = loaded("broker_breaks", 1);
    let outcome = run(&database, Settings::new(3), None, &counted(2, 500)).outcome;
    assert_eq!(outcome.ending, Ending::Complete);
    let mut session = database.session();
    let breaks = CONDITIONS.iter().zip(BREAKS);
    let orphans = ORPHANS.iter().map(|(number, change)| (&CONDITIONS[number - 1], *change));
    for (condition, change) in breaks.chain(orphans) {
        session.run("BEGIN").expect("it begins");
        session.run(change).expect(change);
        let verdict = condition.check(&mut session).expect("it answers");
        assert!(!verdict.holds && verdict.offending == 1, "{change}: {verdict:?}");
        assert!(verdict.example.is_some_and(|example| example.len() > 10), "{change}");
        session.run("ROLLBACK").expect("it is taken back");
        assert!(condition.check(&mut session).expect("it answers").holds, "{condition:?}");
    }
    let numbers: Vec<u8> = CONDITIONS.iter().map(|condition| condition.number).collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
}
