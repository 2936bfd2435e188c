//! Whether a pool has room for what a snapshot will hold.

/// From so full on, in per cent, no snapshot is taken. Derived: at 95 writes get slow and deleted volumes are
/// given up; the 5 below are for what hosts overwrite of the last snapshot until a person came.
pub const FULL_PERCENT_MAX: u8 = 90;
/// It must be this much emptier to go on: what a deletion gives back is counted in steps.
const BACK_PERCENT: u8 = 2;

/// Whether one may be taken in a pool that is this full. One that was stopped goes on a little later, so that
/// it does not stop and go on with every write.
#[must_use]
pub fn has_room(full_percent: u8, was_stopped: bool) -> bool {
    full_percent < if was_stopped { FULL_PERCENT_MAX - BACK_PERCENT } else { FULL_PERCENT_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_at_the_limit_stops_once_and_goes_on_once() {
        let (mut is_stopped, mut changes) = (false, 0);
        for percent in [50, 89, 90, 89, 90, 89, 88, 91, 100, 88, 87, 89, 80] {
            let stops = !has_room(percent, is_stopped);
            changes += usize::from(stops != is_stopped);
            is_stopped = stops;
        }
        assert_eq!((is_stopped, changes), (false, 2));
        assert!(!has_room(FULL_PERCENT_MAX, false) && has_room(FULL_PERCENT_MAX - 1, false));
    }
}
