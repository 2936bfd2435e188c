//! What a person reads of a test: pages that need no network, charts, numbers in words.
//!
//! A page is one file: its charts are drawn as SVG inside it, it works without scripts, in light and dark,
//! on a telephone and on paper. Nothing here knows what was measured.

mod chart;
mod number;
mod page;

pub use chart::{Axis, Chart, Line, Scale};
pub use number::{bytes, bytes_per_second, count, nanos, seconds};
pub use page::{Page, escaped};

#[cfg(test)]
mod tests;
