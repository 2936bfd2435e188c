//! A scenario as a person names it: an id of the catalogue, or the path of a file.

use std::fs;

use ashlar_scenario::Scenario;

use crate::{Error, Result};

/// What the name of a file ends with.
const FILE_END: &str = ".toml";

/// The experiment that has no file.
const DOCTOR: &str = "ashlar/db-doctor";

/// A scenario with the text it was read from.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The id, or the file with its whole path.
    pub source: String,
    pub text: String,
    pub scenario: Scenario,
}

impl Chosen {
    /// Finds and reads it.
    ///
    /// # Errors
    /// When there is none of this name, or it is wrong: the message names the key and the place.
    pub fn of(named: &str) -> Result<Chosen> {
        if named == DOCTOR {
            return Err(Error::environment(format!(
                "{DOCTOR} is a command of its own: `ashlar lab doctor --target DIR`"
            )));
        }
        if !named.ends_with(FILE_END) {
            let text = ashlar_scenario::text(named).map_err(|error| {
                Error::environment(format!(
                    "{error} (`ashlar lab list` shows all; a file ends with {FILE_END})"
                ))
            })?;
            return Chosen::read(named.to_string(), text.to_string());
        }
        let unread = |error: std::io::Error| Error::environment(format!("{named}: {error}"));
        let path = std::path::absolute(named).map_err(unread)?;
        let text = fs::read_to_string(&path).map_err(unread)?;
        Chosen::read(path.display().to_string(), text)
    }

    pub(crate) fn read(source: String, text: String) -> Result<Chosen> {
        let scenario =
            Scenario::parse(&text).map_err(|error| Error::environment(format!("{source}: {error}")))?;
        Ok(Chosen { source, text, scenario })
    }
}
