//! The address of a simulated array in text, and an array in words.
//!
//! `sim-hdd:drives=14,model=15k-300g,raid=10,window=2`: keys in any order, each at most once, and what is
//! left out has its default. Sizes are written as elsewhere in the lab: 64k is 64 KiB, 25GB is decimal.

use std::time::Duration;

use crate::array::spec::{Admission, Flash, Spec};
use crate::drive::discipline::Discipline;
use crate::drive::preset::Model;
use ashlar_report::nearest;

use crate::error::{Error, Result};
use crate::layout::Raid;

/// What an address begins with.
pub const SCHEME: &str = "sim-hdd:";

/// One key: how its value is set, and how it is told.
struct Key {
    name: &'static str,
    /// What the error says was wanted.
    wanted: &'static str,
    set: fn(&mut Spec, &str) -> Option<()>,
    get: fn(&Spec) -> String,
}

const SIZE: &str = "a size, as in 0, 64k, 512MiB or 25GB";
const TIME: &str = "a time, as in 70us or 0.1ms";

const KEYS: [Key; 16] = [
    Key {
        name: "drives",
        wanted: "a count of working drives, without spares",
        set: |spec, text| put(&mut spec.drives, text.parse().ok()),
        get: |spec| spec.drives.to_string(),
    },
    Key {
        name: "model",
        wanted: "`15k-300g`, `10k-300g` or `7k2`",
        set: |spec, text| put(&mut spec.model, Model::presets().into_iter().find(|model| model.name == text)),
        get: |spec| spec.model.name.to_string(),
    },
    Key {
        name: "raid",
        wanted: "`0`, `1`, `10`, `5` or `6`",
        set: |spec, text| put(&mut spec.raid, Raid::ALL.into_iter().find(|raid| raid.level() == text)),
        get: |spec| spec.raid.level().to_string(),
    },
    Key {
        name: "chunk",
        wanted: SIZE,
        set: |spec, text| put(&mut spec.chunk_bytes, size(text)),
        get: |spec| size_text(spec.chunk_bytes),
    },
    Key {
        name: "discipline",
        wanted: "`fcfs`, `cscan` or `sptf`",
        set: |spec, text| {
            put(&mut spec.discipline, Discipline::ALL.into_iter().find(|known| known.name() == text))
        },
        get: |spec| spec.discipline.name().to_string(),
    },
    Key {
        name: "window",
        wanted: "a count of waiting requests",
        set: |spec, text| put(&mut spec.window, text.parse().ok()),
        get: |spec| spec.window.to_string(),
    },
    Key {
        name: "depth",
        wanted: "a count of requests",
        set: |spec, text| put(&mut spec.queue_depth, text.parse().ok()),
        get: |spec| spec.queue_depth.to_string(),
    },
    Key {
        name: "overhead",
        wanted: TIME,
        set: |spec, text| put(&mut spec.overhead, time(text)),
        get: |spec| time_text(spec.overhead),
    },
    Key {
        name: "write_cache",
        wanted: SIZE,
        set: |spec, text| put(&mut spec.write_cache_bytes, size(text)),
        get: |spec| size_text(spec.write_cache_bytes),
    },
    Key {
        name: "high_water",
        wanted: "a share, as in 80%",
        set: |spec, text| {
            let percent: Option<f64> = text.strip_suffix('%').and_then(|number| number.parse().ok());
            put(&mut spec.high_water, percent.map(|percent| percent / 100.0))
        },
        get: |spec| format!("{}%", spec.high_water * 100.0),
    },
    Key {
        name: "read_cache",
        wanted: SIZE,
        set: |spec, text| put(&mut spec.read_cache_bytes, size(text)),
        get: |spec| size_text(spec.read_cache_bytes),
    },
    Key {
        name: "flash",
        wanted: SIZE,
        set: |spec, text| put(&mut spec.flash.size_bytes, size(text)),
        get: |spec| size_text(spec.flash.size_bytes),
    },
    Key {
        name: "flash_block",
        wanted: SIZE,
        set: |spec, text| put(&mut spec.flash.block_bytes, size(text)),
        get: |spec| size_text(spec.flash.block_bytes),
    },
    Key {
        name: "flash_admit",
        wanted: "`first` or `second`",
        set: |spec, text| {
            let admission = Admission::ALL.into_iter().find(|known| known.name() == text);
            put(&mut spec.flash.admission, admission)
        },
        get: |spec| spec.flash.admission.name().to_string(),
    },
    Key {
        name: "flash_latency",
        wanted: TIME,
        set: |spec, text| put(&mut spec.flash.latency, time(text)),
        get: |spec| time_text(spec.flash.latency),
    },
    Key {
        name: "flash_rate",
        wanted: "bytes per second, as in 1GB/s",
        set: |spec, text| put(&mut spec.flash.bytes_per_second, text.strip_suffix("/s").and_then(size)),
        get: |spec| format!("{}/s", size_text(spec.flash.bytes_per_second)),
    },
];

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

impl Spec {
    /// From an address. An error names the key, what is allowed, and the nearest key to one that is unknown.
    pub fn parse(address: &str) -> Result<Spec> {
        let Some(settings) = address.strip_prefix(SCHEME) else {
            return Err(Error::description(format!("`{address}` does not begin with `{SCHEME}`")));
        };
        let mut spec = Spec::default();
        let mut seen: Vec<&str> = Vec::new();
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let key = key(name)?;
            if seen.contains(&key.name) {
                return Err(Error::description(format!("`{name}` is given twice")));
            }
            seen.push(key.name);
            if (key.set)(&mut spec, value).is_none() {
                let wanted = key.wanted;
                return Err(Error::description(format!("`{name}={value}`: allowed is {wanted}")));
            }
        }
        spec.check()?;
        Ok(spec)
    }

    /// The address that leads to this array: the drives, the layout and the order in any case, and what else
    /// differs from the default.
    #[must_use]
    pub fn address(&self) -> String {
        const ALWAYS: [&str; 4] = ["drives", "model", "raid", "window"];
        let default = Spec::default();
        let is_told = |key: &&Key| ALWAYS.contains(&key.name) || (key.get)(self) != (key.get)(&default);
        let settings = KEYS.iter().filter(is_told).map(|key| format!("{}={}", key.name, (key.get)(self)));
        format!("{SCHEME}{}", settings.collect::<Vec<_>>().join(","))
    }

    /// In words, for reports: the drives, the layout, the order, the caches, and that it is simulated.
    #[must_use]
    pub fn in_words(&self) -> String {
        let Spec { drives, model, raid, window, .. } = self;
        let plural = if *drives == 1 { "" } else { "s" };
        let mut parts = vec![
            format!("{drives} x {} drive{plural}", model.words),
            format!("RAID {}", raid.level()),
            match self.discipline {
                Discipline::Fcfs => "first come first served".to_string(),
                Discipline::CScan => format!("upward sweep over {window} waiting"),
                Discipline::Sptf => format!("reorder window {window}"),
            },
        ];
        if self.write_cache_bytes > 0 {
            parts.push(format!("write cache {}", size_in_words(self.write_cache_bytes)));
        }
        if self.read_cache_bytes > 0 {
            parts.push(format!("read cache {}", size_in_words(self.read_cache_bytes)));
        }
        let Flash { size_bytes, admission, .. } = self.flash;
        if size_bytes > 0 {
            let on = admission.name();
            parts.push(format!("flash cache {} filled on {on} read", size_in_words(size_bytes)));
        }
        format!("{}; simulated", parts.join(", "))
    }
}

fn key(name: &str) -> Result<&'static Key> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let near = nearest(name, KEYS.iter().map(|key| key.name)).expect("there are keys");
        let known = KEYS.map(|key| key.name).join(", ");
        Error::description(format!(
            "unknown key `{name}`; the nearest known key is `{near}`; all are {known}"
        ))
    })
}

/// Where two units fit, the first one is printed.
const SIZE_UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("k", 1 << 10),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("B", 1),
];

const TIME_UNITS: [(&str, f64); 4] = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];

/// Bytes: a whole number with a unit; nothing is nothing in any unit.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn size_text(bytes: u64) -> String {
    size_with(bytes, "")
}

fn size_in_words(bytes: u64) -> String {
    size_with(bytes, " ").replace(" k", " KiB")
}

fn size_with(bytes: u64, space: &str) -> String {
    let is_whole = |unit: &&(&str, u64)| bytes >= unit.1 && bytes.is_multiple_of(unit.1);
    match SIZE_UNITS.iter().find(is_whole) {
        Some((name, unit)) => format!("{}{space}{name}", bytes / unit),
        None => "0".to_string(),
    }
}

/// A number with a unit, as in 70us or 0.1ms; nothing is nothing in any unit.
#[must_use]
pub fn time(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()
}

fn time_text(time: Duration) -> String {
    format!("{}us", time.as_nanos() as f64 / 1000.0)
}

#[cfg(test)]
mod tests;
