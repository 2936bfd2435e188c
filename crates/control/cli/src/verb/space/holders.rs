//! `ashlar space holders`: what keeps the space of a volume or snapshot.

use ashlar_api::{Holders as HoldersView, HoldersQuestion};

use super::{Within, counted};
use crate::Context;
use crate::failure::Result;
use crate::output::{fields, size, table};

/// Show what keeps space alive: of a volume what was deleted or overwritten in it, of a snapshot what
/// would stay if it were deleted.
///
/// Each snapshot and clone is listed with the bytes that, of all others, only it holds, most first; what
/// several hold together goes with the last of them.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar space holders db --json | jq '.holders[0]'")]
pub(super) struct Holders {
    /// A volume, a snapshot, or VOLUME@SNAPSHOT; `volume:NAME` or `snapshot:NAME` where both exist.
    name: String,
    #[command(flatten)]
    within: Within,
}

impl Holders {
    pub(super) fn run(self, context: &Context) -> Result<()> {
        let holders = context.client()?.space_holders(&self.name, self.within.within)?;
        Ok(context.output.print(&holders, text)?)
    }
}

fn text(holders: &HoldersView) -> String {
    let question = match holders.question {
        HoldersQuestion::Overwritten => "deleted or overwritten in it, held by others",
        HoldersQuestion::StaysAfterDelete => "stays if it is deleted, held by others",
    };
    let alone: u64 = holders.holders.iter().map(|holder| holder.bytes).sum();
    let mut text = fields(&[
        ("of", holders.members.join(" ")),
        ("only its own", size(holders.only_bytes)),
        (question, size(alone + holders.several_bytes)),
        ("  by one of them alone", size(alone)),
        ("  by several together", size(holders.several_bytes)),
        ("counted", counted(holders.duration_millis)),
    ]);
    if !holders.holders.is_empty() {
        let rows: Vec<Vec<String>> = holders.holders.iter().map(row).collect();
        text.push('\n');
        text.push_str(&table(&["HELD BY", "KIND", "ALONE"], &[2], &rows));
    }
    text
}

fn row(holder: &ashlar_api::Holder) -> Vec<String> {
    let kind = if holder.is_snapshot { "snapshot" } else { "volume" };
    vec![holder.name.clone(), kind.to_string(), size(holder.bytes)]
}
