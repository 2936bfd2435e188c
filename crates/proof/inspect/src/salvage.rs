//! Salvage: images of volumes as sparse files, with everything that still can be read and verified.
//!
//! A block that cannot be had is a hole of the file, and a range of the report. A file that exists is
//! never written over.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ashlar_format::catalogue::VolumeKind;
use ashlar_units::BLOCK_BYTES;
use serde::Serialize;

use crate::Pool;
use crate::catalogue::Image;
use crate::error::{Error, ErrorKind, Result};
use crate::image::{self, ImageCheck};
use crate::journal::JournalEnd;
use crate::redundancy::Redundancy;
use crate::report::{self, JournalReport};

/// What to save.
#[derive(Clone, Debug, Default)]
pub struct SalvageOptions {
    /// Volumes (NAME) and snapshots (VOLUME@SNAPSHOT); none: all volumes.
    pub names: Vec<String>,
    /// All snapshots besides.
    pub with_snapshots: bool,
}

/// How much was saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything, as it was when the pool stopped.
    Whole,
    /// Something is gone, or cannot be proven to be there.
    Part,
    /// Nothing.
    Nothing,
}

/// One image that was saved.
#[derive(Clone, Debug, Serialize)]
pub struct Salvaged {
    /// The file.
    pub file: PathBuf,
    /// How much of it.
    pub outcome: Outcome,
    /// What it holds, and what is gone.
    #[serde(flatten)]
    pub check: ImageCheck,
}

/// What was saved.
#[derive(Clone, Debug, Serialize)]
pub struct SalvageReport {
    /// The pool.
    pub pool: String,
    /// How much of all.
    pub outcome: Outcome,
    /// The images.
    pub images: Vec<Salvaged>,
    /// The journal that was applied. What it lacks, all images lack.
    pub journal: JournalReport,
    /// What is left of the pool's protection. It does not change the outcome: what is saved is saved.
    pub redundancy: Redundancy,
    /// What is damaged of the pool's own tables, and what a person must know.
    pub damage: Vec<String>,
    /// What is no damage and yet worth knowing.
    pub notes: Vec<String>,
}

pub(crate) fn salvage(pool: &Pool, directory: &Path, options: &SalvageOptions) -> Result<SalvageReport> {
    let chosen = choose(pool, options)?;
    std::fs::create_dir_all(directory).map_err(|error| output(directory, &error))?;
    let mut images = Vec::new();
    for image in chosen {
        let file = directory.join(file_name(&image.name()));
        let check = write(pool, image, &file)?;
        let outcome = match (check.gone.is_empty(), check.data_bytes) {
            (true, _) => Outcome::Whole,
            (false, 0) => Outcome::Nothing,
            (false, _) => Outcome::Part,
        };
        images.push(Salvaged { file, outcome, check });
    }
    let is_all_told = pool.catalogue.is_complete() || !options.names.is_empty();
    let is_current = matches!(pool.journal.end, JournalEnd::Closed | JournalEnd::Plain | JournalEnd::CutOff);
    let outcome = if images.iter().all(|image| image.outcome == Outcome::Nothing) && !is_all_told
        || !images.is_empty() && images.iter().all(|image| image.outcome == Outcome::Nothing)
    {
        Outcome::Nothing
    } else if is_all_told && is_current && images.iter().all(|image| image.outcome == Outcome::Whole) {
        Outcome::Whole
    } else {
        Outcome::Part
    };
    Ok(SalvageReport {
        pool: pool.media.storage.superblock.name.clone(),
        outcome,
        images,
        journal: report::journal(pool),
        redundancy: pool.redundancy(),
        damage: pool.damage(),
        notes: pool.notes(),
    })
}

fn choose<'a>(pool: &'a Pool, options: &SalvageOptions) -> Result<Vec<&'a Image>> {
    if let Some(name) = options.names.iter().find(|name| pool.image(name).is_none()) {
        return Err(pool.no_image(name));
    }
    let is_chosen = |image: &&Image| {
        let is_named = options.names.contains(&image.name());
        match image.entry.kind {
            VolumeKind::Volume if image.entry.deleted().is_some() => is_named,
            VolumeKind::Volume => options.names.is_empty() || is_named,
            VolumeKind::Snapshot => options.with_snapshots || is_named,
        }
    };
    Ok(pool.images().filter(is_chosen).collect())
}

fn write(pool: &Pool, image: &Image, path: &Path) -> Result<ImageCheck> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let file = opened.map_err(|error| output(path, &error))?;
    file.set_len(image.entry.size_bytes).map_err(|error| output(path, &error))?;
    let check = image::read(&pool.media, image, |block, bytes| write_block(&file, block, bytes));
    let check = check.map_err(|error| output(path, &error))?;
    file.sync_all().map_err(|error| output(path, &error))?;
    Ok(check)
}

/// Zeroes stay a hole.
fn write_block(file: &File, block: u64, bytes: &[u8]) -> std::io::Result<()> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    file.write_all_at(bytes, block * BLOCK_BYTES)
}

fn output(path: &Path, error: &std::io::Error) -> Error {
    let what = format!("write {}: {error}; name an empty directory with room", path.display());
    Error::new(ErrorKind::Output, what)
}

/// A name as a file's: the pool allows no others, but the pool may be damaged.
fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | ':');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let plain = if plain.starts_with('.') { format!("_{plain}") } else { plain };
    format!("{plain}.img")
}
