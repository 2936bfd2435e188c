//! `ashlar attach`: a volume as a block device of this machine.

use ashlar_api::{AttachRequest, Attachment, FileSystem};
use clap::ValueEnum;

use crate::Context;
use crate::failure::Result;
use crate::parse;

/// Attach a volume as a block device of this machine; prints the device.
///
/// With --mount the directory is printed too, on a second line. `ashlar detach` unmounts.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar attach db --format ext4 --mount /mnt/db")]
pub struct Attach {
    /// Name of the volume.
    volume: String,
    /// Mount its file system on this directory, made when missing.
    #[arg(long, value_name = "DIR", value_parser = parse::path_text)]
    mount: Option<String>,
    /// Make this file system first; refused when the volume holds one.
    #[arg(long, value_enum)]
    format: Option<FileSystemName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum FileSystemName {
    Ext4,
    Xfs,
}

impl Attach {
    pub fn run(self, context: &Context) -> Result<()> {
        let request = AttachRequest {
            volume: self.volume,
            mount: self.mount,
            format: self.format.map(|format| match format {
                FileSystemName::Ext4 => FileSystem::Ext4,
                FileSystemName::Xfs => FileSystem::Xfs,
            }),
        };
        let attachment = context.client()?.attach(&request)?;
        Ok(context.output.print(&attachment, lines)?)
    }
}

fn lines(attachment: &Attachment) -> String {
    match &attachment.mount {
        Some(mount) => format!("{}\n{mount}\n", attachment.device),
        None => attachment.device.clone(),
    }
}
