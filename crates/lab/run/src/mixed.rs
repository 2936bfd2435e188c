//! Works beside each other, in words: what each keeps of its own rate, and who had the processors meanwhile.

use ashlar_report::count;
use ashlar_scenario::{Measured, Over};

use crate::answer;
use crate::figures::Figures;
use crate::outcome::Metrics;

/// Of all processors' time; beyond it a part that slows down waits for them sooner than for the target.
/// Arbitrary: nothing of it is judged.
const BUSY_SHARE: f64 = 0.8;

/// What the answer says of the load, where its first sentence is of the reads.
pub(crate) fn within(metrics: &[Metrics]) -> Option<String> {
    let is_ratio = |metrics: &&Metrics| matches!(metrics.metric.over, Over::Ratio(..));
    metrics.first().filter(is_ratio).filter(|first| first.metric.measured == Measured::ReadsPerSecond)?;
    let of_load = metrics.iter().filter(is_ratio);
    let load = of_load.clone().find(|metrics| metrics.metric.measured == Measured::RowsPerSecond)?;
    let told = |row: &crate::judge::Row| {
        Some(format!("{} on {}", answer::estimate(&load.metric, row.estimate.as_ref()?), row.target))
    };
    let told: Vec<String> = load.rows.iter().filter_map(told).collect();
    (!told.is_empty()).then(|| format!("Of the load it is {}.", told.join(" and ")))
}

/// How busy the processors were while both parts ran, in a sentence.
pub(crate) fn processors(cores: usize, runs: &[Figures]) -> Option<String> {
    let is_both =
        |figures: &&Figures| figures.database.as_ref().is_some_and(|database| database.parts.len() > 1);
    let both: Vec<&Figures> = runs.iter().filter(is_both).collect();
    if both.is_empty() {
        return None;
    }
    let used: Option<Vec<f64>> = both.iter().map(|figures| cores_used(figures)).collect();
    let Some(used) = used else {
        return Some(
            "While both parts ran, nobody counted how busy the server kept the processors: what a part lost may \
             have been lost to them."
                .into(),
        );
    };
    let mean = used.iter().sum::<f64>() / used.len() as f64;
    let verdict = match mean >= BUSY_SHARE * cores as f64 {
        true => "what a part lost it may have lost to them, and not to the target",
        false => "they were not all at work, so what a part lost it lost to the target or to locks",
    };
    Some(format!(
        "While both parts ran, the server and the load generator took the time of {} of {} processors, and the array \
         took its own beside: {verdict}.",
        answer::number(mean),
        count(cores as f64)
    ))
}

/// Of the server and of whoever asks it.
fn cores_used(figures: &Figures) -> Option<f64> {
    let server = figures.database.as_ref()?.processor_seconds?;
    Some(server / figures.measured_seconds.max(1e-9) + figures.client_cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{DatabaseFigures, PartFigures};

    fn run(parts: usize, server_seconds: Option<f64>) -> Figures {
        let database = DatabaseFigures {
            parts: vec![PartFigures::default(); parts],
            processor_seconds: server_seconds,
            ..DatabaseFigures::default()
        };
        Figures { measured_seconds: 10.0, client_cores: 0.5, database: Some(database), ..Figures::default() }
    }

    #[test]
    fn who_had_the_processors_is_told_of_runs_of_both_parts() {
        assert_eq!(processors(2, &[run(1, Some(15.0))]), None, "alone nothing is lost");
        let busy = processors(2, &[run(2, Some(14.0)), run(1, Some(1.0))]).unwrap();
        assert!(busy.contains("1.90 of 2 processors") && busy.contains("may have lost to them"), "{busy}");
        let idle = processors(8, &[run(2, Some(14.0))]).unwrap();
        assert!(idle.contains("were not all at work"), "{idle}");
        let unknown = processors(2, &[run(2, Some(14.0)), run(2, None)]).unwrap();
        assert!(unknown.contains("nobody counted"), "{unknown}");
    }
}
