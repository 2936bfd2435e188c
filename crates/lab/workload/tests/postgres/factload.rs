//! The ETL job on a real server: what is loaded, what comes of it, and what the conditions see.

use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_postgres::{Address, Session};
use ashlar_workload::ErrorKind;
use ashlar_workload::driver::{Ending, Observer, Plan, Progress};
use ashlar_workload::factload::conditions::{self, Verdict};
use ashlar_workload::factload::{
    FACT_ROW_BYTES, FactLoad, Figures, KINDS, Load, Loaded, SOURCE_FILE_ROW_BYTES, SOURCE_TABLE_ROW_BYTES,
    Settings, Shape, load, unload,
};
use tempfile::TempDir;

use super::database::{Database, counted};
use super::server::{LIMIT, Server};

/// Twelve batches a round.
const SHAPE: Shape =
    Shape { tables: 2, files: 1, rows_per_source: 2000, rows_per_batch: 500, compression: 2.0, seed: 5 };

fn load_into(address: &Address, shape: Shape, files: &TempDir) -> Loaded {
    let what = Load { shape, files: files.path().into(), sessions: 2, limit: LIMIT };
    load(address, &what, &AtomicBool::new(false)).expect("it loads")
}

fn loaded(name: &str, shape: Shape) -> (Database, TempDir) {
    let (database, files) = (Database::new(name), tempfile::tempdir().expect("a directory"));
    load_into(&database.address, shape, &files);
    (database, files)
}

fn open(address: &Address, files: &TempDir) -> FactLoad {
    FactLoad::open(address, Settings { limit: LIMIT, ..Settings::new(files.path()) }).expect("it is loaded")
}

fn run(facts: &FactLoad, plan: &Plan) -> Figures {
    facts.run(plan, &AtomicBool::new(false), &mut ()).expect("it runs")
}

fn assert_holds(facts: &FactLoad, session: &mut Session) {
    for verdict in facts.check(session).expect("the conditions are asked for") {
        assert!(verdict.holds, "{verdict:?}");
    }
}

/// The numbers of those that do not hold.
fn broken(verdicts: &[Verdict]) -> Vec<u8> {
    verdicts.iter().filter(|verdict| !verdict.holds).map(|verdict| verdict.number).collect()
}

#[test]
fn sources_are_loaded_once_and_the_same_seed_makes_the_same() {
    let database = Database::new("facts_load");
    let sums = |shape: Shape| {
        let files = tempfile::tempdir().expect("a directory");
        let loaded = load_into(&database.address, shape, &files);
        assert_eq!(loaded.files_bytes, 2000 * SOURCE_FILE_ROW_BYTES);
        assert_eq!(Shape::read(&mut database.session()).expect("it is there"), shape);
        let twice = Load { shape, files: files.path().into(), sessions: 1, limit: LIMIT };
        let error = load(&database.address, &twice, &AtomicBool::new(false)).expect_err("it is there");
        assert!(error.context.contains("already"), "{error}");
        let tables = ["source_1", "source_2", "batch", "product", "customer", "day", "region", "currency"];
        let hash = |table: &str| {
            let hash = "count(*)::text || bit_xor(hashtextextended(t::text, 0))";
            let rows = database.session().run(&format!("SELECT {hash} FROM lab_facts.{table} AS t"));
            rows.expect(table)[0][0].clone().expect(table)
        };
        let mut sums = tables.map(hash).to_vec();
        let file = files.path().join("ashlar-source-3.rows");
        sums.push(format!("{:?}", std::fs::read(&file).expect("a file")));
        unload(&mut database.session(), files.path()).expect("it is dropped");
        assert!(!file.exists());
        sums
    };
    let (first, again, other) = (sums(SHAPE), sums(SHAPE), sums(Shape { seed: 6, ..SHAPE }));
    assert_eq!(first, again);
    // The calendar and the taxes of regions are those of every seed, and so are the currencies.
    (0..5).chain([8]).for_each(|at| assert_ne!(first[at], other[at], "{at}"));
    let error = FactLoad::open(&database.address, Settings::new("/tmp")).err().expect("nothing is there");
    assert_eq!(error.kind, ErrorKind::Refused);
}

#[test]
fn batches_come_in_once_a_round_and_all_conditions_hold() {
    let (database, files) = loaded("facts_run", SHAPE);
    let facts = open(&database.address, &files);
    // What a client draws at the end it does not begin: the others took all that was drawn before.
    let figures = run(&facts, &counted(3, 10));
    assert_eq!(figures.outcome.ending, Ending::Complete, "{:?}", figures.outcome.kinds);
    assert_eq!((figures.rows, facts.acknowledged()), (30 * 500, 30));
    let kinds: Vec<u64> =
        KINDS.iter().filter_map(|name| Some(figures.outcome.kind(name)?.committed)).collect();
    assert!(kinds[0].abs_diff(20) <= 2 && kinds[0] + kinds[1] == 30, "{kinds:?}");
    assert!(figures.rows_per_second > 0.0 && figures.bytes_in_per_second > figures.bytes_out_per_second);
    assert_holds(&facts, &mut database.session());
    assert_eq!(database.number("SELECT count(*) FROM lab_facts.fact"), 15_000);
    assert_eq!(database.number("SELECT max(round) FROM lab_facts.fact"), 2);
    let twice = "SELECT count(*) - count(DISTINCT (round, id)) FROM lab_facts.fact";
    assert_eq!(database.number(twice), 0);
    // A further run, which knows nothing of the first one's batches, goes on beside them.
    let further = open(&database.address, &files);
    run(&further, &counted(2, 3));
    assert_holds(&further, &mut database.session());
    assert_holds(&facts, &mut database.session());
    assert_eq!(database.number("SELECT count(DISTINCT run) FROM lab_facts.fact"), 2);
    let verdicts = conditions::check(&mut database.session()).expect("it answers");
    assert!(verdicts.len() == 3 && broken(&verdicts).is_empty(), "{verdicts:?}");
}

#[test]
fn sources_of_one_sort_alone_do_as_well() {
    for (name, tables, files, counts) in [("facts_tables", 1, 0, [8, 0]), ("facts_files", 0, 1, [0, 8])] {
        let (database, directory) = loaded(name, Shape { tables, files, ..SHAPE });
        let facts = open(&database.address, &directory);
        let outcome = run(&facts, &counted(2, 4)).outcome;
        assert_eq!(KINDS.map(|kind| outcome.kind(kind).map_or(0, |kind| kind.committed)), counts);
        assert_holds(&facts, &mut database.session());
    }
}

/// How to break the facts, and which conditions see it.
const BREAKS: [(&str, &[u8]); 12] = [
    ("DELETE FROM lab_facts.fact WHERE ctid = (SELECT min(ctid) FROM lab_facts.fact)", &[1, 2]),
    ("DELETE FROM lab_facts.fact WHERE round = 0 AND source = 3 AND batch = 1", &[4]),
    ("DELETE FROM lab_facts.fact WHERE round = 0 AND source = 1 AND batch = 1 AND id % 2 = 0", &[1, 2]),
    (
        "INSERT INTO lab_facts.fact SELECT * FROM lab_facts.fact
         WHERE round = 0 AND source = 2 AND batch = 0",
        &[1, 2],
    ),
    ("INSERT INTO lab_facts.fact SELECT * FROM lab_facts.fact WHERE ctid = '(3,3)'", &[1, 2]),
    ("UPDATE lab_facts.fact SET net = net + 1 WHERE ctid = '(5,5)'", &[2, 3]),
    ("UPDATE lab_facts.fact SET checksum = checksum # 4 WHERE ctid = '(5,5)'", &[2, 3]),
    ("UPDATE lab_facts.fact SET region = region + 1 WHERE ctid = '(2,7)'", &[3]),
    ("UPDATE lab_facts.fact SET seal = -seal WHERE ctid = '(2,7)'", &[2, 3]),
    // A row in another batch, and a row that is there twice in place of another one.
    ("UPDATE lab_facts.fact SET batch = batch # 1 WHERE ctid = '(1,1)'", &[1, 2]),
    (
        "DELETE FROM lab_facts.fact WHERE id % 500 = 7 AND round = 0 AND source = 1 AND batch = 0;
      INSERT INTO lab_facts.fact SELECT * FROM lab_facts.fact
      WHERE id % 500 = 8 AND round = 0 AND source = 1 AND batch = 0",
        &[2],
    ),
    // Whole, but nobody sent it.
    ("UPDATE lab_facts.fact SET round = 77 WHERE round = 0 AND source = 1 AND batch = 1", &[4, 5]),
];

#[test]
fn what_breaks_the_facts_is_seen() {
    let (database, files) = loaded("facts_breaks", SHAPE);
    let facts = open(&database.address, &files);
    run(&facts, &counted(1, 16));
    assert_holds(&facts, &mut database.session());
    let mut session = database.session();
    session.run("CREATE TABLE whole AS SELECT * FROM lab_facts.fact").expect("a copy");
    for (change, seen) in BREAKS {
        session.run(change).expect(change);
        let verdicts = facts.check(&mut session).expect("it answers");
        assert_eq!(broken(&verdicts), seen, "{change}: {verdicts:?}");
        for verdict in verdicts.iter().filter(|verdict| !verdict.holds) {
            assert!((1..=2).contains(&verdict.offending), "{change}: {verdict:?}");
            let example = verdict.example.as_deref().expect("an example");
            assert!(example.starts_with("run 1 round "), "{example}");
        }
        let mend = "TRUNCATE lab_facts.fact; INSERT INTO lab_facts.fact SELECT * FROM whole ORDER BY ctid";
        session.run(mend).expect("it is mended");
        assert_holds(&facts, &mut session);
    }
}

#[test]
fn a_batch_with_wrong_input_is_an_error_and_leaves_nothing() {
    let (database, files) = loaded("facts_wrong", SHAPE);
    let path = files.path().join("ashlar-source-3.rows");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("a file");
    let (mut byte, at) = ([0], 1700 * SOURCE_FILE_ROW_BYTES + 400);
    file.read_exact_at(&mut byte, at).expect("it is read");
    file.write_all_at(&[byte[0] ^ 1], at).expect("it is written");
    database.session().run("DELETE FROM lab_facts.source_1 WHERE id % 1000 = 7").expect("they go");
    let facts = open(&database.address, &files);
    let outcome = run(&facts, &counted(1, 12)).outcome;
    let told = |kind: usize| outcome.kinds[kind].first_error.clone().expect("an error");
    assert!(told(1).starts_with("source 3 row 1701 checksum mismatch"), "{}", told(1));
    assert!(told(0).contains("of source 1: 499 rows came in, not 500"), "{}", told(0));
    assert_eq!(outcome.kinds.iter().map(|kind| kind.errors).collect::<Vec<_>>(), [2, 1], "{outcome:?}");
    assert_eq!(facts.acknowledged(), 9);
    assert_eq!(database.number("SELECT count(*) FROM lab_facts.fact"), 9 * 500);
    assert_holds(&facts, &mut database.session());
    file.set_len(1000).expect("it is cut");
    let error = FactLoad::open(&database.address, Settings::new(files.path())).err().expect("it is cut");
    assert!(error.context.contains("has 1000 bytes, not 1468000"), "{error}");
}

#[test]
fn after_a_crash_under_load_every_acknowledged_batch_is_there_and_none_in_part() {
    struct Killer(Server);
    impl Observer for Killer {
        fn second(&mut self, progress: &Progress) {
            // However long that takes: what is looked for must have been promised.
            if progress.done >= 40 {
                self.0.kill();
            }
        }
    }
    let mut killer = Killer(Server::new("-c shared_buffers=64MB"));
    let address = killer.0.address();
    let files = tempfile::tempdir().expect("a directory");
    load_into(&address, SHAPE, &files);
    let facts = open(&address, &files);
    let plan = Plan::closed(4, Duration::ZERO, Duration::from_secs(600), 3);
    let figures = facts.run(&plan, &AtomicBool::new(false), &mut killer).expect("it runs");
    assert!(matches!(figures.outcome.ending, Ending::Lost(_)), "{:?}", figures.outcome.ending);
    killer.0.start();
    let mut session = killer.0.session();
    assert_holds(&facts, &mut session);
    let committed: u64 = figures.outcome.kinds.iter().map(|kind| kind.committed).sum();
    println!("{committed} batches were acknowledged");
    assert!(committed > 10 && facts.acknowledged() == committed, "{figures:?}");
    // Another run goes on with it.
    let further = open(&address, &files);
    run(&further, &counted(2, 5));
    assert_holds(&further, &mut session);
}

/// On a server of its own, whose log nobody else writes into: what a row is on the target.
#[test]
fn a_row_is_as_large_as_is_said_and_seven_of_ten_bytes_are_read() {
    let server = Server::new("-c fsync=off -c shared_buffers=64MB -c max_wal_size=4GB");
    let address = server.address();
    let files = tempfile::tempdir().expect("a directory");
    let rows = 40_000;
    let shape = Shape { tables: 1, files: 1, rows_per_source: rows, rows_per_batch: 10_000, ..SHAPE };
    let loaded = load_into(&address, shape, &files);
    let mut session = server.session();
    let mut number = |query: &str| -> f64 {
        session.run(query).expect(query)[0][0].as_deref().and_then(|text| text.parse().ok()).expect(query)
    };
    let of_source = loaded.tables_bytes as f64 / rows as f64;
    let position = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
    let size = "SELECT pg_table_size('lab_facts.fact')";
    let before = number(position);
    let facts = open(&address, &files);
    let figures = run(&facts, &counted(1, 8));
    let log = (number(position) - before) / figures.rows as f64;
    let of_fact = number(size) / figures.rows as f64;
    assert!((of_source / SOURCE_TABLE_ROW_BYTES as f64 - 1.0).abs() < 0.01, "{of_source}");
    assert!((of_fact / FACT_ROW_BYTES as f64 - 1.0).abs() < 0.01, "{of_fact}");
    let read = (of_source + SOURCE_FILE_ROW_BYTES as f64) / 2.0;
    let share = read / (read + of_fact + log);
    println!(
        "a row: {of_source:.1} in a table, {SOURCE_FILE_ROW_BYTES} in a file; {of_fact:.1} as a fact, {log:.1} \
         of log; {:.1} % read; {:.0} rows a second",
        100.0 * share,
        figures.rows_per_second
    );
    assert!((0.68..0.72).contains(&share), "{share}");
    assert_holds(&facts, &mut server.session());
}
