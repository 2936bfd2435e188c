//! Values on the command line: sizes, drives, paths.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_api::{DriveSpec, Role};
use ashlar_units::{BLOCK_BYTES, ByteCount};

use crate::failure::{Failure, Result};

/// Bytes with their unit. Without one they would be bytes, which hardly anybody means: `--size 100`.
pub fn bytes(text: &str) -> std::result::Result<ByteCount, String> {
    let count = text.parse::<ByteCount>().map_err(|error| error.to_string())?;
    let has_unit = text.contains(|letter: char| letter.is_ascii_alphabetic());
    if !has_unit && count.0 != 0 {
        return Err(format!(
            "`{}` has no unit: give a unit, e.g. {}B, 64MiB or 10GiB",
            text.trim(),
            text.trim()
        ));
    }
    Ok(count)
}

/// A time with its unit: `90s`, `10m`, `1h`.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        _ => return Err(format!("`{text}` is no time in seconds, minutes or hours: e.g. 90s, 10m or 1h")),
    };
    let count: u64 =
        digits.trim().parse().map_err(|_| format!("`{text}` is no time: e.g. 90s, 10m or 1h"))?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(|| format!("`{text}` is too long"))
}

/// The same, also in days: `90d`.
pub fn days(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.strip_suffix('d').and_then(|days| days.trim().parse::<u64>().ok());
    match seconds.map(|days| days.checked_mul(86_400)) {
        Some(Some(seconds)) => Ok(Duration::from_secs(seconds)),
        Some(None) => Err(format!("`{text}` is too long")),
        None => duration(text)
            .map_err(|_| format!("`{text}` is no time in minutes, hours or days: e.g. 90m, 12h or 90d")),
    }
}

/// What somebody may do.
pub fn role(text: &str) -> std::result::Result<Role, String> {
    let found = Role::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| "say viewer, operator or admin".to_string())
}

/// A bound, or `none`, which the array is told as 0. Whoever types a 0 may mean that nothing is let through.
fn or_none(
    text: &str,
    bound: impl FnOnce(&str) -> std::result::Result<u64, String>,
) -> std::result::Result<u64, String> {
    if text == "none" {
        return Ok(0);
    }
    match bound(text)? {
        0 => Err(format!("`{text}` is no bound: say none where there is to be none")),
        some => Ok(some),
    }
}

/// What a volume may take or what is kept for it: bytes on the drives, or `none`.
pub fn allowance(text: &str) -> std::result::Result<u64, String> {
    or_none(text, |text| Ok(bytes(text)?.0))
}

/// Microseconds of `500us`, `2ms`, `1.5ms` or `1s`.
pub fn latency(text: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("`{text}` is no latency in us, ms or s: e.g. 500us, 2ms or 1s");
    let number = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    let unit = match &text[number.len()..] {
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return Err(wrong()),
    };
    let value: f64 = number.trim().parse().map_err(|_| wrong())?;
    let micros = (value * unit).round();
    if (1.0..=f64::from(u32::MAX)).contains(&micros) { Ok(micros as u64) } else { Err(wrong()) }
}

/// Microseconds of a floor, or `none`.
pub fn floor(text: &str) -> std::result::Result<u64, String> {
    or_none(text, latency)
}

/// Requests a second, or `none`.
pub fn rate(text: &str) -> std::result::Result<u64, String> {
    let wrong = |_| format!("`{text}` is no number of requests a second: e.g. 2000, or none");
    or_none(text, |text| text.parse().map_err(wrong))
}

/// Seconds of a burst, or `none`.
pub fn burst(text: &str) -> std::result::Result<u64, String> {
    or_none(text, |text| Ok(duration(text)?.as_secs()))
}

/// A size in binary or decimal units, rounded up to whole blocks of 4096 bytes: `10GB` is not a whole
/// number of blocks, and a volume may be larger than asked but never smaller.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    bytes(text)?.0.checked_next_multiple_of(BLOCK_BYTES).ok_or_else(|| format!("`{text}` is too large"))
}

/// `PATH` or `PATH,size=10GiB`.
pub fn drive(text: &str) -> std::result::Result<DriveSpec, String> {
    let (path, size_bytes) = match text.rsplit_once(',') {
        Some((path, option)) => match option.split_once('=') {
            Some(("size", value)) => (path, Some(size(value)?)),
            _ => return Err(format!("`{option}` is not an option of a drive: write PATH,size=10GiB")),
        },
        None => (text, None),
    };
    Ok(DriveSpec { path: path_text(path)?, size_bytes, force: false })
}

/// A path made absolute from the directory the command runs in: the array runs in another one.
pub fn path_text(text: &str) -> std::result::Result<String, String> {
    if text.is_empty() {
        return Err("the path is empty".to_string());
    }
    let path = std::path::absolute(text).map_err(|error| format!("`{text}`: {error}"))?;
    path.to_str().map(str::to_string).ok_or_else(|| format!("`{text}` is not UTF-8"))
}

/// The same for paths that this process uses itself.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| Failure::new(format!("`{}` is not a path: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_sizes_are_rounded_up_to_whole_blocks() {
        assert_eq!(size("10GB"), Ok(10_000_003_072));
        assert_eq!(size("64GiB"), Ok(64 << 30));
        assert!(size("64 parsecs").is_err());
        assert_eq!(size("0"), Ok(0));
        assert!(size("16777216TiB").is_err());
    }

    /// `--size 100` made a volume of 4 KiB.
    #[test]
    fn a_size_says_its_unit() {
        for text in ["100", "4096", "1.5", " 10 ", "64424509440"] {
            let told = size(text).unwrap_err();
            assert!(told.contains("give a unit, e.g. "), "{told}");
        }
        assert_eq!((size("4096B"), size("4k")), (Ok(4096), Ok(4096)));
        assert!(drive("/srv/a.img,size=10").is_err());
    }

    #[test]
    fn times_may_be_days() {
        assert_eq!(days("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(days("12h"), Ok(Duration::from_secs(12 * 3600)));
        for wrong in ["90", "d", "90x", "99999999999999999999d", "-1d", ""] {
            assert!(days(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_floor_says_its_unit_or_that_there_is_none() {
        assert_eq!((floor("2ms"), floor("500us"), floor("1s")), (Ok(2000), Ok(500), Ok(1_000_000)));
        assert_eq!((floor("none"), floor("1.5ms")), (Ok(0), Ok(1500)));
        assert!(floor("2").is_err() && floor("0ms").is_err() && floor("-1ms").is_err());
    }

    #[test]
    fn a_bound_of_nothing_is_refused_with_the_word_for_no_bound() {
        assert_eq!((allowance("none"), rate("none"), burst("none")), (Ok(0), Ok(0), Ok(0)));
        assert_eq!((allowance("1GiB"), rate("10"), burst("30s")), (Ok(1 << 30), Ok(10), Ok(30)));
        for wrong in [allowance("0"), allowance("0GiB"), rate("0"), burst("0s")] {
            let told = wrong.unwrap_err();
            assert!(told.contains("say none"), "{told}");
        }
    }

    #[test]
    fn drives_take_a_size_and_nothing_else() {
        let spec = drive("/srv/a,b.img,size=1GiB").expect("a comma in the path is fine");
        assert_eq!((spec.path.as_str(), spec.size_bytes), ("/srv/a,b.img", Some(1 << 30)));
        assert_eq!(drive("/dev/nvme0n1").expect("a bare path").size_bytes, None);
        assert!(drive("/srv/a.img,sise=1GiB").is_err());
        assert!(drive("/srv/a.img,size=").is_err());
    }
}
