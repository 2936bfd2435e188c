//! `ashlar snapshot`: read-only images of volumes at one instant.

use ashlar_api::{Snapshot as SnapshotView, SnapshotCreate, SnapshotsDelete};
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::output::{fields, size, table, utc};

/// Take, show, restore and delete snapshots.
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
    /// List the snapshots.
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
    /// Many at once take little longer than one. Where a pool fails on the way, the error tells how
    /// many are deleted.
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
        /// Delete them although somebody reads one, who then gets errors.
        #[arg(long)]
        force: bool,
    },
    /// Set a snapshot's volumes back to it; what was written since is lost. Detach them first.
    #[command(after_help = "Example:\n  ashlar detach db && ashlar snapshot restore before-upgrade --yes")]
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
            Verb::Restore { name, yes, force } => {
                confirm(
                    yes,
                    &format!("set the volumes of snapshot `{name}` back? What was written since is lost."),
                )?;
                client.snapshot_restore(&name, force)?;
                context.output.done("restored snapshot", &name)?;
            }
        }
        Ok(())
    }
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
                snapshot.volumes.join(" "),
            ]
        })
        .collect();
    table(&["NAME", "POOL", "SIZE", "CREATED", "VOLUMES"], &[2], &rows)
}

fn show(snapshot: &SnapshotView) -> String {
    fields(&[
        ("name", snapshot.name.clone()),
        ("pool", snapshot.pool.clone()),
        ("volumes", snapshot.volumes.join(" ")),
        ("size", size(snapshot.size_bytes)),
        ("created", utc(snapshot.created_unix_seconds)),
    ])
}
