//! One volume's floor: judges how its requests were served, and says how far others are held back.
//!
//! As `io.latency` of Linux does (block/blk-iolatency.c, Documentation/admin-guide/cgroup-v2.rst): time goes
//! by windows. In a window that missed the floor the depth of the others is halved, and behind a depth of one
//! there are pauses between them; while it is met, they are let up again step by step. Background work comes
//! first: it is stretched before hosts are held back.
//!
//! Invariants:
//! 1. The depth of the others is never below one, and they never pause for longer than [`PAUSE_MAX`].
//! 2. A volume that is idle holds nobody back.
//!
//! Arithmetic only: [`gate`](super::gate) counts requests and tells the time.

use std::time::Duration;

use ashlar_runtime::Instant;

/// The least time before requests are judged: that of blk-iolatency.
const WINDOW: Duration = Duration::from_millis(100);
/// A window is as long as this many requests of the floor's time, so that some fit in. Arbitrary.
const WINDOW_FLOORS: u32 = 4;
/// Requests that make a judgement: of fewer, one that took long is more than one in a hundred by chance.
const JUDGED: u64 = 100;
/// A window without a judgement ends after so many times its length.
const WINDOWS_MAX: u32 = 10;
/// One in so many requests may take longer: who sets a floor looks at the 99th percentile.
const MAY_MISS: u64 = 100;

/// The others are let up a step after so much time without a miss: that of blk-iolatency.
const STEP: Duration = Duration::from_millis(500);
/// A step is this fraction of the depth, at least one: from one to sixteen it takes eight seconds, and twice
/// as much is there after four more. Arbitrary.
const STEP_FRACTION: u32 = 8;
/// At this depth nobody is held back any more: more than one door lets in of one host.
const DEPTH_FREE: u32 = 256;

/// Behind a depth of one the others begin a request so long after the last one, and at most so long: 250 a
/// second together. Arbitrary: one at a time a drive still does thousands, and each is in the way of others.
const PAUSE_FIRST: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(4);

/// Background work leaves the drives to hosts for so many times as long, as powers of two: after the first
/// missed window, and at most. Arbitrary: at most it has an eightieth of the time left, and goes on.
const STRETCH_FIRST: u32 = 2;
const STRETCH_MAX: u32 = 3;

/// A volume without requests for so long is idle. Arbitrary: longer than most logs are silent beside a load.
const IDLE: Duration = Duration::from_secs(1);
/// An idle volume finds the depth again that it needed last, for so long. Arbitrary.
const REMEMBERED: Duration = Duration::from_secs(10);

/// What became of a volume's requests since the pool was opened, and what that means for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FloorStatus {
    /// Reads and writes that were served.
    pub requests: u64,
    /// Those of them that took longer than the floor.
    pub misses: u64,
    /// Windows of time in which more than one in a hundred did.
    pub windows_missed: u64,
    /// So many requests of other volumes may be in the engine now; `None`: any number.
    pub depth: Option<u32>,
    /// With a depth of one: each begins no sooner than this after the last one.
    pub pause: Option<Duration>,
}

/// What others may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Others {
    /// Have so many requests in the engine.
    Depth(u32),
    /// Have one, which begins no sooner than this after the last one.
    Every(Duration),
}

/// A floor at work.
pub(super) struct Floor {
    target: Duration,
    window: Window,
    hold: Hold,
    in_flight: u32,
    seen: Instant,
    /// When a request of others began last.
    others_began: Instant,
    requests: u64,
    misses: u64,
    windows_missed: u64,
}

/// What happened since the last judgement.
#[derive(Clone, Copy, Default)]
struct Window {
    began: Instant,
    /// Requests were under way when it began.
    was_busy: bool,
    requests: u64,
    misses: u64,
    /// The most requests of others in the engine at once.
    others_max: u32,
    /// Background work was at it.
    has_background: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// It is too early to tell.
    Open,
    Met,
    Missed,
    /// Nothing was asked for.
    Quiet,
}

/// How far others are held back.
#[derive(Clone, Copy, Default)]
struct Hold {
    /// What others may do; `None`: anything.
    others: Option<Others>,
    /// Pauses of background work are longer by this power of two.
    stretch: u32,
    changed: Instant,
}

impl Floor {
    pub(super) fn new(target: Duration, now: Instant) -> Floor {
        Floor {
            target,
            window: Window { began: now, ..Window::default() },
            hold: Hold::default(),
            in_flight: 0,
            seen: now,
            others_began: now,
            requests: 0,
            misses: 0,
            windows_missed: 0,
        }
    }

    pub(super) fn target(&self) -> Duration {
        self.target
    }

    /// A request of the volume comes.
    pub(super) fn begin(&mut self, now: Instant) {
        self.in_flight += 1;
        self.seen = now;
    }

    /// It is over.
    pub(super) fn end(&mut self, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.seen = now;
    }

    /// A read or a write was served and took so long.
    pub(super) fn judge(&mut self, took: Duration) {
        let is_missed = took > self.target;
        for (requests, misses) in
            [(&mut self.requests, &mut self.misses), (&mut self.window.requests, &mut self.window.misses)]
        {
            *requests += 1;
            *misses += u64::from(is_missed);
        }
    }

    /// A request of others comes in, and so many are in the engine.
    pub(super) fn begin_other(&mut self, now: Instant, count: u32) {
        self.others_began = now;
        self.see_others(count);
    }

    fn see_others(&mut self, count: u32) {
        self.window.others_max = self.window.others_max.max(count);
    }

    /// Background work is at it.
    pub(super) fn see_background(&mut self) {
        self.window.has_background = true;
    }

    fn others(&self, now: Instant) -> Option<Others> {
        self.hold.others.filter(|_| !self.is_idle(now))
    }

    /// How long others have to wait at least, when so many are in the engine. `None`: until one of them ends.
    pub(super) fn wait_of_others(&self, now: Instant, count: u32) -> Option<Duration> {
        match self.others(now) {
            None => Some(Duration::ZERO),
            Some(Others::Depth(depth)) => (count < depth).then_some(Duration::ZERO),
            Some(Others::Every(_)) if count > 0 => None,
            Some(Others::Every(pause)) => Some(pause.saturating_sub(now.duration_since(self.others_began))),
        }
    }

    /// How many times as long pauses of background work are.
    pub(super) fn stretch(&self, now: Instant) -> u32 {
        if self.is_idle(now) { 1 } else { 1 << self.hold.stretch }
    }

    pub(super) fn status(&self, now: Instant) -> FloorStatus {
        let Floor { requests, misses, windows_missed, .. } = *self;
        let (depth, pause) = match self.others(now) {
            None => (None, None),
            Some(Others::Depth(depth)) => (Some(depth), None),
            Some(Others::Every(pause)) => (Some(1), Some(pause)),
        };
        FloorStatus { requests, misses, windows_missed, depth, pause }
    }

    /// Ends the window when it is over, and draws the consequences. So many requests of others are in the
    /// engine. To be called before a request begins.
    pub(super) fn look(&mut self, now: Instant, others: u32) {
        self.see_others(others);
        if self.is_idle(now) && now.duration_since(self.seen) > REMEMBERED {
            self.hold = Hold::default();
        }
        match self.window.verdict(now, self.target) {
            Verdict::Open => return,
            Verdict::Missed => {
                self.windows_missed += 1;
                self.hold.tighten(&self.window, now);
            }
            Verdict::Met => self.hold.loosen(now),
            Verdict::Quiet => {}
        }
        let was_busy = self.in_flight > 0;
        self.window = Window { began: now, was_busy, ..Window::default() };
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.in_flight == 0 && now.duration_since(self.seen) > IDLE
    }
}

impl Window {
    fn verdict(&self, now: Instant, target: Duration) -> Verdict {
        let length = WINDOW.max(target * WINDOW_FLOORS);
        let age = now.duration_since(self.began);
        if age < length {
            return Verdict::Open;
        }
        let is_long = age >= length * WINDOWS_MAX;
        match (self.requests, self.misses) {
            // What has been under way since it began takes longer than any floor.
            (0, _) => {
                if self.was_busy {
                    Verdict::Missed
                } else {
                    Verdict::Quiet
                }
            }
            // One may be chance, unless it is all there is.
            (requests, misses) if misses >= 2 && misses * MAY_MISS > requests => Verdict::Missed,
            (1, 1) if is_long => Verdict::Missed,
            (requests, _) if requests >= JUDGED || is_long => Verdict::Met,
            _ => Verdict::Open,
        }
    }
}

impl Hold {
    fn tighten(&mut self, window: &Window, now: Instant) {
        self.changed = now;
        if window.has_background && self.stretch < STRETCH_MAX {
            let is_first = self.stretch == 0;
            self.stretch = if is_first { STRETCH_FIRST } else { STRETCH_MAX };
            if is_first {
                return;
            }
        }
        if window.others_max > 0 {
            self.others = Some(tighter(self.others, window.others_max));
        }
    }

    /// Hosts first, background work when they are held back no more.
    fn loosen(&mut self, now: Instant) {
        if now.duration_since(self.changed) < STEP {
            return;
        }
        self.changed = now;
        match self.others {
            Some(others) => self.others = looser(others),
            None => self.stretch = self.stretch.saturating_sub(1),
        }
    }
}

/// Half of what others used: what nobody used is no depth to halve.
fn tighter(others: Option<Others>, used: u32) -> Others {
    let depth = match others {
        Some(Others::Every(pause)) => return Others::Every((pause * 2).min(PAUSE_MAX)),
        Some(Others::Depth(depth)) => depth.min(used),
        None => used,
    };
    if depth > 1 { Others::Depth(depth / 2) } else { Others::Every(PAUSE_FIRST) }
}

fn looser(others: Others) -> Option<Others> {
    match others {
        Others::Every(pause) if pause > PAUSE_FIRST => Some(Others::Every(pause / 2)),
        Others::Every(_) => Some(Others::Depth(1)),
        Others::Depth(depth) => {
            let deeper = depth + (depth / STEP_FRACTION).max(1);
            (deeper < DEPTH_FREE).then_some(Others::Depth(deeper))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Duration = Duration::from_millis(2);
    const QUICK: Duration = Duration::from_millis(1);
    const SLOW: Duration = Duration::from_millis(3);

    struct Clock {
        floor: Floor,
        now: Instant,
    }

    impl Clock {
        fn new() -> Clock {
            let now = Instant::from_nanos(1_000_000_000);
            Clock { floor: Floor::new(FLOOR, now), now }
        }

        /// One after the other, each a millisecond after the last; others have so many in the engine.
        fn serve(&mut self, count: u64, took: Duration, others: u32) {
            for _ in 0..count {
                self.floor.look(self.now, others);
                self.floor.begin(self.now);
                self.floor.judge(took);
                self.floor.end(self.now);
                self.now += QUICK;
            }
            self.floor.look(self.now, others);
        }

        fn depth(&self) -> Option<u32> {
            self.floor.status(self.now).depth
        }
    }

    #[test]
    fn each_window_missed_halves_what_others_use_down_to_one_and_then_they_pause() {
        let mut clock = Clock::new();
        let mut depths = Vec::new();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let others = clock.depth().unwrap_or(64);
            clock.serve(100, SLOW, others);
            depths.push(clock.depth().unwrap());
            pauses.extend(clock.floor.status(clock.now).pause.map(|pause| pause.as_micros()));
        }
        assert_eq!(depths, [32, 16, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(pauses, [500, 1000, 2000, 4000, 4000, 4000]);
        let status = clock.floor.status(clock.now);
        assert_eq!((status.requests, status.misses, status.windows_missed), (1200, 1200, 12));
        // They wait for the rest of the pause, and while one is under way.
        clock.floor.begin_other(clock.now, 1);
        assert_eq!(clock.floor.wait_of_others(clock.now + QUICK, 0), Some(PAUSE_MAX - QUICK));
        assert_eq!(clock.floor.wait_of_others(clock.now + PAUSE_MAX, 0), Some(Duration::ZERO));
        assert_eq!(clock.floor.wait_of_others(clock.now + PAUSE_MAX, 1), None);
        // And are let up again.
        clock.serve(2_100, QUICK, 1);
        assert_eq!((clock.depth(), clock.floor.status(clock.now).pause), (Some(1), None));
        assert_eq!(clock.floor.wait_of_others(clock.now, 0), Some(Duration::ZERO));
    }

    #[test]
    fn a_floor_that_is_met_lets_others_up_step_by_step() {
        let mut clock = Clock::new();
        for _ in 0..3 {
            clock.serve(100, SLOW, 16);
        }
        let held = clock.depth().unwrap();
        clock.serve(500, QUICK, 8);
        let after_a_step = clock.depth().unwrap();
        assert!(after_a_step > held && after_a_step <= held + 1, "{held}, {after_a_step}");
        clock.serve(60_000, QUICK, 8);
        assert_eq!(clock.depth(), None, "in a minute they are free");
    }

    #[test]
    fn one_in_a_hundred_may_miss_and_one_of_a_few_is_chance() {
        let mut clock = Clock::new();
        for _ in 0..50 {
            clock.serve(99, QUICK, 64);
            clock.serve(1, SLOW, 64);
        }
        assert_eq!(clock.depth(), None);
        assert_eq!(clock.floor.status(clock.now).misses, 50);
        // Twenty in a second, one of them late.
        let mut clock = Clock::new();
        for number in 0..20 {
            clock.serve(1, if number == 7 { SLOW } else { QUICK }, 64);
            clock.now += Duration::from_millis(49);
        }
        assert_eq!(clock.depth(), None);
        // Three of them late.
        for number in 0..20 {
            clock.serve(1, if number % 7 == 0 { SLOW } else { QUICK }, 64);
            clock.now += Duration::from_millis(49);
        }
        assert!(clock.depth().is_some());
    }

    #[test]
    fn a_request_that_does_not_come_back_is_a_miss() {
        let mut clock = Clock::new();
        clock.floor.begin(clock.now);
        for _ in 0..3 {
            clock.now += WINDOW;
            clock.floor.look(clock.now, 8);
        }
        assert_eq!(clock.depth(), Some(2), "it was not under way when the first window began");
    }

    #[test]
    fn an_idle_volume_holds_nobody_back_and_finds_its_depth_again_for_a_while() {
        let mut clock = Clock::new();
        for _ in 0..3 {
            clock.serve(100, SLOW, 16);
        }
        let held = clock.depth();
        assert!(held.is_some());
        clock.now += IDLE + QUICK;
        clock.floor.look(clock.now, 16);
        assert_eq!((clock.depth(), clock.floor.stretch(clock.now)), (None, 1));
        clock.serve(1, QUICK, 16);
        assert_eq!(clock.depth(), held);
        clock.now += REMEMBERED + IDLE;
        clock.serve(1, QUICK, 16);
        assert_eq!(clock.depth(), None);
    }

    #[test]
    fn background_work_is_stretched_before_hosts_are_held_back_and_let_go_after_them() {
        let mut clock = Clock::new();
        clock.floor.see_background();
        clock.serve(100, SLOW, 16);
        assert_eq!((clock.depth(), clock.floor.stretch(clock.now)), (None, 4));
        clock.floor.see_background();
        clock.serve(100, SLOW, 16);
        assert_eq!((clock.depth(), clock.floor.stretch(clock.now)), (Some(8), 8));
        clock.serve(10_000, QUICK, 8);
        assert!(clock.depth().is_some_and(|depth| depth > 8));
        assert_eq!(clock.floor.stretch(clock.now), 8);
        clock.serve(60_000, QUICK, 8);
        assert_eq!((clock.depth(), clock.floor.stretch(clock.now)), (None, 1));
    }
}
