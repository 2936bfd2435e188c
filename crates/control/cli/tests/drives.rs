//! The life of a pool's drives through the command line and the API of a real array.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;
use support::Array;

/// An array with a pool `main` that survives one of its four drives.
fn protected() -> Array {
    let array = Array::started();
    let drives: Vec<String> =
        (0..4).map(|number| format!("{},size=64MiB", path(&array, &format!("{number}.img")))).collect();
    let mut arguments = vec!["pool", "create", "main", "--protection", "single"];
    for drive in &drives {
        arguments.extend(["--drive", drive]);
    }
    array.good(&arguments);
    array
}

fn path(array: &Array, name: &str) -> String {
    array.path(name).display().to_string()
}

fn states(pool: &Value) -> Vec<&str> {
    pool["drives"].as_array().unwrap().iter().map(|drive| drive["state"].as_str().unwrap()).collect()
}

fn recorded(array: &Array) -> String {
    std::fs::read_to_string(array.state().join("pools.toml")).unwrap()
}

#[test]
fn a_drive_is_taken_out_replaced_and_found_after_a_restart() {
    let mut array = protected();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let pool = array.json(&["pool", "offline-drive", "main", "2", "--yes"]);
    assert_eq!(states(&pool), ["online", "online", "out", "online"]);
    assert_eq!(pool["state"], "degraded");
    assert_eq!(pool["reason"], "1 of 4 drives out, survives 0 more");
    for words in [&["pool", "list"][..], &["pool", "show", "main"], &["status"]] {
        assert!(array.good(words).contains("degraded"), "{words:?}");
    }
    assert_eq!(array.json(&["status"])["pools"][0]["state"], "degraded");
    assert_eq!(array.json(&["pool", "list"])[0]["state"], "degraded");
    assert!(array.good(&["pool", "show", "main"]).contains("taken out of service"));
    assert_eq!(array.json(&["status"])["pools"][0]["reason"], pool["reason"]);
    let metrics = array.http("GET", "/metrics", None).1;
    assert!(metrics.contains("ashlar_pool_drives{pool=\"main\",state=\"out\"} 1"), "{metrics}");
    for (sample, value) in
        [("state{pool=\"main\",state=\"degraded\"}", 1), ("state{pool=\"main\",state=\"online\"}", 0)]
    {
        assert!(metrics.contains(&format!("ashlar_pool_{sample} {value}")), "{metrics}");
    }
    assert!(metrics.contains("ashlar_pool_online{pool=\"main\"} 1"), "{metrics}");
    array.refused(&["pool", "offline-drive", "main", "1", "--yes"], &["drive 1", "needed", "1 of 4"]);
    array.good(&["pool", "offline-drive", "main", "2", "--yes"]);

    let spare = path(&array, "spare.img");
    let with = format!("{spare},size=64MiB");
    let pool = array.json(&["pool", "replace-drive", "main", "2", "--with", &with, "--wait"]);
    assert_eq!(states(&pool), ["online"; 4]);
    assert_eq!((&pool["drives"][2]["number"], &pool["drives"][2]["path"]), (&2.into(), &spare.into()));
    assert!(pool.get("reason").is_none() && pool.get("rebuild").is_none(), "{pool}");
    assert!(
        recorded(&array).contains("spare.img") && !recorded(&array).contains("2.img"),
        "{}",
        recorded(&array)
    );
    std::fs::remove_file(array.path("2.img")).unwrap();
    array.kill();
    array.start();
    let pool = array.json(&["pool", "show", "main"]);
    assert_eq!(states(&pool), ["online"; 4]);
    let report = array.json(&["pool", "check", "main"]);
    assert_eq!(report["errors"], serde_json::json!([]));
}

#[test]
fn a_drive_that_was_away_comes_back_from_where_it_was_or_is() {
    let mut array = protected();
    array.good(&["pool", "offline-drive", "main", "0", "--yes"]);
    let pool = array.json(&["pool", "online-drive", "main", "0", "--wait"]);
    assert_eq!(states(&pool), ["online"; 4]);
    // Once more changes nothing; what was read and written meanwhile does not count.
    let again = array.json(&["pool", "online-drive", "main", "0"]);
    assert_eq!(states(&again), ["online"; 4]);
    assert_eq!(again["drives"][0]["id"], pool["drives"][0]["id"]);

    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(array.path("3.img"), array.path("moved.img")).unwrap();
    array.start();
    assert_eq!(states(&array.json(&["pool", "show", "main"])), ["online", "online", "online", "out"]);
    array.refused(&["pool", "online-drive", "main", "3"], &["3.img"]);
    assert!(recorded(&array).contains("3.img"));
    let (moved, other) = (path(&array, "moved.img"), path(&array, "1.img"));
    array.refused(&["pool", "online-drive", "main", "3", "--drive", &other], &["1.img", "drive 1"]);
    array.good(&["pool", "online-drive", "main", "3", "--drive", &moved, "--wait"]);
    assert!(recorded(&array).contains("moved.img") && !recorded(&array).contains("3.img"));
    array.refused(&["pool", "online-drive", "main", "3", "--drive", &other], &["drive 3", "online"]);

    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(array.path("moved.img"), array.path("away.img")).unwrap();
    array.start();
    std::fs::rename(array.path("away.img"), array.path("moved.img")).unwrap();
    let pool = array.json(&["pool", "online-drive", "main", "3", "--wait"]);
    assert_eq!(states(&pool), ["online"; 4]);
}

#[test]
fn a_drive_that_serves_is_replaced_and_nothing_is_degraded_meanwhile() {
    let mut array = protected();
    let with = format!("{},size=64MiB", path(&array, "new.img"));
    let pool = array.json(&["pool", "replace-drive", "main", "2", "--with", &with, "--wait"]);
    assert_eq!(states(&pool), ["online"; 4]);
    assert!(pool["drives"][2]["path"].as_str().unwrap().ends_with("new.img"), "{pool}");
    assert!(!array.log().contains("out of service"), "{}", array.log());
    assert_eq!(array.terminate(), Some(0));
    assert!(recorded(&array).contains("new.img"));
    std::fs::remove_file(array.path("2.img")).unwrap();
    array.start();
    assert_eq!(states(&array.json(&["pool", "show", "main"])), ["online"; 4]);
}

#[test]
fn spare_space_takes_the_place_of_a_drive_that_is_lost_for_long() {
    let mut array = Array::unstarted();
    array.configure("nbd_tcp = \"off\"\nspare_after_seconds = 2\n");
    array.start();
    let drives: Vec<String> =
        (0..5).map(|number| format!("{},size=64MiB", path(&array, &format!("{number}.img")))).collect();
    let mut arguments = vec!["pool", "create", "main", "--protection", "single", "--spares", "1"];
    drives.iter().for_each(|drive| arguments.extend(["--drive", drive]));
    let spare_bytes = array.json(&arguments)["space"]["spare_bytes"].as_u64().unwrap();
    assert!((60 << 20..64 << 20).contains(&spare_bytes), "{spare_bytes}");
    // What somebody took out is left alone.
    array.good(&["pool", "offline-drive", "main", "0", "--yes"]);
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(states(&array.json(&["pool", "show", "main"]))[0], "out");
    array.good(&["pool", "online-drive", "main", "0", "--wait"]);
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(array.path("3.img"), array.path("lost.img")).unwrap();
    array.start();
    let is_spared = |array: &Array| states(&array.json(&["pool", "show", "main"]))[3] == "spare";
    let since = std::time::Instant::now();
    while !is_spared(&array) {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "{}", array.log());
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let shown = array.good(&["pool", "show", "main"]);
    assert!(shown.contains("3  (spare space)") && !shown.contains("degraded"), "{shown}");
    assert!(array.log().contains("spare space takes its place"), "{}", array.log());
    array.refused(&["pool", "offline-drive", "main", "3", "--yes"], &["drive 3", "no more"]);
    array.refused(&["pool", "online-drive", "main", "3", "--drive", "/x"], &["drive 3"]);
    // It survives a drive again.
    array.good(&["pool", "offline-drive", "main", "1", "--yes"]);
    array.good(&["pool", "online-drive", "main", "1", "--wait"]);
    let with = format!("{},size=64MiB", path(&array, "new.img"));
    let pool = array.json(&["pool", "replace-drive", "main", "3", "--with", &with, "--wait"]);
    assert_eq!(states(&pool), ["online"; 5]);
}

#[test]
fn what_cannot_take_a_drives_place_is_refused_and_nothing_stays_of_it() {
    let array = protected();
    let unprotected = format!("{},size=64MiB", path(&array, "other.img"));
    array.good(&["pool", "create", "other", "--drive", &unprotected]);
    let (spare, small) = (path(&array, "spare.img"), path(&array, "small.img"));
    let spare = format!("{spare},size=64MiB");
    let replace = |number: &'static str, with: &str, words: &[&str]| {
        array.refused(&["pool", "replace-drive", "main", number, "--with", with], words);
    };
    replace("4", &spare, &["`main`", "no drive 4", "pool show"]);
    array.refused(&["pool", "replace-drive", "other", "0", "--with", &spare], &["`other`", "no protection"]);
    array.refused(&["pool", "offline-drive", "other", "0", "--yes"], &["`other`", "no protection"]);
    array.refused(&["pool", "online-drive", "nope", "0"], &["`nope`", "does not exist"]);
    array.refused(&["pool", "offline-drive", "main", "4", "--yes"], &["no drive 4"]);
    array.misused(&["pool", "replace-drive", "main", "1"], &["--with"]);
    array.misused(&["pool", "offline-drive", "main", "one", "--yes"], &["one"]);

    array.good(&["pool", "offline-drive", "main", "1", "--yes"]);
    let before = recorded(&array);
    replace("1", &path(&array, "other.img"), &["other.img", "`other`"]);
    replace("1", &path(&array, "0.img"), &["0.img", "drive 0"]);
    replace("1", &path(&array, "1.img"), &["1.img", "itself", "online-drive main 1"]);
    replace("1", &path(&array, "nope.img"), &["nope.img", "does not exist", "size="]);
    replace("1", &format!("{small},size=32MiB"), &["small.img", "at least"]);
    assert!(!array.path("small.img").exists(), "a refused drive leaves no file behind");
    std::fs::write(array.path("small.img"), vec![0_u8; 32 << 20]).unwrap();
    replace("1", &small, &["small.img", "at least"]);
    assert!(array.path("small.img").exists(), "what was there before stays");
    array.refused(&["pool", "online-drive", "main", "1", "--drive", &small], &["small.img"]);
    assert_eq!(recorded(&array), before);
    assert!(!array.path("spare.img").exists());
    array.good(&["pool", "online-drive", "main", "1", "--wait"]);
}

#[test]
fn requests_about_drives_are_strict() {
    let array = protected();
    for (what, body, status, word) in [
        ("1/replace", "{}", 400, "path"),
        ("1/replace", r#"{"path":"relative"}"#, 400, "absolute"),
        ("1/replace", r#"{"path":"/x","sise":1}"#, 400, "sise"),
        ("1/replace", r#"{"path":"/x"}"#, 404, "does not exist"),
        ("9/replace", r#"{"path":"/x"}"#, 404, "no drive 9"),
        ("x/replace", r#"{"path":"/x"}"#, 400, "number"),
        ("-1/offline", "{}", 400, "number"),
        ("1/online", r#"{"path":"relative"}"#, 400, "absolute"),
        ("1/online", r#"{"with":"/x"}"#, 400, "with"),
        ("1/online", r#"{"path":"/x"}"#, 409, "online"),
    ] {
        let (got, answer) = array.http("POST", &format!("/v1/pools/main/drives/{what}"), Some(body));
        assert_eq!(got, status, "{what} {body}: {answer}");
        let problem: ashlar_api::Problem = serde_json::from_str(&answer).unwrap();
        let is_said = problem.detail.contains(word) || problem.remedy.command.contains(word);
        assert!(is_said, "{what} {body}: {answer}");
        assert!(!problem.remedy.command.is_empty(), "{answer}");
    }
    // Neither needs a body.
    for what in ["offline", "online"] {
        let (status, answer) = array.http("POST", &format!("/v1/pools/main/drives/1/{what}"), None);
        assert_eq!(status, 200, "{answer}");
    }
}

#[test]
fn events_tell_of_drives_that_failed_and_came_back() {
    let mut array = protected();
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(array.path("2.img"), array.path("away.img")).unwrap();
    array.start();
    let has = |level: &str, words: &[&str]| {
        let events = array.json(&["events"]);
        events.as_array().unwrap().iter().any(|event| {
            let message = event["message"].as_str().unwrap();
            event["object"] == "pool main"
                && event["level"] == level
                && words.iter().all(|word| message.contains(word))
        })
    };
    let until = |level: &str, words: &[&str]| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !has(level, words) {
            assert!(std::time::Instant::now() < end, "no event with {words:?}:\n{}", array.log());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    until("error", &["drive 2 (not found, it was at", "2.img)", "replace-drive main 2 --with PATH"]);
    let away = path(&array, "away.img");
    array.good(&["pool", "online-drive", "main", "2", "--drive", &away, "--wait"]);
    until("info", &["drive 2", "away.img", "back in service"]);
    array.good(&["pool", "offline-drive", "main", "2", "--yes"]);
    assert!(has("info", &["drive 2", "was taken out of service"]), "{}", array.log());
    assert!(!has("error", &["away.img"]), "what was asked for is no error:\n{}", array.log());
}

/// It bears the pool's own mark, which is of no more use: once that was a pool to be deleted first.
#[test]
fn a_drive_that_was_replaced_may_replace_another() {
    let array = protected();
    let replace = |number: &str, with: &str| {
        array.good(&["pool", "offline-drive", "main", number, "--yes"]);
        array.json(&["pool", "replace-drive", "main", number, "--with", with, "--wait"])
    };
    replace("2", &format!("{},size=64MiB", path(&array, "spare.img")));
    let former = path(&array, "2.img");
    let pool = replace("0", &former);
    assert_eq!((states(&pool), &pool["drives"][0]["path"]), (vec!["online"; 4], &former.as_str().into()));
    assert_eq!(array.json(&["pool", "check", "main"])["errors"], serde_json::json!([]));
}

/// After a start without it the pool does not have it open: its superblock tells.
#[test]
fn the_drive_that_is_out_is_told_from_others() {
    let mut array = protected();
    array.good(&["pool", "offline-drive", "main", "1", "--yes"]);
    std::fs::rename(array.path("1.img"), array.path("moved.img")).unwrap();
    assert_eq!(array.terminate(), Some(0));
    array.start();
    let moved = path(&array, "moved.img");
    let words = ["moved.img", "drive 1 of pool main itself", "online-drive main 1 --drive"];
    array.refused(&["pool", "replace-drive", "main", "1", "--with", &moved], &words);
    array.good(&["pool", "online-drive", "main", "1", "--drive", &moved, "--wait"]);
}

/// Once it was taken back, and given up at the first write behind its end.
#[test]
fn a_drive_that_was_cut_short_does_not_come_back() {
    let mut array = protected();
    let cut = |bytes: u64| {
        std::fs::File::options().write(true).open(array.path("3.img")).unwrap().set_len(bytes).unwrap();
    };
    array.good(&["pool", "offline-drive", "main", "3", "--yes"]);
    let words = ["3.img", "was cut short", "is 32 MiB", "replace-drive main 3 --with PATH"];
    cut(32 << 20);
    array.refused(&["pool", "online-drive", "main", "3"], &words);
    cut(0);
    array.refused(&["pool", "online-drive", "main", "3"], &["was cut short", "is 0 B", "takes"]);
    cut(32 << 20);
    assert_eq!(array.terminate(), Some(0));
    array.start();
    let third = path(&array, "3.img");
    array.refused(&["pool", "online-drive", "main", "3", "--drive", &third], &["3.img", "32 MiB"]);
}

#[test]
fn an_import_says_which_paths_it_could_not_use_and_why() {
    let array = protected();
    array.good(&["pool", "export", "main"]);
    std::fs::write(array.path("rubbish.img"), vec![0x5a_u8; 32 << 20]).unwrap();
    let import = |names: &[&str]| -> Vec<String> {
        let mut arguments: Vec<String> = ["pool", "import", "main"].iter().map(|one| (*one).into()).collect();
        names.iter().for_each(|name| arguments.extend(["--drive".to_string(), path(&array, name)]));
        arguments
    };
    let refused = |names: &[&str], words: &[&str]| {
        let arguments = import(names);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        array.refused(&arguments, words);
        let done = array.run(&arguments);
        assert!(!done.err.contains("()") && !done.err.contains("backup"), "{}", done.err);
    };
    refused(&["rubbish.img"], &["rubbish.img", "carries no pool", "name a drive of the pool"]);
    refused(&["rubbish.img", "nope.img"], &["rubbish.img carries no pool", "nope.img"]);
    refused(&["0.img", "1.img"], &["4 drives, 2 cannot serve", "missing: 2, 3", "name the missing drives"]);
    refused(&["0.img", "1.img", "rubbish.img"], &["missing: 2, 3", "rubbish.img carries no pool"]);
    let arguments = import(&["0.img", "1.img", "2.img", "3.img", "rubbish.img"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = array.good(&arguments);
    assert!(text.contains("not used") && text.contains("rubbish.img carries no pool"), "{text}");
    assert!(array.log().contains("not used: drive"), "{}", array.log());
    assert!(!recorded(&array).contains("rubbish.img"), "{}", recorded(&array));
    array.good(&["pool", "export", "main"]);
    let arguments = import(&["0.img", "1.img", "2.img", "rubbish.img"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let pool = array.json(&arguments);
    assert_eq!(states(&pool), ["online", "online", "online", "out"]);
    assert!(pool["unused_drives"][0].as_str().unwrap().contains("rubbish.img"), "{pool}");
}

#[test]
fn a_pool_that_did_not_open_shows_what_is_known_of_its_drives() {
    let mut array = protected();
    assert_eq!(array.terminate(), Some(0));
    std::fs::remove_file(array.path("1.img")).unwrap();
    std::fs::remove_file(array.path("2.img")).unwrap();
    array.start();
    let text = array.good(&["pool", "show", "main"]);
    assert!(text.contains("0.img  64 MiB  unknown") && !text.contains("0 B"), "{text}");
    assert!(text.contains("1.img  -  unknown: No such file"), "{text}");
}

#[test]
fn drives_that_cannot_be_added_leave_no_files_behind() {
    let array = protected();
    let made = |name: &str, size: &str| format!("{},size={size}", path(&array, name));
    let (one, two, three) = (made("a.img", "64MiB"), made("b.img", "64MiB"), made("c.img", "64MiB"));
    let (tiny, nowhere) = (made("d.img", "64KiB"), made("no/such/e.img", "64MiB"));
    std::fs::write(array.path("text"), "not a drive").unwrap();
    let text = path(&array, "text");
    for drives in [
        vec![&one, &two],
        vec![&one, &two, &three, &tiny],
        vec![&one, &two, &three, &nowhere],
        vec![&one, &text, &two, &three],
    ] {
        let mut arguments = vec!["pool", "add-drive", "main"];
        drives.iter().for_each(|drive| arguments.extend(["--drive", drive.as_str()]));
        array.refused(&arguments, &[]);
        for name in ["a.img", "b.img", "c.img", "d.img"] {
            assert!(!array.path(name).exists(), "{name} is left of {drives:?}");
        }
    }
    assert!(array.path("text").exists(), "what was there before stays");
}

/// One that is paused was refused without a word of that, and one that was stopped went on being shown.
#[test]
fn a_scrub_that_is_paused_is_told_of_and_one_that_was_stopped_is_not() {
    let array = protected();
    array.good(&["volume", "create", "db", "--size", "32MiB"]);
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut nbd = support::nbd::Nbd::connect(array.state(), "db");
    (0..24).for_each(|piece| nbd.write(piece << 20, &bytes));
    std::thread::scope(|scope| {
        for round in 0..3 {
            let first = scope.spawn(|| array.run(&["pool", "scrub", "main"]));
            let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while array.run(&["pool", "scrub", "main", "--pause"]).status != 0 {
                assert!(std::time::Instant::now() < end, "the scrub does not begin, or is over too soon");
                if first.is_finished() {
                    break;
                }
            }
            if first.is_finished() {
                println!("round {round}: over before it was paused");
                continue;
            }
            let words = ["pool main", "paused", "pool scrub main --resume", "--stop"];
            array.refused(&["pool", "scrub", "main"], &words);
            let stopped = array.json(&["pool", "scrub", "main", "--stop"]);
            assert!(stopped.get("scrub").is_none(), "{stopped}");
            assert!(array.json(&["pool", "show", "main"]).get("scrub").is_none());
            let ended = first.join().unwrap();
            assert!(ended.status == 1 && ended.err.contains("was ended on request"), "{}", ended.err);
            array.refused(&["pool", "scrub", "main", "--stop"], &["pool main is not being scrubbed"]);
        }
    });
    array.good(&["pool", "scrub", "main"]);
}

/// Two drives without protection, with 24 MiB in a volume.
fn unprotected() -> Array {
    let array = Array::started();
    let (one, two) = (path(&array, "0.img"), path(&array, "1.img"));
    let (one, two) = (format!("{one},size=64MiB"), format!("{two},size=64MiB"));
    array.good(&["pool", "create", "main", "--drive", &one, "--drive", &two]);
    array.good(&["volume", "create", "db", "--size", "32MiB"]);
    let mut nbd = support::nbd::Nbd::connect(array.state(), "db");
    (0..24).for_each(|piece| nbd.write(piece << 20, &noise()));
    array
}

/// A MiB that cannot be compressed.
fn noise() -> Vec<u8> {
    let mut state = 1_u64;
    (0..1 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

#[test]
fn a_drive_leaves_for_good_and_is_not_looked_for_after_a_restart() {
    let mut array = unprotected();
    let text = array.good(&["pool", "remove-drive", "main", "0", "--yes"]);
    assert!(text.contains("drive 0 is leaving: `ashlar pool show main` tells how far"), "{text}");
    let pool = array.json(&["pool", "remove-drive", "main", "0", "--wait", "--yes"]);
    assert_eq!((states(&pool), &pool["drives"][0]["number"]), (vec!["online"], &1.into()));
    assert!(pool.get("removal").is_none() && pool.get("reason").is_none(), "{pool}");
    array.refused(&["pool", "remove-drive", "main", "0", "--yes"], &["no drive 0"]);
    array.refused(
        &["pool", "remove-drive", "main", "1", "--yes"],
        &["drive 1 is the last one", "pool delete main"],
    );
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while recorded(&array).contains("0.img") || !array.log().contains("has left") {
        assert!(std::time::Instant::now() < end, "{} {}", recorded(&array), array.log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(array.log().contains("is leaving"), "{}", array.log());
    array.kill();
    std::fs::rename(array.path("0.img"), array.path("free.img")).unwrap();
    array.start();
    assert_eq!(states(&array.json(&["pool", "show", "main"])), ["online"]);
    assert_eq!(array.json(&["pool", "check", "main"])["errors"], serde_json::json!([]));
    // It is any drive now.
    let free = path(&array, "free.img");
    array.good(&["pool", "create", "other", "--drive", &free]);
    assert_eq!(array.terminate(), Some(0));
    let inspected = array.good(&["inspect", &path(&array, "1.img")]);
    assert!(inspected.contains("gone") && !inspected.contains("MISSING"), "{inspected}");
}

#[test]
fn a_drive_that_is_leaving_is_taken_back_and_what_may_not_leave_is_told_why() {
    let array = unprotected();
    let mut nbd = support::nbd::Nbd::connect(array.state(), "db");
    (24..32).for_each(|piece| nbd.write(piece << 20, &noise()));
    array.good(&["volume", "create", "more", "--size", "64MiB"]);
    let mut nbd = support::nbd::Nbd::connect(array.state(), "more");
    (0..30).for_each(|piece| nbd.write(piece << 20, &noise()));
    drop(nbd);
    array.refused(
        &["pool", "remove-drive", "main", "1", "--yes"],
        &["drive 1 cannot leave", "add a drive first"],
    );
    array.good(&["volume", "delete", "more", "--now", "--yes"]);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while array.run(&["pool", "remove-drive", "main", "1", "--yes"]).status != 0 {
        assert!(std::time::Instant::now() < end, "what was deleted stays in the way");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // It may be over already.
    let back = array.run(&["pool", "online-drive", "main", "1"]);
    let states_now = |array: &Array| states(&array.json(&["pool", "show", "main"])).join(" ");
    if back.status == 0 {
        assert_eq!(states_now(&array), "online online");
    } else {
        assert_eq!(states_now(&array), "online", "{}", back.err);
    }
    let array = protected();
    array.refused(
        &["pool", "remove-drive", "main", "1", "--yes"],
        &["no spare space", "replace-drive main 1"],
    );
}

/// The harm: half of a larger drive was shown as superblocks.
#[test]
fn what_a_larger_drive_has_beyond_the_others_is_unusable() {
    let array = Array::started();
    let mut arguments = vec!["pool".to_string(), "create".into(), "main".into()];
    arguments.extend(["--protection".to_string(), "single".into()]);
    for (number, size) in ["64MiB", "64MiB", "192MiB"].into_iter().enumerate() {
        let path = array.path(&format!("{number}.img"));
        arguments.extend(["--drive".to_string(), format!("{},size={size}", path.display())]);
    }
    array.good(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let space = array.json(&["pool", "show", "main"])["space"].clone();
    let bytes = |part: &str| space[part].as_u64().unwrap();
    assert_eq!(bytes("superblock_bytes"), 3 << 20, "{space}");
    // What the third has more than the others, and less than a cell at each end.
    let beyond = 128 << 20;
    assert!((beyond..beyond + (16 << 20)).contains(&bytes("unusable_bytes")), "{space}");
    let parts = space.as_object().unwrap().iter();
    let parts = parts.filter(|(name, _)| !["physical_bytes", "dead_bytes"].contains(&name.as_str()));
    assert_eq!(
        parts.map(|(_, bytes)| bytes.as_u64().unwrap()).sum::<u64>(),
        bytes("physical_bytes"),
        "{space}"
    );
    let accounts = &array.json(&["space"])[0];
    assert_eq!(accounts["parts"]["unusable_bytes"], space["unusable_bytes"], "{accounts}");
    assert!(array.good(&["pool", "show", "main"]).contains("unusable"));
    let (_, metrics) = array.http("GET", "/metrics", None);
    let line = format!("ashlar_pool_bytes{{pool=\"main\",part=\"unusable\"}} {}", bytes("unusable_bytes"));
    assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
}

/// The harm: nobody notices before the next start, when the data are gone.
#[test]
fn a_drive_file_that_is_deleted_replaced_or_cut_under_a_running_array_is_told() {
    let array = protected();
    // Until the array has looked at the files once: it looks each second.
    std::thread::sleep(Duration::from_secs(4));
    let told_before = array.good(&["events"]);
    assert!(!told_before.contains("the file was"), "{told_before}");
    std::fs::remove_file(array.path("0.img")).unwrap();
    std::fs::copy(array.path("1.img"), array.path("copy")).unwrap();
    std::fs::rename(array.path("copy"), array.path("1.img")).unwrap();
    let cut = std::fs::OpenOptions::new().write(true).open(array.path("2.img")).unwrap();
    cut.set_len(32 << 20).unwrap();
    let wanted = [
        "0.img: the file was deleted or moved away",
        "1.img: the file was replaced by another file",
        "2.img: the file was cut short: 33554432 of 67108864 bytes are left",
    ];
    array.wait_for_events(&wanted);
    let told = array.good(&["events"]);
    assert!(wanted.iter().all(|text| told.matches(text).count() == 1), "{told}");
    // Whoever looks at the pool sees it, too.
    let shown = array.good(&["pool", "show", "main"]);
    assert!(shown.contains("online: the file was deleted or moved away"), "{shown}");
}

/// The loss: an export of a pool whose drive's file was deleted closed the last that had it open.
#[test]
fn a_pool_whose_drive_was_deleted_is_not_exported_unasked() {
    let array = Array::with_pool();
    std::fs::rename(array.path("main.img"), array.path("moved.img")).unwrap();
    array.good(&["pool", "export", "main"]);
    array.good(&["pool", "import", "main", "--drive", &array.path("moved.img").display().to_string()]);
    std::fs::remove_file(array.path("moved.img")).unwrap();
    array.refused(&["pool", "export", "main"], &["moved.img was deleted", "copy what pool `main` holds"]);
    assert_eq!(array.json(&["pool", "show", "main"])["state"], "online");
    array.good(&["pool", "export", "main", "--force", "--yes"]);
}

/// Drives of a pool that waits for others of its drives were taken for a new pool by force.
#[test]
fn drives_of_a_pool_that_waits_are_not_taken_and_readable_ones_are_told() {
    let mut array = Array::with_pool();
    let (one, two) =
        (array.path("one.img").display().to_string(), array.path("two.img").display().to_string());
    let (first, second) = (format!("{one},size=64MiB"), format!("{two},size=64MiB"));
    array.good(&["pool", "create", "pair", "--drive", &first, "--drive", &second]);
    array.terminate();
    std::fs::rename(&two, array.path("away.img")).unwrap();
    std::fs::set_permissions(array.path("main.img"), std::fs::Permissions::from_mode(0o644)).unwrap();
    array.start();
    assert_eq!(array.json(&["pool", "show", "pair"])["state"], "waiting");
    let taken = ["pool", "create", "new", "--force", "--yes", "--drive", &one];
    array.refused(&taken, &["one.img", "a drive of pool `pair`"]);
    array.refused(&["pool", "delete", "pair", "--yes"], &["waits", "`ashlar pool export pair` forgets it"]);
    array.wait_for_events(&["main.img: other users can read or change it"]);
    array.good(&["pool", "export", "pair"]);
    array.good(&taken);
}
