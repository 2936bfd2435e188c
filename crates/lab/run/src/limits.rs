//! What a rerun does not show, worked out from what it was.

use ashlar_report::{bytes, count, seconds};
use ashlar_scenario::{Load, Preset};
use ashlar_statistics::plausible;

use ashlar_target::Kind;

use crate::Outline;
use crate::figures::Figures;
use crate::record::{Begun, Site};

/// A mix that was measured so far from what was asked is told.
const SHARE_MAX: f64 = 0.05;

/// In sentences.
pub(crate) fn limits(begun: &Begun, outline: &Outline, runs: &[Figures]) -> Vec<String> {
    if outline.scenario.is_calculated() {
        return calculated(runs);
    }
    let mut limits = Vec::new();
    limits.extend(simulated(begun));
    limits.extend(scaled(begun, outline));
    limits.extend(runs_made(outline));
    if begun.targets.iter().any(|site| !is_server(site)) {
        limits.push(
            "The load generator and the target share one machine: its processors and its memory serve both."
                .into(),
        );
    }
    if !begun.machine.hypervisor.is_empty() {
        limits.push(
            "It is a virtual machine: what its host does with writes and flushes cannot be seen.".into(),
        );
    }
    limits.extend(cached(begun, outline));
    limits.extend(open_loops(runs));
    limits.extend(stolen(runs));
    limits.extend(mixes(outline, runs));
    limits.extend(servers(begun));
    limits.extend(databases(begun, outline, runs));
    limits.extend(crate::mixed::processors(begun.machine.cores, runs));
    let is_checked =
        runs.iter().any(|run| run.database.is_some() || run.space.is_some() || run.restored.is_some());
    limits.push(if is_checked {
        "No power was cut, and nothing was killed: what a crash leaves was not looked at.".into()
    } else {
        "What was written was not read back and compared, and no power was cut: `ashlar lab doctor` compares."
            .into()
    });
    limits
}

/// Of what was worked out.
fn calculated(runs: &[Figures]) -> Vec<String> {
    let bill = runs.iter().find_map(|run| run.bill.as_ref());
    let values = bill.map_or(String::new(), |bill| {
        format!("The values of the parts are {}: what comes out is as good as they are.", bill.values)
    });
    vec![
        values,
        "Nothing was measured: no power was read, and nobody was asked for a price.".into(),
        "What is in no part is in no sum: servers, switches, cooling, software, support.".into(),
    ]
}

/// First, so that nobody takes a model for a drive.
fn simulated(begun: &Begun) -> Vec<String> {
    let models = begun.targets.iter().filter(|site| site.footing.is_simulated());
    let told = |site: &Site| {
        format!(
            "{} is simulated, and no drive: {}. Its times come from a model of seeks, rotation and queues.",
            site.id, site.footing.source
        )
    };
    models.map(told).collect()
}

/// Of those that were there, which the lab leaves as they are.
fn servers(begun: &Begun) -> Vec<String> {
    let told = |site: &Site| {
        format!(
            "The server {} was there before: it was not restarted between runs, what of its files was in memory is not \
             known, its settings are its own, and nobody knows who else worked on it.",
            site.address
        )
    };
    begun.targets.iter().filter(|site| is_server(site)).map(told).collect()
}

fn is_server(site: &Site) -> bool {
    matches!(Kind::of(&site.address), Ok(Kind::Server))
}

fn size(outline: &Outline) -> u64 {
    outline.plan.variants.iter().map(|variant| variant.load.size_bytes()).max().unwrap_or(0)
}

fn scaled(begun: &Begun, outline: &Outline) -> Option<String> {
    if outline.plan.preset == Preset::Paper {
        return None;
    }
    let paper = Begun { preset: Preset::Paper.to_string(), kept: None, ..begun.clone() };
    let whole = paper.outline().ok().map(|paper| size(&paper)).filter(|whole| *whole > size(outline));
    let of = whole.map_or(String::new(), |whole| format!(" where the paper's size is {}", bytes(whole)));
    Some(format!(
        "It is scaled to preset {}: data sets of {}{of}.",
        outline.plan.preset,
        bytes(size(outline))
    ))
}

fn runs_made(outline: &Outline) -> Vec<String> {
    let plan = &outline.plan;
    let mut sentences = Vec::new();
    if plan.repeat == 1 {
        sentences.push(
            "Every variant ran once: no interval is known, and no difference can be told from chance.".into(),
        );
    }
    if plan.is_timed() && plan.measure.as_secs() < 60 {
        sentences.push(format!(
            "Each run was measured for {}: what comes once in some minutes was hardly met.",
            seconds(plan.measure.as_secs().max(1))
        ));
    }
    sentences.extend(plan.cuts.iter().chain(&outline.left_out).cloned());
    sentences
}

fn cached(begun: &Begun, outline: &Outline) -> Option<String> {
    let memory = begun.targets.iter().find(|target| target.footing.is_memory());
    if let Some(target) = memory {
        return Some(format!("{} is memory and no drive.", target.address));
    }
    let is_io = outline.plan.variants.iter().all(|variant| variant.load.io().is_some());
    (is_io && size(outline) < begun.machine.memory_bytes).then(|| {
        format!(
            "The data sets are smaller than the memory of this machine ({}): requests go past its page cache, but a \
             cache below may hold all of them.",
            bytes(begun.machine.memory_bytes)
        )
    })
}

fn open_loops(runs: &[Figures]) -> Option<String> {
    let behind: Vec<&Figures> = runs.iter().filter(|figures| figures.is_behind()).collect();
    let first = behind.first()?;
    Some(format!(
        "{} of {} runs fell behind the rate that was offered, {} the first: what waited before it was sent is not \
         counted, and their latencies are longer than told.",
        behind.len(),
        runs.len(),
        first.id
    ))
}

/// What others on the host of a virtual machine took.
fn stolen(runs: &[Figures]) -> Option<String> {
    let taken = |run: &Figures| plausible::stolen(100.0 * run.meanwhile.as_ref()?.stolen);
    let disturbed: Vec<&Figures> = runs.iter().filter(|run| taken(run).is_some()).collect();
    let of = |run: &&Figures| run.meanwhile.as_ref().map_or(0.0, |found| found.stolen);
    let worst = disturbed.iter().copied().max_by(|one, other| of(one).total_cmp(&of(other)))?;
    Some(format!(
        "In {} of {} runs the host of this machine took more than 2 % of the processors for others, {} % in {}.",
        disturbed.len(),
        runs.len(),
        count(100.0 * of(&worst)),
        worst.id
    ))
}

/// What a database keeps in memory, and what it keeps from run to run.
fn databases(begun: &Begun, outline: &Outline, runs: &[Figures]) -> Vec<String> {
    if outline.plan.variants.iter().all(|variant| matches!(variant.load, Load::Space(_))) {
        return vec![
            "Databases are copied and hardly used: what hours of work leave behind in them is not in the accounts.".into(),
            "The accounts are those of the whole pool: nobody else may have worked on it meanwhile.".into(),
        ];
    }
    if outline.plan.variants.iter().all(|variant| matches!(variant.load, Load::Restore(_))) {
        return vec![
            "No database was running: stopping it before and recovering it behind come to the times, whichever the \
             way."
                .into(),
            "What is copied back comes from the same pool: a backup elsewhere has to come over its own way.".into(),
        ];
    }
    if outline.plan.variants.iter().all(|variant| variant.load.io().is_some()) {
        return Vec::new();
    }
    let mut sentences = vec![
        "The database is loaded once for each target and goes on from run to run: later runs find more in it.".into(),
    ];
    let own = || outline.plan.variants.iter().filter(|variant| !variant.target.is_server());
    if begun.targets.iter().any(|site| !is_server(site)) && own().any(|variant| variant.log.is_none()) {
        sentences.push("Data and log lie on one file system of the target.".into());
    }
    let shares = |run: &&Figures| run.device.is_some() && run.log_device.is_none();
    if own().any(|variant| variant.log.is_some()) && runs.iter().any(|run| shares(&run)) {
        sentences.push(
            "Data and log lie apart from each other and on one device: its counters are of both.".into(),
        );
    }
    sentences.extend(from_bases(runs));
    sentences.extend(levels(runs));
    let not_limited = runs.iter().find_map(|figures| figures.database.as_ref()?.not_limited.clone());
    sentences.extend(not_limited.map(|why| format!("The memory of the server was not limited: {why}")));
    sentences
}

/// What was not loaded for this result.
fn from_bases(runs: &[Figures]) -> Vec<String> {
    let of = |run: &Figures| Some((run.target.clone(), run.database.as_ref()?.base.clone()?));
    let mut told: Vec<String> = Vec::new();
    for (target, base) in runs.iter().filter_map(of) {
        let sentence = format!(
            "The data on {target} were not loaded for this: they are of {}. Its blocks lie elsewhere than those of \
             a load, and may be shared with the base.",
            base.in_words()
        );
        if !told.contains(&sentence) {
            told.push(sentence);
        }
    }
    told
}

/// A server that was not as busy as was asked for, or whose processors were not its own.
fn levels(runs: &[Figures]) -> Vec<String> {
    let of = |run: &Figures| Some((run.id.clone(), run.database.as_ref()?.level.clone()?));
    let levels: Vec<_> = runs.iter().filter_map(of).collect();
    let mut sentences = Vec::new();
    let missed = levels.iter().find_map(|(run, level)| Some(format!("In {run} {}.", level.miss()?)));
    sentences.extend(missed);
    if let Some(why) = levels.iter().find_map(|(_, level)| level.shared_because.as_ref()) {
        sentences.push(format!("The server was kept to a share of the time of all processors: {why}."));
    }
    sentences
}

/// The variant in which the mix was farthest from what was asked.
fn mixes(outline: &Outline, runs: &[Figures]) -> Option<String> {
    let distance = |figures: &&Figures| {
        figures.mix.iter().map(|share| (share.measured - share.asked).abs()).fold(0.0, f64::max)
    };
    let farthest = runs.iter().max_by(|one, other| distance(one).total_cmp(&distance(other)))?;
    if distance(&farthest) <= SHARE_MAX || outline.plan.variants.is_empty() {
        return None;
    }
    let percent = |share: f64| count(100.0 * share);
    let told: Vec<String> = farthest
        .mix
        .iter()
        .map(|share| {
            format!(
                "{} % of {} were asked for and {} % measured",
                percent(share.asked),
                share.kind,
                percent(share.measured)
            )
        })
        .collect();
    Some(format!(
        "Several jobs made the mix, each as fast as it could: in {} {}.",
        farthest.id,
        told.join(", ")
    ))
}
