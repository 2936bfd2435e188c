//! Links of copies, on directories that only look like a server's.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A source with a tablespace at `…/source`, copied to `…/clone`, both below one directory.
struct Copied {
    directory: tempfile::TempDir,
}

impl Copied {
    fn new() -> Copied {
        let copied = Copied { directory: tempfile::tempdir().unwrap() };
        for side in ["source", "clone"] {
            fs::create_dir_all(copied.path(side).join("data/pg_tblspc")).unwrap();
            fs::create_dir_all(copied.path(side).join("data/base")).unwrap();
            fs::create_dir_all(copied.path(side).join("wal")).unwrap();
            fs::create_dir_all(copied.path(side).join("space/PG_15_202209061")).unwrap();
        }
        let data = copied.path("clone").join("data");
        symlink(copied.path("source").join("wal"), data.join("pg_wal")).unwrap();
        symlink(copied.path("source").join("space"), data.join("pg_tblspc/16385")).unwrap();
        copied
    }

    fn path(&self, side: &str) -> PathBuf {
        self.directory.path().join(side)
    }

    fn places(&self) -> Places {
        let clone = self.path("clone");
        Places {
            data: clone.join("data"),
            wal: Some(clone.join("wal")),
            tablespaces: vec![clone.join("space")],
            temporary: None,
            socket: clone.join("run"),
            port: 1,
        }
    }

    fn moves(&self) -> Adoption {
        Adoption { moves: vec![(self.path("source"), self.path("clone"))], shared: vec![] }
    }
}

#[test]
fn a_link_to_the_sources_tablespace_is_refused_unless_told_where_it_is_now() {
    let copied = Copied::new();
    let (_, problems) = links::plan(&copied.places(), &Adoption::default()).unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("pg_tblspc/16385 leads to "), "{problems:?}");

    let (plan, problems) = links::plan(&copied.places(), &copied.moves()).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let to: Vec<&Path> = plan.iter().map(|link| link.to.as_path()).collect();
    assert_eq!(to, [copied.path("clone/wal"), copied.path("clone/space")]);
}

#[test]
fn a_move_onto_the_source_itself_is_refused() {
    let copied = Copied::new();
    fs::remove_dir_all(copied.path("clone/space")).unwrap();
    symlink(copied.path("source/space"), copied.path("clone/space")).unwrap();
    let (_, problems) = links::plan(&copied.places(), &copied.moves()).unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("is still the source's"), "{problems:?}");
}

#[test]
fn a_tablespace_that_was_not_copied_is_refused() {
    let copied = Copied::new();
    fs::remove_dir_all(copied.path("clone/space/PG_15_202209061")).unwrap();
    let (_, problems) = links::plan(&copied.places(), &copied.moves()).unwrap();
    assert!(problems[0].contains("holds no copy of it"), "{problems:?}");
}

#[test]
fn two_tablespaces_do_not_become_one() {
    let copied = Copied::new();
    symlink("/elsewhere/space", copied.path("clone/data/pg_tblspc/16386")).unwrap();
    let mut told = copied.moves();
    told.moves.push(("/elsewhere/space".into(), copied.path("clone/space")));
    let (_, problems) = links::plan(&copied.places(), &told).unwrap();
    assert!(problems[0].contains("would both lead to"), "{problems:?}");
}

#[test]
fn the_longest_move_counts_and_names_do_not_match_in_part() {
    let copied = Copied::new();
    let link = copied.path("clone/data/pg_tblspc/16385");
    fs::remove_file(&link).unwrap();
    symlink(copied.path("source2/space"), &link).unwrap();
    assert_eq!(links::plan(&copied.places(), &copied.moves()).unwrap().1.len(), 1, "source2 is not source");
    let mut told = copied.moves();
    told.moves.push((copied.directory.path().into(), "/nowhere".into()));
    told.moves.push((copied.path("source2"), copied.path("clone")));
    let (plan, problems) = links::plan(&copied.places(), &told).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(plan[1].to, copied.path("clone/space"));
}

#[test]
fn a_backups_map_is_led_as_its_links_are() {
    let copied = Copied::new();
    let data = copied.path("clone/data");
    fs::remove_file(data.join("pg_tblspc/16385")).unwrap();
    fs::write(data.join("tablespace_map"), format!("16385 {}\n", copied.path("source/space").display()))
        .unwrap();
    assert_eq!(links::plan(&copied.places(), &Adoption::default()).unwrap().1.len(), 1);
    let (plan, problems) = links::plan(&copied.places(), &copied.moves()).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    links::rewrite_map(&data, &plan, None).unwrap();
    let map = fs::read_to_string(data.join("tablespace_map")).unwrap();
    assert_eq!(map, format!("16385 {}\n", copied.path("clone/space").display()));
}

#[test]
fn any_other_link_out_of_the_copy_is_refused() {
    let copied = Copied::new();
    let data = copied.path("clone/data");
    symlink(copied.path("source/data/base/5"), data.join("base/5")).unwrap();
    symlink("pg_tblspc", data.join("inside")).unwrap();
    let (_, problems) = links::plan(&copied.places(), &copied.moves()).unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("base/5 leads to "), "{problems:?}");
}

/// The harm: a relation's file that was a link was one file for source and clone.
#[test]
fn a_link_however_deep_is_refused_in_data_log_and_tablespaces() {
    let copied = Copied::new();
    let places = ["data/base/5/16384", "wal/000000010000000000000001", "space/PG_15_202209061/5/16390"];
    for place in places {
        let link = copied.path("clone").join(place);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(copied.path("source").join(place), link).unwrap();
    }
    let (_, problems) = links::plan(&copied.places(), &copied.moves()).unwrap();
    assert_eq!(problems.len(), 3, "{problems:?}");
    for place in ["base/5/16384", "wal/000000010000000000000001", "16390"] {
        assert!(problems.iter().any(|problem| problem.contains(place)), "{place}: {problems:?}");
    }
}

#[test]
fn a_log_that_lies_otherwise_than_told_is_refused() {
    let copied = Copied::new();
    let inside = Places { wal: None, ..copied.places() };
    let (_, problems) = links::plan(&inside, &copied.moves()).unwrap();
    assert!(problems[0].starts_with("pg_wal leads to "), "{problems:?}");
    let link = copied.path("clone/data/pg_wal");
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    let (_, problems) = links::plan(&copied.places(), &copied.moves()).unwrap();
    assert!(problems[0].starts_with("pg_wal is inside the copy"), "{problems:?}");
    let (plan, problems) = links::plan(&inside, &copied.moves()).unwrap();
    assert_eq!((plan.len(), problems.len()), (1, 0), "only the tablespace has to be led: {problems:?}");
}
