//! Bars with their intervals, lying one below the other, and what somebody else published beside them.
//!
//! The name of a group stands above its bars, so that long names have room on a telephone, too.

use std::fmt::Write as _;

use crate::page::escaped;
use crate::text_width;

/// Bars in groups, one colour for each series.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Says what is to be seen, for those who cannot see it.
    pub title: String,
    /// What is counted, with the unit.
    pub label: String,
    /// A value in words.
    pub tick: fn(f64) -> String,
    pub series: Vec<Series>,
    pub groups: Vec<Group>,
}

/// Bars of one colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// What its bars are of.
    pub name: String,
    /// Nobody measured it: its bars are hatched.
    pub is_simulated: bool,
}

/// Bars that are compared with each other.
#[derive(Clone, Debug)]
pub struct Group {
    pub name: String,
    /// Each with the number of its series; `None` where nothing was measured.
    pub bars: Vec<(usize, Option<Bar>)>,
    /// What somebody else measured: an outlined mark, never a bar.
    pub published: Option<f64>,
}

/// One value, with the interval it is believed to lie in.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    pub value: f64,
    pub interval: Option<(f64, f64)>,
}

/// Narrow, so that it can be read on a telephone without being moved.
const WIDTH: f64 = 420.0;
/// Bars begin at the left, and leave room for their values at the right.
const LEFT: f64 = 2.0;
const RIGHT: f64 = 322.0;
/// Where a published value stands that is beyond the end.
const EDGE: f64 = 412.0;
const TOP: f64 = 26.0;
const LEGEND: f64 = 20.0;
const NAME: f64 = 17.0;
const BAR: f64 = 13.0;
/// Between bars of a group, and between groups.
const GAP: f64 = 3.0;
const GROUP_GAP: f64 = 10.0;
/// A published value that is so many times ours would leave nothing of our bars: it stands at the edge.
const PUBLISHED_TIMES_MAX: f64 = 2.5;
/// Over the bars of what nobody measured. Each drawing has its own, and all are alike.
const HATCH: &str = "<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><rect class=\"hatch\" width=\"2\" height=\"5\"/></pattern></defs>";
/// Colours there are.
const COLOURS: usize = 5;

/// A name in the legend, and where it stands.
struct Entry {
    /// Whose colour it explains; `None`: the mark of what was published.
    series: Option<usize>,
    name: String,
    x: f64,
    y: f64,
}

impl Group {
    fn height(&self) -> f64 {
        NAME + self.bars.len() as f64 * (BAR + GAP) + GROUP_GAP
    }
}

impl Bars {
    /// The drawing, to be put into a page.
    #[must_use]
    pub fn svg(&self) -> String {
        let legend = self.legend();
        let top = TOP + legend.last().map_or(0.0, |last| last.y + LEGEND);
        let height = top + self.groups.iter().map(Group::height).sum::<f64>();
        let mut svg = format!(
            "<svg class=\"bars\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>\
             <text class=\"axis\" x=\"{LEFT}\" y=\"14\">{1}</text>",
            escaped(&self.title),
            escaped(&self.label)
        );
        if self.series.iter().any(|series| series.is_simulated) {
            svg.push_str(HATCH);
        }
        legend.iter().for_each(|entry| self.draw_legend(&mut svg, entry));
        let (mut y, last) = (top, self.last());
        for group in &self.groups {
            self.draw_group(&mut svg, group, y, last);
            y += group.height();
        }
        svg.push_str("</svg>");
        svg
    }

    /// The value at the right end.
    fn last(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|group| group.bars.iter().filter_map(|(_, bar)| *bar));
        let ours = bars.map(|bar| bar.interval.map_or(bar.value, |(_, high)| high.max(bar.value)));
        let ours = ours.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let published = self.groups.iter().filter_map(|group| group.published);
        let near = published.filter(|value| *value <= ours * PUBLISHED_TIMES_MAX || ours <= 0.0);
        let last = near.fold(ours, f64::max);
        if last > 0.0 { last } else { 1.0 }
    }

    /// What the colours stand for, where there are several, and the mark of what was published: in rows.
    fn legend(&self) -> Vec<Entry> {
        let of_series = |(index, series): (usize, &Series)| {
            let simulated = if series.is_simulated { ", simulated" } else { "" };
            (Some(index), format!("{}{simulated}", series.name))
        };
        let several = self.series.iter().enumerate().filter(|_| self.series.len() > 1);
        let has_published = self.groups.iter().any(|group| group.published.is_some());
        let published = has_published.then(|| (None, "published".to_string()));
        let (mut x, mut y) = (LEFT, 0.0);
        let placed = several.map(of_series).chain(published).map(|(series, name)| {
            let width = 18.0 + text_width(&name);
            if x > LEFT && x + width > WIDTH {
                (x, y) = (LEFT, y + LEGEND);
            }
            let entry = Entry { series, name, x, y };
            x += width + 18.0;
            entry
        });
        placed.collect()
    }

    fn draw_legend(&self, svg: &mut String, Entry { series, name, x, y }: &Entry) {
        let y = TOP + 4.0 + y;
        match series {
            Some(index) => self.draw_box(svg, *index, (*x, y - 10.0), (12.0, 12.0)),
            None => {
                let _infallible = write!(
                    svg,
                    "<rect class=\"paper\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"14\"/>",
                    x + 6.0,
                    y - 11.0
                );
            }
        }
        let _infallible = write!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 18.0, escaped(name));
    }

    fn draw_box(&self, svg: &mut String, series: usize, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
        let _infallible = write!(svg, "<rect class=\"b{}\" {place}/>", series % COLOURS);
        if self.series[series].is_simulated {
            let _infallible = write!(svg, "<rect fill=\"url(#hatch)\" {place}/>");
        }
    }

    fn draw_group(&self, svg: &mut String, group: &Group, top: f64, last: f64) {
        let place = |value: f64| LEFT + (value / last).clamp(0.0, 1.0) * (RIGHT - LEFT);
        let published = group.published.filter(|value| value.is_finite());
        let mark = published.map(|value| if value > last { EDGE } else { place(value) });
        let _infallible =
            write!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>", top + 12.0, escaped(&group.name));
        for (index, (series, bar)) in group.bars.iter().enumerate() {
            let y = top + NAME + index as f64 * (BAR + GAP);
            let bar = bar.filter(|bar| bar.value.is_finite());
            let text = bar.map_or_else(|| "not measured".into(), |bar| (self.tick)(bar.value));
            let mut x = LEFT;
            if let Some(bar) = bar {
                self.draw_box(svg, *series, (LEFT, y), ((place(bar.value) - LEFT).max(1.0), BAR));
                draw_interval(svg, &bar, y, place);
                x = place(bar.interval.map_or(bar.value, |(_, high)| high)) + 8.0;
            }
            // Behind the mark where it would stand in it.
            x = mark
                .filter(|mark| (x - 6.0..x + text_width(&text)).contains(mark))
                .map_or(x, |mark| mark + 9.0);
            let _infallible = write!(
                svg,
                "<text class=\"axis\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                y + 11.0,
                escaped(&text)
            );
        }
        if let (Some(value), Some(mark)) = (published, mark) {
            let arrow = if value > last { " \u{2192}" } else { "" };
            let text = format!("{}{arrow}", (self.tick)(value));
            draw_published(svg, group, (mark, top + NAME), &text);
        }
    }
}

/// The mark over all bars of a group, and its value beside it, if the name of the group leaves room there.
fn draw_published(svg: &mut String, group: &Group, (x, y): (f64, f64), text: &str) {
    let after_name = LEFT + text_width(&group.name) + 12.0;
    let is_beside = x - 3.0 >= after_name && x + text_width(text) <= WIDTH;
    let (at, anchor) = if is_beside { (x - 3.0, "start") } else { (EDGE + 3.0, "end") };
    let _infallible = write!(
        svg,
        "<rect class=\"paper\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"{:.1}\"/>\
         <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        x - 3.0,
        y - 2.0,
        group.bars.len() as f64 * (BAR + GAP) + 2.0,
        y - 5.0,
        escaped(text)
    );
}

fn draw_interval(svg: &mut String, bar: &Bar, y: f64, place: impl Fn(f64) -> f64) {
    if let Some((low, high)) = bar.interval {
        let (low, high, middle) = (place(low), place(high), y + BAR / 2.0);
        let _infallible = write!(
            svg,
            "<path class=\"whisker\" d=\"M{low:.1},{middle:.1}H{high:.1}M{low:.1},{0:.1}V{1:.1}M{high:.1},{0:.1}V{1:.1}\"/>",
            middle - 4.0,
            middle + 4.0
        );
    }
}
