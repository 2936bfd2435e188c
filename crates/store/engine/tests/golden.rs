//! Golden pools: one of each format version is kept for ever and must open, replay and read.
//!
//! `golden/format-1.pool.zst` is a drive of a pool that was left without a clean close: a checkpoint,
//! a journal behind it, a snapshot, a clone, a hole, 512-byte writes. A new format version adds a file
//! made by `ASHLAR_WRITE_GOLDEN=1 cargo test -p ashlar-engine --test golden`; none is ever replaced.
// The drive is a real file.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::{LocalFuture, Runtime, ShardSettings, start_shard};

const DRIVE_BYTES: usize = 4 << 20;

fn on_shard(test: impl FnOnce(Runtime) -> LocalFuture<'static, ()> + Send + 'static) {
    let (done, finished) = std::sync::mpsc::channel();
    let shard = start_shard(ShardSettings::default(), move |runtime| {
        Box::pin(async move {
            test(runtime).await;
            done.send(()).unwrap();
        })
    });
    shard.unwrap().join();
    finished.recv().expect("the test ran to its end");
}

fn golden(version: u16) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/format-{version}.pool.zst"))
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

/// What the golden pool holds: image, offset, content.
fn contents() -> Vec<(&'static str, u64, Vec<u8>)> {
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
    engine.snapshot_create("before", &["data".into()]).await.unwrap();
    engine.check().await.unwrap();
    // Behind the checkpoint that `check` wrote:
    engine.clone_create("copy", "data@before").await.unwrap();
    let copy = engine.device("copy").unwrap();
    copy.write((1 << 30) + 10 * 4096, &pattern(3, 4096), false).await.unwrap();
    data.write((1 << 30) + 512, &pattern(2, 512), false).await.unwrap();
    data.unmap((1 << 30) + 5 * 4096, 3 * 4096).await.unwrap();
    let bytes = std::fs::read(&drive).unwrap();
    let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let length = zstd_safe::compress(&mut packed[..], &bytes, 19).unwrap();
    std::fs::write(golden(1), &packed[..length]).unwrap();
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
    for version in 1..=ashlar_format::FORMAT_VERSION {
        let packed = std::fs::read(golden(version)).unwrap();
        let mut bytes = vec![0; DRIVE_BYTES];
        let length = zstd_safe::decompress(&mut bytes[..], &packed).unwrap();
        assert_eq!(length, DRIVE_BYTES);
        let path = dir.path().join(format!("format-{version}"));
        std::fs::write(&path, bytes).unwrap();
        let drive = path.to_str().unwrap().to_string();
        on_shard(move |runtime| Box::pin(open(runtime, drive)));
    }
}
