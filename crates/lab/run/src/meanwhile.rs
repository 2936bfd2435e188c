//! What servers and machine did while a run was measured: what of it is kept, and its means.

use std::collections::BTreeMap;
use std::fs;

use ashlar_collect::{Sample, Watched};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::figures::Figures;
use crate::record::{Records, write};

/// One sample a line.
const FILE: &str = "samples.jsonl";

/// Means over the measured time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Meanwhile {
    pub samples: u64,
    /// Sessions at work, by what each waited for; `CPU:Running` waits for nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sessions: BTreeMap<String, f64>,
    /// Of all processors' time.
    pub busy: f64,
    pub stolen: f64,
    /// Of the time: something waited for a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_pressure: Option<f64>,
    /// Processors that looking took: 1 is all of one.
    pub watching_cores: f64,
}

impl Meanwhile {
    pub(crate) fn of(figures: &Figures, watched: &Watched) -> Meanwhile {
        let measured: Vec<&Sample> = watched.samples.iter().filter(|one| is_measured(figures, one)).collect();
        let count = measured.len().max(1) as f64;
        let mean = |of: fn(&Sample) -> f64| measured.iter().map(|one| of(one)).sum::<f64>() / count;
        let pressures: Option<Vec<f64>> = measured.iter().map(|one| one.machine.disk_pressure).collect();
        let mut sessions = BTreeMap::new();
        for (event, found) in
            measured.iter().filter_map(|one| one.server.as_ref()).flat_map(|one| &one.sessions)
        {
            *sessions.entry(event.clone()).or_insert(0.0) += *found as f64 / count;
        }
        Meanwhile {
            samples: measured.len() as u64,
            sessions,
            busy: mean(|one| one.machine.busy),
            stolen: mean(|one| one.machine.stolen),
            disk_pressure: pressures
                .filter(|found| !found.is_empty())
                .map(|found| found.iter().sum::<f64>() / count),
            watching_cores: watched.processor_time.as_secs_f64() / watched.elapsed.as_secs_f64().max(1e-9),
        }
    }

    /// What a hypervisor took away counts as busy: nobody here could have it.
    pub(crate) fn not_idle(&self) -> f64 {
        self.busy + self.stolen
    }

    /// Sessions at work at a time.
    pub(crate) fn at_work(&self) -> f64 {
        self.sessions.values().sum()
    }
}

/// Seconds from the beginning of the measured time; of the whole run where it has none.
pub(crate) fn at_seconds(figures: &Figures, sample: &Sample) -> f64 {
    let zero = figures.measured_unix_millis.unwrap_or(figures.begun_unix_seconds * 1000);
    (sample.unix_millis as f64 - zero as f64) / 1000.0
}

fn is_measured(figures: &Figures, sample: &Sample) -> bool {
    let at = at_seconds(figures, sample);
    figures.measured_unix_millis.is_none() || (at - sample.seconds >= 0.0 && at <= figures.measured_seconds)
}

pub(crate) fn keep(records: &Records, run: &str, samples: &[Sample]) -> Result<()> {
    let line = |sample: &Sample| serde_json::to_string(sample).expect("samples are plain data") + "\n";
    write(&records.run(run).join(FILE), &samples.iter().map(line).collect::<String>())
}

/// Of a run; none where nobody looked.
pub(crate) fn samples(records: &Records, run: &str) -> Vec<Sample> {
    let text = fs::read_to_string(records.run(run).join(FILE)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The run of each target that served most requests a second, of those that were watched.
pub(crate) fn busiest(runs: &[Figures]) -> impl Iterator<Item = &Figures> {
    let mut busiest: Vec<&Figures> = Vec::new();
    for run in runs.iter().filter(|run| run.meanwhile.is_some()) {
        match busiest.iter_mut().find(|known| known.target == run.target) {
            Some(known) if known.per_second() < run.per_second() => *known = run,
            Some(_) => {}
            None => busiest.push(run),
        }
    }
    busiest.into_iter()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ashlar_collect::ServerSample;

    use super::*;

    #[test]
    fn means_are_over_the_measured_time_alone() {
        let sample = |second: u64, waiting: u64, busy: f64| {
            let sessions = BTreeMap::from([("IO:DataFileRead".to_string(), waiting)]);
            let mut sample =
                Sample { unix_millis: 10_000 + 1000 * second, seconds: 1.0, ..Sample::default() };
            sample.server = Some(ServerSample { sessions, ..ServerSample::default() });
            sample.machine.busy = busy;
            sample
        };
        let figures =
            Figures { measured_unix_millis: Some(12_000), measured_seconds: 3.0, ..Figures::default() };
        let samples: Vec<Sample> =
            (1..=6).map(|second| sample(second, second, if second == 4 { 0.9 } else { 0.3 })).collect();
        let watched =
            Watched { samples, processor_time: Duration::from_millis(30), elapsed: Duration::from_secs(6) };
        // Seconds 3, 4 and 5 lie in it as a whole.
        let found = Meanwhile::of(&figures, &watched);
        assert_eq!(found.samples, 3);
        assert_eq!(found.sessions["IO:DataFileRead"], 4.0);
        assert!((found.busy - 0.5).abs() < 1e-9 && (found.watching_cores - 0.005).abs() < 1e-9);
        assert_eq!((found.at_work(), found.disk_pressure), (4.0, None));
    }
}
