//! Databases that are brought in from elsewhere: directories, base backups, dumps, standbys; and clones with
//! a password and SQL of their own.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Installation, Places, Search, Server, Session, Settings};
use ashlar_programs::Launcher;
use support::Array;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// An array with a pool, and a server elsewhere.
struct Site {
    // The source ends before the directory that it is in.
    source: Server,
    array: Array,
    password: String,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Site {
    fn new() -> Option<Site> {
        support::array_for_databases("3GiB").map(|array| {
            let password = "so:ur\\ce@1".to_string();
            let source = make_source(&array, &password);
            Site { source, array, password }
        })
    }

    fn data(&self) -> PathBuf {
        self.source.places().data.clone()
    }

    /// Where the source is found by this user.
    fn from(&self, user: &str, password: &str) -> String {
        let password: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("postgres://{user}:{password}@127.0.0.1:{}/postgres", self.source.places().port)
    }

    fn primary(&self) -> String {
        self.from("copier", &self.password)
    }

    fn good(&self, words: &[&str]) -> String {
        let done = self.array.run(&[&["database"], words].concat());
        assert_eq!(done.status, 0, "{words:?}: {}\n{}", done.err, self.array.log());
        assert!(!done.out.contains(&self.password), "{}", done.out);
        done.out
    }

    fn refused(&self, words: &[&str], said: &[&str]) {
        self.array.refused(&[&["database"], words].concat(), said);
    }

    fn url(&self, name: &str) -> String {
        self.array.good(&["database", "url", name]).trim().to_string()
    }

    fn ask(&self, name: &str, statement: &str) -> String {
        ask(&Address::Url(self.url(name)), statement)
    }

    fn states(&self) -> Vec<(String, String)> {
        let all = self.array.json(&["database", "list"]);
        let text = |one: &serde_json::Value, key: &str| one[key].as_str().unwrap().to_string();
        all.as_array().unwrap().iter().map(|one| (text(one, "name"), text(one, "state"))).collect()
    }

    fn settle(&self) {
        let end = Instant::now() + PATIENCE;
        while self.array.json(&["pool", "show", "main"])["state"] != "online" {
            assert!(Instant::now() < end, "{}", self.array.log());
            std::thread::sleep(LOOK);
        }
        while !self.states().iter().all(|(_, state)| state == "running") {
            assert!(Instant::now() < end, "{:?}\n{}", self.states(), self.array.log());
            std::thread::sleep(LOOK);
        }
    }

    /// Nothing is there but what these databases have.
    fn check_nothing_else(&self, databases: &[&str]) {
        let names: Vec<String> = self.states().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, databases);
        let volumes = self.array.json(&["volume", "list"]);
        let volumes: Vec<&str> =
            volumes.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        let is_known = |volume: &&str| {
            let owner = volume.strip_suffix("-data").or_else(|| volume.strip_suffix("-log"));
            let owner = owner.or_else(|| volume.split_once("-tablespace-").map(|(owner, _)| owner));
            owner.is_some_and(|owner| databases.contains(&owner))
        };
        assert!(volumes.iter().all(is_known), "{volumes:?}");
        let attached = self.array.json(&["status"])["attachment_count"].as_u64().unwrap();
        assert_eq!(attached as usize, volumes.len());
        let directory = self.array.state().join("databases");
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        let mut sites: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        sites.sort();
        assert_eq!(sites, databases);
    }

    fn spawn(&self, words: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
        command.arg("--state").arg::<&Path>(self.array.state()).arg("database").args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// No process, log or line of the array tells the password.
    fn check_silent(&self) {
        assert!(!self.array.log().contains(&self.password), "{}", self.array.log());
        let events = self.array.good(&["events"]);
        assert!(!events.contains(&self.password), "{events}");
        for (name, _) in self.states() {
            let log = self.array.state().join("databases").join(name).join("run/server.log");
            assert!(!std::fs::read_to_string(log).unwrap_or_default().contains(&self.password));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        support::end_databases(&self.array);
    }
}

/// A server whose log is in another place, whose first superuser is called `admin`, and which archives.
fn make_source(array: &Array, password: &str) -> Server {
    let words = array.path("words");
    std::fs::create_dir(&words).unwrap();
    let launcher = Arc::new(Launcher::new(PathBuf::from("/"), words, Arc::new(AtomicBool::new(false))));
    let installation = Installation::find(&launcher, &Search::default()).unwrap();
    let places = Places {
        data: array.path("source/data"),
        wal: Some(array.path("source/log")),
        tablespaces: Vec::new(),
        temporary: None,
        socket: array.path("source/run"),
        port: free_port(),
    };
    std::fs::create_dir(array.path("source")).unwrap();
    for directory in [&places.data, &places.socket].into_iter().chain(&places.wal) {
        installation.make_directory(directory).unwrap();
    }
    let mut command = installation.program("initdb");
    command.args([
        "-U",
        "admin",
        "--no-locale",
        "-E",
        "UTF8",
        "--auth-local=trust",
        "--auth-host=scram-sha-256",
    ]);
    command.arg("-D").arg(&places.data).arg("-X").arg(places.wal.as_ref().unwrap());
    launcher.run(command, PATIENCE).unwrap();
    let settings = Settings::new()
        .with("listen_addresses", "127.0.0.1")
        .with("fsync", false)
        .with("archive_mode", "on")
        .with("archive_command", "test ! -f /nowhere/%f");
    let mut server = Server::new(&installation, places, settings);
    server.set_superuser("admin");
    server.start().unwrap();
    let mut session = server.session().unwrap();
    session.run("alter system set listen_addresses = '127.0.0.1'").unwrap();
    session.run("create table t as select generate_series(1, 1000) as x").unwrap();
    let password = password.replace('\'', "''");
    session.run(&format!("create role copier login replication password '{password}'")).unwrap();
    session.run(&format!("create role reader login password '{password}'")).unwrap();
    server
}

fn ask(address: &Address, statement: &str) -> String {
    let rows = Session::open(address, "test", Duration::from_secs(30)).unwrap().run(statement).unwrap();
    rows.first().and_then(|row| row[0].clone()).unwrap_or_default()
}

#[test]
fn a_stopped_servers_directory_is_imported() {
    let Some(mut site) = Site::new() else { return };
    let data = site.data();
    let from = data.display().to_string();
    let import =
        |more: &[&str]| [&["import", "prod", "--from-directory", from.as_str()], more].concat().join(" ");
    let refused = |site: &Site, more: &[&str], said: &[&str]| {
        let words = import(more);
        site.refused(&words.split(' ').collect::<Vec<_>>(), said);
        site.check_nothing_else(&[]);
    };
    refused(&site, &[], &["a server works in", "--from postgres://"]);
    site.source.kill().unwrap();
    refused(&site, &[], &["not shut down in order: in production"]);
    site.source.start().unwrap();
    site.source.stop().unwrap();

    let version = std::fs::read_to_string(data.join("PG_VERSION")).unwrap();
    std::fs::write(data.join("PG_VERSION"), "13\n").unwrap();
    refused(&site, &[], &["PostgreSQL 13", "not installed"]);
    std::fs::write(data.join("PG_VERSION"), version).unwrap();
    refused(&site, &["--size", "128MiB"], &["its volume of data needs about", "--size"]);
    let large = std::fs::File::create(data.join("base/large")).unwrap();
    large.set_len(20 << 30).unwrap();
    refused(&site, &[], &["20", "are to be copied, and pool `main` has"]);
    std::fs::remove_file(data.join("base/large")).unwrap();
    symlink("/elsewhere", data.join("pg_tblspc/16999")).unwrap();
    refused(&site, &[], &["tablespace 16999", "leads to /elsewhere, which is not there"]);
    std::fs::remove_file(data.join("pg_tblspc/16999")).unwrap();
    let configuration = data.join("postgresql.conf");
    let aside = site.array.path("etc");
    std::fs::create_dir(&aside).unwrap();
    std::fs::rename(&configuration, aside.join("postgresql.conf")).unwrap();
    refused(&site, &[], &["holds no postgresql.conf", "--config"]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().port().to_string();
    refused(&site, &["--port", &taken], &["taken by another program"]);
    refused(&site, &["--config", "/nowhere"], &["/nowhere holds no postgresql.conf"]);
    site.refused(&["import", "prod", "--from-directory", "/etc"], &["no data directory", "PG_VERSION"]);

    let done = site.good(&[
        "import",
        "prod",
        "--from-directory",
        &from,
        "--config",
        aside.to_str().unwrap(),
        "--size",
        "1GiB",
        "--log-size",
        "512MiB",
    ]);
    assert!(done.starts_with("postgres://admin:") && done.contains("it archives nothing"), "{done}");
    assert_eq!(site.ask("prod", "select count(*) from t"), "1000");
    assert_eq!(site.ask("prod", "show listen_addresses"), "127.0.0.1");
    assert_eq!(site.ask("prod", "show archive_mode"), "off");
    let log = std::fs::read_link(site.array.state().join("databases/prod/data/pgdata/pg_wal")).unwrap();
    assert!(log.ends_with("databases/prod/log/pg_wal"), "{}", log.display());
    site.refused(&["import", "prod", "--from-directory", &from], &["database `prod` exists"]);
    // It is a database as any other, and its source is as it was.
    site.good(&["clone", "prod", "dev"]);
    assert_eq!(site.ask("dev", "select count(*) from t"), "1000");
    assert!(site.good(&["verify", "prod"]).contains("0 errors"));
    std::fs::rename(aside.join("postgresql.conf"), &configuration).unwrap();
    site.source.start().unwrap();
    assert_eq!(ask(&site.source.address(), "select count(*) from t"), "1000");
    site.check_nothing_else(&["dev", "prod"]);
}

/// Writes numbers one after the other for as long as it lives; the last that was acknowledged.
struct Ledger {
    last: Arc<AtomicI64>,
    is_over: Arc<AtomicBool>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl Ledger {
    fn begin(source: &Server) -> Ledger {
        let mut session = source.session().unwrap();
        session.run("create table ledger (id bigint primary key, filler text)").unwrap();
        let (last, is_over) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let (told, over) = (last.clone(), is_over.clone());
        let writer = std::thread::spawn(move || {
            let mut id = 0;
            while !over.load(Ordering::Relaxed) {
                id += 1;
                session.run(&format!("insert into ledger values ({id}, repeat('x', 500))")).unwrap();
                told.store(id, Ordering::Relaxed);
            }
        });
        Ledger { last, is_over, writer: Some(writer) }
    }

    fn last(&self) -> i64 {
        self.last.load(Ordering::Relaxed)
    }

    fn end(&mut self) -> i64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.writer.take().into_iter().for_each(|writer| writer.join().unwrap());
        self.last()
    }
}

/// The newest number, and nothing before it is missing.
fn newest(site: &Site, name: &str) -> i64 {
    let told = site.ask(name, "select count(*) || ' ' || coalesce(max(id), 0) from ledger");
    let (count, newest) = told.split_once(' ').unwrap();
    assert_eq!(count, newest, "{name}: the ledger has holes");
    newest.parse().unwrap()
}

#[test]
fn a_running_server_is_imported_and_followed_under_load() {
    let Some(site) = Site::new() else { return };
    let primary = site.primary();
    site.refused(
        &["follow", "prod", "--primary", &site.from("copier", "wrong")],
        &["password authentication failed"],
    );
    let reader = site.from("reader", &site.password);
    site.refused(&["import", "prod", "--from", &reader], &["replication", "alter role reader replication"]);
    let nobody = format!("postgres://u:p@127.0.0.1:{}/postgres", free_port());
    site.refused(&["import", "prod", "--from", &nobody], &["Connection refused"]);
    site.refused(&["import", "prod", "--from", "host=x"], &["does not begin with postgres://"]);
    site.refused(&["follow", "prod", "--primary", &primary, "--size", "256MiB"], &["needs about", "--size"]);
    site.check_nothing_else(&[]);

    let mut ledger = Ledger::begin(&site.source);
    let before = ledger.last();
    let done = site.good(&["import", "copy", "--from", &primary, "--size", "1GiB"]);
    assert!(done.contains("it archives nothing"), "{done}");
    assert!(newest(&site, "copy") >= before);
    assert_eq!(site.ask("copy", "select count(*) from t"), "1000");

    let before = ledger.last();
    let done =
        site.good(&["follow", "prod", "--primary", &primary, "--size", "1GiB", "--log-size", "512MiB"]);
    assert!(done.contains("slot ashlar_prod"), "{done}");
    // A clone of the standby is a primary with all that the standby had, while the load goes on.
    let end = Instant::now() + PATIENCE;
    while site.array.json(&["database", "show", "prod"])["standby"]["is_streaming"] != true {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(LOOK);
    }
    let cloned = site.array.json(&["database", "clone", "prod", "dev"]);
    assert!(newest(&site, "dev") >= before, "{cloned}");
    site.ask("dev", "insert into ledger select max(id) + 1 from ledger");
    let shown = site.good(&["list"]);
    assert!(shown.contains("standby, ") && shown.contains("behind"), "{shown}");
    assert!(site.good(&["verify", "prod"]).contains("0 errors"));

    let last = ledger.end();
    let standby = Address::SocketAs {
        directory: site.array.state().join("databases/prod/run"),
        port: site.array.json(&["database", "show", "prod"])["port"].as_u64().unwrap() as u16,
        database: "postgres".into(),
        user: "admin".into(),
    };
    let end = Instant::now() + PATIENCE;
    while ask(&standby, "select max(id) from ledger") != last.to_string() {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(LOOK);
    }
    site.good(&["clone", "prod", "exact"]);
    assert_eq!(newest(&site, "exact"), last);
    site.refused(&["reset", "prod", "--yes"], &["follows postgres://copier@", "promote prod"]);
    site.array.good(&["database", "snapshot", "prod", "then"]);
    site.refused(&["restore", "prod", "--to", "then", "--yes"], &["follows postgres://copier@"]);

    site.good(&["promote", "prod", "--yes"]);
    assert_eq!(newest(&site, "prod"), last);
    site.ask("prod", "create table mine (x int)");
    site.refused(&["promote", "prod", "--yes"], &["follows nobody"]);
    assert_eq!(ask(&site.source.address(), "select count(*) from pg_replication_slots"), "0");
    site.check_silent();
    site.check_nothing_else(&["copy", "dev", "exact", "prod"]);
}

/// Wherever the array is killed within an import, its next start leaves nothing of it, also on the primary.
#[test]
fn an_import_that_is_cut_short_leaves_nothing() {
    let Some(mut site) = Site::new() else { return };
    let primary = site.primary();
    let mut ready = 0;
    for round in 0..6_u64 {
        let words = match round % 2 {
            0 => ["follow", "next", "--primary", &primary, "--size", "1GiB"],
            _ => ["import", "next", "--from", &primary, "--size", "1GiB"],
        };
        let mut child = site.spawn(&words);
        std::thread::sleep(Duration::from_millis(60 + 270 * round));
        site.array.kill();
        child.wait().unwrap();
        site.array.start();
        site.settle();
        if !site.states().is_empty() {
            ready += 1;
            site.array.good(&["database", "delete", "next", "--yes"]);
        }
        site.check_nothing_else(&[]);
        assert_eq!(ask(&site.source.address(), "select count(*) from pg_replication_slots"), "0", "{round}");
    }
    assert!(ready < 6, "no import was cut short");
    // A primary that is gone keeps its slot, which is said.
    site.good(&["follow", "next", "--primary", &primary, "--size", "1GiB"]);
    site.source.stop().unwrap();
    let told = site.array.good(&["database", "delete", "next", "--yes"]);
    assert!(told.contains("slot ashlar_next_") && told.contains("stays on the primary"), "{told}");
    // A directory of some size, and what ends its import while it is copied.
    let data = site.data();
    let filler = vec![7_u8; 8 << 20];
    (0..40).for_each(|number| std::fs::write(data.join(format!("base/filler{number}")), &filler).unwrap());
    let from = data.display().to_string();
    let words = ["import", "next", "--from-directory", from.as_str(), "--size", "1GiB"];
    for way in ["a killed array", "a delete", "Ctrl-C"] {
        let mut child = site.spawn(&words);
        let end = Instant::now() + PATIENCE;
        let is_begun = |site: &Site| {
            let done = site.array.run(&["database", "show", "next", "--json"]);
            let shown: serde_json::Value = serde_json::from_str(&done.out).unwrap_or_default();
            shown["progress"]["total_bytes"].as_u64() > Some(0)
        };
        while !is_begun(&site) {
            assert!(child.try_wait().unwrap().is_none(), "it was over before anybody saw it");
            assert!(Instant::now() < end);
        }
        match way {
            "a killed array" => {
                site.array.kill();
                site.array.start();
            }
            "a delete" => drop(site.array.good(&["database", "delete", "next", "--yes"])),
            _ => {
                let pid = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
            }
        }
        assert!(!child.wait().unwrap().success());
        site.settle();
        site.check_nothing_else(&[]);
    }
}

#[test]
fn a_dump_is_imported_into_a_database_of_its_own() {
    let Some(site) = Site::new() else { return };
    site.source.session().unwrap().run("create database app").unwrap();
    let app = site.source.address_of("app");
    ask(
        &app,
        "create table orders as select generate_series(1, 500) as x; alter table orders owner to reader",
    );
    let from = site.primary().replace("/postgres", "/app");
    let refused = site.from("copier", &site.password).replace("/postgres", "/none");
    site.refused(&["import", "next", "--from", &refused, "--logical"], &["database \"none\" does not exist"]);
    site.refused(&["import", "next", "--from", &from, "--logical"], &["permission denied for table orders"]);
    let patient = ["import", "next", "--from", &from, "--logical", "--size", "1GiB", "--start-timeout"];
    site.refused(&[&patient[..], &["2d"]].concat(), &["a start cannot be given 172800 s"]);
    site.check_nothing_else(&[]);
    ask(&app, "grant select on orders to copier");
    let done = site.good(&[&patient[..], &["10m"]].concat());
    assert!(done.contains("database app of it has the dump"), "{done}");
    assert!(site.good(&["show", "next"]).contains("within 600 s"), "the limit is kept");
    let url = format!("{}/app", site.url("next").rsplit_once('/').unwrap().0);
    assert_eq!(ask(&Address::Url(url), "select count(*) from orders"), "500");
    site.check_silent();
}

// tidy: long because it is one story of one clone.
#[test]
fn a_clone_has_a_password_and_a_content_of_its_own() {
    let Some(mut site) = Site::new() else { return };
    site.good(&["create", "prod", "--size", "1GiB"]);
    site.ask("prod", "create table people as select generate_series(1, 100) as id, 'secret' as name");
    let before = site.url("prod");
    let (mask, password) = (site.array.path("mask.sql"), site.array.path("password"));
    std::fs::write(&password, "it's\\mine\n").unwrap();
    std::fs::write(
        &mask,
        "update people set name = 'masked';\n\
         select 1 / (current_setting('listen_addresses') = '')::int;\n",
    )
    .unwrap();
    let (mask_name, password_name) = (mask.display().to_string(), password.display().to_string());
    let words = ["clone", "prod", "dev", "--password", &password_name, "--after-clone", &mask_name];
    site.good(&words);
    let own = site.url("dev");
    assert!(own.contains(":it%27s%5Cmine@") && site.url("prod") == before, "{own}");
    assert_eq!(site.ask("dev", "select count(*) from people where name = 'secret'"), "0");
    assert_eq!(site.ask("prod", "select count(*) from people where name = 'secret'"), "100");
    // The password of its source does not open it.
    let port = |url: &str| url.rsplit_once(':').unwrap().1.to_string();
    let as_source = format!("{}:{}", before.rsplit_once(':').unwrap().0, port(&own));
    assert!(Session::open(&Address::Url(as_source), "test", Duration::from_secs(5)).is_err());

    site.ask("prod", "insert into people values (0, 'secret')");
    site.array.good(&["database", "reset", "dev", "--latest", "--yes"]);
    assert_eq!(site.ask("dev", "select count(*) from people"), "101");
    assert_eq!(site.ask("dev", "select count(*) from people where name = 'secret'"), "0");
    assert_eq!(site.url("dev"), own);
    // Also when the reset is cut short.
    let mut child = site.spawn(&["reset", "dev", "--latest", "--yes"]);
    std::thread::sleep(Duration::from_millis(300));
    site.array.kill();
    child.wait().unwrap();
    site.array.start();
    site.settle();
    assert_eq!(site.ask("dev", "select count(*) from people where name = 'secret'"), "0");
    assert_eq!(site.url("dev"), own);

    // What it begins counts, and what it does not come to is told.
    std::fs::write(&mask, "begin;\nupdate people set name = 'masked';\n").unwrap();
    site.good(&["clone", "prod", "begun", "--after-clone", &mask_name]);
    assert_eq!(site.ask("begun", "select count(*) from people where name = 'secret'"), "0");
    site.good(&["delete", "begun", "--yes"]);
    let not_to_its_end = [
        ("select 1;\n\\q\nupdate people set name = 'masked';\n", "was not run to its end"),
        ("select 1;\n\\if false\nupdate people set name = 'masked';\n", "without finding closing \\endif"),
        ("select 1;\n/* update people\n", "unterminated /* comment"),
    ];
    for (text, told) in not_to_its_end {
        std::fs::write(&mask, text).unwrap();
        site.refused(&["clone", "prod", "next", "--after-clone", &mask_name], &[told]);
    }
    std::fs::write(&mask, "select 1;\n\nupdate nothing set x = 1;\n").unwrap();
    site.refused(
        &["clone", "prod", "next", "--after-clone", &mask_name],
        &["line 3: ERROR: relation \"nothing\" does not exist"],
    );
    // One that does not end is ended by a delete.
    std::fs::write(&mask, "select pg_sleep(600);\n").unwrap();
    let mut child = site.spawn(&["clone", "prod", "next", "--after-clone", &mask_name]);
    let end = Instant::now() + Duration::from_secs(30);
    while !site.good(&["list"]).contains("next") {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(2));
    site.good(&["delete", "next", "--yes"]);
    assert!(!child.wait().unwrap().success());
    std::fs::write(&mask, "-".repeat(20_000)).unwrap();
    site.refused(&["clone", "prod", "next", "--after-clone", &mask_name], &["16000 bytes at most"]);
    site.refused(&["clone", "prod", "next", "--after-clone", "/nowhere"], &["/nowhere"]);
    site.good(&["clone", "prod", "fresh", "--password"]);
    assert_ne!(site.url("fresh").split('@').next(), before.split('@').next());
    assert_eq!(site.ask("fresh", "select count(*) from people where name = 'secret'"), "101");
    site.check_nothing_else(&["dev", "fresh", "prod"]);
}

/// Two tablespaces, one with a name that no volume can have: by a base backup, and of a directory.
#[test]
fn tablespaces_come_in_on_volumes_of_their_own() {
    let Some(mut site) = Site::new() else { return };
    let mut session = site.source.session().unwrap();
    for (name, directory) in [("archive", "space=1"), ("\"Odd Name\"", "space2")] {
        let place = site.array.path(directory);
        site.source.installation().make_directory(&place).unwrap();
        session.run(&format!("create tablespace {name} location '{}'", place.display())).unwrap();
    }
    session.run("create table old tablespace archive as select generate_series(1, 500) as x").unwrap();
    session.run("create table odd tablespace \"Odd Name\" as select generate_series(1, 300) as x").unwrap();
    drop(session);
    let primary = site.primary();
    let copy = ["import", "copy", "--from", &primary, "--size", "1GiB"];
    site.refused(
        &[&copy[..], &["--tablespace", "new=1GiB"]].concat(),
        &["its source has no tablespace `new`", "it has archive, oid"],
    );
    site.refused(
        &[&copy[..], &["--tablespace", "archive=1MiB"]].concat(),
        &["tablespace-archive", "--tablespace"],
    );
    site.array.good(&["volume", "create", "copy-tablespace-archive", "--size", "64MiB"]);
    site.refused(&copy, &["volume `copy-tablespace-archive` exists"]);
    site.array.good(&["volume", "delete", "copy-tablespace-archive", "--yes"]);
    site.check_nothing_else(&[]);

    let told = site.good(&[&copy[..], &["--tablespace", "archive=512MiB"]].concat());
    assert!(told.contains("its tablespaces have volumes of their own: archive, oid"), "{told}");
    let volume = site.array.json(&["volume", "show", "copy-tablespace-archive"]);
    assert_eq!(volume["size_bytes"], 512 << 20);
    let check = |site: &Site, name: &str| {
        let counts = "select (select count(*) from old) || ' ' || (select count(*) from odd)";
        assert_eq!(site.ask(name, counts), "500 300");
        let links =
            "select count(*) from pg_tablespace where pg_tablespace_location(oid) like '%/NAME/tablespace-%'";
        assert_eq!(site.ask(name, &links.replace("NAME", name)), "2");
        // Rewritten where it is, and what the other has is not touched.
        site.ask(name, "update old set x = x + 1");
        site.ask(name, "vacuum full old");
    };
    check(&site, "copy");
    site.good(&["clone", "copy", "dev"]);
    check(&site, "dev");
    site.good(&["delete", "dev", "--yes"]);
    site.source.stop().unwrap();
    let data = site.data().display().to_string();
    site.good(&["import", "moved", "--from-directory", &data, "--size", "1GiB"]);
    check(&site, "moved");
    site.source.start().unwrap();
    assert_eq!(ask(&site.source.address(), "select min(x) || ' ' || count(*) from old"), "1 500");
    site.check_nothing_else(&["copy", "moved"]);
}

/// Makes a certificate that signs itself, for this machine's own address.
fn make_certificate(key: &Path, certificate: &Path) {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
    command.args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout"]).arg(key);
    let done = command.arg("-out").arg(certificate).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The file that the certificate is checked against is root's alone, and gone later.
#[test]
fn a_primary_is_asked_over_tls_and_its_certificate_checked() {
    use std::os::unix::fs::MetadataExt;
    let Some(site) = Site::new() else { return };
    if !support::has_program("openssl") {
        return;
    }
    let with = |parameters: &str| format!("{}?{parameters}", site.primary());
    site.refused(
        &["import", "copy", "--from", &with("sslmode=require")],
        &["does not support SSL", "ssl = on", "leave sslmode out"],
    );
    let data = site.data();
    make_certificate(&data.join("server.key"), &data.join("server.crt"));
    let owner = std::fs::metadata(&data).unwrap();
    for name in ["server.key", "server.crt"] {
        std::fs::set_permissions(data.join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(data.join(name), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    ask(&site.source.address(), "grant pg_read_all_data to copier");
    ask(&site.source.address(), "alter system set ssl = on");
    ask(&site.source.address(), "select pg_reload_conf()");
    let secret = site.array.path("secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o700)).unwrap();
    let (root, other) = (secret.join("root.crt"), secret.join("other.crt"));
    std::fs::copy(data.join("server.crt"), &root).unwrap();
    make_certificate(&secret.join("other.key"), &other);

    let full = |file: &Path| with(&format!("sslmode=verify-full&sslrootcert={}", file.display()));
    site.refused(
        &["follow", "copy", "--primary", &full(&other)],
        &["certificate verify failed", "sslrootcert"],
    );
    site.refused(&["follow", "copy", "--primary", &full(Path::new("/nowhere"))], &["/nowhere: No such file"]);
    site.refused(&["import", "copy", "--from", &full(Path::new("ca.crt"))], &["ca.crt is no absolute path"]);
    site.refused(&["import", "copy", "--from", &with("sslmode=verify-full")], &["root", "sslrootcert"]);
    site.check_nothing_else(&[]);
    site.good(&["import", "copy", "--from", &with("sslmode=require"), "--size", "1GiB"]);
    site.good(&["import", "app", "--from", &full(&root), "--logical", "--size", "1GiB"]);
    assert_eq!(site.ask("app", "select count(*) from t"), "1000");
    assert!(!site.array.state().join("databases/app/primary-root.crt").exists());

    site.good(&["follow", "standby", "--primary", &full(&root), "--size", "1GiB"]);
    std::fs::remove_file(&root).unwrap();
    let is_streaming = || {
        let statement = "select count(*) from pg_stat_ssl join pg_stat_replication using (pid) \
                         where ssl and state = 'streaming' and application_name = 'standby'";
        ask(&site.source.address(), statement) == "1"
    };
    for _ in 0..2 {
        let end = Instant::now() + PATIENCE;
        while !is_streaming() {
            assert!(Instant::now() < end, "{}", site.array.log());
            std::thread::sleep(LOOK);
        }
        site.good(&["stop", "standby"]);
        site.good(&["start", "standby"]);
    }
    site.good(&["clone", "standby", "dev"]);
    let volume = site.array.state().join("databases/dev/data/ashlar-primary-root.crt");
    assert!(!volume.exists(), "a clone keeps nothing of the primary");
    site.good(&["delete", "standby", "--yes"]);
    assert_eq!(ask(&site.source.address(), "select count(*) from pg_replication_slots"), "0");
    site.check_silent();
}
