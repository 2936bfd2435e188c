//! `ashlar volume profile`: what the requests of a volume look like.

use ashlar_api::{IoProfile, RequestProfile};

use crate::Context;
use crate::failure::Result;
use crate::output::{size, table};

/// Show what the requests of a volume look like: how long, of which kinds, sequential or random.
///
/// A request is sequential when it begins where one of the eight before it of its kind ended. Requests are
/// counted as hosts send them, over all doors: of an attached volume those that the kernel has merged.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar volume profile db\n  ashlar volume profile db --seconds 10 --json"
)]
pub struct Profile {
    /// Name of the volume.
    name: String,
    /// Count for so long, 1 to 60 seconds [default: all since the array started].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: Option<u64>,
}

impl Profile {
    pub fn run(self, context: &Context) -> Result<()> {
        let profile = context.client()?.volume_profile(&self.name, self.seconds)?;
        Ok(context.output.print(&profile, text)?)
    }
}

fn text(profile: &IoProfile) -> String {
    let IoProfile { volume, counted_seconds, reads, writes, .. } = profile;
    let when = match counted_seconds {
        Some(seconds) => format!("in {seconds} s"),
        None => "since the array started".to_string(),
    };
    let kinds = [
        ("reads", reads.count, Some(reads)),
        ("writes", writes.count, Some(writes)),
        ("unmaps", profile.unmap_count, None),
        ("zeroes", profile.write_zeroes_count, None),
        ("flushes", profile.flush_count, None),
    ];
    let all: u64 = kinds.iter().map(|(_, count, _)| count).sum();
    if all == 0 {
        return format!("no request of volume {volume} {when}\n");
    }
    let row = |(kind, count, shape): (&str, u64, Option<&RequestProfile>)| {
        let sequential = shape.map_or("-".to_string(), |shape| share(shape.sequential_count, shape.count));
        vec![kind.to_string(), count.to_string(), share(count, all), sequential]
    };
    let rows: Vec<Vec<String>> = kinds.into_iter().map(row).collect();
    format!(
        "{all} requests of volume {volume} {when}\n\n{}\n{}",
        table(&["KIND", "REQUESTS", "SHARE", "SEQUENTIAL"], &[1, 2, 3], &rows),
        sizes(reads, writes)
    )
}

/// Requests by length, a line for each class that is not empty.
fn sizes(reads: &RequestProfile, writes: &RequestProfile) -> String {
    let mut ends: Vec<u64> = reads.sizes.iter().chain(&writes.sizes).map(|class| class.up_to_bytes).collect();
    ends.sort_unstable();
    ends.dedup();
    let cells = |of: &RequestProfile, end: u64| {
        let count = of.sizes.iter().find(|class| class.up_to_bytes == end).map_or(0, |class| class.count);
        [count.to_string(), share(count, of.count)]
    };
    let row = |end: &u64| {
        let [read_count, read_share] = cells(reads, *end);
        let [write_count, write_share] = cells(writes, *end);
        vec![size(*end), read_count, read_share, write_count, write_share]
    };
    let rows: Vec<Vec<String>> = ends.iter().map(row).collect();
    table(&["UP TO", "READS", "SHARE", "WRITES", "SHARE"], &[0, 1, 2, 3, 4], &rows)
}

/// In per cent of a whole; a dash where there is nothing to share.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_string();
    }
    let percent = 100.0 * part as f64 / whole as f64;
    if part > 0 && percent < 1.0 { "<1 %".to_string() } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use ashlar_api::SizeClass;

    use super::*;

    #[test]
    fn each_kind_has_its_share_and_each_class_its_line() {
        let class = |up_to_bytes, count| SizeClass { up_to_bytes, count };
        let reads = RequestProfile { count: 300, sequential_count: 1, sizes: vec![class(8192, 300)] };
        let writes = RequestProfile {
            count: 100,
            sequential_count: 90,
            sizes: vec![class(4096, 25), class(8192, 75)],
        };
        let profile = IoProfile {
            volume: "db".to_string(),
            counted_seconds: Some(5),
            reads,
            writes,
            unmap_count: 0,
            write_zeroes_count: 0,
            flush_count: 100,
        };
        let expected = [
            "500 requests of volume db in 5 s",
            "",
            "KIND     REQUESTS  SHARE  SEQUENTIAL",
            "reads         300   60 %        <1 %",
            "writes        100   20 %        90 %",
            "unmaps          0    0 %           -",
            "zeroes          0    0 %           -",
            "flushes       100   20 %           -",
            "",
            "UP TO  READS  SHARE  WRITES  SHARE",
            "4 KiB      0    0 %      25   25 %",
            "8 KiB    300  100 %      75   75 %",
            "",
        ];
        assert_eq!(text(&profile), expected.join("\n"));
        let none = RequestProfile::default();
        let idle =
            IoProfile { counted_seconds: None, reads: none.clone(), writes: none, flush_count: 0, ..profile };
        assert_eq!(text(&idle), "no request of volume db since the array started\n");
    }
}
