//! `ashlar lab` on an array: volumes that it makes, attaches and removes, volumes that exist, exports.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Array, HOLDS, can_attach, has_program};

/// Reads, on one volume and striped over four.
fn scenario(array: &Array, measure: &str) -> String {
    let text = format!(
        "format = 1\nid = \"test/volumes\"\ntitle = \"Volumes\"\nquestion = \"Does a volume hold it up?\"\n\
         budget = \"10m\"\nphases = {{ warmup = \"0.2s\", measure = \"{measure}\", repeat = 1 }}\n\
         roles = {{ data = {{ files = 2 }} }}\n\
         [workload]\nkind = \"io\"\ndata = \"32MiB\"\noutstanding = 4\ncontent = {{ compress = 2 }}\n\
         mix = [{{ op = \"read\", pattern = \"random\", bs = \"8k\", share = 0.5 }}, \
                {{ op = \"write\", pattern = \"random\", bs = \"8k\", share = 0.5 }}]\n\
         [[matrix.layout]]\nid = \"one\"\n\
         [[matrix.layout]]\nid = \"four\"\nlayout = {{ volumes = 4, map = \"stripe\", unit = \"64k\" }}\n\
         {HOLDS}"
    );
    let file = array.path("volumes.toml");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn result(output: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(output.join("result.json")).unwrap()).unwrap()
}

/// It could not begin, and says why.
fn unable(array: &Array, arguments: &[&str], words: &[&str]) {
    let done = array.run(arguments);
    assert_eq!(done.status, 2, "{arguments:?}: {}{}", done.out, done.err);
    assert!(words.iter().all(|word| done.err.contains(word)), "{arguments:?}: {}", done.err);
}

fn volumes(array: &Array) -> usize {
    array.json(&["volume", "list"]).as_array().unwrap().len()
}

fn output(array: &Array, name: &str) -> (PathBuf, String) {
    let path = array.path(name);
    let text = path.display().to_string();
    (path, text)
}

#[test]
fn volumes_are_made_in_a_pool_as_many_as_the_layout_asks_for_and_removed() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let other = directory.path().display().to_string();
    let file = scenario(&array, "1s");
    let (kept, named) = output(&array, "result");
    let run = ["lab", "run", &file, "--target", "ashlar:main/db", "--also", &other, "-o", &named];
    let done = array.run(&run);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert_eq!(volumes(&array), 0, "nothing stays");
    let result = result(&kept);
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "a directory is one volume, so it is not run on it");
    assert!(result["plan"]["left_out"][0].as_str().unwrap().contains(&format!("Not run on {other}")));
    for run in runs {
        let pool = &run["pool"];
        assert!(
            pool["host_read_bytes"].as_u64().unwrap() > 0
                && pool["drive_written_bytes"].as_u64().unwrap() > 0
        );
    }
    let job = |name: &str| std::fs::read_to_string(kept.join("runs").join(name).join("test.fio")).unwrap();
    assert_eq!(job("r1-one-db").matches("filename=/dev/loop").count(), 2, "two files on one volume");
    assert!(job("r1-four-db").contains("file_service_type=random"), "{}", job("r1-four-db"));
    let page = std::fs::read_to_string(kept.join("report.html")).unwrap();
    assert!(page.contains("pool main on 1 drive"), "the report says what the volumes are");

    // A volume that exists is somebody's.
    array.good(&["volume", "create", "db", "--size", "256MiB"]);
    let (_, named) = output(&array, "result-2");
    let run =
        ["lab", "run", "kaminario/oltp-query-device", "-s", "xs", "--target", "ashlar:main/db", "-o", &named];
    unable(&array, &run, &["volume `db` exists", "--destroy"]);
    for (target, words) in [
        ("ashlar:none", "pool `none` does not exist"),
        ("ashlar:", "ashlar:POOL"),
        ("ashlar:main/a/b", "ashlar:POOL/VOLUME"),
    ] {
        unable(&array, &["lab", "run", &file, "--target", target, "-o", &named], &[words]);
    }
    let taken =
        ["lab", "doctor", "--target", "ashlar:main/db", "--destroy", "--time", "10s", "--size", "64MiB"];
    let done = array.run(&taken);
    assert!([0, 4].contains(&done.status), "{}{}", done.out, done.err);
    assert!(done.out.contains("Does what was written come back?"), "{}", done.out);
    let db = array.json(&["volume", "show", "db"]);
    assert!(
        db["device"].is_null() && db["written_bytes"].as_u64().unwrap() >= 32 << 20,
        "kept, detached: {db}"
    );
}

/// A run in the background.
fn started(array: &Array, arguments: &[&str]) -> Child {
    let mut command = Command::new(support::program());
    command.arg("--state").arg(array.state()).arg("lab").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_killed_run_left_in_a_pool_goes_when_it_is_resumed() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    let file = scenario(&array, "2s");
    let (kept, named) = output(&array, "result");
    let mut child = started(&array, &["run", &file, "--target", "ashlar:main", "-o", &named]);
    let is_made = |name: &str| kept.join("runs").join(name).join("run.json").is_file();
    wait("a run is made", || is_made("r1-one-ashlar-main") || is_made("r1-four-ashlar-main"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(volumes(&array), 5, "one and four are left");
    // fio was not killed with it: the volumes are in use until it ends.
    let done = array.run(&["lab", "resume", &named]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert_eq!(result(&kept)["runs"].as_array().unwrap().len(), 2);
    assert_eq!(volumes(&array), 0, "nothing stays");

    // A run whose array goes says so, and what is left goes with the next one.
    let (kept, named) = output(&array, "gone");
    let child = started(&array, &["run", &file, "--target", "ashlar:main", "-o", &named]);
    // Not within an attach: a thread of the array that waits for its own volume outlives a kill.
    wait("volumes are attached", || array.json(&["status"])["attachment_count"] == 5);
    let mut array = array;
    array.kill();
    let ended = child.wait_with_output().unwrap();
    assert!([2, 3].contains(&ended.status.code().unwrap()), "{ended:?}");
    array.start();
    if kept.exists() {
        let done = array.run(&["lab", "resume", &named]);
        assert_eq!(done.status, 0, "{}{}", done.out, done.err);
        assert_eq!(volumes(&array), 0, "nothing stays");
    }
}

#[test]
fn an_export_is_tested_from_user_space() {
    if !has_program("nbdinfo") {
        return;
    }
    let array = Array::with_pool();
    let socket = array.state().join("nbd.sock");
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    let uri = format!("nbd+unix:///db?socket={}", socket.display());
    let (kept, named) = output(&array, "result");
    let run = ["lab", "run", "kaminario/oltp-query-device", "-s", "xs", "--target", &uri, "-o", &named];
    unable(&array, &run, &["overwritten", "--destroy"]);
    let done = array.run(&[&run[..], &["--destroy"]].concat());
    assert_eq!(done.status, 3, "too short to be steady: {}{}", done.out, done.err);
    let result = result(&kept);
    assert!(result["runs"].as_array().unwrap().iter().all(|run| run["requests"].as_u64().unwrap() > 0));
    let nowhere = format!("nbd+unix:///none?socket={}", socket.display());
    let (_, named) = output(&array, "result-2");
    let run = ["lab", "run", "emc/headline", "-s", "xs", "--target", &nowhere, "--destroy", "-o", &named];
    unable(&array, &run, &["none"]);
}

/// Orders on one warehouse, twice.
fn orders(array: &Array) -> String {
    let text = "format = 1\nid = \"test/orders\"\ntitle = \"Orders\"\nquestion = \"Is every order kept?\"\n\
        budget = \"10m\"\nphases = { warmup = \"0.5s\", measure = \"2s\", repeat = 2 }\n\
        engine = { kind = \"postgres\", memory = \"512MiB\" }\n\
        workload = { kind = \"orders\", warehouses = 1, users = 4 }\n\
        check = [{ kind = \"consistency\" }]\n[[published]]\nmetric = \"nopm\"\nnote = \"none\"\n";
    let file = array.path("orders.toml");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn a_database_on_a_volume_takes_orders_and_keeps_every_one() {
    if !can_attach() {
        return;
    }
    let array = Array::started();
    let drives: Vec<String> =
        (1..=4).map(|number| format!("{},size=2GiB", array.path(&format!("d{number}")).display())).collect();
    let mut create = vec!["pool", "create", "main", "--protection", "dual"];
    drives.iter().for_each(|drive| create.extend(["--drive", drive.as_str()]));
    array.good(&create);
    let file = orders(&array);
    let (kept, named) = output(&array, "result");
    let mut child = started(&array, &["run", &file, "--target", "ashlar:main", "-o", &named]);
    wait("a run is made", || kept.join("runs/r1-ashlar-main/run.json").is_file());
    // A killed lab leaves a server on a mounted volume; the next one ends it.
    let killed = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(volumes(&array), 1);
    let done = array.run(&["lab", "resume", &named]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert!(done.out.contains("new orders a minute"), "{}", done.out);
    let result = result(&kept);
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let database = &run["database"];
        assert!(database["offences"].as_array().unwrap().is_empty(), "{database}");
        assert!(
            database["acknowledged"].as_u64().unwrap() > 0
                && database["new_orders_per_minute"].as_f64().unwrap() > 0.0
        );
        assert!(
            run["requests"].as_u64().unwrap() > 0 && run["course"].as_array().unwrap().len() == 1,
            "{run}"
        );
    }
    assert_eq!(volumes(&array), 0, "nothing stays");
    let scratch = std::env::temp_dir().join(format!("ashlar-lab-{killed}"));
    assert!(!scratch.exists(), "nor its socket and mount");
    assert!(kept.join("data/set-1/server.log").is_file(), "the server's log is kept");
    let page = std::fs::read_to_string(kept.join("report.html")).unwrap();
    assert!(page.contains("derived from TPC-C"), "the report says what it is");
}

/// Data and log are on volumes of their own; what was loaded is kept, and cloned by a second run.
#[test]
fn a_clone_of_every_snapshot_taken_under_load_holds_what_was_promised_before() {
    if !can_attach() {
        return;
    }
    let array = Array::started();
    let drive = format!("{},size=3GiB", array.path("drive").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    let text = "format = 1\nid = \"test/snapshots\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"10m\"\n\
        engine = { kind = \"postgres\" }\nworkload = { kind = \"orders\", warehouses = 1, users = 4 }\n\
        roles = { log = \"apart\" }\n\
        phases = { warmup = \"0.5s\", measure = \"4s\", repeat = 1 }\n\
        [[event]]\nkind = \"snapshot\"\nat = \"30%\"\n[[event]]\nkind = \"snapshot\"\nat = \"60%\"\n\
        [[check]]\nkind = \"consistency\"\n";
    let file = array.path("snapshots.toml");
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let other = directory.path().display().to_string();
    let (kept, named) = output(&array, "result");
    unable(&array, &["lab", "plan", &file, "--target", &other], &["it takes snapshots"]);
    let moment = ["lab", "plan", &file, "--target", "ashlar:main", "--log-target", &other];
    unable(&array, &moment, &["at one moment", "name the same pool"]);
    let run = ["lab", "run", &file, "--target", "ashlar:main", "--keep-base", "-o", &named];
    let done = array.run(&run);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let first = |kept: &Path| result(kept);
    let result = first(&kept);
    for device in ["device", "log_device"] {
        assert!(result["runs"][0][device]["writes"].as_u64().unwrap() > 0, "{device} has its own counters");
    }
    let copies = result["runs"][0]["database"]["copies"].as_array().unwrap();
    assert_eq!(copies.len(), 2, "{copies:?}");
    let count = |copy: &serde_json::Value| copy["acknowledged"].as_u64().unwrap();
    assert!(0 < count(&copies[0]) && count(&copies[0]) < count(&copies[1]), "{copies:?}");
    assert!(count(&copies[1]) < result["runs"][0]["database"]["acknowledged"].as_u64().unwrap());
    let snapshots = || array.json(&["snapshot", "list"]).as_array().unwrap().clone();
    assert_eq!((volumes(&array), snapshots().len()), (0, 1), "nothing stays but the base");
    let base = snapshots()[0]["name"].as_str().unwrap().to_string();
    assert!(base.starts_with("ashlar-lab-base-orders-"), "{base}");

    let (kept, named) = output(&array, "second");
    let run = ["lab", "run", &file, "--target", "ashlar:main", "--keep-base", "-o", &named];
    let done = array.run(&run);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let result = first(&kept);
    let database = &result["runs"][0]["database"];
    assert_eq!((&database["base"]["name"], &database["base"]["way"]), (&base.into(), &"clone".into()));
    assert_eq!(database["copies"].as_array().unwrap().len(), 2, "{database}");
    array.good(&["lab", "bases", "--target", "ashlar:main", "--delete"]);
    assert_eq!((volumes(&array), snapshots().len()), (0, 0), "nothing stays");
}

/// Volumes with logical blocks of both sizes, each with an ext4 of its own; small writes only where they fit.
#[test]
fn volumes_with_blocks_of_their_own_get_a_file_system_and_go_again() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    let text = "format = 1\nid = \"test/blocks\"\ntitle = \"Blocks\"\nquestion = \"Does a block matter?\"\n\
        budget = \"10m\"\nphases = { warmup = \"0.2s\", measure = \"1s\", repeat = 1 }\n\
        [workload]\nkind = \"io\"\ndata = \"8MiB\"\noutstanding = 2\ncontent = { compress = 2 }\n\
        layout = { cluster = \"64k\" }\n\
        [[matrix.operation]]\nid = \"small\"\n\
        mix = [{ op = \"write\", pattern = \"random\", bs = \"512B\", share = 1 }]\n\
        [[matrix.operation]]\nid = \"beside\"\nshift = \"512B\"\n\
        mix = [{ op = \"write\", pattern = \"random\", bs = \"4k\", share = 1 }]\n\
        [[matrix.operation]]\nid = \"read\"\n\
        mix = [{ op = \"read\", pattern = \"random\", bs = \"4k\", share = 1 }]\n\
        [[matrix.block]]\nid = \"b512\"\nlayout = { block = \"512B\" }\n\
        [[matrix.block]]\nid = \"b4096\"\nlayout = { block = \"4096B\" }\n";
    let text = format!("{text}{HOLDS}");
    let file = array.path("blocks.toml");
    std::fs::write(&file, text).unwrap();
    let (file, (kept, named)) = (file.display().to_string(), output(&array, "result"));
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = directory.path().display().to_string();
    let run = ["lab", "run", &file, "--target", &elsewhere, "-o", &named];
    unable(&array, &run, &["logical blocks of 512 and of 4096 bytes", "ashlar:POOL"]);
    let done = array.run(&["lab", "run", &file, "--target", "ashlar:main", "-o", &named]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert_eq!(volumes(&array), 0, "nothing stays");
    let result = result(&kept);
    let mut ids: Vec<&str> =
        result["runs"].as_array().unwrap().iter().map(|run| run["variant"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let expected = [
        "beside-b512-ashlar-main",
        "read-b4096-ashlar-main",
        "read-b512-ashlar-main",
        "small-b512-ashlar-main",
    ];
    assert_eq!(ids, expected);
    let job = std::fs::read_to_string(kept.join("runs/r1-beside-b512-ashlar-main/test.fio")).unwrap();
    assert!(job.contains("offset=512\n") && job.contains("bs=4096\n"), "{job}");
    assert!(array.run(&["lab", "verify", &named]).status == 0, "the figures are fio's");
}

#[test]
fn what_databases_take_of_a_pool_is_told_in_factors_and_everything_goes() {
    if !can_attach() {
        return;
    }
    let array = Array::started();
    let drive = format!("{},size=3GiB", array.path("drive").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    let text = "format = 1\nid = \"test/space\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"10m\"\n\
        engine = { kind = \"postgres\" }\nphases = { warmup = \"0s\", measure = \"0s\", repeat = 1 }\n\
        workload = { kind = \"space\", data = \"10MB\", twins = 2, made = \"copied\", dedupe = true, \
        provisioned = 2, snapshots = 3 }\n\
        check = [{ kind = \"consistency\" }, { kind = \"value\", of = \"dedupe\", at_least = 1.8 }, \
        { kind = \"value\", of = \"back_share\", at_least = \"80%\" }]\n\
        [[published]]\nmetric = \"overall\"\nvalue = 16\n";
    let file = array.path("space.toml");
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let (kept, named) = output(&array, "result");
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let other = directory.path().display().to_string();
    unable(&array, &["lab", "plan", &file, "--target", &other], &["ashlar:POOL"]);
    let done = array.run(&["lab", "run", &file, "--target", "ashlar:main", "-o", &named]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    for part in ["Thin space is", "neither is data", "published: 16.0 : 1"] {
        assert!(done.out.contains(part), "{part}: {}", done.out);
    }
    let space = &result(&kept)["runs"][0]["space"];
    let taken = |name: &str| space["taken"][name].as_i64().unwrap();
    assert_eq!(taken("snapshots_promised_bytes"), 3 * taken("volumes_promised_bytes"));
    let saved = taken("snapshots_saved_bytes") + taken("content_saved_bytes");
    let stored = taken("written_bytes") - saved - taken("compression_saved_bytes");
    assert_eq!(stored, taken("stored_bytes"), "{space}");
    assert!(taken("content_saved_bytes") > 10_000_000, "the twin takes no room: {space}");
    assert_eq!(space["left"]["stored_bytes"], 0, "{space}");
    assert_eq!(volumes(&array), 0, "nothing stays");
    assert_eq!(array.json(&["snapshot", "list"]).as_array().unwrap().len(), 0, "nothing stays");
}

/// A data set that is a share of what the pool has room for, grown and made anew in the second repetition.
#[test]
fn a_data_set_grows_with_the_room_of_a_pool_and_what_a_directory_lacks_is_told() {
    if !can_attach() {
        return;
    }
    let array = Array::with_pool();
    let text = "format = 1\nid = \"test/grows\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"10m\"\n\
        phases = { warmup = \"0.1s\", measure = \"0.5s\", repeat = 2 }\n\
        [workload]\nkind = \"io\"\ngrows = true\noutstanding = 4\ncontent = { compress = 1 }\nzipf = 1.2\n\
        data = { invariant = \"5% * space\" }\n\
        mix = [{ op = \"write\", pattern = \"random\", bs = \"8k\", share = 1 }]\n\
        [[matrix.fill]]\nid = \"more\"\ndata = { invariant = \"10% * space\" }\n\
        [[matrix.fill]]\nid = \"less\"\n\
        [[check]]\nkind = \"ratio\"\nof = \"drive_bytes_per_host_byte.ratio(more/less)\"\nat_most = 1000\n";
    let file = array.path("grows.toml");
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let other = directory.path().display().to_string();
    let (kept, named) = output(&array, "result");
    unable(&array, &["lab", "run", &file, "--target", &other, "-o", &named], &["only a pool", "ashlar:POOL"]);
    let free = array.json(&["pool", "show", "main"])["space"]["free_bytes"].as_u64().unwrap();
    let done = array.run(&["lab", "run", &file, "--target", "ashlar:main", "--also", &other, "-o", &named]);
    // Two repetitions give no interval.
    assert_eq!(done.status, 3, "{}{}", done.out, done.err);
    assert_eq!(volumes(&array), 0, "nothing stays");
    let plan: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(kept.join("plan.json")).unwrap()).unwrap();
    assert_eq!(plan["targets"][0]["space_bytes"].as_u64(), Some(free), "kept for whoever goes on");
    let result = result(&kept);
    assert!(result["plan"]["left_out"][0].as_str().unwrap().contains(&format!("Not run on {other}")));
    let runs = result["runs"].as_array().unwrap();
    let order: Vec<&str> = runs.iter().map(|run| run["variant"].as_str().unwrap()).collect();
    let grown = ["less-ashlar-main", "more-ashlar-main"];
    assert_eq!(order, [grown, grown].concat(), "from the smallest on, in each repetition");
    assert!(runs.iter().all(|run| run["pool"]["drive_written_bytes"].as_u64().unwrap() > 0));
    let job = std::fs::read_to_string(kept.join("runs/r2-more-ashlar-main/test.fio")).unwrap();
    assert!(job.contains("random_distribution=zipf:1.2"), "{job}");
    // The second fill is behind the first.
    let fill = std::fs::read_to_string(kept.join("data/set-1-r1-more-ashlar-main/f1-fill.fio")).unwrap();
    let half = (free / 20) >> 20 << 20;
    assert!(fill.contains(&format!("offset={half}\n")), "{fill}");
    array.good(&["lab", "verify", &named]);
}
