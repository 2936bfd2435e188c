//! The accounts against a model that knows nothing of maps: for each image which write every block came
//! from, and what each write takes on a drive. What is predicted for a set must be what the model says
//! and what is measured when the set is really deleted.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::on_shard;
use ashlar_engine::{
    Compression, DriveSpec, Engine, ErrorKind, HoldersReport, PoolSpec, Profile, Protection, Settings,
    SpaceReport, VolumeSpec,
};
use ashlar_format::chunk::Codec;
use ashlar_runtime::Runtime;

const POOL_BYTES: u64 = 64 << 20;
const VOLUME_BLOCKS: u64 = 2048;
const BLOCK: u64 = 4096;
/// Writes begin on multiples of this and are no longer: each is one chunk, or one for each block.
const WRITE_BLOCKS: u64 = 4;
/// More than any count here takes.
const PATIENCE: Duration = Duration::from_secs(600);

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize].clone())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Zero,
    Chunk(usize),
}

#[derive(Clone)]
struct Image {
    id: u64,
    /// Of a snapshot's image: the volume's.
    origin: Option<u64>,
    slots: BTreeMap<u64, Slot>,
}

struct Chunk {
    bytes: u64,
    blocks: u64,
    writer: u64,
}

/// What must be true.
#[derive(Default)]
struct Model {
    images: BTreeMap<String, Image>,
    compressions: BTreeMap<u64, Compression>,
    chunks: Vec<Chunk>,
    names: u64,
}

impl Model {
    fn name(&mut self, letter: &str) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    fn volumes(&self) -> Vec<String> {
        self.images.keys().filter(|name| !name.contains('@')).cloned().collect()
    }

    fn snapshots(&self) -> Vec<String> {
        let names: BTreeSet<&str> =
            self.images.keys().filter_map(|name| Some(name.split_once('@')?.1)).collect();
        names.into_iter().map(str::to_string).collect()
    }

    fn images_of(&self, name: &str) -> Vec<String> {
        let is_of = |image: &&String| {
            image.as_str() == name || image.split_once('@').is_some_and(|(_, snapshot)| snapshot == name)
        };
        self.images.keys().filter(is_of).cloned().collect()
    }

    /// For each chunk the images that refer to it.
    fn holders(&self) -> BTreeMap<usize, BTreeSet<&str>> {
        let mut holders: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for (name, image) in &self.images {
            for slot in image.slots.values() {
                if let Slot::Chunk(chunk) = slot {
                    holders.entry(*chunk).or_default().insert(name);
                }
            }
        }
        holders
    }

    /// Blocks that nothing refers to, by their share of chunks that something refers to.
    fn stranded_bytes(&self) -> u64 {
        // Every image that has a block of a chunk has it at the address it was written to.
        let slots = self.images.values().flat_map(|image| &image.slots);
        let mut alive: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for (block, slot) in slots {
            if let Slot::Chunk(chunk) = slot {
                alive.entry(*chunk).or_default().insert(*block);
            }
        }
        let stranded = |(chunk, alive): (&usize, &BTreeSet<u64>)| {
            let Chunk { bytes, blocks, .. } = self.chunks[*chunk];
            bytes * (blocks - alive.len() as u64) / blocks
        };
        alive.iter().map(stranded).sum()
    }

    fn bytes(&self, chunks: impl Iterator<Item = usize>) -> u64 {
        chunks.map(|chunk| self.chunks[chunk].bytes).sum()
    }

    /// Bytes and number of the chunks that only this set refers to, and bytes of what it shares.
    fn reclaim(&self, set: &BTreeSet<String>) -> (u64, u64, u64) {
        let holders = self.holders();
        let touched = holders.iter().filter(|(_, names)| names.iter().any(|name| set.contains(*name)));
        let is_only = |names: &BTreeSet<&str>| names.iter().all(|name| set.contains(*name));
        let (only, kept): (Vec<_>, Vec<_>) = touched.partition(|(_, names)| is_only(names));
        let bytes =
            |chunks: &[(&usize, &BTreeSet<&str>)]| self.bytes(chunks.iter().map(|(chunk, _)| **chunk));
        (bytes(&only), only.len() as u64, bytes(&kept))
    }
}

/// A pool and its model.
struct Rig {
    runtime: Runtime,
    engine: Engine,
    path: String,
    model: Model,
    chance: Chance,
    /// Whether the cleaner is to move a lot: what is predicted must not depend on where things are.
    is_moving: bool,
    /// Segments whose live chunks were moved, in earlier openings.
    emptied: u64,
    /// Blocks left out of chunks that moved after a delete, in earlier openings.
    trimmed: u64,
}

impl Rig {
    async fn new(runtime: Runtime, directory: &str, seed: u64) -> Rig {
        let is_moving = !seed.is_multiple_of(2);
        let path = format!("{directory}/drive-{seed}");
        let spec = PoolSpec {
            name: "pool".into(),
            drives: vec![DriveSpec { path: path.clone(), create_size_bytes: Some(POOL_BYTES) }],
            protection: Protection::None,
            segment_bytes: Some(512 << 10),
            width: None,
            spares: 0,
        };
        Engine::create_pool(&runtime, spec).await.unwrap();
        let engine = open(&runtime, &path, is_moving).await;
        Rig {
            runtime,
            engine,
            path,
            model: Model::default(),
            chance: Chance(seed << 8 | 1),
            is_moving,
            emptied: 0,
            trimmed: 0,
        }
    }

    async fn volume_create(&mut self) {
        let name = self.model.name("v");
        // The cleaner compresses LZ4 chunks anew when it moves them, which the model does not know.
        let cold = if self.is_moving { Compression::Zstd } else { Compression::Lz4 };
        let compression = self.chance.pick(&[Compression::Off, Compression::Zstd, cold]).unwrap();
        let made = self.engine.volume_create(volume(&name, compression)).await.unwrap();
        self.model.images.insert(name, Image { id: made.id, origin: None, slots: BTreeMap::new() });
        self.model.compressions.insert(made.id, compression);
    }

    async fn write(&mut self, name: &str) {
        let device = self.engine.device(name).unwrap();
        let image = self.model.images.get_mut(name).unwrap();
        let compression = self.model.compressions[&image.id];
        let first = self.chance.below(VOLUME_BLOCKS / WRITE_BLOCKS) * WRITE_BLOCKS;
        // Where much is moved, chunks of one block: the cleaner trims larger ones, which the model does not
        // know.
        let blocks = if self.is_moving { 1 } else { 1 + self.chance.below(WRITE_BLOCKS) };
        let noise = self.chance.pick(&[100, 1_700, 2_900, 4_096]).unwrap();
        let data = content(&mut self.chance, blocks, noise);
        device.write(first * BLOCK, &data, false).await.unwrap();
        let pieces = match packed_bytes(compression, &data) {
            Some(payload) => vec![(first..first + blocks, payload)],
            None => (first..first + blocks).map(|block| (block..block + 1, BLOCK)).collect(),
        };
        for (range, payload) in pieces {
            let chunk = self.model.chunks.len();
            // Header and payload; the next record starts on a multiple of 64.
            self.model.chunks.push(Chunk {
                bytes: (32 + payload).next_multiple_of(64),
                blocks: range.end - range.start,
                writer: image.id,
            });
            image.slots.extend(range.map(|block| (block, Slot::Chunk(chunk))));
        }
    }

    async fn clear(&mut self, name: &str) {
        let device = self.engine.device(name).unwrap();
        let first = self.chance.below(VOLUME_BLOCKS);
        let span = self.chance.pick(&[3, 40, 700]).unwrap();
        let blocks = 1 + self.chance.below(span.min(VOLUME_BLOCKS - first));
        let slots = &mut self.model.images.get_mut(name).unwrap().slots;
        if self.chance.below(2) == 0 {
            device.unmap(first * BLOCK, blocks * BLOCK).await.unwrap();
            slots.retain(|block, _| !(first..first + blocks).contains(block));
        } else {
            device.write_zeroes(first * BLOCK, blocks * BLOCK, false).await.unwrap();
            slots.extend((first..first + blocks).map(|block| (block, Slot::Zero)));
        }
    }

    async fn snapshot(&mut self) {
        let mut volumes: BTreeSet<String> = BTreeSet::new();
        let all = self.model.volumes();
        (0..=self.chance.below(2)).for_each(|_| volumes.extend(self.chance.pick(&all)));
        let volumes: Vec<String> = volumes.into_iter().collect();
        if volumes.is_empty() {
            return;
        }
        let name = self.model.name("s");
        self.engine.snapshot_create(&name, &volumes).await.unwrap();
        for volume in volumes {
            let source = self.model.images[&volume].clone();
            // A snapshot's image never writes, so its own identity does not matter.
            let image = Image { id: u64::MAX, origin: Some(source.id), ..source };
            self.model.images.insert(format!("{volume}@{name}"), image);
        }
    }

    async fn clone(&mut self) {
        let all: Vec<String> = self.model.images.keys().cloned().collect();
        let Some(from) = self.chance.pick(&all) else { return };
        let name = self.model.name("c");
        let made = self.engine.clone_create(&name, &from).await.unwrap().remove(0);
        let slots = self.model.images[&from].slots.clone();
        self.model.images.insert(name, Image { id: made.id, origin: None, slots });
        self.model.compressions.insert(made.id, made.compression);
    }

    async fn delete(&mut self, name: &str) {
        if self.model.images.contains_key(name) {
            self.engine.volume_delete(name).await.unwrap();
        } else {
            self.engine.snapshot_delete(name).await.unwrap();
        }
        for image in self.model.images_of(name) {
            self.model.images.remove(&image);
        }
    }

    async fn reopen(self) -> Rig {
        let (emptied, trimmed) = (self.emptied(), self.trimmed());
        let Rig { runtime, engine, path, model, chance, is_moving, .. } = self;
        engine.close().await.unwrap();
        // It holds its drives to the last.
        drop(engine);
        let engine = open(&runtime, &path, is_moving).await;
        Rig { runtime, engine, path, model, chance, is_moving, emptied, trimmed }
    }

    fn trimmed(&self) -> u64 {
        self.trimmed + self.engine.status().counters.trimmed_blocks
    }

    /// Counted bytes are the model's, or a little less once chunks were trimmed.
    fn compare(&self, counted: u64, by_model: u64, what: &str) {
        if self.trimmed() == 0 {
            assert_eq!(counted, by_model, "{what}");
        }
        let is_near = counted <= by_model && counted >= by_model / 10 * 7;
        assert!(is_near, "{what}: {counted} of {by_model}");
    }

    fn emptied(&self) -> u64 {
        self.emptied + self.engine.status().counters.segments_emptied
    }

    /// Some changes of every kind.
    async fn live(&mut self, steps: u64) {
        for _ in 0..steps {
            let volumes = self.model.volumes();
            match self.chance.below(100) {
                0 if volumes.len() < 4 => self.volume_create().await,
                1 if self.model.images.len() < 14 => self.snapshot().await,
                2 if self.model.images.len() < 14 => self.clone().await,
                3 if self.model.images.len() > 9 => {
                    let mut names = self.model.snapshots();
                    names.extend(volumes);
                    let name = self.chance.pick(&names).unwrap();
                    self.delete(&name).await;
                }
                4..=9 => {
                    if let Some(name) = self.chance.pick(&volumes) {
                        self.clear(&name).await;
                    }
                }
                _ => match self.chance.pick(&volumes) {
                    Some(name) => self.write(&name).await,
                    None => self.volume_create().await,
                },
            }
        }
    }

    /// The accounts, compared with the model.
    async fn report(&self) -> SpaceReport {
        let report = self.engine.space_report(PATIENCE).await.unwrap();
        assert_eq!(report.parts.sum_bytes(), report.parts.physical_bytes, "{:?}", report.parts);
        assert_eq!(report.parts.physical_bytes, POOL_BYTES);
        let holders = self.model.holders();
        self.compare(chunk_bytes(&report), self.model.bytes(holders.keys().copied()), "alive");
        if self.trimmed() == 0 {
            assert_eq!(report.parts.stranded_bytes, Some(self.model.stranded_bytes()));
        }
        let shared = holders.iter().filter(|(_, names)| names.len() > 1).map(|(chunk, _)| *chunk);
        let walked = report.walked.unwrap();
        self.compare(walked.shared_bytes, self.model.bytes(shared), "shared");
        let names: BTreeSet<&String> = report.images.iter().map(|image| &image.name).collect();
        assert_eq!(names, self.model.images.keys().collect());
        let mut written_bytes = 0;
        for share in &report.images {
            let slots = &self.model.images[&share.name].slots;
            let zero = slots.values().filter(|slot| **slot == Slot::Zero).count() as u64;
            let walked = share.walked.unwrap();
            assert_eq!(share.written_bytes, Some((slots.len() as u64 - zero) * BLOCK), "{}", share.name);
            assert_eq!(walked.zero_bytes, zero * BLOCK, "{}", share.name);
            assert_eq!(
                walked.unwritten_bytes,
                (VOLUME_BLOCKS - slots.len() as u64) * BLOCK,
                "{}",
                share.name
            );
            let only = self.model.reclaim(&BTreeSet::from([share.name.clone()])).0;
            self.compare(walked.only_bytes, only, &share.name);
            written_bytes += share.written_bytes.unwrap();
        }
        let saved = walked.sharing_saved_bytes.cast_signed() + walked.compression_saved_bytes;
        assert_eq!(written_bytes.cast_signed() - saved, report.parts.data_alive_bytes.cast_signed());
        report
    }

    /// Predicts for a random set, and returns the names of what was asked.
    async fn predict(&mut self) -> (Vec<String>, ashlar_engine::ReclaimReport) {
        let mut all = self.model.snapshots();
        all.extend(self.model.images.keys().cloned());
        let names: Vec<String> = (0..=self.chance.below(5)).filter_map(|_| self.chance.pick(&all)).collect();
        let set: BTreeSet<String> = names.iter().flat_map(|name| self.model.images_of(name)).collect();
        let report = self.engine.reclaim(&names, PATIENCE).await.unwrap();
        let (bytes, count, kept) = self.model.reclaim(&set);
        assert_eq!(report.chunk_count, count, "{names:?}");
        self.compare(report.chunk_bytes, bytes, "given back");
        self.compare(report.kept_bytes, kept, "kept");
        assert_eq!(report.members.iter().cloned().collect::<BTreeSet<_>>(), set);
        (names, report)
    }

    /// Who holds what of a random volume or snapshot, compared with the model.
    async fn check_holders(&mut self) {
        let mut names = self.model.volumes();
        names.extend(self.model.snapshots());
        let Some(name) = self.chance.pick(&names) else { return };
        let mut report = self.engine.holders(&name, PATIENCE).await.unwrap();
        // In the order of the volume table, which is not the model's.
        report.members.sort();
        let by_model = self.holders_by_model(&name);
        self.compare(report.only_bytes, by_model.only_bytes, &name);
        if self.trimmed() == 0 {
            assert_eq!(report, by_model, "{name}");
        }
    }

    fn holders_by_model(&self, name: &str) -> HoldersReport {
        let asked = self.model.images_of(name);
        let is_snapshot = !self.model.images.contains_key(name);
        let id = self.model.images[&asked[0]].id;
        let is_snapshot_of_it = |image: &str| self.model.images[image].origin == Some(id);
        let mut expected = HoldersReport { is_snapshot, ..HoldersReport::default() };
        let mut alone: BTreeMap<&str, u64> = BTreeMap::new();
        for (chunk, names) in self.model.holders() {
            let Chunk { bytes, writer, .. } = self.model.chunks[chunk];
            let (ours, others): (Vec<&str>, Vec<&str>) =
                names.iter().copied().partition(|image| asked.iter().any(|ours| ours == image));
            let was_ours = writer == id || others.iter().any(|image| is_snapshot_of_it(image));
            match (ours.is_empty(), others.as_slice()) {
                (false, []) => expected.only_bytes += bytes,
                (is_gone, _) if is_snapshot == is_gone || is_gone && !was_ours => {}
                (_, [one]) => *alone.entry(one).or_default() += bytes,
                _ => expected.several_bytes += bytes,
            }
        }
        expected.holders = alone
            .iter()
            .map(|(name, bytes)| ashlar_engine::Holder {
                name: (*name).to_string(),
                is_snapshot: name.contains('@'),
                bytes: *bytes,
            })
            .collect();
        expected.holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        expected.members = asked;
        expected
    }

    /// Deletes the set for real; what comes back must be what was predicted.
    async fn delete_and_measure(&mut self) {
        let before = self.report().await;
        let (names, predicted) = self.predict().await;
        // An image of a group goes with the others only: predicted above, not deleted.
        if names.iter().any(|name| name.contains('@')) {
            return;
        }
        for name in names.iter().collect::<BTreeSet<_>>() {
            self.delete(name).await;
        }
        let after = self.report().await;
        let pages = |report: &SpaceReport| report.walked.unwrap().map_page_bytes;
        let given_back = chunk_bytes(&before) - chunk_bytes(&after);
        // Deleting has chunks moved, and trimming them gives more.
        self.compare(predicted.chunk_bytes, given_back, "given back");
        assert_eq!(pages(&before) - pages(&after), predicted.map_page_bytes);
        assert!(predicted.map_page_count > 0 || predicted.map_page_bytes == 0);
    }
}

async fn open(runtime: &Runtime, path: &str, is_moving: bool) -> Engine {
    let free_percent_wanted = if is_moving { 80 } else { 0 };
    let settings = Settings { cache_bytes: 1 << 20, free_percent_wanted, ..Settings::default() };
    Engine::open(runtime, &[path.to_string()], settings).await.unwrap()
}

fn volume(name: &str, compression: Compression) -> VolumeSpec {
    VolumeSpec {
        name: name.into(),
        size_bytes: VOLUME_BLOCKS * BLOCK,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression,
        dedupe: false,
    }
}

/// Whole chunks that something refers to.
fn chunk_bytes(report: &SpaceReport) -> u64 {
    report.parts.data_alive_bytes + report.parts.stranded_bytes.unwrap()
}

/// Blocks of which the first `noise` bytes do not compress.
fn content(chance: &mut Chance, blocks: u64, noise: usize) -> Vec<u8> {
    let mut data = vec![7; (blocks * BLOCK) as usize];
    for block in data.chunks_exact_mut(BLOCK as usize) {
        block[..noise].fill_with(|| chance.next() as u8);
        block[0] |= 1;
    }
    data
}

fn packed_bytes(compression: Compression, data: &[u8]) -> Option<u64> {
    let codec = match compression {
        Compression::Off => Codec::None,
        Compression::Lz4 => Codec::Lz4,
        Compression::Zstd => Codec::Zstd,
    };
    ashlar_reduction::compress(codec, data, &mut vec![0; data.len()]).map(|length| length as u64)
}

async fn story(runtime: Runtime, directory: String, seed: u64) -> (u64, u64) {
    let mut rig = Rig::new(runtime, &directory, seed).await;
    for round in 0..6 {
        rig.live(400).await;
        rig.report().await;
        rig.predict().await;
        rig.check_holders().await;
        rig.delete_and_measure().await;
        if round % 3 == 2 {
            rig = rig.reopen().await;
            rig.report().await;
        }
    }
    let everything: Vec<String> = rig.model.volumes().into_iter().chain(rig.model.snapshots()).collect();
    let alive = rig.report().await;
    let predicted = rig.engine.reclaim(&everything, PATIENCE).await.unwrap();
    assert_eq!(predicted.chunk_bytes, chunk_bytes(&alive));
    assert_eq!(predicted.map_page_bytes, alive.walked.unwrap().map_page_bytes);
    let estimate = rig.engine.space_estimate().await.unwrap();
    assert!(estimate.is_estimate && estimate.parts.sum_bytes() == POOL_BYTES, "{estimate:?}");
    assert_eq!(rig.engine.check().await.unwrap().errors, Vec::<String>::new());
    let moved = (rig.emptied(), rig.trimmed());
    rig.engine.close().await.unwrap();
    moved
}

#[test]
fn what_is_predicted_for_any_set_is_what_its_deletion_gives_back() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().to_str().unwrap().to_string();
    on_shard(move |runtime| {
        Box::pin(async move {
            let mut emptied = 0;
            for seed in 1..=6 {
                let (emptied_here, trimmed) = story(runtime.clone(), path.clone(), seed).await;
                assert!(seed % 2 == 0 || trimmed == 0, "a chunk of one block was trimmed");
                emptied += emptied_here;
            }
            println!("{emptied} segments were emptied");
            assert!(emptied > 0, "nothing was ever moved: the lengths of moved records went unread");
        })
    });
}

#[test]
fn wrong_names_and_too_little_time_are_refused() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().to_str().unwrap().to_string();
    on_shard(move |runtime| {
        Box::pin(async move {
            let rig = Rig::new(runtime, &path, 9).await;
            let engine = &rig.engine;
            engine.volume_create(volume("twin", Compression::Off)).await.unwrap();
            engine.snapshot_create("twin", &["twin".into()]).await.unwrap();
            let ask = async |name: &str| engine.reclaim(&[name.to_string()], PATIENCE).await;
            assert_eq!(ask("twin").await.unwrap_err().kind, ErrorKind::Invalid);
            assert_eq!(ask("volume:twin").await.unwrap().members, ["twin"]);
            assert_eq!(ask("snapshot:twin").await.unwrap().members, ["twin@twin"]);
            for name in ["nobody", "twin@nobody", "nobody@twin", "volume:nobody", "snapshot:"] {
                assert_eq!(ask(name).await.unwrap_err().kind, ErrorKind::NotFound, "{name}");
            }
            assert_eq!(engine.reclaim(&[], PATIENCE).await.unwrap().chunk_bytes, 0);
            let hurried = engine.space_report(Duration::ZERO).await.unwrap_err();
            assert_eq!(hurried.kind, ErrorKind::Busy);
            engine.close().await.unwrap();
        })
    });
}
