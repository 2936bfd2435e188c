//! A server held to a limit by the real kernel.

use std::path::Path;

use ashlar_postgres::{Limitation, Limits};

use crate::stage::{Stage, settings, value};

const LIMIT_BYTES: u64 = 300 << 20;

/// Groups of ours that this process made.
fn groups() -> Vec<String> {
    let prefix = format!("ashlar-postgres-{}-", std::process::id());
    let mut found = Vec::new();
    for parent in ["", "memory", "cpu", "cpuacct", "cpuset"] {
        let entries = std::fs::read_dir(Path::new("/sys/fs/cgroup").join(parent));
        let names = entries.into_iter().flatten().flatten();
        found.extend(names.map(|entry| entry.path().display().to_string()));
    }
    found.retain(|path| path.contains(&prefix));
    found
}

/// Where the kernel gives a group, reading a table larger than the limit stays below it; elsewhere the server
/// works without a limit and the reason is told. Version 1 for root must give one.
#[test]
fn a_server_stays_below_its_limit_while_it_reads_a_larger_table() {
    let stage = Stage::new();
    let mut server = stage.server("one");
    let limits = Limits { memory_bytes: Some(LIMIT_BYTES), cores: Some(1.5), cpuset: Some("0".into()) };
    let mut failing = stage.server("failing");
    failing.set(settings().with("shared_buffers", "nonsense"));
    failing.limit(&limits).unwrap();
    failing.start().unwrap_err();
    assert!(failing.limitation() != &Limitation::NotAsked);
    drop(failing);
    assert_eq!(groups(), Vec::<String>::new(), "it goes although the server failed");

    server.limit(&limits).unwrap();
    server.start().unwrap();
    let table = "create unlogged table t (x text); alter table t alter x set storage plain; \
         insert into t select repeat('x', 8000) from generate_series(1, 44000)";
    server.query(table).unwrap();
    if let Limitation::NotLimited(reason) = server.limitation() {
        let is_one = Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists();
        assert!(!(is_one && rustix::process::geteuid().is_root()), "{reason}");
        eprintln!("NOT LIMITED on this machine, so the limit itself is not tested: {reason}");
        assert!(server.usage().unwrap().is_none() && !reason.is_empty());
        return;
    }
    assert!(!groups().is_empty());
    assert!(server.limit(&limits).is_err(), "it runs");
    let bytes: u64 = value(&server, "select pg_table_size('t')").parse().unwrap();
    assert!(bytes > LIMIT_BYTES, "{bytes}");
    for _ in 0..2 {
        assert_eq!(value(&server, "select count(*) from t"), "44000");
        let usage = server.usage().unwrap().unwrap();
        assert!(usage.memory_bytes <= LIMIT_BYTES, "{usage:?}");
    }
    let usage = server.usage().unwrap().unwrap();
    // It used what it may, so it was the limit that held it.
    assert!(usage.memory_bytes_peak.is_none_or(|peak| (LIMIT_BYTES * 2 / 3..=LIMIT_BYTES).contains(&peak)));
    assert!(usage.cpu.is_some_and(|cpu| cpu.as_millis() > 100), "{usage:?}");
    assert_eq!(usage.out_of_memory_kill_count, 0, "{usage:?}");

    server.cold_start().unwrap();
    assert_eq!(*server.limitation(), Limitation::Limited, "the group stays through a restart");
    server.kill().unwrap();
    drop(server);
    assert_eq!(groups(), Vec::<String>::new());
}
