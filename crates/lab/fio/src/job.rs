//! A test as fio's job file.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// In which order blocks are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Anywhere in the file, each place as likely as any other.
    Random,
    /// One behind the other.
    Sequential,
}

/// What makes a write count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Direct I/O, and no flush.
    Direct,
    /// Through the page cache, and an fdatasync behind each write: a commit of a database.
    EachWrite,
    /// Through the page cache, and an fsync behind so many writes: a checkpoint of a database.
    Every(u32),
}

/// How requests are offered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Offered {
    /// So many at once, the next when one is done: a closed loop.
    Depth(u32),
    /// So many a second, at times drawn from a Poisson process, whether others are done or not: an open loop.
    PerSecond(u32),
}

/// What is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Content {
    /// How many times smaller a compressor makes it; 1 is content that does not compress.
    pub compress: f64,
    /// How many blocks there are for each that differs from all others; 1 is no block twice.
    pub duplicates: f64,
}

/// One stream of requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Names it in the job file and its JSON.
    pub name: String,
    /// The file or device.
    pub path: PathBuf,
    /// How much of it is used, from its beginning.
    pub size_bytes: u64,
    pub pattern: Pattern,
    /// Of a hundred requests so many read.
    pub read_percent: u32,
    /// Bytes of a request, and of a hundred requests so many have them.
    pub blocks: Vec<(u64, f64)>,
    pub sync: Sync,
    pub offered: Offered,
}

/// What runs at the same time, for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    pub name: String,
    pub jobs: Vec<Job>,
    /// Before anything is counted.
    pub ramp: Duration,
    /// What is counted; `None` until every byte was written once.
    pub time: Option<Duration>,
    pub content: Content,
    /// Numbers of the generator: the same ones ask for the same blocks.
    pub seed: u64,
}

/// Requests that an open loop may have under way. It must never be used up: requests would wait where nothing
/// counts the wait.
pub(crate) const OPEN_LOOP_DEPTH: u32 = 256;

impl Cell {
    /// The job file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("[global]\n");
        let mut line = |key: &str, value: String| {
            let _infallible = writeln!(text, "{key}={value}");
        };
        line("group_reporting", "0".into());
        line("lat_percentiles", "1".into());
        line("log_avg_msec", "1000".into());
        line("per_job_logs", "0".into());
        line("norandommap", "1".into());
        line("randseed", self.seed.to_string());
        match self.time {
            Some(time) => {
                line("time_based", "1".into());
                line("runtime", format!("{}ms", time.as_millis()));
                line("ramp_time", format!("{}ms", self.ramp.as_millis()));
            }
            None => line("end_fsync", "1".into()),
        }
        for (key, value) in self.content.options() {
            line(key, value);
        }
        for job in &self.jobs {
            job.append(&mut text, &self.log_of(job));
        }
        text
    }

    /// What the names of a job's logs begin with.
    pub(crate) fn log_of(&self, job: &Job) -> String {
        format!("{}-{}", self.name, job.name)
    }

    /// When fio must be over: what it counts, and time to start, to write what is left and to compare.
    pub(crate) fn limit(&self) -> Duration {
        let slack = Duration::from_secs(120);
        match self.time {
            Some(time) => self.ramp + time + slack,
            None => {
                self.jobs.iter().map(|job| Duration::from_secs(job.size_bytes >> 20)).sum::<Duration>()
                    + slack
            }
        }
    }
}

impl Content {
    /// As a database's pages are: half of it is gone when compressed, and no page is there twice.
    pub const DATABASE: Content = Content { compress: 2.0, duplicates: 1.0 };

    /// Without `refill_buffers` content repeats; in the default mode duplicates are neighbours, and a
    /// compressor with a window counts them again.
    fn options(self) -> Vec<(&'static str, String)> {
        let percent = |ratio: f64| (100.0 * (1.0 - 1.0 / ratio.max(1.0))).round() as u32;
        let mut options = vec![("refill_buffers", "1".to_string())];
        if percent(self.compress) > 0 {
            options.push(("buffer_compress_percentage", percent(self.compress).to_string()));
        }
        if percent(self.duplicates) > 0 {
            options.push(("dedupe_mode", "working_set".into()));
            options.push(("dedupe_percentage", percent(self.duplicates).to_string()));
        }
        options
    }
}

impl Job {
    fn append(&self, text: &mut String, log: &str) {
        let _infallible = writeln!(text, "\n[{}]", self.name);
        let mut line = |key: &str, value: String| {
            let _infallible = writeln!(text, "{key}={value}");
        };
        line("filename", escaped(&self.path.to_string_lossy()));
        line("size", self.size_bytes.to_string());
        line("rw", self.direction());
        if self.read_percent > 0 && self.read_percent < 100 {
            line("rwmixread", self.read_percent.to_string());
        }
        match self.blocks.as_slice() {
            [(bytes, _)] => line("bs", bytes.to_string()),
            several => line("bssplit", split(several)),
        }
        match self.sync {
            Sync::Direct => {
                line("direct", "1".into());
                line("ioengine", "io_uring".into());
            }
            Sync::EachWrite => {
                line("ioengine", "psync".into());
                line("fdatasync", "1".into());
            }
            Sync::Every(writes) => {
                line("ioengine", "psync".into());
                line("fsync", writes.to_string());
            }
        }
        match self.offered {
            Offered::Depth(depth) => line("iodepth", depth.to_string()),
            Offered::PerSecond(rate) => {
                line("iodepth", OPEN_LOOP_DEPTH.to_string());
                line("rate_process", "poisson".into());
                line("rate_iops", self.rates(rate));
            }
        }
        line("write_iops_log", log.to_string());
        line("write_lat_log", log.to_string());
    }

    fn direction(&self) -> String {
        let prefix = match self.pattern {
            Pattern::Random => "rand",
            Pattern::Sequential => "",
        };
        let direction = match self.read_percent {
            0 => "write",
            1..100 => "rw",
            _ => "read",
        };
        format!("{prefix}{direction}")
    }

    /// fio takes one rate for reads and one for writes.
    fn rates(&self, rate: u32) -> String {
        let reads = (u64::from(rate) * u64::from(self.read_percent.min(100)) / 100) as u32;
        match (reads, rate - reads) {
            (0, writes) => format!(",{writes}"),
            (reads, 0) => reads.to_string(),
            (reads, writes) => format!("{reads},{writes}"),
        }
    }
}

fn split(blocks: &[(u64, f64)]) -> String {
    let parts: Vec<String> =
        blocks.iter().map(|(bytes, percent)| format!("{bytes}/{}", percent.round() as u32)).collect();
    parts.join(":")
}

/// fio takes a colon for the end of a file's name.
fn escaped(path: &str) -> String {
    path.replace('\\', "\\\\").replace(':', "\\:")
}
