//! The question before something is destroyed: the one place that asks it.
//!
//! A person at a terminal answers it. Nobody else is taken to have answered: what a script, cron or a pipe
//! has on its standard input was not written for this question.

use std::io::{BufRead, IsTerminal};

use crate::failure::{Failure, Result};
use crate::stderr;

/// Returns when this may be done: because of `--yes`, or because somebody at a terminal said so.
pub fn confirm(is_yes: bool, question: &str) -> Result<()> {
    if is_yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::Unasked(format!(
            "nothing was changed, for there is no terminal to ask at: {question} Give --yes to say so"
        )));
    }
    stderr::part(format_args!("{question} [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(Failure::new("nothing was changed: answer y, or give --yes"))
}
