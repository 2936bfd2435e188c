//! Snapshots and a clone that an array holds of a volume while requests are made: the key `copies` of I/O.

use std::time::Duration;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::formula::Names;
use crate::scale::{Preset, Scaled};

/// Arbitrary: an array has a limit of its own.
const SNAPSHOTS_MAX: u64 = 1000;
/// So many snapshots, or fewer, have a part of the data of this share overwritten before each of them.
const PARTS_MIN: u64 = 16;
/// To take a snapshot or to make a clone, and to be rid of it; a guess for the plan alone.
const EACH: Duration = Duration::from_millis(300);
/// For the pool to come to rest behind a run; a guess for the plan alone.
const REST: Duration = Duration::from_secs(3);

/// As the file has it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Copied {
    snapshots: Option<Scaled<u64>>,
    clone: Option<CloneUse>,
}

/// What a clone of the volume is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CloneUse {
    /// Requests go to the volume that it is a clone of.
    Beside,
    /// Requests go to the clone.
    Measured,
}

/// What is held of the volume during a run, made before it and gone behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Before each of them another part of the data is overwritten, so that each holds what no other does.
    pub snapshots: u64,
    /// Of a snapshot that is taken behind the others.
    pub clone: Option<CloneUse>,
}

impl Copied {
    pub(crate) fn at(&self, preset: Preset, names: &Names) -> Result<Held> {
        let snapshots = self.snapshots.as_ref().map(|count| count.at("copies.snapshots", preset, names));
        let snapshots = snapshots.transpose()?.unwrap_or(0);
        match snapshots {
            0..=SNAPSHOTS_MAX => Ok(Held { snapshots, clone: self.clone }),
            _ => Err(Error::file(format!("copies: at most {SNAPSHOTS_MAX} snapshots"))),
        }
    }
}

impl Held {
    /// The data are overwritten in so many parts, one before each snapshot: once at most.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.snapshots.max(PARTS_MIN)
    }

    /// Of the data, before the run.
    pub(crate) fn overwritten_share(&self) -> f64 {
        self.snapshots as f64 / self.parts() as f64
    }

    pub(crate) fn overhead(&self) -> Duration {
        EACH * (self.snapshots + u64::from(self.clone.is_some())) as u32 + REST
    }

    pub(crate) fn in_words(&self) -> String {
        let snapshots = match self.snapshots {
            0 => None,
            1 => Some("1 snapshot".to_string()),
            count => Some(format!("{count} snapshots")),
        };
        let held = snapshots.map(|count| format!("{count} of the volume held, written between them"));
        let clone = self.clone.map(|of| match of {
            CloneUse::Beside => "a clone of the volume beside it".to_string(),
            CloneUse::Measured => "on a clone of the volume".to_string(),
        });
        let told: Vec<String> = [held, clone].into_iter().flatten().collect();
        if told.is_empty() { "no copies of the volume".into() } else { told.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_overwritten_once_at_most() {
        let share = |snapshots| Held { snapshots, clone: None }.overwritten_share();
        assert_eq!([share(0), share(4), share(16), share(64)], [0.0, 0.25, 1.0, 1.0]);
    }

    #[test]
    fn what_is_held_is_told() {
        let told = |snapshots, clone| Held { snapshots, clone }.in_words();
        assert_eq!(told(0, None), "no copies of the volume");
        assert_eq!(told(4, None), "4 snapshots of the volume held, written between them");
        assert_eq!(told(0, Some(CloneUse::Measured)), "on a clone of the volume");
    }
}
