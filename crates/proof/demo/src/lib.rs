//! Library behind the demo: a database on the array, cloned, robbed of two drives, killed and recovered.
//!
//! `ashlar demo` starts an array of its own in a temporary directory, puts a PostgreSQL on two of its
//! volumes, loads it, clones it while it runs, destroys two of the eight drives under load and replaces
//! them, kills the array under load and proves that nothing acknowledged was lost. It uses only what a
//! user has: the `ashlar` command line and PostgreSQL's own programs. It leaves nothing behind, also
//! after an error or Ctrl-C.

mod array;
mod by_name;
mod closing;
mod database;
mod drives;
mod error;
mod ledger;
mod picture;
mod progress;
mod settings;
mod site;
mod story;

#[cfg(test)]
mod tests;

pub use error::{Error, ErrorKind, Result};
pub use settings::Settings;

/// Plays the whole demo, prints its progress and its table, removes what it made.
/// `Ok` means that every proof held.
pub fn run(settings: &Settings) -> Result<()> {
    let site = site::Site::new(settings)?;
    let outcome = story::play(settings, &site);
    match &outcome {
        Ok(()) if settings.is_kept => site.keep(&settings.binary),
        Ok(()) => progress::say("\n`ashlar demo --keep` leaves the array running, with its console"),
        Err(error) if error.kind == ErrorKind::Interrupted => {}
        Err(_) => site.print_logs(),
    }
    outcome
}
