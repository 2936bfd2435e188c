//! `ashlar space reclaim`: what deleting a set would give back.

use ashlar_api::{Reclaim as ReclaimView, ReclaimRequest};

use super::{Within, counted};
use crate::Context;
use crate::failure::Result;
use crate::output::{fields, size};

/// Show exactly what deleting all these together would give back. Deletes nothing.
///
/// Volumes, snapshots and images may be mixed, clones and their origins included: what two of them share
/// comes back when both are named. A deleted volume that can still come back keeps what it holds until it is
/// given up. Snapshots that are held are told: they must be released first.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar space reclaim monday tuesday db@wednesday --json | jq .chunk_bytes"
)]
pub(super) struct Reclaim {
    /// A volume, a snapshot, or VOLUME@SNAPSHOT; `volume:NAME` or `snapshot:NAME` where both exist;
    /// VOLUME:ID of a deleted volume.
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
    let mut pairs = vec![("set", reclaim.members.join(" "))];
    if !reclaim.held.is_empty() {
        pairs.push(("held", format!("{} (release before a delete)", reclaim.held.join(" "))));
    }
    pairs.extend([
        ("given back", size(reclaim.chunk_bytes + reclaim.map_page_bytes)),
        ("  data", format!("{} in {} chunks", size(reclaim.chunk_bytes), reclaim.chunk_count)),
        ("  map pages", format!("{} in {} pages", size(reclaim.map_page_bytes), reclaim.map_page_count)),
        ("kept by others", size(reclaim.kept_bytes)),
        ("counted", counted(reclaim.duration_millis)),
    ]);
    fields(&pairs)
}
