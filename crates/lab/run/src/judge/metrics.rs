//! The four forms of a metric, worked out on each target.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use ashlar_scenario::{Measured, Metric, OVER, Over, Variant};
use ashlar_statistics::compare::Better;
use serde::Serialize;

use super::{Estimate, Table, better};
use crate::figures::Figures;

/// A metric on one target, or of one combination of the other axes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    pub target: String,
    /// The variant it is of; of a ratio, what both have in common.
    pub of: String,
    pub estimate: Option<Estimate>,
}

/// The rows of a metric; none where nothing it names was measured.
#[must_use]
pub(crate) fn rows(table: &Table<'_>, metric: &Metric) -> Vec<Row> {
    let measured = metric.measured;
    match &metric.over {
        Over::Every => best(table, measured, |_| true),
        Over::Entry(entry) => best(table, measured, |variant| variant.entries.contains(entry)),
        Over::Under(bound) => best(table, measured, |variant| is_under(table, variant, *bound)),
        Over::Ratio(of, to) => pairs(table, of, to)
            .into_iter()
            .map(|(of, to)| Row {
                target: of.target.id.clone(),
                of: in_common(of, to),
                estimate: table.compare((of, to), measured, 0.0).map(|(estimate, _)| estimate),
            })
            .collect(),
    }
}

/// The best variant on each target, of those that count.
fn best(table: &Table<'_>, measured: Measured, counts: impl Fn(&Variant) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut told = BTreeSet::new();
    for target in table.plan.variants.iter().map(|variant| &variant.target.id) {
        if !told.insert(target) {
            continue;
        }
        let found = table
            .plan
            .variants
            .iter()
            .filter(|variant| variant.target.id == *target && counts(variant))
            .filter_map(|variant| Some((variant, table.estimate(variant, measured)?)));
        let by_value = |one: &(&Variant, Estimate), other: &(&Variant, Estimate)| -> Ordering {
            let order = one.1.value.total_cmp(&other.1.value);
            if better(measured) == Better::Higher { order } else { order.reverse() }
        };
        let row = |(variant, estimate): (&Variant, Estimate)| Row {
            target: target.clone(),
            of: variant.entries.join("-"),
            estimate: Some(estimate),
        };
        rows.push(
            found
                .max_by(by_value)
                .map_or_else(|| Row { target: target.clone(), of: String::new(), estimate: None }, row),
        );
    }
    rows
}

/// In every run, and known in every run.
fn is_under(table: &Table<'_>, variant: &Variant, bound: Duration) -> bool {
    let runs = table.runs(variant);
    let is_kept = |figures: &Figures| {
        !figures.is_behind() && figures.p99_nanos.is_some_and(|nanos| u128::from(nanos) < bound.as_nanos())
    };
    !runs.is_empty() && runs.iter().all(|figures| is_kept(figures))
}

/// Variants with the one entry and with the other, alike in all else.
pub(super) fn pairs<'a>(table: &Table<'a>, of: &str, to: &str) -> Vec<(&'a Variant, &'a Variant)> {
    let with = |entry: &str| {
        let entry = entry.to_string();
        table.plan.variants.iter().filter(move |variant| variant.entries.contains(&entry))
    };
    let others = |variant: &'a Variant, entry: &str| -> Vec<&'a String> {
        variant.entries.iter().filter(|id| *id != entry).collect()
    };
    // An entry that brings its own target is compared with the other on every target of the user.
    // One that lies over a target of the user is compared with that one.
    let is_over = |one: &Variant, other: &Variant| {
        one.target.address.split_once(OVER).is_some_and(|(_, below)| below == other.target.address)
    };
    let is_own = |variant: &Variant| variant.entries.contains(&variant.target.id);
    let mut pairs = Vec::new();
    for one in with(of) {
        for other in with(to) {
            let is_same_place = one.target == other.target || is_own(one) || is_own(other) || {
                is_over(one, other) || is_over(other, one)
            };
            if is_same_place && others(one, of) == others(other, to) {
                pairs.push((one, other));
            }
        }
    }
    pairs
}

/// The entries that both variants have.
pub(super) fn in_common(one: &Variant, other: &Variant) -> String {
    let common: Vec<&str> =
        one.entries.iter().filter(|entry| other.entries.contains(entry)).map(String::as_str).collect();
    common.join("-")
}
