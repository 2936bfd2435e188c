//! Sums, ratios, and rates of another result.

use ashlar_scenario::{Preset, Scenario};

use super::*;
use crate::record::Begun;
use crate::tests::{MACHINE, outcome};
use crate::{Answer, Verdict};

/// Two arrays whose entries are called as those of the result that tells their rates.
const TEXT: &str = "format = 1\nid = \"test/bill\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"1m\"\n\
    workload = { kind = \"bill\", values = \"illustrative\", currency = \"USD\", rates_of = [\"test/small\"] }\n\
    [[matrix.array]]\nid = \"read\"\nreduction = 2\n\
    parts = [{ name = \"box\", count = 2, units = 3, watts_idle = 50, watts_busy = 100, price = 5000, usable = \"4TB\" }]\n\
    [[matrix.array]]\nid = \"write\"\n\
    parts = [{ name = \"box\", count = 8, units = 3, watts_idle = 50, watts_busy = 100, price = 1250 }]\n";

const CHECKS: &str = "[[check]]\nkind = \"ratio\"\nof = \"rack_units.ratio(read/write)\"\nat_most = 0.25\n\
    [[check]]\nkind = \"ratio\"\nof = \"price.ratio(read/write)\"\nequal_within = \"5%\"\n\
    [[check]]\nkind = \"ratio\"\nof = \"watts_busy.ratio(read/write)\"\nat_most = 0.2\n";

fn told(text: &str, rates: Vec<FoundRate>) -> Outcome {
    let scenario = Scenario::parse(text).unwrap();
    let outline =
        crate::outline(&scenario, Preset::S, 1, &[], crate::machine(&MACHINE())).expect("it needs no target");
    let run = |run: &Run| {
        let variant = &outline.plan.variants[run.variant];
        let Load::Bill(bill) = &variant.load else { panic!("a bill") };
        figures((run, variant), bill, &rates)
    };
    let runs = outline.plan.runs.iter().map(run).collect();
    let begun = Begun {
        format: Begun::FORMAT,
        source: "test/bill".into(),
        text: text.into(),
        preset: "s".into(),
        seed: 1,
        targets: Vec::new(),
        machine: MACHINE(),
        fio: String::new(),
        version: "0".into(),
        begun_unix_seconds: 1_700_000_000,
        logs: Vec::new(),
        keeps_bases: false,
        kept: None,
        rates,
    };
    Outcome::from(begun, outline, runs, None, "dir".into())
}

#[test]
fn ratios_of_sums_are_exact_and_judged_without_repetitions() {
    let found = told(&format!("{TEXT}{CHECKS}"), Vec::new());
    let answers: Vec<Answer> = found.checks.iter().map(|check| check.answer).collect();
    assert_eq!(answers, [Answer::Passed, Answer::Passed, Answer::Failed]);
    assert_eq!(found.verdict, Verdict::Failed);
    assert!(found.checks[2].found.contains("is 0.25") && !found.checks[2].found.contains("to"));
    assert!(found.answer.contains("0.25 on illustrative"), "{}", found.answer);
}

#[test]
fn every_sum_is_told_with_what_its_values_are_and_what_it_lacks() {
    let found = told(&format!("{TEXT}{CHECKS}"), Vec::new());
    for told in [found.text(), found.markdown(), found.html()] {
        for words in ["illustrative", "2 x 5000", "10,000", "needs a result with TPS", "--result"] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }
    assert!(found.text().contains("10,000 / 8 TB = 1,250 USD"), "{}", found.text());
    assert!(found.text().contains("10,000 / (8 TB x 2) = 625 USD"), "{}", found.text());
    assert!(found.text().contains("needs usable capacity"), "the other has none: {}", found.text());
}

#[test]
fn a_result_tells_what_the_arrays_do() {
    let of_result = outcome("", |_| {});
    let scenario = Scenario::parse(TEXT).unwrap();
    let rates = super::of_result(&scenario, &of_result, Path::new("/r"));
    assert_eq!(rates.len(), 2);
    // The best variant of the entry: four at a time, 2,002 a second on average.
    assert!(rates.iter().all(|rate| !rate.is_transactions && rate.per_second.round() == 2002.0), "{rates:?}");
    let found = told(TEXT, rates);
    assert!(found.text().contains("10,000 / (2,002 IOPS / 1,000) = "), "{}", found.text());
    let text = found.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("2,002 requests a second on a, the mean of 3 runs of test/small"), "{text}");
    assert!(found.html().contains("--result /r"), "how to repeat it");
}
