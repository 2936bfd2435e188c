//! The plan: matrix x repetition as runs in a seeded random order, with estimates, cut to the budget.
//!
//! Each repetition is one block in which every variant comes once, in an order of its own: a machine that
//! drifts does not look like a result. The same request gives the same plan, and a run the same id, so that
//! a killed one resumes. What is cut is said in sentences: repetitions first, then the middle of axes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ashlar_statistics::random::SplitMix64;
use ashlar_units::ByteCount;
use serde::{Deserialize, Serialize};

use crate::bill::CALCULATED;
use crate::error::{Error, Result};
use crate::file::{Axis, Entry, Event, LogRole, Scenario, is_name};
use crate::formula::Names;
use crate::quantity::time_text;
use crate::scale::Preset;
use crate::workload::Load;

/// Fewer repetitions give no interval that deserves the name.
const REPEAT_FLOOR: u64 = 3;

/// Arbitrary; ten times the largest scenario, and far below what would fill the memory.
const VARIANT_COUNT_MAX: usize = 1000;

/// Arbitrary; far above what any interval needs.
const REPEAT_MAX: u64 = 100;

/// What the user gave as the target; an entry of the matrix may have its own instead.
const USER_TARGET: &str = "@target";
/// Each directory that the user named, in the place of what lies over one.
const EACH_TARGET: &str = "@each";

/// A place to test, under the name it has in ids.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Target {
    pub id: String,
    pub address: String,
    /// What it has room for, where a scenario asks; a pool says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_bytes: Option<u64>,
    /// Where the logs of its databases lie, where the user said it; the same of all targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// What addresses of simulated targets begin with.
const SIMULATED: &str = "sim-";
/// What addresses of servers that are there already begin with.
const SERVERS: [&str; 2] = ["postgres:", "postgresql:"];
/// What stands before the place that holds the bytes of a target that is answered for.
pub const OVER: &str = " over ";
/// Where those bytes are where the user named no directory.
const OVER_DEFAULT: &str = "/var/tmp";
/// What a target that is not known yet has room for. Arbitrary: a pool to try things on.
pub const ANY_SPACE_BYTES: u64 = 4 << 30;
/// To open a clone, let its database recover, and check it; a guess for the plan alone.
const SNAPSHOT_CHECK: Duration = Duration::from_secs(10);
/// A run of a model, whatever its virtual time is: measured, some seconds.
const SIMULATED_RUN: Duration = Duration::from_secs(3);

impl Target {
    #[must_use]
    pub fn new(id: impl Into<String>, address: impl Into<String>) -> Target {
        Target { id: id.into(), address: address.into(), space_bytes: None, log: None }
    }

    /// One that is not known yet, for a look at what a scenario takes.
    #[must_use]
    pub fn any() -> Target {
        Target { space_bytes: Some(ANY_SPACE_BYTES), ..Target::new("target", "") }
    }

    /// The drives are not there.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.address.starts_with(SIMULATED)
    }

    /// There is none: nothing is run.
    #[must_use]
    pub fn is_calculated(&self) -> bool {
        self.address == CALCULATED
    }

    /// A database server that is there already: where its files lie is its own business.
    #[must_use]
    pub fn is_server(&self) -> bool {
        SERVERS.iter().any(|scheme| self.address.starts_with(scheme))
    }

    /// It stores nothing, and its time is virtual.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.is_simulated() && !self.address.contains(OVER)
    }
}

/// What the plan must know of the machine, because this crate looks at none.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub cores: u64,
    pub memory: ByteCount,
    /// How fast data sets are taken to be written.
    pub bytes_per_second: ByteCount,
}

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub preset: Preset,
    pub seed: u64,
    pub targets: &'a [Target],
    pub machine: Machine,
}

/// One cell of the matrix on one target.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// The ids of its entries and, where the user chose it, of its target: `write-4k-d16-ashlar`.
    pub name: String,
    /// One id of each axis, in order.
    pub entries: Vec<String>,
    pub target: Target,
    pub load: Load,
    /// The address where the log of its database lies apart, which may be the target's; `None` is beside the
    /// data.
    pub log: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// `r2-write-4k-d16-ashlar`.
    pub id: String,
    /// From 1.
    pub repetition: u64,
    /// Index into the plan's variants.
    pub variant: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub preset: Preset,
    pub repeat: u64,
    pub warmup: Duration,
    pub measure: Duration,
    /// When snapshots are taken, as shares of the measured time.
    pub snapshots_at: Vec<f64>,
    pub variants: Vec<Variant>,
    /// In the order in which they are run.
    pub runs: Vec<Run>,
    /// With the time to write the data sets.
    pub duration: Duration,
    pub bytes_written: ByteCount,
    /// Of all data sets together: the space that is needed.
    pub bytes_stored: ByteCount,
    pub budget: Duration,
    /// What was cut, and whether it was enough, in sentences.
    pub cuts: Vec<String>,
    /// The same for whoever works it out again.
    pub kept: Kept,
}

/// What a plan was cut to. It is kept with a result: estimates change later, and what was run does not.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    pub repeat: u64,
    /// Of each axis, the ids of its entries.
    pub entries: Vec<Vec<String>>,
    pub cuts: Vec<String>,
}

impl Plan {
    /// Runs last as long as they are measured, and not as long as what they do takes.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        !self.variants.iter().all(|variant| matches!(variant.load, Load::Space(_) | Load::Restore(_)))
    }

    #[must_use]
    pub fn is_within_budget(&self) -> bool {
        self.duration <= self.budget
    }
}

/// What a scenario means on these targets at this scale.
pub fn plan(scenario: &Scenario, request: &Request) -> Result<Plan> {
    plan_as(scenario, request, None)
}

/// The same, cut as it was when that is given.
pub fn plan_as(scenario: &Scenario, request: &Request, kept: Option<&Kept>) -> Result<Plan> {
    check_targets(scenario, request.targets)?;
    let mut draft = Draft::new(scenario, request)?;
    kept.into_iter().for_each(|kept| draft.cut_to(kept));
    draft.estimate()?;
    if kept.is_none() && !draft.plan.is_within_budget() {
        draft.cut()?;
    }
    draft.plan.kept = draft.kept();
    draft.check_shares()?;
    draft.check_growing()?;
    let Draft { mut plan, refused, .. } = draft;
    let told =
        |(why, names): (&String, &Vec<String>)| format!("Left out, because {why}: {}.", names.join(", "));
    plan.cuts.extend(refused.iter().map(told));
    if plan.variants.is_empty() {
        return Err(Error::file(format!("no variant is possible: {}", plan.cuts.join(" "))));
    }
    plan.runs = shuffled(&plan.variants, plan.repeat, request.seed);
    Ok(plan)
}

fn check_targets(scenario: &Scenario, targets: &[Target]) -> Result<()> {
    let mut ids = BTreeSet::new();
    for Target { id, .. } in targets {
        if !is_name(id) || !ids.insert(id) {
            let rule = "is used twice, or not made of a-z, 0-9 and -";
            return Err(Error::request(format!("target id `{id}` {rule}")));
        }
    }
    if ids.is_empty() && !scenario.is_calculated() {
        Err(Error::request("no target is given"))
    } else {
        Ok(())
    }
}

/// A plan while it is being cut.
struct Draft<'a> {
    scenario: &'a Scenario,
    request: &'a Request<'a>,
    names: Names,
    /// Of each axis, the indices of the entries that are left.
    kept: Vec<Vec<usize>>,
    /// Why variants are left out that nothing here can do, each with their names.
    refused: BTreeMap<String, Vec<String>>,
    plan: Plan,
}

impl<'a> Draft<'a> {
    fn new(scenario: &'a Scenario, request: &'a Request<'a>) -> Result<Draft<'a>> {
        let preset = request.preset;
        let Machine { cores, memory, .. } = request.machine;
        let names = Names { data: None, users: None, cores, memory, space: None };
        let phases = &scenario.phases;
        let plan = Plan {
            preset,
            repeat: phases.repeat.at("phases.repeat", preset, &names)?,
            warmup: phases.warmup.at("phases.warmup", preset, &names)?,
            measure: phases.measure.at("phases.measure", preset, &names)?,
            snapshots_at: scenario.events.iter().map(|Event::Snapshot { at }| *at).collect(),
            budget: scenario.budget.at("budget", preset, &names)?,
            variants: Vec::new(),
            runs: Vec::new(),
            duration: Duration::ZERO,
            bytes_written: ByteCount(0),
            bytes_stored: ByteCount(0),
            cuts: Vec::new(),
            kept: Kept::default(),
        };
        if plan.repeat > REPEAT_MAX {
            return Err(Error::file(format!("phases.repeat is {}, at most {REPEAT_MAX}", plan.repeat)));
        }
        let kept = scenario.matrix.iter().map(|axis| (0..axis.entries.len()).collect()).collect();
        Ok(Draft { scenario, request, names, kept, refused: BTreeMap::new(), plan })
    }

    /// Leaves what another plan of the same scenario left.
    fn cut_to(&mut self, kept: &Kept) {
        (self.plan.repeat, self.plan.cuts) = (kept.repeat, kept.cuts.clone());
        for ((axis, left), ids) in self.scenario.matrix.iter().zip(&mut self.kept).zip(&kept.entries) {
            left.retain(|index| ids.contains(&axis.entries[*index].id));
        }
    }

    fn kept(&self) -> Kept {
        let ids = |(axis, left): (&Axis, &Vec<usize>)| {
            left.iter().map(|index| axis.entries[*index].id.clone()).collect()
        };
        let entries = self.scenario.matrix.iter().zip(&self.kept).map(ids).collect();
        Kept { repeat: self.plan.repeat, entries, cuts: self.plan.cuts.clone() }
    }

    /// Cuts until the estimate fits: repetitions to the floor, then entries, then the last repetitions.
    fn cut(&mut self) -> Result<()> {
        let Plan { duration, budget, preset, repeat, .. } = self.plan;
        self.cut_repetitions(REPEAT_FLOOR)?;
        while !self.plan.is_within_budget() && self.drop_entry() {
            self.estimate()?;
        }
        self.cut_repetitions(1)?;
        let (whole, budget) = (time_text(duration), time_text(budget));
        let mut cuts =
            vec![format!("The whole would take {whole}; the budget at preset {preset} is {budget}.")];
        if self.plan.repeat < repeat {
            cuts.push(format!("Repetitions are cut from {repeat} to {}.", self.plan.repeat));
        }
        cuts.extend(self.dropped_entries());
        if !self.plan.is_within_budget() {
            let left = time_text(self.plan.duration);
            cuts.push(format!("Nothing is left to cut, and it still takes {left}."));
        }
        self.plan.cuts = cuts;
        Ok(())
    }

    fn cut_repetitions(&mut self, floor: u64) -> Result<()> {
        while self.plan.repeat > floor && !self.plan.is_within_budget() {
            self.plan.repeat -= 1;
            self.estimate()?;
        }
        Ok(())
    }

    /// Drops one entry from the middle of the longest axis; false when none may go.
    fn drop_entry(&mut self) -> bool {
        let droppable = |(axis, kept): (usize, &Vec<usize>)| {
            self.least_missed(axis).map(|position| (kept.len(), std::cmp::Reverse(axis), position))
        };
        let longest = self.kept.iter().enumerate().filter_map(droppable).max();
        let Some((_, std::cmp::Reverse(axis), position)) = longest else {
            return false;
        };
        self.kept[axis].remove(position);
        true
    }

    /// The position of the entry whose neighbours are closest, never the first or the last, and never one
    /// that a metric names: without it a check or a published value would have nothing to stand beside.
    fn least_missed(&self, axis: usize) -> Option<usize> {
        let kept = &self.kept[axis];
        let is_named = |position: usize| {
            let id = self.scenario.matrix[axis].entries[kept[position]].id.as_str();
            let is_base = |load: &Load| load.share().is_some_and(|share| share.of == id);
            self.scenario.metrics().any(|metric| metric.entries().contains(&id))
                || self.plan.variants.iter().any(|variant| is_base(&variant.load))
        };
        let middle = 1..kept.len().saturating_sub(1);
        middle.filter(|at| !is_named(*at)).min_by_key(|at| kept[at + 1] - kept[at - 1])
    }

    /// A sentence for each axis that lost entries.
    fn dropped_entries(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for (axis, kept) in self.scenario.matrix.iter().zip(&self.kept) {
            let dropped = axis.entries.iter().enumerate().filter(|(index, _)| !kept.contains(index));
            let dropped: Vec<&str> = dropped.map(|(_, entry)| entry.id.as_str()).collect();
            if !dropped.is_empty() {
                sentences.push(format!("Left out of `{}`: {}.", axis.name, dropped.join(", ")));
            }
        }
        sentences
    }

    /// Every share is of a variant that is there, so that its rate can be found.
    fn check_shares(&self) -> Result<()> {
        let variants = &self.plan.variants;
        let of_nothing = (0..variants.len())
            .find(|at| variants[*at].load.share().is_some() && base_of(variants, *at).is_none());
        let Some(at) = of_nothing else { return Ok(()) };
        let of = variants[at].load.share().map_or("", |share| share.of.as_str());
        Err(Error::file(format!(
            "variant `{}`: its rate is a share of `{of}`, which is no entry of the same axis without a share",
            variants[at].name
        )))
    }

    /// What grows is the only data set on its target: it is removed before it is made anew.
    fn check_growing(&self) -> Result<()> {
        let variants = &self.plan.variants;
        let Some(first) = variants.iter().find(|variant| variant.load.grows()) else { return Ok(()) };
        match variants.iter().find(|variant| !variant.load.shares_set(&first.load)) {
            None => Ok(()),
            Some(other) => Err(Error::file(format!(
                "variant `{}`: where a data set grows, all variants have it, and differ in its size alone",
                other.name
            ))),
        }
    }

    /// Expands what is left, and counts its time and bytes.
    fn estimate(&mut self) -> Result<()> {
        let variants = self.variants()?;
        let mut sets: Vec<(&Target, &Load)> = Vec::new();
        let (mut run_bytes, mut set_bytes, mut stored) = (0.0, 0.0, 0.0);
        let active = self.plan.warmup.saturating_add(self.plan.measure);
        let speed = self.request.machine.bytes_per_second;
        let repeat = self.plan.repeat as f64;
        let mut run_seconds = 0.0;
        for Variant { target, load, .. } in &variants {
            if target.is_calculated() {
                continue;
            }
            if target.is_virtual() {
                run_seconds += repeat * SIMULATED_RUN.as_secs_f64();
                continue;
            }
            run_bytes += repeat * load.bytes_written(active, speed);
            let copies = SNAPSHOT_CHECK * self.plan.snapshots_at.len() as u32;
            let whole = active.saturating_add(load.run_overhead()).saturating_add(copies);
            run_seconds += repeat * whole.as_secs_f64();
            if !sets.iter().any(|(on, set)| *on == target && set.shares_set(load)) {
                sets.push((target, load));
                let largest = largest(&variants, target, load);
                // One that grew is made anew in each repetition.
                set_bytes += largest.bytes_loaded() * if load.grows() { repeat } else { 1.0 };
                stored += largest.size_bytes() as f64;
            }
        }
        let seconds = run_seconds + set_bytes / speed.0.max(1) as f64;
        self.plan.duration = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        self.plan.bytes_written = ByteCount((run_bytes + set_bytes) as u64);
        self.plan.bytes_stored = ByteCount(stored as u64);
        self.plan.variants = variants;
        Ok(())
    }

    /// Every combination of the entries that are left, the last axis fastest, on every target.
    fn variants(&mut self) -> Result<Vec<Variant>> {
        let mut choices: Vec<Vec<&Entry>> = vec![Vec::new()];
        for (axis, kept) in self.scenario.matrix.iter().zip(&self.kept) {
            if choices.len() * kept.len() * self.request.targets.len() > VARIANT_COUNT_MAX {
                return Err(Error::file(format!("the matrix has more than {VARIANT_COUNT_MAX} variants")));
            }
            let longer = |choice: &Vec<&'a Entry>, index: &usize| {
                [choice.as_slice(), &[&axis.entries[*index]]].concat()
            };
            choices =
                choices.iter().flat_map(|choice| kept.iter().map(|index| longer(choice, index))).collect();
        }
        let mut variants = Vec::new();
        self.refused.clear();
        for choice in &choices {
            let of_choice: Vec<Variant> =
                self.variants_of(choice)?.into_iter().map(|variant| self.with_log(variant)).collect();
            let Some(first) = of_choice.first() else {
                let names = choice.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>().join("-");
                self.refused
                    .entry("only a directory holds what is in front of it".into())
                    .or_default()
                    .push(names);
                continue;
            };
            let refusal = first.load.refused(self.names.cores);
            match refusal {
                Some(why) => {
                    let names = of_choice.into_iter().map(|variant| variant.entries.join("-")).take(1);
                    self.refused.entry(why).or_default().extend(names);
                }
                None => variants.extend(of_choice),
            }
        }
        let names: BTreeSet<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        if names.len() < variants.len() {
            return Err(Error::file("two variants have the same name: change the ids of entries or targets"));
        }
        Ok(variants)
    }

    /// What the user said goes before what the file says.
    fn with_log(&self, variant: Variant) -> Variant {
        let is_possible = variant.load.has_log() && !variant.target.is_server();
        let named = self.request.targets.iter().find_map(|target| target.log.clone());
        let own = (self.scenario.roles.log == LogRole::Apart).then(|| variant.target.address.clone());
        Variant { log: named.or(own).filter(|_| is_possible), ..variant }
    }

    /// With the first directory that the user named in the place of `@target`.
    fn over_directory(&self, address: &str) -> String {
        let directories = self.request.targets.iter().map(|target| target.address.as_str());
        let first = directories.into_iter().find(|address| address.starts_with('/'));
        address.replace(USER_TARGET, first.unwrap_or(OVER_DEFAULT))
    }

    /// The same over every directory that the user named: only a directory holds the bytes of another target.
    fn over_each(&self, id: &str, address: &str, variant: &Variant) -> Vec<Variant> {
        let directories = self.request.targets.iter().filter(|target| target.address.starts_with('/'));
        let over = |target: &Target| Variant {
            name: format!("{}-{}", variant.name, target.id),
            target: Target::new(format!("{id}-{}", target.id), address.replace(EACH_TARGET, &target.address)),
            ..variant.clone()
        };
        directories.map(over).collect()
    }

    /// One combination on the target that its entries name, or on each that the user gave.
    fn variants_of(&self, choice: &[&Entry]) -> Result<Vec<Variant>> {
        let files = self.scenario.roles.data.files;
        let entries: Vec<String> = choice.iter().map(|entry| entry.id.clone()).collect();
        let name = entries.join("-");
        let workload = self.scenario.workload(choice)?;
        let load_on = |target: Option<&Target>| {
            let space = target.and_then(|target| target.space_bytes).map(ByteCount);
            let names = Names { space, ..self.names };
            let load = workload.at(files, &self.scenario.engine, self.request.preset, &names);
            load.map_err(|error| error.within(&format!("{}, variant `{name}`", self.scenario.id)))
        };
        if self.scenario.is_calculated() {
            let load = load_on(None)?;
            let values = if let Load::Bill(bill) = &load { bill.values.as_str() } else { CALCULATED };
            // So that each number stands beside what its values are.
            let target = Target::new(format!("{values}-values"), CALCULATED);
            return Ok(vec![Variant { name, entries, target, load, log: None }]);
        }
        for entry in choice {
            if let Some(address) = entry.target.as_ref().filter(|address| address.ends_with(EACH_TARGET)) {
                let (target, load) = (Target::new("", ""), load_on(None)?);
                return Ok(self.over_each(
                    &entry.id,
                    address,
                    &Variant { name, entries, target, load, log: None },
                ));
            }
            if let Some(address) = entry.target.as_ref().filter(|address| *address != USER_TARGET) {
                let target = Target::new(&entry.id, self.over_directory(address));
                let load = load_on(None)?;
                return Ok(vec![Variant { name, entries, target, load, log: None }]);
            }
        }
        let on = |target: &Target| {
            let words = entries.iter().chain([&target.id]).map(String::as_str);
            let name = words.collect::<Vec<_>>().join("-");
            let load = load_on(Some(target))?;
            Ok(Variant { name, entries: entries.clone(), target: target.clone(), load, log: None })
        };
        self.request.targets.iter().map(on).collect()
    }
}

/// The largest of the loads that share a data set on a target.
#[must_use]
pub fn largest<'a>(variants: &'a [Variant], target: &Target, load: &'a Load) -> &'a Load {
    let of_set = variants.iter().filter(|other| other.target == *target && other.load.shares_set(load));
    of_set.map(|other| &other.load).max_by_key(|load| load.size_bytes()).unwrap_or(load)
}

/// The variant whose rate this one has a share of: on the same target, alike but for one entry.
#[must_use]
pub fn base_of(variants: &[Variant], at: usize) -> Option<usize> {
    let own = &variants[at];
    let of = &own.load.share()?.of;
    let is_base = |other: &Variant| {
        let differ = own.entries.iter().zip(&other.entries).filter(|(own, other)| own != other);
        let differ: Vec<_> = differ.collect();
        other.target == own.target
            && other.load.share().is_none()
            && matches!(&differ[..], [(_, it)] if *it == of)
    };
    variants.iter().position(is_base)
}

/// Blocks of one repetition each, every block in an order of its own. What others have a share of is first.
fn shuffled(variants: &[Variant], repeat: u64, seed: u64) -> Vec<Run> {
    let mut random = SplitMix64::new(seed);
    let mut runs = Vec::new();
    for repetition in 1..=repeat {
        let mut block: Vec<usize> = (0..variants.len()).collect();
        for last in (1..block.len()).rev() {
            block.swap(last, random.index(last + 1));
        }
        // What grows is never smaller than before; the others keep their order.
        let grown = |load: &Load| if load.grows() { load.size_bytes() } else { 0 };
        block.sort_by_key(|at| (variants[*at].load.share().is_some(), grown(&variants[*at].load)));
        let run = |variant: usize| {
            let id = format!("r{repetition}-{}", variants[variant].name);
            Run { id, repetition, variant }
        };
        runs.extend(block.into_iter().map(run));
    }
    runs
}

#[cfg(test)]
mod tests;
