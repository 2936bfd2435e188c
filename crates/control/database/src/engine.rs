//! What the array asks of a kind of database server.

use std::collections::BTreeSet;
use std::path::Path;

use ashlar_postgres::Waits;

use crate::care::Care;
use crate::difference::{FileDifference, Named, Pieces};
use crate::error::Result;
use crate::import::{Source, Survey};
use crate::site::Site;
use crate::standby::Standing;
use crate::task::Outcome;

/// A database server on mounted volumes.
pub trait Engine {
    /// The programs that were found.
    fn programs(&self) -> Outcome;

    /// Makes an empty database.
    ///
    /// # Errors
    /// When something is there already, or a program fails.
    fn make(&mut self) -> Result<()>;

    /// Makes files that were copied from the database in this directory its own: whatever leads out of the
    /// copy is led into it, or the copy is refused.
    ///
    /// # Errors
    /// When something leads out of the copy and cannot be led into it.
    fn adopt(&mut self, from: &Path) -> Result<()>;

    /// Brings in what is elsewhere.
    ///
    /// # Errors
    /// When something of it cannot be read, or cannot be here.
    fn bring(&mut self, source: &Source, survey: &Survey) -> Result<Outcome>;

    /// Gives it a password and runs SQL in it while nobody else reaches it; its server is stopped again.
    ///
    /// # Errors
    /// When the server does not start, or a statement fails.
    fn care(&mut self, care: &Care) -> Result<()>;

    /// Gives the running server a fresh password for its superuser, if none is known.
    ///
    /// # Errors
    /// When the server refuses.
    fn give_password(&mut self) -> Result<()>;

    /// How far a standby is behind.
    ///
    /// # Errors
    /// When the server does not answer.
    fn standing(&self) -> Result<Standing>;

    /// What the sessions of the running server wait for, over so long.
    ///
    /// # Errors
    /// When the server does not answer.
    fn waits(&self, millis: u64) -> Result<Waits>;

    /// Ends the following of a running standby.
    ///
    /// # Errors
    /// When it does not end.
    fn promote(&mut self) -> Result<()>;

    /// Has the primary keep nothing for it any more.
    ///
    /// # Errors
    /// When the primary is not there, or refuses.
    fn leave_primary(&mut self) -> Result<()>;

    /// Starts the server and waits until it answers; how long that took, and whether it has no limits that it
    /// is to have.
    ///
    /// # Errors
    /// When it does not start.
    fn start(&mut self) -> Result<Outcome>;

    /// Stops the server in order.
    ///
    /// # Errors
    /// When it does not stop; then it still runs.
    fn stop(&mut self) -> Result<()>;

    /// Refuses settings of the site that the server would not start with.
    ///
    /// # Errors
    /// When there is one.
    fn check_settings(&mut self) -> Result<()>;

    /// Has the running server take the settings of the site; the names of those that wait for its next start.
    ///
    /// # Errors
    /// When it does not run.
    fn take_settings(&mut self) -> Result<Vec<String>>;

    /// The names of settings that wait for the running server's next start.
    ///
    /// # Errors
    /// When it does not run.
    fn waiting_settings(&mut self) -> Result<Vec<String>>;

    /// Has the server replay its log, and stops it again; what it wrote is on its volumes then.
    ///
    /// # Errors
    /// When it does not recover.
    fn recover(&mut self) -> Result<()>;

    /// Makes files that another machine had its own again.
    ///
    /// # Errors
    /// When one of them cannot be given to its account, or something leads out of its volumes.
    fn take_back(&mut self) -> Result<()>;

    /// Compares its files with those of another database, given the pieces of their volumes that differ.
    /// Neither server runs.
    ///
    /// # Errors
    /// When a file cannot be read.
    fn compare(&self, other: &Site, changed: &[Pieces]) -> Result<Vec<FileDifference>>;

    /// Starts the server, asks it for the relations of some files, and stops it again.
    ///
    /// # Errors
    /// When it does not start, or does not answer.
    fn name_files(&mut self, stems: &BTreeSet<String>) -> Result<Vec<Named>>;

    /// Has its running server write down what its log would have to be replayed for. One that has no log of
    /// which the array knows does nothing.
    ///
    /// # Errors
    /// When it does not.
    fn checkpoint(&mut self) -> Result<()> {
        Ok(())
    }

    /// Holds still, so that a snapshot of it is whole. A server that recovers by itself need not.
    ///
    /// # Errors
    /// When it does not.
    fn freeze(&mut self) -> Result<()> {
        Ok(())
    }

    /// Goes on, if it held still.
    ///
    /// # Errors
    /// When it does not.
    fn thaw(&mut self) -> Result<()> {
        Ok(())
    }

    /// Starts the server, has everything in it checked, and stops it; what is wrong is in the outcome.
    ///
    /// # Errors
    /// When it cannot be checked here.
    fn prove(&mut self) -> Result<Outcome>;
}
