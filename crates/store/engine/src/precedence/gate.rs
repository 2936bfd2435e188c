//! The gate before the engine: counts the requests behind it, and has those wait that others go before.
//!
//! Invariants:
//! 1. A volume that waits begins a request every [`EVERY`] and [`LOOK`] at least, however far it is held
//!    back. So nobody starves.
//! 2. Requests of a volume begin in the order in which they came; of several volumes that wait, each has its
//!    turn.
//! 3. A request that waits holds nothing, and goes on when the pool closes.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use ashlar_runtime::sync::{Notify, OneshotReceiver, OneshotSender, oneshot, race};
use ashlar_runtime::{Instant, Priority, Runtime};
use ashlar_units::{Lsn, VolumeId};

use super::floor::{Floor, FloorStatus};
use super::{Class, Precedence};

/// A volume that waits begins a request after so long, whoever else is at work. Arbitrary: a host that waits
/// for each of them still makes progress that a person sees.
const EVERY: Duration = Duration::from_millis(20);
/// How often somebody looks whether it is so long: forty begin in a second at least.
const LOOK: Duration = Duration::from_millis(5);

/// Requests of volumes of class low in the engine at once, while others are at work. Arbitrary: two, so that
/// one that takes long does not hold up all.
const LOW_DEPTH: u32 = 2;
/// Others are at work for so long after their last request.
const AT_WORK: Duration = Duration::from_millis(100);

/// Without a floor a volume is behind all that have one.
const NO_FLOOR: Duration = Duration::MAX;

/// The gate of one pool. Clones are the same gate.
#[derive(Clone)]
pub(crate) struct Gate {
    runtime: Runtime,
    state: Rc<RefCell<State>>,
    /// Rung when somebody may be served after a pause.
    pausing: Notify,
}

struct State {
    /// What is not the default.
    members: BTreeMap<VolumeId, Precedence>,
    floors: BTreeMap<VolumeId, Floor>,
    /// The record of the notebook that these are of.
    seen: Option<Lsn>,
    /// Requests in the engine, by the floor of their volumes.
    in_flight: BTreeMap<Duration, u32>,
    low_in_flight: u32,
    normal_in_flight: u32,
    normal_seen: Instant,
    lines: BTreeMap<VolumeId, Line>,
    /// Whose turn it was last.
    served: VolumeId,
    /// Somebody looks after those who wait.
    is_watched: bool,
    /// The pool closes: nobody waits any more.
    is_open: bool,
}

/// Requests of one volume that wait.
struct Line {
    waiting: VecDeque<Waiting>,
    /// When one of them began last.
    begun: Instant,
}

struct Waiting {
    sender: OneshotSender<Place>,
    came: Instant,
}

/// Where a request belongs.
#[derive(Clone, Copy)]
struct Rank {
    id: VolumeId,
    /// The floor of its volume, or [`NO_FLOOR`].
    floor: Duration,
    class: Class,
}

/// A request's place in the engine, until this is dropped.
pub(crate) struct Place {
    gate: Gate,
    rank: Rank,
    came: Instant,
}

impl Place {
    /// The read or write was served.
    pub(crate) fn judge(&self) {
        let took = self.gate.runtime.now().duration_since(self.came);
        if let Some(floor) = self.gate.state.borrow_mut().floors.get_mut(&self.rank.id) {
            floor.judge(took);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let now = self.gate.runtime.now();
        let mut state = self.gate.state.borrow_mut();
        state.end(self.rank, now);
        state.look(now);
        drop(state);
        self.gate.serve();
        if self.gate.state.borrow().time_to_look(now) < LOOK {
            self.gate.pausing.notify_one();
        }
    }
}

/// How a request comes in.
pub(super) enum Entry {
    /// It begins.
    Free(Place),
    /// It begins when it is given its place.
    Waiting(OneshotReceiver<Place>),
}

impl Gate {
    pub(crate) fn new(runtime: &Runtime) -> Gate {
        let state = State {
            members: BTreeMap::new(),
            floors: BTreeMap::new(),
            seen: None,
            in_flight: BTreeMap::new(),
            low_in_flight: 0,
            normal_in_flight: 0,
            normal_seen: runtime.now(),
            lines: BTreeMap::new(),
            served: VolumeId(0),
            is_watched: false,
            is_open: false,
        };
        Gate { runtime: runtime.clone(), state: Rc::new(RefCell::new(state)), pausing: Notify::new() }
    }

    /// Whether this is what the gate knows already.
    pub(super) fn has_seen(&self, limits: Lsn) -> bool {
        self.state.borrow().seen == Some(limits)
    }

    /// These volumes have floors or a class. Who keeps his floor keeps what was learnt of it.
    pub(super) fn follow(&self, limits: Lsn, members: BTreeMap<VolumeId, Precedence>) {
        let now = self.runtime.now();
        let mut state = self.state.borrow_mut();
        let mut before = std::mem::take(&mut state.floors);
        let floors = members.iter().filter_map(|(id, member)| {
            let target = member.floor?;
            let kept = before.remove(id).filter(|floor| floor.target() == target);
            Some((*id, kept.unwrap_or_else(|| Floor::new(target, now))))
        });
        state.floors = floors.collect();
        (state.members, state.seen) = (members, Some(limits));
        drop(state);
        self.serve();
    }

    /// A request comes. `None` where no volume goes before another.
    pub(super) fn enter(&self, id: VolumeId) -> Option<Entry> {
        let now = self.runtime.now();
        let mut state = self.state.borrow_mut();
        if state.members.is_empty() || state.is_open {
            return None;
        }
        state.look(now);
        let rank = state.rank_of(id);
        if rank.class == Class::Normal {
            state.normal_seen = now;
        }
        if !state.lines.contains_key(&id) && state.has_room(rank, now) {
            state.begin(rank, now);
            drop(state);
            return Some(Entry::Free(Place { gate: self.clone(), rank, came: now }));
        }
        let (sender, receiver) = oneshot();
        let line = state.lines.entry(id).or_insert_with(|| Line { waiting: VecDeque::new(), begun: now });
        line.waiting.push_back(Waiting { sender, came: now });
        drop(state);
        self.watch();
        Some(Entry::Waiting(receiver))
    }

    /// Has those begin who may.
    fn serve(&self) {
        loop {
            let now = self.runtime.now();
            let Some((rank, Waiting { sender, came })) = self.state.borrow_mut().next(now) else { return };
            let given = sender.send(Place { gate: self.clone(), rank, came });
            assert!(given.is_ok(), "nothing ran since it was seen to wait");
        }
    }

    /// Looks after those who wait: for time to pass, too.
    fn watch(&self) {
        if std::mem::replace(&mut self.state.borrow_mut().is_watched, true) {
            return;
        }
        let gate = self.clone();
        let _detached = self.runtime.spawn(Priority::Host, async move {
            while !gate.state.borrow().lines.is_empty() {
                let time = gate.state.borrow().time_to_look(gate.runtime.now());
                race(gate.pausing.notified(), gate.runtime.sleep(time)).await;
                let now = gate.runtime.now();
                gate.state.borrow_mut().look(now);
                gate.serve();
            }
            gate.state.borrow_mut().is_watched = false;
        });
    }

    /// The pool closes: whoever waits goes on.
    pub(crate) fn open(&self) {
        self.state.borrow_mut().is_open = true;
        self.serve();
    }

    /// Whether any volume has a floor.
    pub(crate) fn has_floors(&self) -> bool {
        !self.state.borrow().floors.is_empty()
    }

    /// Background work is at it: how many times as long its pauses are.
    pub(crate) fn stretch(&self) -> u32 {
        let now = self.runtime.now();
        let mut state = self.state.borrow_mut();
        let stretches = state.floors.values_mut().map(|floor| {
            floor.see_background();
            floor.stretch(now)
        });
        stretches.max().unwrap_or(1)
    }

    /// How a volume's floor is kept, if it has one.
    pub(super) fn status(&self, id: VolumeId) -> Option<FloorStatus> {
        let now = self.runtime.now();
        self.state.borrow().floors.get(&id).map(|floor| floor.status(now))
    }
}

impl State {
    /// Requests in the engine of volumes behind this floor.
    fn behind(&self, target: Duration) -> u32 {
        let behind = (Bound::Excluded(target), Bound::Unbounded);
        self.in_flight.range(behind).map(|(_, count)| count).sum()
    }

    fn look(&mut self, now: Instant) {
        let mut floors = std::mem::take(&mut self.floors);
        for floor in floors.values_mut() {
            floor.look(now, self.behind(floor.target()));
        }
        self.floors = floors;
    }

    fn rank_of(&self, id: VolumeId) -> Rank {
        let Precedence { floor, class } = self.members.get(&id).copied().unwrap_or_default();
        Rank { id, floor: floor.unwrap_or(NO_FLOOR), class }
    }

    /// How long a request has to wait at least. `None`: until another one ends.
    fn wait_of(&self, rank: Rank, now: Instant) -> Option<Duration> {
        let before = self.floors.values().filter(|floor| floor.target() < rank.floor);
        let mut waits = before.map(|floor| floor.wait_of_others(now, self.behind(floor.target())));
        waits.try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    fn has_room(&self, rank: Rank, now: Instant) -> bool {
        let is_at_work = self.normal_in_flight > 0 || now.duration_since(self.normal_seen) < AT_WORK;
        let may_low = self.low_in_flight < LOW_DEPTH || !is_at_work;
        (rank.class == Class::Normal || may_low) && self.wait_of(rank, now) == Some(Duration::ZERO)
    }

    /// How long until somebody may be served though nobody ends.
    fn time_to_look(&self, now: Instant) -> Duration {
        let waits = self.lines.keys().filter_map(|id| self.wait_of(self.rank_of(*id), now));
        waits.filter(|wait| !wait.is_zero()).min().map_or(LOOK, |wait| wait.min(LOOK))
    }

    fn begin(&mut self, rank: Rank, now: Instant) {
        *self.in_flight.entry(rank.floor).or_default() += 1;
        match rank.class {
            Class::Normal => self.normal_in_flight += 1,
            Class::Low => self.low_in_flight += 1,
        }
        let mut floors = std::mem::take(&mut self.floors);
        for (id, floor) in &mut floors {
            if floor.target() < rank.floor {
                floor.begin_other(now, self.behind(floor.target()));
            }
            if *id == rank.id {
                floor.begin(now);
            }
        }
        self.floors = floors;
    }

    fn end(&mut self, rank: Rank, now: Instant) {
        let count = self.in_flight.get_mut(&rank.floor).expect("a place is counted while it is held");
        *count -= 1;
        if *count == 0 {
            self.in_flight.remove(&rank.floor);
        }
        match rank.class {
            Class::Normal => {
                self.normal_in_flight -= 1;
                self.normal_seen = now;
            }
            Class::Low => self.low_in_flight -= 1,
        }
        if let Some(floor) = self.floors.get_mut(&rank.id) {
            floor.end(now);
        }
    }

    /// Who begins next: of the volumes whose turn it may be, the one behind the last.
    fn next(&mut self, now: Instant) -> Option<(Rank, Waiting)> {
        loop {
            let (after, up_to) = ((Bound::Excluded(self.served), Bound::Unbounded), ..=self.served);
            let mut in_turn = self.lines.range(after).chain(self.lines.range(up_to));
            let may_begin = |(id, line): &(&VolumeId, &Line)| {
                let is_due = now.duration_since(line.begun) >= EVERY;
                is_due || self.is_open || self.has_room(self.rank_of(**id), now)
            };
            let id = *in_turn.find(may_begin)?.0;
            let waiting = self.first_of(id, now);
            if let Some(waiting) = waiting {
                let rank = self.rank_of(id);
                self.served = id;
                self.begin(rank, now);
                return Some((rank, waiting));
            }
        }
    }

    /// Takes the first out of a line who still waits; a line without any goes.
    fn first_of(&mut self, id: VolumeId, now: Instant) -> Option<Waiting> {
        let line = self.lines.get_mut(&id)?;
        line.begun = now;
        let mut waiting = std::iter::from_fn(|| line.waiting.pop_front());
        let first = waiting.find(|waiting| !waiting.sender.is_closed());
        if line.waiting.is_empty() {
            self.lines.remove(&id);
        }
        first
    }
}
