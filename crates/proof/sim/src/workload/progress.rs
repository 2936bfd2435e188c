//! Once nothing is in the way any more, the pool must work: space that was given back comes back.

use std::rc::Rc;
use std::time::Duration;

use super::World;
use super::changes::{carry_out, check};
use super::claims::{Claim, Object, Use};
use super::data::read;
use super::verify::verify_everything;
use crate::content::{Texture, Value};
use crate::oracle::{Change, ImageKey, Outcome, Run, deleted_name};
use crate::system::{Trouble, TroubleKind};

/// Bytes written to an emptied pool, and how long they may take to be accepted.
const PROOF_BYTES: u64 = 1 << 20;
const PIECE_BYTES: u64 = 64 << 10;
const TRIES_MAX: u64 = 200;

/// Segments an empty pool may keep: the open ones, and those with pages of tables that did not change.
const SEGMENTS_KEPT_MAX: u64 = 10;

/// Or this share of a large pool: what the cycle that emptied it wrote itself is dead at its end, and another
/// is not worth it before a twentieth was written.
const KEPT_FRACTION: u64 = 20;

/// The claims of a delete; the caller is alone.
#[must_use]
pub fn claims_for_delete(world: &World, change: &Change) -> Claim {
    let object = match change {
        Change::SnapshotDelete { name } => Object::Snapshot(name.clone()),
        Change::VolumeDelete { name } => Object::Volume(name.clone()),
        Change::DeletedGiveUp { name } => Object::Volume(deleted_name(name)),
        other => unreachable!("{other:?} is not a delete"),
    };
    world.claims.try_claim(vec![(object, Use::Exclusive)]).expect("nobody else is there")
}

/// Waits until an emptied pool has given its space back.
async fn prove_space(world: &Rc<World>) {
    let share = world.system.room().map_or(0, |room| room.segments / KEPT_FRACTION);
    let kept_max = SEGMENTS_KEPT_MAX.max(share);
    for _ in 0..TRIES_MAX {
        match world.system.segments_in_use() {
            Some(used) if used > kept_max => {}
            Some(_) | None => return,
        }
        // Some change, so that there is a reason for a checkpoint.
        check(world).await;
        world.runtime.sleep(Duration::from_millis(500)).await;
    }
    let used = world.system.segments_in_use().unwrap_or(0);
    world.record.fail(format!("an emptied pool keeps {used} segments"));
}

/// Makes a volume in the emptied pool, fills it and reads it.
pub async fn prove_progress(world: &Rc<World>) {
    prove_space(world).await;
    if world.record.has_failed() {
        return;
    }
    let name = "proof".to_string();
    let change = Change::VolumeCreate { name: name.clone(), size_bytes: PROOF_BYTES, unit_bytes: 4096 };
    let wanted = vec![(Object::Volume(name.clone()), Use::Exclusive)];
    let claim = world.claims.try_claim(wanted).expect("nobody else is there");
    carry_out(world, change, claim).await;
    let Some(device) = world.system.device(&name) else {
        world.record.fail("an emptied pool does not take a new volume");
        return;
    };
    let unit = u64::from(world.oracle.borrow().volumes()[&name].image.unit_bytes);
    for piece in 0..PROOF_BYTES / PIECE_BYTES {
        let run = Run { first: piece * PIECE_BYTES / unit, count: PIECE_BYTES / unit };
        let mut tries = 0;
        loop {
            let value = Value::of_write(world.oracle.borrow().next_write_number(), Texture::Random);
            let mut data = vec![0; PIECE_BYTES as usize];
            value.fill(piece * PIECE_BYTES / 512, &mut data);
            let id = world.oracle.borrow_mut().write_begin(&name, run, value);
            let result = device.write(piece * PIECE_BYTES, &data, false).await.map_err(Trouble::from);
            world.progress();
            let outcome = result.as_ref().err().map_or(Outcome::Done, Trouble::outcome);
            world.oracle.borrow_mut().write_end(id, outcome);
            match result {
                Ok(()) => break,
                Err(trouble) if trouble.kind == TroubleKind::NoSpace && tries < TRIES_MAX => tries += 1,
                Err(trouble) => {
                    world.record.fail(format!(
                        "an emptied pool does not take {PROOF_BYTES} bytes, at piece {piece}: {}",
                        trouble.text
                    ));
                    return;
                }
            }
            world.runtime.sleep(Duration::from_millis(100)).await;
        }
        read(world, &ImageKey::Live(name.clone()), &*device, run).await;
    }
    verify_everything(world).await;
}
