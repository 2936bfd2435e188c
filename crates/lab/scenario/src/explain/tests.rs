//! Pages of the catalogue, as a reader sees them.

use ashlar_units::ByteCount;

use super::*;
use crate::catalogue;

const MACHINE: Machine =
    Machine { cores: 2, memory: ByteCount(8 << 30), bytes_per_second: ByteCount(200_000_000) };

fn page(id: &str) -> String {
    explain(&catalogue::load(id).unwrap(), Preset::Paper, MACHINE, &|_| Vec::new()).unwrap()
}

#[test]
fn a_page_has_every_part_in_order() {
    let page = page("kaminario/oltp-query-device");
    let parts = [
        "kaminario/oltp-query-device: Reads",
        "How many reads",
        "What the paper did",
        "What it published",
        "What it leaves out",
        "Where it contradicts itself",
        "What we do",
        "How it is judged",
        "The same with fio and with DiskSpd",
    ];
    let places: Vec<usize> = parts.iter().map(|part| page.find(part).expect(part)).collect();
    assert!(places.is_sorted(), "{page}");
    assert!(page.contains("94.9% random read of 8 KiB"), "{page}");
    assert!(page.contains("--rw=randread --iodepth=1 --bssplit=8k/95:64k/5,"), "{page}");
}

#[test]
fn the_papers_own_test_has_its_diskspd_line() {
    let page = page("fujitsu/throughput");
    let line = "diskspd -c25000000000 -d30 -W30 -b4K -r4K -o1 -t1 -w0 -Sh -L -Z1M -Rxml f1.dat f2.dat";
    assert!(page.contains(line), "{page}");
    assert!(page.contains("-b64K -si"), "{page}");
}

#[test]
fn the_papers_steps_on_sql_server_stand_behind_the_sql_of_the_rerun() {
    let listed = |_: &Load| {
        vec![SqlOfKind { kind: "trade".into(), statements: vec!["UPDATE a\n     SET b = 1".into()] }]
    };
    let scenario = catalogue::load("emc/staged-oltp").unwrap();
    let page = explain(&scenario, Preset::Paper, MACHINE, &listed).unwrap();
    let sql =
        "The SQL that the rerun sends to PostgreSQL: one-target\n  -- trade\n  UPDATE a\n    SET b = 1;\n";
    let parts = [sql, "The paper's steps on SQL Server (T-SQL", "  CREATE DATABASE DB_01\n", "\n  GO\n"];
    let places: Vec<usize> = parts.iter().map(|part| page.find(part).expect(part)).collect();
    assert!(places[..3].is_sorted(), "{page}");
    assert_eq!(page.matches("The SQL that the rerun").count(), 1, "variants have the same");
}

#[test]
fn every_page_fits_a_terminal_but_for_command_lines() {
    for id in catalogue::ids() {
        let page = page(id);
        let long = page.lines().find(|line| !line.starts_with("  ") && line.chars().count() > COLUMNS);
        assert_eq!(long, None, "{id}");
    }
}
