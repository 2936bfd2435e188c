//! The mounts of the array that was here before go on: what got no answer is asked again, beside the
//! workload.

use std::rc::Rc;

use ashlar_runtime::{Priority, Task};

use super::claims::{Object, Use};
use super::data::end_write;
use super::refusal::Issued;
use super::{Door, World};
use crate::fuse_door::FuseDoor;
use crate::kernel::{Asked, Mounted, Written};
use crate::oracle::Run;
use crate::scenario::DoorKind;

/// Takes over every mount whose volume is there; returns the requests that are asked again.
pub fn resume(world: &Rc<World>) -> Vec<Task<()>> {
    let mut tasks = Vec::new();
    for (name, mounted) in world.kernel.take() {
        let Some(door) = take_over(world, &name, mounted.clone()) else { continue };
        for (number, asked) in mounted.unanswered() {
            let uses = vec![(Object::Data(name.clone()), Use::Shared)];
            let Some(claim) = world.claims.try_claim(uses) else { continue };
            let (world, name, door) = (world.clone(), name.clone(), door.clone());
            let runtime = world.runtime.clone();
            tasks.push(runtime.spawn(Priority::Host, async move {
                again(&world, (&name, door.mounted().incarnation), &door, number, &asked).await;
                drop(claim);
            }));
        }
    }
    tasks
}

fn take_over(world: &World, name: &str, mounted: Rc<Mounted>) -> Option<Rc<FuseDoor>> {
    let incarnation = mounted.incarnation;
    if !world.oracle.borrow().is_alive(name, incarnation) {
        return None;
    }
    let opening = world.opening((name.to_string(), incarnation), world.system.device(name)?);
    let door = Rc::new(FuseDoor::take_over(opening, mounted.clone())?);
    world.record.add_probes(&[("mounts taken over", 1)]);
    world.kernel.mount(name, mounted);
    let key = (name.to_string(), DoorKind::Fuse);
    world.doors.borrow_mut().insert(key, (incarnation, Door::Fuse(door.clone())));
    Some(door)
}

async fn again(world: &World, volume: (&str, u32), door: &FuseDoor, number: u64, asked: &Asked) {
    let Some(written) = asked.change else {
        let _unjudged = door.again(number, asked).await;
        return;
    };
    // Behind the end of a volume that was made smaller: some of it may be carried out, and nobody knows what.
    let Some(run) = run_of(world, volume.0, written) else { return };
    let issued = Issued::now(world, volume.0, run, written.value);
    world.record.note(|| format!("{}: {} is asked again as {}", volume.0, written.value, issued.id.0));
    let result = door.again(number, asked).await;
    end_write(world, volume, (&issued, run), result, "write asked again");
    world.progress();
}

/// The run of a volume's units that these bytes are, where the volume has them.
fn run_of(world: &World, name: &str, written: Written) -> Option<Run> {
    let oracle = world.oracle.borrow();
    let image = &oracle.volumes().get(name)?.image;
    let unit = u64::from(image.unit_bytes);
    let run = Run { first: written.offset / unit, count: written.length / unit };
    (run.end() <= image.units()).then_some(run)
}
