//! Words beside a command's result, on standard error: who cannot hear them must not stop the work.
//!
//! `eprintln!` panics where nothing can be written, and a panic aborts.

use std::fmt::Display;
use std::io::Write;

/// A whole line.
pub fn line(text: impl Display) {
    let _unheard = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// A part of a line, shown at once.
pub fn part(text: impl Display) {
    let _unheard = std::io::stderr().write_all(text.to_string().as_bytes());
}
