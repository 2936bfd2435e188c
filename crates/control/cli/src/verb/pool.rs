//! `ashlar pool`: drives managed as one space.

mod dedupe;
mod drives;
mod scrub;
mod wear;

use ashlar_api::{CheckReport, DriveSpec, Pool as PoolView, PoolCreate, PoolImport, Protection};
use clap::{Subcommand, ValueEnum};

use crate::Context;
use crate::ask::confirm;
use crate::failure::{Failure, Result};
use crate::output::{fields, micros, size, table};
use crate::parse;

/// Make, show, check, move and delete pools.
///
/// A pool is one or more drives managed as one space. A drive is a block device or a file.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool create main --drive /srv/drive.img,size=10GiB")]
pub struct Pool {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a pool of drives.
    ///
    /// Drives that hold anything are refused: a pool, a file system, a partition table, or data of an unknown
    /// kind. Looked at are the first two MiB, the last one, the places of second superblocks, 256 samples of
    /// 64 KiB over the whole drive, and in a sparse file the beginning of each stretch of data. A file that
    /// is there and sparse is given all its space.
    #[command(
        after_help = "Example:\n  ashlar pool create main --drive /dev/nvme0n1 --drive /dev/nvme1n1\n  \
            ashlar pool create lab --drive /srv/drive.img,size=10GiB\n  \
            ashlar pool create safe --protection dual --drive /dev/nvme0n1 --drive /dev/nvme1n1 \
            --drive /dev/nvme2n1 --drive /dev/nvme3n1"
    )]
    Create {
        /// Name of the new pool.
        name: String,
        /// A block device or a file; `size=` makes the file. Repeat for more drives.
        #[arg(long = "drive", value_name = "PATH[,size=SIZE]", required = true, value_parser = parse::drive)]
        drives: Vec<DriveSpec>,
        /// How many drives may fail.
        #[arg(long, value_enum, default_value = "none")]
        protection: ProtectionName,
        /// Drives that a segment is spread over, parity included [default: all, up to 16].
        #[arg(long, value_name = "DRIVES")]
        width: Option<u8>,
        /// Drives for which there is spare space on all of them, at most 4 [default: none].
        #[arg(long, value_name = "DRIVES")]
        spares: Option<u8>,
        /// Take drives although they hold data, a file system or another pool, which are lost.
        #[arg(long)]
        force: bool,
        /// Do not ask, where --force makes it necessary.
        #[arg(long)]
        yes: bool,
    },
    /// List the pools, also those that could not be opened.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar pool list --json")]
    List,
    /// Show one pool: its drives, where its bytes are, its last recovery.
    #[command(after_help = "Example:\n  ashlar pool show main --json | jq .space.free_bytes")]
    Show {
        /// Name of the pool.
        name: String,
    },
    /// Walk every root and verify every header and checksum, while the pool serves.
    #[command(after_help = "Example:\n  ashlar pool check main --deep")]
    Check {
        /// Name of the pool.
        name: String,
        /// Compare every segment with its parity, too. Nothing is changed: `ashlar pool scrub` sets right.
        #[arg(long)]
        deep: bool,
    },
    Scrub(scrub::Scrub),
    Dedupe(dedupe::Dedupe),
    AddDrive(drives::AddDrive),
    SetDrive(wear::SetDrive),
    RemoveDrive(drives::RemoveDrive),
    ReplaceDrive(drives::ReplaceDrive),
    OnlineDrive(drives::OnlineDrive),
    OfflineDrive(drives::OfflineDrive),
    /// Destroy an empty pool: its drives no longer carry it. Files that are drives stay.
    #[command(after_help = "Example:\n  ashlar pool delete main --yes")]
    Delete {
        /// Name of the pool.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Destroy it although deleted volumes in it can still come back.
        #[arg(long)]
        force: bool,
    },
    /// Close a pool and forget it; its drives keep everything for an import elsewhere.
    #[command(after_help = "Example:\n  ashlar pool export main")]
    Export {
        /// Name of the pool.
        name: String,
        /// Close it although its volumes are in use: their users get errors.
        #[arg(long)]
        force: bool,
        /// Do not ask, where --force makes it necessary.
        #[arg(long)]
        yes: bool,
    },
    /// Open a pool again that stopped writing, once its drives are mended.
    ///
    /// A pool stops when a write fails whose outcome nobody knows; reads go on. It comes back by itself when
    /// its drives take writes again, with longer and longer pauses between attempts: this does it at once.
    /// It opens as after a crash, and nothing that was acknowledged is lost. What is under way meanwhile
    /// fails; NBD clients and attached devices go on afterwards, and a file system that gave up is mounted
    /// anew by hand.
    #[command(after_help = "Example:\n  ashlar pool reopen main")]
    Reopen {
        /// Name of the pool.
        name: String,
    },
    /// Open a pool from its drives and remember it; also tries a pool again that failed to open.
    #[command(after_help = "Example:\n  ashlar pool import main --drive /dev/nvme0n1 --drive /dev/nvme1n1")]
    Import {
        /// Name of the pool.
        name: String,
        /// Every drive of the pool; may be left out for a pool that is listed as failed.
        #[arg(long = "drive", value_name = "PATH", value_parser = parse::path_text)]
        drives: Vec<String>,
        /// Open it although another array has it open, which then stops with errors. Takes half a minute
        /// (setting takeover_wait_seconds), until what that array asked of the drives has landed.
        #[arg(long)]
        force: bool,
        /// Open it although its drives are older than they were; what was written since is lost or damaged.
        #[arg(long)]
        accept_older_state: bool,
        /// Do not ask, where --force or --accept-older-state makes it necessary.
        #[arg(long)]
        yes: bool,
    },
}

/// The protections there are.
#[derive(Clone, Copy, ValueEnum)]
enum ProtectionName {
    /// No redundancy: the loss of a drive loses the pool.
    None,
    /// One drive may fail; at least three drives.
    Single,
    /// Two drives may fail; at least four drives.
    Dual,
}

impl Pool {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create { name, drives, protection, width, spares, force, yes } => {
                if force {
                    drives::confirm_force(&drives, yes)?;
                }
                let protection = match protection {
                    ProtectionName::None => Protection::None,
                    ProtectionName::Single => Protection::Single,
                    ProtectionName::Dual => Protection::Dual,
                };
                let pool = client.pool_create(&PoolCreate {
                    name,
                    drives: drives::forced(drives, force),
                    protection,
                    width,
                    spare_count: spares,
                })?;
                context.output.print(&pool, show)?;
            }
            Verb::List => context.output.print(&client.pools()?, |pools| list(pools))?,
            Verb::Show { name } => context.output.print(&client.pool(&name)?, show)?,
            Verb::Check { name, deep } => {
                let report = client.pool_check(&name, deep)?;
                context.output.print(&report, checked)?;
                all_is_well(&report)?;
            }
            Verb::Scrub(verb) => verb.run(context)?,
            Verb::Dedupe(dedupe) => dedupe.run(context)?,
            Verb::AddDrive(verb) => verb.run(context)?,
            Verb::SetDrive(verb) => verb.run(context)?,
            Verb::RemoveDrive(verb) => verb.run(context)?,
            Verb::ReplaceDrive(verb) => verb.run(context)?,
            Verb::OnlineDrive(verb) => verb.run(context)?,
            Verb::OfflineDrive(verb) => verb.run(context)?,
            Verb::Delete { name, yes, force } => {
                confirm(yes, &format!("destroy pool `{name}`? Its drives will no longer carry it."))?;
                client.pool_delete(&name, force)?;
                context.output.done("deleted pool", &name)?;
            }
            Verb::Export { name, force, yes } => {
                if force {
                    confirm(yes, &format!("close pool `{name}` under its users? They get errors."))?;
                }
                client.pool_export(&name, force)?;
                context.output.done("exported pool", &name)?;
            }
            Verb::Reopen { name } => context.output.print(&client.pool_reopen(&name)?, show)?,
            Verb::Import { name, drives, force, accept_older_state, yes } => {
                if accept_older_state {
                    let what = "What was written since its drives were newer is lost.";
                    confirm(yes, &format!("open pool `{name}` in an older state? {what}"))?;
                } else if force {
                    let what = "An array that has it open stops with errors.";
                    confirm(yes, &format!("take pool `{name}` over? {what}"))?;
                }
                let pool = client.pool_import(&name, &PoolImport { drives, force, accept_older_state })?;
                context.output.print(&pool, show)?;
            }
        }
        Ok(())
    }
}

fn protection_name(protection: Protection) -> &'static str {
    match protection {
        Protection::None => "none",
        Protection::Single => "single",
        Protection::Dual => "dual",
    }
}

/// What the pool's volumes may hold, beside what hosts can use of it.
pub fn provisioned(pool: &PoolView) -> String {
    let usable = pool.space.as_ref().map_or(0, ashlar_api::Space::usable_bytes).max(1);
    let (all, times) = (size(pool.provisioned_bytes), pool.provisioned_bytes as f64 / usable as f64);
    format!("{all} in volumes, {times:.1} times the {} that hosts can use", size(usable))
}

fn list(pools: &[PoolView]) -> String {
    let rows: Vec<Vec<String>> = pools
        .iter()
        .map(|pool| {
            let space = pool.space.clone().unwrap_or_default();
            vec![
                pool.name.clone(),
                pool.state.name().to_string(),
                pool.drives.len().to_string(),
                size(space.physical_bytes),
                size(space.free_bytes),
                format!("{} %", pool.full_percent),
                size(pool.provisioned_bytes),
                pool.volume_count.to_string(),
                pool.snapshot_count.to_string(),
                recoverable(pool),
                pool.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let header = [
        "NAME",
        "STATE",
        "DRIVES",
        "PHYSICAL",
        "FREE",
        "FULL",
        "PROVISIONED",
        "VOLUMES",
        "SNAPSHOTS",
        "RECOVERABLE",
        "REASON",
    ];
    table(&header, &[2, 3, 4, 5, 6, 7, 8, 9], &rows)
}

/// What deleted volumes hold that can still come back.
fn recoverable(pool: &PoolView) -> String {
    pool.recoverable_bytes.map_or_else(|| "-".to_string(), size)
}

fn show(pool: &PoolView) -> String {
    let mut pairs = vec![("name", pool.name.clone()), ("state", pool.state.name().to_string())];
    if let Some(reason) = &pool.reason {
        pairs.push(("reason", reason.clone()));
    }
    // Of one that is not open nothing else is known.
    if pool.state.is_open() {
        pairs.push(("id", pool.id.clone()));
        pairs.push(("protection", protection_name(pool.protection).to_string()));
        pairs.push(("volumes", pool.volume_count.to_string()));
        pairs.push(("snapshots", pool.snapshot_count.to_string()));
    }
    if pool.deleted_volume_count > 0 {
        let count = pool.deleted_volume_count;
        pairs.push(("recoverable", format!("{} in {count} deleted volumes", recoverable(pool))));
    }
    if let Some(space) = &pool.space {
        pairs.push(("full", format!("{} %", pool.full_percent)));
        pairs.push(("provisioned", provisioned(pool)));
        for (name, bytes) in [
            ("physical", space.physical_bytes),
            ("  free", space.free_bytes),
            ("  kept for volumes", space.kept_bytes),
            ("  data", space.data_bytes),
            ("  metadata", space.metadata_bytes),
            ("    dead in both", space.dead_bytes),
            ("  journal", space.journal_bytes),
            ("  reserve", space.reserve_bytes),
            ("  superblocks", space.superblock_bytes),
            ("  unusable", space.unusable_bytes),
            ("  parity", space.parity_bytes),
            ("  spare", space.spare_bytes),
            ("  freed", space.freed_bytes),
        ] {
            pairs.push((name, size(bytes)));
        }
        pairs.push(("segment numbers", format!("{} % used", pool.segment_numbers_percent)));
    }
    if !pool.volumes_at_limit.is_empty() {
        pairs.push(("at their limit", pool.volumes_at_limit.join(", ")));
    }
    if let Some(recovery) = &pool.recovery {
        let line = format!(
            "{} ms, {} journal groups and {} records replayed",
            recovery.millis, recovery.groups_replayed, recovery.records_replayed
        );
        pairs.push(("last start", line));
    }
    if let Some(scrub) = &pool.scrub {
        pairs.push(("scrub", scrub::scrub_line(scrub)));
    }
    for drive in &pool.drives {
        pairs.push(("drive", drives::drive_line(pool, drive)));
        pairs.extend(wear::wear_line(drive).map(|line| ("  wear", line)));
    }
    for unused in &pool.unused_drives {
        pairs.push(("not used", unused.clone()));
    }
    fields(&pairs)
}

fn all_is_well(report: &CheckReport) -> Result<()> {
    let wrong_stripes = report.parity.map_or(0, |parity| parity.wrong_stripe_count);
    let Some(first) = report.errors.first() else {
        return match wrong_stripes {
            0 => Ok(()),
            wrong => Err(Failure::new(format!(
                "pool `{0}` has {wrong} stripes that do not agree with their parity: ashlar pool scrub {0}",
                report.pool
            ))),
        };
    };
    Err(Failure::new(format!(
        "pool `{}` has {} damaged places, the first: {first}: restore the volumes concerned from a copy",
        report.pool,
        report.errors.len()
    )))
}

fn verdict(report: &CheckReport) -> String {
    let wrong_stripes = report.parity.map_or(0, |parity| parity.wrong_stripe_count);
    match (report.errors.len(), wrong_stripes) {
        (0, 0) => "all well".to_string(),
        (0, _) => "all data well, parity not".to_string(),
        (errors, _) => format!("{errors} errors"),
    }
}

fn checked(report: &CheckReport) -> String {
    let mut text = format!(
        "pool {}: {} pages, {} chunks, {} live, {} in {}\n",
        report.pool,
        report.page_count,
        report.chunk_count,
        size(report.live_bytes),
        verdict(report),
        micros(report.duration_millis * 1000),
    );
    if let Some(parity) = &report.parity {
        let (compared, wrong) = (parity.stripe_count, parity.wrong_stripe_count);
        text.push_str(&format!("  {compared} stripes compared with their parity, {wrong} do not agree\n"));
        if parity.unproven_stripe_count > 0 {
            let unproven = parity.unproven_stripe_count;
            text.push_str(&format!(
                "  {unproven} stripes have nothing to be compared with: drives are out\n"
            ));
        }
    }
    for error in &report.errors {
        text.push_str(&format!("  {error}\n"));
    }
    text
}
