//! The question before something is destroyed, asked only where a person can answer.

use std::io::{BufRead, IsTerminal};

use crate::failure::{Failure, Result};
use crate::stderr;

/// Asks `question` on a terminal unless `--yes` was given. Scripts are not asked: they named the object.
pub fn confirm(is_yes: bool, question: &str) -> Result<()> {
    let is_person = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if is_yes || !is_person {
        return Ok(());
    }
    stderr::part(format_args!("{question} [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(Failure::new("nothing was changed: answer y, or give --yes"))
}
