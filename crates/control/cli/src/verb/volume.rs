//! `ashlar volume`: what a host sees as one block device.

mod deleted;
mod diff;
mod profile;
mod users;

use ashlar_api::{
    Compression, Pool as PoolView, Profile, Volume as VolumeView, VolumeClass, VolumeCreate, VolumeFloor,
    VolumePolicy, VolumeResize,
};
use clap::{Subcommand, ValueEnum};

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::output::{fields, micros, size, table, utc};
use crate::parse;
use crate::stderr;
use crate::verb::pool::provisioned;

/// Make, show, resize, delete and undelete thin volumes.
///
/// A new volume is served by NBD at once (its name is the export name); `ashlar attach` makes it a
/// block device of this machine.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar volume create db --size 64GiB --profile oltp")]
pub struct Volume {
    #[command(subcommand)]
    verb: Verb,
}

/// What a volume may take of its pool, and what is kept for it.
#[derive(clap::Args)]
pub struct Allowance {
    /// Bytes on the drives that it may have of its own at most, compressed, or `none`.
    ///
    /// Its own is what it wrote itself and still refers to. Of a clone that is what it wrote since it was
    /// made, not what it found; of other volumes all they refer to. What only snapshots of it show, map
    /// pages and parity do not count. At the limit a write that needs more room fails at once with "no
    /// space"; writing over what it has, unmaps and zeroes go on.
    #[arg(long, value_name = "BYTES", value_parser = parse::allowance)]
    pub limit: Option<u64>,
    /// Bytes on the drives that are kept for it, its own included, or `none`.
    ///
    /// To the other volumes the pool is full before they take what is kept and not used yet. Refused when
    /// the pool has not so much free.
    #[arg(long, value_name = "BYTES", value_parser = parse::allowance)]
    pub reserve: Option<u64>,
}

/// How fast a volume may be.
#[derive(clap::Args)]
pub struct Rates {
    /// Requests a second that hosts may make, at least 10, or `none`.
    ///
    /// Reads, writes, unmaps and zeroes count, by whatever door they come; flushes do not. What is more
    /// waits, in the order in which it came.
    #[arg(long, value_name = "REQUESTS", value_parser = parse::rate)]
    pub iops: Option<u64>,
    /// Bytes a second that hosts may read and write, at least 1 MiB, or `none`.
    #[arg(long, value_name = "BYTES", value_parser = parse::allowance)]
    pub bandwidth: Option<u64>,
    /// A volume that was idle may take so much time of its rates at once, at most an hour, or `none`.
    ///
    /// With `--iops 1000 --burst 30s` a volume that did nothing for half a minute does 30,000 requests as
    /// fast as it can, and then 1,000 a second.
    #[arg(long, value_name = "TIME", value_parser = parse::burst)]
    pub burst: Option<u64>,
}

/// Who goes first.
#[derive(clap::Args)]
pub struct Precedence {
    /// Within what time its reads and writes should be answered, from 100us to 1s, or `none`.
    ///
    /// While more than one in a hundred takes longer, background work that is not urgent and then the volumes
    /// without a floor, or with a longer one, are held back step by step. Nobody starves: together they do
    /// 250 requests a second at least, if the drives can, and each that waits forty. What the volume waits
    /// by its own `--iops` and `--bandwidth` does not count. A floor that the drives cannot keep even by
    /// themselves holds the others back for good.
    #[arg(long, value_name = "TIME", value_parser = parse::floor)]
    pub floor: Option<u64>,
    /// Whether its requests give way to those of other volumes.
    #[arg(long, value_enum, value_name = "CLASS")]
    pub class: Option<ClassName>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ClassName {
    /// They do not.
    Normal,
    /// While volumes of class normal are at work two of them are served at a time.
    Low,
}

impl From<ClassName> for VolumeClass {
    fn from(name: ClassName) -> VolumeClass {
        match name {
            ClassName::Normal => VolumeClass::Normal,
            ClassName::Low => VolumeClass::Low,
        }
    }
}

impl Precedence {
    /// The class that is asked for, or normal.
    pub fn class(&self) -> VolumeClass {
        self.class.map_or(VolumeClass::Normal, Into::into)
    }
}

#[derive(Subcommand)]
enum Verb {
    /// Make a thin volume.
    #[command(after_help = "Example:\n  ashlar volume create db --size 64GiB --profile oltp")]
    Create {
        /// Name of the new volume, unique over all pools.
        name: String,
        /// Size the host sees, rounded up to 4 KiB; takes no space before it is written.
        #[arg(long, value_parser = parse::size)]
        size: u64,
        /// Pool to make it in; may be left out when there is one.
        #[arg(long)]
        pool: Option<String>,
        /// Smallest unit a host addresses, in bytes.
        #[arg(long, value_enum, default_value = "4096")]
        logical_block: LogicalBlock,
        /// How its host writes.
        #[arg(long, value_enum, default_value = "general")]
        profile: ProfileName,
        /// How its data are compressed.
        #[arg(long, value_enum, default_value = "lz4")]
        compression: CompressionName,
        /// Whether equal blocks are stored once.
        #[arg(long, value_enum, default_value = "off")]
        dedupe: DedupeName,
        #[command(flatten)]
        allowance: Allowance,
        #[command(flatten)]
        precedence: Precedence,
    },
    /// List the volumes.
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  ashlar volume list --json\n  ashlar volume list --deleted"
    )]
    List {
        /// List deleted volumes that can come back instead, the one kept longest first.
        #[arg(long)]
        deleted: bool,
    },
    /// Show one volume: its sizes, settings, origin and device.
    #[command(after_help = "Example:\n  ashlar volume show db --json | jq .written_bytes")]
    Show {
        /// Name of the volume.
        name: String,
    },
    /// Change a volume's size, also while it is attached.
    #[command(after_help = "Example:\n  ashlar volume resize db --size 128GiB")]
    Resize {
        /// Name of the volume.
        name: String,
        /// The new size, rounded up to 4 KiB.
        #[arg(long, value_parser = parse::size)]
        size: u64,
        /// Allow a smaller size, which drops the bytes beyond the new end. Refused where a file system
        /// reaches beyond it.
        #[arg(long)]
        shrink: bool,
        /// Cut through a file system, and cut off NBD clients.
        #[arg(long, requires = "shrink")]
        force: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Change how a volume's data are reduced from now on, what it may take, what is kept for it, how fast it
    /// may be and who goes first.
    ///
    /// What is stored already stays as it is. `ashlar pool dedupe rebuild` looks for equal blocks in it,
    /// too. A volume that has more than a new limit cannot grow, and a file system on it may not mount.
    #[command(after_help = "Example:\n  ashlar volume set db --dedupe on --reserve 100GiB\n  \
            ashlar volume set test --limit none --iops 2000 --burst 30s\n  \
            ashlar volume set db-log --floor 2ms\n  ashlar volume set test --class low",
        group = clap::ArgGroup::new("what").required(true).multiple(true).args(CHANGES))]
    Set {
        /// Name of the volume.
        name: String,
        /// How its data are compressed.
        #[arg(long, value_enum)]
        compression: Option<CompressionName>,
        /// Whether equal blocks are stored once.
        #[arg(long, value_enum)]
        dedupe: Option<DedupeName>,
        #[command(flatten)]
        allowance: Allowance,
        #[command(flatten)]
        rates: Rates,
        #[command(flatten)]
        precedence: Precedence,
    },
    Delete(deleted::Delete),
    Undelete(deleted::Undelete),
    Purge(deleted::Purge),
    Diff(diff::Diff),
    Profile(profile::Profile),
    Users(users::Users),
    Disconnect(users::Disconnect),
}

/// Each of these makes a change.
const CHANGES: [&str; 9] =
    ["compression", "dedupe", "limit", "reserve", "iops", "bandwidth", "burst", "floor", "class"];

#[derive(Clone, Copy, ValueEnum)]
enum LogicalBlock {
    #[value(name = "512")]
    Bytes512,
    #[value(name = "4096")]
    Bytes4096,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProfileName {
    /// Small random writes of a transaction database.
    Oltp,
    /// Mixed use.
    General,
    /// Large sequential writes.
    Bulk,
}

#[derive(Clone, Copy, ValueEnum)]
enum CompressionName {
    /// Fast.
    Lz4,
    /// Dense.
    Zstd,
    /// Stored as written.
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum DedupeName {
    /// Blocks equal to others of the pool are found after they are written, and stored once.
    On,
    /// Every block is stored as it comes.
    Off,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Profile {
        match name {
            ProfileName::Oltp => Profile::Oltp,
            ProfileName::General => Profile::General,
            ProfileName::Bulk => Profile::Bulk,
        }
    }
}

impl From<CompressionName> for Compression {
    fn from(name: CompressionName) -> Compression {
        match name {
            CompressionName::Lz4 => Compression::Lz4,
            CompressionName::Zstd => Compression::Zstd,
            CompressionName::Off => Compression::Off,
        }
    }
}

impl From<DedupeName> for bool {
    fn from(name: DedupeName) -> bool {
        match name {
            DedupeName::On => true,
            DedupeName::Off => false,
        }
    }
}

impl Volume {
    // tidy: long because it has an arm for each verb.
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create {
                name,
                size,
                pool,
                logical_block,
                profile,
                compression,
                dedupe,
                allowance,
                precedence,
            } => {
                let request = VolumeCreate {
                    name,
                    size_bytes: size,
                    pool,
                    logical_block_bytes: match logical_block {
                        LogicalBlock::Bytes512 => 512,
                        LogicalBlock::Bytes4096 => 4096,
                    },
                    profile: profile.into(),
                    compression: compression.into(),
                    dedupe: dedupe.into(),
                    limit_bytes: allowance.limit,
                    reserve_bytes: allowance.reserve,
                    floor_micros: precedence.floor,
                    class: precedence.class(),
                };
                let volume = client.volume_create(&request)?;
                let note = client.pool(&volume.pool).ok().and_then(|pool| overcommitted(&pool));
                context.output.print(&volume, |volume| show(volume) + &note.unwrap_or_default())?;
            }
            Verb::List { deleted: true } => {
                context.output.print(&client.deleted_volumes()?, |volumes| deleted::list(volumes))?;
            }
            Verb::List { deleted: false } => {
                context.output.print(&client.volumes()?, |volumes| list(volumes))?;
                if !context.output.is_json() {
                    client.pools().unwrap_or_default().iter().for_each(tell_closed);
                }
            }
            Verb::Show { name } => context.output.print(&client.volume(&name)?, show)?,
            Verb::Resize { name, size, shrink, force, yes } => {
                if shrink {
                    confirm(
                        yes,
                        &format!("make volume `{name}` smaller? Bytes beyond the new end are lost."),
                    )?;
                }
                let request = VolumeResize { size_bytes: size, may_shrink: shrink, force };
                context.output.print(&client.volume_resize(&name, &request)?, show)?;
            }
            Verb::Set { name, compression, dedupe, allowance, rates, precedence } => {
                let policy = VolumePolicy {
                    compression: compression.map(Into::into),
                    dedupe: dedupe.map(Into::into),
                    limit_bytes: allowance.limit,
                    reserve_bytes: allowance.reserve,
                    requests_per_second: rates.iops,
                    bytes_per_second: rates.bandwidth,
                    burst_seconds: rates.burst,
                    floor_micros: precedence.floor,
                    class: precedence.class.map(Into::into),
                };
                context.output.print(&client.volume_set(&name, &policy)?, show_set)?;
            }
            Verb::Delete(verb) => verb.run(context)?,
            Verb::Undelete(verb) => {
                context.output.print(&verb.run(&client)?, show)?;
            }
            Verb::Purge(verb) => verb.run(context)?,
            Verb::Diff(verb) => verb.run(context)?,
            Verb::Profile(verb) => verb.run(context)?,
            Verb::Users(verb) => verb.run(context)?,
            Verb::Disconnect(verb) => verb.run(context)?,
        }
        Ok(())
    }
}

/// A line for a pool whose volumes may hold more than it can: it fills before they do.
fn overcommitted(pool: &PoolView) -> Option<String> {
    let usable = pool.space.as_ref().map_or(0, ashlar_api::Space::usable_bytes);
    let line = || format!("note: pool {} has {}: watch how full it gets\n", pool.name, provisioned(pool));
    (pool.provisioned_bytes > usable).then(line)
}

/// A line for a pool whose volumes cannot be seen.
fn tell_closed(pool: &PoolView) {
    if !pool.state.is_open() {
        let (name, state, why) =
            (&pool.name, pool.state.name(), pool.reason.as_deref().unwrap_or("no reason is known"));
        stderr::line(format_args!("note: the volumes of pool {name} are not listed, it is {state}: {why}"));
    }
}

/// A table of volumes.
pub fn list(volumes: &[VolumeView]) -> String {
    let rows: Vec<Vec<String>> = volumes
        .iter()
        .map(|volume| {
            vec![
                volume.name.clone(),
                volume.pool.clone(),
                size(volume.size_bytes),
                counted(volume.written_bytes),
                counted(volume.unique_bytes),
                volume.origin.clone().unwrap_or_else(|| "-".to_string()),
                volume.device.clone().unwrap_or_else(|| "-".to_string()),
            ]
        })
        .collect();
    table(&["NAME", "POOL", "SIZE", "WRITTEN", "UNIQUE", "ORIGIN", "DEVICE"], &[2, 3, 4], &rows)
}

/// A size, or a dash while it is being counted.
pub fn counted(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_string(), size)
}

/// The same after a change. A volume above its limit writes nothing new, and a file system may need that.
fn show_set(volume: &VolumeView) -> String {
    let mut shown = show(volume);
    if volume.limit_bytes.is_some_and(|limit| volume.own_bytes > limit) {
        shown.push_str(
            "note: it has more than its limit: a file system on it may not mount, and files that are deleted in \
             it may come back\n",
        );
    }
    shown
}

/// A floor, how it was kept, and what that does to others now.
fn floor_line(floor_micros: u64, kept: Option<&VolumeFloor>) -> String {
    let Some(kept) = kept else { return micros(floor_micros) };
    let missed = match (kept.request_count, kept.miss_count) {
        (0, _) => String::new(),
        (count, misses) => format!(", missed by {misses} of {count} requests"),
    };
    let pause =
        kept.pause_micros.map_or(String::new(), |pause| format!(", each {} after the last", micros(pause)));
    let others = kept.depth_count.map(|depth| format!("; others are held back to {depth} at a time{pause}"));
    format!("{}{missed}{}", micros(floor_micros), others.unwrap_or_default())
}

fn show(volume: &VolumeView) -> String {
    let profile = match volume.profile {
        Profile::Oltp => "oltp",
        Profile::General => "general",
        Profile::Bulk => "bulk",
    };
    let mut pairs = vec![
        ("name", volume.name.clone()),
        ("pool", volume.pool.clone()),
        ("size", size(volume.size_bytes)),
        ("written", counted(volume.written_bytes)),
        ("own", size(volume.own_bytes)),
        ("unique", counted(volume.unique_bytes)),
        ("logical block", format!("{} B", volume.logical_block_bytes)),
        ("profile", profile.to_string()),
        ("compression", volume.compression.name().to_string()),
        ("dedupe", if volume.dedupe { "on" } else { "off" }.to_string()),
        ("created", utc(volume.created_unix_seconds)),
    ];
    pairs.extend(volume.limit_bytes.map(|bytes| ("limit", size(bytes))));
    pairs.extend(volume.reserve_bytes.map(|bytes| ("reserve", size(bytes))));
    pairs.extend(volume.requests_per_second.map(|most| ("iops", format!("{most} at most"))));
    pairs.extend(volume.bytes_per_second.map(|most| ("bandwidth", format!("{}/s at most", size(most)))));
    pairs.extend(volume.burst_seconds.map(|seconds| ("burst", format!("{seconds} s"))));
    pairs.extend(volume.floor_micros.map(|floor| ("floor", floor_line(floor, volume.floor.as_ref()))));
    pairs.push(("class", volume.class.name().to_string()));
    if let Some(origin) = &volume.origin {
        pairs.push(("origin", origin.clone()));
    }
    if let Some(device) = &volume.device {
        pairs.push(("device", device.clone()));
    }
    fields(&pairs)
}
