//! What is asked of a place, in which order and for how long.

use std::path::Path;
use std::time::Duration;

use ashlar_fio::{Cell, Content, Job, Offered, Pattern, Sync};

/// A database page of PostgreSQL and SQL Server.
pub(crate) const PAGE_BYTES: u64 = 8 << 10;
/// Requests at once where the most is looked for: what a server with some tens of sessions has under way.
const DEPTH: u32 = 32;
/// Of a database's requests so many read. Arbitrary: most mixes of the papers lie between 60 and 90.
const READ_PERCENT: u32 = 70;
/// How much of the highest rate is offered, one step after the other, in per cent.
pub(crate) const LOADS: [u32; 5] = [10, 25, 50, 75, 90];
/// Dirty pages that a checkpoint writes before it syncs: some MiB, as PostgreSQL does with
/// `checkpoint_flush_after`.
const CHECKPOINT_WRITES: u32 = 512;
/// The journal of a database: it is written over and over.
const LOG_BYTES_MAX: u64 = 256 << 20;
/// What is written and compared.
const COMPARED_BYTES_MAX: u64 = 512 << 20;
const COMPARED_BYTES_MIN: u64 = 16 << 20;

/// How long all of it may take, and what follows from that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Length(Duration);

impl Length {
    /// Every number has a minute behind it.
    pub const USUAL: Length = Length(Duration::from_secs(600));
    /// In less there is nothing to be seen.
    pub const MIN: Duration = Duration::from_secs(10);
    /// The longest test a person waits for.
    pub const MAX: Duration = Duration::from_secs(24 * 3600);

    /// About so long; `None` for what is too short or too long.
    #[must_use]
    pub fn about(time: Duration) -> Option<Length> {
        (Length::MIN..=Length::MAX).contains(&time).then_some(Length(time))
    }

    /// Space that the test takes at most: 8 GiB in ten minutes.
    #[must_use]
    pub fn size_bytes_max(self) -> u64 {
        ((self.0.as_secs() * 8) << 30) / Length::USUAL.0.as_secs()
    }

    /// Six of them, five loads and their ramps leave a fifth of the time for what is written to its end.
    fn cell(self) -> Duration {
        (self.0 * 17 / 200).max(Duration::from_secs(1))
    }

    fn load(self) -> Duration {
        (self.0 / 20).max(Duration::from_secs(1))
    }

    pub(crate) fn ramp(self) -> Duration {
        (self.0 / 200).clamp(Duration::from_millis(200), Duration::from_secs(3))
    }
}

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Fill,
    Commits,
    Reads,
    ReadsDeep,
    WritesDeep,
    Mixed,
    /// So many per cent of what `Mixed` reached.
    Load(u32),
    CommitsUnderCheckpoint,
}

impl Step {
    /// All of them, in order.
    #[must_use]
    pub fn all() -> Vec<Step> {
        let mut steps =
            vec![Step::Fill, Step::Commits, Step::Reads, Step::ReadsDeep, Step::WritesDeep, Step::Mixed];
        steps.extend(LOADS.map(Step::Load));
        steps.push(Step::CommitsUnderCheckpoint);
        steps
    }

    /// The name of its files.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Step::Fill => "fill".into(),
            Step::Commits => "commits".into(),
            Step::Reads => "reads".into(),
            Step::ReadsDeep => "reads-deep".into(),
            Step::WritesDeep => "writes-deep".into(),
            Step::Mixed => "mixed".into(),
            Step::Load(percent) => format!("load-{percent}"),
            Step::CommitsUnderCheckpoint => "commits-under-checkpoint".into(),
        }
    }

    /// For people.
    #[must_use]
    pub fn title(self) -> String {
        match self {
            Step::Fill => "write everything once, 1 MiB at a time".into(),
            Step::Commits => "commits: write 8 KiB and fdatasync, one at a time".into(),
            Step::Reads => "read 8 KiB anywhere, one at a time".into(),
            Step::ReadsDeep => format!("read 8 KiB anywhere, {DEPTH} at a time"),
            Step::WritesDeep => format!("write 8 KiB anywhere, {DEPTH} at a time"),
            Step::Mixed => {
                format!("{READ_PERCENT} % reads, {} % writes, {DEPTH} at a time", 100 - READ_PERCENT)
            }
            Step::Load(percent) => format!("the same mix at {percent} % of that rate, in an open loop"),
            Step::CommitsUnderCheckpoint => "commits while a checkpoint writes and syncs".into(),
        }
    }

    /// How long it takes.
    #[must_use]
    pub fn time(self, length: Length, size_bytes: u64) -> Duration {
        match self {
            Step::Fill => time_to_write(size_bytes),
            Step::Load(_) => length.ramp() + length.load(),
            _ => length.ramp() + length.cell(),
        }
    }

    /// The cell for fio. `rate` is what the mixed step reached.
    pub(crate) fn cell(self, place: &Place<'_>, rate: f64) -> Cell {
        let job = |name: &str, pattern, read_percent, sync, offered| Job {
            name: name.into(),
            on: place.data.to_path_buf().into(),
            size_bytes: place.size_bytes,
            pattern,
            read_percent,
            blocks: vec![(PAGE_BYTES, 100.0)],
            sync,
            offered,
        };
        let deep = Offered::Depth(DEPTH);
        let one = Offered::Depth(1);
        let commits = || Job {
            size_bytes: place.size_bytes.min(LOG_BYTES_MAX),
            ..job("commits", Pattern::Sequential, 0, Sync::EachWrite, one)
        };
        let jobs = match self {
            Step::Fill => vec![Job {
                blocks: vec![(1 << 20, 100.0)],
                ..job("fill", Pattern::Sequential, 0, Sync::Direct, Offered::Depth(4))
            }],
            Step::Commits => vec![commits()],
            Step::Reads => vec![job("reads", Pattern::Random, 100, Sync::Direct, one)],
            Step::ReadsDeep => vec![job("reads", Pattern::Random, 100, Sync::Direct, deep)],
            Step::WritesDeep => vec![job("writes", Pattern::Random, 0, Sync::Direct, deep)],
            Step::Mixed => vec![job("mixed", Pattern::Random, READ_PERCENT, Sync::Direct, deep)],
            Step::Load(percent) => {
                let offered = Offered::PerSecond((rate * f64::from(percent) / 100.0).max(1.0) as u32);
                vec![job("load", Pattern::Random, READ_PERCENT, Sync::Direct, offered)]
            }
            Step::CommitsUnderCheckpoint => {
                vec![commits(), job("checkpoint", Pattern::Random, 0, Sync::Every(CHECKPOINT_WRITES), one)]
            }
        };
        let time = if let Step::Load(_) = self { place.length.load() } else { place.length.cell() };
        Cell {
            name: self.name(),
            jobs,
            ramp: place.length.ramp(),
            time: Some(time).filter(|_| self != Step::Fill),
            content: Content::DATABASE,
            seed: 1,
        }
    }
}

/// Where cells run.
pub(crate) struct Place<'a> {
    pub(crate) data: &'a Path,
    pub(crate) size_bytes: u64,
    pub(crate) length: Length,
}

/// At 200 MB a second.
pub(crate) fn time_to_write(bytes: u64) -> Duration {
    Duration::from_secs(1 + bytes / 200_000_000)
}

/// What is written twice and read twice, block by block.
pub(crate) fn compared_bytes(length: Length, size_bytes: u64) -> u64 {
    size_bytes.min(COMPARED_BYTES_MAX).min((length.size_bytes_max() / 16).max(COMPARED_BYTES_MIN)) >> 20 << 20
}
