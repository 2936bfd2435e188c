//! What a server says of itself: what its sessions wait for, which settings are in force, its version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::server::Server;
use crate::session::Session;

/// Sessions that work rather than wait.
const RUNNING: &str = "CPU:Running";

/// What active sessions were found waiting for, over many looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// How often it was looked.
    pub look_count: u64,
    /// How many sessions were found with each event, as `IO:DataFileRead`; `CPU:Running` waits for nothing.
    pub sessions: BTreeMap<String, u64>,
}

impl Waits {
    /// Looks once.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn look(&mut self, session: &mut Session) -> Result<()> {
        let rows = session.run(
            "select coalesce(wait_event_type || ':' || wait_event, ''), count(*) from pg_stat_activity \
             where state = 'active' and backend_type in ('client backend', 'parallel worker') \
             and pid <> pg_backend_pid() group by 1",
        )?;
        self.look_count += 1;
        for row in rows {
            let [Some(event), Some(count)] = &row[..] else { continue };
            let event = if event.is_empty() { RUNNING } else { event };
            *self.sessions.entry(event.to_string()).or_default() += count.parse::<u64>().unwrap_or(0);
        }
        Ok(())
    }
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingInForce {
    /// Its name.
    pub name: String,
    /// Its value, in `unit` if it has one.
    pub value: String,
    /// `8kB`, `ms`, ...
    pub unit: Option<String>,
    /// Who set it: `configuration file`, `command line`, `database`, ...
    pub source: String,
}

impl SettingInForce {
    /// Every setting that is not PostgreSQL's default, by name.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn read(session: &mut Session) -> Result<Vec<SettingInForce>> {
        let rows = session.run(
            "select name, setting, unit, source from pg_settings where source <> 'default' order by name",
        )?;
        let setting = |row: Vec<Option<String>>| {
            let mut columns = row.into_iter();
            let mut next = || columns.next().flatten();
            let (name, value, unit) = (next()?, next().unwrap_or_default(), next());
            Some(SettingInForce { name, value, unit, source: next().unwrap_or_default() })
        };
        Ok(rows.into_iter().filter_map(setting).collect())
    }
}

impl Server {
    /// Every setting in force that is not PostgreSQL's default.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn settings_in_force(&self) -> Result<Vec<SettingInForce>> {
        SettingInForce::read(&mut self.session()?)
    }

    /// The version as the running server tells it, with how it was built.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn version(&self) -> Result<String> {
        let rows = self.query("select version()")?;
        Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
    }
}
