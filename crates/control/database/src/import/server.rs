//! Asking a running server elsewhere, by PostgreSQL's own clients: they know its addresses, its TLS and its
//! files of passwords. The password is in the environment of such a client alone.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ashlar_postgres::Installation;

use super::{Survey, programs, programs_of, spaces};
use crate::error::{Error, Result};
use crate::site::Site;
use crate::url::{Primary, Secret};

/// How long a server may take to let somebody in, in seconds. Arbitrary.
const CONNECT_SECONDS_MAX: &str = "10";
/// How long it may take to answer. Sizes of many tables take a while.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Log that is written while the backup is taken, by estimate. Arbitrary: a few segments.
const LOG_BYTES: u64 = 128 << 20;
/// Between columns; no name has it.
const BORDER: &str = "\u{1f}";

/// Asks a server.
pub(crate) struct Asker<'a> {
    installation: &'a Installation,
    primary: &'a Primary,
}

impl Asker<'_> {
    /// Through the programs of an installation.
    pub(crate) fn new<'a>(installation: &'a Installation, primary: &'a Primary) -> Asker<'a> {
        Asker { installation, primary }
    }

    /// One of its clients.
    pub(crate) fn client(&self, name: &str) -> Result<Command> {
        let path = self.installation.directory().join(name);
        if !path.is_file() {
            let what = format!("{name} is not installed: {} is missing", path.display());
            return Err(Error::refused(what, "install the client's package (on Debian: postgresql-client)"));
        }
        let mut command = self.installation.program(name);
        for variable in ["PGPASSFILE", "PGSSLMODE", "PGREQUIREAUTH", "PGHOSTADDR", "PGSERVICEFILE"] {
            command.env_remove(variable);
        }
        match &self.primary.password {
            Some(Secret(password)) => command.env("PGPASSWORD", password),
            None => command.env_remove("PGPASSWORD"),
        };
        command.env("PGCONNECT_TIMEOUT", CONNECT_SECONDS_MAX).env("PGAPPNAME", "ashlar");
        Ok(command)
    }

    /// Rows of a statement.
    pub(crate) fn ask(&self, statement: &str) -> Result<Vec<Vec<String>>> {
        self.ask_at(&self.primary.url, statement)
    }

    /// The same in a session for replication.
    pub(crate) fn order(&self, statement: &str) -> Result<Vec<Vec<String>>> {
        self.ask_at(&self.primary.with(&[("replication", "true")]), statement)
    }

    fn ask_at(&self, url: &str, statement: &str) -> Result<Vec<Vec<String>>> {
        let mut command = self.client("psql")?;
        command.args(["-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-F", BORDER, "-d", url]);
        command.args(["-c", statement]);
        let launcher = self.installation.launcher();
        let running = launcher.start("psql", command).map_err(ashlar_postgres::Error::from)?;
        let done = launcher.wait(running, ANSWER_MAX).map_err(ashlar_postgres::Error::from)?;
        if !done.status.success() {
            return Err(self.refusal(&done.stderr));
        }
        let row = |line: &str| line.split(BORDER).map(str::to_string).collect();
        Ok(done.stdout.lines().map(row).collect())
    }

    /// What a client said, as one line, and what to do about it.
    pub(crate) fn refusal(&self, said: &str) -> Error {
        let told = last_words(said);
        let user = &self.primary.user;
        let rule = format!(
            "add `host replication {user} ADDRESS scram-sha-256` to the primary's pg_hba.conf and reload it"
        );
        let action = [
            ("password authentication failed", "check the user and the password in the address".to_string()),
            ("no password supplied", "put the password into the address".to_string()),
            ("pg_hba.conf", rule),
            ("replication role", format!("on the primary: alter role {user} replication")),
            ("use replication slots", format!("on the primary: alter role {user} replication")),
            ("permission denied for", format!("let it read all: grant pg_read_all_data to {user}")),
            ("permission denied", format!("on the primary: alter role {user} replication")),
            ("does not support SSL", "switch TLS on there (ssl = on), or leave sslmode out".to_string()),
            ("root certificate file", "name it: ?sslmode=verify-full&sslrootcert=/PATH/ca.crt".to_string()),
            (
                "certificate verify failed",
                "name the file of the certificate that signed the primary's: \
              &sslrootcert=/PATH/ca.crt"
                    .to_string(),
            ),
            (
                "does not match host name",
                "name the host as its certificate does, or use sslmode=verify-ca".to_string(),
            ),
            ("wal senders", "raise max_wal_senders on the primary".to_string()),
            ("replication slots are in use", "raise max_replication_slots on the primary".to_string()),
            ("No space left", "give the database larger volumes, or the pool more drives".to_string()),
        ];
        let action = action.into_iter().find(|(words, _)| told.contains(words)).map(|(_, action)| action);
        let action =
            action.unwrap_or_else(|| "check that the address is right and that it answers".to_string());
        Error::refused(format!("primary {}: {told}", self.shown()), action)
    }

    /// The primary without its user's password, and without what is behind the question mark.
    pub(crate) fn shown(&self) -> &str {
        self.primary.url.split('?').next().unwrap_or("")
    }
}

/// The last line that says what is wrong.
fn last_words(said: &str) -> String {
    let words = ["FATAL:", "ERROR:", "error:"];
    let is_telling = |line: &&str| words.iter().any(|word| line.contains(word)) || line.contains(" failed: ");
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    // Clients say last that they gave up.
    let is_end =
        |line: &&str| line.contains("removing") || line.contains("child process") || line.contains("detail:");
    let line = lines().filter(|line| !is_end(line)).rfind(is_telling).or(lines().next_back());
    let line = line.unwrap_or("it ended without a word");
    let from = ["FATAL:", "ERROR:", " failed: ", "error:"].iter().find_map(|word| {
        let at = line.find(word)?;
        Some(line[at..].trim_start_matches(" failed: ").trim_start_matches("error:"))
    });
    from.unwrap_or(line).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Looks at a server of which a base backup is to be taken.
pub(super) fn survey(site: &Site, primary: &Primary, slot: Option<&str>) -> Result<Survey> {
    let any = programs(site, None)?;
    let asker = Asker::new(&any, primary);
    let rows = asker.ask(
        "select current_setting('server_version_num')::int / 10000, \
         (select rolname from pg_roles where oid = 10), \
         (select coalesce(sum(pg_database_size(oid)), 0)::bigint from pg_database \
          where has_database_privilege(oid, 'CONNECT')), \
         current_setting('wal_level')",
    )?;
    let [major, superuser, bytes, level] = &rows.first().cloned().unwrap_or_default()[..] else {
        return Err(Error::failed(format!("primary {}: it answered something else", asker.shown()), ""));
    };
    let major = major.parse().unwrap_or(0);
    let installation = programs_of(site, major, &format!("primary {}", asker.shown()))?;
    let asker = Asker::new(&installation, primary);
    let spaces = spaces::of_rows(site, asker.ask(spaces::STATEMENT)?)?;
    let in_spaces: u64 = spaces.iter().filter_map(|space| space.bytes).sum();
    if level == "minimal" {
        let what = format!("primary {}: its wal_level is minimal", asker.shown());
        return Err(Error::refused(what, "set wal_level = replica there and start it anew"));
    }
    // What is let in to ask is not always let in to replicate.
    asker.order("IDENTIFY_SYSTEM")?;
    if let Some(slot) = slot {
        let taken = asker.ask(&format!("select 1 from pg_replication_slots where slot_name = '{slot}'"))?;
        if !taken.is_empty() {
            return Err(Error::refused(
                format!("primary {} has a replication slot {slot} already", asker.shown()),
                format!("use another name, or drop it there: select pg_drop_replication_slot('{slot}')"),
            ));
        }
    }
    let settings = asker.ask(
        "select name, current_setting(name) from pg_settings where source = 'configuration file' \
         and context <> 'internal'",
    )?;
    if slot.is_some() {
        // From now on whoever removes a half of this can drop the slot.
        write_pass_file(&site.primary_file(), primary, None)?;
    }
    let pair = |row: Vec<String>| <[String; 2]>::try_from(row).ok().map(|[name, value]| (name, value));
    Ok(Survey {
        major,
        data_bytes: bytes.parse::<u64>().unwrap_or(0).saturating_sub(in_spaces) + LOG_BYTES / 2,
        log_bytes: LOG_BYTES,
        superuser: Some(superuser.clone()),
        settings: settings.into_iter().filter_map(pair).collect(),
        spaces,
    })
}

/// Has the primary keep a slot no longer.
pub(crate) fn drop_slot(installation: &Installation, primary: &Primary, slot: &str) -> Result<()> {
    let asker = Asker::new(installation, primary);
    let exists = asker.ask(&format!("select 1 from pg_replication_slots where slot_name = '{slot}'"))?;
    if exists.is_empty() {
        return Ok(());
    }
    asker.order(&format!("DROP_REPLICATION_SLOT {slot} WAIT")).map(drop)
}

/// Writes the password of a primary where libpq looks for it (manual, 34.16).
pub(crate) fn write_pass_file(path: &Path, primary: &Primary, owner: Option<(u32, u32)>) -> Result<()> {
    let Some(Secret(password)) = &primary.password else { return Ok(()) };
    let escaped = password.replace('\\', "\\\\").replace(':', "\\:");
    crate::postgres::write_secret(path, &format!("*:*:*:*:{escaped}\n"))?;
    if let Some((user, group)) = owner {
        std::os::unix::fs::lchown(path, Some(user), Some(group))
            .map_err(|error| super::failed("give away", path, &error))?;
    }
    Ok(())
}

/// The password in such a file.
pub(crate) fn read_pass_file(path: &Path) -> Option<Secret> {
    let text = fs::read_to_string(path).ok()?;
    let escaped = text.trim_end_matches('\n').strip_prefix("*:*:*:*:")?;
    let (mut password, mut chars) = (String::new(), escaped.chars());
    while let Some(c) = chars.next() {
        password.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Some(Secret(password))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_a_client_says_is_one_line() {
        let said = "psql: error: connection to server at \"127.0.0.1\", port 5 failed: FATAL:  password \
                    authentication failed for user \"x\"\n";
        assert_eq!(last_words(said), "FATAL: password authentication failed for user \"x\"");
        let said = "psql: error: connection to server at \"h\" (::1), port 5 failed: Connection refused\n\tIs the \
                    server running on that host and accepting TCP/IP connections?\n";
        assert_eq!(last_words(said), "Connection refused");
        let said = "pg_basebackup: error: could not send replication command \"X\": ERROR:  all replication slots \
                    are in use\npg_basebackup: removing contents of data directory \"/x\"\n";
        assert_eq!(last_words(said), "ERROR: all replication slots are in use");
        assert_eq!(last_words(""), "it ended without a word");
    }

    #[test]
    fn a_password_is_read_as_it_was_written() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pass");
        let primary = Primary::parse("postgres://u:a%3Ab%5Cc@h/").unwrap();
        write_pass_file(&path, &primary, None).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "*:*:*:*:a\\:b\\\\c\n");
        assert_eq!(read_pass_file(&path), primary.password);
    }
}
