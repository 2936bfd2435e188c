//! Drives as they are found: which pool, which of its drives, which superblocks.
//!
//! Nothing is opened for writing. What a drive's ring says is believed as far as `pool` would: the newest
//! superblock of a pool with parity; of one without, the newest that a majority of its drives hold. Where
//! no majority is left, the newest of those that most of the drives hold, and the report says so.

use std::fs::{File, TryLockError};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ashlar_format::superblock::{
    CELLS_START_BYTES, DriveState, SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock,
};
use ashlar_format::{DamageKind, segment};
use ashlar_units::DriveIndex;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};

/// How long drives may be held by an array that is no more: 35 to 65 ms were measured under load.
const LINGER: Duration = Duration::from_secs(1);
/// How often to look; arbitrary, short against what is waited for.
const LINGER_STEP: Duration = Duration::from_millis(10);

/// A slot of a drive's ring.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SlotReport {
    /// Its number.
    pub slot: u64,
    /// The superblock's generation; absent when there is none.
    pub generation: Option<u64>,
    /// What is wrong with it; absent when it is whole or was never written.
    pub damage: Option<String>,
}

/// A drive of the pool, or a path that is none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DriveReport {
    /// Its number in the pool; absent when the path is no drive of it.
    pub number: Option<usize>,
    /// Where it was found; absent when it is missing.
    pub path: Option<PathBuf>,
    /// Its size as found.
    pub size_bytes: Option<u64>,
    /// What the pool's superblock says of it: `in-service`, `out`, `rebuilding`, `leaving` or `gone`.
    pub state: Option<&'static str>,
    /// Of a drive that is out or rebuilding: segments below this number are on it as they should be.
    pub stale_from: Option<u32>,
    /// What a person must know.
    pub notes: Vec<String>,
    /// The slots of its ring.
    pub slots: Vec<SlotReport>,
}

/// A path that was opened.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) file: Option<File>,
    size_bytes: u64,
    slots: Vec<SlotReport>,
    /// Valid superblocks, newest first.
    ring: Vec<Superblock>,
    notes: Vec<String>,
}

/// The drives of a pool, by number, and what was found.
pub(crate) struct Drives {
    pub(crate) superblock: Superblock,
    /// Those before it, newest first.
    pub(crate) older: Vec<Superblock>,
    pub(crate) files: Vec<Option<File>>,
    pub(crate) reports: Vec<DriveReport>,
    /// The drive that was told by being the only one missing: what it holds is not to be relied on.
    pub(crate) nameless: Option<usize>,
    /// Whether an array has one of them open.
    pub(crate) is_served: bool,
    /// Why this superblock, if that is not plain.
    pub(crate) notes: Vec<String>,
}

/// Opens paths and decides which pool they are.
pub(crate) fn open(paths: &[PathBuf]) -> Result<Drives> {
    let is_served = are_served(paths);
    let mut found: Vec<Found> = paths.iter().map(|path| find(path)).collect();
    let mut notes = Vec::new();
    let superblock = decide(&found, &mut notes)?;
    let mut older: Vec<Superblock> = found.iter().flat_map(|drive| drive.ring.clone()).collect();
    older.retain(|other| other.generation < superblock.generation);
    older.sort_by_key(|other| std::cmp::Reverse(other.generation));
    older.dedup_by_key(|other| other.generation);
    let count = superblock.drives.len();
    let mut files: Vec<Option<File>> = (0..count).map(|_| None).collect();
    let mut reports: Vec<DriveReport> = (0..count).map(|number| missing(&superblock, number)).collect();
    let mut others = Vec::new();
    for drive in &mut found {
        match number_of(drive, &superblock) {
            Some(number) if files[number].is_none() => take(drive, number, &mut files, &mut reports),
            Some(number) => {
                drive.notes.push(format!("is a copy of drive {number}, which was named before: left out"));
                others.push(unknown(drive));
            }
            None => others.push(unknown(drive)),
        }
    }
    let nameless = adopt_nameless(&mut found, &superblock, &mut files, &mut reports, &mut others);
    reports.extend(others);
    Ok(Drives { superblock, older, files, reports, nameless, is_served, notes })
}

fn find(path: &Path) -> Found {
    let mut found = Found {
        path: path.to_path_buf(),
        file: None,
        size_bytes: 0,
        slots: Vec::new(),
        ring: Vec::new(),
        notes: Vec::new(),
    };
    let opened = File::open(path).and_then(|mut file| {
        let size = file.seek(SeekFrom::End(0))?;
        Ok((file, size))
    });
    match opened {
        Ok((file, size)) => {
            found.size_bytes = size;
            read_ring(&file, &mut found);
            found.file = Some(file);
        }
        Err(error) => found.notes.push(format!("cannot be opened: {error}")),
    }
    found
}

/// Whether an array serves these drives. One that was killed holds them until what it had on its way is
/// wound up: that is waited for, or what is read is older than what is there in the end.
fn are_served(paths: &[PathBuf]) -> bool {
    let files: Vec<File> = paths.iter().filter_map(|path| File::open(path).ok()).collect();
    let end = Instant::now() + LINGER;
    loop {
        if !files.iter().any(is_locked) {
            return false;
        }
        if Instant::now() >= end {
            return true;
        }
        std::thread::sleep(LINGER_STEP);
    }
}

/// Whether an array holds a drive: it locks those that it has open, until they are closed or it ends.
fn is_locked(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // An array that starts meanwhile tries again.
            let _is_over = file.unlock();
            false
        }
        Err(error) => matches!(error, TryLockError::WouldBlock),
    }
}

fn read_ring(file: &File, found: &mut Found) {
    for slot in 0..SUPERBLOCK_SLOTS {
        let start = slot * SUPERBLOCK_BYTES as u64;
        let there = found.size_bytes.saturating_sub(start).min(SUPERBLOCK_BYTES as u64);
        let mut bytes = vec![0; there as usize];
        let read = file.read_exact_at(&mut bytes, start);
        let mut report = SlotReport { slot, generation: None, damage: None };
        match read.map(|()| Superblock::decode(&bytes)) {
            Err(error) => report.damage = Some(format!("cannot be read: {error}")),
            Ok(Ok(superblock)) => {
                report.generation = Some(superblock.generation);
                found.ring.push(superblock);
            }
            Ok(Err(damage)) if damage.kind == DamageKind::Absent && bytes.iter().all(|byte| *byte == 0) => {}
            Ok(Err(damage)) => report.damage = Some(damage.to_string()),
        }
        found.slots.push(report);
    }
    found.ring.sort_by_key(|superblock| std::cmp::Reverse(superblock.generation));
}

fn decide(found: &[Found], notes: &mut Vec<String>) -> Result<Superblock> {
    let mut all: Vec<&Superblock> = found.iter().flat_map(|drive| &drive.ring).collect();
    let Some(first) = all.first() else {
        let why: Vec<String> = found
            .iter()
            .map(|drive| {
                let what = drive.notes.first().cloned();
                format!("{} {}", drive.path.display(), what.unwrap_or("has no superblock".to_string()))
            })
            .collect();
        let what = format!("no drive carries a superblock of a pool: {}; name other drives", why.join("; "));
        return Err(Error::new(ErrorKind::NoPool, what));
    };
    if let Some(other) = all.iter().find(|other| other.pool != first.pool) {
        let (one, two) = (&first.name, &other.name);
        let what = format!("drives of pools `{one}` and `{two}` are named together: name those of one pool");
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    all.sort_by_key(|superblock| std::cmp::Reverse(superblock.generation));
    if all[0].layout.is_some() {
        return Ok(all[0].clone());
    }
    let holders = |one: &Superblock| {
        let is_same = |other: &Superblock| {
            other.generation == one.generation && other.content_hash() == one.content_hash()
        };
        let is_counted = |drive: &&Found| drive.ring.first().is_some_and(|own| !one.has_left(own.drive));
        found.iter().filter(is_counted).filter(|drive| drive.ring.iter().any(is_same)).count()
    };
    if let Some(decided) = all.iter().find(|one| one.is_majority(holders(one))) {
        return Ok((*decided).clone());
    }
    let newest = all[0].generation;
    let of_newest = all.iter().filter(|one| one.generation == newest);
    let chosen = of_newest.max_by_key(|one| holders(one)).expect("the newest is one of them");
    notes.push(format!(
        "no superblock is on a majority of the {} drives: taking generation {newest}, which is on {}",
        chosen.drive_count(),
        holders(chosen)
    ));
    Ok((*chosen).clone())
}

fn number_of(drive: &Found, superblock: &Superblock) -> Option<usize> {
    let newest = drive.ring.first()?;
    let number = usize::from(newest.drive.0);
    let own = newest.drives.get(number)?.id;
    (superblock.drives.get(number)?.id == own).then_some(number)
}

fn state_word(state: DriveState) -> &'static str {
    match state {
        DriveState::InService => "in-service",
        DriveState::Out => "out",
        DriveState::Rebuilding => "rebuilding",
        DriveState::Leaving => "leaving",
        DriveState::Gone => "gone",
    }
}

/// Whether the others hold what a drive held, or are to.
fn is_in_spare_space(superblock: &Superblock, number: usize) -> bool {
    let layout = superblock.layout.as_ref();
    layout.is_some_and(|layout| layout.spare_of(DriveIndex(number as u16)).is_some())
}

fn missing(superblock: &Superblock, number: usize) -> DriveReport {
    let state = superblock.drives[number].state;
    let is_stale = matches!(state, DriveState::Out | DriveState::Rebuilding);
    let layout = superblock.layout.as_ref().filter(|_| is_stale);
    DriveReport {
        number: Some(number),
        path: None,
        size_bytes: None,
        state: Some(match is_in_spare_space(superblock, number) {
            true if state == DriveState::InService => "spare",
            _ => state_word(state),
        }),
        stale_from: layout.map(|layout| layout.stale_from[number]),
        notes: Vec::new(),
        slots: Vec::new(),
    }
}

fn unknown(drive: &Found) -> DriveReport {
    let mut notes = drive.notes.clone();
    if drive.ring.is_empty() && drive.file.is_some() {
        notes.push("carries no superblock that is whole".to_string());
    } else if drive.file.is_some() && notes.is_empty() {
        notes.push("was a drive of the pool once and was replaced".to_string());
    }
    DriveReport {
        number: None,
        path: Some(drive.path.clone()),
        size_bytes: drive.file.is_some().then_some(drive.size_bytes),
        state: None,
        stale_from: None,
        notes,
        slots: drive.slots.clone(),
    }
}

fn take(drive: &mut Found, number: usize, files: &mut [Option<File>], reports: &mut [DriveReport]) {
    let report = &mut reports[number];
    report.path = Some(drive.path.clone());
    report.size_bytes = Some(drive.size_bytes);
    report.slots = std::mem::take(&mut drive.slots);
    report.notes.append(&mut drive.notes);
    if report.state == Some(state_word(DriveState::Gone)) {
        report.notes.push("has left the pool: nothing on it is needed".to_string());
    }
    files[number] = drive.file.take();
}

/// A drive whose whole ring is spoilt may still hold its cells. When one such is left and one drive is
/// missing, it is that one: everything read of it must prove itself anyway.
fn adopt_nameless(
    found: &mut [Found],
    superblock: &Superblock,
    files: &mut [Option<File>],
    reports: &mut [DriveReport],
    others: &mut Vec<DriveReport>,
) -> Option<usize> {
    let is_gone = |number: usize| superblock.drives[number].state == DriveState::Gone;
    let is_lost = |number: &usize| {
        files[*number].is_none() && !is_in_spare_space(superblock, *number) && !is_gone(*number)
    };
    let lost: Vec<usize> = (0..files.len()).filter(is_lost).collect();
    let nameless: Vec<usize> =
        (0..found.len()).filter(|at| found[*at].ring.is_empty() && found[*at].file.is_some()).collect();
    let ([number], [at]) = (&lost[..], &nameless[..]) else { return None };
    let cells = u64::from(superblock.drives[*number].cells);
    if found[*at].size_bytes < CELLS_START_BYTES + cells * u64::from(superblock.cell_bytes) {
        return None;
    }
    let path = found[*at].path.clone();
    others.retain(|report| report.path.as_ref() != Some(&path));
    let note = format!("carries no superblock that is whole: taken for drive {number}, the one missing");
    found[*at].notes.push(note);
    take(&mut found[*at], *number, files, reports);
    Some(*number)
}

/// How a protection is called.
pub(crate) fn protection_word(protection: segment::Protection) -> &'static str {
    match protection {
        segment::Protection::None => "none",
        segment::Protection::Single => "single",
        segment::Protection::Dual => "dual",
    }
}
