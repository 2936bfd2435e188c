//! The checks of a scenario: each is passed, failed, or cannot be told, with a sentence that says why.
//!
//! `steady` and `plausible` ask whether there is a result at all; `latency` and `ratio` ask how good it is.

use std::time::Duration;

use ashlar_report::{count, nanos};
use ashlar_scenario::{Check, Load, Metric, Variant};
use ashlar_statistics::compare::{self, Better, Pair, Verdict as Comparison};
use ashlar_statistics::latency_rule::{LatencyRule, Sample, Verdict as Kept};
use ashlar_statistics::plausible;
use ashlar_statistics::steady::{self, Verdict as Steady};
use serde::Serialize;

use super::{Estimate, Table, metrics, more, rules};
use crate::database::{LevelFigures, PartFigures};
use crate::figures::Figures;
use crate::text::many;

/// Rounds that a steady state is judged over, at least: seconds, or some of them together.
const ROUNDS: usize = 5;
/// An open loop that fell behind waited for the target if many requests were under way nearly always; the
/// load generator was late otherwise. Arbitrary: it is nearly all or nearly none.
const DEPTH_USED_UP: f64 = 0.5;

/// Of the client's bytes: less cannot have been seen below it, but for requests at the edges.
const SEEN_SHARE: f64 = 0.99;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Passed,
    Failed,
    CannotTell,
}

/// A check with its answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Checked {
    /// `steady`, or `a against b (requests a second)`.
    pub name: String,
    /// What it asks.
    pub rule: String,
    pub answer: Answer,
    /// It asks whether there is a result at all.
    pub is_of_validity: bool,
    /// What was found.
    pub found: String,
}

/// What was found of one run, variant or pair.
pub(super) enum Found {
    Good,
    /// What is wrong.
    Bad(String),
    /// Why it cannot be told.
    Unknown(String),
}

/// Judges one check over all that was measured.
#[must_use]
pub(crate) fn judge(table: &Table<'_>, check: &Check) -> Checked {
    let (name, mut rule, is_of_validity) = rules::rule(check);
    let of_files = |variant: &Variant| matches!(variant.load, Load::Restore(_));
    if *check == (Check::Consistency {}) && table.plan.variants.iter().all(of_files) {
        rule = rules::EVERY_BYTE.into();
    }
    let found: Vec<Found> = match check {
        Check::Steady {} => each_run(table, is_steady),
        Check::Consistency {} => each_run(table, is_consistent),
        Check::Undisturbed { at_least } => {
            let variants = table.plan.variants.iter().filter(|variant| !table.runs(variant).is_empty());
            variants.map(|variant| is_undisturbed(table, variant, *at_least)).collect()
        }
        Check::Latency { max, sustained, grace, only } => {
            let rule = LatencyRule { max: *max, sustained: *sustained, grace: *grace };
            let is_asked = |variant: &&Variant| {
                only.is_empty() || variant.entries.iter().any(|entry| only.contains(entry))
            };
            let variants = table.plan.variants.iter().filter(is_asked);
            runs_of(table, variants, |figures| keeps(rule, figures))
        }
        Check::Plausible {} => table
            .plan
            .variants
            .iter()
            .filter(|variant| !table.runs(variant).is_empty())
            .map(|variant| is_plausible(table, variant))
            .collect(),
        Check::Ratio { of, at_least, at_most, equal_within, .. } => {
            let bound =
                [at_least.map(Bound::AtLeast), at_most.map(Bound::AtMost), equal_within.map(Bound::Equal)];
            let bound = bound.into_iter().flatten().next();
            bound.map_or_else(Vec::new, |bound| ratios(table, of, bound))
        }
        Check::Offered {} => each_run(table, keeps_up),
        Check::Value { of, at_least, at_most, .. } => values(table, of, (*at_least, *at_most)),
    };
    let noun = match check {
        Check::Steady {}
        | Check::Latency { .. }
        | Check::Consistency {}
        | Check::Offered {}
        | Check::Value { .. } => "run",
        Check::Plausible {} | Check::Undisturbed { .. } => "variant",
        Check::Ratio { .. } => "pair",
    };
    let (answer, found) = rules::answer(&found, noun);
    Checked { name, rule, answer, is_of_validity, found }
}

fn each_run(table: &Table<'_>, judge: impl Fn(&Figures) -> Found) -> Vec<Found> {
    runs_of(table, table.plan.variants.iter(), judge)
}

fn runs_of<'a>(
    table: &Table<'_>,
    variants: impl Iterator<Item = &'a Variant>,
    judge: impl Fn(&Figures) -> Found,
) -> Vec<Found> {
    let runs = variants.flat_map(|variant| table.runs(variant));
    runs.map(|figures| match judge(figures) {
        Found::Bad(what) => Found::Bad(format!("{} {what}", figures.id)),
        other => other,
    })
    .collect()
}

/// A metric of every run, of the variants that it is about.
fn values(table: &Table<'_>, of: &Metric, (least, most): (Option<f64>, Option<f64>)) -> Vec<Found> {
    let is_asked = |variant: &&Variant| of.entries().iter().all(|id| variant.entries.iter().any(|e| e == id));
    let judge = |figures: &Figures| match figures.value(of.measured) {
        None => Found::Unknown(format!("{} has no such value", figures.id)),
        Some(found) if least.is_none_or(|least| found >= least) && most.is_none_or(|most| found <= most) => {
            Found::Good
        }
        Some(found) => Found::Bad(format!("has {}", crate::answer::value(of.measured, found))),
    };
    runs_of(table, table.plan.variants.iter().filter(is_asked), judge)
}

/// The sum, and each database.
fn keeps_up(figures: &Figures) -> Found {
    let Some(offered) = figures.offered_per_second else {
        return Found::Unknown(format!("{} was offered nothing", figures.id));
    };
    let each = figures.database.iter().flat_map(|database| &database.each);
    let behind: Vec<&str> = each.filter(|each| each.is_behind).map(|each| each.name.as_str()).collect();
    if !figures.is_behind() && behind.is_empty() {
        return Found::Good;
    }
    let of = if behind.is_empty() { String::new() } else { format!(", behind: {}", behind.join(", ")) };
    Found::Bad(format!("made {} of {} a second{of}", count(figures.per_second()), count(offered)))
}

fn is_consistent(figures: &Figures) -> Found {
    if let Some(space) = &figures.space {
        return match space.offences.first() {
            None => Found::Good,
            Some(first) => Found::Bad(format!("has {}: {first}", many(space.offences.len(), "offence"))),
        };
    }
    if let Some(restored) = &figures.restored {
        return match restored.offences.first() {
            None => Found::Good,
            Some(first) => Found::Bad(format!("has {}: {first}", many(restored.offences.len(), "offence"))),
        };
    }
    let database = figures.database.as_ref();
    let Some(own) = database.and_then(|database| database.offences.as_ref()) else {
        return Found::Unknown(format!("{} has nothing to be checked", figures.id));
    };
    let copies = database.into_iter().flat_map(|database| &database.copies);
    let in_copies = copies.flat_map(|copy| {
        copy.offences.iter().map(|what| format!("snapshot at {:.0} s: {what}", copy.at_seconds))
    });
    let offences: Vec<String> = own.iter().cloned().chain(in_copies).collect();
    match offences.first() {
        None => Found::Good,
        Some(first) => Found::Bad(format!("has {}: {first}", many(offences.len(), "offence"))),
    }
}

/// The rate behind each snapshot against the rate before it, over all runs of a variant.
fn is_undisturbed(table: &Table<'_>, variant: &Variant, at_least: f64) -> Found {
    let runs = table.runs(variant).iter();
    let copies = runs.filter_map(|figures| figures.database.as_ref()).flat_map(|database| &database.copies);
    let pairs: Vec<Pair> = copies
        .filter_map(|copy| Some(Pair { base: copy.per_second_before?, other: copy.per_second_after? }))
        .collect();
    let name = &variant.name;
    let found = compare::compare(&pairs, Better::Higher, 0.0, table.seed);
    match found.and_then(|found| found.ratio) {
        None => Found::Unknown(format!("{name} has {}", many(pairs.len(), "snapshot"))),
        Some(ratio) if ratio.low >= at_least => Found::Good,
        Some(ratio) => {
            let told = format!("{:.2} ({:.2} to {:.2})", ratio.estimate, ratio.low, ratio.high);
            match ratio.high < at_least {
                true => Found::Bad(format!("{name} is {told}")),
                false => Found::Unknown(format!("{name} is {told}")),
            }
        }
    }
}

/// Of works beside each other each one: many small requests hide what becomes of few large ones.
fn is_steady(figures: &Figures) -> Found {
    let parts = figures.database.as_ref().map_or(&[][..], |database| &database.parts);
    if parts.is_empty() {
        return is_course_steady(&figures.course);
    }
    let told = |part: &PartFigures| match is_course_steady(&part.course) {
        Found::Bad(what) => Found::Bad(format!("({}) {what}", part.name)),
        other => other,
    };
    let found: Vec<Found> = parts.iter().map(told).collect();
    let is_worse = |found: &Found| match found {
        Found::Good => 0,
        Found::Unknown(_) => 1,
        Found::Bad(_) => 2,
    };
    found.into_iter().max_by_key(is_worse).expect("one part at least")
}

fn is_course_steady(course: &[ashlar_fio::Second]) -> Found {
    let requests: Vec<f64> = course.iter().map(|moment| moment.requests).collect();
    let length = (requests.len() / ROUNDS).max(1);
    // What is left over is left out at the beginning.
    let rounds: Vec<f64> =
        requests[requests.len() % length..].chunks_exact(length).map(|round| round.iter().sum()).collect();
    match steady::judge(&rounds) {
        Steady::Steady { .. } => Found::Good,
        Steady::TooShort => Found::Unknown(format!("too short, {ROUNDS} whole seconds are needed")),
        Steady::NotSteady { excursion_percent, slope_percent } => {
            Found::Bad(match excursion_percent.is_finite() {
                true => format!("moved by {excursion_percent:.0} % and drifted by {slope_percent:.0} %"),
                false => "stood still".into(),
            })
        }
    }
}

fn keeps(rule: LatencyRule, figures: &Figures) -> Found {
    let sample = |moment: &ashlar_fio::Second| {
        let begin = Duration::from_secs_f64((moment.at_seconds - 1.0).max(0.0));
        Some(Sample { at: begin, latency: Duration::from_nanos(moment.latency_nanos? as u64) })
    };
    let samples: Vec<Sample> = figures.course.iter().filter_map(sample).collect();
    match rule.judge(&samples) {
        Kept::Kept => Found::Good,
        Kept::NoSamples => Found::Unknown("too short, no whole second was logged".into()),
        Kept::AboveMax { at, latency } => Found::Bad(format!(
            "had a mean of {} in second {}",
            nanos(latency.as_nanos() as f64),
            at.as_secs() + 1
        )),
        Kept::AboveSustained { at, length } => Found::Bad(format!(
            "was above {} for {} s from second {} on",
            nanos(rule.sustained.as_nanos() as f64),
            length.as_secs(),
            at.as_secs() + 1
        )),
    }
}

/// Over all repetitions of a variant.
fn is_plausible(table: &Table<'_>, variant: &Variant) -> Found {
    let runs = table.runs(variant);
    let sum = |value: fn(&Figures) -> f64| runs.iter().map(|figures| value(figures)).sum::<f64>();
    let mean = |value: fn(&Figures) -> f64| sum(value) / runs.len() as f64;
    let (requests, seconds) =
        (sum(|figures| figures.requests as f64), sum(|figures| figures.measured_seconds));
    let mut alarms: Vec<String> = Vec::new();
    let mut alarm = |found: Option<plausible::Alarm>| alarms.extend(found.map(|alarm| alarm.to_string()));
    let rate = requests / seconds.max(1e-9);
    let asked = runs[0].outstanding;
    if let Some(asked) = asked {
        let waited = sum(|figures| figures.latency_mean_nanos.unwrap_or(0.0) * figures.requests as f64);
        let latency = Duration::from_nanos((waited / requests.max(1.0)) as u64);
        let longest = sum(|figures| figures.max_nanos.or(figures.p99_nanos).unwrap_or(0) as f64) / 1e9;
        alarm(plausible::outstanding(
            under_way(asked as f64, rate, latency, longest / seconds),
            rate,
            latency,
        ));
        // An open loop counts the time until the next request as processor time.
        let cores = table.cores.max(1) as f64;
        let busy = mean(|figures| figures.client_busiest).max(mean(|figures| figures.client_cores) / cores);
        alarm(plausible::client_busy(100.0 * busy));
    }
    let expected: Option<f64> = runs.iter().map(|figures| figures.bytes_expected).sum();
    if let Some(expected) = expected {
        let moved = runs.iter().map(|figures| figures.bytes).sum::<u64>();
        alarm(plausible::bytes(requests as u64, expected / requests.max(1.0), moved));
    }
    if variant.load.io().is_some() {
        runs.iter().for_each(|figures| alarm(below_client(figures)));
    }
    if let Some(late) =
        runs.iter().find(|figures| figures.is_behind() && figures.depth_used_up < DEPTH_USED_UP)
    {
        alarms.push(format!(
            "of {} requests a second that were to be offered it made {}; the load generator did not keep up",
            count(late.offered_per_second.unwrap_or(0.0)),
            count(late.per_second())
        ));
    }
    let levels = runs.iter().filter_map(|figures| figures.database.as_ref()?.level.as_ref());
    alarms.extend(levels.filter_map(LevelFigures::miss).next());
    if alarms.is_empty() {
        Found::Good
    } else {
        Found::Bad(format!("{}: {}", variant.name, alarms.join(", ")))
    }
}

/// Bytes that the client counted in the measured time and the array, which looked for longer, never saw.
fn below_client(figures: &Figures) -> Option<plausible::Alarm> {
    let pool = figures.pool?;
    let seen = (pool.host_read_bytes + pool.host_written_bytes) as f64;
    let asked = figures.bytes as f64;
    (seen < SEEN_SHARE * asked).then(|| plausible::device_counter(asked, seen, SEEN_SHARE..=1.0)).flatten()
}

/// What was asked for; more, as far as requests that were under way when counting began explain it: they
/// count with the time before.
fn under_way(asked: f64, rate: f64, latency: Duration, share_before: f64) -> f64 {
    let measured = rate * latency.as_secs_f64();
    measured.clamp(asked, asked * (1.0 + share_before.max(0.0)))
}

/// What a ratio is held against.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Equal(f64),
}

fn ratios(table: &Table<'_>, of: &Metric, bound: Bound) -> Vec<Found> {
    let ashlar_scenario::Over::Ratio(one, other) = &of.over else { return Vec::new() };
    let percent = if let Bound::Equal(share) = bound { 100.0 * share } else { 0.0 };
    let judge = |(of_variant, to)| {
        let common = metrics::in_common(of_variant, to);
        let of_variant: &Variant = of_variant;
        let place = match common.as_str() {
            "" => of_variant.target.id.clone(),
            common => format!("{common} on {}", of_variant.target.id),
        };
        let Some((estimate, found)) = table.compare((of_variant, to), of.measured, percent) else {
            return Found::Unknown(format!("{place} was not measured"));
        };
        let missing =
            if let Comparison::CannotTell { more_runs } = found.verdict { Some(more_runs) } else { None };
        held_against(&place, estimate, bound, missing)
    };
    metrics::pairs(table, one, other).into_iter().map(judge).collect()
}

/// The whole interval decides.
fn held_against(place: &str, estimate: Estimate, bound: Bound, missing: Option<usize>) -> Found {
    let Some((low, high)) = estimate.interval else {
        let needed = more(missing.unwrap_or(1));
        return Found::Unknown(format!("{place} is {:.2} without an interval: {needed}", estimate.value));
    };
    let (least, most) = match bound {
        Bound::AtLeast(least) => (least, f64::INFINITY),
        Bound::AtMost(most) => (0.0, most),
        Bound::Equal(share) => (1.0 / (1.0 + share), 1.0 + share),
    };
    let interval = if low < high { format!(" ({low:.2} to {high:.2})") } else { String::new() };
    let told = format!("{place} is {:.2}{interval}", estimate.value);
    if low >= least && high <= most {
        Found::Good
    } else if high < least || low > most {
        Found::Bad(told)
    } else {
        // How many would decide it is known only of equality.
        let helps = missing.filter(|_| matches!(bound, Bound::Equal(_)));
        Found::Unknown(helps.map_or(told.clone(), |runs| format!("{told}: {}", more(runs))))
    }
}
