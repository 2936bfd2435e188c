//! Superblocks that decode, with a right checksum, and that no pool can have: damage, never a process that
//! stops.
#![allow(clippy::unwrap_used)]

mod support;

use ashlar_format::segment::{Place, Protection};
use ashlar_format::superblock::{FrontierEntry, Superblock};
use ashlar_pool::{ErrorKind, Opening, Pool, PoolSpec, SEGMENT_NUMBERS_END};
use ashlar_units::{DriveIndex, Lsn, SegmentId};
use support::{on_shard, specs_of};

type Change = fn(&mut Superblock);

fn listed(segment: u32, cell: u32) -> FrontierEntry {
    FrontierEntry { segment: SegmentId(segment), place: Place { drive: DriveIndex(0), cell } }
}

const IMPOSSIBLE: [(&str, Change); 11] = [
    ("generation", |superblock| superblock.generation = u64::MAX - 9),
    ("opening", |superblock| superblock.session = u32::MAX),
    ("checkpoint", |superblock| superblock.checkpoint = Lsn(u64::MAX)),
    ("journal sequence", |superblock| superblock.journal.sequence = u64::MAX),
    ("next volume", |superblock| superblock.volume_next = u64::MAX),
    ("segments of", |superblock| superblock.segment_bytes *= 2),
    ("segments of", |superblock| superblock.cell_bytes = 0),
    ("the journal goes on", |superblock| superblock.journal.offset_bytes = 1 << 60),
    ("the journal goes on", |superblock| superblock.journal.offset_bytes = 4097),
    ("segment number", |superblock| superblock.frontier.push(listed(SEGMENT_NUMBERS_END, 3))),
    ("which the pool does not have", |superblock| superblock.frontier.push(listed(3, 1 << 30))),
];

#[test]
fn a_superblock_that_no_pool_can_have_is_damage() {
    for (number, (what, change)) in IMPOSSIBLE.into_iter().enumerate() {
        on_shard(async move |runtime, directory| {
            let paths = [format!("{directory}/drive-{number}")];
            let spec = PoolSpec {
                name: "pool".to_string(),
                drives: specs_of(&paths),
                protection: Protection::None,
                segment_bytes: Some(128 << 10),
                width: None,
                spares: 0,
            };
            Pool::create(&runtime, &spec).await.unwrap();
            let pool = Pool::open(&runtime, &paths, &Opening::default()).await.unwrap();
            // The generation is the ring's place too: it ends up in another slot, and is the newest.
            pool.commit(&[], change).await.unwrap();
            drop(pool);
            let refused = loop {
                let opened = match Pool::open(&runtime, &paths, &Opening::default()).await {
                    Ok(pool) => pool.adopt_frontier().await.map(drop),
                    Err(error) => Err(error),
                };
                match opened {
                    // The last pool lets go of its drive a moment later.
                    Err(error) if error.kind == ErrorKind::Busy => runtime.yield_now().await,
                    other => break other.unwrap_err(),
                }
            };
            assert_eq!(refused.kind, ErrorKind::Damaged, "{what}: {refused}");
            assert!(refused.to_string().contains(what), "{what}: {refused}");
        });
    }
}
