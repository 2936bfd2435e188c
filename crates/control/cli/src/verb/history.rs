//! `ashlar history`: what hosts did over the last week, as a table, as JSON or as CSV.

use std::time::{SystemTime, UNIX_EPOCH};

use ashlar_api::{History as Series, HistoryPoint, HistoryRange, Latency};

use crate::Context;
use crate::failure::{Failure, Result};
use crate::output::{micros, size, table, utc};

/// Show what hosts did over time: requests, bytes and latencies of all volumes, of a pool or of a volume.
///
/// The array keeps steps of 10 seconds for an hour, of 5 minutes for a day and of half an hour for a week.
/// Shown are the finest that reach back to --from, each with the time at which it ended. Steps in which the
/// array did not run are missing. All times are in UTC.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar history --volume db --from -2h\n  \
        ashlar history --pool main --from 13:00 --to 14:30 --csv > main.csv")]
pub struct History {
    /// Of this volume, over all doors.
    #[arg(long, value_name = "NAME", conflicts_with = "pool")]
    volume: Option<String>,
    /// Of this pool's volumes together.
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// From this time on, at most a week ago: -2h, 13:05 or 2026-11-28T13:05:07Z.
    #[arg(long, value_name = "TIME", default_value = "-1h", allow_hyphen_values = true, value_parser = time)]
    from: u64,
    /// Until this time [default: now].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    to: Option<u64>,
    /// Print comma-separated values, their names in the first line.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

fn time(text: &str) -> std::result::Result<u64, String> {
    let found = ashlar_schedule::moment(text, unix_seconds())?;
    found.ok_or_else(|| format!("`{text}` is no time: write -2h, 13:05 or 2026-11-28T13:05:07Z, in UTC"))
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl History {
    pub fn run(self, context: &Context) -> Result<()> {
        let object = match (&self.volume, &self.pool) {
            (Some(volume), _) => format!("volume:{volume}"),
            (None, Some(pool)) => format!("pool:{pool}"),
            (None, None) => "array".to_string(),
        };
        if self.to.is_some_and(|to| to < self.from) {
            return Err(Failure::new("nothing lies between --from and --to: name an earlier --from"));
        }
        let range = range_of(unix_seconds().saturating_sub(self.from))
            .ok_or_else(|| Failure::new("figures are kept for a week: name a later --from"))?;
        let mut series = context.client()?.history(&object, range)?;
        let is_within = |second: u64| second >= self.from && self.to.is_none_or(|to| second <= to);
        series.points.retain(|point| is_within(point.unix_millis / 1000));
        Ok(context.output.print(&series, if self.csv { csv } else { lines })?)
    }
}

/// The finest steps that reach so far back. A step more: its end is what counts.
fn range_of(age_seconds: u64) -> Option<HistoryRange> {
    HistoryRange::ALL.into_iter().find(|range| age_seconds <= range.seconds() + range.step_seconds())
}

fn lines(series: &Series) -> String {
    if series.points.is_empty() {
        return format!("no figures of {} in this time\n", series.object);
    }
    let each_second = |bytes: f64| format!("{}/s", size(bytes as u64));
    let p99 = |latency: Option<Latency>| latency.map_or("-".to_string(), |latency| micros(latency.p99));
    let row = |HistoryPoint { unix_millis, rates }: &HistoryPoint| {
        vec![
            utc(unix_millis / 1000),
            format!("{:.0}", rates.reads_per_second),
            format!("{:.0}", rates.writes_per_second),
            each_second(rates.read_bytes_per_second),
            each_second(rates.write_bytes_per_second),
            p99(rates.read_latency_micros),
            p99(rates.write_latency_micros),
            format!("{:.0}", rates.errors_per_second),
        ]
    };
    let header = ["UNTIL", "READS/s", "WRITES/s", "READ", "WRITTEN", "READ P99", "WRITE P99", "ERRORS/s"];
    table(&header, &[1, 2, 3, 4, 5, 6, 7], &series.points.iter().map(row).collect::<Vec<_>>())
}

/// The names of the columns; the console writes the same.
const COLUMNS: &str = "time,reads_per_second,writes_per_second,others_per_second,errors_per_second,\
    read_bytes_per_second,write_bytes_per_second,read_latency_p50_micros,read_latency_p99_micros,\
    read_latency_max_micros,write_latency_p50_micros,write_latency_p99_micros,write_latency_max_micros\n";

fn csv(series: &Series) -> String {
    let latency = |latency: Option<Latency>| match latency {
        Some(Latency { p50, p99, max }) => format!("{p50},{p99},{max}"),
        None => ",,".to_string(),
    };
    let line = |HistoryPoint { unix_millis, rates }: &HistoryPoint| {
        format!(
            "{},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3},{},{}\n",
            utc(unix_millis / 1000).replace(' ', "T"),
            rates.reads_per_second,
            rates.writes_per_second,
            rates.others_per_second,
            rates.errors_per_second,
            rates.read_bytes_per_second,
            rates.write_bytes_per_second,
            latency(rates.read_latency_micros),
            latency(rates.write_latency_micros),
        )
    };
    std::iter::once(COLUMNS.to_string()).chain(series.points.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use ashlar_api::Rates;

    use super::*;

    #[test]
    fn the_finest_steps_that_reach_back_are_shown() {
        assert_eq!(range_of(0), Some(HistoryRange::Hour));
        assert_eq!(range_of(3601), Some(HistoryRange::Hour), "the time between two looks at the clock");
        assert_eq!(range_of(7200), Some(HistoryRange::Day));
        assert_eq!(range_of(100_000), Some(HistoryRange::Week));
        assert_eq!(range_of(14 * 86_400), None);
    }

    #[test]
    fn a_line_of_csv_has_as_many_values_as_names() {
        let latency = Latency { p50: 100, p99: 900, max: 1000 };
        let rates =
            Rates { writes_per_second: 12.5, write_latency_micros: Some(latency), ..Rates::default() };
        let points = vec![HistoryPoint { unix_millis: 1_795_871_107_000, rates }];
        let series =
            Series { object: "array".to_string(), range: HistoryRange::Hour, step_seconds: 10, points };
        let text = csv(&series);
        let (names, line) = text.split_once('\n').expect("there are two lines");
        assert_eq!(line, "2026-11-28T13:05:07Z,0.000,12.500,0.000,0.000,0.000,0.000,,,,100,900,1000\n");
        assert_eq!(names.split(',').count(), line.split(',').count());
        assert!(lines(&series).contains("900 us"), "{}", lines(&series));
    }
}
