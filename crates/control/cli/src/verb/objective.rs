//! `ashlar objective`: how fast requests should be, and for how much of the time.

use ashlar_api::{
    OBJECTIVE_SECONDS_MAX, Objective as Shown, ObjectiveRequests, ObjectiveSet, ObjectivesQuery,
};
use clap::Subcommand;

use crate::Context;
use crate::failure::Result;
use crate::output::{fields, micros, table};
use crate::parse;

/// How fast requests of a volume or a database should be, for how much of the time, and whether they are.
///
/// An objective is judged minute by minute. A minute in which one of a hundred requests or more was slower
/// than --p99 is missed; one without requests is met, and one in which the array did not run is not counted.
/// A minute of a database is met if it is for each of its volumes. The time that may be missed is a share of
/// the whole time that the objective looks back: 99.9 % of seven days leave ten minutes.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar objective set prod --p99 2ms --for 99.9%\n  \
        ashlar objective list")]
pub struct Objective {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Give a database or a volume an objective, in place of the one that it has.
    #[command(after_help = "Example:\n  ashlar objective set prod --p99 2ms --for 99.9%\n  \
        ashlar objective set docs --p99 20ms --for 99% --reads --over 24h")]
    Set {
        /// Name of the database or, where none is called so, of the volume.
        name: String,
        /// What 99 of 100 requests are to stay below, with its unit: 500us, 2ms, 1s.
        #[arg(long, value_name = "TIME", value_parser = parse::latency)]
        p99: u64,
        /// For how much of the time, in per cent.
        #[arg(long = "for", value_name = "PERCENT", value_parser = percent)]
        share: f64,
        /// Look at reads alone. Without this and --writes both must be fast enough.
        #[arg(long, conflicts_with = "writes")]
        reads: bool,
        /// Look at writes alone.
        #[arg(long)]
        writes: bool,
        /// How far back it looks, from 1h to 7d [default: 7d].
        #[arg(long, value_name = "TIME", value_parser = ashlar_schedule::term)]
        over: Option<u64>,
    },
    /// All objectives, and how they fare.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar objective list --json")]
    List,
    /// One objective: whether it is met now, how much of the time it was, and how much may still be missed.
    #[command(after_help = "Example:\n  ashlar objective show prod")]
    Show {
        /// Name of the database or the volume.
        name: String,
    },
    /// Delete an objective. It goes by itself with its database or volume.
    #[command(after_help = "Example:\n  ashlar objective delete prod")]
    Delete {
        /// Name of the database or the volume.
        name: String,
    },
}

impl Objective {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Set { name, p99, share, reads, writes, over } => {
                let requests = match (reads, writes) {
                    (true, _) => ObjectiveRequests::Reads,
                    (_, true) => ObjectiveRequests::Writes,
                    _ => ObjectiveRequests::All,
                };
                let request = ObjectiveSet {
                    p99_micros: p99,
                    for_percent: share,
                    requests,
                    over_seconds: over.unwrap_or(OBJECTIVE_SECONDS_MAX),
                };
                context.output.print(&client.objective_set(&name, &request)?, show)?;
            }
            Verb::List => {
                let all = client.objectives_page(&ObjectivesQuery::default())?.items;
                context.output.print(&all, |all| list(all))?;
            }
            Verb::Show { name } => context.output.print(&client.objective(&name)?, show)?,
            Verb::Delete { name } => {
                client.objective_delete(&name)?;
                context.output.done("deleted objective", &name)?;
            }
        }
        Ok(())
    }
}

/// `99.9%` or `99.9`.
fn percent(text: &str) -> std::result::Result<f64, String> {
    let wrong =
        || format!("`{text}` is no share of the time: give per cent above 0 and at most 100, e.g. 99.9%");
    let value: f64 = text.trim_end_matches('%').trim().parse().map_err(|_| wrong())?;
    if value > 0.0 && value <= 100.0 { Ok(value) } else { Err(wrong()) }
}

fn now(objective: &Shown) -> String {
    let present = objective.present_p99_micros.map_or("no requests".to_string(), micros);
    let verdict = if objective.is_met_now { "met" } else { "MISSED" };
    format!("{verdict}, {present}")
}

fn minutes(seconds: u64) -> String {
    match seconds {
        0..36_000 => format!("{:.1} min", seconds as f64 / 60.0),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

fn left(objective: &Shown) -> String {
    match objective.is_used_up {
        true => "USED UP".to_string(),
        false => format!("{:.0} %, {}", objective.left_percent, minutes(objective.left_seconds)),
    }
}

fn list(objectives: &[Shown]) -> String {
    let row = |objective: &Shown| {
        vec![
            objective.name.clone(),
            objective.kind.name().to_string(),
            objective.requests.name().to_string(),
            micros(objective.p99_micros),
            format!("{} %", objective.for_percent),
            now(objective),
            format!("{:.3} %", objective.met_percent),
            left(objective),
        ]
    };
    let rows: Vec<Vec<String>> = objectives.iter().map(row).collect();
    table(&["NAME", "IS A", "OF", "P99", "FOR", "NOW", "MET", "LEFT"], &[3, 4, 6], &rows)
}

fn show(objective: &Shown) -> String {
    let Shown { covered_seconds, missed_seconds, permitted_seconds, over_seconds, .. } = objective;
    let limit = format!(
        "p99 of {} below {} for {} % of the time",
        objective.requests.name(),
        micros(objective.p99_micros),
        objective.for_percent
    );
    fields(&[
        ("name", format!("{} {}", objective.kind.name(), objective.name)),
        ("pool", objective.pool.clone()),
        ("objective", limit),
        ("volumes", objective.volumes.join(" ")),
        ("now", now(objective)),
        ("met", format!("{:.3} % of the time that is known", objective.met_percent)),
        ("known", format!("{} of {}", minutes(*covered_seconds), minutes(*over_seconds))),
        ("missed", format!("{} of {} permitted", minutes(*missed_seconds), minutes(*permitted_seconds))),
        ("left", left(objective)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::latency;

    #[test]
    fn latencies_and_shares_are_read_with_their_units() {
        let read = ["500us", "2ms", "1.5ms", "1s", "2 ms"].map(latency);
        assert_eq!(read, [Ok(500), Ok(2000), Ok(1500), Ok(1_000_000), Ok(2000)]);
        for wrong in ["", "2", "ms", "0ms", "-1ms", "2m", "2 parsecs", "NaNms", "infs"] {
            assert!(latency(wrong).is_err_and(|why| why.contains("2ms")), "{wrong}");
        }
        assert_eq!(["99.9%", "99", "100 %"].map(percent), [Ok(99.9), Ok(99.0), Ok(100.0)]);
        for wrong in ["", "%", "0", "100.1", "NaN", "many"] {
            assert!(percent(wrong).is_err_and(|why| why.contains("99.9%")), "{wrong}");
        }
    }
}
