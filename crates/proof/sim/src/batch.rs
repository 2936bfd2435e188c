//! Many seeds, one on each core at a time, and the first failure by number.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::drives::DriveCounters;
use crate::record::Counters;
use crate::seed_run::{SeedReport, run_seed};
use crate::system::SystemMaker;

/// Time of the processors after which a seed counts as hung, on a machine however busy. Seeds take a fraction
/// of a second, those with a spacious pool up to half a minute.
const HANG: Duration = Duration::from_secs(300);
/// Real time after which a seed counts as hung that waits and uses no processor. Arbitrary.
const STUCK: Duration = Duration::from_secs(3600);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first seed.
    pub first_seed: u64,
    /// How many.
    pub seeds: u64,
    /// Stop after this many minutes; what was begun is finished.
    pub minutes: Option<u64>,
    /// Record the last operations of a failing seed.
    pub is_verbose: bool,
    /// Run every seed twice and compare.
    pub check_determinism: bool,
}

/// After every seed.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Seeds done.
    pub done: u64,
    /// Seeds wanted.
    pub wanted: u64,
    /// Since the beginning.
    pub elapsed: Duration,
}

/// What all seeds did together.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds that passed.
    pub seeds: u64,
    /// Steps of the scheduler.
    pub steps: u64,
    /// What was done.
    pub counters: Counters,
    /// What the drives did.
    pub drives: DriveCounters,
    /// Rare events and how often they happened.
    pub probes: BTreeMap<&'static str, u64>,
    /// Real time.
    pub elapsed: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counters, drives) = (&self.counters, &self.drives);
        writeln!(
            f,
            "{} seeds passed in {:.1} s: {} crashes, {} clean stops, {} requests, {} changes, {} checks",
            self.seeds,
            self.elapsed.as_secs_f64(),
            counters.crashes,
            counters.closes,
            counters.requests,
            counters.changes,
            counters.checks
        )?;
        let [starting, examining, working, done] = counters.crashes_in;
        writeln!(
            f,
            "crashes: {starting} while starting, {examining} while examined, {working} at work, {done} idle; {} in \
             the middle of a change",
            counters.crashes_in_change
        )?;
        writeln!(
            f,
            "verified {} images, {} MiB; {} writes forged, {} groups in them at home; pool full {} times, \
             {} of them judged; {} failures excused by a drive, {} \
             starts of {} failed so",
            counters.images_verified,
            counters.bytes_verified >> 20,
            counters.forged,
            counters.forged_at_home,
            counters.no_space,
            counters.refusals_judged,
            counters.drive_troubles,
            counters.failed_starts,
            counters.starts + counters.failed_starts
        )?;
        writeln!(
            f,
            "compared {} pairs of images: {} blocks told to differ, {} of them equal all the same",
            counters.differences, counters.blocks_told, counters.blocks_told_equal
        )?;
        let probes: Vec<String> = self.probes.iter().map(|(name, count)| format!("{count} {name}")).collect();
        writeln!(f, "covered: {}", probes.join(", "))?;
        write!(
            f,
            "drives: {} reads, {} writes, {} syncs, {} errors, {} lies; {} errors and lies and {} deaths that \
             parity survives; at crashes {} writes in flight, {} of killed ones late, {} unsynced blocks lost",
            drives.reads,
            drives.writes,
            drives.syncs,
            drives.errors,
            drives.damages,
            drives.survivable,
            drives.deaths,
            drives.writes_in_flight_at_crash,
            drives.late_writes,
            drives.blocks_lost_at_crash
        )
    }
}

/// The first seed that is wrong. Prints as one line that repeats it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Steps of the scheduler until then.
    pub step: u64,
    /// The life of the machine in which it showed.
    pub life: u64,
    /// What is wrong.
    pub what: String,
    /// The last operations before, with `is_verbose`.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {} failed at step {} (life {}): {}; repeat: ashlar sim --seeds 1 --first-seed {}",
            self.seed, self.step, self.life, self.what, self.seed
        )
    }
}

impl std::error::Error for Failure {}

enum Message {
    Begun { worker: usize, seed: u64 },
    Done { worker: usize, seed: u64, report: Box<SeedReport> },
    Finished,
}

/// Runs seeds against systems that `make` makes, one maker a seed.
pub fn run_batch(
    options: &Options,
    make: impl Fn() -> Rc<dyn SystemMaker> + Send + Sync,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Failure> {
    let begin = Instant::now();
    let deadline = options.minutes.map(|minutes| begin + Duration::from_secs(60 * minutes));
    let next = AtomicU64::new(options.first_seed);
    let end = options.first_seed.saturating_add(options.seeds);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let workers = cores.min(usize::try_from(options.seeds).unwrap_or(usize::MAX)).max(1);
    let (sender, receiver) = mpsc::channel();
    let mut tally = Tally { summary: Summary::default(), failure: None };
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (sender, next, make) = (sender.clone(), &next, &make);
            scope.spawn(move || {
                work(worker, options, end, deadline, next, make, &sender);
                let _ = sender.send(Message::Finished);
            });
        }
        collect(&receiver, workers, options, begin, &next, end, &mut tally, progress);
    });
    tally.summary.elapsed = begin.elapsed();
    match tally.failure {
        None => Ok(tally.summary),
        Some(failure) => Err(failure),
    }
}

fn work(
    worker: usize,
    options: &Options,
    end: u64,
    deadline: Option<Instant>,
    next: &AtomicU64,
    make: &(impl Fn() -> Rc<dyn SystemMaker> + Send + Sync),
    sender: &mpsc::Sender<Message>,
) {
    while deadline.is_none_or(|deadline| Instant::now() < deadline) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let _ = sender.send(Message::Begun { worker, seed });
        panic_line(seed);
        let mut report = run_seed(seed, make(), false);
        if report.verdict.is_none() && options.check_determinism {
            let again = run_seed(seed, make(), false);
            if again != report {
                report.verdict = Some(format!(
                    "two runs differ: digests {:016x} and {:016x}, {} and {} steps",
                    report.digest, again.digest, report.steps, again.steps
                ));
            }
        }
        if report.verdict.is_some() && options.is_verbose {
            report.trace = run_seed(seed, make(), true).trace;
        }
        let _ = sender.send(Message::Done { worker, seed, report: Box::new(report) });
    }
}

struct Tally {
    summary: Summary,
    failure: Option<Failure>,
}

#[expect(clippy::too_many_arguments, reason = "the loop of one caller, split off for its length")]
fn collect(
    receiver: &mpsc::Receiver<Message>,
    workers: usize,
    options: &Options,
    begin: Instant,
    next: &AtomicU64,
    end: u64,
    tally: &mut Tally,
    progress: &mut dyn FnMut(&Progress),
) {
    let mut running: Vec<Option<Running>> = vec![None; workers];
    let mut finished = 0;
    while finished < workers {
        match receiver.recv_timeout(Duration::from_secs(1)) {
            Ok(Message::Begun { worker, seed }) => running[worker] = Some(Running::begins(seed)),
            Ok(Message::Done { worker, seed, report }) => {
                running[worker] = None;
                take(tally, seed, *report);
                if tally.failure.is_some() {
                    // Seeds that have begun finish: an earlier one may fail, too.
                    next.store(end, Ordering::Relaxed);
                }
                let done = tally.summary.seeds;
                progress(&Progress { done, wanted: options.seeds, elapsed: begin.elapsed() });
            }
            Ok(Message::Finished) => finished += 1,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        for run in running.iter().flatten() {
            if let Some(what) = run.hangs(workers) {
                // A step that never returns cannot be stopped from outside.
                let failure = Failure { seed: run.seed, step: 0, life: 0, what, trace: Vec::new() };
                let _unheard = writeln!(std::io::stderr(), "{failure}");
                std::process::exit(1);
            }
        }
    }
}

/// A seed that runs, and since when.
#[derive(Clone, Copy)]
struct Running {
    seed: u64,
    real: Instant,
    cpu: Duration,
}

impl Running {
    fn begins(seed: u64) -> Self {
        Running { seed, real: Instant::now(), cpu: cpu_time() }
    }

    /// Why it will not end. Of the process's time each worker counts as having used the same.
    fn hangs(&self, workers: usize) -> Option<String> {
        let share = (cpu_time() - self.cpu) / u32::try_from(workers).unwrap_or(u32::MAX);
        hang(share, self.real.elapsed())
    }
}

fn hang(cpu: Duration, real: Duration) -> Option<String> {
    if cpu > HANG {
        return Some(format!("a step does not end: {} s of a processor", HANG.as_secs()));
    }
    (real > STUCK).then(|| format!("a step does not end: {} real seconds", STUCK.as_secs()))
}

/// Of the processors, what this process used.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn take(tally: &mut Tally, seed: u64, report: SeedReport) {
    match report.verdict {
        None => {
            tally.summary.seeds += 1;
            tally.summary.steps += report.steps;
            tally.summary.counters.add(&report.counters);
            tally.summary.drives.add(&report.drives);
            for (name, count) in report.probes {
                *tally.summary.probes.entry(name).or_default() += count;
            }
        }
        Some(what) => {
            if tally.failure.as_ref().is_none_or(|known| seed < known.seed) {
                let (step, life, trace) = (report.steps, report.life, report.trace);
                tally.failure = Some(Failure { seed, step, life, what, trace });
            }
        }
    }
}

thread_local! {
    static SEED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Makes a panic in this thread name the seed, before it ends the process: the line is all there is.
fn panic_line(seed: u64) {
    static HOOK: std::sync::Once = std::sync::Once::new();
    SEED.set(Some(seed));
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Some(seed) = SEED.get() {
                let _unheard = writeln!(
                    std::io::stderr(),
                    "seed {seed} failed: it panicked, see below; repeat: ashlar sim --seeds 1 --first-seed {seed}"
                );
            }
            previous(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_makes_no_seed_hang() {
        let seconds = Duration::from_secs;
        assert_eq!(hang(seconds(20), seconds(1200)), None);
        assert!(hang(seconds(301), seconds(400)).is_some_and(|what| what.ends_with("300 s of a processor")));
        assert!(hang(seconds(1), seconds(3601)).is_some_and(|what| what.ends_with("3600 real seconds")));
        assert_eq!(Running::begins(1).hangs(2), None);
    }
}
