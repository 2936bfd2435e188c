//! Opening a pool: a table of named steps, from superblocks to the first new checkpoint.
//!
//! Its time depends on the journal since the last checkpoint and on the tables, never on the size of
//! volumes or the number of blocks in snapshots. It only reads until its last step; a crash before
//! that changes nothing, a crash in it is a crash in a checkpoint.

use std::cell::RefCell;

use ashlar_format::Pointer;
use ashlar_format::group::Record;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{SegmentKind, SegmentState};
use ashlar_format::superblock::JournalPosition;
use ashlar_journal::{ReplayEnd, Replayed, WINDOW, replay};
use ashlar_map::PageArena;
use ashlar_pool::Pool;
use ashlar_runtime::Runtime;
use ashlar_units::{Lsn, SegmentId};

use crate::apply::Tree;
use crate::catalogue::Catalogue;
use crate::checkpoint::{Applied, Checkpointer, Cut};
use crate::engine::Parts;
use crate::info::RecoveryReport;
use crate::media::Media;
use crate::metadata::{MetadataStream, read_located};
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
    steps.run("probe frontier", async { Ok(pool.adopt_frontier().await?) }).await?;
    let arena = PageArena::new(settings.map_cache_bytes as usize);
    let tree = RefCell::new(Tree { arena, catalogue: Catalogue::default(), notebook: Notebook::default() });
    let media = Media::new(&pool, Relocations::new(settings.map_cache_bytes / 8));
    steps.run("load relocation table", media.load_relocations(pool.superblock().relocation_table)).await?;
    steps.run("load volume table", load_volume_table(&media, &mut tables, &tree)).await?;
    let superblock = pool.superblock();
    tree.borrow_mut().notebook =
        steps.run("load notebook", notebook::load(&media, &superblock, &mut tables)).await?;
    let (groups, end) = steps
        .run("find journal groups", async {
            Ok(replay(&pool, superblock.journal, superblock.checkpoint).await?)
        })
        .await?;
    steps.run("replay journal", apply_groups(&media, &tree, groups)).await?;
    steps.run("check notes", async { notebook::refuse_unknown(&tree.borrow().notebook) }).await?;
    steps.report.groups_replayed = end.groups;
    steps.report.records_replayed = end.records;
    pool.begin_session();
    steps.run("claim the pool", async { Ok(pool.claim().await?) }).await?;
    let mut checkpointer = Checkpointer::new(&media, tables);
    let resume = resume_offset(&pool, &end, superblock.is_clean);
    steps
        .run("settle segments", settle_segments(&pool, resume, &mut checkpointer, superblock.is_clean))
        .await?;
    // Sequence numbers jump over the window: a group that was in flight at the crash, whole or torn,
    // can then never pass for one of the groups to come.
    let position = JournalPosition {
        offset_bytes: resume.map_or(end.position.offset_bytes, |(_, at)| at),
        sequence: end.position.sequence + 2 * WINDOW,
        ..end.position
    };
    let applied = Applied { end: position, next_lsn: end.next_lsn };
    let cut = Cut::take(&mut tree.borrow_mut(), applied, false);
    steps.run("checkpoint", checkpointer.write(cut, &tree)).await?;
    steps.report.millis = runtime.now().duration_since(start).as_millis() as u64;
    Ok(Parts {
        runtime: runtime.clone(),
        media,
        settings,
        tree,
        applied,
        resume_offset: resume.map(|(_, offset)| offset),
        checkpointer,
        recovery: steps.report,
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

async fn apply_groups(media: &Media, tree: &RefCell<Tree>, groups: Vec<Replayed>) -> Result<()> {
    for group in groups {
        for (index, record) in group.records.iter().enumerate() {
            apply_one(media, tree, Lsn(group.first_lsn.0 + index as u64), record).await?;
        }
    }
    Ok(())
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

/// Where the journal goes on in its segment, if it does.
fn resume_offset(pool: &Pool, end: &ReplayEnd, is_clean: bool) -> Option<(SegmentId, u64)> {
    let segment = end.position.segment;
    let is_open = pool.with_table(|table| {
        let found = table.find(segment);
        found.is_some_and(|entry| entry.state == SegmentState::Open && entry.kind == SegmentKind::Journal)
    });
    // After a clean close nothing was in flight: go on right behind the last group.
    let offset = if is_clean { Some(end.position.offset_bytes) } else { end.resume_offset };
    offset.filter(|offset| is_open && *offset < pool.segment_bytes()).map(|offset| (segment, offset))
}

/// Segments that were open: the journal's and the metadata stream's go on, the others are sealed.
async fn settle_segments(
    pool: &Pool,
    journal: Option<(SegmentId, u64)>,
    checkpointer: &mut Checkpointer,
    is_clean: bool,
) -> Result<()> {
    let open: Vec<_> = pool.with_table(|table| {
        table.entries().iter().filter(|entry| entry.state == SegmentState::Open).copied().collect()
    });
    // The stream's segment is the one that the published segment table itself is in.
    let stream = checkpointer.tables.segment_root;
    for entry in open {
        match entry.kind {
            SegmentKind::Journal => match journal {
                Some((segment, offset)) if segment == entry.segment => {
                    pool.with_table_mut(|table| table.set_used(segment, offset));
                    continue;
                }
                _ => {}
            },
            SegmentKind::Metadata if is_stream(stream, entry.segment) => {
                let used = u64::from(entry.used_units) * PLACE_UNIT_BYTES;
                let end = if is_clean {
                    used.next_multiple_of(pool.stripe_bytes())
                } else {
                    MetadataStream::end_of_writing(pool, entry.segment, used).await?
                };
                if end < pool.segment_bytes() {
                    checkpointer.stream.resume(entry.segment, entry.place, end);
                    continue;
                }
            }
            SegmentKind::Metadata | SegmentKind::Moved => {}
        }
        // How far it was written is not known: all of it may have been.
        pool.with_table_mut(|table| {
            table.set_used(entry.segment, pool.segment_bytes());
            table.seal(entry.segment);
        });
    }
    Ok(())
}

fn is_stream(root: Pointer, segment: SegmentId) -> bool {
    root.is_page() && root.segment() == segment
}
