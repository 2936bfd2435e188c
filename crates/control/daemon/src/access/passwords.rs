//! Hashes of passwords: Argon2id (RFC 9106), on threads of their own, two at a time.
//!
//! A hash takes memory and some tens of milliseconds on purpose. So neither the threads that answer requests
//! compute any, nor does a crowd at the door make more than two at once.

use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use super::hex;
use crate::error::{Error, Result};
use crate::token::text_by_chance;

/// What one hash costs: the first choice of OWASP's cheat sheet for passwords (19 MiB, two passes).
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const HASH_BYTES: usize = 32;
/// Hashes at once. Each takes a processor.
const AT_ONCE: usize = 2;
/// So many wait for their turn; more are told to come back. Arbitrary.
const WAITING_MAX: usize = 16;

/// What is kept of a password, with what it took: later hashes may take more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordHash {
    pub(super) memory_kib: u32,
    pub(super) passes: u32,
    /// As hexadecimal digits: their text is what is hashed.
    pub(super) salt: String,
    pub(super) hash: String,
}

/// Where passwords are hashed.
pub(crate) struct Passwords {
    places: Semaphore,
    turns: Semaphore,
    /// Is compared with where there is no user: to take as long.
    nobodys: PasswordHash,
}

impl Passwords {
    pub(super) fn new() -> Result<Passwords> {
        let nobodys = PasswordHash {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: text_by_chance()?,
            hash: text_by_chance()?,
        };
        Ok(Passwords { places: Semaphore::new(WAITING_MAX), turns: Semaphore::new(AT_ONCE), nobodys })
    }

    /// What is to be kept of a password.
    pub(crate) async fn hash(&self, password: String) -> Result<PasswordHash> {
        let salt = text_by_chance()?;
        let made = PasswordHash { memory_kib: MEMORY_KIB, passes: PASSES, salt, hash: String::new() };
        let hash = self.computed(password, made.clone()).await?;
        Ok(PasswordHash { hash, ..made })
    }

    /// Whether this is the password. Takes as long where there is no user, and says no.
    pub(crate) async fn is(&self, password: String, kept: Option<PasswordHash>) -> Result<bool> {
        let is_known = kept.is_some();
        let kept = kept.unwrap_or_else(|| self.nobodys.clone());
        let hash = self.computed(password, kept.clone()).await?;
        let is_right: bool = hash.as_bytes().ct_eq(kept.hash.as_bytes()).into();
        Ok(is_right && is_known)
    }

    async fn computed(&self, password: String, with: PasswordHash) -> Result<String> {
        let _place = self.places.try_acquire().map_err(|_| Error::overloaded())?;
        let _turn = self.turns.acquire().await.map_err(|_| Error::stopping())?;
        let computed = tokio::task::spawn_blocking(move || compute(&password, &with));
        computed.await.unwrap_or_else(|_| Err(Error::stopping()))
    }
}

fn compute(password: &str, with: &PasswordHash) -> Result<String> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::new(
            ashlar_api::ErrorKind::Medium,
            format!("hash of a password: {why}"),
            "give the user another password; where that fails too this machine lacks memory",
        )
    };
    let params =
        Params::new(with.memory_kib, with.passes, 1, Some(HASH_BYTES)).map_err(|error| wrong(&error))?;
    let mut hash = [0; HASH_BYTES];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password.as_bytes(), with.salt.as_bytes(), &mut hash)
        .map_err(|error| wrong(&error))?;
    Ok(hex(&hash))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The value is that of the reference program: `argon2 somesalt -id -t 2 -k 64 -p 1`.
    #[test]
    fn a_hash_is_argon2id() {
        let with =
            PasswordHash { memory_kib: 64, passes: 2, salt: "somesalt".to_string(), hash: String::new() };
        let hash = compute("correct horse", &with).unwrap();
        assert_eq!(hash, "7cbb7c138fbb7527e5863b28a7c6e68df3bc313267b8ee65e10d17ac35011026");
        assert!(compute("x", &PasswordHash { memory_kib: 1, ..with }).is_err());
    }

    #[tokio::test]
    async fn only_the_right_password_of_a_user_passes() {
        let passwords = Passwords::new().unwrap();
        let kept = passwords.hash("correct horse".to_string()).await.unwrap();
        let again = passwords.hash("correct horse".to_string()).await.unwrap();
        assert!(kept.salt != again.salt && kept.hash != again.hash && kept.hash.len() == 64);
        assert!(passwords.is("correct horse".to_string(), Some(kept.clone())).await.unwrap());
        assert!(!passwords.is("correct horsf".to_string(), Some(kept.clone())).await.unwrap());
        assert!(!passwords.is(String::new(), Some(kept)).await.unwrap());
        assert!(!passwords.is("correct horse".to_string(), None).await.unwrap());
    }

    #[tokio::test]
    async fn a_crowd_is_told_to_come_back() {
        let passwords = Passwords::new().unwrap();
        let all: Vec<_> = (0..WAITING_MAX).map(|_| passwords.places.try_acquire().unwrap()).collect();
        let error = passwords.is("x".to_string(), None).await.unwrap_err();
        assert_eq!(error.reason, Some(ashlar_api::Reason::Overloaded));
        drop(all);
        assert!(!passwords.is("x".to_string(), None).await.unwrap());
    }
}
