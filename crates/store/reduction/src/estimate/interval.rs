//! A number with what it may be, and the sums it comes from.

/// An estimate and the range that holds the truth with [`CONFIDENCE_PERCENT`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The most likely value.
    pub value: f64,
    /// The truth is hardly below.
    pub low: f64,
    /// The truth is hardly above.
    pub high: f64,
}

/// How often an interval holds the truth, in the long run.
pub const CONFIDENCE_PERCENT: u32 = 95;
/// Half the width of a normal distribution's middle 95 %, in standard deviations.
pub(super) const DEVIATIONS: f64 = 1.96;
/// What was never seen in n draws happens, at 95 %, in fewer than 3 of n ("rule of three": the
/// solution of (1 - p)^n = 0.05). Without it a sample of equals would claim to be exact.
const UNSEEN: f64 = 3.0;

impl Interval {
    /// A number that was counted.
    #[must_use]
    pub fn exact(value: f64) -> Interval {
        Interval { value, low: value, high: value }
    }

    /// `value` give or take `half_width`, within `range`.
    #[must_use]
    pub fn around(value: f64, half_width: f64, range: (f64, f64)) -> Interval {
        let inside = |number: f64| number.clamp(range.0, range.1);
        Interval { value: inside(value), low: inside(value - half_width), high: inside(value + half_width) }
    }

    /// Every number through a function that never falls.
    #[must_use]
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Interval {
        Interval { value: rising(self.value), low: rising(self.low), high: rising(self.high) }
    }

    /// One divided by it.
    #[must_use]
    pub fn inverse(self) -> Interval {
        Interval { value: 1.0 / self.value, low: 1.0 / self.high, high: 1.0 / self.low }
    }

    /// One less it: the rest of a share.
    #[must_use]
    pub fn rest(self) -> Interval {
        Interval { value: 1.0 - self.value, low: 1.0 - self.high, high: 1.0 - self.low }
    }

    /// True when it was counted, not estimated.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.low == self.high
    }
}

/// What a ratio of two totals needs of each region drawn: sums of x, y and their products, in whole
/// numbers so that nothing is lost.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct RatioSums {
    regions: u64,
    x: u128,
    y: u128,
    xx: u128,
    xy: u128,
    yy: u128,
}

impl RatioSums {
    pub(super) fn add(&mut self, x: u64, y: u64) {
        let (x, y) = (u128::from(x), u128::from(y));
        self.regions += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
    }

    /// The sum of the x.
    pub(super) fn x_total(&self) -> u64 {
        self.x as u64
    }

    /// Total of y divided by total of x over all of a population, of which these regions were drawn
    /// without replacement. `None` when no x was seen.
    ///
    /// Cochran, "Sampling Techniques", 3rd edition, sections 2.6 and 6.4: r = Σy / Σx with variance
    /// (1 - n/N) n/(n-1) Σ(y - r x)² / (Σx)².
    pub(super) fn ratio(&self, population_regions: u64) -> Option<Interval> {
        assert!(self.regions <= population_regions, "{} regions drawn of {population_regions}", self.regions);
        if self.x == 0 {
            return None;
        }
        let (n, x) = (self.regions as f64, self.x as f64);
        let ratio = self.y as f64 / x;
        if self.regions == population_regions {
            return Some(Interval::exact(ratio));
        }
        let unread = 1.0 - n / population_regions as f64;
        let squares = self.yy as f64 - 2.0 * ratio * self.xy as f64 + ratio * ratio * self.xx as f64;
        // One region tells nothing of the spread: n - 1 counts as one, and the rule of three decides.
        let variance = unread * n / (n - 1.0).max(1.0) * squares.max(0.0) / (x * x);
        let half_width = (DEVIATIONS * variance.sqrt()).max(UNSEEN * unread / n);
        Some(Interval::around(ratio, half_width, (0.0, f64::INFINITY)))
    }
}
