//! Databases by name: made, cloned, reset, restored, and what stays of them when the array dies.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Session, processes_below};
use support::Array;

const PATIENCE: Duration = Duration::from_secs(60);

/// An array with a pool whose directory the account of servers may pass. Its databases go with it.
struct Site {
    array: Array,
}

impl Site {
    fn new() -> Option<Site> {
        support::array_for_databases("2GiB").map(|array| Site { array })
    }

    fn make(&self, name: &str, more: &[&str]) -> String {
        let words = [&["database", "create", name, "--size", "1GiB"], more].concat();
        self.array.good(&words).lines().next().unwrap().to_string()
    }

    fn url(&self, name: &str) -> String {
        self.array.good(&["database", "url", name]).trim().to_string()
    }

    fn ask(&self, name: &str, statement: &str) -> String {
        let address = Address::Url(self.url(name));
        let end = Instant::now() + PATIENCE;
        let mut session = loop {
            match Session::open(&address, "test", Duration::from_secs(30)) {
                Ok(session) => break session,
                // One that was started by an array that was killed meanwhile replays its log.
                Err(error) if is_starting(&error.to_string()) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => panic!("{name}: {error}"),
            }
        };
        let rows = session.run(statement).unwrap();
        rows.first().and_then(|row| row[0].clone()).unwrap_or_default()
    }

    fn states(&self) -> Vec<(String, String)> {
        let all = self.array.json(&["database", "list"]);
        let text = |one: &serde_json::Value, key: &str| one[key].as_str().unwrap().to_string();
        all.as_array().unwrap().iter().map(|one| (text(one, "name"), text(one, "state"))).collect()
    }

    /// Until each database is as it is to be, none half made.
    fn settle(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let states = self.states();
            if states.iter().all(|(_, state)| state == "running" || state == "stopped") {
                return;
            }
            assert!(Instant::now() < end, "{states:?}\n{}", self.array.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Nothing is there but what these databases have.
    fn check_nothing_else(&self, databases: &[&str]) {
        let names = |what: &[&str], key: &str| -> Vec<String> {
            let all = self.array.json(what);
            let mut names: Vec<String> =
                all.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_string()).collect();
            names.sort();
            names
        };
        let volumes: Vec<String> = databases.iter().map(|name| format!("{name}-data")).collect();
        assert_eq!(names(&["database", "list"], "name"), databases);
        assert_eq!(names(&["volume", "list"], "name"), volumes);
        let attached = self.array.json(&["status"])["attachment_count"].as_u64().unwrap();
        assert_eq!(attached as usize, databases.len());
        let directory = self.array.state().join("databases");
        let mut sites: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        sites.sort();
        assert_eq!(sites, databases);
    }

    fn processes(&self, database: &str) -> Vec<rustix::process::Pid> {
        let data = self.array.state().join("databases").join(database).join("data/pgdata");
        processes_below(&data).into_iter().map(|(pid, _)| pid).collect()
    }
}

fn is_starting(said: &str) -> bool {
    // One that was being stopped by an array that was killed meanwhile is started again.
    let passing =
        ["starting up", "not yet accepting", "in recovery mode", "shutting down", "Connection refused"];
    passing.iter().any(|words| said.contains(words))
}

impl Drop for Site {
    fn drop(&mut self) {
        support::end_databases(&self.array);
    }
}

#[test]
fn a_database_is_made_cloned_reset_and_restored() {
    let Some(site) = Site::new() else { return };
    let url = site.make("prod", &["--log-size", "512MiB", "--log-floor", "1s"]);
    assert!(url.starts_with("postgres://postgres:") && url.contains("@127.0.0.1:"), "{url}");
    site.ask("prod", "create table t as select generate_series(1, 1000) as x");
    let cloned = site.array.json(&["database", "clone", "prod", "dev"]);
    assert!(cloned["took_millis"].as_u64().unwrap() >= cloned["start_millis"].as_u64().unwrap(), "{cloned}");
    assert_ne!(cloned["database"]["port"], site.array.json(&["database", "show", "prod"])["port"]);
    // Each has its own.
    site.ask("dev", "drop table t");
    assert_eq!(site.ask("prod", "select count(*) from t"), "1000");
    assert_eq!(site.ask("dev", "show cluster_name"), "dev");
    // It subscribes to nothing, and waits for nobody who follows its source.
    assert_eq!(site.ask("dev", "show max_logical_replication_workers"), "0");
    let log = std::fs::read_link(site.array.state().join("databases/dev/data/pgdata/pg_wal")).unwrap();
    assert!(log.ends_with("databases/dev/log/pg_wal"), "{}", log.display());

    // The log of the source has its floor, and the volumes of the clone give way.
    let volume = |name: &str| site.array.json(&["volume", "show", name]);
    assert_eq!(volume("prod-log")["floor_micros"].as_u64(), Some(1_000_000));
    assert!(volume("prod-data")["floor_micros"].is_null() && volume("dev-log")["floor_micros"].is_null());
    let classes = || ["prod-data", "dev-data", "dev-log"].map(|name| volume(name)["class"].clone());
    assert_eq!(classes(), ["normal", "low", "low"]);

    // The same content again, and then the newest; name, port and password stay.
    let before = site.url("dev");
    site.array.good(&["database", "reset", "dev", "--yes"]);
    assert_eq!(classes(), ["normal", "low", "low"]);
    assert_eq!(site.ask("dev", "select count(*) from t"), "1000");
    site.ask("prod", "insert into t values (0)");
    site.array.good(&["database", "reset", "dev", "--latest", "--yes"]);
    assert_eq!((site.ask("dev", "select count(*) from t"), site.url("dev")), ("1001".to_string(), before));

    site.array.good(&["database", "snapshot", "prod", "good"]);
    site.ask("prod", "drop table t");
    let restored = site.array.json(&["database", "restore", "prod", "--to", "good", "--yes"]);
    assert_eq!(site.ask("prod", "select count(*) from t"), "1001");
    let backup = restored["backup"].as_str().unwrap();
    site.array.good(&["database", "clone", "prod", "undone", "--at", backup]);
    assert_eq!(site.ask("undone", "select count(*) from pg_tables where tablename = 't'"), "0");

    site.array.good(&["database", "stop", "dev"]);
    assert!(site.states().contains(&("dev".to_string(), "stopped".to_string())));
    site.array.good(&["database", "start", "dev"]);
    assert_eq!(site.ask("dev", "select 1"), "1");
    let deleted = site.array.json(&["database", "delete", "prod", "--yes"]);
    assert_eq!(deleted["clones"], serde_json::json!(["dev", "undone"]));
    assert_eq!(site.ask("dev", "select count(*) from t"), "1001", "clones outlive it");
}

/// Each got the number and the port of the last, and the records of all but one were lost.
#[test]
fn clones_are_made_at_once() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &[]);
    let clone = |number: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
        command.arg("--state").arg(site.array.state()).args(["database", "clone", "prod"]);
        command.arg(format!("dev{number}")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let clones: Vec<_> = (0..4).map(clone).collect();
    clones.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    site.check_nothing_else(&["dev0", "dev1", "dev2", "dev3", "prod"]);
    (0..4).for_each(|number| assert_eq!(site.ask(&format!("dev{number}"), "select 1"), "1"));
}

/// The snapshot that a clone was made of is gone: the clone was emptied before that was seen.
#[test]
fn a_reset_that_cannot_be_leaves_the_clone_as_it_is() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &[]);
    site.array.good(&["database", "clone", "prod", "dev"]);
    site.ask("dev", "create table mine (x int)");
    let delete = ["snapshot", "delete", "dev.origin", "--yes"];
    site.array.refused(&delete, &["database `dev` is reset to snapshot `dev.origin`", "--force"]);
    site.array.good(&[&delete[..], &["--force"]].concat());
    site.array.refused(
        &["database", "reset", "dev", "--yes"],
        &["snapshot `dev.origin` does not exist", "reset dev --latest"],
    );
    assert_eq!(site.ask("dev", "select count(*) from mine"), "0");
    site.array.good(&["database", "reset", "dev", "--latest", "--yes"]);
    assert_eq!(site.ask("dev", "select count(*) from pg_tables where tablename = 'mine'"), "0");
    // Without its source there is nothing to make it of.
    site.ask("dev", "create table mine (x int)");
    site.array.good(&["database", "stop", "prod"]);
    site.array.refused(&["volume", "delete", "prod-data", "--yes"], &["is of database `prod`"]);
    site.array.good(&["detach", "prod-data"]);
    site.array.good(&["volume", "delete", "prod-data", "--yes", "--force"]);
    site.array
        .refused(&["database", "reset", "dev", "--latest", "--yes"], &["volume `prod-data` does not exist"]);
    assert_eq!(site.ask("dev", "select count(*) from mine"), "0");
}

/// A page of a table is damaged, and nobody read it since.
#[test]
fn a_snapshot_is_proven_or_told_to_be_damaged() {
    let Some((array, _mounted)) =
        support::array_for_databases_in("2GiB", |array| support::on_small_state(array, "16m"))
    else {
        return;
    };
    let site = Site { array };
    site.make("prod", &[]);
    site.ask("prod", "create table accounts as select generate_series(1, 10000) as x");
    site.array.good(&["database", "snapshot", "prod", "good"]);
    let proof = site.array.json(&["database", "verify", "prod@good"]);
    assert_eq!((&proof["snapshot"], &proof["findings"]), (&"good".into(), &serde_json::json!([])), "{proof}");
    let shown = site.array.good(&["database", "show", "prod"]);
    assert!(shown.contains("good: proven") && shown.contains("0 errors"), "{shown}");

    let file = site.ask("prod", "select pg_relation_filepath('accounts')");
    site.array.good(&["database", "stop", "prod"]);
    let path = site.array.state().join("databases/prod/data/pgdata").join(file);
    let opened = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&opened, b"rubbish", 3 * 8192 + 4000).unwrap();
    opened.sync_all().unwrap();
    site.array.good(&["database", "snapshot", "prod", "bad"]);
    let done = site.array.run(&["database", "verify", "prod@bad"]);
    assert_eq!(done.status, 4, "{}{}", done.out, done.err);
    assert!(done.out.contains("relation accounts in database postgres, block 3"), "{}", done.out);
    site.array.wait_for_events(&["bad is not proven"]);
    let proofs = site.array.json(&["database", "show", "prod"])["proofs"].clone();
    assert_eq!(proofs.as_array().unwrap().len(), 2, "{proofs}");
    // The one before is as good as it was, and nothing of the proofs is left.
    assert_eq!(site.array.json(&["database", "verify", "prod@good"])["findings"], serde_json::json!([]));
    site.array.refused(&["database", "verify", "prod@never"], &["snapshot `never` does not exist"]);
    check_full_state(&site);
    assert_eq!(site.array.json(&["snapshot", "list"]).as_array().unwrap().len(), 2);
    site.check_nothing_else(&["prod"]);
}

/// Programs whose words nobody can write down have found nothing. The harm: a whole database was called
/// damaged, and PostgreSQL missing.
fn check_full_state(site: &Site) {
    let filler = site.array.state().join("filler");
    let _ = std::fs::write(&filler, vec![0_u8; 16 << 20]);
    for words in [&["verify", "prod@good"][..], &["clone", "prod", "dev"]] {
        let words = [&["database"], words].concat();
        site.array.refused(&words, &[&site.array.state().display().to_string(), "free space"]);
    }
    std::fs::remove_file(filler).unwrap();
    assert_eq!(site.array.json(&["database", "verify", "prod@good"])["findings"], serde_json::json!([]));
}

/// The harm: such a snapshot was called damaged, or its proof never ended.
#[test]
fn what_a_database_asks_of_its_sessions_does_not_fail_its_proof() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &[]);
    site.array.good(&["database", "settings", "prod", "max_prepared_transactions=4", "--restart"]);
    site.ask("prod", "create table t as select generate_series(1, 10000) as x");
    site.ask("prod", "begin; lock table t in access exclusive mode; prepare transaction 'it''s held'");
    site.ask("prod", "alter system set synchronous_standby_names = 'nobody'");
    let of_sessions = ["statement_timeout = '50ms'", "default_transaction_read_only = on"];
    for setting in of_sessions {
        site.ask("prod", &format!("alter database postgres set {setting}"));
    }
    site.array.good(&["database", "clone", "prod", "dev", "--password"]);
    assert_eq!(site.ask("dev", "show synchronous_standby_names"), "");
    site.array.good(&["database", "delete", "dev", "--yes"]);
    let proof = site.array.json(&["database", "verify", "prod"]);
    assert_eq!(proof["findings"], serde_json::json!([]), "{proof}");
    assert!(proof["notes"].to_string().contains("1 prepared transactions are open in it"), "{proof}");
    site.check_nothing_else(&["prod"]);
}

/// The majors that are installed here.
fn majors() -> Vec<String> {
    let homes =
        ["/usr/lib/postgresql", "/opt/postgresql"].map(std::fs::read_dir).into_iter().flatten().flatten();
    let there = homes.flatten().filter(|home| home.path().join("bin/postgres").is_file());
    let names = there.map(|home| home.file_name().to_string_lossy().into_owned());
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

#[test]
fn every_major_that_is_installed_is_cloned_and_proven() {
    let Some(site) = Site::new() else { return };
    let majors = majors();
    assert!(!majors.is_empty(), "make test installs one");
    for major in &majors {
        let (name, clone) = (format!("pg{major}"), format!("pg{major}-dev"));
        site.make(&name, &["--version", major]);
        site.ask(&name, "create table t as select generate_series(1, 1000) as x");
        site.array.good(&["database", "clone", &name, &clone]);
        assert_eq!(site.ask(&clone, "show server_version").split('.').next(), Some(major.as_str()));
        site.ask(&clone, "delete from t");
        assert_eq!([&name, &clone].map(|one| site.ask(one, "select count(*) from t")), ["1000", "0"]);
        site.array.good(&["database", "reset", &clone, "--yes"]);
        assert_eq!(site.ask(&clone, "select count(*) from t"), "1000");
        let proof = site.array.json(&["database", "verify", &name]);
        assert_eq!(proof["findings"], serde_json::json!([]), "{proof}");
        let shown = site.array.json(&["database", "show", &clone]);
        assert_eq!(shown["major_version"].to_string(), *major);
        // Two sessions at work, and what they wait for.
        let waits = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| site.ask(&clone, "select pg_sleep(4)"));
            }
            std::thread::sleep(Duration::from_millis(700));
            site.array.good(&["database", "waits", &clone, "--time", "1s"])
        });
        assert!(waits.contains("Timeout:PgSleep") && waits.contains("100 % the server itself"), "{waits}");
    }
}

#[test]
fn databases_outlive_a_killed_array_and_stop_before_one_that_stops() {
    let Some(mut site) = Site::new() else { return };
    site.make("prod", &[]);
    site.ask("prod", "create table t (x int)");
    let before = site.processes("prod");
    site.array.kill();
    assert_eq!(site.processes("prod")[0], before[0]);
    site.array.start();
    site.ask("prod", "insert into t values (1)");
    assert_eq!(site.processes("prod")[0], before[0], "the same server");

    assert_eq!(site.array.terminate(), Some(0));
    assert!(site.processes("prod").is_empty(), "stopped before the array");
    site.array.start();
    site.settle();
    assert_eq!(site.ask("prod", "select count(*) from t"), "1");

    // Its server dies alone.
    let server = site.processes("prod")[0];
    rustix::process::kill_process(server, rustix::process::Signal::KILL).unwrap();
    site.array.wait_for_log("database prod: its server runs again", 2);
    site.settle();
    assert_eq!(site.ask("prod", "select count(*) from t"), "1");

    site.array.good(&["stop", "--detach"]);
    site.array.start_after_stop();
    site.settle();
    assert_eq!(site.ask("prod", "select count(*) from t"), "1");
}

/// An array was killed in a restore, between the unmount and the end of the device: the next one took the
/// volume for mounted, and its database did not start any more.
#[test]
fn a_volume_that_was_unmounted_is_mounted_again_before_the_server_starts() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &[]);
    site.array.good(&["database", "stop", "prod"]);
    let mount = site.array.state().join("databases/prod/data");
    assert!(Command::new("umount").arg(&mount).status().unwrap().success());
    site.array.good(&["database", "start", "prod"]);
    assert_eq!(site.ask("prod", "select 1"), "1");
    // One that takes no writes, as after an error on a full pool.
    site.array.good(&["database", "stop", "prod"]);
    let mut read_only = Command::new("mount");
    assert!(read_only.args(["-o", "remount,ro"]).arg(&mount).status().unwrap().success());
    site.array.good(&["database", "start", "prod"]);
    site.ask("prod", "create table t (x int)");
    assert_eq!(site.ask("prod", "select count(*) from t"), "0");
    // A person who stands in its directory is no server.
    site.array.good(&["database", "stop", "prod"]);
    let mut person = Command::new("sleep").arg("60").current_dir(mount.join("pgdata")).spawn().unwrap();
    assert_eq!(site.states(), [("prod".to_string(), "stopped".to_string())]);
    site.array.good(&["database", "start", "prod"]);
    assert_eq!(site.ask("prod", "select count(*) from t"), "0");
    person.kill().unwrap();
    person.wait().unwrap();
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &[]);
    let port = site.array.json(&["database", "show", "prod"])["port"].to_string();
    let refused = |words: &[&str], said: &[&str]| {
        site.array.refused(&[&["database"], words].concat(), said);
        site.check_nothing_else(&["prod"]);
    };
    refused(&["create", "prod"], &["database `prod` exists"]);
    refused(&["create", "a/b"], &["cannot be the name of a database"]);
    refused(&["create", "other", "--port", &port], &[&format!("port {port} is taken by database `prod`")]);
    refused(&["create", "other", "--version", "9"], &["PostgreSQL 9 is needed"]);
    refused(&["create", "other", "--size", "1MiB"], &["too small", "256 MiB"]);
    refused(&["create", "other", "--pool", "none"], &["none"]);
    refused(&["clone", "nothing", "dev"], &["database `nothing` does not exist"]);
    refused(&["clone", "prod", "dev", "--at", "never"], &["snapshot `never` does not exist"]);
    refused(&["reset", "prod", "--yes"], &["no clone", "restore"]);
    refused(&["restore", "prod", "--to", "never", "--yes"], &["snapshot `never` does not exist"]);
    refused(&["delete", "nothing", "--yes"], &["database `nothing` does not exist"]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().port().to_string();
    refused(&["clone", "prod", "dev", "--port", &taken], &["taken by another program"]);
    refused(&["clone", "prod", "dev", "--port", "80"], &["port 80", "1024 to 65535"]);
    refused(&["create", &"x".repeat(47)], &["too long", "46 bytes"]);
    let spaces: Vec<String> = (0..40).map(|number| format!("--tablespace=space{number}=64MiB")).collect();
    let spaces: Vec<&str> = spaces.iter().map(String::as_str).collect();
    refused(&[&["create", "other"][..], &spaces].concat(), &["too many", "fewer tablespaces"]);
    // A link of the source that leads elsewhere is no clone's.
    let outside = site.array.path("outside");
    std::fs::create_dir(&outside).unwrap();
    let link = site.array.state().join("databases/prod/data/pgdata/elsewhere");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    rustix::fs::syncfs(std::fs::File::open(link.parent().unwrap()).unwrap()).unwrap();
    refused(&["clone", "prod", "dev"], &["elsewhere leads to", "outside of the copy"]);
    std::fs::remove_file(link).unwrap();
    site.array.good(&["volume", "create", "free", "--size", "64MiB"]);
    site.array.good(&["snapshot", "create", "free-then", "free"]);
    site.array.refused(&["database", "clone", "prod", "dev", "--at", "free-then"], &["does not hold volume"]);
    site.array.good(&["snapshot", "delete", "free-then", "--yes"]);
    site.array.good(&["volume", "delete", "free", "--yes"]);
    site.check_nothing_else(&["prod"]);
}

/// Wherever the array is killed within an operation, its next start leaves nothing half made.
#[test]
fn an_operation_that_is_cut_short_is_finished_or_undone() {
    let Some(mut site) = Site::new() else { return };
    site.make("prod", &[]);
    site.ask("prod", "create table t as select generate_series(1, 1000) as x");
    site.array.good(&["database", "clone", "prod", "dev"]);
    let operations: [&[&str]; 6] = [
        &["clone", "prod", "next"],
        &["reset", "dev", "--latest", "--yes"],
        &["restore", "prod", "--to", "good", "--yes"],
        &["create", "next", "--size", "1GiB"],
        &["delete", "next", "--yes"],
        &["verify", "prod@good"],
    ];
    site.array.good(&["database", "snapshot", "prod", "good"]);
    for (round, operation) in operations.iter().cycle().take(18).enumerate() {
        let has_next = site.states().iter().any(|(name, _)| name == "next");
        match (operation[0], has_next) {
            ("clone" | "create", true) => drop(site.array.good(&["database", "delete", "next", "--yes"])),
            ("delete", false) => drop(site.array.good(&["database", "clone", "prod", "next"])),
            _ => {}
        }
        cut_short(&mut site, operation, Duration::from_millis(60 * (round as u64 % 9) + 20));
        site.settle();
        let states = site.states();
        assert!(states.len() >= 2, "{round}: {states:?}");
        for (name, _) in states.iter().filter(|(name, _)| name != "next") {
            let told = site.ask(name, "select count(*) from t");
            assert_eq!(told, "1000", "{round}: {name} after {operation:?}");
        }
    }
    if site.states().iter().any(|(name, _)| name == "next") {
        site.array.good(&["database", "delete", "next", "--yes"]);
    }
    site.check_nothing_else(&["dev", "prod"]);
    // Of the snapshots that were taken for clones the one of the clone that is there.
    let snapshots = site.array.json(&["snapshot", "list"]);
    let names = snapshots.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    let origins: Vec<&str> = names.filter(|name| name.contains(".origin")).collect();
    assert!(origins.len() == 1 && origins[0].starts_with("dev.origin"), "{origins:?}");
}

fn cut_short(site: &mut Site, operation: &[&str], after: Duration) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.arg("--state").arg::<&Path>(site.array.state()).arg("database").args(operation);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    site.array.kill();
    child.wait().unwrap();
    site.array.start();
}

#[test]
fn tablespaces_and_temporary_files_have_volumes_of_their_own() {
    let Some(site) = Site::new() else { return };
    site.make(
        "prod",
        &["--tablespace", "fast=256MiB", "--tablespace", "old=256MiB", "--temp-size", "256MiB"],
    );
    site.ask(
        "prod",
        "create table f tablespace fast as select n, repeat('x', 100) as x from generate_series(1, 20000) n; \
         create index on f (n) tablespace old; create table o tablespace old as select 1 as n",
    );
    site.array.good(&["database", "clone", "prod", "dev"]);
    let snapshot = site.array.json(&["snapshot", "show", "dev.origin"]);
    let held = snapshot["volumes"].to_string();
    assert!(held.contains("prod-tablespace-fast") && !held.contains("prod-temp"), "{held}");
    for name in ["dev", "prod"] {
        // A sort that does not fit into memory goes to its own volume.
        let temp = site.array.state().join("databases").join(name).join("temp/files");
        let spilled = site.ask(
            name,
            "set work_mem = '64kB'; set log_temp_files = 0; \
             select count(*) from (select x, n from f order by x, n desc limit 15000) s",
        );
        assert_eq!(spilled, "15000");
        let link = site.array.state().join("databases").join(name).join("data/pgdata/base/pgsql_tmp");
        assert_eq!(std::fs::read_link(link).unwrap(), temp);
        assert_ne!(site.ask(name, "select temp_files from pg_stat_database where datname = 'postgres'"), "0");
        // What rewrites files, moves them, and removes them, in the one and then in the other.
        for statement in ["vacuum full f", "alter table f set tablespace old", "drop table o"] {
            site.ask(name, statement);
        }
        site.ask(name, "delete from f where n % 2 = 0");
        assert_eq!(site.ask(name, "select count(*) from f"), "10000");
    }
    for name in ["dev", "prod"] {
        site.array.good(&["database", "verify", name]);
    }
    site.array.good(&["database", "reset", "dev", "--yes"]);
    assert_eq!(site.ask("dev", "select count(*) from o"), "1");
    assert_eq!(site.ask("prod", "select count(*) from f"), "10000");
}

/// The harm: a tablespace that was made just before a snapshot is in its log, and not in its links. The
/// clone's recovery made the link, and an update in the clone emptied a table of its source.
#[test]
fn a_copy_writes_nowhere_but_into_its_own_volumes() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &[]);
    site.array.good(&["database", "clone", "prod", "dev"]);
    let owner = std::fs::metadata(site.array.state().join("databases/prod/data/pgdata")).unwrap();
    // In /tmp it may.
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let [open, far] = ["open", "far"].map(|name| {
        use std::os::unix::fs::MetadataExt;
        let path = outside.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        path
    });
    let write = format!("copy (select 1) to '{}/x'", open.display());
    site.ask("prod", &write);
    let address = Address::Url(site.url("dev"));
    let refused = Session::open(&address, "test", PATIENCE).unwrap().run(&write).unwrap_err().to_string();
    assert!(refused.contains("Read-only file system"), "{refused}");

    site.ask("prod", &format!("create tablespace far location '{}'", far.display()));
    site.ask("prod", "create table t tablespace far as select generate_series(1, 5000) as x");
    let done = site.array.run(&["database", "clone", "prod", "twin"]);
    assert_eq!(done.status, 1, "{}{}", done.out, done.err);
    // Its recovery may not come so far.
    let told = ["tablespace outside of its volumes", "outside of the copy", "Read-only file system"];
    assert!(told.iter().any(|word| done.err.contains(word)), "{}", done.err);
    assert_eq!(site.ask("prod", "select count(*) from t"), "5000");
    site.check_nothing_else(&["dev", "prod"]);
}

#[test]
fn a_server_does_not_see_the_files_of_another_database() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &[]);
    site.array.good(&["database", "clone", "prod", "dev"]);
    let directory = |name: &str| site.array.state().join("databases").join(name);
    let mut memory = Vec::new();
    for (name, other) in [("dev", "prod"), ("prod", "dev")] {
        let own = directory(name).join("data/pgdata");
        assert_eq!(site.ask(name, &format!("select isdir from pg_stat_file('{}')", own.display())), "t");
        let foreign = directory(other).join("data/pgdata/PG_VERSION");
        let seen = site.ask(name, &format!("select pg_stat_file('{}', true) is null", foreign.display()));
        assert_eq!(seen, "t", "{name} sees {}", foreign.display());
        // Also by a program that its superuser starts.
        let listed = |directory: &Path| {
            let list =
                format!("copy t from program 'ls {}/data/pgdata 2>/dev/null; true'", directory.display());
            let found = "select count(*) from t where x = 'PG_VERSION'";
            site.ask(name, &format!("create temp table t (x text); {list}; {found}"))
        };
        assert_eq!((listed(&directory(name)), listed(&directory(other))), ("1".to_string(), "0".to_string()));
        // Nor by way of the other server's process, which has the same account.
        for process in site.processes(other) {
            let place = format!("/proc/{}/root/", process.as_raw_nonzero());
            let ask = "select count(*) from t where x like '%Permission denied'";
            let list = format!("copy t from program 'ls {place} 2>&1; true'");
            assert_eq!(
                site.ask(name, &format!("create temp table t (x text); {list}; {ask}")),
                "1",
                "{place}"
            );
        }
        let list = "create temp table t (x text); copy t from program 'ls /dev/shm'; select x from t";
        memory.push(site.ask(name, &format!("{list} order by x limit 1")));
    }
    assert!(memory[0].starts_with("PostgreSQL.") && memory[0] != memory[1], "{memory:?}");
    // One is stopped and mounted anew while the other runs on.
    site.array.good(&["database", "stop", "prod"]);
    site.array.good(&["detach", "prod-data"]);
    site.array.good(&["database", "start", "prod"]);
    assert_eq!(site.ask("dev", "select 1"), "1");
}

#[test]
fn settings_and_sizes_change_while_a_database_runs() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &["--log-size", "256MiB"]);
    let changed = site.array.json(&["database", "settings", "prod", "work_mem=9MB", "max_connections=37"]);
    assert_eq!(changed["waiting_for_restart"], serde_json::json!(["max_connections"]));
    assert_eq!(site.ask("prod", "show work_mem"), "9MB");
    let shown = site.array.good(&["database", "settings", "prod", "--restart"]);
    assert!(shown.contains("max_connections = 37") && !shown.contains("next start"), "{shown}");
    assert_eq!(site.ask("prod", "show max_connections"), "37");
    for (wrong, why) in [
        ("work_mem=much", "invalid value for parameter \"work_mem\""),
        ("no_such=1", "unrecognized configuration parameter \"no_such\""),
        ("port=1", "Ashlar's own"),
        ("Port=1", "Ashlar's own"),
    ] {
        site.array.refused(&["database", "settings", "prod", wrong], &[why]);
    }
    // What the server does not start with is not kept.
    let unable = ["database", "settings", "prod", "shared_preload_libraries=no_such", "--restart"];
    site.array.refused(&unable, &["no_such", "it runs again as it was before"]);
    assert_eq!(site.ask("prod", "show shared_preload_libraries"), "");
    let port = free_port();
    site.array.refused(&["database", "settings", "prod", "--port", &port], &["--restart"]);
    site.array.good(&["database", "settings", "prod", "--port", &port, "--restart"]);
    assert!(site.url("prod").contains(&format!(":{port}/")), "{}", site.url("prod"));
    assert_eq!(site.ask("prod", "show port"), port);
    site.array.good(&["database", "settings", "prod", "shared_buffers=64MB", "--restart"]);
    site.array.good(&["database", "clone", "prod", "dev"]);
    assert_eq!(site.ask("dev", "show work_mem"), "9MB");
    assert_eq!(site.ask("dev", "show shared_buffers"), "32MB");

    let limited = ["database", "clone", "prod", "small", "--memory", "256MiB", "--cores", "0.5"];
    let small = site.array.json(&limited);
    let postmaster = site.processes("small")[0];
    let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", postmaster.as_raw_nonzero())).unwrap();
    // A kernel that limits nothing is told.
    assert_eq!(groups.contains("ashlar-postgres-"), small["notes"].is_null(), "{groups} {small}");
    assert_eq!(small["database"]["memory_bytes"], 256 << 20);
    assert_eq!(site.ask("small", "select 1"), "1");
    site.array
        .refused(&["database", "clone", "prod", "tiny", "--memory", "1MiB"], &["too little", "128 MiB"]);

    let resize = ["database", "resize", "prod", "--size", "3GiB", "--log-size", "512MiB"];
    let done = site.array.run(&resize);
    if done.status != 0 {
        let said = done.err;
        // Growing a mounted ext4 takes a right that root may lack, as in containers.
        assert!(said.contains("CAP_SYS_RESOURCE") && said.contains("ashlar database stop prod"), "{said}");
        site.array.good(&["database", "stop", "prod"]);
        site.array.good(&resize);
        site.array.good(&["database", "start", "prod"]);
    }
    for (mount, at_least) in [("data", 2800 << 20), ("log", 400 << 20)] {
        let place = site.array.state().join("databases/prod").join(mount);
        let found = rustix::fs::statvfs(&place).unwrap();
        assert!(found.f_blocks * found.f_frsize > at_least, "{mount}: {} blocks", found.f_blocks);
    }
    site.array.refused(&["database", "resize", "prod", "--size", "1GiB"], &["it only grows"]);
    assert_eq!(site.ask("prod", "select 1"), "1");
}

fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// Makes a certificate of its own for a server, and the key of it.
fn make_certificate(data: &Path, passphrase: &str) {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=localhost"]);
    command.arg("-passout").arg(format!("pass:{passphrase}")).arg("-keyout").arg(data.join("server.key"));
    let done = command.arg("-out").arg(data.join("server.crt")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let owner = std::fs::metadata(data).unwrap();
    for name in ["server.key", "server.crt"] {
        use std::os::unix::fs::MetadataExt;
        std::fs::set_permissions(data.join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(data.join(name), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    // A snapshot holds what was written out.
    rustix::fs::syncfs(std::fs::File::open(data).unwrap()).unwrap();
}

/// A server asks a program for the passphrase of its key, which takes three seconds while a file is there: so
/// long none of it is ready.
/// A file of a database: while it is there the server takes three seconds to start, and that of a copy, too.
struct Slow {
    path: PathBuf,
}

impl Slow {
    fn of(site: &Site, database: &str) -> Slow {
        Slow { path: site.array.state().join("databases").join(database).join("data/pgdata/slow") }
    }

    fn set(&self, is_slow: bool) {
        match is_slow {
            true => std::fs::write(&self.path, "").unwrap(),
            false => std::fs::remove_file(&self.path).unwrap(),
        }
        // A snapshot has what is written down.
        rustix::fs::syncfs(std::fs::File::open(self.path.parent().unwrap()).unwrap()).unwrap();
    }
}

#[test]
fn a_start_that_takes_too_long_is_ended() {
    let Some(site) = Site::new() else { return };
    if !support::has_program("openssl") {
        return;
    }
    site.make("prod", &[]);
    site.ask("prod", "create table t as select 7 as x");
    make_certificate(&site.array.state().join("databases/prod/data/pgdata"), "secret");
    // The server works in its data directory; a copy whose settings name a file elsewhere would be refused.
    let program = "ssl_passphrase_command=n=0; while [ -e slow ] && [ $n -lt 30 ]; do sleep 0.1; \
                   n=$((n+1)); done; echo secret";
    let slow = Slow::of(&site, "prod");
    site.array.good(&["database", "settings", "prod", "ssl=on", program]);
    site.array.misused(&["database", "start", "prod", "--start-timeout", "soon"], &["`soon` is no time"]);
    site.array
        .refused(&["database", "start", "prod", "--start-timeout", "2d"], &["cannot be given 172800 s"]);

    slow.set(true);
    let late = "its server did not start within 1 s";
    let clone = ["database", "clone", "prod", "dev", "--start-timeout"];
    site.array.refused(&[&clone[..], &["1s"]].concat(), &[late, "nothing of it is left", "--start-timeout"]);
    site.check_nothing_else(&["prod"]);
    assert_eq!(site.array.json(&["snapshot", "list"]), serde_json::json!([]));
    slow.set(false);
    let made = site.array.json(&[&clone[..], &["30s"]].concat());
    assert_eq!(made["database"]["start_timeout_seconds"], 30);
    assert_eq!(site.ask("dev", "select x from t"), "7");

    // A reset that is too late: the clone is stopped, says why, and the next start goes on with it.
    slow.set(true);
    site.array.refused(
        &["database", "reset", "dev", "--latest", "--start-timeout", "1s", "--yes"],
        &[late, "it stays stopped"],
    );
    let shown = site.array.json(&["database", "show", "dev"]);
    assert_eq!(
        (&shown["state"], &shown["start_timeout_seconds"]),
        (&"stopped".into(), &30.into()),
        "{shown}"
    );
    assert!(shown["reason"].as_str().unwrap().contains(late), "{shown}");
    assert!(site.processes("dev").is_empty());
    site.array.refused(&["database", "snapshot", "dev", "no"], &["in the middle of its reset", late]);
    site.array.good(&["database", "stop", "prod"]);
    site.array.refused(&["database", "start", "prod", "--start-timeout", "1s"], &[late, "it stays stopped"]);
    slow.set(false);
    let text = site.array.good(&["database", "show", "prod"]);
    assert!(text.contains("stopped") && text.contains(late), "{text}");
    for name in ["dev", "prod"] {
        let started = site.array.json(&["database", "start", name]);
        assert!(started["database"]["reason"].is_null(), "{started}");
        assert_eq!(site.ask(name, "select x from t"), "7");
    }
}

#[test]
fn a_volume_that_is_nearly_full_grows_by_itself() {
    let Some(site) = Site::new() else { return };
    site.array.good(&["database", "create", "prod", "--size", "256MiB", "--auto-grow"]);
    let place = site.array.state().join("databases/prod/data");
    let size = || {
        let found = rustix::fs::statvfs(&place).unwrap();
        (found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
    };
    let before = size().0;
    let shown = site.array.json(&["database", "show", "prod"])["auto_grow"].clone();
    assert_eq!(shown, serde_json::json!({"at_percent": 85, "step_percent": 25}));
    site.array.good(&["database", "resize", "prod", "--no-auto-grow"]);
    assert!(site.array.json(&["database", "show", "prod"])["auto_grow"].is_null());
    site.array.refused(&["database", "resize", "prod"], &["no size is named"]);

    let filler = std::fs::File::create(place.join("filler")).unwrap();
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&filler, flags, 0, size().1 - (16 << 20)).unwrap();
    drop(filler);
    site.array.good(&["database", "resize", "prod", "--auto-grow-max", "256MiB"]);
    site.array.wait_for_events(&["volume prod-data is nearly full and has its largest size, 256 MiB"]);
    site.array.good(&["database", "resize", "prod", "--auto-grow", "--auto-grow-max", "1GiB"]);
    let volume = || site.array.json(&["volume", "show", "prod-data"])["size_bytes"].as_u64().unwrap();
    let end = Instant::now() + PATIENCE;
    while volume() == 256 << 20 {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    site.settle();
    assert_eq!(volume(), 320 << 20);
    let text = site.array.good(&["database", "show", "prod"]);
    assert!(text.contains("at 85 % by 25 %, up to 1 GiB"), "{text}");
    // Growing a mounted ext4 takes a right that root may lack, as in containers: then before the next start.
    let waiting = || site.array.json(&["database", "show", "prod"])["auto_grow"]["waiting"].clone();
    while size().0 == before && !site.array.log().contains("its file system does not grow") {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    if size().0 == before {
        assert_eq!(waiting(), serde_json::json!(["prod-data"]));
        site.array.wait_for_events(&["CAP_SYS_RESOURCE; without it `ashlar database stop prod`"]);
        site.array.good(&["database", "stop", "prod"]);
        site.array.good(&["database", "start", "prod"]);
        site.array.wait_for_events(&["the file system of volume prod-data has grown"]);
    } else {
        site.array.wait_for_events(&["grown from 256 MiB to 320 MiB"]);
    }
    assert!(size().0 > before + (50 << 20), "{} of {before}", size().0);
    assert!(waiting().is_null());
    assert_eq!(site.ask("prod", "select 1"), "1");
    assert_eq!(volume(), 320 << 20, "once");
}

/// A server that Ashlar does not know: it writes two files that agree whenever it holds still.
const SERVER: &str = "cd \"$ASHLAR_DATA\" || exit 1\n\
    n=0\n\
    while [ ! -e stop ]; do\n\
    while [ -e freeze ]; do touch frozen; sleep 0.02; done; rm -f frozen\n\
    n=$((n+1)); echo $n > a; sync a; sleep 0.1; echo $n > b; sync b; sleep 0.01\n\
    done\n";
const START: &str = "cd \"$ASHLAR_DATA\" && rm -f stop freeze frozen && \
    { nohup sh DIR/server >/dev/null 2>&1 & } && echo $! > pid && echo $ASHLAR_DATABASE > name";
const STOP: &str =
    "cd \"$ASHLAR_DATA\" && touch stop && while kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done";
const FREEZE: &str = "cd \"$ASHLAR_DATA\" && touch freeze && while [ ! -e frozen ]; do sleep 0.02; done; \
    sync -f \"$ASHLAR_DATA\"";

fn write_scripts(site: &Site) -> Vec<String> {
    let directory = site.array.path("scripts");
    let shown = directory.display().to_string();
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let scripts = [
        ("server", SERVER),
        ("start", START),
        ("stop", STOP),
        ("freeze", FREEZE),
        ("thaw", "rm -f \"$ASHLAR_DATA/freeze\"; id -un > \"$ASHLAR_DATA/who\""),
        ("check", "cmp \"$ASHLAR_DATA/a\" \"$ASHLAR_DATA/b\""),
    ];
    for (name, text) in scripts {
        std::fs::write(directory.join(name), text.replace("DIR", &shown)).unwrap();
    }
    let command = |name: &str| [format!("--{name}"), format!("sh {shown}/{name}")];
    ["start", "stop", "freeze", "thaw", "check"].into_iter().flat_map(command).collect()
}

// tidy: long because it is one story of one server.
#[test]
fn a_server_that_ashlar_does_not_know_holds_still_for_snapshots() {
    let Some(mut site) = Site::new() else { return };
    let scripts = write_scripts(&site);
    let commands: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let create = ["database", "create", "files", "--engine", "none", "--size", "256MiB"];
    let refused = |more: &[&str], said: &[&str]| site.array.refused(&[&create[..], more].concat(), said);
    refused(&["--freeze", "true", "--thaw", "true"], &["no account to run as", "root only where you say so"]);
    refused(&["--account", "no-such", "--start", "true"], &["no account `no-such`"]);
    refused(&["--version", "15"], &["leave them out"]);
    site.array.misused(&[&create[..], &["--freeze", "true"]].concat(), &["--thaw"]);
    site.check_nothing_else(&[]);
    let made = site.array.good(&[&create[..], &["--account", "nobody"], &commands[..]].concat());
    let data = site.array.state().join("databases/files/data");
    assert_eq!(made.lines().next().unwrap(), data.display().to_string());
    let shown = site.array.good(&["database", "show", "files"]);
    assert!(shown.contains("freeze, thaw, start, stop, check as nobody, within 30 s"), "{shown}");
    let has = |path: &Path| path.exists();
    let end = Instant::now() + PATIENCE;
    while !has(&data.join("b")) {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(20));
    }

    // Held still its two files agree; behind its back they do not.
    for _ in 0..2 {
        let proof = site.array.json(&["database", "verify", "files"]);
        assert_eq!(proof["findings"], serde_json::json!([]), "{proof}");
    }
    assert_eq!(std::fs::read_to_string(data.join("who")).unwrap(), "nobody\n");
    let is_torn = (0..20).any(|number| {
        let name = format!("raw{number}");
        site.array.good(&["snapshot", "create", &name, "files-data"]);
        site.array.run(&["database", "verify", &format!("files@{name}")]).status == 4
    });
    assert!(is_torn, "the check finds nothing");
    // Other commands, and those it had again; what is not named is none any more.
    let change = ["database", "commands", "files", "--account", "nobody"];
    let shown = site.array.good(&[&change[..], &["--check", "exit 3"]].concat());
    assert!(shown.contains("check as nobody, within 30 s") && !shown.contains("freeze"), "{shown}");
    assert_eq!(site.array.run(&["database", "verify", "files"]).status, 4, "the new one is asked");
    site.array.misused(&["database", "commands", "files", "--check", "true"], &["--account"]);
    let other = ["database", "commands", "files", "--account", "root", "--check", "true"];
    site.array.refused(&other, &["those of account `nobody`"]);
    site.array.good(&[&change[..], &commands[..]].concat());
    assert_eq!(site.array.json(&["database", "verify", "files"])["findings"], serde_json::json!([]));

    site.array.good(&["database", "clone", "files", "copy"]);
    let copy = site.array.state().join("databases/copy/data");
    assert_eq!(std::fs::read_to_string(copy.join("name")).unwrap(), "copy\n");
    site.array.good(&["database", "snapshot", "files", "good"]);
    site.array.good(&["database", "restore", "files", "--to", "good", "--yes"]);
    site.array.good(&["database", "reset", "copy", "--latest", "--yes"]);

    // A freeze that fails, and one that an array is killed in.
    let freeze = site.array.path("scripts/freeze");
    std::fs::write(&freeze, "echo busy >&2; touch \"$ASHLAR_DATA/freeze\"; exit 3").unwrap();
    site.array.refused(
        &["database", "snapshot", "files", "no"],
        &["its command `freeze` failed with", "busy", "ran as nobody"],
    );
    assert!(!has(&data.join("freeze")), "it goes on");
    std::fs::write(&freeze, "touch \"$ASHLAR_DATA/freeze\"; sleep 60; touch \"$ASHLAR_DATA/freeze\"")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.arg("--state").arg(site.array.state()).args(["database", "snapshot", "files", "no"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !has(&data.join("freeze")) {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    site.array.kill();
    child.wait().unwrap();
    assert!(has(&site.array.state().join("databases/files/frozen")));
    site.array.start();
    site.array.wait_for_events(&["goes on: a snapshot that it held still for was cut short"]);
    assert!(!has(&data.join("freeze")) && !has(&site.array.state().join("databases/files/frozen")));
    site.array.refused(&["snapshot", "show", "no"], &["does not exist"]);
    std::fs::write(&freeze, FREEZE).unwrap();
    let proof = site.array.json(&["database", "verify", "files"]);
    assert_eq!(proof["findings"], serde_json::json!([]), "{proof}");
    site.array.good(&["database", "stop", "files"]);
    assert!(has(&data.join("stop")), "its command was run");
    site.array.good(&["database", "start", "files"]);
}

/// Behind a checkpoint a copy has next to nothing to replay.
#[test]
fn a_checkpoint_first_leaves_little_to_recover() {
    let Some(site) = Site::new() else { return };
    site.make("prod", &[]);
    let changed = || {
        site.ask("prod", "create table if not exists numbers as select generate_series(1, 100000) as n");
        site.ask("prod", "update numbers set n = n + 1");
        site.ask("prod", "select pg_current_wal_insert_lsn()")
    };
    let is_past = |name: &str, place: &str| {
        site.ask(name, &format!("select redo_lsn >= '{place}'::pg_lsn from pg_control_checkpoint()"))
    };
    let place = changed();
    site.array.good(&["database", "snapshot", "prod", "plain"]);
    assert_eq!(is_past("prod", &place), "f");
    site.array.good(&["database", "snapshot", "prod", "base", "--checkpoint"]);
    assert_eq!(is_past("prod", &place), "t");
    let place = changed();
    site.array.good(&["database", "clone", "prod", "dev", "--checkpoint"]);
    assert_eq!(is_past("prod", &place), "t");
    site.array.misused(&["database", "clone", "prod", "two", "--at", "base", "--checkpoint"], &["--at"]);
    let both = r#"{"name":"two","snapshot":"base","checkpoint":true}"#;
    let (status, answer) = site.array.http("POST", "/v1/databases/prod/clone", Some(both));
    assert!(status == 400 && answer.contains("a snapshot is named"), "{status} {answer}");
    site.array.good(&["database", "stop", "prod"]);
    // One that does not run has made its last checkpoint.
    site.array.good(&["database", "snapshot", "prod", "cold", "--checkpoint"]);
}
