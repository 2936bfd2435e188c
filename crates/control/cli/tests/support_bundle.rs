//! A support bundle: what helps is in it, and no secret, wherever one was planted.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Array, Done, done};

/// In the forms in which secrets get into logs and settings.
const PLANTED: [(&str, &str); 9] = [
    ("password of a connection", "hunter2conninfo"),
    ("quoted password", "hunter2 quoted"),
    ("login of an address", "hunter2login"),
    ("bearer", "hunter2bearer"),
    ("private key", "MIIEhunter2key"),
    ("argument of the event command", "hunter2argument"),
    ("path of the webhook", "hunter2webhook"),
    ("variable", "hunter2variable"),
    ("password in JSON", "hunter2json"),
];

/// A log with all of them, and with a line that belongs into the bundle.
const LOG: &str = "Out of memory: ashlar, a line that stays\n\
    standby: primary_conninfo host=db user=copier password=hunter2conninfo port=5432\n\
    standby: primary_conninfo host=db password='hunter2 quoted' port=5432\n\
    ashlar: import --from postgres://copier:hunter2login@db1:5432/postgres\n\
    ashlar: Authorization: Bearer hunter2bearer\n\
    ashlar: -----BEGIN PRIVATE KEY-----\n\
    ashlar: MIIEhunter2key\n\
    ashlar: -----END PRIVATE KEY-----\n\
    ashlar: PGPASSWORD=hunter2variable psql\n\
    ashlar: {\"password\": \"hunter2json\", \"name\": \"db\"}\n";

/// Programs of these names that print the log, in a directory for the front of PATH.
fn programs(array: &Array, log: &str) -> std::path::PathBuf {
    let (directory, file) = (array.path("bin"), array.path("planted.log"));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(&file, log).unwrap();
    for name in ["journalctl", "dmesg"] {
        let path = directory.join(name);
        std::fs::write(&path, format!("#!/bin/sh\nexec cat {}\n", file.display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

fn make(array: &Array, file: &Path, programs: &Path) -> Done {
    let mut command = Command::new(support::program());
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    command.args(["support-bundle", "--json", "--state"]).arg(array.state()).arg(file).env("PATH", path);
    done(command.stdin(Stdio::null()).output().unwrap())
}

/// The files of a bundle, as tar unpacks them.
fn unpacked(array: &Array, file: &Path) -> BTreeMap<String, String> {
    let place = array.path("unpacked");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir(&place).unwrap();
    let tar = done(Command::new("tar").arg("xzf").arg(file).arg("-C").arg(&place).output().unwrap());
    assert_eq!(tar.status, 0, "{}", tar.err);
    let found = done(Command::new("find").arg(&place).args(["-type", "f"]).output().unwrap());
    let name = |path: &str| {
        let inside = Path::new(path).strip_prefix(place.join("ashlar-support")).unwrap();
        inside.to_str().unwrap().to_string()
    };
    found.out.lines().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

fn assert_clean(array: &Array, files: &BTreeMap<String, String>) {
    let mut secrets: Vec<(String, String)> =
        PLANTED.iter().map(|(what, secret)| (what.to_string(), secret.to_string())).collect();
    for name in ["api.token", "metrics.token"] {
        let token = std::fs::read_to_string(array.state().join(name)).unwrap();
        secrets.push((name.to_string(), token.trim().to_string()));
    }
    for (file, text) in files {
        for (what, secret) in &secrets {
            assert!(!text.contains(secret.as_str()), "{file} holds the {what}:\n{text}");
        }
    }
}

#[test]
fn a_bundle_holds_what_helps_and_no_secret() {
    let mut array = Array::unstarted();
    array.configure(
        "event_command = [\"/bin/true\", \"hunter2argument\"]\n\
         event_webhook = \"http://127.0.0.1:9/hunter2webhook\"\nscrub_interval_days = 7\n",
    );
    array.start();
    let drive = format!("{},size=1GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    let token = std::fs::read_to_string(array.state().join("api.token")).unwrap();
    let log = format!("{LOG}ashlar: the token {}\n", token.trim());
    let mut keeper = std::fs::File::create(array.state().join("keeper.log")).unwrap();
    keeper.write_all(log.as_bytes()).unwrap();
    let programs = programs(&array, &log);
    let file = array.path("bundle.tar.gz");
    let made = make(&array, &file, &programs);
    assert_eq!((made.status, made.err.as_str()), (0, ""), "{}", made.out);
    let told: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(told["missing"], serde_json::json!([]), "{told}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let files = unpacked(&array, &file);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let mut contents: Vec<&str> =
        told["contents"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    contents.sort_unstable();
    assert_eq!(contents, names);
    for (name, words) in [
        ("about.json", "media_version"),
        ("settings.json", "scrub_interval_days"),
        ("settings.json", "/bin/true"),
        ("settings.json", "http://127.0.0.1:9/"),
        ("status.json", "process_id"),
        ("pools.json", "main.img"),
        ("volumes.json", "\"db\""),
        ("snapshots.json", "noon"),
        ("databases.json", "[]"),
        ("events.json", "volume db"),
        ("metrics.txt", "ashlar_pool_online{pool=\"main\"} 1"),
        ("doctor.json", "state directory"),
        ("state/pools.toml", "main.img"),
        ("state/keeper.log", "a line that stays"),
        ("state-directory.json", "api.token"),
        ("journal.txt", "user=copier password=[removed] port=5432"),
        ("kernel.txt", "a line that stays"),
    ] {
        let text = files.get(name).unwrap_or_else(|| panic!("{name} is not among {names:?}"));
        assert!(text.contains(words), "{name} lacks `{words}`:\n{text}");
    }
    assert_clean(&array, &files);
    // The planted log does hold them all, or nothing was shown.
    for (what, secret) in
        PLANTED.iter().filter(|(_, secret)| !secret.ends_with("argument") && !secret.ends_with("webhook"))
    {
        assert!(log.contains(secret), "{what}");
    }

    let again = make(&array, &file, &programs);
    assert_eq!(again.status, 1, "{}", again.out);
    assert!(again.err.contains("bundle.tar.gz") && again.err.contains("name another file"), "{}", again.err);
}

#[test]
fn without_an_array_the_bundle_holds_what_the_machine_tells() {
    let mut array = Array::with_pool();
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    let programs = programs(&array, LOG);
    let file = array.path("bundle.tar.gz");
    let made = make(&array, &file, &programs);
    assert_eq!(made.status, 3, "{}{}", made.out, made.err);
    assert!(made.err.contains("no array answers"), "{}", made.err);
    let files = unpacked(&array, &file);
    for (name, words) in [
        ("missing.txt", "array: no array answers"),
        ("state/pools.toml", "main.img"),
        ("journal.txt", "a line that stays"),
        ("about.json", "kernel"),
    ] {
        assert!(files[name].contains(words), "{name} lacks `{words}`: {}", files[name]);
    }
    assert!(!files.contains_key("status.json"));
    assert_clean(&array, &files);
}
