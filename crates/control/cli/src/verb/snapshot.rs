//! `ashlar snapshot`: read-only images of volumes at one instant.

use ashlar_api::{HoldRequest, Restored, Snapshot as SnapshotView, SnapshotCreate, SnapshotsDelete};
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::output::{fields, size, table, utc};

/// Take, show, hold, restore and delete snapshots.
///
/// A snapshot of several volumes holds all of them at one instant. It takes no space until the
/// volumes change, and its creation does not wait for the volumes' load.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar snapshot create before-upgrade db wal")]
pub struct Snapshot {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Take a snapshot of all the volumes named, at one instant.
    #[command(after_help = "Example:\n  ashlar snapshot create before-upgrade db wal")]
    Create {
        /// Name of the new snapshot, unique over all pools.
        name: String,
        /// Volumes of one pool.
        #[arg(value_name = "VOLUME", required = true)]
        volumes: Vec<String>,
    },
    /// List the snapshots, the oldest first.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar snapshot list --json")]
    List,
    /// Show one snapshot.
    #[command(after_help = "Example:\n  ashlar snapshot show before-upgrade")]
    Show {
        /// Name of the snapshot.
        name: String,
    },
    /// Delete snapshots, or none where one cannot be deleted. Clones made from them stay.
    ///
    /// One that is held is in the way, and so is one that a clone of a database is reset to. Many at once
    /// take little longer than one. Where a pool fails on the way, the error tells how many are deleted.
    #[command(
        after_help = "Example:\n  ashlar snapshot delete before-upgrade --yes\n  ashlar snapshot delete \
                      monday tuesday wednesday --yes"
    )]
    Delete {
        /// Names of the snapshots.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Delete them although somebody reads one, who then gets errors, or a clone is reset to one.
        #[arg(long)]
        force: bool,
    },
    /// Set a snapshot's volumes back to it. Detach them first.
    ///
    /// What they were before is kept in a snapshot of its own, taken in the same instant and named in the
    /// output: restoring that one undoes this.
    #[command(
        after_help = "Example:\n  ashlar detach db && ashlar snapshot restore before-upgrade --yes\n  \
        ashlar snapshot restore auto-before-restore-1 --yes"
    )]
    Restore {
        /// Name of the snapshot.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Cut off NBD clients, and processes that have a volume's file open. What is attached or mounted
        /// stays in the way.
        #[arg(long)]
        force: bool,
        /// Keep nothing of what the volumes were: what was written since the snapshot is lost.
        #[arg(long)]
        no_backup: bool,
    },
    /// Hold a snapshot: nobody and nothing deletes it until it is released.
    #[command(after_help = "Example:\n  ashlar snapshot hold before-upgrade --reason \"audit 2026\"")]
    Hold {
        /// Name of the snapshot.
        name: String,
        /// Why, for whoever finds it held.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// End the hold of a snapshot. It can be deleted again.
    #[command(after_help = "Example:\n  ashlar snapshot release before-upgrade")]
    Release {
        /// Name of the snapshot.
        name: String,
    },
}

impl Snapshot {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create { name, volumes } => {
                let snapshot = client.snapshot_create(&SnapshotCreate { name, volumes })?;
                context.output.print(&snapshot, show)?;
            }
            Verb::List => context.output.print(&client.snapshots()?, |snapshots| list(snapshots))?,
            Verb::Show { name } => context.output.print(&client.snapshot(&name)?, show)?,
            Verb::Delete { names, yes, force } => {
                let all = names.join(" ");
                confirm(yes, &format!("delete snapshot `{}`?", names.join("`, `")))?;
                client.snapshots_delete(&SnapshotsDelete { names, force })?;
                context.output.done("deleted snapshot", &all)?;
            }
            Verb::Restore { name, yes, force, no_backup } => {
                let since = match no_backup {
                    true => "What was written since is lost.",
                    false => "What was written since stays in another snapshot only.",
                };
                confirm(yes, &format!("set the volumes of snapshot `{name}` back? {since}"))?;
                context.output.print(&client.snapshot_restore(&name, force, !no_backup)?, restored)?;
            }
            Verb::Hold { name, reason } => {
                context.output.print(&client.snapshot_hold(&name, &HoldRequest { reason })?, show)?;
            }
            Verb::Release { name } => context.output.print(&client.snapshot_release(&name)?, show)?,
        }
        Ok(())
    }
}

fn restored(restored: &Restored) -> String {
    let Restored { snapshot, volumes, backup } = restored;
    let mut text = format!("restored snapshot {snapshot}: {}\n", volumes.join(" "));
    if let Some(backup) = backup {
        text.push_str(&format!("what was there before is snapshot {backup}\n"));
    }
    text
}

fn list(snapshots: &[SnapshotView]) -> String {
    let rows: Vec<Vec<String>> = snapshots
        .iter()
        .map(|snapshot| {
            vec![
                snapshot.name.clone(),
                snapshot.pool.clone(),
                size(snapshot.size_bytes),
                utc(snapshot.created_unix_seconds),
                if snapshot.hold.is_some() { "held" } else { "-" }.to_string(),
                snapshot.volumes.join(" "),
            ]
        })
        .collect();
    table(&["NAME", "POOL", "SIZE", "CREATED", "HOLD", "VOLUMES"], &[2], &rows)
}

fn show(snapshot: &SnapshotView) -> String {
    let mut pairs = vec![
        ("name", snapshot.name.clone()),
        ("pool", snapshot.pool.clone()),
        ("volumes", snapshot.volumes.join(" ")),
        ("size", size(snapshot.size_bytes)),
        ("created", utc(snapshot.created_unix_seconds)),
    ];
    if let Some(hold) = &snapshot.hold {
        let why = if hold.reason.is_empty() { String::new() } else { format!(": {}", hold.reason) };
        pairs.push(("held", format!("since {}{why}", utc(hold.since_unix_seconds))));
    }
    fields(&pairs)
}
