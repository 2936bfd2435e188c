//! The hidden verb `ashlar reference`: writes the generated pages of `docs/reference/`, or checks them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use crate::Context;
use crate::failure::{Failure, Result};

/// Write the generated reference pages, or check that they are fresh.
#[derive(clap::Args)]
pub struct Reference {
    /// The directory, docs/reference in the repository.
    directory: PathBuf,
    /// Compare only; fails when a page is stale.
    #[arg(long)]
    check: bool,
}

impl Reference {
    pub fn run(self, context: &Context) -> Result<()> {
        for (name, text) in pages() {
            let path = self.directory.join(name);
            if self.check {
                check(&path, &text)?;
            } else {
                std::fs::write(&path, &text)
                    .map_err(|error| Failure::new(format!("write {}: {error}", path.display())))?;
                context.output.done("wrote", &path.display().to_string())?;
            }
        }
        Ok(())
    }
}

fn check(path: &Path, text: &str) -> Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|kept| kept == text) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} is stale: write it anew with `cargo run -p ashlar-cli -- reference docs/reference`",
        path.display()
    )))
}

/// File name and text of every generated page.
fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("openapi.json", ashlar_api::openapi_json()),
        ("settings.md", ashlar_daemon::settings_reference()),
        ("metrics.md", ashlar_daemon::metrics_reference()),
        ("cli.md", command_line()),
        ("errors.md", ashlar_daemon::problems_reference()),
        ("scenario.schema.json", ashlar_scenario::schema()),
    ]
}

/// The command line as one page: every command with its own help text.
fn command_line() -> String {
    let mut text = String::from(
        "# Command line\n\n\
         Generated from the program by `ashlar reference`; do not edit.\n\n\
         `--state DIR` and `--json` may stand before or after any command. Exit status: 0 done, 1 refused or failed\n\
         (one line on stderr: what, which object, why, what to do), 2 wrong usage, or something would be destroyed and\n\
         neither `--yes` nor a terminal to ask at is there, 3 done in part,\n\
         4 done, and a finding to see to (`inspect`). Sizes take `KiB MiB GiB TiB`\n\
         and decimal units, are refused without a unit, and are printed in binary units; with `--json` they are exact\n\
         bytes. Nothing that destroys data runs without naming the object; at a terminal it asks first, elsewhere\n\
         it is refused, and `--yes` says so instead. What is on standard input is no answer.\n",
    );
    let mut root = crate::Arguments::command();
    root.build();
    describe(&mut root, "ashlar", &mut text);
    text
}

fn describe(command: &mut Command, path: &str, text: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    writeln!(text, "\n## {path}\n\n```text\n{}\n```", lines.join("\n").trim_end())
        .expect("writing to a string cannot fail");
    for inner in command.get_subcommands_mut() {
        if inner.is_hide_set() || inner.get_name() == "help" {
            continue;
        }
        let path = format!("{path} {}", inner.get_name());
        describe(inner, &path, text);
    }
}
