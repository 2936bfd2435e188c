//! Which relations the files that differ belong to, as the catalogues of both servers have them.

use std::collections::{BTreeMap, BTreeSet};

use ashlar_postgres::{Limits, Server};
use serde::{Deserialize, Serialize};

use super::{FileDifference, Side};
use crate::error::{Error, Result};
use crate::postgres::{Postgres, ask, session_in};
use crate::proof::CONNECTABLE;

/// What the server of a copy may use of the machine: production runs beside it. Arbitrary.
const LIMITS: Limits = Limits { memory_bytes: Some(512 << 20), cores: Some(1.0), cpuset: None };
/// Every relation with a file; the table of an index, and of a toast table and its index.
const RELATIONS: &str = "select pg_relation_filepath(c.oid), c.oid, \
    quote_ident(n.nspname) || '.' || quote_ident(c.relname), \
    case when c.relkind = 'i' and t.oid is not null then 'toast-index' else case c.relkind \
    when 'r' then 'table' when 'i' then 'index' when 'S' then 'sequence' when 't' then 'toast' \
    when 'm' then 'materialized-view' else c.relkind::text end end, \
    quote_ident(m.nspname) || '.' || quote_ident(o.relname), \
    c.relisshared, coalesce(m.nspname, n.nspname) in ('pg_catalog', 'information_schema') \
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
    left join pg_catalog.pg_index i on i.indexrelid = c.oid \
    left join pg_catalog.pg_class t on t.reltoastrelid = coalesce(i.indrelid, c.oid) \
    left join pg_catalog.pg_class o on o.oid = coalesce(t.oid, i.indrelid) \
    left join pg_catalog.pg_namespace m on m.oid = o.relnamespace \
    where pg_relation_filepath(c.oid) is not null";

/// The relation of a file, as one of the two has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Named {
    /// The file's path without the number of a segment and the name of a fork.
    pub stem: String,
    /// The database within the server; of a relation that all share there is none.
    pub database: Option<String>,
    /// Its number, which stays when it is written anew.
    pub number: u32,
    /// Its name with its schema.
    pub name: String,
    /// `table`, `index` and so on.
    pub kind: String,
    /// The table that it belongs to.
    pub of: Option<String>,
    /// It is of the catalogues.
    pub is_system: bool,
}

/// How a relation differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Some of its pages do.
    Changed,
    /// It has another file.
    Rewritten,
    /// Only one has it.
    Only(Side),
}

/// A relation that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelationChanged {
    /// What it is; `None` where neither catalogue has it.
    pub named: Option<Named>,
    /// Its file's path without the number of a segment and the name of a fork.
    pub stem: String,
    /// How.
    pub state: State,
    /// Pages that differ.
    pub pages: u64,
}

/// Files that differ and are no relation's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilesChanged {
    /// Their directory, or the file.
    pub name: String,
    /// How many.
    pub files: u64,
    /// Pages that differ.
    pub pages: u64,
}

/// Has a copy's server replay its log, and stops it: its files are then what it would go on with.
pub(crate) fn recover(postgres: &Postgres) -> Result<()> {
    let mut server = quiet_server(postgres)?;
    server.start().map_err(|error| Error::failed(format!("it does not recover: {error}"), ""))?;
    server.stop()?;
    postgres.sync()
}

/// The relations of these files; those that no catalogue has are left out.
pub(crate) fn name_files(postgres: &Postgres, stems: &BTreeSet<String>) -> Result<Vec<Named>> {
    let mut server = quiet_server(postgres)?;
    server.start()?;
    let mut named = BTreeMap::new();
    for row in ask(&server, CONNECTABLE)? {
        let Some(database) = row.into_iter().next().flatten() else { continue };
        let mut session = session_in(&server, &database)?;
        for row in session.run(RELATIONS)? {
            let Some(found) = named_of(&row, &database).filter(|found| stems.contains(&found.stem)) else {
                continue;
            };
            named.entry(found.stem.clone()).or_insert(found);
        }
    }
    server.stop()?;
    Ok(named.into_values().collect())
}

/// Nobody reaches it but over its socket, and it writes nothing of its own accord.
fn quiet_server(postgres: &Postgres) -> Result<Server> {
    let mut server = postgres.private_server();
    server.set(server.settings().clone().with("autovacuum", "off"));
    server.limit(&LIMITS)?;
    Ok(server)
}

fn named_of(row: &[Option<String>], database: &str) -> Option<Named> {
    let [stem, number, name, kind, of, is_shared, is_system] = row else { return None };
    let is = |flag: &Option<String>| flag.as_deref() == Some("t");
    Some(Named {
        stem: stem.clone()?,
        database: (!is(is_shared)).then(|| database.to_string()),
        number: number.as_ref()?.parse().ok()?,
        name: name.clone()?,
        kind: kind.clone()?,
        of: of.clone(),
        is_system: is(is_system),
    })
}

/// What the catalogues are to be asked for.
#[must_use]
pub fn stems(files: &[FileDifference]) -> BTreeSet<String> {
    files.iter().filter_map(|file| stem_of(&file.path)).map(str::to_string).collect()
}

/// `base/5/16384` of `base/5/16384.1` and `base/5/16384_vm`; `None` of what is no file of a relation.
fn stem_of(path: &str) -> Option<&str> {
    let is_in_place = ["base/", "global/", "pg_tblspc/"].iter().any(|place| path.starts_with(place));
    let name_at = path.rfind('/').map_or(0, |at| at + 1);
    let (digits, rest) = path[name_at..].split_at(
        path[name_at..].find(|letter: char| !letter.is_ascii_digit()).unwrap_or(path.len() - name_at),
    );
    let is_relation = is_in_place && !digits.is_empty() && (rest.is_empty() || rest.starts_with(['.', '_']));
    is_relation.then(|| &path[..name_at + digits.len()])
}

/// What is known of one relation while files are gone through.
#[derive(Default)]
struct Tally {
    named: Option<Named>,
    stems: BTreeSet<String>,
    /// Whose catalogue has it.
    sides: BTreeSet<Side>,
    changed: u64,
    only: BTreeMap<Side, u64>,
}

/// By database and number; those that no catalogue has by their file.
#[derive(Default)]
struct Tallies(BTreeMap<(Option<String>, u32, String), Tally>);

impl Tallies {
    fn of(&mut self, named: Option<&Named>, stem: &str) -> &mut Tally {
        let key = match named.map(identity) {
            Some((database, number)) => (database, number, String::new()),
            None => (None, 0, stem.to_string()),
        };
        let tally = self.0.entry(key).or_default();
        tally.named = tally.named.take().or(named.cloned());
        tally.stems.insert(stem.to_string());
        tally
    }

    fn note_side(&mut self, side: Side, named: &Named) {
        let (database, number) = identity(named);
        if let Some(tally) = self.0.get_mut(&(database, number, String::new())) {
            tally.sides.insert(side);
        }
    }
}

/// The relations that differ, the most different first, and the other files.
#[must_use]
pub fn by_relation(
    files: &[FileDifference],
    of_a: &[Named],
    of_b: &[Named],
) -> (Vec<RelationChanged>, Vec<FilesChanged>) {
    let (names_a, names_b) = (by_stem(of_a), by_stem(of_b));
    let mut relations = Tallies::default();
    let mut others: BTreeMap<String, FilesChanged> = BTreeMap::new();
    for FileDifference { path, only, pages } in files {
        let Some(stem) = stem_of(path) else {
            let name = group_of(path);
            let fresh = FilesChanged { name: name.clone(), files: 0, pages: 0 };
            let other = others.entry(name).or_insert(fresh);
            (other.files, other.pages) = (other.files + 1, other.pages + pages);
            continue;
        };
        let (a, b) = (names_a.get(stem).copied(), names_b.get(stem).copied());
        let mut add_only = |side, named| *relations.of(named, stem).only.entry(side).or_default() += pages;
        match (only, a, b) {
            (Some(Side::A), ..) => add_only(Side::A, a.or(b)),
            (Some(Side::B), ..) => add_only(Side::B, b.or(a)),
            // The one was dropped, and the other got the number of its file.
            (None, Some(one), Some(other)) if identity(one) != identity(other) => {
                add_only(Side::A, a);
                add_only(Side::B, b);
            }
            (None, ..) => relations.of(a.or(b), stem).changed += pages,
        }
    }
    of_a.iter().for_each(|named| relations.note_side(Side::A, named));
    of_b.iter().for_each(|named| relations.note_side(Side::B, named));
    let mut relations: Vec<RelationChanged> = relations.0.into_values().map(changed).collect();
    relations.sort_by_key(|one| std::cmp::Reverse(one.pages));
    (relations, others.into_values().collect())
}

fn by_stem(all: &[Named]) -> BTreeMap<&str, &Named> {
    all.iter().map(|named| (named.stem.as_str(), named)).collect()
}

fn identity(named: &Named) -> (Option<String>, u32) {
    (named.database.clone(), named.number)
}

/// One that neither catalogue has is told by who has its file.
fn changed(tally: Tally) -> RelationChanged {
    let Tally { named, stems, sides, changed, only } = tally;
    let sides = if named.is_none() { only.keys().copied().collect() } else { sides };
    let state = match sides.iter().next() {
        Some(side) if sides.len() == 1 && changed == 0 => State::Only(*side),
        _ if stems.len() > 1 => State::Rewritten,
        _ => State::Changed,
    };
    let stem = stems.into_iter().next_back().unwrap_or_default();
    RelationChanged { named, stem, state, pages: changed + only.into_values().max().unwrap_or(0) }
}

/// Files of one directory are told together, but for what is between the files of relations.
fn group_of(path: &str) -> String {
    let is_single = ["base/", "global/", "pg_tblspc/"].iter().any(|place| path.starts_with(place));
    let end = if is_single { path.len() } else { path.find('/').unwrap_or(path.len()) };
    path[..end].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(stem: &str, number: u32, name: &str) -> Named {
        Named {
            stem: stem.to_string(),
            database: Some("app".to_string()),
            number,
            name: name.to_string(),
            kind: "table".to_string(),
            of: None,
            is_system: false,
        }
    }

    fn file(path: &str, only: Option<Side>, pages: u64) -> FileDifference {
        FileDifference { path: path.to_string(), only, pages }
    }

    fn told(files: &[FileDifference], of_a: &[Named], of_b: &[Named]) -> Vec<(String, State, u64)> {
        let (relations, _) = by_relation(files, of_a, of_b);
        let name = |one: &RelationChanged| one.named.as_ref().map_or(one.stem.clone(), |it| it.name.clone());
        relations.iter().map(|one| (name(one), one.state, one.pages)).collect()
    }

    #[test]
    fn segments_and_forks_are_of_their_relation() {
        assert_eq!(stem_of("base/5/16384.12"), Some("base/5/16384"));
        assert_eq!(stem_of("global/1262_vm"), Some("global/1262"));
        let far = "pg_tblspc/16400/PG_15_202209061/5/16410_fsm";
        assert_eq!(stem_of(far), Some("pg_tblspc/16400/PG_15_202209061/5/16410"));
        for other in ["base/5/pg_filenode.map", "global/pg_control", "pg_xact/0000", "base/5/PG_VERSION"] {
            assert_eq!(stem_of(other), None, "{other}");
        }
        let files =
            [file("base/5/9", None, 3), file("base/5/9.1", Some(Side::B), 4), file("base/5/9_vm", None, 1)];
        let names = [named("base/5/9", 9, "t")];
        assert_eq!(told(&files, &names, &names), [("t".to_string(), State::Changed, 8)]);
    }

    #[test]
    fn a_new_file_is_a_rewrite_and_a_new_relation_is_told_from_it() {
        let of_a = [named("base/5/9", 9, "t"), named("base/5/7", 7, "old")];
        let of_b = [named("base/5/12", 9, "t"), named("base/5/20", 20, "new")];
        let files = [
            file("base/5/9", Some(Side::A), 5),
            file("base/5/12", Some(Side::B), 3),
            file("base/5/7", Some(Side::A), 2),
            file("base/5/20", Some(Side::B), 1),
            file("base/5/99", Some(Side::B), 0),
        ];
        let expected = [
            ("t", State::Rewritten, 5),
            ("old", State::Only(Side::A), 2),
            ("new", State::Only(Side::B), 1),
            ("base/5/99", State::Only(Side::B), 0),
        ];
        assert_eq!(
            told(&files, &of_a, &of_b),
            expected.map(|(name, state, pages)| (name.to_string(), state, pages))
        );
    }

    #[test]
    fn a_file_number_that_was_taken_over_is_two_relations() {
        let (of_a, of_b) = ([named("base/5/9", 9, "t")], [named("base/5/9", 30, "u")]);
        let mut found = told(&[file("base/5/9", None, 6)], &of_a, &of_b);
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let expected =
            [("t".to_string(), State::Only(Side::A), 6), ("u".to_string(), State::Only(Side::B), 6)];
        assert_eq!(found, expected);
    }

    #[test]
    fn other_files_are_told_by_directory() {
        let files = [
            file("pg_xact/0000", None, 1),
            file("pg_xact/0001", Some(Side::B), 2),
            file("global/pg_control", None, 1),
        ];
        let (relations, others) = by_relation(&files, &[], &[]);
        assert!(relations.is_empty());
        let told: Vec<(&str, u64, u64)> =
            others.iter().map(|one| (one.name.as_str(), one.files, one.pages)).collect();
        assert_eq!(told, [("global/pg_control", 1, 1), ("pg_xact", 2, 3)]);
    }
}
