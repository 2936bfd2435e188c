//! `ashlar pool set-drive`, and how worn a drive is in a line.

use ashlar_api::{Drive, DriveChange};

use super::show;
use crate::Context;
use crate::failure::Result;
use crate::output::{size, utc};
use crate::parse;

/// A date further away than this says nothing. Arbitrary: no drive lasts as long.
const FORECAST_SECONDS_MAX: u64 = 100 * 365 * 24 * 60 * 60;

/// Declare what may be written to a drive in its life.
///
/// `ashlar pool show` then tells how worn the drive is and, after a day, when it will be worn out at the
/// rate so far; the log tells when it is 80 % and 95 % worn. An NVMe drive's own report of its wear goes
/// first. The declaration stays with the drive: one that replaces it starts anew.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool set-drive main 3 --endurance 600TB\n  \
    ashlar pool set-drive main 3 --endurance none")]
pub struct SetDrive {
    /// Name of the pool.
    pool: String,
    /// Number of the drive, as `ashlar pool show` tells it.
    number: u32,
    /// What its data sheet calls TBW; `none` when that is not known.
    #[arg(long, value_name = "SIZE|none", value_parser = endurance)]
    endurance: Endurance,
}

/// Bytes, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Endurance(Option<u64>);

fn endurance(text: &str) -> std::result::Result<Endurance, String> {
    if text == "none" {
        return Ok(Endurance(None));
    }
    let bytes = parse::bytes(text).map_err(|error| format!("{error}, or `none`"))?;
    if bytes.0 == 0 { Err("write `none` to clear it".to_string()) } else { Ok(Endurance(Some(bytes.0))) }
}

impl SetDrive {
    pub fn run(self, context: &Context) -> Result<()> {
        let change = DriveChange { endurance_bytes: self.endurance.0 };
        let pool = context.client()?.drive_set(&self.pool, self.number, &change)?;
        Ok(context.output.print(&pool, show)?)
    }
}

/// What was written over a drive's life, its endurance, how worn it is, and until when it lasts.
pub fn wear_line(drive: &Drive) -> Option<String> {
    let since = drive.counted_since_unix_seconds?;
    let mut parts = vec![format!("{} written since {}", size(drive.written_bytes), day(since))];
    if let Some(bytes) = drive.reported_written_bytes {
        parts.push(format!("{} in its life by its own count", size(bytes)));
    }
    if let Some(bytes) = drive.endurance_bytes {
        parts.push(format!("endurance {}", size(bytes)));
    }
    if let Some(percent) = drive.worn_percent {
        parts.push(format!("{percent} % worn"));
        parts.push(forecast(drive, since));
    }
    Some(parts.join(", "))
}

fn forecast(drive: &Drive, since: u64) -> String {
    match drive.worn_out_unix_seconds {
        _ if drive.worn_percent >= Some(100) => "worn out".to_string(),
        Some(then) if then - since.min(then) > FORECAST_SECONDS_MAX => "lasts 100 years and more".to_string(),
        Some(then) => format!("worn out on {} at this rate", day(then)),
        // Without an endurance a forecast needs both of what a drive can report, and more than nothing.
        None if drive.endurance_bytes.is_none()
            && (drive.worn_percent == Some(0) || drive.reported_written_bytes.is_none()) =>
        {
            "too little is known for a forecast".to_string()
        }
        None => "forecast after a day of counting".to_string(),
    }
}

fn day(unix_seconds: u64) -> String {
    utc(unix_seconds).split(' ').next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endurances_are_sizes_or_none() {
        assert_eq!(endurance("600TB"), Ok(Endurance(Some(600_000_000_000_000))));
        assert_eq!(endurance("none"), Ok(Endurance(None)));
        assert!(endurance("0").is_err());
        assert!(endurance("long").expect_err("no size").contains("`none`"));
    }

    #[test]
    fn a_line_says_what_is_known_and_no_more() {
        assert_eq!(wear_line(&Drive::default()), None);
        let mut drive = Drive {
            written_bytes: 3 << 30,
            counted_since_unix_seconds: Some(951_782_400),
            ..Drive::default()
        };
        assert_eq!(wear_line(&drive).as_deref(), Some("3 GiB written since 2000-02-29"));
        drive.endurance_bytes = Some(4 << 40);
        drive.worn_percent = Some(0);
        let text = wear_line(&drive).unwrap_or_default();
        assert!(text.ends_with("endurance 4 TiB, 0 % worn, forecast after a day of counting"));
        drive.worn_out_unix_seconds = Some(1_798_761_599);
        let text = wear_line(&drive).unwrap_or_default();
        assert!(text.ends_with("0 % worn, worn out on 2026-12-31 at this rate"), "{text}");
        drive.worn_out_unix_seconds = Some(u64::MAX);
        assert!(wear_line(&drive).unwrap_or_default().ends_with("lasts 100 years and more"));
        drive.worn_percent = Some(104);
        assert!(wear_line(&drive).unwrap_or_default().ends_with("104 % worn, worn out"));
    }
}
