//! Databases as text.

use ashlar_api::{
    Database as Shown, DatabaseAutoGrow, DatabaseDeletion, DatabaseProof, DatabaseStandby, DatabaseState,
};
use ashlar_units::ByteCount;

use crate::output::{fields, size as bytes, table, utc};

/// How far a database is, or a standby is behind.
fn state_of_now(database: &Shown) -> String {
    let state = state(database);
    match (&database.progress, &database.standby) {
        (Some(found), _) if found.total_bytes > 0 => {
            let percent = (found.done_bytes * 100 / found.total_bytes).min(100);
            format!("{state}: {}, {percent} % of {}", found.stage, bytes(found.total_bytes))
        }
        (Some(found), _) => format!("{state}: {}", found.stage),
        (None, Some(standby)) if database.state == DatabaseState::Running => lag(standby),
        _ => match &database.away {
            Some(away) => format!("{state} at {}", away.host),
            None => state.to_string(),
        },
    }
}

fn lag(standby: &DatabaseStandby) -> String {
    match standby {
        DatabaseStandby { is_streaming: Some(is_streaming), lag_bytes: Some(behind), lag_millis, .. } => {
            let seconds = lag_millis.unwrap_or(0) as f64 / 1000.0;
            let heard = if *is_streaming { "" } else { ", hears nothing of its primary" };
            format!("standby, {} and {seconds:.1} s behind{heard}", bytes(*behind))
        }
        _ => "standby, does not say how far it is".to_string(),
    }
}

fn state(database: &Shown) -> &'static str {
    match database.state {
        DatabaseState::Making => "being made",
        DatabaseState::Busy => "busy",
        DatabaseState::Running => "running",
        DatabaseState::Stopped => "stopped",
        DatabaseState::Failed => "failed",
        DatabaseState::Resetting => "being reset",
        DatabaseState::Deleting => "being deleted",
        DatabaseState::Away => "away",
    }
}

fn engine(database: &Shown) -> String {
    match database.major_version {
        0 => database.engine.clone(),
        major => format!("{} {major}", database.engine),
    }
}

fn port(database: &Shown) -> String {
    if database.port == 0 { "-".to_string() } else { database.port.to_string() }
}

fn origin(database: &Shown) -> String {
    match (&database.origin, &database.standby) {
        (Some(origin), _) => format!("{}@{}", origin.database, origin.snapshot),
        (None, Some(standby)) => standby.primary.clone(),
        (None, None) => "-".to_string(),
    }
}

pub(super) fn list(databases: &[Shown]) -> String {
    let row = |database: &Shown| {
        vec![
            database.name.clone(),
            database.pool.clone(),
            engine(database),
            state_of_now(database),
            port(database),
            origin(database),
            database.expires_unix_seconds.map_or("-".to_string(), utc),
        ]
    };
    let rows: Vec<Vec<String>> = databases.iter().map(row).collect();
    table(&["NAME", "POOL", "ENGINE", "STATE", "PORT", "ORIGIN", "EXPIRES"], &[4], &rows)
}

pub(super) fn show(database: &Shown) -> String {
    let mut pairs = vec![
        ("name", database.name.clone()),
        ("pool", database.pool.clone()),
        ("engine", engine(database)),
        ("state", state_of_now(database)),
        ("port", port(database)),
        ("origin", origin(database)),
        ("created", utc(database.created_unix_seconds)),
    ];
    if let Some(reason) = &database.reason {
        // Behind the state that it is the reason of.
        pairs.insert(4, ("reason", reason.clone()));
    }
    pairs.extend(database.away.as_ref().map(|away| ("away since", utc(away.since_unix_seconds))));
    pairs.extend(database.expires_unix_seconds.map(|time| ("expires", utc(time))));
    pairs.extend(
        database
            .volumes
            .iter()
            .map(|one| (one.role.as_str(), format!("volume {} on {}", one.volume, one.mount))),
    );
    pairs.extend(database.memory_bytes.map(|bytes| ("memory", ByteCount(bytes).to_string())));
    pairs.extend(database.cores.map(|cores| ("processors", cores.to_string())));
    pairs.extend(database.start_timeout_seconds.map(|seconds| ("start", format!("within {seconds} s"))));
    pairs.extend(database.commands.iter().map(|one| {
        let names = one.names.join(", ");
        ("commands", format!("{names} as {}, within {} s", one.account, one.timeout_seconds))
    }));
    pairs.extend(database.auto_grow.iter().map(|one| ("auto-grow", auto_grow(one))));
    pairs.extend(
        database.standby.iter().map(|one| ("follows", format!("{} by slot {}", one.primary, one.slot))),
    );
    pairs.extend(database.proofs.iter().map(|proof| ("proof", proof_line(proof))));
    fields(&pairs)
}

pub(super) fn proof_lines(proof: &DatabaseProof) -> String {
    let mut text = format!("{}\n", proof_line(proof));
    text.extend(proof.findings.iter().map(|finding| format!("  {finding}\n")));
    text.extend(proof.notes.iter().map(|note| format!("  note: {note}\n")));
    text
}

/// `at 85 % by 25 %, up to 1 TiB`.
fn auto_grow(grow: &DatabaseAutoGrow) -> String {
    let DatabaseAutoGrow { at_percent, step_percent, max_bytes, waiting } = grow;
    let mut text = format!("at {at_percent} % by {step_percent} %");
    text.extend(max_bytes.map(|bytes| format!(", up to {}", ByteCount(bytes))));
    if !waiting.is_empty() {
        text.push_str(&format!("; the file system of {} grows before the next start", waiting.join(", ")));
    }
    text
}

fn proof_line(proof: &DatabaseProof) -> String {
    let seconds = |millis: u64| millis as f64 / 1000.0;
    let verdict = if proof.findings.is_empty() { "proven" } else { "NOT proven" };
    format!(
        "{}: {verdict} {}, recovery {:.1} s, {} errors, took {:.1} s",
        proof.snapshot,
        utc(proof.proven_unix_seconds),
        seconds(proof.start_millis),
        proof.findings.len(),
        seconds(proof.took_millis)
    )
}

pub(super) fn deletion(deleted: &DatabaseDeletion) -> String {
    let mut text = format!("deleted database {} with volumes {}\n", deleted.name, deleted.volumes.join(" "));
    if deleted.recoverable_seconds > 0 {
        let hours = deleted.recoverable_seconds / 3600;
        text.push_str(&format!("`ashlar volume undelete` brings the volumes back for {hours} hours\n"));
    }
    if !deleted.schedules.is_empty() {
        let names = deleted.schedules.join(" ");
        text.push_str(&format!("deleted with it: schedule {names}; their snapshots stay\n"));
    }
    if !deleted.clones.is_empty() {
        text.push_str(&format!("its clones stay: {}\n", deleted.clones.join(" ")));
    }
    text.extend(deleted.notes.iter().map(|note| format!("{note}\n")));
    text
}
