//! What the watching thread sees: of counters, and of a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_postgres::{Installation, Places, Search, Server, Settings};
use ashlar_programs::Launcher;

use super::*;

const SHORT: Duration = Duration::from_millis(20);

#[test]
fn rates_are_over_the_time_between_two_looks() {
    let written = AtomicU64::new(0);
    let array = || {
        let host_written_bytes = written.fetch_add(1000, Ordering::SeqCst);
        Some(PoolCounters { host_written_bytes, ..PoolCounters::default() })
    };
    let sources = Sources { array: Some(&array), ..Sources::default() };
    let (answer, watched) = during(&sources, SHORT, || {
        // However slow the machine is.
        while written.load(Ordering::SeqCst) < 5000 {
            std::thread::sleep(SHORT);
        }
        7
    });
    assert_eq!(answer, 7);
    assert!(watched.samples.len() >= 4, "{watched:?}");
    for sample in &watched.samples {
        let rate = sample.array.expect("the array was asked").host_written_bytes_per_second;
        assert!((rate * sample.seconds - 1000.0).abs() < 1e-6, "{sample:?}");
        assert!(sample.server.is_none() && sample.disk.is_none());
    }
    let times: Vec<u64> = watched.samples.iter().map(|sample| sample.unix_millis).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn work_that_is_over_at_once_is_not_waited_for() {
    let begun = Instant::now();
    let ((), watched) = during(&Sources::default(), Duration::from_secs(60), || ());
    assert!(watched.samples.is_empty() && begun.elapsed() < Duration::from_secs(10));
}

/// A server that starts while it is watched, and stops.
#[test]
fn a_server_is_seen_from_its_start_to_its_end() {
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    // The server's account looks through it.
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let own = directory.path().to_path_buf();
    let launcher = Arc::new(Launcher::new(own.clone(), own, Arc::default()));
    let (installation, _) = Installation::ensure(&launcher, &Search::default()).unwrap();
    let places = Places {
        data: directory.path().join("pgdata"),
        wal: None,
        tablespaces: Vec::new(),
        temporary: None,
        socket: directory.path().join("socket"),
        port: 5432,
    };
    let settings = Settings::new().with("listen_addresses", "");
    let mut server = Server::new(&installation, places, settings);
    server.initialise().unwrap();
    // The pool is asked in every look, behind the server.
    let looks = AtomicU64::new(0);
    let count = || {
        looks.fetch_add(1, Ordering::SeqCst);
        None
    };
    // However slow the machine is: some looks begin and end meanwhile.
    let looked = |wait: &mut dyn FnMut()| {
        let first = looks.load(Ordering::SeqCst);
        while looks.load(Ordering::SeqCst) < first + 3 {
            wait();
        }
    };
    let sources = Sources { servers: vec![server.address()], array: Some(&count), ..Sources::default() };
    let ((), watched) = during(&sources, SHORT * 2, || {
        looked(&mut || std::thread::sleep(SHORT));
        server.start().unwrap();
        server.query("create table t as select generate_series(1, 300000) as n").unwrap();
        looked(&mut || drop(server.query("select pg_sleep(0.5)").unwrap()));
        server.stop().unwrap();
        looked(&mut || std::thread::sleep(SHORT));
    });
    let there: Vec<bool> = watched.samples.iter().map(|sample| sample.server.is_some()).collect();
    assert!(!there[0] && !there[there.len() - 1] && there.contains(&true), "{there:?}");
    let seen: Vec<&crate::ServerSample> =
        watched.samples.iter().filter_map(|sample| sample.server.as_ref()).collect();
    let waited = seen.iter().any(|sample| sample.sessions.contains_key("Timeout:PgSleep"));
    let log: f64 = watched
        .samples
        .iter()
        .filter_map(|sample| Some(sample.server.as_ref()?.log_bytes_per_second * sample.seconds))
        .sum();
    // A row takes some 60 bytes of log; the first look may come behind a part of them.
    assert!(waited, "{seen:?}");
    assert!(log < 100e6, "{log}");
    assert!(watched.processor_time > Duration::ZERO && watched.processor_time < watched.elapsed / 4);
}
