//! `ashlar sim`: the deterministic simulator.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use ashlar_sim::{Options, Progress, Summary};
use clap::ArgAction;

use crate::Context;
use crate::failure::{Failure, Result};
use crate::stderr;

/// Run the array in the simulator: modelled drives, faults, crashes, an independent oracle.
///
/// A seed decides everything that happens in its run. The first failing seed ends the command with
/// status 1 and the line that repeats it. Touches no drive of this machine.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar sim --seeds 200\n  ashlar sim --seeds 1 --first-seed 4711 --trace"
)]
pub struct Sim {
    /// How many seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed; the others follow it.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Begin no seed after this many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Show the last operations before a failure, on stdout.
    #[arg(long)]
    trace: bool,
    /// Run every seed twice and compare the two runs.
    #[arg(long, action = ArgAction::SetTrue)]
    twice: bool,
}

/// How often progress is shown where no terminal replaces the line. Arbitrary.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

impl Sim {
    pub fn run(self, context: &Context) -> Result<()> {
        let options = Options {
            first_seed: self.first_seed,
            seeds: self.seeds,
            minutes: self.minutes,
            is_verbose: self.trace,
            check_determinism: self.twice,
        };
        let mut shown = Shown { is_terminal: std::io::stderr().is_terminal(), at: Duration::ZERO };
        let ended = ashlar_sim::run(&options, &mut |progress| shown.progress(progress));
        shown.end();
        match ended {
            Ok(summary) => Ok(context.output.print(&json(&summary), |_| summary.to_string())?),
            Err(failure) => {
                if !failure.trace.is_empty() {
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "{}", failure.trace.join("\n"))?;
                }
                Err(Failure::new(failure.to_string()))
            }
        }
    }
}

/// Progress on stderr: one line that is replaced on a terminal, a line now and then elsewhere.
struct Shown {
    is_terminal: bool,
    at: Duration,
}

impl Shown {
    fn progress(&mut self, progress: &Progress) {
        let line = format!(
            "sim: {} of {} seeds, {:.0} s",
            progress.done,
            progress.wanted,
            progress.elapsed.as_secs_f64()
        );
        if self.is_terminal {
            stderr::part(format_args!("\r{line}"));
        } else if progress.elapsed >= self.at + PROGRESS_INTERVAL {
            self.at = progress.elapsed;
            stderr::line(line);
        }
    }

    fn end(&self) {
        if self.is_terminal {
            stderr::line("");
        }
    }
}

fn json(summary: &Summary) -> serde_json::Value {
    let (counters, drives) = (&summary.counters, &summary.drives);
    serde_json::json!({
        "seeds": summary.seeds,
        "steps": summary.steps,
        "elapsed_millis": summary.elapsed.as_millis() as u64,
        "requests": counters.requests,
        "changes": counters.changes,
        "crashes": counters.crashes,
        "clean_stops": counters.closes,
        "starts": counters.starts,
        "failed_starts": counters.failed_starts,
        "checks": counters.checks,
        "images_verified": counters.images_verified,
        "verified_bytes": counters.bytes_verified,
        "differences": counters.differences,
        "blocks_told": counters.blocks_told,
        "blocks_told_equal": counters.blocks_told_equal,
        "pool_full": counters.no_space,
        "drive_reads": drives.reads,
        "drive_writes": drives.writes,
        "drive_syncs": drives.syncs,
        "drive_errors": drives.errors,
        "drive_lies": drives.damages,
        "probes": summary.probes,
    })
}
