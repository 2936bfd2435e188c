//! Who gets in by which door, what a guest may name, and that a crowd at one door holds up nobody else.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::nbd::Nbd;
use support::{Array, can_attach, done, exchange, has_program};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

/// An array with these settings and a pool `main`.
fn with_settings(text: &str) -> Array {
    let mut array = Array::unstarted();
    array.configure(text);
    array.start();
    let drive = format!("{},size=256MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array
}

const TCP: &str = "api = \"127.0.0.1:0\"\nmetrics = \"127.0.0.1:0\"\n";

/// The ports were there without being asked for, and asked for nothing: every user was root.
#[test]
fn only_sockets_are_open_unless_asked_for_and_only_to_their_user() {
    let array = Array::started();
    for door in array.json(&["status"])["doors"].as_array().unwrap() {
        assert!(door["transport"] != "tcp" || door["state"] == "off", "{door}");
    }
    for name in ["api.port", "metrics.port"] {
        assert!(!array.state().join(name).exists(), "{name}");
    }
    for name in ["api.sock", "nbd.sock", "api.token", "metrics.token"] {
        assert_eq!(mode(&array.state().join(name)), 0o600, "{name}");
    }
    // Also where the directory was there before, open for all to look into.
    let mut open = Array::unstarted();
    std::fs::create_dir(open.state()).unwrap();
    std::fs::set_permissions(open.state(), std::fs::Permissions::from_mode(0o755)).unwrap();
    open.start();
    for entry in std::fs::read_dir(open.state()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn every_operation_over_tcp_asks_for_the_token() {
    let array = with_settings(TCP);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let more = [("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/v1/nothing"), ("PUT", "/v1/status")];
    let more = more.map(|(method, path)| (method.to_string(), path.to_string()));
    let stranger = array.token("metrics.token");
    let wrong = format!("authorization: Bearer {}\r\n", "0".repeat(64));
    // Who takes a ticket or logs in has no token yet: tests/console.rs, tests/security.rs.
    let is_entry = |path: &str| ["/v1/console-sessions", "/v1/sessions"].contains(&path);
    let asked = ashlar_api::operations().into_iter().filter(|(_, path)| !is_entry(path));
    for (method, path) in asked.chain(more) {
        let path = ["{pool}", "{volume}", "{snapshot}", "{name}", "{number}", "{client}"]
            .iter()
            .zip(["main", "db", "s", "db", "0", "1"])
            .fold(path, |path, (name, real)| path.replace(name, real));
        for headers in ["", &wrong, &stranger, "authorization: Basic cm9vdDo=\r\n"] {
            let (status, body) = exchange(array.tcp("api.port"), &method, &path, headers, Some("{}"));
            assert_eq!(status, 401, "{method} {path} {headers}: {body}");
            let problem: ashlar_api::Problem = serde_json::from_str(&body).unwrap();
            let detail = &problem.detail;
            assert!(detail.contains("token") || detail.contains("Bearer"), "{body}");
            assert!(problem.remedy.request.contains("Authorization: Bearer"), "{body}");
        }
    }
    assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 1);
    let (status, _) =
        exchange(array.tcp("api.port"), "GET", "/v1/volumes/db", &array.token("api.token"), None);
    assert_eq!(status, 200);
}

#[test]
fn the_command_line_finds_the_token_and_says_when_it_is_not_the_right_one() {
    let array = with_settings(TCP);
    let port = std::fs::read_to_string(array.state().join("api.port")).unwrap();
    let address = format!("127.0.0.1:{}", port.trim());
    array.good(&["pool", "list", "--address", &address]);
    let elsewhere = array.path("elsewhere.token");
    std::fs::copy(array.state().join("api.token"), &elsewhere).unwrap();
    let mut command = Command::new(support::program());
    command.args(["--state", "/nonexistent", "pool", "list"]);
    command.env("ASHLAR_ADDRESS", &address).env("ASHLAR_TOKEN_FILE", &elsewhere);
    assert_eq!(done(command.output().unwrap()).status, 0);
    let other = array.path("other.token");
    std::fs::write(&other, "0123456789abcdef\n").unwrap();
    let other = other.display().to_string();
    array.refused(
        &["pool", "list", "--address", &address, "--token-file", &other],
        &["token", "opens nothing"],
    );
    let missing = array.path("missing").display().to_string();
    array.refused(
        &["pool", "list", "--address", &address, "--token-file", &missing],
        &["missing", "--token-file"],
    );
}

#[test]
fn the_address_of_metrics_answers_nothing_else() {
    let array = with_settings(TCP);
    let ask = |method: &str, path: &str, headers: &str| {
        exchange(array.tcp("metrics.port"), method, path, headers, None)
    };
    for token in ["metrics.token", "api.token"] {
        let (status, text) = ask("GET", "/metrics", &array.token(token));
        assert!(status == 200 && text.contains("ashlar_pool_online{pool=\"main\"} 1"), "{status} {text}");
    }
    assert_eq!(ask("GET", "/metrics", "").0, 401);
    assert_eq!(ask("GET", "/metrics", &format!("{}host: evil.example\r\n", array.token("api.token"))).0, 403);
    for (method, path) in
        [("GET", "/v1/status"), ("DELETE", "/v1/pools/main"), ("POST", "/metrics"), ("GET", "/")]
    {
        assert_eq!(ask(method, path, "").0, 401);
        let (status, body) = ask(method, path, &array.token("api.token"));
        assert!(status == 404 && body.contains("nothing else"), "{method} {path}: {status} {body}");
    }
}

#[test]
fn a_token_file_that_others_can_read_ends_the_start() {
    let array = Array::unstarted();
    let file = array.path("own.token");
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    array.configure(&format!("api = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n", file.display()));
    let refused = done(array.serve_command().output().unwrap());
    assert_eq!(refused.status, 1);
    assert!(refused.err.lines().last().unwrap().contains("chmod 600"), "{}", refused.err);
}

/// With a token one could have a file made as root at any place, any device overwritten, and any directory
/// covered.
#[test]
fn who_comes_with_a_token_names_only_what_the_settings_name() {
    let mut array = Array::unstarted();
    let (drives, mounts) = (array.path("drives"), array.path("mounts"));
    std::fs::create_dir(&drives).unwrap();
    std::fs::create_dir(&mounts).unwrap();
    array.configure(&format!(
        "{TCP}guest_drives = [\"{}\"]\nguest_mounts = [\"{}\"]\n",
        drives.display(),
        mounts.display()
    ));
    array.start();
    let token = array.token("api.token");
    let ask = |method: &str, path: &str, body: &str| {
        exchange(array.tcp("api.port"), method, path, &token, Some(body))
    };
    let at = |path: &Path| format!(r#"{{"path":"{}","size_bytes":268435456}}"#, path.display());
    let good = format!(r#"{{"name":"main","drives":[{}]}}"#, at(&drives.join("a.img")));
    let (status, body) = ask("POST", "/v1/pools", &good);
    assert_eq!(status, 201, "{body}");
    let outside = array.path("outside.img");
    std::os::unix::fs::symlink(array.path(""), drives.join("link")).unwrap();
    for path in [&outside, &drives.join("link/outside.img"), &drives.join("../outside.img")] {
        let drive = at(path);
        for (method, target, body) in [
            ("POST", "/v1/pools", format!(r#"{{"name":"p","drives":[{drive}]}}"#)),
            ("POST", "/v1/pools/main/drives", format!(r#"{{"drives":[{drive}]}}"#)),
            ("POST", "/v1/pools/p/import", format!(r#"{{"drives":["{}"]}}"#, path.display())),
            ("POST", "/v1/pools/main/drives/0/replace", drive.clone()),
            ("POST", "/v1/pools/main/drives/0/online", format!(r#"{{"path":"{}"}}"#, path.display())),
        ] {
            let (status, answer) = ask(method, target, &body);
            assert!(status == 403 && answer.contains("guest_drives"), "{target} {body}: {status} {answer}");
        }
    }
    assert!(!outside.exists());
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    for (more, word) in [
        (r#""mount":"/etc""#, "guest_mounts"),
        (r#""mount":"/""#, "guest_mounts"),
        (r#""allows_suid":true"#, "root over the socket"),
        (r#""allows_devices":true"#, "root over the socket"),
    ] {
        let (status, answer) = ask("POST", "/v1/attachments", &format!(r#"{{"volume":"db",{more}}}"#));
        assert!(status == 403 && answer.contains(word), "{more}: {status} {answer}");
    }
    // Root over the socket names what it likes.
    array.good(&["pool", "create", "p", "--drive", &format!("{},size=256MiB", outside.display())]);
}

#[test]
fn a_group_may_be_let_in_and_its_members_are_guests() {
    if !rustix::process::geteuid().is_root() || !has_program("setpriv") || !has_program("curl") {
        println!("skipped: needs root, setpriv and curl");
        return;
    }
    let mut array = Array::unstarted();
    std::fs::set_permissions(array.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    array.configure("socket_group = \"64001\"\n");
    array.start();
    for name in ["api.sock", "nbd.sock"] {
        let metadata = std::fs::metadata(array.state().join(name)).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.gid()), (0o660, 64001), "{name}");
    }
    assert_eq!(mode(array.state()), 0o710);
    let ask = |groups: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", groups, "curl", "--silent", "--show-error"]);
        command.arg("--unix-socket").arg(array.state().join("api.sock")).args(arguments);
        done(command.output().unwrap())
    };
    let status = "http://localhost/v1/status";
    assert!(ask("--groups=64001", &[status]).out.contains("uptime_seconds"));
    assert_ne!(ask("--clear-groups", &[status]).status, 0);
    let outside = array.path("outside.img").display().to_string();
    let body = format!(r#"{{"name":"p","drives":[{{"path":"{outside}","size_bytes":268435456}}]}}"#);
    let json = ["-H", "content-type: application/json", "-d", &body, "http://localhost/v1/pools"];
    let refused = ask("--groups=64001", &json);
    assert!(refused.out.contains("guest_drives"), "{}{}", refused.out, refused.err);
    assert!(!Path::new(&outside).exists());
    array.configure("socket_group = \"no-such-group\"\n");
    assert_eq!(array.terminate(), Some(0));
    let refused = done(array.serve_command().output().unwrap());
    assert!(refused.err.contains("no-such-group"), "{}", refused.err);
}

/// Half-sent requests took every descriptor, for ever, and the command line hung with them.
#[test]
fn half_sent_requests_hold_up_nobody_and_are_let_go() {
    let mut array = Array::unstarted();
    array.configure(TCP);
    array.start_with_descriptors(256);
    let mut half: Vec<_> = (0..300).map(|_| array.tcp("api.port")).collect();
    for stream in &mut half {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // Those that were refused may be closed by now.
        let _ = stream.write_all(b"GET /v1/status HTTP/1.1\r\nhost: loc");
    }
    let start = Instant::now();
    let drive = format!("{},size=256MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    drop(Nbd::connect(array.state(), "db"));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let token = array.token("api.token");
    assert_eq!(exchange(array.tcp("api.port"), "GET", "/v1/status", &token, None).0, 200);
    // All end: the oldest when others needed their places, the rest when their time is over.
    for stream in &mut half {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    // A body that never comes ends as well.
    let mut stream = array.tcp("api.port");
    let head =
        format!("POST /v1/volumes HTTP/1.1\r\nhost: localhost\r\n{token}content-type: application/json\r\n");
    stream.write_all(format!("{head}content-length: 99\r\n\r\n{{").as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("did not come within"), "{answer}");
}

/// A connection that asks once and then stays.
fn staying(array: &Array, port_file: &str, path: &str, headers: &str) -> std::net::TcpStream {
    let mut stream = array.tcp(port_file);
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    let _ = stream.write_all(request.as_bytes());
    stream
}

/// Any user of the machine took all places for good, by connections that asked for the answer without a token
/// and then stayed.
#[test]
fn who_shows_no_token_over_tcp_gives_way_and_is_let_go() {
    let array = with_settings(TCP);
    for (port_file, token_file, path) in
        [("metrics.port", "metrics.token", "/metrics"), ("api.port", "api.token", "/v1/status")]
    {
        let token = array.token(token_file);
        let mut known = staying(&array, port_file, path, &token);
        let mut head = [0; 12];
        known.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        let start = Instant::now();
        let mut strangers: Vec<_> = (0..100).map(|_| staying(&array, port_file, "/healthz", "")).collect();
        for _ in 0..20 {
            assert_eq!(exchange(array.tcp(port_file), "GET", path, &token, None).0, 200);
        }
        let mut last = strangers.pop().unwrap();
        for stream in &mut strangers {
            let _ = stream.read_to_end(&mut Vec::new());
        }
        // One that asks again and again stays no longer.
        let mut asked = 1;
        while last.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").is_ok() {
            assert!(start.elapsed() < Duration::from_secs(25), "{port_file}: still there");
            let _ = last.read(&mut [0; 4096]);
            asked += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(asked > 1 && start.elapsed() > Duration::from_secs(5), "{asked}");
    }
}

/// Who has a token and stays keeps his place: others are told. One account alone does not get so far.
#[test]
fn a_crowd_with_tokens_is_told_that_there_is_no_place() {
    let mut array = Array::unstarted();
    array.configure(TCP);
    array.start_with_descriptors(256);
    let token = array.token("api.token");
    let accounts = ["one", "two", "three"].map(|name| {
        let secret = array.good(&["token", "create", name, "--role", "viewer"]);
        format!("authorization: Bearer {}\r\n", secret.trim())
    });
    let end = Instant::now() + Duration::from_secs(20);
    let mut alone = Vec::new();
    let refused = loop {
        alone.push(staying(&array, "api.port", "/v1/live", &accounts[0]));
        let answer = exchange(array.tcp("api.port"), "GET", "/v1/status", &accounts[0], None);
        if answer.0 == 503 {
            break answer.1;
        }
        assert!(Instant::now() < end, "it may have any number");
    };
    assert!(refused.contains("token one has") && refused.contains("the most of one"), "{refused}");
    assert_eq!(exchange(array.tcp("api.port"), "GET", "/v1/status", &token, None).0, 200);
    let mut crowd = Vec::new();
    let refused = loop {
        crowd.extend(accounts.iter().map(|account| staying(&array, "api.port", "/v1/live", account)));
        let answer = exchange(array.tcp("api.port"), "GET", "/v1/status", &token, None);
        if answer.0 == 503 {
            break answer.1;
        }
        assert!(Instant::now() < end, "none was refused");
    };
    assert!(refused.contains("which is the limit"), "{refused}");
    let events = array.good(&["events"]);
    assert_eq!(events.matches("more are refused").count(), 1, "{events}");
    let (_, metrics) = array.http("GET", "/metrics", None);
    let refused = metrics.lines().find(|line| line.starts_with("ashlar_clients_refused_total{door=\"api\"}"));
    assert!(refused.is_some_and(|line| !line.ends_with(" 0")), "{metrics}");
    drop((alone, crowd));
}

/// So many idle clients locked the administrator out of an array that may have 256 descriptors.
#[test]
fn idle_nbd_clients_leave_room_for_commands_drives_and_attachments() {
    let mut array = Array::unstarted();
    array.start_with_descriptors(256);
    let drive = |name: &str| format!("{},size=256MiB", array.path(name).display());
    array.good(&["pool", "create", "main", "--drive", &drive("main.img")]);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let idle: Vec<_> =
        (0..240).map(|_| UnixStream::connect(array.state().join("nbd.sock")).unwrap()).collect();
    array.good(&["pool", "create", "p", "--drive", &drive("p.img")]);
    array.good(&["volume", "create", "w", "--size", "64MiB", "--pool", "p"]);
    if can_attach() {
        array.good(&["attach", "w"]);
        array.good(&["detach", "w"]);
    }
    // The array looks for what its doors have to tell once a second.
    let end = Instant::now() + Duration::from_secs(30);
    let mut events = String::new();
    while !events.contains("more are refused") && Instant::now() < end {
        events = array.good(&["events"]);
    }
    assert!(events.contains("more are refused") && events.contains("client list"), "{events}");
    assert!(events.contains("limit of open files is 256"), "{events}");
    let (_, metrics) = array.http("GET", "/metrics", None);
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let clients = value("ashlar_clients{door=\"nbd\"}");
    assert!((64.0..200.0).contains(&clients), "{clients}");
    assert!(value("ashlar_clients_refused_total{door=\"nbd\"}") >= 40.0);
    drop(idle);
    // Of the API's places none is left, not even for root: that is told, and that nothing was done. Who says
    // nothing loses his place after a while, which on a busy machine is sooner than the command asks.
    let crowded = || {
        let come = || UnixStream::connect(array.state().join("api.sock")).unwrap();
        let _crowd: Vec<_> = (0..150).map(|_| come()).collect();
        // By then those of the crowd that are refused have gone: so many are told at the same time.
        std::thread::sleep(Duration::from_secs(2));
        array.run(&["volume", "list"])
    };
    let done = std::iter::repeat_with(crowded).take(10).find(|done| done.status != 0).unwrap();
    assert!(done.status == 1 && done.out.is_empty(), "{}{}", done.out, done.err);
    assert!(done.err.contains("which is the limit"), "{}", done.err);
    // It is no array that none serves.
    let examined = || {
        let _crowd: Vec<_> =
            (0..150).map(|_| UnixStream::connect(array.state().join("api.sock")).unwrap()).collect();
        std::thread::sleep(Duration::from_secs(2));
        array.run(&["doctor"])
    };
    let done = std::iter::repeat_with(examined).take(10).find(|done| !done.out.contains("serves, process"));
    let done = done.unwrap();
    assert!(done.out.contains("no place for another client"), "{}{}", done.out, done.err);
    assert!(!done.out.contains("none serves"), "{}", done.out);
    // The places are free once the array has seen them leave.
    let end = Instant::now() + Duration::from_secs(30);
    while array.json(&["client", "list"]).as_array().unwrap().len() > 1 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(Nbd::connect(array.state(), "db"));
}

/// NBD on TCP asks nobody who he is: silent clients there leave places for the socket.
#[test]
fn a_crowd_on_tcp_leaves_places_for_the_nbd_socket() {
    let mut array = Array::unstarted();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    array.configure(&format!("nbd_tcp = \"{free}\"\nnbd_clients_max = 8\n"));
    array.start();
    array.good(&[
        "pool",
        "create",
        "main",
        "--drive",
        &format!("{},size=256MiB", array.path("main.img").display()),
    ]);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let crowd: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(free).unwrap()).collect();
    std::thread::sleep(Duration::from_secs(1));
    drop(Nbd::connect(array.state(), "db"));
    drop(crowd);
}

#[test]
fn the_soft_limit_of_descriptors_is_raised_to_the_hard_one() {
    if !has_program("prlimit") {
        return;
    }
    let mut array = Array::unstarted();
    let serve = array.serve_command();
    let mut child = Command::new("prlimit")
        .arg("--nofile=64:2048")
        .arg(serve.get_program())
        .args(serve.get_args())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while array.run(&["status"]).status != 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let files: Vec<&str> =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(files[3..5], ["2048", "2048"]);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    array.start();
}

#[test]
fn more_nbd_clients_than_allowed_hear_why() {
    let mut array = Array::unstarted();
    array.configure("nbd_clients_max = 2\n");
    array.start();
    let drive = format!("{},size=256MiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let _clients = [Nbd::connect(array.state(), "db"), Nbd::connect(array.state(), "db")];
    let uri = format!("nbd+unix:///db?socket={}", array.state().join("nbd.sock").display());
    if has_program("nbdinfo") {
        // libnbd keeps the text to itself and says that the export is refused.
        let refused = done(Command::new("nbdinfo").arg(&uri).output().unwrap());
        assert!(refused.status != 0 && refused.err.contains("server replied with error"), "{}", refused.err);
    }
    if has_program("qemu-io") {
        let refused =
            done(Command::new("qemu-io").args(["-r", "-f", "raw", "-c", "quit", &uri]).output().unwrap());
        assert!(refused.status != 0 && refused.err.contains("2 NBD clients at most"), "{}", refused.err);
    }
    let clients = array.json(&["client", "list"]);
    let clients = clients.as_array().unwrap();
    assert_eq!(clients.len(), 2);
    assert_eq!(clients[0]["volume"], "db");
    assert_eq!(clients[0]["process_id"], std::process::id());
    assert_eq!(clients[0]["transport"], "unix");
    let doors = array.json(&["status"])["doors"].clone();
    let nbd = doors.as_array().unwrap().iter().find(|door| door["name"] == "nbd").unwrap().clone();
    assert_eq!(nbd["client_count"], 2);
    assert!(array.good(&["client", "list"]).contains("db"));
}

/// A client that hung kept a volume from being deleted, and nobody could tell which, or end it.
#[test]
fn a_client_is_cut_off_by_its_number_and_its_volume_is_free() {
    let array = with_settings("nbd_tcp = \"127.0.0.1:0\"\n");
    for name in ["db", "other"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    let mut client = Nbd::connect(array.state(), "db");
    let mut other = Nbd::connect(array.state(), "other");
    client.write(0, &[1; 4096]);
    let id = array.json(&["client", "list"])[0]["id"].to_string();
    array.good(&["client", "disconnect", &id]);
    assert!(client.try_write(0, &[2; 4096]).is_err());
    other.write(0, &[3; 4096]);
    array.good(&["volume", "delete", "db", "--now", "--yes"]);
    array.refused(&["client", "disconnect", &id], &["client", &id, "list"]);
    array.misused(&["client", "disconnect", "db"], &["db"]);
    assert!(array.good(&["events"]).contains("was cut off, as a person asked"));
    assert_eq!(array.http("DELETE", "/v1/clients/db", None).0, 400);
}

#[test]
fn a_lister_sees_three_thousand_volumes_and_the_only_one_is_the_default() {
    if !has_program("nbdinfo") {
        return;
    }
    let array = with_settings("");
    let list = |more: &[&str], export: &str| {
        let uri = format!("nbd+unix:///{export}?socket={}", array.state().join("nbd.sock").display());
        done(Command::new("nbdinfo").args(more).arg(uri).output().unwrap())
    };
    array.good(&["volume", "create", "v0", "--size", "1MiB"]);
    array.good(&["snapshot", "create", "s", "v0"]);
    let only = list(&["--size"], "");
    assert_eq!((only.status, only.out.trim()), (0, "1048576"), "{}", only.err);
    for number in 1..3000 {
        let body = format!(r#"{{"name":"v{number}","size_bytes":1048576}}"#);
        assert_eq!(array.http("POST", "/v1/volumes", Some(&body)).0, 201);
    }
    let all = list(&["--list"], "");
    assert_eq!(all.status, 0, "{}", all.err);
    assert_eq!(all.out.lines().filter(|line| line.starts_with("export=")).count(), 3000);
}

/// Every command hung for an hour, without a word, when the array's process did not run.
#[test]
fn an_array_that_does_not_answer_is_told_after_some_seconds() {
    let array = with_settings("");
    let process = Pid::from_raw(array.pid() as i32).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let start = Instant::now();
    let asked: Vec<_> =
        [vec!["status"], vec!["volume", "list"], vec!["pool", "check", "main"], vec!["client", "list"]]
            .into_iter()
            .map(|arguments| {
                let mut command = Command::new(support::program());
                command.arg("--state").arg(array.state()).args(arguments);
                command
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
    let answers: Vec<_> = asked.into_iter().map(|child| done(child.wait_with_output().unwrap())).collect();
    let took = start.elapsed();
    kill_process(process, Signal::CONT).unwrap();
    for answer in answers {
        assert_eq!(answer.status, 1);
        assert!(answer.err.contains("does not answer"), "{}", answer.err);
    }
    assert!(took < Duration::from_secs(20), "{took:?}");
    array.good(&["status"]);
}

#[test]
fn systemd_hears_that_the_data_path_is_alive() {
    let array = Array::unstarted();
    let path = array.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut command = array.serve_command();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000").env_remove("WATCHDOG_PID");
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let hear = || {
        let mut heard = [0_u8; 64];
        let length = socket.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    for _ in 0..5 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    while hear() != "STOPPING=1" {}
    assert!(child.wait().unwrap().success());
}
