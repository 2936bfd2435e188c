//! Whether a value drifts over hours: the slope of a straight line with its interval.

use std::time::Duration;

use crate::interval::{Interval, student_t};
use crate::series;

/// How fast a value moves in the course of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Drift {
    /// Change in an hour, in the unit of the value.
    pub per_hour: Interval,
    /// Whether zero lies outside of that: the value moves, as far as can be told.
    pub is_distinguishable: bool,
}

/// Fits a line to samples of (time since the start, value), in order of time. `None` for fewer than three.
///
/// Samples of storage resemble their neighbours (checkpoints, cleaning), and then tell less than their number
/// says: the usual formula would see drift in every slow wave. So n samples with autocorrelation r of what
/// the line leaves over count as n (1 - r) / (1 + r) (Santer and others 2000, J. Geophys. Res. 105, 7337).
#[must_use]
pub fn judge(samples: &[(Duration, f64)]) -> Option<Drift> {
    assert!(samples.is_sorted_by_key(|(at, _)| *at), "samples of a drift are not in order of time");
    if samples.len() < 3 {
        return None;
    }
    let points: Vec<(f64, f64)> =
        samples.iter().map(|(at, value)| (at.as_secs_f64() / 3600.0, *value)).collect();
    let line = series::fit(&points)?;
    let correlation = series::autocorrelation(&line.residuals).max(0.0);
    let count = samples.len() as f64 * (1.0 - correlation) / (1.0 + correlation);
    let freedom = (count - 2.0).max(1.0);
    let variance = series::squares(&line.residuals, 0.0) / freedom / line.leverage;
    let half_width = student_t(freedom as usize) * variance.sqrt();
    let per_hour = Interval::new(line.slope - half_width, line.slope, line.slope + half_width)?;
    Some(Drift { per_hour, is_distinguishable: !per_hour.contains(0.0) })
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    fn hourly(values: &[f64]) -> Vec<(Duration, f64)> {
        values.iter().zip(0..).map(|(value, hour)| (Duration::from_secs(3600 * hour), *value)).collect()
    }

    #[test]
    fn the_slope_of_anscombes_first_set_has_the_textbooks_interval() {
        // Anscombe 1973, "Graphs in statistical analysis": slope 0.500, standard error 0.118, 9 degrees:
        // 0.500 -+ 2.262 x 0.1179. In order of x, which runs from 4 to 14; what is left over alternates.
        let values = [4.26, 5.68, 7.24, 4.82, 6.95, 8.81, 8.04, 8.33, 10.84, 7.58, 9.96];
        let drift = judge(&hourly(&values)).expect("eleven values");
        let Interval { low, estimate, high } = drift.per_hour;
        for (value, expected) in [(low, 0.2334), (estimate, 0.5001), (high, 0.7668)] {
            assert!((value - expected).abs() < 0.0005, "{drift:?}");
        }
        assert!(drift.is_distinguishable);
    }

    #[test]
    fn the_slope_is_per_hour_whatever_the_distance_of_the_samples() {
        // Down by 1 every 15 minutes, exactly.
        let samples = [3, 2, 1, 0].map(|left| (Duration::from_secs(900) * (3 - left), f64::from(left)));
        assert_eq!(judge(&samples).map(|drift| drift.per_hour), Interval::new(-4.0, -4.0, -4.0));
    }

    #[test]
    fn equal_values_do_not_drift_and_noise_is_not_told_from_rest() {
        let equal = judge(&hourly(&[0.1; 10])).expect("ten values");
        assert_eq!(Some(equal.per_hour), Interval::new(0.0, 0.0, 0.0));
        assert!(!equal.is_distinguishable);
        let noise = judge(&hourly(&[5.0, 4.0, 6.0, 5.0, 4.0, 6.0])).expect("six values");
        assert!(!noise.is_distinguishable, "{noise:?}");
    }

    #[test]
    fn a_slow_wave_is_no_drift() {
        // A single wave has a slope that the formula for independent samples calls certain.
        let wave: Vec<f64> = (0..60).map(|step| (f64::from(step) * TAU / 60.0).sin()).collect();
        let drift = judge(&hourly(&wave)).expect("sixty values");
        assert!(!drift.is_distinguishable, "{drift:?}");
    }

    #[test]
    fn too_few_samples_or_all_at_one_time_or_no_numbers_have_no_drift() {
        let at_once = [(Duration::ZERO, 1.0), (Duration::ZERO, 2.0), (Duration::ZERO, 3.0)];
        for absent in [&hourly(&[])[..], &hourly(&[1.0, 2.0]), &at_once, &hourly(&[1.0, f64::NAN, 2.0])] {
            assert_eq!(judge(absent), None, "{absent:?}");
        }
    }
}
