//! `ashlar completions`: what a shell needs to complete the command line, made from its definition.

use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::aot;
use serde::Serialize;

use crate::Context;
use crate::failure::Result;

/// Print the script with which a shell completes commands and options of `ashlar`.
///
/// The Debian package installs the scripts of all three shells.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar completions bash > /etc/bash_completion.d/ashlar\n  \
    ashlar completions zsh > /usr/local/share/zsh/site-functions/_ashlar\n  \
    ashlar completions fish > ~/.config/fish/completions/ashlar.fish")]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Serialize)]
struct Script {
    shell: Shell,
    script: String,
}

impl Completions {
    pub fn run(self, context: &Context) -> Result<()> {
        let generator = match self.shell {
            Shell::Bash => aot::Shell::Bash,
            Shell::Zsh => aot::Shell::Zsh,
            Shell::Fish => aot::Shell::Fish,
        };
        let mut text = Vec::new();
        aot::generate(generator, &mut shown(), "ashlar", &mut text);
        let script = String::from_utf8_lossy(&text).into_owned();
        Ok(context.output.print(&Script { shell: self.shell, script }, |made| made.script.clone())?)
    }
}

/// The commands for people: hidden ones are for processes of the array.
fn shown() -> Command {
    let all = crate::Arguments::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("ashlar")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(all.get_arguments().cloned())
        .subcommands(commands)
}
