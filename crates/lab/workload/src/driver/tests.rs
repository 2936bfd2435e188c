//! The driver with workloads that need no server.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::ErrorKind;
use crate::random::Random;
use crate::workload::{Client, Done, Kind};

/// What a client of the test does at its n-th attempt.
type Act = fn(client: usize, attempt: u64) -> Result<Done>;

struct Acting(Act);

struct Actor {
    act: Act,
    number: usize,
    attempts: u64,
}

impl Workload for Acting {
    type Client = Actor;

    fn kinds(&self) -> Vec<Kind> {
        let (keying, think) = (Duration::from_millis(30), Duration::from_millis(20));
        ["even", "odd"].map(|name| Kind { name, keying, think }).to_vec()
    }

    fn client(&self, number: usize, _clients: usize) -> Result<Actor> {
        Ok(Actor { act: self.0, number, attempts: 0 })
    }
}

impl Client for Actor {
    fn draw(&mut self, random: &mut Random) -> usize {
        random.between(0, 1) as usize
    }

    fn attempt(&mut self) -> Result<Done> {
        self.attempts += 1;
        (self.act)(self.number, self.attempts)
    }

    fn abandon(&mut self) -> Result<()> {
        Ok(())
    }
}

/// How long a transaction of the tests takes.
const SERVICE: Duration = Duration::from_millis(2);

fn served(_client: usize, _attempt: u64) -> Result<Done> {
    std::thread::sleep(SERVICE);
    Ok(Done::Committed)
}

fn failing(kind: ErrorKind) -> Result<Done> {
    Err(Error { kind, context: format!("{kind:?} on purpose") })
}

fn plan(clients: usize, warm_up_millis: u64, measure_millis: u64) -> Plan {
    let [warm_up, measure] = [warm_up_millis, measure_millis].map(Duration::from_millis);
    Plan::closed(clients, warm_up, measure, 1)
}

fn ran(act: Act, plan: &Plan) -> Outcome {
    run(&Acting(act), plan, &AtomicBool::new(false), &mut ()).unwrap()
}

fn sum(outcome: &Outcome, of: fn(&KindOutcome) -> u64) -> u64 {
    outcome.kinds.iter().map(of).sum()
}

#[test]
fn every_way_a_transaction_ends_is_counted_once() {
    let act: Act = |_, attempt| {
        std::thread::sleep(Duration::from_micros(200));
        match attempt % 10 {
            1 => Ok(Done::RolledBack),
            2 => failing(ErrorKind::Refused),
            3..=5 => failing(ErrorKind::Conflict),
            _ => Ok(Done::Committed),
        }
    };
    let plan = Plan { measure: Length::TransactionsPerClient(70), errors_max: 1000, ..plan(2, 0, 0) };
    let outcome = ran(act, &plan);
    assert_eq!(outcome.ending, Ending::Complete);
    // Ten attempts are seven transactions: three conflicts and the commit after them are one.
    assert_eq!(sum(&outcome, |kind| kind.attempted), 140);
    assert_eq!(sum(&outcome, |kind| kind.rolled_back), 20);
    assert_eq!(sum(&outcome, |kind| kind.errors), 20);
    assert_eq!(sum(&outcome, |kind| kind.retries), 60);
    assert_eq!(sum(&outcome, |kind| kind.committed), 100);
    assert_eq!(sum(&outcome, |kind| kind.latency.count()), 120);
    let first_error = outcome.kinds.iter().find_map(|kind| kind.first_error.as_deref());
    assert_eq!(first_error, Some("Refused on purpose"));
    let in_seconds: u64 =
        outcome.seconds.iter().flat_map(|second| &second.kinds).map(|kind| kind.count).sum();
    assert_eq!(in_seconds, 120);
}

#[test]
fn conflicts_without_end_are_given_up() {
    let plan = Plan { retries_max: 3, errors_max: 2, ..plan(1, 0, 5000) };
    let outcome = ran(|_, _| failing(ErrorKind::Conflict), &plan);
    assert_eq!((sum(&outcome, |kind| kind.gave_up), sum(&outcome, |kind| kind.retries)), (2, 6));
    assert!(matches!(&outcome.ending, Ending::Failed(sight) if sight.context == "Conflict on purpose"));
    assert!(outcome.measured_seconds < 4.0, "it did not end early: {}", outcome.measured_seconds);
}

#[test]
fn what_is_due_in_the_warm_up_is_not_counted_but_stands_on_the_time_line() {
    let outcome = ran(served, &plan(2, 300, 400));
    assert_eq!(outcome.measured_seconds, 0.4);
    let measured = sum(&outcome, |kind| kind.committed);
    let all: u64 = outcome.seconds.iter().flat_map(|second| &second.kinds).map(|kind| kind.count).sum();
    assert!((50..=400).contains(&measured), "{measured}");
    assert!(all > measured + 30, "{all} of which {measured}");
    // Little's law: two clients without pauses are always in a transaction.
    let mean = outcome.kinds.iter().filter_map(|kind| kind.latency.mean_nanos()).sum::<f64>() / 2e9;
    let inside = outcome.per_second() * mean;
    assert!((1.6..2.2).contains(&inside), "{inside}");
}

/// One server that stands still once for 300 ms.
fn stalling(_client: usize, attempt: u64) -> Result<Done> {
    std::thread::sleep(if attempt == 20 { Duration::from_millis(300) } else { Duration::from_micros(100) });
    Ok(Done::Committed)
}

#[test]
fn a_stall_weighs_in_an_open_loop_and_hides_in_a_closed_one() {
    let late = |latencies: &Latencies| {
        let histogram = latencies.histogram();
        // The share of latencies above 50 ms, by bisection of the percentiles.
        (0..100)
            .filter(|p| histogram.percentile(f64::from(*p) / 100.0).is_some_and(|n| n > 50_000_000))
            .count()
    };
    let together = |outcome: &Outcome, of: fn(&KindOutcome) -> &Latencies| {
        let mut all = Latencies::default();
        outcome.kinds.iter().for_each(|kind| all.merge(of(kind)));
        all
    };
    let open = Plan { pace: Loop::Open { per_second: 400.0 }, ..plan(1, 0, 1000) };
    // A machine that is busy with something else may hold up the client itself: then it is tried again.
    let kept_up = |outcome: &Outcome| outcome.arrivals.as_ref().is_some_and(|arrivals| !arrivals.fell_behind);
    let mut outcome = ran(stalling, &open);
    for _ in 0..2 {
        if !kept_up(&outcome) {
            outcome = ran(stalling, &open);
        }
    }
    let arrivals = outcome.arrivals.clone().unwrap();
    assert!((300..500).contains(&arrivals.due), "{}", arrivals.due);
    assert!(!arrivals.fell_behind && arrivals.unserved < 5, "{arrivals:?}");
    let (felt, service) =
        (together(&outcome, |kind| &kind.latency), together(&outcome, |kind| &kind.service));
    assert!(late(&felt) >= 10, "a quarter of all waited, {} % were told", late(&felt));
    assert_eq!(late(&service), 0, "one transaction itself was slow");
    assert!(service.max_nanos() >= Some(300_000_000));
    assert!(arrivals.lag.max_nanos() > Some(200_000_000));
    let closed = ran(stalling, &plan(1, 0, 1000));
    assert_eq!(late(&together(&closed, |kind| &kind.latency)), 0);
    assert_eq!(closed.arrivals, None);
}

#[test]
fn more_arrivals_than_can_be_served_are_told() {
    let plan = Plan { pace: Loop::Open { per_second: 2000.0 }, ..plan(2, 100, 300) };
    let arrivals = ran(served, &plan).arrivals.unwrap();
    assert!(arrivals.fell_behind, "two clients of 2 ms serve less than 1000 a second: {arrivals:?}");
    assert!(arrivals.unserved * 3 > arrivals.due && arrivals.unserved < arrivals.due, "{arrivals:?}");
    assert!((450..=760).contains(&arrivals.due), "{}", arrivals.due);
}

#[test]
fn pauses_keep_a_client_from_most_of_its_time() {
    let plan = Plan { pace: Loop::Closed { with_pauses: true }, ..plan(4, 100, 500) };
    let outcome = ran(served, &plan);
    // 30 ms keying, 20 ms thinking, 2 ms work: about 77 a second of four clients, not 2000.
    let done = sum(&outcome, |kind| kind.committed);
    assert!((15..50).contains(&done), "{done}");
    assert_eq!(outcome.measured_seconds, 0.5);
}

#[test]
fn when_the_server_is_lost_the_figures_so_far_stay() {
    let act: Act = |client, attempt| match (client, attempt) {
        (1, 30..) => failing(ErrorKind::Lost),
        _ => served(client, attempt),
    };
    let outcome = ran(act, &plan(3, 0, 60_000));
    let Ending::Lost(sight) = &outcome.ending else { panic!("{:?}", outcome.ending) };
    assert_eq!((sight.client, sight.context.as_str()), (1, "Lost on purpose"));
    assert!(["even", "odd"].contains(&sight.kind.as_str()));
    assert_eq!(sum(&outcome, |kind| kind.unknown), 1);
    assert!(sum(&outcome, |kind| kind.committed) >= 29 + 2);
    assert!((sight.at_seconds - outcome.measured_seconds).abs() < 0.1, "{outcome:?}");
}

#[test]
fn whoever_looks_on_sees_the_phases_and_may_stop_the_run() {
    struct Stopping<'a>(&'a AtomicBool, Vec<Phase>, u64);
    impl Observer for Stopping<'_> {
        fn began(&mut self, phase: Phase) {
            self.1.push(phase);
        }
        fn second(&mut self, progress: &Progress) {
            self.2 = progress.done;
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let mut observer = Stopping(&stop, Vec::new(), 0);
    // A client that thinks for minutes must hear it as well.
    let plan = Plan { pace: Loop::Open { per_second: 100.0 }, ..plan(50, 0, 600_000) };
    let outcome = run(&Acting(served), &plan, &stop, &mut observer).unwrap();
    assert_eq!(outcome.ending, Ending::Stopped);
    assert!((0.9..5.0).contains(&outcome.measured_seconds), "{}", outcome.measured_seconds);
    assert_eq!(observer.1, [Phase::WarmUp, Phase::Measured, Phase::Finishing]);
    assert!(observer.2 > 30, "{}", observer.2);
    assert!(!outcome.arrivals.unwrap().fell_behind);
}

#[test]
fn a_client_that_cannot_get_ready_is_an_error_and_nobody_begins() {
    static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
    struct Refusing(Acting);
    impl Workload for Refusing {
        type Client = Actor;
        fn kinds(&self) -> Vec<Kind> {
            self.0.kinds()
        }
        fn client(&self, number: usize, clients: usize) -> Result<Actor> {
            if number == 2 {
                Err(Error::environment("no such database"))
            } else {
                self.0.client(number, clients)
            }
        }
    }
    let act: Act = |client, attempt| {
        ATTEMPTS.fetch_add(1, Ordering::Relaxed);
        served(client, attempt)
    };
    let error =
        run(&Refusing(Acting(act)), &plan(4, 0, 60_000), &AtomicBool::new(false), &mut ()).unwrap_err();
    assert_eq!(error.to_string(), "prepare client 2: no such database");
    assert_eq!(ATTEMPTS.load(Ordering::Relaxed), 0);
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let refused = |plan: Plan| run(&Acting(served), &plan, &AtomicBool::new(false), &mut ()).is_err();
    assert!(refused(plan(0, 0, 1)));
    let pace = Loop::Open { per_second: f64::NAN };
    assert!(refused(Plan { pace, ..plan(1, 0, 1) }));
    let pace = Loop::Open { per_second: 1.0 };
    assert!(refused(Plan { pace, measure: Length::TransactionsPerClient(1), ..plan(1, 0, 0) }));
}

#[test]
fn an_outcome_is_the_same_after_it_was_written_and_read() {
    let plan = Plan { pace: Loop::Open { per_second: 500.0 }, ..plan(2, 0, 200) };
    let mut outcome = ran(served, &plan);
    assert!(outcome.client_busy_percent().is_some_and(|percent| percent < 100.0));
    // JSON's decimals of a sum of hundredths need not read back to the last bit.
    outcome.client_processor_seconds = Some(0.25);
    outcome.processors = 2;
    let text = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    assert_eq!(outcome.client_busy_percent(), Some(62.5));
    assert_eq!(outcome.kind("odd").map(|kind| kind.name.as_str()), Some("odd"));
}
