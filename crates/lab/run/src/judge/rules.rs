//! Checks in words: what each asks, and what was found as one sentence.

use std::time::Duration;

use ashlar_report::nanos;
use ashlar_scenario::Check;

use super::checks::{Answer, Found};
use crate::text::many;

/// Offences that are named; the others are counted.
const NAMED_MAX: usize = 3;

/// Consistency of what has no database.
pub(super) const EVERY_BYTE: &str =
    "What came back is what was written before: the same files, and every byte of them";

/// Name, rule, and whether it asks if there is a result.
pub(super) fn rule(check: &Check) -> (String, String, bool) {
    match check {
        Check::Steady {} => (
            "steady".into(),
            "In the last five rounds of a run the rate stays within 20 %, and rises or falls by 10 % at most"
                .into(),
            true,
        ),
        Check::Plausible {} => (
            "plausible".into(),
            "Rate times latency is what was under way, bytes are requests times their size, the load generator \
             is not the bottleneck, and a server is as busy as was asked for"
                .into(),
            true,
        ),
        Check::Offered {} => (
            "offered is done".into(),
            "Every run, and every database in it, made what it was offered, but for what chance explains"
                .into(),
            false,
        ),
        Check::Consistency {} => (
            "consistency".into(),
            "After every run, and in every snapshot, all conditions of the database hold, and what was acknowledged \
             is there"
                .into(),
            false,
        ),
        Check::Undisturbed { at_least } => (
            "undisturbed by snapshots".into(),
            format!(
                "Behind each snapshot the rate is at least {} % of the rate before it, with its whole interval",
                at_least * 100.0
            ),
            false,
        ),
        Check::Latency { max, sustained, grace, only } => {
            let text = |time: &Duration| nanos(time.as_nanos() as f64);
            let (max, sustained, grace) =
                (text(max), text(sustained), ashlar_report::seconds(grace.as_secs()));
            let of = if only.is_empty() { String::new() } else { format!(" of {}", only.join(", ")) };
            (
                format!("latency{of}"),
                format!(
                    "In no second the mean latency is above {max}, and not for {grace} above {sustained}"
                ),
                false,
            )
        }
        Check::Value { of, at_least, at_most, note } => {
            let told = |bound: f64| crate::answer::value(of.measured, bound);
            let least = at_least.map(|bound| format!("at least {}", told(bound)));
            let bound = least.or_else(|| at_most.map(|bound| format!("at most {}", told(bound))));
            let note = note.as_ref().map_or(String::new(), |note| format!(". {note}"));
            let entry = of.entries().first().map_or(String::new(), |entry| format!(" of {entry}"));
            let name = format!("{}{entry}", super::name(of.measured));
            (name, format!("In every run it is {}{note}", bound.unwrap_or_default()), false)
        }
        Check::Ratio { of, at_least, at_most, equal_within, note } => {
            let bound = at_least.map(|bound| format!("is at least {bound}"));
            let bound = bound.or_else(|| at_most.map(|bound| format!("is at most {bound}")));
            let equal =
                || equal_within.map(|share| format!("is 1 within {} %", (share * 1000.0).round() / 10.0));
            let bound = bound.or_else(equal).unwrap_or_default();
            let note = note.as_ref().map_or(String::new(), |note| format!(". {note}"));
            let name = crate::answer::asked(of);
            (name, format!("The ratio {bound}, with its whole interval{note}"), false)
        }
    }
}

/// One bad thing fails a check; without one, one that cannot be told leaves it open.
pub(super) fn answer(found: &[Found], noun: &str) -> (Answer, String) {
    let all = found.len();
    let bad: Vec<&str> = found
        .iter()
        .filter_map(|one| if let Found::Bad(what) = one { Some(&**what) } else { None })
        .collect();
    let unknown: Vec<&str> = found
        .iter()
        .filter_map(|one| if let Found::Unknown(why) = one { Some(&**why) } else { None })
        .collect();
    let named = |what: &[&str]| {
        let mut what = what.to_vec();
        what.dedup();
        let rest = what.len().saturating_sub(NAMED_MAX);
        let more = if rest > 0 { format!("; and {rest} more") } else { String::new() };
        format!("{}{more}", what[..what.len().min(NAMED_MAX)].join("; "))
    };
    let of_all = |count: usize| format!("{count} of {}", many(all, noun));
    if all == 0 {
        (Answer::CannotTell, "nothing was measured that it asks for".into())
    } else if !bad.is_empty() {
        (Answer::Failed, format!("it does not hold for {}: {}", of_all(bad.len()), named(&bad)))
    } else if !unknown.is_empty() {
        (Answer::CannotTell, format!("it cannot be told for {}: {}", of_all(unknown.len()), named(&unknown)))
    } else {
        (Answer::Passed, format!("it holds for {}", of_all(all)))
    }
}
