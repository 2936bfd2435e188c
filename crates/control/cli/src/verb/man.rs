//! `ashlar man`: manual pages, one a command, made from the definition of the command line.

use std::io;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use serde::Serialize;

use crate::Context;
use crate::failure::{Failure, Result};

/// Write the manual pages, one for each command, into a directory.
///
/// `man -l DIR/ashlar.8` reads one from there. The Debian package installs them all.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar man /usr/local/share/man/man8\n  man ashlar-pool-create")]
pub struct Man {
    /// The directory; it is made if it is not there.
    directory: PathBuf,
}

/// Administration: what root does.
const SECTION: &str = "8";

struct Page {
    name: String,
    text: Vec<u8>,
}

#[derive(Serialize)]
struct Written {
    directory: String,
    pages: Vec<String>,
}

impl Man {
    pub fn run(self, context: &Context) -> Result<()> {
        let mut root = crate::Arguments::command().disable_help_subcommand(true);
        root.build();
        let mut pages = Vec::new();
        collect(&root, &mut pages).map_err(|error| Failure::new(format!("make manual pages: {error}")))?;
        let directory = &self.directory;
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::new(format!("make {}: {error}: name another directory", directory.display()))
        })?;
        for page in &pages {
            let path = directory.join(&page.name);
            std::fs::write(&path, &page.text)
                .map_err(|error| Failure::new(format!("write {}: {error}", path.display())))?;
        }
        let written = Written {
            directory: directory.display().to_string(),
            pages: pages.into_iter().map(|page| page.name).collect(),
        };
        Ok(context.output.print(&written, |written| {
            format!("wrote {} manual pages to {}", written.pages.len(), written.directory)
        })?)
    }
}

/// The pages of a command and of all below it.
fn collect(command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(inner, pages)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let page = clap_mangen::Man::new(command.clone()).section(SECTION).manual("Ashlar");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(example) = command.get_after_help() {
        text.extend(examples(&example.to_string()).bytes());
    }
    pages.push(Page { name: format!("{name}.{SECTION}"), text });
    Ok(())
}

/// What help shows behind `Example:`, as groff(7) takes it: lines as they are, nothing in them a request.
fn examples(help: &str) -> String {
    let lines = help.lines().filter(|line| line.trim() != "Example:");
    let lines: String = lines.map(|line| format!("{}\n", plain(line.trim()))).collect();
    format!(".SH EXAMPLES\n.nf\n{lines}.fi\n")
}

fn plain(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_printed_as_it_is_typed() {
        let text = examples("Example:\n  ashlar x -y 'a\\b'\n  .profile");
        assert_eq!(text, ".SH EXAMPLES\n.nf\nashlar x \\-y \\(aqa\\eb\\(aq\n\\&.profile\n.fi\n");
    }
}
