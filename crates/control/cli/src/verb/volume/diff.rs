//! `ashlar volume diff`: what differs between two volumes or images.

use ashlar_api::{RANGES_MAX, VolumeDiff};

use crate::Context;
use crate::failure::Result;
use crate::output::{fields, size, table};
use crate::parse;

/// List what differs between two volumes or snapshots of one pool, without reading them.
///
/// Found by their maps: blocks that are stored at the same place are equal, and so are zeroes and what was
/// never written. It takes as long as there are differences, whatever the size. A block that was written
/// again with the same bytes is listed too; what is not listed is equal. What a host has not written yet does
/// not count.
///
/// All bytes are counted; ranges are listed as many as --ranges says, the next ones by --from. Of volumes in
/// use each such list is of another instant: name snapshots to have them agree.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar volume diff db@monday db\n  \
        ashlar volume diff db@monday test --json | jq .different_bytes")]
pub struct Diff {
    /// VOLUME or VOLUME@SNAPSHOT.
    a: String,
    /// VOLUME or VOLUME@SNAPSHOT, not only of the same volume.
    b: String,
    /// Ranges to list at most.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=RANGES_MAX))]
    ranges: u64,
    /// Count and list from this byte on, a multiple of 4 KiB.
    #[arg(long, value_name = "BYTES", value_parser = parse::size, default_value = "0")]
    from: u64,
}

impl Diff {
    pub fn run(self, context: &Context) -> Result<()> {
        let diff = context.client()?.volume_diff(&self.a, &self.b, self.from, self.ranges)?;
        Ok(context.output.print(&diff, text)?)
    }
}

fn text(diff: &VolumeDiff) -> String {
    let mut pairs = vec![("different", size(diff.different_bytes))];
    if diff.a_size_bytes != diff.b_size_bytes {
        pairs.push(("sizes", format!("{} and {}", size(diff.a_size_bytes), size(diff.b_size_bytes))));
    }
    let mut text = fields(&pairs);
    if !diff.ranges.is_empty() {
        let rows: Vec<Vec<String>> = diff
            .ranges
            .iter()
            .map(|range| vec![range.offset_bytes.to_string(), size(range.length_bytes)])
            .collect();
        text.push_str(&table(&["FROM BYTE", "LENGTH"], &[0, 1], &rows));
    }
    if let Some(next) = diff.next_bytes {
        text.push_str(&format!("there are more: --from {next}B\n"));
    }
    text
}
