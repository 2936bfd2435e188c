//! Reads everything and has it judged.

use std::rc::Rc;

use super::World;
use super::data::read;
use crate::oracle::{ImageKey, Run};

/// Longest read of a verification.
const PIECE_BYTES: u64 = 128 << 10;

/// Holes read in addition to what was written, per image.
const HOLES: u64 = 2;

/// Reads every image in full, and judges snapshots as instants.
pub async fn verify_everything(world: &Rc<World>) {
    let keys = world.oracle.borrow().image_keys();
    for key in keys {
        verify_image(world, &key).await;
        if world.record.has_failed() {
            return;
        }
    }
    // Where a read failed nothing was observed, and the check concludes nothing from it.
    if let Err(wrong) = world.oracle.borrow_mut().check_exactness() {
        world.record.fail(wrong);
    }
}

/// Reads one image in full.
pub async fn verify_image(world: &Rc<World>, key: &ImageKey) {
    let Some(device) = world.system.device(&key.device_name()) else {
        world.record.fail(format!("{} is not served", key.device_name()));
        return;
    };
    let (runs, units, unit_bytes, size_and_block) = {
        let oracle = world.oracle.borrow();
        let image = oracle.image(key).expect("the caller keeps the image alive");
        let size_and_block = (image.size_bytes, image.block_bytes);
        (oracle.runs_to_verify(key), image.units(), u64::from(image.unit_bytes), size_and_block)
    };
    let geometry = device.geometry();
    let is_live = matches!(key, ImageKey::Live(_));
    let found = (geometry.size_bytes, geometry.logical_block_bytes);
    // A pool that a drive error made read-only may say so of live volumes.
    if found != size_and_block || (!is_live && !geometry.is_read_only) {
        world.record.fail(format!("{} has geometry {geometry:?}", key.device_name()));
        return;
    }
    let piece = (PIECE_BYTES / unit_bytes).max(1);
    let holes = (0..HOLES).map(|_| {
        let first = world.draw(|chance| chance.below(units));
        Run { first, count: piece.min(units - first) }
    });
    let runs: Vec<Run> = runs.into_iter().chain(holes).flat_map(|run| split(run, piece)).collect();
    if world.oracle.borrow().is_forked(key) {
        verify_forked(world, key, &runs, unit_bytes).await;
    } else {
        for run in runs {
            read(world, key, &*device, run).await;
            world.progress();
        }
    }
    world.record.count(|counters| counters.images_verified += 1);
}

fn split(run: Run, piece: u64) -> impl Iterator<Item = Run> {
    (run.first..run.end())
        .step_by(piece as usize)
        .map(move |first| Run { first, count: piece.min(run.end() - first) })
}

async fn verify_forked(world: &Rc<World>, key: &ImageKey, runs: &[Run], unit_bytes: u64) {
    let name = key.device_name();
    let device = world.system.device(&name).expect("the caller found it");
    let mut pieces = Vec::new();
    for run in runs {
        let mut bytes = vec![0xa5; (run.count * unit_bytes) as usize];
        if let Err(error) = device.read(run.first * unit_bytes, &mut bytes).await {
            world.judge(&format!("read of {name}"), &error.into());
            return;
        }
        world.progress();
        pieces.push((*run, bytes));
    }
    if let Err(wrong) = world.oracle.borrow_mut().resolve_fork(&name, &pieces) {
        world.record.fail(format!("wrong bytes: {wrong}"));
    }
}

/// After a drive lied and the pool was started again: reads what is still served; errors are
/// permitted, bytes that were never written there are not.
pub async fn verify_plausible(world: &Rc<World>) {
    let keys = world.oracle.borrow().image_keys();
    for key in keys {
        let Some(device) = world.system.device(&key.device_name()) else { continue };
        let geometry = device.geometry();
        let (runs, unit_bytes) = {
            let oracle = world.oracle.borrow();
            match oracle.image(&key) {
                Some(image) if image.block_bytes == geometry.logical_block_bytes => {
                    (oracle.runs_to_verify(&key), u64::from(image.unit_bytes))
                }
                _ => continue,
            }
        };
        for run in runs.into_iter().flat_map(|run| split(run, (PIECE_BYTES / unit_bytes).max(1))) {
            if run.end() * unit_bytes > geometry.size_bytes {
                continue;
            }
            let mut bytes = vec![0xa5; (run.count * unit_bytes) as usize];
            if device.read(run.first * unit_bytes, &mut bytes).await.is_ok()
                && let Err(wrong) = world.oracle.borrow().check_plausible(&key, run, &bytes)
            {
                world.record.fail(format!("wrong bytes after damage: {wrong}"));
                return;
            }
            world.progress();
        }
    }
}
