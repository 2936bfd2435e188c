//! A copy of a server becomes a server of its own, beside its source, and the source is not touched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ashlar_postgres::{Adoption, Places, Server};

use crate::stage::{Stage, settings, value};

/// A source with a table in a tablespace, stopped, and its copy.
fn source_and_copy(stage: &Stage) -> (Server, Places) {
    let mut source = stage.server("source");
    source.start().unwrap();
    source.create_tablespace("fast", &stage.path("source/fast")).unwrap();
    source
        .query(
            "create table t tablespace fast as select n, repeat('x', 500) x from generate_series(1, 4000) n; \
             create index on t (n) tablespace fast; delete from t where n % 2 = 0",
        )
        .unwrap();
    source.stop().unwrap();
    stage.copy("source", "clone");
    let mut places = stage.places("clone");
    places.tablespaces.push(stage.path("clone/fast"));
    (source, places)
}

/// Every file below a directory with its size, its time and its bytes.
fn files(directory: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            let time = entry.metadata().unwrap().modified().unwrap();
            found.insert(entry.path(), (time, std::fs::read(entry.path()).unwrap()));
        }
    }
    found
}

#[test]
fn a_clone_beside_its_source_rewrites_its_own_tables_only() {
    let stage = Stage::new();
    let (mut source, places) = source_and_copy(&stage);
    source.start().unwrap();
    source.query("checkpoint").unwrap();
    let before = files(&stage.path("source/fast"));
    assert!(before.len() >= 3, "{:?}", before.keys());

    let mut clone = Server::new(&stage.installation, places, settings());
    let error = clone.adopt(&Adoption::default()).unwrap_err();
    assert!(error.context.contains("pg_tblspc/") && error.context.contains("source/fast"), "{error}");
    let link = std::fs::read_dir(stage.path("clone/data/pg_tblspc")).unwrap().next().unwrap().unwrap();
    let leads = || std::fs::read_link(link.path()).unwrap();
    assert_eq!(leads(), stage.path("source/fast"), "a refusal changes nothing");

    let moves = vec![(stage.path("source"), stage.path("clone"))];
    let links = clone.adopt(&Adoption { moves, shared: vec![] }).unwrap();
    assert_eq!(leads(), stage.path("clone/fast"));
    assert_eq!(links.len(), 2, "the log and the tablespace: {links:?}");
    clone.start().unwrap();
    // Writes the table and its index anew, to new files, and removes the old ones.
    clone.query("vacuum full t").unwrap();
    clone.query("insert into t select 1, 'clone' from generate_series(1, 100); checkpoint").unwrap();
    assert_eq!(value(&clone, "select count(*) from t"), "2100");
    assert!(before == files(&stage.path("source/fast")), "the source's files are as they were");
    assert_eq!(value(&source, "select count(*) from t where x <> 'clone'"), "2000");
    source.query("vacuum full t").unwrap();
    for server in [&mut clone, &mut source] {
        server.check_relations(&Default::default()).unwrap();
        server.stop().unwrap();
        server.check_pages().unwrap();
    }
}

#[test]
fn settings_of_a_copy_that_lead_to_the_source_are_refused_by_name() {
    let stage = Stage::new();
    let (mut source, places) = source_and_copy(&stage);
    let file = stage.path("clone/data/postgresql.conf");
    let text = std::fs::read_to_string(&file).unwrap();
    let logs = stage.path("source/logs");
    let more = format!("{text}log_directory = '{}'\n", logs.display());
    std::fs::write(&file, more).unwrap();
    let moves = vec![(stage.path("source"), stage.path("clone"))];
    let told = Adoption { moves, shared: vec![] };
    let clone = Server::new(&stage.installation, places.clone(), settings());
    let error = clone.adopt(&told).unwrap_err();
    assert!(error.context.contains("log_directory = '"), "{error}");
    std::fs::write(&file, text).unwrap();

    source.start().unwrap();
    source.query("alter system set archive_command = 'cp %p /source/archive/%f'").unwrap();
    source.stop().unwrap();
    let automatic = "data/postgresql.auto.conf";
    std::fs::copy(stage.path("source").join(automatic), stage.path("clone").join(automatic)).unwrap();
    let error = clone.adopt(&told).unwrap_err();
    assert!(error.context.contains("postgresql.auto.conf line 3: archive_command"), "{error}");

    source.start().unwrap();
    let itself = Server::new(&stage.installation, source.places().clone(), settings());
    let error = itself.adopt(&Adoption::default()).unwrap_err();
    assert!(error.context.contains("a server works there"), "{error}");
}
