//! The machine's wall clock, which people and time servers set: it jumps between lives and while one runs.
//!
//! Only what is shown to people may depend on it. The monotonic clock goes on.

use ashlar_runtime::sim::Simulation;

use crate::chance::Chance;

const SECOND_NANOS: i128 = 1_000_000_000;
const YEAR_NANOS: i128 = 365 * 24 * 3600 * SECOND_NANOS;

/// How far off the clock may be: a little, before 1970, beyond what 64 bits of nanoseconds can tell.
const OFFSETS: [i128; 9] = [
    0,
    SECOND_NANOS,
    -SECOND_NANOS,
    3600 * SECOND_NANOS,
    -3600 * SECOND_NANOS,
    10 * YEAR_NANOS,
    -60 * YEAR_NANOS,
    -2_000 * YEAR_NANOS,
    9_000 * YEAR_NANOS,
];

/// Steps between two jumps, at least and at most, as powers of two.
const STEPS_MAGNITUDES: (u64, u64) = (6, 13);

/// The clock of a machine, over all its lives.
pub struct WallClock {
    /// Draws of its own: nothing else may change with the clock.
    chance: Chance,
    next_jump: u64,
    last_step: u64,
}

impl WallClock {
    /// A clock that is right until it jumps.
    #[must_use]
    pub fn new(seed: u64) -> WallClock {
        WallClock { chance: Chance::new(seed), next_jump: 0, last_step: 0 }
    }

    /// Perhaps the clock of a running machine jumps at this step.
    pub fn maybe_jump(&mut self, simulation: &Simulation) {
        let step = simulation.steps();
        // Each life counts its steps anew, with a clock that is right.
        let is_begun = step < self.last_step;
        self.last_step = step;
        if step < self.next_jump && !is_begun {
            return;
        }
        let magnitude = self.chance.between(STEPS_MAGNITUDES.0, STEPS_MAGNITUDES.1);
        self.next_jump = step + (1 << magnitude);
        self.jump(simulation);
    }

    /// The clock of a machine is set.
    pub fn jump(&mut self, simulation: &Simulation) {
        simulation.set_unix_offset_nanos(*self.chance.pick(&OFFSETS));
    }
}
