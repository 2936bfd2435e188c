//! `ashlar pool scrub`.

use std::sync::mpsc;
use std::time::Duration;

use ashlar_api::{Scrub as ScrubView, ScrubAction, ScrubReport};
use ashlar_client::Client;

use super::{all_is_well, checked, show};
use crate::Context;
use crate::failure::Result;
use crate::progress::Progress;

/// How often a scrub is asked after. Arbitrary: often enough to see it move.
const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// Check a pool, then compare every segment with its parity and set right what is wrong, while it serves.
///
/// Shows how far it is on stderr. It leaves the drives to hosts while there are any at work. Pools are also
/// scrubbed by themselves: the setting `scrub_interval_days`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool scrub main\n  ashlar pool scrub main --pause")]
pub struct Scrub {
    /// Name of the pool.
    name: String,
    /// Hold the scrub under way.
    #[arg(long, conflicts_with_all = ["resume", "stop"])]
    pause: bool,
    /// Let a scrub that is held go on.
    #[arg(long, conflicts_with = "stop")]
    resume: bool,
    /// End the scrub under way.
    #[arg(long)]
    stop: bool,
}

impl Scrub {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let action = match (self.pause, self.resume, self.stop) {
            (true, ..) => Some(ScrubAction::Pause),
            (_, true, _) => Some(ScrubAction::Resume),
            (_, _, true) => Some(ScrubAction::Stop),
            _ => None,
        };
        if let Some(action) = action {
            return Ok(context.output.print(&client.pool_scrub_change(&self.name, action)?, show)?);
        }
        let watcher = context.client()?;
        let name = self.name.clone();
        let (over, is_over) = mpsc::channel::<()>();
        let shown = std::thread::spawn(move || show_progress(&watcher, &name, &is_over));
        let report = client.pool_scrub(&self.name);
        drop(over);
        // It shows and decides nothing.
        let _ignored = shown.join();
        let report = report?;
        context.output.print(&report, scrubbed)?;
        all_is_well(&report.check)
    }
}

/// Asks after the scrub until it is over.
fn show_progress(client: &Client, name: &str, is_over: &mpsc::Receiver<()>) {
    let mut progress = Progress::new("scrub", 0);
    while is_over.recv_timeout(ASK_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
        let Ok(pool) = client.pool(name) else { continue };
        if let Some(scrub) = pool.scrub {
            progress.show_line(|_| scrub_line(&scrub));
        }
    }
    progress.end();
}

/// How far a scrub is.
pub fn scrub_line(scrub: &ScrubView) -> String {
    let ScrubView { done_segment_count: done, total_segment_count: total, elapsed_millis, is_paused } =
        *scrub;
    let paused = if is_paused { ", paused" } else { "" };
    if total == 0 {
        return format!("checking, {} s so far{paused}", elapsed_millis / 1000);
    }
    let percent = done * 100 / total;
    format!("{percent} %, {done} of {total} segments compared, {} s so far{paused}", elapsed_millis / 1000)
}

fn scrubbed(report: &ScrubReport) -> String {
    let mut text = checked(&report.check);
    text.push_str(&format!(
        "parity: {} stripes compared, {} blocks of data and {} of parity set right\n",
        report.stripe_count, report.data_block_count, report.parity_block_count
    ));
    if report.unproven_stripe_count > 0 {
        text.push_str(&format!(
            "{} stripes could not be compared or set right while drives are out: bring them back, then scrub again, \
             before another drive goes\n",
            report.unproven_stripe_count
        ));
    }
    text
}
