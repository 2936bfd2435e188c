//! Settings of a server: a list of names and values, written to a file of ours that `postgresql.conf`
//! includes.
//!
//! The file is written whole at every start, so nothing is ever appended twice and nothing of a former run,
//! or of the server that a copy was made of, is left in force.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::error::{Error, Result};

/// The file of ours, in the data directory.
pub const SETTINGS_FILE: &str = "ashlar.conf";
/// The server's own, which includes it.
pub(crate) const SERVER_FILE: &str = "postgresql.conf";
/// Told at the start, from [`Places`](crate::Places): a setting of that name would have no effect.
const PLACES: [&str; 3] = ["data_directory", "port", "unix_socket_directories"];

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// `on` or `off`.
    Switch(bool),
    /// A whole number without a unit.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// An amount of memory or storage.
    Bytes(u64),
    /// A time.
    Time(Duration),
    /// A word, a path, a list.
    Text(String),
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// PostgreSQL's name of it.
    pub name: String,
    /// What it is set to.
    pub value: Value,
}

/// Settings, each name once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings {
    list: Vec<Setting>,
}

impl Settings {
    /// None but PostgreSQL's own defaults.
    #[must_use]
    pub fn new() -> Settings {
        Settings::default()
    }

    /// With one more; a name set before gets the new value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Settings {
        self.set(name, value);
        self
    }

    /// Sets a name; one set before gets the new value.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.list.iter_mut().find(|setting| setting.name == name) {
            Some(setting) => setting.value = value,
            None => self.list.push(Setting { name: name.into(), value }),
        }
    }

    /// The value of a name, if it is set here.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.list.iter().find(|setting| setting.name == name).map(|setting| &setting.value)
    }

    /// All of them, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.list.iter()
    }

    /// The text of the file.
    ///
    /// # Errors
    /// When a name is not one of PostgreSQL's form, is one of a place, or a value cannot be written.
    pub(crate) fn text(&self) -> Result<String> {
        let mut text =
            String::from("# Written by Ashlar at every start of the server: changes do not stay.\n");
        for Setting { name, value } in &self.list {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(Error::environment(format!("setting {name:?}: not a name of PostgreSQL's")));
            }
            if PLACES.contains(&name.as_str()) {
                return Err(Error::environment(format!("setting {name}: it is one of the server's places")));
            }
            let value = value.to_string();
            if value.contains(['\n', '\r', '\0']) {
                return Err(Error::environment(format!("setting {name}: a value has one line")));
            }
            text.push_str(&format!("{name} = '{}'\n", value.replace('\\', "\\\\").replace('\'', "''")));
        }
        Ok(text)
    }

    /// Writes the file into a data directory, and has the server's own include it.
    pub(crate) fn write(&self, data: &Path, account: Option<Account>) -> Result<()> {
        replace(&data.join(SETTINGS_FILE), self.text()?, account)?;
        let path = data.join(SERVER_FILE);
        // In whatever encoding: PostgreSQL takes its bytes as they are.
        let mut text = fs::read(&path).map_err(|e| Error::io(&format!("read {}", path.display()), &e))?;
        if text.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == include_line().as_bytes()) {
            return Ok(());
        }
        end_line(&mut text);
        text.extend(format!("{}\n", include_line()).bytes());
        replace(&path, text, account)
    }
}

/// So that what is put behind it is a line of its own.
pub(crate) fn end_line(text: &mut Vec<u8>) {
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
}

fn include_line() -> String {
    format!("include '{SETTINGS_FILE}'")
}

/// Writes a file anew: whoever reads it sees the old text or the new one.
pub(crate) fn replace(path: &Path, text: impl AsRef<[u8]>, account: Option<Account>) -> Result<()> {
    let context = |e: &std::io::Error| Error::io(&format!("write {}", path.display()), e);
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    fs::write(&fresh, text).map_err(|e| context(&e))?;
    if let Some(account) = account {
        account.own(Path::new(&fresh))?;
    }
    fs::rename(&fresh, path).map_err(|e| context(&e))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(true) => f.write_str("on"),
            Value::Switch(false) => f.write_str("off"),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Real(number) => write!(f, "{number}"),
            Value::Bytes(bytes) => {
                let units = [(30, "GB"), (20, "MB"), (10, "kB")];
                let fits = |(shift, _): &&(u32, &str)| *bytes > 0 && bytes.trailing_zeros() >= *shift;
                let (shift, unit) = units.iter().find(fits).unwrap_or(&(0, "B"));
                write!(f, "{}{unit}", bytes >> shift)
            }
            Value::Time(time) if time.subsec_nanos() == 0 => write!(f, "{}s", time.as_secs()),
            Value::Time(time) if time.subsec_micros().is_multiple_of(1000) => {
                write!(f, "{}ms", time.as_millis())
            }
            Value::Time(time) => write!(f, "{}us", time.as_micros()),
            Value::Text(text) => f.write_str(text),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Switch(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Integer(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Value {
        Value::Integer(value.into())
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Integer(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

impl From<Duration> for Value {
    fn from(value: Duration) -> Value {
        Value::Time(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

#[cfg(test)]
mod tests;
