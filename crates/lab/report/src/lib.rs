//! What a person reads of a test: pages that need no network, charts, numbers in words.
//!
//! A page is one file: its charts are drawn as SVG inside it, it works without scripts, in light and dark,
//! on a telephone and on paper. Nothing here knows what was measured.

mod bars;
mod chart;
mod nearest;
mod number;
mod page;

pub use bars::{Bar, Bars, Group, Series};
pub use chart::{Axis, Chart, Height, Line, Scale};
pub use nearest::nearest;
pub use number::{bytes, bytes_per_second, count, day, digits, nanos, seconds};
pub use page::{Mark, Page, escaped};

#[cfg(test)]
mod tests;

/// About how wide a text is in a drawing: no font is known here, and 12 pixels high are about 6.4 wide.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.4
}
