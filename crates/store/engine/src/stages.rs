//! Where the time of hosts' requests goes: a histogram for each stage, and the slowest of the last minutes
//! with their stages.
//!
//! The stages of a request add up to its time in the engine. What a door adds, its queue and the wire, is the
//! rest of what the door counts.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use ashlar_runtime::{Instant, Runtime};
use ashlar_telemetry::{Histogram, HistogramSnapshot};
use ashlar_units::VolumeId;

use crate::engine::Inner;

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The volume's own rates.
    Limit,
    /// Volumes that go first: those with a floor that is missed, or of class normal.
    Precedence,
    /// Another request to the same blocks.
    Turn,
    /// Pages of the map.
    Map,
    /// Room: in memory for what is on its way, and in the pool.
    Room,
    /// The processor: cutting, compressing and back, check sums, copies.
    Reduction,
    /// A write: from its place in the queue of the journal until it is durable and later reads see it.
    Journal,
    /// A read of the drives.
    Drive,
}

impl Stage {
    /// Every stage, in the order of the variants.
    pub const ALL: [Stage; 8] = [
        Stage::Limit,
        Stage::Precedence,
        Stage::Turn,
        Stage::Map,
        Stage::Room,
        Stage::Reduction,
        Stage::Journal,
        Stage::Drive,
    ];

    /// The name in metrics and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Limit => "limit",
            Stage::Precedence => "precedence",
            Stage::Turn => "turn",
            Stage::Map => "map",
            Stage::Room => "room",
            Stage::Reduction => "reduction",
            Stage::Journal => "journal",
            Stage::Drive => "drive",
        }
    }
}

/// Time by stage, in the order of [`Stage::ALL`].
pub type StageTimes = [Duration; Stage::ALL.len()];

/// Minutes of which the slowest requests are kept, and how many of each. Arbitrary: a person looks within
/// minutes, and at a handful.
const MINUTES: usize = 5;
const MINUTE: Duration = Duration::from_secs(60);
const SLOWEST_OF_MINUTE: usize = 16;

/// The stages of one pool.
#[derive(Default)]
pub(crate) struct Stages {
    reads: OfKind,
    writes: OfKind,
    slowest: RefCell<VecDeque<Minute>>,
}

#[derive(Default)]
struct OfKind {
    total: Histogram,
    stages: [Histogram; Stage::ALL.len()],
}

struct Minute {
    began: Instant,
    /// The slowest first.
    requests: Vec<Slow>,
}

#[derive(Clone)]
struct Slow {
    volume: VolumeId,
    is_write: bool,
    offset: u64,
    length: u64,
    ended: Instant,
    total: Duration,
    times: StageTimes,
}

/// One request on its way.
pub(crate) struct Course<'a> {
    stages: &'a Stages,
    runtime: &'a Runtime,
    volume: VolumeId,
    is_write: bool,
    offset: u64,
    length: u64,
    began: Instant,
    last: Instant,
    times: StageTimes,
}

impl<'a> Course<'a> {
    pub(crate) fn of(
        inner: &'a Inner,
        volume: VolumeId,
        is_write: bool,
        offset: u64,
        length: u64,
    ) -> Course<'a> {
        let began = inner.runtime.now();
        Course {
            stages: &inner.stages,
            runtime: &inner.runtime,
            volume,
            is_write,
            offset,
            length,
            began,
            last: began,
            times: StageTimes::default(),
        }
    }

    /// What has passed since the last call was this stage.
    pub(crate) fn passed(&mut self, stage: Stage) {
        let now = self.runtime.now();
        self.times[stage as usize] += now.duration_since(self.last);
        self.last = now;
    }

    /// The request was served; one that failed is not counted, as the doors do not.
    pub(crate) fn served(self) {
        let total = self.last.duration_since(self.began);
        let of_kind = if self.is_write { &self.stages.writes } else { &self.stages.reads };
        of_kind.total.record(total);
        for (histogram, time) in of_kind.stages.iter().zip(self.times).filter(|(_, time)| !time.is_zero()) {
            histogram.record(time);
        }
        self.stages.note_slow(Slow {
            volume: self.volume,
            is_write: self.is_write,
            offset: self.offset,
            length: self.length,
            ended: self.last,
            total,
            times: self.times,
        });
    }
}

impl Stages {
    fn note_slow(&self, slow: Slow) {
        let mut minutes = self.slowest.borrow_mut();
        let is_over = |minute: &Minute| slow.ended.duration_since(minute.began) >= MINUTE;
        if minutes.back().is_none_or(is_over) {
            if minutes.len() == MINUTES {
                minutes.pop_front();
            }
            minutes.push_back(Minute { began: slow.ended, requests: Vec::new() });
        }
        let requests = &mut minutes.back_mut().expect("there is a minute").requests;
        let is_slower = requests.last().is_none_or(|least| slow.total > least.total);
        if requests.len() == SLOWEST_OF_MINUTE && !is_slower {
            return;
        }
        let at = requests.partition_point(|other| other.total >= slow.total);
        requests.insert(at, slow);
        requests.truncate(SLOWEST_OF_MINUTE);
    }
}

/// What the stages of one kind of request took since the pool was opened.
#[derive(Clone, Debug, Default)]
pub struct KindStages {
    /// The whole time in the engine.
    pub total: HistogramSnapshot,
    /// By stage, in the order of [`Stage::ALL`]; only requests that had the stage.
    pub stages: Vec<HistogramSnapshot>,
}

/// A request that took long.
#[derive(Clone, Debug)]
pub struct SlowRequest {
    /// The volume or snapshot, as in `db` or `db@noon`; `None` when it is gone.
    pub volume: Option<String>,
    /// A write; a read otherwise.
    pub is_write: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// How long ago it ended.
    pub ago: Duration,
    /// The whole time in the engine.
    pub total: Duration,
    /// By stage.
    pub times: StageTimes,
}

/// Where time went in a pool.
#[derive(Clone, Debug, Default)]
pub struct StagesSnapshot {
    /// Reads of hosts.
    pub reads: KindStages,
    /// Writes of hosts.
    pub writes: KindStages,
}

impl Inner {
    pub(crate) fn stages_snapshot(&self) -> StagesSnapshot {
        let of_kind = |kind: &OfKind| KindStages {
            total: kind.total.snapshot(),
            stages: kind.stages.iter().map(Histogram::snapshot).collect(),
        };
        StagesSnapshot { reads: of_kind(&self.stages.reads), writes: of_kind(&self.stages.writes) }
    }

    /// The slowest requests of the last minutes, the slowest first.
    pub(crate) fn slow_requests(&self) -> Vec<SlowRequest> {
        let now = self.runtime.now();
        let minutes = self.stages.slowest.borrow();
        let kept = MINUTE * MINUTES as u32;
        let recent = |slow: &&Slow| now.duration_since(slow.ended) < kept;
        let mut slowest: Vec<Slow> =
            minutes.iter().flat_map(|minute| &minute.requests).filter(recent).cloned().collect();
        slowest.sort_by_key(|slow| std::cmp::Reverse(slow.total));
        let tree = self.tree.borrow();
        let name = |id| tree.catalogue.get(id).map(|entry| tree.catalogue.full_name(entry));
        let view = |slow: Slow| SlowRequest {
            volume: name(slow.volume),
            is_write: slow.is_write,
            offset: slow.offset,
            length: slow.length,
            ago: now.duration_since(slow.ended),
            total: slow.total,
            times: slow.times,
        };
        slowest.into_iter().map(view).collect()
    }
}
