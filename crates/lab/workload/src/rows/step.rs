//! One step over the whole table, timed: by statements, or by one call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ashlar_postgres::Session;
use ashlar_statistics::latencies::Latencies;

use super::load::{FILLER_LENGTH, NUMBERS};
use super::{Call, ROWS_PER_STATEMENT, Rows, groups};
use crate::error::{Error, Result};
use crate::random::Random;

/// What a step did.
pub(super) struct Timed {
    pub(super) rows: u64,
    pub(super) seconds: f64,
    pub(super) latency: Latencies,
    /// What was not right in what came back.
    pub(super) wrong: Option<String>,
}

/// Has statements run one after the other; each answers how many rows it was about.
struct Runner<'a> {
    session: &'a mut Session,
    stop: &'a AtomicBool,
    latency: Latencies,
    rows: u64,
    seconds: f64,
}

impl Runner<'_> {
    fn timed<T>(&mut self, ask: impl FnOnce(&mut Session) -> ashlar_postgres::Result<T>) -> Result<T> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::interrupted("rows"));
        }
        let begun = Instant::now();
        let answered = ask(self.session)?;
        let took = begun.elapsed();
        self.latency.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.seconds += took.as_secs_f64();
        Ok(answered)
    }

    /// Answers its rows.
    fn run(&mut self, statement: &str) -> Result<ashlar_postgres::Rows> {
        self.timed(|session| session.run(statement))
    }

    /// A statement that changes rows.
    fn change(&mut self, statement: &str) -> Result<()> {
        self.rows += self.timed(|session| session.change(statement))?;
        Ok(())
    }

    /// A procedure that answers how many rows it changed.
    fn call(&mut self, statement: &str) -> Result<()> {
        let answered = self.run(statement)?;
        let changed = answered.first().and_then(|row| row.first()?.as_deref()?.parse::<u64>().ok());
        self.rows += changed.ok_or_else(|| Error::content(format!("{statement}: answered no number")))?;
        Ok(())
    }

    fn done(self, wrong: Option<String>) -> Timed {
        Timed { rows: self.rows, seconds: self.seconds, latency: self.latency, wrong }
    }
}

impl Rows {
    fn runner<'a>(&'a mut self, stop: &'a AtomicBool) -> Runner<'a> {
        Runner { session: &mut self.session, stop, latency: Latencies::default(), rows: 0, seconds: 0.0 }
    }

    /// One column of all rows.
    pub(super) fn update_all(&mut self, stop: &AtomicBool) -> Result<Timed> {
        self.change_all("update", "UPDATE lab_rows.item SET number = number + 1", stop)
    }

    pub(super) fn delete_all(&mut self, stop: &AtomicBool) -> Result<Timed> {
        self.change_all("delete", "DELETE FROM lab_rows.item", stop)
    }

    fn change_all(&mut self, name: &str, statement: &str, stop: &AtomicBool) -> Result<Timed> {
        let (rows, call) = (self.rows, self.settings.call);
        let mut runner = self.runner(stop);
        match call {
            Call::Procedure => runner.call(&format!("CALL lab_rows.{name}_all({rows}, 0)"))?,
            Call::Statements => {
                for first in (1..=rows).step_by(ROWS_PER_STATEMENT as usize) {
                    let last = first + ROWS_PER_STATEMENT - 1;
                    runner.change(&format!("{statement} WHERE id BETWEEN {first} AND {last}"))?;
                }
            }
        }
        let wrong = (runner.rows != rows as u64)
            .then(|| format!("{name}: {} rows were changed of {rows}", runner.rows));
        Ok(runner.done(wrong))
    }

    /// Rows with given values, each looked at; their numbers were raised by `raised`.
    pub(super) fn select(&mut self, raised: i64, random: &mut Random, stop: &AtomicBool) -> Result<Timed> {
        let (rows, call) = (self.rows, self.settings.call);
        let asked: Vec<i64> =
            (0..self.settings.groups).map(|_| random.between_wide(0, self.groups() - 1)).collect();
        let mut runner = self.runner(stop);
        let mut found = Vec::new();
        match call {
            Call::Procedure => {
                let list: Vec<String> = asked.iter().map(ToString::to_string).collect();
                found = runner.run(&format!(
                    "SELECT id, grp, number, length(filler) FROM lab_rows.of_groups('{{{}}}')",
                    list.join(",")
                ))?;
            }
            Call::Statements => {
                for group in &asked {
                    found.extend(runner.run(&format!(
                        "SELECT id, grp, number, length(filler) FROM lab_rows.item WHERE grp = {group}"
                    ))?);
                }
            }
        }
        runner.rows = found.len() as u64;
        let wrong = wrong_rows(&found, &asked, rows, raised);
        Ok(runner.done(wrong))
    }

    /// Every row read by the server, and summed up.
    pub(super) fn scan(&mut self, stop: &AtomicBool) -> Result<Timed> {
        let rows = self.rows;
        let mut runner = self.runner(stop);
        let answered = runner.run(SUMS)?;
        runner.rows = rows as u64;
        let wrong = wrong_sums("scan", &answered, rows, 0);
        Ok(runner.done(wrong))
    }

    /// What does not hold in a table whose numbers were raised by `raised`; not timed.
    pub(super) fn look(&mut self, after: &str, raised: i64) -> Result<Option<String>> {
        let answered = self.session.run(SUMS)?;
        Ok(wrong_sums(after, &answered, self.rows, raised))
    }

    /// What is left where nothing may be; not timed.
    pub(super) fn look_empty(&mut self) -> Result<Option<String>> {
        let left = self.session.run("SELECT count(*) FROM lab_rows.item")?;
        let left = left.first().and_then(|row| row.first()?.clone()).unwrap_or_default();
        Ok((left != "0").then(|| format!("after delete: {left} rows are left")))
    }
}

const SUMS: &str = "SELECT count(*), sum(id), sum(number), sum(length(filler)) FROM lab_rows.item";

/// Count and sums of all columns against what they must be.
fn wrong_sums(after: &str, answered: &ashlar_postgres::Rows, rows: i64, raised: i64) -> Option<String> {
    let found: Vec<Option<i128>> =
        answered.first()?.iter().map(|value| value.as_deref().and_then(|value| value.parse().ok())).collect();
    let wide = i128::from(rows);
    let (turns, rest) = (wide / i128::from(NUMBERS), wide % i128::from(NUMBERS));
    let turn = i128::from(NUMBERS) * i128::from(NUMBERS - 1) / 2;
    let numbers = turns * turn + rest * (rest + 1) / 2 + wide * i128::from(raised);
    let expected = [wide, wide * (wide + 1) / 2, numbers, wide * i128::from(FILLER_LENGTH)].map(Some);
    (found != expected).then(|| {
        let told = |values: &[Option<i128>]| {
            let values = values.iter().map(|value| value.map_or("nothing".into(), |value| value.to_string()));
            values.collect::<Vec<String>>().join(", ")
        };
        format!(
            "{after}: count and sums of id, number and length are {}, not {}",
            told(&found),
            told(&expected)
        )
    })
}

/// The rows of the groups that were asked for, each as it must be, and no others.
fn wrong_rows(found: &ashlar_postgres::Rows, asked: &[i64], rows: i64, raised: i64) -> Option<String> {
    let groups = groups(rows);
    let mut expected: Vec<[i64; 4]> = Vec::new();
    for group in asked {
        let ids = (group + 1..=rows).step_by(groups as usize);
        expected.extend(ids.map(|id| [id, *group, id % NUMBERS + raised, FILLER_LENGTH]));
    }
    let number = |value: &Option<String>| value.as_deref().and_then(|value| value.parse().ok());
    let mut came: Vec<[i64; 4]> = Vec::new();
    for row in found {
        let values: Option<Vec<i64>> = row.iter().map(number).collect();
        came.extend(values.and_then(|values| <[i64; 4]>::try_from(values).ok()));
    }
    expected.sort_unstable();
    came.sort_unstable();
    if came == expected {
        return None;
    }
    let foreign = came.iter().find(|row| expected.binary_search(row).is_err());
    let lost = expected.iter().find(|row| came.binary_search(row).is_err());
    Some(format!(
        "select: {} rows came of {}; not as it must be: {foreign:?}, not there: {lost:?}",
        found.len(),
        expected.len()
    ))
}
