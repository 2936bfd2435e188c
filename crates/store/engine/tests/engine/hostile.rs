//! Hosts that know the media key, and crashes that leave their content where the pool looks: nothing is taken
//! for a structure that is not where one must be, and no opening uses the pool up.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::support::{bytes_of, in_directory, volume};
use ashlar_engine::{Compression, DriveSpec, Engine, ErrorKind, PoolSpec, Protection, Settings, VolumeSpec};
use ashlar_format::MediaKey;
use ashlar_format::chunk::{CHUNK_HEADER_BYTES, ChunkHeader, Codec};
use ashlar_format::group::GroupHeader;
use ashlar_format::segment::{SegmentHeader, SegmentKind, encode_footer};
use ashlar_format::superblock::CELLS_START_BYTES;
use ashlar_runtime::Runtime;
use ashlar_units::{Lsn, SegmentId};

const SEGMENT_BYTES: u64 = 1 << 20;
const BLOCK: usize = 4096;

async fn create(runtime: &Runtime, path: &str, pool_bytes: u64, segment_bytes: u64) {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.into(), create_size_bytes: Some(pool_bytes) }],
        protection: Protection::None,
        segment_bytes: Some(segment_bytes),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
}

async fn open(runtime: &Runtime, path: &str) -> Engine {
    Engine::open(runtime, &[path.to_string()], Settings::default()).await.unwrap()
}

async fn create_with_volume(runtime: &Runtime, path: &str) -> Engine {
    create(runtime, path, 64 << 20, SEGMENT_BYTES).await;
    let engine = open(runtime, path).await;
    let spec = VolumeSpec { compression: Compression::Off, ..volume("data", 32 << 20) };
    engine.volume_create(spec).await.unwrap();
    engine
}

async fn read(engine: &Engine, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    engine.device("data").unwrap().read(at, &mut bytes).await.unwrap();
    bytes
}

/// What the drive holds if the machine stops now.
fn crash(path: &str, number: usize) -> String {
    let image = format!("{path}-{number}");
    std::fs::copy(path, &image).unwrap();
    image
}

/// The journal segment that was opened last.
struct Journal {
    key: MediaKey,
    segment: SegmentId,
    /// Where it is on the drive.
    at: u64,
    /// Its groups, in order.
    groups: Vec<GroupHeader>,
}

impl Journal {
    fn find(path: &str) -> Journal {
        let bytes = std::fs::read(path).unwrap();
        let cells = (CELLS_START_BYTES..bytes.len() as u64).step_by(SEGMENT_BYTES as usize);
        let header = |at: u64| {
            let block = &bytes[at as usize..at as usize + BLOCK];
            let key = SegmentHeader::key_of(block).ok()?;
            let header = SegmentHeader::decode(&key, block).unwrap();
            (header.kind == SegmentKind::Journal).then_some((header.segment, at, key))
        };
        let newest = cells.filter_map(header).max_by_key(|(segment, ..)| *segment);
        let (segment, at, key) = newest.unwrap();
        let mut journal = Journal { key, segment, at, groups: Vec::new() };
        while let Some(block) = bytes.get((at + journal.end()) as usize..)
            && let Ok((header, ..)) = GroupHeader::open(&journal.key, block)
            && (header.segment, header.offset_bytes) == (segment, journal.end())
        {
            journal.groups.push(header);
        }
        journal
    }

    /// Where the next group goes.
    fn end(&self) -> u64 {
        self.groups.last().map_or(4096, |last| last.offset_bytes + u64::from(last.group_bytes))
    }

    fn forged_group(&self, sequence: u64, offset_bytes: u64) -> Vec<u8> {
        let header = GroupHeader {
            session: self.groups.last().unwrap().session,
            sequence,
            previous_hash: 0,
            first_lsn: Lsn(1 << 62),
            record_count: 0,
            header_bytes: 64,
            group_bytes: BLOCK as u32,
            segment: self.segment,
            offset_bytes,
        };
        let mut block = vec![0; BLOCK];
        header.seal(&self.key, &[], &mut block);
        block
    }
}

fn write_at(path: &str, at: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    // Whoever has it open writes past the page cache, which must not be dirty then.
    file.sync_all().unwrap();
}

async fn write_blocks(engine: &Engine, count: u64) {
    let data = engine.device("data").unwrap();
    for block in 0..count {
        data.write(block * 4096, &bytes_of(block + 1, BLOCK), false).await.unwrap();
    }
}

async fn verify_blocks(engine: &Engine, count: u64) {
    for block in 0..count {
        assert!(read(engine, block * 4096, BLOCK).await == bytes_of(block + 1, BLOCK), "block {block}");
    }
}

/// The rest of the journal's segment was searched for groups, and what a host had written there refused every
/// volume of the pool.
#[test]
fn forged_groups_behind_the_journal_refuse_no_pool() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create_with_volume(&runtime, &path).await;
        write_blocks(&engine, 20).await;
        let crashed = crash(&path, 1);
        engine.close().await.unwrap();
        drop(engine);
        for path in [path, crashed] {
            let journal = Journal::find(&path);
            assert!(journal.groups.len() >= 20);
            let last = journal.groups.last().unwrap().sequence;
            for (index, offset) in (journal.end()..SEGMENT_BYTES).step_by(BLOCK).enumerate() {
                let sequence = [1 << 62, last + 9, last + 2, last + 20][index % 4];
                let forged = journal.forged_group(sequence, offset);
                write_at(&path, journal.at + offset, &forged);
            }
            for _ in 0..2 {
                let engine = open(&runtime, &path).await;
                verify_blocks(&engine, 20).await;
                assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
                engine.close().await.unwrap();
            }
        }
    });
}

#[test]
fn a_lost_group_in_the_middle_of_the_journal_is_refused() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create_with_volume(&runtime, &path).await;
        write_blocks(&engine, 40).await;
        let (middle, last) = (crash(&path, 1), crash(&path, 2));
        engine.close().await.unwrap();
        let journal = Journal::find(&middle);
        let at = |back: usize| journal.at + journal.groups[journal.groups.len() - back].offset_bytes;
        write_at(&middle, at(20), &bytes_of(5, BLOCK));
        let refused = Engine::open(&runtime, &[middle], Settings::default()).await.err().unwrap();
        assert_eq!(refused.kind, ErrorKind::Damaged);
        assert!(refused.context.contains("acknowledged writes would be lost"), "{refused}");
        // The last one may have been in flight.
        write_at(&last, at(1), &bytes_of(5, BLOCK));
        let engine = open(&runtime, &last).await;
        verify_blocks(&engine, 39).await;
        engine.close().await.unwrap();
    });
}

const PAIRS: u64 = 40;

/// The blocks of a pair: the last of a region, and the first of the next, so that they are two chunks.
fn pair_at(pair: u64) -> u64 {
    (pair + 1) * (64 << 10) - 4096
}

/// A block whose chunk covers, if it is believed, the first byte of the chunk behind it.
fn forged_block(journal: &Journal, group_at: u64, seed: u64) -> Vec<u8> {
    let mut block = bytes_of(seed, BLOCK);
    // Group header and two records; chunk header; from here on it is a place where a chunk may begin.
    let start = BLOCK - 128 - CHUNK_HEADER_BYTES;
    let mut forged = vec![0; CHUNK_HEADER_BYTES];
    forged.extend_from_slice(&block[start + CHUNK_HEADER_BYTES..]);
    forged.extend_from_slice(&[0; 32]);
    forged.push(0xa5);
    let header = ChunkHeader {
        // Stored as it is it would have to be whole blocks.
        codec: Codec::Lz4,
        blocks: 1,
        kept: 1,
        segment: journal.segment,
        offset_bytes: group_at + 4096,
        payload_bytes: (forged.len() - CHUNK_HEADER_BYTES) as u32,
        owner_volume: 0,
        owner_block: 0,
    };
    header.seal(&journal.key, &mut forged);
    block[start..start + CHUNK_HEADER_BYTES].copy_from_slice(&forged[..CHUNK_HEADER_BYTES]);
    block
}

/// The cleaner searched dead payloads for records, and a forged one in front of a neighbour's chunk hid it:
/// the segment was freed with live data in it.
async fn forged_chunks(runtime: Runtime, directory: String, is_crash: bool) {
    let mut path = format!("{directory}/drive");
    let mut engine = create_with_volume(&runtime, &path).await;
    let device = engine.device("data").unwrap();
    device.write(16 << 20, &bytes_of(7, BLOCK), false).await.unwrap();
    let journal = Journal::find(&path);
    let group_at = |pair: u64| journal.end() + pair * 12288;
    for pair in 0..PAIRS {
        let mut both = forged_block(&journal, group_at(pair), pair);
        both.extend_from_slice(&bytes_of(1000 + pair, BLOCK));
        device.write(pair_at(pair), &both, false).await.unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    for pair in 0..PAIRS {
        let at = (journal.at + group_at(pair)) as usize;
        let (forged, _) = ChunkHeader::open_any(&journal.key, &bytes[at + 4096..]).unwrap();
        assert_eq!(forged.offset_bytes, group_at(pair) + 4096);
        ChunkHeader::open_any(&journal.key, &bytes[at + 4288..]).unwrap();
    }
    if is_crash {
        // Whoever is asked where chunks are must not ask a footer that a host wrote.
        let image = crash(&path, 1);
        let footer = encode_footer(&journal.key, journal.segment, SegmentKind::Journal, &[]);
        write_at(&image, journal.at + SEGMENT_BYTES - footer.len() as u64, &footer);
        engine.close().await.unwrap();
        path = image;
        engine = open(&runtime, &path).await;
    }
    let device = engine.device("data").unwrap();
    // What is written from here on is in other segments.
    write_and_delete(&engine).await;
    for pair in 0..PAIRS {
        device.write(pair_at(pair), &bytes_of(2000 + pair, BLOCK), false).await.unwrap();
        if pair % 5 != 0 {
            device.write(pair_at(pair) + 4096, &bytes_of(3000 + pair, BLOCK), false).await.unwrap();
        }
    }
    device.write(16 << 20, &bytes_of(8, BLOCK), false).await.unwrap();
    empty_segments(&runtime, &engine, || is_elsewhere(&path, journal.at, &bytes_of(1000, BLOCK))).await;
    let counters = engine.status().counters;
    assert!(counters.segments_emptied > 0 && counters.damage == 0, "{counters:?}");
    engine.close().await.unwrap();
    drop(engine);
    let engine = open(&runtime, &path).await;
    for pair in 0..PAIRS {
        assert!(read(&engine, pair_at(pair), BLOCK).await == bytes_of(2000 + pair, BLOCK), "pair {pair}");
        let seed = if pair % 5 == 0 { 1000 } else { 3000 } + pair;
        assert!(read(&engine, pair_at(pair) + 4096, BLOCK).await == bytes_of(seed, BLOCK), "pair {pair}");
    }
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
    engine.close().await.unwrap();
}

/// Whether a chunk's content is on the drive outside of the segment it was written to.
fn is_elsewhere(path: &str, segment_at: u64, content: &[u8]) -> bool {
    let bytes = std::fs::read(path).unwrap();
    let segment = segment_at..segment_at + SEGMENT_BYTES;
    let places = (CELLS_START_BYTES + 32..bytes.len() as u64 - 4096).step_by(64);
    places.filter(|at| !segment.contains(at)).any(|at| bytes[at as usize..].starts_with(content))
}

async fn write_and_delete(engine: &Engine) {
    let filler = VolumeSpec { compression: Compression::Off, ..volume("filler", 32 << 20) };
    engine.volume_create(filler).await.unwrap();
    let filler = engine.device("filler").unwrap();
    for piece in 0..96 {
        filler.write(piece << 17, &bytes_of(piece, 128 << 10), false).await.unwrap();
    }
    engine.volume_delete("filler").await.unwrap();
}

/// Writes and deletes until the cleaner has done what is waited for.
async fn empty_segments(runtime: &Runtime, engine: &Engine, is_done: impl Fn() -> bool) {
    for _ in 0..20 {
        write_and_delete(engine).await;
        runtime.sleep(Duration::from_millis(200)).await;
        if is_done() {
            return;
        }
    }
    panic!("not emptied: {:?}", engine.status());
}

#[test]
fn a_forged_chunk_hides_no_neighbour_from_the_cleaner() {
    in_directory(async |runtime, directory| forged_chunks(runtime, directory, false).await);
}

#[test]
fn a_forged_chunk_and_a_forged_footer_hide_nothing_behind_a_crash() {
    in_directory(async |runtime, directory| forged_chunks(runtime, directory, true).await);
}

/// Writes of a life that crashed land while the next is at work: they hit nothing that counts.
#[test]
fn late_writes_of_the_life_before_do_no_harm() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create_with_volume(&runtime, &path).await;
        write_blocks(&engine, 30).await;
        let image = crash(&path, 1);
        let data = engine.device("data").unwrap();
        for block in 0..30 {
            data.write((1000 + block) * 4096, &bytes_of(9000 + block, BLOCK), false).await.unwrap();
        }
        let (before, after) = (std::fs::read(&image).unwrap(), std::fs::read(&path).unwrap());
        engine.close().await.unwrap();
        let engine = open(&runtime, &image).await;
        let data = engine.device("data").unwrap();
        for block in 30..60 {
            data.write(block * 4096, &bytes_of(block + 1, BLOCK), false).await.unwrap();
            let late = (CELLS_START_BYTES as usize..before.len()).step_by(BLOCK);
            if block == 45 {
                let late = late.filter(|at| before[*at..at + BLOCK] != after[*at..at + BLOCK]);
                let mut count = 0;
                late.for_each(|at| {
                    write_at(&image, at as u64, &after[at..at + BLOCK]);
                    count += 1;
                });
                assert!(count > 30, "{count} blocks were late");
            }
        }
        let crashed = crash(&image, 2);
        engine.close().await.unwrap();
        drop(engine);
        for path in [image, crashed] {
            let engine = open(&runtime, &path).await;
            verify_blocks(&engine, 60).await;
            assert!(read(&engine, 1000 * 4096, BLOCK).await.iter().all(|byte| *byte == 0));
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            engine.close().await.unwrap();
        }
    });
}

/// Nothing goes on where a crash stopped it; that must not cost a pool its last segments.
#[test]
fn a_full_pool_that_crashes_after_every_opening_still_opens_and_deletes() {
    in_directory(async |runtime, directory| {
        let mut path = format!("{directory}/drive");
        create(&runtime, &path, 24 << 20, 256 << 10).await;
        let mut engine = open(&runtime, &path).await;
        engine.volume_create(volume("data", 64 << 20)).await.unwrap();
        let data = engine.device("data").unwrap();
        let mut filled = 0;
        while data.write(filled << 16, &bytes_of(filled, 64 << 10), false).await.is_ok() {
            filled += 1;
        }
        assert!(filled > 200, "{filled}");
        let mut versions = [0; 4];
        for life in 1..=50 {
            let data = engine.device("data").unwrap();
            if life % 3 > 0 {
                for block in 0..4 {
                    let seed = life * 10 + block;
                    if data.write(block << 18, &bytes_of(seed, BLOCK), false).await.is_ok() {
                        versions[block as usize] = seed;
                    }
                }
            }
            let image = format!("{directory}/drive-{life}");
            std::fs::copy(&path, &image).unwrap();
            engine.close().await.unwrap();
            drop(engine);
            std::fs::remove_file(&path).unwrap();
            path = image;
            engine = open(&runtime, &path).await;
        }
        for block in 0..4_u64 {
            // How many of these a full pool takes depends on when its cleaner runs: perhaps none.
            let expected = match versions[block as usize] {
                0 => bytes_of(block << 2, 64 << 10)[..BLOCK].to_vec(),
                seed => bytes_of(seed, BLOCK),
            };
            let found = read(&engine, block << 18, BLOCK).await;
            let later = (0..=50).find(|life| found == bytes_of(life * 10 + block, BLOCK));
            assert!(found == expected, "block {block}: {versions:?}, found that of life {later:?}");
        }
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        engine.volume_delete("data").await.unwrap();
        engine.volume_create(volume("data", 64 << 20)).await.unwrap();
        let data = engine.device("data").unwrap();
        let mut tries = 0;
        while data.write(0, &bytes_of(1, 64 << 10), false).await.is_err() {
            tries += 1;
            assert!(tries < 500, "no room after the deletion: {:?}", engine.status().space);
            runtime.sleep(Duration::from_millis(20)).await;
        }
        engine.close().await.unwrap();
    });
}
