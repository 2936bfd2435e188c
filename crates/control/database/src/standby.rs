//! A database that follows a server elsewhere: it streams the primary's log and replays it.

use std::time::Duration;

use ashlar_postgres::{Server, Session, Settings};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::import::{drop_slot, read_pass_file, write_pass_file};
use crate::postgres::{Postgres, remove_file};
use crate::record::Role;
use crate::site::Site;
use crate::tls;
use crate::url::Primary;

/// On the volume of data, for the server alone.
pub(crate) const PASS_FILE: &str = "ashlar-primary";
/// How long a standby may take to say how far it is, while somebody waits for a list.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long it may take to replay what it has, in seconds.
const PROMOTE_SECONDS_MAX: u32 = 300;

/// How far a standby is behind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Standing {
    /// It does not follow any more.
    pub is_promoted: bool,
    /// It hears from its primary.
    pub is_streaming: bool,
    /// Log that the primary has and that is not replayed, as far as the standby knows.
    pub lag_bytes: u64,
    /// How old the newest transaction is that it has replayed, where there is more to replay.
    pub lag_millis: u64,
}

/// What a standby's server is told at each start.
pub(crate) fn settings(site: &Site, settings: &mut Settings) {
    let Some(follows) = &site.follows else { return };
    let primary = Primary { url: follows.primary.clone(), user: String::new(), password: None };
    let pass_file = site.mount(&Role::Data).join(PASS_FILE).display().to_string();
    let information = tls::for_server(site, &primary)
        .with(&[("passfile", pass_file.as_str()), ("application_name", site.name.as_str())]);
    settings.set("primary_conninfo", information);
    settings.set("primary_slot_name", follows.slot.as_str());
    settings.set("hot_standby", "on");
    settings.set("archive_mode", "off");
}

/// Asks it.
pub(crate) fn standing(server: &Server) -> Result<Standing> {
    let mut session = Session::open(&server.address_of("template1"), "ashlar", ANSWER_MAX)?;
    let rows = session.run(
        "select not pg_is_in_recovery(), \
         exists (select from pg_stat_wal_receiver where status = 'streaming'), \
         coalesce(greatest(pg_wal_lsn_diff(greatest(\
           (select latest_end_lsn from pg_stat_wal_receiver), pg_last_wal_receive_lsn()), \
           pg_last_wal_replay_lsn()), 0), 0)::bigint, \
         case when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0 \
           else coalesce(extract(epoch from now() - pg_last_xact_replay_timestamp()) * 1000, 0) end::bigint",
    )?;
    let row = rows.into_iter().next().unwrap_or_default();
    let column = |index: usize| row.get(index).cloned().flatten().unwrap_or_default();
    let number = |index| column(index).parse().unwrap_or(0);
    Ok(Standing {
        is_promoted: column(0) == "t",
        is_streaming: column(1) == "t",
        lag_bytes: number(2),
        lag_millis: number(3),
    })
}

/// Ends the following; one that was promoted already stays as it is.
pub(crate) fn promote(server: &Server) -> Result<()> {
    let limit = Duration::from_secs(u64::from(PROMOTE_SECONDS_MAX) + 10);
    let mut session = Session::open(&server.address_of("template1"), "ashlar", limit)?;
    let rows = session.run(&format!(
        "select not pg_is_in_recovery() or pg_promote(true, {PROMOTE_SECONDS_MAX}), not pg_is_in_recovery()"
    ))?;
    let is_done = rows.first().is_some_and(|row| row[0].as_deref() == Some("t"));
    if is_done {
        return Ok(());
    }
    let what = format!("it replays its log still, after {PROMOTE_SECONDS_MAX} s");
    Err(Error::failed(what, "wait, and repeat"))
}

/// Drops the slot, and forgets the primary's password.
pub(crate) fn leave_primary(postgres: &Postgres) -> Result<()> {
    let Some(follows) = &postgres.site().follows else { return Ok(()) };
    let (copy, on_volume) = (postgres.site().primary_file(), postgres.pass_file());
    let password = read_pass_file(&copy).or_else(|| read_pass_file(&on_volume));
    let primary = Primary { password, ..Primary::parse(&follows.primary)? };
    let primary = tls::reached(postgres.site(), &primary);
    let dropped = drop_slot(postgres.installation(), &primary, &follows.slot);
    remove_file(&copy)?;
    remove_file(&on_volume)?;
    tls::forget(postgres.site())?;
    dropped
}

/// Keeps a copy of the primary's password where it is found while the volume is not mounted.
pub(crate) fn copy_pass_file(postgres: &Postgres) -> Result<()> {
    let Some(password) = read_pass_file(&postgres.pass_file()) else { return Ok(()) };
    let primary = Primary { url: String::new(), user: String::new(), password: Some(password) };
    write_pass_file(&postgres.site().primary_file(), &primary, None)
}
