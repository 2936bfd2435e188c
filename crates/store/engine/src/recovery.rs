//! Opening a pool: a table of named steps, from superblocks to the first new checkpoint.
//!
//! Its time depends on the journal since the last checkpoint and on the tables, never on the size of
//! volumes or the number of blocks in snapshots. It only reads until its last step; a crash before
//! that changes nothing, a crash in it is a crash in a checkpoint.
//!
//! After a crash nothing goes on where the life before stopped: writes of it may still be on their way
//! there. Its open segments are sealed at the end of what counts in them. Only after a clean close, when
//! nothing was in flight, do the journal and the stream of page records go on in theirs, and before they do a
//! superblock says that the pool is open: an address is written once, however often an opening is cut off.
//! Where nothing was replayed that superblock is all there is to write. So openings that are cut off, or
//! followed by nothing, use up no segment.

use std::cell::RefCell;

use ashlar_format::group::Record;
use ashlar_format::pointer::{PLACE_UNIT_BYTES, SEGMENT_BYTES_MAX};
use ashlar_format::segment::{SegmentEntry, SegmentKind, SegmentState};
use ashlar_format::superblock::{FeatureClass, JournalPosition, Superblock};
use ashlar_journal::{Replay, ReplayEnd, WINDOW};
use ashlar_map::PageArena;
use ashlar_pool::Pool;
use ashlar_runtime::Runtime;
use ashlar_units::{Fault, Lsn, SegmentId, planted};

use crate::apply::Tree;
use crate::catalogue::Catalogue;
use crate::checkpoint::{Applied, Checkpointer, Cut};
use crate::engine::Parts;
use crate::info::RecoveryReport;
use crate::media::Media;
use crate::metadata::read_located;
use crate::notebook::{self, Notebook};
use crate::relocations::Relocations;
use crate::tables::{Located, TableDirectory, Tables};
use crate::{Error, ErrorKind, Result, Settings};

/// Times the steps.
struct Steps {
    runtime: Runtime,
    report: RecoveryReport,
}

impl Steps {
    async fn run<T>(&mut self, name: &str, step: impl Future<Output = Result<T>>) -> Result<T> {
        let start = self.runtime.now();
        let result = step.await;
        let micros = self.runtime.now().duration_since(start).as_micros() as u64;
        self.report.steps.push((name.to_string(), micros));
        result.map_err(|error| Error { context: format!("{name}: {}", error.context), ..error })
    }
}

/// Opens the pool on these drives.
pub(crate) async fn recover(runtime: &Runtime, drives: &[String], settings: Settings) -> Result<Parts> {
    if drives.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "no drive is named"));
    }
    let start = runtime.now();
    let mut steps = Steps { runtime: runtime.clone(), report: RecoveryReport::default() };
    let pool = steps
        .run("read superblocks", async { Ok(Pool::open(runtime, drives, &settings.opening).await?) })
        .await?;
    let mut tables = Tables::new();
    steps.run("load segment table", load_segment_table(&pool, &mut tables)).await?;
    let adopted = steps.run("probe frontier", async { Ok(pool.adopt_frontier().await?) }).await?;
    let arena = PageArena::new(settings.map_cache_bytes as usize);
    let born_next = birth_place_of(&pool.superblock().journal);
    let (catalogue, notebook) = (Catalogue::default(), Notebook::default());
    let tree = RefCell::new(Tree { arena, catalogue, notebook, born_next });
    let media = Media::new(&pool, Relocations::new(settings.map_cache_bytes / 8));
    steps.run("load relocation table", media.load_relocations(pool.superblock().relocation_table)).await?;
    steps.run("load volume table", load_volume_table(&media, &mut tables, &tree)).await?;
    let superblock = pool.superblock();
    tree.borrow_mut().notebook =
        steps.run("load notebook", notebook::load(&media, &superblock, &mut tables)).await?;
    let end = steps.run("replay journal", replay_journal(&media, &tree, &superblock)).await?;
    let of_notes =
        steps.run("check notes", async { notebook::refuse_unknown(&tree.borrow().notebook) }).await?;
    steps.report.groups_replayed = end.groups;
    steps.report.records_replayed = end.records;
    let mut checkpointer = Checkpointer::new(&media, tables);
    let mut only_read = only_read_for(&superblock).or(of_notes);
    let must_only_read = only_read.is_some();
    let taken = match only_read {
        Some(_) => None,
        None => match take_over(&pool, &end, &adopted, &mut steps, &mut checkpointer, &tree).await {
            Ok(taken) => Some(taken),
            Err(error) if settings.may_only_read && is_of_writing(&pool, &error) => {
                only_read = Some(error.context);
                None
            }
            Err(error) => return Err(error),
        },
    };
    let (applied, resume_offset) = taken.unwrap_or_else(|| {
        pool.only_read();
        (Applied { end: end.position, next_lsn: end.next_lsn }, None)
    });
    steps.report.millis = runtime.now().duration_since(start).as_millis() as u64;
    Ok(Parts {
        runtime: runtime.clone(),
        media,
        settings,
        tree,
        applied,
        resume_offset,
        checkpointer,
        recovery: steps.report,
        only_read,
        must_only_read,
    })
}

/// No chunk that is journalled from there on is born before this ([`ashlar_format::Pointer::birth_place`]).
fn birth_place_of(position: &JournalPosition) -> u64 {
    let offset = position.offset_bytes.min(SEGMENT_BYTES_MAX - 1);
    (u64::from(position.segment.0) * SEGMENT_BYTES_MAX + offset) / PLACE_UNIT_BYTES
}

/// Whether all that failed is that drives take no writes: what was replayed is in memory and can be read.
fn is_of_writing(pool: &Pool, error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Medium | ErrorKind::NoSpace) && pool.taken_over().is_none()
}

/// Makes the pool this opening's: claims it, says where the journal goes on, and makes that durable.
async fn take_over(
    pool: &Pool,
    end: &ReplayEnd,
    adopted: &[SegmentId],
    steps: &mut Steps,
    checkpointer: &mut Checkpointer,
    tree: &RefCell<Tree>,
) -> Result<(Applied, Option<u64>)> {
    pool.begin_session();
    steps.run("claim the pool", async { Ok(pool.claim().await?) }).await?;
    let resume = if pool.superblock().is_clean {
        resume_segments(pool, end, checkpointer)
    } else {
        seal_segments(pool, end, adopted);
        None
    };
    // Sequence numbers jump over the window: a group that was in flight at the crash, whole or torn,
    // can then never pass for one of the groups to come.
    let jump = if planted(Fault::NoSequenceJump) { 0 } else { 2 * WINDOW };
    let sequence = end.position.sequence + jump;
    let position = JournalPosition { sequence, ..end.position };
    let applied = Applied { end: position, next_lsn: end.next_lsn };
    let write = async {
        if end.groups > 0 {
            let cut = Cut::take(&mut tree.borrow_mut(), applied, false);
            return checkpointer.write(cut, tree).await;
        }
        let is_open = |superblock: &mut Superblock| {
            superblock.is_clean = false;
            superblock.journal = position;
        };
        Ok(pool.commit(&[], is_open).await?)
    };
    steps.run("checkpoint", write).await?;
    steps.run("confirm the drives", async { Ok(pool.confirm_superblock().await?) }).await?;
    Ok((applied, resume))
}

/// Why a pool may only be read, if a later program set a feature that says so.
fn only_read_for(superblock: &Superblock) -> Option<String> {
    superblock.is_read_only().then(|| {
        let names = superblock.unknown_features(FeatureClass::ReadOnly);
        format!("it has features that this program does not know, and may only be read: {names}")
    })
}

async fn load_segment_table(pool: &Pool, tables: &mut Tables) -> Result<()> {
    let superblock = pool.superblock();
    let root = Located { pointer: superblock.segment_table, place: superblock.segment_table_place };
    if !root.pointer.is_page() {
        return Ok(());
    }
    let directory = &mut tables.segments;
    let bytes = read_located(pool, root, directory.directory_identity(2, 0)).await?;
    let directories = decode(directory, &bytes)?;
    let mut pages = Vec::new();
    for (index, located) in directories.iter().enumerate() {
        let bytes = read_located(pool, *located, directory.directory_identity(1, index)).await?;
        pages.extend(decode(directory, &bytes)?);
    }
    for (page, located) in pages.iter().enumerate() {
        let bytes = read_located(pool, *located, directory.page_identity(page)).await?;
        pool.with_table_mut(|table| {
            if page >= table.page_count() {
                return Err(Error::new(ErrorKind::Damaged, format!("segment table has no page {page}")));
            }
            table.load_page(page, &bytes).map_err(|damage| Error::new(ErrorKind::Damaged, damage.to_string()))
        })?;
    }
    let finished = pool.with_table_mut(ashlar_pool::SegmentTable::finish_loading);
    finished.map_err(|damage| Error::new(ErrorKind::Damaged, format!("segment table: {damage}")))?;
    directory.load(directories, pages);
    tables.segment_root = root.pointer;
    Ok(())
}

async fn load_volume_table(media: &Media, tables: &mut Tables, tree: &RefCell<Tree>) -> Result<()> {
    let superblock = media.pool.superblock();
    if superblock.volume_table.is_page() {
        let directory = &mut tables.volumes;
        let bytes = media.read_page_here(superblock.volume_table, directory.directory_identity(2, 0)).await?;
        let directories = decode(directory, &bytes)?;
        let mut pages = Vec::new();
        for (index, located) in directories.iter().enumerate() {
            let bytes = media.read_page_here(located.pointer, directory.directory_identity(1, index)).await?;
            pages.extend(decode(directory, &bytes)?);
        }
        for (page, located) in pages.iter().enumerate() {
            let bytes = media.read_page_here(located.pointer, directory.page_identity(page)).await?;
            let loaded = tree.borrow_mut().catalogue.load_page(page, &bytes);
            loaded.map_err(|damage| {
                Error::new(ErrorKind::Damaged, format!("volume table page {page}: {damage}"))
            })?;
        }
        directory.load(directories, pages);
        tables.volume_root = superblock.volume_table;
    }
    let catalogue = &mut tree.borrow_mut().catalogue;
    catalogue.volume_next = catalogue.volume_next.max(superblock.volume_next);
    Ok(())
}

fn decode(directory: &TableDirectory, bytes: &[u8]) -> Result<Vec<Located>> {
    directory
        .decode(bytes)
        .map_err(|damage| Error::new(ErrorKind::Damaged, format!("table directory: {damage}")))
}

/// Applies every group behind the checkpoint as it is proven.
async fn replay_journal(media: &Media, tree: &RefCell<Tree>, superblock: &Superblock) -> Result<ReplayEnd> {
    let Superblock { journal, checkpoint, is_clean, .. } = *superblock;
    let mut replay = Replay::new(&media.pool, journal, checkpoint, is_clean);
    while let Some(group) = replay.next().await? {
        for (index, record) in group.records.iter().enumerate() {
            if planted(Fault::RecordSkippedInReplay) && index > 0 && index + 1 == group.records.len() {
                continue;
            }
            apply_one(media, tree, Lsn(group.first_lsn.0 + index as u64), record).await?;
        }
    }
    Ok(replay.finish().await?)
}

async fn apply_one(media: &Media, tree: &RefCell<Tree>, lsn: Lsn, record: &Record) -> Result<()> {
    loop {
        let attempt = tree.borrow_mut().apply(lsn, record);
        let Err(missing) = attempt else { return Ok(()) };
        let page = media.read_map_page(missing).await?;
        let inserted = tree.borrow_mut().arena.insert_clean(missing.pointer, missing.level, page);
        inserted.map_err(|invalid| Error::new(ErrorKind::Damaged, invalid.to_string()))?;
    }
}

/// After a clean close: the journal and the stream of page records go on right behind what they wrote, the
/// other segments are sealed. Returns where in its segment the journal goes on, if it does.
fn resume_segments(pool: &Pool, end: &ReplayEnd, checkpointer: &mut Checkpointer) -> Option<u64> {
    // The stream's segment is the one that the published segment table itself is in.
    let stream = checkpointer.tables.segment_root;
    let JournalPosition { segment: journal, offset_bytes, .. } = end.position;
    let mut resume = None;
    for entry in open_segments(pool) {
        match entry.kind {
            SegmentKind::Journal if entry.segment == journal && offset_bytes < pool.segment_bytes() => {
                resume = Some(offset_bytes);
                continue;
            }
            SegmentKind::Metadata if stream.is_page() && entry.segment == stream.segment() => {
                let used = u64::from(entry.used_units) * PLACE_UNIT_BYTES;
                let end = used.next_multiple_of(pool.stripe_bytes());
                if end < pool.segment_bytes() {
                    checkpointer.stream.resume(entry.segment, entry.place, end);
                    continue;
                }
            }
            SegmentKind::Journal | SegmentKind::Metadata | SegmentKind::Moved => {}
        }
        pool.with_table_mut(|table| table.seal(entry.segment));
    }
    resume
}

/// After a crash: journal segments end with the last group that counts, the others where the published table
/// says. What lies behind that is of a checkpoint or a round of moving that was never published.
fn seal_segments(pool: &Pool, end: &ReplayEnd, adopted: &[SegmentId]) {
    for (segment, offset) in &end.ends {
        let is_as_known = pool.with_table(|table| {
            table.find(*segment).is_none_or(|entry| u64::from(entry.used_units) * PLACE_UNIT_BYTES == *offset)
        });
        if !is_as_known {
            pool.with_table_mut(|table| table.set_used(*segment, *offset));
        }
    }
    let begun_late = |entry: &SegmentEntry| {
        let is_journal = entry.state != SegmentState::Free && entry.kind == SegmentKind::Journal;
        is_journal && entry.birth >= end.position.sequence
    };
    let empty: Vec<SegmentId> = pool.with_table(|table| {
        table.entries().iter().filter(|entry| begun_late(entry)).map(|entry| entry.segment).collect()
    });
    for segment in empty {
        assert!(!end.ends.contains_key(&segment), "a group that counts is in segment {segment}");
        if adopted.contains(&segment) {
            pool.abandon(segment);
            continue;
        }
        pool.with_table_mut(|table| {
            table.seal(segment);
            table.free(segment);
        });
    }
    for entry in open_segments(pool) {
        pool.with_table_mut(|table| table.seal(entry.segment));
    }
}

fn open_segments(pool: &Pool) -> Vec<SegmentEntry> {
    pool.with_table(|table| {
        table.entries().iter().filter(|entry| entry.state == SegmentState::Open).copied().collect()
    })
}
