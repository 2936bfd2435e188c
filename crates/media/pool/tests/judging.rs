//! Stripes whose columns do not agree, on real files: what is proven at once, and what is not.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod support;

use std::cell::Cell;
use std::os::unix::fs::FileExt;

use ashlar_format::segment::{Protection, SegmentKind};
use ashlar_pool::{Opening, Pool, PoolSpec, ScrubCount, Weight};
use ashlar_runtime::{Durability, LocalFuture, Runtime};
use ashlar_units::{BLOCK_BYTES, SegmentId};
use support::{on_shard, specs_of};

const DRIVES: usize = 6;
const DATA: usize = 4;
const BLOCK: usize = BLOCK_BYTES as usize;

async fn dual_pool(runtime: &Runtime, paths: &[String]) -> Pool {
    let (name, segment_bytes) = ("pool".to_string(), Some(256 << 10));
    let (drives, protection) = (specs_of(paths), Protection::Dual);
    let spec = PoolSpec { name, drives, protection, segment_bytes, width: None, spares: 0 };
    Pool::create(runtime, &spec).await.unwrap();
    let pool = Pool::open(runtime, paths, &Opening::default()).await.unwrap();
    pool.adopt_frontier().await.unwrap();
    pool.begin_session();
    pool
}

fn paths_in(directory: &str) -> Vec<String> {
    (0..DRIVES).map(|drive| format!("{directory}/drive-{drive}")).collect()
}

/// Without two alike in all that the tests write.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..BLOCK / 8).flat_map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 31).to_le_bytes()
    });
    words.collect()
}

/// A segment full of these blocks, those of a stripe after those of the one before; the first is its header.
async fn write_segment(pool: &Pool, blocks: &mut [Vec<u8>]) -> SegmentId {
    let opened = pool.open_segment(SegmentKind::Metadata, 1).await.unwrap();
    blocks[0] = opened.header_block(pool.key()).to_vec();
    let buffer = pool.runtime().buffer_from(&blocks.concat());
    pool.write(opened.segment, 0, buffer, Durability::Durable).await.unwrap();
    pool.with_table_mut(|table| table.set_used(opened.segment, (blocks.len() * BLOCK) as u64));
    pool.with_table_mut(|table| table.seal(opened.segment));
    opened.segment
}

/// What is as it was written is intact and at home, but for blocks without anything in them.
fn weigh_by(blocks: &[Vec<u8>], offset: u64, piece: &[u8]) -> Weight {
    let there = piece.chunks_exact(BLOCK).zip(&blocks[(offset / BLOCK_BYTES) as usize..]);
    let right =
        there.filter(|(found, written)| found == &&written[..] && found.iter().any(|byte| *byte != 0));
    let home_bytes = right.count() as u64 * BLOCK_BYTES;
    Weight { home_bytes, intact_bytes: home_bytes }
}

/// Scrubs a segment; returns what was found and how often something was weighed.
async fn scrub(pool: &Pool, segment: SegmentId, blocks: &[Vec<u8>]) -> (ScrubCount, u64) {
    let (mut count, weighed) = (ScrubCount::default(), Cell::new(0));
    let weigh = |_: SegmentId, offset: u64, piece: Vec<u8>| -> LocalFuture<'static, Weight> {
        weighed.set(weighed.get() + 1);
        let weight = weigh_by(blocks, offset, &piece);
        Box::pin(async move { weight })
    };
    pool.scrub_segment(segment, Some(&weigh), &mut count, || async { Ok(()) }).await.unwrap();
    (count, weighed.get())
}

async fn assert_holds(pool: &Pool, segment: SegmentId, blocks: &[Vec<u8>]) {
    let (found, skip) = pool.read(segment, 0, (blocks.len() * BLOCK) as u64).await.unwrap();
    for (index, block) in blocks.iter().enumerate() {
        assert!(found[skip + index * BLOCK..][..BLOCK] == block[..], "block {index}");
    }
    let (count, _) = scrub(pool, segment, blocks).await;
    assert_eq!((count.wrong_stripes, count.unproven_stripes), (0, 0));
}

/// Where on which drive a block is.
fn find(paths: &[String], block: &[u8]) -> (usize, u64) {
    let position = |path: &String| {
        let bytes = std::fs::read(path).unwrap();
        bytes.chunks_exact(BLOCK).position(|there| there == block)
    };
    let on_drive = |(drive, path)| Some((drive, position(path)? as u64 * BLOCK_BYTES));
    paths.iter().enumerate().find_map(on_drive).expect("it was written")
}

fn spoil(path: &str, at: u64, with: &[u8]) {
    std::fs::File::options().write(true).open(path).unwrap().write_all_at(with, at).unwrap();
}

/// A drive full of rubbish kept hosts waiting for a minute: each of its stripes was judged by weighing
/// nineteen guesses three times each, sixteen stripes in a row.
#[test]
fn a_drive_full_of_rubbish_is_set_right_with_few_weighings() {
    on_shard(async |runtime, directory| {
        let paths = paths_in(&directory);
        let pool = dual_pool(&runtime, &paths).await;
        let stripes = pool.segment_bytes() / pool.stripe_bytes();
        let mut blocks: Vec<Vec<u8>> = (0..stripes * DATA as u64).map(noise).collect();
        let segment = write_segment(&pool, &mut blocks).await;
        for (spoilt, path) in paths.iter().enumerate() {
            let cells_start = 1 << 20;
            let rubbish: Vec<u8> =
                (0..(7 << 20) / BLOCK as u64).flat_map(|block| noise(block + 7_777)).collect();
            spoil(path, cells_start, &rubbish);
            let (count, weighed) = scrub(&pool, segment, &blocks).await;
            assert_eq!(count.wrong_stripes, stripes, "drive {spoilt}");
            assert!(weighed <= 6 * stripes, "drive {spoilt}: weighed {weighed} times for {stripes} stripes");
            assert_holds(&pool, segment, &blocks).await;
        }
        pool.settle().await;
    });
}

/// Two drives lost a write each, and the stripe now agrees but for the one column that is right. Its
/// neighbours agreeing proves nothing: what it would hold then is at home nowhere.
#[test]
fn a_column_is_not_taken_for_wrong_because_two_others_lost_their_writes() {
    on_shard(async |runtime, directory| {
        let paths = paths_in(&directory);
        let pool = dual_pool(&runtime, &paths).await;
        let stripes = (pool.segment_bytes() / pool.stripe_bytes()) as usize;
        // One block in a stripe: what was there before, zeroes, differs in it and in parity only.
        let mut blocks = vec![vec![0; BLOCK]; stripes * DATA];
        let only = |stripe: usize| stripe * DATA + stripe % DATA;
        (1..stripes).for_each(|stripe| blocks[only(stripe)] = noise(stripe as u64));
        let segment = write_segment(&pool, &mut blocks).await;
        for stripe in 1..stripes {
            let (drive, at) = find(&paths, &blocks[only(stripe)]);
            // With one column of data P is that column.
            let holds = |path: &String| {
                let mut there = vec![0; BLOCK];
                std::fs::File::open(path).unwrap().read_exact_at(&mut there, at).unwrap();
                there
            };
            let parity: Vec<usize> = (0..DRIVES)
                .filter(|other| *other != drive && holds(&paths[*other]).iter().any(|byte| *byte != 0))
                .collect();
            assert_eq!(parity.len(), 2, "stripe {stripe}");
            // Both of parity, or the data and one of parity.
            let lost = match stripe % 3 {
                0 => [parity[0], parity[1]],
                1 => [drive, parity[0]],
                _ => [drive, parity[1]],
            };
            lost.into_iter().for_each(|drive| spoil(&paths[drive], at, &[0; BLOCK]));
        }
        let (count, _) = scrub(&pool, segment, &blocks).await;
        assert_eq!(count.wrong_stripes, stripes as u64 - 1);
        assert_holds(&pool, segment, &blocks).await;
        pool.settle().await;
    });
}
