//! A mean with its 95 % interval: over the means of several runs, and over batches inside one run.

use crate::series;

/// A 95 % interval: where the true value is believed to lie. All three are finite, in the unit of the values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The single best value.
    pub estimate: f64,
    /// The upper bound.
    pub high: f64,
}

impl Interval {
    /// `None` when a bound is not a finite number.
    pub(crate) fn new(low: f64, estimate: f64, high: f64) -> Option<Interval> {
        (low + estimate + high).is_finite().then_some(Interval { low, estimate, high })
    }

    /// Whether `value` cannot be told from the true one.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The mean over runs by Student's t; `None` for fewer than two runs, whose spread nobody knows.
#[must_use]
pub fn of_runs(run_means: &[f64]) -> Option<Interval> {
    let freedom = run_means.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let mean = series::mean(run_means)?;
    let variance = series::squares(run_means, mean) / freedom as f64;
    let half_width = student_t(freedom) * (variance / run_means.len() as f64).sqrt();
    Interval::new(mean - half_width, mean, mean + half_width)
}

/// Batches in a run. Between 10 and 30 serve (Schmeiser 1982, "Batch size effects in the analysis of
/// simulation output"): fewer leave the interval wide, more leave the batches short and alike.
const BATCH_COUNT: usize = 20;

/// The mean of one run's samples, judged by batches of consecutive samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Batches {
    /// The mean by Student's t over the means of 20 batches.
    pub mean: Interval,
    /// How much a batch's mean resembles the next one's, -1 to 1. Above about 0.45 (2 / sqrt 20) it is more
    /// than chance, and the interval is too narrow: the run is too short.
    pub autocorrelation: f64,
}

/// Splits the samples of a run, taken at equal distances of time, into 20 batches of equal length. What is
/// left over is left out at the beginning. `None` for fewer than 40 samples: a batch is at least two.
#[must_use]
pub fn of_batches(samples: &[f64]) -> Option<Batches> {
    let batch_length = samples.len() / BATCH_COUNT;
    if batch_length < 2 {
        return None;
    }
    let batches = samples[samples.len() % BATCH_COUNT..].chunks_exact(batch_length);
    let means = batches.map(series::mean).collect::<Option<Vec<f64>>>()?;
    Some(Batches { mean: of_runs(&means)?, autocorrelation: series::autocorrelation(&means) })
}

/// The 97.5 % point of the normal distribution: 95 % lie within it on both sides.
pub(crate) const NORMAL: f64 = 1.959_963_984_540_054;

/// The 97.5 % points of Student's distribution for 1 to 30 degrees of freedom, from the printed tables
/// (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
const STUDENT_T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The 97.5 % point of Student's distribution: beyond the table by the normal one and its first correction
/// (Abramowitz and Stegun 26.7.5), without which it would be 4 % short at 31.
pub(crate) fn student_t(freedom: usize) -> f64 {
    assert!(freedom > 0, "Student's t of no degrees of freedom");
    match STUDENT_T.get(freedom - 1) {
        Some(t) => *t,
        None => NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() < 0.001
    }

    #[test]
    fn the_interval_of_students_own_sleep_data_is_that_of_the_books() {
        // Student 1908, "The probable error of a mean", extra hours of sleep: mean 1.58, 95 % 0.700 to 2.460.
        let hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let interval = of_runs(&hours).expect("ten values");
        assert!(is_near(interval.estimate, 1.58), "{interval:?}");
        assert!(is_near(interval.low, 0.700) && is_near(interval.high, 2.460), "{interval:?}");
        assert!(!interval.contains(0.0) && interval.contains(1.0) && interval.contains(interval.high));
    }

    #[test]
    fn one_run_has_no_interval_and_equal_runs_have_one_without_width() {
        for absent in [&[][..], &[5.0], &[5.0, f64::NAN], &[1e200, -1e200]] {
            assert_eq!(of_runs(absent), None, "{absent:?}");
        }
        assert_eq!(of_runs(&[0.1; 3]), Interval::new(0.1, 0.1, 0.1));
        assert_eq!(of_runs(&[0.0; 2]), Interval::new(0.0, 0.0, 0.0));
    }

    #[test]
    fn the_table_goes_on_smoothly_into_the_normal_distribution() {
        // Printed values for 31, 40, 60 and 120 degrees; without end it is the normal one.
        for (freedom, t) in [(1, 12.706), (30, 2.042), (31, 2.040), (40, 2.021), (60, 2.000), (120, 1.980)] {
            assert!((student_t(freedom) - t).abs() < 0.004, "{freedom}: {}", student_t(freedom));
        }
        assert!(is_near(student_t(100_000), 1.960));
    }

    #[test]
    fn batches_leave_out_the_beginning_and_tell_how_alike_neighbours_are() {
        // 41 samples: one left out, then 20 batches of two, whose means alternate between 9 and 11.
        // Variance 20 / 19, t 2.093: half width 2.093 x sqrt(1 / 19) = 0.480. Lag 1: -19 / 20.
        let mut samples = vec![1000.0];
        samples.extend([8.0, 10.0, 10.0, 12.0].repeat(10));
        let batches = of_batches(&samples).expect("41 samples");
        assert_eq!((batches.mean.estimate, batches.autocorrelation), (10.0, -0.95));
        assert!(is_near(batches.mean.high, 10.480) && is_near(batches.mean.low, 9.520), "{batches:?}");
        assert_eq!(of_batches(&samples[..39]), None);
        let constant = of_batches(&[5.0; 40]).expect("40 samples");
        assert_eq!((Some(constant.mean), constant.autocorrelation), (Interval::new(5.0, 5.0, 5.0), 0.0));
    }
}
