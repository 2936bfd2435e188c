//! `ashlar volume users` and `disconnect`: who has a volume open, and the end of NBD clients.

use ashlar_api::{Disconnected, UseKind, VolumeUser};

use crate::Context;
use crate::failure::{Failure, Result};
use crate::output::table;

/// List everybody who uses a volume or a snapshot of it, and what ends that use.
///
/// Attachments, mounts in every namespace of mounts, devices built on it, swap, processes that have its
/// device or its file open, and NBD clients.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar volume users db --json | jq -r .[].who")]
pub struct Users {
    /// VOLUME, its snapshots included, or VOLUME@SNAPSHOT.
    name: String,
}

impl Users {
    pub fn run(self, context: &Context) -> Result<()> {
        let users = context.client()?.volume_users(&self.name)?;
        Ok(context.output.print(&users, |users| list(users))?)
    }
}

/// Cut off a volume's NBD clients, and say who still uses it.
///
/// Nothing is unmounted or detached. Ends with status 3 when somebody remains.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar volume disconnect db")]
pub struct Disconnect {
    /// VOLUME, its snapshots included, or VOLUME@SNAPSHOT.
    name: String,
}

impl Disconnect {
    pub fn run(self, context: &Context) -> Result<()> {
        let done = context.client()?.volume_disconnect(&self.name)?;
        context.output.print(&done, told)?;
        match done.remaining.first() {
            None => Ok(()),
            Some(first) => {
                let what = format!("volume `{}` is still in use: {}", first.volume, first.who);
                Err(Failure::Part(format!("{what}: {}", first.action)))
            }
        }
    }
}

fn told(done: &Disconnected) -> String {
    let lines: Vec<String> = done.cut.iter().map(|user| format!("cut off: {}", user.who)).collect();
    if lines.is_empty() { "no NBD client is connected".to_string() } else { lines.join("\n") }
}

fn list(users: &[VolumeUser]) -> String {
    let kind = |kind: UseKind| match kind {
        UseKind::Attachment => "attachment",
        UseKind::Mount => "mount",
        UseKind::Device => "device",
        UseKind::Process => "process",
        UseKind::Nbd => "nbd",
        UseKind::Iscsi => "iscsi",
        UseKind::Unknown => "unknown",
    };
    let row = |user: &VolumeUser| {
        vec![user.volume.clone(), kind(user.kind).to_string(), user.who.clone(), user.action.clone()]
    };
    let rows: Vec<Vec<String>> = users.iter().map(row).collect();
    table(&["VOLUME", "KIND", "WHO", "TO END IT"], &[], &rows)
}
