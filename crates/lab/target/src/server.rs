//! A database server that is there already: the lab makes databases of its own on it, and nothing else.

use std::cell::RefCell;
use std::time::Duration;

use ashlar_postgres::{Address, Session};
use serde::{Deserialize, Serialize};

use crate::place::{OWN_PREFIX, Refusal};

/// No answer within this means that it is not there. Arbitrary: over any network it is long.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// Where a role may connect first; every server has it.
const FIRST_DATABASE: &str = "postgres";

/// A server, and the databases that were made on it.
#[derive(Debug)]
pub struct Databases {
    named: String,
    /// `15.18`.
    version: String,
    /// In words.
    encryption: String,
    made: RefCell<Vec<MadeDatabase>>,
}

/// A database that the lab made and will remove.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MadeDatabase {
    /// The server's address, as it was named.
    pub server: String,
    pub name: String,
}

impl Databases {
    /// Connects, and asks whether databases may be made.
    pub(crate) fn open(named: &str) -> Result<Databases, Refusal> {
        refuse_password(named)?;
        let rows = ask(
            named,
            "select current_setting('server_version'), rolcreatedb or rolsuper, pg_is_in_recovery(), \
             (select version from pg_stat_ssl where ssl and pid = pg_backend_pid()) from pg_roles where rolname = current_user",
        )?;
        let cell =
            |column: usize| rows.first().and_then(|row| row.get(column)?.as_deref()).unwrap_or_default();
        if cell(2) == "t" {
            return Err(Refusal(format!("{named}: it is a standby and takes no writes: name its primary")));
        }
        if cell(1) != "t" {
            return Err(Refusal(format!(
                "{named}: this role may not make a database: ALTER ROLE … CREATEDB, or name another role"
            )));
        }
        let encryption = match cell(3) {
            "" => "without TLS".to_string(),
            version => {
                let address = Address::Url(named.to_string());
                let checked = address.certificate_in_words().map_err(|error| Refusal(error.to_string()))?;
                format!("over {version}, {checked}")
            }
        };
        let version = cell(0).split(' ').next().unwrap_or_default().to_string();
        Ok(Databases { named: named.to_string(), version, encryption, made: RefCell::default() })
    }

    pub(crate) fn named(&self) -> &str {
        &self.named
    }

    /// For a page.
    pub(crate) fn in_words(&self) -> String {
        format!("PostgreSQL {}, which was there before, reached {}", self.version, self.encryption)
    }

    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Makes a database for a data set; its address.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn make(&self, number: usize) -> Result<Address, Refusal> {
        let name = format!("{OWN_PREFIX}{}-{number}", std::process::id());
        ask(&self.named, &format!("create database \"{name}\""))?;
        self.made.borrow_mut().push(MadeDatabase { server: self.named.clone(), name: name.clone() });
        Ok(Address::Url(within(&self.named, &name)))
    }

    pub(crate) fn made(&self) -> Vec<MadeDatabase> {
        self.made.borrow().clone()
    }

    pub(crate) fn clear(&self) -> Result<(), Refusal> {
        while let Some(last) = self.made().pop() {
            remove_database(&last)?;
            self.made.borrow_mut().pop();
        }
        Ok(())
    }
}

/// Removes a database of the lab's own, whoever is connected to it.
///
/// # Errors
/// When it stays.
pub fn remove_database(made: &MadeDatabase) -> Result<(), Refusal> {
    let MadeDatabase { server, name } = made;
    if !name.starts_with(OWN_PREFIX) || name.contains('"') {
        return Err(Refusal(format!("{server}: database {name} is none of the lab's own")));
    }
    let removed = ask(server, &format!("drop database if exists \"{name}\" with (force)"));
    removed
        .map(drop)
        .map_err(|refusal| Refusal(format!("{}: database \"{name}\" is left: drop it", refusal.0)))
}

fn ask(named: &str, statement: &str) -> Result<ashlar_postgres::Rows, Refusal> {
    let address = Address::Url(within(named, FIRST_DATABASE));
    let mut session = Session::open(&address, "ashlar lab", ANSWER_LIMIT).map_err(|error| {
        let text = error.to_string();
        let advice = match text.contains("password") {
            true => ": put the right one into the environment as PGPASSWORD",
            false => "",
        };
        Refusal(format!("{text}{advice}"))
    })?;
    session.run(statement).map_err(|error| Refusal(format!("{named}: {error}")))
}

/// What is kept of a result names its targets.
fn refuse_password(named: &str) -> Result<(), Refusal> {
    let authority = authority(named);
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let has_password = user.contains(':') || named.contains("password=");
    match has_password {
        true => Err(Refusal(format!(
            "{}: leave the password out, because results keep the address: put it into the environment as PGPASSWORD",
            Address::Url(named.to_string()).shown()
        ))),
        false => Ok(()),
    }
}

/// What stands between `//` and the next slash or question mark.
fn authority(named: &str) -> &str {
    let rest = named.split_once("://").map_or(named, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default()
}

/// The same server, another database.
fn within(named: &str, database: &str) -> String {
    let scheme = named.split_once("://").map_or("postgres", |(scheme, _)| scheme);
    let parameters = named.split_once('?').map_or(String::new(), |(_, rest)| format!("?{rest}"));
    format!("{scheme}://{}/{database}{parameters}", authority(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_of_the_same_server_is_named() {
        assert_eq!(within("postgres://me@db1:5433/app", "x"), "postgres://me@db1:5433/x");
        assert_eq!(within("postgresql://db1", "x"), "postgresql://db1/x");
        assert_eq!(within("postgres:///?host=/run/pg&user=me", "x"), "postgres:///x?host=/run/pg&user=me");
    }

    #[test]
    fn a_password_is_not_kept() {
        assert!(refuse_password("postgres://me@db1/app").is_ok());
        for named in ["postgres://me:secret@db1/app", "postgres://db1/app?user=me&password=secret"] {
            let refusal = refuse_password(named).unwrap_err();
            assert!(refusal.0.contains("PGPASSWORD") && !refusal.0.contains("secret@"), "{refusal}");
        }
        let other = MadeDatabase { server: "postgres://db1".into(), name: "production".into() };
        assert!(remove_database(&other).unwrap_err().0.contains("none of the lab's own"));
    }
}
