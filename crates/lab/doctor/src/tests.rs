//! Answers drawn from numbers that were made up: each grade must be reached, and each liar found.

use ashlar_compare::Compared;
use ashlar_target::{BlockDevice, Counters, Footing, Machine};

use crate::examine::{Examination, Measured};
use crate::finding::{Grade, find};
use crate::plan::Step;

fn device(has_volatile_cache: bool) -> BlockDevice {
    BlockDevice {
        name: "vda".into(),
        model: String::new(),
        size_bytes: 1 << 40,
        has_volatile_cache,
        is_rotational: false,
        scheduler: "none".into(),
    }
}

fn measured(step: Step, per_second: f64, p99_nanos: u64, below: Counters) -> Measured {
    Measured {
        step,
        title: step.title(),
        per_second,
        bytes_per_second: per_second * 8192.0,
        offered_per_second: None,
        requests: 1000,
        p50_nanos: Some(p99_nanos / 3),
        p99_nanos: Some(p99_nanos),
        p999_nanos: None,
        max_nanos: Some(p99_nanos * 2),
        slowest_second: Some(per_second),
        seconds: vec![per_second; 10],
        is_steady: Some(true),
        below: vec![below],
        is_behind: false,
    }
}

fn examination(file_system: &str, devices: Vec<BlockDevice>, steps: Vec<Measured>) -> Examination {
    let (source, options) = ("/dev/vda".into(), "rw".into());
    let footing = Footing { file_system: file_system.into(), source, options, devices, pool: None };
    let machine = Machine { hypervisor: String::new(), ..Machine::here() };
    Examination {
        format: 1,
        target: "/srv".into(),
        begun_unix_seconds: 0,
        machine,
        footing,
        fio: "fio-3.33".into(),
        size_bytes: 1 << 30,
        steps,
        compared: None,
        findings: Vec::new(),
        answer: String::new(),
        ended_early: None,
    }
}

/// What `find` says to a question that begins so.
fn said(examination: &Examination, question: &str) -> (Grade, String) {
    let (findings, _) = find(examination);
    let finding = findings.into_iter().find(|finding| finding.question.starts_with(question)).unwrap();
    (finding.grade, finding.meaning)
}

const FLUSHED: Counters = Counters {
    reads: 0,
    read_bytes: 0,
    writes: 1000,
    written_bytes: 1 << 23,
    flushes: 1000,
    read_millis: 0,
    write_millis: 0,
};

#[test]
fn an_fsync_that_does_not_reach_the_drive_is_found() {
    let of = |file_system, devices, below| {
        said(
            &examination(file_system, devices, vec![measured(Step::Commits, 500.0, 2_000_000, below)]),
            "Does fsync",
        )
        .0
    };
    assert_eq!(of("ext4", vec![device(true)], FLUSHED), Grade::Good);
    assert_eq!(of("ext4", vec![device(true)], Counters { flushes: 30, ..FLUSHED }), Grade::Bad);
    assert_eq!(of("ext4", vec![device(false)], Counters { flushes: 0, ..FLUSHED }), Grade::Good);
    assert_eq!(of("ext4", vec![device(false)], Counters::default()), Grade::Bad, "cached in memory");
    assert_eq!(of("tmpfs", Vec::new(), FLUSHED), Grade::Bad, "kept in memory");
    assert_eq!(of("overlay", Vec::new(), FLUSHED), Grade::Unknown);
}

#[test]
fn commits_are_graded_by_what_99_of_100_wait() {
    let grades = |step, nanos| {
        let one = examination("ext4", vec![device(true)], vec![measured(step, 500.0, nanos, FLUSHED)]);
        find(&one)
            .0
            .into_iter()
            .find(|finding| finding.question.contains("commit") || finding.question.contains("checkpoint"))
            .unwrap()
            .grade
    };
    let of = |step| [4_000_000, 8_000_000, 30_000_000].map(|nanos| grades(step, nanos));
    assert_eq!(of(Step::Commits), [Grade::Good, Grade::Warning, Grade::Bad]);
    assert_eq!(of(Step::CommitsUnderCheckpoint), [Grade::Good, Grade::Good, Grade::Bad]);
}

#[test]
fn the_rate_it_bears_is_the_highest_with_short_waits_and_room_in_its_queue() {
    let mut slow = measured(Step::Load(90), 900.0, 40_000_000, FLUSHED);
    let used_up = Measured { is_behind: true, ..measured(Step::Load(75), 750.0, 1_000_000, FLUSHED) };
    let steps = vec![
        measured(Step::Mixed, 1000.0, 9_000_000, FLUSHED),
        measured(Step::Load(25), 250.0, 1_000_000, FLUSHED),
        measured(Step::Load(50), 500.0, 3_000_000, FLUSHED),
        used_up,
        slow.clone(),
    ];
    let (grade, meaning) = said(&examination("ext4", vec![device(true)], steps), "How much");
    assert!(grade == Grade::Good && meaning.contains("at 500 a second"), "{meaning}");
    slow.step = Step::Load(10);
    let steps = vec![measured(Step::Mixed, 1000.0, 9_000_000, FLUSHED), slow];
    assert_eq!(said(&examination("ext4", vec![device(true)], steps), "How much").0, Grade::Warning);
}

#[test]
fn seconds_without_answers_are_told() {
    let mut reads = measured(Step::ReadsDeep, 1000.0, 1_000_000, FLUSHED);
    assert_eq!(
        said(&examination("ext4", vec![device(true)], vec![reads.clone()]), "Does it stand").0,
        Grade::Good
    );
    reads.seconds[4] = 3.0;
    let (grade, meaning) = said(&examination("ext4", vec![device(true)], vec![reads]), "Does it stand");
    assert!(grade == Grade::Warning && meaning.contains("1 s in"), "{meaning}");
}

#[test]
fn wrong_bytes_are_the_first_thing_that_is_said() {
    let mut examined =
        examination("ext4", vec![device(true)], vec![measured(Step::Commits, 500.0, 2_000_000, FLUSHED)]);
    let told = vec!["at offset 8192, pass 2: what pass 1 wrote there".to_string()];
    examined.compared = Some(Compared { reads: 100, wrong: 1, old: 1, told, is_cached: false });
    let (findings, answer) = find(&examined);
    assert!(
        findings.iter().any(|finding| finding.question.contains("come back") && finding.grade == Grade::Bad)
    );
    assert!(answer.contains("come back? NO"), "{answer}");
}

#[test]
fn the_page_and_the_text_say_the_same() {
    let steps = vec![
        measured(Step::Commits, 500.0, 2_000_000, FLUSHED),
        measured(Step::CommitsUnderCheckpoint, 300.0, 8_000_000, FLUSHED),
    ];
    let mut examined = examination("ext4", vec![device(true)], steps);
    (examined.findings, examined.answer) = find(&examined);
    let (text, html) = (examined.text(), examined.html());
    for finding in &examined.findings {
        assert!(text.contains(finding.question) && html.contains(finding.question));
        assert!(text.contains(&finding.value) && html.contains(&finding.value));
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!html.contains("NaN"));
}
