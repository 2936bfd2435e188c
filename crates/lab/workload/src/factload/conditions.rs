//! What must hold of the facts: every batch is there whole and once, and what was acknowledged is there.
//!
//! The first three ask the database alone, of all runs, and hold at any time, also in a copy of it. The other
//! two compare it with what one run's clients wrote down. All see one state of the database, which is read
//! once from end to end: the session's limit must allow for that.

use std::collections::BTreeMap;

use ashlar_postgres::Session;

use crate::error::{Error, Result};
use crate::orders::conditions::Condition;
pub use crate::orders::conditions::Verdict;

use super::ledger::Standing;
use super::origin::Batch;
use super::transform::{SUMS, seal_expression};

/// What the database alone can tell: `lab_found` has what was found, `lab_facts.batch` what must be.
const CONDITIONS: [Condition; 3] = [
    Condition {
        number: 1,
        name: "a batch has as many rows as its source has for it",
        offending: "SELECT format('run %s round %s source %s batch %s: %s rows, not %s',
                f.run, f.round, f.source, f.batch, f.rows, b.rows) AS example
            FROM lab_found AS f LEFT JOIN lab_facts.batch AS b USING (source, batch)
            WHERE f.rows IS DISTINCT FROM b.rows",
    },
    Condition {
        number: 2,
        name: "a batch has the checksums and sums of its source's rows",
        offending: "SELECT format('run %s round %s source %s batch %s: net %s, not %s; checksums %s, not %s',
                f.run, f.round, f.source, f.batch, f.net, b.net, f.checksums, b.checksums) AS example
            FROM lab_found AS f LEFT JOIN lab_facts.batch AS b USING (source, batch)
            WHERE (f.checksums, f.seals, f.gross, f.discount, f.net, f.tax, f.cost, f.margin, f.weight,
                    f.quantity)
                IS DISTINCT FROM (b.checksums, b.seals, b.gross, b.discount, b.net, b.tax, b.cost, b.margin,
                    b.weight, b.quantity)",
    },
    Condition {
        number: 3,
        name: "a row has the values that its seal was made of",
        offending: "SELECT format('run %s round %s source %s batch %s: %s rows, one of them %s',
                run, round, source, batch, broken, broken_id) AS example
            FROM lab_found WHERE broken > 0",
    },
];

/// What one run's clients wrote down.
pub(super) struct Sent<'a> {
    pub(super) run: i32,
    pub(super) batches: &'a BTreeMap<Batch, Standing>,
}

/// Asks whether what the database alone can tell holds, of all runs.
///
/// # Errors
/// When the server refuses or does not answer: then nobody knows.
pub fn check(session: &mut Session) -> Result<Vec<Verdict>> {
    check_all(session, None)
}

pub(super) fn check_all(session: &mut Session, sent: Option<Sent>) -> Result<Vec<Verdict>> {
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let answer = ask(session, sent);
    // Nothing was changed that anybody else could see.
    let ended = session.run("ROLLBACK");
    let verdicts = answer?;
    ended?;
    Ok(verdicts)
}

fn ask(session: &mut Session, sent: Option<Sent>) -> Result<Vec<Verdict>> {
    // The facts are many and the batches few: sorted, all facts would be written to the target once more.
    session.run("SET LOCAL enable_sort = off")?;
    let sums = SUMS.map(|(name, sum)| format!("{sum} AS {name}")).join(", ");
    let broken = format!("FILTER (WHERE seal <> ({}))", seal_expression());
    session.run(&format!(
        "CREATE TEMP TABLE lab_found ON COMMIT DROP AS
         SELECT run, round, source, batch, {sums}, count(*) {broken} AS broken, min(id) {broken} AS broken_id
         FROM lab_facts.fact GROUP BY run, round, source, batch"
    ))?;
    let told = CONDITIONS.iter().map(|condition| condition.check(session));
    let mut verdicts: Vec<Verdict> = told.collect::<Result<_>>()?;
    if let Some(sent) = sent {
        let found = batches(session, sent.run)?;
        verdicts.extend(sent.compare(&found));
    }
    Ok(verdicts)
}

fn verdict(number: u8, name: &str, offending: u64, example: Option<String>) -> Verdict {
    Verdict { number, name: name.into(), holds: offending == 0, offending, example }
}

/// Of a run, those of which there is at least a row.
fn batches(session: &mut Session, run: i32) -> Result<Vec<Batch>> {
    let rows = session.run(&format!("SELECT round, source, batch FROM lab_found WHERE run = {run}"))?;
    let batch = |row: &Vec<Option<String>>| {
        let fields: Option<Vec<i32>> = row.iter().map(|field| field.as_deref()?.parse().ok()).collect();
        let [round, source, number] = fields?.try_into().ok()?;
        Some(Batch { round, source: source as i16, number })
    };
    let batches: Option<Vec<Batch>> = rows.iter().map(batch).collect();
    batches.ok_or_else(|| Error::content("the batches that were found have no numbers"))
}

impl Sent<'_> {
    fn compare(&self, found: &[Batch]) -> [Verdict; 2] {
        let mut missing: BTreeMap<Batch, Standing> = self.batches.clone();
        let mut foreign = Vec::new();
        for batch in found {
            if missing.remove(batch).is_none() {
                foreign.push(*batch);
            }
        }
        missing.retain(|_, standing| *standing == Standing::Acknowledged);
        let shown = |batch: &Batch| {
            let Batch { round, source, number } = batch;
            format!("run {} round {round} source {source} batch {number}", self.run)
        };
        [
            verdict(
                4,
                "a batch that was acknowledged is there",
                missing.len() as u64,
                missing.keys().next().map(shown),
            ),
            verdict(
                5,
                "a batch that is there was sent",
                foreign.len() as u64,
                foreign.iter().min().map(shown),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_must_be_there_and_what_had_no_answer_may() {
        let batch = |number| Batch { round: 0, source: 1, number };
        let sent = [
            (batch(0), Standing::Acknowledged),
            (batch(1), Standing::Acknowledged),
            (batch(2), Standing::Unknown),
            (batch(3), Standing::Unknown),
        ];
        let batches = BTreeMap::from(sent);
        let sent = Sent { run: 7, batches: &batches };
        let offending = |found: &[Batch]| sent.compare(found).map(|verdict| verdict.offending);
        assert_eq!(offending(&[batch(0), batch(1), batch(2)]), [0, 0]);
        assert_eq!(offending(&[batch(0), batch(2), batch(3)]), [1, 0]);
        assert_eq!(offending(&[batch(1), batch(0), batch(4), batch(5)]), [0, 2]);
        let [missing, foreign] = sent.compare(&[batch(0), batch(9)]).map(|verdict| verdict.example);
        assert_eq!(missing.as_deref(), Some("run 7 round 0 source 1 batch 1"));
        assert_eq!(foreign.as_deref(), Some("run 7 round 0 source 1 batch 9"));
    }
}
