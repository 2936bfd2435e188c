//! TLS of the API: certificates, addresses off loopback, and what comes that speaks none.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{Answer, Array, exchange_whole, wait_until};

type Secured = StreamOwned<ClientConnection, TcpStream>;

/// A certificate for `array.example` and this machine, which ends in so many days, in files of this name.
fn certificate(array: &Array, name: &str, days: i64) -> (PathBuf, PathBuf) {
    certificate_as(array, name, days, rcgen::IsCa::NoCa)
}

/// The same, which may vouch for others.
fn certificate_as(array: &Array, name: &str, days: i64, is_ca: rcgen::IsCa) -> (PathBuf, PathBuf) {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = ["array.example", "localhost", "127.0.0.1"].map(str::to_string);
    let mut wanted = rcgen::CertificateParams::new(names).unwrap();
    wanted.is_ca = is_ca;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let day = Duration::from_secs(86_400);
    let at = |since: Duration| rcgen::date_time_ymd(1970, 1, 1) + since;
    wanted.not_before = at(now - day * 200);
    wanted.not_after = match days {
        days if days >= 0 => at(now + day * days as u32),
        days => at(now - day * days.unsigned_abs() as u32),
    };
    let made = wanted.self_signed(&key).unwrap();
    let files = (array.path(&format!("{name}.pem")), array.path(&format!("{name}.key")));
    std::fs::write(&files.0, made.pem()).unwrap();
    std::fs::write(&files.1, key.serialize_pem()).unwrap();
    std::fs::set_permissions(&files.1, std::fs::Permissions::from_mode(0o600)).unwrap();
    files
}

/// Settings that serve TLS on loopback with these files.
fn configure(array: &Array, (certificate, key): &(PathBuf, PathBuf)) {
    let (certificate, key) = (certificate.display(), key.display());
    array.configure(&format!(
        "api = \"127.0.0.1:0\"\ntls_certificate = \"{certificate}\"\ntls_key = \"{key}\"\n"
    ));
}

/// Copies one pair of files over another.
fn put(from: &(PathBuf, PathBuf), to: &(PathBuf, PathBuf)) {
    std::fs::copy(&from.0, &to.0).unwrap();
    std::fs::copy(&from.1, &to.1).unwrap();
}

fn port(array: &Array) -> u16 {
    let file = array.state().join("api.port");
    wait_until("api.port", || file.is_file());
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// TLS to the array, which must show what this file has.
fn secured(address: (&str, u16), name: &str, trusted: &PathBuf) -> std::io::Result<Secured> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_string()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(address)?;
    connection.complete_io(&mut stream)?;
    Ok(StreamOwned::new(connection, stream))
}

fn ask(stream: Secured, headers: &str) -> Answer {
    exchange_whole(stream, "GET", "/v1/status", headers, None)
}

/// An address of this machine that is not loopback; told where there is none.
fn address_of_machine() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    let found = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()).ok();
    let found = found.map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
    if found.is_none() {
        println!("skipped: this machine has no address but loopback");
    }
    found
}

#[test]
fn off_loopback_it_opens_for_somebody_and_over_tls_alone() {
    let Some(ip) = address_of_machine() else { return };
    let mut array = Array::unstarted();
    array.configure(&format!("api = \"{ip}:0\"\napi_names = [\"array.example\"]\n"));
    array.start();
    let door = |array: &Array| {
        let doors = array.json(&["status"])["doors"].as_array().unwrap().clone();
        doors.into_iter().find(|door| door["name"] == "api" && door["transport"] == "tcp").unwrap()
    };
    wait_until("the door says nothing", || door(&array)["reason"].is_string());
    let closed = door(&array);
    assert_eq!(closed["state"], "failed");
    assert!(closed["reason"].as_str().unwrap().contains("no user and no token"), "{closed}");
    assert!(!array.state().join("api.port").exists());
    let secret = array.good(&["token", "create", "far", "--role", "viewer"]);
    let port = port(&array);
    wait_until("it does not open", || door(&array)["state"] == "serving");
    let made = array.state().join("tls/certificate.pem");
    let mode = |name: &str| std::fs::metadata(array.state().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("tls"), mode("tls/key.pem")), (0o700, 0o600));
    // By hand.
    let at = (ip.to_string(), port);
    let at = (at.0.as_str(), at.1);
    let token = format!("authorization: Bearer {}\r\n", secret.trim());
    let host = format!("host: {ip}:{port}\r\n");
    let answer = ask(secured(at, &ip.to_string(), &made).unwrap(), &format!("{host}{token}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    for (name, value) in [
        ("strict-transport-security", "max-age="),
        ("content-security-policy", "frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
    ] {
        assert!(answer.header(name).unwrap_or_default().contains(value), "{name}: {}", answer.head);
    }
    assert_eq!(
        ask(secured(at, "array.example", &made).unwrap(), &format!("host: array.example\r\n{token}")).status,
        200
    );
    assert_eq!(ask(secured(at, "localhost", &made).unwrap(), &host).status, 401);
    for elsewhere in [
        "host: evil.example\r\n".to_string(),
        format!("{host}origin: https://evil.example\r\n"),
        format!("{host}origin: http://{ip}:{port}\r\n"),
    ] {
        let answer = ask(secured(at, "localhost", &made).unwrap(), &format!("{elsewhere}{token}"));
        assert_eq!(answer.status, 403, "{elsewhere}");
    }
    from_another_machine(&array, &format!("https://{ip}:{port}"), &secret);
    // The same certificate at the next start.
    let before = std::fs::read(&made).unwrap();
    array.terminate();
    array.start();
    wait_until("it does not open again", || door(&array)["state"] == "serving");
    assert_eq!(std::fs::read(&made).unwrap(), before);
}

/// The command line, as on another machine.
fn from_another_machine(array: &Array, url: &str, secret: &str) {
    let file = array.path("far.token").display().to_string();
    std::fs::write(&file, secret).unwrap();
    let ca = array.state().join("tls/certificate.pem").display().to_string();
    let far = ["--server", url, "--token-file", &file];
    let done = array.json(&[&far[..], &["--ca", &ca, "status"]].concat());
    assert!(done["version"].is_string());
    array.refused(&[&far[..], &["status"]].concat(), &["not trusted", "--ca FILE"]);
    let without = ["--server", url, "--ca", &ca];
    array.refused(&[&without[..], &["status"]].concat(), &["--token-file", "ASHLAR_TOKEN"]);
    array.refused(
        &[&far[..], &["--ca", &ca, "volume", "create", "x", "--size", "1GiB"]].concat(),
        &["takes operator"],
    );
}

#[test]
fn a_certificate_is_changed_without_dropping_connections_and_a_wrong_one_is_not_taken() {
    let mut array = Array::unstarted();
    let first = certificate(&array, "first", 100);
    let second = certificate(&array, "second", 200);
    let over = certificate(&array, "over", -1);
    let used = (array.path("used.pem"), array.path("used.key"));
    put(&first, &used);
    configure(&array, &used);
    array.start();
    let at = ("127.0.0.1", port(&array));
    let token = array.token("api.token");
    let status = |trusted: &PathBuf| match secured(at, "array.example", trusted) {
        Ok(stream) => Some(ask(stream, &token).status),
        Err(_) => None,
    };
    wait_until("it does not open", || status(&first.0) == Some(200));
    assert_eq!(status(&second.0), None, "another certificate is shown");
    // One that goes on.
    let mut kept = secured(at, "array.example", &first.0).unwrap();
    let request = format!("GET /v1/health HTTP/1.1\r\nhost: localhost\r\n{token}\r\n");
    let mut again = || {
        kept.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut part = [0; 4096];
            let count = kept.read(&mut part).unwrap();
            assert!(count > 0, "it was dropped");
            answer.extend_from_slice(&part[..count]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    };
    again();
    for (wrong, word) in [
        (&over, "its time is over"),
        (&(first.0.clone(), second.1.clone()), "is not that of certificate"),
        (&(array.path("ashlar.toml"), first.1.clone()), "there is none in it"),
    ] {
        put(wrong, &used);
        array.refused(&["reload"], &[word]);
        assert_eq!(status(&first.0), Some(200), "{word}");
        again();
    }
    put(&second, &used);
    assert_eq!(array.good(&["reload"]), "changed: tls_certificate\n");
    assert_eq!(array.good(&["reload"]), "changed: nothing\n");
    assert_eq!(status(&second.0), Some(200));
    assert_eq!(status(&first.0), None);
    again();
    put(&first, &used);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(array.pid() as i32).unwrap(),
        rustix::process::Signal::HUP,
    )
    .unwrap();
    wait_until("SIGHUP does not read it again", || status(&first.0) == Some(200));
    again();
}

/// `openssl req -x509` makes such.
#[test]
fn a_certificate_of_an_authority_is_warned_of_and_the_command_says_what_is_wrong_with_it() {
    let mut array = Array::unstarted();
    let is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let made = certificate_as(&array, "made", 100, is_ca);
    configure(&array, &made);
    array.start();
    array.wait_for_log("one of an authority (CA:TRUE)", 1);
    let url = format!("https://localhost:{}", port(&array));
    let (ca, token) = (made.0.display().to_string(), array.state().join("api.token").display().to_string());
    let words = ["CA:TRUE", "-addext basicConstraints=critical,CA:FALSE"];
    array.refused(&["--server", &url, "--ca", &ca, "--token-file", &token, "status"], &words);
    // What looks at a machine looks at this one.
    array.refused(&["--server", &url, "doctor"], &["not at localhost", "run it there"]);
}

#[test]
fn with_a_wrong_certificate_the_address_stays_closed_and_opens_once_it_is_mended() {
    let mut array = Array::unstarted();
    let (over, good) = (certificate(&array, "over", -1), certificate(&array, "good", 100));
    let used = (array.path("used.pem"), array.path("used.key"));
    put(&over, &used);
    configure(&array, &used);
    array.start();
    array.wait_for_log("its time is over", 1);
    array.good(&["status"]);
    assert!(!array.state().join("api.port").exists());
    put(&good, &used);
    let port = port(&array);
    let answer = ask(secured(("127.0.0.1", port), "localhost", &good.0).unwrap(), &array.token("api.token"));
    assert_eq!(answer.status, 200);
    assert_eq!(array.log().matches("its time is over").count(), 1, "it is told again and again");
}

#[test]
fn what_speaks_no_tls_is_told_so_and_what_never_finishes_is_let_go() {
    let mut array = Array::unstarted();
    let files = certificate(&array, "a", 100);
    configure(&array, &files);
    array.start();
    let at = ("127.0.0.1", port(&array));
    let token = array.token("api.token");
    let plain = exchange_whole(TcpStream::connect(at).unwrap(), "GET", "/v1/status", &token, None);
    assert_eq!(plain.status, 400);
    assert!(plain.json()["remedy"]["command"].as_str().unwrap().contains("https://"), "{}", plain.body);
    // More than there are places: the array answers all the same.
    let half = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let since = Instant::now();
    let mut stalled: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = TcpStream::connect(at).unwrap();
            // Some say nothing, some begin.
            if number % 2 == 0 {
                stream.write_all(half).unwrap();
            }
            stream
        })
        .collect();
    let answer = ask(secured(at, "localhost", &files.0).unwrap(), &token);
    assert_eq!(answer.status, 200);
    for stream in &mut stalled {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(since.elapsed() < Duration::from_secs(25), "{:?}", since.elapsed());
    // What is no TLS behind the first byte ends, and harms nobody.
    let mut rubbish = TcpStream::connect(at).unwrap();
    rubbish.write_all(&[22; 4000]).unwrap();
    let _ = rubbish.read_to_end(&mut Vec::new());
    assert_eq!(ask(secured(at, "localhost", &files.0).unwrap(), &token).status, 200);
    // A stop does not wait for them.
    let _stalled: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(at).unwrap()).collect();
    let since = Instant::now();
    array.terminate();
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
}

#[test]
fn the_console_on_loopback_opens_over_tls_too() {
    let mut array = Array::unstarted();
    let files = certificate(&array, "a", 100);
    configure(&array, &files);
    array.start();
    let port = port(&array);
    wait_until("the console is elsewhere", || {
        array.good(&["console"]).starts_with(&format!("https://127.0.0.1:{port}/console/#ticket="))
    });
}
