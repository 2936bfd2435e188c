//! Curves drawn as SVG.
//!
//! Colours are those of Okabe and Ito, which colour-blind people tell apart; each line has its own dashes,
//! too, so that a black and white print can be read.

use std::fmt::Write as _;

use crate::page::escaped;
use crate::text_width;

/// How values lie on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Each step ten times the one before. Values of zero and less are left out.
    Logarithmic,
}

/// One side of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it counts, with the unit.
    pub label: String,
    pub scale: Scale,
    /// A value in words, for its ticks.
    pub tick: fn(f64) -> String,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// Curves over one axis.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Says what is to be seen, for those who cannot see it.
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
    pub height: Height,
}

/// Of a chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Height {
    /// It is read for itself.
    Full,
    /// One of several below each other, over the same axis.
    Low,
}

impl Height {
    /// Of the whole drawing.
    fn whole(self) -> f64 {
        match self {
            Height::Full => 300.0,
            Height::Low => 180.0,
        }
    }

    /// Where the plot ends: ticks and a label stand below.
    fn plot(self) -> f64 {
        self.whole() - 52.0
    }
}

const WIDTH: f64 = 720.0;
/// A further row of names.
const LEGEND_ROW: f64 = 18.0;
/// A name has so much room at least.
const LEGEND_MIN: f64 = 150.0;
/// The plot within it: room for ticks at the left and below, for a row of names of lines above.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 704.0;
const TOP: f64 = 40.0;
/// Ticks of a linear axis. Arbitrary.
const TICKS: u32 = 5;
const DASHES: [&str; 5] = ["none", "7 4", "2 3", "10 3 2 3", "1 6"];

/// The values that an axis shows.
struct Range {
    first: f64,
    last: f64,
    scale: Scale,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>, scale: Scale) -> Range {
        let is_shown = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(is_shown) {
            (first, last) = (first.min(value), last.max(value));
        }
        match scale {
            _ if first > last => Range { first: 0.0, last: 1.0, scale: Scale::Linear },
            Scale::Linear => Range { first: 0.0, last: rounded_up(last), scale },
            Scale::Logarithmic => {
                let decade = |value: f64| 10_f64.powf(value);
                let last = decade(last.log10().ceil());
                Range { first: decade(first.log10().floor()).min(last / 10.0), last, scale }
            }
        }
    }

    /// Where a value lies between the axis's ends, 0 to 1; `None` where it cannot be shown.
    fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear => (value - self.first) / (self.last - self.first),
            Scale::Logarithmic => (value / self.first).log10() / (self.last / self.first).log10(),
        };
        Some(place).filter(|place| place.is_finite())
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = (self.last - self.first) / f64::from(TICKS);
                (0..=TICKS).map(|tick| self.first + step * f64::from(tick)).collect()
            }
            Scale::Logarithmic => {
                let decades = (self.last / self.first).log10().round() as i32;
                (0..=decades).map(|decade| self.first * 10_f64.powi(decade)).collect()
            }
        }
    }
}

/// The next value that ticks divide into numbers people like.
fn rounded_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * decade).find(|rounded| *rounded >= value * 0.999_999).unwrap_or(value)
}

impl Chart {
    /// The drawing, to be put into a page.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let x = Range::of(points().map(|point| point.0), self.x.scale);
        let y = Range::of(points().map(|point| point.1), self.y.scale);
        let places = self.legend();
        let rows = places.last().map_or(0.0, |(_, y)| *y);
        let mut svg = format!(
            "<svg viewBox=\"0 {:.0} {WIDTH} {:.0}\" role=\"img\" aria-label=\"{2}\"><title>{2}</title>",
            -rows,
            self.height.whole() + rows,
            escaped(&self.title)
        );
        let _infallible = write!(
            svg,
            "<text class=\"axis\" x=\"{LEFT}\" y=\"{:.0}\">{}</text>",
            14.0 - rows,
            escaped(&self.y.label)
        );
        self.draw_grid(&mut svg, &x, &y);
        for (index, line) in self.lines.iter().enumerate() {
            draw_line(&mut svg, (line, index), (&x, &y), self.height.plot());
            let (across, down) = places[index];
            draw_name(&mut svg, &line.name, index, (LEFT + across, 27.0 - rows + down));
        }
        svg.push_str("</svg>");
        svg
    }

    /// Where the names of the lines stand, from the first: in rows, because names may be long.
    fn legend(&self) -> Vec<(f64, f64)> {
        let widths = self.lines.iter().map(|line| (text_width(&line.name) + 48.0).max(LEGEND_MIN));
        let column = widths.fold(LEGEND_MIN, f64::max);
        let columns = ((RIGHT - LEFT + 1.0) / column).floor().max(1.0) as usize;
        let place = |index: usize| ((index % columns) as f64 * column, (index / columns) as f64 * LEGEND_ROW);
        (0..self.lines.len()).map(place).collect()
    }

    fn draw_grid(&self, svg: &mut String, x: &Range, y: &Range) {
        let bottom = self.height.plot();
        for tick in y.ticks() {
            let Some(place) = y.place(tick) else { continue };
            let at = bottom - place * (bottom - TOP);
            let label = escaped(&(self.y.tick)(tick));
            let _infallible = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        for tick in x.ticks() {
            let Some(place) = x.place(tick) else { continue };
            let at = LEFT + place * (RIGHT - LEFT);
            let label = escaped(&(self.x.tick)(tick));
            // The last one would be cut off at the edge.
            let anchor = if place > 0.99 { "end" } else { "middle" };
            let _infallible = write!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
                bottom + 5.0,
                bottom + 20.0
            );
        }
        let _infallible = write!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, RIGHT),
            self.height.whole() - 10.0,
            escaped(&self.x.label)
        );
    }
}

fn draw_line(svg: &mut String, (line, index): (&Line, usize), (x, y): (&Range, &Range), bottom: f64) {
    let class = index % DASHES.len();
    let places: Vec<(f64, f64)> = line
        .points
        .iter()
        .filter_map(|point| Some((x.place(point.0)?, y.place(point.1)?)))
        .map(|(x, y)| (LEFT + x * (RIGHT - LEFT), bottom - y * (bottom - TOP)))
        .collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _infallible = write!(
        svg,
        "<polyline class=\"line c{class}\" stroke-dasharray=\"{}\" points=\"{}\"/>",
        DASHES[class],
        path.join(" ")
    );
    // Few points are measurements of their own, many are a course.
    if places.len() <= 12 {
        for (x, y) in places {
            let _infallible =
                write!(svg, "<circle class=\"dot c{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
        }
    }
}

fn draw_name(svg: &mut String, name: &str, index: usize, (at, y): (f64, f64)) {
    let class = index % DASHES.len();
    let _infallible = write!(
        svg,
        "<line class=\"line c{class}\" stroke-dasharray=\"{}\" x1=\"{at:.0}\" x2=\"{:.0}\" y1=\"{y:.0}\" y2=\"{y:.0}\"/>\
         <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
        DASHES[class],
        at + 26.0,
        at + 32.0,
        y + 4.0,
        escaped(name)
    );
}
