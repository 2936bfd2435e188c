//! Content that is brought back: a volume is set back to a snapshot, or its files are copied back.
//!
//! A run makes a volume, writes files, keeps them one way or the other, changes them, and brings them back.

use std::time::Duration;

use ashlar_units::ByteCount;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::formula::Names;
use crate::quantity::literal;
use crate::scale::{Preset, Scaled};

/// Arbitrary: each is a file to be opened.
const FILES_MAX: u64 = 10_000;
/// What a file system takes of a volume, and leaves free.
const FILE_SYSTEM_BYTES: u64 = 128 << 20;
/// Volumes, file systems, mounts, and to take them away again; a guess for the plan alone.
const AROUND: Duration = Duration::from_secs(2);
/// Files are written and read so fast; a guess for the plan alone.
const BYTES_PER_SECOND: f64 = 400e6;

/// The keys of `kind = "restore"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restore {
    /// Of all files together.
    data: Scaled<ByteCount>,
    #[serde(deserialize_with = "literal")]
    files: u64,
    /// Of the files: written anew behind the snapshot.
    #[serde(deserialize_with = "literal")]
    changed: f64,
    #[serde(default)]
    way: Way,
}

/// How the content comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// The array sets the volume back to a snapshot.
    #[default]
    Snapshot,
    /// All files are copied back from another volume of the pool.
    Copy,
}

/// With every value known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RestoreLoad {
    /// Of all files together.
    pub size: ByteCount,
    pub files: u64,
    /// How many of them are written anew.
    pub changed: u64,
    pub way: Way,
}

impl Restore {
    pub(crate) fn at(&self, preset: Preset, names: &Names) -> Result<RestoreLoad> {
        let size = self.data.at("data", preset, names)?;
        if !(2..=FILES_MAX).contains(&self.files) || size.0 < self.files {
            return Err(Error::file(format!("files: 2 to {FILES_MAX}, each with a byte")));
        }
        if !(0.0..=1.0).contains(&self.changed) {
            return Err(Error::file("changed is a share of the files, 100% at most"));
        }
        let changed = (self.files as f64 * self.changed).round() as u64;
        Ok(RestoreLoad { size, files: self.files, changed, way: self.way })
    }
}

impl RestoreLoad {
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.size.0 / self.files
    }

    /// Of a volume for the files, those that come and go, and the file system.
    #[must_use]
    pub fn volume_bytes(&self) -> u64 {
        self.size.0 + self.size.0 / 2 + 2 * self.file_bytes() + FILE_SYSTEM_BYTES
    }

    /// What the pool must have: the files, what changed of them, and a copy.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        3 * self.size.0 + 2 * FILE_SYSTEM_BYTES
    }

    pub(crate) fn bytes_written(&self) -> f64 {
        let copies = match self.way {
            Way::Snapshot => 0.0,
            Way::Copy => 2.0,
        };
        self.size.0 as f64 * (1.0 + copies + self.changed as f64 / self.files as f64)
    }

    pub(crate) fn run_overhead(&self) -> Duration {
        AROUND + Duration::from_secs_f64((self.bytes_written() + self.size.0 as f64) / BYTES_PER_SECOND)
    }

    /// In words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let way = match self.way {
            Way::Snapshot => "then the volume is set back to a snapshot",
            Way::Copy => "then all files are copied back from another volume of the pool",
        };
        format!(
            "{} files of {} each on a volume, of which {} are written anew, one is deleted and one comes; {way}",
            self.files,
            crate::quantity::size_about(ByteCount(self.file_bytes())),
            self.changed
        )
    }
}
