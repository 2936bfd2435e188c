//! The file of users and tokens, and its second copy.
//!
//! ```text
//! # ...
//! # sha256 <of all that is below this line>
//! last = 7
//! [[user]] ...
//! [[token]] ...
//! ```
//!
//! The digest tells a file that was cut short, of which the rest would still be one, and one that somebody
//! changed by hand. Where one copy is damaged or missing the other one counts, and mends it.

use ashlar_api::{ErrorKind, Role, TokenScope};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::hex;
use super::passwords::PasswordHash;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::state::{State, USERS, USERS_COPY};

/// Users at most. Arbitrary: people, not programs.
pub(crate) const USERS_MAX: usize = 1000;
/// Tokens at most. Arbitrary: each request over TCP is compared with all of them.
pub(crate) const TOKENS_MAX: usize = 1000;

const HEADER: &str = "# Users and tokens of this array. Written by ashlar: a change by hand is refused.\n";
const DIGEST: &str = "# sha256 ";

/// What is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The last stamp that was given: none is given twice.
    #[serde(default)]
    pub(crate) last: u64,
    #[serde(default)]
    pub(crate) user: Vec<UserRecord>,
    #[serde(default)]
    pub(crate) token: Vec<TokenRecord>,
}

/// A user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserRecord {
    pub(crate) name: String,
    /// Another one after each change.
    pub(crate) stamp: u64,
    pub(crate) role: Role,
    #[serde(default)]
    pub(crate) is_disabled: bool,
    pub(crate) created_unix_seconds: u64,
    pub(crate) password_set_unix_seconds: u64,
    pub(crate) password: PasswordHash,
}

/// A token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenRecord {
    pub(crate) name: String,
    pub(crate) stamp: u64,
    pub(crate) role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) only: Option<TokenScope>,
    /// SHA-256 of its secret.
    pub(crate) hash: String,
    pub(crate) created_unix_seconds: u64,
    pub(crate) created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_unix_seconds: Option<u64>,
}

impl Record {
    /// A stamp that nothing has.
    pub(crate) fn next_stamp(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl TokenRecord {
    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.expires_unix_seconds.is_some_and(|end| now >= end)
    }
}

/// What the state directory holds.
pub(super) fn load(state: &State, log: &Log) -> Result<Record> {
    let read = |name: &str| state.load_text(name).map(|text| text.map(|text| (parse(&text), text)));
    let (first, second) = (read(USERS)?, read(USERS_COPY)?);
    match (first, second) {
        (None, None) => Ok(Record::default()),
        (Some((Ok(record), text)), second) => {
            // A crash between the two, or damage of the second.
            if second.is_none_or(|(_, other)| other != text) {
                state.store_text(USERS_COPY, &text)?;
            }
            Ok(record)
        }
        (first, Some((Ok(record), text))) => {
            let why = match first {
                Some((Err(why), _)) => why,
                _ => "it is missing".to_string(),
            };
            state.store_text(USERS, &text)?;
            log.warning("access", format!("{USERS}: {why}: mended from {USERS_COPY}"));
            Ok(record)
        }
        (first, second) => {
            let why = |copy: Option<(std::result::Result<Record, String>, String)>| match copy {
                Some((Err(why), _)) => why,
                _ => "it is missing".to_string(),
            };
            Err(damaged(state, &why(first), &why(second)))
        }
    }
}

fn damaged(state: &State, first: &str, second: &str) -> Error {
    let (file, copy) = (state.path(USERS), state.path(USERS_COPY));
    let (file, copy) = (file.display(), copy.display());
    Error::new(
        ErrorKind::Damaged,
        format!("users and tokens are not known: {file}: {first}; {copy}: {second}"),
        "put a copy of that file back, or move both away and make users and tokens anew; then start the array again",
    )
}

/// Replaces what is kept; durable when this returns.
pub(super) fn store(state: &State, record: &Record) -> Result<()> {
    let text = written(record);
    state.store_text(USERS, &text)?;
    state.store_text(USERS_COPY, &text)
}

fn written(record: &Record) -> String {
    let body = toml::to_string(record).expect("names and hashes are plain text");
    format!("{HEADER}{DIGEST}{}\n{body}", hex(&Sha256::digest(body.as_bytes())))
}

fn parse(text: &str) -> std::result::Result<Record, String> {
    let behind = text.strip_prefix(HEADER).and_then(|rest| rest.strip_prefix(DIGEST));
    let (digest, body) =
        behind.and_then(|rest| rest.split_once('\n')).ok_or("it does not begin as it should")?;
    if digest != hex(&Sha256::digest(body.as_bytes())) {
        return Err("it is not as it was written".to_string());
    }
    toml::from_str(body).map_err(|error| error.message().to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn record(name: &str) -> Record {
        let user = UserRecord {
            name: name.to_string(),
            stamp: 1,
            role: Role::Viewer,
            is_disabled: false,
            created_unix_seconds: 1,
            password_set_unix_seconds: 1,
            password: PasswordHash {
                memory_kib: 8,
                passes: 1,
                salt: "00".to_string(),
                hash: "11".to_string(),
            },
        };
        Record { last: 1, user: vec![user], token: Vec::new() }
    }

    /// The harm: users that are gone without a word, or one whose role a torn write changed.
    #[test]
    fn a_damaged_copy_is_mended_from_the_other_and_two_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let state = State::open(scratch.path()).unwrap();
        let log = Log::plain();
        assert_eq!(load(&state, &log).unwrap(), Record::default());
        let kept = record("ada");
        store(&state, &kept).unwrap();
        let whole = std::fs::read_to_string(state.path(USERS)).unwrap();
        assert_eq!(std::fs::metadata(state.path(USERS)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(state.path(USERS_COPY)).unwrap().mode() & 0o777, 0o600);
        let cut = &whole[..whole.len() - 1];
        let other = whole.replace("viewer", "admin");
        let damages = ["", "rubbish", cut, &other, "\0\0\0\0"];
        for name in [USERS, USERS_COPY] {
            for damage in damages {
                std::fs::write(state.path(name), damage).unwrap();
                assert_eq!(load(&state, &log).unwrap(), kept, "{name} {damage}");
                assert_eq!(std::fs::read_to_string(state.path(name)).unwrap(), whole, "it is not mended");
            }
            std::fs::remove_file(state.path(name)).unwrap();
            assert_eq!(load(&state, &log).unwrap(), kept);
        }
        for damage in damages {
            std::fs::write(state.path(USERS), damage).unwrap();
            std::fs::write(state.path(USERS_COPY), damage).unwrap();
            let error = load(&state, &log).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Damaged, "{damage}");
            assert_eq!(std::fs::read_to_string(state.path(USERS)).unwrap(), damage, "written over");
        }
        // The first counts where both are whole: a crash came between them.
        state.store_text(USERS, &written(&record("bob"))).unwrap();
        state.store_text(USERS_COPY, &whole).unwrap();
        assert_eq!(load(&state, &log).unwrap(), record("bob"));
        std::fs::remove_file(state.path(USERS)).unwrap();
        assert_eq!(load(&state, &log).unwrap(), record("bob"), "the copy was not brought up");
    }
}
