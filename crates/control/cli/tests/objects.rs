//! Pools, volumes, snapshots and clones through the command line of a real array.

#![allow(clippy::unwrap_used)]

mod support;

use support::Array;
use support::frozen::Frozen;

#[test]
fn a_pool_shows_where_all_its_bytes_are() {
    let array = Array::with_pool();
    let pool = array.json(&["pool", "show", "main"]);
    assert_eq!(pool["state"], "online");
    let space = pool["space"].as_object().unwrap();
    let parts: u64 = space
        .iter()
        .filter(|(name, _)| *name != "physical_bytes")
        .map(|(_, part)| part.as_u64().unwrap())
        .sum();
    assert_eq!(space["physical_bytes"], 1 << 30);
    assert_eq!(parts, 1 << 30, "{space:?}");
    assert!(space["free_bytes"].as_u64().unwrap() > 700 << 20);
    assert_eq!(array.json(&["pool", "list"]).as_array().unwrap().len(), 1);
    assert!(array.good(&["pool", "show", "main"]).contains("1 GiB"));
}

#[test]
fn a_volume_is_made_shown_resized_and_deleted() {
    let array = Array::with_pool();
    let made = array.json(&[
        "volume",
        "create",
        "db",
        "--size",
        "64GiB",
        "--profile",
        "oltp",
        "--logical-block",
        "512",
    ]);
    assert_eq!(made["size_bytes"], 64_u64 << 30);
    let shown = array.json(&["volume", "show", "db"]);
    assert_eq!(shown["logical_block_bytes"], 512);
    assert_eq!(shown["profile"], "oltp");
    assert_eq!(shown["compression"], "lz4");
    assert_eq!(shown["written_bytes"], 0);
    assert_eq!(shown["pool"], "main");
    array.good(&["volume", "resize", "db", "--size", "128GiB"]);
    array.refused(&["volume", "resize", "db", "--size", "1GiB"], &["db", "--shrink"]);
    array.good(&["volume", "resize", "db", "--size", "1GiB", "--shrink", "--yes"]);
    assert_eq!(array.json(&["volume", "show", "db"])["size_bytes"], 1 << 30);
    assert!(array.good(&["volume", "list"]).contains("1 GiB"));
    array.good(&["volume", "delete", "db", "--now", "--yes"]);
    array.refused(&["volume", "show", "db"], &["`db`", "does not exist", "ashlar volume list"]);
    assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 0);
}

#[test]
fn decimal_sizes_give_at_least_what_was_asked() {
    let array = Array::with_pool();
    let made = array.json(&["volume", "create", "db", "--size", "10GB"]);
    let size = made["size_bytes"].as_u64().unwrap();
    assert!((10_000_000_000..10_000_004_096).contains(&size));
    let largest = array.json(&["volume", "create", "huge", "--size", "256TiB"]);
    assert_eq!(largest["size_bytes"], 256_u64 << 40);
}

#[test]
fn snapshots_and_clones_form_a_tree_that_is_cut_in_any_order() {
    let array = Array::with_pool();
    for name in ["data", "wal"] {
        array.good(&["volume", "create", name, "--size", "1GiB"]);
    }
    let snapshot = array.json(&["snapshot", "create", "noon", "data", "wal"]);
    assert_eq!(snapshot["volumes"], serde_json::json!(["data", "wal"]));
    let clones = array.json(&["clone", "create", "copy", "--from", "noon"]);
    let names: Vec<&str> =
        clones.as_array().unwrap().iter().map(|clone| clone["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["copy-data", "copy-wal"]);
    assert!(clones[0]["origin"].as_str().unwrap().contains("noon"), "{clones}");
    let one = array.json(&["clone", "create", "one", "--from", "data@noon"]);
    assert_eq!(one[0]["name"], "one");
    array.good(&["clone", "create", "direct", "--from", "wal"]);
    for name in ["dusk", "dawn"] {
        array.good(&["snapshot", "create", name, "data", "wal"]);
    }
    let listed = array.json(&["snapshot", "list"]);
    let listed: Vec<&str> =
        listed.as_array().unwrap().iter().map(|snapshot| snapshot["name"].as_str().unwrap()).collect();
    assert_eq!(listed, ["noon", "dusk", "dawn"], "the oldest first, whatever their names");
    array.refused(&["snapshot", "delete", "dawn", "nope", "dusk", "--yes"], &["`nope`"]);
    assert_eq!(array.json(&["snapshot", "list"]).as_array().unwrap().len(), 3);
    array.good(&["volume", "delete", "data", "--now", "--yes"]);
    let done = array.json(&["snapshot", "delete", "noon", "dusk", "dawn", "noon", "--yes"]);
    assert_eq!(done["name"], "noon dusk dawn noon");
    assert_eq!(array.json(&["snapshot", "list"]).as_array().unwrap().len(), 0);
    let left = array.json(&["volume", "list"]);
    let left: Vec<&str> =
        left.as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap()).collect();
    assert_eq!(left, ["copy-data", "copy-wal", "direct", "one", "wal"]);
    let report = array.json(&["pool", "check", "main"]);
    assert_eq!(report["errors"], serde_json::json!([]));
    for name in left {
        array.good(&["volume", "delete", name, "--now", "--yes"]);
    }
    array.good(&["pool", "delete", "main", "--yes"]);
}

#[test]
fn a_pool_that_takes_no_writes_keeps_its_snapshots_and_the_answer_tells_what_went() {
    let array = Array::with_pool();
    let image = array.path("second.img");
    array.good(&["pool", "create", "second", "--drive", &format!("{},size=256MiB", image.display())]);
    array.good(&["volume", "create", "db", "--size", "1GiB", "--pool", "main"]);
    array.good(&["volume", "create", "other", "--size", "1GiB", "--pool", "second"]);
    for (name, volume) in [("d1", "db"), ("d2", "db"), ("o1", "other"), ("o2", "other")] {
        array.good(&["snapshot", "create", name, volume]);
    }
    let left = || array.json(&["snapshot", "list"]).as_array().unwrap().len();
    let Some(frozen) = Frozen::new(&image) else { return };
    // Nobody knows yet that the second pool fails: the first has deleted its own before.
    array.refused(&["snapshot", "delete", "d1", "o1", "o2", "--yes"], &["1 of the 3 snapshots"]);
    assert_eq!(left(), 3);
    array.good(&["snapshot", "create", "d1", "db"]);
    // Now it is known, and nothing goes.
    array.refused(&["snapshot", "delete", "d1", "d2", "o1", "--yes"], &["read-only"]);
    assert_eq!(left(), 4);
    drop(frozen);
}

#[test]
fn names_are_unique_over_all_pools() {
    let array = Array::with_pool();
    let drive = format!("{},size=256MiB", array.path("second.img").display());
    array.good(&["pool", "create", "second", "--drive", &drive]);
    array.refused(&["volume", "create", "db", "--size", "1GiB"], &["2 pools", "--pool"]);
    array.good(&["volume", "create", "db", "--size", "1GiB", "--pool", "main"]);
    array.refused(&["volume", "create", "db", "--size", "1GiB", "--pool", "second"], &["db", "main"]);
    array.good(&["volume", "create", "other", "--size", "1GiB", "--pool", "second"]);
    array.refused(&["snapshot", "create", "both", "db", "other"], &["main", "second"]);
    array.refused(&["clone", "create", "other", "--from", "db"], &["other", "second"]);
}

#[test]
fn many_creations_of_one_name_at_the_same_time_give_one_volume() {
    let array = Array::with_pool();
    let made: Vec<bool> = std::thread::scope(|scope| {
        let start = || array.run(&["volume", "create", "db", "--size", "1GiB"]).status == 0;
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|is_made| **is_made).count(), 1);
    assert_eq!(array.json(&["volume", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_pool_is_exported_and_imported_by_another_array() {
    let first = Array::with_pool();
    first.good(&["volume", "create", "db", "--size", "1GiB"]);
    let drive = first.path("main.img").display().to_string();
    let second = Array::started();
    second.refused(&["pool", "import", "main", "--drive", &drive], &[&drive]);
    first.good(&["pool", "export", "main"]);
    assert_eq!(first.json(&["pool", "list"]).as_array().unwrap().len(), 0);
    second.refused(&["pool", "import", "other", "--drive", &drive], &["`main`", "`other`"]);
    second.good(&["pool", "import", "main", "--drive", &drive]);
    assert_eq!(second.json(&["volume", "show", "db"])["pool"], "main");
}

#[test]
fn a_deleted_pools_drive_takes_a_new_pool() {
    let array = Array::with_pool();
    let drive = array.path("main.img").display().to_string();
    array.refused(&["pool", "create", "next", "--drive", &drive], &[&drive, "`main`"]);
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    array.refused(&["pool", "delete", "main", "--yes"], &["1 volumes"]);
    array.good(&["volume", "delete", "db", "--now", "--yes"]);
    array.good(&["pool", "delete", "main", "--yes"]);
    array.good(&["pool", "create", "next", "--drive", &drive]);
    assert_eq!(array.json(&["pool", "show", "next"])["volume_count"], 0);
}
