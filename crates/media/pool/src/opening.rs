//! What an opening is told: who opens the pool, what the array remembers of it, and what a person overrules.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Who opens pools: one process of one boot of one machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// The machine.
    pub machine: u128,
    /// Its boot.
    pub boot: u128,
    /// The machine's name, for people.
    pub machine_name: String,
    /// The process.
    pub process: u32,
    /// When it started, in the machine's terms: numbers of processes are used again.
    pub process_started: u64,
}

/// Says whether a process of this boot of this machine is still there: its number and when it started.
pub type ProcessProbe = Arc<dyn Fn(u32, u64) -> bool + Send + Sync>;

/// What the array that opens a pool remembers of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// The pool's identity.
    pub pool: u128,
    /// The newest generation it saw.
    pub generation: u64,
}

/// How a pool is opened.
#[derive(Clone, Default)]
pub struct Opening {
    /// Who opens it.
    pub identity: Identity,
    /// Whether the last owner's process is there. Without it an owner of the same boot counts as gone.
    pub is_process_there: Option<ProcessProbe>,
    /// What the array remembers, of this pool and others.
    pub remembered: Vec<Remembered>,
    /// Open it although somebody else has it open.
    pub is_forced: bool,
    /// How long writes of an owner on another machine, or of one that is put out by force, may still be on
    /// their way when it has stopped; `None`: as long as Linux gives a request of a drive.
    pub landing: Option<Duration>,
    /// Open it although its drives are older than they should be.
    pub is_older_accepted: bool,
}

/// Two openings are alike when all but their probes are.
impl PartialEq for Opening {
    fn eq(&self, other: &Opening) -> bool {
        let parts = |one: &Opening| {
            (one.identity.clone(), one.remembered.clone(), one.is_forced, one.landing, one.is_older_accepted)
        };
        parts(self) == parts(other)
    }
}

impl Eq for Opening {}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("identity", &self.identity)
            .field("remembered", &self.remembered)
            .field("is_forced", &self.is_forced)
            .field("landing", &self.landing)
            .field("is_older_accepted", &self.is_older_accepted)
            .finish_non_exhaustive()
    }
}
