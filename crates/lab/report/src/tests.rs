//! Pages and charts as a browser gets them.

use crate::{Axis, Chart, Line, Page, Scale, bytes, count, nanos, seconds};

fn chart(scale: Scale, points: &[(f64, f64)]) -> String {
    let axis = |scale| Axis { label: "y".into(), scale, tick: count };
    let lines = vec![Line { name: "p99 <ms>".into(), points: points.to_vec() }];
    Chart { title: "a & b".into(), x: axis(Scale::Linear), y: axis(scale), lines }.svg()
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
}
