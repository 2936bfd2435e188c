//! The order workload on a real server: what is loaded, what runs, and what the conditions see.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_workload::driver::{Ending, Plan};
use ashlar_workload::orders::conditions::{CONDITIONS, Moment};
use ashlar_workload::orders::{
    Isolation, KINDS, Load, Mix, Orders, Origin, Settings, is_loaded, load, unload,
};
use ashlar_workload::{ErrorKind, Kind, Workload};

use super::database::{Database, SIZE, assert_holds, counted};
use super::server::LIMIT;

fn run(orders: &Orders, plan: &Plan) -> ashlar_workload::orders::Figures {
    orders.run(plan, &AtomicBool::new(false), &mut ()).expect("it runs")
}

#[test]
fn a_load_has_the_rows_and_the_rules() {
    let (database, loaded) = Database::loaded("rules", 2, 1);
    let count = |table: &str| database.number(&format!("SELECT count(*) FROM lab_orders.{table}"));
    let tables = ["warehouse", "district", "customer", "history", "orders", "new_order", "item", "stock"];
    let counts = tables.map(count);
    assert_eq!(counts, [2, 20, 600, 600, 800, 240, 200, 400]);
    let lines = count("order_line");
    assert_eq!(counts.iter().sum::<i64>() + lines, loaded.rows as i64);
    assert!((7600..8400).contains(&lines), "ten of an order: {lines}");
    assert!(loaded.size_bytes > 1 << 20, "{loaded:?}");
    assert_eq!(Origin::read(&mut database.session()).expect("it is there"), loaded.origin);
    assert_holds(&mut database.session(), Moment::AfterLoad);
    let rules = [
        "SELECT count(*) FROM lab_orders.customer WHERE c_id = 1 AND c_last <> 'BARBARBAR'",
        "SELECT count(*) FROM lab_orders.customer WHERE c_id = 30 AND c_last <> 'BARABLEEING'",
        "SELECT count(*) FROM (SELECT o_c_id FROM lab_orders.orders WHERE o_id <= 30
            GROUP BY o_w_id, o_d_id, o_c_id HAVING count(*) <> 1) AS drawn",
        "SELECT count(*) FROM lab_orders.orders WHERE (o_id > 28) <> (o_carrier_id IS NULL)",
        "SELECT count(*) FROM lab_orders.order_line WHERE (ol_o_id > 28) <> (ol_delivery_d IS NULL)
            OR (ol_o_id > 28) <> (ol_amount > 0) OR ol_amount > 9999.99 OR ol_i_id NOT BETWEEN 1 AND 200",
        "SELECT count(*) FROM lab_orders.orders WHERE o_ol_cnt NOT BETWEEN 5 AND 15",
        "SELECT count(*) FROM lab_orders.district WHERE d_ytd <> 300 OR d_next_o_id <> 41",
        "SELECT count(*) FROM lab_orders.warehouse WHERE w_ytd <> 3000 OR w_zip !~ '^[0-9]{4}11111$'",
        "SELECT count(*) FROM lab_orders.customer WHERE c_balance <> -10 OR c_ytd_payment <> 10
            OR length(c_data) NOT BETWEEN 300 AND 500 OR c_credit NOT IN ('BC', 'GC') OR c_discount > 0.5",
        "SELECT count(*) FROM lab_orders.stock WHERE s_quantity NOT BETWEEN 10 AND 100
            OR length(s_data) NOT BETWEEN 26 AND 50 OR length(s_dist_10) <> 24",
    ];
    for rule in rules {
        assert_eq!(database.number(rule), 0, "{rule}");
    }
    let bad = database.number("SELECT count(*) FROM lab_orders.customer WHERE c_credit = 'BC'");
    assert!((30..95).contains(&bad), "one of ten of 600: {bad}");
    let original = database.number("SELECT count(*) FROM lab_orders.stock WHERE s_data LIKE '%ORIGINAL%'");
    assert!((18..65).contains(&original), "one of ten of 400: {original}");
}

#[test]
fn the_same_seed_loads_the_same_rows_and_another_one_others() {
    let database = Database::new("seeds");
    let sums = |seed| {
        database.load(1, seed);
        let sums =
            ["customer", "order_line", "stock", "orders", "history", "item", "district"].map(|table| {
                let hash = "bit_xor(hashtextextended(t::text, 0))";
                database.number(&format!("SELECT {hash} FROM lab_orders.{table} AS t"))
            });
        assert!(is_loaded(&mut database.session()).expect("it answers"));
        unload(&mut database.session()).expect("it is dropped");
        sums
    };
    let (first, again, other) = (sums(3), sums(3), sums(4));
    assert_eq!(first, again);
    first.iter().zip(other).for_each(|(one, other)| assert_ne!(*one, other));
    assert!(!is_loaded(&mut database.session()).expect("it answers"));
}

#[test]
fn what_is_there_is_not_loaded_over_and_what_is_not_there_is_told() {
    let (database, _) = Database::loaded("twice", 1, 1);
    let what = Load { warehouses: 1, size: SIZE, seed: 1, sessions: 2, limit: LIMIT };
    let error = load(&database.address, &what, &AtomicBool::new(false)).expect_err("it is there");
    assert!(error.kind == ErrorKind::Environment && error.context.contains("already"), "{error}");
    unload(&mut database.session()).expect("it is dropped");
    let error = load(&database.address, &what, &AtomicBool::new(true)).expect_err("it was stopped");
    assert_eq!(error.kind, ErrorKind::Interrupted);
    assert!(!is_loaded(&mut database.session()).expect("it answers"), "half a load is none");
    let error =
        Orders::open(&database.address, Settings::new(1), None).err().expect("nothing is whole there");
    assert_eq!(error.kind, ErrorKind::Content);
}

#[test]
fn at_every_isolation_the_mix_runs_and_the_conditions_hold() {
    let (database, _) = Database::loaded("isolation", 2, 1);
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let before = database.number("SELECT sum(d_next_o_id) FROM lab_orders.district");
        let settings = Settings { isolation, ..Settings::new(9) };
        let plan = Plan { retries_max: 1000, ..counted(4, 100) };
        let outcome = run(&database.orders(settings), &plan).outcome;
        assert_eq!(outcome.ending, Ending::Complete, "{isolation:?}");
        assert_eq!(outcome.kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>(), KINDS);
        // A deck of a hundred has each kind exactly as often as its weight.
        let attempted: Vec<u64> = outcome.kinds.iter().map(|kind| kind.attempted).collect();
        assert_eq!(attempted, [180, 172, 16, 16, 16], "{isolation:?}");
        for kind in &outcome.kinds {
            assert_eq!(kind.committed + kind.rolled_back, kind.attempted, "{kind:?}");
        }
        let retries: u64 = outcome.kinds.iter().map(|kind| kind.retries).sum();
        println!("{isolation:?}: {retries} retries, {:.0} a second", outcome.per_second());
        if isolation == Isolation::ReadCommitted {
            assert_eq!(retries, 0, "locks are taken in one order");
        } else {
            assert!(retries > 0, "four clients at two warehouses meet");
        }
        let after = database.number("SELECT sum(d_next_o_id) FROM lab_orders.district");
        assert_eq!(after - before, outcome.kinds[0].committed as i64);
        assert_holds(&mut database.session(), Moment::AfterRun);
    }
    let eleventh = CONDITIONS[10].check(&mut database.session()).expect("it answers");
    assert!(!eleventh.holds, "after deliveries it must not hold: {eleventh:?}");
    let short = "SELECT count(*) FROM lab_orders.stock WHERE s_quantity NOT BETWEEN 10 AND 100";
    assert_eq!(database.number(short), 0);
    let bad = "SELECT count(*) FROM lab_orders.customer WHERE c_credit = 'BC' AND c_payment_cnt > 1
        AND c_data !~ '^[0-9]+ [0-9]+ [0-9]+ [0-9]+ [0-9]+ [0-9.]+\\|'";
    assert_eq!(database.number(bad), 0, "who has bad credit is written about");
}

#[test]
fn a_new_order_for_an_unused_item_leaves_nothing() {
    let (database, _) = Database::loaded("unused", 1, 1);
    let count =
        "SELECT (SELECT count(*) FROM lab_orders.orders) + (SELECT count(*) FROM lab_orders.order_line)
        + (SELECT count(*) FROM lab_orders.new_order) + (SELECT sum(s_ytd) FROM lab_orders.stock)";
    let before = database.number(count);
    database.session().run("DELETE FROM lab_orders.item WHERE i_id > 0").expect("they go");
    let only_orders =
        Settings { mix: Mix { weights: [1, 0, 0, 0, 0], ..Settings::new(1).mix }, ..Settings::new(1) };
    let plan = Plan { errors_max: 5, ..counted(1, 50) };
    let outcome = run(&database.orders(only_orders), &plan).outcome;
    assert!(matches!(outcome.ending, Ending::Failed(_)), "{:?}", outcome.ending);
    assert_eq!(outcome.kinds[0].errors, 5);
    let told = outcome.kinds[0].first_error.clone().expect("an error");
    assert!(told.starts_with("items found: 0, not "), "{told}");
    assert_eq!(database.number(count), before);
    assert_holds(&mut database.session(), Moment::AfterLoad);
}

#[test]
fn hammerdbs_choices_can_be_copied() {
    let (database, _) = Database::loaded("hammerdb", 1, 1);
    let orders = database.orders(Settings::hammerdb(1));
    let think = |kinds: Vec<Kind>| kinds.iter().map(|kind| kind.think.as_secs()).collect::<Vec<_>>();
    assert_eq!(think(orders.kinds()), [12, 12, 5, 10, 5]);
    assert_eq!(think(database.orders(Settings::new(1)).kinds()), [12, 12, 10, 5, 5]);
    let plan = Plan::closed(2, Duration::from_millis(300), Duration::from_millis(2500), 1);
    let figures = run(&orders, &plan);
    let [mine, engines] = [Some(figures.new_orders_per_minute), figures.engine_new_orders_per_minute];
    let ratio = mine.zip(engines).map(|(mine, engines)| mine / engines).expect("the engine was asked");
    // Both are asked at the edges of two seconds: a busy machine asks the engine late.
    assert!((0.7..1.4).contains(&ratio), "{mine:?} by the clients, {engines:?} by the engine");
    let attempted: Vec<f64> = figures.outcome.kinds.iter().map(|kind| kind.attempted as f64).collect();
    let share = attempted[0] / attempted.iter().sum::<f64>();
    assert!((0.38..0.49).contains(&share), "ten of 23: {share}");
    let line = figures.hammerdb_line().expect("the engine was asked");
    assert!(
        line.starts_with("TEST RESULT : System achieved ") && line.ends_with(" PostgreSQL TPM"),
        "{line}"
    );
    println!("{line}");
    // Every transaction commits or rolls back: the engine counts more than new orders.
    assert!(figures.engine_transactions_per_minute > figures.engine_new_orders_per_minute);
}

/// For each condition, how to break it.
const BREAKS: [&str; 12] = [
    "UPDATE lab_orders.warehouse SET w_ytd = w_ytd + 0.01",
    "UPDATE lab_orders.district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 4",
    "DELETE FROM lab_orders.new_order WHERE no_o_id = 35 AND no_d_id = 2",
    "DELETE FROM lab_orders.order_line WHERE ol_d_id = 3 AND ol_o_id = 7 AND ol_number = 1",
    "UPDATE lab_orders.orders SET o_carrier_id = NULL WHERE o_id = 1 AND o_d_id = 5",
    "UPDATE lab_orders.order_line SET ol_o_id = 9 , ol_number = 99
        WHERE ol_d_id = 3 AND ol_o_id = 8 AND ol_number = 1",
    "UPDATE lab_orders.order_line SET ol_delivery_d = NULL WHERE ol_d_id = 1 AND ol_o_id = 2 AND ol_number = 3",
    "UPDATE lab_orders.warehouse SET w_ytd = w_ytd - 10;
        UPDATE lab_orders.district SET d_ytd = d_ytd - 10 WHERE d_id = 1",
    "UPDATE lab_orders.district SET d_ytd = d_ytd + CASE d_id WHEN 1 THEN 5 ELSE -5 END WHERE d_id < 3",
    "UPDATE lab_orders.customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1
        WHERE c_id = 7 AND c_d_id = 7",
    "DELETE FROM lab_orders.new_order WHERE no_o_id = 29 AND no_d_id = 2;
        UPDATE lab_orders.orders SET o_carrier_id = 1 WHERE o_id = 29 AND o_d_id = 2;
        UPDATE lab_orders.order_line SET ol_delivery_d = now() WHERE ol_o_id = 29 AND ol_d_id = 2",
    "UPDATE lab_orders.customer SET c_ytd_payment = c_ytd_payment + 3 WHERE c_id = 8 AND c_d_id = 8",
];

#[test]
fn every_condition_sees_what_breaks_it() {
    let (database, _) = Database::loaded("breaks", 1, 1);
    let mut session = database.session();
    for (condition, change) in CONDITIONS.iter().zip(BREAKS) {
        session.run("BEGIN").expect("it begins");
        session.run(change).expect(change);
        let verdict = condition.check(&mut session).expect("it answers");
        assert!(!verdict.holds && (1..=2).contains(&verdict.offending), "{verdict:?}");
        let example = verdict.example.expect("an example");
        assert!(example.contains("warehouse 1"), "{example}");
        session.run("ROLLBACK").expect("it is taken back");
        assert!(condition.check(&mut session).expect("it answers").holds, "{condition:?}");
    }
    // Where everything is delivered, there is no last new order.
    session.run("BEGIN").expect("it begins");
    session.run("DELETE FROM lab_orders.new_order").expect("they go");
    assert!([1, 2].iter().all(|at| CONDITIONS[*at].check(&mut session).expect("it answers").holds));
    // Rows that belong to nothing are seen as well.
    session.run("UPDATE lab_orders.history SET h_w_id = 9 WHERE h_d_id = 1").expect("they move");
    let example = CONDITIONS[7].check(&mut session).expect("it answers").example.expect("an example");
    assert!(example.contains("warehouse"), "{example}");
    assert!(CONDITIONS.iter().all(|condition| !condition.name.contains("tpm")));
}
