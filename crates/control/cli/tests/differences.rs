//! What differs between volumes, snapshots and databases, through the command line.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Session};
use serde_json::{Value, json};
use support::Array;
use support::nbd::Nbd;

const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

#[test]
fn volumes_are_compared_by_what_was_written_to_them() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    Nbd::connect(array.state(), "db").write(0, &[7; 4 * MIB as usize]);
    array.good(&["snapshot", "create", "monday", "db"]);
    array.good(&["clone", "create", "test", "--from", "db@monday"]);
    let diff = |words: &[&str]| array.json(&[&["volume", "diff"], words].concat());
    assert_eq!(diff(&["db@monday", "test"])["different_bytes"], 0);
    assert!(array.good(&["volume", "diff", "db", "test"]).starts_with("different  0 B"));

    let mut nbd = Nbd::connect(array.state(), "test");
    nbd.write(MIB, &[9; 8192]);
    nbd.write(2 * MIB, &[9; 4096]);
    nbd.write(5 * MIB, &[9; 4096]);
    // Where nothing ever was, zeroes are nothing.
    nbd.write(20 * MIB, &[0; 65_536]);
    let found = diff(&["db@monday", "test"]);
    let range = |offset: u64, length: u64| json!({ "offset_bytes": offset, "length_bytes": length });
    assert_eq!(found["ranges"], json!([range(MIB, 8192), range(2 * MIB, 4096), range(5 * MIB, 4096)]));
    assert_eq!((&found["different_bytes"], &found["next_bytes"]), (&json!(16_384), &Value::Null));
    // The list in pages, and all of it counted by the first.
    let first = diff(&["test", "db", "--ranges", "1"]);
    assert_eq!((&first["different_bytes"], &first["next_bytes"]), (&json!(16_384), &json!(2 * MIB)));
    let rest = diff(&["test", "db", "--from", "2MiB"]);
    assert_eq!(rest["ranges"], json!([range(2 * MIB, 4096), range(5 * MIB, 4096)]));
    let text = array.good(&["volume", "diff", "db", "test", "--ranges", "1"]);
    assert!(text.contains("1048576") && text.contains("there are more: --from 2097152B"), "{text}");

    // A clone of the clone, a volume that has nothing, and one that was set back.
    array.good(&["clone", "create", "again", "--from", "test"]);
    array.good(&["volume", "create", "empty", "--size", "128MiB"]);
    assert_eq!(diff(&["test", "again"])["different_bytes"], 0);
    let found = diff(&["empty", "again"]);
    assert_eq!(
        (&found["different_bytes"], &found["a_size_bytes"]),
        (&json!(4 * MIB + 4096), &json!(128 * MIB))
    );
    Nbd::connect(array.state(), "db").write(0, &[1; 4096]);
    assert_eq!(diff(&["db", "db@monday"])["different_bytes"], 4096);
    drop(nbd);
    array.good(&["snapshot", "restore", "monday", "--yes"]);
    assert_eq!(diff(&["db", "db@monday"])["different_bytes"], 0);

    array.refused(&["volume", "diff", "db", "monday"], &["`db@monday`"]);
    array.refused(&["volume", "diff", "db", "nothing"], &["volume `nothing` does not exist"]);
    array.refused(&["volume", "diff", "db@monday", "test@monday"], &["holds no volume `test`"]);
}

/// An array with a pool whose directory the account of servers may pass. Its databases go with it.
struct Site {
    array: Array,
}

impl Site {
    fn new() -> Option<Site> {
        support::array_for_databases("2GiB").map(|array| Site { array })
    }

    fn ask(&self, name: &str, statements: &[&str]) {
        let url = self.array.good(&["database", "url", name]).trim().to_string();
        let mut session = Session::open(&Address::Url(url), "test", Duration::from_secs(30)).unwrap();
        statements.iter().for_each(|statement| drop(session.run(statement).unwrap()));
    }

    fn names(&self, what: &[&str]) -> Vec<String> {
        let all = self.array.json(what);
        let mut names: Vec<String> =
            all.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_string()).collect();
        names.sort();
        names
    }

    fn diff(&self, a: &str, b: &str) -> Value {
        self.array.json(&["database", "diff", a, b])
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        support::end_databases(&self.array);
    }
}

/// What differs and is no catalogue's, as `NAME CHANGE`.
fn told(diff: &Value) -> Vec<String> {
    let relations = diff["relations"].as_array().unwrap().iter().filter(|one| one["is_system"] == false);
    let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_string();
    let mut told: Vec<String> =
        relations.map(|one| format!("{} {}", text(one, "name"), text(one, "change"))).collect();
    told.sort();
    told
}

fn relation<'a>(diff: &'a Value, name: &str) -> &'a Value {
    let mut relations = diff["relations"].as_array().unwrap().iter();
    relations.find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {diff}"))
}

/// What the origin has; its pages are not changed by who reads them.
const MADE: [&str; 8] = [
    "create table changed as select n, md5(n::text) as note from generate_series(1, 20000) n",
    "create index changed_note on changed (note)",
    "create table untouched as select n from generate_series(1, 20000) n",
    "create table squeezed as select n from generate_series(1, 20000) n",
    "create table dropped as select n from generate_series(1, 2000) n",
    "create table far tablespace archive as select n from generate_series(1, 20000) n",
    "vacuum (freeze, analyze)",
    // The directory of the tablespace is on its volume by then.
    "checkpoint",
];

#[test]
fn databases_are_compared_by_table_and_index() {
    let Some(mut site) = Site::new() else { return };
    let sizes = ["--size", "1GiB", "--log-size", "512MiB", "--tablespace", "archive=256MiB"];
    site.array.good(&[&["database", "create", "prod"], &sizes[..]].concat());
    // Nobody looks through the tables of his own accord: that notes things in their pages.
    site.array.good(&["database", "settings", "prod", "autovacuum=off"]);
    site.ask("prod", &MADE);
    site.array.good(&["database", "snapshot", "prod", "base"]);

    // Before a server writes to them two clones of a snapshot are equal.
    site.array.good(&["clone", "create", "one", "--from", "prod-data@base"]);
    site.array.good(&["clone", "create", "two", "--from", "prod-data@base"]);
    assert_eq!(site.array.json(&["volume", "diff", "one", "two"])["different_bytes"], 0);

    site.array.good(&["database", "clone", "prod", "dev", "--at", "base"]);
    let done = [
        "update changed set note = 'other' where n = 7",
        "vacuum full squeezed",
        "drop table dropped",
        "create table fresh as select n from generate_series(1, 2000) n",
        "update far set n = 0 where n = 9",
    ];
    site.ask("dev", &done);
    let diff = site.diff("prod@base", "dev");
    let expected = [
        "public.changed changed",
        "public.changed_note changed",
        "public.dropped only-in-a",
        "public.far changed",
        "public.fresh only-in-b",
        "public.squeezed rewritten",
    ];
    assert_eq!(told(&diff), expected, "{diff}");
    let index = relation(&diff, "public.changed_note");
    assert_eq!((&index["kind"], &index["of"]), (&json!("index"), &json!("public.changed")));
    // A row in the old place and in the new one, and what a map says of them.
    for name in ["public.changed", "public.changed_note", "public.far"] {
        let pages = relation(&diff, name)["different_pages_count"].as_u64().unwrap();
        assert!((1..=5).contains(&pages), "{pages} pages of {name}: {diff}");
    }
    assert!(relation(&diff, "public.squeezed")["different_pages_count"].as_u64().unwrap() > 50, "{diff}");
    let files: Vec<&str> =
        diff["files"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(files.contains(&"pg_wal"), "{files:?}");
    let catalogues = diff["relations"].as_array().unwrap();
    assert!(catalogues.iter().any(|one| one["name"] == "pg_catalog.pg_class"), "{diff}");
    assert_eq!((&diff["a"], &diff["b"]), (&json!("prod@base"), &json!("dev")));
    assert_eq!(diff["volumes"].as_array().unwrap().len(), 3, "{diff}");

    let text = site.array.good(&["database", "diff", "prod@base", "dev"]);
    for line in [
        "postgres: public.changed_note (of public.changed)",
        "only in prod@base",
        "of PostgreSQL's catalogues",
    ] {
        assert!(text.contains(line) && !text.contains("untouched"), "{line}: {text}");
    }
    // Nothing at all, whoever recovers.
    assert_eq!(site.diff("prod@base", "prod@base")["relations"], json!([]));

    site.array.refused(&["database", "diff", "prod", "nothing"], &["database `nothing` does not exist"]);
    site.array.refused(&["database", "diff", "prod@never", "dev"], &["snapshot `never` does not exist"]);
    cut_short(&mut site);
}

/// An array that is killed within a diff removes at its next start what that had begun, and nothing else.
fn cut_short(site: &mut Site) {
    let mut command = Command::new(support::program());
    command.arg("--state").arg(site.array.state()).args(["database", "diff", "prod", "dev"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while site.names(&["database", "list"]).len() < 4 {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    site.array.kill();
    child.wait().unwrap();
    site.array.start();
    while site.names(&["database", "list"]).len() > 2 || site.names(&["snapshot", "list"]) != ["base"] {
        assert!(Instant::now() < end, "{}", site.array.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(site.names(&["database", "list"]), ["dev", "prod"]);
}
