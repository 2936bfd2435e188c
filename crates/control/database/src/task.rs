//! What is done to a database, by a process that does nothing else.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::Result;
use crate::isolation::hide_others;
use crate::postgres::Postgres;
use crate::record::EngineKind;
use crate::site::Site;

/// One piece of work.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Where.
    pub site: Site,
    /// What.
    pub work: Work,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Finds the programs; nothing is changed.
    Find,
    /// Makes an empty database on mounted volumes.
    Make,
    /// Makes copied files the database's own.
    Adopt {
        /// The directory of the database that they were copied from.
        from: PathBuf,
    },
    /// Starts its server, if it does not run.
    Start,
    /// Refuses settings that its server would not start with.
    CheckSettings,
    /// Has its running server take its settings.
    TakeSettings,
    /// Asks its running server which settings wait for its next start.
    LookAtSettings,
    /// Stops its server after a last checkpoint, if it runs.
    Stop,
    /// Starts its server, checks everything in it, and stops it again.
    Prove,
    /// Ends its server without a word to its files, if it runs.
    End,
}

impl Work {
    /// Whether a server is started meanwhile.
    fn has_server(&self) -> bool {
        matches!(self, Work::Make | Work::Start | Work::Prove)
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The major version of the programs.
    pub major: u32,
    /// How long the server's start took, with its recovery.
    pub start_millis: u64,
    /// What is wrong with the database.
    #[serde(default)]
    pub findings: Vec<String>,
    /// What is to be known of the work.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Does it.
///
/// # Errors
/// When the programs are missing, or one of them fails.
pub fn carry_out(task: &Task) -> Result<Outcome> {
    if task.work.has_server() {
        hide_others(&task.site)?;
    }
    let mut engine: Box<dyn Engine> = match task.site.engine {
        EngineKind::Postgres => Box::new(Postgres::at(&task.site)?),
    };
    let mut outcome = engine.programs();
    match &task.work {
        Work::Find => {}
        Work::Make => engine.make()?,
        Work::Adopt { from } => engine.adopt(from)?,
        Work::Start => outcome = engine.start()?,
        Work::CheckSettings => engine.check_settings()?,
        Work::TakeSettings => outcome.notes = engine.take_settings()?,
        Work::LookAtSettings => outcome.notes = engine.waiting_settings()?,
        Work::Stop => engine.stop()?,
        Work::Prove => outcome = engine.prove()?,
        Work::End => engine.end(),
    }
    Ok(outcome)
}
