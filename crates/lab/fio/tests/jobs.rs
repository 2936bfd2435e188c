//! Jobs as fio takes them, and what it answers: the real program.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_fio::{Cell, Content, ErrorKind, Fio, Job, Offered, Pattern, Spread, Sync};
use ashlar_programs::Launcher;

fn job(path: &Path, sync: Sync, read_percent: u32, offered: Offered) -> Job {
    Job {
        name: "job".into(),
        on: path.to_path_buf().into(),
        size_bytes: 8 << 20,
        pattern: Pattern::Random,
        read_percent,
        blocks: vec![(8 << 10, 100.0)],
        sync,
        offered,
    }
}

fn cell(name: &str, job: Job, seconds: Option<u64>) -> Cell {
    Cell {
        name: name.into(),
        jobs: vec![job],
        ramp: Duration::from_millis(100),
        time: seconds.map(Duration::from_secs),
        content: Content::DATABASE,
        seed: 7,
    }
}

/// fio, and a directory on a file system that takes direct I/O.
fn fio(is_interrupted: bool) -> (Fio, tempfile::TempDir) {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().to_path_buf();
    let launcher =
        |flag| Arc::new(Launcher::new(path.clone(), path.clone(), Arc::new(AtomicBool::new(flag))));
    let fio = Fio::find(&launcher(false)).expect("fio is installed for the tests");
    if is_interrupted {
        // Found before, or it could not be told from a program that is missing.
        assert!(Fio::find(&launcher(true)).is_err());
    }
    (fio, directory)
}

#[test]
fn what_a_cell_asks_for_is_what_fio_counts() {
    let (fio, directory) = fio(false);
    let data = directory.path().join("da:ta");
    let kept = fio.run(
        &cell(
            "fill",
            Job { pattern: Pattern::Sequential, ..job(&data, Sync::Direct, 0, Offered::Depth(8)) },
            None,
        ),
        directory.path(),
    );
    let writes = &kept.unwrap().outcomes[0].writes;
    assert_eq!((writes.requests, writes.bytes), (1024, 8 << 20), "each block once");
    assert_eq!(std::fs::metadata(&data).unwrap().len(), 8 << 20, "the name may hold a colon");

    let mixed = job(&data, Sync::Direct, 75, Offered::PerSecond(400));
    let kept = fio.run(&cell("mixed", mixed, Some(2)), directory.path()).unwrap();
    let outcome = &kept.outcomes[0];
    let rate = outcome.both().per_second(outcome.time);
    assert!((280.0..=480.0).contains(&rate), "an open loop of 400 a second made {rate}");
    let share = outcome.reads.requests as f64 / outcome.both().requests as f64;
    assert!((0.65..=0.85).contains(&share), "{share} of the requests read");
    assert_eq!(outcome.both().latencies.count(), outcome.both().requests, "each with its latency");
    assert!(!kept.seconds[0].is_empty(), "second by second");

    let commits = job(&data, Sync::EachWrite, 0, Offered::Depth(1));
    let outcome = fio.run(&cell("commits", commits, Some(1)), directory.path()).unwrap().outcomes.remove(0);
    assert!(outcome.syncs.requests > 0 && outcome.syncs.requests.abs_diff(outcome.writes.requests) <= 1);
}

#[test]
fn a_job_that_fails_is_told_with_what_fio_said() {
    let (fio, directory) = fio(false);
    let nowhere = Path::new("/proc/version/data");
    let error =
        fio.run(&cell("none", job(nowhere, Sync::Direct, 0, Offered::Depth(1)), None), directory.path());
    let error = error.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Command);
    assert!(error.context.contains("none") && error.context.contains("Not a directory"), "{error}");
}

#[test]
fn nothing_is_measured_after_an_interruption() {
    let _ = fio(true);
}

#[test]
fn threads_of_a_job_are_told_together_and_keep_to_their_part() {
    let (fio, directory) = fio(false);
    let data = directory.path().join("data");
    let first = Job { size_bytes: 4 << 20, ..job(&data, Sync::Direct, 100, Offered::Depth(4)) };
    let second = Job {
        name: "written".into(),
        pattern: Pattern::Sequential,
        read_percent: 0,
        blocks: vec![(16 << 10, 50.0), (64 << 10, 50.0)],
        ..first.clone()
    };
    let fill = Job {
        size_bytes: 8 << 20,
        pattern: Pattern::Sequential,
        ..job(&data, Sync::Direct, 0, Offered::Depth(8))
    };
    fio.run(&cell("fill", fill, None), directory.path()).unwrap();
    let before = std::fs::read(&data).unwrap();
    let jobs = vec![
        Spread { job: first, threads: 2, offset_bytes: 0, zipf: None },
        Spread { job: second, threads: 3, offset_bytes: 4 << 20, zipf: None },
    ];
    let cell = Cell {
        name: "both".into(),
        jobs,
        ramp: Duration::ZERO,
        time: Some(Duration::from_secs(3)),
        content: Content::DATABASE,
        seed: 8,
    };
    let kept = fio.run(&cell, directory.path()).unwrap();
    let names: Vec<&str> = kept.outcomes.iter().map(|outcome| outcome.job.as_str()).collect();
    assert_eq!(names, ["job", "written"], "threads of a job are one");
    let reads = &kept.outcomes[0];
    let under_way = reads.both().per_second(reads.time) * reads.reads.latencies.mean().unwrap() / 1e9;
    assert!((7.0..=8.5).contains(&under_way), "two threads of four each, and {under_way} were under way");
    let size = kept.outcomes[1].writes.bytes as f64 / kept.outcomes[1].writes.requests as f64 / 1024.0;
    assert!((36.0..=44.0).contains(&size), "half of 16 and half of 64 KiB: {size}");
    for seconds in &kept.seconds {
        assert!(seconds.iter().any(|second| second.latency_nanos.is_some_and(|nanos| nanos > 0.0)));
    }
    let after = std::fs::read(&data).unwrap();
    assert!(before[..4 << 20] == after[..4 << 20], "only the second half is written");
    let thirds = (4 << 20) / 3 / (64 << 10) * (64 << 10);
    for third in 0..3 {
        let from = (4 << 20) + third * thirds;
        assert!(
            before[from..from + 4096] != after[from..from + 4096],
            "thread {third} begins at its stretch"
        );
    }
}

#[test]
fn the_same_content_is_the_same_everywhere() {
    let (fio, directory) = fio(false);
    let data = directory.path().join("data");
    let fill = Job {
        pattern: Pattern::Sequential,
        blocks: vec![(1 << 20, 100.0)],
        ..job(&data, Sync::Direct, 0, Offered::Depth(4))
    };
    let same = Cell { content: Content::SAME, ..cell("same", fill.clone(), None) };
    fio.run(&same, directory.path()).unwrap();
    let bytes = std::fs::read(&data).unwrap();
    assert!(bytes.chunks(1 << 20).all(|block| block == &bytes[..1 << 20]));
    fio.run(&cell("differs", fill, None), directory.path()).unwrap();
    let bytes = std::fs::read(&data).unwrap();
    assert!(bytes.chunks(1 << 20).skip(1).all(|block| block != &bytes[..1 << 20]));
}
