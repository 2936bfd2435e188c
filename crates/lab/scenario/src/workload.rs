//! Workloads: what a variant does to its target, as written and as worked out at a scale.
//!
//! I/O needs no engine; what a database does is in its own file. Another kind is a variant of `Workload` and
//! one of `Load`, with its own table; the matrix and the presets need not know it.

use std::time::Duration;

use ashlar_units::ByteCount;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::bill::{Bill, Parts};
use crate::database::{Broker, DatabaseLoad, FactLoad, Orders, Points};
use crate::error::{Error, Result};
use crate::file::Engine;
use crate::file_system::FileSystem;
use crate::formula::Names;
use crate::held::{Copied, Held};
use crate::mix::{MixBy, Part, Pattern, bytes_mean, share_by_count, written_share};
use crate::mixed::Mixed;
use crate::offer::{Offer, Share};
use crate::quantity::{Rate, literal, optional};
use crate::restored::{Restore, RestoreLoad};
use crate::rows::Rows;
use crate::scale::{Preset, Scaled};
use crate::several::{Several, SeveralLoad};
use crate::space::{Space, SpaceLoad};

/// The kind of workload that is worked out instead of run.
pub(crate) const BILL: &str = "bill";

/// Of a run of I/O, beside its phases.
pub(crate) const RUN_OVERHEAD: Duration = Duration::from_secs(1);

/// A server keeps up to 2 GiB of its log, and a little more while it cannot help it.
const LOG_ROOM_MAX: u64 = 3 << 30;
/// Of a server that has hardly begun.
const LOG_ROOM_MIN: u64 = 512 << 20;

/// What the log of a server takes at most that has so much in its tables.
pub(crate) fn log_room_bytes(tables: u64) -> u64 {
    LOG_ROOM_MAX.min(2 * tables + LOG_ROOM_MIN)
}

/// A workload as the file states it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Workload {
    Io(Box<Io>),
    Orders(Orders),
    Points(Points),
    Broker(Broker),
    FactLoad(FactLoad),
    Mixed(Mixed),
    Rows(Rows),
    Space(Space),
    Restore(Restore),
    Several(Several),
    Bill(Parts),
}

/// The keys of `kind = "io"`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Io {
    data: Scaled<ByteCount>,
    mix: Vec<Part>,
    #[serde(default)]
    mix_by: MixBy,
    outstanding: Scaled<u64>,
    #[serde(default = "one_at_every_scale")]
    threads: Scaled<u64>,
    rate: Option<Offer>,
    #[serde(default)]
    layout: Layout,
    content: Content,
    #[serde(default)]
    precondition: Precondition,
    /// Every request begins so many bytes behind a multiple of its size.
    shift: Option<Scaled<ByteCount>>,
    /// Variants that differ in size share one data set, which grows from the smallest to the largest.
    #[serde(default)]
    grows: bool,
    /// Of random requests: a place is asked for as often as Zipf's law with this exponent says.
    #[serde(default, deserialize_with = "optional")]
    zipf: Option<f64>,
    /// Snapshots and a clone of the volume that the array has meanwhile.
    copies: Option<Copied>,
}

fn one() -> u64 {
    1
}

fn one_at_every_scale() -> Scaled<u64> {
    Scaled::same(1)
}

/// A workload with every value known.
#[derive(Clone, PartialEq, Debug)]
pub enum Load {
    Io(IoLoad),
    Database(DatabaseLoad),
    Space(SpaceLoad),
    Restore(RestoreLoad),
    Several(SeveralLoad),
    /// Nothing is run: it is worked out.
    Bill(Bill),
}

impl Load {
    /// Without an engine.
    #[must_use]
    pub fn io(&self) -> Option<&IoLoad> {
        match self {
            Load::Io(load) => Some(load),
            Load::Database(_) | Load::Space(_) | Load::Restore(_) | Load::Several(_) | Load::Bill(_) => None,
        }
    }

    /// Why nothing here can do it; `None` where something can.
    pub(crate) fn refused(&self, cores: u64) -> Option<String> {
        match self {
            Load::Io(load) => load.refused(),
            Load::Database(load) => {
                let too_many = load.processors.is_some_and(|asked| asked.cores > cores);
                too_many.then(|| format!("this machine has {cores} processors"))
            }
            Load::Space(_) | Load::Restore(_) | Load::Several(_) | Load::Bill(_) => None,
        }
    }

    /// What must be there before a run.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Load::Io(load) => load.set.size.0,
            Load::Database(load) => load.base.tables.size_bytes(),
            Load::Space(load) => load.bases.size_bytes(),
            Load::Restore(load) => load.size.0,
            Load::Several(load) => load.bases.size_bytes(),
            Load::Bill(_) => 0,
        }
    }

    /// A rate is offered, whatever the target does.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let rate = match self {
            Load::Io(load) => load.rate,
            Load::Database(load) => load.rate,
            Load::Several(load) => load.rate,
            Load::Space(_) | Load::Restore(_) | Load::Bill(_) => None,
        };
        rate.is_some() || self.share().is_some()
    }

    /// Of what another run finds, that is offered in this one.
    #[must_use]
    pub fn share(&self) -> Option<&Share> {
        match self {
            Load::Io(load) => load.share.as_ref(),
            Load::Database(load) => load.share.as_ref(),
            Load::Space(_) | Load::Restore(_) | Load::Several(_) | Load::Bill(_) => None,
        }
    }

    /// With the rate that its share came to.
    #[must_use]
    pub fn at_rate(&self, per_second: f64) -> Load {
        let rate = Some(Rate(per_second));
        match self {
            Load::Io(load) => Load::Io(IoLoad { rate, share: None, ..load.clone() }),
            Load::Database(load) => Load::Database(DatabaseLoad { rate, share: None, ..load.clone() }),
            Load::Space(_) | Load::Restore(_) | Load::Several(_) | Load::Bill(_) => self.clone(),
        }
    }

    /// The same must be there before a run of either.
    #[must_use]
    pub fn shares_set(&self, other: &Load) -> bool {
        match (self, other) {
            (Load::Io(one), Load::Io(other)) => one.set.is_shared_with(&other.set),
            (Load::Database(one), Load::Database(other)) => one.base == other.base,
            (Load::Space(one), Load::Space(other)) => one.bases == other.bases,
            // Nothing is there before: a run makes it.
            (Load::Restore(_), Load::Restore(_)) => true,
            (Load::Several(one), Load::Several(other)) => one.bases == other.bases,
            (
                Load::Io(_)
                | Load::Database(_)
                | Load::Space(_)
                | Load::Restore(_)
                | Load::Several(_)
                | Load::Bill(_),
                _,
            ) => false,
        }
    }

    /// A server works on its target, whose log may lie elsewhere.
    #[must_use]
    pub fn has_log(&self) -> bool {
        matches!(self, Load::Database(_) | Load::Several(_))
    }

    /// What that log takes at most, of one with little in it.
    #[must_use]
    pub fn log_room_bytes(&self) -> u64 {
        log_room_bytes(self.size_bytes())
    }

    /// What must be there grows from variant to variant.
    #[must_use]
    pub fn grows(&self) -> bool {
        self.io().is_some_and(|load| load.set.grows)
    }

    /// Bytes written to make what must be there.
    pub(crate) fn bytes_loaded(&self) -> f64 {
        match self {
            Load::Io(load) => load.set.bytes_written(),
            Load::Database(load) => load.bytes_loaded(),
            Load::Space(load) => load.bases.size_bytes() as f64,
            Load::Restore(_) => 0.0,
            Load::Several(load) => crate::database::WRITTEN_PER_BYTE * load.bases.size_bytes() as f64,
            Load::Bill(_) => 0.0,
        }
    }

    pub(crate) fn bytes_written(&self, time: Duration, bytes_per_second: ByteCount) -> f64 {
        match self {
            Load::Io(load) => load.bytes_written(time, bytes_per_second),
            Load::Database(load) => load.bytes_written(time),
            Load::Space(load) => load.bytes_written(),
            Load::Restore(load) => load.bytes_written(),
            Load::Several(load) => load.bytes_written(time),
            Load::Bill(_) => 0.0,
        }
    }

    /// Of a run, beside its phases.
    pub(crate) fn run_overhead(&self) -> Duration {
        match self {
            Load::Io(load) => RUN_OVERHEAD + load.held.map_or(Duration::ZERO, |held| held.overhead()),
            Load::Database(load) => load.run_overhead(),
            Load::Space(load) => load.run_overhead(),
            Load::Restore(load) => load.run_overhead(),
            Load::Several(load) => load.run_overhead(),
            Load::Bill(_) => Duration::ZERO,
        }
    }
}

/// What the driver of I/O needs to know.
#[derive(Clone, PartialEq, Debug)]
pub struct IoLoad {
    pub set: DataSet,
    /// Shares by count.
    pub mix: Vec<Part>,
    /// Of each thread.
    pub outstanding: u64,
    /// Of each file.
    pub threads: u64,
    /// Of all threads together; then the loop is open and `outstanding` its limit. `None` is a closed loop.
    pub rate: Option<Rate>,
    /// The loop is open, and its rate is known only when the run has ended that this names.
    pub share: Option<Share>,
    /// Every request begins so many bytes behind a multiple of its size.
    pub shift_bytes: u64,
    /// The exponent of Zipf's law that random requests follow; `None` is each place as likely as any other.
    pub zipf: Option<f64>,
    /// What the array has of the volume meanwhile; `None` where nobody asks.
    pub held: Option<Held>,
}

/// What must lie on the target before a run; runs with equal sets share one.
#[derive(Clone, PartialEq, Debug)]
pub struct DataSet {
    /// Of all files together.
    pub size: ByteCount,
    pub files: u64,
    pub layout: Layout,
    pub content: Content,
    pub precondition: Precondition,
    /// Those that differ in size alone are one, which grows.
    pub grows: bool,
}

/// How the files of the workload lie on the volumes of the target.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// How many volumes the target is asked for: things with a queue of their own.
    #[serde(default = "one", deserialize_with = "literal")]
    pub volumes: u64,
    #[serde(default)]
    pub map: Map,
    /// Of a stripe.
    #[serde(default, deserialize_with = "optional")]
    pub unit: Option<ByteCount>,
    /// Of a volume that is made for it: the smallest request that it takes.
    #[serde(default, deserialize_with = "optional")]
    pub block: Option<ByteCount>,
    /// Files lie on an ext4 that hands out so many bytes at once.
    #[serde(default, deserialize_with = "optional")]
    pub cluster: Option<ByteCount>,
    /// Between the files and a volume that is made for them.
    pub file_system: Option<FileSystem>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Map {
    /// A file lies on one volume; file after file takes the next.
    #[default]
    Simple,
    /// A file lies on several volumes of its own, one behind the other.
    Concat,
    /// A file lies on all volumes, unit by unit.
    Stripe,
}

/// What the written blocks hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Content {
    /// One buffer for every write, as SQLIO did: any array that reduces looks too good.
    Sqlio,
    /// `compress` is size before by size after; `duplicates` the share of blocks that exist already.
    Made { compress: f64, duplicates: f64 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precondition {
    /// Written once, from the first block to the last.
    #[default]
    Ordered,
    /// Then overwritten once, in random order.
    Aged,
}

/// The table form of [`Content`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContentForm {
    #[serde(deserialize_with = "literal")]
    compress: f64,
    #[serde(default, deserialize_with = "optional")]
    duplicates: Option<f64>,
    #[serde(default)]
    unique: bool,
}

impl Workload {
    /// By hand, because serde's tagged enums forget in which key a value was wrong.
    pub(crate) fn from_table(mut table: toml::Table) -> std::result::Result<Workload, toml::de::Error> {
        match table.remove("kind").as_ref().map(toml::Value::as_str) {
            Some(Some("io")) => Io::deserialize(table).map(|io| Workload::Io(Box::new(io))),
            Some(Some("orders")) => Orders::deserialize(table).map(Workload::Orders),
            Some(Some("points")) => Points::deserialize(table).map(Workload::Points),
            Some(Some("broker")) => Broker::deserialize(table).map(Workload::Broker),
            Some(Some("factload")) => FactLoad::deserialize(table).map(Workload::FactLoad),
            Some(Some("mixed")) => Mixed::deserialize(table).map(Workload::Mixed),
            Some(Some("rows")) => Rows::deserialize(table).map(Workload::Rows),
            Some(Some("space")) => Space::deserialize(table).map(Workload::Space),
            Some(Some("restore")) => Restore::deserialize(table).map(Workload::Restore),
            Some(Some("databases")) => Several::deserialize(table).map(Workload::Several),
            Some(Some(BILL)) => Parts::deserialize(table).map(Workload::Bill),
            Some(_) => {
                let known = "kind must be \"io\", \"orders\", \"points\", \"broker\", \"factload\", \"mixed\", \
                    \"rows\", \"space\", \"restore\", \"databases\" or \"bill\"";
                Err(toml::de::Error::custom(known))
            }
            None => Err(toml::de::Error::missing_field("kind")),
        }
    }

    /// With every value known; `files` is the number of files of the role `data`.
    pub(crate) fn at(&self, files: u64, engine: &Engine, preset: Preset, names: &Names) -> Result<Load> {
        match self {
            Workload::Io(_) | Workload::Restore(_) | Workload::Bill(_)
                if !matches!(engine, Engine::None {}) =>
            {
                Err(Error::file("workloads `io`, `restore` and `bill` have no engine: leave [engine] out"))
            }
            Workload::Io(io) => io.at(files, preset, names).map(Load::Io),
            Workload::Orders(orders) => orders.at(engine, preset, names).map(Load::Database),
            Workload::Points(points) => points.at(engine, preset, names).map(Load::Database),
            Workload::Broker(broker) => broker.at(engine, preset, names).map(Load::Database),
            Workload::FactLoad(facts) => facts.at(engine, preset, names).map(Load::Database),
            Workload::Mixed(mixed) => mixed.at(engine, preset, names).map(Load::Database),
            Workload::Rows(rows) => rows.at(engine, preset, names).map(Load::Database),
            Workload::Restore(restore) => restore.at(preset, names).map(Load::Restore),
            Workload::Space(space) => space.at(engine, preset, names).map(Load::Space),
            Workload::Several(several) => several.at(engine, preset, names).map(Load::Several),
            Workload::Bill(parts) => parts.at().map(Load::Bill),
        }
    }
}

impl Io {
    /// fio has no law with an exponent of 1, and order has none.
    fn zipf_checked(&self) -> Result<Option<f64>> {
        let Some(zipf) = self.zipf else { return Ok(None) };
        if zipf <= 0.0 || zipf == 1.0 {
            return Err(Error::file(format!("zipf is {zipf}: it is above 0, and not 1")));
        }
        match self.mix.iter().all(|part| part.pattern == Pattern::Random) {
            true => Ok(Some(zipf)),
            false => Err(Error::file("zipf: only random requests follow it")),
        }
    }

    fn held(&self, preset: Preset, names: &Names) -> Result<Option<Held>> {
        let Some(copies) = &self.copies else { return Ok(None) };
        if self.layout != Layout::default() || self.grows {
            return Err(Error::file("copies are of one volume without a file system, which does not grow"));
        }
        copies.at(preset, names).map(Some)
    }

    fn at(&self, files: u64, preset: Preset, names: &Names) -> Result<IoLoad> {
        let size = self.data.at("data", preset, names)?;
        let names = Names { data: Some(size), ..*names };
        let set = DataSet {
            size,
            files,
            layout: self.layout.resolved()?,
            content: self.content,
            precondition: self.precondition,
            grows: self.grows,
        };
        set.check()?;
        let (rate, share) = match &self.rate {
            Some(offer) => offer.at(preset, &names)?,
            None => (None, None),
        };
        Ok(IoLoad {
            set,
            mix: share_by_count(&self.mix, self.mix_by)?,
            outstanding: self.outstanding.at("outstanding", preset, &names)?,
            threads: self.threads.at("threads", preset, &names)?,
            rate,
            share,
            shift_bytes: match &self.shift {
                Some(shift) => shift.at("shift", preset, &names)?.0,
                None => 0,
            },
            zipf: self.zipf_checked()?,
            held: self.held(preset, &names)?,
        })
    }
}

/// What ext4 can hand out at once, with blocks of 4 KiB; and what volumes have as their smallest request.
const CLUSTERS: std::ops::RangeInclusive<u64> = 4096..=1 << 20;
const BLOCKS: [u64; 2] = [512, 4096];

impl Layout {
    fn check(&self) -> Result<()> {
        let Layout { volumes, map, block, cluster, .. } = self;
        let (Some(block), Some(cluster)) = (block, cluster) else {
            return match block.or(*cluster) {
                None => Ok(()),
                Some(_) => Err(Error::file("layout: `block` and `cluster` stand together")),
            };
        };
        if !BLOCKS.contains(&block.0) || !CLUSTERS.contains(&cluster.0) || !cluster.0.is_power_of_two() {
            return Err(Error::file(
                "layout: `block` is 512 or 4096 bytes, `cluster` a power of two from 4 KiB to 1 MiB",
            ));
        }
        match (volumes, map) {
            (1, Map::Simple) => Ok(()),
            _ => Err(Error::file("layout: `block` and `cluster` are of one volume, with files one by one")),
        }
    }
}

impl DataSet {
    fn is_shared_with(&self, other: &DataSet) -> bool {
        // Of those that do not grow the size counts.
        let size = if self.grows { self.size } else { other.size };
        *self == DataSet { size, ..other.clone() }
    }

    fn check(&self) -> Result<()> {
        self.layout.check()?;
        let (files, volumes) = (self.files, self.layout.volumes);
        if self.grows && (files, volumes, self.precondition) != (1, 1, Precondition::Ordered) {
            return Err(Error::file(
                "grows: a data set that grows is one file on one volume, not aged before",
            ));
        }
        if self.layout.unit.is_some() != (self.layout.map == Map::Stripe) {
            return Err(Error::file("layout: `unit` belongs to a stripe, and a stripe has one"));
        }
        if self.layout.map == Map::Concat && !volumes.is_multiple_of(files) {
            let reason =
                format!("layout: {files} files cannot have the same number of {volumes} volumes each");
            return Err(Error::file(reason));
        }
        Ok(())
    }

    /// Bytes written to make it.
    pub(crate) fn bytes_written(&self) -> f64 {
        let passes = match self.precondition {
            Precondition::Ordered => 1.0,
            Precondition::Aged => 2.0,
        };
        self.size.0 as f64 * passes
    }
}

impl IoLoad {
    /// Why no target can do it; `None` where one can.
    fn refused(&self) -> Option<String> {
        let block = self.set.layout.block?.0;
        let sizes = self.mix.iter().map(|part| part.size.0).chain([self.shift_bytes]);
        let does_not_fit = sizes.into_iter().any(|size| !size.is_multiple_of(block));
        does_not_fit.then(|| format!("a volume with blocks of {block} bytes takes no such requests"))
    }

    /// Bytes written in a time, at its rate, or on a target that moves so many bytes a second.
    pub(crate) fn bytes_written(&self, time: Duration, bytes_per_second: ByteCount) -> f64 {
        let moved = match self.rate {
            Some(Rate(rate)) => rate * bytes_mean(&self.mix),
            None => {
                let share = self.share.as_ref().map_or(1.0, |share| share.share.min(1.0));
                bytes_per_second.0 as f64 * share
            }
        };
        let before = self.held.map_or(0.0, |held| held.overwritten_share()) * self.set.size.0 as f64;
        before + moved * written_share(&self.mix) * time.as_secs_f64()
    }
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { volumes: 1, map: Map::Simple, unit: None, block: None, cluster: None, file_system: None }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(form: D) -> std::result::Result<Content, D::Error> {
        let table = match toml::Value::deserialize(form)? {
            toml::Value::String(word) if word == "sqlio" => return Ok(Content::Sqlio),
            toml::Value::Table(table) => table,
            _ => return Err(D::Error::custom("content is \"sqlio\" or a table")),
        };
        let form = ContentForm::deserialize(table).map_err(|error| D::Error::custom(error.message()))?;
        let duplicates = form.duplicates.unwrap_or(0.0);
        if form.unique && duplicates > 0.0 {
            return Err(D::Error::custom("content is unique, or it has duplicates"));
        }
        if form.compress < 1.0 || duplicates >= 1.0 {
            return Err(D::Error::custom("compress is at least 1, duplicates are below 100%"));
        }
        Ok(Content::Made { compress: form.compress, duplicates })
    }
}
