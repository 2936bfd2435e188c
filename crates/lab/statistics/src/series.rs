//! Arithmetic on a series of values that the other modules share: mean, fitted line, autocorrelation.
//!
//! Tested through them.

/// The mean; `None` of no values, and when it is not a finite number.
///
/// Summed as distances from the first value, so that the mean of equal values is exactly that value.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    let sum: f64 = values.iter().map(|value| value - first).sum();
    let mean = first + sum / values.len() as f64;
    mean.is_finite().then_some(mean)
}

/// The sum of the squared distances from `center`.
pub(crate) fn squares(values: &[f64], center: f64) -> f64 {
    values.iter().map(|value| (value - center).powi(2)).sum()
}

/// How much a value resembles its neighbour: lag-1 autocorrelation, from -1 to 1. Equal values give 0.
pub(crate) fn autocorrelation(values: &[f64]) -> f64 {
    let Some(center) = mean(values) else { return 0.0 };
    let products: f64 = values.windows(2).map(|pair| (pair[0] - center) * (pair[1] - center)).sum();
    let correlation = products / squares(values, center);
    if correlation.is_finite() { correlation } else { 0.0 }
}

/// A straight line fitted to points by least squares.
pub(crate) struct Line {
    /// By how much y rises when x rises by one.
    pub(crate) slope: f64,
    /// The sum of the squared distances of all x from their mean: how well the slope is held.
    pub(crate) leverage: f64,
    /// How far each point lies above the line, in the order of the points.
    pub(crate) residuals: Vec<f64>,
}

/// `None` when no line or no finite one fits: no points, or all at the same x.
pub(crate) fn fit(points: &[(f64, f64)]) -> Option<Line> {
    let (xs, ys): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (x_mean, y_mean) = (mean(&xs)?, mean(&ys)?);
    let leverage = squares(&xs, x_mean);
    let products: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let slope = products / leverage;
    let residuals = points.iter().map(|(x, y)| y - y_mean - slope * (x - x_mean)).collect();
    slope.is_finite().then_some(Line { slope, leverage, residuals })
}
