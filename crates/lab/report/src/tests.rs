//! Pages and charts as a browser gets them.

use crate::{
    Axis, Bar, Bars, Chart, Group, Height, Line, Page, Scale, Series, bytes, count, day, nanos, seconds,
};

fn chart(scale: Scale, points: &[(f64, f64)]) -> String {
    let axis = |scale| Axis { label: "y".into(), scale, tick: count };
    let lines = vec![Line { name: "p99 <ms>".into(), points: points.to_vec() }];
    Chart { title: "a & b".into(), x: axis(Scale::Linear), y: axis(scale), lines, height: Height::Full }.svg()
}

#[test]
fn a_curve_reaches_from_the_left_bottom_to_the_right_top_of_its_plot() {
    let svg = chart(Scale::Linear, &[(0.0, 0.0), (50.0, 100.0)]);
    assert!(svg.contains("points=\"78.0,248.0 704.0,40.0\""), "{svg}");
}

#[test]
fn a_decade_of_a_logarithmic_axis_is_as_long_as_the_next() {
    let svg = chart(Scale::Logarithmic, &[(0.0, 1.0), (1.0, 10.0), (2.0, 100.0)]);
    assert!(svg.contains("78.0,248.0 ") && svg.contains(",144.0 ") && svg.contains("704.0,40.0"), "{svg}");
}

#[test]
fn nothing_to_draw_and_values_that_cannot_be_shown_make_no_broken_drawing() {
    for points in [&[][..], &[(0.0, 0.0)], &[(1.0, f64::NAN), (2.0, -3.0)]] {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = chart(scale, points);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn what_is_written_into_a_page_is_text_and_never_markup() {
    let mut page = Page::new("a <b> & c");
    page.table(&["x", "n"], &[1], &[vec!["bad:<script>".into(), "\"1\"".into()]]);
    let html = page.finish();
    assert!(html.contains("<title>a &lt;b&gt; &amp; c</title>"));
    assert!(html.contains("<span class=\"mark bad\">&lt;script&gt;</span>") && !html.contains("<script"));
    assert!(!html.contains("http://") && !html.contains("https://"), "a page needs no network");
}

#[test]
fn numbers_have_three_digits_that_count() {
    assert_eq!([nanos(840.0), nanos(1_204_000.0), nanos(99_960.0)], ["840 ns", "1.20 ms", "100 µs"]);
    assert_eq!([count(0.4), count(9_876.0), count(123_456.0)], ["0", "9,876", "123,000"]);
    assert_eq!([bytes(512), bytes(3 << 29), bytes(1 << 40)], ["512 B", "1.50 GiB", "1.00 TiB"]);
    assert_eq!([seconds(45), seconds(120), seconds(125)], ["45 s", "2 min", "2 min 5 s"]);
    assert_eq!([seconds(7199), seconds(7200), seconds(12_059)], ["119 min 59 s", "2 h", "3 h 20 min"]);
}

#[test]
fn days_are_those_of_the_calendar() {
    assert_eq!(day(951_782_400 + 3 * 3600 + 65), "2000-02-29 03:01 UTC");
    assert_eq!(day(1_798_761_599), "2026-12-31 23:59 UTC");
}

fn bars(value: f64, interval: Option<(f64, f64)>, published: Option<f64>) -> String {
    let bars = vec![(0, Some(Bar { value, interval })), (1, None)];
    let groups = vec![Group { name: "read <4k>".into(), bars, published }];
    let series = |name: &str| Series { name: name.into(), is_simulated: name == "there" };
    let series = vec![series("here"), series("there")];
    Bars { title: "t".into(), label: "a second".into(), tick: count, series, groups }.svg()
}

#[test]
fn the_longest_bar_reaches_the_end_and_its_interval_is_drawn() {
    let svg = bars(50.0, Some((25.0, 100.0)), None);
    // Of 320 pixels half is the bar, and the whisker goes from a quarter to the end.
    assert!(svg.contains("width=\"160.0\"") && svg.contains("M82.0,") && svg.contains("H322.0"), "{svg}");
    assert!(svg.contains("read &lt;4k&gt;") && svg.contains("not measured"), "{svg}");
    // What is simulated says so, and its colour is hatched: here in the legend alone.
    assert!(svg.contains("there, simulated") && svg.matches("url(#hatch)").count() == 1, "{svg}");
}

#[test]
fn what_was_published_is_outlined_and_does_not_squeeze_our_bars() {
    let near = bars(50.0, None, Some(100.0));
    assert!(near.contains("width=\"160.0\"") && near.contains("class=\"paper\" x=\"319.0\""), "{near}");
    let far = bars(50.0, None, Some(700_000.0));
    assert!(far.contains("width=\"320.0\"") && far.contains("700,000 \u{2192}"), "{far}");
}

#[test]
fn bars_of_nothing_are_no_broken_drawing() {
    for svg in [bars(0.0, None, None), bars(f64::NAN, None, Some(f64::NAN)), bars(0.0, None, Some(5.0))] {
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn names_of_many_lines_stand_in_rows() {
    let axis = || Axis { label: "y".into(), scale: Scale::Linear, tick: count };
    let line =
        |number: u32| Line { name: format!("sequential-write-64k-{number}"), points: vec![(1.0, 1.0)] };
    let lines = (0..5).map(line).collect();
    let svg = Chart { title: "t".into(), x: axis(), y: axis(), lines, height: Height::Full }.svg();
    assert!(svg.contains("viewBox=\"0 -18 720 318\""), "two rows: {svg}");
}

/// The harm: of four targets the last one's name was cut off at the edge.
#[test]
fn a_legend_goes_on_in_the_next_row() {
    let name = |index: u32| Series { name: format!("target-number-{index}"), is_simulated: index > 1 };
    let series: Vec<Series> = (0..4).map(name).collect();
    let bar = Bar { value: 1.0, interval: None };
    let groups = vec![Group { name: "g".into(), bars: vec![(0, Some(bar))], published: Some(1.0) }];
    let svg = Bars { title: "t".into(), label: "l".into(), tick: count, series, groups }.svg();
    let rows: Vec<bool> = (0..4).map(|row| svg.contains(&format!("y=\"{}.0\">", 30 + 20 * row))).collect();
    assert_eq!(rows, [true, true, true, false], "{svg}");
}

#[test]
fn what_is_typed_is_set_apart_and_a_single_backtick_stays() {
    let mut page = Page::new("t");
    page.paragraph("say `a<b` and `c`");
    page.remark("one ` alone");
    let html = page.finish();
    assert!(html.contains("<p>say <code>a&lt;b</code> and <code>c</code></p>"), "{html}");
    assert!(html.contains("one ` alone"));
}
