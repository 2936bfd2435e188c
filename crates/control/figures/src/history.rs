//! Series of the last hour, day and week, in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ashlar_api::{HistoryPoint, HistoryRange, LatencyStep};
use ashlar_telemetry::{CountersSnapshot, Operation};

use crate::classes::classes;
use crate::rates::rates;

/// Objects with a series: some 200 KiB each. The one that was idle longest gives way. Arbitrary.
const SERIES_MAX: usize = 256;

/// Series of objects, by what a caller names them.
#[derive(Default)]
pub struct History {
    series: BTreeMap<String, Series>,
}

struct Series {
    /// In the order of [`HistoryRange::ALL`].
    rings: [Ring; HistoryRange::ALL.len()],
    /// When it last had requests.
    busy_millis: u64,
}

struct Ring {
    range: HistoryRange,
    steps: VecDeque<Step>,
    /// What was counted in this step so far, and when it began.
    counted: CountersSnapshot,
    begun_millis: u64,
}

/// What is kept of a step.
struct Step {
    point: HistoryPoint,
    /// Requests by how long they took.
    reads: Box<[u32]>,
    writes: Box<[u32]>,
}

impl History {
    /// Adds what an object's requests were between two moments. A step ends with the first of these that
    /// reaches behind its end, so that its length is that of its requests.
    pub fn add(&mut self, object: &str, from_millis: u64, to_millis: u64, counted: &CountersSnapshot) {
        if !self.series.contains_key(object) {
            if counted.is_idle() {
                return;
            }
            self.make_room();
            self.series.insert(object.to_string(), Series::new(from_millis));
        }
        let series = self.series.get_mut(object).expect("it is there");
        if !counted.is_idle() {
            series.busy_millis = to_millis;
        }
        series.rings.iter_mut().for_each(|ring| ring.add(to_millis, counted));
    }

    /// The points of an object's series, oldest first.
    #[must_use]
    pub fn points(&self, object: &str, range: HistoryRange) -> Vec<HistoryPoint> {
        self.steps(object, range).map(|step| step.point.clone()).collect()
    }

    /// How long an object's requests took, step by step, oldest first. Steps without requests are left out.
    #[must_use]
    pub fn latencies(&self, object: &str, range: HistoryRange) -> Vec<LatencyStep> {
        let wide = |counts: &[u32]| counts.iter().copied().map(u64::from).collect();
        let busy = self.steps(object, range).filter(|step| !step.reads.is_empty() || !step.writes.is_empty());
        let view = |step: &Step| LatencyStep {
            unix_millis: step.point.unix_millis,
            reads: wide(&step.reads),
            writes: wide(&step.writes),
        };
        busy.map(view).collect()
    }

    fn steps(&self, object: &str, range: HistoryRange) -> impl Iterator<Item = &Step> {
        let series = self.series.get(object);
        let ring = series.and_then(|series| series.rings.iter().find(|ring| ring.range == range));
        ring.into_iter().flat_map(|ring| &ring.steps)
    }

    /// Forgets objects that are no more.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.series.retain(|object, _| is_there(object));
    }

    fn make_room(&mut self) {
        if self.series.len() < SERIES_MAX {
            return;
        }
        let idle = self.series.iter().min_by_key(|(_, series)| series.busy_millis);
        if let Some(object) = idle.map(|(object, _)| object.clone()) {
            self.series.remove(&object);
        }
    }
}

impl Series {
    fn new(begun_millis: u64) -> Series {
        let ring = |range| Ring {
            range,
            steps: VecDeque::new(),
            counted: CountersSnapshot::default(),
            begun_millis,
        };
        Series { rings: HistoryRange::ALL.map(ring), busy_millis: begun_millis }
    }
}

impl Ring {
    fn add(&mut self, unix_millis: u64, counted: &CountersSnapshot) {
        self.counted.merge(counted);
        let step_millis = self.range.step_seconds() * 1000;
        // A clock that was set back begins a step anew.
        let is_same_step = unix_millis / step_millis == self.begun_millis / step_millis;
        if is_same_step && unix_millis >= self.begun_millis {
            return;
        }
        let counted = std::mem::take(&mut self.counted);
        let length = unix_millis.saturating_sub(self.begun_millis);
        if length > 0 {
            let rates = rates(&counted, Duration::from_millis(length));
            let by_class = |operation| classes(&counted.of(operation).latency);
            self.steps.push_back(Step {
                point: HistoryPoint { unix_millis, rates },
                reads: by_class(Operation::Read),
                writes: by_class(Operation::Write),
            });
        }
        self.begun_millis = unix_millis;
        let oldest = unix_millis.saturating_sub(self.range.seconds() * 1000);
        let steps_max = (self.range.seconds() / self.range.step_seconds()) as usize;
        let is_within = |at: u64| at > oldest && at <= unix_millis;
        self.steps.retain(|step| is_within(step.point.unix_millis));
        while self.steps.len() > steps_max {
            self.steps.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use ashlar_telemetry::{Counters, Operation};

    use super::*;

    const START: u64 = 1_700_000_000_000;

    /// One write.
    fn write() -> CountersSnapshot {
        let counters = Counters::new();
        counters.completed(Operation::Write, 4096, Duration::from_micros(100));
        counters.snapshot()
    }

    fn write_each_second(history: &mut History, seconds: std::ops::Range<u64>) {
        for second in seconds {
            let now = START + second * 1000;
            history.add("volume:db", now - 1000, now, &write());
        }
    }

    #[test]
    fn each_range_has_its_steps_and_its_length() {
        let mut history = History::default();
        write_each_second(&mut history, 0..8000);
        let hour = history.points("volume:db", HistoryRange::Hour);
        assert_eq!(hour.len(), 360);
        for (before, after) in hour.iter().zip(&hour[1..]) {
            assert_eq!(after.unix_millis - before.unix_millis, 10_000);
            assert!((after.rates.writes_per_second - 1.0).abs() < 1e-9, "{after:?}");
        }
        let day = history.points("volume:db", HistoryRange::Day);
        assert_eq!(day.len(), 27, "the first one is of the rest of its five minutes");
        assert!(day.iter().all(|point| (point.rates.writes_per_second - 1.0).abs() < 1e-9), "{day:?}");
        assert_eq!(history.points("volume:db", HistoryRange::Week).len(), 4);
        let latencies = history.latencies("volume:db", HistoryRange::Hour);
        assert_eq!(latencies.len(), 360);
        let each = [0, 0, 0, 10];
        assert!(
            latencies.iter().all(|step| step.writes == each && step.reads.is_empty()),
            "100 µs: {latencies:?}"
        );
        assert!(history.points("volume:other", HistoryRange::Hour).is_empty());
    }

    #[test]
    fn a_clock_that_jumps_leaves_no_wrong_points() {
        let mut history = History::default();
        write_each_second(&mut history, 5000..5100);
        write_each_second(&mut history, 0..100);
        let points = history.points("volume:db", HistoryRange::Hour);
        assert!(points.iter().all(|point| point.unix_millis <= START + 100_000), "{points:?}");
        assert!(points.iter().all(|point| point.rates.writes_per_second < 2.0), "{points:?}");
        write_each_second(&mut history, 900_000..900_100);
        let points = history.points("volume:db", HistoryRange::Hour);
        assert!(points.len() < 12, "what is older than an hour goes: {points:?}");
    }

    #[test]
    fn the_idlest_gives_way_and_idle_ones_take_no_room() {
        let mut history = History::default();
        history.add("volume:idle", START - 1000, START, &CountersSnapshot::default());
        for number in 0..SERIES_MAX as u64 + 1 {
            let now = START + number * 1000;
            history.add(&format!("volume:{number}"), now - 1000, now, &write());
        }
        assert_eq!(history.series.len(), SERIES_MAX);
        assert!(!history.series.contains_key("volume:0") && history.series.contains_key("volume:256"));
        history.keep(|object| object == "volume:256");
        assert_eq!(history.series.len(), 1);
    }
}
