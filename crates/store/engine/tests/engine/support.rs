//! A shard for one test, and what tests make on it.
#![allow(clippy::unwrap_used, dead_code)]

use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, VolumeSpec};
use ashlar_runtime::{LocalFuture, Runtime, ShardSettings, start_shard};

/// Runs a test on a shard of its own, to its end.
pub fn on_shard(test: impl FnOnce(Runtime) -> LocalFuture<'static, ()> + Send + 'static) {
    on_shard_with(ShardSettings::default(), test);
}

/// The same with settings.
pub fn on_shard_with(
    settings: ShardSettings,
    test: impl FnOnce(Runtime) -> LocalFuture<'static, ()> + Send + 'static,
) {
    let (done, finished) = std::sync::mpsc::channel();
    let shard = start_shard(settings, move |runtime| {
        Box::pin(async move {
            test(runtime).await;
            done.send(()).unwrap();
        })
    });
    shard.unwrap().join();
    finished.recv().expect("the test ran to its end");
}

/// The same with the path of a drive that is not there yet.
pub fn on_drive(test: impl FnOnce(Runtime, String) -> LocalFuture<'static, ()> + Send + 'static) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = format!("{}/drive", directory.path().to_str().unwrap());
    on_shard(move |runtime| test(runtime, path));
}

/// The same with the path of an empty directory.
pub fn in_directory(test: impl AsyncFnOnce(Runtime, String) + Send + 'static) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().to_str().unwrap().to_string();
    on_shard(move |runtime| Box::pin(test(runtime, path)));
}

/// Content that half compresses and is told apart by its seed.
pub fn bytes_of(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|at| if at % 8 < 4 { next() } else { seed as u8 }).collect()
}

/// A volume as they are without a wish.
pub fn volume(name: &str, size_bytes: u64) -> VolumeSpec {
    VolumeSpec {
        name: name.to_string(),
        size_bytes,
        logical_block_bytes: 4096,
        profile: Profile::General,
        compression: Compression::Lz4,
        dedupe: false,
    }
}

/// Makes a pool of one drive of 64 MiB in segments of 256 KiB.
pub async fn create_small_pool(runtime: &Runtime, path: &str) {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.to_string(), create_size_bytes: Some(64 << 20) }],
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
}
