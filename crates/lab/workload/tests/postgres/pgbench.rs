//! The same transactions from pgbench and from here, in turns, so that a busy machine slows both.
//!
//! Compiled for release the two are alike; as tests are, ours are somewhat slower, because pgbench is not.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_workload::driver::Plan;
use ashlar_workload::orders::{Draw, Mix, Settings};

use super::database::{Database, SERVER, assert_holds};

/// Of each of the two, in turns.
const ROUNDS: usize = 5;
/// Lines of an order: ours have ten on average.
const LINES: i32 = 10;

/// What pgbench does of a script or several with their weights, in a second.
pub fn rate(database: &str, scripts: &[(&str, u32)]) -> f64 {
    let mut arguments: Vec<String> =
        ["-n", "-M", "prepared", "-c", "1", "-T", "1"].map(String::from).to_vec();
    for (index, (text, weight)) in scripts.iter().enumerate() {
        let file = SERVER.data().with_file_name(format!("{database}-{index}.sql"));
        std::fs::write(&file, text).expect("a script");
        arguments.extend(["-f".into(), format!("{}@{weight}", file.display())]);
    }
    arguments.push(database.into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = SERVER.command("/usr/lib/postgresql/15/bin/pgbench", &arguments);
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.unwrap_or_else(|| panic!("no rate in {text}"))
}

/// Ours over pgbench's: the middle one of all rounds.
pub fn ratio(what: &str, ours: impl Fn() -> f64, theirs: impl Fn() -> f64) -> f64 {
    let rates: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (ours(), theirs())).collect();
    let mut ratios: Vec<f64> = rates.iter().map(|(ours, theirs)| ours / theirs).collect();
    ratios.sort_by(f64::total_cmp);
    println!("{what} over pgbench: {ratios:.2?} of {rates:.0?} a second");
    ratios[ROUNDS / 2]
}

/// A payment by the customer's number.
const PAYMENT: &str = "\\set d random(1, 10)\n\\set c random(1, 30)\n\\set cents random(100, 500000)
BEGIN;
UPDATE lab_orders.warehouse SET w_ytd = w_ytd + :cents::int * 0.01 WHERE w_id = 1
  RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip;
UPDATE lab_orders.district SET d_ytd = d_ytd + :cents::int * 0.01 WHERE d_w_id = 1 AND d_id = :d
  RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip;
UPDATE lab_orders.customer SET c_balance = c_balance - :cents::int * 0.01,
    c_ytd_payment = c_ytd_payment + :cents::int * 0.01, c_payment_cnt = c_payment_cnt + 1,
    c_data = CASE c_credit WHEN 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, :d::int, 1,
      :cents::int * 0.01) || '|' || c_data, 500) ELSE c_data END
  WHERE c_w_id = 1 AND c_d_id = :d AND c_id = :c
  RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since,
    c_credit, c_credit_lim, c_discount, c_balance;
INSERT INTO lab_orders.history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data)
  VALUES (1, :d, :c, 1, :d, localtimestamp, :cents::int * 0.01, 'pgbench');
COMMIT;
";

/// A new order of ten lines, all from the own warehouse.
fn new_order() -> String {
    let mut text = String::from("\\set d random(1, 10)\n\\set c random(1, 30)\n");
    for line in 0..LINES {
        let first = line * 20 + 1;
        text += &format!("\\set i{line} random({first}, {})\n\\set l{line} random(10, 100)\n", first + 19);
    }
    let all = |name: &str| {
        let one = |line: i32| if name.len() == 1 { format!(":{name}{line}") } else { name.to_string() };
        format!("ARRAY[{}]", (0..LINES).map(one).collect::<Vec<_>>().join(", "))
    };
    let (items, left, home) = (all("i"), all("l"), all("(1)"));
    let (fives, remote, info) = (all("(5)"), all("(0)"), all("'pgbench-pgbench-pgbench-'"));
    text + &format!(
        "BEGIN;
SELECT c_last, c_credit, (c_discount * 10000)::int, (w_tax * 10000)::int
  FROM lab_orders.warehouse JOIN lab_orders.customer ON c_w_id = w_id
  WHERE w_id = 1 AND c_d_id = :d AND c_id = :c;
SELECT d_next_o_id AS o, (d_tax * 10000)::int AS tax FROM lab_orders.district
  WHERE d_w_id = 1 AND d_id = :d FOR UPDATE \\gset
UPDATE lab_orders.district SET d_next_o_id = :o + 1 WHERE d_w_id = 1 AND d_id = :d;
INSERT INTO lab_orders.orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
  VALUES (1, :d, :o, :c, localtimestamp, {LINES}, 1);
INSERT INTO lab_orders.new_order (no_w_id, no_d_id, no_o_id) VALUES (1, :d, :o);
SELECT i_id, (i_price * 100)::int, i_name, i_data FROM lab_orders.item WHERE i_id = ANY({items}::int[]);
SELECT s_w_id, s_i_id, s_quantity, s_data, CASE :d::int
    WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
    WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
    WHEN 9 THEN s_dist_09 ELSE s_dist_10 END
  FROM unnest({home}::int[], {items}::int[]) AS line(w, i)
  JOIN lab_orders.stock ON s_w_id = line.w AND s_i_id = line.i
  ORDER BY s_w_id, s_i_id FOR UPDATE OF stock;
UPDATE lab_orders.stock SET s_quantity = line.left_over, s_ytd = s_ytd + line.quantity,
    s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + line.remote
  FROM unnest({home}::int[], {items}::int[], {fives}::int[], {left}::int[], {remote}::int[])
    AS line(w, i, quantity, left_over, remote)
  WHERE s_w_id = line.w AND s_i_id = line.i;
INSERT INTO lab_orders.order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_supply_w_id, ol_i_id,
    ol_quantity, ol_amount, ol_dist_info)
  SELECT 1, :d::int, :o::int, number, w, i, quantity, cents * 0.01, info
  FROM unnest({home}::int[], {items}::int[], {fives}::int[], {left}::int[], {info}::text[]) WITH ORDINALITY
    AS line(w, i, quantity, cents, info, number);
COMMIT;
"
    )
}

/// New orders and payments, nearly nine of ten transactions of the mix.
#[test]
fn orders_and_payments_are_as_fast_as_pgbench_makes_them() {
    let (database, _) = Database::loaded("orders_pgbench", 1, 7);
    let mix = Mix { weights: [45, 43, 0, 0, 0], draw: Draw::Deck };
    let orders = database.orders(Settings { mix, ..Settings::new(7) });
    let plan = Plan::closed(1, Duration::from_millis(100), Duration::from_secs(1), 1);
    let ours = || orders.run(&plan, &AtomicBool::new(false), &mut ()).expect("it runs").outcome.per_second();
    let order = new_order();
    let theirs = || rate(&database.name, &[(&order, 45), (PAYMENT, 43)]);
    let found = ratio("orders", ours, theirs);
    assert!((0.5..1.6).contains(&found), "{found}");
    // What pgbench did breaks no condition either: it is the same work.
    assert_holds(&mut database.session(), ashlar_workload::orders::conditions::Moment::AfterRun);
}
