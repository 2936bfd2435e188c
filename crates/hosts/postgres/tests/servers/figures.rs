//! Loads and what the server counts of them.

use std::time::Duration;

use ashlar_postgres::{Amount, LoadLog, Pgbench, Protocol, RelationCheck, Script, Waits};

use crate::stage::{Stage, value};

#[test]
fn a_load_is_filled_run_counted_and_checked() {
    let stage = Stage::new();
    let mut server = stage.server("one");
    server.start().unwrap();
    server.fill(1).unwrap();
    let before = server.statistics().unwrap();
    let major = u64::from(stage.installation.major());
    assert_eq!((before.version_number / 10_000, before.block_bytes), (major, 8192));
    let mut load = Pgbench::new(2, 1, Amount::Time(Duration::from_secs(2)));
    load.progress = Some(Duration::from_secs(1));
    load.log_prefix = Some(server.places().socket.join("load"));
    let report = server.run_load(&load).unwrap();
    assert!(report.transactions > 10 && report.failed == 0, "{report:?}");
    assert!(report.tps > 1.0 && report.latency_mean_millis > 0.0, "{report:?}");
    assert!(report.latency_deviation_millis.is_some() && !report.progress.is_empty(), "{report:?}");
    let logged = LoadLog::read(&server.places().socket.join("load")).unwrap().load();
    assert_eq!(logged.transactions, report.transactions);
    let balances = server.balances().unwrap();
    assert!(balances.agree(), "{balances:?}");
    assert_eq!(balances.transactions, report.transactions);

    server.query("checkpoint").unwrap();
    let change = server.statistics().unwrap().since(&before).unwrap();
    assert!(change.commits >= report.transactions, "{change:?}");
    assert!(change.wal_records > report.transactions && change.wal_bytes > 10_000, "{change:?}");
    assert!(change.wal_flushes > 0 && change.blocks_hit > 0, "{change:?}");
    assert!(change.checkpoints_requested >= 1 && change.checkpoint_blocks_written > 0, "{change:?}");
    // More than the buffers hold is written by the session that makes it.
    let table = "create table big (x text); alter table big alter x set storage plain; \
         insert into big select repeat('x', 3000) from generate_series(1, 8000)";
    server.query(table).unwrap();
    let change = server.statistics().unwrap().since(&before).unwrap();
    assert!(change.backend_blocks_written > 1000, "{change:?}");

    let check = RelationCheck { is_heap_all_indexed: true, databases: vec![], jobs: 2 };
    server.check_relations(&check).unwrap();
    let settings = server.settings_in_force().unwrap();
    let shared = settings.iter().find(|setting| setting.name == "shared_buffers").unwrap();
    assert_eq!((shared.value.as_str(), shared.unit.as_deref()), ("2048", Some("8kB")));
    assert_eq!(shared.source, "configuration file");
    assert!(settings.iter().all(|setting| setting.source != "default"));
}

#[test]
fn a_script_of_ones_own_runs_until_its_sessions_are_closed() {
    let stage = Stage::new();
    let mut server = stage.server("one");
    server.start().unwrap();
    let script = stage.path("sleep.sql");
    std::fs::write(&script, "select pg_sleep(:pause);\n").unwrap();
    let mut load = Pgbench::new(3, 1, Amount::Transactions(2));
    load.scripts = vec![Script { path: script, weight: 1 }];
    load.variables = vec![("pause".into(), "0.01".into())];
    load.protocol = Protocol::Prepared;
    load.rate = Some(100.0);
    let report = server.run_load(&load).unwrap();
    assert_eq!(report.transactions, 6);
    assert!(report.latency_mean_millis >= 10.0, "{report:?}");

    load.variables = vec![("pause".into(), "60".into())];
    load.rate = None;
    let running = server.start_load(&load).unwrap();
    let asleep = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
    while value(&server, asleep) != "3" {}
    let mut waits = Waits::default();
    waits.look(&mut server.session().unwrap()).unwrap();
    assert_eq!((waits.look_count, waits.sessions["Timeout:PgSleep"]), (1, 3));
    server.end_load(running, Duration::from_secs(20)).unwrap();
}
