//! The sums behind a bill, so that a reader can check each: for a terminal, a browser and a page of text.

use ashlar_report::{Page, count, digits};
use ashlar_scenario::{Amount, Bill, Load, Per, Variant};

use super::{BillFigures, FoundRate};
use crate::Outcome;
use crate::text::{cell, many, wrapped};

/// A sum: of which array, what it is, how it was made, and what it comes to.
struct Sum {
    array: String,
    what: String,
    formula: String,
    value: String,
}

const HEADER: [&str; 4] = ["Array", "What", "How", "Comes to"];

impl Outcome {
    /// Of a scenario that is worked out, and not run.
    pub(crate) fn is_calculated(&self) -> bool {
        self.outline.scenario.is_calculated()
    }

    fn bills(&self) -> impl Iterator<Item = (&Variant, &Bill, &BillFigures)> {
        self.outline.plan.variants.iter().filter_map(|variant| {
            let Load::Bill(bill) = &variant.load else { return None };
            let run = self.runs.iter().find(|run| run.variant == variant.name)?;
            Some((variant, bill, run.bill.as_ref()?))
        })
    }

    fn sums(&self) -> Vec<Sum> {
        self.bills()
            .flat_map(|(variant, bill, found)| sums(&variant.entries.join("-"), bill, found))
            .collect()
    }

    /// Where rates are from, and what else stands behind the sums.
    fn sources(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (_, _, found) in self.bills() {
            let rates = [(&found.transactions, "transactions"), (&found.requests, "requests")];
            for (rate, unit) in rates {
                told.extend(rate.as_ref().map(|rate| source(rate, unit)));
            }
        }
        told.extend(self.doubts());
        let has = |is_there: fn(&BillFigures) -> bool| self.bills().all(|(_, _, found)| is_there(found));
        let wanted = self.outline.scenario.rates_of().join(" or ");
        if !has(|found| found.transactions.is_some()) || !has(|found| found.requests.is_some()) {
            told.push(format!(
                "What is not told for each TPS or IOPS needs a result: name its directory with --result (of {wanted})."
            ));
        }
        told
    }

    /// Results that rates are from and that are none to rely on, each once.
    fn doubts(&self) -> Vec<String> {
        let rates = self.bills().flat_map(|(_, _, found)| [&found.transactions, &found.requests]).flatten();
        let doubt = |rate: &FoundRate| {
            let why = rate.doubt.as_ref()?;
            Some(format!("{} is a part, or no valid result: {why}.", rate.directory.display()))
        };
        let mut doubts: Vec<String> = rates.filter_map(doubt).collect();
        doubts.sort();
        doubts.dedup();
        doubts
    }

    /// Under the checks, on a terminal.
    pub(crate) fn bill_text(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (variant, bill, found) in self.bills() {
            lines.push(format!("\n{} ({} values):", variant.entries.join("-"), bill.values));
            for sum in sums("", bill, found) {
                let made = if sum.formula.is_empty() { String::new() } else { format!("{} = ", sum.formula) };
                lines.push(format!("  {:<34}{made}{}", sum.what, sum.value));
            }
        }
        lines.push(String::new());
        lines.extend(self.sources().iter().map(|source| wrapped(source, 0)));
        lines
    }

    pub(crate) fn bill_markdown(&self) -> Vec<String> {
        let mut lines = vec![
            format!("\nHow it comes to that ({} values):\n", self.values()),
            format!("| {} |\n| --- | --- | --- | --- |", HEADER.join(" | ").to_lowercase()),
        ];
        for sum in self.sums() {
            let cells = [&sum.array, &sum.what, &sum.formula, &sum.value].map(|text| cell(text));
            lines.push(format!("| {} |", cells.join(" | ")));
        }
        lines.push(String::new());
        lines.extend(self.sources().iter().map(|source| format!("- {source}")));
        lines
    }

    pub(crate) fn bill(&self, page: &mut Page) {
        page.heading(&format!("The parts ({} values)", self.values()));
        let mut rows = Vec::new();
        for (variant, bill, _) in self.bills() {
            for piece in &bill.parts {
                let value = |amount| number(piece.each(amount));
                let mut row = vec![variant.entries.join("-"), piece.name.clone(), piece.count.to_string()];
                let of = [Amount::RackUnits, Amount::WattsIdle, Amount::WattsBusy, Amount::Price];
                row.extend(of.map(value));
                row.push(value(Amount::UsableTerabytes));
                rows.push(row);
            }
        }
        let header =
            ["Array", "Part", "Count", "Rack units each", "Watts idle", "Watts busy", "Price", "Usable TB"];
        page.table(&header, &[2, 3, 4, 5, 6, 7], &rows);
        page.heading(&format!("What they come to ({} values)", self.values()));
        let rows: Vec<Vec<String>> =
            self.sums().into_iter().map(|sum| vec![sum.array, sum.what, sum.formula, sum.value]).collect();
        page.table(&HEADER, &[3], &rows);
        page.list(&self.sources());
    }

    /// The options that name the results whose rates were taken.
    pub(crate) fn results_named(&self) -> String {
        let mut named: Vec<String> = self
            .bills()
            .flat_map(|(_, _, found)| [&found.transactions, &found.requests])
            .flatten()
            .map(|rate| format!(" --result {}", rate.directory.display()))
            .collect();
        named.sort();
        named.dedup();
        named.concat()
    }

    /// What the values are, in a word.
    pub(crate) fn values(&self) -> String {
        self.bills().next().map_or(String::new(), |(_, bill, _)| bill.values.clone())
    }
}

/// A rate and the result that it is from.
fn source(rate: &FoundRate, unit: &str) -> String {
    format!(
        "{}: {} {unit} a second on {}, the mean of {} of {} at preset {} in {}.",
        rate.entry,
        count(rate.per_second),
        rate.target,
        many(rate.runs, "run"),
        rate.scenario,
        rate.preset,
        rate.directory.display()
    )
}

fn sums(array: &str, bill: &Bill, found: &BillFigures) -> Vec<Sum> {
    let sum = |what: &str, formula: String, value: String| Sum {
        array: array.to_string(),
        what: what.to_string(),
        formula,
        value,
    };
    let mut sums = Vec::new();
    for amount in [&Amount::ALL[..], &[Amount::UsableTerabytes]].concat() {
        let terms: Vec<String> = bill.parts.iter().filter_map(|piece| piece.term(amount)).collect();
        sums.push(sum(
            amount.in_words(Per::Whole),
            terms.join(" + "),
            told(amount, found.whole(amount), bill),
        ));
    }
    for per in &Per::ALL[1..] {
        for amount in Amount::ALL.into_iter().filter(|amount| *amount != Amount::WattsIdle) {
            let value = found.value(amount, *per);
            let (by, lacks) = divisor(*per, found);
            let formula = by.map_or(String::new(), |by| format!("{} / {by}", number(found.whole(amount))));
            let value = value.map_or(lacks.to_string(), |value| told(amount, value, bill));
            sums.push(sum(amount.in_words(*per), formula, value));
        }
    }
    sums
}

/// What is divided by, in words; what it lacks where it cannot be told.
fn divisor(per: Per, found: &BillFigures) -> (Option<String>, &'static str) {
    let rate = |found: &Option<FoundRate>| found.as_ref().map(|rate| rate.per_second);
    match per {
        Per::Whole => (None, ""),
        Per::Transaction => {
            (rate(&found.transactions).map(|rate| format!("{} TPS", number(rate))), "needs a result with TPS")
        }
        Per::ThousandRequests => (
            rate(&found.requests).map(|rate| format!("({} IOPS / 1,000)", number(rate))),
            "needs a result with IOPS",
        ),
        Per::Terabyte => (Some(format!("{} TB", number(found.usable_terabytes))), "needs usable capacity"),
        Per::ReducedTerabyte => (
            Some(format!("({} TB x {})", number(found.usable_terabytes), found.reduction)),
            "needs usable capacity",
        ),
    }
}

fn told(amount: Amount, value: f64, bill: &Bill) -> String {
    let unit = match amount {
        Amount::WattsBusy | Amount::WattsIdle => "W",
        Amount::RackUnits => "U",
        Amount::Price => &bill.currency,
        Amount::UsableTerabytes => "TB",
    };
    format!("{} {unit}", number(value))
}

/// Whole numbers whole, others with the digits that count: they are to be checked.
fn number(value: f64) -> String {
    match value {
        whole if whole.fract() == 0.0 => digits(whole as u64),
        small if small < 0.1 => format!("{small:.4}"),
        some if some < 100.0 => format!("{some:.2}"),
        many => digits(many.round() as u64),
    }
}
