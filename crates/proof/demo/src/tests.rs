//! Tests of the demo's own judgement: a proof that cannot fail proves nothing.
#![allow(clippy::unwrap_used)]

use crate::array::{find_all, find_number};
use crate::closing::percent;
use crate::drives::{out_count, out_reason, rebuild_of};
use crate::ledger::{Mark, WRITER_COUNT, check};
use crate::progress::{Table, bar, bytes, count, millis};
use ashlar_postgres::Rows;
use std::time::Duration;

fn rows(found: [u64; WRITER_COUNT]) -> Rows {
    let row = |(writer, n): (usize, &u64)| {
        vec![
            Some(writer.to_string()),
            Some(n.to_string()),
            Some("1".into()),
            Some(n.to_string()),
            Some(n.to_string()),
        ]
    };
    found.iter().enumerate().map(row).collect()
}

fn mark(acknowledged: u64, sent: u64) -> Mark {
    Mark { sent: [sent; WRITER_COUNT], acknowledged: [acknowledged; WRITER_COUNT] }
}

#[test]
fn a_missing_acknowledged_commit_is_found() {
    let list = mark(10, 11);
    assert!(check(&rows([10, 11, 10, 10]), &list, &list).is_ok());
    let error = check(&rows([10, 11, 9, 10]), &list, &list).unwrap_err();
    assert!(error.context.contains("writer 2: 10 commits were acknowledged, only 9"), "{error}");
}

#[test]
fn a_commit_that_was_never_sent_is_found() {
    let list = mark(10, 11);
    assert!(check(&rows([10, 12, 10, 10]), &list, &list).is_err());
}

#[test]
fn a_writer_without_rows_is_found() {
    let list = mark(10, 10);
    assert!(check(&rows([10; WRITER_COUNT])[1..].to_vec(), &list, &list).is_err());
    assert!(check(&Rows::new(), &mark(0, 1), &mark(0, 1)).is_ok(), "nothing promised, nothing missing");
}

#[test]
fn a_gap_and_a_damaged_row_are_found() {
    let list = mark(10, 10);
    let mut gap = rows([10; WRITER_COUNT]);
    gap[1][3] = Some("11".into());
    assert!(check(&gap, &list, &list).is_err(), "ten rows up to number eleven: one is missing");
    let mut damage = rows([10; WRITER_COUNT]);
    damage[3][4] = Some("9".into());
    assert!(check(&damage, &list, &list).is_err());
}

#[test]
fn lost_drives_and_their_rebuild_are_read() {
    let pool = serde_json::json!({
        "drives": [{"state": "online"}, {"state": "out", "reason": "gone"}, {"state": "rebuilding"}],
        "rebuild": {"drive_number": 2, "total_bytes": 100, "done_bytes": 40}
    });
    assert_eq!((out_count(&pool), rebuild_of(&pool)), (1, Some((2, 40, 100))));
    assert_eq!((out_reason(&pool, 0), out_reason(&pool, 1)), (None, Some("gone".into())));
    assert_eq!(rebuild_of(&serde_json::json!({"rebuild": null})), None);
}

#[test]
fn figures_are_found_at_any_depth() {
    let value = serde_json::json!({"pools": [{"recovery": {"millis": 12}, "space": {"free_bytes": 7}}], "state": "online"});
    assert_eq!(find_number(&value, "millis"), Some(12));
    assert_eq!(find_number(&value, "free_bytes"), Some(7));
    assert_eq!(find_number(&value, "absent"), None);
    assert_eq!(find_all(&value, "state").len(), 1);
}

#[test]
fn figures_are_printed_for_people() {
    assert_eq!(millis(Duration::from_micros(2_345)), "2.3 ms");
    assert_eq!(millis(Duration::from_millis(2_345)), "2345 ms");
    assert_eq!((bytes(512), bytes(3 << 29)), ("512 B".to_string(), "1.5 GiB".to_string()));
    assert_eq!((count(7), count(1_234_567)), ("7".to_string(), "1,234,567".to_string()));
    assert_eq!((bar(1, 4), bar(0, 0)), ("█".repeat(6) + &"░".repeat(18), "░".repeat(24)));
    assert_eq!((percent(6, 8), percent(14, 16)), ("75".to_string(), "87.5".to_string()));
    let mut table = Table::default();
    table.row("a", "1".into(), "x");
    table.row("long", "10".into(), "");
    assert_eq!(table.render(), "  a      1  x\n  long  10\n");
}
