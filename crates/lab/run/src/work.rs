//! Writes the data sets and makes the runs that are not yet made, in the order of the plan.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ashlar_collect::{Sources, during, interval};
use ashlar_fio::Fio;
use ashlar_postgres::{Address, Installation, Search};
use ashlar_programs::Launcher;
use ashlar_report::{bytes, count, nanos, seconds};
use ashlar_scenario::{
    DataSet, DatabaseLoad, IoLoad, Load, Plan, Precondition, RestoreLoad, Run, SeveralLoad, SpaceLoad,
    Variant, largest,
};
use ashlar_target::{
    Access, Counters, Databases, Form, Ground, Laid, Needs, OWN_PREFIX, Place, PoolCounters,
};

use crate::bases::MadeOf;
use crate::database::{Database, Scratch};
use crate::figures::Figures;
use crate::jobs::{self, Area};
use crate::meanwhile::{self, Meanwhile};
use crate::outline::WRITE_BYTES_PER_SECOND;
use crate::record::{Left, Records, make};
use crate::several::Several;
use crate::{Error, Result};
use crate::{held, lay, restored, space};

/// Of a run beside its phases, until it is known: fio starts, ends and is read.
const OVERHEAD: Duration = Duration::from_secs(1);
/// A file system that is filled to the brim is another experiment.
const ROOM_SHARE: f64 = 0.95;

/// Told before each step.
pub struct Progress {
    /// What comes.
    pub step: String,
    /// Until all is done, with this step.
    pub left: Duration,
    /// What the run before it measured.
    pub before: Option<String>,
}

impl Progress {
    /// What is to be known, and is no step.
    pub(crate) fn note(what: String) -> Progress {
        Progress { step: what, left: Duration::ZERO, before: None }
    }

    /// The same, as a part of something larger.
    pub(crate) fn within(&self, whole: &str) -> Progress {
        Progress { step: format!("{whole}: {}", self.step), left: self.left, before: self.before.clone() }
    }

    /// For a line that tells how far it is.
    #[must_use]
    pub fn line(&self) -> String {
        let before = self.before.as_ref().map_or(String::new(), |before| format!("; before: {before}"));
        if self.left == Duration::ZERO {
            return format!("{}{before}", self.step);
        }
        format!("{}; {} left{before}", self.step, seconds(self.left.as_secs().max(1)))
    }
}

/// What is worked on.
pub(crate) struct Work<'a> {
    pub(crate) records: &'a Records,
    pub(crate) plan: &'a Plan,
    pub(crate) seed: u64,
    pub(crate) fio: Fio,
    pub(crate) launcher: Arc<Launcher>,
    /// Set when somebody pressed Ctrl-C.
    pub(crate) signals: Arc<AtomicBool>,
    /// By their address.
    pub(crate) places: Vec<(String, Place)>,
    /// For bases, which lie beside them.
    pub(crate) access: Access,
    /// What is loaded is kept, and what was kept is used.
    pub(crate) keeps_bases: bool,
}

/// A data set on a target.
pub(crate) struct Set<'a> {
    pub(crate) address: &'a str,
    /// Where the log of its database lies apart, which may be the same target.
    pub(crate) log: Option<&'a str>,
    /// Nothing of it is stored.
    is_virtual: bool,
    /// Of the first variant that needs it; the others need the same.
    load: &'a Load,
    /// Of all on its target.
    pub(crate) needs: Needs,
    made: Made,
    /// Of one that grows: what it lies on.
    ground: Option<Ground>,
    /// The one device that it lies on, whose counters say what came down; absent where there are several.
    device: Option<String>,
    /// The one that a log apart lies on, where it is another.
    log_device: Option<String>,
}

/// What there is of a data set.
enum Made {
    Nothing,
    Areas(Vec<Area>),
    Database(Box<Database>),
    Bases(space::Bases),
    Several(Box<Several>),
}

impl Made {
    /// That run while a run is made.
    fn servers(&self) -> Vec<Address> {
        match self {
            Made::Database(database) => vec![database.address()],
            Made::Several(several) => several.addresses(),
            Made::Nothing | Made::Areas(_) | Made::Bases(_) => Vec::new(),
        }
    }
}

impl Set<'_> {
    /// Before all runs, and not as it grows.
    fn is_written_first(&self) -> bool {
        !self.is_virtual && !self.load.grows() && !matches!(self.load, Load::Restore(_))
    }

    /// What is written to make it.
    fn written_bytes(&self) -> u64 {
        match self.load {
            _ if self.is_virtual || self.load.grows() => 0,
            Load::Io(load) if load.set.precondition == Precondition::Aged => 2 * self.needs.size_bytes,
            Load::Restore(_) => 0,
            Load::Io(_) | Load::Database(_) | Load::Several(_) | Load::Bill(_) => self.needs.size_bytes,
            Load::Space(load) => load.bases.size_bytes(),
        }
    }
}

/// How long things took so far.
#[derive(Default)]
struct Pace {
    runs: u32,
    time: Duration,
}

impl Pace {
    /// Of one run: what it should take, or what those before did.
    fn run(&self, plan: &Plan) -> Duration {
        match self.runs {
            0 => plan.warmup + plan.measure + OVERHEAD,
            runs => self.time / runs,
        }
    }
}

impl Work<'_> {
    /// That what is left to do has room.
    pub(crate) fn check_room(&self) -> Result<()> {
        self.sets(&self.records.left(self.plan)).map(|_| ())
    }

    /// All that is left to do.
    pub(crate) fn all(&self, tell: &mut dyn FnMut(&Progress)) -> Result<()> {
        let left = self.records.left(self.plan);
        let mut sets = self.sets(&left)?;
        let mut pace = Pace::default();
        let all_runs = pace.run(self.plan) * left.len() as u32;
        let (mut number, stored) = (0, sets.iter().filter(|set| set.is_written_first()).count());
        for index in 0..sets.len() {
            let set = &sets[index];
            if set.load.grows() {
                continue;
            }
            if set.is_written_first() {
                number += 1;
                let to_write: u64 = sets[index..].iter().map(Set::written_bytes).sum();
                let size = bytes(set.load.size_bytes());
                let step = match set.load {
                    Load::Space(_) => format!("data set {number} of {stored}: {size} here, to be copied"),
                    _ => format!("data set {number} of {stored}: {size} on {}", set.address),
                };
                tell(&Progress { step, left: time_to_write(to_write) + all_runs, before: None });
            }
            let (made, laid) = self.write(set, tell)?;
            let set = &mut sets[index];
            (set.device, set.log_device) =
                laid.map_or_else(|| (self.device(set), None), |laid| lay::devices(&laid));
            set.made = made;
        }
        let mut before = None;
        for (index, run) in left.iter().enumerate() {
            let number = self.plan.runs.iter().position(|of_plan| of_plan == *run).unwrap_or(index);
            let phases = match self.plan.is_timed() {
                true => format!(
                    ", {} s of warm-up, {} s measured",
                    self.plan.warmup.as_secs_f64(),
                    self.plan.measure.as_secs_f64()
                ),
                false => String::new(),
            };
            let step = format!("run {} of {}: {}{phases}", number + 1, self.plan.runs.len(), run.id);
            let left_over = pace.run(self.plan) * (left.len() - index) as u32;
            tell(&Progress { step, left: left_over, before: before.take() });
            let begun = Instant::now();
            let figures = self.run(run, &mut sets)?;
            pace = Pace { runs: pace.runs + 1, time: pace.time + begun.elapsed() };
            before = Some(short(&figures));
        }
        Ok(())
    }

    /// The data sets that the runs need, each once, with room for all.
    fn sets(&self, runs: &[&Run]) -> Result<Vec<Set<'_>>> {
        let mut sets: Vec<Set<'_>> = Vec::new();
        for (address, _) in &self.places {
            let mut needed = 0;
            for run in runs {
                let variant = &self.plan.variants[run.variant];
                if variant.target.address != *address || find(&sets, variant).is_some() {
                    continue;
                }
                let largest = largest(&self.plan.variants, &variant.target, &variant.load);
                let needs = needs(largest, sets.len() + 1, needed);
                needed += needs.size_bytes;
                sets.push(Set {
                    address,
                    log: variant.log.as_deref(),
                    is_virtual: variant.target.is_virtual(),
                    load: &variant.load,
                    needs,
                    made: Made::Nothing,
                    ground: None,
                    device: None,
                    log_device: None,
                });
            }
        }
        for (address, place) in &self.places {
            let needed = needed_on(address, &sets);
            let room = place.room_bytes().map_err(|refusal| Error::environment(refusal.to_string()))?;
            let usable = if place.is_shared() { (room as f64 * ROOM_SHARE) as u64 } else { room };
            if needed > usable {
                return Err(Error::environment(format!(
                    "{address}: {} are needed and {} can be used: make room, or take a smaller preset",
                    bytes(needed),
                    bytes(usable)
                )));
            }
        }
        Ok(sets)
    }

    /// Makes a data set; tells where a database lies.
    fn write(&self, set: &Set<'_>, tell: &mut dyn FnMut(&Progress)) -> Result<(Made, Option<Laid>)> {
        match set.load {
            Load::Io(load) => Ok((Made::Areas(self.fill(set, &load.set)?), None)),
            Load::Database(load) => self.load(set, load, tell),
            Load::Space(load) => Ok((Made::Bases(self.bases(set, load)?), None)),
            Load::Several(load) => self.load_several(set, load, tell),
            Load::Restore(_) | Load::Bill(_) => Ok((Made::Nothing, None)),
        }
    }

    /// A server on the target, loaded and stopped.
    fn load(
        &self,
        set: &Set<'_>,
        load: &DatabaseLoad,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<(Made, Option<Laid>)> {
        make(&scratch())?;
        if let Some(server) = self.place(set.address).server() {
            return Ok((Made::Database(Box::new(self.load_there(set, load, server)?)), None));
        }
        let (seed, stop) = (jobs::mixed(self.seed, set.address), &*self.signals);
        let made_of = match self.keeps_bases {
            true => {
                let installation = Installation::ensure(&self.launcher, &Search::default())?.0;
                Some(MadeOf::database(&installation, &load.base, (seed, set.log.is_some())))
            }
            false => None,
        };
        let grounds = self.lay(set, made_of.as_ref(), tell)?;
        let records = self.records.at("data").join(format!("set-{}", set.needs.number));
        make(&records)?;
        let scratch = Scratch { directory: scratch().join(format!("socket-{}", set.needs.number)), records };
        let copies = self.copies(set, &grounds.laid)?;
        let database = self.unpaced(set, || {
            let from = self.take_base(set, (&grounds, made_of.as_ref()), tell)?;
            let is_new = from.is_none();
            let ground = (&grounds.laid, scratch, copies, from);
            let database = Database::make(&self.launcher, ground, &load.base, (seed, stop))?;
            if let Some(made_of) = made_of.filter(|_| is_new) {
                self.keep_base(set, (&grounds.laid, &made_of), tell)?;
            }
            Ok::<Database, Error>(database)
        })?;
        Ok((Made::Database(Box::new(database)), Some(grounds.laid)))
    }

    /// A database of its own on a server that was there.
    fn load_there(&self, set: &Set<'_>, load: &DatabaseLoad, server: &Databases) -> Result<Database> {
        let made = server.make(set.needs.number);
        self.records.keep_left(&self.left())?;
        let address = made.map_err(|refusal| Error::environment(refusal.to_string()))?;
        let directory = scratch().join(format!("there-{}", set.needs.number));
        let scratch = Scratch { directory, records: self.records.at("data") };
        let seed = jobs::mixed(self.seed, set.address);
        Database::there((address, server.version()), scratch, &load.base, (seed, &self.signals))
    }

    /// Servers with databases on the target, loaded and stopped.
    fn load_several(
        &self,
        set: &Set<'_>,
        load: &SeveralLoad,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<(Made, Option<Laid>)> {
        make(&scratch())?;
        let (seed, stop) = (jobs::mixed(self.seed, set.address), &*self.signals);
        let made_of = match self.keeps_bases {
            true => {
                let installations = crate::several::chosen(&self.launcher, &load.bases)?;
                Some(MadeOf::several(&installations, &load.bases, (seed, set.log.is_some())))
            }
            false => None,
        };
        let grounds = self.lay(set, made_of.as_ref(), tell)?;
        let records = self.records.at("data").join(format!("set-{}", set.needs.number));
        let sockets = scratch().join(format!("socket-{}", set.needs.number));
        let several = self.unpaced(set, || {
            let from = self.take_base(set, (&grounds, made_of.as_ref()), tell)?;
            let is_new = from.is_none();
            let ground = (&grounds.laid, &*sockets, &*records, from);
            let several = Several::make(&self.launcher, ground, &load.bases, (seed, stop))?;
            if let Some(made_of) = made_of.filter(|_| is_new) {
                self.keep_base(set, (&grounds.laid, &made_of), tell)?;
            }
            Ok::<Several, Error>(several)
        })?;
        Ok((Made::Several(Box::new(several)), Some(grounds.laid)))
    }

    /// Databases to copy from, beside the target.
    fn bases(&self, set: &Set<'_>, load: &SpaceLoad) -> Result<space::Bases> {
        make(&scratch())?;
        let directory = scratch().join(format!("bases-{}", set.needs.number));
        self.records.keep_left(&self.left())?;
        let records = self.records.at("data").join(format!("set-{}", set.needs.number));
        let seed = jobs::mixed(self.seed, set.address);
        space::Bases::make(&self.launcher, (&directory, &records), &load.bases, (seed, &self.signals))
    }

    /// What databases take of the pool.
    fn count(
        &self,
        (run, variant): (&Run, &Variant),
        (load, bases): (&SpaceLoad, &space::Bases),
    ) -> Result<Figures> {
        let volumes = self.place(&variant.target.address).volumes();
        let volumes = volumes.expect("a plan has this only on pools");
        let keep = || self.records.keep_left(&self.left());
        let ground = space::Ground { volumes, scratch: scratch(), keep: &keep };
        bases.run((run, variant), load, &ground)
    }

    fn fill(&self, set: &Set<'_>, data: &DataSet) -> Result<Vec<Area>> {
        let number = set.needs.number;
        let records = self.records.at("data").join(format!("set-{number}"));
        make(&records)?;
        let place = self.place(set.address);
        let ground = match form(data) {
            Some(form) => {
                make(&scratch())?;
                place.lay_formatted(set.needs, form, &scratch().join(format!("mount-{number}")))
            }
            None => place.lay(set.needs),
        };
        // What was made is known before anything else can end this.
        self.records.keep_left(&self.left())?;
        let ground = ground.map_err(|refusal| Error::environment(refusal.to_string()))?;
        let areas = jobs::areas(&ground, data);
        self.place(set.address).unpaced(|| {
            for (index, area) in areas.iter().enumerate() {
                let seed = jobs::mixed(self.seed, &format!("{} {number} {index}", set.address));
                for cell in jobs::fill_cells(area, data, seed) {
                    self.fio.run(&cell, &records)?;
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(areas)
    }

    /// Writes what a run needs beyond what there is; all of it anew where there is too much.
    fn grow(&self, (run, variant): (&Run, &Variant), set: &mut Set<'_>) -> Result<()> {
        let Load::Io(load) = &variant.load else { return Ok(()) };
        let wanted = jobs::size_bytes(&load.set);
        let mut there = match &set.made {
            Made::Areas(_) if set.is_virtual => return Ok(()),
            Made::Areas(areas) => areas.iter().map(Area::size_bytes).sum(),
            Made::Nothing | Made::Database(_) | Made::Bases(_) | Made::Several(_) => 0,
        };
        if !load.set.grows || there == wanted {
            return Ok(());
        }
        let refused = |refusal: ashlar_target::Refusal| Error::environment(refusal.to_string());
        if there > wanted || set.ground.is_none() {
            let place = self.place(set.address);
            place.clear().map_err(refused)?;
            let ground = place.lay(set.needs);
            self.records.keep_left(&self.left())?;
            (set.ground, there) = (Some(ground.map_err(refused)?), 0);
        }
        let records = self.records.at("data").join(format!("set-{}-{}", set.needs.number, run.id));
        make(&records)?;
        let areas = set.ground.as_ref().map_or_else(Vec::new, |ground| jobs::areas(ground, &load.set));
        for area in &areas {
            for cell in jobs::fill_cells(&area.behind(there), &load.set, jobs::mixed(self.seed, &run.id)) {
                self.place(set.address).unpaced(|| self.fio.run(&cell, &records))?;
            }
        }
        set.made = Made::Areas(areas);
        set.device = self.device(set);
        Ok(())
    }

    fn device(&self, set: &Set<'_>) -> Option<String> {
        let footing = self.place(set.address).footing().ok().filter(|_| set.needs.volumes == 1)?;
        Some(footing.devices.first()?.name.clone())
    }

    pub(crate) fn place(&self, address: &str) -> &Place {
        let found = self.places.iter().find(|(known, _)| known == address);
        &found.expect("every target of the plan was opened").1
    }

    /// What is on the targets now and has to go.
    pub(crate) fn left(&self) -> Left {
        let mut left = Left::default();
        for (_, place) in &self.places {
            left.directories.extend(place.made_directories());
            left.volumes.extend(place.made_volumes());
            left.snapshots.extend(place.made_snapshots());
            left.databases.extend(place.made_databases());
        }
        left.directories.extend(Some(scratch()).filter(|scratch| scratch.exists()));
        left
    }

    /// Removes what was made on the targets; what stays is told.
    pub(crate) fn clear(&self) -> Vec<String> {
        let cleared = self.places.iter().map(|(_, place)| place.clear());
        let stays = cleared.filter_map(|cleared| cleared.err().map(|refusal| refusal.to_string())).collect();
        // Not while something is mounted there.
        let _absent = fs::remove_dir(scratch());
        stays
    }

    /// What fio finds, or the model of drives that are not there.
    fn test(
        &self,
        (run, variant): (&Run, &Variant),
        (load, areas): (&IoLoad, &[Area]),
        seed: u64,
        directory: &std::path::Path,
    ) -> Result<Figures> {
        if let Place::Model { spec, .. } = self.place(&variant.target.address) {
            return crate::simulated::figures((run, variant), load, spec, self.plan, seed);
        }
        let test = |areas: &[Area]| {
            let cell = jobs::cell(load, areas, self.plan, seed);
            let kept = self.fio.run(&cell, directory)?;
            Ok(Figures::of(run, variant, load, &cell, &kept))
        };
        let Some(held) = load.held else { return test(areas) };
        let before = directory.join("before");
        make(&before)?;
        let ground = held::Ground {
            volumes: self.place(&variant.target.address).volumes().expect("a plan has this only on pools"),
            keep: &|| self.records.keep_left(&self.left()),
            overwrite: &|area, number| {
                let name = format!("overwrite-{number}");
                let cell = jobs::overwrite_cell(area, &load.set, &name, jobs::mixed(seed, &name));
                self.fio.run(&cell, &before).map(drop)
            },
        };
        held::while_held(held, areas, &ground, test)
    }

    /// Content that comes back.
    fn restore(&self, (run, variant): (&Run, &Variant), load: &RestoreLoad) -> Result<Figures> {
        make(&scratch())?;
        let volumes = self.place(&variant.target.address).volumes();
        let ground = restored::Ground {
            launcher: &self.launcher,
            volumes: volumes.expect("a plan has this only on pools"),
            scratch: scratch(),
            keep: &|| self.records.keep_left(&self.left()),
        };
        restored::run((run, variant), load, jobs::mixed(self.seed, &run.id), &ground)
    }

    fn run(&self, run: &Run, sets: &mut [Set<'_>]) -> Result<Figures> {
        let variant = &self.plan.variants[run.variant];
        let index = find(sets, variant).expect("a set was made for every run that is left");
        let directory: PathBuf = self.records.run(&run.id);
        let _of_one_that_was_cut_off = fs::remove_dir_all(&directory);
        make(&directory)?;
        let seed = jobs::mixed(self.seed, &run.id);
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.grow((run, variant), &mut sets[index])?;
        let place = self.place(&variant.target.address);
        // Of a run that overwrites before it, or is on a clone, the counters tell something else.
        let is_of_load = variant.load.io().is_none_or(|load| load.held.is_none());
        let meter = place.meter().filter(|_| is_of_load);
        let count = || meter.as_ref()?.counted();
        let before = count();
        let device = sets[index].device.clone().filter(|_| is_of_load);
        let log_device = sets[index].log_device.clone();
        let look = |device: &Option<String>| Counters::of(device.as_ref()?);
        let (device_before, log_before) = (look(&device), look(&log_device));
        let load = crate::offered::resolved(self.plan, run, self.records)?;
        let sources = Sources {
            disk: device.as_deref(),
            log_disk: log_device.as_deref(),
            servers: sets[index].made.servers(),
            array: before.is_some().then_some(&count as &(dyn Fn() -> Option<PoolCounters> + Sync)),
        };
        let mut work = || self.measure((run, variant), &load, &mut sets[index].made, (seed, &directory));
        let is_watched = self.plan.is_timed() && !variant.target.is_virtual();
        let (measured, watched) = match is_watched {
            true => {
                let (measured, watched) = during(&sources, interval(self.plan.measure), work);
                (measured?, Some(watched))
            }
            false => (work()?, None),
        };
        let pool = before.and_then(|before| Some(count()? - before));
        let counted = device_before.and_then(|before| Some(look(&device)? - before));
        let log = log_before.and_then(|before| Some(look(&log_device)? - before));
        let mut figures =
            Figures { begun_unix_seconds: begun, pool, device: counted, log_device: log, ..measured };
        if let Some(watched) = watched {
            figures.meanwhile = Some(Meanwhile::of(&figures, &watched));
            meanwhile::keep(self.records, &run.id, &watched.samples)?;
        }
        if self.launcher.is_interrupted() {
            return Err(Error::interrupted());
        }
        self.records.keep_figures(&figures)?;
        Ok(figures)
    }

    fn measure(
        &self,
        (run, variant): (&Run, &Variant),
        load: &Load,
        made: &mut Made,
        (seed, directory): (u64, &Path),
    ) -> Result<Figures> {
        match (load, made) {
            (Load::Io(load), Made::Areas(areas)) => self.test((run, variant), (load, areas), seed, directory),
            (Load::Several(load), Made::Several(several)) => {
                several.run((run, variant), load, (self.plan, seed), &self.signals)
            }
            (Load::Restore(load), Made::Nothing) => self.restore((run, variant), load),
            (Load::Space(load), Made::Bases(bases)) => self.count((run, variant), (load, bases)),
            (Load::Database(load), Made::Database(database)) => {
                database.run((run, variant), load, (self.plan, seed), &self.signals)
            }
            _ => unreachable!("a set is made for the load that it was found for"),
        }
    }
}

/// Sockets of servers and mounts of volumes, outside of any target; gone when nothing is in it.
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("{OWN_PREFIX}{}", std::process::id()))
}

/// Of a volume and a file system that are made for it.
fn form(set: &DataSet) -> Option<Form> {
    let (block, cluster) = (set.layout.block?, set.layout.cluster?);
    Some(Form { block_bytes: block.0, cluster_bytes: cluster.0 })
}

fn needs(load: &Load, number: usize, offset_bytes: u64) -> Needs {
    match load {
        Load::Io(load) => Needs {
            number,
            files: load.set.files,
            volumes: load.set.layout.volumes,
            size_bytes: jobs::size_bytes(&load.set),
            offset_bytes,
        },
        Load::Database(load) => {
            Needs { number, files: 1, volumes: 1, size_bytes: load.room_bytes(), offset_bytes }
        }
        Load::Several(load) => {
            Needs { number, files: 1, volumes: 1, size_bytes: load.bases.room_bytes(), offset_bytes }
        }
        Load::Space(load) => {
            Needs { number, files: 1, volumes: 0, size_bytes: load.room_bytes(), offset_bytes }
        }
        Load::Restore(load) => {
            Needs { number, files: 1, volumes: 0, size_bytes: load.room_bytes(), offset_bytes }
        }
        Load::Bill(_) => Needs { number, files: 0, volumes: 0, size_bytes: 0, offset_bytes },
    }
}

/// Of all that lies there; of a log apart on the same target its database's needs know.
fn needed_on(address: &str, sets: &[Set<'_>]) -> u64 {
    let of = |set: &Set<'_>| {
        let data = if set.address == address { set.needs.size_bytes } else { 0 };
        let has_log = set.log == Some(address) && set.address != address;
        data + if has_log { set.load.log_room_bytes() } else { 0 }
    };
    sets.iter().map(of).sum()
}

fn find(sets: &[Set<'_>], variant: &Variant) -> Option<usize> {
    let is_it = |set: &Set<'_>| set.address == variant.target.address && set.load.shares_set(&variant.load);
    sets.iter().position(is_it)
}

fn time_to_write(bytes: u64) -> Duration {
    Duration::from_secs(bytes / WRITE_BYTES_PER_SECOND)
}

/// A run in a few words.
fn short(figures: &Figures) -> String {
    if let Some(space) = &figures.space {
        return format!("{} on the drives", bytes(space.taken.physical_bytes().max(0) as u64));
    }
    if let Some(found) = &figures.restored {
        return restored::words::short(found);
    }
    let rate = format!("{} a second", count(figures.per_second()));
    match figures.p99_nanos {
        Some(p99) => format!("{rate}, 99 of 100 within {}", nanos(p99 as f64)),
        None => rate,
    }
}
