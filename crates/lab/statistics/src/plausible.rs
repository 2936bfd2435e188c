//! Checks whether the numbers of a run can belong together; an alarm is a sentence for a report's reader.
//!
//! Each check answers `None` when all is well. A value that is not a number raises the alarm: what cannot be
//! checked is not taken for right.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Outstanding requests may differ so much from rate times latency. From the design, 5.5.
const OUTSTANDING_PERCENT_MAX: f64 = 5.0;

/// Bytes may differ so much from operations times size. Only requests cut off at the end can differ.
const BYTES_PERCENT_MAX: f64 = 1.0;

/// Above this the load generator itself waits for processors. From the design, 5.5.
const CLIENT_PERCENT_MAX: f64 = 80.0;

/// Above this other guests of the same machine show in the numbers. From the design, 5.5.
const STEAL_PERCENT_MAX: f64 = 2.0;

/// Numbers of a run that do not belong together. Prints as one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alarm {
    /// What was checked; the same words for every alarm of a check.
    pub subject: &'static str,
    /// The value or bound that was expected, in the unit that the subject names.
    pub expected: String,
    /// The value that was measured, in the same unit.
    pub measured: String,
    /// What that means for the result.
    pub meaning: &'static str,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Alarm { subject, expected, measured, meaning } = self;
        write!(f, "{subject}: {expected} expected, {measured} measured; {meaning}")
    }
}

/// Little's law in a closed loop: `asked` requests outstanding against rate times mean latency, within 5 %.
///
/// Only for jobs that keep their queue full. With a fixed rate fewer are outstanding than the depth allows.
#[must_use]
pub fn outstanding(asked: f64, operations_per_second: f64, mean_latency: Duration) -> Option<Alarm> {
    let measured = operations_per_second * mean_latency.as_secs_f64();
    let meaning = if measured < asked {
        "the load generator did not keep its queue full, so this is the result of a smaller load"
    } else {
        "rate and latency were not taken over the same requests, so neither can be trusted"
    };
    let subject = "requests under way at a time (rate times latency)";
    let is_well = is_near(measured, asked, OUTSTANDING_PERCENT_MAX);
    alarm_unless(is_well, subject, [format!("{asked:.1}"), format!("{measured:.1}")], meaning)
}

/// Bytes moved against operations times their size (the mean one of a mix), within 1 %.
#[must_use]
pub fn bytes(operation_count: u64, operation_size_bytes: f64, moved_bytes: u64) -> Option<Alarm> {
    let expected = operation_count as f64 * operation_size_bytes;
    let meaning = "the requests had another size than was asked for, or not all of them were counted";
    let is_well = is_near(moved_bytes as f64, expected, BYTES_PERCENT_MAX);
    let subject = "bytes moved (operations times their size)";
    alarm_unless(is_well, subject, [format!("{expected:.0}"), moved_bytes.to_string()], meaning)
}

/// How busy the load generator's processors were, in percent of all that it may use: at most 80.
#[must_use]
pub fn client_busy(percent: f64) -> Option<Alarm> {
    let meaning = "the client was the bottleneck, and the storage may be faster than shown here";
    at_most(percent, CLIENT_PERCENT_MAX, "processors of the load generator busy", meaning)
}

/// Processor time taken by the hypervisor ("steal"), in percent: at most 2.
#[must_use]
pub fn stolen(percent: f64) -> Option<Alarm> {
    let meaning = "other guests of this machine disturbed the run: repeat it when they are quiet";
    at_most(percent, STEAL_PERCENT_MAX, "processor time taken by the hypervisor", meaning)
}

/// The device's own counter divided by the client's, of the same unit, within bounds that the caller knows
/// (a file system adds, a cache takes away). Nothing on both sides is well.
#[must_use]
pub fn device_counter(client: f64, device: f64, ratio_bounds: RangeInclusive<f64>) -> Option<Alarm> {
    let (low, high) = (client * ratio_bounds.start(), client * ratio_bounds.end());
    let meaning = if device < low {
        "a cache above the device answered the rest, so this is not a measurement of the device"
    } else {
        "something else used the device too, or the layers between add work of their own"
    };
    let is_well = (low..=high).contains(&device);
    let values = [format!("{low:.0} to {high:.0}"), format!("{device:.0}")];
    alarm_unless(is_well, "the device's own counter", values, meaning)
}

/// False when a value is not a finite number.
fn is_near(measured: f64, expected: f64, percent: f64) -> bool {
    expected.is_finite() && (measured - expected).abs() <= expected.abs() * percent / 100.0
}

fn at_most(percent: f64, max: f64, subject: &'static str, meaning: &'static str) -> Option<Alarm> {
    let is_well = percent <= max;
    alarm_unless(is_well, subject, [format!("at most {max:.0} %"), format!("{percent:.1} %")], meaning)
}

fn alarm_unless(
    is_well: bool,
    subject: &'static str,
    values: [String; 2],
    meaning: &'static str,
) -> Option<Alarm> {
    let [expected, measured] = values;
    (!is_well).then_some(Alarm { subject, expected, measured, meaning })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(alarm: Option<Alarm>) -> String {
        alarm.map(|alarm| alarm.to_string()).unwrap_or_default()
    }

    #[test]
    fn littles_law_alarms_beyond_five_percent_on_both_sides() {
        // 1,000 a second times 38 ms are 38 under way: 5 % off 40 exactly.
        let of_40 = |millis| sentence(outstanding(40.0, 1000.0, Duration::from_millis(millis)));
        assert_eq!([of_40(38), of_40(40), of_40(42)], ["", "", ""]);
        assert!(of_40(37).contains("latency): 40.0 expected, 37.0 measured; the load generator did"));
        assert!(of_40(43).contains("43.0 measured; rate and latency were not"));
        assert_eq!(outstanding(0.0, 0.0, Duration::ZERO), None);
        assert!(outstanding(1.0, f64::NAN, Duration::ZERO).is_some());
        assert!(outstanding(f64::INFINITY, 1.0, Duration::ZERO).is_some());
    }

    #[test]
    fn bytes_alarm_beyond_one_percent_of_operations_times_size() {
        assert_eq!((bytes(1000, 1000.0, 990_000), bytes(0, 8192.0, 0)), (None, None));
        assert!(
            sentence(bytes(1000, 8192.0, 4096)).contains("8192000 expected, 4096 measured; the requests")
        );
        assert!(bytes(1000, 1000.0, 1_010_001).is_some() && bytes(0, 8192.0, 1).is_some());
    }

    #[test]
    fn a_busy_client_and_stolen_time_alarm_only_above_their_bounds() {
        assert_eq!((client_busy(80.0), stolen(2.0), stolen(0.0)), (None, None, None));
        assert!(
            sentence(client_busy(93.0)).contains("at most 80 % expected, 93.0 % measured; the client was")
        );
        assert!(sentence(stolen(2.1)).contains("at most 2 % expected, 2.1 % measured; other guests"));
        assert!(client_busy(f64::NAN).is_some() && stolen(f64::NAN).is_some());
    }

    #[test]
    fn a_device_that_did_too_little_or_too_much_alarms_with_its_reason() {
        let of_1000 = |device| sentence(device_counter(1000.0, device, 0.9..=1.1));
        assert_eq!([of_1000(900.0), of_1000(1000.0)], ["", ""]);
        assert!(of_1000(200.0).contains("900 to 1100 expected, 200 measured; a cache"));
        assert!(of_1000(1101.0).contains("something else") && !of_1000(f64::NAN).is_empty());
        assert_eq!(device_counter(0.0, 0.0, 0.9..=1.1), None);
        assert!(device_counter(0.0, 5.0, 0.9..=1.1).is_some());
    }
}
