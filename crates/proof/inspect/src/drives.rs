//! Drives as they are found: which pool, which of its drives, which superblocks.
//!
//! Nothing is opened for writing. What a drive's ring says is believed as far as `pool` would: the newest
//! superblock of a pool with parity; of one without, the newest that a majority of its drives hold. Where
//! no majority is left, the newest of those that most of the drives hold, and the report says so.

use std::path::PathBuf;

use ashlar_format::superblock::{
    CELLS_START_BYTES, DriveState, SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock,
};
use ashlar_format::{DamageKind, segment};
use ashlar_units::DriveIndex;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::redundancy::Standing;
use crate::source::{NamedSource, Source};

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
struct Found {
    path: PathBuf,
    source: Option<Box<dyn Source>>,
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
    pub(crate) sources: Vec<Option<Box<dyn Source>>>,
    pub(crate) reports: Vec<DriveReport>,
    /// How far each is to be relied on.
    pub(crate) standings: Vec<Standing>,
    /// Why this superblock, if that is not plain.
    pub(crate) notes: Vec<String>,
}

/// Decides which pool these drives are.
pub(crate) fn open(named: Vec<NamedSource>) -> Result<Drives> {
    let mut found: Vec<Found> = named.into_iter().map(find).collect();
    let mut notes = Vec::new();
    let superblock = decide(&found, &mut notes)?;
    let mut older: Vec<Superblock> = found.iter().flat_map(|drive| drive.ring.clone()).collect();
    older.retain(|other| other.generation < superblock.generation);
    older.sort_by_key(|other| std::cmp::Reverse(other.generation));
    older.dedup_by_key(|other| other.generation);
    let count = superblock.drives.len();
    let mut sources: Vec<Option<Box<dyn Source>>> = (0..count).map(|_| None).collect();
    let mut reports: Vec<DriveReport> = (0..count).map(|number| missing(&superblock, number)).collect();
    let mut standings: Vec<Standing> = (0..count).map(|_| Standing::Missing).collect();
    let mut others = Vec::new();
    for drive in &mut found {
        match number_of(drive, &superblock) {
            Some(number) if sources[number].is_none() => {
                standings[number] = standing_of(drive, number, &superblock);
                take(drive, number, &mut sources, &mut reports);
            }
            Some(number) => {
                drive.notes.push(format!("is a copy of drive {number}, which was named before: left out"));
                others.push(unknown(drive));
            }
            None => others.push(unknown(drive)),
        }
    }
    if let Some(number) = adopt_nameless(&mut found, &superblock, &mut sources, &mut reports, &mut others) {
        standings[number] = Standing::Nameless;
    }
    for (number, standing) in standings.iter_mut().enumerate() {
        if superblock.drives[number].state == DriveState::Gone {
            *standing = Standing::Gone;
        } else if *standing == Standing::Missing && is_in_spare_space(&superblock, number) {
            *standing = away(&superblock, number).unwrap_or(Standing::Sound);
        }
    }
    reports.extend(others);
    Ok(Drives { superblock, older, sources, reports, standings, notes })
}

/// How far a drive that was found is to be relied on. One whose superblocks end before the one that it is
/// known to have held was not there, or was put back as it once was. That it lacks later ones says nothing:
/// each crash may have cut one off, and without protection a majority goes on without a drive's superblock.
fn standing_of(drive: &Found, number: usize, superblock: &Superblock) -> Standing {
    if let Some(away) = away(superblock, number) {
        return away;
    }
    let Some(own) = drive.ring.first() else { return Standing::Nameless };
    if drive.size_bytes < needed_bytes(superblock, number) {
        return Standing::Short;
    }
    // As the engine judges it: a crash loses a drive at most the superblock that was being written.
    if own.generation >= superblock.drives[number].confirmed {
        return Standing::Sound;
    }
    let stale_from = own.layout.as_ref().map_or(0, |layout| layout.settled_below);
    Standing::OutOfDate { generation: own.generation, stale_from }
}

/// What the pool's superblock says of a drive that is not in service.
fn away(superblock: &Superblock, number: usize) -> Option<Standing> {
    let stale_from = superblock.layout.as_ref().map_or(0, |layout| layout.stale_from[number]);
    match superblock.drives[number].state {
        DriveState::Out => Some(Standing::Out { stale_from }),
        DriveState::Rebuilding => Some(Standing::Rebuilding { stale_from }),
        DriveState::InService | DriveState::Leaving | DriveState::Gone => None,
    }
}

fn needed_bytes(superblock: &Superblock, number: usize) -> u64 {
    let cells = u64::from(superblock.drives[number].cells);
    CELLS_START_BYTES + cells * u64::from(superblock.cell_bytes)
}

fn find(named: NamedSource) -> Found {
    let NamedSource { path, source } = named;
    let mut found =
        Found { path, source: None, size_bytes: 0, slots: Vec::new(), ring: Vec::new(), notes: Vec::new() };
    match source {
        Ok(source) => {
            found.size_bytes = source.size_bytes();
            read_ring(&*source, &mut found);
            found.source = Some(source);
        }
        Err(error) => found.notes.push(format!("cannot be opened: {error}")),
    }
    found
}

fn read_ring(source: &dyn Source, found: &mut Found) {
    for slot in 0..SUPERBLOCK_SLOTS {
        let start = slot * SUPERBLOCK_BYTES as u64;
        let there = found.size_bytes.saturating_sub(start).min(SUPERBLOCK_BYTES as u64);
        let mut bytes = vec![0; there as usize];
        let read = source.read_exact_at(&mut bytes, start);
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
    let Some(first) = all.first().copied() else {
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
    drop_unfinished_growth(&mut all);
    // Of two with one generation the later opening's: the other may be of drives that were being added when
    // the pool stopped, and of which it knows nothing since.
    all.sort_by_key(|superblock| std::cmp::Reverse((superblock.generation, superblock.session)));
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
        let may_be_decided = |one: &&&Superblock| one.is_majority(holders(one) + absent_of(one, found));
        let newer = all.iter().take_while(|one| one.generation > decided.generation).find(may_be_decided);
        if let Some(newer) = newer {
            notes.push(format!(
                "generation {} is on {} of {} drives, and others of them carry no superblock: what is told here is \
                 generation {}, which may be older than the pool",
                newer.generation,
                holders(newer),
                newer.drive_count(),
                decided.generation
            ));
        }
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

/// Drives that a superblock counts on and nobody found.
fn absent_of(superblock: &Superblock, found: &[Found]) -> usize {
    let is_found = |number: &usize| found.iter().any(|drive| number_of(drive, superblock) == Some(*number));
    let counted =
        (0..superblock.drives.len()).filter(|number| superblock.drives[*number].state != DriveState::Gone);
    counted.filter(|number| !is_found(number)).count()
}

/// Drives that join hold the first superblock that names them before any other does: while no older drive
/// tells of them, theirs do not count. Where all older drives have left since, none can tell.
fn drop_unfinished_growth(all: &mut Vec<&Superblock>) {
    loop {
        let most = all.iter().map(|superblock| superblock.drives.len()).max().unwrap_or(0);
        let counts = all.iter().map(|superblock| superblock.drives.len());
        let Some(before) = counts.filter(|count| *count < most).max() else { return };
        let is_told = |superblock: &&&Superblock| {
            let have_left =
                || superblock.drives[..before].iter().all(|entry| entry.state == DriveState::Gone);
            superblock.drives.len() == most && (usize::from(superblock.drive.0) < before || have_left())
        };
        if all.iter().any(|superblock| is_told(&superblock)) {
            return;
        }
        all.retain(|superblock| superblock.drives.len() < most);
    }
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
    if drive.ring.is_empty() && drive.source.is_some() {
        notes.push("carries no superblock that is whole".to_string());
    } else if drive.source.is_some() && notes.is_empty() {
        notes.push("was a drive of the pool once and was replaced".to_string());
    }
    DriveReport {
        number: None,
        path: Some(drive.path.clone()),
        size_bytes: drive.source.is_some().then_some(drive.size_bytes),
        state: None,
        stale_from: None,
        notes,
        slots: drive.slots.clone(),
    }
}

fn take(
    drive: &mut Found,
    number: usize,
    sources: &mut [Option<Box<dyn Source>>],
    reports: &mut [DriveReport],
) {
    let report = &mut reports[number];
    report.path = Some(drive.path.clone());
    report.size_bytes = Some(drive.size_bytes);
    report.slots = std::mem::take(&mut drive.slots);
    report.notes.append(&mut drive.notes);
    if report.state == Some(state_word(DriveState::Gone)) {
        report.notes.push("has left the pool: nothing on it is needed".to_string());
    }
    sources[number] = drive.source.take();
}

/// A drive whose whole ring is spoilt may still hold its cells. When one such is left and one drive is
/// missing, it is that one: everything read of it must prove itself anyway.
fn adopt_nameless(
    found: &mut [Found],
    superblock: &Superblock,
    sources: &mut [Option<Box<dyn Source>>],
    reports: &mut [DriveReport],
    others: &mut Vec<DriveReport>,
) -> Option<usize> {
    let is_gone = |number: usize| superblock.drives[number].state == DriveState::Gone;
    let is_lost = |number: &usize| {
        sources[*number].is_none() && !is_in_spare_space(superblock, *number) && !is_gone(*number)
    };
    let lost: Vec<usize> = (0..sources.len()).filter(is_lost).collect();
    let nameless: Vec<usize> =
        (0..found.len()).filter(|at| found[*at].ring.is_empty() && found[*at].source.is_some()).collect();
    let ([number], [at]) = (&lost[..], &nameless[..]) else { return None };
    if found[*at].size_bytes < needed_bytes(superblock, *number) {
        return None;
    }
    let path = found[*at].path.clone();
    others.retain(|report| report.path.as_ref() != Some(&path));
    let note = format!("carries no superblock that is whole: taken for drive {number}, the one missing");
    found[*at].notes.push(note);
    take(&mut found[*at], *number, sources, reports);
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
