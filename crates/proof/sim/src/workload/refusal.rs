//! A write that is refused for want of space: is the pool entitled to it?
//!
//! It is when everything that may be alive, uncompressed, nearly fills what hosts may fill. The oracle
//! knows what may be alive; of the pool only its size is believed.

use super::World;
use crate::content::Value;
use crate::oracle::{OperationId, Run};
use crate::system::Room;

/// What the reserve takes at most, as a fraction: the pools here are small, and many have so much.
const RESERVE_FRACTION: u64 = 4;
/// Segments that are being written and not full: the journal's, the cleaner's and the map's.
const SEGMENTS_BEGUN: u64 = 3;
/// So much of the rest must be in demand: segments that are dead in part stay so. Measured: of 295 refusals
/// in 880 seeds from 1000 and 5000, half of them made to fill, the least had 89 with nothing begun; later
/// one had 92, in a pool of 16 segments.
const DEMAND_PERCENT_MIN: u64 = 80;

/// A write on its way.
pub(super) struct Issued {
    pub(super) id: OperationId,
    /// What the pool had room for when it was issued.
    room: Option<Room>,
    /// Its volume's own limit may refuse it: that says nothing of the pool.
    pub(super) is_limited: bool,
}

impl Issued {
    /// A write, or zeroes, for this run of a volume.
    pub(super) fn now(world: &World, volume: &str, run: Run, value: Value) -> Issued {
        let id = world.oracle.borrow_mut().write_begin(volume, run, value);
        Issued { id, room: world.system.room(), is_limited: world.system.limit_of(volume).is_some() }
    }
}

/// Whether a pool may call itself full when everything that may be alive takes so much at most.
fn may_be_full(demand_bytes: u64, room: Room) -> bool {
    let usable = room.segments - room.segments / RESERVE_FRACTION - SEGMENTS_BEGUN;
    demand_bytes * 100 >= usable * room.segment_bytes * DEMAND_PERCENT_MIN
}

/// Judges a refused write. Not where drives report that they are full, or are emptied to leave, or
/// checkpoints are starved; and not where space was given back meanwhile, or the pool grew: it may have
/// looked before.
pub(super) fn judge_refusal(world: &World, write: &Issued, what: &str) {
    let (oracle, array) = (world.oracle.borrow(), world.array.borrow());
    let is_excused = array.errors_in_life() > 0
        || array.is_damaged()
        || world.is_starved.get()
        || oracle.gave_back_since(write.id);
    let Some(room) = world.system.room().filter(|room| !is_excused && write.room == Some(*room)) else {
        return;
    };
    world.record.count(|counters| counters.refusals_judged += 1);
    let demand_bytes = oracle.demand_bytes_max();
    if !may_be_full(demand_bytes, room) {
        let Room { segments, segment_bytes } = room;
        world.record.fail(format!(
            "{what}: no space, though all that is alive takes {demand_bytes} bytes at most of {segments} \
             segments of {segment_bytes} bytes"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_may_be_full_when_it_is_and_not_long_before() {
        let room = Room { segments: 100, segment_bytes: 1 << 20 };
        let at = |percent: u64| may_be_full(percent * room.segments * room.segment_bytes / 100, room);
        assert_eq!([0, 10, 50, 57].map(at), [false; 4]);
        assert_eq!([58, 75, 97, 120].map(at), [true; 4]);
    }
}
