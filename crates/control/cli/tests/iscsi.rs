//! Volumes over iSCSI, by real initiators: libiscsi's tools and its conformance suite, qemu's driver, and one
//! that counts every byte.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::iscsi::{GOOD, Initiator, RESERVATION_CONFLICT};
use support::{Array, Done, done, has_program};

const TARGET: &str = "iqn.2026-11.io.ashlar:main-";
const HOST: &str = "iqn.2026-11.io.example:db1";
const OTHER: &str = "iqn.2026-11.io.example:db2";
const SECRET: &str = "swordfish-12345";
const OWN_SECRET: &str = "swordfish-67890";

/// An array with a pool `main` that serves iSCSI, and the port it serves at, also behind a restart.
fn array() -> (Array, u16) {
    array_of("2GiB")
}

fn array_of(size: &str) -> (Array, u16) {
    let mut array = Array::unstarted();
    array.configure("iscsi_listen = [\"127.0.0.1:0\"]\n");
    array.start();
    let drive = format!("{},size={size}", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    let port = port(&array);
    array.configure(&format!("iscsi_listen = [\"127.0.0.1:{port}\"]\n"));
    (array, port)
}

fn port(array: &Array) -> u16 {
    let status = array.json(&["status"]);
    let doors = status["doors"].as_array().unwrap();
    let door = doors.iter().find(|door| door["name"] == "iscsi").unwrap();
    assert_eq!(door["state"], "serving", "{door}");
    door["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap()
}

/// The name of the pool's target, when something is exported.
fn target(array: &Array) -> String {
    let exports = array.json(&["export", "list"]);
    let target = exports[0]["target"].as_str().unwrap();
    assert!(target.starts_with(TARGET), "{target}");
    target.to_string()
}

fn run(program: &str, arguments: &[&str]) -> Done {
    done(Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap())
}

fn secret_file(array: &Array, name: &str, secret: &str) -> String {
    let path = array.path(name);
    std::fs::write(&path, format!("{secret}\n")).unwrap();
    path.display().to_string()
}

/// Nothing that people are shown, and nothing in the state directory, holds a secret.
fn no_secret_is_shown(array: &Array) {
    let bundle = array.path("bundle.tar");
    array.good(&["support-bundle", bundle.to_str().unwrap()]);
    let mut texts = vec![array.log().into_bytes(), std::fs::read(bundle).unwrap()];
    for arguments in [&["host", "list"][..], &["host", "show", "db1"], &["export", "list"], &["events"]] {
        texts.push(array.good(arguments).into_bytes());
        texts.push(array.json(arguments).to_string().into_bytes());
    }
    for secret in [SECRET, OWN_SECRET] {
        let holds = |text: &Vec<u8>| text.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!texts.iter().any(holds), "{secret} is shown");
    }
}

#[test]
fn hosts_see_what_is_exported_to_them_and_prove_who_they_are() {
    let (mut array, port) = array();
    for name in ["db", "all", "small"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    let (secret, own) =
        (secret_file(&array, "secret", SECRET), secret_file(&array, "own-secret", OWN_SECRET));
    let made = array.json(&[
        "host",
        "create",
        "db1",
        "--iqn",
        HOST,
        "--chap-user",
        "db1",
        "--chap-secret-file",
        &secret,
        "--mutual-user",
        "array",
        "--mutual-secret-file",
        &own,
    ]);
    assert_eq!((&made["chap_user"], &made["mutual_chap_user"]), (&"db1".into(), &"array".into()));
    array.good(&["export", "create", "db", "--host", "db1", "--lun", "3", "--block-size", "512"]);
    let all = array.json(&["export", "create", "all", "--lun", "0"]);
    assert_eq!((&all["lun"], &all["block_bytes"]), (&0.into(), &4096.into()));
    let target = target(&array);
    assert_eq!(all["target"], *target);
    array.refused(&["export", "create", "all"], &["`all`", "exported", "ashlar export delete all"]);
    array.refused(&["export", "create", "small", "--lun", "3"], &["`small`", "LUN 3"]);
    array.refused(&["export", "create", "small", "--host", "nobody"], &["`nobody`", "ashlar host list"]);
    array.refused(&["host", "delete", "db1"], &["`db1`", "ashlar export delete db"]);
    array.refused(&["host", "create", "again", "--iqn", HOST], &["`db1`", HOST]);
    array.refused(&["volume", "delete", "db", "--yes"], &["`db`", "LUN 3", "ashlar export delete db"]);
    no_secret_is_shown(&array);
    for _ in 0..2 {
        // Whoever is no host sees what is for all. A host must prove that it is one.
        let mut stranger = Initiator::log_in(port, OTHER, &target).unwrap();
        assert_eq!(
            stranger.command(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]).data[..4],
            [0, 0, 0, 8]
        );
        assert_eq!(stranger.hear(0), [0x2900]);
        assert_eq!(stranger.command(3, &[0; 6], &[]).sense_code(), 0x2500);
        assert_eq!(Initiator::log_in(port, HOST, &target).err(), Some(0x0201));
        assert_eq!(Initiator::log_in(port, OTHER, "iqn.2026-11.io.ashlar:none").err(), Some(0x0203));
        if has_program("iscsi-ls") {
            libiscsi_sees(port, &target);
        }
        drop(stranger);
        assert_eq!(array.terminate(), Some(0));
        array.start();
    }
    array.good(&["export", "delete", "db", "--force", "--yes"]);
    array.good(&["host", "delete", "db1", "--force", "--yes"]);
    assert!(Initiator::log_in(port, HOST, &target).is_ok(), "on loopback anybody may come in");
}

/// What libiscsi's tools see with and without the secret.
fn libiscsi_sees(port: u16, target: &str) {
    let ls = |name: &str, login: &str| {
        run("iscsi-ls", &["-s", "-i", name, &format!("iscsi://{login}127.0.0.1:{port}/")])
    };
    let proven = ls(HOST, &format!("db1%{SECRET}@"));
    assert!(proven.out.contains("Lun:3 ") && proven.out.contains("Lun:0 "), "{}{}", proven.out, proven.err);
    let stranger = ls(OTHER, "");
    assert!(stranger.out.contains("Lun:0 ") && !stranger.out.contains("Lun:3"), "{}", stranger.out);
    let liar = ls(HOST, "db1%another-secret@");
    assert!(!liar.out.contains("Lun"), "{}", liar.out);
    let url = format!("iscsi://127.0.0.1:{port}/{target}/0");
    let inquiry = run("iscsi-inq", &["-i", OTHER, &url]);
    assert!(inquiry.out.contains("DIRECT_ACCESS") && inquiry.out.contains("ASHLAR"), "{}", inquiry.out);
}

/// The loss would be a disk that is taken away while its secret is changed, or an old secret that still
/// opens.
#[test]
fn a_secret_is_changed_while_the_host_is_logged_in() {
    let (mut array, port) = array();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let (old, new) = (secret_file(&array, "old", SECRET), secret_file(&array, "new", OWN_SECRET));
    let chap = |file: &str| ["--chap-user", "db1", "--chap-secret-file", file].map(str::to_string);
    let set = |array: &Array, more: &[String]| {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        array.json(&[&["host", "set", "db1"][..], &more].concat())
    };
    array.good(&["host", "create", "db1", "--iqn", HOST]);
    array.good(&["export", "create", "db", "--host", "db1"]);
    let target = target(&array);
    // A session that proved nothing stays when a proof is wanted, and nobody else comes in without.
    let mut host = Initiator::log_in(port, HOST, &target).unwrap();
    host.hear(0);
    assert_eq!(set(&array, &chap(&old))["chap_user"], "db1");
    let write = [0x2a, 0, 0, 0, 0, 3, 0, 0, 1, 0];
    assert_eq!(host.command(0, &write, &[7; 4096]).status, GOOD);
    assert_eq!(Initiator::log_in(port, HOST, &target).err(), Some(0x0201));
    array.wait_for_log(&format!("{HOST} was not let in"), 1);
    assert_eq!(array.json(&["host", "show", "db1"])["sessions"].as_array().unwrap().len(), 1);
    let opens = |secret: &str| {
        let url = format!("iscsi://db1%{secret}@127.0.0.1:{port}/{target}/0");
        run("iscsi-inq", &["-i", HOST, &url]).out.contains("ASHLAR")
    };
    if has_program("iscsi-inq") {
        assert!(opens(SECRET) && !opens(OWN_SECRET));
        drop(host);
        set(&array, &chap(&new));
        assert!(opens(OWN_SECRET) && !opens(SECRET), "the old secret opens, or the new one does not");
        // It counts after a restart, too.
        assert_eq!(array.terminate(), Some(0));
        array.start();
        assert!(opens(OWN_SECRET) && !opens(SECRET));
    }
    set(&array, &chap(&new));
    let mutual = ["--mutual-user", "array", "--mutual-secret-file", &old].map(str::to_string);
    assert_eq!(set(&array, &mutual)["mutual_chap_user"], "array");
    let same = ["host", "set", "db1", "--mutual-user", "array", "--mutual-secret-file", &new];
    array.refused(&same, &["`db1`", "both secrets"]);
    array.refused(&["host", "set", "nobody", "--no-chap"], &["`nobody`", "ashlar host list"]);
    no_secret_is_shown(&array);
    let without = set(&array, &["--no-mutual".to_string()]);
    assert_eq!((&without["chap_user"], without.get("mutual_chap_user")), (&"db1".into(), None));
    assert!(set(&array, &["--no-chap".to_string()]).get("chap_user").is_none());
    assert!(Initiator::log_in(port, HOST, &target).is_ok(), "it proves nothing any more");
}

#[test]
fn addresses_off_loopback_are_for_hosts_with_a_secret() {
    let mut array = Array::unstarted();
    // A documentation address: nobody has it, so it cannot be opened either.
    array.configure("iscsi_listen = [\"192.0.2.1:3260\"]\n");
    array.start();
    let drive = format!("{},size=1GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.refused(
        &["host", "create", "db1", "--iqn", HOST],
        &["`db1`", "CHAP", "192.0.2.1:3260", "--chap-user"],
    );
    assert_eq!(array.terminate(), Some(0));
    array.configure("");
    array.start();
    array.good(&["host", "create", "db1", "--iqn", HOST]);
    assert_eq!(array.terminate(), Some(0));
    array.configure("iscsi_listen = [\"192.0.2.1:3260\"]\n");
    array.start();
    let status = array.json(&["status"]);
    let door =
        status["doors"].as_array().unwrap().iter().find(|door| door["name"] == "iscsi").unwrap().clone();
    assert_eq!(door["state"], "failed");
    assert!(door["reason"].as_str().unwrap().contains("`db1` has no CHAP secret"), "{door}");
    let mut serve = array.serve_command();
    serve.args(["--iscsi-listen", "0.0.0.0:3260"]);
    let refused = done(serve.output().unwrap());
    assert!(refused.status == 1 && refused.err.contains("every address"), "{}", refused.err);
}

#[test]
fn an_address_that_is_free_later_is_opened_then() {
    let mut array = Array::unstarted();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    array.configure(&format!("iscsi_listen = [\"{address}\"]\n"));
    array.start();
    let state = || {
        let status = array.json(&["status"]);
        let door = status["doors"].as_array().unwrap().iter().find(|door| door["name"] == "iscsi").unwrap();
        door["state"].as_str().unwrap().to_string()
    };
    assert_eq!(state(), "failed");
    drop(taken);
    let end = Instant::now() + Duration::from_secs(30);
    while state() != "serving" {
        assert!(Instant::now() < end, "{address} is free and is not served");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(array.log().matches("hosts cannot come in").count(), 1, "{}", array.log());
}

/// EXTENDED COPY of blocks 0 and 1 of the first unit to block 8 of the second, each named as INQUIRY says.
fn copy_list(from: &[u8], to: &[u8]) -> Vec<u8> {
    let device = |name: &[u8]| {
        let mut bytes = vec![0; 32];
        bytes[0] = 0xe4;
        bytes[4..4 + name.len()].copy_from_slice(name);
        bytes[30] = 16;
        bytes
    };
    let mut bytes = vec![0, 3 << 3, 0, 64, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    bytes.extend([device(from), device(to)].concat());
    let mut segment = vec![0x02, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 2];
    segment.extend([0_u64.to_be_bytes(), 8_u64.to_be_bytes()].concat());
    bytes.extend(segment);
    bytes
}

/// The loss would be data of a volume that a host was never to see.
#[test]
fn a_host_copies_between_the_volumes_that_it_sees_and_no_others() {
    let (mut array, port) = array();
    for name in ["db", "copy", "unseen"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    array.good(&["host", "create", "db1", "--iqn", HOST]);
    array.good(&["host", "create", "db2", "--iqn", OTHER]);
    for (name, lun, host) in [("db", "0", "db1"), ("copy", "1", "db1"), ("unseen", "2", "db2")] {
        array.good(&["export", "create", name, "--lun", lun, "--host", host]);
    }
    let target = target(&array);
    let mut host = Initiator::log_in(port, HOST, &target).unwrap();
    let mut other = Initiator::log_in(port, OTHER, &target).unwrap();
    for unit in [0, 1] {
        host.hear(unit);
    }
    other.hear(2);
    // The name of a unit: the first descriptor of the page, with its head.
    let name =
        |host: &mut Initiator, unit| host.command(unit, &[0x12, 1, 0x83, 4, 0, 0], &[]).data[4..16].to_vec();
    let (db, copy, unseen) = (name(&mut host, 0), name(&mut host, 1), name(&mut other, 2));
    let xcopy = |host: &mut Initiator, list: &[u8]| {
        host.command(0, &[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, list.len() as u8, 0, 0], list)
    };
    assert_eq!(host.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 2, 0], &[7; 8192]).status, GOOD);
    assert_eq!(other.command(2, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 2, 0], &[9; 8192]).status, GOOD);
    assert_eq!(xcopy(&mut host, &copy_list(&db, &copy)).status, GOOD);
    for list in [copy_list(&unseen, &copy), copy_list(&db, &unseen)] {
        assert_eq!(xcopy(&mut host, &list).sense_code(), 0x0804);
    }
    // What was acknowledged is there behind a kill, as everywhere.
    array.kill();
    array.start();
    let mut host = Initiator::log_in(port, HOST, &target).unwrap();
    host.hear(1);
    let read = |host: &mut Initiator, unit, block| {
        host.command(unit, &[0x28, 0, 0, 0, 0, block, 0, 0, 1, 0], &[]).data
    };
    assert!(read(&mut host, 1, 8) == [7; 4096] && read(&mut host, 1, 9) == [7; 4096]);
    assert!(read(&mut host, 1, 10) == [0; 4096]);
    let mut other = Initiator::log_in(port, OTHER, &target).unwrap();
    other.hear(2);
    assert!(read(&mut other, 2, 8) == [0; 4096], "it was written to");
}

/// PERSISTENT RESERVE OUT: service action, type, keys, APTPL.
fn reserve_out(action: u8, kind: u8, key: u64, subject: u64) -> ([u8; 10], Vec<u8>) {
    let mut list = [key.to_be_bytes(), subject.to_be_bytes(), [0; 8]].concat();
    list[20] = 1;
    ([0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], list)
}

/// The loss would be a cluster whose other half writes again behind a restart of the array.
#[test]
fn reservations_and_data_outlive_a_killed_array_and_a_size_that_changed_is_told() {
    let (mut array, port) = array();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.good(&["export", "create", "db", "--block-size", "512"]);
    let target = target(&array);
    let mut holder = Initiator::log_in(port, HOST, &target).unwrap();
    holder.hear(0);
    for (action, kind, key, subject) in [(0, 0, 0, 7), (1, 1, 7, 0)] {
        let (cdb, list) = reserve_out(action, kind, key, subject);
        assert_eq!(holder.command(0, &cdb, &list).status, GOOD);
    }
    // One block of 512 bytes in the middle of one of the store.
    let write = [0x2a, 0, 0, 0, 0, 3, 0, 0, 1, 0];
    assert_eq!(holder.command(0, &write, &[7; 512]).status, GOOD);
    array.refused(&["attach", "db"], &["`db`", "exported", "LUN 0"]);
    array.refused(&["export", "delete", "db"], &["`db`", HOST]);
    array.kill();
    array.start();
    let mut holder = Initiator::log_in(port, HOST, &target).unwrap();
    let mut other = Initiator::log_in(port, OTHER, &target).unwrap();
    assert_eq!((holder.hear(0), other.hear(0)), (vec![0x2900], vec![0x2900]));
    assert_eq!(other.command(0, &write, &[8; 512]).status, RESERVATION_CONFLICT);
    let read = other.command(0, &[0x28, 0, 0, 0, 0, 2, 0, 0, 3, 0], &[]);
    assert!(read.data == [[0; 512], [7; 512], [0; 512]].concat(), "other bytes than were written");
    assert_eq!(holder.command(0, &write, &[9; 512]).status, GOOD);
    array.good(&["volume", "resize", "db", "--size", "128MiB"]);
    for host in [&mut holder, &mut other] {
        assert_eq!(host.hear(0), [0x2a09]);
        let capacity = host.command(0, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]);
        assert_eq!(capacity.data, [((128_u32 << 11) - 1).to_be_bytes(), 512_u32.to_be_bytes()].concat());
    }
    let (cdb, list) = reserve_out(3, 0, 7, 0);
    assert_eq!(holder.command(0, &cdb, &list).status, GOOD);
    array.kill();
    array.start();
    let mut other = Initiator::log_in(port, OTHER, &target).unwrap();
    other.hear(0);
    assert_eq!(other.command(0, &write, &[8; 512]).status, GOOD, "a reservation that was cleared is back");
}

#[test]
fn an_export_comes_back_with_its_volume_and_a_new_one_is_told_to_who_is_there() {
    let (array, port) = array();
    for name in ["db", "more"] {
        array.good(&["volume", "create", name, "--size", "64MiB"]);
    }
    array.good(&["export", "create", "db"]);
    let target = target(&array);
    let mut host = Initiator::log_in(port, HOST, &target).unwrap();
    host.hear(0);
    array.good(&["export", "create", "more"]);
    assert_eq!(host.hear(0), [0x3f0e]);
    assert_eq!(host.hear(1), [0x2900, 0x3f0e]);
    array.good(&["volume", "delete", "db", "--force", "--yes"]);
    assert_eq!(host.command(0, &[0; 6], &[]).sense_code(), 0x2500);
    array.good(&["volume", "undelete", "db"]);
    assert_eq!(array.json(&["export", "show", "db"])["lun"], 0);
    assert_eq!(host.command(0, &[0; 6], &[]).sense_code(), 0x2900);
    array.good(&["pool", "export", "main", "--force", "--yes"]);
    assert_eq!(Initiator::log_in(port, HOST, &target).err(), Some(0x0203));
    array.good(&["pool", "import", "main", "--drive", array.path("main.img").to_str().unwrap()]);
    assert!(Initiator::log_in(port, HOST, &target).is_ok());
}

/// The harm: somebody who is given a name that was free has the volume of who had it before.
#[test]
fn a_host_that_is_deleted_is_in_no_export_that_comes_back() {
    let (array, _) = array();
    for (volume, hosts) in [("alone", &["db1"][..]), ("both", &["db1", "db2"])] {
        array.good(&["volume", "create", volume, "--size", "16MiB"]);
        if volume == "alone" {
            array.good(&["host", "create", "db1", "--iqn", HOST]);
            array.good(&["host", "create", "db2", "--iqn", OTHER]);
        }
        let names = hosts.iter().flat_map(|host| ["--host", host]);
        array.good(&["export", "create", volume].into_iter().chain(names).collect::<Vec<_>>());
        array.good(&["volume", "delete", volume, "--force", "--yes"]);
    }
    array.good(&["host", "delete", "db1", "--yes"]);
    for volume in ["alone", "both"] {
        array.good(&["volume", "undelete", volume]);
    }
    let exports = array.json(&["export", "list"]);
    let exports = exports.as_array().unwrap();
    assert_eq!(exports.len(), 1, "what was for nobody else is nobody's: {exports:?}");
    assert_eq!((&exports[0]["volume"], &exports[0]["hosts"]), (&"both".into(), &serde_json::json!(["db2"])));
}

/// The harm: a volume that is set back has bytes again of a host that it was taken from.
#[test]
fn writes_held_back_by_a_rate_do_not_come_behind_a_restore() {
    let (array, port) = array();
    array.good(&["volume", "create", "db", "--size", "16MiB"]);
    array.good(&["export", "create", "db"]);
    let mut host = Initiator::log_in(port, HOST, &target(&array)).unwrap();
    host.hear(0);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.good(&["volume", "set", "db", "--iops", "10"]);
    for block in 0..60_u8 {
        host.begin(0, &[0x2a, 0, 0, 0, 0, block, 0, 0, 1, 0], &[7; 512]);
    }
    array.good(&["export", "delete", "db", "--force", "--yes"]);
    array.good(&["snapshot", "restore", "noon", "--yes"]);
    array.good(&["volume", "set", "db", "--iops", "none"]);
    std::thread::sleep(Duration::from_secs(7));
    let mut nbd = support::nbd::Nbd::connect(array.state(), "db");
    assert!(nbd.read(0, 64 << 10).iter().all(|byte| *byte == 0), "something came behind");
}

/// The harm: a host that still has the volume before at that number writes its pages into the new one.
#[test]
fn the_number_of_an_export_that_ended_is_not_given_to_the_next() {
    let (mut array, _) = array();
    let lun = |array: &Array, volume: &str| {
        array.good(&["volume", "create", volume, "--size", "16MiB"]);
        array.json(&["export", "create", volume])["lun"].as_u64().unwrap()
    };
    assert_eq!([lun(&array, "a"), lun(&array, "b")], [0, 1]);
    array.good(&["export", "delete", "b"]);
    array.good(&["volume", "delete", "b", "--now", "--yes"]);
    assert_eq!(lun(&array, "c"), 2);
    array.good(&["export", "delete", "c"]);
    array.good(&["volume", "delete", "c", "--now", "--yes"]);
    array.terminate();
    array.start();
    assert_eq!(lun(&array, "d"), 3);
    array.good(&["volume", "create", "e", "--size", "16MiB"]);
    assert_eq!(array.json(&["export", "create", "e", "--lun", "1"])["lun"], 1, "who names one gets it");
    assert_eq!(lun(&array, "f"), 4, "and brings none back");
    array.good(&["volume", "create", "g", "--size", "16MiB"]);
    assert_eq!(array.json(&["export", "create", "g", "--lun", "9"])["lun"], 9);
    array.good(&["export", "delete", "g"]);
    assert_eq!([lun(&array, "h"), lun(&array, "i")], [10, 11]);
}

#[test]
fn qemu_writes_and_reads_what_was_written() {
    if !has_program("qemu-io") || !has_iscsi_driver() {
        return;
    }
    let (array, port) = array();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.good(&["export", "create", "db"]);
    let target = target(&array);
    let url = format!("iscsi://127.0.0.1:{port}/{target}/0");
    let io = |command: &str| {
        let done = run("qemu-io", &["-f", "raw", "-c", command, &url]);
        assert!(done.status == 0 && !done.out.contains("failed"), "{command}: {}{}", done.out, done.err);
    };
    io("write -P 7 4096 1048576");
    io("write -z 8192 4096");
    io("read -P 7 4096 4096");
    io("read -P 0 8192 4096");
    let info = run("qemu-img", &["info", &url]);
    assert!(info.out.contains("64 MiB"), "{}{}", info.out, info.err);
}

fn has_iscsi_driver() -> bool {
    let said = run("qemu-img", &["--help"]).out;
    let is_there =
        said.contains("iscsi") || Path::new("/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so").exists();
    if !is_there {
        println!("skipped: qemu has no iSCSI driver (qemu-block-extra)");
    }
    is_there
}

/// Sizes of blocks, the pool of each, and the file of the test that is wrong there. Why, and what is skipped:
/// docs/reference/iscsi-conformance.md. The larger pool writes 256 blocks of 512 bytes as one.
const SUBJECTS: [(&str, &str, &str); 2] =
    [("512", "8GiB", "test_get_lba_status_unmap_single.c"), ("4096", "2GiB", "test_writeatomic16_simple.c")];
/// Volumes for each size of blocks: so many suites run at once, and wait for the drive together.
const LANES: usize = 4;

/// libiscsi's suite, which writes everywhere, over two paths at once.
#[test]
fn the_conformance_suite_finds_no_failure() {
    if !has_program("iscsi-test-cu") {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/iscsi-conformance.md");
    let page = std::fs::read_to_string(page).unwrap();
    let suites = suites();
    std::thread::scope(|scope| {
        for (block, size, wrong) in SUBJECTS {
            let (page, suites) = (&page, &suites);
            scope.spawn(move || {
                let found = conforms(block, size, suites);
                assert!(found.ran >= 230, "{} tests with blocks of {block}", found.ran);
                let failed: Vec<&String> = found.failed.iter().collect();
                assert_eq!(failed, [wrong], "blocks of {block}:\n{}", found.told);
                let row = format!("| {block} | {} | {} | ", found.ran - found.skipped - 1, found.skipped);
                assert!(page.contains(&row), "it is {row}");
            });
        }
    });
}

/// As in `ALL.Unmap`. The longest comes first, beside it the one that counts on zeroes in a block that it
/// never wrote.
fn suites() -> Vec<String> {
    let list = run("iscsi-test-cu", &["--list"]);
    let is_suite = |line: &&str| line.starts_with("ALL.") && line.matches('.').count() == 1;
    let mut suites: Vec<String> = list.out.lines().filter(is_suite).map(str::to_string).collect();
    suites.sort_by_key(|suite| !["ALL.Unmap", "ALL.MultipathIO"].contains(&suite.as_str()));
    suites
}

/// What the suites say of volumes with blocks of one size.
#[derive(Default)]
struct Found {
    ran: usize,
    skipped: usize,
    failed: BTreeSet<String>,
    told: String,
}

fn conforms(block: &str, size: &str, suites: &[String]) -> Found {
    let (array, port) = array_of(size);
    let units: Vec<String> = (0..LANES)
        .map(|lane| {
            let name = format!("{block}-{lane}");
            array.good(&["volume", "create", &name, "--size", "256MiB", "--logical-block", block]);
            array.good(&["export", "create", &name, "--block-size", block]);
            array.json(&["export", "show", &name])["lun"].to_string()
        })
        .collect();
    let target = target(&array);
    let (found, next) = (Mutex::new(Found::default()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (lane, unit) in units.iter().enumerate() {
            let url = format!("iscsi://127.0.0.1:{port}/{target}/{unit}");
            let (found, next) = (&found, &next);
            scope.spawn(move || {
                while let Some(suite) = suites.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let names = [format!("{HOST}-{block}-{lane}"), format!("{OTHER}-{block}-{lane}")];
                    let names = ["-i", &names[0], "-I", &names[1]];
                    let of = [&["--dataloss", "-t", suite], &names[..], &[&url, &url]].concat();
                    add(&mut found.lock().unwrap(), &run("iscsi-test-cu", &of));
                }
            });
        }
    });
    assert!(!array.log().contains("panic"), "{}", array.log());
    found.into_inner().unwrap()
}

fn add(found: &mut Found, done: &Done) {
    let told = format!("{}{}", done.out, done.err);
    // Total, run, passed, failed, inactive.
    let summary = done.out.lines().find(|line| line.trim_start().starts_with("tests "));
    let counts: Vec<usize> = summary
        .unwrap_or_else(|| panic!("{told}"))
        .split_whitespace()
        .filter_map(|count| count.parse().ok())
        .collect();
    found.ran += counts[1];
    let of_tests = done.out.split("  Test: ").skip(1);
    found.skipped += of_tests.filter(|test| test.contains("[SKIPPED]")).count();
    // As in `    1. test_async_write.c:45  - CU_ASSERT...`.
    let file = |line: &str| {
        let (number, rest) = line.trim_start().split_once(". ")?;
        let (file, _) = rest.split_once(".c:")?;
        number.parse::<u32>().ok().filter(|_| file.starts_with("test_")).map(|_| format!("{file}.c"))
    };
    let failed: BTreeSet<String> = done.out.lines().filter_map(file).collect();
    if counts[3] > 0 {
        assert!(!failed.is_empty(), "a failure without a file: {told}");
        found.told.push_str(&told);
    }
    found.failed.extend(failed);
}
