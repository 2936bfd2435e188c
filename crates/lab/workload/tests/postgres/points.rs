//! Reads by key on a real server: what is read is what was loaded, and as fast as pgbench reads it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_workload::ErrorKind;
use ashlar_workload::driver::{self, Ending, Outcome, Plan};
use ashlar_workload::points::{Load, Loaded, Points, Settings, Shape, Skew, load, unload};

use super::database::{Database, counted};
use super::pgbench;
use super::server::LIMIT;

const SHAPE: Shape = Shape { rows: 120_000, payload_size_bytes: 960, compression: 2.0, seed: 5 };

fn loaded(name: &str, rows: i64, sessions: usize) -> (Database, Loaded) {
    let database = Database::new(name);
    let what = Load { shape: Shape { rows, ..SHAPE }, sessions, is_clustered: true, limit: LIMIT };
    let loaded = load(&database.address, &what, &AtomicBool::new(false)).expect("it loads");
    (database, loaded)
}

fn run(database: &Database, settings: Settings, plan: &Plan) -> Outcome {
    let points = Points::open(&database.address, settings).expect("it is loaded");
    driver::run(&points, plan, &AtomicBool::new(false), &mut ()).expect("it runs")
}

#[test]
fn every_row_is_loaded_once_eight_to_a_page_and_neighbours_lie_together() {
    let (database, loaded) = loaded("points_load", SHAPE.rows, 2);
    assert_eq!(Shape::read(&mut database.session()).expect("it is there"), loaded.shape);
    let query =
        "SELECT count(*) FROM lab_points.point WHERE id BETWEEN 1 AND 120000 AND length(payload) = 960";
    assert_eq!(database.number(query), 120_000);
    let pages = database.number("SELECT pg_relation_size('lab_points.point') / 8192");
    assert_eq!(pages, 15_000);
    let apart = "SELECT count(*) FROM lab_points.point
        WHERE (ctid::text::point)[0]::int <> (id - 1) / 8";
    assert_eq!(database.number(apart), 0);
    let what = Load { shape: SHAPE, sessions: 1, is_clustered: false, limit: LIMIT };
    let again = load(&database.address, &what, &AtomicBool::new(false)).expect_err("it is there");
    assert!(again.context.contains("already"), "{again}");
    unload(&mut database.session()).expect("it is dropped");
    assert!(Points::open(&database.address, Settings::single_keys()).is_err());
}

#[test]
fn rows_are_read_by_many_keys_and_by_ranges() {
    let (database, _) = loaded("points_read", 5000, 1);
    for skew in [Skew::Uniform, Skew::Zipf { exponent: 0.99 }] {
        let settings = Settings { keys_per_read: 20, skew, range_percent: 25.0, ..Settings::single_keys() };
        let outcome = run(&database, settings, &counted(3, 200));
        assert_eq!(outcome.ending, Ending::Complete);
        let [keys, range] = ["keys", "range"].map(|name| outcome.kind(name).map_or(0, |kind| kind.committed));
        assert_eq!(keys + range, 600, "{outcome:?}");
        assert!((105..200).contains(&range), "{range}");
    }
    let share = Settings::mixed_sizes().range_percent;
    assert!((5.0..5.2).contains(&share), "{share}");
    let unfit = Settings { range_rows: 5001, ..Settings::single_keys() };
    assert!(Points::open(&database.address, unfit).is_err());
}

#[test]
fn wrong_content_is_an_error_and_no_answer() {
    let (database, _) = loaded("points_wrong", 2000, 1);
    let wrong = |damage: &str| {
        database.session().run(damage).expect(damage);
        let settings = Settings { keys_per_read: 50, ..Settings::single_keys() };
        let outcome = run(&database, settings, &Plan { errors_max: 3, ..counted(1, 10_000) });
        assert!(matches!(outcome.ending, Ending::Failed(_)), "{damage}: {:?}", outcome.ending);
        assert_eq!(outcome.kinds[0].errors, 3);
        outcome.kinds[0].first_error.clone().expect("an error")
    };
    let bit = "UPDATE lab_points.point SET payload = set_bit(payload, 4000, 1 - get_bit(payload, 4000))";
    let told = wrong(&format!("{bit} WHERE id % 100 = 7"));
    assert!(told.contains("checksum mismatch"), "{told}");
    database.session().run(&format!("{bit} WHERE id % 100 = 7")).expect("it is mended");
    // A row in another one's place has another id in its checksum.
    let told = wrong(
        "UPDATE lab_points.point AS here SET payload = there.payload, checksum = there.checksum
        FROM lab_points.point AS there WHERE here.id = 1 + there.id AND here.id % 100 = 8",
    );
    assert!(told.contains("checksum mismatch"), "{told}");
    let told = wrong("DELETE FROM lab_points.point WHERE id % 100 IN (8, 9)");
    assert!(told.contains("not found: Some("), "{told}");
    let error = Points::open(&Database::new("points_none").address, Settings::single_keys()).err();
    assert_eq!(error.map(|error| error.kind), Some(ErrorKind::Refused));
}

/// The same statement from pgbench and from here. Compiled for release the two are alike (1.0 to 1.1); as
/// tests are, about 0.7.
#[test]
fn single_keys_are_read_about_as_fast_as_pgbench_reads_them() {
    let (database, _) = loaded("points_pgbench", 10_000, 1);
    let script = "\\set id random(1, 10000)\n\
        SELECT id, checksum, payload FROM lab_points.point WHERE id = ANY(ARRAY[:id]::bigint[]);\n";
    let plan = Plan::closed(1, Duration::from_millis(100), Duration::from_secs(1), 1);
    let ours = || run(&database, Settings::single_keys(), &plan).per_second();
    let found = pgbench::ratio("points", ours, || pgbench::rate(&database.name, &[(script, 1)]));
    assert!((0.5..1.6).contains(&found), "{found}");
}
