//! Outlines, what is kept, and results of runs that were never made: figures made up for each verdict.

use std::fs;

use ashlar_fio::Second;
use ashlar_scenario::{Preset, Scenario, Target};
use ashlar_target::{Footing, Machine};

use crate::figures::Figures;
use crate::record::{Begun, Records, Site};
use crate::{Answer, ErrorKind, Outcome, Outline, Verdict};

pub(crate) const MACHINE: fn() -> Machine = || Machine {
    processor: "p".into(),
    cores: 2,
    memory_bytes: 8 << 30,
    kernel: "6".into(),
    hypervisor: String::new(),
};

/// Two operations by two depths, three times; `rest` has checks and what was published.
pub(crate) fn text(rest: &str) -> String {
    format!(
        "format = 1\nid = \"test/small\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"1h\"\n\
         workload = {{ kind = \"io\", data = \"64MiB\", outstanding = 1, content = {{ compress = 1 }} }}\n\
         phases = {{ warmup = \"1s\", measure = \"6s\", repeat = 3 }}\n\
         [[matrix.test]]\nid = \"read\"\nmix = [{{ op = \"read\", pattern = \"random\", bs = \"4k\", share = 1 }}]\n\
         [[matrix.test]]\nid = \"write\"\nmix = [{{ op = \"write\", pattern = \"random\", bs = \"4k\", share = 1 }}]\n\
         [[matrix.depth]]\nid = \"d1\"\noutstanding = 1\n[[matrix.depth]]\nid = \"d4\"\noutstanding = 4\n{rest}"
    )
}

pub(crate) fn outline(text: &str, targets: &[&str]) -> crate::Result<Outline> {
    let scenario = Scenario::parse(text).unwrap();
    let target = |id: &&str| Target::new(*id, format!("/{id}"));
    let targets: Vec<Target> = targets.iter().map(target).collect();
    crate::outline(&scenario, Preset::S, 1, &targets, crate::machine(&MACHINE()))
}

/// A run that breaks no rule: so many requests a second, with the latency that belongs to what is under way.
pub(crate) fn figures(outline: &Outline, variant: &str, repetition: u64, per_second: f64) -> Figures {
    let of_plan = outline.plan.variants.iter().find(|one| one.name == variant).unwrap();
    let load = of_plan.load.io().unwrap();
    let latency = load.outstanding as f64 / per_second * 1e9;
    let requests = (per_second * 6.0) as u64;
    let moment = |second: u32| Second {
        at_seconds: f64::from(second),
        requests: per_second,
        latency_nanos: Some(latency),
    };
    Figures {
        id: format!("r{repetition}-{variant}"),
        repetition,
        variant: variant.into(),
        target: of_plan.target.id.clone(),
        measured_seconds: 6.0,
        requests,
        bytes: requests * 4096,
        bytes_expected: Some(requests as f64 * 4096.0),
        latency_mean_nanos: Some(latency),
        p50_nanos: Some(latency as u64),
        p99_nanos: Some(latency as u64 * 2),
        outstanding: Some(load.outstanding),
        course: (1..=6).map(moment).collect(),
        ..Figures::default()
    }
}

/// All runs of a plan, each as fast as `rate` says of its variant and repetition.
pub(crate) fn all(outline: &Outline, rate: impl Fn(&str, u64) -> f64) -> Vec<Figures> {
    let runs = outline.plan.runs.iter();
    runs.map(|run| {
        let name = &outline.plan.variants[run.variant].name;
        figures(outline, name, run.repetition, rate(name, run.repetition))
    })
    .collect()
}

fn begun(text: &str, targets: &[&str]) -> Begun {
    let footing = || Footing {
        file_system: "ext4".into(),
        source: "/dev/x".into(),
        options: "rw".into(),
        devices: Vec::new(),
        pool: None,
    };
    Begun {
        format: Begun::FORMAT,
        source: "test/small".into(),
        text: text.into(),
        preset: "s".into(),
        seed: 1,
        targets: targets
            .iter()
            .map(|id| Site {
                id: id.to_string(),
                address: format!("/{id}"),
                footing: footing(),
                space_bytes: None,
                log: None,
            })
            .collect(),
        machine: MACHINE(),
        fio: "fio-3".into(),
        version: "0".into(),
        begun_unix_seconds: 1_700_000_000,
        logs: Vec::new(),
        keeps_bases: false,
        kept: None,
        rates: Vec::new(),
    }
}

pub(crate) fn outcome(rest: &str, change: impl Fn(&mut Vec<Figures>)) -> Outcome {
    let text = text(rest);
    let outline = outline(&text, &["a", "b"]).unwrap();
    let mut runs = all(&outline, |name, repetition| {
        1000.0 * if name.contains("d4") { 2.0 } else { 1.0 } + repetition as f64
    });
    change(&mut runs);
    Outcome::from(begun(&text, &["a", "b"]), outline, runs, None, "dir".into())
}

const CHECKS: &str = "[[published]]\nmetric = \"iops(read)\"\nvalue = 700000\nnote = \"more than\"\n\
    [[check]]\nkind = \"ratio\"\nof = \"iops.ratio(d4/d1)\"\nat_least = 1.5\n\
    [[check]]\nkind = \"steady\"\n[[check]]\nkind = \"plausible\"\n";

#[test]
fn a_whole_result_whose_checks_pass_says_so_in_every_form() {
    let outcome = outcome(CHECKS, |_| {});
    assert_eq!((outcome.verdict, outcome.complaint()), (Verdict::Passed, None));
    assert!(
        outcome.answer.starts_with("At most 2,002 requests a second on a (read-d4) and"),
        "{}",
        outcome.answer
    );
    assert!(
        outcome.answer.contains("published: 700,000 requests a second (more than). All 3 checks passed.")
    );
    let page = outcome.html();
    assert!(page.contains("<svg") && page.contains("700,000 \u{2192}") && page.contains("Does it hold?"));
    for told in [&page, &outcome.markdown(), &outcome.junit(), &outcome.csv()] {
        assert!(!told.contains("NaN") && !told.contains("inf,") && !told.contains("http"), "{told}");
    }
    assert!(outcome.junit().contains("tests=\"3\" failures=\"0\" errors=\"0\""));
    assert_eq!(outcome.csv().lines().count(), 1 + 24);
}

#[test]
fn a_part_is_told_as_a_part_whatever_its_checks_say() {
    let half = outcome(CHECKS, |runs| runs.truncate(12));
    assert_eq!(half.verdict, Verdict::NotValid);
    let complaint = half.complaint().unwrap();
    assert!(
        complaint.contains("12 of 24 runs were made") && complaint.contains("lab resume dir"),
        "{complaint}"
    );
    assert!(half.html().contains("This is a part of the experiment: 12 of 24"));
    let nothing = outcome(CHECKS, Vec::clear);
    assert!(nothing.answer.starts_with("At most nothing on a"), "{}", nothing.answer);
    assert!(nothing.checks.iter().all(|check| check.answer == Answer::CannotTell));
    assert!(!nothing.html().contains("NaN"));
}

#[test]
fn a_failed_check_counts_only_in_a_valid_result() {
    let slow = |runs: &mut Vec<Figures>| runs.iter_mut().for_each(|figures| figures.requests = 6000);
    let rest = CHECKS.replace("[[check]]\nkind = \"plausible\"\n", "");
    let failed = outcome(&rest, slow);
    assert_eq!(failed.verdict, Verdict::Failed, "{:?}", failed.checks);
    assert!(
        failed
            .complaint()
            .unwrap()
            .starts_with("d4 against d1 (requests a second): it does not hold for 4 of 4 pairs")
    );
    assert!(failed.junit().contains("failures=\"1\""));
    let unsteady = outcome(&rest, |runs| {
        slow(runs);
        runs[3].course[5].requests = 10.0;
    });
    assert_eq!(unsteady.verdict, Verdict::NotValid);
    assert!(unsteady.html().contains("not a valid result, because the check that it is steady did not pass"));
    assert!(!failed.html().contains("not a valid result"));
    let complaint = unsteady.complaint().unwrap();
    assert!(
        complaint.starts_with("no valid result: steady: it does not hold for 1 of 24 runs"),
        "{complaint}"
    );
}

#[test]
fn a_check_that_cannot_be_told_is_not_passed() {
    let one_pair = outcome(CHECKS, |runs| runs.retain(|figures| figures.repetition == 1));
    let ratio = one_pair.checks.iter().find(|check| check.name.contains("against")).unwrap();
    assert_eq!(ratio.answer, Answer::CannotTell);
    assert!(
        ratio.found.contains("without an interval: about 2 more repetitions would help"),
        "{}",
        ratio.found
    );
    let only = "[[check]]\nkind = \"ratio\"\nof = \"iops.ratio(d4/d1)\"\nat_least = 2.0\n";
    let close = outcome(only, |_| {});
    assert_eq!(
        close.verdict,
        Verdict::NotValid,
        "1.998 and its interval lie on both sides: {:?}",
        close.checks
    );
}

#[test]
fn a_run_is_left_until_its_figures_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    let outline = outline(&text(""), &["a"]).unwrap();
    let left = || records.left(&outline.plan).len();
    assert_eq!(left(), 12);
    let run = &outline.plan.runs[0];
    crate::record::make(&records.run(&run.id)).unwrap();
    assert_eq!(left(), 12, "a directory without figures is a run that was cut off");
    fs::write(records.run(&run.id).join("run.json"), "{\"id\": \"r1").unwrap();
    assert_eq!(left(), 12, "half of the figures are none");
    let name = &outline.plan.variants[run.variant].name;
    let made = figures(&outline, name, run.repetition, 1234.5);
    records.keep_figures(&made).unwrap();
    assert_eq!((left(), records.figures(&run.id)), (11, Some(made)));
}

#[test]
fn what_is_kept_gives_the_same_plan_and_the_same_result_again() {
    let text = text(CHECKS);
    let begun = begun(&text, &["a", "b"]);
    let again: Begun = serde_json::from_str(&crate::record::json(&begun)).unwrap();
    let outlines = [begun.outline().unwrap(), again.outline().unwrap()];
    assert_eq!(outlines[0].plan, outlines[1].plan);
    let told = |outline: &Outline| {
        let runs = all(outline, |_, repetition| 900.0 + repetition as f64 / 3.0);
        Outcome::from(begun.clone(), outline.clone(), runs, None, String::new()).html()
    };
    assert_eq!(told(&outlines[0]), told(&outlines[1]));
}

#[test]
fn two_runs_do_not_work_in_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    assert!(records.hold().unwrap_err().context.contains("plan.json"));
    fs::write(records.at("plan.json"), "{}").unwrap();
    let held = records.hold().unwrap();
    assert!(records.hold().unwrap_err().context.contains("another run works in it"));
    drop(held);
    assert!(records.hold().is_ok());
}

#[test]
fn what_needs_several_volumes_is_left_out_and_said() {
    let layouts = "[[matrix.place]]\nid = \"one\"\n[[matrix.place]]\nid = \"four\"\nlayout = { volumes = 4 }\n\
        [[check]]\nkind = \"ratio\"\nof = \"iops.ratio(four/one)\"\nat_least = 1\n";
    let part = outline(&text(&format!("{layouts}{CHECKS}")), &["a"]).unwrap();
    assert!(part.plan.variants.iter().all(|variant| variant.entries[2] == "one"));
    assert_eq!((part.plan.variants.len(), part.scenario.checks.len()), (4, 3));
    assert!(
        part.left_out[0].contains("one volume: four") && part.left_out[1].contains("four/one"),
        "{part:?}"
    );
    let nothing = outline(&text(layouts), &["a"]).unwrap_err();
    assert!(nothing.kind == ErrorKind::Environment && nothing.context.contains("nothing can be run there"));
    let striped = text("").replace("compress = 1 }", "compress = 1 }, layout = { volumes = 2 }");
    assert!(outline(&striped, &["a"]).unwrap_err().context.contains("nothing can be run there"));
}

#[test]
fn targets_have_ids_from_their_addresses_and_other_kinds_are_refused() {
    let ids = |named: &[&str]| {
        let named: Vec<String> = named.iter().map(|name| name.to_string()).collect();
        crate::targets(&named).map(|targets| targets.into_iter().map(|target| target.id).collect::<Vec<_>>())
    };
    assert_eq!(ids(&["/mnt/My DB", "/srv/x", "block:/dev/sdx", "/"]).unwrap(), ["my-db", "x", "sdx", "root"]);
    assert_eq!(ids(&["/a/data", "/b/data", "/c/data"]).unwrap(), ["data", "data-2", "data-3"]);
    assert!(ids(&["./da:ta"]).is_ok(), "a path may hold a colon");
    assert!(ids(&["/a", "/a/"]).unwrap_err().context.contains("twice"));
    let uri = "nbd+unix:///sales?socket=/run/nbd.sock";
    let others = ["ashlar:main", "ashlar:main/db", uri, "sim-hdd:drives=2"];
    assert_eq!(ids(&others).unwrap(), ["ashlar-main", "db", "sales", "simulated-hdd"]);
    let refused = ids(&["iscsi://portal/x"]).unwrap_err().context;
    assert!(
        refused.contains("no targets of the kind `iscsi`") && refused.contains("ashlar:POOL"),
        "{refused}"
    );
}

#[test]
fn several_volumes_are_asked_of_a_pool_and_of_no_directory_beside_it() {
    let layouts = "[[matrix.layout]]\nid = \"one\"\n\
        [[matrix.layout]]\nid = \"four\"\nlayout = { volumes = 4, map = \"stripe\", unit = \"64k\" }\n";
    let scenario = Scenario::parse(&text(layouts)).unwrap();
    let target = |id: &str, address: &str| Target::new(id, address);
    let targets = [target("db", "ashlar:main/db"), target("dir", "/dir")];
    let outline = crate::outline(&scenario, Preset::S, 1, &targets, crate::machine(&MACHINE())).unwrap();
    assert!(outline.plan.variants.iter().all(|variant| variant.target.id == "db"));
    assert!(outline.plan.variants.iter().any(|variant| variant.entries.contains(&"four".to_string())));
    assert_eq!(outline.left_out, ["Not run on /dir: it takes several volumes, and each of these is one."]);
}

#[test]
fn a_volume_and_a_file_system_on_it_are_asked_of_a_pool() {
    let layouts = "[[matrix.layout]]\nid = \"raw\"\nlayout = { file_system = \"none\" }\n\
        [[matrix.layout]]\nid = \"ext4\"\nlayout = { file_system = \"ext4\" }\n";
    let scenario = Scenario::parse(&text(layouts)).unwrap();
    let target = |id: &str, address: &str| Target::new(id, address);
    let outline =
        |targets: &[Target]| crate::outline(&scenario, Preset::S, 1, targets, crate::machine(&MACHINE()));
    let both = outline(&[target("pool", "ashlar:main"), target("dir", "/dir")]).unwrap();
    assert_eq!(both.left_out, ["Not run on /dir: it makes volumes, with a file system and without one."]);
    assert_eq!(both.plan.variants.len(), 2 * 2 * 2);
    // Even the half that is called raw: a directory has a file system below it.
    let nothing = outline(&[target("dir", "/dir")]).unwrap_err().context;
    assert!(nothing.contains("only a pool has them"), "{nothing}");
}

#[test]
fn a_database_runs_where_there_is_a_file_system() {
    let text = "format = 1\nid = \"test/db\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"1h\"\n\
        engine = { kind = \"postgres\", memory = { invariant = \"data/4\" } }\n\
        workload = { kind = \"orders\", warehouses = 2, users = 8 }\n\
        phases = { warmup = \"1s\", measure = \"6s\", repeat = 3 }\n";
    let scenario = Scenario::parse(text).unwrap();
    let target = |id: &str, address: &str| Target::new(id, address);
    let outline =
        |targets: &[Target]| crate::outline(&scenario, Preset::S, 1, targets, crate::machine(&MACHINE()));
    let both = outline(&[target("sdx", "block:/dev/sdx"), target("dir", "/dir")]).unwrap();
    assert_eq!(both.left_out, ["Not run on block:/dev/sdx: a database needs a file system."]);
    let ashlar_scenario::Load::Database(load) = &both.plan.variants[0].load else { panic!("a database") };
    assert_eq!(load.base.memory.unwrap().0, load.base.tables.size_bytes() / 4);
    let nothing = outline(&[target("sdx", "block:/dev/sdx")]).unwrap_err().context;
    assert!(nothing.contains("a database needs a file system"), "{nothing}");
    let without = Scenario::parse(
        &text.replace("engine = { kind = \"postgres\", memory = { invariant = \"data/4\" } }\n", ""),
    );
    let targets = [target("dir", "/dir")];
    let refused = crate::outline(&without.unwrap(), Preset::S, 1, &targets, crate::machine(&MACHINE()));
    assert!(refused.unwrap_err().context.contains("[engine] kind"));
}
