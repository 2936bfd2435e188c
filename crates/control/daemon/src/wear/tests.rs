//! What is counted, forecast and told of drives.

#![allow(clippy::unwrap_used)]

use super::*;

const DAY: u64 = 24 * 60 * 60;
const START: u64 = 1_000_000_000;
const NOTHING: [u32; 0] = [];

fn drive(id: &str, state: &str, written_bytes: u64) -> api::Drive {
    api::Drive {
        number: Some(3),
        id: id.to_string(),
        path: "/d".to_string(),
        state: state.to_string(),
        written_bytes,
        ..api::Drive::default()
    }
}

fn view(ledger: &Ledger, id: &str, written_bytes: u64, now: u64) -> api::Drive {
    let mut view = drive(id, "online", written_bytes);
    ledger.fill(&mut view, now);
    view
}

fn ledger_with(written_bytes: u64, endurance_bytes: u64) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.count("main", &[drive("a", "online", written_bytes)], START);
    ledger.set_endurance("a", Some(endurance_bytes));
    ledger
}

#[test]
fn a_life_goes_on_over_openings_and_returns_of_the_drive() {
    let mut ledger = Ledger::default();
    let written = |ledger: &Ledger| ledger.lives["a"].written_bytes;
    ledger.count("main", &[drive("a", "online", 100)], START);
    ledger.count("main", &[drive("a", "online", 150)], START);
    assert_eq!(written(&ledger), 150);
    assert_eq!(view(&ledger, "a", 170, START).written_bytes, 170, "what is not counted yet shows");
    // Out and back: the second opening had grown beyond the first when it was looked at.
    ledger.count("main", &[drive("a", "out", 150)], START);
    ledger.count("main", &[drive("a", "rebuilding", 400)], START);
    assert_eq!(written(&ledger), 550);
    // Opened anew between two looks.
    ledger.count("main", &[drive("a", "online", 20)], START);
    assert_eq!(written(&ledger), 570);
    ledger.closed("main");
    ledger.count("main", &[drive("a", "online", 30)], START);
    assert_eq!(written(&ledger), 600);
    let mut next = Ledger::new(ledger.begin_storing(START));
    next.count("main", &[drive("a", "online", 7), drive("b", "rebuilding", 5)], START + 9);
    assert_eq!(written(&next), 607);
    let other = view(&next, "b", 5, START + 9);
    assert_eq!((other.written_bytes, other.counted_since_unix_seconds), (5, Some(START + 9)));
}

#[test]
fn the_forecast_is_a_straight_line_after_a_day() {
    let ledger = ledger_with(1000, 10_000);
    let at = |now| view(&ledger, "a", 1000, now);
    assert_eq!(at(START + DAY - 1).worn_out_unix_seconds, None);
    assert_eq!(at(START + DAY - 1).worn_percent, Some(10));
    // A tenth in a day: nine days are left.
    assert_eq!(at(START + DAY).worn_out_unix_seconds, Some(START + 10 * DAY));
    assert_eq!(view(&ledger, "a", 5000, START + 2 * DAY).worn_out_unix_seconds, Some(START + 4 * DAY));
    // Worn out is worn out, however long it was counted.
    assert_eq!(view(&ledger, "a", 12_000, START + 5).worn_out_unix_seconds, Some(START + 5));
    assert_eq!(view(&ledger, "a", 12_000, START + 5).worn_percent, Some(120));
    assert_eq!(seconds_left(1, 0, 2 * DAY), None, "what is not written does not wear");
    assert_eq!(seconds_left(u64::MAX, 1, u64::MAX), Some(u64::MAX));
}

#[test]
fn without_an_endurance_nothing_is_said_of_wear() {
    let mut ledger = ledger_with(1000, 10_000);
    assert_eq!(ledger.set_endurance("a", None), Some(10_000));
    let view = view(&ledger, "a", 1000, START + DAY);
    assert_eq!((view.endurance_bytes, view.worn_percent, view.worn_out_unix_seconds), (None, None, None));
}

#[test]
fn what_the_drive_reports_goes_before_what_is_declared() {
    let mut ledger = ledger_with(1000, 10_000);
    let mut report = |used_percent, written_bytes| {
        ledger.set_health([("a".to_string(), Some(Health { used_percent, written_bytes }))].into());
        view(&ledger, "a", 1000, START + DAY)
    };
    // Half of its life took 4000, of which this array wrote 1000 in a day.
    let half = report(50, Some(4000));
    assert_eq!((half.worn_percent, half.reported_written_bytes), (Some(50), Some(4000)));
    assert_eq!(half.worn_out_unix_seconds, Some(START + 5 * DAY));
    // Too little is used to tell how much there is: the declared endurance tells.
    let fresh = report(0, Some(4000));
    assert_eq!((fresh.worn_percent, fresh.worn_out_unix_seconds), (Some(0), Some(START + 10 * DAY)));
    assert_eq!(report(255, Some(4000)).worn_out_unix_seconds, Some(START + DAY));
}

#[test]
fn each_percentage_is_told_once_also_over_a_restart() {
    let mut ledger = ledger_with(79, 100);
    let tell = |ledger: &mut Ledger, written| {
        let drives = [drive("a", "online", written)];
        ledger.count("main", &drives, START);
        ledger.passed(&drives, START).into_iter().map(|passed| passed.worn_percent).collect::<Vec<u32>>()
    };
    assert_eq!(tell(&mut ledger, 79), NOTHING);
    assert_eq!(tell(&mut ledger, 82), [82]);
    assert_eq!(tell(&mut ledger, 83), NOTHING);
    let mut ledger = Ledger::new(ledger.begin_storing(START));
    assert_eq!(tell(&mut ledger, 1), NOTHING);
    assert_eq!(tell(&mut ledger, 13), [96]);
    assert_eq!(tell(&mut ledger, 40), NOTHING);
    ledger.set_endurance("a", Some(110));
    assert_eq!(tell(&mut ledger, 40), [111], "another endurance is told of anew");
}

#[test]
fn growth_is_stored_each_minute_and_the_rest_at_once() {
    let mut ledger = ledger_with(10, 100);
    assert!(ledger.is_due(START), "a new drive and its endurance");
    ledger.begin_storing(START);
    assert!(!ledger.is_due(START + 100), "nothing was written");
    ledger.count("main", &[drive("a", "online", 11)], START);
    assert!(!ledger.is_due(START + 59) && ledger.is_due(START + 60) && ledger.is_due(START - 60));
    ledger.begin_storing(START + 60);
    ledger.not_stored();
    assert!(!ledger.is_due(START + 61) && ledger.is_due(START + 120));
    ledger.destroyed("main");
    assert!(ledger.is_due(START + 61) && ledger.begin_storing(START).is_empty());
}

#[test]
fn drives_that_were_away_longest_are_forgotten_first() {
    let life = |number: u64| Life {
        id: number.to_string(),
        written_bytes: 1,
        counted_since_unix_seconds: 0,
        seen_unix_seconds: number,
        endurance_bytes: None,
        told_percent: 0,
    };
    let mut ledger = Ledger::new((0..LIVES_MAX as u64 + 1).map(life).collect());
    ledger.count("main", &[drive("0", "online", 5)], START);
    let lives = ledger.begin_storing(START);
    assert_eq!(lives.len(), LIVES_MAX);
    assert!(lives.iter().any(|life| life.id == "0") && !lives.iter().any(|life| life.id == "1"));
}
