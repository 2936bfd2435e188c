//! The command line as it is parsed: an error shows the same usage line as the help of its command.
//!
//! Without that an error's line names what was given, global options and what stands in the environment
//! included, and leaves out what else there is.

use clap::{Command, CommandFactory, FromArgMatches};

use crate::Arguments;

/// Parses the arguments of this process.
pub fn parse() -> clap::error::Result<Arguments> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn command() -> Command {
    let mut built = Arguments::command();
    built.build();
    with_usage(Arguments::command(), &mut built)
}

/// Has a command and all below it keep to the usage that their help shows.
fn with_usage(command: Command, built: &mut Command) -> Command {
    let usage = usage_of(built);
    command.override_usage(usage).mut_subcommands(|inner| {
        let name = inner.get_name().to_string();
        match built.find_subcommand_mut(&name) {
            Some(built) => with_usage(inner, built),
            None => inner,
        }
    })
}

/// What stands behind `Usage:`.
fn usage_of(built: &mut Command) -> String {
    let usage = built.render_usage().to_string();
    usage.trim_start_matches("Usage:").trim().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Whatever was given before the mistake.
    fn check(built: &mut Command, path: &[String]) {
        let usage = usage_of(built);
        let first = usage.lines().next().unwrap();
        assert!(first.starts_with(&format!("{} [OPTIONS]", path.join(" "))), "{usage}");
        let options = ["--state", "/x", "--json", "--no-such-option"].map(str::to_string);
        let error = command().try_get_matches_from(path.iter().cloned().chain(options)).err().unwrap();
        let text = error.to_string();
        assert!(text.contains(&format!("Usage: {first}\n")), "{path:?}: {text}");
        assert!(!text.contains("--state"), "{path:?}: {text}");
        for inner in built.get_subcommands_mut() {
            if inner.get_name() != "help" && !inner.is_hide_set() {
                let path: Vec<String> = path.iter().cloned().chain([inner.get_name().to_string()]).collect();
                check(inner, &path);
            }
        }
    }

    #[test]
    fn errors_show_the_usage_that_help_shows() {
        let mut built = Arguments::command();
        built.build();
        check(&mut built, &["ashlar".to_string()]);
    }
}
