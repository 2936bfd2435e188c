//! What a file says of databases, as it is worked out.

use super::*;
use crate::file::Scenario;
use crate::plan::{Machine, Plan, Request, Target, plan};
use crate::workload::Load;

fn planned(keys: &str) -> std::result::Result<Plan, String> {
    let text = format!(
        "format = 1\nid = \"test/space\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"1h\"\n\
         engine = {{ kind = \"postgres\" }}\nphases = {{ warmup = \"0s\", measure = \"0s\", repeat = 1 }}\n\
         [workload]\nkind = \"space\"\ndata = \"900MB\"\n{keys}\n"
    );
    let scenario = Scenario::parse(&text).map_err(|error| error.to_string())?;
    let targets = [Target::new("a", "/a")];
    let machine = Machine { cores: 2, memory: ByteCount(8 << 30), bytes_per_second: ByteCount(200_000_000) };
    plan(&scenario, &Request { preset: Preset::S, seed: 1, targets: &targets, machine })
        .map_err(|error| error.to_string())
}

fn load(keys: &str) -> SpaceLoad {
    match planned(keys).unwrap().variants.remove(0).load {
        Load::Space(load) => load,
        other => panic!("{other:?}"),
    }
}

#[test]
fn databases_share_the_data_by_their_sizes() {
    let found = load("sizes = [3, 2, 4]\ntwins = 2\nmade = \"copied\"");
    assert_eq!((found.databases(), found.bases.databases.len()), (6, 3));
    let bytes: Vec<u64> = found.bases.databases.iter().map(|base| base.tables.size_bytes()).collect();
    assert!((bytes[2] as f64 / bytes[1] as f64 - 2.0).abs() < 0.05, "{bytes:?}");
    let all = found.bases.size_bytes();
    assert!((850_000_000..=900_000_000).contains(&all), "{all}");
}

#[test]
fn a_larger_volume_needs_no_more_room() {
    let (one, four) = (load("provisioned = 1"), load("provisioned = 4"));
    let tables = one.bases.databases[0].tables;
    assert_eq!(four.volume_bytes(tables) / one.volume_bytes(tables), 4);
    assert_eq!(one.room_bytes(), four.room_bytes());
    assert!(load("log = \"50%\"").volume_bytes(tables) > one.volume_bytes(tables));
}

#[test]
fn what_cannot_be_is_refused() {
    for (keys, word) in [
        ("sizes = []", "whole numbers from 1"),
        ("sizes = [1, 0]", "whole numbers from 1"),
        ("made = \"copied\"", "twins = 2"),
        ("made = \"changed\"\ntwins = 2", "change"),
        ("change = \"5%\"", "change"),
        ("provisioned = 0.5", "provisioned at least 1"),
        ("sizes = [1, 2]\ntwins = 40", "at most 64 databases"),
    ] {
        let said = planned(keys).unwrap_err();
        assert!(said.contains(word), "{keys}: {said}");
    }
}

#[test]
fn the_words_tell_how_twins_come_to_be() {
    let words =
        load("twins = 2\nmade = \"changed\"\nchange = \"5%\"\nlog = \"35%\"\nsnapshots = 5").in_words();
    for part in ["2 databases", "5 % of the trades changed", "35 % full of zeroes", "5 snapshots"] {
        assert!(words.contains(part), "{part}: {words}");
    }
}
