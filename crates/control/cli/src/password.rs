//! Passwords that people give: typed without an echo, or from a file or a pipe. Never from the command line,
//! which every user of the machine sees.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::failure::{Failure, Result};
use crate::stderr;

/// A file that holds more is none of a password.
const FILE_BYTES_MAX: u64 = 4096;
/// What Ctrl-C types where it is no signal.
const CONTROL_C: u8 = 3;

/// A password that a user is to have: of this file, `-` for standard input, or typed twice.
pub fn new(file: Option<&Path>) -> Result<String> {
    if let Some(file) = file {
        return of_file(file);
    }
    let first = typed("Password: ")?;
    let second = typed("The same again: ")?;
    match first == second {
        true => Ok(first),
        false => Err(Failure::new("nothing was changed: the two passwords differ, type the same twice")),
    }
}

/// The first line of a file.
fn of_file(file: &Path) -> Result<String> {
    let first_line = |input: &mut dyn Read| {
        let mut line = String::new();
        BufReader::new(input.take(FILE_BYTES_MAX)).read_line(&mut line).map(|_| line)
    };
    let line = match file == Path::new("-") {
        true => first_line(&mut std::io::stdin().lock()),
        false => File::open(file).and_then(|mut file| first_line(&mut file)),
    };
    let line = line.map_err(|error| {
        let name = file.display();
        Failure::new(format!("read password {name}: {error}: name a file with one line of text"))
    })?;
    Ok(line.trim_end_matches(['\n', '\r']).to_string())
}

fn typed(question: &str) -> Result<String> {
    let unasked = || {
        Failure::Unasked(
            "nothing was changed, for there is no terminal to type a password at: give --password-file FILE, \
             or --password-file - with the password on standard input"
                .to_string(),
        )
    };
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(unasked());
    }
    let before = tcgetattr(std::io::stdin()).map_err(|_| unasked())?;
    let quiet = Quiet::begin(&before).map_err(|_| unasked())?;
    stderr::part(format_args!("{question}"));
    let mut line = Vec::new();
    let read = read_line(&mut line);
    drop(quiet);
    stderr::line("");
    read.map_err(|error| Failure::new(format!("read the terminal: {error}: give --password-file FILE")))?;
    if line.contains(&CONTROL_C) {
        return Err(Failure::new("nothing was changed: it was interrupted"));
    }
    String::from_utf8(line).map_err(|_| Failure::new("nothing was changed: the password is not UTF-8"))
}

/// Byte by byte, so that what is typed ahead stays for the next question.
fn read_line(line: &mut Vec<u8>) -> std::io::Result<()> {
    let mut byte = [0];
    while std::io::stdin().lock().read(&mut byte)? == 1 {
        match byte[0] {
            b'\n' => return Ok(()),
            CONTROL_C => {
                line.push(CONTROL_C);
                return Ok(());
            }
            other => line.push(other),
        }
    }
    Ok(())
}

/// A terminal that shows nothing of what is typed. Ctrl-C ends the line there and is no signal: a process
/// that died of it would leave the terminal so.
struct Quiet<'a>(&'a Termios);

impl Quiet<'_> {
    fn begin(before: &Termios) -> std::io::Result<Quiet<'_>> {
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VEOL] = CONTROL_C;
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Quiet(before))
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, self.0);
    }
}
