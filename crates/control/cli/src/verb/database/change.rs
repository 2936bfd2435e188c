//! `ashlar database settings` and `resize`.

use std::collections::BTreeMap;

use ashlar_api::{DatabaseResize, DatabaseSettings, DatabaseSettingsChange, DatabaseTablespace};

use super::shown::show;
use crate::Context;
use crate::failure::Result;
use crate::parse;

#[derive(clap::Args)]
pub struct Settings {
    /// Name of the database.
    name: String,
    /// Settings of PostgreSQL and their values.
    #[arg(value_name = "SETTING=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// Give a setting the value of the server's own files again; may be repeated.
    #[arg(long, value_name = "SETTING")]
    reset: Vec<String>,
    /// Have the server listen there, as when its port was taken by another program.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Start the server anew where a setting asks for that. One that does not start so runs again as before.
    #[arg(long)]
    restart: bool,
}

impl Settings {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let Settings { name, set, reset, port, restart } = self;
        let settings = if set.is_empty() && reset.is_empty() && port.is_none() && !restart {
            client.database_settings(&name)?
        } else {
            let set = set.into_iter().collect();
            client.database_settings_change(&name, &DatabaseSettingsChange { set, reset, port, restart })?
        };
        Ok(context.output.print(&settings, lines)?)
    }
}

#[derive(clap::Args)]
pub struct Resize {
    /// Name of the database.
    name: String,
    /// New size of the volume for data.
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    size: Option<u64>,
    /// New size of the volume for the write-ahead log.
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    log_size: Option<u64>,
    /// New size of the volume for temporary files.
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    temp_size: Option<u64>,
    /// New size of a tablespace's volume; may be repeated.
    #[arg(long = "tablespace", value_name = "NAME=SIZE", value_parser = super::tablespace)]
    tablespaces: Vec<DatabaseTablespace>,
    #[command(flatten)]
    grow: Grow,
    /// Have volumes grow no more by themselves.
    #[arg(long, conflicts_with_all = ["auto_grow", "auto_grow_max"])]
    no_auto_grow: bool,
}

/// Volumes that grow by themselves.
#[derive(clap::Args)]
pub struct Grow {
    /// Have each volume grow by a quarter when its file system is 85 % full. An event tells of it.
    #[arg(long)]
    auto_grow: bool,
    /// The same, up to this size of each.
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    pub auto_grow_max: Option<u64>,
}

impl Grow {
    /// Whether one of both is given.
    pub fn is_wanted(&self) -> bool {
        self.auto_grow || self.auto_grow_max.is_some()
    }
}

impl Resize {
    pub fn run(self, context: &Context) -> Result<()> {
        let Resize { name, size, log_size, temp_size, tablespaces, grow, no_auto_grow } = self;
        let fixed = [("data", size), ("log", log_size), ("temp", temp_size)];
        let mut sizes_bytes: BTreeMap<String, u64> =
            fixed.into_iter().filter_map(|(role, size)| Some((role.to_string(), size?))).collect();
        let of_tablespace = |one: DatabaseTablespace| (format!("tablespace-{}", one.name), one.size_bytes);
        sizes_bytes.extend(tablespaces.into_iter().map(of_tablespace));
        let auto_grow = (grow.is_wanted() || no_auto_grow).then_some(!no_auto_grow);
        let auto_grow_max_bytes = grow.auto_grow_max;
        let request = DatabaseResize { sizes_bytes, auto_grow, auto_grow_max_bytes };
        let resized = context.client()?.database_resize(&name, &request)?;
        Ok(context.output.print(&resized, show)?)
    }
}

fn assignment(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is NAME=VALUE, as in work_mem=64MB")?;
    Ok((name.trim().to_string(), value.trim().to_string()))
}

fn lines(settings: &DatabaseSettings) -> String {
    let mut text = String::new();
    for (name, value) in &settings.settings {
        let is_waiting = settings.waiting_for_restart.contains(name);
        let note = if is_waiting { "   (from the next start on)" } else { "" };
        text.push_str(&format!("{name} = {value}{note}\n"));
    }
    if settings.settings.is_empty() {
        text.push_str("none but those of the server's own files\n");
    }
    let others: Vec<&str> = settings
        .waiting_for_restart
        .iter()
        .filter(|name| !settings.settings.contains_key(*name))
        .map(String::as_str)
        .collect();
    if !others.is_empty() {
        text.push_str(&format!("from the next start on: {}\n", others.join(", ")));
    }
    if !settings.waiting_for_restart.is_empty() {
        text.push_str(&format!("`ashlar database settings {} --restart` starts it anew\n", settings.name));
    }
    text
}
