//! fio's logs, second by second.

use std::collections::BTreeMap;

/// What a job did in one second.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Second {
    /// Its end, since the job began to count.
    pub at_seconds: f64,
    /// Reads and writes.
    pub requests: f64,
    /// The mean of those that were answered in it; `None` when none was.
    pub latency_nanos: Option<f64>,
}

/// Values of one second and one direction (reads or writes): threads and directions have lines of their own,
/// those of a thread one behind the other.
#[derive(Default)]
struct Values {
    sum: f64,
    count: u32,
}

/// Reads `NAME_iops.log` and `NAME_lat.log`: `time in ms, value, direction, block size, offset`.
///
/// A second without a line is one in which nothing was answered. The last one is left out where not every
/// thread has told it.
#[must_use]
pub fn seconds(requests: &str, latencies: &str) -> Vec<Second> {
    let (requests, latencies) = (values(requests), values(latencies));
    let last = requests.keys().next_back().map_or(0, |(second, _)| *second);
    let before = |direction: u64| requests.get(&(last - 1, direction)).map_or(0, |values| values.count);
    let is_cut =
        last > 1 && of_second(&requests, last).any(|(direction, values)| values.count < before(direction));
    let last = if is_cut { last - 1 } else { last };
    let second = |number: u64| {
        let weight = |direction: u64| requests.get(&(number, direction)).map_or(1.0, |values| values.sum);
        let means = of_second(&latencies, number)
            .map(|(direction, values)| (weight(direction), values.sum / f64::from(values.count)));
        Second {
            at_seconds: number as f64,
            requests: of_second(&requests, number).map(|(_, values)| values.sum).sum(),
            latency_nanos: weighted(means),
        }
    };
    (1..=last).map(second).collect()
}

/// Several jobs as one: as many seconds as all of them have.
#[must_use]
pub fn together(jobs: &[Vec<Second>]) -> Vec<Second> {
    let count = jobs.iter().map(Vec::len).min().unwrap_or(0);
    let second = |index: usize| {
        let of_jobs = || jobs.iter().map(|job| job[index]);
        Second {
            at_seconds: jobs[0][index].at_seconds,
            requests: of_jobs().map(|second| second.requests).sum(),
            latency_nanos: weighted(
                of_jobs().filter_map(|second| Some((second.requests, second.latency_nanos?))),
            ),
        }
    };
    (0..count).map(second).collect()
}

/// The mean of values that count as much as their weights say.
fn weighted(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (weights, sum) = values
        .fold((0.0, 0.0), |(weights, sum), (weight, value)| (weights + weight, weight.mul_add(value, sum)));
    (weights > 0.0).then(|| sum / weights)
}

fn of_second(values: &BTreeMap<(u64, u64), Values>, second: u64) -> impl Iterator<Item = (u64, &Values)> {
    values.range((second, 0)..(second + 1, 0)).map(|((_, direction), values)| (*direction, values))
}

fn values(log: &str) -> BTreeMap<(u64, u64), Values> {
    let mut found: BTreeMap<(u64, u64), Values> = BTreeMap::new();
    for line in log.lines() {
        let mut parts = line.split(',').map(str::trim);
        let (Some(Ok(millis)), Some(Ok(value)), Some(Ok(direction))) = (
            parts.next().map(str::parse::<u64>),
            parts.next().map(str::parse::<f64>),
            parts.next().map(str::parse::<u64>),
        ) else {
            continue;
        };
        let of_second = found.entry(((millis + 500) / 1000, direction)).or_default();
        of_second.sum += value;
        of_second.count += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_seconds: f64, requests: f64, latency_nanos: Option<f64>) -> Second {
        Second { at_seconds, requests, latency_nanos }
    }

    #[test]
    fn threads_and_directions_of_a_second_belong_together() {
        // Two threads, one behind the other, as fio writes them; reads and writes.
        let requests = "1000, 30, 0, 0, 0\n1000, 10, 1, 0, 0\n2003, 40, 0, 0, 0\n\
                        999, 50, 0, 0, 0\n999, 10, 1, 0, 0\n2001, 60, 0, 0, 0\n";
        let latencies = "1000, 100, 0, 0, 0\n1000, 900, 1, 0, 0\n2000, 100, 0, 0, 0\n1000, 300, 0, 0, 0\n";
        let found = seconds(requests, latencies);
        // 80 reads of 200 and 20 writes of 900: 340.
        assert_eq!(found, [second(1.0, 100.0, Some(340.0)), second(2.0, 100.0, Some(100.0))]);
    }

    #[test]
    fn a_second_without_a_line_is_a_second_without_an_answer() {
        let found = seconds("1003, 21, 0, 0, 0\n4003, 9, 0, 0, 0\n", "");
        let requests: Vec<f64> = found.iter().map(|second| second.requests).collect();
        assert_eq!(requests, [21.0, 0.0, 0.0, 9.0]);
        assert_eq!(seconds("", ""), []);
    }

    #[test]
    fn the_last_second_counts_only_when_every_thread_told_it() {
        let log = "1000, 5, 0, 0, 0\n2000, 5, 0, 0, 0\n1000, 5, 0, 0, 0\n";
        assert_eq!(seconds(log, "").len(), 1);
    }

    #[test]
    fn jobs_are_added_second_by_second() {
        let one = vec![second(1.0, 30.0, Some(100.0)), second(2.0, 30.0, None)];
        let other = vec![second(1.0, 10.0, Some(500.0))];
        assert_eq!(together(&[one, other]), [second(1.0, 40.0, Some(200.0))]);
        assert_eq!(together(&[]), []);
    }
}
