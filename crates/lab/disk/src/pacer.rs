//! Holds answers back until their time.
//!
//! ```text
//!  begin ─► Working ── finish ─► Ready ── its time ─► sent
//!              └── its time ─► Due ── finish ─► sent, late
//! ```

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ashlar_model::array::Counters as ModelCounters;

use crate::counters::Tally;
use crate::error::{Error, Result};
use crate::locked;
use crate::loop_device::run;
use crate::pace::{Asked, Pace, Ticket};

/// How much later than asked the kernel may wake the pacer. Its default of 50 µs would be half of a hit in
/// the model's flash.
const TIMER_SLACK_NANOS: NonZeroU64 = NonZeroU64::MIN;
/// Any real-time priority comes before all other programs. Beside compilers on both cores, mere niceness gave
/// answers that were 0.2 to 2 ms late in the mean, and up to 60: the kernel shares by session first.
const PRIORITY: &str = "1";

/// An answer that knows how to be sent.
pub(crate) type Answer = Box<dyn FnOnce() + Send>;

/// The thread that sends answers, and what it shares with those who work.
pub(crate) struct Pacer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    start: Instant,
    state: Mutex<State>,
    is_changed: Condvar,
    tally: Arc<Tally>,
}

struct State {
    pace: Pace,
    /// With the time of each one's arrival.
    waiting: BTreeMap<Ticket, (Duration, Waiting)>,
    /// When the thread wakes, or last woke, by itself; `None` before its first sleep and while it sleeps
    /// without end.
    wakes_at: Option<Duration>,
    /// New requests get a time.
    is_on: bool,
    is_ending: bool,
}

enum Waiting {
    Working,
    Ready(Answer),
    Due(Duration),
}

/// An answer whose time has come.
struct Timed {
    since: Duration,
    at: Duration,
    answer: Answer,
}

impl Pacer {
    pub(crate) fn start(pace: Pace, tally: Arc<Tally>) -> Result<Pacer> {
        let state = State { pace, waiting: BTreeMap::new(), wakes_at: None, is_on: true, is_ending: false };
        let (state, is_changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { start: Instant::now(), state, is_changed, tally });
        let of_thread = Arc::clone(&shared);
        let run = move || {
            hurry();
            of_thread.run();
        };
        let thread = thread::Builder::new()
            .name("disk-pacer".into())
            .spawn(run)
            .map_err(Error::system("start a thread"))?;
        Ok(Pacer { shared, thread: Some(thread) })
    }

    /// A request came now. None while nothing is held back.
    pub(crate) fn begin(&self, asked: Asked, offset: u64, length: u64) -> Option<Ticket> {
        let mut state = locked(&self.shared.state);
        if !state.is_on {
            return None;
        }
        let now = self.shared.start.elapsed();
        let ticket = state.pace.submit(now, asked, offset, length);
        state.waiting.insert(ticket, (now, Waiting::Working));
        let is_sooner = match (state.pace.next(), state.wakes_at) {
            (Some(next), Some(wakes_at)) => next < wakes_at,
            (Some(_), None) => true,
            (None, _) => false,
        };
        drop(state);
        if is_sooner {
            self.shared.is_changed.notify_one();
        }
        Some(ticket)
    }

    /// Its bytes are read or written.
    pub(crate) fn finish(&self, ticket: Ticket, answer: Answer) {
        let mut state = locked(&self.shared.state);
        match state.waiting.remove(&ticket) {
            Some((since, Waiting::Due(at))) => {
                drop(state);
                self.shared.send(Timed { since, at, answer }, true);
            }
            Some((since, _)) if state.is_on => {
                state.waiting.insert(ticket, (since, Waiting::Ready(answer)));
            }
            _ => {
                drop(state);
                answer();
            }
        }
    }

    /// Off, it answers at once, what waits too, and the model learns of nothing.
    pub(crate) fn turn(&self, is_on: bool) {
        let mut state = locked(&self.shared.state);
        state.is_on = is_on;
        if is_on {
            return;
        }
        let is_ready = |waiting: &Waiting| matches!(waiting, Waiting::Ready(_));
        let ready: Vec<_> = state.waiting.extract_if(.., |_, (_, waiting)| is_ready(waiting)).collect();
        drop(state);
        for (_, (_, waiting)) in ready {
            if let Waiting::Ready(answer) = waiting {
                answer();
            }
        }
    }

    pub(crate) fn of_model(&self) -> Option<ModelCounters> {
        locked(&self.shared.state).pace.of_model()
    }
}

/// This thread, and those that it starts, run before others, as a drive does not wait for a processor. They
/// only move bytes, and sleep in between.
pub(crate) fn hurry() {
    let thread = rustix::thread::gettid().to_string();
    // Without either (no right, no util-linux) answers come later, and are counted so.
    let _waits_like_all = run(Command::new("chrt").args(["--rr", "--pid", PRIORITY, &thread]));
    let _less_exact = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NANOS));
}

impl Drop for Pacer {
    fn drop(&mut self) {
        locked(&self.shared.state).is_ending = true;
        self.shared.is_changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut state = locked(&self.state);
        while !state.is_ending {
            let answers = self.due(&mut state);
            if !answers.is_empty() {
                drop(state);
                for timed in answers {
                    self.send(timed, false);
                }
                state = locked(&self.state);
                continue;
            }
            state.wakes_at = state.pace.next();
            state = match state.wakes_at {
                None => self.is_changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let pause = at.saturating_sub(self.start.elapsed());
                    self.is_changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// The answers whose time has come; who is not ready is told that he is late.
    fn due(&self, state: &mut State) -> Vec<Timed> {
        let mut answers = Vec::new();
        for (ticket, at) in state.pace.advance(self.start.elapsed()) {
            match state.waiting.remove(&ticket) {
                Some((since, Waiting::Ready(answer))) => answers.push(Timed { since, at, answer }),
                Some((since, _)) => drop(state.waiting.insert(ticket, (since, Waiting::Due(at)))),
                // Answered when the pacer was turned off.
                None => {}
            }
        }
        answers
    }

    fn send(&self, timed: Timed, is_by_file: bool) {
        let Timed { since, at, answer } = timed;
        let now = self.start.elapsed();
        self.tally.answered(now.saturating_sub(since), now.saturating_sub(at), is_by_file);
        answer();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::spec::{Kind, Spec};

    fn pacer(address: &str) -> Pacer {
        let kind = Kind::parse(address).unwrap();
        let spec = Spec { backing: "x".into(), size_bytes: 1 << 30, kind, seed: 1 };
        Pacer::start(Pace::new(&spec).unwrap().unwrap(), Arc::default()).unwrap()
    }

    /// A request whose answer says when it was sent.
    fn ask(pacer: &Pacer) -> (Option<Ticket>, Answer, Receiver<Instant>) {
        let (sender, receiver) = channel();
        let answer = Box::new(move || sender.send(Instant::now()).unwrap());
        (pacer.begin(Asked::Read, 0, 4096), answer, receiver)
    }

    #[test]
    fn an_answer_comes_at_its_time_or_late_when_the_work_took_longer() {
        let begun = Instant::now();
        let pacer = pacer("limit:latency=20ms");
        let (ticket, answer, sent) = ask(&pacer);
        let (slow_ticket, slow_answer, slow_sent) = ask(&pacer);
        pacer.finish(ticket.unwrap(), answer);
        assert!(sent.recv().unwrap() - begun >= Duration::from_millis(20));
        // The other one's time has come, too; this thread is its slow work.
        while locked(&pacer.shared.state)
            .waiting
            .values()
            .any(|(_, waiting)| matches!(waiting, Waiting::Working))
        {
            thread::yield_now();
        }
        pacer.finish(slow_ticket.unwrap(), slow_answer);
        slow_sent.try_recv().unwrap();
        assert_eq!(pacer.shared.tally.read().paced, 2);
    }

    #[test]
    fn turned_off_it_holds_nothing_back() {
        let pacer = pacer("limit:latency=1000s");
        let (ticket, answer, sent) = ask(&pacer);
        let (slow_ticket, slow_answer, slow_sent) = ask(&pacer);
        pacer.finish(ticket.unwrap(), answer);
        sent.try_recv().unwrap_err();
        pacer.turn(false);
        sent.try_recv().unwrap();
        pacer.finish(slow_ticket.unwrap(), slow_answer);
        slow_sent.try_recv().unwrap();
        assert_eq!(ask(&pacer).0, None);
        pacer.turn(true);
        assert!(ask(&pacer).0.is_some());
    }
}
