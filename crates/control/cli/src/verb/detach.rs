//! `ashlar detach`: the end of an attachment.

use crate::Context;
use crate::failure::Result;

/// Unmount and detach a volume.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar detach db")]
pub struct Detach {
    /// Name of the volume.
    volume: String,
}

impl Detach {
    pub fn run(self, context: &Context) -> Result<()> {
        context.client()?.detach(&self.volume)?;
        Ok(context.output.done("detached volume", &self.volume)?)
    }
}
