//! Settings of a PostgreSQL server that are kept with its database.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ashlar_postgres::{Server, Settings};

use crate::error::{Error, Result};
use crate::postgres::ask;
use crate::site::Site;
use crate::standby;

/// What a clone has unless it is told otherwise: many of them are to run beside their source.
const CLONE_BUFFERS: &str = "32MB";
/// The major version that can have whole file systems written down.
const SYNCFS_SINCE: u32 = 14;
/// How long a server may take to read its settings again. Arbitrary.
const READ_MAX: Duration = Duration::from_secs(5);
const READ_POLL: Duration = Duration::from_millis(20);
/// What the array itself sets, and nobody else may: a server is found by them.
const OF_THE_ARRAY: [&str; 6] =
    ["cluster_name", "data_directory", "hba_file", "ident_file", "port", "unix_socket_directories"];
/// What the array sets of a copy, and programs that its source's server runs.
const OF_COPIES: [&str; 6] = [
    "archive_cleanup_command",
    "cluster_name",
    "cron.launch_active_jobs",
    "recovery_end_command",
    "restore_command",
    "recovery_target_action",
];
/// Of these a clone does not begin with its source's: they ask for much memory, reach out, or let others in.
const OF_THE_SOURCE: [&str; 11] = [
    "archive_command",
    "archive_library",
    "archive_mode",
    "huge_pages",
    "listen_addresses",
    "max_logical_replication_workers",
    "primary_conninfo",
    "primary_slot_name",
    "shared_buffers",
    "sync_replication_slots",
    "synchronous_standby_names",
];

/// What a clone begins with.
#[must_use]
pub fn settings_of_clone(source: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of_clone = |(name, _): &(&String, &String)| !is_one_of(&OF_THE_SOURCE, name);
    source.iter().filter(of_clone).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether a copy must not have a setting in its own files: `alter system` writes into one that the server
/// reads last, over what the array sets.
pub(crate) fn is_of_source(name: &str) -> bool {
    is_one_of(&OF_THE_SOURCE, name) || is_one_of(&OF_COPIES, name)
}

/// PostgreSQL takes names of settings in small and capital letters alike.
fn is_one_of(names: &[&str], name: &str) -> bool {
    names.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// What the array sets over the settings of the files, and what is kept over that.
pub(crate) fn settings(site: &Site, major: u32) -> Settings {
    let mut settings =
        Settings::new().with("listen_addresses", "127.0.0.1").with("cluster_name", site.name.as_str());
    if major >= SYNCFS_SINCE {
        // A server that recovers first has every file of its own written down. All of them are on volumes of
        // their own, so that this is one call for each volume, instead of one for each file.
        settings.set("recovery_init_sync_method", "syncfs");
    }
    standby::settings(site, &mut settings);
    if site.is_clone {
        // A copy archives nothing where its source does, follows nobody, and runs no jobs.
        settings.set("archive_mode", "off");
        settings.set("primary_conninfo", "");
        settings.set("primary_slot_name", "");
        // A subscriber's copy would take from its publisher what the source is still to get.
        settings.set("max_logical_replication_workers", "0");
        // Nobody follows a copy: its commits would wait for ever.
        settings.set("synchronous_standby_names", "");
        settings.set("cron.launch_active_jobs", "off");
        settings.set("shared_buffers", CLONE_BUFFERS);
    }
    for (name, value) in &site.settings {
        settings.set(name, value.as_str());
    }
    settings
}

/// Refuses a setting that is not for users, or that the server would not start with.
pub(crate) fn check(server: &Server, site: &Site) -> Result<()> {
    for (name, value) in &site.settings {
        if is_one_of(&OF_THE_ARRAY, name) {
            let action = "leave it out: Ashlar finds the server by it";
            return Err(Error::refused(format!("setting `{name}` is Ashlar's own"), action));
        }
        if name.eq_ignore_ascii_case("listen_addresses") && !is_reached_here(value) {
            let what = format!("setting `{name}`: Ashlar and its users reach the server at 127.0.0.1");
            return Err(Error::refused(what, "name 127.0.0.1 as well, or leave it out"));
        }
        server.check_setting(name, value).map_err(|error| {
            Error::refused(error.to_string(), "see PostgreSQL's manual for its name and values")
        })?;
    }
    Ok(())
}

/// Whether a server that listens there does so where its address says (PostgreSQL, section 19.3.1).
fn is_reached_here(addresses: &str) -> bool {
    let here = ["127.0.0.1", "0.0.0.0", "*", "localhost"];
    addresses.split(',').any(|address| here.contains(&address.trim()))
}

/// Has a running server read its settings; the names of those that count from its next start on.
pub(crate) fn take(server: &Server) -> Result<Vec<String>> {
    server.write_settings()?;
    let loaded = || ask(server, "select pg_conf_load_time()").map(|rows| first(&rows));
    let before = loaded()?;
    ask(server, "select pg_reload_conf()")?;
    let end = Instant::now() + READ_MAX;
    while loaded()? == before && Instant::now() < end {
        std::thread::sleep(READ_POLL);
    }
    waiting(server)
}

/// The names of settings that count from the server's next start on.
pub(crate) fn waiting(server: &Server) -> Result<Vec<String>> {
    let rows = ask(server, "select name from pg_settings where pending_restart order by 1")?;
    Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
}

fn first(rows: &ashlar_postgres::Rows) -> Option<String> {
    rows.first()?.first()?.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_begins_without_what_reaches_out_or_takes_memory() {
        let all = [
            "work_mem",
            "shared_buffers",
            "Archive_Command",
            "synchronous_standby_names",
            "listen_addresses",
        ];
        let source = all.map(|name| (name.to_string(), "x".to_string())).into();
        let kept: Vec<String> = settings_of_clone(&source).into_keys().collect();
        assert_eq!(kept, ["work_mem"]);
    }

    /// The harm: an address that is told, and nobody listens there.
    #[test]
    fn a_server_listens_where_its_address_says() {
        for here in ["127.0.0.1", "192.0.2.7, 127.0.0.1", "*", "0.0.0.0", "localhost"] {
            assert!(is_reached_here(here), "{here}");
        }
        for elsewhere in ["", "192.0.2.7", "::1", "127.0.0.11"] {
            assert!(!is_reached_here(elsewhere), "{elsewhere}");
        }
    }
}
