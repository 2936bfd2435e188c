//! What is done to a clone before others reach it, now and at each reset.

use ashlar_api as api;
use ashlar_database::{Care, CareKept, Record, Script, ScriptKept, Work};
use ashlar_units::ByteCount;

use super::super::Service;
use super::Known;
use crate::error::{Error, Result};

/// A note's value has no more.
const NOTE_BYTES_MAX: usize = 4000;
/// Of a clone's SQL. Arbitrary: all databases of a pool share half a MiB of notes.
const SCRIPT_BYTES_MAX: usize = 4 * NOTE_BYTES_MAX;
/// Of a password. Arbitrary.
const PASSWORD_BYTES_MAX: usize = 128;

/// What a request to clone asks to be done.
pub(super) struct Asked {
    pub(super) kept: Option<CareKept>,
    password: Option<String>,
    text: Option<String>,
}

impl Asked {
    /// Nothing.
    pub(super) fn nothing() -> Asked {
        Asked { kept: None, password: None, text: None }
    }

    /// Refuses what cannot be kept. `is_needed`: nobody knows the password of the source.
    pub(super) fn of(request: &api::DatabaseClone, is_needed: bool) -> Result<Asked> {
        let api::DatabaseClone { name, password, after_clone, after_clone_database, .. } = request;
        if let Some(password) = password {
            check_password(name, password)?;
            if request.has_fresh_password {
                let what = format!("database `{name}`: a password is given and another is asked for");
                return Err(Error::invalid(what, "leave one of them out"));
            }
        }
        // Another machine is not to know the source's.
        let is_needed = is_needed || request.host.is_some();
        let has_own_password = password.is_some() || request.has_fresh_password || is_needed;
        let script = after_clone.as_ref().map(|text| check_script(name, text)).transpose()?;
        let script = script.map(|(notes, bytes)| ScriptKept {
            database: after_clone_database.clone().unwrap_or_else(|| "postgres".to_string()),
            notes,
            bytes,
        });
        if script.is_none() && after_clone_database.is_some() {
            let what = format!("database `{name}`: a database is named, and no SQL to run in it");
            return Err(Error::invalid(what, "give the SQL, too, or leave the database out"));
        }
        let kept = CareKept { has_own_password, script };
        let is_any = kept.has_own_password || kept.script.is_some();
        Ok(Asked { kept: is_any.then_some(kept), password: password.clone(), text: after_clone.clone() })
    }
}

fn check_password(name: &str, password: &str) -> Result<()> {
    let why = match password {
        "" => "is empty",
        text if text.len() > PASSWORD_BYTES_MAX => "is too long",
        text if text.chars().any(char::is_control) => "has characters that cannot be typed",
        _ => return Ok(()),
    };
    Err(Error::invalid(
        format!("database `{name}`: its new password {why}"),
        format!("give one line of at most {PASSWORD_BYTES_MAX} bytes"),
    ))
}

/// How many notes hold a text, and how long it is.
fn check_script(name: &str, text: &str) -> Result<(u16, u64)> {
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(Error::invalid(
            format!(
                "database `{name}`: the SQL after the clone has {}, {SCRIPT_BYTES_MAX} bytes at most are kept",
                ByteCount(text.len() as u64)
            ),
            "put what it does into a function of the source, and call that",
        ));
    }
    if text.trim().is_empty() {
        let what = format!("database `{name}`: the SQL after the clone is empty");
        return Err(Error::invalid(what, "leave it out, or check the file"));
    }
    Ok((text.len().div_ceil(NOTE_BYTES_MAX) as u16, text.len() as u64))
}

impl Service {
    /// Keeps what was asked beside the record.
    pub(super) async fn keep_care(&self, known: &Known, asked: &Asked) -> Result<()> {
        if let Some(text) = &asked.text {
            let pieces = text.as_bytes().chunks(NOTE_BYTES_MAX).map(<[u8]>::to_vec).collect();
            self.array.database_script_put(&known.pool, known.number, pieces).await?;
        }
        if let Some(password) = &asked.password {
            let object = format!("database `{}`", known.record.name);
            let kept = self.site(&known.record).keep_password(password);
            kept.map_err(|error| super::from_database(&object, &error))?;
        }
        Ok(())
    }

    /// Does what is to be done to a clone whose files are its own, and whose server does not run yet.
    pub(super) async fn take_care(&self, known: &Known) -> Result<()> {
        let Some(kept) = &known.record.care else { return Ok(()) };
        let script = match &kept.script {
            Some(script) => Some(self.script(known, script).await?),
            None => None,
        };
        let care = Care { has_own_password: kept.has_own_password, script };
        self.work(&self.site(&known.record), Work::Care(care)).await.map(drop)
    }

    /// A clone never opens without it.
    async fn script(&self, known: &Known, kept: &ScriptKept) -> Result<Script> {
        let pieces = self.array.database_script(&known.pool, known.number, kept.notes).await?;
        let bytes = pieces.concat();
        let is_whole = bytes.len() as u64 == kept.bytes;
        let text = String::from_utf8(bytes).ok().filter(|_| is_whole);
        let text = text.ok_or_else(|| {
            Error::new(
                api::ErrorKind::Damaged,
                format!("database `{}`: the SQL after the clone is not whole", known.record.name),
                "delete it and clone it anew",
            )
        })?;
        Ok(Script { database: kept.database.clone(), text })
    }
}

/// What a clone of this source needs even when nobody asks.
pub(super) fn needs_password(source: &Record, has_password: bool) -> bool {
    source.follows.is_some() && !has_password
}
