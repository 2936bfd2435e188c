//! Works beside each other, in words: what each keeps of its own rate, and who had the processors meanwhile.

use ashlar_scenario::{Measured, Over};

use crate::answer;
use crate::figures::Figures;
use crate::judge::Row;
use crate::meanwhile::Meanwhile;
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
    let told = |row: &Row| {
        Some(format!("{} on {}", answer::estimate(&load.metric, row.estimate.as_ref()?), row.target))
    };
    let told: Vec<String> = load.rows.iter().filter_map(told).collect();
    (!told.is_empty()).then(|| format!("Of its rate alone the load keeps {}.", told.join(" and ")))
}

/// How busy the processors were while both parts ran, in a sentence.
pub(crate) fn processors(cores: usize, runs: &[Figures]) -> Option<String> {
    let is_both =
        |figures: &&Figures| figures.database.as_ref().is_some_and(|database| database.parts.len() > 1);
    let both: Vec<&Figures> = runs.iter().filter(is_both).collect();
    if both.is_empty() {
        return None;
    }
    let busy: Option<Vec<f64>> =
        both.iter().map(|figures| figures.meanwhile.as_ref().map(Meanwhile::not_idle)).collect();
    let Some(busy) = busy.map(|busy| mean(&busy)) else {
        return Some(
            "While both parts ran, nobody counted how busy the processors were: what a part lost it may have lost to \
             them."
                .into(),
        );
    };
    let verdict = match busy >= BUSY_SHARE {
        true => "what a part lost it may have lost to them, and not to the target",
        false => "what a part lost it lost to the target, or to locks of the server, sooner than to them",
    };
    let used: Option<Vec<f64>> = both.iter().map(|figures| cores_used(figures)).collect();
    let ours = used.map_or_else(String::new, |used| {
        format!(" (server and load generator took the time of {} of them)", answer::number(mean(&used)))
    });
    Some(format!(
        "While both parts ran, the {cores} processors of the machine were {:.0} % busy{ours}: {verdict}.",
        100.0 * busy
    ))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Of the server and of whoever asks it.
fn cores_used(figures: &Figures) -> Option<f64> {
    let server = figures.database.as_ref()?.processor_seconds?;
    Some(server / figures.measured_seconds.max(1e-9) + figures.client_cores)
}

#[cfg(test)]
mod tests {
    use ashlar_scenario::Metric;

    use super::*;
    use crate::database::{DatabaseFigures, PartFigures};
    use crate::judge::Estimate;

    fn run(parts: usize, machine_busy: Option<f64>, server_seconds: Option<f64>) -> Figures {
        let database = DatabaseFigures {
            parts: vec![PartFigures::default(); parts],
            processor_seconds: server_seconds,
            ..DatabaseFigures::default()
        };
        Figures {
            measured_seconds: 10.0,
            client_cores: 0.5,
            database: Some(database),
            meanwhile: machine_busy.map(|busy| Meanwhile { busy, ..Meanwhile::default() }),
            ..Figures::default()
        }
    }

    #[test]
    fn the_load_is_told_behind_the_reads_and_nowhere_else() {
        let metrics = |text: &str, value: Option<f64>| {
            let estimate = value.map(|value| Estimate { value, interval: Some((0.7, 0.8)), runs: 3 });
            let metric = Metric::try_from(text.to_string()).unwrap();
            let rows = vec![Row { target: "a".into(), of: String::new(), estimate }];
            Metrics { metric, published: None, note: None, rows }
        };
        let reads = metrics("reads_per_second.ratio(both/reads)", Some(0.9));
        let load = metrics("rows_per_second.ratio(both/load)", Some(0.76));
        let told = within(&[reads.clone(), load.clone()]).unwrap();
        assert_eq!(told, "Of its rate alone the load keeps 0.76 (0.70 to 0.80) on a.");
        assert_eq!(within(&[load.clone(), reads.clone()]), None);
        assert_eq!(within(&[reads, metrics("rows_per_second.ratio(both/load)", None)]), None);
        assert_eq!(within(&[]), None);
    }

    #[test]
    fn who_had_the_processors_is_told_of_runs_of_both_parts() {
        let alone = run(1, Some(0.1), Some(1.0));
        assert_eq!(processors(2, std::slice::from_ref(&alone)), None, "alone nothing is lost");
        let busy = processors(2, &[run(2, Some(0.97), Some(4.0)), alone]).unwrap();
        assert!(busy.contains("97 % busy") && busy.contains("the time of 0.90 of them"), "{busy}");
        assert!(busy.contains("may have lost to them"), "others may have had them: {busy}");
        let idle = processors(8, &[run(2, Some(0.3), None)]).unwrap();
        assert!(idle.contains("30 % busy: what a part lost it lost to the target"), "{idle}");
        let unknown = processors(2, &[run(2, Some(0.9), Some(14.0)), run(2, None, None)]).unwrap();
        assert!(unknown.contains("nobody counted"), "{unknown}");
    }
}
