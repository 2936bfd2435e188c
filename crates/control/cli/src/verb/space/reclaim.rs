//! `ashlar space reclaim`: what deleting a set would give back.

use ashlar_api::{Reclaim as ReclaimView, ReclaimRequest};

use super::{Within, counted};
use crate::Context;
use crate::failure::Result;
use crate::output::{fields, size};

/// Show exactly what deleting all these together would give back. Deletes nothing.
///
/// Volumes, snapshots and images may be mixed, clones and their origins included: what two of them share
/// comes back when both are named.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar space reclaim monday tuesday db@wednesday --json | jq .chunk_bytes"
)]
pub(super) struct Reclaim {
    /// A volume, a snapshot, or VOLUME@SNAPSHOT; `volume:NAME` or `snapshot:NAME` where both exist.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    within: Within,
}

impl Reclaim {
    pub(super) fn run(self, context: &Context) -> Result<()> {
        let request = ReclaimRequest { names: self.names, within_seconds: self.within.within };
        Ok(context.output.print(&context.client()?.space_reclaim(&request)?, text)?)
    }
}

fn text(reclaim: &ReclaimView) -> String {
    fields(&[
        ("set", reclaim.members.join(" ")),
        ("given back", size(reclaim.chunk_bytes + reclaim.map_page_bytes)),
        ("  data", format!("{} in {} chunks", size(reclaim.chunk_bytes), reclaim.chunk_count)),
        ("  map pages", format!("{} in {} pages", size(reclaim.map_page_bytes), reclaim.map_page_count)),
        ("kept by others", size(reclaim.kept_bytes)),
        ("counted", counted(reclaim.duration_millis)),
    ])
}
