//! The engine as the system under test.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::{BlockDevice, LocalFuture};
use ashlar_engine::{
    Allowance, Compression, DeletedVolume, DriveSpec, Engine, Error, ErrorKind, Identity, Note, NoteBatch,
    NoteKind, Opening, PoolSpec, Profile, Protection, Settings, VolumeInfo, VolumePolicy, VolumeSpec,
};
use ashlar_runtime::Runtime;
use ashlar_units::VolumeId;

use crate::chance::mix;
use crate::oracle::{
    Change, CloneSource, Listing, NoteEdit, NoteName, content_of, deleted_name, note_bytes, note_of_creation,
};
use crate::system::{DedupeAction, PoolLayout, Room, SystemMaker, SystemUnderTest, Trouble, TroubleKind};

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        let kind = match error.kind {
            ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Exists => TroubleKind::Invalid,
            ErrorKind::NoSpace => TroubleKind::NoSpace,
            ErrorKind::Damaged | ErrorKind::Medium | ErrorKind::ReadOnly => TroubleKind::Drive,
            ErrorKind::Busy | ErrorKind::Closed | ErrorKind::Cancelled => TroubleKind::Gone,
        };
        Trouble { kind, text: format!("{:?}: {}", error.kind, error.context) }
    }
}

/// Longer than any simulated pool takes to count.
const ACCOUNTS_WITHIN: Duration = Duration::from_secs(3600);

/// Runs of blocks that differ, told at a time: few, so that answers have several pages.
const RUNS_PER_PAGE: usize = 20;

/// Makes engines; everything they know is on the drives.
pub struct EngineMaker;

/// Who opens a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opener {
    /// The machine.
    pub machine: u128,
    /// Its boot.
    pub boot: u128,
    /// The process.
    pub process: u32,
    /// Somebody else who has the pool open is put out.
    pub is_forced: bool,
}

/// Makes a pool.
pub fn create_pool(runtime: &Runtime, layout: &PoolLayout) -> LocalFuture<'static, Result<(), Trouble>> {
    let runtime = runtime.clone();
    let drive = |path: &String| DriveSpec { path: path.clone(), create_size_bytes: Some(layout.drive_bytes) };
    let spec = PoolSpec {
        name: "pool".to_string(),
        drives: layout.drives.iter().map(drive).collect(),
        protection: [Protection::None, Protection::Single, Protection::Dual][usize::from(layout.parity)],
        segment_bytes: Some(layout.segment_bytes),
        width: layout.width,
        spares: layout.spares,
    };
    Box::pin(async move {
        Engine::create_pool(&runtime, spec).await?;
        Ok(())
    })
}

fn opening_of(opener: &Opener) -> Opening {
    let Opener { machine, boot, process, is_forced } = *opener;
    let identity = Identity { machine, boot, process, ..Identity::default() };
    Opening { identity, is_forced, ..Opening::default() }
}

/// Opens a pool; the one place that tells the engine who does.
pub fn open_as(
    runtime: &Runtime,
    layout: &PoolLayout,
    opener: &Opener,
) -> LocalFuture<'static, Result<Rc<dyn SystemUnderTest>, Trouble>> {
    let (runtime, drives) = (runtime.clone(), layout.drives.clone());
    let index_bytes = layout.dedupe_index_bytes;
    let settings = Settings {
        cache_bytes: layout.cache_bytes,
        map_cache_bytes: layout.map_cache_bytes,
        checkpoint_interval: Duration::from_millis(layout.checkpoint_interval_millis),
        free_percent_wanted: layout.free_percent_wanted,
        dedupe_index_bytes_max: layout.dedupe_index_bytes,
        dedupe_run_blocks_min: layout.dedupe_run_blocks_min,
        dedupe_sample_shift: layout.dedupe_sample_shift,
        no_space_wait: Duration::from_millis(layout.no_space_wait_millis),
        opening: opening_of(opener),
        ..Settings::default()
    };
    Box::pin(async move {
        let engine = Engine::open(&runtime, &drives, settings).await?;
        let system: Rc<dyn SystemUnderTest> =
            Rc::new(EngineSystem { engine, index_bytes, is_proven: Rc::default() });
        Ok(system)
    })
}

impl SystemMaker for EngineMaker {
    fn create(&self, runtime: &Runtime, layout: &PoolLayout) -> LocalFuture<'static, Result<(), Trouble>> {
        create_pool(runtime, layout)
    }

    fn open(
        &self,
        runtime: &Runtime,
        layout: &PoolLayout,
    ) -> LocalFuture<'static, Result<Rc<dyn SystemUnderTest>, Trouble>> {
        let opener = Opener { machine: layout.machine, boot: 1, process: 1, is_forced: false };
        open_as(runtime, layout, &opener)
    }

    fn is_on_drives(&self) -> bool {
        true
    }
}

struct EngineSystem {
    engine: Engine,
    index_bytes: u64,
    /// The last check compared everything with its parity.
    is_proven: Rc<Cell<bool>>,
}

/// A volume's properties other than its size, spread over all kinds by its name.
fn volume_spec(name: String, size_bytes: u64, logical_block_bytes: u32) -> VolumeSpec {
    let draw = name.bytes().fold(3, |draw, byte| mix(draw ^ u64::from(byte)));
    let profile = [Profile::Oltp, Profile::General, Profile::Bulk][(draw % 3) as usize];
    let compression = [Compression::Off, Compression::Lz4, Compression::Zstd][(draw / 3 % 3) as usize];
    VolumeSpec {
        name,
        size_bytes,
        logical_block_bytes,
        profile,
        compression,
        dedupe: !draw.is_multiple_of(4),
    }
}

fn note_put(batch: NoteBatch, kind: NoteKind, subject: u64, part: u16, content: u64) -> NoteBatch {
    batch.put(kind, subject, part, content as u16, note_bytes(content))
}

/// The kind and the subject of a note about the pool: some are secret.
fn pool_note(part: u16) -> (NoteKind, u64) {
    (if part.is_multiple_of(3) { NoteKind::Chap } else { NoteKind::Schedule }, u64::from(part % 4))
}

async fn notes_change(engine: Engine, edits: Vec<NoteEdit>) -> Result<(), Trouble> {
    let ids: BTreeMap<String, u64> = engine.volumes().into_iter().map(|info| (info.name, info.id)).collect();
    let mut batch = NoteBatch::new();
    // Deletes pass in a full pool, events do not.
    let with_event = edits.iter().find_map(|edit| edit.content.filter(|content| content % 4 == 0));
    for NoteEdit { name: NoteName { volume, part }, content } in edits {
        let about = ids.get(&volume).map(|id| (NoteKind::Label, *id));
        let (kind, subject) = if volume.is_empty() { Some(pool_note(part)) } else { about }
            .ok_or_else(|| Trouble { kind: TroubleKind::Invalid, text: format!("there is no {volume}") })?;
        batch = match content {
            Some(content) => note_put(batch, kind, subject, part, content),
            None => batch.delete(kind, subject, part),
        };
    }
    if let Some(content) = with_event {
        batch = batch.event(1, content.to_le_bytes().to_vec());
    }
    engine.notes_put(batch).await?;
    Ok(())
}

/// All notes by the names of their volumes; what is wrong with one shows in its content or its name.
fn noted(engine: &Engine) -> BTreeMap<NoteName, u64> {
    let alive = engine.volumes().into_iter().map(|info| (info.id, info.name));
    let deleted = engine.deleted_volumes().into_iter();
    let deleted = deleted.map(|one| (one.info.id, deleted_name(&one.info.name)));
    let names: BTreeMap<u64, String> = alive.chain(deleted).collect();
    let content = |note: &Note| {
        let content = content_of(&note.value).filter(|content| note.version == *content as u16);
        content.unwrap_or(u64::MAX)
    };
    let mut noted = BTreeMap::new();
    for note in engine.notes_of(NoteKind::Label) {
        let volume = names.get(&note.key.subject).cloned();
        let volume = volume.unwrap_or_else(|| format!("gone: {}", note.key.subject));
        noted.insert(NoteName { volume, part: note.key.part }, content(&note));
    }
    for kind in [NoteKind::Schedule, NoteKind::Chap] {
        for note in engine.notes_of(kind) {
            let is_right = (kind, note.key.subject) == pool_note(note.key.part);
            let name = NoteName { volume: String::new(), part: note.key.part };
            noted.insert(name, if is_right { content(&note) } else { u64::MAX });
        }
    }
    let events = engine.notes_of(NoteKind::Event);
    if events.windows(2).any(|pair| pair[0].key.subject + 1 != pair[1].key.subject) {
        noted.insert(NoteName { volume: "events with a gap".to_string(), part: 0 }, u64::MAX);
    }
    noted
}

fn deleted_id(engine: &Engine, name: &str) -> Result<u64, Trouble> {
    let found = engine.deleted_volumes().into_iter().find(|one| one.info.name == name);
    let missing = || Trouble { kind: TroubleKind::Invalid, text: format!("no deleted volume {name}") };
    found.map(|one| one.info.id).ok_or_else(missing)
}

async fn change(engine: Engine, change: Change) -> Result<(), Trouble> {
    match change {
        Change::VolumeCreate { name, size_bytes, unit_bytes } => {
            let note = note_of_creation(&name, size_bytes);
            let spec = volume_spec(name, size_bytes, unit_bytes);
            let notes = |id: VolumeId| {
                let put = |batch, (part, content)| note_put(batch, NoteKind::Label, id.0, part, content);
                note.into_iter().fold(NoteBatch::new(), put)
            };
            engine.volume_create_noted(spec, notes).await?;
        }
        Change::VolumeDelete { name } => engine.volume_delete(&name).await?,
        Change::VolumeResize { name, size_bytes } => {
            engine.volume_resize(&name, size_bytes).await?;
        }
        Change::SnapshotCreate { name, volumes } => {
            engine.snapshot_create(&name, &volumes).await?;
        }
        Change::SnapshotDelete { name } => engine.snapshot_delete(&name).await?,
        Change::SnapshotRestore { name } => engine.snapshot_restore(&name).await?,
        Change::Clone { name, source } => {
            let from = match source {
                CloneSource::Snapshot(snapshot) => snapshot,
                CloneSource::SnapshotVolume { snapshot, volume } => format!("{volume}@{snapshot}"),
                CloneSource::Volume(volume) => volume,
            };
            let allowance = Allowance { limit_bytes: limit_of_clone(&name), reserve_bytes: None };
            engine.clone_create_on(&name, &from, allowance).await?;
        }
        Change::VolumeSetAside { name } => {
            engine.volume_set_aside(&name).await?;
        }
        Change::VolumeUndelete { name } => {
            engine.volume_undelete(deleted_id(&engine, &name)?, &name).await?;
        }
        Change::DeletedGiveUp { name } => engine.deleted_give_up(deleted_id(&engine, &name)?).await?,
        Change::RestoreKeeping { name, backup } => {
            engine.snapshot_restore_keeping(&name, &backup).await?;
        }
    }
    Ok(())
}

/// Some clones have a limit, by their names: a few chunks up to some MiB.
fn limit_of_clone(name: &str) -> Option<u64> {
    let drawn: u64 = name.bytes().map(u64::from).sum();
    drawn.is_multiple_of(3).then_some(64 << (10 + drawn / 3 % 6))
}

/// Volumes that have more of their own than their limit and what may be in flight allow. Dedupe is not bound
/// by limits: a share may refer to a chunk longer than the one it leaves.
fn beyond_their_limits(engine: &Engine) -> impl Iterator<Item = String> {
    let in_flight = 2 * engine.status().segment_bytes;
    let is_beyond = move |volume: &VolumeInfo| {
        let most = volume.allowance.limit_bytes.map_or(u64::MAX, |limit| limit + in_flight);
        volume.own_bytes > most
    };
    let is_shared = engine.status().dedupe.counters.shared > 0;
    let volumes = engine.volumes().into_iter().filter(move |volume| !is_shared && is_beyond(volume));
    volumes.map(|volume| format!("{} is beyond its limit: {volume:?}", volume.name))
}

fn deleted_listed(deleted: DeletedVolume) -> (String, (u64, u32)) {
    (deleted.info.name, (deleted.info.size_bytes, deleted.info.logical_block_bytes))
}

impl SystemUnderTest for EngineSystem {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        self.engine.device(name)
    }

    fn change(&self, request: Change) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(change(self.engine.clone(), request))
    }

    fn listing(&self) -> Listing {
        let volumes = self.engine.volumes().into_iter();
        let snapshots = self.engine.snapshots().into_iter();
        Listing {
            notes: Some(noted(&self.engine)),
            volumes: volumes.map(|info| (info.name, (info.size_bytes, info.logical_block_bytes))).collect(),
            deleted: self.engine.deleted_volumes().into_iter().map(deleted_listed).collect(),
            snapshots: snapshots
                .map(|mut info| {
                    info.volumes.sort();
                    (info.name, info.volumes)
                })
                .collect(),
        }
    }

    fn limit_of(&self, name: &str) -> Option<u64> {
        let volumes = self.engine.volumes().into_iter();
        volumes.filter(|volume| volume.name == name).find_map(|volume| volume.allowance.limit_bytes)
    }

    fn notes(&self) -> Option<BTreeMap<NoteName, u64>> {
        Some(noted(&self.engine))
    }

    fn notes_change(&self, edits: Vec<NoteEdit>) -> LocalFuture<'static, Result<(), Trouble>> {
        Box::pin(notes_change(self.engine.clone(), edits))
    }

    fn check(&self) -> LocalFuture<'static, Result<Vec<String>, Trouble>> {
        let (engine, is_proven) = (self.engine.clone(), self.is_proven.clone());
        Box::pin(async move {
            // A scrub is a check and more; one at a time.
            let is_scrubbed =
                engine.status().protection == Protection::None || engine.scrub_status().is_some();
            is_proven.set(false);
            let mut errors = if is_scrubbed {
                engine.check().await?.errors
            } else {
                let report = engine.scrub().await?;
                is_proven.set(report.parity.unproven_stripes == 0);
                report.check.errors
            };
            let space = engine.status().space;
            let parts = [
                space.free_bytes,
                space.kept_bytes,
                space.data_bytes,
                space.metadata_bytes,
                space.journal_bytes,
                space.reserve_bytes,
                space.superblock_bytes,
                space.unusable_bytes,
                space.parity_bytes,
                space.spare_bytes,
                space.freed_bytes,
            ];
            if parts.iter().sum::<u64>() != space.physical_bytes {
                errors.push(format!("the parts of the space do not sum up: {space:?}"));
            }
            errors.extend(beyond_their_limits(&engine));
            errors.extend(check_accounts(&engine).await?);
            Ok(errors)
        })
    }

    fn difference(
        &self,
        one: String,
        other: String,
    ) -> LocalFuture<'static, Result<Option<BTreeSet<u64>>, Trouble>> {
        let engine = self.engine.clone();
        Box::pin(async move {
            match difference(&engine, &one, &other).await {
                Ok(blocks) => Ok(Some(blocks)),
                // It may give way to the cleaner of a full pool.
                Err(error) if error.kind == ErrorKind::Busy => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn dedupe(&self, action: DedupeAction) -> LocalFuture<'static, Result<(), Trouble>> {
        let (engine, index_bytes) = (self.engine.clone(), self.index_bytes);
        Box::pin(async move {
            match action {
                DedupeAction::Switch { volume, is_on } => {
                    let policy = VolumePolicy { dedupe: Some(is_on), ..VolumePolicy::default() };
                    engine.volume_set(&volume, policy).await?;
                }
                DedupeAction::Rebuild if index_bytes > 0 => drop(engine.dedupe_rebuild()?),
                DedupeAction::Resize if index_bytes > 0 => {
                    let bytes = if engine.status().dedupe.index_bytes_max > 64 << 10 { 64 } else { 1024 };
                    engine.dedupe_resize(bytes << 10)?;
                }
                DedupeAction::Drop => drop(engine.dedupe_drop()),
                DedupeAction::Rebuild | DedupeAction::Resize => {}
            }
            Ok(())
        })
    }

    fn segments_in_use(&self) -> Option<u64> {
        let status = self.engine.status();
        let space = status.space;
        let bytes = space.data_bytes + space.metadata_bytes + space.journal_bytes + space.freed_bytes;
        Some(bytes / status.segment_bytes)
    }

    fn room(&self) -> Option<Room> {
        let status = self.engine.status();
        let space = status.space;
        let elsewhere =
            space.superblock_bytes + space.unusable_bytes + space.parity_bytes + space.spare_bytes;
        // Nothing new is written to what is emptied.
        let is_leaving = self.engine.removal_status().is_some();
        let segments = (space.physical_bytes - elsewhere) / status.segment_bytes;
        (!is_leaving).then_some(Room { segments, segment_bytes: status.segment_bytes })
    }

    fn probes(&self) -> Vec<(&'static str, u64)> {
        let status = self.engine.status();
        let counters = status.counters;
        let dedupe = status.dedupe.counters;
        vec![
            ("checkpoints", counters.checkpoints),
            ("pages written", counters.pages_written),
            ("pages written as deltas", counters.delta_pages_written),
            ("journal groups", counters.journal_groups),
            ("journal MiB", counters.journal_bytes_written >> 20),
            ("zero blocks", counters.zero_blocks),
            ("blocks copied by reference", counters.copied_blocks),
            ("chunks left behind dead", counters.left_behind_chunks),
            ("blocks trimmed", counters.trimmed_blocks),
            ("cache hits", counters.cache_hits),
            ("cache misses", counters.cache_misses),
            ("segments freed", counters.segments_freed),
            ("segments emptied", counters.segments_emptied),
            ("moved MiB", counters.moved_bytes >> 20),
            ("KiB saved by recompression", counters.recompressed_saved_bytes >> 10),
            ("marks", counters.marks),
            ("damage met", counters.damage),
            ("blocks mended", counters.mended_blocks),
            ("reads steered", status.drives.iter().map(|drive| drive.counters.steered_reads).sum()),
            ("drives rebuilt", self.engine.rebuilds_finished()),
            ("drives moved", self.engine.drives_moved()),
            ("drives added", self.engine.drives_added()),
            (
                "pools with drives in spare space",
                u64::from(status.drives.iter().any(|drive| drive.state == "spare")),
            ),
            ("drives removed", self.engine.drives_removed()),
            ("drives leaving at the end", u64::from(self.engine.removal_status().is_some())),
            ("pools with drives out", u64::from(status.drives.iter().any(|drive| drive.state == "out"))),
            ("dedupe hits", dedupe.hits),
            ("blocks found beside hits", dedupe.extended),
            ("blocks shared", dedupe.shared),
            ("blocks shared beside a cleaning", dedupe.shared_in_cycle),
            ("blocks shared with moved ones", dedupe.shared_moved),
            ("blocks not shared: condemned", dedupe.condemned),
            ("blocks not shared: stale", dedupe.stale),
            ("blocks not shared: mismatched", dedupe.mismatched),
            ("blocks not shared: overtaken", dedupe.overtaken),
            ("blocks not shared: short", dedupe.short),
            ("blocks not shared: part of a chunk", dedupe.partial),
            ("blocks not shared: no room", dedupe.without_room),
            ("pools stopped", u64::from(status.state.starts_with("read-only"))),
            ("KiB of notes", self.engine.notes_status().bytes >> 10),
            ("events left out", self.engine.notes_status().events_left_out),
            ("groups replayed", status.recovery.groups_replayed),
            ("records replayed", status.recovery.records_replayed),
            ("starts that replayed", u64::from(status.recovery.groups_replayed > 0)),
        ]
    }

    fn starve_checkpoints(&self, after_records: &[u64]) {
        self.engine.starve_checkpoints(after_records.iter().copied());
    }

    fn drives_out(&self) -> Vec<(usize, String)> {
        let drives = self.engine.status().drives.into_iter().enumerate();
        drives.filter(|(_, drive)| drive.state == "out").map(|(number, drive)| (number, drive.path)).collect()
    }

    fn drives_unproven(&self) -> Option<Vec<String>> {
        let away = self
            .engine
            .status()
            .drives
            .into_iter()
            .filter(|drive| !["online", "moving", "spare"].contains(&drive.state.as_str()));
        self.is_proven.get().then(|| away.map(|drive| drive.path).collect())
    }

    fn drives_to_lose(&self) -> (Vec<String>, usize) {
        let status = self.engine.status();
        let parity = match status.protection {
            Protection::None => 0,
            Protection::Single => 1,
            Protection::Dual => 2,
        };
        let count = status.drives.len();
        let serving = status.drives.into_iter().filter(|drive| drive.state == "online");
        let serving: Vec<String> = serving.map(|drive| drive.path).collect();
        let lacking = count - serving.len();
        (serving, usize::saturating_sub(parity, lacking))
    }

    fn drive_count(&self) -> usize {
        self.engine.status().drives.len()
    }

    fn drives_add(&self, paths: Vec<String>, size_bytes: u64) -> LocalFuture<'static, Result<(), Trouble>> {
        let engine = self.engine.clone();
        Box::pin(async move {
            let spec = |path| DriveSpec { path, create_size_bytes: Some(size_bytes) };
            Ok(engine.drives_add(&paths.into_iter().map(spec).collect::<Vec<_>>()).await?)
        })
    }

    fn drives_to_leave(&self) -> (Vec<usize>, Option<usize>) {
        let status = self.engine.status();
        let in_state = |state: &str| -> Vec<usize> {
            let drives = status.drives.iter().enumerate();
            drives.filter(|(_, drive)| drive.state == state).map(|(number, _)| number).collect()
        };
        match status.protection {
            Protection::None => (in_state("online"), in_state("leaving").first().copied()),
            Protection::Single | Protection::Dual => (Vec::new(), None),
        }
    }

    fn drive_remove(&self, drive: usize) -> LocalFuture<'static, Result<(), Trouble>> {
        let engine = self.engine.clone();
        Box::pin(async move { Ok(engine.drive_remove(drive).await?) })
    }

    fn drive_stay(&self, drive: usize) -> LocalFuture<'static, Result<(), Trouble>> {
        let engine = self.engine.clone();
        Box::pin(async move { Ok(engine.drive_stay(drive).await?) })
    }

    fn drive_return(&self, drive: usize, path: String) -> LocalFuture<'static, Result<(), Trouble>> {
        let engine = self.engine.clone();
        Box::pin(async move { Ok(engine.drive_return(drive, &path).await?) })
    }

    fn drive_replace(
        &self,
        drive: usize,
        path: String,
        size_bytes: u64,
    ) -> LocalFuture<'static, Result<(), Trouble>> {
        let engine = self.engine.clone();
        Box::pin(async move {
            let with = DriveSpec { path, create_size_bytes: Some(size_bytes) };
            Ok(engine.drive_replace(drive, &with).await?)
        })
    }

    fn close(&self) -> LocalFuture<'static, Result<(), Trouble>> {
        let engine = self.engine.clone();
        Box::pin(async move { Ok(engine.close().await?) })
    }
}

/// All pages of the answer.
async fn difference(engine: &Engine, one: &str, other: &str) -> Result<BTreeSet<u64>, Error> {
    let (mut blocks, mut next) = (BTreeSet::new(), Some(0));
    while let Some(from) = next {
        let page = engine.difference(one, other, from, RUNS_PER_PAGE, ACCOUNTS_WITHIN).await?;
        blocks.extend(page.runs.into_iter().flatten());
        next = page.next_block;
    }
    Ok(blocks)
}

/// The walked accounts sum to physical, at whatever checkpoint they speak of.
async fn check_accounts(engine: &Engine) -> Result<Option<String>, Trouble> {
    match engine.space_report(ACCOUNTS_WITHIN).await {
        Ok(report) => {
            let parts = report.parts;
            let is_told_apart =
                report.walked.is_none_or(|walked| walked.content_saved_bytes <= walked.sharing_saved_bytes);
            let is_wrong = parts.sum_bytes() != parts.physical_bytes || !is_told_apart;
            Ok(is_wrong.then(|| format!("the accounts do not sum up: {parts:?}")))
        }
        // It may give way to the cleaner of a full pool; that is not wrong.
        Err(error) if error.kind == ErrorKind::Busy => Ok(None),
        Err(error) => Err(error.into()),
    }
}
