//! Steady state over rounds, by the rule of SNIA's Performance Test Specification, and stalls inside a run.

use std::time::Duration;

use crate::series;

/// Rounds in a window. SNIA Solid State Storage PTS 2.0.1, definition of "Steady State".
const WINDOW_ROUNDS: usize = 5;

/// In a window, maximum minus minimum may be so much of the average. The same definition, (a).
const EXCURSION_PERCENT_MAX: f64 = 20.0;

/// In a window, the fitted line may rise or fall by so much of the average. The same definition, (b).
const SLOPE_PERCENT_MAX: f64 = 10.0;

/// Throughput below this share of the median is a stall. From the design, 5.4.
const STALL_SHARE: f64 = 0.1;

/// A shorter gap is no stall. From the design, 5.4.
const STALL_MIN: Duration = Duration::from_secs(1);

/// Whether a tracked value (throughput, latency, reads per transaction) has settled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// It has, and every window kept the rule from the one that starts with this round (0 is the first).
    Steady { from_round: usize },
    /// The last window breaks the rule: maximum minus minimum (20 % allowed), and rise or fall of the fitted
    /// line from its first round to its last (10 %), both of the average. Infinite when the average is zero
    /// and the values are not, or when a value is not a number.
    NotSteady { excursion_percent: f64, slope_percent: f64 },
    /// Fewer than five rounds.
    TooShort,
}

/// Judges the rounds so far: one value a round, all rounds of equal length.
///
/// It is the last window that must be steady. A fresh flash drive is steady at first, and then falls.
#[must_use]
pub fn judge(rounds: &[f64]) -> Verdict {
    let windows = rounds.windows(WINDOW_ROUNDS).map(movement);
    let Some((excursion_percent, slope_percent)) = windows.clone().next_back() else {
        return Verdict::TooShort;
    };
    let is_kept =
        |(excursion, slope): &(f64, f64)| *excursion <= EXCURSION_PERCENT_MAX && *slope <= SLOPE_PERCENT_MAX;
    match windows.rev().take_while(is_kept).count() {
        0 => Verdict::NotSteady { excursion_percent, slope_percent },
        kept => Verdict::Steady { from_round: rounds.len() - WINDOW_ROUNDS + 1 - kept },
    }
}

/// Excursion and slope of a window, in percent of its average.
fn movement(window: &[f64]) -> (f64, f64) {
    let points: Vec<(f64, f64)> = window.iter().enumerate().map(|(index, y)| (index as f64, *y)).collect();
    let (Some(average), Some(line)) = (series::mean(window), series::fit(&points)) else {
        return (f64::INFINITY, f64::INFINITY);
    };
    let min = window.iter().copied().fold(f64::INFINITY, f64::min);
    let max = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let rise = line.slope.abs() * (window.len() - 1) as f64;
    (percent_of(max - min, average), percent_of(rise, average))
}

/// Nothing is 0 % even of nothing: a warm cache with no reads at all is steady.
fn percent_of(part: f64, whole: f64) -> f64 {
    if part == 0.0 { 0.0 } else { 100.0 * part / whole.abs() }
}

/// A time in which nearly nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stall {
    /// When it began, from the first sample's beginning.
    pub start: Duration,
    /// How long it lasted.
    pub length: Duration,
}

/// The times of at least one second in which throughput stayed below a tenth of the median.
///
/// `throughput` has one value for each `interval`. Nothing at all is a stall whatever the median is: a run
/// that stood still most of the time would hide it behind a median of zero.
#[must_use]
pub fn stalls(throughput: &[f64], interval: Duration) -> Vec<Stall> {
    let mut sorted = throughput.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(median) = sorted.get(sorted.len() / 2).copied() else { return Vec::new() };
    let is_stalled = |value: f64| value <= 0.0 || value < STALL_SHARE * median;
    let time_of = |samples: usize| interval.saturating_mul(u32::try_from(samples).unwrap_or(u32::MAX));
    let mut stalls = Vec::new();
    let mut start = 0;
    for stretch in throughput.chunk_by(|one, next| is_stalled(*one) == is_stalled(*next)) {
        let length = time_of(stretch.len());
        if is_stalled(stretch[0]) && length >= STALL_MIN {
            stalls.push(Stall { start: time_of(start), length });
        }
        start += stretch.len();
    }
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_rounds_within_both_bounds_are_steady_and_the_bounds_belong_to_it() {
        assert_eq!(judge(&[90.0, 100.0, 110.0, 100.0, 100.0]), Verdict::Steady { from_round: 0 });
        // Slope by hand: (-2 x 95 - 97.5 + 102.5 + 2 x 105) / 10 = 2.5 a round, 10 % over four.
        assert_eq!(judge(&[95.0, 97.5, 100.0, 102.5, 105.0]), Verdict::Steady { from_round: 0 });
    }

    #[test]
    fn an_excursion_and_a_slope_are_told_apart() {
        // Average 100, range 22, slope (-2 x 100 - 89 + 100 + 2 x 100) / 10 = 1.1 a round, 4.4 % over four.
        let jumpy = Verdict::NotSteady { excursion_percent: 22.0, slope_percent: 4.4 };
        assert_eq!(judge(&[100.0, 89.0, 111.0, 100.0, 100.0]), jumpy);
        // Falling by 3 a round: average 100, range 12, slope -3, 12 % over four.
        let falling = Verdict::NotSteady { excursion_percent: 12.0, slope_percent: 12.0 };
        assert_eq!(judge(&[106.0, 103.0, 100.0, 97.0, 94.0]), falling);
    }

    #[test]
    fn steady_counts_from_the_first_window_after_the_last_broken_one() {
        let mut rounds = vec![300.0, 200.0, 150.0, 100.0, 101.0, 99.0, 100.0];
        assert!(matches!(judge(&rounds), Verdict::NotSteady { .. }));
        rounds.push(100.0);
        assert_eq!(judge(&rounds), Verdict::Steady { from_round: 3 });
        rounds.push(100.0);
        assert_eq!(judge(&rounds), Verdict::Steady { from_round: 3 });
        // A drive that was steady and falls off is not.
        rounds.push(40.0);
        assert!(matches!(judge(&rounds), Verdict::NotSteady { .. }));
    }

    #[test]
    fn few_equal_zero_and_impossible_values_have_a_verdict() {
        assert_eq!(judge(&[]), Verdict::TooShort);
        assert_eq!(judge(&[100.0; 4]), Verdict::TooShort);
        assert_eq!(judge(&[0.1; 5]), Verdict::Steady { from_round: 0 });
        assert_eq!(judge(&[0.0; 5]), Verdict::Steady { from_round: 0 });
        for impossible in [[1.0, 1.0, f64::NAN, 1.0, 1.0], [-2.0, -1.0, 0.0, 1.0, 2.0]] {
            let (excursion_percent, slope_percent) = (f64::INFINITY, f64::INFINITY);
            assert_eq!(judge(&impossible), Verdict::NotSteady { excursion_percent, slope_percent });
        }
    }

    #[test]
    fn a_stall_is_below_a_tenth_of_the_median_for_a_second() {
        let half = Duration::from_millis(500);
        let stall = |start: u32, length: u32| Stall { start: half * start, length: half * length };
        // Median 100: 9 twice is a second, 9 once is not, 10 is not below a tenth.
        let samples = [100.0, 9.0, 9.0, 100.0, 9.0, 100.0, 10.0, 10.0, 100.0, 0.0, 5.0, 0.0];
        let samples = [&samples[..], &[100.0; 5]].concat();
        assert_eq!(stalls(&samples, half), [stall(1, 2), stall(9, 3)]);
        assert_eq!((stalls(&[100.0; 9], half), stalls(&[], half)), (vec![], vec![]));
        // Mostly at rest: the median is zero, and the stalls are told all the same.
        assert_eq!(stalls(&[0.0, 0.0, 100.0, 0.0, 0.0], half), [stall(0, 2), stall(3, 2)]);
    }
}
