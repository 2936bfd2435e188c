//! A test as fio's job file.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::section::Spread;

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
    /// The same, with so many under way at most in each thread.
    Open { per_second: f64, depth: u32 },
}

/// What is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Content {
    /// How many times smaller a compressor makes it; 1 is content that does not compress.
    pub compress: f64,
    /// How many blocks there are for each that differs from all others; 1 is no block twice.
    pub duplicates: f64,
}

/// What requests go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A file or a device.
    Path(PathBuf),
    /// Several, each with the same share of the bytes; one of `unit_bytes` after the other, as a stripe has
    /// them.
    Striped { paths: Vec<PathBuf>, unit_bytes: u64 },
    /// An NBD export by its URI, from user space.
    Nbd(String),
}

impl From<PathBuf> for Medium {
    fn from(path: PathBuf) -> Medium {
        Medium::Path(path)
    }
}

/// One stream of requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Names it in the job file and its JSON.
    pub name: String,
    pub on: Medium,
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

/// What runs at the same time, for how long. Its jobs are of one thread each, or a [`Spread`].
#[derive(Clone, PartialEq, Debug)]
pub struct Cell<J = Job> {
    pub name: String,
    pub jobs: Vec<J>,
    /// Before anything is counted.
    pub ramp: Duration,
    /// What is counted; `None` until every byte was written once.
    pub time: Option<Duration>,
    pub content: Content,
    /// Numbers of the generator: the same ones ask for the same blocks.
    pub seed: u64,
}

impl<J: Clone + Into<Spread>> Cell<J> {
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
        line("randseed", self.seed.to_string());
        match self.time {
            Some(time) => {
                // A database asks for places whether it did so before or not.
                line("norandommap", "1".into());
                line("time_based", "1".into());
                line("runtime", format!("{}ms", time.as_millis()));
                line("ramp_time", format!("{}ms", self.ramp.as_millis()));
            }
            None => line("end_fsync", "1".into()),
        }
        for (key, value) in self.content.options() {
            line(key, value);
        }
        for spread in self.spreads() {
            spread.append(&mut text, &self.log_of(&spread.job));
        }
        text
    }

    /// The jobs with their threads.
    pub(crate) fn spreads(&self) -> impl Iterator<Item = Spread> {
        self.jobs.iter().cloned().map(Into::into)
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
                self.spreads()
                    .map(|spread| Duration::from_secs(spread.job.size_bytes >> 20))
                    .sum::<Duration>()
                    + slack
            }
        }
    }
}

impl Content {
    /// As a database's pages are: half of it is gone when compressed, and no page is there twice.
    pub const DATABASE: Content = Content { compress: 2.0, duplicates: 1.0 };
    /// The same block in every write of a thread.
    pub const SAME: Content = Content { compress: 1.0, duplicates: f64::INFINITY };

    /// Without `refill_buffers` content repeats; in the default mode duplicates are neighbours, and a
    /// compressor with a window counts them again.
    fn options(self) -> Vec<(&'static str, String)> {
        let percent = |ratio: f64| (100.0 * (1.0 - 1.0 / ratio.max(1.0))).round() as u32;
        let mut options = vec![("refill_buffers", "1".to_string())];
        if percent(self.compress) > 0 {
            options.push(("buffer_compress_percentage", percent(self.compress).to_string()));
        }
        match percent(self.duplicates) {
            0 => {}
            // All alike: there is no set of blocks to draw from.
            100 => options.push(("dedupe_percentage", "100".into())),
            share => {
                options.push(("dedupe_mode", "working_set".into()));
                options.push(("dedupe_percentage", share.to_string()));
            }
        }
        options
    }
}
