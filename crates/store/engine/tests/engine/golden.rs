//! Golden pools: one of each format version is kept for ever and must open, replay and read.
//!
//! `golden/format-2.pool.zst` is a drive of a pool that was left without a clean close: a checkpoint,
//! a journal behind it, a snapshot, a clone, a hole, 512-byte writes, a leaf that is a DELTA in the volume
//! and in the snapshot, chunks that were trimmed to one of their blocks. A new format version or feature
//! adds a file made by `ASHLAR_WRITE_GOLDEN=1 cargo test -p ashlar-engine golden`; none is ever
//! replaced. Version 1 was never released: its pool is kept to be refused with a sentence.
// The drive is a real file.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use crate::support::on_shard;
use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::Runtime;

const DRIVE_BYTES: usize = 4 << 20;

/// All there are.
const GOLDEN: [&str; 1] = ["format-2"];
/// The one that is made anew.
const NEWEST: &str = GOLDEN[GOLDEN.len() - 1];
/// Where the leaf is that is written as differences.
const DELTAS_AT: u64 = 2 << 30;
/// Where chunks are of which only the last block is left, and how many.
const TRIMMED_AT: u64 = 3 << 30;
const TRIMMED_CHUNKS: u32 = 40;
const CHUNK_BYTES: u64 = 16 << 10;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.pool.zst"))
}

fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..length)
        .map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Half of each block compresses.
            if at % 4096 < 2048 { (state >> 24) as u8 } else { seed as u8 }
        })
        .collect()
}

/// A whole leaf's blocks, as they are after so many changes.
fn leaf(changes: u8) -> Vec<u8> {
    let mut blocks: Vec<u8> = (0..512).flat_map(|block| [(block % 7) as u8 + 1; 4096]).collect();
    for change in 0..changes {
        let at = usize::from(change) * 9 * 4096;
        blocks[at..at + 4096].fill(0x80 + change);
    }
    blocks
}

async fn change_leaf(engine: &Engine, changes: std::ops::Range<u8>) {
    let data = engine.device("data").unwrap();
    for change in changes {
        data.write(DELTAS_AT + u64::from(change) * 9 * 4096, &[0x80 + change; 4096], false).await.unwrap();
    }
}

/// What a golden pool holds: image, offset, content.
fn contents() -> Vec<(&'static str, u64, Vec<u8>)> {
    let mut contents = contents_of_all();
    contents.extend([("data", DELTAS_AT, leaf(15)), ("data@before", DELTAS_AT, leaf(5))]);
    contents.extend((0..TRIMMED_CHUNKS).map(|chunk| {
        let mut left = vec![0; CHUNK_BYTES as usize];
        left[3 * 4096..].copy_from_slice(&chunk_content(chunk)[3 * 4096..]);
        ("data", TRIMMED_AT + u64::from(chunk) * CHUNK_BYTES, left)
    }));
    contents
}

fn chunk_content(chunk: u32) -> Vec<u8> {
    // Few contents, so that the file stays small.
    pattern(100 + chunk % 3, CHUNK_BYTES as usize)
}

/// Chunks of which three of four blocks die, and a cycle of the cleaner that moves the rest.
async fn trim_chunks(runtime: &Runtime, engine: &Engine) {
    let data = engine.device("data").unwrap();
    let at = |chunk: u32| TRIMMED_AT + u64::from(chunk) * CHUNK_BYTES;
    for chunk in 0..TRIMMED_CHUNKS {
        data.write(at(chunk), &chunk_content(chunk), false).await.unwrap();
    }
    engine.check().await.unwrap();
    for chunk in 0..TRIMMED_CHUNKS {
        data.unmap(at(chunk), 3 * 4096).await.unwrap();
    }
    for _ in 0..500 {
        // A discard of a segment and more asks for a mark.
        data.unmap(TRIMMED_AT + (1 << 30), 1 << 20).await.unwrap();
        engine.check().await.unwrap();
        if engine.status().counters.trimmed_blocks > 0 {
            return;
        }
        runtime.sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("nothing was trimmed: {:?}", engine.status().counters);
}

fn contents_of_all() -> Vec<(&'static str, u64, Vec<u8>)> {
    let old = pattern(1, 20 * 4096);
    let mut new = old.clone();
    new[512..1024].copy_from_slice(&pattern(2, 512));
    new[5 * 4096..8 * 4096].fill(0);
    let mut copy = old.clone();
    copy[10 * 4096..11 * 4096].copy_from_slice(&pattern(3, 4096));
    vec![
        ("data", 1 << 30, new),
        ("data@before", 1 << 30, old),
        ("copy", 1 << 30, copy),
        ("data", 0, vec![0; 4096]),
    ]
}

async fn make(runtime: Runtime, drive: String) {
    let spec = PoolSpec {
        name: "golden".into(),
        drives: vec![DriveSpec { path: drive.clone(), create_size_bytes: Some(DRIVE_BYTES as u64) }],
        protection: Protection::None,
        segment_bytes: Some(128 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(&runtime, spec).await.unwrap();
    let engine = Engine::open(&runtime, std::slice::from_ref(&drive), Settings::default()).await.unwrap();
    let volume = VolumeSpec {
        name: "data".into(),
        size_bytes: 1 << 40,
        logical_block_bytes: 512,
        profile: Profile::Oltp,
        compression: Compression::Zstd,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
    let data = engine.device("data").unwrap();
    data.write(1 << 30, &pattern(1, 20 * 4096), false).await.unwrap();
    data.write(DELTAS_AT, &leaf(0), false).await.unwrap();
    engine.check().await.unwrap();
    change_leaf(&engine, 0..5).await;
    trim_chunks(&runtime, &engine).await;
    engine.snapshot_create("before", &["data".into()]).await.unwrap();
    engine.check().await.unwrap();
    change_leaf(&engine, 5..10).await;
    engine.check().await.unwrap();
    let deltas = engine.status().counters.delta_pages_written;
    assert!(deltas >= 2, "{deltas} deltas");
    // Behind the checkpoint that `check` wrote:
    engine.clone_create("copy", "data@before").await.unwrap();
    let copy = engine.device("copy").unwrap();
    copy.write((1 << 30) + 10 * 4096, &pattern(3, 4096), false).await.unwrap();
    data.write((1 << 30) + 512, &pattern(2, 512), false).await.unwrap();
    data.unmap((1 << 30) + 5 * 4096, 3 * 4096).await.unwrap();
    change_leaf(&engine, 10..15).await;
    let bytes = std::fs::read(&drive).unwrap();
    let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let length = zstd_safe::compress(&mut packed[..], &bytes, 19).unwrap();
    std::fs::write(golden(NEWEST), &packed[..length]).unwrap();
    engine.close().await.unwrap();
}

async fn open(runtime: Runtime, drive: String) {
    let engine = Engine::open(&runtime, &[drive], Settings::default()).await.unwrap();
    assert!(engine.status().recovery.records_replayed >= 4, "{:?}", engine.status().recovery);
    for (image, offset, expected) in contents() {
        let mut bytes = vec![0xee; expected.len()];
        engine.device(image).unwrap().read(offset, &mut bytes).await.unwrap();
        assert!(bytes == expected, "{image} at {offset}");
    }
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
    engine.close().await.unwrap();
}

#[test]
fn pools_of_every_format_version_open() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if std::env::var_os("ASHLAR_WRITE_GOLDEN").is_some() {
        let drive = dir.path().join("new").to_str().unwrap().to_string();
        on_shard(move |runtime| Box::pin(make(runtime, drive)));
    }
    for name in GOLDEN {
        let packed = std::fs::read(golden(name)).unwrap();
        let mut bytes = vec![0; DRIVE_BYTES];
        let length = zstd_safe::decompress(&mut bytes[..], &packed).unwrap();
        assert_eq!(length, DRIVE_BYTES);
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let drive = path.to_str().unwrap().to_string();
        on_shard(move |runtime| Box::pin(open(runtime, drive)));
    }
}

#[test]
fn a_pool_of_version_1_is_refused_with_a_sentence() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let packed = std::fs::read(golden("format-1")).unwrap();
    let mut bytes = vec![0; DRIVE_BYTES];
    zstd_safe::decompress(&mut bytes[..], &packed).unwrap();
    let path = dir.path().join("old");
    std::fs::write(&path, &bytes).unwrap();
    let drive = path.to_str().unwrap().to_string();
    on_shard(move |runtime| {
        Box::pin(async move {
            let refused = Engine::open(&runtime, std::slice::from_ref(&drive), Settings::default())
                .await
                .err()
                .unwrap();
            assert!(refused.to_string().contains("format version 1"), "{refused}");
            let spec = PoolSpec {
                name: "over".into(),
                drives: vec![DriveSpec { path: drive, create_size_bytes: None }],
                protection: Protection::None,
                segment_bytes: Some(128 << 10),
                width: None,
                spares: 0,
            };
            // It is somebody's pool all the same.
            let refused = Engine::create_pool(&runtime, spec).await.err().unwrap();
            assert!(refused.to_string().contains("format version 1"), "{refused}");
        })
    });
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was written");
}
