//! `ashlar database handover` and `return`: clones that run on another machine.

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;

/// Print the script that runs a clone on the machine that it is away at.
///
/// It is for root there, says what each step does, and holds no secret. With --json everything that it is
/// made of.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar database handover test > test.sh\n  \
        ashlar database handover test | ssh root@db1 sh -s\n  ashlar database handover test --json")]
pub struct Handover {
    /// Name of the clone.
    name: String,
}

/// Take a clone back from the machine that it is away at, and start its server here.
///
/// Stop it there first: the script with `remove`. Whatever still runs there loses the volumes as by a loss of
/// power; what it had committed is there.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar database return test --yes")]
pub struct Return {
    /// Name of the clone.
    name: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Handover {
    pub fn run(self, context: &Context) -> Result<()> {
        let found = context.client()?.database_handover(&self.name)?;
        Ok(context.output.print(&found, |found| found.script.clone())?)
    }
}

impl Return {
    pub fn run(self, context: &Context) -> Result<()> {
        let (name, client) = (&self.name, context.client()?);
        // What is not away is not asked about.
        if client.database(name)?.away.is_some() {
            confirm(
                self.yes,
                &format!("take `{name}` back? What still runs on the other machine loses it."),
            )?;
        }
        super::ready(context, &client.database_return(name)?)
    }
}
