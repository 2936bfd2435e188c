//! The accounts through the command line of a real array: parts that sum, names, refusals.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use support::Array;

fn sum_of_parts(space: &Value) -> u64 {
    let parts = space["parts"].as_object().unwrap();
    parts.iter().filter(|(name, _)| *name != "physical_bytes").map(|(_, part)| part.as_u64().unwrap()).sum()
}

#[test]
fn the_parts_of_every_pool_sum_to_physical() {
    let array = Array::with_pool();
    let drive = format!("{},size=256MiB", array.path("other.img").display());
    array.good(&["pool", "create", "other", "--drive", &drive]);
    array.good(&["volume", "create", "db", "--size", "64GiB", "--pool", "main"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    for (arguments, basis) in [(vec!["space"], "walk"), (vec!["space", "--quick"], "last-mark")] {
        let spaces = array.json(&arguments);
        assert_eq!(spaces.as_array().unwrap().len(), 2);
        for (space, physical) in spaces.as_array().unwrap().iter().zip([1_u64 << 30, 256 << 20]) {
            assert_eq!(space["basis"], basis);
            assert_eq!(space["parts"]["physical_bytes"], physical);
            assert_eq!(sum_of_parts(space), physical, "{space}");
        }
    }
    let main = &array.json(&["space"])[0];
    assert_eq!(main["provisioned_bytes"], 64_u64 << 30);
    assert_eq!(main["volumes"][0]["unwritten_bytes"], 64_u64 << 30);
    assert_eq!(main["snapshots"][0]["name"], "db@noon");
    assert_eq!(main["parts"]["data_alive_bytes"], 0);
    let text = array.good(&["space"]);
    for word in ["dead, not yet cleaned", "db@noon", "other", "exact at a checkpoint"] {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
    assert!(array.good(&["space", "--quick"]).contains("estimate of the last mark"));
}

#[test]
fn questions_name_what_they_are_about() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    let reclaim = array.json(&["space", "reclaim", "db", "noon"]);
    assert_eq!(reclaim["members"], serde_json::json!(["db", "db@noon"]));
    assert_eq!(reclaim["chunk_bytes"], 0);
    assert!(array.good(&["space", "reclaim", "db@noon"]).contains("given back"));
    assert_eq!(array.json(&["space", "holders", "db"])["question"], "overwritten");
    assert_eq!(array.json(&["space", "holders", "noon"])["question"], "stays-after-delete");
    assert!(array.good(&["space", "holders", "db"]).contains("several together"));

    array.good(&["snapshot", "create", "db", "db"]);
    array.refused(&["space", "reclaim", "db"], &["`db`", "volume:db", "snapshot:db"]);
    array.refused(&["space", "holders", "db"], &["`db`", "volume:db", "snapshot:db"]);
    assert_eq!(array.json(&["space", "reclaim", "volume:db"])["members"], serde_json::json!(["db"]));
    assert_eq!(array.json(&["space", "holders", "snapshot:db"])["members"], serde_json::json!(["db@db"]));
    array.refused(&["space", "reclaim", "noon", "nope"], &["`nope`", "ashlar snapshot list"]);
    array.refused(&["space", "reclaim", "nope@noon"], &["`nope`", "db"]);
    array.refused(&["space", "holders", "volume:noon"], &["`noon`", "does not exist"]);
    array.refused(&["space", "holders", "db@noon", "--within", "0"], &["0 seconds", "1 to 3600"]);
    array.misused(&["space", "reclaim"], &["NAME"]);
}

#[test]
fn a_pool_that_did_not_open_is_named_where_its_space_is_missed() {
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    array.terminate();
    std::fs::rename(array.path("main.img"), array.path("gone.img")).unwrap();
    array.start();
    let done = array.run(&["space"]);
    assert_eq!(done.status, 1);
    assert!(
        done.err.contains("pool `main` is not open") && done.err.contains("pool show main"),
        "{}",
        done.err
    );
    array
        .refused(&["space", "reclaim", "db"], &["`db`", "pool `main` could not be opened", "pool show main"]);
    let (status, body) = array.http("GET", "/v1/pools/main/space", None);
    assert_eq!(status, 503, "{body}");
}
