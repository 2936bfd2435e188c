//! Connection strings of PostgreSQL (manual, 34.1.1.2): the password is kept apart from the rest.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

/// A server elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Primary {
    /// Where it is found, without a password.
    pub url: String,
    /// Who asks it.
    pub user: String,
    /// The password of that user.
    pub password: Option<Secret>,
}

impl Primary {
    /// Takes `postgres://USER:PASSWORD@HOST:PORT/DATABASE` apart.
    ///
    /// # Errors
    /// When it is no such text. The password is in no message.
    pub fn parse(text: &str) -> Result<Primary> {
        let wrong = |why: &str| {
            Error::refused(
                format!("the address of the primary {why}"),
                "write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE",
            )
        };
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| wrong("does not begin with postgres://"))?;
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(wrong("has blanks in it: percent-encode them"));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (who, host) = authority.rsplit_once('@').ok_or_else(|| wrong("names no user"))?;
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (who, None),
        };
        if user.is_empty() {
            return Err(wrong("names no user"));
        }
        if host.is_empty() || host.contains('@') {
            return Err(wrong("names no host"));
        }
        let is_password = |part: &str| part.split('=').next().is_some_and(|key| key == "password");
        if tail.split(['?', '&']).skip(1).any(is_password) {
            return Err(wrong("has its password behind the question mark"));
        }
        let plain = |text: &str| decoded(text).ok_or_else(|| wrong("is not percent-encoded as it should be"));
        let password = password.filter(|text| !text.is_empty()).map(plain).transpose()?.map(Secret);
        Ok(Primary { url: format!("postgres://{user}@{host}{tail}"), user: plain(user)?, password })
    }

    /// The database that it names.
    #[must_use]
    pub fn database(&self) -> Option<String> {
        let tail = self.url.split_once("://")?.1.split('?').next()?;
        let (_, name) = tail.split_once('/')?;
        decoded(name).filter(|name| !name.is_empty())
    }

    /// A parameter behind the question mark.
    pub(crate) fn parameter(&self, key: &str) -> Option<String> {
        let (_, parameters) = self.url.split_once('?')?;
        let value = |one: &str| one.strip_prefix(key)?.strip_prefix('=').and_then(decoded);
        parameters.split('&').find_map(value)
    }

    /// The same with another value of a parameter that it has.
    pub(crate) fn with_instead(&self, key: &str, value: &str) -> Primary {
        let Some((front, parameters)) = self.url.split_once('?') else { return self.clone() };
        let is_it = |one: &str| one.split('=').next() == Some(key);
        let replaced =
            |one: &str| if is_it(one) { format!("{key}={}", encoded(value)) } else { one.to_string() };
        let parameters: Vec<String> = parameters.split('&').map(replaced).collect();
        Primary { url: format!("{front}?{}", parameters.join("&")), ..self.clone() }
    }

    /// The same with more parameters.
    pub(crate) fn with(&self, parameters: &[(&str, &str)]) -> String {
        parameters.iter().fold(self.url.clone(), |url, (key, value)| {
            let joint = if url.contains('?') { '&' } else { '?' };
            format!("{url}{joint}{key}={}", encoded(value))
        })
    }
}

/// Text as a part of such an address.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decoded(text: &str) -> Option<String> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_password_is_kept_apart_and_never_shown() {
        let primary =
            Primary::parse("postgresql://o%40x:p%3Aw@d@db.example:5432/app?sslmode=require").unwrap();
        assert_eq!(primary.url, "postgres://o%40x@db.example:5432/app?sslmode=require");
        assert_eq!(primary.password, Some(Secret("p:w@d".into())));
        assert_eq!((primary.user.as_str(), primary.database().as_deref()), ("o@x", Some("app")));
        assert!(!format!("{primary:?}").contains("p:w"));
        assert!(primary.with(&[("passfile", "/a b")]).ends_with("?sslmode=require&passfile=%2Fa%20b"));
        let secured =
            Primary::parse("postgres://me@h/?sslmode=verify-full&sslrootcert=%2Fa%20b&x=1").unwrap();
        assert_eq!(secured.parameter("sslrootcert").as_deref(), Some("/a b"));
        assert_eq!(secured.parameter("ssl"), None);
        let replaced = secured.with_instead("sslrootcert", "/c&d").url;
        assert!(replaced.ends_with("?sslmode=verify-full&sslrootcert=%2Fc%26d&x=1"), "{replaced}");
        let without = Primary::parse("postgres://me@[::1]:5432").unwrap();
        assert_eq!((without.password.clone(), without.database()), (None, None));
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for text in [
            "host=x password=hush",
            "http://u:hush@h/",
            "postgres://:hush@h/",
            "postgres://u:hush@/db",
            "postgres://h:5432/db?password=hush",
            "postgres://u@h/db?password=hush",
            "postgres://u:hu sh@h/db",
            "postgres://u:%zz@h/hush",
        ] {
            let error = Primary::parse(text).unwrap_err();
            assert!(
                error.is_of_request && !format!("{} {}", error.what, error.action).contains("hush"),
                "{text}"
            );
        }
    }
}
