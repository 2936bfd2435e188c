//! The forging tenant: it writes over a few blocks of its own again and again, while a neighbour writes
//! something to keep at the same moment, so that both lie in one group.

use std::rc::Rc;

use ashlar_runtime::Priority;
use ashlar_units::BLOCK_BYTES;

use super::World;
use super::claims::{Object, Use};
use super::data::{self, Carried};
use crate::oracle::Run;

/// The tenant's blocks: few, so that what it wrote is soon dead.
const OWN_BLOCKS: u64 = 24;

/// The tenant, until the requests of the life are used up.
pub async fn work(world: Rc<World>) {
    while world.take_request() && !world.record.has_failed() {
        let neighbour = world.runtime.spawn(Priority::Host, write(world.clone(), Carried::Honest));
        write(world.clone(), Carried::Forged).await;
        neighbour.await;
        let micros_max = world.draw(|chance| *chance.pick(&[0, 0, 200, 2_000]));
        world.pause(micros_max).await;
    }
}

async fn write(world: Rc<World>, carried: Carried) {
    let Some(name) = data::pick_volume(&world) else { return world.pause(2_000).await };
    let uses = vec![(Object::Data(name.clone()), Use::Shared)];
    let Some(_claim) = world.claims.try_claim(uses) else { return world.pause(2_000).await };
    let Some(incarnation) = data::incarnation(&world, &name) else { return };
    let Some(device) = world.door(&name, incarnation) else { return world.pause(100).await };
    if world.is_under_pressure() {
        world.pause(5_000).await;
    }
    // Its deletion may have been judged meanwhile.
    if data::incarnation(&world, &name) != Some(incarnation) {
        return world.pause(100).await;
    }
    let run = match carried {
        Carried::Forged => draw_own(&world, &name),
        Carried::Honest => data::draw_page(&world, &name, &*device),
    };
    data::write(&world, &name, &*device, run, carried).await;
    world.record.count(|counters| counters.requests += 1);
    world.progress();
}

/// Whole blocks among the tenant's own.
fn draw_own(world: &World, name: &str) -> Run {
    let oracle = world.oracle.borrow();
    let image = &oracle.volumes()[name].image;
    let units = BLOCK_BYTES / u64::from(image.unit_bytes);
    let blocks_max = (image.units() / units).max(1);
    let (block, count) = world.draw(|chance| (chance.below(OWN_BLOCKS), *chance.pick(&[1, 1, 1, 2, 8])));
    let first = block.min(blocks_max - 1) * units;
    Run { first, count: (count * units).min(image.units() - first) }
}
