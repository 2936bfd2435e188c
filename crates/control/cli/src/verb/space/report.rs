//! `ashlar space` without a verb: the parts of each pool, the shares of its volumes and snapshots.

use ashlar_api::{PoolSpace, PoolState, SpaceBasis, VolumeSpace};
use clap::Args;

use super::{Within, counted};
use crate::Context;
use crate::failure::{Failure, Result};
use crate::output::{fields, size, table};

#[derive(Args)]
pub(super) struct Report {
    /// Answer at once by the cleaner's last mark: what is alive and dead is then an estimate.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    within: Within,
}

impl Report {
    pub(super) fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let within_seconds = (!self.quick).then_some(self.within.within);
        let mut spaces = Vec::new();
        let mut failed = Vec::new();
        for pool in client.pools()? {
            match pool.state {
                PoolState::Online | PoolState::Degraded | PoolState::ReadOnly => {
                    spaces.push(client.pool_space(&pool.name, within_seconds)?);
                }
                PoolState::Opening | PoolState::Waiting | PoolState::Failed => failed.push(pool.name),
            }
        }
        context.output.print(&spaces, |spaces| spaces.iter().map(text).collect::<Vec<_>>().join("\n"))?;
        match failed.first() {
            None => Ok(()),
            Some(name) => Err(Failure::new(format!(
                "pool `{name}` is not open, so its space is not known: `ashlar pool show {name}` says why"
            ))),
        }
    }
}

fn text(space: &PoolSpace) -> String {
    let mut text = pool_text(space);
    if !space.volumes.is_empty() {
        text.push('\n');
        text.push_str(&images("VOLUME", &space.volumes));
    }
    if !space.snapshots.is_empty() {
        text.push('\n');
        text.push_str(&images("SNAPSHOT", &space.snapshots));
    }
    if !space.deleted_volumes.is_empty() {
        text.push('\n');
        text.push_str(&images("DELETED VOLUME", &space.deleted_volumes));
    }
    text
}

fn pool_text(space: &PoolSpace) -> String {
    let parts = &space.parts;
    let is_estimate = space.basis == SpaceBasis::LastMark;
    let marked = |bytes: u64| {
        format!("{}{}", size(bytes), if is_estimate { "  estimate of the last mark" } else { "" })
    };
    let mut pairs = vec![
        ("pool", space.pool.clone()),
        ("physical", size(parts.physical_bytes)),
        ("  data alive", marked(parts.data_alive_bytes)),
    ];
    pairs.extend(parts.stranded_bytes.map(|bytes| ("  stranded", size(bytes))));
    pairs.extend(parts.recoverable_bytes.map(|bytes| ("  recoverable", size(bytes))));
    pairs.extend([
        ("  metadata alive", marked(parts.metadata_alive_bytes)),
        ("  dead, not yet cleaned", marked(parts.dead_bytes)),
        ("  recent", size(parts.recent_bytes)),
        ("  slack", size(parts.slack_bytes)),
        ("  reserve", size(parts.reserve_bytes)),
        ("  kept for volumes", size(parts.kept_bytes)),
        ("  free", size(parts.free_bytes)),
        ("  freed, being released", size(parts.freed_bytes)),
        ("  superblocks", size(parts.superblock_bytes)),
        ("  unusable", size(parts.unusable_bytes)),
        ("  parity", size(parts.parity_bytes)),
        ("  spare", size(parts.spare_bytes)),
        ("provisioned", size(space.provisioned_bytes)),
    ]);
    let by_content = space.content_saved_bytes;
    let by_clone = space.sharing_saved_bytes.map(|saved| saved - by_content.unwrap_or(0).min(saved));
    let walked = [
        ("written, with all images", space.written_bytes),
        ("  shared by snapshots, clones", by_clone),
        ("  shared by equal content", by_content),
    ];
    pairs.extend(walked.into_iter().filter_map(|(name, bytes)| Some((name, size(bytes?)))));
    if let Some(saved) = space.compression_saved_bytes {
        pairs.push(("  saved by compression", signed(saved)));
    }
    if let Some(shared) = space.shared_bytes {
        pairs.push(("  chunks shared", size(shared)));
    }
    pairs.push(("counted", how(space)));
    fields(&pairs)
}

fn how(space: &PoolSpace) -> String {
    match (space.basis, &space.reason) {
        (SpaceBasis::Walk, _) => counted(space.duration_millis),
        (SpaceBasis::LastMark, None) => "not: without --quick every volume is walked".to_string(),
        (SpaceBasis::LastMark, Some(reason)) => format!("not: {reason}; allow more with --within"),
    }
}

fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

fn images(what: &str, images: &[VolumeSpace]) -> String {
    let cell = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_string(), size);
    let rows: Vec<Vec<String>> = images
        .iter()
        .map(|image| {
            vec![
                image.name.clone(),
                size(image.provisioned_bytes),
                cell(image.written_bytes),
                cell(image.zero_bytes),
                cell(image.unwritten_bytes),
                cell(image.shared_written_bytes),
                cell(image.only_bytes),
            ]
        })
        .collect();
    let header = [what, "PROVISIONED", "WRITTEN", "ZERO", "UNWRITTEN", "SHARED", "ONLY ITS OWN"];
    table(&header, &[1, 2, 3, 4, 5, 6], &rows)
}
