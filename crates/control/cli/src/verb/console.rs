//! `ashlar console`: the array in the browser.

use std::process::{Command, Stdio};

use crate::Context;
use crate::failure::Result;

/// Print the address of the console, or open it in the browser.
///
/// The address opens the console once, within a minute, with the rights of who asks; the session lasts twelve
/// hours. The address is on 127.0.0.1. From another machine log in as a user at the setting `api`, or forward
/// the port: `ssh -L 9410:127.0.0.1:9410 HOST`, with `console_port = 9410` in the settings.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar console\n  ashlar console --open")]
pub struct Console {
    /// Open the browser of this machine.
    #[arg(long)]
    open: bool,
}

impl Console {
    pub fn run(self, context: &Context) -> Result<()> {
        let ticket = context.client()?.console_ticket()?;
        if self.open {
            // Whether a browser came up is seen; the address is printed in any case.
            let opened = Command::new("xdg-open")
                .arg(&ticket.address)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            if let Err(error) = opened {
                crate::stderr::line(format_args!(
                    "xdg-open did not start ({error}): open the address yourself"
                ));
            }
        }
        Ok(context.output.print(&ticket, |ticket| format!("{}\n", ticket.address))?)
    }
}
