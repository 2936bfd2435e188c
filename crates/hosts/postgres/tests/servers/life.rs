//! A server's life: made, started, crashed, started cold, given up.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use ashlar_postgres::{
    DropWay, ErrorKind, Installation, PROGRAMS, RelationCheck, Search, Server, Session, Value,
    processes_below,
};

use crate::stage::{Stage, launcher, settings, value};

#[test]
fn the_installed_versions_are_found_and_the_newest_is_chosen() {
    let stage = Stage::new();
    let launcher = launcher(&stage.path(""));
    let found = Installation::all(&launcher, &Search::default()).unwrap();
    assert!(found.windows(2).all(|pair| pair[0].major >= pair[1].major), "{found:?}");
    let directory = stage.installation.directory().to_path_buf();
    for given in [directory.clone(), directory.parent().unwrap().to_path_buf()] {
        let search = Search { directory: Some(given), major: Some(stage.installation.major()) };
        let again = Installation::find(&launcher, &search).unwrap();
        assert_eq!((again.version(), again.directory()), (stage.installation.version(), directory.as_path()));
    }
    let absent = Search { directory: Some(directory), major: Some(99) };
    let error = Installation::find(&launcher, &absent).err().unwrap();
    assert!(error.context.contains("PostgreSQL 99 is needed"), "{error}");
    let nothing = Search { directory: Some(stage.path("")), major: None };
    let error = Installation::ensure(&launcher, &nothing).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Environment, "{error}");
}

/// Relocatable packages whose programs do not know where their libraries are.
#[test]
fn programs_that_miss_their_libraries_are_shown_the_way() {
    let stage = Stage::new();
    let (bin, library) = (stage.path("relocated/bin"), stage.path("relocated/lib"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(&library).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$LD_LIBRARY_PATH\" = '{}' ]; then echo 'postgres (PostgreSQL) 99.1'; else \
         echo 'error while loading shared libraries: libpq.so.5' >&2; exit 127; fi\n",
        library.display()
    );
    for name in PROGRAMS.iter().filter(|name| **name != "pg_amcheck") {
        std::fs::write(bin.join(name), &script).unwrap();
        std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let launcher = launcher(&stage.path(""));
    let search = Search { directory: Some(stage.path("relocated")), major: None };
    let found = Installation::all(&launcher, &search).unwrap();
    assert_eq!((found[0].major, found[0].version.as_str()), (99, "99.1"));
    assert_eq!(found[0].missing, ["pg_amcheck"]);
    let error = Installation::find(&launcher, &search).err().unwrap();
    assert!(error.context.contains("99.1 in") && error.context.contains("lacks pg_amcheck"), "{error}");
}

#[test]
fn a_server_keeps_what_it_promised_through_a_crash_and_leaves_nothing() {
    let stage = Stage::new();
    let mut server = stage.server("one");
    server.start().unwrap();
    assert_eq!(value(&server, "show shared_buffers"), "16MB");
    assert_eq!(value(&server, "show data_checksums"), "on");
    assert!(server.version().unwrap().contains(stage.installation.version()));
    assert!(server.places().data.join("pg_wal").is_symlink());
    let mut session = server.session().unwrap();
    session.run("create table t (n int); insert into t values (1)").unwrap();
    session.run("begin; insert into t values (2)").unwrap();
    server.kill().unwrap();
    assert_eq!(session.run("commit").unwrap_err().kind, ErrorKind::Lost);
    assert!(server.kill().is_err(), "it does not run");

    server.set(settings().with("shared_buffers", Value::Bytes(32 << 20)));
    server.start().unwrap();
    assert_eq!(value(&server, "select sum(n) from t"), "1");
    assert_eq!(value(&server, "show shared_buffers"), "32MB");
    let file = std::fs::read_to_string(server.places().data.join("postgresql.conf")).unwrap();
    assert_eq!(file.matches("ashlar.conf").count(), 1);
    // One process dies: the server comes back by itself.
    let pid = value(&server, "select pid from pg_stat_activity where backend_type = 'walwriter'");
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    while server.query("select 1").is_ok() {}
    server.wait_until_it_answers(Duration::from_secs(20)).unwrap();

    assert!(server.check_pages().is_err(), "it runs");
    let mut other = Server::new(&stage.installation, stage.places("one"), settings());
    let error = other.start().unwrap_err();
    assert!(error.context.contains("work in it already"), "{error}");
    drop(other);
    assert_eq!(value(&server, "select 1"), "1", "the one that was there is left alone");

    let data = server.places().data.clone();
    server.kill().unwrap();
    drop(server);
    assert!(processes_below(&data).is_empty());
    let memory = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&data).unwrap());
    let is_its = |line: &str| line.split_whitespace().next() == Some(&(inode as u32 as i32).to_string());
    assert!(!memory.lines().any(is_its), "{inode}: {memory}");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let stage = Stage::new();
    let mut server = stage.server("one");
    server.set(settings().with("shared_buffers", "a lot"));
    let error = server.start().unwrap_err();
    assert!(error.context.contains("its log:") && error.context.contains("shared_buffers"), "{error}");
    server.set(settings());
    server.start().unwrap();
    server.stop().unwrap();
    server.check_pages().unwrap();
}

#[test]
fn a_cold_start_finds_nothing_in_memory() {
    let stage = Stage::new();
    let mut server = stage.server("one");
    server.start().unwrap();
    server.query("create table t as select repeat('x', 1000) x from generate_series(1, 20000)").unwrap();
    let cold = server.cold_start().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || cold.way == DropWay::Files, "{cold:?}");
    assert!(cold.file_bytes > 20 << 20, "{cold:?}");
    assert_eq!(cold.resident_bytes.is_some(), Path::new("/usr/bin/fincore").exists(), "{cold:?}");
    // What others map or the file system keeps may stay.
    assert!(cold.resident_bytes.is_none_or(|bytes| bytes < cold.file_bytes / 4), "{cold:?}");
    assert_eq!(value(&server, "select count(*) from t"), "20000");
    server.forget_pages().unwrap();
    server.abandon();
    assert!(Session::open(&server.address(), "test", Duration::from_secs(1)).is_err());
    server.start().unwrap();
    assert_eq!(value(&server, "select count(*) from t"), "20000");
}

/// The programs, the statistics views and the checks of each version that is installed, wherever it is.
#[test]
fn every_installed_version_is_started_counted_and_checked() {
    let stage = Stage::new();
    let launcher = launcher(&stage.path(""));
    let found = Installation::all(&launcher, &Search::default()).unwrap();
    for one in found.iter().filter(|one| one.is_usable()) {
        let installation = Installation::of(&launcher, one).unwrap();
        let places = stage.places(&format!("of-{}", one.version));
        let mut server = Server::new(&installation, places, settings());
        server.initialise().unwrap();
        server.start().unwrap();
        let before = server.statistics().unwrap();
        assert_eq!(before.version_number / 10_000, u64::from(one.major), "{one:?}");
        server.query("create table t as select generate_series(1, 10000) n; checkpoint").unwrap();
        let change = server.statistics().unwrap().since(&before).unwrap();
        assert!(change.wal_bytes > 0 && change.checkpoints_requested >= 1, "{one:?}: {change:?}");
        server.check_relations(&RelationCheck::default()).unwrap();
        server.stop().unwrap();
        server.check_pages().unwrap();
    }
}
