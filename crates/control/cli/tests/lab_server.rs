//! `ashlar lab` on a database server that is there already: a database of its own, and nothing else.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ashlar_postgres::{Installation, Places, Search, Server, Settings};
use ashlar_programs::Launcher;
use support::{Done, done, program};

const READS: &str = "format = 1\nid = \"our/reads\"\ntitle = \"reads\"\nquestion = \"how many?\"\nbudget = \"2m\"\n\
    engine = { kind = \"postgres\", memory = \"1GiB\" }\n\
    phases = { warmup = \"1s\", measure = \"3s\", repeat = 1 }\n\
    [[published]]\nmetric = \"tps\"\nnote = \"none\"\n\
    [workload]\nkind = \"points\"\ndata = \"2MB\"\nusers = 1\n";

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
    assert!(page.contains("which was there before") && page.contains("was not restarted between runs"));
    for untrue in ["share one machine", "Data and log lie on"] {
        assert!(!page.contains(untrue), "of a server that may be anywhere nobody knows that: {untrue}");
    }
    let left = server.query("select count(*) from pg_database where datname like 'ashlar%'").unwrap();
    assert_eq!(left[0][0].as_deref(), Some("0"), "nothing stays");
    server.stop().unwrap();
}
