//! The API as a program relies on it: problems, pages, addresses, states that were seen, requests sent twice.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::nbd::Nbd;
use support::{Answer, Array, exchange_whole};

fn volume(name: &str) -> String {
    json!({"name": name, "size_bytes": 1 << 20}).to_string()
}

fn make(array: &Array, name: &str) -> Answer {
    let made = array.ask("POST", "/v1/volumes", "", Some(&volume(name)));
    assert_eq!(made.status, 201, "{}", made.body);
    made
}

/// The page of every message with its remedy.
const MESSAGES: &str = include_str!("../../../../docs/reference/messages.md");

/// Whether a line of that page has what a problem says, and what it says to do.
fn stands_in_the_reference(problem: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap().replace('|', "\\|");
    let (detail, remedy) = (text(&problem["detail"]), text(&problem["remedy"]["command"]));
    let fits = |template: &str, text: &str| {
        let mut rest = text;
        // Between what is filled in.
        template.split(['{', '}']).step_by(2).all(|part| {
            let found = rest.split_once(part);
            rest = found.map_or("", |(_, behind)| behind);
            found.is_some()
        })
    };
    MESSAGES.lines().any(|line| {
        let cells: Vec<&str> = line.trim_start_matches("| ").split(" | ").collect();
        cells.len() == 3 && fits(cells[0], &detail) && cells[1].split("; or: ").any(|one| fits(one, &remedy))
    })
}

#[test]
fn the_reference_is_looked_up_as_it_is_written() {
    let problem = |detail: &str, command: &str| json!({"detail": detail, "remedy": {"command": command}});
    assert!(stands_in_the_reference(&problem(
        "volume `db` does not exist",
        "`ashlar volume list` shows those there are"
    )));
    assert!(!stands_in_the_reference(&problem("volume `db` does not exist", "give up")));
    assert!(!stands_in_the_reference(&problem(
        "volume `db` is shy",
        "`ashlar volume list` shows those there are"
    )));
}

// tidy: long because it is a table
#[test]
fn a_problem_says_what_it_is_about_and_what_to_send() {
    let array = Array::with_pool();
    make(&array, "db");
    array.good(&["snapshot", "create", "noon", "db"]);
    array.good(&["snapshot", "hold", "noon", "--reason", "audit"]);
    let (taken, wrong, long) = (volume("db"), volume("a b"), volume(&"x".repeat(3 << 20)));
    // Method, path, body, then status, kind, object, reason, and a word of the request to send.
    for (method, path, body, status, kind, object, reason, word) in [
        ("GET", "/v1/volumes/no", "", 404, "not-found", "volume no", "", "GET /v1/volumes"),
        ("GET", "/v1/snapshots/no", "", 404, "not-found", "snapshot no", "", "GET /v1/snapshots"),
        ("POST", "/v1/volumes", taken.as_str(), 409, "exists", "volume db", "", "another name"),
        ("POST", "/v1/volumes", wrong.as_str(), 400, "invalid", "", "wrong-name", "letters"),
        ("POST", "/v1/volumes", "{", 400, "invalid", "", "not-json", "openapi"),
        ("POST", "/v1/volumes", r#"["x",1048576,"main"]"#, 400, "invalid", "", "wrong-field", "openapi"),
        ("POST", "/v1/volumes", "[", 400, "invalid", "", "not-json", "openapi"),
        ("POST", "/v1/volumes", r#"{"name":"x"}"#, 400, "invalid", "", "wrong-field", "openapi"),
        ("POST", "/v1/volumes", long.as_str(), 413, "too-large", "", "", "less"),
        (
            "DELETE",
            "/v1/snapshots/noon",
            "",
            409,
            "busy",
            "snapshot noon",
            "held",
            "DELETE /v1/snapshots/noon/hold",
        ),
        ("DELETE", "/v1/pools/main", "", 409, "busy", "pool main", "not-empty", "delete"),
        (
            "PATCH",
            "/v1/volumes/db",
            r#"{"size_bytes":4096}"#,
            400,
            "invalid",
            "volume db",
            "does-not-fit",
            "`may_shrink`",
        ),
        ("PUT", "/v1/volumes/db/policy", "{}", 400, "invalid", "volume db", "does-not-fit", "compression"),
        (
            "DELETE",
            "/v1/marks/snapshot:noon",
            "",
            400,
            "invalid",
            "mark snapshot:noon",
            "does-not-fit",
            "by hand",
        ),
        ("GET", "/v1/volumes?cursor=7b7d", "", 400, "invalid", "", "wrong-cursor", "`Link`"),
        ("GET", "/v1/pools/main/drives", "", 405, "no-such-method", "", "", "Allow"),
        (
            "POST",
            "/v1/pools/main/drives/7/offline",
            "",
            404,
            "not-found",
            "drive main/7",
            "",
            "GET /v1/pools/main",
        ),
        ("GET", "/v1/volumes?limt=1", "", 400, "invalid", "", "unknown-parameter", "`limit`"),
        ("GET", "/v1/volumes?limit=x", "", 400, "invalid", "", "wrong-parameter", "openapi"),
        ("DELETE", "/v1/attachments/db", "", 404, "not-found", "attachment db", "", "GET /v1/volumes"),
        (
            "DELETE",
            "/v1/deleted-volumes/no",
            "",
            404,
            "not-found",
            "deleted-volume no",
            "",
            "GET /v1/deleted-volumes",
        ),
    ] {
        let answer = array.ask(method, path, "", (!body.is_empty()).then_some(body));
        let what = format!("{method} {path}: {} {}", answer.status, answer.body);
        assert_eq!(answer.status, status, "{what}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
        let problem = answer.json();
        assert_eq!(problem["kind"], kind, "{what}");
        assert_eq!(problem["status"], status, "{what}");
        assert_eq!(problem["type"], format!("/docs/reference/errors.md#{kind}"), "{what}");
        let name = |part: &Value| part.as_str().unwrap_or_default().to_string();
        let found = format!("{} {}", name(&problem["object"]["kind"]), name(&problem["object"]["name"]));
        assert_eq!(found.trim(), object, "{what}");
        assert_eq!(name(&problem["reason"]), reason, "{what}");
        let request = name(&problem["remedy"]["request"]);
        assert!(request.contains(word) && !request.contains("--"), "{what}");
        assert!(stands_in_the_reference(&problem), "docs/reference/messages.md lacks {what}");
    }
    // A body that is not said to be JSON, also where none is needed.
    for (method, path) in [("POST", "/v1/volumes"), ("PUT", "/v1/snapshots/noon/hold")] {
        let answer = array.ask(method, path, "content-type: text/plain\r\n", Some("{}"));
        assert_eq!((answer.status, answer.json()["kind"].clone()), (415, json!("media-type")), "{path}");
    }
    // A body that may be left out may be nothing, and to JSON `1048576.0` is a whole number.
    let held = array.ask("PUT", "/v1/snapshots/noon/hold", "", Some("null"));
    assert_eq!((held.status, held.json()["hold"]["reason"].clone()), (200, json!("")), "{}", held.body);
    let whole = array.ask("POST", "/v1/volumes", "", Some(r#"{"name":"whole","size_bytes":1048576.0}"#));
    assert_eq!((whole.status, whole.json()["size_bytes"].clone()), (201, json!(1 << 20)), "{}", whole.body);
    let refused = array.ask("GET", "/v1/pools/main/drives", "", None);
    assert_eq!(refused.header("allow"), Some("POST"));
    let page = array.ask("GET", "/docs/reference/errors.md", "", None);
    assert!(page.status == 200 && page.body.contains("\n## not-found\n"), "{}", page.body);
}

/// Follows the links of a list; the names that its pages hold.
fn walk(array: &Array, first: &str, name: &str) -> Vec<Vec<String>> {
    let (mut path, mut pages) = (first.to_string(), Vec::new());
    loop {
        let page = array.ask("GET", &path, "", None);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        let names = |one: &Value| one[name].as_str().map_or_else(|| one[name].to_string(), str::to_string);
        pages.push(page.json().as_array().unwrap().iter().map(names).collect());
        let Some(link) = page.header("link") else { return pages };
        path = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap().to_string();
        assert!(pages.len() < 100, "{first} has no end");
    }
}

#[test]
fn lists_come_in_pages_in_order_and_by_filters() {
    let array = Array::with_pool();
    for name in ["db1", "db2", "db3", "log1", "log2"] {
        make(&array, name);
    }
    for name in ["monday", "tuesday", "friday"] {
        array.good(&["snapshot", "create", name, "db1", "log1"]);
    }
    array.good(&["snapshot", "create", "alone", "db2"]);
    array.good(&["snapshot", "hold", "friday"]);
    array.good(&["clone", "create", "test", "--from", "alone"]);
    array.good(&["schedule", "create", "often", "--of-volume", "db1", "--every", "1h", "--keep", "hourly=2"]);
    let flat = |path: &str| walk(&array, path, "name").concat();
    assert_eq!(
        walk(&array, "/v1/volumes?limit=4", "name"),
        [vec!["db1", "db2", "db3", "log1"], vec!["log2", "test"]]
    );
    assert_eq!(flat("/v1/volumes?limit=1&order=descending"), ["test", "log2", "log1", "db3", "db2", "db1"]);
    assert_eq!(flat("/v1/volumes?limit=1&name_prefix=db"), ["db1", "db2", "db3"]);
    assert_eq!(flat("/v1/volumes?pool=main&origin=alone"), ["test"]);
    assert_eq!(flat("/v1/volumes?origin=db2"), ["test"]);
    assert!(flat("/v1/volumes?pool=other").is_empty());
    array.good(&["volume", "resize", "db2", "--size", "8MiB"]);
    assert_eq!(flat("/v1/volumes?sort=size&order=descending&limit=1")[0], "db2");
    assert_eq!(flat("/v1/snapshots?sort=name&limit=2"), ["alone", "friday", "monday", "tuesday"]);
    assert_eq!(flat("/v1/snapshots?volume=db2"), ["alone"]);
    assert_eq!(flat("/v1/snapshots?is_held=true"), ["friday"]);
    let all: BTreeSet<String> = flat("/v1/snapshots?limit=1").into_iter().collect();
    assert_eq!(all.len(), 4);
    assert_eq!(flat("/v1/schedules?volume=db1&limit=1"), ["often"]);
    assert!(flat("/v1/schedules?database=db1").is_empty());
    assert_eq!(flat("/v1/pools?limit=1&sort=free"), ["main"]);
    array.good(&["volume", "delete", "db3", "--yes"]);
    array.good(&["volume", "delete", "log2", "--yes"]);
    assert_eq!(flat("/v1/deleted-volumes?limit=1&sort=name"), ["db3", "log2"]);
    assert_eq!(flat("/v1/deleted-volumes?name_prefix=log"), ["log2"]);
    assert!(flat("/v1/databases?limit=1").is_empty());
    for list in ["/v1/attachments?limit=1", "/v1/clients?limit=1&sort=volume"] {
        assert!(flat(list).is_empty(), "{list}");
    }
    let missing = array.ask("GET", "/v1/volumes?database=no", "", None);
    assert_eq!(missing.status, 404, "{}", missing.body);
    let cursor = "/v1/volumes?cursor=7b7d";
    assert_eq!(array.ask("GET", cursor, "", None).json()["reason"], "wrong-cursor");
}

#[test]
fn events_are_found_by_what_they_are_about_and_by_the_start_they_belong_to() {
    let mut array = Array::with_pool();
    make(&array, "db");
    make(&array, "db2");
    let events = |query: &str| array.ask("GET", &format!("/v1/events{query}"), "", None).json();
    let count = |query: &str| events(query).as_array().unwrap().len();
    let boot = array.json(&["status"])["boot_id"].as_str().unwrap().to_string();
    assert!(boot.len() == 36 && events("")[0]["boot_id"] == boot.as_str(), "{boot}");
    assert_eq!(count("?object=volume%20db"), 1);
    assert_eq!(count("?object=volume"), 2);
    assert_eq!(count("?level=error"), 0);
    assert!(count("?level=info") == count("") && count("") > 2);
    let newest = events("?limit=1&order=descending");
    let (last, at) = (newest[0]["sequence"].as_u64().unwrap(), newest[0]["unix_millis"].as_u64().unwrap());
    assert_eq!(last, count("") as u64);
    assert_eq!(count(&format!("?after={last}&boot_id={boot}")), 0);
    assert_eq!(count(&format!("?since_unix_millis={}", at + 1)), 0);
    assert!(count(&format!("?since_unix_millis={at}")) > 0);
    let pages = walk(&array, "/v1/events?limit=2", "sequence");
    assert_eq!(pages.concat().len(), count(""));
    let told = array.good(&["events", "--object", "volume db", "--level", "info", "--since", "1h"]);
    assert!(told.lines().count() == 1 && told.contains("volume db: created"), "{told}");
    array.misused(&["events", "--level", "bad"], &["warning"]);
    // Who comes back after a restart misses nothing.
    array.terminate();
    array.start();
    let after = array.ask("GET", &format!("/v1/events?after={last}&boot_id={boot}"), "", None).json();
    assert!(!after.as_array().unwrap().is_empty() && after[0]["sequence"] == 1, "{after}");
    assert_ne!(array.json(&["status"])["boot_id"], boot.as_str());
}

#[test]
fn what_is_made_has_an_address_and_a_state() {
    let array = Array::with_pool();
    let made = make(&array, "db");
    assert_eq!(made.header("location"), Some("/v1/volumes/db"));
    let shown = array.ask("GET", "/v1/volumes/db", "", None);
    assert!(made.header("etag").is_some() && shown.header("etag") == made.header("etag"));
    for (path, body, location) in [
        ("/v1/snapshots", json!({"name": "noon", "volumes": ["db"]}), "/v1/snapshots/noon"),
        ("/v1/clones", json!({"name": "test", "from": "noon"}), "/v1/volumes/test"),
        (
            "/v1/schedules",
            json!({"name": "often", "volumes": ["db"], "every_seconds": 3600, "keep": "hourly=2"}),
            "/v1/schedules/often",
        ),
    ] {
        let made = array.ask("POST", path, "", Some(&body.to_string()));
        assert_eq!((made.status, made.header("location")), (201, Some(location)), "{}", made.body);
        assert_eq!(array.ask("GET", location, "", None).status, 200, "{location}");
    }
    let run = array.ask("POST", "/v1/schedules/often/run", "", None);
    let snapshot = run.json()["name"].as_str().unwrap().to_string();
    assert_eq!(run.header("location"), Some(format!("/v1/snapshots/{snapshot}").as_str()));
    assert!(array.ask("GET", "/v1/pools/main", "", None).header("etag").is_some());
}

#[test]
fn a_change_is_made_only_to_what_was_seen() {
    let array = Array::with_pool();
    make(&array, "db");
    array.good(&["snapshot", "create", "noon", "db"]);
    array.good(&["schedule", "create", "often", "--of-volume", "db", "--every", "1h", "--keep", "hourly=2"]);
    let tag = |path: &str| {
        let tag = array.ask("GET", path, "", None).header("etag").unwrap().to_string();
        format!("if-match: {tag}\r\n")
    };
    let old = tag("/v1/volumes/db");
    let resize = |size: u64, headers: &str| {
        array.ask("PATCH", "/v1/volumes/db", headers, Some(&json!({"size_bytes": size}).to_string()))
    };
    let first = resize(2 << 20, &old);
    assert_eq!(first.status, 200, "{}", first.body);
    let late = resize(4 << 20, &old);
    assert_eq!((late.status, late.json()["kind"].clone()), (412, json!("changed")), "{}", late.body);
    assert_eq!(array.json(&["volume", "show", "db"])["size_bytes"], 2 << 20);
    let now = format!("if-match: \"x\", {}\r\n", first.header("etag").unwrap());
    assert_eq!(resize(4 << 20, &now).status, 200);
    assert_eq!(resize(8 << 20, "if-match: *\r\n").status, 200);
    let policy = Some(r#"{"dedupe":true}"#);
    assert_eq!(array.ask("PUT", "/v1/volumes/db/policy", &old, policy).status, 412);
    for (path, change, body) in [
        ("/v1/snapshots/noon", "/v1/snapshots/noon/hold", "{}"),
        ("/v1/schedules/often", "/v1/schedules/often", r#"{"is_paused":true}"#),
    ] {
        let seen = tag(path);
        let method = if path == change { "PATCH" } else { "PUT" };
        let changed = array.ask(method, change, &seen, Some(body));
        assert_eq!(changed.status, 200, "{change}: {}", changed.body);
        assert_eq!(array.ask("DELETE", path, &seen, None).status, 412, "{path}");
    }
    array.good(&["snapshot", "release", "noon"]);
    for path in ["/v1/schedules/often", "/v1/snapshots/noon", "/v1/volumes/db"] {
        let gone = array.ask("DELETE", path, &tag(path), None);
        assert!([200, 204].contains(&gone.status), "{path}: {}", gone.body);
        assert_eq!(array.ask("DELETE", path, "if-match: *\r\n", None).status, 404, "{path}");
    }
    let old = tag("/v1/pools/main");
    make(&array, "other");
    array.good(&["volume", "delete", "other", "--now", "--yes"]);
    array.good(&["volume", "undelete", "db"]);
    assert_eq!(array.ask("DELETE", "/v1/pools/main", &old, None).status, 412);
    // Where nothing would heed it, it is refused, and rubbish everywhere.
    for (method, path, header, reason) in [
        ("POST", "/v1/pools/main/check", "if-match: *\r\n", "unknown-parameter"),
        ("DELETE", "/v1/volumes/db", "if-match: x\r\n", "wrong-parameter"),
    ] {
        let refused = array.ask(method, path, header, None);
        assert_eq!((refused.status, refused.json()["reason"].clone()), (400, json!(reason)), "{path}");
    }
}

#[test]
fn a_create_that_is_sent_twice_with_one_key_is_done_once() {
    let mut array = Array::unstarted();
    array.configure("api = \"127.0.0.1:0\"\n");
    array.start();
    let drive = format!("{},size=1GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    let send = |key: &str, path: &str, body: &str| {
        array.ask("POST", path, &format!("idempotency-key: {key}\r\n"), Some(body))
    };
    let first = send("k1", "/v1/volumes", &volume("db"));
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None));
    let again = send("k1", "/v1/volumes", &volume("db"));
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")), "{}", again.body);
    assert_eq!((&again.body, again.header("location")), (&first.body, Some("/v1/volumes/db")));
    assert_eq!(again.header("etag"), first.header("etag"));
    for (path, body) in [("/v1/volumes", volume("other")), ("/v1/clones", volume("db"))] {
        let other = send("k1", path, &body);
        assert_eq!(
            (other.status, other.json()["kind"].clone()),
            (422, json!("key-reused")),
            "{}",
            other.body
        );
    }
    assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 1);
    // Another key is another request, and what was refused may be tried again with its own.
    assert_eq!(send("k2", "/v1/volumes", &volume("db")).status, 409);
    array.good(&["volume", "delete", "db", "--now", "--yes"]);
    assert_eq!(send("k2", "/v1/volumes", &volume("db")).status, 201);
    // Somebody else's key is another one.
    let headers = format!("{}idempotency-key: k1\r\n", array.token("api.token"));
    let guest =
        exchange_whole(array.tcp("api.port"), "POST", "/v1/volumes", &headers, Some(&volume("guest")));
    assert_eq!(guest.status, 201, "{}", guest.body);
    for key in ["", "ä", &"x".repeat(256)] {
        assert_eq!(send(key, "/v1/volumes", &volume("x")).status, 400, "{key}");
    }
    // Ten at once: one is carried out, the others hear of it or wait.
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..10)
            .map(|_| {
                scope.spawn(|| send("k3", "/v1/snapshots", r#"{"name":"noon","volumes":["db"]}"#).status)
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(statuses.contains(&201) && statuses.iter().all(|one| [201, 409].contains(one)), "{statuses:?}");
    assert_eq!(array.json(&["snapshot", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_session_tells_what_its_caller_may() {
    let mut array = Array::unstarted();
    array.configure("api = \"127.0.0.1:0\"\nguest_drives = [\"/srv/drives\"]\n");
    array.start();
    let owner = array.ask("GET", "/v1/session", "", None).json();
    assert_eq!((&owner["caller"], &owner["refused_operations"]), (&json!("owner"), &json!([])));
    assert!(owner.get("drive_places").is_none());
    let token = array.token("api.token");
    let ask = |method: &str, path: &str, body: Option<&str>| {
        exchange_whole(array.tcp("api.port"), method, path, &token, body)
    };
    let guest = ask("GET", "/v1/session", None).json();
    assert_eq!((&guest["caller"], &guest["drive_places"]), (&json!("guest"), &json!(["/srv/drives"])));
    let refused = ashlar_api::root_operations();
    assert_eq!(guest["refused_operations"].as_array().unwrap().len(), refused.len());
    for (id, (method, path)) in refused {
        // With a body that passes where one is needed: what is refused is the caller.
        let body = match id.as_str() {
            "database_create" => r#"{"name":"x","size_bytes":4096}"#,
            "database_clone" | "database_import" => r#"{"name":"x"}"#,
            "database_follow" => r#"{"name":"x","primary":"x"}"#,
            "database_restore" => r#"{"snapshot":"x"}"#,
            "database_commands" => r#"{"account":"x"}"#,
            "upgrade" => r#"{"program":"/x"}"#,
            "database_diff" => r#"{"with":"x"}"#,
            _ => "{}",
        };
        let answer = ask(&method, &path.replace("{database}", "x"), Some(body));
        assert_eq!(answer.status, 403, "{id}: {}", answer.body);
        assert_eq!(answer.json()["reason"], "root-only", "{id}");
    }
}

/// Asks after a job until it has ended.
fn ended(array: &Array, location: &str) -> Value {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let job = array.ask("GET", location, "", None).json();
        if job["state"] != "running" {
            return job;
        }
        assert!(std::time::Instant::now() < end, "{job}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn long_work_can_be_had_as_a_job() {
    let array = Array::with_pool();
    make(&array, "db");
    for (path, header, kind) in [
        ("/v1/pools/main/check?wait=false", "", "check"),
        ("/v1/pools/main/check?is_deep=true", "prefer: respond-async, wait=10\r\n", "check"),
        ("/v1/pools/main/scrub?wait=false", "", "scrub"),
    ] {
        let begun = array.ask("POST", path, header, None);
        assert_eq!(begun.status, 202, "{path}: {}", begun.body);
        let location = begun.header("location").unwrap();
        assert_eq!(location, format!("/v1/jobs/{}", begun.json()["id"].as_str().unwrap()));
        let job = ended(&array, location);
        assert_eq!((&job["state"], &job["kind"]), (&json!("done"), &json!(kind)), "{job}");
        assert_eq!(job["object"], json!({"kind": "pool", "name": "main"}));
        assert!(job["result"][kind].is_object() && job["ended_unix_millis"].is_u64(), "{job}");
    }
    // Who waits gets the report itself, and the job is remembered all the same.
    let report = array.ask("POST", "/v1/pools/main/check", "", None);
    assert!(report.status == 200 && report.json()["errors"] == json!([]), "{}", report.body);
    let jobs = array.ask("GET", "/v1/jobs?kind=check&state=done&name=main", "", None).json();
    assert_eq!(jobs.as_array().unwrap().len(), 3, "{jobs}");
    assert_eq!(walk(&array, "/v1/jobs?limit=3", "kind").concat(), ["check", "check", "scrub", "check"]);
    // A refusal that comes at once is no job to ask after.
    let refused = array.ask("POST", "/v1/pools/no/scrub?wait=false", "", None);
    assert_eq!(
        (refused.status, refused.json()["object"]["name"].clone()),
        (404, json!("no")),
        "{}",
        refused.body
    );
    assert_eq!(array.ask("GET", "/v1/jobs?state=failed", "", None).json(), json!([]));
    // One that has ended is forgotten, and what never was is not there.
    let id = jobs[0]["id"].as_str().unwrap();
    assert_eq!(array.ask("DELETE", &format!("/v1/jobs/{id}"), "", None).status, 200);
    let number = id.rsplit_once('-').unwrap().1;
    for gone in [id, "x", number, &format!("00000000-{number}")] {
        let gone = array.ask("GET", &format!("/v1/jobs/{gone}"), "", None);
        assert_eq!(
            (gone.status, gone.json()["object"]["kind"].clone()),
            (404, json!("job")),
            "{}",
            gone.body
        );
    }
    assert!(array.good(&["job", "list"]).contains("scrub"));
    let last = array.json(&["job", "list"])[0]["id"].as_str().unwrap().to_string();
    assert!(array.good(&["job", "show", &last]).contains("all is well"));
    array.good(&["job", "cancel", &last]);
    array.refused(&["job", "show", &last], &[last.as_str(), "job list"]);
}

#[test]
fn a_scrub_that_runs_tells_its_progress_and_can_be_ended() {
    let array = Array::started();
    let drives: Vec<String> = (0..3)
        .map(|number| format!("{},size=512MiB", array.path(&format!("{number}.img")).display()))
        .collect();
    let mut arguments = vec!["pool", "create", "main", "--protection", "single"];
    arguments.extend(drives.iter().flat_map(|drive| ["--drive", drive.as_str()]));
    array.good(&arguments);
    array.good(&["volume", "create", "db", "--size", "32MiB"]);
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut nbd = Nbd::connect(array.state(), "db");
    (0..24).for_each(|piece| nbd.write(piece << 20, &bytes));
    let begin = || array.ask("POST", "/v1/pools/main/scrub?wait=false", "", None);
    let pause = || array.ask("PATCH", "/v1/pools/main/scrub", "", Some(r#"{"action":"pause"}"#)).status;
    // Held at once, it cannot be over too soon; one that is, is begun again.
    let job = (0..50).find_map(|_| {
        std::thread::scope(|scope| {
            let begun = scope.spawn(begin);
            let held = (0..200).any(|_| pause() == 200);
            let begun = begun.join().unwrap();
            let location = begun.header("location").unwrap().to_string();
            (held && array.ask("GET", &location, "", None).json()["state"] == "running").then_some(location)
        })
    });
    let Some(location) = job else { panic!("no scrub was ever seen under way") };
    let running = array.ask("GET", &location, "", None).json();
    assert_eq!(
        (&running["progress"]["stage"], &running["is_cancellable"]),
        (&json!("is paused"), &json!(true))
    );
    assert_eq!(running["progress"]["unit"], "segments");
    let second = begin();
    assert_eq!((second.status, second.json()["kind"].clone()), (409, json!("busy")), "{}", second.body);
    assert!(second.json()["remedy"]["request"].as_str().unwrap().contains("PATCH /v1/pools/main/scrub"));
    assert_eq!(array.ask("DELETE", &location, "", None).status, 200);
    let job = ended(&array, &location);
    assert_eq!(job["state"], "cancelled");
    is_ended_on_request(&job["problem"], &location);
    // Whoever waits for it hears the same.
    let wait = || array.ask("POST", "/v1/pools/main/scrub", "", None);
    let (answer, location) = std::thread::scope(|scope| {
        let waiting = scope.spawn(wait);
        let held = (0..200).any(|_| pause() == 200);
        let jobs = array.ask("GET", "/v1/jobs?state=running&kind=scrub", "", None).json();
        let location = jobs[0]["id"].as_str().map(|id| format!("/v1/jobs/{id}"));
        let Some(location) = location.filter(|_| held) else { panic!("the scrub was over at once") };
        assert_eq!(array.ask("DELETE", &location, "", None).status, 200);
        (waiting.join().unwrap(), location)
    });
    assert_eq!(answer.status, 409, "{}", answer.body);
    is_ended_on_request(&answer.json(), &location);
}

/// The harm: it was told that the pool was in use, or that the array did not serve.
fn is_ended_on_request(problem: &serde_json::Value, location: &str) {
    let id = location.rsplit('/').next().unwrap();
    assert_eq!(
        (&problem["kind"], &problem["reason"], &problem["status"]),
        (&json!("cancelled"), &json!("job-ended"), &json!(409)),
        "{problem}"
    );
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(id) && detail.contains("on request"), "{problem}");
    assert!(problem["remedy"]["command"].as_str().unwrap().contains("nothing is in use"), "{problem}");
}
