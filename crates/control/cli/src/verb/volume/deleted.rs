//! `ashlar volume delete`, `undelete` and `purge`: volumes that go, come back, or are given up.

use ashlar_api::{DeletedVolume, Volume as VolumeView, VolumeDeletion, VolumeUndelete};
use ashlar_client::Client;

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::output::{size, table, utc};

/// Delete a volume that nobody uses. Its snapshots stay, and its name is free at once.
///
/// `ashlar volume undelete` brings it back for a day (setting deleted_volumes_hours). Until then its space is
/// not free; where the pool is nearly full the volume kept longest is given up earlier.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar volume delete db --yes\n  ashlar volume delete scratch --now --yes"
)]
pub struct Delete {
    /// Name of the volume.
    name: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Delete it although somebody uses it, who then gets errors, or a database has it.
    #[arg(long)]
    force: bool,
    /// Delete it for good: it cannot come back, and its space is free.
    #[arg(long)]
    now: bool,
}

/// Bring a deleted volume back with all it held.
///
/// Of several of one name the one deleted last comes back, unless its number says which.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar volume undelete db\n  ashlar volume undelete db:17 --as db-of-monday"
)]
pub struct Undelete {
    /// The name it had, or NAME:ID as `ashlar volume list --deleted` tells it.
    name: String,
    /// Its new name, where its own is taken by now.
    #[arg(long = "as", value_name = "NEWNAME")]
    new_name: Option<String>,
}

/// Give up a deleted volume: it cannot come back, and its space is free.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar volume purge db:17 --yes")]
pub struct Purge {
    /// The name it had, where that says which; or NAME:ID as `ashlar volume list --deleted` tells it.
    name: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Delete {
    pub fn run(self, context: &Context) -> Result<()> {
        let Delete { name, yes, force, now } = self;
        let back = if now { " It cannot come back." } else { "" };
        confirm(yes, &format!("delete volume `{name}` and its data?{back}"))?;
        let deletion = context.client()?.volume_delete(&name, force, now)?;
        Ok(context.output.print(&deletion, told)?)
    }
}

fn told(deletion: &VolumeDeletion) -> String {
    let VolumeDeletion { name, recoverable_seconds, .. } = deletion;
    let mut text = format!("deleted volume {name}\n");
    if *recoverable_seconds > 0 {
        let hours = recoverable_seconds / 3600;
        text.push_str(&format!("`ashlar volume undelete {name}` brings it back for {hours} hours\n"));
    }
    text
}

impl Undelete {
    pub fn run(self, client: &Client) -> Result<VolumeView> {
        Ok(client.volume_undelete(&self.name, &VolumeUndelete { name: self.new_name })?)
    }
}

impl Purge {
    pub fn run(self, context: &Context) -> Result<()> {
        confirm(self.yes, &format!("give up deleted volume `{}`? It cannot come back.", self.name))?;
        context.client()?.deleted_volume_purge(&self.name)?;
        Ok(context.output.done("gave up deleted volume", &self.name)?)
    }
}

/// A table of deleted volumes.
pub fn list(volumes: &[DeletedVolume]) -> String {
    let rows: Vec<Vec<String>> = volumes
        .iter()
        .map(|volume| {
            vec![
                format!("{}:{}", volume.name, volume.id),
                volume.pool.clone(),
                size(volume.size_bytes),
                super::counted(volume.written_bytes),
                utc(volume.deleted_unix_seconds),
                left(volume.remaining_seconds),
            ]
        })
        .collect();
    table(&["NAME:ID", "POOL", "SIZE", "WRITTEN", "DELETED", "KEPT FOR"], &[2, 3], &rows)
}

fn left(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
