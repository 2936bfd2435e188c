//! `ashlar lab` on a database server that is there already: a database of its own, and nothing else.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ashlar_postgres::{Address, Installation, Places, Search, Server, Session, Settings};
use ashlar_programs::Launcher;
use support::{Done, done, program};

const READS: &str = "format = 1\nid = \"our/reads\"\ntitle = \"reads\"\nquestion = \"how many?\"\nbudget = \"2m\"\n\
    engine = { kind = \"postgres\", memory = \"1GiB\" }\n\
    phases = { warmup = \"1s\", measure = \"3s\", repeat = 1 }\n\
    [[published]]\nmetric = \"tps\"\nnote = \"none\"\n\
    [workload]\nkind = \"points\"\ndata = \"2MB\"\nusers = 1\n";

/// The server listens on one address of this machine, whatever its name stands for.
const HERE: &str = "hostaddr=127.0.0.1";

fn lab(arguments: &[&str], password: Option<&str>) -> Done {
    let mut command = Command::new(program());
    command.arg("lab").args(arguments).env_remove("PGPASSWORD").stdin(Stdio::null());
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    done(command.output().unwrap())
}

/// A server that asks for passwords, on a port that was free.
fn server(directory: &Path) -> (Server, u16) {
    let launcher = Arc::new(Launcher::new(directory.into(), directory.into(), Arc::default()));
    let (installation, _) = Installation::ensure(&launcher, &Search::default()).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let data = directory.join("pgdata");
    let places = Places {
        data: data.clone(),
        wal: None,
        tablespaces: Vec::new(),
        temporary: None,
        socket: directory.join("socket"),
        port,
    };
    let settings = Settings::new().with("listen_addresses", "127.0.0.1");
    let mut server = Server::new(&installation, places, settings);
    server.initialise().unwrap();
    let rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    server.start().unwrap();
    let roles =
        "CREATE ROLE dba LOGIN CREATEDB PASSWORD 'se-cr-et'; CREATE ROLE guest LOGIN PASSWORD 'se-cr-et'";
    server.query(roles).unwrap();
    (server, port)
}

/// A certificate of a server by the name `localhost`, signed by the root of this name, or by nobody else.
fn certificate(directory: &Path, name: &str, root: Option<&str>) {
    let path = |name: &str, kind: &str| directory.join(format!("{name}.{kind}"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-days", "2", "-subj", &format!("/CN={name}"), "-addext", "subjectAltName=DNS:localhost"]);
    command.arg("-keyout").arg(path(name, "key")).arg("-out").arg(path(name, "pem"));
    if let Some(root) = root {
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-CA").arg(path(root, "pem")).arg("-CAkey").arg(path(root, "key"));
    }
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Has the server show this certificate from now on.
fn show(server: &Server, directory: &Path, name: &str) {
    for (kind, file) in [("pem", "server.crt"), ("key", "server.key")] {
        let file = server.places().data.join(file);
        std::fs::copy(directory.join(format!("{name}.{kind}")), &file).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let account = server.installation().account.unwrap();
        std::os::unix::fs::chown(&file, Some(account.user), Some(account.group)).unwrap();
    }
    server.query("ALTER SYSTEM SET ssl = on").unwrap();
    server.query("SELECT pg_reload_conf()").unwrap();
}

/// Tries until the server has read its configuration again.
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn tls_is_what_the_address_asks_for_and_never_less() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (mut server, port) = server(directory.path());
    for (name, root) in [("self", None), ("root", None), ("other", None), ("signed", Some("root"))] {
        certificate(directory.path(), name, root);
    }
    // The role has no password that would be asked for.
    let rules =
        "local all all trust\nhostssl all guest all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(server.places().data.join("pg_hba.conf"), rules).unwrap();
    server.query("SELECT pg_reload_conf()").unwrap();
    let roots = |name: &str| directory.path().join(format!("{name}.pem")).display().to_string();
    let open = |host: &str, asked: &str| {
        let address = Address::Url(format!("postgres://guest@{host}:{port}/postgres?{HERE}&{asked}"));
        let opened = Session::open(&address, "test", std::time::Duration::from_secs(10));
        opened.map(drop).map_err(|error| error.to_string())
    };
    let refused = open("127.0.0.1", "sslmode=require").unwrap_err();
    assert!(refused.contains("the server does no TLS, and sslmode=require asks for it"), "{refused}");

    show(&server, directory.path(), "self");
    soon("TLS is on", || open("127.0.0.1", "sslmode=require").is_ok());
    // A server that made its own certificate is trusted where that very one is named.
    let named = format!("sslmode=verify-full&sslrootcert={}", roots("self"));
    assert_eq!(open("localhost", &named), Ok(()));
    show(&server, directory.path(), "signed");
    let signed = format!("sslmode=verify-full&sslrootcert={}", roots("root"));
    soon("it shows the other one", || open("localhost", &signed).is_ok());
    let of_other = format!("sslmode=verify-ca&sslrootcert={}", roots("other"));
    for (host, asked, told) in [
        ("localhost", of_other.as_str(), "signed by none of those in"),
        ("localhost", &named, "signed by none of those in"),
        ("127.0.0.1", &signed, "the server's certificate is of another name"),
        ("localhost", "sslmode=verify-full&sslrootcert=/nowhere", "sslrootcert=/nowhere: "),
        ("localhost", "sslmode=verify", "it is one of disable, prefer"),
        ("localhost", "sslmode=disable", "no encryption"),
    ] {
        let refused = open(host, asked).unwrap_err();
        assert!(refused.contains(told), "{asked}: {refused}");
    }
    assert_eq!(open("127.0.0.1", &signed.replace("verify-full", "verify-ca")), Ok(()));
    assert_eq!(open("127.0.0.1", ""), Ok(()), "where nothing is said it is had where it can be");

    // Through the lab: every session of a run, and what it says of them.
    let file = directory.path().join("reads.toml");
    std::fs::write(&file, READS).unwrap();
    let (file, output) = (file.display().to_string(), directory.path().join("result"));
    let named = output.display().to_string();
    let run = |asked: &str| {
        let target = format!("postgres://dba@localhost:{port}?{HERE}&{asked}");
        lab(&["run", &file, "-s", "xs", "--target", &target, "-o", &named], Some("se-cr-et"))
    };
    let refused = run(&of_other);
    assert!(refused.status == 2 && refused.err.contains("signed by none of those in"), "{}", refused.err);
    let done = run(&signed);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("reached over TLSv1.3, its certificate and its name checked"), "the page tells it");
    server.stop().unwrap();
}

#[test]
fn a_server_that_was_there_gets_a_database_which_goes_again() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    // The server's account looks through it.
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (mut server, port) = server(directory.path());
    let file = directory.path().join("reads.toml");
    std::fs::write(&file, READS).unwrap();
    let output = directory.path().join("result");
    let (file, named) = (file.display().to_string(), output.display().to_string());
    let run = |role: &str, password: Option<&str>, what: &str| {
        let target = format!("postgres://{role}@127.0.0.1:{port}");
        lab(&["run", what, "-s", "xs", "--target", &target, "-o", &named], password)
    };
    for (role, password, told) in [
        ("dba", None, "PGPASSWORD"),
        ("dba", Some("wrong"), "password authentication failed for user \"dba\": put the right one"),
        ("dba:se-cr-et", None, "leave the password out"),
        ("guest", Some("se-cr-et"), "may not make a database"),
    ] {
        let refused = run(role, password, &file);
        assert!(refused.status == 2 && refused.err.contains(told), "{told}: {}", refused.err);
        assert!(!refused.err.contains("se-cr-et") && !output.exists(), "{}", refused.err);
    }
    let refused = run("dba", Some("se-cr-et"), "kaminario/olap-load");
    assert!(refused.status == 2 && !output.exists(), "it takes files beside the database: {}", refused.err);

    let done = run("dba", Some("se-cr-et"), &file);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let text = std::fs::read_to_string(output.join("result.json")).unwrap();
    assert!(!text.contains("se-cr-et"), "a password is kept");
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let run = &result["runs"][0];
    assert!(run["requests"].as_u64().unwrap() > 0 && run["meanwhile"]["samples"].as_u64().unwrap() > 0);
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("which was there before, reached without TLS"));
    assert!(page.contains("was not restarted between runs"));
    for untrue in ["share one machine", "Data and log lie on"] {
        assert!(!page.contains(untrue), "of a server that may be anywhere nobody knows that: {untrue}");
    }
    let left = server.query("select count(*) from pg_database where datname like 'ashlar%'").unwrap();
    assert_eq!(left[0][0].as_deref(), Some("0"), "nothing stays");
    server.stop().unwrap();
}
