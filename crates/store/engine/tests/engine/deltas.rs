//! Map pages told by the difference from an earlier record: written, read back after a restart, counted
//! to the byte, and refused when the record they differ from is not the right one.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::on_drive;
use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_format::catalogue::{VOLUME_ENTRY_BYTES, VolumeEntry};
use ashlar_format::page::{PAGE_HEADER_BYTES, PageContent, PageHeader, pointers_from_bytes};
use ashlar_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock};
use ashlar_format::{Pointer, overrides};
use ashlar_reduction::decompress;
use ashlar_runtime::Runtime;

const POOL_BYTES: u64 = 48 << 20;
const BLOCK: u64 = 4096;
/// Four leaves.
const BLOCKS: u64 = 2048;
const PATIENCE: Duration = Duration::from_secs(600);

fn content(number: u64) -> Vec<u8> {
    let mut block = vec![7; BLOCK as usize];
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

/// A volume and what each of its blocks must hold.
struct Subject {
    engine: Engine,
    runtime: Runtime,
    path: String,
    numbers: Vec<u64>,
    random: u64,
}

impl Subject {
    async fn new(runtime: Runtime, path: String) -> Subject {
        let spec = PoolSpec {
            name: "pool".into(),
            drives: vec![DriveSpec { path: path.clone(), create_size_bytes: Some(POOL_BYTES) }],
            protection: Protection::None,
            segment_bytes: Some(512 << 10),
            width: None,
            spares: 0,
        };
        Engine::create_pool(&runtime, spec).await.unwrap();
        let engine = open(&runtime, &path).await;
        let volume = VolumeSpec {
            name: "data".into(),
            size_bytes: BLOCKS * BLOCK,
            logical_block_bytes: 4096,
            profile: Profile::Oltp,
            compression: Compression::Lz4,
            dedupe: false,
        };
        engine.volume_create(volume).await.unwrap();
        checkpoint(&engine).await;
        let numbers: Vec<u64> = (1..=BLOCKS).collect();
        let device = engine.device("data").unwrap();
        // One write for each block: the leaves do not compress.
        for (block, number) in numbers.iter().enumerate() {
            device.write(block as u64 * BLOCK, &content(*number), false).await.unwrap();
        }
        checkpoint(&engine).await;
        Subject { engine, runtime, path, numbers, random: 1 }
    }

    async fn overwrite(&mut self, writes: u64) {
        let device = self.engine.device("data").unwrap();
        for _ in 0..writes {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let block = (self.random >> 33) % BLOCKS;
            self.numbers[block as usize] = self.random;
            device.write(block * BLOCK, &content(self.random), false).await.unwrap();
        }
    }

    async fn reopen(&mut self) {
        self.engine.close().await.unwrap();
        // It holds the drives until the last reference goes: take its place first, then open.
        let _ = std::fs::copy(&self.path, format!("{}.next", self.path)).unwrap();
        self.path = format!("{}.next", self.path);
        self.engine = open(&self.runtime, &self.path).await;
    }

    fn deltas(&self) -> u64 {
        self.engine.status().counters.delta_pages_written
    }
}

async fn open(runtime: &Runtime, path: &str) -> Engine {
    Engine::open(runtime, &[path.to_string()], Settings::default()).await.unwrap()
}

/// The estimate speaks of a checkpoint that it writes.
async fn checkpoint(engine: &Engine) {
    engine.space_estimate().await.unwrap();
}

async fn verify(engine: &Engine, name: &str, numbers: &[u64]) {
    let device = engine.device(name).unwrap();
    let mut bytes = vec![0; BLOCK as usize];
    for (block, number) in numbers.iter().enumerate() {
        device.read(block as u64 * BLOCK, &mut bytes).await.unwrap();
        assert!(bytes == content(*number), "{name} block {block}");
    }
}

/// The records on a drive by the address they name, found without any table.
struct Drive {
    superblock: Superblock,
    bytes: Vec<u8>,
    records: BTreeMap<(u32, u64), usize>,
}

impl Drive {
    fn read(path: &str) -> Drive {
        let bytes = std::fs::read(path).unwrap();
        let slots = bytes.chunks(SUPERBLOCK_BYTES).take(SUPERBLOCK_SLOTS as usize);
        let newest =
            slots.filter_map(|slot| Superblock::decode(slot).ok()).max_by_key(|found| found.generation);
        let superblock = newest.unwrap();
        let mut records = BTreeMap::new();
        for at in (1 << 20..bytes.len()).step_by(64) {
            if let Ok((header, _)) = PageHeader::open_any(&superblock.key, &bytes[at..]) {
                records.insert((header.segment.0, header.offset_bytes), at);
            }
        }
        Drive { superblock, bytes, records }
    }

    fn open(&self, pointer: Pointer) -> (PageHeader, &[u8]) {
        let at = self.records[&(pointer.segment().0, pointer.offset_bytes())];
        PageHeader::open(&self.superblock.key, pointer, &self.bytes[at..]).unwrap()
    }

    fn page(&self, pointer: Pointer) -> Vec<u8> {
        let (header, payload) = self.open(pointer);
        assert_eq!(header.base, None);
        let mut page = vec![0; 4096];
        decompress(header.codec, payload, &mut page).unwrap();
        page
    }

    fn pointers(&self, pointer: Pointer) -> Vec<Pointer> {
        let (header, payload) = self.open(pointer);
        let Some(base) = header.base else {
            return pointers_from_bytes(&self.page(pointer)).unwrap().to_vec();
        };
        let mut pointers = pointers_from_bytes(&self.page(base)).unwrap().to_vec();
        for entry in overrides::decode(payload).unwrap() {
            pointers[usize::from(entry.slot)] = entry.pointer;
        }
        pointers
    }

    fn roots(&self) -> Vec<Pointer> {
        let mut roots = Vec::new();
        for directory in
            pages_among(&pointers_from_bytes(&self.page(self.superblock.volume_table)).unwrap()[..])
        {
            for page in pages_among(&pointers_from_bytes(&self.page(directory)).unwrap()[..]) {
                for slot in self.page(page).chunks_exact(VOLUME_ENTRY_BYTES) {
                    roots.extend(VolumeEntry::decode(slot).unwrap().map(|entry| entry.root));
                }
            }
        }
        pages_among(&roots)
    }

    /// Records of map pages in use: those pages are told by, each once. And how many are bases alone.
    fn map_records(&self) -> (BTreeSet<Pointer>, usize) {
        let (mut pages, mut bases) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting = self.roots();
        while let Some(pointer) = waiting.pop() {
            let header = self.open(pointer).0;
            if pages.insert(pointer) {
                bases.extend(header.base);
                if header.identity.level > 0 {
                    waiting.extend(pages_among(&self.pointers(pointer)));
                }
            }
        }
        let only_bases = bases.difference(&pages).count();
        (pages.union(&bases).copied().collect(), only_bases)
    }

    fn bytes_of(&self, pointer: Pointer) -> u64 {
        ((PAGE_HEADER_BYTES + self.open(pointer).1.len()) as u64).next_multiple_of(64)
    }
}

fn pages_among(pointers: &[Pointer]) -> Vec<Pointer> {
    pointers.iter().filter(|pointer| pointer.is_page()).copied().collect()
}

/// What the census counts is what a reader of the drive, who knows only the format, adds up.
async fn check_census(subject: &Subject) {
    let report = subject.engine.space_report(PATIENCE).await.unwrap();
    let drive = Drive::read(&subject.path);
    let (records, only_bases) = drive.map_records();
    assert!(only_bases > 0, "no record is kept for its differences alone");
    let expected: u64 = records.iter().map(|pointer| drive.bytes_of(*pointer)).sum();
    assert_eq!(report.walked.unwrap().map_page_bytes, expected);
}

#[test]
fn deltas_survive_restarts_and_are_counted_to_the_byte() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let mut subject = Subject::new(runtime, path).await;
            let mut snapshots: Vec<(String, Vec<u64>)> = Vec::new();
            for round in 0..30 {
                subject.overwrite(20).await;
                if round % 5 == 0 {
                    let name = format!("s{round}");
                    subject.engine.snapshot_create(&name, &["data".into()]).await.unwrap();
                    snapshots.push((format!("data@{name}"), subject.numbers.clone()));
                }
                checkpoint(&subject.engine).await;
                if round % 10 == 9 {
                    assert!(subject.deltas() > 20, "{} deltas", subject.deltas());
                    check_census(&subject).await;
                    subject.reopen().await;
                }
            }
            subject.overwrite(20).await;
            checkpoint(&subject.engine).await;
            for (name, numbers) in &snapshots {
                verify(&subject.engine, name, numbers).await;
            }
            verify(&subject.engine, "data", &subject.numbers).await;
            check_census(&subject).await;
            assert_eq!(subject.engine.check().await.unwrap().errors, Vec::<String>::new());
            subject.engine.close().await.unwrap();
        })
    });
}

/// Closes, lets `spoil` change the records of leaves told by their difference, opens again: the check
/// must name the damage, and reads must fail or be right.
async fn spoiled(runtime: Runtime, path: String, spoil: fn(&mut Drive, Pointer)) {
    let mut subject = Subject::new(runtime.clone(), path).await;
    subject.overwrite(40).await;
    checkpoint(&subject.engine).await;
    subject.engine.close().await.unwrap();
    let mut drive = Drive::read(&subject.path);
    let (records, _) = drive.map_records();
    let is_delta_leaf = |pointer: &&Pointer| {
        let header = drive.open(**pointer).0;
        header.identity.level == 0 && header.base.is_some()
    };
    let leaves: Vec<Pointer> = records.iter().filter(is_delta_leaf).copied().collect();
    assert_eq!(leaves.len(), 4);
    spoil(&mut drive, leaves[0]);
    let index = drive.open(leaves[0]).0.identity.index;
    let path = format!("{}.spoiled", subject.path);
    std::fs::write(&path, &drive.bytes).unwrap();
    let engine = open(&runtime, &path).await;
    let errors = engine.check().await.unwrap().errors;
    assert!(!errors.is_empty() && errors[0].contains("page"), "{errors:?}");
    let device = engine.device("data").unwrap();
    for (block, number) in subject.numbers.iter().enumerate() {
        let mut bytes = vec![0; BLOCK as usize];
        let read = device.read(block as u64 * BLOCK, &mut bytes).await;
        assert_eq!(read.is_err(), block as u64 / 512 == index, "block {block}");
        assert!(read.is_err() || bytes == content(*number), "block {block}");
    }
    let _ = engine.close().await;
}

/// The header of a leaf, sealed anew with another base over the same overrides.
fn rebase(drive: &mut Drive, leaf: Pointer, base: Pointer) {
    let (header, payload) = drive.open(leaf);
    let record = PageHeader { base: Some(base), ..header }.seal(&drive.superblock.key, payload);
    let at = drive.records[&(leaf.segment().0, leaf.offset_bytes())];
    drive.bytes[at..at + record.len()].copy_from_slice(&record);
}

#[test]
fn a_damaged_base_is_an_error_and_never_wrong_bytes() {
    on_drive(|runtime, path| {
        Box::pin(spoiled(runtime, path, |drive, leaf| {
            let base = drive.open(leaf).0.base.unwrap();
            let at = drive.records[&(base.segment().0, base.offset_bytes())];
            drive.bytes[at + 200] ^= 1;
        }))
    });
}

#[test]
fn the_base_of_another_page_is_refused() {
    on_drive(|runtime, path| {
        Box::pin(spoiled(runtime, path, |drive, leaf| {
            let index = drive.open(leaf).0.identity.index;
            let is_other = |pointer: &Pointer| {
                let header = drive.open(*pointer).0;
                let identity = header.identity;
                let is_leaf = identity.content == PageContent::Map && identity.level == 0;
                is_leaf && identity.index != index && header.base.is_none()
            };
            let other = drive.map_records().0.into_iter().find(is_other).unwrap();
            rebase(drive, leaf, other);
        }))
    });
}

/// A chain of two differences: the reader must not follow it.
#[test]
fn a_base_that_is_a_difference_itself_is_refused() {
    on_drive(|runtime, path| Box::pin(spoiled(runtime, path, |drive, leaf| rebase(drive, leaf, leaf))));
}
