//! What a scenario comes to on the targets that were named: its plan, without what they cannot do.
//!
//! A directory, a device and an export are one volume each; a pool has as many as are asked for. What needs
//! several, or a layout over several, is left out where there is one, and said; where nothing is left that
//! answers the question, nothing is run.

use std::collections::BTreeSet;
use std::path::Path;

use ashlar_report::{bytes, seconds};
use ashlar_scenario::{
    Axis, Check, Engine, Entry, Kept, Load, Machine as Assumed, Plan, Preset, Scenario, Target, Variant,
};
use ashlar_target::{Access, Kind, Machine};
use ashlar_units::ByteCount;
use serde::Serialize;

use crate::text::many;
use crate::{Error, Result};

/// How fast data sets are taken to be written before any was. A drive of a few years ago.
pub(crate) const WRITE_BYTES_PER_SECOND: u64 = 200_000_000;
/// A plan, and the scenario without what was left out of it.
#[derive(Clone, Debug)]
pub struct Outline {
    pub scenario: Scenario,
    pub plan: Plan,
    pub seed: u64,
    /// In sentences.
    pub left_out: Vec<String>,
}

/// What the plan must know of this machine.
#[must_use]
pub fn machine(machine: &Machine) -> Assumed {
    Assumed {
        cores: machine.cores as u64,
        memory: ByteCount(machine.memory_bytes),
        bytes_per_second: ByteCount(WRITE_BYTES_PER_SECOND),
    }
}

/// Targets under the names they have in ids: the last word of their address.
///
/// # Errors
/// When one is of a kind that does not exist, or is named twice.
pub fn targets(named: &[String]) -> Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::new();
    for address in named {
        let kind = kind_of(address)?;
        let address = match kind {
            Kind::Device | Kind::Pool | Kind::Export | Kind::Model | Kind::Disk | Kind::Server => {
                address.clone()
            }
            Kind::Directory => std::path::absolute(address)
                .map_err(|error| Error::environment(format!("{address}: {error}")))?
                .display()
                .to_string(),
        };
        if targets.iter().any(|target| Path::new(&target.address) == Path::new(&address)) {
            return Err(Error::environment(format!("target {address} is named twice")));
        }
        let id = plain(name(kind, &address));
        let is_taken = |id: &str| targets.iter().any(|target| target.id == id);
        let id = match is_taken(&id) {
            true => (2..).map(|number| format!("{id}-{number}")).find(|id| !is_taken(id)).unwrap_or(id),
            false => id,
        };
        targets.push(Target::new(id, address));
    }
    Ok(targets)
}

/// The targets, with the place where the logs of databases on them lie.
///
/// # Errors
/// When a log cannot lie there.
pub fn with_log(targets: Vec<Target>, named: &str) -> Result<Vec<Target>> {
    let kind = kind_of(named)?;
    if !kind.has_file_system() {
        return Err(Error::environment(format!(
            "{named}: a log needs a file system: name a directory, or a pool as ashlar:POOL"
        )));
    }
    let log = self::targets(&[named.to_string()])?.pop().map(|target| target.address);
    Ok(targets.into_iter().map(|target| Target { log: log.clone(), ..target }).collect())
}

/// What a target is called: the last word of its address. Simulated drives say that they are.
fn name(kind: Kind, address: &str) -> &str {
    let path = match kind {
        Kind::Model => return "simulated-hdd",
        Kind::Disk => return address.split(':').next().unwrap_or(address),
        Kind::Export => address.split('?').next().unwrap_or(address),
        Kind::Server => return host(address),
        Kind::Directory | Kind::Device | Kind::Pool => address,
    };
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or("root")
}

/// Of a server's address: who is asked there says nothing.
fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() { "postgres" } else { host }
}

/// A word that can stand in a run's id.
fn plain(name: &str) -> String {
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let word: String = name.chars().map(letter).collect();
    let word = word.trim_matches('-');
    if word.is_empty() { "target".into() } else { word.into() }
}

fn kind_of(address: &str) -> Result<Kind> {
    Kind::of(address).map_err(|refusal| Error::environment(refusal.to_string()))
}

/// The plan of a scenario on these targets.
///
/// # Errors
/// When the scenario has no values for the preset, or nothing of it can be run on these targets.
pub fn outline(
    scenario: &Scenario,
    preset: Preset,
    seed: u64,
    targets: &[Target],
    assumed: Assumed,
) -> Result<Outline> {
    outline_as(scenario, preset, seed, targets, assumed, None)
}

/// The same, cut as it was when that is given.
pub(crate) fn outline_as(
    scenario: &Scenario,
    preset: Preset,
    seed: u64,
    targets: &[Target],
    assumed: Assumed,
    kept: Option<&Kept>,
) -> Result<Outline> {
    let planned = |scenario: &Scenario, targets: &[Target]| {
        let request = ashlar_scenario::Request { preset, seed, targets, machine: assumed };
        let plan = ashlar_scenario::plan_as(scenario, &request, kept);
        plan.map_err(|error| Error::environment(error.to_string()))
    };
    let mut skipped = Vec::new();
    let with_space = with_space(scenario, targets, &mut skipped)?;
    let targets = with_space.as_slice();
    let mut narrowed = scenario.clone();
    let mut plan = planned(&narrowed, targets)?;
    // A scenario may name targets of its own.
    let mut run = plan.variants.iter().filter(|variant| !variant.target.is_calculated());
    run.try_for_each(|variant| kind_of(&variant.target.address).map(drop))?;
    let (whole, lacking): (Vec<Target>, Vec<Target>) = targets.iter().cloned().partition(|target| {
        let on_it = |variant: &&Variant| variant.target == *target;
        plan.variants.iter().filter(on_it).all(|variant| is_possible(variant, &plan))
    });
    let targets = if whole.is_empty() || lacking.is_empty() { targets } else { &whole };
    if targets.len() == whole.len() && !lacking.is_empty() {
        let named: Vec<&str> = lacking.iter().map(|target| target.address.as_str()).collect();
        let why = match scenario.engine {
            Engine::None {} if is_of_copies(&plan) => {
                "it takes snapshots, and only volumes that a pool makes for it have them"
            }
            Engine::None {} if has(scenario, "block") => "it makes volumes of different logical blocks",
            Engine::None {} if has(scenario, "file_system") => {
                "it makes volumes, with a file system and without one"
            }
            Engine::None {} => "it takes several volumes, and each of these is one",
            Engine::Postgres { .. } if is_of_space(&plan) => {
                "it counts the room in a pool, and they have no accounts"
            }
            Engine::Postgres { .. } if !scenario.events.is_empty() => {
                "it takes snapshots, and they have none"
            }
            Engine::Postgres { .. } if lacking.iter().all(is_server) => {
                "it takes servers of the lab's own, to be restarted, limited or copied"
            }
            Engine::Postgres { .. } => "a database needs a file system",
        };
        skipped.push(format!("Not run on {}: {why}.", named.join(", ")));
        plan = planned(&narrowed, targets)?;
    }
    // Each time at least one entry goes; less to run may mean that less is cut, and others come back.
    while plan.variants.iter().any(|variant| !is_possible(variant, &plan)) {
        if !narrow(&mut narrowed.matrix, &plan) {
            return Err(nothing(scenario, &plan));
        }
        plan = planned(&narrowed, targets)?;
    }
    skipped.extend(left_out(scenario, &mut narrowed, &plan)?);
    skipped.extend(log_left_out(targets, &plan));
    check_moment(&plan)?;
    Ok(Outline { scenario: narrowed, plan, seed, left_out: skipped })
}

/// A log target that nothing is put on.
fn log_left_out(targets: &[Target], plan: &Plan) -> Option<String> {
    let log = targets.iter().find_map(|target| target.log.as_ref())?;
    let is_used = plan.variants.iter().any(|variant| variant.log.is_some());
    (!is_used).then(|| format!("Nothing lies on {log}: no database of the lab's own has a log to put there."))
}

/// A snapshot of a database is of its data and its log at one moment: both are of one pool.
fn check_moment(plan: &Plan) -> Result<()> {
    let pool = |address: &str| {
        let is_pool = Kind::of(address).is_ok_and(Kind::has_snapshots);
        is_pool.then(|| Kind::rest(address).split('/').next().unwrap_or_default().to_string())
    };
    let elsewhere = plan.variants.iter().filter(|_| !plan.snapshots_at.is_empty()).find_map(|variant| {
        let log = variant.log.as_ref()?;
        (pool(log) != pool(&variant.target.address)).then_some((log, &variant.target.address))
    });
    match elsewhere {
        Some((log, data)) => Err(Error::environment(format!(
            "snapshots of a database are of its data on {data} and its log on {log} at one moment: name the same \
             pool with --log-target, or leave it out"
        ))),
        None => Ok(()),
    }
}

/// The targets of which it is known what they have room for, where the scenario asks.
fn with_space(scenario: &Scenario, targets: &[Target], skipped: &mut Vec<String>) -> Result<Vec<Target>> {
    if !scenario.asks_for_space() {
        return Ok(targets.to_vec());
    }
    let is_known = |target: &&Target| target.space_bytes.is_some();
    let (known, unknown): (Vec<&Target>, Vec<&Target>) = targets.iter().partition(is_known);
    let named: Vec<&str> = unknown.iter().map(|target| target.address.as_str()).collect();
    let why = "its data sets are shares of what a pool has room for, and only a pool tells that, and what it writes \
               to its drives";
    if known.is_empty() {
        return Err(Error::environment(format!(
            "{}: nothing can be run on {}: {why}: name a pool as ashlar:POOL",
            scenario.id,
            named.join(", ")
        )));
    }
    if !named.is_empty() {
        skipped.push(format!("Not run on {}: {why}.", named.join(", ")));
    }
    Ok(known.into_iter().cloned().collect())
}

/// The targets with what each has room for, where the scenario asks for it.
///
/// # Errors
/// When a pool does not say.
pub fn measured_space(scenario: &Scenario, targets: &[Target], access: &Access) -> Result<Vec<Target>> {
    let mut targets = targets.to_vec();
    for target in targets.iter_mut().filter(|_| scenario.asks_for_space()) {
        let space = ashlar_target::space_bytes(&target.address, access);
        target.space_bytes = space.map_err(|refusal| Error::environment(refusal.to_string()))?;
    }
    Ok(targets)
}

fn is_possible(variant: &Variant, plan: &Plan) -> bool {
    let Ok(kind) = Kind::of(&variant.target.address) else { return variant.target.is_calculated() };
    match &variant.load {
        Load::Bill(_) => true,
        Load::Database(load) if kind == Kind::Server => {
            plan.snapshots_at.is_empty() && !load.takes_own_server()
        }
        Load::Database(_) => kind.has_file_system() && (plan.snapshots_at.is_empty() || kind.has_snapshots()),
        Load::Space(_) | Load::Restore(_) => kind.has_volumes(),
        Load::Several(_) => kind.has_file_system(),
        Load::Io(load) => {
            let has_copies = load.held.is_none() || has_own_volumes(kind, &variant.target.address);
            has_copies && kind != Kind::Server && (!load.set.layout.needs_pool() || kind.has_volumes())
        }
    }
}

/// Volumes are made for it, and none is named that is there already.
fn has_own_volumes(kind: Kind, address: &str) -> bool {
    kind.has_volumes() && !Kind::rest(address).contains('/')
}

/// Takes out the entries that come in no variant that can be run; false when there is none, or nothing else.
fn narrow(matrix: &mut [Axis], plan: &Plan) -> bool {
    let mut has_changed = false;
    for axis in matrix {
        let before = axis.entries.len();
        let comes = |entry: &Entry, is_wanted: fn(&Variant, &Plan) -> bool| {
            plan.variants
                .iter()
                .any(|variant| variant.entries.contains(&entry.id) && is_wanted(variant, plan))
        };
        // One that was cut comes in none at all, and is not known to be impossible.
        axis.entries.retain(|entry| comes(entry, is_possible) || !comes(entry, |_, _| true));
        has_changed |= axis.entries.len() < before && !axis.entries.is_empty();
        if axis.entries.is_empty() {
            return false;
        }
    }
    has_changed
}

/// Says what is left out, and takes out the checks that ask for it.
fn left_out(whole: &Scenario, narrowed: &mut Scenario, plan: &Plan) -> Result<Vec<String>> {
    let mut sentences = Vec::new();
    let mut gone = BTreeSet::new();
    for (axis, kept) in whole.matrix.iter().zip(&narrowed.matrix) {
        let is_kept = |entry: &&Entry| kept.entries.iter().any(|kept| kept.id == entry.id);
        let missing: Vec<&str> =
            axis.entries.iter().filter(|entry| !is_kept(entry)).map(|entry| entry.id.as_str()).collect();
        if !missing.is_empty() {
            sentences.push(format!(
                "Left out of `{}`, because a directory, a device or an export is one volume: {}.",
                axis.name,
                missing.join(", ")
            ));
        }
        gone.extend(missing);
    }
    let is_lost = |entries: &[&str]| entries.iter().any(|entry| gone.contains(entry));
    let named: Vec<Vec<&str>> = asked(whole).into_iter().filter(|entries| !entries.is_empty()).collect();
    if !gone.is_empty() && !named.is_empty() && named.iter().all(|entries| is_lost(entries)) {
        return Err(nothing(whole, plan));
    }
    let (kept, lost): (Vec<Check>, Vec<Check>) = narrowed.checks.drain(..).partition(|check| match check {
        Check::Ratio { of, .. } | Check::Value { of, .. } => !is_lost(&of.entries()),
        _ => true,
    });
    for check in lost {
        if let Check::Ratio { of, .. } | Check::Value { of, .. } = check {
            sentences.push(format!("So {} is not asked.", of.text));
        }
    }
    narrowed.checks = kept;
    Ok(sentences)
}

/// The entries of each metric that the scenario names.
fn asked(scenario: &Scenario) -> Vec<Vec<&str>> {
    let checked = scenario.checks.iter().filter_map(|check| match check {
        Check::Ratio { of, .. } | Check::Value { of, .. } => Some(of.entries()),
        _ => None,
    });
    scenario.published.iter().map(|published| published.metric.entries()).chain(checked).collect()
}

/// Layouts are compared that have this key.
fn has(scenario: &Scenario, key: &str) -> bool {
    let mut entries = scenario.matrix.iter().flat_map(|axis| &axis.entries);
    entries.any(|entry| entry.overrides.get("layout").is_some_and(|layout| layout.get(key).is_some()))
}

fn is_server(target: &Target) -> bool {
    matches!(Kind::of(&target.address), Ok(Kind::Server))
}

/// What is asked is what databases take of a pool.
fn is_of_space(plan: &Plan) -> bool {
    plan.variants.iter().any(|variant| matches!(variant.load, Load::Space(_)))
}

/// What is asked is what snapshots and clones cost, or bring back.
fn is_of_copies(plan: &Plan) -> bool {
    plan.variants.iter().any(|variant| match &variant.load {
        Load::Io(load) => load.held.is_some(),
        Load::Restore(_) => true,
        Load::Database(_) | Load::Space(_) | Load::Several(_) | Load::Bill(_) => false,
    })
}

fn nothing(scenario: &Scenario, plan: &Plan) -> Error {
    if is_of_space(plan) {
        return Error::environment(format!(
            "{}: nothing can be run there: it counts what databases take of a pool: name one as ashlar:POOL",
            scenario.id
        ));
    }
    if !scenario.events.is_empty() || is_of_copies(plan) {
        return Error::environment(format!(
            "{}: nothing can be run there: it takes snapshots: name a pool as ashlar:POOL",
            scenario.id
        ));
    }
    if !matches!(scenario.engine, Engine::None {}) {
        return Error::environment(format!(
            "{}: nothing can be run there: a database needs a file system: name a directory, or a pool as ashlar:POOL",
            scenario.id
        ));
    }
    if has(scenario, "block") {
        return Error::environment(format!(
            "{}: nothing can be run there: it makes volumes with logical blocks of 512 and of 4096 bytes, and only \
             a pool has them: name one as ashlar:POOL",
            scenario.id
        ));
    }
    if has(scenario, "file_system") {
        return Error::environment(format!(
            "{}: nothing can be run there: it makes volumes, with a file system and without one, and only a pool \
             has them: name one as ashlar:POOL",
            scenario.id
        ));
    }
    Error::environment(format!(
        "{}: nothing can be run there: it compares several volumes of one target, and a directory, a device or \
         an export is one volume: name a pool as ashlar:POOL",
        scenario.id
    ))
}

/// A plan in figures.
#[derive(Clone, Debug, Serialize)]
pub struct Figured {
    pub preset: String,
    pub seed: u64,
    pub variants: Vec<String>,
    pub repeat: u64,
    pub runs: usize,
    pub warmup_seconds: f64,
    pub measure_seconds: f64,
    /// Of all runs, with what it takes to write the data sets.
    pub seconds: u64,
    pub bytes_written: u64,
    pub bytes_stored: u64,
    pub cuts: Vec<String>,
    pub left_out: Vec<String>,
    /// What of the data is there already, and what will be kept; where that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<String>,
}

impl Outline {
    /// For JSON.
    #[must_use]
    pub fn figured(&self) -> Figured {
        let plan = &self.plan;
        Figured {
            preset: plan.preset.to_string(),
            seed: self.seed,
            variants: plan.variants.iter().map(|variant| variant.name.clone()).collect(),
            repeat: plan.repeat,
            runs: plan.runs.len(),
            warmup_seconds: plan.warmup.as_secs_f64(),
            measure_seconds: plan.measure.as_secs_f64(),
            seconds: plan.duration.as_secs(),
            bytes_written: plan.bytes_written.0,
            bytes_stored: plan.bytes_stored.0,
            cuts: plan.cuts.clone(),
            left_out: self.left_out.clone(),
            bases: Vec::new(),
        }
    }

    /// For a person.
    #[must_use]
    pub fn text(&self) -> String {
        let Outline { scenario, plan, .. } = self;
        let mut lines = vec![
            format!("{}: {}", scenario.id, scenario.title),
            String::new(),
            format!(
                "{} at preset {}: {}, {}",
                many(plan.runs.len(), "run"),
                plan.preset,
                many(plan.variants.len(), "variant"),
                if plan.repeat == 1 { "once each".into() } else { format!("{} times each", plan.repeat) }
            ),
            format!(
                "about {}, {} written, {} of space needed; each run {}",
                seconds(plan.duration.as_secs()),
                bytes(plan.bytes_written.0),
                bytes(plan.bytes_stored.0),
                match plan.is_timed() {
                    true => format!(
                        "{:.1} s of warm-up and {:.1} s measured",
                        plan.warmup.as_secs_f64(),
                        plan.measure.as_secs_f64()
                    ),
                    false => "as long as it takes".into(),
                }
            ),
        ];
        let targets: BTreeSet<String> = plan
            .variants
            .iter()
            .map(|variant| format!("{} ({})", variant.target.id, variant.target.address))
            .collect();
        lines.push(format!("on {}", targets.into_iter().collect::<Vec<_>>().join(", ")));
        let logs: BTreeSet<&str> =
            plan.variants.iter().filter_map(|variant| variant.log.as_deref()).collect();
        if !logs.is_empty() {
            let logs: Vec<&str> = logs.into_iter().collect();
            lines.push(format!("with write-ahead logs apart from the data, on {}", logs.join(", ")));
        }
        for sentence in plan.cuts.iter().chain(&self.left_out) {
            lines.push(format!("- {sentence}"));
        }
        lines.join("\n")
    }
}
