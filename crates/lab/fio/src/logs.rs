//! fio's logs, second by second.

/// What one job did in one second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Second {
    /// Since the job began to count.
    pub at_seconds: f64,
    /// Reads and writes.
    pub requests: f64,
}

/// Reads `NAME_iops.log`: `time in ms, requests a second, direction, block size, offset`. Reads and writes
/// have lines of their own, and those of one second belong together.
#[must_use]
pub fn seconds(log: &str) -> Vec<Second> {
    let mut found: Vec<(u64, f64)> = Vec::new();
    for line in log.lines() {
        let mut parts = line.split(',').map(str::trim);
        let (Some(Ok(millis)), Some(Ok(requests))) =
            (parts.next().map(str::parse::<u64>), parts.next().map(str::parse::<f64>))
        else {
            continue;
        };
        let second = (millis + 500) / 1000;
        match found.last_mut() {
            Some((last, sum)) if *last == second => *sum += requests,
            _ => found.push((second, requests)),
        }
    }
    found.into_iter().map(|(second, requests)| Second { at_seconds: second as f64, requests }).collect()
}
