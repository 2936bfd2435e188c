//! `ashlar top`: what hosts do now, where their time goes, and which requests were slow.

use std::io::{IsTerminal, Write};

use ashlar_api::{Figures, Latency, PoolFigures, Rates, SlowRequest, StageTime};
use ashlar_client::Message;

use crate::Context;
use crate::failure::{Failure, Result};
use crate::output::{micros, size, table, utc};

/// Show what hosts do now: requests, bytes and latencies of each volume, and where the time goes.
///
/// All figures are of the last second. The stages of a pool say what its requests waited for: `limit` the
/// rates of their volume, `turn` another request to the same blocks, `map` pages of the map, `room` room in
/// memory or in the pool, `reduction` the processor, `journal` a write until it is durable, `drive` a read of
/// the drives.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar top --interval 2\n  ashlar top --slow\n  ashlar top --count 1 --json"
)]
pub struct Top {
    /// Seconds between two refreshes.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Stop after this many refreshes.
    #[arg(long)]
    count: Option<u64>,
    /// Show the slowest requests of the last five minutes instead, with the time of each stage.
    #[arg(long, conflicts_with_all = ["interval", "count"])]
    slow: bool,
}

/// Volumes on the screen: those with the most requests. Arbitrary: what fits a window.
const ROWS_MAX: usize = 20;

impl Top {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        if self.slow {
            return Ok(context.output.print(&client.slow_requests()?, |slow| slowest(slow))?);
        }
        let mut live = client.live(None)?;
        let (mut left, mut seconds) = (self.count, 0);
        while left != Some(0) {
            let Some(message) = live.next()? else {
                return Err(Failure::new("the array stops: there are no figures any more"));
            };
            let Message::Figures(figures) = message else { continue };
            seconds += 1;
            if seconds % self.interval != 0 {
                continue;
            }
            if context.output.is_json() {
                context.output.print(&figures, |_| String::new())?;
            } else {
                print_screen(&screen(&figures))?;
            }
            left = left.map(|count| count - 1);
        }
        Ok(())
    }
}

fn screen(figures: &Figures) -> String {
    let mut text = pools(&figures.pools);
    if figures.volumes.is_empty() {
        return text + "\nno requests in the last second\n";
    }
    let mut volumes: Vec<_> = figures.volumes.iter().collect();
    volumes.sort_by(|a, b| requests(&b.rates).total_cmp(&requests(&a.rates)));
    let mut rows: Vec<Vec<String>> =
        volumes.iter().take(ROWS_MAX).map(|volume| row(&volume.volume, &volume.rates)).collect();
    if volumes.len() > 1 {
        rows.push(row(&format!("all {}", volumes.len()), &figures.array));
    }
    let header = [
        "VOLUME",
        "READS/s",
        "WRITES/s",
        "READ",
        "WRITTEN",
        "READ P50",
        "P99",
        "WRITE P50",
        "P99",
        "ERRORS/s",
    ];
    text += &format!("\n{}", table(&header, &[1, 2, 3, 4, 5, 6, 7, 8, 9], &rows));
    for pool in &figures.pools {
        text += &stages(&pool.pool, "reads", &pool.read_stages);
        text += &stages(&pool.pool, "writes", &pool.write_stages);
    }
    text
}

fn pools(pools: &[PoolFigures]) -> String {
    let row = |pool: &PoolFigures| {
        vec![
            pool.pool.clone(),
            format!("{} %", pool.full_percent),
            format!("{:.0}", requests(&pool.rates)),
            each_second(pool.rates.read_bytes_per_second + pool.rates.write_bytes_per_second),
            each_second(pool.drive_read_bytes_per_second),
            each_second(pool.drive_write_bytes_per_second),
        ]
    };
    let header = ["POOL", "FULL", "REQUESTS/s", "HOSTS", "DRIVES READ", "DRIVES WRITTEN"];
    table(&header, &[1, 2, 3, 4, 5], &pools.iter().map(row).collect::<Vec<_>>())
}

fn requests(rates: &Rates) -> f64 {
    rates.reads_per_second + rates.writes_per_second + rates.others_per_second
}

fn each_second(bytes: f64) -> String {
    format!("{}/s", size(bytes as u64))
}

fn row(name: &str, rates: &Rates) -> Vec<String> {
    let time = |latency: Option<Latency>, which: fn(Latency) -> u64| {
        latency.map_or("-".to_string(), |latency| micros(which(latency)))
    };
    let (read, write) = (rates.read_latency_micros, rates.write_latency_micros);
    vec![
        name.to_string(),
        format!("{:.0}", rates.reads_per_second),
        format!("{:.0}", rates.writes_per_second),
        each_second(rates.read_bytes_per_second),
        each_second(rates.write_bytes_per_second),
        time(read, |latency| latency.p50),
        time(read, |latency| latency.p99),
        time(write, |latency| latency.p50),
        time(write, |latency| latency.p99),
        format!("{:.0}", rates.errors_per_second),
    ]
}

/// Where the time of a pool's requests goes, in a line.
fn stages(pool: &str, kind: &str, stages: &[StageTime]) -> String {
    let took = stages.iter().filter(|stage| stage.mean_micros >= 0.5);
    let took: Vec<String> =
        took.map(|stage| format!("{} {}", stage.stage, micros(stage.mean_micros.round() as u64))).collect();
    if took.is_empty() { String::new() } else { format!("{pool}: mean of {kind}: {}\n", took.join(", ")) }
}

fn slowest(slow: &[SlowRequest]) -> String {
    if slow.is_empty() {
        return "no requests in the last five minutes\n".to_string();
    }
    let row = |request: &SlowRequest| {
        let mut stages: Vec<(&String, &u64)> = request.stages.iter().collect();
        stages.sort_by_key(|(_, micros)| std::cmp::Reverse(**micros));
        let stages = stages.iter().map(|(stage, time)| format!("{stage} {}", micros(**time)));
        vec![
            utc(request.unix_millis / 1000),
            request.volume.clone().unwrap_or_else(|| "(deleted)".to_string()),
            request.operation.clone(),
            request.offset_bytes.to_string(),
            size(request.length_bytes),
            micros(request.micros),
            stages.take(3).collect::<Vec<_>>().join(", "),
        ]
    };
    let header = ["ENDED", "VOLUME", "REQUEST", "AT BYTE", "LENGTH", "TOOK", "OF THAT"];
    table(&header, &[3, 4, 5], &slow.iter().map(row).collect::<Vec<_>>())
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
