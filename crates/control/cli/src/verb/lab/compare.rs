//! `ashlar lab compare`: a result held against an earlier one.

use std::path::PathBuf;

use ashlar_run::{Against, Asked};

use crate::Context;
use crate::failure::{Failure, Result};
use crate::output::table;

/// Hold a result against an earlier one of the same experiment: before and after a change, or two machines.
///
/// Measures nothing. Every variant that both have is compared by the ratio of the means with a 95 % interval.
/// Each needs three repetitions, so not preset xs. Exit status 4: something is slower; 3: a result is a
/// part or not valid, or a comparison cannot be told.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar lab compare before after --metric iops,latency_p99_millis --equal 3%"
)]
pub struct Compare {
    /// The directory of the earlier result.
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The directory of the result in question.
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// What to compare: iops, megabytes_per_second, tps, nopm, latency_millis, latency_p99_millis
    /// [default: the rate and the 99th percentile of latency].
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    metric: Vec<String>,
    /// Values within this of each other are equal.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    equal: f64,
}

impl Compare {
    pub fn run(self, context: &Context) -> Result<()> {
        let [base, other] = [&self.base, &self.other].map(|path| crate::parse::absolute(path));
        let asked = Asked { metrics: self.metric, equal_percent: self.equal };
        let against = ashlar_run::against(&base?, &other?, &asked)?;
        context.output.print(&against, text)?;
        let slower = against.slower();
        match (slower.first(), against.open()) {
            (Some(first), _) => {
                let more = slower.len() - 1;
                let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                Err(Failure::Finding(format!("{}: slower: {first}{more}", against.scenario)))
            }
            (None, Some(why)) => Err(Failure::Part(format!("{}: {why}", against.scenario))),
            (None, None) => Ok(()),
        }
    }
}

fn text(against: &Against) -> String {
    let header = ["variant", "target", "what", "before", "after", "ratio", "verdict"];
    format!("{}\n\n{}", against.heading(), table(&header, &[3, 4], &against.rows()))
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("write it with its sign, as in 3%")?;
    let value: f64 = number.trim().parse().map_err(|_| format!("`{number}` is no number"))?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("from 0% to 100%".into()) }
}
