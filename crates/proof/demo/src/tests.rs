//! Tests of the demo's own judgement: a proof that cannot fail proves nothing.
#![allow(clippy::unwrap_used)]

use crate::array::{find_all, find_number};
use crate::closing::percent;
use crate::drives::{out_count, out_reason, rebuild_of};
use crate::ledger::{Mark, WRITER_COUNT, check};
use crate::load::{Window, load_of, load_within};
use crate::postgres::account_in;
use crate::progress::{Table, bar, bytes, count, millis};
use crate::wire::{Rows, error_text_of, row_of};
use std::time::{Duration, UNIX_EPOCH};

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
fn a_data_row_is_read_and_a_short_one_refused() {
    let body = [0, 3, 0, 0, 0, 2, b'4', b'2', 255, 255, 255, 255, 0, 0, 0, 0];
    assert_eq!(row_of(&body).unwrap(), vec![Some("42".into()), None, Some(String::new())]);
    for length in 0..body.len() {
        assert!(row_of(&body[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn the_message_of_an_error_is_found() {
    assert_eq!(error_text_of(b"SERROR\0C42P01\0Mno such table\0\0"), "no such table");
    assert_eq!(error_text_of(b""), "unknown error");
}

#[test]
fn a_pgbench_log_gives_rate_and_percentile() {
    let mut text = String::new();
    for second in 0..100 {
        let latency = if second == 99 { 900_000 } else { 1_000 };
        text.push_str(&format!("0 {second} {latency} 0 {} 0\n", 1000 + second));
    }
    text.push_str("3 17 25");
    let load = load_of(&text);
    assert_eq!((load.transactions, load.p99), (100, Duration::from_micros(900_000)));
    assert!((load.tps - 1.01).abs() < 0.01, "{}", load.tps);
    assert_eq!(load_of("").transactions, 0);
}

#[test]
fn a_part_of_a_load_counts_what_ended_in_it() {
    let text: String = (0..100).map(|second| format!("0 {second} 1000 0 {} 0\n", 1000 + second)).collect();
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let load = load_within(&text, Window::new(at(1010), at(1030)));
    assert_eq!((load.transactions, load.tps), (20, 1.0));
    assert_eq!(load_within(&text, Window::new(at(0), at(1000))).transactions, 0);
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
fn an_account_is_found_by_its_whole_name() {
    let passwd = "root:x:0:0::/:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:101:104::/:/bin/sh\n";
    let account = account_in(passwd, "postgres").unwrap();
    assert_eq!((account.user, account.group), (101, 104));
    assert_eq!(account_in(passwd, "nobody"), None);
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
