//! An array's parts as figures: what they come to, and for each thing that it does where a result tells.
//!
//! ```text
//! results named by the user ──▶ rates: kept in plan.json ──┐
//! the scenario's parts ────────────────────────────────────┴──▶ figures of a run ──▶ judged as all others
//! ```
//! Nothing is measured here. What a result was that a rate is from is kept with it.

use std::path::{Path, PathBuf};

use ashlar_scenario::{Amount, Bill, Load, Measured, Over, Per, Run, Scenario, Variant};
use serde::{Deserialize, Serialize};

use crate::figures::Figures;
use crate::judge::{Row, metric};
use crate::outcome::Outcome;
use crate::record::Records;
use crate::{Error, Outline, Result};

mod page;

/// What an array did in another experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FoundRate {
    /// Of both matrices.
    pub entry: String,
    /// Transactions; requests otherwise.
    pub is_transactions: bool,
    pub per_second: f64,
    pub runs: usize,
    /// The experiment it is from.
    pub scenario: String,
    pub preset: String,
    pub target: String,
    pub directory: PathBuf,
    /// Why that is a part, or no valid result.
    pub doubt: Option<String>,
}

/// What the parts of an array come to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BillFigures {
    /// Where the values come from: `illustrative`.
    pub values: String,
    pub currency: String,
    pub watts_busy: f64,
    pub watts_idle: f64,
    pub rack_units: f64,
    pub price: f64,
    pub usable_terabytes: f64,
    pub reduction: f64,
    pub transactions: Option<FoundRate>,
    pub requests: Option<FoundRate>,
}

impl BillFigures {
    /// `None` where it takes a result that was not given, or there is nothing to divide by.
    pub(crate) fn value(&self, amount: Amount, per: Per) -> Option<f64> {
        let rate = |found: &Option<FoundRate>| found.as_ref().map(|found| found.per_second);
        let by = match per {
            Per::Whole => Some(1.0),
            Per::Transaction => rate(&self.transactions),
            Per::ThousandRequests => rate(&self.requests).map(|rate| rate / 1000.0),
            Per::Terabyte => Some(self.usable_terabytes),
            Per::ReducedTerabyte => Some(self.usable_terabytes * self.reduction),
        };
        by.filter(|by| *by > 0.0).map(|by| self.whole(amount) / by)
    }

    pub(crate) fn whole(&self, amount: Amount) -> f64 {
        match amount {
            Amount::WattsBusy => self.watts_busy,
            Amount::WattsIdle => self.watts_idle,
            Amount::RackUnits => self.rack_units,
            Amount::Price => self.price,
            Amount::UsableTerabytes => self.usable_terabytes,
        }
    }
}

/// The figures of every run of a scenario that is worked out.
pub(crate) fn work_out(outline: &Outline, rates: &[FoundRate], records: &Records) -> Result<()> {
    for run in records.left(&outline.plan) {
        let variant = &outline.plan.variants[run.variant];
        if let Load::Bill(bill) = &variant.load {
            crate::record::make(&records.run(&run.id))?;
            records.keep_figures(&figures((run, variant), bill, rates))?;
        }
    }
    Ok(())
}

pub(crate) fn figures((run, variant): (&Run, &Variant), bill: &Bill, rates: &[FoundRate]) -> Figures {
    let rate = |is_transactions: bool| {
        let is_it = |found: &&FoundRate| {
            found.is_transactions == is_transactions && variant.entries.contains(&found.entry)
        };
        rates.iter().find(is_it).cloned()
    };
    let found = BillFigures {
        values: bill.values.clone(),
        currency: bill.currency.clone(),
        watts_busy: bill.whole(Amount::WattsBusy),
        watts_idle: bill.whole(Amount::WattsIdle),
        rack_units: bill.whole(Amount::RackUnits),
        price: bill.whole(Amount::Price),
        usable_terabytes: bill.whole(Amount::UsableTerabytes),
        reduction: bill.reduction,
        transactions: rate(true),
        requests: rate(false),
    };
    Figures { bill: Some(found), ..Figures::named(run, variant) }
}

/// What the results tell of the arrays of a scenario.
///
/// # Errors
/// When one is no result, or of an experiment that the scenario does not name.
pub(crate) fn found_rates(scenario: &Scenario, results: &[PathBuf]) -> Result<Vec<FoundRate>> {
    let wanted = scenario.rates_of();
    let mut rates: Vec<FoundRate> = Vec::new();
    for directory in results {
        let outcome = Outcome::of(&Records::new(directory))?;
        let told = |why: String| Error::environment(format!("--result {}: {why}", directory.display()));
        if !wanted.contains(&outcome.scenario.as_str()) {
            let takes = match wanted.as_slice() {
                [] => format!("{} takes no result", scenario.id),
                wanted => format!("{} takes one of {}", scenario.id, wanted.join(" or ")),
            };
            return Err(told(format!("it holds {}, and {takes}", outcome.scenario)));
        }
        let found = of_result(scenario, &outcome, directory);
        if found.is_empty() {
            return Err(told("nothing was measured there of what is asked for".into()));
        }
        let is_known = |one: &FoundRate| {
            let is_same = |other: &FoundRate| {
                (&other.entry, other.is_transactions) == (&one.entry, one.is_transactions)
            };
            rates.iter().any(is_same)
        };
        if let Some(twice) = found.iter().find(|one| is_known(one)) {
            return Err(told(format!(
                "another result tells the rate of `{}` already: name one",
                twice.entry
            )));
        }
        rates.extend(found);
    }
    Ok(rates)
}

/// The best rate of each entry that both have, and on which target it was.
fn of_result(scenario: &Scenario, outcome: &Outcome, directory: &Path) -> Vec<FoundRate> {
    let is_io = outcome.outline.plan.variants.iter().all(|variant| variant.load.io().is_some());
    let measured = if is_io { Measured::Iops } else { Measured::TransactionsPerSecond };
    let table = outcome.table();
    let best = |entry: &str| -> Option<Row> {
        let asked =
            ashlar_scenario::Metric { text: entry.into(), measured, over: Over::Entry(entry.to_string()) };
        let value = |row: &Row| row.estimate.map_or(0.0, |found| found.value);
        // Of equal ones the first.
        let rows = metric(&table, &asked).into_iter().rev();
        rows.max_by(|one, other| value(one).total_cmp(&value(other)))
    };
    let entries = scenario.matrix.iter().flat_map(|axis| &axis.entries);
    entries
        .filter_map(|entry| {
            let row = best(&entry.id)?;
            let found = row.estimate?;
            Some(FoundRate {
                entry: entry.id.clone(),
                is_transactions: !is_io,
                per_second: found.value,
                runs: found.runs,
                scenario: outcome.scenario.clone(),
                preset: outcome.plan.preset.clone(),
                target: row.target,
                directory: directory.to_path_buf(),
                doubt: outcome.partial.iter().chain(&outcome.invalid).next().cloned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
