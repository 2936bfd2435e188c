//! `ashlar detach`: the end of an attachment.

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;

/// Unmount and detach a volume.
///
/// Refused while a program uses its file system or its device, in whatever namespace of mounts; the refusal
/// names it. The volume then stays attached.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar detach db")]
pub struct Detach {
    /// Name of the volume, or VOLUME@SNAPSHOT.
    volume: String,
    /// Take it out of sight although it is in use: its device goes when its last user does.
    #[arg(long)]
    force: bool,
    /// Do not ask, where --force makes it necessary.
    #[arg(long)]
    yes: bool,
}

impl Detach {
    pub fn run(self, context: &Context) -> Result<()> {
        let volume = &self.volume;
        if self.force {
            confirm(
                self.yes,
                &format!("detach volume `{volume}` under its users? They may lose what they write."),
            )?;
        }
        context.client()?.detach(&self.volume, self.force)?;
        Ok(context.output.done("detached volume", &self.volume)?)
    }
}
