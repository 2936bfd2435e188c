//! `ashlar lab`: what it measures, what it refuses, and that nothing of it stays.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Done, HOLDS, browser, can_attach, done, program};

fn lab(arguments: &[&str]) -> Done {
    done(Command::new(program()).arg("lab").args(arguments).stdin(Stdio::null()).output().unwrap())
}

/// A directory on a file system that takes direct I/O.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn a_directory_is_examined_and_left_as_it_was() {
    let (target, kept) = (directory(), directory());
    let (path, output) = (target.path().display().to_string(), kept.path().join("doctor"));
    let lab = |arguments: &[&str]| {
        let mut command = Command::new(program());
        done(
            command
                .arg("lab")
                .args(arguments)
                .current_dir(kept.path())
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    };
    let refused = lab(&["doctor", "--target", "/nowhere", "--output", "doctor"]);
    assert!(refused.status == 2 && !output.exists(), "{}", refused.err);
    let took = ["doctor", "--target", &path, "--time", "10s", "--size", "64MiB", "--output", "doctor"];
    let done = lab(&took);
    assert!([0, 4].contains(&done.status), "{}{}", done.out, done.err);
    assert!(
        done.out.contains("A commit waits") && done.out.contains("Does fsync reach the drive?"),
        "{}",
        done.out
    );
    assert!(done.err.contains("13/13") && done.err.contains("left)"), "how far it is: {}", done.err);
    assert!(is_empty(target.path()), "nothing stays");
    let json = std::fs::read_to_string(output.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(result["size_bytes"], 64 << 20);
    assert_eq!(result["steps"].as_array().unwrap().len(), 12);
    assert!(result["steps"].as_array().unwrap().iter().all(|step| step["requests"].as_u64().unwrap() > 0));
    assert_eq!(result["compared"]["wrong"], 0);
    assert!(result["compared"]["reads"].as_u64().unwrap() > 4000);
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("http"), "a page with pictures that needs no network");
    for step in ["fill", "commits", "load-50"] {
        assert!(
            output.join(format!("fio/{step}.fio")).is_file()
                && output.join(format!("fio/{step}.json")).is_file()
        );
    }
    let done = lab(&took);
    assert!(
        done.status == 2 && done.err.contains("doctor: File exists"),
        "results are never mixed: {}",
        done.err
    );
}

#[test]
fn what_cannot_be_examined_is_told_before_anything_is_written() {
    let target = directory();
    let path = target.path().display().to_string();
    let file = target.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let file = file.display().to_string();
    for (arguments, word) in [
        (&["--target", "/nowhere"][..], "No such file"),
        (&["--target", &file], "not a directory"),
        (&["--target", "block:/nowhere", "--destroy"], "No such file"),
        (&["--target", &format!("block:{file}"), "--destroy"], "not a block device"),
        (&["--target", &path, "--size", "16MiB"], "64.0 MiB are needed"),
        (&["--target", &path, "--size", "900TiB"], "are free"),
    ] {
        let done = lab(&[&["doctor"], arguments].concat());
        assert!(done.status == 2 && done.err.contains(word), "{arguments:?}: {} {}", done.status, done.err);
    }
    for wrong in ["--time=5s", "--time=ten", "--time=10", "--size=100"] {
        assert_eq!(lab(&["doctor", "--target", &path, wrong]).status, 2);
    }
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 1, "nothing but the file is there");
}

#[test]
fn a_device_is_overwritten_only_with_leave_and_when_nobody_uses_it() {
    if !can_attach() {
        return;
    }
    let array = support::Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "256MiB"]);
    let mount = array.path("mnt");
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount.display().to_string()]);
    let device = array.json(&["volume", "show", "db"])["device"].as_str().unwrap().to_string();
    let target = format!("block:{device}");
    for (arguments, word) in [
        (&["doctor", "--target", &target][..], "--destroy"),
        (&["doctor", "--target", &device], "block:/dev/"),
        (&["doctor", "--target", &target, "--destroy"], "mounted or in use"),
    ] {
        let done = lab(arguments);
        assert!(done.status == 2 && done.err.contains(word), "{arguments:?}: {}", done.err);
    }
    array.good(&["detach", "db"]);
    array.good(&["attach", "db"]);
    let device = array.json(&["volume", "show", "db"])["device"].as_str().unwrap().to_string();
    let target = format!("block:{device}");
    let done =
        lab(&["doctor", "--target", &target, "--destroy", "--time", "10s", "--size", "64MiB", "--json"]);
    assert!([0, 4].contains(&done.status), "{}{}", done.out, done.err);
    let result: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(result["compared"]["wrong"], 0);
    array.good(&["detach", "db"]);
}

#[test]
fn an_interruption_ends_it_with_what_was_measured() {
    let target = directory();
    let mut command = Command::new(program());
    command.args(["lab", "doctor", "--time", "5m", "--size", "64MiB", "--target"]).arg(target.path());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while is_empty(target.path()) && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(5));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let done = done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 3, "{}{}", done.out, done.err);
    assert!(begun.elapsed() < Duration::from_secs(60) && done.err.contains("interrupted"), "{}", done.err);
    assert!(done.out.contains("This is a part"), "{}", done.out);
    assert!(is_empty(target.path()), "nothing stays");
}

/// Two operations, twice each, a second at a time; `rest` has the checks.
fn scenario(at: &Path, measure: &str, repeat: u32, rest: &str) -> String {
    let text = format!(
        "format = 1\nid = \"test/tiny\"\ntitle = \"Reads and writes\"\nquestion = \"Is it fast?\"\nbudget = \"10m\"\n\
         workload = {{ kind = \"io\", data = \"16MiB\", outstanding = 4, content = {{ compress = 2 }} }}\n\
         phases = {{ warmup = \"0.2s\", measure = \"{measure}\", repeat = {repeat} }}\n\
         roles = {{ data = {{ files = 2 }} }}\n\
         [[matrix.test]]\nid = \"read\"\nmix = [{{ op = \"read\", pattern = \"random\", bs = \"8k\", share = 1 }}]\n\
         [[matrix.test]]\nid = \"write\"\nprecondition = \"aged\"\n\
         mix = [{{ op = \"write\", pattern = \"sequential\", bs = \"64k\", share = 1 }}]\n{rest}"
    );
    let file = at.join("tiny.toml");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

const PUBLISHED: &str = "[[published]]\nmetric = \"iops(read)\"\nvalue = 1e9\n";

/// Starts a run and sends it a signal when so many runs are made.
fn interrupted(arguments: &[&str], output: &Path, runs: usize) -> Done {
    let mut command = Command::new(program());
    command.arg("lab").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = Instant::now();
    while made(output).len() < runs && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    done(child.wait_with_output().unwrap())
}

/// The figures of the runs that came to their end.
fn made(output: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(output.join("runs")).into_iter().flatten().flatten();
    let mut made: Vec<(String, String)> = entries
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.path().join("run.json")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), text))
        })
        .collect();
    made.sort();
    made
}

#[test]
fn a_scenario_is_run_judged_and_told_and_nothing_of_it_stays_on_its_targets() {
    let (one, other, kept) = (directory(), directory(), directory());
    let output = kept.path().join("result");
    let [one_path, other_path, output_path] =
        [one.path(), other.path(), &output].map(|path| path.display().to_string());
    let file = scenario(kept.path(), "1s", 2, &format!("{PUBLISHED}{HOLDS}"));
    let run = ["run", &file, "-s", "xs", "--target", &one_path, "--also", &other_path, "-o", &output_path];
    let done = lab(&run);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert!(
        done.err.contains("data set 4 of 4") && done.err.contains("run 8 of 8") && done.err.contains(" left")
    );
    assert!(done.out.contains("At most ") && done.out.contains("The check passed."), "{}", done.out);
    assert!(is_empty(one.path()) && is_empty(other.path()), "nothing stays");
    let names: Vec<String> = made(&output).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert!(
        names[0].starts_with("r1-read-") && output.join("runs").join(&names[0]).join("test.fio").is_file()
    );
    let read = |name: &str| std::fs::read_to_string(output.join(name)).unwrap();
    let result: serde_json::Value = serde_json::from_str(&read("result.json")).unwrap();
    assert_eq!((&result["format"], &result["verdict"]), (&1.into(), &"passed".into()));
    assert_eq!(result["runs"].as_array().unwrap().len(), 8);
    assert_eq!(result["metrics"][0]["published"], 1e9);
    assert!(result["metrics"][0]["rows"][0]["estimate"]["value"].as_f64().unwrap() < 1e9, "ours beside it");
    for run in result["runs"].as_array().unwrap() {
        let (requests, bytes) = (run["requests"].as_u64().unwrap(), run["bytes"].as_u64().unwrap());
        let size = if run["variant"].as_str().unwrap().starts_with("read") { 8 << 10 } else { 64 << 10 };
        // fio counts the last of a thread's requests now and then in one of the two only.
        assert!(requests > 0 && bytes.abs_diff(requests * size) <= 8 * size, "{run}");
        // Two files, and four at a time on each.
        assert_eq!(run["outstanding"], 8);
    }
    let page = read("report.html");
    assert!(
        page.contains("<svg") && !page.contains("http") && !page.contains("NaN"),
        "a page for any browser"
    );
    assert!(read("summary.md").contains("| passed |"));
    assert!(
        read("junit.xml").contains("tests=\"1\" failures=\"0\"") && read("runs.csv").lines().count() == 9
    );
    let again = lab(&["report", &output_path]);
    assert_eq!((again.status, read("report.html")), (0, page), "made again, it is the same");
    let done = lab(&run);
    assert!(done.status == 2 && done.err.contains("never mixed"), "{}", done.err);
    assert_eq!(lab(&["resume", &output_path]).status, 0, "there is nothing to go on with");

    let compared = lab(&["compare", &output_path, &output_path, "--metric", "iops"]);
    assert_eq!(compared.status, 3, "two repetitions tell nothing: {}", compared.err);
    assert!(compared.out.contains("1 more repetition would help"), "{}", compared.out);
    let refused = lab(&["compare", &output_path, &output_path, "--metric", "speed"]);
    assert!(refused.status == 2 && refused.err.contains("`speed` is not one of"), "{}", refused.err);

    let verified = lab(&["verify", &output_path]);
    assert_eq!(verified.status, 0, "{}{}", verified.out, verified.err);
    assert!(verified.out.contains("8 runs: figures worked out again"), "{}", verified.out);
    // Retouched: a figure, and a page.
    let of_run = output.join("runs").join(&names[0]).join("run.json");
    let mut figures: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&of_run).unwrap()).unwrap();
    figures["requests"] = 1_000_000_000.into();
    std::fs::write(&of_run, figures.to_string()).unwrap();
    let verified = lab(&["verify", &output_path]);
    assert_eq!(verified.status, 4, "{}", verified.out);
    let told = format!("run {}: run.json has `requests` = 1000000000", names[0]);
    assert!(verified.out.contains(&told) && verified.out.contains("report.html is not"), "{}", verified.out);
}

/// What a report may come to.
const PAGE_BYTES: u64 = 2 << 20;

#[test]
fn reports_open_in_a_browser_which_asks_nobody_and_complains_of_nothing() {
    if !browser::has_browser() {
        return;
    }
    let (target, kept) = (directory(), directory());
    let bad = kept.path().join("bad.html");
    std::fs::write(&bad, "<img src='http://example.com/x.png'><script>none()</script>").unwrap();
    let complaints = browser::complaints(&bad);
    assert!(complaints.iter().any(|one| one.contains("none is not defined")), "{complaints:?}");
    assert!(complaints.iter().any(|one| one == "http://example.com/x.png"), "{complaints:?}");

    let output = kept.path().join("result");
    let [target_path, output_path] = [target.path(), &output].map(|path| path.display().to_string());
    let file = scenario(kept.path(), "1s", 2, PUBLISHED);
    assert_eq!(lab(&["run", &file, "--target", &target_path, "-o", &output_path]).status, 0);
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments/results");
    let papers = std::fs::read_dir(results).unwrap().map(|paper| paper.unwrap().path());
    let pages: Vec<_> = papers.chain([output]).map(|directory| directory.join("report.html")).collect();
    assert!(pages.len() > 1, "those of papers are kept");
    for page in pages {
        let page = page.canonicalize().unwrap();
        assert!(std::fs::metadata(&page).unwrap().len() < PAGE_BYTES, "{}", page.display());
        assert_eq!(browser::complaints(&page), Vec::<String>::new(), "{}", page.display());
    }
}

#[test]
fn a_check_that_fails_ends_with_its_own_status() {
    let (target, kept) = (directory(), directory());
    let rest = "[[check]]\nkind = \"latency\"\nmax = \"0.001ms\"\nsustained = \"0.001ms\"\ngrace = \"1h\"\n";
    let file = scenario(kept.path(), "3s", 1, rest);
    let output = kept.path().join("result");
    let [target_path, output_path] = [target.path(), &output].map(|path| path.display().to_string());
    let done = lab(&["run", &file, "--target", &target_path, "-o", &output_path]);
    assert!(done.status == 4 && done.err.contains("latency: it does not hold"), "{}{}", done.out, done.err);
    assert!(std::fs::read_to_string(output.join("junit.xml")).unwrap().contains("<failure message="));
    assert!(is_empty(target.path()), "nothing stays");
}

#[test]
fn an_interrupted_run_is_a_part_and_goes_on_where_it_was() {
    let (target, kept) = (directory(), directory());
    let output = kept.path().join("result");
    let [target_path, output_path] = [target.path(), &output].map(|path| path.display().to_string());
    let file = scenario(kept.path(), "1s", 2, PUBLISHED);
    let done = interrupted(&["run", &file, "--target", &target_path, "-o", &output_path], &output, 1);
    assert_eq!(done.status, 3, "{}{}", done.out, done.err);
    assert!(done.err.contains("of 4 runs were made: it was interrupted") && done.err.contains("lab resume"));
    assert!(is_empty(target.path()), "nothing stays");
    let before = made(&output);
    assert!((1..4).contains(&before.len()), "{} of 4 runs", before.len());
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("This is a part of the experiment"));
    assert_eq!(lab(&["report", &output_path]).status, 3);
    assert_eq!(std::fs::read_to_string(output.join("report.html")).unwrap(), page);

    // What is not what it was is refused: a target on another device, another scenario.
    let plan = std::fs::read_to_string(output.join("plan.json")).unwrap();
    let mut moved: serde_json::Value = serde_json::from_str(&plan).unwrap();
    moved["targets"][0]["footing"]["source"] = "/dev/elsewhere".into();
    std::fs::write(output.join("plan.json"), moved.to_string()).unwrap();
    let refused = lab(&["resume", &output_path]);
    assert!(refused.status == 2 && refused.err.contains("/dev/elsewhere"), "{}", refused.err);
    std::fs::write(output.join("plan.json"), &plan).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("outstanding = 4", "outstanding = 5")).unwrap();
    let refused = lab(&["resume", &output_path]);
    assert!(refused.status == 2 && refused.err.contains("not what it was"), "{}", refused.err);
    std::fs::write(&file, text).unwrap();
    assert!(is_empty(target.path()) && made(&output) == before, "and nothing was done");

    let done = lab(&["resume", &output_path]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let after = made(&output);
    assert_eq!(after.len(), 4);
    assert!(before.iter().all(|run| after.contains(run)), "what was made is not made again");
    assert!(is_empty(target.path()), "nothing stays");
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(!page.contains("This is a part"));
    assert_eq!(lab(&["report", &output_path]).status, 0);
    assert_eq!(std::fs::read_to_string(output.join("report.html")).unwrap(), page);
}

#[test]
fn a_rate_is_a_share_of_what_the_closed_loop_found_in_the_same_repetition() {
    let (target, kept) = (directory(), directory());
    let output = kept.path().join("result");
    let [target_path, output_path] = [target.path(), &output].map(|path| path.display().to_string());
    let loads = "[[matrix.load]]\nid = \"o40\"\nrate = \"40% of max\"\n[[matrix.load]]\nid = \"max\"\n";
    let file = scenario(kept.path(), "1s", 2, loads);
    let done = lab(&["run", &file, "--target", &target_path, "-o", &output_path]);
    assert!([0, 3, 4].contains(&done.status), "{}{}", done.out, done.err);
    let runs: std::collections::BTreeMap<String, serde_json::Value> =
        made(&output).into_iter().map(|(id, text)| (id, serde_json::from_str(&text).unwrap())).collect();
    assert_eq!(runs.len(), 8);
    for (id, run) in runs.iter().filter(|(id, _)| id.contains("-o40-")) {
        let base = &runs[&id.replace("-o40-", "-max-")];
        let found = base["requests"].as_f64().unwrap() / base["measured_seconds"].as_f64().unwrap();
        let offered = run["offered_per_second"].as_f64().unwrap();
        assert!((offered / found - 0.4).abs() < 1e-6, "{id}: {offered} of {found}");
    }
    let done = lab(&["verify", &output_path]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let other = loads.replace("of max", "of most");
    let file = scenario(kept.path(), "1s", 1, &other);
    let refused = lab(&["plan", &file, "--target", &target_path]);
    assert!(refused.status == 2 && refused.err.contains("is a share of `most`"), "{}", refused.err);
}

#[test]
fn a_whole_paper_is_run_interrupted_resumed_and_told_on_one_page() {
    let (target, kept) = (directory(), directory());
    let output = kept.path().join("emc");
    let [target_path, output_path] = [target.path(), &output].map(|path| path.display().to_string());
    let own = output.join("headline");
    let run = ["run", "--seed", "emc", "-s", "xs", "--target", &target_path, "-o", &output_path];
    let done = interrupted(&run, &own, 1);
    assert!(done.status == 3 && is_empty(target.path()), "{}{}", done.out, done.err);
    let before = made(&own);
    assert!(!before.is_empty() && done.err.contains("emc/headline ("), "{}", done.err);
    assert!(done.out.contains("it was interrupted before"), "those behind it: {}", done.out);
    let done = interrupted(&["resume", &output_path], &own, before.len() + 1);
    assert!(done.status == 3 && is_empty(target.path()), "{}{}", done.out, done.err);
    let after = made(&own);
    assert!(after.len() > before.len() && before.iter().all(|run| after.contains(run)));
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("headline/report.html") && !page.contains("http"), "{page}");
    assert!(std::fs::read_to_string(output.join("summary.md")).unwrap().contains("| emc/headline |"));
    assert_eq!(lab(&["verify", &output_path]).status, 0);
    std::fs::write(output.join("summary.md"), "all is well").unwrap();
    assert_eq!(lab(&["verify", &output_path]).status, 4, "a page that was retouched");

    // What cannot be run there is told, and holds up nothing else.
    let planned = lab(&["plan", "fujitsu", "-s", "xs", "--target", &target_path]);
    assert!(
        planned.status == 0 && planned.out.contains("fujitsu/lun-count: not possible"),
        "{}",
        planned.out
    );
    assert!(planned.out.contains("All together about"), "{}", planned.out);
    let refused = lab(&["run", "fujitsi", "--target", &target_path]);
    assert!(refused.status == 2 && refused.err.contains("the nearest is `fujitsu`"), "{}", refused.err);
    let refused = lab(&["run", "emc/headline", "--seed", "emc", "--target", &target_path]);
    assert!(refused.status == 2 && refused.err.contains("all experiments of a paper"), "{}", refused.err);
}

#[test]
fn the_lab_finds_every_disk_that_lies_and_trusts_the_honest_one() {
    if !can_attach() {
        return;
    }
    let kept = directory();
    let output = kept.path().join("selftest");
    let done = lab(&["run", "ashlar/selftest", "-s", "xs", "-o", &output.display().to_string()]);
    // Where the processors are busy, the two disks that keep to times cannot be judged.
    assert!([0, 3].contains(&done.status), "{}{}", done.out, done.err);
    let json = std::fs::read_to_string(output.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 8);
    assert!(steps[..6].iter().all(|step| step["answer"] == "passed"), "{}", done.out);
    assert!(steps[6..].iter().all(|step| step["answer"] != "failed"), "{}", done.out);
    assert!(done.out.contains("it returns old blocks") && done.out.contains("it keeps everything in memory"));
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("power cut") && !page.contains("http"));
}

#[test]
fn experiments_are_listed_explained_exported_and_planned() {
    let kept = directory();
    let listed = lab(&["list"]);
    assert!(
        listed.status == 0 && listed.out.contains("fujitsu/throughput: ") && listed.out.contains("  paper ")
    );
    let json: serde_json::Value = serde_json::from_str(&lab(&["list", "--json"]).out).unwrap();
    assert!(json.as_array().unwrap().iter().all(|one| one["presets"].as_array().unwrap().len() == 5));
    let exported = lab(&["export", "emc/headline"]);
    assert!(exported.out.starts_with("format   = 1\nid       = \"emc/headline\""), "{}", exported.out);
    let file = kept.path().join("mine.toml");
    std::fs::write(&file, &exported.out).unwrap();
    let file = file.display().to_string();
    assert_eq!(lab(&["explain", &file]).out, lab(&["explain", "emc/headline"]).out);
    let target = kept.path().display().to_string();
    let planned = lab(&["plan", &file, "-s", "xs", "--target", &target]);
    assert!(
        planned.out.contains("9 runs at preset xs") && planned.out.contains("written"),
        "{}",
        planned.out
    );
    assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 1, "nothing was run");
    for (arguments, word) in [
        (&["plan", "fujitsu/lun-count", "--target", &target][..], "nothing can be run there"),
        (&["plan", "emc/headline", "--target", "iscsi://portal/x"], "no targets of the kind `iscsi`"),
        (
            &["run", "emc/headline", "--target", "sim-hdd:drive=2", "-o", &format!("{target}/x")],
            "the nearest known key is `drives`",
        ),
        (
            &["run", "emc/headline", "-s", "paper", "--target", &target, "-o", &format!("{target}/x")],
            "are needed",
        ),
        (&["run", "emc/headline", "--target", "/nowhere", "-o", &format!("{target}/x")], "No such file"),
        (&["run", "emc/headlines", "--target", &target], "the nearest is `emc/headline`"),
        (&["resume", &target], "plan.json"),
    ] {
        let done = lab(arguments);
        assert!(done.status == 2 && done.err.contains(word), "{arguments:?}: {} {}", done.status, done.err);
    }
    assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 1, "what cannot begin leaves nothing");
}

#[test]
fn a_mistake_in_a_scenario_names_the_key_and_the_nearest_that_exists() {
    let kept = directory();
    let file = scenario(kept.path(), "1s", 1, "[phase]\nx = 1\n");
    let done = lab(&["plan", &file, "--target", "/var/tmp"]);
    assert_eq!(done.status, 2);
    assert!(done.err.contains("unknown key `phase`; the nearest known key is `phases`"), "{}", done.err);
    assert!(done.err.contains("tiny.toml") && done.err.contains("line "), "{}", done.err);
}

/// Rows are changed by statements and by a procedure, and read; each step is held against what it must leave.
#[test]
fn a_whole_table_is_changed_and_read_and_every_step_is_told() {
    let (target, kept) = (directory(), directory());
    let text = "format = 1\nid = \"test/rows\"\ntitle = \"Rows\"\nquestion = \"How fast?\"\nbudget = \"10m\"\n\
        phases = { warmup = \"0s\", measure = \"0.1s\", repeat = 1 }\nengine = { kind = \"postgres\" }\n\
        workload = { kind = \"rows\", job = \"change\", data = \"2MB\", buffers = \"32MiB\", groups = 3, \
                     durable = false, prewarm = true }\n\
        [[matrix.pattern]]\nid = \"wire\"\n[[matrix.pattern]]\nid = \"call\"\ncall = \"procedure\"\n\
        [[matrix.pattern]]\nid = \"read\"\njob = \"read\"\n\
        [[published]]\nmetric = \"updated_rows_per_second.ratio(call/wire)\"\nvalue = 4\n\
        [[check]]\nkind = \"consistency\"\n";
    let file = kept.path().join("rows.toml");
    std::fs::write(&file, text).unwrap();
    let output = kept.path().join("result");
    let [file, target_path, output_path] =
        [file.as_path(), target.path(), &output].map(|path| path.display().to_string());
    let done = lab(&["run", &file, "--target", &target_path, "-o", &output_path]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert!(is_empty(target.path()), "nothing stays");
    assert!(done.out.contains("The ratio of call to wire in updated rows a second is"), "{}", done.out);
    let json = std::fs::read_to_string(output.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    let steps = |name: &str| {
        let runs = result["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["id"].as_str().unwrap().contains(name)).unwrap();
        let steps = run["database"]["steps"].as_array().unwrap();
        steps.iter().map(|step| step["name"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    for name in ["wire", "call"] {
        assert_eq!(steps(name), ["update", "select", "delete"]);
    }
    assert_eq!(steps("read"), ["scan", "select", "scan", "select"]);
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("Steps over the whole table") && page.contains("rows were as they must be"));
}

/// Two databases on two servers, the second one started behind the first.
const DATABASES: &str = "format = 1\nid = \"test/databases\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"10m\"\n\
    engine = { kind = \"postgres\" }\nphases = { warmup = \"1s\", measure = \"3s\", repeat = 1 }\n\
    check = [{ kind = \"consistency\" }]\n\
    [[published]]\nmetric = \"tps\"\nnote = \"none\"\n\
    [workload]\nkind = \"databases\"\ndata = \"10MB\"\nloaded = 2\nrunning = 2\nstagger = \"1s\"\nrate = \"20/s\"\n\
    database = [{ name = \"one\", size = 1, users = 1, server = \"a\" }, \
    { name = \"two\", size = 1, users = 2, server = \"b\" }]\n";

#[test]
fn databases_that_start_one_after_the_other_are_summed_and_each_is_told() {
    let (target, kept) = (directory(), directory());
    let file = kept.path().join("databases.toml");
    std::fs::write(&file, DATABASES).unwrap();
    let (file, path) = (file.display().to_string(), target.path().display().to_string());
    let output = kept.path().join("result");
    let named = output.display().to_string();
    let done = lab(&["run", &file, "--target", &path, "-o", &named]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let text = std::fs::read_to_string(output.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let run = &result["runs"][0];
    let each = run["database"]["each"].as_array().unwrap();
    assert_eq!(each.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(), ["one", "two"]);
    let rates: Vec<f64> = each.iter().map(|one| one["transactions_per_second"].as_f64().unwrap()).collect();
    assert!(rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
    let sum = run["requests"].as_f64().unwrap() / run["measured_seconds"].as_f64().unwrap();
    assert!((rates.iter().sum::<f64>() - sum).abs() < 1.0, "{rates:?} {sum}");
    assert!(is_empty(target.path()), "nothing stays");
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("Each database"), "the page tells each");
}

/// Two majors are compared where there are two, and the lack of one is told before anything is written.
#[test]
fn versions_are_compared_where_there_are_two() {
    let (target, kept) = (directory(), directory());
    let axis = "[[matrix.engine]]\nid = \"newer\"\nversion = \"newer\"\n\
        [[matrix.engine]]\nid = \"older\"\nversion = \"older\"\n";
    let file = kept.path().join("versions.toml");
    std::fs::write(&file, format!("{DATABASES}{axis}")).unwrap();
    let (file, path) = (file.display().to_string(), target.path().display().to_string());
    let output = kept.path().join("result");
    let done = lab(&["run", &file, "--target", &path, "-o", &output.display().to_string()]);
    if done.status == 2 {
        assert!(done.err.contains("two major versions of PostgreSQL"), "{}", done.err);
        assert!(!output.exists() && is_empty(target.path()), "nothing was begun");
        return;
    }
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let text = std::fs::read_to_string(output.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let engine = |variant: &str| -> u32 {
        let runs = result["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["variant"].as_str().unwrap().starts_with(variant)).unwrap();
        let version = run["database"]["each"][0]["version"].as_str().unwrap();
        version.split('.').next().unwrap().parse().unwrap()
    };
    assert!(engine("newer") > engine("older"), "{result}");
}

/// Nothing is run: parts are added up, and the result is carried to another machine and back.
#[test]
fn a_calculation_needs_no_target_and_its_result_can_be_carried() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (result, file, there) = (path("result"), path("result.json"), path("there"));
    let done = lab(&["run", "dell/cost-power-space", "-o", &result]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    for told in ["0.25 on illustrative-values", "656 W", "14 U", "needs a result with TPS"] {
        assert!(done.out.contains(told), "{told}: {}", done.out);
    }
    let refused = lab(&["run", "dell/cost-power-space", "--result", &result, "-o", &path("other")]);
    assert!(refused.status == 2 && refused.err.contains("takes one of dell/flash-vs-15k"), "{}", refused.err);

    std::fs::write(&file, lab(&["export", &result]).out).unwrap();
    let done = lab(&["import", &file, "-o", &there]);
    assert!(done.status == 0 && done.out.contains("Nothing differs"), "{}{}", done.out, done.err);
    assert_eq!(lab(&["verify", &there]).status, 0);
    let done = lab(&["compare", &result, &there]);
    assert!(done.status == 0 && done.out.contains("equal within 5 %"), "{}{}", done.out, done.err);

    // Whoever makes an array cheaper on the way is found, and nothing of it stays.
    let text = std::fs::read_to_string(&file).unwrap();
    let forged = text.replace("\\\"price\\\": 118000.0", "\\\"price\\\": 18000.0");
    assert_ne!(forged, text);
    std::fs::write(&file, forged).unwrap();
    let done = lab(&["import", &file, "-o", &path("forged")]);
    assert!(done.status == 4 && done.err.contains("nothing was taken in"), "{}{}", done.out, done.err);
    assert!(!Path::new(&path("forged")).exists());
}
