//! Which rows are asked for: all alike, or a few much more often.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::random::Random;

/// How often each row is asked for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skew {
    /// All alike.
    Uniform,
    /// The n-th most wanted row as often as 1/n to this exponent (Zipf). The wanted rows lie all over the
    /// table.
    Zipf {
        /// 0.99 is common; 0 would be uniform.
        exponent: f64,
    },
}

impl Skew {
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Skew::Zipf { exponent } if !(0.01..=10.0).contains(exponent) => {
                Err(Error::environment(format!("a Zipf exponent of {exponent}: 0.01 to 10 can be drawn")))
            }
            Skew::Zipf { .. } | Skew::Uniform => Ok(()),
        }
    }
}

/// Draws ids from 1 to the number of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub(super) rows: i64,
    zipf: Option<Zipf>,
    /// Has no common factor with the number of rows: ranks times this, modulo rows, hit each row once.
    scatter: i64,
}

impl Keys {
    pub(super) fn new(skew: Skew, rows: i64) -> Keys {
        assert!(rows > 0, "a table has rows");
        let zipf = match skew {
            Skew::Uniform => None,
            Skew::Zipf { exponent } => Some(Zipf::new(rows, exponent)),
        };
        // The golden section keeps neighbouring ranks far from each other.
        let mut scatter = (rows as f64 * 0.618_033_988_75) as i64;
        while common_factor(scatter.max(1), rows) != 1 {
            scatter += 1;
        }
        Keys { rows, zipf, scatter: scatter.max(1) }
    }

    pub(super) fn draw(&self, random: &mut Random) -> i64 {
        match &self.zipf {
            None => random.between_wide(1, self.rows),
            Some(zipf) => {
                let rank = i128::from(zipf.draw(random) - 1);
                (rank * i128::from(self.scatter) % i128::from(self.rows)) as i64 + 1
            }
        }
    }
}

fn common_factor(one: i64, other: i64) -> i64 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Zipf ranks by rejection-inversion (W. Hörmann, G. Derflinger, ACM TOMACS 6(3), 1996): no table, and a time
/// that does not depend on the number of rows.
#[derive(Clone, Copy, Debug)]
struct Zipf {
    rows: i64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    shortcut: f64,
}

impl Zipf {
    fn new(rows: i64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { rows, exponent, integral_first: 0.0, integral_last: 0.0, shortcut: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(rows as f64 + 0.5);
        zipf.shortcut = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// A rank from 1.
    fn draw(&self, random: &mut Random) -> i64 {
        loop {
            let u = self.integral_last + random.share() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(u);
            let rank = ((x + 0.5) as i64).clamp(1, self.rows);
            let near = rank as f64;
            // More than four of five draws are taken, whatever the exponent.
            if near - x <= self.shortcut || u >= self.integral(near + 0.5) - self.density(near) {
                return rank;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        let factor = if power.abs() > 1e-8 { power.exp_m1() / power } else { 1.0 + power / 2.0 };
        factor * log
    }

    fn integral_inverse(&self, x: f64) -> f64 {
        let power = (x * (1.0 - self.exponent)).max(-1.0);
        let factor = if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 };
        (factor * x).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_zipf_says() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let zipf = Zipf::new(1000, exponent);
            let mut random = Random::new(11, 0);
            let mut counts = vec![0_u32; 1001];
            for _ in 0..200_000 {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let sum: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1, 2, 3, 10, 50] {
                let expected = 200_000.0 * f64::from(rank).powf(-exponent) / sum;
                let off = (f64::from(counts[rank as usize]) - expected).abs() / expected.sqrt();
                assert!(
                    off < 5.0,
                    "{exponent}: rank {rank} came {} times, not {expected}",
                    counts[rank as usize]
                );
            }
        }
    }

    #[test]
    fn every_row_has_one_rank() {
        for rows in [1, 2, 10, 997, 1000, 1024] {
            let keys = Keys::new(Skew::Zipf { exponent: 0.99 }, rows);
            let ids: std::collections::BTreeSet<i64> =
                (0..rows).map(|rank| rank * keys.scatter % rows + 1).collect();
            assert_eq!(ids.len() as i64, rows, "{rows} rows");
            assert_eq!((ids.first(), ids.last()), (Some(&1), Some(&rows)));
        }
    }

    #[test]
    fn the_largest_table_can_be_drawn_from() {
        let mut random = Random::new(1, 0);
        for skew in [Skew::Uniform, Skew::Zipf { exponent: 0.99 }] {
            let keys = Keys::new(skew, i64::MAX / 1024);
            for _ in 0..1000 {
                assert!((1..=keys.rows).contains(&keys.draw(&mut random)));
            }
        }
    }
}
