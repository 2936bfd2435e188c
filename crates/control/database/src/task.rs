//! What is done to a database, by a process that does nothing else.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ashlar_postgres::Waits;
use serde::{Deserialize, Serialize};

use crate::care::Care;
use crate::difference::{FileDifference, Named, Pieces};
use crate::engine::Engine;
use crate::error::Result;
use crate::hooked::{self, Hooked};
use crate::import::{Source, Survey, survey};
use crate::isolation::{hide_others, stand_apart};
use crate::postgres::{Postgres, end_all};
use crate::record::{EngineKind, ServerFound};
use crate::site::Site;
use crate::standby::Standing;
use crate::usage::{Usage, usage};

/// One piece of work.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Where.
    pub site: Site,
    /// What.
    pub work: Work,
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
    /// Looks at what is to be brought in; nothing is changed.
    Survey(Source),
    /// Brings it in, onto mounted volumes.
    Bring {
        /// What.
        source: Source,
        /// What a look at it found.
        survey: Survey,
    },
    /// Does what is to be done before others reach it; its server is stopped again.
    Care(Care),
    /// Gives its superuser a password, if none is known.
    GivePassword,
    /// Tells how far a standby is behind.
    Standing,
    /// Looks for so many milliseconds what the sessions of its running server wait for.
    LookAtWaits(u64),
    /// Ends the following of a standby.
    Promote,
    /// Has the primary keep no slot for it any more.
    LeavePrimary,
    /// Starts its server, if it does not run.
    Start,
    /// Refuses settings that its server would not start with.
    CheckSettings,
    /// Has its running server take its settings.
    TakeSettings,
    /// Asks its running server which settings wait for its next start.
    LookAtSettings,
    /// Has its running server make a checkpoint.
    Checkpoint,
    /// Stops its server after a last checkpoint, if it runs.
    Stop,
    /// Starts its server, checks everything in it, and stops it again.
    Prove,
    /// Has its server replay its log, and stops it again.
    Recover,
    /// Makes files that another machine had its own again: their owner, and no link that leads out.
    TakeBack,
    /// Compares its files with those of another database; no server runs.
    Compare {
        /// The other one.
        other: Box<Site>,
        /// The pieces of their volumes that differ.
        changed: Vec<Pieces>,
    },
    /// Starts its server, asks it for the relations of some files, and stops it again.
    NameFiles(BTreeSet<String>),
    /// Ends its server without a word to its files, if it runs.
    End,
    /// Looks how full its mounted volumes are.
    LookAtUsage,
    /// Has it hold still for a snapshot.
    Freeze,
    /// Has it go on, if it held still.
    Thaw,
}

impl Work {
    /// Whether a server is started meanwhile.
    fn has_server(&self) -> bool {
        matches!(
            self,
            Work::Make
                | Work::Start
                | Work::Prove
                | Work::Care(_)
                | Work::Bring { .. }
                | Work::Recover
                | Work::NameFiles(_)
        )
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
    /// What a look at a source found.
    #[serde(default)]
    pub survey: Option<Survey>,
    /// The first superuser of what was brought in.
    #[serde(default)]
    pub superuser: Option<String>,
    /// How far a standby is behind.
    #[serde(default)]
    pub standing: Option<Standing>,
    /// What its sessions wait for.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// The files that differ from another database's.
    #[serde(default)]
    pub files: Vec<FileDifference>,
    /// The relations of files.
    #[serde(default)]
    pub named: Vec<Named>,
    /// How full its volumes are.
    #[serde(default)]
    pub usage: Vec<Usage>,
    /// What a server is started with.
    #[serde(default)]
    pub server: Option<ServerFound>,
}

/// Does it.
///
/// # Errors
/// When the programs are missing, or one of them fails.
pub fn carry_out(task: &Task) -> Result<Outcome> {
    match &task.work {
        // Its programs are known only afterwards.
        Work::Survey(source) => return survey(&task.site, source),
        // Needs none, which may be gone.
        Work::End => {
            match task.site.engine {
                EngineKind::Postgres => end_all(&task.site)?,
                EngineKind::None => hooked::end(&task.site)?,
            }
            return Ok(Outcome::default());
        }
        Work::LookAtUsage => return Ok(Outcome { usage: usage(&task.site), ..Outcome::default() }),
        _ => {}
    }
    if task.work.has_server() && task.site.engine == EngineKind::Postgres {
        hide_others(&task.site)?;
        // A start looks first for a server that is there.
        if task.work != Work::Start {
            // Where the kernel gives no namespace the server that stays says so.
            let _ = stand_apart();
        }
    }
    let mut engine: Box<dyn Engine> = match task.site.engine {
        EngineKind::Postgres => Box::new(Postgres::at(&task.site)?),
        EngineKind::None => Box::new(Hooked::at(&task.site)?),
    };
    let mut outcome = engine.programs();
    match &task.work {
        Work::Find | Work::Survey(_) | Work::End | Work::LookAtUsage => {}
        Work::Checkpoint => engine.checkpoint()?,
        Work::Freeze => engine.freeze()?,
        Work::Thaw => engine.thaw()?,
        Work::Make => engine.make()?,
        Work::Adopt { from } => engine.adopt(from)?,
        Work::Bring { source, survey } => outcome = engine.bring(source, survey)?,
        Work::Care(care) => engine.care(care)?,
        Work::GivePassword => engine.give_password()?,
        Work::Standing => outcome.standing = Some(engine.standing()?),
        Work::LookAtWaits(millis) => outcome.waits = Some(engine.waits(*millis)?),
        Work::Promote => engine.promote()?,
        Work::LeavePrimary => engine.leave_primary()?,
        Work::Start => outcome = engine.start()?,
        Work::CheckSettings => engine.check_settings()?,
        Work::TakeSettings => outcome.notes = engine.take_settings()?,
        Work::LookAtSettings => outcome.notes = engine.waiting_settings()?,
        Work::Stop => engine.stop()?,
        Work::Prove => outcome = engine.prove()?,
        Work::Recover => engine.recover()?,
        Work::TakeBack => engine.take_back()?,
        Work::Compare { other, changed } => outcome.files = engine.compare(other, changed)?,
        Work::NameFiles(stems) => outcome.named = engine.name_files(stems)?,
    }
    Ok(outcome)
}
