//! Two variants against each other: the ratio over interleaved pairs of runs, and what may be said of it.
//! Where they were measured apart there are no pairs, and the ratio is that of two means.

use crate::interval::{Interval, NORMAL, student_t};
use crate::random::SplitMix64;
use crate::series;

/// Below this nothing is said: two ratios can lie anywhere by chance. From the design, 5.5: n >= 3.
const PAIRS_MIN: usize = 3;

/// Resamples of the bootstrap. From seed to seed a bound then moves by 1.5 % of the interval's width:
/// sqrt(0.025 x 0.975 / 2000) / 0.0584 (the normal density there) / 3.92.
const RESAMPLES: usize = 2000;

/// Resamples left outside at either end: 2.5 %.
const OUTSIDE: usize = RESAMPLES / 40;

/// The most runs ever advised. Arbitrary: nobody makes so many, and it reads as "not by repetition".
pub const MORE_RUNS_MAX: usize = 1000;

/// One run of each variant, made close together in time, so that both saw the same machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    /// The measured value of the variant compared with.
    pub base: f64,
    /// The measured value of the variant in question, in the same unit.
    pub other: f64,
}

/// Which values are the good ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// Rates: transactions, operations or bytes per second.
    Higher,
    /// Times: latencies, seconds of a load.
    Lower,
}

/// What may be said of the other variant. Equal comes first: a difference that is certain and within
/// the margin is still called equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Better than the base, by more than chance.
    Faster,
    /// Worse than the base, by more than chance.
    Slower,
    /// The whole interval of the ratio is within the margin: that is more than "no difference was seen".
    Equal,
    /// The interval leaves open which of these it is.
    /// About so many more pairs would decide it; [`MORE_RUNS_MAX`] when that many or more.
    CannotTell { more_runs: usize },
}

/// The outcome of a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// Mean of the other variant divided by the mean of the base; `None` for fewer than three runs of each.
    pub ratio: Option<Interval>,
    /// What it means.
    pub verdict: Verdict,
}

/// Compares over pairs. Equal means a ratio from 1 / (1 + x) to 1 + x, where x is `equal_within_percent`.
/// The same `seed` gives the same answer.
///
/// `None` when a value is zero, negative or not finite: that run failed, and there is no ratio to it.
#[must_use]
pub fn compare(pairs: &[Pair], better: Better, equal_within_percent: f64, seed: u64) -> Option<Comparison> {
    assert!((0.0..f64::INFINITY).contains(&equal_within_percent), "equal within {equal_within_percent} %");
    if !pairs.iter().all(|pair| is_measured(pair.base) && is_measured(pair.other)) {
        return None;
    }
    if pairs.len() < PAIRS_MIN {
        let verdict = Verdict::CannotTell { more_runs: PAIRS_MIN - pairs.len() };
        return Some(Comparison { ratio: None, verdict });
    }
    Some(judged(bootstrap(pairs, seed)?, pairs.len(), better, equal_within_percent))
}

/// Compares values that were measured apart, each in the same unit: the further runs of the one say nothing
/// about those of the other. Otherwise as [`compare`].
///
/// `None` when a value is zero, negative or not finite.
#[must_use]
pub fn apart(
    base: &[f64],
    other: &[f64],
    better: Better,
    equal_within_percent: f64,
    seed: u64,
) -> Option<Comparison> {
    assert!((0.0..f64::INFINITY).contains(&equal_within_percent), "equal within {equal_within_percent} %");
    if !base.iter().chain(other).all(|value| is_measured(*value)) {
        return None;
    }
    let count = base.len().min(other.len());
    if count < PAIRS_MIN {
        let verdict = Verdict::CannotTell { more_runs: PAIRS_MIN - count };
        return Some(Comparison { ratio: None, verdict });
    }
    Some(judged(bootstrap_apart(base, other, seed)?, count, better, equal_within_percent))
}

fn is_measured(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn judged(ratio: Interval, count: usize, better: Better, equal_within_percent: f64) -> Comparison {
    let bound = 1.0 + equal_within_percent / 100.0;
    let verdict = if ratio.low >= 1.0 / bound && ratio.high <= bound {
        Verdict::Equal
    } else if ratio.contains(1.0) {
        Verdict::CannotTell { more_runs: more_runs(ratio, count, bound) }
    } else if (ratio.estimate > 1.0) == (better == Better::Higher) {
        Verdict::Faster
    } else {
        Verdict::Slower
    };
    Comparison { ratio: Some(ratio), verdict }
}

/// The ratio of means, and the percentiles of that ratio over resamples of the pairs.
///
/// With few pairs the bare percentiles are far too narrow: of equal variants they saw a difference in 25, 16
/// and 10 of 100 comparisons of 3, 5 and 10 pairs (the test below, 4,000 of each). So both bounds are moved
/// away from the ratio, on the scale of logarithms, by what Student's interval of a mean is wider than the
/// bootstrap's: t / z x sqrt(n / (n - 1)). Then it is 5 of 100 each. (On the narrowness: Hesterberg 2015,
/// "What Teachers Should Know About the Bootstrap".)
fn bootstrap(pairs: &[Pair], seed: u64) -> Option<Interval> {
    let mut random = SplitMix64::new(seed);
    let ratio = ratio_of_means(pairs.iter());
    let resample = || ratio_of_means((0..pairs.len()).map(|_| &pairs[random.index(pairs.len())]));
    stretched(ratio, resample, pairs.len(), pairs.len() - 1)
}

/// The same over resamples of either side by itself. The degrees of freedom are Welch's, of the logarithms'
/// variances to first order, and no fewer than the smaller side's.
fn bootstrap_apart(base: &[f64], other: &[f64], seed: u64) -> Option<Interval> {
    let mut random = SplitMix64::new(seed);
    let mut drawn = |values: &[f64]| {
        (0..values.len()).map(|_| values[random.index(values.len())]).sum::<f64>() / values.len() as f64
    };
    let (base_mean, other_mean) = (series::mean(base)?, series::mean(other)?);
    let resample = || drawn(other) / drawn(base);
    let count = base.len().min(other.len());
    let of_mean = |values: &[f64], mean: f64| {
        let freedom = (values.len() - 1) as f64;
        (series::squares(values, mean) / freedom / values.len() as f64 / (mean * mean), freedom)
    };
    let ((of_base, base_freedom), (of_other, other_freedom)) =
        (of_mean(base, base_mean), of_mean(other, other_mean));
    let parts = of_base * of_base / base_freedom + of_other * of_other / other_freedom;
    let welch = if parts > 0.0 { (of_base + of_other).powi(2) / parts } else { 0.0 };
    stretched(other_mean / base_mean, resample, count, (welch as usize).max(count - 1))
}

/// The percentiles of resampled ratios, moved away from the ratio as told above.
fn stretched(ratio: f64, resample: impl FnMut() -> f64, count: usize, freedom: usize) -> Option<Interval> {
    let mut ratios: Vec<f64> = std::iter::repeat_with(resample).take(RESAMPLES).collect();
    ratios.sort_by(f64::total_cmp);
    let count = count as f64;
    let stretch = student_t(freedom) / NORMAL * (count / (count - 1.0)).sqrt();
    let moved = |bound: f64| ratio * (bound / ratio).powf(stretch);
    Interval::new(moved(ratios[OUTSIDE - 1]), ratio, moved(ratios[RESAMPLES - OUTSIDE]))
}

fn ratio_of_means<'a>(pairs: impl Iterator<Item = &'a Pair>) -> f64 {
    let (base, other) = pairs.fold((0.0, 0.0), |(base, other), pair| (base + pair.base, other + pair.other));
    other / base
}

/// How many more pairs bring the interval clear of 1, or inside the margin, whichever takes fewer: its
/// width on the scale of logarithms goes with t / sqrt n, and the ratio is taken to stay where it is.
fn more_runs(ratio: Interval, pair_count: usize, bound: f64) -> usize {
    let width_of = |count: usize| student_t(count - 1) / (count as f64).sqrt();
    let half_width = (ratio.high / ratio.low).ln() / 2.0;
    let distance = ratio.estimate.ln().abs();
    let needed = distance.max(bound.ln() - distance);
    let is_enough = |more: &usize| half_width * width_of(pair_count + more) / width_of(pair_count) <= needed;
    (1..MORE_RUNS_MAX).find(is_enough).unwrap_or(MORE_RUNS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[(f64, f64)]) -> Vec<Pair> {
        values.iter().map(|(base, other)| Pair { base: *base, other: *other }).collect()
    }

    fn verdict(values: &[(f64, f64)], better: Better, percent: f64) -> Verdict {
        compare(&pairs(values), better, percent, 1).expect("values above zero").verdict
    }

    #[test]
    fn twice_the_rate_is_faster_and_twice_the_time_is_slower() {
        let twice = [(200.0, 402.0), (104.0, 206.0), (96.0, 193.0), (100.0, 199.0)];
        let comparison = compare(&pairs(&twice), Better::Higher, 5.0, 1).expect("values above zero");
        let ratio = comparison.ratio.expect("four pairs");
        // Ratio of means by hand: 1000 / 500. The pairs' own ratios are 1.981 to 2.010, their mean 1.998.
        assert_eq!(ratio.estimate, 2.0);
        assert!(ratio.low > 1.9 && ratio.low < 2.0 && ratio.high > 2.0 && ratio.high < 2.1, "{ratio:?}");
        assert_eq!(comparison.verdict, Verdict::Faster);
        assert_eq!(verdict(&twice, Better::Lower, 5.0), Verdict::Slower);
        let half = twice.map(|(base, other)| (other, base));
        assert_eq!(verdict(&half, Better::Higher, 5.0), Verdict::Slower);
        assert_eq!(verdict(&half, Better::Lower, 5.0), Verdict::Faster);
    }

    #[test]
    fn equal_needs_the_whole_interval_inside_the_margin() {
        let close = [(100.0, 101.0), (100.0, 99.0), (100.0, 100.5), (100.0, 99.5), (100.0, 100.0)];
        assert_eq!(verdict(&close, Better::Higher, 5.0), Verdict::Equal);
        assert!(matches!(verdict(&close, Better::Higher, 0.1), Verdict::CannotTell { .. }));
        // A certain difference of 1 % is equal within 5 %, and faster where 0.5 % matters.
        let one_percent = [(100.0, 101.0); 4];
        assert_eq!(verdict(&one_percent, Better::Higher, 5.0), Verdict::Equal);
        assert_eq!(verdict(&one_percent, Better::Higher, 0.5), Verdict::Faster);
        assert_eq!(verdict(&[(7.0, 7.0); 3], Better::Higher, 0.0), Verdict::Equal);
    }

    #[test]
    fn what_cannot_be_told_says_how_many_more_runs_would_tell() {
        assert_eq!(verdict(&[], Better::Higher, 5.0), Verdict::CannotTell { more_runs: 3 });
        assert_eq!(verdict(&[(1.0, 9.0); 2], Better::Higher, 5.0), Verdict::CannotTell { more_runs: 1 });
        // Half width ln 1.1 at n = 5 (t 2.776), ratio 1, margin 5 %: ln 1.05 / ln 1.1 = 0.512 of the width
        // t / sqrt n = 1.2415, so 0.6355. At n = 12 it is 2.201 / sqrt 12 = 0.6354, at 11 it is 0.6718.
        let interval = Interval { low: 1.0 / 1.1, estimate: 1.0, high: 1.1 };
        assert_eq!(more_runs(interval, 5, 1.05), 7);
        assert_eq!(more_runs(interval, 5, 1.0), MORE_RUNS_MAX);
        // Ratio 1.2, half width ln(1.5 / 0.96) / 2: ln 1.2 is 0.817 of it, times 3.182 / sqrt 4 is 1.300.
        // Five pairs have 2.776 / sqrt 5 = 1.242, and are clear of 1.
        assert_eq!(more_runs(Interval { low: 0.96, estimate: 1.2, high: 1.5 }, 4, 1.05), 1);
    }

    #[test]
    fn a_failed_run_has_no_ratio() {
        for failed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            for pair in [(1.0, failed), (failed, 1.0)] {
                assert_eq!(compare(&pairs(&[(1.0, 1.0), pair]), Better::Higher, 5.0, 1), None, "{pair:?}");
            }
        }
        assert_eq!(compare(&pairs(&[(f64::MAX, 1.0); 3]), Better::Higher, 5.0, 1), None, "overflow");
    }

    #[test]
    fn equal_variants_are_called_different_in_about_one_comparison_of_twenty() {
        // Noise of about 5 %, nearly normal: a sum of twelve uniform numbers, less six.
        let mut random = SplitMix64::new(7);
        let mut noise = || {
            let sum: f64 = (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum();
            100.0 + 5.0 * (sum - 6.0)
        };
        for pair_count in [3, 5, 10] {
            let is_wrong = |seed: &u64| {
                let values: Vec<_> = (0..pair_count).map(|_| (noise(), noise())).collect();
                let comparison = compare(&pairs(&values), Better::Higher, 0.0, *seed).expect("above zero");
                matches!(comparison.verdict, Verdict::Faster | Verdict::Slower)
            };
            let wrong = (0..500).filter(is_wrong).count();
            assert!((10..=40).contains(&wrong), "{wrong} of 500 with {pair_count} pairs");
        }
    }

    #[test]
    fn values_measured_apart_are_held_against_each_other_without_pairs() {
        let base = [100.0, 104.0, 96.0, 100.0];
        let verdict = |other: &[f64], percent| {
            apart(&base, other, Better::Higher, percent, 1).expect("above zero").verdict
        };
        assert_eq!(verdict(&[200.0, 206.0, 194.0], 5.0), Verdict::Faster);
        assert_eq!(verdict(&[50.0, 52.0, 48.0], 5.0), Verdict::Slower);
        assert_eq!(verdict(&[100.0, 101.0, 99.0, 100.0], 10.0), Verdict::Equal);
        assert!(matches!(verdict(&[100.0, 101.0, 99.0], 0.5), Verdict::CannotTell { .. }));
        assert_eq!(verdict(&[100.0, 101.0], 5.0), Verdict::CannotTell { more_runs: 1 });
        assert_eq!(apart(&base, &[1.0, 0.0, 1.0], Better::Higher, 5.0, 1), None);
    }

    #[test]
    fn equal_values_measured_apart_are_called_different_in_about_one_comparison_of_twenty() {
        let mut random = SplitMix64::new(11);
        let mut noise = || {
            let sum: f64 = (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum();
            100.0 + 5.0 * (sum - 6.0)
        };
        for (base_count, other_count) in [(3, 3), (5, 5), (3, 10), (10, 10)] {
            let is_wrong = |seed: &u64| {
                let base: Vec<_> = (0..base_count).map(|_| noise()).collect();
                let other: Vec<_> = (0..other_count).map(|_| noise()).collect();
                let comparison = apart(&base, &other, Better::Higher, 0.0, *seed).expect("above zero");
                matches!(comparison.verdict, Verdict::Faster | Verdict::Slower)
            };
            let wrong = (0..500).filter(is_wrong).count();
            assert!((5..=40).contains(&wrong), "{wrong} of 500 with {base_count} and {other_count} runs");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_answer() {
        let values: Vec<_> = (1..=12).map(|index| (100.0, 90.0 + f64::from(index * index % 17))).collect();
        let answer = |seed| compare(&pairs(&values), Better::Higher, 1.0, seed);
        assert_eq!(answer(5), answer(5));
        assert_ne!(answer(5), answer(6));
    }
}
