//! The closing table: what was measured, and how.

use crate::array::{Array, find_number};
use crate::by_name::ByName;
use crate::drives::{DRIVE_COUNT, Losses, PARITY_COUNT};
use crate::error::Result;
use crate::progress::{Table, bytes, count, millis};
use crate::settings::Settings;
use ashlar_postgres::Load;
use std::time::Duration;

/// Figures gathered on the way.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) by_name: ByName,
    pub(crate) fill: Duration,
    pub(crate) load: Option<Load>,
    pub(crate) losses: Option<Losses>,
    pub(crate) snapshot: Duration,
    pub(crate) clone: Duration,
    pub(crate) attach: Duration,
    pub(crate) clone_recovery: Duration,
    pub(crate) array_recovery: Option<u64>,
    pub(crate) array_restart: Duration,
    pub(crate) database_recovery: Duration,
    pub(crate) pause: Duration,
    pub(crate) commits: u64,
    pub(crate) transactions: u64,
}

/// A part of a whole in per cent; one decimal only where there is one.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let tenths = part * 1000 / whole;
    if tenths.is_multiple_of(10) {
        (tenths / 10).to_string()
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

pub(crate) fn table(array: &Array, figures: &Figures, settings: &Settings) -> Result<String> {
    let mut table = Table::default();
    by_name_rows(&figures.by_name, &mut table);
    if let Some(load) = &figures.load {
        let remark =
            format!("pgbench TPC-B-like, scale {}, 16 sessions, a clone checked meanwhile", settings.scale);
        load_row(&mut table, "transactions a second", load, &remark);
    }
    clone_rows(figures, &mut table);
    if let Some(losses) = &figures.losses {
        loss_rows(losses, &mut table);
    }
    crash_rows(figures, &mut table);
    space_rows(array, &mut table)?;
    let (commits, transactions) = (count(figures.commits), count(figures.transactions));
    table.row("ledger commits proven", commits, "acknowledged before the kill, found after it");
    table.row("transactions proven", transactions, "pgbench's own log against the history table");
    Ok(table.render())
}

fn by_name_rows(by_name: &ByName, table: &mut Table) {
    table.row("database created", millis(by_name.create), "volume, file system, cluster, server");
    let start = millis(by_name.clone_start);
    table.row("database cloned", millis(by_name.clone), &format!("until it answers; its own start {start}"));
    table.row("clone reset", millis(by_name.reset), "the same name and port, the content of its origin");
    table.row("snapshot proven", millis(by_name.verify), "a server on a clone of it; every page and index");
}

fn load_row(table: &mut Table, what: &str, load: &Load, remark: &str) {
    let remark = format!("p99 {}; {remark}", millis(load.p99));
    table.row(what, format!("{:.0}", load.tps), &remark);
}

fn clone_rows(figures: &Figures, table: &mut Table) {
    let remark = "under load; the whole command, program start included";
    table.row("snapshot of two volumes", millis(figures.snapshot), remark);
    table.row("clone of the snapshot", millis(figures.clone), "the same");
    table.row("attach and mount both", millis(figures.attach), "FUSE, loop device, ext4's own recovery");
    table.row("database on the clone up", millis(figures.clone_recovery), "PostgreSQL replays its log");
}

fn loss_rows(losses: &Losses, table: &mut Table) {
    let cold = "the database out of the page cache at the start";
    load_row(table, "tps with all drives", &losses.before, cold);
    load_row(table, "tps with two drives lost", &losses.degraded, "the same");
    load_row(table, "tps during the rebuild", &losses.rebuilding, "the same");
    load_row(table, "tps after it", &losses.after, "the same");
    let remark = format!("{} written to the new drives, under load", bytes(losses.rebuilt_bytes));
    table.row("rebuild of both drives", format!("{:.1} s", losses.rebuild.as_secs_f64()), &remark);
    let remark = "after the rebuild: every checksum and all parity, nothing wrong";
    table.row("scrub", format!("{:.1} s", losses.scrub.as_secs_f64()), remark);
}

fn crash_rows(figures: &Figures, table: &mut Table) {
    let inside = figures.array_recovery.map_or("-".into(), |m| millis(Duration::from_millis(m)));
    let remark = "the database on it went on; no client met an error";
    table.row("pause by kill -9 of the array", millis(figures.pause), remark);
    table.row("array recovery after kill -9", inside, "journal replayed");
    table.row("array serving again", millis(figures.array_restart), "from program start");
    let remark = "killed with the array; PostgreSQL replays its log";
    table.row("database recovery after it", millis(figures.database_recovery), remark);
}

/// Usable, logical and physical bytes. pgbench's rows compress better than real data, and we say so.
fn space_rows(array: &Array, table: &mut Table) -> Result<()> {
    let data = DRIVE_COUNT - PARITY_COUNT;
    let remark = format!(
        "{data} of {DRIVE_COUNT} drives; the same protection over 16 drives (14+2) leaves {} %",
        percent(14, 16)
    );
    table.row("usable of the drives", format!("{} %", percent(data, DRIVE_COUNT)), &remark);
    let mut written = 0;
    for volume in ["data", "wal"] {
        written += find_number(&array.json(&["volume", "show", volume])?, "written_bytes").unwrap_or(0);
    }
    table.row("logical bytes", bytes(written), "written in data and wal");
    let pool = array.json(&["pool", "show", "demo"])?;
    let parts = ["data_bytes", "metadata_bytes", "journal_bytes", "freed_bytes"];
    let held: u64 = parts.iter().filter_map(|key| find_number(&pool, key)).sum();
    let remark = "parity, snapshot, clones and unclean segments included;";
    table.row("physical bytes", bytes(held * DRIVE_COUNT / data), remark);
    table.row("", String::new(), "pgbench's rows compress better than real data does");
    Ok(())
}
