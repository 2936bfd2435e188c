//! The difference of two readings.

use super::*;

#[test]
fn a_difference_subtracts_counters_and_keeps_what_is_none() {
    let before = Statistics { version_number: 150_006, block_bytes: 8192, commits: 10, ..Default::default() };
    let after = Statistics { commits: 17, wal_bytes: 5, checkpoint_write_millis: 2.5, ..before.clone() };
    let change = after.since(&before).unwrap();
    assert_eq!((change.commits, change.wal_bytes, change.checkpoint_write_millis), (7, 5, 2.5));
    assert_eq!((change.version_number, change.block_bytes), (150_006, 8192));
}

#[test]
fn a_counter_that_went_back_is_an_error_that_names_it() {
    let before = Statistics { deadlocks: 3, ..Default::default() };
    let error = Statistics::default().since(&before).unwrap_err();
    assert!(error.context.contains("deadlocks went back"), "{error}");
    let before = Statistics { wal_flush_millis: 3.0, ..Default::default() };
    assert!(Statistics::default().since(&before).is_err());
}

#[test]
fn every_counter_takes_part_in_the_difference() {
    let mut one = Statistics::default();
    one.counters_mut().into_iter().for_each(|(_, value)| *value = 1);
    one.times_mut().into_iter().for_each(|(_, value)| *value = 1.0);
    // What is left after the two marks is the difference's own business.
    let none = Statistics { version_number: 0, block_bytes: 0, ..Default::default() };
    assert_eq!(one.since(&one.clone()).unwrap(), none);
}
