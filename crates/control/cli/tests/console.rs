//! The console as a browser uses it: let in once, shown figures as they come, and nothing to anybody else.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::Array;
use support::nbd::Nbd;

/// The console of an array, at its own address.
struct Browser {
    host: String,
    token: Option<String>,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Browser {
    /// Opens the address that `ashlar console` prints; also returns its ticket.
    fn at(array: &Array) -> (Browser, String) {
        let address = array.json(&["console"])["address"].as_str().unwrap().to_string();
        let (host, ticket) =
            address.strip_prefix("http://").unwrap().split_once("/console/#ticket=").unwrap();
        (Browser { host: host.to_string(), token: None }, ticket.to_string())
    }

    fn signed_in(array: &Array) -> Browser {
        let (mut browser, ticket) = Browser::at(array);
        let answer = browser.ask("POST", "/v1/console-sessions", Some(&json!({ "ticket": ticket })));
        assert_eq!(answer.status, 201);
        browser.token = Some(answer.json()["token"].as_str().unwrap().to_string());
        browser
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>, more: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{more}", self.host);
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        if !body.is_empty() {
            head += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        write!(stream, "{head}\r\n{body}").unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.ask_with(method, path, body, "")
    }

    fn ask_with(&self, method: &str, path: &str, body: Option<&Value>, more: &str) -> Answer {
        let mut bytes = Vec::new();
        let more = format!("{more}connection: close\r\n");
        self.send(method, path, body, &more).read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: bytes[end + 4..].to_vec() }
    }

    /// Messages as they come: name, id and data.
    fn listen(&self, more: &str) -> impl Iterator<Item = (String, String, Value)> + use<> {
        let mut lines =
            BufReader::new(self.send("GET", "/v1/live", None, more)).lines().map_while(Result::ok);
        std::iter::from_fn(move || {
            let (mut name, mut id) = (String::new(), String::new());
            for line in lines.by_ref() {
                match line.split_once(": ") {
                    Some(("event", word)) => name = word.to_string(),
                    Some(("id", word)) => id = word.to_string(),
                    Some(("data", text)) => return Some((name, id, serde_json::from_str(text).unwrap())),
                    _ => {}
                }
            }
            None
        })
    }
}

#[test]
fn a_ticket_lets_one_browser_in_and_nobody_else() {
    let array = Array::with_pool();
    let (browser, ticket) = Browser::at(&array);
    let pages = ["/console/", "/console/volumes/db", "/console/volumes/db?tab=users"];
    for path in pages.into_iter().chain(["/console/app.js", "/console/app.css"]) {
        let answer = browser.ask("GET", path, None);
        assert_eq!(answer.status, 200, "{path}");
        for guard in ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff"] {
            assert!(answer.head.contains(guard), "{path}: {}", answer.head);
        }
    }
    let page = browser.ask("GET", "/console/", None);
    let tag = page.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_string();
    let again = browser.ask_with("GET", "/console/", None, &format!("if-none-match: {tag}\r\n"));
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(browser.ask("GET", "/", None).status, 307);
    for path in ["/v1/status", "/v1/live", "/metrics", "/openapi.json", "/healthz"] {
        assert_eq!(browser.ask("GET", path, None).status, 401, "{path}");
    }
    let with = |ticket: &str| browser.ask("POST", "/v1/console-sessions", Some(&json!({ "ticket": ticket })));
    assert_eq!(with("").status, 401);
    let session = with(&ticket);
    assert_eq!(session.status, 201);
    let error = with(&ticket);
    assert_eq!((error.status, error.json()["kind"].as_str()), (401, Some("unauthorized")));

    let token = session.json()["token"].as_str().map(str::to_string);
    let browser = Browser { token, ..browser };
    assert_eq!(browser.ask("GET", "/v1/status", None).status, 200);
    let volume = json!({ "name": "db", "size_bytes": 1 << 20 });
    assert_eq!(browser.ask("POST", "/v1/volumes", Some(&volume)).status, 201);
    // Its session may what root may, who asked for it: guests get no file of this machine as a drive.
    let pool =
        json!({ "name": "more", "drives": [{ "path": array.path("more.img"), "size_bytes": 64 << 20 }] });
    assert_eq!(browser.ask("POST", "/v1/pools", Some(&pool)).status, 201);
    for origin in ["http://evil.example", "http://127.0.0.1:1", "null"] {
        let answer = browser.ask_with("GET", "/v1/status", None, &format!("origin: {origin}\r\n"));
        assert_eq!(answer.status, 403, "{origin}");
    }
}

/// The points of the volume's last hour, once there is one: a step has ten seconds.
fn points_of_hour(browser: &Browser) -> Vec<serde_json::Value> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = browser.ask("GET", "/v1/history?object=volume:db&range=hour", None);
        let points = answer.json()["points"].as_array().unwrap().clone();
        if !points.is_empty() {
            return points;
        }
        assert!(Instant::now() < end, "no step came to its end");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Charts outlive the array, in the pool.
fn check_again(array: &mut Array, kept: &[serde_json::Value]) {
    array.start();
    let again = points_of_hour(&Browser::signed_in(array));
    assert_eq!(again[0]["unix_millis"], kept[0]["unix_millis"], "{again:?}");
    let rate = |point: &serde_json::Value| point["rates"]["writes_per_second"].as_f64().unwrap();
    assert!(rate(&again[0]) > 0.0 && (rate(&again[0]) / rate(&kept[0]) - 1.0).abs() < 1e-3, "{again:?}");
    let listed = array.json(&["volume", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "the volume that holds it is nobody's: {listed}");
}

#[test]
fn figures_and_events_come_as_they_are_and_end_with_the_array() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let browser = Browser::signed_in(&array);
    let mut live = browser.listen("");
    let (name, _, hello) = live.next().unwrap();
    assert_eq!((name.as_str(), hello["interval_millis"].as_u64()), ("hello", Some(1000)));

    let mut host = Nbd::connect(array.state(), "db");
    let write = |host: &mut Nbd| (0..50).for_each(|block| host.write(block * 8192, &[7; 8192]));
    let (mut written, end) = (0.0, Instant::now() + Duration::from_secs(30));
    write(&mut host);
    while written < 100.0 {
        assert!(Instant::now() < end, "no figures of {written} writes");
        let (name, _, figures) = live.next().unwrap();
        if name != "figures" {
            continue;
        }
        let seconds = figures["interval_millis"].as_f64().unwrap() / 1000.0;
        let volume = figures["volumes"].as_array().unwrap().iter().find(|volume| volume["volume"] == "db");
        if let Some(volume) = volume {
            let rates = &volume["rates"];
            written += rates["writes_per_second"].as_f64().unwrap() * seconds;
            assert!(rates["write_latency_micros"]["p99"].as_u64().unwrap() > 0, "{rates}");
            assert_eq!(rates, &figures["array"], "it is the only one");
            assert_eq!(rates, &figures["pools"][0]["rates"]);
        }
        write(&mut host);
    }
    array.good(&["snapshot", "create", "s", "db"]);
    let (_, id, event) =
        live.find(|(name, _, event)| name == "event" && event["object"] == "snapshot s").unwrap();
    assert_eq!(id, format!("{}:{}", hello["boot_id"].as_str().unwrap(), event["sequence"]));
    // Who comes back hears what was missed.
    let before = id
        .rsplit_once(':')
        .map(|(boot, number)| format!("last-event-id: {boot}:{}\r\n", number.parse::<u64>().unwrap() - 1));
    let again = browser.listen(&before.unwrap()).find(|(name, _, _)| name == "event").unwrap();
    assert_eq!(again.2, event);

    for object in ["array", "pool:main", "volume:db"] {
        let answer = browser.ask("GET", &format!("/v1/history?object={object}&range=day"), None);
        assert_eq!((answer.status, answer.json()["step_seconds"].as_u64()), (200, Some(300)), "{object}");
        let answer = browser.ask("GET", &format!("/v1/latencies?object={object}&range=hour"), None);
        assert_eq!((answer.status, &answer.json()["bounds_micros"][0]), (200, &16.384.into()), "{object}");
    }
    for (question, status) in
        [("object=volume:no&range=day", 404), ("object=x&range=day", 400), ("range=day", 400)]
    {
        for path in ["history", "latencies"] {
            let answer = browser.ask("GET", &format!("/v1/{path}?{question}"), None);
            assert_eq!(answer.status, status, "{path}?{question}");
        }
    }
    let kept = points_of_hour(&browser);
    let (stopped, begun) = (array.terminate(), Instant::now());
    assert_eq!(stopped, Some(0), "{}", array.log());
    assert!(live.all(|(name, ..)| name != "hello") && begun.elapsed() < Duration::from_secs(4));
    check_again(&mut array, &kept);
}

#[test]
fn who_watches_the_array_from_outside_learns_whether_it_serves() {
    let array = Array::with_pool();
    assert_eq!(array.http("GET", "/healthz", None), (200, "ok\n".to_string()));
    let end = Instant::now() + Duration::from_secs(10);
    while array.http("GET", "/readyz", None) != (200, "ready\n".to_string()) {
        assert!(Instant::now() < end, "{}", array.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn top_tells_the_last_second_and_where_the_time_of_slow_requests_went() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let state = array.state().to_path_buf();
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let host = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            let mut host = Nbd::connect(&state, "db");
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                host.write(4096, &[7; 8192]);
                assert_eq!(host.read(4096, 8192), [7; 8192]);
            }
        }
    });
    let end = Instant::now() + Duration::from_secs(30);
    let figures = loop {
        let figures = array.json(&["top", "--count", "1"]);
        if figures["volumes"][0]["volume"] == "db" {
            break figures;
        }
        assert!(Instant::now() < end, "{figures}");
    };
    let stages = figures["pools"][0]["write_stages"].as_array().unwrap();
    let mean = |name: &str| {
        stages.iter().find(|stage| stage["stage"] == name).unwrap()["mean_micros"].as_f64().unwrap()
    };
    assert!(mean("journal") > 0.0 && mean("drive") == 0.0, "{stages:?}");
    let text = array.good(&["top", "--count", "1"]);
    assert!(text.contains("mean of writes:") && text.contains("journal"), "{text}");
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    host.join().unwrap();

    let slow = array.json(&["top", "--slow"]);
    let slowest = &slow[0];
    assert_eq!((slowest["volume"].as_str(), slowest["length_bytes"].as_u64()), (Some("db"), Some(8192)));
    for request in slow.as_array().unwrap() {
        let stages: u64 = request["stages"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        let whole = request["micros"].as_u64().unwrap();
        // Each is cut to whole microseconds.
        assert!(stages <= whole && stages + 6 >= whole, "the stages are not all: {request}");
    }
    assert!(array.good(&["top", "--slow"]).contains("OF THAT"));
}

#[test]
fn who_follows_events_hears_those_of_the_next_life_too() {
    let mut array = Array::with_pool();
    let mut follower = std::process::Command::new(support::program())
        .args(["events", "--follow", "--json", "--state"])
        .arg(array.state())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(follower.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut events = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let is_ready = |event: &Value| event["message"] == "ready";
    assert!(events.any(|event| is_ready(&event)));
    array.good(&["volume", "create", "db", "--size", "1MiB"]);
    assert!(events.any(|event| event["object"] == "volume db"));
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    array.start();
    assert!(events.any(|event| is_ready(&event)));
    array.good(&["volume", "delete", "db", "--yes"]);
    let deleted = events.find(|event| event["object"] == "volume db").unwrap();
    assert!(deleted["message"].as_str().unwrap().contains("deleted"), "nothing comes twice: {deleted}");
    follower.kill().unwrap();
    follower.wait().unwrap();
}
