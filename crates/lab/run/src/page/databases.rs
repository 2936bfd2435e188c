//! What the database did in each run: transactions, what it read and wrote, and what was checked.

use ashlar_report::{Page, bytes, count, nanos};
use ashlar_target::Counters;

use crate::copies::CopyFigures;
use crate::database::mixed::READS;
use crate::database::{DatabaseFigures, KindFigures, LevelFigures, StepFigures};
use crate::figures::Figures;
use crate::several::EachFigures;
use crate::text::latency;
use crate::{Outcome, answer};

/// An engine that reads so much more than its device keeps the rest in the kernel's cache.
const CACHED_SHARE: f64 = 0.5;

impl Outcome {
    /// Nothing where no database ran.
    pub(super) fn databases(&self, page: &mut Page) {
        let with: Vec<(&Figures, &DatabaseFigures)> =
            self.runs.iter().filter_map(|run| Some((run, run.database.as_ref()?))).collect();
        if with.is_empty() {
            return;
        }
        page.heading("What the database did");
        let header = [
            "Run",
            "New orders a minute",
            "Read by it",
            "Read from the target",
            "Its log",
            "Checkpoints",
            "Checked",
        ];
        let rows: Vec<Vec<String>> = with.iter().map(|(run, database)| work(run, database)).collect();
        page.table(&header, &[1, 2, 3, 4, 5], &rows);
        page.remark(
            "Where much less was read from the target than by the database, the kernel's cache had it: the run says \
             little of the target.",
        );
        let copies: Vec<Vec<String>> = with
            .iter()
            .flat_map(|(run, database)| database.copies.iter().map(|copy| snapshot(run, copy)))
            .collect();
        if !copies.is_empty() {
            page.heading("Snapshots under load, and what is in them");
            let header = [
                "Run",
                "At",
                "Taken in",
                "A second before",
                "Behind",
                "Clone mounted in",
                "Its database up in",
                "Checked",
            ];
            page.table(&header, &[1, 2, 3, 4, 5, 6], &copies);
            page.remark(
                "Rates are over up to ten whole seconds before and behind. Each clone was opened, recovered by its \
                 database, and asked everything that the database itself was asked; what was acknowledged before the \
                 snapshot must be in it, and what was sent behind it must not.",
            );
        }
        self.logs_apart(page);
        self.levels(page);
        self.steps(page);
        self.parts(page);
        each_database(page, &with);
        let header =
            ["Run", "Transaction", "Committed", "Rolled back", "Tried again", "Half within", "99 % within"];
        let rows: Vec<Vec<String>> = with
            .iter()
            .flat_map(|(run, database)| database.kinds.iter().map(|kind| transaction(run, kind)))
            .collect();
        page.table(&header, &[2, 3, 4, 5, 6], &rows);
    }
}

impl Outcome {
    /// Nothing where no server was kept on some processors.
    fn levels(&self, page: &mut Page) {
        let row = |run: &Figures, level: &LevelFigures| {
            let percent = |share: f64| format!("{} %", count(100.0 * share));
            vec![
                run.id.clone(),
                level.cores.to_string(),
                percent(level.busy_asked),
                percent(level.busy),
                count(level.per_second),
                count(run.per_second()),
                count(run.per_second() / level.cores.max(1) as f64),
                count(level.users as f64),
            ]
        };
        let levels =
            self.runs.iter().filter_map(|run| Some(row(run, run.database.as_ref()?.level.as_ref()?)));
        let levels: Vec<Vec<String>> = levels.collect();
        if !levels.is_empty() {
            page.heading("The server on some of the processors");
            let header =
                ["Run", "Processors", "Busy, asked", "Busy", "Offered", "Served", "For each", "Users"];
            page.table(&header, &[1, 2, 3, 4, 5, 6, 7], &levels);
            page.remark(
                "Transactions a second. Users are those who offer as much if each keys in and thinks for 21 s \
                 between two transactions.",
            );
        }
    }

    /// Nothing where no log had a device of its own.
    fn logs_apart(&self, page: &mut Page) {
        let row = |run: &Figures, what: &str, found: Counters| {
            vec![
                run.id.clone(),
                what.into(),
                count(found.reads as f64),
                bytes(found.read_bytes),
                count(found.writes as f64),
                bytes(found.written_bytes),
                count(found.flushes as f64),
                found.mean_millis().map_or_else(String::new, |millis| nanos(1e6 * millis)),
            ]
        };
        let of_run = |run: &Figures| {
            let log = run.log_device?;
            Some([run.device.map(|found| row(run, "data", found)), Some(row(run, "log", log))])
        };
        let rows: Vec<Vec<String>> = self.runs.iter().filter_map(of_run).flatten().flatten().collect();
        if !rows.is_empty() {
            page.heading("Data and log, each on its own");
            let header = ["Run", "", "Reads", "Bytes", "Writes", "Bytes", "Flushes", "Mean"];
            page.table(&header, &[2, 3, 4, 5, 6, 7], &rows);
            page.remark("As their devices counted, from before the warm-up to the end of the checks.");
        }
    }

    /// Nothing where no whole table was changed or read.
    fn steps(&self, page: &mut Page) {
        let row = |run: &Figures, step: &StepFigures| {
            let warming = if step.is_warming { " (first, to warm caches)" } else { "" };
            vec![
                run.id.clone(),
                format!("{}{warming}", step.name),
                step.passes.to_string(),
                count(step.rows as f64),
                nanos(step.seconds * 1e9),
                count(step.rows_per_second),
                bytes(step.wal_bytes),
            ]
        };
        let steps = self.runs.iter().flat_map(|run| {
            let database = run.database.iter();
            database.flat_map(|database| &database.steps).map(move |step| row(run, step))
        });
        let steps: Vec<Vec<String>> = steps.collect();
        if !steps.is_empty() {
            page.heading("Steps over the whole table");
            let header = ["Run", "Step", "Passes", "Rows", "Time", "Rows a second", "Log written"];
            page.table(&header, &[2, 3, 4, 5, 6], &steps);
            page.remark(
                "Time is of the statements alone. What is done before a step and looked at behind it is in none.",
            );
        }
    }
}

/// Where several ran at once.
fn each_database(page: &mut Page, with: &[(&Figures, &DatabaseFigures)]) {
    let row = |run: &Figures, each: &EachFigures| {
        vec![
            run.id.clone(),
            each.name.clone(),
            format!("{} ({})", each.server, each.version),
            bytes(each.size_bytes),
            each.users.to_string(),
            answer::number(each.transactions_per_second),
            answer::number(each.trades_per_second),
            each.latency_mean_nanos.map_or_else(String::new, nanos),
            latency(each.p99_nanos),
            if each.is_behind { "fell behind" } else { "" }.into(),
        ]
    };
    let rows: Vec<Vec<String>> =
        with.iter().flat_map(|(run, database)| database.each.iter().map(|each| row(run, each))).collect();
    if rows.is_empty() {
        return;
    }
    page.heading("Each database");
    let header = [
        "Run",
        "Database",
        "Server",
        "Size",
        "Users",
        "A second",
        "Results a second",
        "Mean",
        "99 % within",
        "",
    ];
    page.table(&header, &[3, 4, 5, 6, 7, 8], &rows);
}

fn work(run: &Figures, database: &DatabaseFigures) -> Vec<String> {
    let read = database.statistics.as_ref().map(|found| found.blocks_read * found.block_bytes);
    let below = run.device.map(|device| device.read_bytes);
    let told = |value: Option<u64>| value.map_or_else(String::new, bytes);
    let is_cached = read.zip(below).is_some_and(|(read, below)| (below as f64) < CACHED_SHARE * read as f64);
    let note = if is_cached { " (cached)" } else { "" };
    let checkpoints =
        database.statistics.as_ref().map(|found| found.checkpoints_timed + found.checkpoints_requested);
    vec![
        run.id.clone(),
        database.new_orders_per_minute.map_or_else(String::new, count),
        told(read),
        told(below) + note,
        told(database.statistics.as_ref().map(|found| found.wal_bytes)),
        checkpoints.map_or_else(String::new, |count| count.to_string()),
        checked(database),
    ]
}

fn snapshot(run: &Figures, copy: &CopyFigures) -> Vec<String> {
    let rate = |value: Option<f64>| value.map_or_else(String::new, count);
    let time = |value: u64| nanos(value as f64);
    let checked = match copy.offences.is_empty() {
        true => format!("conditions hold, {} acknowledged are there", count(copy.acknowledged as f64)),
        false => copy.offences.join("; "),
    };
    vec![
        run.id.clone(),
        format!("{:.1} s", copy.at_seconds),
        time(copy.took_nanos),
        rate(copy.per_second_before),
        rate(copy.per_second_after),
        time(copy.open_nanos),
        time(copy.recovery_nanos),
        checked,
    ]
}

fn checked(database: &DatabaseFigures) -> String {
    match (&database.offences, database.acknowledged) {
        (Some(offences), Some(acknowledged)) if offences.is_empty() => {
            let reads = if database.part(READS).is_some() { "every row that was read; " } else { "" };
            format!("{reads}conditions hold, {} acknowledged are there", count(acknowledged as f64))
        }
        (Some(offences), None) if offences.is_empty() => {
            let rows = database.rows_checked.unwrap_or_default();
            format!("sums hold, {} rows were as they must be", answer::number(rows as f64))
        }
        (Some(offences), _) => offences.join("; "),
        (None, _) => "every row that was read".into(),
    }
}

fn transaction(run: &Figures, kind: &KindFigures) -> Vec<String> {
    vec![
        run.id.clone(),
        kind.name.replace('_', " "),
        count(kind.committed as f64),
        count(kind.rolled_back as f64),
        count(kind.retries as f64),
        kind.p50_nanos.map_or_else(|| latency(None), |value| nanos(value as f64)),
        latency(kind.p99_nanos),
    ]
}
