//! Takes the measurements, one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ashlar_compare::Compared;
use ashlar_fio::{Fio, Kept};
use ashlar_programs::Launcher;
use ashlar_statistics::steady::{self, Verdict};
use ashlar_target::{Access, Counters, Footing, Ground, Machine, Needs, Place};
use serde::Serialize;

use crate::finding::{Finding, find};
use crate::plan::{self, Length, Step};
use crate::{Error, ErrorKind, Result};

/// Of the free space so much is left alone: a full file system is another test.
const ROOM_SHARE: u64 = 4;
/// Four passes of 8 KiB, one at a time, take some times as long as one in large pieces.
const COMPARED_SLOWNESS: u64 = 8;
/// An open loop that makes less of what is offered has fallen behind. Arrivals are random: a little less is
/// chance.
const OFFERED_SHARE_MIN: f64 = 0.95;
/// Of a step that is judged for its steadiness.
const ROUNDS: usize = 5;
/// Below this a cache answers everything.
const SIZE_BYTES_MIN: u64 = 64 << 20;

/// What to examine, and how.
pub struct Settings {
    /// As [`Place::open`] takes it.
    pub target: String,
    pub access: Access,
    pub length: Length,
    /// Space to use; what suits the length where none is given.
    pub size_bytes: Option<u64>,
    /// Job files, fio's JSON and its logs go here.
    pub records: PathBuf,
}

/// Told before each step.
pub struct Progress {
    /// From 1.
    pub number: usize,
    pub count: usize,
    pub title: String,
    /// Until the end of all steps, this one included.
    pub left: Duration,
}

/// One step's numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub step: Step,
    pub title: String,
    /// Commits for steps that commit, reads and writes otherwise.
    pub per_second: f64,
    pub bytes_per_second: f64,
    /// What an open loop was to reach.
    pub offered_per_second: Option<f64>,
    pub requests: u64,
    /// Latencies in nanoseconds; absent where too few requests were made to tell.
    pub p50_nanos: Option<u64>,
    pub p99_nanos: Option<u64>,
    pub p999_nanos: Option<u64>,
    pub max_nanos: Option<u64>,
    /// Requests of the slowest whole second.
    pub slowest_second: Option<f64>,
    /// Second by second.
    pub seconds: Vec<f64>,
    /// Whether it had settled by the end; absent where the step was too short to tell.
    pub is_steady: Option<bool>,
    /// What the devices below counted meanwhile, topmost first.
    pub below: Vec<Counters>,
    /// An open loop fell behind what was offered: what waited before it was sent is in no latency.
    pub is_behind: bool,
}

/// Everything that was learned.
#[derive(Debug, Serialize)]
pub struct Examination {
    /// Version of this form.
    pub format: u32,
    pub target: String,
    pub begun_unix_seconds: u64,
    pub machine: Machine,
    pub footing: Footing,
    pub fio: String,
    pub size_bytes: u64,
    pub steps: Vec<Measured>,
    /// What was written and read back; absent where it did not come so far.
    pub compared: Option<Compared>,
    pub findings: Vec<Finding>,
    /// Two sentences for whoever asked.
    pub answer: String,
    /// Why there are no further steps; absent when all were taken.
    pub ended_early: Option<String>,
}

/// Examines a place. What was measured before an interruption or an error of the target is in the answer; the
/// place is left as it was, but for a device's content.
///
/// # Errors
/// When nothing could be measured: no fio, no such target, no leave to use it.
pub fn examine(
    settings: &Settings,
    launcher: &Arc<Launcher>,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Examination> {
    let fio = Fio::find(launcher)?;
    let refused = |refusal: ashlar_target::Refusal| Error::environment(refusal.to_string());
    let place = Place::open(&settings.target, &settings.access).map_err(refused)?;
    let size_bytes = size(settings, place.room_bytes().map_err(refused)?)?;
    let needs = Needs { number: 1, files: 1, volumes: 1, size_bytes, offset_bytes: 0 };
    let data = data(place.lay(needs).map_err(refused)?)?;
    let footing = place.footing().map_err(refused)?;
    let mut examination = Examination {
        format: 1,
        target: place.name(),
        begun_unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        machine: Machine::here(),
        footing,
        fio: fio.version.clone(),
        size_bytes,
        steps: Vec::new(),
        compared: None,
        findings: Vec::new(),
        answer: String::new(),
        ended_early: None,
    };
    let place = plan::Place { data: &data, size_bytes, length: settings.length };
    let run = Run { settings, fio: &fio, launcher, place };
    if let Err(error) = run.all(&mut examination, tell) {
        if examination.steps.is_empty() {
            return Err(error);
        }
        examination.ended_early = Some(match error.kind {
            ErrorKind::Interrupted => "it was interrupted".into(),
            ErrorKind::Environment | ErrorKind::Command => error.to_string(),
        });
    }
    (examination.findings, examination.answer) = find(&examination);
    Ok(examination)
}

/// The one file or device that is examined.
fn data(ground: Ground) -> Result<PathBuf> {
    match ground {
        Ground::Files(mut paths) | Ground::Volumes(mut paths) => Ok(paths.remove(0)),
        Ground::Device { path, .. } => Ok(path),
        Ground::Nothing => Err(Error::environment("simulated drives store nothing: name a place that does")),
        Ground::Nbd { uri, .. } => Err(Error::environment(format!(
            "{uri}: an export is examined as a device: attach it to one, and name that as block:/dev/NAME"
        ))),
    }
}

/// In whole MiB, so that every block size fits.
fn size(settings: &Settings, room_bytes: u64) -> Result<u64> {
    let usable = match settings.size_bytes {
        Some(asked) if asked > room_bytes => {
            return Err(Error::environment(format!(
                "{}: {} were asked for and {} are free",
                settings.target,
                ashlar_report::bytes(asked),
                ashlar_report::bytes(room_bytes)
            )));
        }
        Some(asked) => asked,
        None => (room_bytes / ROOM_SHARE).min(settings.length.size_bytes_max()),
    };
    if usable < SIZE_BYTES_MIN {
        return Err(Error::environment(format!(
            "{}: {} can be used, and {} are needed: make room, or name a size",
            settings.target,
            ashlar_report::bytes(usable),
            ashlar_report::bytes(SIZE_BYTES_MIN)
        )));
    }
    Ok(usable >> 20 << 20)
}

struct Run<'a> {
    settings: &'a Settings,
    fio: &'a Fio,
    launcher: &'a Launcher,
    place: plan::Place<'a>,
}

impl Run<'_> {
    fn all(&self, examination: &mut Examination, tell: &mut dyn FnMut(&Progress)) -> Result<()> {
        let steps = Step::all();
        let count = steps.len() + 1;
        let compared_bytes = plan::compared_bytes(self.settings.length, self.place.size_bytes);
        let time_to_compare = plan::time_to_write(COMPARED_SLOWNESS * compared_bytes);
        let mut rate = 0.0;
        for (index, step) in steps.iter().enumerate() {
            let time = |step: &Step| step.time(self.settings.length, self.place.size_bytes);
            let left = steps[index..].iter().map(time).sum::<Duration>() + time_to_compare;
            tell(&Progress { number: index + 1, count, title: step.title(), left });
            let measured = self.step(*step, rate, &examination.footing)?;
            if *step == Step::Mixed {
                rate = measured.per_second;
            }
            examination.steps.push(measured);
        }
        let title = "write, read back and compare, twice over the same places".into();
        tell(&Progress { number: count, count, title, left: time_to_compare });
        let is_interrupted = || self.launcher.is_interrupted();
        let compared = ashlar_compare::compare(self.place.data, compared_bytes, is_interrupted);
        let compared = compared.map_err(|error| Error::io("write and compare", &error))?;
        examination.compared = Some(compared.ok_or_else(Error::interrupted)?);
        Ok(())
    }

    fn step(&self, step: Step, rate: f64, footing: &Footing) -> Result<Measured> {
        let look = || -> Vec<Counters> {
            let devices = footing.devices.iter();
            devices.map(|device| Counters::of(&device.name).unwrap_or_default()).collect()
        };
        let cell = step.cell(&self.place, rate);
        let before = look();
        let kept = self.fio.run(&cell, &self.settings.records)?;
        let below = look().into_iter().zip(before).map(|(after, before)| after - before).collect();
        let offered = match (step, &cell.jobs[0].offered) {
            (Step::Load(_), ashlar_fio::Offered::PerSecond(rate)) => Some(f64::from(*rate)),
            _ => None,
        };
        Ok(measured(step, &kept, below, offered))
    }
}

fn measured(step: Step, kept: &Kept, below: Vec<Counters>, offered_per_second: Option<f64>) -> Measured {
    let outcome = &kept.outcomes[0];
    let both = outcome.both();
    let is_commit = matches!(step, Step::Commits | Step::CommitsUnderCheckpoint);
    let side = if is_commit { &outcome.syncs } else { &both };
    // The last one may be cut short.
    let whole = kept.seconds[0].split_last().map_or(&[][..], |(_, whole)| whole);
    let seconds: Vec<f64> = whole.iter().map(|second| second.requests).collect();
    Measured {
        step,
        title: step.title(),
        per_second: side.per_second(outcome.time),
        bytes_per_second: both.bytes_per_second(outcome.time),
        offered_per_second,
        requests: side.requests,
        p50_nanos: side.latencies.percentile(0.5),
        p99_nanos: side.latencies.percentile(0.99),
        p999_nanos: side.latencies.percentile(0.999),
        max_nanos: side.latencies.max(),
        is_steady: is_steady(&seconds),
        slowest_second: seconds.iter().copied().min_by(f64::total_cmp),
        seconds,
        below,
        is_behind: offered_per_second
            .is_some_and(|offered| side.per_second(outcome.time) < offered * OFFERED_SHARE_MIN),
    }
}

/// In rounds of some seconds each, as many as the rule asks for.
fn is_steady(seconds: &[f64]) -> Option<bool> {
    let length = (seconds.len() / ROUNDS).max(1);
    let rounds: Vec<f64> = seconds.chunks_exact(length).map(|round| round.iter().sum()).collect();
    match steady::judge(&rounds) {
        Verdict::Steady { .. } => Some(true),
        Verdict::NotSteady { .. } => Some(false),
        Verdict::TooShort => None,
    }
}
