//! `ashlar pool dedupe`: the fingerprint index of a pool.

use ashlar_api::{Dedupe as View, DedupeAction, DedupeRequest};
use clap::Subcommand;

use crate::Context;
use crate::failure::Result;
use crate::output::{fields, size};
use crate::parse;

/// Show, rebuild, drop or resize the fingerprint index of a pool.
///
/// The index is memory only: losing it costs savings to come, never data. After a start it is rebuilt in
/// the background.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool dedupe show main")]
pub struct Dedupe {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show the index, what was found with it, and why blocks were left alone.
    #[command(after_help = "Example:\n  ashlar pool dedupe show main --json | jq .blocks")]
    Show {
        /// Name of the pool.
        name: String,
    },
    /// Look for equal blocks in everything that volumes with dedupe hold, in the background.
    #[command(after_help = "Example:\n  ashlar pool dedupe rebuild main")]
    Rebuild {
        /// Name of the pool.
        name: String,
    },
    /// Forget the index and give its memory back; the next write starts a new one.
    #[command(after_help = "Example:\n  ashlar pool dedupe drop main")]
    Drop {
        /// Name of the pool.
        name: String,
    },
    /// Drop the index, give it another limit until the next start, and rebuild it.
    #[command(after_help = "Example:\n  ashlar pool dedupe resize main --index 2GiB")]
    Resize {
        /// Name of the pool.
        name: String,
        /// Memory at most, from 64KiB; 0 switches dedupe off.
        #[arg(long, value_name = "SIZE", value_parser = parse::size)]
        index: u64,
    },
}

impl Dedupe {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let change = |name: &str, action, index_max_bytes| {
            client.pool_dedupe_change(name, &DedupeRequest { action, index_max_bytes })
        };
        let dedupe = match self.verb {
            Verb::Show { name } => client.pool_dedupe(&name)?,
            Verb::Rebuild { name } => change(&name, DedupeAction::Rebuild, None)?,
            Verb::Drop { name } => change(&name, DedupeAction::Drop, None)?,
            Verb::Resize { name, index } => change(&name, DedupeAction::Resize, Some(index))?,
        };
        Ok(context.output.print(&dedupe, show)?)
    }
}

fn show(dedupe: &View) -> String {
    let blocks = &dedupe.blocks;
    let index = format!(
        "{} of at most {}, {} entries",
        size(dedupe.index_bytes),
        size(dedupe.index_max_bytes),
        dedupe.index_entry_count
    );
    let mut pairs = vec![
        ("pool", dedupe.pool.clone()),
        ("index", index),
        ("waiting", format!("{} blocks", dedupe.queued_block_count)),
    ];
    if let Some(percent) = dedupe.rebuild_percent {
        pairs.push(("rebuild", format!("{percent} % done")));
    }
    let shared = format!("{} blocks, {}", blocks.shared_count, size(blocks.shared_bytes));
    pairs.push(("shared", shared));
    for (name, count) in [
        ("looked up", blocks.looked_up_count),
        ("  found", blocks.hit_count),
        ("  found beside these", blocks.extended_count),
        ("left alone, too few in a row", blocks.short_run_count),
        ("  part of a chunk that stays", blocks.partial_chunk_count),
        ("  entry led to other bytes", blocks.mismatched_count),
        ("  entry led to what is gone", blocks.stale_count),
        ("  cleaner may free it", blocks.condemned_count),
        ("  written over meanwhile", blocks.overtaken_count),
        ("  not readable", blocks.unreadable_count),
        ("not looked at, queue full", blocks.dropped_count),
        ("  pool full", blocks.no_room_count),
    ] {
        pairs.push((name, format!("{count} blocks")));
    }
    fields(&pairs)
}
