//! The state of an object in a few letters, for those who change what they saw (`ETag` and `If-Match`, RFC
//! 9110, sections 8.8.3 and 13.1.1).
//!
//! A tag covers what people set of an object, and not figures and states that run on by themselves: otherwise
//! a volume under load would be another one at every look.

use std::hash::{DefaultHasher, Hash, Hasher};

use ashlar_api as api;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// An object whose state has a tag.
pub(crate) trait Tagged {
    /// What it is.
    const KIND: api::ObjectKind;

    fn name(&self) -> &str;

    /// What people set of it.
    fn set(&self) -> Value;

    /// The entity tag, with its quotes.
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.set().to_string().hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

impl Tagged for api::Volume {
    const KIND: api::ObjectKind = api::ObjectKind::Volume;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        json!([
            self.name,
            self.pool,
            self.id,
            self.size_bytes,
            self.logical_block_bytes,
            self.profile,
            self.compression,
            self.dedupe,
            self.limit_bytes,
            self.reserve_bytes,
            self.requests_per_second,
            self.bytes_per_second,
            self.burst_seconds,
            self.floor_micros,
            self.class,
            self.origin,
            self.created_unix_seconds,
        ])
    }
}

impl Tagged for api::Snapshot {
    const KIND: api::ObjectKind = api::ObjectKind::Snapshot;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        json!([self.name, self.pool, self.volumes, self.created_unix_seconds, self.size_bytes, self.hold])
    }
}

impl Tagged for api::Pool {
    const KIND: api::ObjectKind = api::ObjectKind::Pool;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        let drive = |drive: &api::Drive| json!([drive.number, drive.id, drive.endurance_bytes]);
        let drives: Vec<Value> = self.drives.iter().map(drive).collect();
        json!([
            self.name,
            self.id,
            self.protection,
            drives,
            self.volume_count,
            self.snapshot_count,
            self.deleted_volume_count
        ])
    }
}

impl Tagged for api::Database {
    const KIND: api::ObjectKind = api::ObjectKind::Database;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        let grow = self.auto_grow.as_ref().map(|grow| (grow.at_percent, grow.step_percent, grow.max_bytes));
        json!([
            self.name,
            self.pool,
            self.engine,
            self.major_version,
            self.port,
            self.volumes,
            self.memory_bytes,
            self.cores,
            self.origin,
            self.created_unix_seconds,
            self.standby.as_ref().map(|standby| &standby.primary),
            self.expires_unix_seconds,
            self.start_timeout_seconds,
            grow,
            self.commands,
        ])
    }
}

impl Tagged for api::DatabaseSettings {
    const KIND: api::ObjectKind = api::ObjectKind::Database;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        json!([self.name, self.settings])
    }
}

impl Tagged for api::Schedule {
    const KIND: api::ObjectKind = api::ObjectKind::Schedule;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        json!([
            self.name,
            self.pool,
            self.databases,
            self.volumes,
            self.every_seconds,
            self.keep,
            self.prove_every_count,
            self.state == api::ScheduleState::Paused,
            self.created_unix_seconds,
        ])
    }
}

impl Tagged for api::Objective {
    const KIND: api::ObjectKind = api::ObjectKind::Objective;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        json!([
            self.name,
            self.kind,
            self.pool,
            self.p99_micros,
            self.for_percent,
            self.requests,
            self.over_seconds,
        ])
    }
}

impl Tagged for api::Host {
    const KIND: api::ObjectKind = api::ObjectKind::Host;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        json!([
            self.name,
            self.pool,
            self.initiator,
            self.chap_user,
            self.mutual_chap_user,
            self.created_unix_seconds,
        ])
    }
}

impl Tagged for api::Export {
    const KIND: api::ObjectKind = api::ObjectKind::Export;

    fn name(&self) -> &str {
        &self.volume
    }

    fn set(&self) -> Value {
        json!([self.volume, self.pool, self.unit, self.block_bytes, self.hosts, self.created_unix_seconds])
    }
}

impl Tagged for api::User {
    const KIND: api::ObjectKind = api::ObjectKind::User;

    fn name(&self) -> &str {
        &self.name
    }

    fn set(&self) -> Value {
        json!([
            self.name,
            self.role,
            self.is_disabled,
            self.created_unix_seconds,
            self.password_set_unix_seconds,
        ])
    }
}

/// What somebody who changes an object last saw of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Seen {
    /// Nothing is said of it: it may be in any state.
    #[default]
    Unsaid,
    /// It was there: `*`.
    There,
    /// It was in one of these states.
    As(Vec<String>),
}

impl Seen {
    /// Takes the values of `If-Match` apart; `None` where they are neither `*` nor a list of tags.
    pub(crate) fn parse<'a>(values: impl Iterator<Item = &'a str>) -> Option<Seen> {
        let values: Vec<&str> = values.map(str::trim).collect();
        if values == ["*"] {
            return Some(Seen::There);
        }
        let mut tags = Vec::new();
        for value in values {
            let mut rest = value;
            loop {
                let (tag, behind) = first_tag(rest)?;
                tags.push(tag.to_string());
                match behind.trim_start_matches([' ', '\t']).strip_prefix(',') {
                    Some(more) => rest = more.trim_start_matches([' ', '\t']),
                    None if behind.is_empty() => break,
                    None => return None,
                }
            }
        }
        (!tags.is_empty()).then_some(Seen::As(tags))
    }

    /// Whether the object must be looked at before it is changed.
    pub(crate) fn is_said(&self) -> bool {
        *self != Seen::Unsaid
    }

    /// Refuses an object that is not as it was seen. Weak tags are never equal.
    pub(crate) fn check<T: Tagged>(&self, object: &T) -> Result<()> {
        let tag = object.tag();
        match self {
            Seen::Unsaid | Seen::There => return Ok(()),
            Seen::As(tags) if tags.contains(&tag) => return Ok(()),
            Seen::As(_) => {}
        }
        let name = object.name();
        let word = serde_json::to_value(T::KIND).expect("kinds are plain data");
        Err(Error::new(
            api::ErrorKind::Changed,
            format!("{} `{name}` is not as it was seen: its tag is {tag}", word.as_str().unwrap_or("object")),
            "look at it again, and decide anew",
        )
        .about(T::KIND, name)
        .over_rest("get it again, decide anew, and send the `ETag` of that answer as `If-Match`"))
    }
}

/// The entity tag that a text begins with, and what stands behind it. Within its quotes it has no quotes and
/// no blanks, but it may have commas.
fn first_tag(text: &str) -> Option<(&str, &str)> {
    let opaque = text.strip_prefix("W/").unwrap_or(text).strip_prefix('"')?;
    let (inside, behind) = opaque.split_once('"')?;
    let is_good = inside.bytes().all(|byte| byte.is_ascii_graphic());
    is_good.then(|| (&text[..text.len() - behind.len()], behind))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn snapshot() -> api::Snapshot {
        api::Snapshot {
            name: "noon".to_string(),
            pool: "main".to_string(),
            volumes: vec!["db".to_string()],
            created_unix_seconds: 1,
            size_bytes: 4096,
            hold: None,
        }
    }

    #[test]
    fn a_tag_is_of_what_people_set() {
        let before = snapshot();
        let hold = Some(api::SnapshotHold { reason: "audit".to_string(), since_unix_seconds: 2 });
        let after = api::Snapshot { hold, ..before.clone() };
        assert_eq!(before.tag(), snapshot().tag());
        assert_ne!(before.tag(), after.tag());
        let tag = before.tag();
        assert!(tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    }

    #[test]
    fn only_the_state_that_was_seen_passes() {
        let seen = |value: &str| Seen::parse([value].into_iter());
        let (now, tag) = (snapshot(), snapshot().tag());
        let listed = [format!("\"x\", {tag}"), format!("  {tag} ,\"y\""), format!("\"a,b\",W/\"\",{tag}")];
        for value in ["*".to_string(), tag.clone()].iter().chain(&listed) {
            seen(value).unwrap().check(&now).unwrap();
        }
        let twice = ["\"x\"", tag.as_str()];
        Seen::parse(twice.into_iter()).unwrap().check(&now).unwrap();
        for value in ["\"x\"".to_string(), format!("W/{tag}"), "\"\"".to_string()] {
            let error = seen(&value).unwrap().check(&now).unwrap_err();
            assert_eq!(error.kind, api::ErrorKind::Changed);
            assert!(error.message.contains("snapshot `noon`") && error.message.contains(&tag), "{error}");
        }
        let wrong = ["", "x", "\"", &tag[1..], "*, \"x\"", "\"x\" \"y", "\"x\",,\"y\"", "\"x\","];
        for wrong in wrong.into_iter().chain(["W/*", "*,*", "\"a\"b\"", "\"a b\"", "\"x\";\"y\""]) {
            assert_eq!(seen(wrong), None, "{wrong}");
        }
        Seen::default().check(&now).unwrap();
        assert!(!Seen::default().is_said());
    }
}
