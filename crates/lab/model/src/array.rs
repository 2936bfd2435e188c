//! An array of drives as an event machine: requests and times in, completions with their times out.
//!
//! The loops of [`crate::load`] drive it in virtual time, and a delaying volume in real time: it submits
//! what arrives, sleeps until [`Array::next_event`], and completes what [`Array::advance`] hands out.
//!
//! ```text
//! submit ─► flash? ─► Begin (after the overhead) ─► cache? ─► task ─► steps ─► accesses ─► drives
//!              │                                      │                 ▲          │
//!              └──────────────► Answer ◄──────────────┘                 └─ Drive ◄─┘
//! ```
//! A task is a host's request or a run of the write cache; a step of it is one set of accesses that may be
//! under way together, perhaps followed by a second (the reads of a parity update, then its writes).
//!
//! 1. Events are worked off in order of time, and in order of their making where times are equal.
//! 2. A request is in exactly one place: an event, the write cache's waiting line, or a task.

mod recent;
mod slots;
pub mod spec;
mod tier;
mod write_cache;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use crate::drive::geometry::Geometry;
use crate::drive::{Access, Drive};
use crate::error::Result;
use crate::layout::{Layout, Part, Update};
use crate::{Kind, Request, nanos};
use ashlar_statistics::random::SplitMix64;
use recent::Recent;
use slots::Slots;
use spec::Spec;
use tier::Tier;
use write_cache::{BLOCK_BYTES, Run, WriteCache};

/// Runs of the write cache under way at once, for each drive. With two, a drive has the next write when it
/// is done with one, and reads do not wait behind many.
const RUNS_PER_DRIVE: usize = 2;

/// The name of a request under way. Never used twice by one array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// A request is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Which one.
    pub id: RequestId,
    /// When, from the start of the model.
    pub at: Duration,
}

/// What happened in an array since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Reads that the host asked for.
    pub host_reads: u64,
    /// Writes that the host asked for.
    pub host_writes: u64,
    /// Reads that the flash cache answered.
    pub flash_hits: u64,
    /// Reads that it did not; zero without a flash cache.
    pub flash_misses: u64,
    /// Reads that the controller's memory answered.
    pub read_cache_hits: u64,
    /// Writes that the write cache took at once.
    pub writes_absorbed: u64,
    /// Writes that had to wait for room in it.
    pub writes_delayed: u64,
    /// Blocks of 4 KiB in the write cache that were written again before they went to the drives.
    pub overwritten_blocks: u64,
    /// Reads by drives.
    pub drive_reads: u64,
    /// Writes by drives.
    pub drive_writes: u64,
    /// The time that all drives together were at work.
    pub drives_busy: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// The controller has dealt with the request.
    Begin(u64),
    /// The drive is done with what it did.
    Drive(usize),
    /// The host gets its answer.
    Answer(u64),
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    Host(u64),
    WriteCache(Run),
}

#[derive(Debug)]
struct Task {
    owner: Owner,
    steps_left: usize,
}

#[derive(Debug)]
struct Step {
    task: usize,
    accesses_left: usize,
    then: Vec<Part>,
}

/// The machine.
#[derive(Debug)]
pub struct Array {
    spec: Spec,
    geometry: Geometry,
    layout: Layout,
    drives: Vec<Drive>,
    tier: Tier,
    write_cache: WriteCache,
    read_cache: Recent,
    runs_under_way: usize,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    event_count: u64,
    hosts: BTreeMap<u64, Request>,
    host_count: u64,
    tasks: Slots<Task>,
    steps: Slots<Step>,
    /// Counts up, so that of mirrors with queues as long each gets its turn.
    turn: usize,
    answered: Vec<Completion>,
    counters: Counters,
}

impl Array {
    /// An idle array at time zero. The seed is for where the platters stand.
    pub fn new(spec: Spec, seed: u64) -> Result<Array> {
        spec.check()?;
        let geometry = Geometry::new(&spec.model);
        let layout = Layout::new(spec.raid, spec.drives, spec.chunk_bytes, spec.model.capacity_bytes);
        let mut random = SplitMix64::new(seed);
        let revolution = nanos(spec.model.revolution);
        Ok(Array {
            drives: (0..spec.drives).map(|_| Drive::new(random.below(revolution))).collect(),
            tier: Tier::new(&spec.flash),
            write_cache: WriteCache::new(spec.write_cache_bytes, spec.high_water),
            read_cache: Recent::new(spec.read_cache_bytes, BLOCK_BYTES),
            geometry,
            layout,
            runs_under_way: 0,
            now: 0,
            events: BinaryHeap::new(),
            event_count: 0,
            hosts: BTreeMap::new(),
            host_count: 0,
            tasks: Slots::default(),
            steps: Slots::default(),
            turn: 0,
            answered: Vec::new(),
            counters: Counters::default(),
            spec,
        })
    }

    /// What it consists of.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// How many bytes hosts can use.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.layout.capacity()
    }

    /// The time up to which everything has happened.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// How many requests of hosts are under way; one whose answer was not yet handed out is not.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.hosts.len()
    }

    /// Bytes in the write cache that are not on the drives.
    #[must_use]
    pub fn write_cache_bytes_used(&self) -> u64 {
        self.write_cache.used_blocks() as u64 * BLOCK_BYTES
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let busy = self.drives.iter().map(Drive::busy_nanos).sum();
        Counters {
            drives_busy: Duration::from_nanos(busy),
            overwritten_blocks: self.write_cache.overwritten_blocks,
            ..self.counters
        }
    }

    /// A request arrives. A `now` in the past counts as the time that was reached already.
    ///
    /// # Panics
    /// When the request is empty or lies outside the array.
    pub fn submit(&mut self, now: Duration, request: Request) -> RequestId {
        let end = request.offset_bytes.saturating_add(request.length_bytes);
        assert!(request.length_bytes > 0 && end <= self.capacity_bytes(), "{request:?}");
        self.work_off(nanos(now));
        let id = self.host_count;
        self.host_count += 1;
        self.hosts.insert(id, request);
        match request.kind {
            Kind::Read => self.counters.host_reads += 1,
            Kind::Write => self.counters.host_writes += 1,
        }
        match self.tier.meet(&request, self.now) {
            Some(hit_at) => {
                self.counters.flash_hits += 1;
                self.plan(hit_at, Event::Answer(id));
            }
            None => {
                let is_miss = request.kind == Kind::Read && !self.tier.is_none();
                self.counters.flash_misses += u64::from(is_miss);
                self.plan(self.now + nanos(self.spec.overhead), Event::Begin(id));
            }
        }
        RequestId(id)
    }

    /// When something happens next, if nothing else is submitted. A time that was reached already means
    /// that answers wait to be fetched.
    #[must_use]
    pub fn next_event(&self) -> Option<Duration> {
        let answer = self.answered.first().map(|completion| completion.at);
        answer.or_else(|| self.events.peek().map(|Reverse((at, ..))| Duration::from_nanos(*at)))
    }

    /// Lets everything happen up to and at this time, and hands out what was completed since the last call,
    /// in order of time.
    pub fn advance(&mut self, to: Duration) -> Vec<Completion> {
        self.work_off(nanos(to));
        std::mem::take(&mut self.answered)
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, self.event_count, event)));
        self.event_count += 1;
    }

    fn work_off(&mut self, to: u64) {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied() {
            if at > to {
                break;
            }
            self.events.pop();
            assert!(at >= self.now, "an event of {at} at {}", self.now);
            self.now = at;
            match event {
                Event::Begin(id) => self.begin(id),
                Event::Drive(index) => self.drive_done(index),
                Event::Answer(id) => self.answer(id),
            }
        }
        self.now = self.now.max(to);
    }

    fn answer(&mut self, id: u64) {
        let request = self.hosts.remove(&id).expect("a request is answered once");
        self.tier.answered(&request);
        self.answered.push(Completion { id: RequestId(id), at: self.now() });
    }

    fn begin(&mut self, id: u64) {
        let request = self.hosts[&id];
        match request.kind {
            Kind::Read => self.begin_read(id, &request),
            Kind::Write => self.begin_write(id, &request),
        }
    }

    fn begin_read(&mut self, id: u64, request: &Request) {
        let (offset, end) = (request.offset_bytes, request.offset_bytes + request.length_bytes);
        if self.write_cache.holds(offset, end) || self.read_cache.look_up(offset, end) {
            self.counters.read_cache_hits += 1;
            return self.answer(id);
        }
        let (from, to) = self.fetched(request);
        let task = self.tasks.insert(Task { owner: Owner::Host(id), steps_left: 1 });
        let pieces = self.layout.pieces(from, to - from);
        let reads = pieces.iter().map(|piece| {
            self.turn += 1;
            let count = piece.places.len();
            let by_turn = (0..count).map(|index| piece.places[(self.turn + index) % count]);
            let (drive, offset) =
                by_turn.min_by_key(|(drive, _)| self.drives[*drive].queue()).expect("there is a copy");
            Part { drive, kind: Kind::Read, offset, length: piece.length }
        });
        let reads = reads.collect();
        self.begin_step(task, Update { reads, writes: Vec::new() });
    }

    /// The bytes that are read for a miss: whole blocks, for caches that keep whole blocks.
    fn fetched(&self, request: &Request) -> (u64, u64) {
        let (mut from, mut to) = self.tier.fetched(request);
        if !self.read_cache.is_none() {
            (from, to) = self.read_cache.around(from, to);
        }
        (from, to.min(self.capacity_bytes()))
    }

    fn begin_write(&mut self, id: u64, request: &Request) {
        let (offset, end) = (request.offset_bytes, request.offset_bytes + request.length_bytes);
        if !self.write_cache.could_take(offset, end) {
            return self.begin_writing(Owner::Host(id), offset, end);
        }
        // Nobody overtakes those that wait.
        if self.write_cache.waiting.is_empty() && self.write_cache.take(offset, end) {
            self.counters.writes_absorbed += 1;
            self.answer(id);
        } else {
            self.counters.writes_delayed += 1;
            self.write_cache.waiting.push_back(id);
        }
        self.empty_write_cache();
    }

    /// Starts runs of the write cache, as many as may be under way.
    fn empty_write_cache(&mut self) {
        while self.runs_under_way < RUNS_PER_DRIVE * self.drives.len() {
            let layout = self.layout;
            let Some(run) = self.write_cache.next_run(|byte| layout.run_end(byte)) else {
                return;
            };
            self.runs_under_way += 1;
            let from = run.first * BLOCK_BYTES;
            let to = from + run.count as u64 * BLOCK_BYTES;
            self.begin_writing(Owner::WriteCache(run), from, to.min(self.capacity_bytes()));
        }
    }

    fn begin_writing(&mut self, owner: Owner, from: u64, to: u64) {
        let updates = self.layout.updates(from, to - from);
        let task = self.tasks.insert(Task { owner, steps_left: updates.len() });
        for update in updates {
            self.begin_step(task, update);
        }
    }

    fn begin_step(&mut self, task: usize, update: Update) {
        let (now, then) = match update {
            Update { reads, writes } if reads.is_empty() => (writes, Vec::new()),
            Update { reads, writes } => (reads, writes),
        };
        let step = self.steps.insert(Step { task, accesses_left: now.len(), then });
        self.access(step, &now);
    }

    fn access(&mut self, step: usize, parts: &[Part]) {
        for part in parts {
            let Part { drive, kind, offset, length } = *part;
            match kind {
                Kind::Read => self.counters.drive_reads += 1,
                Kind::Write => self.counters.drive_writes += 1,
            }
            self.drives[drive].push(Access { step, kind, offset, length });
            self.start_drive(drive);
        }
    }

    fn start_drive(&mut self, index: usize) {
        let (discipline, window) = (self.spec.discipline, self.spec.window);
        let finish = self.drives[index].start(&self.geometry, discipline, window, self.now);
        if let Some(finish) = finish {
            self.plan(finish, Event::Drive(index));
        }
    }

    fn drive_done(&mut self, index: usize) {
        let access = self.drives[index].finish();
        // The drive takes what waits before anything new comes of this.
        self.start_drive(index);
        let step = self.steps.get_mut(access.step);
        step.accesses_left -= 1;
        if step.accesses_left > 0 {
            return;
        }
        if step.then.is_empty() {
            let task = self.steps.remove(access.step).task;
            return self.step_done(task);
        }
        let then = std::mem::take(&mut step.then);
        step.accesses_left = then.len();
        self.access(access.step, &then);
    }

    fn step_done(&mut self, task: usize) {
        let left = &mut self.tasks.get_mut(task).steps_left;
        *left -= 1;
        if *left > 0 {
            return;
        }
        match self.tasks.remove(task).owner {
            Owner::Host(id) => {
                let request = self.hosts[&id];
                if request.kind == Kind::Read {
                    let (from, to) = self.fetched(&request);
                    self.read_cache.insert_all(from, to);
                }
                self.answer(id);
            }
            Owner::WriteCache(run) => {
                self.runs_under_way -= 1;
                self.write_cache.written(run);
                self.take_waiting();
                self.empty_write_cache();
            }
        }
    }

    /// Lets those writes into the cache for which there is room now.
    fn take_waiting(&mut self) {
        while let Some(id) = self.write_cache.waiting.front().copied() {
            let Request { offset_bytes, length_bytes, .. } = self.hosts[&id];
            if !self.write_cache.take(offset_bytes, offset_bytes + length_bytes) {
                return;
            }
            self.write_cache.waiting.pop_front();
            self.answer(id);
        }
    }
}
