//! What a file says of several databases, as it is worked out.

use super::*;
use crate::file::Scenario;
use crate::plan::{Machine, Request, Target, plan};
use crate::workload::Load;

const DATABASES: &str = "database = [\n\
    { name = \"one\", size = 3, users = 10, server = \"a\" },\n\
    { name = \"two\", size = 1, users = 15, server = \"b\" },\n\
    { name = \"three\", size = 4, users = 5, server = \"a\" },\n]\n";

fn load(keys: &str) -> std::result::Result<SeveralLoad, String> {
    let text = format!(
        "format = 1\nid = \"test/several\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"1h\"\n\
         engine = {{ kind = \"postgres\", memory = {{ invariant = \"data/4\" }} }}\n\
         phases = {{ warmup = \"1s\", measure = \"5s\", repeat = 1 }}\n\
         [workload]\nkind = \"databases\"\ndata = \"800MB\"\n{DATABASES}{keys}\n"
    );
    let scenario = Scenario::parse(&text).map_err(|error| error.to_string())?;
    let targets = [Target::new("a", "/a")];
    let machine = Machine { cores: 2, memory: ByteCount(8 << 30), bytes_per_second: ByteCount(200_000_000) };
    let request = Request { preset: Preset::S, seed: 1, targets: &targets, machine };
    let mut planned = plan(&scenario, &request).map_err(|error| error.to_string())?;
    match planned.variants.remove(0).load {
        Load::Several(load) => Ok(load),
        other => panic!("{other:?}"),
    }
}

#[test]
fn sizes_users_and_memory_go_by_the_file() {
    let found = load("loaded = 3\nrunning = 2\nusers_by = 5\nrate = \"4/s\"\nstagger = \"2s\"").unwrap();
    assert_eq!(found.users, [2, 3]);
    assert_eq!(found.offered(), Some(20.0));
    let Servers { servers, databases, .. } = &found.bases;
    assert_eq!(servers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(databases.iter().map(|place| place.server).collect::<Vec<_>>(), [0, 1, 0]);
    let bytes = |index: usize| databases[index].tables.size_bytes() as f64;
    assert!((bytes(0) / bytes(1) - 3.0).abs() < 0.1 && (bytes(2) / bytes(1) - 4.0).abs() < 0.1);
    // A quarter of what each server has, and not of all.
    let memory = |index: usize| servers[index].1.memory.unwrap().0 as f64;
    assert!((memory(0) / memory(1) - 7.0).abs() < 0.3, "{} {}", memory(0), memory(1));
    for part in ["2 of 3 databases", "two (3 users)", "2 servers", "4 transactions a second", "started 2 s"] {
        assert!(found.in_words().contains(part), "{part}: {}", found.in_words());
    }
}

#[test]
fn fewer_users_than_the_divisor_are_one() {
    assert_eq!(load("loaded = 3\nrunning = 3\nusers_by = 10").unwrap().users, [1, 1, 1]);
}

#[test]
fn what_cannot_be_is_refused() {
    for (keys, word) in [
        ("loaded = 4\nrunning = 1", "of 3 databases 4 are loaded"),
        ("loaded = 2\nrunning = 3", "3 of those run"),
        ("loaded = 2\nrunning = 1\nversion = \"newest\"", "unknown variant"),
    ] {
        let said = load(keys).unwrap_err();
        assert!(said.contains(word), "{keys}: {said}");
    }
}
