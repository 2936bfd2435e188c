//! The run as a picture: transactions per second over time, with a mark for each thing that happened.

use crate::error::{Error, Result};
use ashlar_postgres::LoadLog;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Seconds that one point of the curve stands for.
const STEP_SECONDS: f64 = 1.0;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 380.0;
/// The plot within the picture.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 885.0;
const TOP: f64 = 120.0;
const BOTTOM: f64 = 340.0;
/// Rows of labels above the plot, so that marks close to each other can be read.
const LABEL_ROWS: usize = 5;
const LABEL_HEIGHT: f64 = 17.0;

/// Something that happened, in seconds of the epoch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: f64,
    pub(crate) what: String,
}

/// Transactions per second of each run of the load, and what happened meanwhile.
pub(crate) struct Record {
    runs: Vec<Vec<(f64, f64)>>,
    events: Vec<Event>,
    start: f64,
    end: f64,
}

impl Record {
    pub(crate) fn new(runs: &[LoadLog], events: Vec<Event>) -> Self {
        let runs: Vec<Vec<(f64, f64)>> = runs.iter().map(|run| run.rates(STEP_SECONDS)).collect();
        let times = runs.iter().flatten().map(|(at, _)| *at).chain(events.iter().map(|event| event.at));
        let (start, end) = times.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
        Self { runs, events, start, end: end.max(start + 1.0) }
    }

    /// Writes `demo.svg` and `demo.json` into a directory.
    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        let put = |name: &str, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|e| Error::io(&format!("write {}", path.display()), e))
        };
        fs::create_dir_all(directory)
            .map_err(|e| Error::io(&format!("make the directory {}", directory.display()), e))?;
        put("demo.json", self.json())?;
        put("demo.svg", self.svg())
    }

    fn json(&self) -> String {
        let second = |at: f64| ((at - self.start) * 10.0).round() / 10.0;
        let run = |run: &Vec<(f64, f64)>| -> Vec<[f64; 2]> {
            run.iter().map(|(at, rate)| [second(*at), rate.round()]).collect()
        };
        let runs: Vec<Vec<[f64; 2]>> = self.runs.iter().map(run).collect();
        let events: Vec<serde_json::Value> = self
            .events
            .iter()
            .map(|event| serde_json::json!({ "second": second(event.at), "what": event.what }))
            .collect();
        let all = serde_json::json!({ "transactions_per_second": runs, "events": events });
        format!("{all:#}\n")
    }

    fn x(&self, at: f64) -> f64 {
        LEFT + (at - self.start) / (self.end - self.start) * (RIGHT - LEFT)
    }

    fn svg(&self) -> String {
        let highest = self.runs.iter().flatten().map(|(_, rate)| *rate).fold(1.0, f64::max);
        let top_rate = (highest / 1000.0).ceil().max(1.0) * 1000.0;
        let y = |rate: f64| BOTTOM - rate / top_rate * (BOTTOM - TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\" role=\"img\" aria-label=\"Transactions per second while the demo runs\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
        );
        for line in 0..=4 {
            let rate = top_rate * f64::from(line) / 4.0;
            let at = y(rate);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"#dddddd\"/><text x=\"{:.0}\" y=\"{:.1}\" \
                 text-anchor=\"end\" fill=\"#444444\">{rate:.0}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        self.draw_seconds(&mut svg);
        for run in &self.runs {
            let points: Vec<String> =
                run.iter().map(|(at, rate)| format!("{:.1},{:.1}", self.x(*at), y(*rate))).collect();
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"#1f6feb\" stroke-width=\"1.6\" points=\"{}\"/>",
                points.join(" ")
            );
        }
        self.draw_events(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_seconds(&self, svg: &mut String) {
        let length = self.end - self.start;
        let step = [5.0, 10.0, 20.0, 30.0, 60.0, 120.0].into_iter().find(|step| length / step <= 14.0);
        let step = step.unwrap_or(300.0);
        let mut second = 0.0;
        while second <= length {
            let x = self.x(self.start + second);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#444444\">{second:.0} s</text>",
                BOTTOM + 18.0
            );
            second += step;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{:.0}\" fill=\"#444444\">PostgreSQL transactions per second</text>",
            BOTTOM + 36.0
        );
    }

    /// The labels go down a row each, so that neighbours do not cover one another, and lie above all lines.
    fn draw_events(&self, svg: &mut String) {
        let row_of =
            |number: usize| TOP - 22.0 - LABEL_HEIGHT * (LABEL_ROWS - 1 - number % LABEL_ROWS) as f64;
        for (number, event) in self.events.iter().enumerate() {
            let (x, top) = (self.x(event.at), row_of(number) - 9.0);
            let line = format!("<path d=\"M{x:.1} {top:.0}V{BOTTOM}\" stroke=\"#b35900\"");
            let _ = writeln!(svg, "{line} stroke-dasharray=\"3 3\"/>");
        }
        for (number, event) in self.events.iter().enumerate() {
            let (x, row) = (self.x(event.at), row_of(number));
            // What would not fit to the right of its line stands to the left of it.
            let (anchor, aside) = if x > (LEFT + RIGHT) / 2.0 { ("end", -4.0) } else { ("start", 4.0) };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{row:.0}\" text-anchor=\"{anchor}\" fill=\"#b35900\" stroke=\"#ffffff\" \
                 stroke-width=\"4\" paint-order=\"stroke\">{}</text>",
                x + aside,
                event.what
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        // Client, number, micros, script, second, micros.
        let log = (0..400).map(|n| format!("0 {n} 500 0 {} 0\n", 1_000 + n / 100)).collect::<String>();
        let events = vec![Event { at: 1_001.5, what: "snapshot".into() }];
        Record::new(&[LoadLog::of(&log)], events)
    }

    #[test]
    fn a_record_tells_rates_and_events_from_its_own_start() {
        let json: serde_json::Value = serde_json::from_str(&record().json()).expect("it is JSON");
        let rates = json["transactions_per_second"][0].as_array().expect("a run");
        assert!(rates.iter().all(|point| point[1].as_f64() == Some(100.0)), "{rates:?}");
        assert_eq!(json["events"][0]["what"], "snapshot");
        assert!(json["events"][0]["second"].as_f64().is_some_and(|second| second > 0.0 && second < 2.5));
    }

    #[test]
    fn a_picture_has_its_curve_and_its_labels() {
        let svg = record().svg();
        assert!(svg.contains("<polyline") && svg.contains(">snapshot</text>"), "{svg}");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
