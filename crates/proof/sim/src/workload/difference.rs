//! What the pool says of the difference of two images, held against their bytes.
//!
//! Every block that differs must be told. One that is told and equal costs whoever copies what differs, and
//! is counted: dedupe makes such blocks, and hosts that write what was there.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::World;
use super::claims::{Object, Use};
use crate::oracle::ImageKey;

const BLOCK_BYTES: u64 = 4096;
/// Blocks of one read.
const PIECE_BLOCKS: u64 = 32;

/// Compares pairs of images that nobody changes meanwhile.
pub async fn verify_differences(world: &Rc<World>, pairs: u64) {
    for _ in 0..pairs {
        let keys = world.oracle.borrow().image_keys();
        if keys.len() < 2 || world.record.has_failed() || world.is_closing() {
            return;
        }
        let (one, other) = world.draw(|chance| (chance.pick(&keys).clone(), chance.pick(&keys).clone()));
        let wanted: Vec<_> = [&one, &other].into_iter().flat_map(uses).collect();
        if one == other {
            continue;
        }
        let Some(_claim) = world.claims.try_claim(wanted) else { continue };
        if [&one, &other].into_iter().all(|key| is_settled(world, key)) {
            verify_pair(world, &one, &other).await;
        }
    }
}

/// A volume is compared while nobody writes to it.
fn uses(key: &ImageKey) -> Vec<(Object, Use)> {
    match key {
        ImageKey::Live(name) => {
            vec![(Object::Data(name.clone()), Use::Exclusive), (Object::Volume(name.clone()), Use::Shared)]
        }
        ImageKey::Frozen { snapshot, .. } => vec![(Object::Snapshot(snapshot.clone()), Use::Shared)],
    }
}

/// No write is left of which nobody knows whether it was done: it might be, meanwhile.
fn is_settled(world: &World, key: &ImageKey) -> bool {
    let oracle = world.oracle.borrow();
    match key {
        ImageKey::Live(name) => oracle.is_quiet(name) && !oracle.is_forked(key),
        ImageKey::Frozen { .. } => oracle.image(key).is_some(),
    }
}

async fn verify_pair(world: &Rc<World>, one: &ImageKey, other: &ImageKey) {
    let names = [one.device_name(), other.device_name()];
    let what = format!("difference of {} and {}", names[0], names[1]);
    world.record.note(|| what.clone());
    let told = match world.system.difference(names[0].clone(), names[1].clone()).await {
        Ok(Some(told)) => told,
        Ok(None) => return,
        Err(trouble) => return world.judge(&what, &trouble),
    };
    world.progress();
    let mut differing = 0;
    for (first, count) in pieces(world, [one, other]) {
        let mut bytes = Vec::new();
        for name in &names {
            match read_blocks(world, name, first, count).await {
                Ok(read) => bytes.push(read),
                Err(trouble) => return world.judge(&format!("read of {name}"), &trouble),
            }
        }
        world.progress();
        let blocks = bytes[0].chunks(BLOCK_BYTES as usize).zip(bytes[1].chunks(BLOCK_BYTES as usize));
        for (block, _) in (first..).zip(blocks).filter(|(_, (one, other))| one != other) {
            differing += 1;
            if !told.contains(&block) {
                world.record.fail(format!("{what}: block {block} of 4096 bytes differs and is not told"));
                return;
            }
        }
    }
    world.record.count(|counters| {
        counters.differences += 1;
        counters.blocks_told += told.len() as u64;
        counters.blocks_told_equal += told.len() as u64 - differing;
    });
}

/// Everything that was ever written in one of the two, as first blocks and counts.
fn pieces(world: &World, keys: [&ImageKey; 2]) -> Vec<(u64, u64)> {
    let oracle = world.oracle.borrow();
    let mut pieces = BTreeSet::new();
    for key in keys {
        let unit_bytes = oracle.image(key).map_or(BLOCK_BYTES, |image| u64::from(image.unit_bytes));
        for run in oracle.runs_to_verify(key) {
            let first = run.first * unit_bytes / BLOCK_BYTES / PIECE_BLOCKS;
            let end = (run.end() * unit_bytes).div_ceil(BLOCK_BYTES * PIECE_BLOCKS);
            pieces.extend(first..end);
        }
    }
    pieces.into_iter().map(|piece| (piece * PIECE_BLOCKS, PIECE_BLOCKS)).collect()
}

/// What lies beyond an image's end reads as zeroes here.
async fn read_blocks(
    world: &World,
    name: &str,
    first: u64,
    count: u64,
) -> Result<Vec<u8>, crate::system::Trouble> {
    let mut bytes = vec![0; (count * BLOCK_BYTES) as usize];
    let Some(device) = world.system.device(name) else { return Ok(bytes) };
    let there = device.geometry().size_bytes.saturating_sub(first * BLOCK_BYTES).min(count * BLOCK_BYTES);
    if there > 0 {
        device.read(first * BLOCK_BYTES, &mut bytes[..there as usize]).await?;
    }
    Ok(bytes)
}
