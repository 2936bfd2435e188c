//! The first act: a database by name, a clone that is broken and reset, and a snapshot that is proven.

use crate::array::{Array, find_number};
use crate::database::server_at;
use crate::error::{Error, Result};
use crate::progress::{Progress, count, millis};
use crate::site::Site;
use ashlar_postgres::{Installation, Server};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Of pgbench's database: 300 MiB in some seconds.
const SCALE: u32 = 20;
/// Its accounts.
const ACCOUNTS: u64 = 100_000 * SCALE as u64;

/// How long the commands took, as they tell.
#[derive(Clone, Copy, Default)]
pub(crate) struct ByName {
    pub(crate) create: Duration,
    pub(crate) clone: Duration,
    pub(crate) clone_start: Duration,
    pub(crate) reset: Duration,
    pub(crate) verify: Duration,
}

pub(crate) fn play(
    array: &Array,
    site: &Site,
    postgres: &Installation,
    progress: &Progress,
) -> Result<ByName> {
    let mut took = ByName::default();
    progress.step("a database by name, and a copy of it to break");
    let created = array.json(&["database", "create", "prod", "--size", "8GiB"])?;
    took.create = time(&created, "took_millis")?;
    progress.result(&format!("`ashlar database create prod`: {}", millis(took.create)));
    let prod = client(site, postgres, "prod", &created)?;
    prod.fill(SCALE)?;
    // What is filled at once is all log, which no database that is at work has to replay.
    prod.query("checkpoint")?;
    let cloned = array.json(&["database", "clone", "prod", "dev"])?;
    (took.clone, took.clone_start) = (time(&cloned, "took_millis")?, time(&cloned, "start_millis")?);
    progress.result(&format!(
        "`ashlar database clone prod dev`: {}, of which PostgreSQL took {}",
        millis(took.clone),
        millis(took.clone_start)
    ));
    let dev = client(site, postgres, "dev", &cloned)?;
    accounts(&dev)?;
    dev.query("drop table pgbench_accounts")?;
    accounts(&prod)?;
    progress.result("dev: `drop table pgbench_accounts`; prod has it");
    let reset = array.json(&["database", "reset", "dev", "--yes"])?;
    took.reset = time(&reset, "took_millis")?;
    accounts(&dev)?;
    progress.result(&format!(
        "`ashlar database reset dev`: {}, all {} accounts are back at the same port",
        millis(took.reset),
        count(ACCOUNTS)
    ));
    array.run(&["database", "snapshot", "prod", "noon-of-prod"])?;
    let proof = array.json(&["database", "verify", "prod@noon-of-prod"])?;
    took.verify = time(&proof, "took_millis")?;
    progress.result(&format!(
        "`ashlar database verify prod@noon-of-prod`: it recovers, every page and index is whole ({:.0} s)",
        took.verify.as_secs_f64()
    ));
    array.run(&["database", "delete", "dev", "--yes"])?;
    array.run(&["database", "delete", "prod", "--yes"])?;
    array.run(&["snapshot", "delete", "noon-of-prod", "--yes"])?;
    // They would come back for a day; the sums of space at the end are of the other database alone.
    array.run(&["volume", "purge", "dev-data", "--yes"])?;
    array.run(&["volume", "purge", "prod-data", "--yes"])?;
    Ok(took)
}

/// The running server of a database, to ask and to fill: the array starts and stops it.
fn client(site: &Site, postgres: &Installation, name: &str, answer: &Value) -> Result<Server> {
    let port = find_number(answer, "port").and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| Error::command(format!("database {name}: no port is told")))?;
    let directory: PathBuf = site.base().join("state/databases").join(name);
    Ok(server_at(postgres, directory.join("data/pgdata"), None, directory.join("run"), port))
}

fn accounts(server: &Server) -> Result<()> {
    let rows = server.query("select count(*) from pgbench_accounts")?;
    let found = rows.first().and_then(|row| row.first()?.as_ref()?.parse::<u64>().ok());
    if found == Some(ACCOUNTS) {
        return Ok(());
    }
    Err(Error::proof(format!("{ACCOUNTS} accounts were filled in, {found:?} are there")))
}

fn time(answer: &Value, key: &str) -> Result<Duration> {
    let told = find_number(answer, key).map(Duration::from_millis);
    told.ok_or_else(|| Error::command(format!("the answer of `ashlar database` has no {key}")))
}
