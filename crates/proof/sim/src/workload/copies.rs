//! Copies inside the pool: from volumes and snapshots to volumes, beside writes to both.

use std::rc::Rc;

use ashlar_block::BlockDevice;

use super::World;
use super::claims::{Object, Use};
use super::data::incarnation;
use crate::chance::Chance;
use crate::content::{COPIED_SECTORS, SECTOR_BYTES};
use crate::oracle::{ImageKey, Oracle, Outcome, Run};
use crate::system::{Trouble, TroubleKind};

/// What copies keep to.
const BLOCK_BYTES: u64 = COPIED_SECTORS * SECTOR_BYTES as u64;
/// Blocks of one copy at most: more than the pool carries out in one piece.
const BLOCKS_MAX: u64 = 160;
/// How far from its address content is copied at most. Arbitrary: chunks are cut anew at any offset.
const SHIFT_BLOCKS_MAX: u64 = 64;

/// What is copied, from which image, and where to.
struct Plan {
    source: ImageKey,
    from: Run,
    to: Run,
}

/// Copies something to about this run of a volume whose data are claimed.
pub(super) async fn copy(world: &World, name: &str, near: Run) {
    let plan = {
        let oracle = world.oracle.borrow();
        world.draw(|chance| plan(&oracle, chance, name, near))
    };
    let Some(plan) = plan else { return };
    let Some(_claim) = world.claims.try_claim(uses(name, &plan.source)) else { return };
    let is_possible = {
        let oracle = world.oracle.borrow();
        let is_whole = |key: &ImageKey| oracle.image(key).is_some() && !oracle.is_forked(key);
        !oracle.is_copying() && is_whole(&plan.source) && is_whole(&ImageKey::Live(name.to_string()))
    };
    // What drives made of the source is not known to the model.
    if !is_possible || world.array.borrow().is_damaged() {
        return;
    }
    // Past the doors, which do not know copies.
    let source = world.system.device(&plan.source.device_name()).and_then(|device| device.identity());
    let (Some(source), Some(target)) = (source, world.system.device(name)) else { return };
    carry_out(world, name, (source, target), &plan).await;
}

async fn carry_out(
    world: &World,
    name: &str,
    (source, target): (ashlar_block::Identity, Rc<dyn BlockDevice>),
    plan: &Plan,
) {
    let number = incarnation(world, name).expect("the caller looked");
    let unit = u64::from(world.oracle.borrow().volumes()[name].image.unit_bytes);
    let (from, to, length) = (plan.from.first * unit, plan.to.first * unit, plan.to.count * unit);
    let is_limited = world.system.limit_of(name).is_some();
    let id = world.oracle.borrow_mut().copy_begin(&plan.source, plan.from, name, plan.to.first);
    world.record.note(|| {
        format!(
            "{name}: copy from {} at {from} to {to}+{length} issued as {}",
            plan.source.device_name(),
            id.0
        )
    });
    let result = target.copy_from(source, from, to, length).await;
    let outcome = if matches!(result, Ok(true)) { Outcome::Done } else { Outcome::Doubtful };
    world.oracle.borrow_mut().copy_end(outcome);
    world.record.digest_fact(u64::from(id.0) << 8 | u64::from(outcome == Outcome::Done));
    let count = |what| world.record.add_probes(&[(what, 1)]);
    match result {
        Ok(true) => count("copies"),
        // Whoever asked reads and writes.
        Ok(false) => count("copies declined"),
        Err(error) => {
            let trouble = Trouble::from(error);
            if trouble.kind != TroubleKind::NoSpace || !is_limited {
                world.judge_data(&format!("copy {} to {name}", id.0), name, number, &trouble);
            }
        }
    }
}

/// Neither of the two is deleted, replaced or resized meanwhile. Snapshots are taken of both.
fn uses(target: &str, source: &ImageKey) -> Vec<(Object, Use)> {
    let mut uses = vec![(Object::Volume(target.to_string()), Use::Shared)];
    match source {
        ImageKey::Live(name) if name == target => {}
        ImageKey::Live(name) => {
            uses.extend(
                [Object::Data(name.clone()), Object::Volume(name.clone())].map(|one| (one, Use::Shared)),
            );
        }
        ImageKey::Frozen { snapshot, .. } => uses.push((Object::Snapshot(snapshot.clone()), Use::Shared)),
    }
    uses
}

fn plan(oracle: &Oracle, chance: &mut Chance, name: &str, near: Run) -> Option<Plan> {
    let source = chance.pick(&oracle.image_keys()).clone();
    let (of, target) = (oracle.image(&source)?, &oracle.volumes().get(name)?.image);
    let units = BLOCK_BYTES / u64::from(target.unit_bytes);
    let first = near.first / units;
    let blocks = near.count.div_ceil(units).min(BLOCKS_MAX);
    // Whole volumes are copied to the same address, parts of files to others.
    let is_same_place = source != ImageKey::Live(name.to_string()) && chance.one_in(2);
    let shift = if is_same_place {
        0
    } else {
        chance.below(2 * SHIFT_BLOCKS_MAX + 1) as i64 - SHIFT_BLOCKS_MAX as i64
    };
    let from = first.checked_add_signed(shift)?;
    let is_inside = |first: u64, size_bytes: u64| (first + blocks) * BLOCK_BYTES <= size_bytes;
    let is_possible = of.unit_bytes == target.unit_bytes
        && is_inside(first, target.size_bytes)
        && is_inside(from, of.size_bytes);
    let run = |first: u64| Run { first: first * units, count: blocks * units };
    is_possible.then(|| Plan { source, from: run(from), to: run(first) })
}
