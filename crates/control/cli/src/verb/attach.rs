//! `ashlar attach`: a volume as a block device of this machine.

use ashlar_api::{AttachRequest, Attachment, FileSystem, Outlives};
use clap::ValueEnum;

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::parse;
use crate::stderr;

/// Attach a volume as a block device of this machine; prints the device.
///
/// With --mount the directory is printed too, on a second line. `ashlar detach` unmounts. After a restart of
/// the array or the machine it is attached and mounted again, unless it was with --once. Set-uid programs
/// and device files on the volume take no effect unless asked for: whoever wrote them there is not known.
/// NBD clients that connect meanwhile only read the volume, unless it is attached with --shared.
/// VOLUME@SNAPSHOT attaches a snapshot read-only.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar attach db --format ext4 --mount /mnt/db")]
pub struct Attach {
    /// Name of the volume, or VOLUME@SNAPSHOT.
    volume: String,
    /// Mount its file system on this directory, made when missing.
    #[arg(long, value_name = "DIR", value_parser = parse::path_text)]
    mount: Option<String>,
    /// Make this file system first; refused when the volume holds anything but zeroes.
    #[arg(long, value_enum)]
    format: Option<FileSystemName>,
    /// Let set-uid programs on the volume take effect; mounts are `nosuid` otherwise.
    #[arg(long, requires = "mount")]
    allow_suid: bool,
    /// Let device files on the volume take effect; mounts are `nodev` otherwise.
    #[arg(long, requires = "mount")]
    allow_devices: bool,
    /// Format whatever the volume holds, which is lost.
    #[arg(long, requires = "format")]
    force: bool,
    /// Do not ask, where --force makes it necessary.
    #[arg(long)]
    yes: bool,
    /// Let NBD clients write to the volume meanwhile: only for hosts that are made to share a device.
    #[arg(long)]
    shared: bool,
    /// Attach until the array or the machine is started anew; what is attached otherwise is again then.
    #[arg(long)]
    once: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FileSystemName {
    Ext4,
    Xfs,
}

impl Attach {
    pub fn run(self, context: &Context) -> Result<()> {
        if self.force {
            let question = format!("format volume `{}` whatever it holds? Its data are lost.", self.volume);
            confirm(self.yes, &question)?;
        }
        let request = AttachRequest {
            volume: self.volume,
            mount: self.mount,
            format: self.format.map(|format| match format {
                FileSystemName::Ext4 => FileSystem::Ext4,
                FileSystemName::Xfs => FileSystem::Xfs,
            }),
            allows_suid: self.allow_suid,
            allows_devices: self.allow_devices,
            force: self.force,
            shared: self.shared,
            once: self.once,
        };
        let attachment = context.client()?.attach(&request)?;
        context.output.print(&attachment, lines)?;
        if let Some(note) = note(&attachment) {
            stderr::line(format_args!("note: {note}"));
        }
        Ok(())
    }
}

/// What a person should know who puts a database on it.
fn note(attachment: &Attachment) -> Option<&'static str> {
    match attachment.outlives {
        Outlives::Stop => Some("it outlives a restart of the array, not a crash: that takes Linux 6.9"),
        // The settings ask for it.
        Outlives::Crash | Outlives::Nothing => None,
    }
}

fn lines(attachment: &Attachment) -> String {
    match &attachment.mount {
        Some(mount) => format!("{}\n{mount}\n", attachment.device),
        None => attachment.device.clone(),
    }
}
