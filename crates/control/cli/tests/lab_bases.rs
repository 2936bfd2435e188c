//! `ashlar lab` with what a run loads kept for the next one, and the log of a database apart from its data.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Done, done, program};

/// Reads of a table that is loaded in a moment.
const READS: &str = "format = 1\nid = \"our/reads\"\ntitle = \"reads\"\nquestion = \"how many?\"\nbudget = \"2m\"\n\
    engine = { kind = \"postgres\" }\nroles = { log = \"apart\" }\n\
    phases = { warmup = \"0.5s\", measure = \"2s\", repeat = 1 }\n\
    [[published]]\nmetric = \"tps\"\nnote = \"none\"\n\
    [workload]\nkind = \"points\"\ndata = \"2MB\"\nusers = 1\n";

fn lab(arguments: &[&str]) -> Done {
    done(Command::new(program()).arg("lab").args(arguments).stdin(Stdio::null()).output().unwrap())
}

fn json(arguments: &[&str]) -> Value {
    let done = lab(&[arguments, &["--json"]].concat());
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    serde_json::from_str(&done.out).unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Directories that the account of the server can look through.
struct Ground {
    _root: tempfile::TempDir,
    data: PathBuf,
    log: PathBuf,
    results: PathBuf,
    file: String,
}

impl Ground {
    fn new() -> Ground {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let [data, log, results] = ["data", "log", "results"].map(|name| root.path().join(name));
        [&data, &log, &results].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let file = root.path().join("reads.toml");
        std::fs::write(&file, READS).unwrap();
        Ground { _root: root, data, log, results, file: file.display().to_string() }
    }

    /// Its result and its page.
    fn run(&self, name: &str, arguments: &[&str]) -> (Value, String) {
        let (data, output) = (self.data.display().to_string(), self.results.join(name));
        let named = output.display().to_string();
        let begin = ["run", &self.file, "-s", "xs", "--target", &data, "-o", &named];
        let done = lab(&[&begin, arguments].concat());
        assert_eq!(done.status, 0, "{}{}", done.out, done.err);
        let text = std::fs::read_to_string(output.join("result.json")).unwrap();
        let page = std::fs::read_to_string(output.join("report.html")).unwrap();
        (serde_json::from_str(&text).unwrap(), page)
    }

    /// What a plan says of bases.
    fn planned(&self, arguments: &[&str]) -> String {
        let data = self.data.display().to_string();
        let begin = ["plan", &self.file, "-s", "xs", "--target", &data, "--keep-base"];
        json(&[&begin, arguments].concat())["bases"][0].as_str().unwrap().to_string()
    }
}

#[test]
fn what_a_run_loaded_is_used_by_the_next_one_and_by_none_that_would_load_something_else() {
    let ground = Ground::new();
    let data = ground.data.display().to_string();
    assert!(ground.planned(&[]).contains("are loaded, and kept there as base ashlar-lab-base-points-"));
    let (first, page) = ground.run("first", &["--keep-base"]);
    assert!(first["runs"][0]["database"]["base"].is_null(), "it was loaded");
    assert!(page.contains("its log lies apart") && !page.contains("Data and log lie on one file system"));
    let kept = names(&ground.data);
    assert!(kept.len() == 1 && kept[0].starts_with("ashlar-lab-base-points-"), "{kept:?}");
    let base = ground.data.join(&kept[0]);
    assert!(base.join("log/wal").is_dir() && base.join("data/pgdata/pg_wal").is_symlink(), "both are kept");
    let listed = json(&["bases", "--target", &data]);
    assert_eq!(listed["bases"][0]["name"], kept[0].as_str());
    assert_eq!(listed["bases"][0]["is_whole"], true);

    // The same again needs nothing to be loaded, and says so.
    assert!(ground.planned(&[]).contains("are not loaded: base"));
    let (second, page) = ground.run("second", &["--keep-base"]);
    let run = &second["runs"][0];
    assert_eq!(run["database"]["base"]["name"], kept[0].as_str(), "{run}");
    assert!(run["requests"].as_u64().unwrap() > 0, "{run}");
    assert!(
        page.contains("were not loaded for this: they are of a base that was loaded"),
        "the page tells it"
    );
    assert_eq!(names(&ground.data), kept, "and nothing else stays");
    let shown = ground.results.join("second").display().to_string();
    let verified = lab(&["verify", &shown]);
    assert_eq!(verified.status, 0, "{}{}", verified.out, verified.err);

    // Other rows, another server, or a log elsewhere are something else.
    assert!(ground.planned(&["--seed", "2"]).contains("are loaded"));
    let text = READS.replace("2MB", "3MB");
    std::fs::write(&ground.file, text).unwrap();
    assert!(ground.planned(&[]).contains("are loaded"));
    std::fs::write(&ground.file, READS.replace("\"postgres\" }", "\"postgres\", memory = \"1GiB\" }"))
        .unwrap();
    assert!(ground.planned(&[]).contains("are loaded"));
    std::fs::write(&ground.file, READS).unwrap();

    // A base whose server did not come to its end is not used, and made anew.
    let control = base.join("data/pgdata/global/pg_control");
    let mut bytes = std::fs::read(&control).unwrap();
    bytes[16] = 6;
    std::fs::write(&control, bytes).unwrap();
    let (third, _) = ground.run("third", &["--keep-base"]);
    assert!(third["runs"][0]["database"]["base"].is_null(), "it was loaded");
    assert_eq!(std::fs::read(&control).unwrap()[16], 1, "the new one is whole");

    let deleted = lab(&["bases", "--target", &data, "--delete"]);
    assert!(deleted.status == 0 && deleted.out.starts_with("deleted: ashlar-lab-base-"), "{}", deleted.out);
    assert!(names(&ground.data).is_empty(), "nothing stays");
    let unknown = lab(&["bases", "ashlar-lab-base-x", "--target", &data]);
    assert!(unknown.status == 2 && unknown.err.contains("no such base"), "{}", unknown.err);
}

#[test]
fn a_log_lies_where_it_is_asked_for_and_both_places_are_left_as_they_were() {
    let ground = Ground::new();
    let log = ground.log.display().to_string();
    let (result, page) = ground.run("apart", &["--log-target", &log]);
    assert!(page.contains(&format!("its log lies on {log}")), "the page tells it");
    assert!(page.contains(&format!("--log-target {log}")), "and how to repeat it");
    assert_eq!(result["logs"][0]["address"], log.as_str());
    assert!(names(&ground.data).is_empty() && names(&ground.log).is_empty(), "nothing stays");
    let data = ground.data.display().to_string();
    let refused = |what: &[&str]| {
        let done = lab(&[&["plan"], what, &["-s", "xs", "--target", &data]].concat());
        assert_eq!(done.status, 2, "{}", done.out);
        done.err
    };
    assert!(refused(&[&ground.file, "--log-target", "nbd://h/x"]).contains("a log needs a file system"));
    let done = lab(&["plan", "fujitsu/throughput", "-s", "xs", "--target", &data, "--log-target", &log]);
    assert!(done.status == 0 && done.out.contains("Nothing lies on"), "{}{}", done.out, done.err);
}

/// Processes of a server work below the directory.
fn has_server(directory: &Path) -> bool {
    !ashlar_postgres::processes_below(directory).is_empty()
}

#[test]
fn a_server_that_dies_ends_the_run_with_a_clear_line_and_nothing_stays() {
    let ground = Ground::new();
    std::fs::write(&ground.file, READS.replace("measure = \"2s\"", "measure = \"30s\"")).unwrap();
    let output = ground.results.join("dead");
    let [data, named] = [&ground.data, &output].map(|path| path.display().to_string());
    let mut command = Command::new(program());
    command.args(["lab", "run", &ground.file, "-s", "xs", "--target", &data, "-o", &named]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = std::time::Instant::now();
    let is_driven = || output.join("runs/r1-data").is_dir();
    while !is_driven() || !has_server(&ground.data) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it is driven");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Its sessions are there, and all of it goes at once.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let killed = std::time::Instant::now();
    ashlar_postgres::end_processes(&ground.data, |_| true, &[rustix::process::Signal::KILL]);
    let done = done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 3, "{}{}", done.out, done.err);
    assert!(done.out.contains("This is a part: 0 of 1 runs were made: "), "{}", done.out);
    assert!(killed.elapsed() < std::time::Duration::from_secs(25), "it does not wait for the end of the run");
    assert!(names(&ground.data).is_empty() && !has_server(&ground.data), "nothing stays");
    assert!(output.join("report.html").is_file() && output.join("data/set-1/server.log").is_file());
}
