//! A small system in memory that keeps every promise, and can be told to break exactly one: the test
//! of the tester.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::{
    BlockDevice, Error, ErrorKind, Extent, ExtentKind, Geometry, LocalFuture, Result, check_range,
};
use ashlar_runtime::Runtime;

use crate::oracle::{Change, CloneSource, Listing, clone_names};
use crate::system::{PoolLayout, Room, SystemMaker, SystemUnderTest, Trouble, TroubleKind};

/// The promise that is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    None,
    /// A crash takes the last acknowledged write.
    LosesAcknowledgedWrite,
    /// A crash takes an acknowledged unmap.
    LosesUnmap,
    /// A crash leaves half a logical block of a write in flight.
    TearsBlock,
    /// A crash takes the last snapshot.
    LosesSnapshot,
    /// A crash brings a deleted volume back.
    RevivesVolume,
    /// Rarely a read returns what was there before.
    ReadsStale,
    /// Rarely a read fills nothing.
    ReadsNothing,
    /// A write of part of a block brings back what was there when it began.
    LosesUpdate,
    /// Rarely a write goes to the next block.
    Misplaces,
    /// A group's volumes are copied one after the other.
    InexactGroup,
    /// A volume's blocks are copied one after the other.
    InexactVolume,
    /// A snapshot is acknowledged before it is taken.
    LateSnapshot,
    /// Writing to a clone changes its origin.
    WritesThrough,
    /// Growing shows what shrinking cut off.
    KeepsTail,
    /// A volume that was deleted comes back empty.
    LosesDeleted,
    /// A restore keeps what it made instead of what was there.
    KeepsBehind,
    /// A group is restored volume by volume.
    HalfRestore,
    /// A group is cloned volume by volume.
    HalfClone,
    /// Rarely a request never completes.
    Stalls,
    /// Full for ever after a while.
    NeverFreesSpace,
    /// Rarely it calls itself full.
    RefusesForNothing,
    /// Deleting needs space.
    DeleteNeedsSpace,
    /// Fails without a drive error.
    FailsForNothing,
    /// Invalid requests are carried out.
    AcceptsInvalid,
    /// Reports data as a hole.
    WrongExtents,
    /// The check finds something.
    CheckFails,
    /// Depends on more than the seed.
    Random,
}

#[derive(Clone, Default)]
struct Content {
    size_bytes: u64,
    unit_bytes: u32,
    units: BTreeMap<u64, Vec<u8>>,
    previous: BTreeMap<u64, Option<Vec<u8>>>,
    origin: Option<String>,
}

impl Content {
    fn read(&self, unit: u64) -> Vec<u8> {
        self.units.get(&unit).cloned().unwrap_or_else(|| vec![0; self.unit_bytes as usize])
    }

    fn put(&mut self, unit: u64, bytes: Option<Vec<u8>>) {
        let old = match bytes {
            Some(bytes) => self.units.insert(unit, bytes),
            None => self.units.remove(&unit),
        };
        self.previous.insert(unit, old);
    }
}

type Undo = Vec<(String, u64, Option<Vec<u8>>)>;

#[derive(Default)]
struct Store {
    volumes: BTreeMap<String, Content>,
    snapshots: BTreeMap<String, BTreeMap<String, Content>>,
    deleted: Option<(String, Content)>,
    /// Deleted volumes that may come back.
    set_aside: BTreeMap<String, Content>,
    last_snapshot: Option<String>,
    undo: Option<Undo>,
    /// First block and bytes of a write in flight.
    flying: Option<(String, u64, Vec<u8>)>,
    written: u64,
}

/// Makes fakes; its store survives crashes.
pub struct FakeMaker {
    defect: Defect,
    store: Rc<RefCell<Store>>,
}

impl FakeMaker {
    pub fn new(defect: Defect) -> FakeMaker {
        FakeMaker { defect, store: Rc::default() }
    }
}

impl SystemMaker for FakeMaker {
    fn create(
        &self,
        runtime: &Runtime,
        _layout: &PoolLayout,
    ) -> LocalFuture<'static, std::result::Result<(), Trouble>> {
        let runtime = runtime.clone();
        Box::pin(async move {
            runtime.sleep(Duration::from_micros(10)).await;
            Ok(())
        })
    }

    fn open(
        &self,
        runtime: &Runtime,
        _layout: &PoolLayout,
    ) -> LocalFuture<'static, std::result::Result<Rc<dyn SystemUnderTest>, Trouble>> {
        let fake = Fake { defect: self.defect, store: self.store.clone(), runtime: runtime.clone() };
        Box::pin(async move {
            fake.wait(50).await;
            let system: Rc<dyn SystemUnderTest> = Rc::new(fake);
            Ok(system)
        })
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    fn crash(&self) {
        let mut store = self.store.borrow_mut();
        match self.defect {
            Defect::LosesAcknowledgedWrite | Defect::LosesUnmap => {
                for (name, unit, bytes) in store.undo.take().unwrap_or_default() {
                    if let Some(volume) = store.volumes.get_mut(&name) {
                        volume.put(unit, bytes);
                    }
                }
            }
            Defect::TearsBlock => {
                if let Some((name, unit, bytes)) = store.flying.take()
                    && let Some(volume) = store.volumes.get_mut(&name)
                {
                    let mut block = volume.read(unit);
                    let half = block.len() / 2;
                    block[..half].copy_from_slice(&bytes[..half]);
                    volume.put(unit, Some(block));
                }
            }
            Defect::LosesSnapshot => {
                if let Some(name) = store.last_snapshot.take() {
                    store.snapshots.remove(&name);
                }
            }
            Defect::RevivesVolume => {
                if let Some((name, content)) = store.deleted.take() {
                    store.volumes.entry(name).or_insert(content);
                }
            }
            _ => {}
        }
        store.flying = None;
    }
}

#[derive(Clone)]
struct Fake {
    defect: Defect,
    store: Rc<RefCell<Store>>,
    runtime: Runtime,
}

impl Fake {
    async fn wait(&self, micros: u64) {
        let micros = self.runtime.random() % micros + 1;
        self.runtime.sleep(Duration::from_micros(micros)).await;
    }

    fn rarely(&self, defect: Defect) -> bool {
        self.defect == defect && self.runtime.random().is_multiple_of(20)
    }

    async fn take(&self, name: &str) -> Content {
        if self.defect != Defect::InexactVolume {
            return self.store.borrow().volumes[name].clone();
        }
        let mut copy = self.store.borrow().volumes[name].clone();
        let units: Vec<u64> = copy.units.keys().copied().collect();
        for (count, unit) in units.into_iter().enumerate() {
            if count % 16 == 0 {
                self.wait(30).await;
            }
            if let Some(volume) = self.store.borrow().volumes.get(name) {
                copy.put(unit, volume.units.get(&unit).cloned());
            }
        }
        copy
    }

    async fn snapshot(&self, name: String, volumes: Vec<String>) {
        if self.defect == Defect::LateSnapshot {
            let empty = BTreeMap::new();
            self.store.borrow_mut().snapshots.insert(name.clone(), empty);
            let fake = self.clone();
            let _detached = self.runtime.spawn(ashlar_runtime::Priority::Host, async move {
                fake.wait(200).await;
                let mut store = fake.store.borrow_mut();
                let images =
                    volumes.iter().filter_map(|name| Some((name.clone(), store.volumes.get(name)?.clone())));
                let images = images.collect();
                store.snapshots.insert(name, images);
            });
            return;
        }
        let mut images = BTreeMap::new();
        for volume in volumes {
            images.insert(volume.clone(), self.take(&volume).await);
            if self.defect == Defect::InexactGroup {
                self.wait(200).await;
            }
        }
        let mut store = self.store.borrow_mut();
        store.last_snapshot = Some(name.clone());
        store.snapshots.insert(name, images);
    }

    async fn change(self, change: Change) -> std::result::Result<(), Trouble> {
        self.wait(100).await;
        let is_delete = matches!(change, Change::VolumeDelete { .. } | Change::SnapshotDelete { .. });
        if is_delete && self.rarely(Defect::DeleteNeedsSpace) {
            return Err(Trouble { kind: TroubleKind::NoSpace, text: "full".to_string() });
        }
        match change {
            Change::VolumeCreate { name, size_bytes, unit_bytes } => {
                let content = Content { size_bytes, unit_bytes, ..Content::default() };
                self.store.borrow_mut().volumes.insert(name, content);
            }
            Change::VolumeDelete { name } => {
                let mut store = self.store.borrow_mut();
                let content = store.volumes.remove(&name).expect("it exists");
                store.deleted = Some((name, content));
            }
            Change::VolumeResize { name, size_bytes } => {
                let mut store = self.store.borrow_mut();
                let volume = store.volumes.get_mut(&name).expect("it exists");
                volume.size_bytes = size_bytes;
                if self.defect != Defect::KeepsTail {
                    let units = size_bytes / u64::from(volume.unit_bytes);
                    volume.units.split_off(&units);
                }
            }
            Change::SnapshotCreate { name, volumes } => self.snapshot(name, volumes).await,
            Change::SnapshotDelete { name } => drop(self.store.borrow_mut().snapshots.remove(&name)),
            Change::SnapshotRestore { name } => {
                let images = self.store.borrow().snapshots[&name].clone();
                for (name, image) in images {
                    if self.defect == Defect::HalfRestore {
                        self.wait(300).await;
                    }
                    self.store.borrow_mut().volumes.insert(name, image);
                }
            }
            Change::Clone { name, source } => self.clone_volumes(&name, source).await,
            Change::VolumeSetAside { name } => {
                let mut store = self.store.borrow_mut();
                let content = store.volumes.remove(&name).expect("it exists");
                store.set_aside.insert(name, content);
            }
            Change::VolumeUndelete { name } => {
                let mut store = self.store.borrow_mut();
                let mut content = store.set_aside.remove(&name).expect("it was deleted");
                if self.defect == Defect::LosesDeleted {
                    content.units.clear();
                }
                store.volumes.insert(name, content);
            }
            Change::DeletedGiveUp { name } => drop(self.store.borrow_mut().set_aside.remove(&name)),
            Change::RestoreKeeping { name, backup } => {
                let mut store = self.store.borrow_mut();
                let images = store.snapshots[&name].clone();
                let kept = images.keys().map(|name| (name.clone(), store.volumes[name].clone())).collect();
                let is_behind = self.defect == Defect::KeepsBehind;
                store.snapshots.insert(backup, if is_behind { images.clone() } else { kept });
                store.volumes.extend(images);
            }
        }
        self.wait(100).await;
        Ok(())
    }

    async fn clone_volumes(&self, name: &str, source: CloneSource) {
        let images: Vec<(String, Content)> = match source {
            CloneSource::Volume(volume) => {
                let origin = Some(volume.clone());
                vec![(name.to_string(), Content { origin, ..self.take(&volume).await })]
            }
            CloneSource::SnapshotVolume { snapshot, volume } => {
                vec![(name.to_string(), self.store.borrow().snapshots[&snapshot][&volume].clone())]
            }
            CloneSource::Snapshot(snapshot) => {
                let images = self.store.borrow().snapshots[&snapshot].clone();
                let volumes: Vec<String> = images.keys().cloned().collect();
                clone_names(name, &volumes)
                    .into_iter()
                    .map(|(new, old)| (new, images[&old].clone()))
                    .collect()
            }
        };
        for (name, image) in images {
            if self.defect == Defect::HalfClone {
                self.wait(300).await;
            }
            self.store.borrow_mut().volumes.insert(name, image);
        }
    }
}

impl SystemUnderTest for Fake {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        let store = self.store.borrow();
        let exists = match name.split_once('@') {
            Some((volume, snapshot)) => store.snapshots.get(snapshot)?.contains_key(volume),
            None => store.volumes.contains_key(name),
        };
        exists.then(|| {
            Rc::new(FakeDevice { fake: self.clone(), name: name.to_string() }) as Rc<dyn BlockDevice>
        })
    }

    fn change(&self, change: Change) -> LocalFuture<'static, std::result::Result<(), Trouble>> {
        Box::pin(self.clone().change(change))
    }

    fn listing(&self) -> Listing {
        let store = self.store.borrow();
        let volume =
            |(name, content): (&String, &Content)| (name.clone(), (content.size_bytes, content.unit_bytes));
        let snapshot = |(name, images): (&String, &BTreeMap<String, Content>)| {
            (name.clone(), images.keys().cloned().collect())
        };
        Listing {
            notes: None,
            volumes: store.volumes.iter().map(volume).collect(),
            deleted: store.set_aside.iter().map(volume).collect(),
            snapshots: store.snapshots.iter().map(snapshot).collect(),
        }
    }

    fn check(&self) -> LocalFuture<'static, std::result::Result<Vec<String>, Trouble>> {
        let fake = self.clone();
        Box::pin(async move {
            fake.wait(100).await;
            let is_wrong = fake.rarely(Defect::CheckFails);
            Ok(if is_wrong { vec!["a chunk has two owners".to_string()] } else { Vec::new() })
        })
    }

    fn room(&self) -> Option<Room> {
        // More than hosts ever write.
        (self.defect == Defect::RefusesForNothing)
            .then_some(Room { segments: 100_000, segment_bytes: 1 << 20 })
    }

    fn close(&self) -> LocalFuture<'static, std::result::Result<(), Trouble>> {
        Box::pin(async { Ok(()) })
    }
}

/// Bytes for a part of a block; none: zeroes for all of it.
struct Part {
    unit: u64,
    start: usize,
    bytes: Option<Vec<u8>>,
}

/// The blocks of a range, each with the part of it that is in the range.
fn parts_of(offset: u64, length: u64, unit_bytes: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = offset + length;
    (offset / unit_bytes..end.div_ceil(unit_bytes)).map(move |unit| {
        let start = offset.saturating_sub(unit * unit_bytes);
        let stop = (end - unit * unit_bytes).min(unit_bytes);
        (unit, start as usize..stop as usize)
    })
}

struct FakeDevice {
    fake: Fake,
    name: String,
}

impl FakeDevice {
    fn content<T>(&self, with: impl FnOnce(&Content) -> T) -> Result<T> {
        let store = self.fake.store.borrow();
        let content = match self.name.split_once('@') {
            Some((volume, snapshot)) => store.snapshots.get(snapshot).and_then(|images| images.get(volume)),
            None => store.volumes.get(&self.name),
        };
        content.map(with).ok_or_else(|| Error::new(ErrorKind::Gone, "gone"))
    }

    async fn door(&self, offset: u64, length: u64, is_write: bool) -> Result<u64> {
        // What is gone has no size any more: say that, not that the range is wrong.
        self.content(|_| ())?;
        if is_write && self.name.contains('@') {
            return Err(Error::new(ErrorKind::ReadOnly, "a snapshot"));
        }
        if self.fake.defect != Defect::AcceptsInvalid || offset.checked_add(length).is_none() {
            check_range(&self.geometry(), offset, length)?;
        }
        self.fake.wait(100).await;
        if self.fake.rarely(Defect::Stalls) {
            std::future::pending::<()>().await;
        }
        if self.fake.rarely(Defect::FailsForNothing) {
            return Err(Error::new(ErrorKind::Medium, "for nothing"));
        }
        if is_write && self.fake.rarely(Defect::RefusesForNothing) {
            return Err(Error::new(ErrorKind::NoSpace, "full"));
        }
        if is_write {
            let mut store = self.fake.store.borrow_mut();
            store.written += length;
            if self.fake.defect == Defect::NeverFreesSpace && store.written > 256 << 10 {
                return Err(Error::new(ErrorKind::NoSpace, "full"));
            }
        }
        self.content(|content| u64::from(content.unit_bytes))
    }

    /// Puts bytes, or zeroes, where they belong, with what else is in their blocks.
    async fn replace(&self, parts: Vec<Part>, is_unmap: bool) -> Result<()> {
        let shift = u64::from(self.fake.rarely(Defect::Misplaces));
        let mut undo = Undo::new();
        let before: Vec<Vec<u8>> =
            self.content(|content| parts.iter().map(|part| content.read(part.unit)).collect())?;
        if self.fake.defect == Defect::LosesUpdate {
            self.fake.wait(50).await;
        }
        for (count, (Part { unit, start, bytes }, before)) in parts.into_iter().zip(before).enumerate() {
            if count == 8 {
                self.fake.wait(50).await;
            }
            let mut store = self.fake.store.borrow_mut();
            let present = store.volumes.get(&self.name);
            let block = present.and_then(|volume| match bytes {
                Some(bytes) if bytes.len() == before.len() => Some(bytes),
                None => None,
                Some(bytes) => {
                    let is_lost = self.fake.defect == Defect::LosesUpdate;
                    let mut block = if is_lost { before } else { volume.read(unit) };
                    block[start..start + bytes.len()].copy_from_slice(&bytes);
                    Some(block)
                }
            });
            let is_cut =
                present.is_some_and(|volume| (unit + 1) * u64::from(volume.unit_bytes) > volume.size_bytes);
            if is_cut && self.fake.defect != Defect::AcceptsInvalid {
                return Err(Error::new(ErrorKind::Invalid, "the volume became smaller"));
            }
            let origin = store.volumes.get(&self.name).and_then(|content| content.origin.clone());
            if self.fake.defect == Defect::WritesThrough
                && let Some(origin) = origin
                && let Some(volume) = store.volumes.get_mut(&origin)
            {
                volume.put(unit, block.clone());
            }
            let Some(volume) = store.volumes.get_mut(&self.name) else {
                return Err(Error::new(ErrorKind::Gone, "gone"));
            };
            undo.push((self.name.clone(), unit, volume.units.get(&unit).cloned()));
            volume.put(unit + shift, block);
        }
        if is_unmap == (self.fake.defect == Defect::LosesUnmap) {
            self.fake.store.borrow_mut().undo = Some(undo);
        }
        self.fake.wait(50).await;
        Ok(())
    }
}

impl BlockDevice for FakeDevice {
    fn geometry(&self) -> Geometry {
        let (size_bytes, logical_block_bytes) =
            self.content(|content| (content.size_bytes, content.unit_bytes)).unwrap_or((0, 512));
        Geometry {
            size_bytes,
            logical_block_bytes,
            optimal_block_bytes: 4096,
            is_read_only: self.name.contains('@'),
        }
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let unit_bytes = self.door(offset, into.len() as u64, false).await?;
            if self.fake.rarely(Defect::ReadsNothing) {
                return Ok(());
            }
            let is_stale = self.fake.rarely(Defect::ReadsStale);
            self.content(|content| {
                let mut done = 0;
                for (unit, range) in parts_of(offset, into.len() as u64, unit_bytes) {
                    let bytes = match content.previous.get(&unit) {
                        Some(old) if is_stale => old.clone().unwrap_or_else(|| vec![0; unit_bytes as usize]),
                        _ => content.read(unit),
                    };
                    into[done..done + range.len()].copy_from_slice(&bytes[range.clone()]);
                    done += range.len();
                }
            })
        })
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], _is_fua: bool) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let block_bytes = u64::from(self.geometry().logical_block_bytes);
            if offset.is_multiple_of(block_bytes) && data.len() as u64 >= block_bytes {
                let block = data[..block_bytes as usize].to_vec();
                let flying = (self.name.clone(), offset / block_bytes, block);
                self.fake.store.borrow_mut().flying = Some(flying);
            }
            let unit_bytes = self.door(offset, data.len() as u64, true).await?;
            let mut rest = data;
            let parts = parts_of(offset, data.len() as u64, unit_bytes).map(|(unit, range)| {
                let (bytes, later) = rest.split_at(range.len());
                rest = later;
                Part { unit, start: range.start, bytes: Some(bytes.to_vec()) }
            });
            self.replace(parts.collect(), false).await?;
            self.fake.store.borrow_mut().flying = None;
            Ok(())
        })
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async { self.door(0, 0, false).await.map(|_| ()) })
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let unit_bytes = self.door(offset, length, false).await?;
            let (first, end) = (offset / unit_bytes, (offset + length).div_ceil(unit_bytes));
            let written: Vec<u64> =
                self.content(|content| content.units.range(first..end).map(|(unit, _)| *unit).collect())?;
            for unit in written {
                let start = offset.saturating_sub(unit * unit_bytes) as usize;
                let stop = (offset + length - unit * unit_bytes).min(unit_bytes) as usize;
                let is_whole = stop - start == unit_bytes as usize;
                let bytes = (!is_whole).then(|| vec![0; stop - start]);
                self.replace(vec![Part { unit, start, bytes }], true).await?;
            }
            Ok(())
        })
    }

    fn write_zeroes(&self, offset: u64, length: u64, _may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        self.unmap(offset, length)
    }

    fn extents(&self, offset: u64, length: u64, _extents_max: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        Box::pin(async move {
            let unit_bytes = self.door(offset, length, false).await?;
            let is_data = self.content(|content| content.units.contains_key(&(offset / unit_bytes)))?;
            let is_wrong = self.fake.defect == Defect::WrongExtents;
            let kind = if is_data && !is_wrong { ExtentKind::Data } else { ExtentKind::Hole };
            let length_bytes = length.min(unit_bytes - offset % unit_bytes);
            Ok(vec![Extent { length_bytes, kind }])
        })
    }
}

thread_local! {
    static OUTSIDE: Cell<u64> = const { Cell::new(0) };
}

/// A maker that depends on what ran before in this thread.
pub struct RandomMaker(pub FakeMaker);

impl SystemMaker for RandomMaker {
    fn create(
        &self,
        runtime: &Runtime,
        layout: &PoolLayout,
    ) -> LocalFuture<'static, std::result::Result<(), Trouble>> {
        OUTSIDE.set(OUTSIDE.get() + 1);
        let (runtime, made) = (runtime.clone(), self.0.create(runtime, layout));
        Box::pin(async move {
            for _ in 0..OUTSIDE.get() {
                runtime.yield_now().await;
            }
            made.await
        })
    }

    fn open(
        &self,
        runtime: &Runtime,
        layout: &PoolLayout,
    ) -> LocalFuture<'static, std::result::Result<Rc<dyn SystemUnderTest>, Trouble>> {
        self.0.open(runtime, layout)
    }

    fn is_exclusive(&self) -> bool {
        false
    }
}
