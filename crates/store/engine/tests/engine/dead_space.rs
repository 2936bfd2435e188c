//! What a pool tells of the space that nothing refers to and that is not free yet.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::support::{bytes_of, on_drive};
use ashlar_engine::{
    Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, Space, VolumeSpec,
};
use ashlar_runtime::Runtime;

const POOL_BYTES: u64 = 64 << 20;
/// Each is one chunk.
const PIECE_BYTES: u64 = 16 << 10;
/// For each volume.
const WRITTEN_BYTES: u64 = 20 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

async fn open_new(runtime: &Runtime, path: &str) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.into(), create_size_bytes: Some(POOL_BYTES) }],
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    Engine::open(runtime, &[path.to_string()], Settings::default()).await.unwrap()
}

fn volume(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.into(),
        size_bytes: WRITTEN_BYTES,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    }
}

/// Pieces of both volumes in turns: no segment is only of one.
async fn write_in_turns(engine: &Engine) {
    for name in ["kept", "deleted"] {
        engine.volume_create(volume(name)).await.unwrap();
    }
    let devices = [engine.device("kept").unwrap(), engine.device("deleted").unwrap()];
    for piece in 0..WRITTEN_BYTES / PIECE_BYTES {
        for device in &devices {
            device.write(piece * PIECE_BYTES, &[piece as u8 | 1; PIECE_BYTES as usize], false).await.unwrap();
        }
    }
}

/// The space once a mark has found so much dead or free that was neither before.
async fn space_once_told(runtime: &Runtime, engine: &Engine, before: Space, bytes: u64) -> Space {
    for _ in 0..PATIENCE.as_millis() / 10 {
        let now = engine.status().space;
        if now.dead_bytes + now.free_bytes > before.dead_bytes + before.free_bytes + bytes {
            return now;
        }
        runtime.sleep(Duration::from_millis(10)).await;
    }
    panic!("before {before:?}, now {:?}", engine.status().space);
}

async fn delete_every_other_piece(runtime: Runtime, path: String) {
    let engine = open_new(&runtime, &path).await;
    write_in_turns(&engine).await;
    let full_percent = engine.status().full_percent;
    let before = engine.status().space;
    engine.volume_delete("deleted").await.unwrap();
    let after = space_once_told(&runtime, &engine, before, WRITTEN_BYTES / 10 * 9).await;
    // Half of every segment lives: none is free, and none is worth emptying while there is room.
    assert!(after.free_bytes < before.free_bytes + WRITTEN_BYTES / 4, "{before:?}, {after:?}");
    assert!(after.dead_bytes <= after.data_bytes + after.metadata_bytes, "{after:?}");
    let now_percent = engine.status().full_percent;
    assert!(now_percent + 25 < full_percent, "{full_percent} % before, {now_percent} % after");
    engine.close().await.unwrap();
    drop(engine);
    // The table on the drive knows it, too.
    let engine = Engine::open(&runtime, &[path], Settings::default()).await.unwrap();
    let reopened = engine.status().space;
    assert!(reopened.dead_bytes > WRITTEN_BYTES / 10 * 8, "{after:?}, {reopened:?}");
    engine.close().await.unwrap();
}

#[test]
fn what_is_deleted_among_what_is_kept_is_told_as_dead_at_once() {
    on_drive(|runtime, path| Box::pin(delete_every_other_piece(runtime, path)));
}

/// Blocks that do not compress, of which a length in units of 256 bytes says too much. A footer takes one
/// block of 62 in a container of this size, one of 120 in a large one.
async fn fill_nearly(runtime: Runtime, path: String) {
    let engine = open_new(&runtime, &path).await;
    let pieces = engine.status().space.free_bytes * 92 / 100 / PIECE_BYTES;
    let size_bytes = pieces * PIECE_BYTES;
    engine.volume_create(VolumeSpec { size_bytes, ..volume("data") }).await.unwrap();
    let device = engine.device("data").unwrap();
    let piece = |seed: u64| bytes_of(seed, PIECE_BYTES as usize);
    for at in 0..pieces {
        device.write(at * PIECE_BYTES, &piece(at), false).await.unwrap();
    }
    for at in (0..pieces).step_by(7) {
        device.write(at * PIECE_BYTES, &piece(at + pieces)[..4096], false).await.unwrap();
    }
    let status = engine.status();
    assert!(status.counters.segments_emptied > 0, "there was room without: {status:?}");
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
    engine.close().await.unwrap();
}

#[test]
fn a_pool_takes_as_much_as_it_said_but_for_what_headers_take() {
    on_drive(|runtime, path| Box::pin(fill_nearly(runtime, path)));
}
