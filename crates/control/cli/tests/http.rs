//! The API as programs other than ours use it: documented, strict, and closed to browsers' pages.

#![allow(clippy::unwrap_used)]

mod support;

use support::{Array, exchange};

#[test]
fn every_documented_operation_is_served() {
    let array = Array::started();
    let operations = ashlar_api::operations();
    // Last: it is obeyed. The stream has no end; tests/console.rs listens to it.
    let (stop, others): (Vec<_>, Vec<_>) = operations.into_iter().partition(|(_, path)| path == "/v1/stop");
    let others = others.into_iter().filter(|(_, path)| path != "/v1/live");
    for (method, path) in others {
        let path = ["{pool}", "{volume}", "{snapshot}", "{name}", "{number}", "{client}", "{job}"]
            .iter()
            .fold(path, |path, name| path.replace(name, "x"));
        let (status, body) = array.http(&method, &path, Some("{}"));
        assert!(status != 405 && !body.contains("there is no `"), "{method} {path}: {status} {body}");
        assert!(status < 500, "{method} {path}: {status} {body}");
    }
    let (status, body) = array.http("GET", "/openapi.json", None);
    assert_eq!((status, body), (200, ashlar_api::openapi_json()));
    assert_eq!(array.http(&stop[0].0, &stop[0].1, Some("{}")).0, 202);
}

#[test]
fn wrong_requests_get_a_clear_answer_in_the_same_shape() {
    let array = Array::with_pool();
    for (method, path, body, status, word) in [
        ("POST", "/v1/volumes", "{", 400, "not JSON"),
        ("POST", "/v1/volumes", "[]", 400, "not what this operation takes"),
        ("POST", "/v1/volumes", r#"{"name":"db","size_bytes":4096,"sise":1}"#, 400, "sise"),
        ("POST", "/v1/volumes", r#"{"name":"db","size_bytes":"4096"}"#, 400, "size_bytes"),
        ("POST", "/v1/volumes", r#"{"name":"db","size_bytes":-1}"#, 400, "-1"),
        ("POST", "/v1/volumes", r#"{"name":"db","size_bytes":4097}"#, 400, "8192"),
        (
            "POST",
            "/v1/volumes",
            r#"{"name":"db","size_bytes":4096,"logical_block_bytes":1024}"#,
            400,
            "512 or 4096",
        ),
        ("PUT", "/v1/volumes/db/policy", r#"{}"#, 400, "nothing"),
        ("PUT", "/v1/volumes/db/policy", r#"{"dedupe":true}"#, 404, "db"),
        ("POST", "/v1/pools/main/dedupe", r#"{"action":"resize"}"#, 400, "index_max_bytes"),
        ("POST", "/v1/pools/main/dedupe", r#"{"action":"drop","index_max_bytes":1}"#, 400, "resize"),
        ("POST", "/v1/pools/main/dedupe", r#"{"action":"resize","index_max_bytes":1}"#, 400, "too small"),
        ("GET", "/v1/pools/other/dedupe", "{}", 404, "other"),
        ("POST", "/v1/volumes", r#"{"name":"../db","size_bytes":4096}"#, 400, "letters"),
        ("POST", "/v1/pools", r#"{"name":"p","drives":[]}"#, 400, "no drive"),
        ("POST", "/v1/pools", r#"{"name":"p","drives":[{"path":"relative"}]}"#, 400, "absolute"),
        ("POST", "/v1/pools", r#"{"name":"p","drives":[["/x",null,false]]}"#, 400, "drives[0]: it is a list"),
        (
            "POST",
            "/v1/pools",
            r#"{"name":"p","drives":[{"path":"/x"}],"protection":"triple"}"#,
            400,
            "triple",
        ),
        ("POST", "/v1/snapshots", r#"{"name":"s","volumes":[]}"#, 400, "no volume"),
        ("POST", "/v1/snapshot-deletions", r#"{"names":[]}"#, 400, "no snapshot"),
        ("POST", "/v1/snapshot-deletions", r#"{"names":["nope"]}"#, 404, "nope"),
        ("POST", "/v1/attachments", r#"{"volume":"db","mount":"relative"}"#, 400, "absolute"),
        ("GET", "/v1/volumes/a%2Fb%00", "{}", 404, "does not exist"),
        ("GET", "/v1/volumes/%ff", "{}", 400, "path"),
        ("GET", "/v1/events?after=x", "{}", 400, "query"),
        ("GET", "/v1/events?before=1", "{}", 400, "`after`"),
        ("GET", "/v1/volumes?limit=0", "{}", 400, "`limit`"),
        ("GET", "/v1/volumes?limt=10", "{}", 400, "`limt`"),
        ("GET", "/v1/pools/main?verbose", "{}", 400, "`verbose`"),
        ("DELETE", "/v1/volumes/db?forced=true", "{}", 400, "`force`, `now`"),
        ("POST", "/v1/volumes?dry_run=true", r#"{"name":"db","size_bytes":4096}"#, 400, "dry_run"),
        ("GET", "/metrics?name=x", "{}", 400, "`name`"),
        ("GET", "/v1/nothing", "{}", 404, "/v1/nothing"),
        ("PUT", "/v1/volumes", "{}", 405, "PUT"),
    ] {
        let (got, answer) = array.http(method, path, Some(body));
        assert_eq!(got, status, "{method} {path} {body}: {answer}");
        let problem: ashlar_api::Problem = serde_json::from_str(&answer).unwrap();
        let remedy = &problem.remedy;
        let is_said = problem.detail.contains(word) || remedy.command.contains(word);
        assert!(is_said, "{path} {body}: {answer}");
        assert!(!remedy.command.is_empty() && !remedy.request.contains("ashlar "), "{answer}");
        assert_eq!(problem.status, status, "{answer}");
    }
    let long = format!(r#"{{"name":"{}","size_bytes":4096}}"#, "x".repeat(4 << 20));
    assert_eq!(array.http("POST", "/v1/volumes", Some(&long)).0, 413);
    assert_eq!(array.http("GET", "/v1/volumes", None).1, "[]");
}

/// A client that keeps its connection lost the answer to the request that came behind a refused one, or this
/// one, in one of ten cases: the connection ended while it wrote the body.
#[test]
fn a_refusal_before_the_body_is_read_leaves_the_connection_whole() {
    use std::io::{Read, Write};
    let mut array = Array::unstarted();
    array.configure("api = \"127.0.0.1:0\"\n");
    array.start();
    let token = array.token("api.token");
    let body = "x".repeat(300_000);
    let plain = "content-type: text/plain\r\n";
    for (path, kind, status) in
        [("/v1/nothing", "", "404"), ("/v1/volumes", plain, "415"), ("/v1/pools/nope/check", "", "404")]
    {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{token}{kind}content-length: 300000\r\n\r\n");
        let socket = || std::os::unix::net::UnixStream::connect(array.state().join("api.sock")).unwrap();
        let streams: [Box<dyn ReadWrite>; 2] = [Box::new(socket()), Box::new(array.tcp("api.port"))];
        for mut stream in streams {
            for round in 0..10 {
                stream.write_all(head.as_bytes()).unwrap();
                // The refusal may be out before the body is.
                if round % 2 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                for part in body.as_bytes().chunks(50_000) {
                    stream.write_all(part).unwrap();
                }
                let mut answer = Vec::new();
                while !answer.ends_with(b"}") {
                    let mut part = [0; 4096];
                    let count = stream.read(&mut part).unwrap();
                    assert!(count > 0, "{path} {round}: no answer");
                    answer.extend_from_slice(&part[..count]);
                }
                let answer = String::from_utf8(answer).unwrap();
                assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
                assert!(!answer.to_lowercase().contains("connection: close"), "{path}: {answer}");
            }
        }
    }
    // What is too long to be read away ends the connection, and says so.
    let mut stream = std::os::unix::net::UnixStream::connect(array.state().join("api.sock")).unwrap();
    stream
        .write_all(b"POST /v1/nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("connection: close"), "{answer}");
}

trait ReadWrite: std::io::Read + std::io::Write {}

impl<S: std::io::Read + std::io::Write> ReadWrite for S {}

#[test]
fn rubbish_on_the_socket_does_not_disturb_the_array() {
    use std::io::Write;
    let array = Array::started();
    for rubbish in [&b"\0\0\0\0"[..], b"GET", b"POST /v1/volumes HTTP/1.1\r\ncontent-length: 99\r\n\r\n{"] {
        let mut stream = std::os::unix::net::UnixStream::connect(array.state().join("api.sock")).unwrap();
        stream.write_all(rubbish).unwrap();
    }
    assert_eq!(array.http("GET", "/v1/status", None).0, 200);
}

#[test]
fn the_tcp_port_answers_programs_and_refuses_pages_from_elsewhere() {
    let mut array = Array::unstarted();
    array.configure("api = \"127.0.0.1:0\"\n");
    array.start();
    let token = array.token("api.token");
    let ask = |headers: &str| {
        let headers = format!("{token}{headers}");
        exchange(array.tcp("api.port"), "GET", "/v1/status", &headers, None).0
    };
    assert_eq!(ask(""), 200);
    assert_eq!(ask("host: 127.0.0.1:1234\r\n"), 200);
    assert_eq!(ask("host: evil.example\r\n"), 403);
    assert_eq!(ask("origin: http://evil.example\r\n"), 403);
    assert_eq!(ask("origin: null\r\n"), 403);
    let body = r#"{"name":"p","drives":[]}"#;
    let plain = format!("{token}content-type: text/plain\r\n");
    let (status, answer) = exchange(array.tcp("api.port"), "POST", "/v1/pools", &plain, Some(body));
    assert_eq!(status, 415, "{answer}");
}

#[test]
fn metrics_and_events_tell_what_happened() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    let (status, text) = array.http("GET", "/metrics", None);
    assert_eq!(status, 200);
    for line in [
        "ashlar_pool_online{pool=\"main\"} 1",
        "ashlar_volume_size_bytes{pool=\"main\",volume=\"db\"} 1073741824",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    for level in ["cache_bytes", "map_bytes", "journal_queued_max", "writes_waiting", "dedupe_index_bytes"] {
        let begin = format!("ashlar_pool_{level}{{pool=\"main\"}} ");
        assert!(text.lines().any(|found| found.starts_with(&begin)), "{begin} is not in\n{text}");
    }
    let events = array.json(&["events"]);
    let events = events.as_array().unwrap();
    assert!(
        events.iter().any(|event| event["object"] == "volume db" && event["level"] == "info"),
        "{events:?}"
    );
    let last = events.last().unwrap()["sequence"].as_u64().unwrap();
    assert_eq!(array.http("GET", &format!("/v1/events?after={last}"), None).1, "[]");
}
