//! Whether a copy of a database recovers and is whole, by the database's own programs.

use std::collections::BTreeMap;
use std::path::Path;

use ashlar_postgres::{Limitation, Limits, RelationCheck, Server};

use crate::error::{Error, Result};
use crate::postgres::{ask, session_in};
use crate::task::Outcome;

/// What a proof may use of the machine: production runs beside it. Arbitrary.
const LIMITS: Limits = Limits { memory_bytes: Some(512 << 20), cores: Some(1.0), cpuset: None };
/// Of the words of a program that found something.
const FINDING_BYTES_MAX: usize = 600;
const FINDINGS_MAX: usize = 20;
/// Databases that take sessions: one whose `drop database` was cut short does not.
pub(crate) const CONNECTABLE: &str =
    "select datname from pg_database where datallowconn and datconnlimit <> -2";
/// What pg_checksums says of a database that was made without.
const NO_CHECKSUMS: &str = "data checksums are not enabled";
/// What pg_checksums says in front of a damaged file's name, and behind it.
const BAD_FILE: &str = "checksum verification failed in file \"";
const BAD_BLOCK: &str = "\", block ";

/// Starts the server, has every relation and every page checked, and stops it.
pub(crate) fn prove(mut server: Server, mut outcome: Outcome) -> Result<Outcome> {
    server.limit(&LIMITS)?;
    let started = match server.start() {
        Ok(took) => took,
        Err(error) => return Ok(found(outcome, format!("it does not start: {error}"))),
    };
    outcome.start_millis = started.as_millis() as u64;
    if let Limitation::NotLimited(why) = server.limitation() {
        outcome.notes.push(format!("memory and processors were not limited: {why}"));
    }
    match end_prepared(&server) {
        Ok(0) => {}
        Ok(count) => {
            let what =
                format!("{count} prepared transactions are open in it; the copy was checked without them");
            outcome.notes.push(what);
        }
        Err(error) => return Ok(found(outcome, format!("its prepared transactions do not end: {error}"))),
    }
    let relations = match relations(&server) {
        Ok(relations) => relations,
        Err(error) => return Ok(found(outcome, format!("its catalogue cannot be read: {error}"))),
    };
    let check = RelationCheck { databases: Vec::new(), is_heap_all_indexed: true, jobs: 1 };
    match server.check_relations(&check) {
        Ok(_) => {}
        Err(error) if error.to_string().contains("\"amcheck\" is not available") => {
            let action = "install the server's contrib package";
            return Err(Error::failed("the extension amcheck is not installed", action));
        }
        Err(error) => outcome = found(outcome, format!("pg_amcheck: {error}")),
    }
    if let Err(error) = server.stop() {
        outcome = found(outcome, format!("it does not stop in order: {error}"));
        server.abandon();
        return Ok(outcome);
    }
    if let Err(error) = server.check_pages() {
        let said = error.to_string();
        if said.contains(NO_CHECKSUMS) {
            let note = "pages were not checked: it was made without checksums (pg_checksums --enable)";
            outcome.notes.push(note.to_string());
            return Ok(outcome);
        }
        let bad = damaged_pages(&said, &server.places().data, &relations);
        let bad = if bad.is_empty() { vec![format!("pg_checksums: {said}")] } else { bad };
        outcome = bad.into_iter().fold(outcome, found);
    }
    Ok(outcome)
}

fn found(mut outcome: Outcome, what: String) -> Outcome {
    if outcome.findings.len() < FINDINGS_MAX {
        let end = (0..=FINDING_BYTES_MAX.min(what.len())).rev().find(|end| what.is_char_boundary(*end));
        outcome.findings.push(what[..end.unwrap_or(0)].to_string());
    }
    outcome
}

/// Ends transactions that wait for somebody to commit them, in this copy: they lock what is to be checked.
fn end_prepared(server: &Server) -> Result<usize> {
    let waiting = ask(server, "select gid, database from pg_prepared_xacts")?;
    for row in &waiting {
        let [Some(name), Some(database)] = &row[..] else { continue };
        let mut session = session_in(server, database)?;
        session.run("set standard_conforming_strings = on")?;
        session.run(&format!("rollback prepared '{}'", name.replace('\'', "''")))?;
    }
    Ok(waiting.len())
}

/// The relation in each file of the data directory, over all its databases.
fn relations(server: &Server) -> Result<BTreeMap<String, String>> {
    let databases = ask(server, CONNECTABLE)?;
    let mut files = BTreeMap::new();
    for database in databases.into_iter().filter_map(|row| row.into_iter().next().flatten()) {
        let mut session = session_in(server, &database)?;
        let rows = session.run(
            "select pg_relation_filepath(oid), oid::regclass from pg_class where pg_relation_filepath(oid) is not null",
        )?;
        for row in rows {
            if let [Some(file), Some(name)] = &row[..] {
                files.insert(file.clone(), format!("{name} in database {database}"));
            }
        }
    }
    Ok(files)
}

/// `relation t in database postgres, block 7`, for each page that pg_checksums names.
fn damaged_pages(said: &str, data: &Path, relations: &BTreeMap<String, String>) -> Vec<String> {
    let of_page = |part: &str| {
        let (file, rest) = part.split_once(BAD_BLOCK)?;
        let block: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let file = Path::new(file);
        let within = file.strip_prefix(data).unwrap_or(file).display().to_string();
        // `16384.1_vm`: the second GiB, the visibility map.
        let name_at = within.rfind('/').map_or(0, |at| at + 1);
        let whole = within[name_at..].find(['.', '_']).map_or(within.as_str(), |at| &within[..name_at + at]);
        let relation = relations
            .get(whole)
            .map_or("no relation of the catalogue".to_string(), |name| format!("relation {name}"));
        Some(format!("{relation}, block {block} of file {within}: its checksum is wrong"))
    };
    said.split(BAD_FILE).skip(1).filter_map(of_page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_pages_are_told_by_their_relation() {
        let said = "pg_checksums: error: checksum verification failed in file \"/d/pgdata/base/5/16384.1\", \
            block 131079: calculated checksum 3C but block contains 0\npg_checksums: error: checksum \
            verification failed in file \"/d/pgdata/base/5/9999_vm\", block 0: calculated";
        let relations = BTreeMap::from([("base/5/16384".to_string(), "t in database postgres".to_string())]);
        let told = damaged_pages(said, Path::new("/d/pgdata"), &relations);
        assert_eq!(told.len(), 2);
        assert_eq!(
            told[0],
            "relation t in database postgres, block 131079 of file base/5/16384.1: its checksum is wrong"
        );
        assert!(told[1].starts_with("no relation of the catalogue, block 0 of file base/5/9999_vm"));
    }

    #[test]
    fn long_words_of_a_program_are_cut_at_a_character() {
        let outcome = found(Outcome::default(), "ä".repeat(1000));
        assert_eq!(outcome.findings[0].chars().count(), 300);
    }
}
