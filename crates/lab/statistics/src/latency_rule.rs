//! CSSBI's rule on latency over time: never above one bound, and not for long above a lower one.

use std::time::Duration;

/// The rule. Its default is that of Microsoft CSSBI's paper (2013): 10 ms, 5 ms, 15 s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyRule {
    /// No sample may be above this.
    pub max: Duration,
    /// Samples may be above this only for less than `grace`.
    pub sustained: Duration,
    /// An excursion above `sustained` of this length breaks the rule.
    pub grace: Duration,
}

/// The average latency of a stretch of time, which ends where the next sample's begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When the stretch begins, from the start of the run.
    pub at: Duration,
    /// The average latency of the requests in it.
    pub latency: Duration,
}

/// Whether the rule was kept; when not, by what and when it was broken first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every sample keeps it.
    Kept,
    /// A sample above the maximum: when, from the start of the run, and its latency.
    AboveMax { at: Duration, latency: Duration },
    /// Too long above the sustained bound: when it began, from the start of the run, and how long it went on.
    AboveSustained { at: Duration, length: Duration },
    /// Nothing was measured, and so nothing kept.
    NoSamples,
}

impl Default for LatencyRule {
    fn default() -> LatencyRule {
        let millis = Duration::from_millis;
        LatencyRule { max: millis(10), sustained: millis(5), grace: Duration::from_secs(15) }
    }
}

impl LatencyRule {
    /// Judges samples in order of time. The last one is taken to be as long as the one before it.
    #[must_use]
    pub fn judge(&self, samples: &[Sample]) -> Verdict {
        assert!(samples.is_sorted_by_key(|sample| sample.at), "samples of latency are not in order of time");
        if samples.is_empty() {
            return Verdict::NoSamples;
        }
        let peak = samples.iter().find(|sample| sample.latency > self.max);
        match (peak, self.long_excursion(samples)) {
            (Some(peak), Some((at, length))) if at < peak.at => Verdict::AboveSustained { at, length },
            (Some(peak), _) => Verdict::AboveMax { at: peak.at, latency: peak.latency },
            (None, Some((at, length))) => Verdict::AboveSustained { at, length },
            (None, None) => Verdict::Kept,
        }
    }

    /// Beginning and length of the first excursion above `sustained` that outlasts the grace.
    fn long_excursion(&self, samples: &[Sample]) -> Option<(Duration, Duration)> {
        let is_above = |sample: &Sample| sample.latency > self.sustained;
        let mut next = 0;
        for stretch in samples.chunk_by(|one, other| is_above(one) == is_above(other)) {
            next += stretch.len();
            let end = samples.get(next).map_or_else(|| end_of(samples), |sample| sample.at);
            let length = end - stretch[0].at;
            if is_above(&stretch[0]) && length >= self.grace {
                return Some((stretch[0].at, length));
            }
        }
        None
    }
}

/// Where the last sample ends.
fn end_of(samples: &[Sample]) -> Duration {
    match samples {
        [.., before, last] => last.at + (last.at - before.at),
        [last] => last.at,
        [] => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sample a second, of so many microseconds each.
    fn judge(latencies_micros: &[u64]) -> Verdict {
        let sample = |(latency, second): (&u64, u64)| Sample {
            at: Duration::from_secs(second),
            latency: Duration::from_micros(*latency),
        };
        LatencyRule::default().judge(&latencies_micros.iter().zip(0..).map(sample).collect::<Vec<_>>())
    }

    fn above_max(at: u64, micros: u64) -> Verdict {
        Verdict::AboveMax { at: Duration::from_secs(at), latency: Duration::from_micros(micros) }
    }

    fn above_sustained(at: u64, length: u64) -> Verdict {
        Verdict::AboveSustained { at: Duration::from_secs(at), length: Duration::from_secs(length) }
    }

    #[test]
    fn the_bounds_themselves_keep_the_rule() {
        assert_eq!(judge(&[5000; 60]), Verdict::Kept);
        assert_eq!(judge(&[[10_000; 14].as_slice(), &[5000]].concat()), Verdict::Kept);
        assert_eq!(judge(&[0; 3]), Verdict::Kept);
        assert_eq!(judge(&[]), Verdict::NoSamples);
    }

    #[test]
    fn one_sample_above_the_maximum_breaks_it_and_the_first_is_named() {
        assert_eq!(judge(&[1000, 10_001, 20_000]), above_max(1, 10_001));
        assert_eq!(judge(&[11_000]), above_max(0, 11_000));
    }

    #[test]
    fn fifteen_seconds_above_the_sustained_bound_break_it_and_fourteen_do_not() {
        let run = |seconds: usize| judge(&[&[1000; 3][..], &vec![5001; seconds], &[1000; 3]].concat());
        assert_eq!(run(14), Verdict::Kept);
        assert_eq!(run(15), above_sustained(3, 15));
        // At the end of the run too, and two excursions do not add up.
        assert_eq!(judge(&[6000; 14]), Verdict::Kept);
        assert_eq!(judge(&[6000; 15]), above_sustained(0, 15));
        assert_eq!(judge(&[&[6000; 10][..], &[4000], &[6000; 10]].concat()), Verdict::Kept);
    }

    #[test]
    fn the_offence_that_begins_first_is_named() {
        assert_eq!(judge(&[&[6000; 20][..], &[12_000], &[1000]].concat()), above_sustained(0, 21));
        assert_eq!(judge(&[&[12_000][..], &[6000; 20]].concat()), above_max(0, 12_000));
    }
}
