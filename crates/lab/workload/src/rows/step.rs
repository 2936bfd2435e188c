//! One step over the whole table, timed: by statements, or by one call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ashlar_postgres::Session;
use ashlar_statistics::latencies::Latencies;

use super::load::{FILLER_LENGTH, NUMBERS, procedures};
use super::{Call, Job, ROWS_PER_STATEMENT, Rows, groups};
use crate::error::{Error, Result};
use crate::prepare::Listed;
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
        self.change_all(&UPDATE, stop)
    }

    pub(super) fn delete_all(&mut self, stop: &AtomicBool) -> Result<Timed> {
        self.change_all(&DELETE, stop)
    }

    fn change_all(&mut self, change: &Change, stop: &AtomicBool) -> Result<Timed> {
        let (rows, call) = (self.rows, self.settings.call);
        let mut runner = self.runner(stop);
        match call {
            Call::Procedure => runner.call(&change.call(rows))?,
            Call::Statements => {
                for first in (1..=rows).step_by(ROWS_PER_STATEMENT as usize) {
                    runner.change(&change.statement(first))?;
                }
            }
        }
        let wrong = (runner.rows != rows as u64)
            .then(|| format!("{}: {} rows were changed of {rows}", change.name, runner.rows));
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
                found = runner.run(&select_call(&asked))?;
            }
            Call::Statements => {
                for group in &asked {
                    found.extend(runner.run(&select_statement(*group))?);
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

/// A change of all rows.
struct Change {
    name: &'static str,
    /// Without the part of the rows.
    verb: &'static str,
}

const UPDATE: Change = Change { name: "update", verb: "UPDATE lab_rows.item SET number = number + 1" };
const DELETE: Change = Change { name: "delete", verb: "DELETE FROM lab_rows.item" };

impl Change {
    /// Of the rows from `first`.
    fn statement(&self, first: i64) -> String {
        format!("{} WHERE id BETWEEN {first} AND {}", self.verb, first + ROWS_PER_STATEMENT - 1)
    }

    fn call(&self, rows: i64) -> String {
        format!("CALL lab_rows.{}_all({rows}, 0)", self.name)
    }
}

fn select_statement(group: i64) -> String {
    format!("SELECT id, grp, number, length(filler) FROM lab_rows.item WHERE grp = {group}")
}

fn select_call(groups: &[i64]) -> String {
    let list: Vec<String> = groups.iter().map(ToString::to_string).collect();
    format!("SELECT id, grp, number, length(filler) FROM lab_rows.of_groups('{{{}}}')", list.join(","))
}

/// What the steps ask of a server: the first statement of each, or the call for all.
pub(super) fn listed(job: Job, call: Call, rows: i64) -> Vec<Listed> {
    let change = |change: &Change| match call {
        Call::Statements => Listed::new(change.name, vec![change.statement(1)]),
        Call::Procedure => Listed::new(change.name, vec![change.call(rows)]),
    };
    let select = match call {
        Call::Statements => select_statement(0),
        Call::Procedure => select_call(&[0, 1]),
    };
    let select = Listed::new("select", vec![select]);
    let mut steps = match job {
        Job::Change => vec![change(&UPDATE), select, change(&DELETE)],
        Job::Read => vec![Listed::new("scan", vec![SUMS.to_string()]), select],
    };
    if call == Call::Procedure {
        steps.push(Listed::new("procedures", vec![procedures().trim().to_string()]));
    }
    steps
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
