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
    /// Processor time of fio itself: of one core so much, 1 is all of it.
    pub client_cores: f64,
    /// How often an open loop had as many requests under way as it may have, of all requests.
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
        let mut latencies = self.reads.latencies.clone();
        latencies.merge(&self.writes.latencies);
        Side {
            requests: self.reads.requests + self.writes.requests,
            bytes: self.reads.bytes + self.writes.bytes,
            latencies,
        }
    }

    /// Every job of the JSON that fio wrote. It may have said something else before.
    pub(crate) fn all_of(text: &str) -> Result<Vec<Outcome>, String> {
        let json = text.find('{').map_or("", |begin| &text[begin..]);
        let json: Value = serde_json::from_str(json).map_err(|error| format!("fio's JSON: {error}"))?;
        let jobs = json["jobs"].as_array().ok_or("fio's JSON names no jobs")?;
        Ok(jobs.iter().map(Outcome::of).collect())
    }

    fn of(job: &Value) -> Outcome {
        let percent = |key: &str| job[key].as_f64().unwrap_or(0.0);
        let millis = job["job_runtime"].as_u64().unwrap_or(0);
        Outcome {
            job: job["jobname"].as_str().unwrap_or_default().to_string(),
            reads: Side::of(&job["read"]),
            writes: Side::of(&job["write"]),
            syncs: Side::of(&job["sync"]),
            time: Duration::from_millis(millis),
            client_cores: (percent("usr_cpu") + percent("sys_cpu")) / 100.0,
            depth_used_up: job["iodepth_level"][">=64"].as_f64().unwrap_or(0.0) / 100.0,
            error: job["error"].as_i64().unwrap_or(0),
        }
    }
}
