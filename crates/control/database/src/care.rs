//! What is done to a database before others reach it: a password of its own, and SQL that masks what is in
//! it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ashlar_postgres::{Server, Session};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::import::run_with_input;
use crate::postgres::{Postgres, close, failed, new_password, remove_file, write_secret};

/// How long a new password may take.
const PASSWORD_MAX: Duration = Duration::from_secs(30);
/// What psql says when it has read the whole script, and nothing of it is open.
const END: &str = "ashlar: all of it ran";
/// Of what psql says.
const WORDS_BYTES_MAX: usize = 600;

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Care {
    /// The superuser gets a password of its own: the one in the database's directory, or a fresh one.
    pub has_own_password: bool,
    /// SQL that runs then.
    pub script: Option<Script>,
}

/// SQL for psql.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Script {
    /// In this database.
    pub database: String,
    /// The statements.
    pub text: String,
}

/// Does it, with a server that listens on its socket alone.
pub(crate) fn care(postgres: &Postgres, care: &Care) -> Result<()> {
    let known = care.has_own_password.then(|| postgres.site().password()).flatten();
    let password = match known {
        None if care.has_own_password => {
            Some(new_password().map_err(|error| failed("read", Path::new("/dev/urandom"), &error))?)
        }
        known => known,
    };
    if let Some(password) = &password {
        // The one of the source goes before anybody can take it for this one's.
        remove_file(&postgres.password_on_volume())?;
        write_secret(&postgres.password_on_volume(), password)?;
    }
    let mut server = postgres.private_server();
    let socket = server.places().socket.clone();
    fs::create_dir_all(&socket).map_err(|error| failed("make", &socket, &error))?;
    close(&socket)?;
    server.start()?;
    close(&socket)?;
    if let Some(password) = &password {
        set_password(&server, password)?;
    }
    if let Some(script) = &care.script {
        run(postgres, &server, script)?;
    }
    server.stop()?;
    Ok(())
}

/// Gives the superuser a password. It is in no log of the server.
pub(crate) fn set_password(server: &Server, password: &str) -> Result<()> {
    let mut session = Session::open(&server.address_of("template1"), "ashlar", PASSWORD_MAX)?;
    session.run(
        "set log_statement = none; set log_min_duration_statement = -1; set log_min_error_statement = panic; \
         set log_duration = off; set standard_conforming_strings = on; set pg_stat_statements.track_utility = off; \
         set password_encryption = 'scram-sha-256'",
    )?;
    let text = password.replace('\'', "''");
    // The statement holds the password, and so does the error's text.
    let refused = |error: ashlar_postgres::Error| {
        let why = match error.kind {
            ashlar_postgres::ErrorKind::Refused(code) => format!("the server refuses it ({})", code.code()),
            _ => "the server does not answer".to_string(),
        };
        Error::failed(format!("the superuser gets no password: {why}"), "see the server's log")
    };
    session.run(&format!("alter role current_user with login password '{text}'")).map_err(refused)?;
    Ok(())
}

fn run(postgres: &Postgres, server: &Server, script: &Script) -> Result<()> {
    let mut command = server.client("psql");
    command.args(["-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-d", &script.database, "-f", "-"]);
    command.current_dir("/").env_remove("PGPASSWORD");
    // What it began and did not commit would be undone without a word, and the clone opened as it was.
    let text = format!("{}\n;\ncommit;\n\\echo {END}\n", script.text);
    let said = run_with_input(postgres.site(), command, &text)?;
    if said.is_good && said.stdout.lines().any(|line| line == END) {
        return Ok(());
    }
    if said.is_good {
        let what = "its SQL after the clone was not run to its end: something in it is open, or it has a \\q";
        return Err(Error::refused(what, "close quotes, comments, COPY and \\if in the file, then repeat"));
    }
    let line = said.stderr.lines().find(|line| line.contains("ERROR:") || line.contains("error:"));
    let line = line.or(said.stderr.lines().next()).unwrap_or("psql ended without a word");
    let shown = line.strip_prefix("psql:<stdin>:").map_or_else(
        || line.to_string(),
        |rest| match rest.split_once(':') {
            Some((number, what)) => format!("line {number}: {}", what.trim()),
            None => rest.to_string(),
        },
    );
    let shown: String = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = shown.chars().take(WORDS_BYTES_MAX).collect();
    Err(Error::refused(format!("its SQL after the clone failed: {shown}"), "mend the file, then repeat"))
}
