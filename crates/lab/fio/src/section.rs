//! A job's section in the job file: its threads, and its part of a file or a device.

use std::fmt::Write as _;

use crate::job::{Job, Medium, Offered, Pattern, Sync};

/// A job of several threads, on a part of a file or a device.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    pub job: Job,
    /// Each offers requests as the job says, but for a rate, which is of all together. Those of a sequential
    /// job have a stretch of their own each.
    pub threads: u32,
    /// Where the job's bytes begin.
    pub offset_bytes: u64,
    /// The exponent of Zipf's law that random requests follow; `None` is each place as likely as any other.
    pub zipf: Option<f64>,
}

/// Requests that an open loop may have under way. It must never be used up: requests would wait where nothing
/// counts the wait.
const OPEN_LOOP_DEPTH: u32 = 256;

impl From<Job> for Spread {
    fn from(job: Job) -> Spread {
        Spread { job, threads: 1, offset_bytes: 0, zipf: None }
    }
}

impl Spread {
    pub(crate) fn append(&self, text: &mut String, log: &str) {
        let job = &self.job;
        let _infallible = writeln!(text, "\n[{}]", job.name);
        let mut line = |key: &str, value: String| {
            let _infallible = writeln!(text, "{key}={value}");
        };
        for (key, value) in job.medium() {
            line(key, value);
        }
        if self.offset_bytes > 0 {
            line("offset", self.offset_bytes.to_string());
        }
        let size = self.thread_bytes();
        line("size", size.to_string());
        if self.threads > 1 {
            line("numjobs", self.threads.to_string());
            if size < job.size_bytes {
                line("offset_increment", (size / job.on.parts()).to_string());
            }
        }
        line("rw", job.direction());
        if let Some(zipf) = self.zipf {
            line("random_distribution", format!("zipf:{zipf}"));
        }
        if job.read_percent > 0 && job.read_percent < 100 {
            line("rwmixread", job.read_percent.to_string());
        }
        match job.blocks.as_slice() {
            [(bytes, _)] => line("bs", bytes.to_string()),
            several => line("bssplit", split(several)),
        }
        match job.sync {
            Sync::Direct => {
                line("direct", "1".into());
                line("ioengine", job.on.engine(job.engine()));
            }
            Sync::EachWrite => {
                line("ioengine", job.on.engine("psync"));
                line("fdatasync", "1".into());
            }
            Sync::Every(writes) => {
                line("ioengine", job.on.engine("psync"));
                line("fsync", writes.to_string());
            }
        }
        let mut open = |per_second: f64, depth: u32| {
            line("iodepth", depth.to_string());
            line("rate_process", "poisson".into());
            line("rate_iops", job.rates(per_second / f64::from(self.threads)));
        };
        match job.offered {
            Offered::PerSecond(rate) => open(f64::from(rate), OPEN_LOOP_DEPTH),
            Offered::Open { per_second, depth } => open(per_second, depth),
            Offered::Depth(depth) => line("iodepth", depth.to_string()),
        }
        line("write_iops_log", log.to_string());
        line("write_lat_log", log.to_string());
    }

    /// Whole requests of any size that the job makes.
    fn thread_bytes(&self) -> u64 {
        let Job { pattern, size_bytes, ref blocks, .. } = self.job;
        if pattern == Pattern::Random || self.threads == 1 {
            return size_bytes;
        }
        let largest = blocks.iter().map(|(bytes, _)| *bytes).max().unwrap_or(1) * self.job.on.parts();
        (size_bytes / u64::from(self.threads) / largest * largest).max(largest)
    }
}

impl Medium {
    /// Pieces that a job's bytes are cut into.
    fn parts(&self) -> u64 {
        match self {
            Medium::Striped { paths, .. } => paths.len().max(1) as u64,
            Medium::Path(_) | Medium::Nbd(_) => 1,
        }
    }

    /// fio's name for what asks: an export is asked over the network, whatever a device would be.
    fn engine(&self, of_device: &str) -> String {
        match self {
            Medium::Nbd(_) => "nbd".into(),
            Medium::Path(_) | Medium::Striped { .. } => of_device.into(),
        }
    }
}

impl Job {
    /// fio rounds a depth up to a power of two where io_uring asks (3.33: 64 for 40), and not with libaio.
    fn engine(&self) -> &'static str {
        match self.offered {
            Offered::Depth(depth) | Offered::Open { depth, .. } if !depth.is_power_of_two() => "libaio",
            Offered::Depth(_) | Offered::Open { .. } | Offered::PerSecond(_) => "io_uring",
        }
    }

    /// Where it goes, and which of several is next: of random requests each is as likely as the others, which
    /// is what a stripe makes of them.
    fn medium(&self) -> Vec<(&'static str, String)> {
        let name = |path: &std::path::PathBuf| escaped(&path.to_string_lossy());
        match &self.on {
            Medium::Path(path) => vec![("filename", name(path))],
            Medium::Nbd(uri) => vec![("uri", uri.clone())],
            Medium::Striped { paths, unit_bytes } => {
                let names: Vec<String> = paths.iter().map(name).collect();
                let largest = self.blocks.iter().map(|(bytes, _)| *bytes).max().unwrap_or(1);
                let next = match self.pattern {
                    Pattern::Random => "random".into(),
                    Pattern::Sequential => format!("roundrobin:{}", (unit_bytes / largest).max(1)),
                };
                vec![("filename", names.join(":")), ("file_service_type", next)]
            }
        }
    }

    /// Mean size of a request as it is told to fio, and how far one lies from it (the standard deviation).
    #[must_use]
    pub fn request_bytes(&self) -> (f64, f64) {
        let percents = whole_percents(&self.blocks);
        let sizes: Vec<(f64, f64)> = self
            .blocks
            .iter()
            .zip(percents)
            .map(|((bytes, _), percent)| (*bytes as f64, f64::from(percent) / 100.0))
            .collect();
        let mean: f64 = sizes.iter().map(|(bytes, share)| bytes * share).sum();
        let variance: f64 = sizes.iter().map(|(bytes, share)| share * (bytes - mean).powi(2)).sum();
        (mean, variance.sqrt())
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

    /// fio takes one rate for reads and one for writes, in whole requests.
    fn rates(&self, per_second: f64) -> String {
        let share = f64::from(self.read_percent.min(100)) / 100.0;
        let whole = |rate: f64| if rate > 0.0 { (rate.round() as u64).max(1) } else { 0 };
        match (whole(per_second * share), whole(per_second * (1.0 - share))) {
            (0, writes) => format!(",{writes}"),
            (reads, 0) => reads.to_string(),
            (reads, writes) => format!("{reads},{writes}"),
        }
    }
}

fn split(blocks: &[(u64, f64)]) -> String {
    let percents = whole_percents(blocks);
    let parts: Vec<String> =
        blocks.iter().zip(percents).map(|((bytes, _), percent)| format!("{bytes}/{percent}")).collect();
    parts.join(":")
}

/// Whole percentages that sum to 100, because fio refuses more and fills up less: each is rounded down, and
/// those with the largest rests take what is left. None is 0.
fn whole_percents(blocks: &[(u64, f64)]) -> Vec<u32> {
    let total: f64 = blocks.iter().map(|(_, percent)| percent).sum();
    let exact: Vec<f64> = blocks.iter().map(|(_, percent)| 100.0 * percent / total).collect();
    let mut whole: Vec<u32> = exact.iter().map(|percent| (*percent as u32).max(1)).collect();
    let rest = |whole: &[u32], index: usize| exact[index] - f64::from(whole[index]);
    while whole.iter().sum::<u32>() != 100 {
        let is_short = whole.iter().sum::<u32>() < 100;
        let by_rest = |one: &usize, other: &usize| rest(&whole, *one).total_cmp(&rest(&whole, *other));
        let changed = if is_short {
            (0..whole.len()).max_by(by_rest)
        } else {
            (0..whole.len()).filter(|index| whole[*index] > 1).min_by(by_rest)
        };
        let Some(index) = changed else { break };
        whole[index] = if is_short { whole[index] + 1 } else { whole[index] - 1 };
    }
    whole
}

/// fio takes a colon for the end of a file's name.
fn escaped(path: &str) -> String {
    path.replace('\\', "\\\\").replace(':', "\\:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Cell, Content};

    fn spread(blocks: &[(u64, f64)], pattern: Pattern, threads: u32, offered: Offered) -> Spread {
        let job = Job {
            name: "j".into(),
            on: Medium::Path("/d".into()),
            size_bytes: 10 << 20,
            pattern,
            read_percent: 100,
            blocks: blocks.to_vec(),
            sync: Sync::Direct,
            offered,
        };
        Spread { job, threads, offset_bytes: 4096, zipf: None }
    }

    fn text(spread: &Spread) -> String {
        let mut text = String::new();
        spread.append(&mut text, "log");
        text
    }

    #[test]
    fn percentages_are_whole_sum_to_100_and_none_is_lost() {
        let whole = |shares: &[f64]| {
            whole_percents(&shares.iter().zip(1..).map(|(share, size)| (size, *share)).collect::<Vec<_>>())
        };
        assert_eq!(whole(&[94.9, 5.1]), [95, 5]);
        assert_eq!(whole(&[33.4, 33.3, 33.3]), [34, 33, 33]);
        assert_eq!(whole(&[0.2, 0.2, 99.6]), [1, 1, 98]);
        assert_eq!(whole(&[1.0, 1.0]), [50, 50], "shares of any sum");
        let kaminario = spread(&[(8192, 94.9), (65536, 5.1)], Pattern::Random, 1, Offered::Depth(1));
        assert!(text(&kaminario).contains("bssplit=8192/95:65536/5"));
        let (mean, deviation) = kaminario.job.request_bytes();
        assert_eq!((mean, deviation.round()), (11_059.2, 12_498.0));
    }

    #[test]
    fn threads_of_a_sequential_job_have_their_own_stretches_and_those_of_a_random_one_have_all() {
        let blocks = [(64 << 10, 100.0)];
        let sequential = text(&spread(&blocks, Pattern::Sequential, 3, Offered::Depth(4)));
        let stretch = (10 << 20) / 3 / (64 << 10) * (64 << 10);
        let told = format!("offset=4096\nsize={stretch}\nnumjobs=3\noffset_increment={stretch}\n");
        assert!(sequential.contains(&told), "{sequential}");
        let random = text(&spread(&blocks, Pattern::Random, 3, Offered::Depth(4)));
        assert!(random.contains("size=10485760\nnumjobs=3\nrw"), "{random}");
    }

    #[test]
    fn a_stripe_is_several_devices_one_unit_after_the_other() {
        let on = Medium::Striped { paths: vec!["/a".into(), "/b".into()], unit_bytes: 256 << 10 };
        let blocks = [(64 << 10, 100.0)];
        let mut sequential = spread(&blocks, Pattern::Sequential, 2, Offered::Depth(4));
        sequential.job.on = on.clone();
        let told = text(&sequential);
        assert!(told.contains("filename=/a:/b\nfile_service_type=roundrobin:4\n"), "{told}");
        // Of each thread 5 MiB, half of it on each device.
        let stretch = 5_u64 << 20;
        let places = format!("size={stretch}\nnumjobs=2\noffset_increment={}\n", stretch / 2);
        assert!(told.contains(&places), "{told}");
        let mut random = spread(&blocks, Pattern::Random, 1, Offered::Depth(4));
        random.job.on = on;
        assert!(text(&random).contains("file_service_type=random\n"));
    }

    /// The harm: 49 requests under way where 40 were asked for, and the rate of 49 told as that of 40.
    #[test]
    fn as_many_requests_are_under_way_as_were_asked_for() {
        for (depth, engine) in [(1, "io_uring"), (40, "libaio"), (64, "io_uring")] {
            for offered in [Offered::Depth(depth), Offered::Open { per_second: 9.0, depth }] {
                let told = text(&spread(&[(8192, 100.0)], Pattern::Random, 1, offered));
                assert!(told.contains(&format!("ioengine={engine}\n")), "{told}");
                assert!(told.contains(&format!("iodepth={depth}\n")), "{told}");
            }
        }
    }

    #[test]
    fn an_export_is_asked_from_user_space() {
        let mut job = spread(&[(8192, 100.0)], Pattern::Random, 1, Offered::Depth(4));
        job.job.on = Medium::Nbd("nbd+unix:///db?socket=/run/nbd".into());
        let told = text(&job);
        assert!(
            told.contains("uri=nbd+unix:///db?socket=/run/nbd\n") && !told.contains("filename"),
            "{told}"
        );
        assert!(told.contains("ioengine=nbd\n"), "{told}");
    }

    #[test]
    fn places_follow_a_law_where_one_is_named() {
        let mut job = spread(&[(8192, 100.0)], Pattern::Random, 1, Offered::Depth(4));
        assert!(!text(&job).contains("random_distribution"));
        job.zipf = Some(1.1);
        assert!(text(&job).contains("random_distribution=zipf:1.1\n"), "{}", text(&job));
    }

    #[test]
    fn a_rate_is_of_all_threads_together() {
        let open = Offered::Open { per_second: 1000.0, depth: 64 };
        let told = text(&spread(&[(8192, 100.0)], Pattern::Random, 4, open));
        assert!(told.contains("iodepth=64\nrate_process=poisson\nrate_iops=250\n"), "{told}");
    }

    #[test]
    fn what_is_written_to_its_end_is_written_once_everywhere() {
        let job = spread(&[(8192, 100.0)], Pattern::Random, 1, Offered::Depth(1)).job;
        let cell = |time| Cell {
            name: "c".into(),
            jobs: vec![job.clone()],
            ramp: std::time::Duration::ZERO,
            time,
            content: Content::SAME,
            seed: 1,
        };
        let to_its_end = cell(None).text();
        assert!(!to_its_end.contains("norandommap") && to_its_end.contains("end_fsync=1"), "{to_its_end}");
        assert!(to_its_end.contains("dedupe_percentage=100"));
        assert!(cell(Some(std::time::Duration::from_secs(1))).text().contains("norandommap=1"));
    }
}
