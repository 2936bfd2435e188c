//! Series of the last hour, day and week, in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ashlar_api::{HistoryPoint, HistoryRange, LatencyStep, ObjectiveSet};
use ashlar_telemetry::{CountersSnapshot, Operation};

use crate::classes::classes;
use crate::kept::{put_series, read_series};
use crate::minutes::{MINUTE_MILLIS, Minutes};
use crate::objective::{Judged, judge, p99_of};
use crate::rates::rates;

/// Objects with a series: some 400 KiB each. The one that was idle longest gives way. Arbitrary.
const SERIES_MAX: usize = 256;

/// Series of objects, by what a caller names them.
#[derive(Default)]
pub struct History {
    series: BTreeMap<String, Series>,
}

struct Series {
    /// In the order of [`HistoryRange::ALL`].
    rings: [Ring; HistoryRange::ALL.len()],
    minutes: Minutes,
    /// When it last had requests.
    busy_millis: u64,
}

struct Ring {
    range: HistoryRange,
    steps: VecDeque<Step>,
    /// What was counted in this step so far, and when it began.
    counted: CountersSnapshot,
    /// `None`: it was kept over a restart, and nothing was counted since.
    begun_millis: Option<u64>,
}

/// What is kept of a step.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) point: HistoryPoint,
    /// Requests by how long they took.
    pub(crate) reads: Box<[u32]>,
    pub(crate) writes: Box<[u32]>,
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
            self.series.insert(object.to_string(), Series::new(Some(from_millis), to_millis));
        }
        let series = self.series.get_mut(object).expect("it is there");
        if !counted.is_idle() {
            series.busy_millis = to_millis;
        }
        series.rings.iter_mut().for_each(|ring| ring.add(from_millis, to_millis, counted));
        series.minutes.add(from_millis, to_millis, counted);
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

    /// How an objective of these objects together fares.
    #[must_use]
    pub fn judge(&self, objective: &ObjectiveSet, objects: &[String], now_millis: u64) -> Judged {
        let series = objects.iter().filter_map(|object| self.series.get(object));
        judge(objective, now_millis / MINUTE_MILLIS, series.flat_map(|series| series.minutes.iter()))
    }

    /// The p99 of the newest step of these objects, the slowest of them; `None` without such requests.
    #[must_use]
    pub fn p99_now(&self, objective: &ObjectiveSet, objects: &[String], now_millis: u64) -> Option<u64> {
        let p99 = |object: &String| {
            let newest = self.steps(object, HistoryRange::Hour).last()?;
            let is_of_now = newest.point.unix_millis + MINUTE_MILLIS > now_millis;
            p99_of(&newest.point.rates, objective.requests).filter(|_| is_of_now)
        };
        objects.iter().filter_map(p99).max()
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

    /// Series of these objects as bytes, at most so many: those that were idle longest are left out.
    #[must_use]
    pub fn kept(&self, is_wanted: impl Fn(&str) -> bool, bytes_max: usize) -> Vec<u8> {
        let mut wanted: Vec<(&String, &Series)> =
            self.series.iter().filter(|(object, _)| is_wanted(object)).collect();
        wanted.sort_by_key(|(_, series)| std::cmp::Reverse(series.busy_millis));
        let mut bytes = Vec::new();
        for (object, series) in wanted {
            let before = bytes.len();
            let steps = series.rings.iter().map(|ring| &ring.steps);
            put_series(&mut bytes, object, series.busy_millis, steps, &series.minutes);
            if bytes.len() > bytes_max {
                bytes.truncate(before);
                break;
            }
        }
        bytes
    }

    /// Takes in what was kept. Steps of this life stay: older ones come before them.
    pub fn recall(&mut self, bytes: &[u8]) {
        for kept in read_series(bytes) {
            if !self.series.contains_key(&kept.object) {
                self.make_room();
            }
            let series = self.series.entry(kept.object).or_insert_with(|| Series::new(None, 0));
            series.busy_millis = series.busy_millis.max(kept.busy_millis);
            for (ring, older) in series.rings.iter_mut().zip(kept.rings) {
                ring.put_before(older);
            }
            series.minutes.put_before(kept.minutes);
        }
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
    fn new(begun_millis: Option<u64>, busy_millis: u64) -> Series {
        let ring = |range| Ring {
            range,
            steps: VecDeque::new(),
            counted: CountersSnapshot::default(),
            begun_millis,
        };
        Series { rings: HistoryRange::ALL.map(ring), minutes: Minutes::default(), busy_millis }
    }
}

impl Ring {
    fn put_before(&mut self, older: Vec<Step>) {
        let first = self.steps.front().map_or(u64::MAX, |step| step.point.unix_millis);
        let older = older.into_iter().filter(|step| step.point.unix_millis < first);
        let all = older.chain(std::mem::take(&mut self.steps)).collect();
        self.steps = all;
    }

    fn add(&mut self, from_millis: u64, unix_millis: u64, counted: &CountersSnapshot) {
        self.counted.merge(counted);
        let begun_millis = *self.begun_millis.get_or_insert(from_millis);
        let step_millis = self.range.step_seconds() * 1000;
        // A clock that was set back begins a step anew.
        let is_same_step = unix_millis / step_millis == begun_millis / step_millis;
        if is_same_step && unix_millis >= begun_millis {
            return;
        }
        let counted = std::mem::take(&mut self.counted);
        let length = unix_millis.saturating_sub(begun_millis);
        if length > 0 {
            let rates = rates(&counted, Duration::from_millis(length));
            let by_class = |operation| classes(&counted.of(operation).latency);
            self.steps.push_back(Step {
                point: HistoryPoint { unix_millis, rates },
                reads: by_class(Operation::Read),
                writes: by_class(Operation::Write),
            });
        }
        self.begun_millis = Some(unix_millis);
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
    fn what_is_kept_comes_before_what_is_new_and_the_time_between_is_nobodys() {
        let mut before = History::default();
        write_each_second(&mut before, 0..100);
        before.add("volume:other", START, START + 10_000, &write());
        let bytes = before.kept(|object| object == "volume:db", 1 << 20);
        assert!(before.kept(|_| true, bytes.len()).len() <= bytes.len());

        let mut history = History::default();
        write_each_second(&mut history, 400..430);
        history.recall(&bytes);
        // The same from another pool changes nothing.
        history.recall(&bytes);
        write_each_second(&mut history, 430..460);
        let points = history.points("volume:db", HistoryRange::Hour);
        assert!(points.is_sorted_by(|a, b| a.unix_millis < b.unix_millis), "{points:?}");
        let both = |at: u64| points.iter().filter(|point| point.unix_millis <= START + at).count();
        assert!(both(100_000) >= 9 && points.len() - both(100_000) >= 5, "{points:?}");
        assert!(points.iter().all(|point| (point.rates.writes_per_second - 1.0).abs() < 1e-6), "{points:?}");
        assert_eq!(history.latencies("volume:db", HistoryRange::Hour).len(), points.len());

        // Recalled first, as at a start: the pause is in no step.
        let mut again = History::default();
        again.recall(&bytes);
        write_each_second(&mut again, 400..460);
        let points = again.points("volume:db", HistoryRange::Hour);
        assert!(points.iter().all(|point| (point.rates.writes_per_second - 1.0).abs() < 1e-6), "{points:?}");
        again.recall(b"rubbish that is no series");
        assert_eq!(again.points("volume:db", HistoryRange::Hour), points);
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
