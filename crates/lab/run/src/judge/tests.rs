//! Every answer of every check, and metrics whose values are known by hand.

use std::time::Duration;

use ashlar_fio::Second;
use ashlar_scenario::{Check, Metric};
use ashlar_target::PoolCounters;

use super::{Answer, Table, check, metric};
use crate::Outline;
use crate::database::{DatabaseFigures, PartFigures};
use crate::figures::Figures;
use crate::tests::{all, figures, outline, text};

fn metric_of(text: &str) -> Metric {
    Metric::try_from(text.to_string()).unwrap()
}

fn judged(outline: &Outline, runs: &[Figures], asked: &Check) -> (Answer, String) {
    let checked = check(&Table::new(outline, runs, 2), asked);
    (checked.answer, checked.found)
}

/// All runs alike at 1,000 a second, one of them changed.
fn one_changed(outline: &Outline, change: impl Fn(&mut Figures)) -> Vec<Figures> {
    let mut runs = all(outline, |_, _| 1000.0);
    change(&mut runs[2]);
    runs
}

#[test]
fn a_run_is_steady_moves_or_is_too_short() {
    let outline = outline(&text(""), &["a"]).unwrap();
    let answer =
        |change: fn(&mut Figures)| judged(&outline, &one_changed(&outline, change), &Check::Steady {});
    assert_eq!(answer(|_| {}), (Answer::Passed, "it holds for 12 of 12 runs".into()));
    let (failed, said) = answer(|figures| figures.course[5].requests = 700.0);
    assert!(
        failed == Answer::Failed && said.contains("1 of 12 runs: r1-") && said.contains("moved by"),
        "{said}"
    );
    let (open, said) = answer(|figures| figures.course.truncate(4));
    assert!(
        open == Answer::CannotTell && said.contains("1 of 12 runs: too short, 5 whole seconds"),
        "{said}"
    );
    // Long ones in rounds of several seconds: noise of one second is none of a round.
    let (passed, said) = answer(|figures| {
        figures.course = (1..=30)
            .map(|second| Second {
                at_seconds: f64::from(second),
                requests: if second % 3 == 0 { 700.0 } else { 1000.0 },
                latency_nanos: None,
            })
            .collect();
    });
    assert_eq!(passed, Answer::Passed, "{said}");
}

#[test]
fn bytes_that_the_array_never_saw_are_not_plausible() {
    let outline = outline(&text(""), &["a"]).unwrap();
    let seen = |share: f64| {
        let runs = one_changed(&outline, |figures| {
            let bytes = (figures.bytes as f64 * share) as u64;
            figures.pool = Some(PoolCounters { host_read_bytes: bytes, ..PoolCounters::default() });
        });
        judged(&outline, &runs, &Check::Plausible {})
    };
    assert_eq!(seen(3.0).0, Answer::Passed, "the array counts the warm-up, too");
    let (failed, said) = seen(0.5);
    assert!(
        failed == Answer::Failed && said.contains("a cache above the device answered the rest"),
        "{said}"
    );
}

#[test]
fn a_part_that_moves_is_found_beside_one_of_many_more_requests() {
    let outline = outline(&text(""), &["a"]).unwrap();
    let part = |name: &str, rates: [f64; 6]| {
        let second = |requests: f64| Second { at_seconds: 1.0, requests, latency_nanos: None };
        PartFigures { name: name.into(), course: rates.map(second).to_vec(), ..PartFigures::default() }
    };
    let judge = |load: [f64; 6]| {
        let parts = vec![part("reads", [1000.0; 6]), part("load", load)];
        let runs = one_changed(&outline, |figures| {
            figures.database = Some(DatabaseFigures { parts: parts.clone(), ..DatabaseFigures::default() });
        });
        judged(&outline, &runs, &Check::Steady {})
    };
    assert_eq!(judge([10.0; 6]).0, Answer::Passed);
    let (failed, said) = judge([10.0, 10.0, 10.0, 10.0, 10.0, 2.0]);
    assert!(failed == Answer::Failed && said.contains("(load) moved by"), "{said}");
}

#[test]
fn numbers_that_do_not_belong_together_are_found() {
    let outline = outline(&text(""), &["a"]).unwrap();
    let answer =
        |change: fn(&mut Figures)| judged(&outline, &one_changed(&outline, change), &Check::Plausible {});
    assert_eq!(answer(|_| {}).0, Answer::Passed);
    for (change, word) in [
        ((|figures| figures.latency_mean_nanos = Some(1.0)) as fn(&mut Figures), "rate times latency"),
        (
            |figures| figures.latency_mean_nanos = figures.latency_mean_nanos.map(|nanos| nanos * 2.0),
            "neither can be trusted",
        ),
        (|figures| figures.bytes /= 2, "bytes moved"),
        (|figures| figures.client_busiest = 2.5, "the client was the bottleneck"),
        (|figures| figures.client_cores = 6.0, "the client was the bottleneck"),
    ] {
        let (failed, said) = answer(change);
        assert!(
            failed == Answer::Failed && said.contains("1 of 4 variants") && said.contains(word),
            "{said}"
        );
    }
    // Where chance decides the mean size, bytes say nothing.
    let (passed, said) = answer(|figures| (figures.bytes, figures.bytes_expected) = (1, None));
    assert_eq!(passed, Answer::Passed, "{said}");
    // Long latencies in a short run: what was under way before counts with the time before.
    let (passed, said) = answer(|figures| {
        figures.latency_mean_nanos = figures.latency_mean_nanos.map(|nanos| nanos * 1.3);
        figures.p99_nanos = Some(2_000_000_000);
    });
    assert_eq!(passed, Answer::Passed, "{said}");
}

#[test]
fn an_open_loop_reaches_its_rate_or_says_who_was_late() {
    let outline = outline(&text(""), &["a"]).unwrap();
    let answer = |offered: f64, used_up: f64| {
        let mut runs = all(&outline, |_, _| 1000.0);
        for figures in &mut runs {
            (figures.outstanding, figures.client_busiest) = (None, 1.0);
            (figures.offered_per_second, figures.depth_used_up) = (Some(offered), used_up);
        }
        judged(&outline, &runs, &Check::Plausible {})
    };
    assert_eq!(answer(1000.0, 0.0).0, Answer::Passed, "waiting for the next time is no work");
    let (late, said) = answer(2000.0, 0.0);
    assert!(late == Answer::Failed && said.contains("the load generator did not keep up"), "{said}");
    assert_eq!(answer(2000.0, 0.99).0, Answer::Passed, "the target was late, and that is a result");
}

#[test]
fn latency_over_time_is_kept_broken_or_not_known() {
    let outline = outline(&text(""), &["a"]).unwrap();
    let [max, sustained, grace] = [10, 5, 3000].map(Duration::from_millis);
    let rule = Check::Latency { max, sustained, grace, only: Vec::new() };
    let answer = |change: fn(&mut Figures)| judged(&outline, &one_changed(&outline, change), &rule);
    assert_eq!(answer(|_| {}).0, Answer::Passed);
    let (peak, said) = answer(|figures| figures.course[4].latency_nanos = Some(11e6));
    assert!(peak == Answer::Failed && said.contains("had a mean of 11.0 ms in second 5"), "{said}");
    let (long, said) = answer(|figures| {
        figures.course[1..4].iter_mut().for_each(|moment| moment.latency_nanos = Some(6e6));
    });
    assert!(long == Answer::Failed && said.contains("above 5.00 ms for 3 s from second 2 on"), "{said}");
    assert_eq!(answer(|figures| figures.course.clear()).0, Answer::CannotTell);
}

#[test]
fn the_whole_interval_of_a_ratio_decides() {
    let outline = outline(&text(""), &["a"]).unwrap();
    // d4 twice as fast as d1, give or take what the repetition adds.
    let runs = |spread: f64| {
        all(&outline, |name, repetition| match name.contains("d4") {
            true => 2000.0 + spread * (repetition as f64 - 2.0),
            false => 1000.0,
        })
    };
    let ratio = |at_least: Option<f64>, at_most: Option<f64>, equal_within: Option<f64>| Check::Ratio {
        of: metric_of("iops.ratio(d4/d1)"),
        at_least,
        at_most,
        equal_within,
        note: None,
    };
    let exact = |asked: &Check| judged(&outline, &runs(1.0), asked).0;
    assert_eq!(exact(&ratio(Some(1.9), None, None)), Answer::Passed);
    assert_eq!(exact(&ratio(Some(2.1), None, None)), Answer::Failed);
    assert_eq!(exact(&ratio(None, Some(2.1), None)), Answer::Passed);
    assert_eq!(exact(&ratio(None, Some(1.9), None)), Answer::Failed);
    assert_eq!(exact(&ratio(None, None, Some(1.1))), Answer::Passed);
    assert_eq!(exact(&ratio(None, None, Some(0.05))), Answer::Failed);
    let (open, said) = judged(&outline, &runs(400.0), &ratio(Some(1.9), None, None));
    assert!(open == Answer::CannotTell && said.contains("2 of 2 pairs: read on a is 2.00 ("), "{said}");
    let (none, said) = judged(&outline, &[], &ratio(Some(1.9), None, None));
    assert_eq!(none, Answer::CannotTell, "{said}");
}

#[test]
fn metrics_have_their_four_forms_on_each_target() {
    let outline = outline(&text(""), &["a", "b"]).unwrap();
    let runs = all(&outline, |name, repetition| {
        let depth = if name.contains("d4") { 3000.0 } else { 1000.0 };
        let operation = if name.contains("write") { 0.5 } else { 1.0 };
        depth * operation * if name.ends_with('b') { 2.0 } else { 1.0 } + repetition as f64 - 2.0
    });
    let table = Table::new(&outline, &runs, 2);
    let rows = |text: &str| -> Vec<(String, String, f64)> {
        let found = metric(&table, &metric_of(text)).into_iter();
        found.map(|row| (row.target, row.of, row.estimate.map_or(0.0, |found| found.value.round()))).collect()
    };
    let row = |target: &str, of: &str, value: f64| (target.to_string(), of.to_string(), value);
    assert_eq!(rows("iops"), [row("a", "read-d4", 3000.0), row("b", "read-d4", 6000.0)]);
    assert_eq!(rows("iops(write)"), [row("a", "write-d4", 1500.0), row("b", "write-d4", 3000.0)]);
    // The best of a latency is the shortest: one under way at 1,000 a second is 1.0 ms.
    let shortest = metric(&table, &metric_of("latency_millis(read)"));
    assert_eq!((shortest[0].of.as_str(), shortest[1].of.as_str()), ("read-d1", "read-d1"));
    let millis = shortest[0].estimate.unwrap().value;
    assert!((millis - 1.0).abs() < 0.001, "{millis}");
    let pairs = rows("iops.ratio(d4/d1)");
    assert_eq!(pairs.len(), 4);
    assert!(pairs.contains(&row("b", "write", 3.0)), "{pairs:?}");
    // Twice the mean is the 99th percentile here: 2.0 ms at 1,000 a second, and 1.0 ms at 2,000.
    assert_eq!(rows("iops.under(1.5ms)"), [row("a", "", 0.0), row("b", "read-d4", 6000.0)]);
    let found = metric(&table, &metric_of("iops(read)"));
    assert!(found[0].estimate.is_some_and(|found| found.runs == 3 && found.interval.is_some()));
}

#[test]
fn a_run_that_fell_behind_is_under_no_bound() {
    let outline = outline(&text(""), &["a"]).unwrap();
    let mut runs = all(&outline, |_, _| 10_000.0);
    runs.iter_mut().for_each(|figures| figures.offered_per_second = Some(20_000.0));
    let rows = metric(&Table::new(&outline, &runs, 2), &metric_of("iops.under(1ms)"));
    assert!(rows.len() == 1 && rows[0].estimate.is_none());
}

#[test]
fn targets_are_compared_by_what_both_measured() {
    let outline = outline(&text(""), &["a", "b"]).unwrap();
    let runs = all(&outline, |name, repetition| match name.ends_with('b') && name.contains("d4") {
        true => 1500.0 + repetition as f64,
        false => 1000.0 + repetition as f64,
    });
    let compared = Table::new(&outline, &runs, 2).targets_compared();
    let verdicts: Vec<(&str, &str)> =
        compared.iter().map(|one| (one.variant.as_str(), one.verdict.as_str())).collect();
    let expected = [
        ("read-d1", "equal within 5 %"),
        ("read-d4", "faster"),
        ("write-d1", "equal within 5 %"),
        ("write-d4", "faster"),
    ];
    assert_eq!(verdicts, expected);
    assert!(compared.iter().all(|one| one.target == "b" && one.base == "a"));
    let one = ["read-d1-a", "read-d1-b"].map(|name| figures(&outline, name, 1, 1000.0));
    let verdict = |runs: &[Figures]| Table::new(&outline, runs, 2).targets_compared()[0].verdict.clone();
    assert_eq!(verdict(&one), "cannot tell: about 2 more repetitions would help");
    assert_eq!(verdict(&one[..1]), "not measured");
}
