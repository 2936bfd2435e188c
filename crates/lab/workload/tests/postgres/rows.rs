//! Whole tables on a real server: each step does what it says, and what is wrong is told.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_workload::ErrorKind;
use ashlar_workload::rows::{Call, Found, Job, Load, Rows, Settings, load, unload};

use super::database::Database;
use super::server::LIMIT;

const ROWS: i64 = 2_350;

fn loaded(name: &str, is_logged: bool) -> Database {
    let database = Database::new(name);
    load(&database.address, &Load { rows: ROWS, is_logged, limit: LIMIT }).expect("it loads");
    database
}

fn settings(job: Job, call: Call) -> Settings {
    Settings { job, call, groups: 7, is_prewarmed: false, measure: Duration::ZERO, seed: 3 }
}

fn run(database: &Database, settings: Settings) -> Found {
    let mut rows = Rows::open(&database.address, settings).expect("it is loaded");
    rows.run(&mut || Ok(()), &AtomicBool::new(false)).expect("it runs")
}

fn steps(found: &Found) -> Vec<(&str, bool, u64, u64)> {
    let told = found.steps.iter().map(|step| (step.name, step.is_warming, step.rows, step.latency.count()));
    told.collect()
}

#[test]
fn every_row_is_updated_selected_and_deleted_and_lies_there_again_afterwards() {
    for (name, is_logged) in [("rows_logged", true), ("rows_unlogged", false)] {
        let database = loaded(name, is_logged);
        for (call, statements) in [(Call::Statements, 24), (Call::Procedure, 1)] {
            let found = run(&database, settings(Job::Change, call));
            assert_eq!(found.offences, Vec::<String>::new());
            // 23 groups have 102 or 103 of 2,350 rows.
            let [
                ("update", false, 2350, first),
                ("select", false, selected, _),
                ("delete", false, 2350, last),
            ] = steps(&found)[..]
            else {
                panic!("{:?}", steps(&found));
            };
            assert_eq!((first, last), (statements, statements), "{call:?}");
            assert!((7 * 102..=7 * 103).contains(&selected), "{selected}");
            assert_eq!(found.rows_checked, 2 * 2350 + selected);
            let update = &found.steps[0];
            assert!(update.seconds > 0.0 && update.rows_per_second() > 0.0);
            assert_eq!(update.wal_bytes > 100 * 2350, is_logged, "{} bytes of log", update.wal_bytes);
            assert_eq!(found.outcome().kinds.len(), 3);
        }
        assert_eq!(database.number("SELECT count(*) FROM lab_rows.item WHERE number = id % 1000"), ROWS);
        let again = load(&database.address, &Load { rows: 1, is_logged, limit: LIMIT }).expect_err("there");
        assert!(again.context.contains("already"), "{again}");
        unload(&mut database.session()).expect("it is dropped");
        let gone = Rows::open(&database.address, settings(Job::Read, Call::Statements)).err();
        assert_eq!(gone.map(|error| error.kind), Some(ErrorKind::Refused));
    }
}

#[test]
fn the_first_pass_of_reads_is_told_apart() {
    let database = loaded("rows_read", true);
    let measure = Duration::from_millis(20);
    let found =
        run(&database, Settings { measure, is_prewarmed: true, ..settings(Job::Read, Call::Statements) });
    let names: Vec<(&str, bool)> = found.steps.iter().map(|step| (step.name, step.is_warming)).collect();
    assert_eq!(names, [("scan", true), ("select", true), ("scan", false), ("select", false)]);
    assert_eq!(found.steps[0].passes, 1);
    assert!(found.seconds() >= 0.02 && found.steps[2].passes >= 1);
    assert_eq!(found.offences, Vec::<String>::new());
    assert_eq!(found.outcome().kinds.len(), 2);
}

#[test]
fn what_is_not_as_it_was_loaded_is_told() {
    let database = loaded("rows_wrong", true);
    let wrong = |damage: &str| {
        database.session().run(damage).expect(damage);
        run(&database, Settings { groups: 2000, ..settings(Job::Read, Call::Procedure) }).offences
    };
    let told = wrong("DELETE FROM lab_rows.item WHERE id = 77");
    assert!(told.len() == 1 && told[0].starts_with("before the run: count and sums"), "{told:?}");
    assert!(wrong("SELECT 1").is_empty(), "it was filled again");
    // While it runs: a trigger that keeps one row from being removed, and one that is not raised.
    for (event, what) in [("UPDATE", "after update: "), ("DELETE", "after delete: 1 rows are left")] {
        database
            .session()
            .run(&format!(
                "CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ \
                 BEGIN IF old.id = 9 THEN RETURN NULL; END IF; \
                 IF TG_OP = 'DELETE' THEN RETURN old; END IF; RETURN new; END $$; \
                 CREATE TRIGGER keep BEFORE {event} ON lab_rows.item FOR EACH ROW EXECUTE FUNCTION keep()"
            ))
            .expect("a trigger");
        let told = run(&database, settings(Job::Change, Call::Statements)).offences;
        assert!(told.iter().any(|told| told.starts_with(what)), "{told:?}");
        assert!(told.iter().any(|told| told.contains("2349 rows were changed of 2350")), "{told:?}");
        database.session().run("DROP TRIGGER keep ON lab_rows.item").expect("no trigger");
    }
}

#[test]
fn a_stop_is_heard_between_statements() {
    let database = loaded("rows_stop", true);
    let mut rows =
        Rows::open(&database.address, settings(Job::Change, Call::Statements)).expect("it is loaded");
    let stopped = rows.run(&mut || Ok(()), &AtomicBool::new(true)).expect_err("it is stopped");
    assert_eq!(stopped.kind, ErrorKind::Interrupted);
}
