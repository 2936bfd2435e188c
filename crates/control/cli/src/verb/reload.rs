//! `ashlar reload`: the array reads its settings again.

use ashlar_api::Reloaded;

use crate::Context;
use crate::failure::Result;

/// Have the array read its settings file again, as SIGHUP does; prints what changed.
///
/// Some settings change at once, the others at the next start: docs/reference/settings.md tells which. A file
/// with a mistake in it changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar reload\n  systemctl reload ashlar")]
pub struct Reload {}

impl Reload {
    pub fn run(self, context: &Context) -> Result<()> {
        Ok(context.output.print(&context.client()?.reload()?, text)?)
    }
}

fn text(done: &Reloaded) -> String {
    let list = |names: &[String]| if names.is_empty() { "nothing".to_string() } else { names.join(", ") };
    let mut text = format!("changed: {}\n", list(&done.changed));
    if !done.needs_restart.is_empty() {
        text += &format!("at the next start: {}\n", list(&done.needs_restart));
    }
    text
}
