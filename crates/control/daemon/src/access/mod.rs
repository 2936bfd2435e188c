//! Users and tokens of the array: who they are, what they may, and whether what somebody shows is theirs.
//!
//! They are kept in the state directory and not in a pool: somebody must be let in before a pool opens. While
//! their file is damaged nobody but the peer of the socket and the holder of the token file is let in, and
//! nothing is written over it.

mod attempts;
mod passwords;
mod record;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use ashlar_api::{ErrorKind, Reason};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Notify;

use crate::asker::{Asker, Who};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::places::Caller;
use crate::state::State;
use crate::token::text_by_chance;

pub(crate) use attempts::Attempts;
pub(crate) use passwords::{PasswordHash, Passwords};
pub(crate) use record::{Record, TOKENS_MAX, TokenRecord, USERS_MAX, UserRecord};

/// What each of our tokens begins with: programs that look for secrets know it by that.
const TOKEN_PREFIX: &str = "ashlar_";
/// A use is noted anew after so long. Arbitrary: what people want to know of it is days.
const USE_SECONDS: u64 = 60;

/// The users and tokens.
pub(crate) struct Access {
    record: RwLock<Record>,
    /// Why nobody is let in, and nothing is changed.
    damage: Option<Error>,
    pub(crate) passwords: Passwords,
    attempts: Mutex<Attempts>,
    uses: Mutex<Uses>,
    /// Users or tokens changed.
    pub(crate) changed: Notify,
}

/// When users logged in and tokens were shown last, by `user NAME` and `token NAME`.
#[derive(Default)]
struct Uses {
    seconds: BTreeMap<String, u64>,
    is_changed: bool,
}

impl Access {
    /// Those that the state directory has.
    pub(crate) fn load(state: &State, log: &Log) -> Result<Access> {
        let (record, damage) = match record::load(state, log) {
            Ok(record) => (record, None),
            Err(error) => {
                log.error("access", format!("no user and no token is let in: {error}"));
                (Record::default(), Some(error))
            }
        };
        let seconds = state.load_uses().unwrap_or_else(|error| {
            log.warning("access", format!("when users and tokens were used last: {error}"));
            BTreeMap::new()
        });
        Ok(Access {
            record: RwLock::new(record),
            damage,
            passwords: Passwords::new()?,
            attempts: Mutex::default(),
            uses: Mutex::new(Uses { seconds, is_changed: false }),
            changed: Notify::new(),
        })
    }

    fn record(&self) -> RwLockReadGuard<'_, Record> {
        self.record.read().expect("no holder of this lock panics")
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().expect("no holder of this lock panics")
    }

    /// The failed logins.
    pub(crate) fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().expect("no holder of this lock panics")
    }

    /// Refuses where it is not known who they are.
    pub(crate) fn check_known(&self) -> Result<()> {
        self.damage.clone().map_or(Ok(()), Err)
    }

    /// Every user.
    pub(crate) fn users(&self) -> Vec<UserRecord> {
        self.record().user.clone()
    }

    /// Every token.
    pub(crate) fn tokens(&self) -> Vec<TokenRecord> {
        self.record().token.clone()
    }

    /// Whether there is a user or a token that opens anything.
    pub(crate) fn lets_anybody_in(&self) -> bool {
        let (record, now) = (self.record(), unix_seconds());
        record.user.iter().any(|user| !user.is_disabled)
            || record.token.iter().any(|token| !token.is_expired(now))
    }

    /// A user of this name.
    pub(crate) fn user(&self, name: &str) -> Option<UserRecord> {
        self.record().user.iter().find(|user| user.name == name).cloned()
    }

    /// Changes what is kept; durable when this returns. The caller holds the turn of changes.
    pub(crate) fn change<T>(
        &self,
        state: &State,
        change: impl FnOnce(&mut Record) -> Result<T>,
    ) -> Result<T> {
        self.check_known()?;
        let mut newer = self.record().clone();
        let changed = change(&mut newer)?;
        record::store(state, &newer)?;
        *self.record.write().expect("no holder of this lock panics") = newer;
        self.changed.notify_waiters();
        Ok(changed)
    }

    /// What somebody may who was let in as this: nothing once the user or the token is another or gone.
    pub(crate) fn asker(&self, who: &Who) -> Option<Asker> {
        let record = self.record();
        let person =
            |role, only| Asker { who: who.clone(), caller: Caller::Person, role, only, session: None };
        match who {
            Who::Peer { uid, caller } => Some(Asker::at_socket(*uid, *caller)),
            Who::File => Some(Asker::with_file(None)),
            Who::User { name, stamp } => {
                let user = record.user.iter().find(|user| user.name == *name && user.stamp == *stamp);
                user.filter(|user| !user.is_disabled).map(|user| person(user.role, None))
            }
            Who::Token { name, stamp } => {
                let token = record.token.iter().find(|token| token.name == *name && token.stamp == *stamp);
                let token = token.filter(|token| !token.is_expired(unix_seconds()));
                token.map(|token| person(token.role, token.only))
            }
        }
    }

    /// Whose token somebody shows: `None` where it is nobody's, an error where its end has come.
    pub(crate) fn holder(&self, shown: &str) -> Option<Result<Asker>> {
        let hash = hash_of(shown);
        let found = {
            let record = self.record();
            // All are looked at, so that time does not tell which one.
            let mut found = None;
            for token in &record.token {
                if bool::from(token.hash.as_bytes().ct_eq(hash.as_bytes())) {
                    found = Some(token.clone());
                }
            }
            found?
        };
        if found.is_expired(unix_seconds()) {
            return Some(Err(expired(&found.name)));
        }
        self.note_use(&format!("token {}", found.name));
        self.asker(&Who::Token { name: found.name, stamp: found.stamp }).map(Ok)
    }

    /// A user logged in, or a token was shown.
    pub(crate) fn note_use(&self, name: &str) {
        let now = unix_seconds();
        let mut uses = self.uses();
        let is_new = uses.seconds.get(name).is_none_or(|last| now.abs_diff(*last) >= USE_SECONDS);
        if is_new {
            uses.seconds.insert(name.to_string(), now);
            uses.is_changed = true;
        }
    }

    /// When it was used last.
    pub(crate) fn last_use(&self, name: &str) -> Option<u64> {
        self.uses().seconds.get(name).copied()
    }

    /// It is gone: one of the same name was never used.
    pub(crate) fn forget_use(&self, name: &str) {
        let mut uses = self.uses();
        uses.is_changed |= uses.seconds.remove(name).is_some();
    }

    /// Writes down what was used, if anything was.
    pub(crate) fn store_uses(&self, state: &State) -> Result<()> {
        let seconds = {
            let mut uses = self.uses();
            if !std::mem::take(&mut uses.is_changed) {
                return Ok(());
            }
            uses.seconds.clone()
        };
        state.store_uses(&seconds)
    }
}

/// A secret for a new token, and what is kept of it.
pub(crate) fn new_secret() -> Result<(String, String)> {
    let chance = text_by_chance()?;
    let secret = format!("{TOKEN_PREFIX}{chance}");
    let hash = hash_of(&secret);
    Ok((secret, hash))
}

/// Of 256 bits of chance a plain hash is enough: nobody tries them out.
fn hash_of(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn expired(name: &str) -> Error {
    Error::new(
        ErrorKind::Unauthorized,
        format!("the end of token `{name}` has come"),
        format!("`ashlar token delete {name}`, and make another with `ashlar token create`"),
    )
    .because(Reason::TokenExpired)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ashlar_api::{Role, TokenScope};

    use super::*;

    fn token(name: &str, hash: String, expires_unix_seconds: Option<u64>) -> TokenRecord {
        TokenRecord {
            name: name.to_string(),
            stamp: 7,
            role: Role::Operator,
            only: Some(TokenScope::Snapshots),
            hash,
            created_unix_seconds: 1,
            created_by: "uid 0".to_string(),
            expires_unix_seconds,
        }
    }

    #[test]
    fn a_token_is_known_by_its_secret_and_opens_nothing_behind_its_end() {
        let scratch = tempfile::tempdir().unwrap();
        let state = State::open(scratch.path()).unwrap();
        let log = Log::plain();
        let access = Access::load(&state, &log).unwrap();
        let ((secret, hash), (old_secret, old_hash)) = (new_secret().unwrap(), new_secret().unwrap());
        assert!(secret.starts_with("ashlar_") && secret.len() == 71 && !hash.contains(&secret[7..]));
        access
            .change(&state, |record| {
                record.token = vec![token("backup", hash, None), token("old", old_hash, Some(5))];
                Ok(())
            })
            .unwrap();
        let found = access.holder(&secret).unwrap().unwrap();
        assert_eq!((found.role, found.only), (Role::Operator, Some(TokenScope::Snapshots)));
        assert!(access.last_use("token backup").is_some());
        for wrong in ["", "ashlar_", &secret[..70], &secret.to_uppercase()] {
            assert!(access.holder(wrong).is_none(), "{wrong}");
        }
        let error = access.holder(&old_secret).unwrap().unwrap_err();
        assert_eq!(error.reason, Some(Reason::TokenExpired));
        // Another array finds them, and when they were used.
        access.store_uses(&state).unwrap();
        let again = Access::load(&state, &log).unwrap();
        assert!(again.holder(&secret).is_some() && again.last_use("token backup").is_some());
        let text = std::fs::read_to_string(state.path("users.toml")).unwrap();
        assert!(!text.contains(&secret[7..]), "the secret is kept: {text}");
        // One of the same name that was made anew is another one.
        let who = found.who;
        again
            .change(&state, |record| {
                record.token[0].stamp = 8;
                Ok(())
            })
            .unwrap();
        assert!(access.asker(&who).is_some() && again.asker(&who).is_none());
    }
}
