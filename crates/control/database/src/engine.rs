//! What the array asks of a kind of database server.

use std::path::Path;

use crate::error::Result;
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

    /// Starts the server, has everything in it checked, and stops it; what is wrong is in the outcome.
    ///
    /// # Errors
    /// When it cannot be checked here.
    fn prove(&mut self) -> Result<Outcome>;

    /// Ends the server at once.
    fn end(&mut self);
}
