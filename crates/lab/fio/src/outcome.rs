//! What fio's JSON says of a test.

use std::time::Duration;

use ashlar_statistics::histogram::Histogram;
use serde_json::Value;

/// Reads, writes or flushes of one job.
#[derive(Clone, Default, Debug)]
pub struct Side {
    pub requests: u64,
    pub bytes: u64,
    /// How long they took, from the call to the answer.
    pub latencies: Histogram,
}

/// One job's counts.
#[derive(Clone, Default, Debug)]
pub struct Outcome {
    pub job: String,
    pub reads: Side,
    pub writes: Side,
    /// Flushes that the job asked for, apart from its writes.
    pub syncs: Side,
    /// What was counted, without the ramp.
    pub time: Duration,
    /// When it had ended, in milliseconds since 1970.
    pub ended_unix_millis: Option<u64>,
    /// Processor time of fio itself: of one core so much, 1 is all of it.
    pub client_cores: f64,
    /// The same of its busiest thread: beyond 1 none can go.
    pub client_busiest: f64,
    /// How often an open loop had about as many requests under way as it may have, of all requests.
    pub depth_used_up: f64,
    /// errno; 0 is none.
    pub error: i64,
}

impl Side {
    /// Requests in a second of `time`.
    #[must_use]
    pub fn per_second(&self, time: Duration) -> f64 {
        self.requests as f64 / time.as_secs_f64().max(1e-9)
    }

    /// Bytes in a second of `time`.
    #[must_use]
    pub fn bytes_per_second(&self, time: Duration) -> f64 {
        self.bytes as f64 / time.as_secs_f64().max(1e-9)
    }

    /// Adds those of another thread or job.
    pub fn add(&mut self, other: &Side) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latencies.merge(&other.latencies);
    }

    fn of(side: &Value) -> Side {
        let count = |key: &str| side[key].as_u64().unwrap_or(0);
        let mut latencies = Histogram::default();
        if let Some(bins) = side["lat_ns"]["bins"].as_object() {
            for (nanos, times) in bins {
                if let (Ok(nanos), Some(times)) = (nanos.parse(), times.as_u64()) {
                    latencies.add(nanos, times);
                }
            }
        }
        // Flushes are counted by their latencies only.
        let requests = count("total_ios").max(latencies.count());
        Side { requests, bytes: count("io_bytes"), latencies }
    }
}

impl Outcome {
    /// Reads and writes together.
    #[must_use]
    pub fn both(&self) -> Side {
        let mut both = self.reads.clone();
        both.add(&self.writes);
        both
    }

    /// Every job of the JSON that fio wrote, its threads together. fio may have said something else before.
    pub(crate) fn all_of(text: &str) -> Result<Vec<Outcome>, String> {
        let json = text.find('{').map_or("", |begin| &text[begin..]);
        let json: Value = serde_json::from_str(json).map_err(|error| format!("fio's JSON: {error}"))?;
        let threads = json["jobs"].as_array().ok_or("fio's JSON names no jobs")?;
        let mut jobs: Vec<Outcome> = Vec::new();
        let ended_unix_millis = json["timestamp_ms"].as_u64();
        for thread in threads.iter().map(|job| Outcome { ended_unix_millis, ..Outcome::of(job) }) {
            match jobs.last_mut() {
                Some(job) if job.job == thread.job => job.add(&thread),
                _ => jobs.push(thread),
            }
        }
        Ok(jobs)
    }

    /// Adds another thread of the same job.
    fn add(&mut self, thread: &Outcome) {
        let requests = [&*self, thread].map(|outcome| outcome.both().requests as f64);
        let used_up = requests[0] * self.depth_used_up + requests[1] * thread.depth_used_up;
        self.depth_used_up = used_up / (requests[0] + requests[1]).max(1.0);
        self.reads.add(&thread.reads);
        self.writes.add(&thread.writes);
        self.syncs.add(&thread.syncs);
        self.time = self.time.max(thread.time);
        self.client_cores += thread.client_cores;
        self.client_busiest = self.client_busiest.max(thread.client_busiest);
        self.error = if self.error == 0 { thread.error } else { self.error };
    }

    fn of(job: &Value) -> Outcome {
        let percent = |key: &str| job[key].as_f64().unwrap_or(0.0);
        let millis = job["job_runtime"].as_u64().unwrap_or(0);
        let client_cores = (percent("usr_cpu") + percent("sys_cpu")) / 100.0;
        Outcome {
            job: job["jobname"].as_str().unwrap_or_default().to_string(),
            reads: Side::of(&job["read"]),
            writes: Side::of(&job["write"]),
            syncs: Side::of(&job["sync"]),
            time: Duration::from_millis(millis),
            ended_unix_millis: None,
            client_cores,
            client_busiest: client_cores,
            depth_used_up: depth_used_up(job),
            error: job["error"].as_i64().unwrap_or(0),
        }
    }
}

/// fio counts how many requests were under way in powers of two, the last of them open: the share of the one
/// that the depth is in.
fn depth_used_up(job: &Value) -> f64 {
    let depth = job["job options"]["iodepth"].as_str().and_then(|depth| depth.parse::<u64>().ok());
    let level = match depth {
        Some(depth @ 1..64) => (1_u64 << depth.ilog2()).to_string(),
        _ => ">=64".to_string(),
    };
    job["iodepth_level"][level.as_str()].as_f64().unwrap_or(0.0) / 100.0
}
