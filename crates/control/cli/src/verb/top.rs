//! `ashlar top`: what hosts do now, per volume and door, refreshed.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use ashlar_api::DoorIo;

use crate::Context;
use crate::failure::Result;
use crate::output::{micros, size, table};

/// Show requests per second per volume and door, refreshed until Ctrl-C.
///
/// Latencies are since the array started; rates are of the last interval.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar top --interval 2\n  ashlar top --count 1 --json")]
pub struct Top {
    /// Seconds between two refreshes.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Stop after this many refreshes.
    #[arg(long)]
    count: Option<u64>,
}

/// Counts of one kind of request at one moment.
type Counts = BTreeMap<(String, String, String), (u64, u64)>;

impl Top {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let interval = Duration::from_secs(self.interval);
        let mut before = counts(&client.io()?);
        let mut asked_at = Instant::now();
        let mut left = self.count;
        while left != Some(0) {
            std::thread::sleep(interval);
            let doors = client.io()?;
            let seconds = asked_at.elapsed().as_secs_f64();
            asked_at = Instant::now();
            if context.output.is_json() {
                context.output.print(&doors, |_| String::new())?;
            } else {
                print_screen(&screen(&doors, &before, seconds))?;
            }
            before = counts(&doors);
            left = left.map(|count| count - 1);
        }
        Ok(())
    }
}

fn counts(doors: &[DoorIo]) -> Counts {
    let mut counts = Counts::new();
    for door in doors {
        for operation in &door.operations {
            let key = (door.volume.clone(), door.door.clone(), operation.operation.clone());
            counts.insert(key, (operation.count, operation.bytes));
        }
    }
    counts
}

fn screen(doors: &[DoorIo], before: &Counts, seconds: f64) -> String {
    let mut rows = Vec::new();
    for door in doors {
        for operation in door.operations.iter().filter(|operation| operation.count + operation.errors > 0) {
            let key = (door.volume.clone(), door.door.clone(), operation.operation.clone());
            let (count, bytes) = before.get(&key).copied().unwrap_or_default();
            // A volume deleted and made again starts from zero.
            let rate = operation.count.saturating_sub(count) as f64 / seconds;
            let bytes_rate = operation.bytes.saturating_sub(bytes) as f64 / seconds;
            rows.push(vec![
                door.volume.clone(),
                door.door.clone(),
                operation.operation.clone(),
                format!("{rate:.0}"),
                format!("{}/s", size(bytes_rate as u64)),
                micros(operation.latency_micros_p50),
                micros(operation.latency_micros_p99),
                micros(operation.latency_micros_max),
                operation.errors.to_string(),
            ]);
        }
    }
    let header = ["VOLUME", "DOOR", "REQUEST", "PER SECOND", "BYTES", "P50", "P99", "MAX", "ERRORS"];
    table(&header, &[3, 4, 5, 6, 7, 8], &rows)
}

fn print_screen(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if out.is_terminal() {
        // Home and clear: the table replaces the last one.
        out.write_all(b"\x1b[H\x1b[2J")?;
    }
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
