//! Who may what: users, roles, tokens, sessions, and the record of it, against a real array.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

use ashlar_api::{Least, Role};
use support::{Answer, Array, exchange_whole};

const PASSWORD: &str = "correct horse battery";

fn array() -> Array {
    let mut array = Array::unstarted();
    array.configure("api = \"127.0.0.1:0\"\n");
    array.start();
    array
}

/// Makes a user with the password of these tests.
fn add_user(array: &Array, name: &str, role: &str) {
    let file = array.path("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let file = file.display().to_string();
    array.good(&["user", "create", name, "--role", role, "--password-file", &file]);
}

/// Makes a token; returns its secret.
fn add_token(array: &Array, arguments: &[&str]) -> String {
    array.good(&[&["token", "create"], arguments].concat()).trim().to_string()
}

fn bearer(secret: &str) -> String {
    format!("authorization: Bearer {secret}\r\n")
}

fn ask(array: &Array, method: &str, path: &str, headers: &str, body: Option<&str>) -> Answer {
    exchange_whole(array.tcp("api.port"), method, path, headers, body)
}

fn log_in(array: &Array, user: &str, password: &str) -> Answer {
    let body = serde_json::json!({ "user": user, "password": password }).to_string();
    ask(array, "POST", "/v1/sessions", "", Some(&body))
}

/// The secret of a new session.
fn session(array: &Array, user: &str) -> String {
    let answer = log_in(array, user, PASSWORD);
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json()["token"].as_str().unwrap().to_string()
}

fn status_of(array: &Array, secret: &str, path: &str) -> u16 {
    ask(array, "GET", path, &bearer(secret), None).status
}

/// The status of a request whose answer may have no end.
fn head_status(array: &Array, method: &str, path: &str, headers: &str) -> u16 {
    let mut stream = array.tcp("api.port");
    // Harmless: no operation takes such a field, and whatever is named is not there.
    let body = r#"{"no_such_field":1}"#;
    let (kind, length) = ("content-type: application/json", body.len());
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}{kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.split(' ').nth(1).unwrap_or_else(|| panic!("{method} {path}: {line}")).parse().unwrap()
}

/// A path with names of things that are not there.
fn named(path: &str) -> String {
    let part = |part: &str| match part.starts_with('{') {
        true => "7".to_string(),
        false => part.to_string(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Every operation, asked for by everybody: let in or refused as the one table says.
#[test]
fn every_operation_is_for_its_role_and_for_no_lower_one() {
    let array = array();
    let short = add_token(&array, &["short", "--role", "admin", "--expires", "1s"]);
    let mut secrets = Vec::new();
    for role in Role::ALL {
        secrets.push((role, add_token(&array, &[role.name(), "--role", role.name()])));
    }
    let end = Instant::now() + Duration::from_secs(30);
    while array.json(&["token", "show", "short"])["is_expired"] != true {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    let wrong = format!("ashlar_{}", "0".repeat(64));
    let of_metrics = add_token(&array, &["metrics", "--role", "admin", "--only", "metrics"]);
    let mut refused_count = 0;
    for ((method, path), operation) in ashlar_api::operations_by_place() {
        let at = named(&path);
        let status = |headers: &str| head_status(&array, &method, &at, headers);
        let told = format!("{method} {path} ({operation})");
        let least = ashlar_api::least_for(&operation).unwrap();
        let Least::Role(least) = least else {
            // How one is let in: the body is wrong, and nothing else.
            assert_eq!(status(""), 400, "{told}");
            continue;
        };
        for stranger in
            [String::new(), bearer(&wrong), bearer(&short), "authorization: Basic eDp4\r\n".to_string()]
        {
            assert_eq!(status(&stranger), 401, "{told}: {stranger}");
        }
        for (role, secret) in &secrets {
            let status = status(&bearer(secret));
            assert_ne!(status, 401, "{told}: {}", role.name());
            assert_eq!(status == 403, *role < least, "{told}: {}: {status}", role.name());
            assert!(status < 500, "{told}: {}: {status}", role.name());
            refused_count += u32::from(status == 403);
        }
        let (_, admin) = secrets.last().unwrap();
        for elsewhere in ["origin: http://evil.example\r\n", "origin: null\r\n"] {
            assert_eq!(status(&format!("{}{elsewhere}", bearer(admin))), 403, "{told}: {elsewhere}");
        }
        let is_for_metrics = ["health", "session"].contains(&operation.as_str());
        assert_eq!(status(&bearer(&of_metrics)) != 403, is_for_metrics, "{told}: a token for metrics");
    }
    assert!(refused_count > 100, "{refused_count}");
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert!([200, 503].contains(&status_of(&array, &of_metrics, path)), "{path}");
        assert_eq!(head_status(&array, "GET", path, ""), 401);
    }
    assert_eq!(status_of(&array, &of_metrics, "/openapi.json"), 403);
    // The array still serves: nothing of that did anything.
    assert_eq!(array.json(&["status"])["pools"], serde_json::json!([]));
}

#[test]
fn a_refusal_says_which_role_it_takes_and_the_session_what_is_refused() {
    let array = array();
    add_user(&array, "vera", "viewer");
    let secret = session(&array, "vera");
    let answer = ask(&array, "POST", "/v1/volumes", &bearer(&secret), Some("{}"));
    let problem = answer.json();
    assert_eq!(
        (answer.status, problem["kind"].as_str(), problem["reason"].as_str()),
        (403, Some("forbidden"), Some("role-too-low"))
    );
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("`vera`") && detail.contains("viewer") && detail.contains("takes operator"),
        "{detail}"
    );
    let told = ask(&array, "GET", "/v1/session", &bearer(&secret), None).json();
    assert_eq!(
        (told["caller"].as_str(), told["role"].as_str(), told["user"].as_str()),
        (Some("person"), Some("viewer"), Some("vera"))
    );
    let refused: Vec<&str> =
        told["refused_operations"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert!(refused.contains(&"volume_create") && refused.contains(&"users_list"));
    assert!(!refused.contains(&"volumes_list"));
    // The description says it, too.
    let description: serde_json::Value = serde_json::from_str(&ashlar_api::openapi_json()).unwrap();
    assert_eq!(description["paths"]["/v1/volumes"]["post"]["x-least-role"], "operator");
}

/// What names programs or places of the machine stays root's, whatever the role.
#[test]
fn an_admin_over_the_network_names_no_programs_and_no_drives() {
    let array = array();
    let secret = add_token(&array, &["far", "--role", "admin"]);
    let reason = |method: &str, path: &str, body: &str| {
        let answer = ask(&array, method, path, &bearer(&secret), Some(body));
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
        answer.json()["reason"].as_str().unwrap().to_string()
    };
    assert_eq!(reason("POST", "/v1/upgrade", r#"{"program":"/bin/true"}"#), "root-only");
    let hooks = r#"{"account":"root","freeze":"id"}"#;
    assert_eq!(reason("PUT", "/v1/databases/x/commands", hooks), "root-only");
    let import = r#"{"name":"x","from_directory":"/etc"}"#;
    assert_eq!(reason("POST", "/v1/database-imports", import), "root-only");
    let pool = r#"{"name":"p","drives":[{"path":"/dev/null"}]}"#;
    assert_eq!(reason("POST", "/v1/pools", pool), "place-not-allowed");
    let create =
        r#"{"name":"x","size_bytes":1073741824,"engine":"none","hooks":{"account":"root","start":"id"}}"#;
    assert_eq!(reason("POST", "/v1/databases", create), "root-only");
}

#[test]
fn a_session_ends_with_whatever_its_user_was() {
    let array = array();
    add_user(&array, "ada", "operator");
    let secret = session(&array, "ada");
    assert_eq!(status_of(&array, &secret, "/v1/volumes"), 200);
    assert_eq!(array.json(&["user", "show", "ada"])["session_count"], 1);
    let password = array.path("password").display().to_string();
    let changes: [&[&str]; 4] = [
        &["user", "set", "ada", "--role", "viewer"],
        &["user", "set", "ada", "--password-file", &password],
        &["user", "set", "ada", "--disable"],
        &["user", "delete", "ada", "--yes"],
    ];
    let mut last = secret;
    for change in changes {
        array.good(change);
        assert_eq!(status_of(&array, &last, "/v1/volumes"), 401, "{change:?}");
        if change.contains(&"--disable") {
            assert_eq!(log_in(&array, "ada", PASSWORD).status, 401);
            array.good(&["user", "set", "ada", "--enable"]);
        }
        if !change.contains(&"delete") {
            last = session(&array, "ada");
        }
    }
    // One of the same name is somebody else.
    add_user(&array, "ada", "operator");
    assert_eq!(status_of(&array, &last, "/v1/volumes"), 401);
    let (one, other) = (session(&array, "ada"), session(&array, "ada"));
    assert_eq!(ask(&array, "DELETE", "/v1/session", &bearer(&one), None).status, 204);
    assert_eq!(status_of(&array, &one, "/v1/volumes"), 401);
    assert_eq!(status_of(&array, &other, "/v1/volumes"), 200);
    // It would outlive this one.
    assert_eq!(ask(&array, "POST", "/v1/console-tickets", &bearer(&other), None).status, 403);
    array.good(&["user", "delete", "ada", "--yes"]);
    assert_eq!(status_of(&array, &other, "/v1/volumes"), 401);
    // A ticket has the rights of who asked, and ends with them.
    let token = add_token(&array, &["desk", "--role", "operator"]);
    let ticket = ask(&array, "POST", "/v1/console-tickets", &bearer(&token), None).json();
    let ticket = ticket["address"].as_str().unwrap().split("#ticket=").nth(1).unwrap().to_string();
    let body = serde_json::json!({ "ticket": ticket }).to_string();
    let opened = ask(&array, "POST", "/v1/console-sessions", "", Some(&body)).json();
    let opened = opened["token"].as_str().unwrap().to_string();
    assert_eq!(status_of(&array, &opened, "/v1/volumes"), 200);
    assert_eq!(status_of(&array, &opened, "/v1/users"), 403);
    let late = ask(&array, "POST", "/v1/console-tickets", &bearer(&token), None).json();
    array.good(&["token", "delete", "desk", "--yes"]);
    assert_eq!(status_of(&array, &opened, "/v1/volumes"), 401);
    let late = late["address"].as_str().unwrap().split("#ticket=").nth(1).unwrap().to_string();
    let late = serde_json::json!({ "ticket": late }).to_string();
    assert_eq!(ask(&array, "POST", "/v1/console-sessions", "", Some(&late)).status, 401);
}

#[test]
fn users_change_their_own_password_and_nobody_elses() {
    let array = array();
    add_user(&array, "ada", "viewer");
    let secret = session(&array, "ada");
    let change = |old: &str, new: &str| {
        let body = serde_json::json!({ "password": old, "new_password": new }).to_string();
        ask(&array, "PUT", "/v1/session/password", &bearer(&secret), Some(&body)).status
    };
    assert_eq!(change("a wrong password", "another long password"), 401);
    assert_eq!(change(PASSWORD, "short"), 400);
    assert_eq!(change(PASSWORD, "another long password"), 204);
    assert_eq!(status_of(&array, &secret, "/v1/volumes"), 401);
    assert_eq!(log_in(&array, "ada", PASSWORD).status, 401);
    assert_eq!(log_in(&array, "ada", "another long password").status, 201);
    let token = add_token(&array, &["t", "--role", "admin"]);
    let body = serde_json::json!({ "password": PASSWORD, "new_password": PASSWORD }).to_string();
    assert_eq!(ask(&array, "PUT", "/v1/session/password", &bearer(&token), Some(&body)).status, 400);
}

#[test]
fn a_stream_ends_with_its_session() {
    let array = array();
    add_user(&array, "ada", "viewer");
    let secret = session(&array, "ada");
    let mut stream = array.tcp("api.port");
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!("GET /v1/live HTTP/1.1\r\nhost: localhost\r\n{}\r\n", bearer(&secret));
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.next().unwrap().unwrap().contains("200"));
    assert!(lines.by_ref().any(|line| line.unwrap().contains("event: figures")));
    array.good(&["user", "delete", "ada", "--yes"]);
    // The last part of a body in parts is empty.
    assert!(lines.any(|line| line.unwrap() == "0"), "it goes on");
}

#[test]
fn who_fails_again_and_again_waits() {
    let array = array();
    add_user(&array, "ada", "admin");
    let mut answers: Vec<Answer> = (0..5).map(|_| log_in(&array, "ada", "not the password")).collect();
    let last = answers.pop().unwrap();
    assert!(answers.iter().all(|answer| answer.status == 401 && answer.json()["reason"] == "wrong-login"));
    assert_eq!(last.status, 429, "{}", last.body);
    assert_eq!(last.json()["kind"], "too-many");
    let wait: u64 = last.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=2).contains(&wait), "{wait}");
    // The right password is not looked at before; behind the wait it is.
    assert_eq!(log_in(&array, "ada", PASSWORD).status, 429);
    let end = Instant::now() + Duration::from_secs(30);
    while log_in(&array, "ada", PASSWORD).status != 201 {
        assert!(Instant::now() < end, "it waits for ever");
        std::thread::sleep(Duration::from_millis(200));
    }
    // Tokens and sessions of others go on meanwhile.
    let token = add_token(&array, &["t", "--role", "viewer"]);
    assert_eq!(status_of(&array, &token, "/v1/status"), 200);
}

/// A crowd that logs in at once must not hold up those who work, nor get around the waits.
#[test]
fn many_logins_at_once_leave_the_array_answering() {
    let array = array();
    add_user(&array, "ada", "admin");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let crowd: Vec<_> =
            (0..40).map(|_| scope.spawn(|| log_in(&array, "ada", "wrong password").status)).collect();
        let since = Instant::now();
        array.good(&["status"]);
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        crowd.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let looked_at = statuses.iter().filter(|status| **status == 401).count();
    assert!(looked_at <= 6, "{statuses:?}");
    assert!(statuses.iter().all(|status| [401, 429, 503].contains(status)), "{statuses:?}");
}

// tidy: long because it is one record from its first line to its last.
#[test]
fn what_was_done_is_written_down_and_no_secret_is() {
    let mut array = array();
    let drive = format!("{},size=1GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    add_user(&array, "ada", "operator");
    let secret = session(&array, "ada");
    let token = add_token(&array, &["backup", "--role", "viewer"]);
    let volume = r#"{"name":"db","size_bytes":1073741824}"#;
    assert_eq!(ask(&array, "POST", "/v1/volumes", &bearer(&secret), Some(volume)).status, 201);
    assert_eq!(ask(&array, "DELETE", "/v1/volumes/db?now=true", &bearer(&token), None).status, 403);
    assert_eq!(ask(&array, "GET", "/v1/users", &bearer(&token), None).status, 403);
    assert_eq!(log_in(&array, "ada", "a wrong password").status, 401);
    // Somebody types the password where the name belongs.
    assert_eq!(log_in(&array, "hunter2 hunter2", "x").status, 401);
    assert_eq!(status_of(&array, "nobodys-token", "/v1/volumes"), 401);
    array.good(&["volume", "delete", "db", "--yes"]);
    let entries = array.json(&["audit"]);
    let entries = entries.as_array().unwrap();
    let uid = format!("uid {}", rustix::process::geteuid().as_raw());
    let found = |who: &str, method: &str, path: &str, object: &str, status: u16| {
        let is_one = |entry: &&serde_json::Value| {
            let name = format!(
                "{} {}",
                entry["object"]["kind"].as_str().unwrap_or(""),
                entry["object"]["name"].as_str().unwrap_or("")
            );
            entry["who"] == who
                && entry["method"] == method
                && entry["path"] == path
                && entry["status"] == status
                && name.trim() == object
        };
        let all = serde_json::to_string_pretty(entries).unwrap();
        entries
            .iter()
            .find(is_one)
            .unwrap_or_else(|| panic!("{who} {method} {path} {object} {status} is not in {all}"))
            .clone()
    };
    found(&uid, "POST", "/v1/pools", "pool main", 201);
    found(&uid, "POST", "/v1/users", "user ada", 201);
    found("user ada", "POST", "/v1/sessions", "user ada", 201);
    let made = found("user ada", "POST", "/v1/volumes", "volume db", 201);
    assert!(made["address"].as_str().unwrap().starts_with("127.0.0.1:"));
    let refused = found("token backup", "DELETE", "/v1/volumes/db?now=true", "volume db", 403);
    assert_eq!(refused["reason"], "role-too-low");
    found("token backup", "GET", "/v1/users", "", 403);
    assert_eq!(found("nobody", "POST", "/v1/sessions", "user ada", 401)["reason"], "wrong-login");
    found("nobody", "POST", "/v1/sessions", "", 401);
    found("nobody", "GET", "/v1/volumes", "", 401);
    let deleted = found(&uid, "DELETE", "/v1/volumes/db?force=false&now=false", "volume db", 200);
    assert!(deleted["address"].is_null());
    // Looking is not written down.
    assert!(!entries.iter().any(|entry| entry["method"] == "GET" && entry["status"] == 200));
    // Pages, and those of one.
    let page = array.ask("GET", "/v1/audit?limit=2&order=descending", "", None);
    assert!(page.header("link").unwrap().contains("cursor="), "{}", page.head);
    assert_eq!(page.json().as_array().unwrap().len(), 2);
    let own = array.http("GET", "/v1/audit?who=user%20ada", None).1;
    assert!(own.contains("volume") && !own.contains("uid "), "{own}");
    assert!(array.good(&["audit", "--refused"]).contains("role-too-low"));
    // It goes on over a restart.
    let last = entries.last().unwrap()["sequence"].as_u64().unwrap();
    array.terminate();
    let everything = |name: &str| std::fs::read_to_string(array.state().join(name)).unwrap();
    let session_of = secret.clone();
    for text in
        [everything("audit.log"), everything("audit-refused.log"), everything("users.toml"), array.log()]
    {
        for hidden in [PASSWORD, "hunter2", &session_of, &token, "nobodys-token", "a wrong password"] {
            assert!(!text.contains(hidden), "{hidden} is in {text}");
        }
    }
    array.start();
    array.good(&["user", "delete", "ada", "--yes"]);
    let newest = array.json(&["audit", "--limit", "1"]);
    assert_eq!(newest[0]["sequence"], last + 1);
    assert!(
        array.json(&["token", "show", "backup"])["last_used_unix_seconds"].is_u64(),
        "its use is forgotten"
    );
    assert_eq!(status_of(&array, &session_of, "/v1/volumes"), 401, "sessions do not outlive the array");
    assert_eq!(status_of(&array, &token, "/v1/volumes"), 200, "tokens do");
}

/// The loss would be the record of what somebody did, pushed out by a stranger without a token.
#[test]
fn what_strangers_fail_at_pushes_nothing_out_of_the_record() {
    let array = array();
    add_user(&array, "ada", "viewer");
    for _ in 0..100 {
        assert_eq!(ask(&array, "POST", "/v1/sessions?no=1", "", Some("{}")).status, 400);
    }
    let lines = |name: &str| std::fs::read_to_string(array.state().join(name)).unwrap();
    assert!(!lines("audit.log").contains("/v1/sessions"));
    let refused = lines("audit-refused.log").lines().count();
    assert!((1..=60).contains(&refused), "{refused} lines");
    let shown = array.json(&["audit"]);
    assert!(shown.as_array().unwrap().iter().any(|entry| entry["path"] == "/v1/sessions?no=1"), "{shown}");
}

/// The loss would be places of the API that somebody keeps who may come in no more.
#[test]
fn a_connection_ends_with_what_opened_it() {
    let array = array();
    let secret = add_token(&array, &["passing", "--role", "viewer"]);
    let mut stream = array.tcp("api.port");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut ask = |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{}\r\n", bearer(&secret));
        stream.write_all(head.as_bytes()).unwrap();
        read_answer(&mut stream)
    };
    let good = ask("/v1/pools");
    assert!(good.starts_with("HTTP/1.1 200") && !good.contains("connection: close"), "{good}");
    array.good(&["token", "delete", "passing", "--yes"]);
    let refused = ask("/v1/pools");
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("connection: close"), "{refused}");
}

/// The head of the next answer; its body is read away.
fn read_answer(stream: &mut std::net::TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let head = head.to_lowercase().replacen("http", "HTTP", 1);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    head
}

#[test]
fn nobody_gets_the_answer_to_another_ones_request() {
    let array = array();
    let (one, other) = (
        add_token(&array, &["one", "--role", "operator"]),
        add_token(&array, &["other", "--role", "operator"]),
    );
    let mark = |secret: &str| {
        let headers = format!("{}idempotency-key: k1\r\n", bearer(secret));
        ask(&array, "POST", "/v1/marks", &headers, Some(r#"{"text":"goes live"}"#))
    };
    let (first, again, others) = (mark(&one), mark(&one), mark(&other));
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_ne!(first.json()["id"], others.json()["id"]);
    assert!(
        again.header("idempotency-replayed").is_some() && others.header("idempotency-replayed").is_none()
    );
    // A secret is told once: a key does not keep it.
    let admin = add_token(&array, &["admin", "--role", "admin"]);
    let make = || {
        let headers = format!("{}idempotency-key: k2\r\n", bearer(&admin));
        ask(&array, "POST", "/v1/tokens", &headers, Some(r#"{"name":"t","role":"viewer"}"#)).status
    };
    assert_eq!((make(), make()), (201, 409));
}

/// The harm: everybody is let in, or users are gone without a word and somebody makes "the first admin" anew.
#[test]
fn a_damaged_file_of_users_lets_nobody_in_and_says_so() {
    let mut array = array();
    add_user(&array, "ada", "admin");
    let token = add_token(&array, &["t", "--role", "admin"]);
    array.terminate();
    let file = array.state().join("users.toml");
    let copy = array.state().join("users.copy.toml");
    let whole = std::fs::read_to_string(&file).unwrap();
    // One of two is mended.
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    array.start();
    assert_eq!(status_of(&array, &token, "/v1/status"), 200);
    array.wait_for_log("mended from users.copy.toml", 1);
    array.terminate();
    // Both are not.
    let wrong = whole.replace("role = \"admin\"", "role = \"viewer\"");
    assert_ne!(wrong, whole);
    std::fs::write(&file, &wrong).unwrap();
    std::fs::write(&copy, &wrong).unwrap();
    array.start();
    assert_eq!(status_of(&array, &token, "/v1/status"), 401);
    assert_eq!(log_in(&array, "ada", PASSWORD).status, 401);
    array.refused(
        &["token", "create", "x", "--role", "admin"],
        &["users.toml", "not as it was written", "move both away"],
    );
    // They are not taken for none.
    for list in ["user", "token"] {
        array.refused(&[list, "list"], &["users.toml", "not as it was written"]);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), wrong, "it was written over");
    array.good(&["status"]);
    let of_file = array.token("api.token");
    assert_eq!(ask(&array, "GET", "/v1/status", &of_file, None).status, 200);
    array.terminate();
    std::fs::write(&file, &whole).unwrap();
    std::fs::remove_file(&copy).unwrap();
    array.start();
    assert_eq!(status_of(&array, &token, "/v1/status"), 200);
}

#[test]
fn the_command_line_makes_users_and_tokens() {
    let array = array();
    let short = array.path("short").display().to_string();
    std::fs::write(&short, "too short\n").unwrap();
    array.refused(
        &["user", "create", "ada", "--role", "viewer", "--password-file", &short],
        &["9 letters", "12"],
    );
    array.misused(&["user", "create", "ada", "--role", "viewer"], &["--password-file"]);
    array.misused(
        &["user", "create", "ada", "--role", "king", "--password-file", &short],
        &["viewer, operator or admin"],
    );
    array.misused(&["user", "set", "ada"], &["--role"]);
    add_user(&array, "ada", "viewer");
    array.refused(&["user", "show", "bob"], &["`bob`", "ashlar user list"]);
    array.misused(&["user", "delete", "ada"], &["--yes"]);
    assert!(
        array.good(&["user", "list"]).contains("ada   viewer  may log in"),
        "{}",
        array.good(&["user", "list"])
    );
    let password = array.path("password").display().to_string();
    array.refused(&["user", "create", "ada", "--role", "viewer", "--password-file", &password], &["exists"]);
    array
        .refused(&["user", "create", "../x", "--role", "viewer", "--password-file", &password], &["letters"]);
    let secret = add_token(&array, &["backup", "--role", "viewer", "--expires", "90d"]);
    array.refused(&["token", "create", "backup", "--role", "viewer"], &["`backup` exists"]);
    let shown = array.json(&["token", "show", "backup"]);
    let life =
        shown["expires_unix_seconds"].as_u64().unwrap() - shown["created_unix_seconds"].as_u64().unwrap();
    assert_eq!(life, 90 * 86_400);
    assert!(!array.good(&["token", "list"]).contains(&secret[7..]));
    // The command line itself, over TCP.
    let file = array.path("backup.token").display().to_string();
    std::fs::write(&file, &secret).unwrap();
    let port = std::fs::read_to_string(array.state().join("api.port")).unwrap();
    let address = format!("127.0.0.1:{}", port.trim());
    let over_tcp = ["--address", &address, "--token-file", &file];
    array.good(&[&over_tcp[..], &["volume", "list"]].concat());
    array.refused(&[&over_tcp[..], &["stop"]].concat(), &["`backup`", "takes admin"]);
    array.good(&["token", "delete", "backup", "--yes"]);
    array.refused(&[&over_tcp[..], &["volume", "list"]].concat(), &["opens nothing"]);
}
