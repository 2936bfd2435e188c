//! A damaged map page is the trouble of the images that have it, not of the pool.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::time::Duration;

use crate::support::{bytes_of, on_drive};
use ashlar_block::ErrorKind;
use ashlar_engine::{Compression, DriveSpec, Engine, PoolSpec, Profile, Protection, Settings, VolumeSpec};
use ashlar_runtime::Runtime;

const POOL_BYTES: u64 = 256 << 20;
const VOLUME_BYTES: u64 = 64 << 20;
const PIECE_BYTES: u64 = 256 << 10;

/// The leaf that is spoilt maps this part of its volume.
const LEAF: u64 = 7;
const LEAF_BYTES: u64 = 2 << 20;

async fn create(runtime: &Runtime, path: &str) {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.into(), create_size_bytes: Some(POOL_BYTES) }],
        protection: Protection::None,
        segment_bytes: Some(512 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
}

async fn open(runtime: &Runtime, path: &str) -> Engine {
    Engine::open(runtime, &[path.to_string()], Settings::default()).await.unwrap()
}

async fn add_volume(engine: &Engine, name: &str) {
    let volume = VolumeSpec {
        name: name.into(),
        size_bytes: VOLUME_BYTES,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    };
    engine.volume_create(volume).await.unwrap();
}

/// Two volumes, one of which will be spoilt.
async fn fill(runtime: &Runtime, path: &str) {
    let engine = open(runtime, path).await;
    for name in ["spoilt", "sound"] {
        add_volume(&engine, name).await;
    }
    let (spoilt, sound) = (engine.device("spoilt").unwrap(), engine.device("sound").unwrap());
    spoilt.write(LEAF * LEAF_BYTES, &bytes_of(1, LEAF_BYTES as usize), false).await.unwrap();
    spoilt.write(0, &bytes_of(2, PIECE_BYTES as usize), false).await.unwrap();
    sound.write(0, &bytes_of(3, PIECE_BYTES as usize), false).await.unwrap();
    engine.close().await.unwrap();
}

/// Turns a byte over in every record of a map leaf with this index (docs/internals/on-media.md, map pages).
fn spoil_leaf(path: &str, index: u64) -> usize {
    let mut bytes = std::fs::read(path).unwrap();
    let is_leaf = |record: &[u8]| {
        record[..4] == 0x4150_4731u32.to_le_bytes()
            && record[7..9] == [0, 1]
            && record[24..32] == index.to_le_bytes()
    };
    let found: Vec<usize> = (0..bytes.len() - 64).step_by(64).filter(|at| is_leaf(&bytes[*at..])).collect();
    found.iter().for_each(|at| bytes[at + 70] ^= 0x40);
    std::fs::write(path, bytes).unwrap();
    found.len()
}

/// The cleaner met the page, and the pool stopped to take writes: also the deletion that would have helped.
#[test]
fn a_pool_with_a_damaged_map_page_goes_on_and_what_has_it_can_be_deleted() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            create(&runtime, &path).await;
            fill(&runtime, &path).await;
            assert!(spoil_leaf(&path, LEAF) > 0);

            let engine = open(&runtime, &path).await;
            let (spoilt, sound) = (engine.device("spoilt").unwrap(), engine.device("sound").unwrap());
            // Three times the pool: without a cleaner it is full before that, and says so.
            let mut refused = None;
            for piece in 0..3 * POOL_BYTES / PIECE_BYTES {
                let at = piece * PIECE_BYTES % (LEAF * LEAF_BYTES);
                match sound.write(at, &bytes_of(piece, PIECE_BYTES as usize), false).await {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                        refused = Some(piece);
                        break;
                    }
                }
            }
            let refused = refused.expect("nothing is freed by a mark that cannot be made");
            assert!(refused > POOL_BYTES * 3 / 4 / PIECE_BYTES, "refused at piece {refused}");
            let status = engine.status();
            assert_eq!(status.state, "online");
            assert!(status.cleaner_trouble.is_some_and(|why| why.contains("page record")));

            let mut found = vec![0; PIECE_BYTES as usize];
            spoilt.read(0, &mut found).await.unwrap();
            assert!(found == bytes_of(2, PIECE_BYTES as usize));
            assert!(spoilt.read(LEAF * LEAF_BYTES, &mut found).await.is_err());
            sound.read(0, &mut found).await.unwrap();
            let errors = engine.check().await.unwrap().errors;
            assert!(errors.iter().any(|error| error.contains("spoilt")), "{errors:?}");

            engine.volume_delete("spoilt").await.unwrap();
            let mut tries = 0;
            while let Err(error) = sound.write(0, &bytes_of(9, PIECE_BYTES as usize), false).await {
                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                tries += 1;
                assert!(tries < 500, "no room after the deletion");
                runtime.sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
            assert_eq!(engine.status().cleaner_trouble, None);
            engine.close().await.unwrap();
        })
    });
}
