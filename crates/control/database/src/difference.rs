//! What differs between two copies of databases of the same kind, by file: only pages that may differ are
//! read.
//!
//! ```text
//! recover          each copy's server replays its log and stops; what it wrote is on its volumes
//! (the array)      the maps of each two volumes: the pieces that are not stored at the same place
//! compare          of each two files: pages that lie in such a piece, or at different places, are read
//! name             each copy's server is asked which relation the files that differ belong to
//! ```

mod extents;
mod files;
mod pages;
mod relations;

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::postgres::failed;
use crate::progress::Teller;
use crate::record::Role;
use crate::site::Site;
use files::{Found, files};
use pages::{PAGE_BYTES, compare_pages, suspects};

pub use relations::{FilesChanged, Named, RelationChanged, State, by_relation, stems};
pub(crate) use relations::{name_files, recover};

/// Pieces of two volumes of one role that may differ, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pieces {
    /// What is on them.
    pub role: Role,
    /// Bytes from the beginning of the volume.
    pub pieces: Vec<Range<u64>>,
}

/// A file that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileDifference {
    /// As PostgreSQL names it, from its data directory on.
    pub path: String,
    /// Only one of the two has it.
    pub only: Option<Side>,
    /// Pages that differ, or all that it has.
    pub pages: u64,
}

/// One of two databases that are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The first that was named.
    A,
    /// The second.
    B,
}

/// Two files of one name, and where they may differ.
struct Pair {
    path: String,
    a: PathBuf,
    b: PathBuf,
    /// Pages beyond the end of the shorter one.
    pages_beyond: u64,
    suspects: Vec<Range<u64>>,
}

/// Compares the files of two databases whose servers do not run.
pub(crate) fn compare(a: &Site, b: &Site, changed: &[Pieces]) -> Result<Vec<FileDifference>> {
    let mut teller = Teller::new(a);
    teller.stage("find what differs", 0)?;
    let (of_a, of_b) = (files(a)?, files(b)?);
    let paths: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
    let (mut differences, mut pairs) = (Vec::new(), Vec::new());
    for path in paths {
        let (a, b) = match (of_a.get(path), of_b.get(path)) {
            (Some(a), Some(b)) => (a, b),
            (Some(found), None) => {
                differences.push(only(path, Side::A, found)?);
                continue;
            }
            (None, found) => {
                differences.extend(found.map(|found| only(path, Side::B, found)).transpose()?);
                continue;
            }
        };
        pairs.extend(pair(path, a, b, changed)?);
        teller.done(0)?;
    }
    let suspected = pairs.iter().flat_map(|pair| &pair.suspects).map(|range| range.end - range.start).sum();
    teller.stage("compare pages", suspected)?;
    for Pair { path, a, b, pages_beyond, suspects } in pairs {
        let pages = pages_beyond + compare_pages(&open(&a)?, &open(&b)?, &suspects, &mut teller)?;
        if pages > 0 {
            differences.push(FileDifference { path, only: None, pages });
        }
    }
    differences.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(differences)
}

fn pair(path: &str, a: &Found, b: &Found, changed: &[Pieces]) -> Result<Option<Pair>> {
    let changed = match changed.iter().find(|one| one.role == a.role && a.role == b.role) {
        // Neither the files nor what tells where they lie.
        Some(same) if same.pieces.is_empty() => return Ok(None),
        // On volumes of different roles nothing is at the same place.
        found => found.map(|found| found.pieces.as_slice()),
    };
    let (a_bytes, b_bytes) = (bytes(&a.path)?, bytes(&b.path)?);
    // Where they end differently the page in which the shorter one ends counts as beyond it.
    let (shared_bytes, pages_beyond) = match a_bytes == b_bytes {
        true => (a_bytes, 0),
        false => {
            let shared_pages = a_bytes.min(b_bytes) / PAGE_BYTES;
            (shared_pages * PAGE_BYTES, a_bytes.max(b_bytes).div_ceil(PAGE_BYTES) - shared_pages)
        }
    };
    let suspects = match changed {
        None => vec![0..shared_bytes],
        Some(changed) => {
            let (extents_a, extents_b) = (extents::of(&open(&a.path)?), extents::of(&open(&b.path)?));
            let extents_a = extents_a.map_err(|error| failed("find where it lies:", &a.path, &error))?;
            let extents_b = extents_b.map_err(|error| failed("find where it lies:", &b.path, &error))?;
            suspects(&extents_a, &extents_b, shared_bytes, changed)
        }
    };
    let may_differ = pages_beyond > 0 || suspects.iter().any(|range| !range.is_empty());
    let (path, a, b) = (path.to_string(), a.path.clone(), b.path.clone());
    Ok(may_differ.then_some(Pair { path, a, b, pages_beyond, suspects }))
}

fn only(path: &str, side: Side, found: &Found) -> Result<FileDifference> {
    let pages = bytes(&found.path)?.div_ceil(PAGE_BYTES);
    Ok(FileDifference { path: path.to_string(), only: Some(side), pages })
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| failed("open", path, &error))
}

fn bytes(path: &Path) -> Result<u64> {
    path.metadata().map(|found| found.len()).map_err(|error| failed("look at", path, &error))
}
