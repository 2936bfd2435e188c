//! The tester is tested: a system that keeps its promises passes, and every broken promise is found.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;

use crate::batch::{Options, run_batch};
use crate::fakes::{Defect, FakeMaker, RandomMaker};
use crate::seed_run::run_seed;

const DEFECTS: [Defect; 26] = [
    Defect::LosesAcknowledgedWrite,
    Defect::LosesUnmap,
    Defect::TearsBlock,
    Defect::LosesSnapshot,
    Defect::RevivesVolume,
    Defect::ReadsStale,
    Defect::ReadsNothing,
    Defect::LosesUpdate,
    Defect::Misplaces,
    Defect::InexactGroup,
    Defect::InexactVolume,
    Defect::LateSnapshot,
    Defect::WritesThrough,
    Defect::KeepsTail,
    Defect::LosesDeleted,
    Defect::KeepsBehind,
    Defect::HalfRestore,
    Defect::HalfClone,
    Defect::Stalls,
    Defect::NeverFreesSpace,
    Defect::RefusesForNothing,
    Defect::DeleteNeedsSpace,
    Defect::FailsForNothing,
    Defect::AcceptsInvalid,
    Defect::WrongExtents,
    Defect::CheckFails,
];

fn options(first_seed: u64, seeds: u64) -> Options {
    Options { first_seed, seeds, minutes: None, is_verbose: true, check_determinism: true }
}

#[test]
fn a_system_that_keeps_its_promises_passes() {
    let make = || Rc::new(FakeMaker::new(Defect::None)) as Rc<dyn crate::system::SystemMaker>;
    match run_batch(&options(1, 60), make, &mut |_| {}) {
        Ok(summary) => {
            assert_eq!(summary.seeds, 60);
            assert!(summary.counters.crashes > 150, "{summary}");
            assert!(summary.counters.changes > 1000, "{summary}");
            assert!(summary.counters.bytes_verified > 100 << 20, "{summary}");
        }
        Err(failure) => panic!("{failure}\n{}", failure.trace.join("\n")),
    }
}

#[test]
fn every_broken_promise_is_found() {
    let mut missed = Vec::new();
    for defect in DEFECTS {
        let tried =
            |seed| run_seed(seed, Rc::new(FakeMaker::new(defect)), false).verdict.map(|what| (seed, what));
        let found = (0..600).find_map(tried);
        match found {
            Some((seed, what)) => println!("{defect:?}: seed {seed}: {what}"),
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_run_that_depends_on_more_than_its_seed_is_found() {
    let make = || Rc::new(RandomMaker(FakeMaker::new(Defect::Random))) as Rc<dyn crate::system::SystemMaker>;
    let failure = run_batch(&options(1, 1), make, &mut |_| {}).unwrap_err();
    assert!(failure.what.contains("two runs differ"), "{failure}");
    assert!(failure.to_string().ends_with("repeat: ashlar sim --seeds 1 --first-seed 1"), "{failure}");
}

/// What is dangerous must happen in the seeds that every change runs. Of their 200 these run here alone. Of
/// dedupe: hits, also beside a cleaning, and every reason to leave something alone. Of doors: parts of
/// blocks written while other writes of these blocks are on their way. Of the second reader: drives that
/// were away over places used again, and drives spoilt beyond what the protection covers.
#[test]
fn seeds_meet_what_is_dangerous() {
    let make = || Rc::new(crate::engine_system::EngineMaker) as Rc<dyn crate::system::SystemMaker>;
    let options = Options { check_determinism: false, ..options(121, 60) };
    let summary = match run_batch(&options, make, &mut |_| {}) {
        Ok(summary) => summary,
        Err(failure) => panic!("{failure}\n{}", failure.trace.join("\n")),
    };
    for (probe, least) in [
        ("dedupe hits", 500),
        ("blocks shared", 500),
        ("blocks shared beside a cleaning", 100),
        ("blocks not shared: condemned", 50),
        ("blocks not shared: stale", 50),
        ("blocks not shared: overtaken", 50),
        ("parts of blocks beside other writes", 500),
        ("deleted volumes that came back", 5),
        ("restores that kept what was there", 2),
        ("mounts taken over", 20),
        ("requests handed out again over FUSE", 30),
        ("looked at from outside", 150),
        ("looked at from outside: drives lack something", 10),
        ("looked at from outside: spoilt beyond protection", 50),
        ("looked at from outside: spoilt, and told by tables alone", 40),
    ] {
        assert!(summary.probes[probe] >= least, "{probe}: {summary}");
    }
    // What a crash cuts off looks like damage now and then; most often it does not.
    let (looks, unsure) = ("looked at from outside", "looked at from outside: end not understood");
    assert!(summary.probes[unsure] * 10 < summary.probes[looks], "{summary}");
}

/// What once went wrong, by the seed that found it. Another program may take other steps in the same seed, so
/// that these say most about small changes.
const FOUND_MISTAKES: [u64; 10] = [
    // Replacing a drive ended while the cleaner worked, then a power failure: what a checkpoint had made
    // durable on the old drive was lost from the cache of the new one.
    9_900_269,
    // A drive had just been replaced, and others joined in the same superblock: the one that took the place
    // held it first, so that a power failure made of drives that did not hold it yet ones that were missing.
    9_911_886,
    // The cleaner used up the room that it needs to win room, and a pool with little alive stayed full.
    9_912_857,
    // Writes that waited for their turn while the pool closed were told that it was full.
    9_915_723,
    // All that was free was on a drive that was to leave: without it the pool could not even record what had
    // been freed on the others.
    9_940_554,
    // A pool full behind random overwrites never told: each cycle won what the checkpoint before it took.
    692,
    // A journal segment whose header a crash had torn, closed by the next opening: damage, said `inspect`.
    9_786,
    // The same of a segment that had been called whole while its first group was still being written.
    2_267,
    // What a host wrote into a journal group that was cut off passed for a later group, and that for damage.
    15_388,
    // Drives that failed under reads alone were not recorded as out, and half of the pool did not open.
    16_977,
];

#[test]
fn seeds_that_found_mistakes_pass() {
    for seed in FOUND_MISTAKES {
        let run = run_seed(seed, Rc::new(crate::engine_system::EngineMaker), false);
        assert_eq!(run.verdict, None, "seed {seed}");
    }
}
