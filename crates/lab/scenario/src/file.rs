//! The scenario file: its keys, and the checks that need more than one of them.
//!
//! Nothing is ignored: an unknown key is an error that names it, its place and the nearest known key. The
//! workload is kept as a table, because an entry of the matrix may override any of its keys; it is read once
//! for each entry here. What is left for the plan to find are values that do not fit at its preset.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ashlar_units::ByteCount;
use serde::Deserialize;
use serde::de::Deserializer;

use crate::error::{Error, Result, in_our_words, unknown_key};
use crate::formula::SPACE;
use crate::metric::{Metric, Over};
use crate::quantity::{literal, optional};
use crate::scale::Scaled;
use crate::workload::{BILL, Workload};

/// The format of files that this crate reads.
const FORMAT: u32 = 1;

/// The key whose table is put together from those of all entries; of any other key the last one holds.
const LAYOUT: &str = "layout";

/// Keys that an entry has beside those of the workload.
const ENTRY_KEYS: [&str; 3] = ["id", "use", "kind"];

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    format: u32,
    /// `seed/name`.
    pub id: String,
    pub title: String,
    pub question: String,
    /// Of a paper's experiment; our own have none.
    pub source: Option<Source>,
    /// What the paper leaves out, in sentences.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Where the paper contradicts itself.
    #[serde(default)]
    pub contradictions: Vec<String>,
    /// How the rerun differs from the paper, and why.
    #[serde(default)]
    pub rerun: Vec<String>,
    /// What the paper claims and nobody can check here.
    #[serde(default)]
    pub claims: Vec<String>,
    #[serde(default)]
    pub engine: Engine,
    workload: toml::Table,
    #[serde(default)]
    pub roles: Roles,
    /// In the order of the file.
    #[serde(default, deserialize_with = "axes")]
    pub matrix: Vec<Axis>,
    /// Of what is run; what is worked out has none.
    #[serde(default)]
    pub phases: Phases,
    /// What happens while a run measures.
    #[serde(default, rename = "event")]
    pub events: Vec<Event>,
    /// The longest time at each preset; the plan is cut to it.
    pub budget: Scaled<Duration>,
    #[serde(default)]
    pub published: Vec<Published>,
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
    /// The paper's steps as they are typed on SQL Server, which is not run here.
    #[serde(default)]
    pub tsql: Vec<TSql>,
}

/// A step on SQL Server.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TSql {
    /// What it is for, in words.
    pub step: String,
    /// Transact-SQL, as it is typed.
    pub text: String,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub paper: String,
    /// What the paper says it did.
    pub defined: String,
    #[serde(default)]
    pub figures: Vec<String>,
    #[serde(default)]
    pub tables: Vec<String>,
}

/// What stands between the workload and the target. (With braces, as in [`Check::Steady`].)
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Engine {
    None {},
    /// A server of its own on the target.
    Postgres {
        /// Of all its processes and cached pages; a quarter of it is shared buffers.
        memory: Option<Scaled<ByteCount>>,
        /// Names and values as PostgreSQL takes them.
        #[serde(default)]
        settings: BTreeMap<String, String>,
    },
}

/// Where files go. Temporary and source files lie with the data.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roles {
    #[serde(default)]
    pub data: Role,
    #[serde(default)]
    pub log: LogRole,
}

/// Where the write-ahead log of a database lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogRole {
    /// In the data directory, as PostgreSQL makes it.
    #[default]
    WithData,
    /// On a volume, a disk or in a directory of its own.
    Apart,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    #[serde(deserialize_with = "literal")]
    pub files: u64,
}

/// One dimension of the matrix: what varies.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    pub name: String,
    pub entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Entry {
    pub id: String,
    /// A target of its own, such as a simulated one; `@target` is what the user gave.
    #[serde(rename = "use")]
    pub target: Option<String>,
    #[serde(flatten)]
    pub overrides: toml::Table,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    pub warmup: Scaled<Duration>,
    pub measure: Scaled<Duration>,
    pub repeat: Scaled<u64>,
}

/// Something that is done while a run measures. (With braces, as in [`Check::Steady`].)
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Event {
    /// A snapshot of what the database lies on, at this share of the measured time. Behind the run a clone of
    /// it is opened, recovered and checked.
    Snapshot {
        #[serde(deserialize_with = "literal")]
        at: f64,
    },
}

/// What the paper found: shown beside our numbers, never mixed with them.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub metric: Metric,
    /// None where the value was lost with a figure; then the note says what is known.
    pub value: Option<f64>,
    pub note: Option<String>,
}

/// A rule that gives a verdict.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Check {
    /// Never above `max`; above `sustained` only for less than `grace`.
    Latency {
        #[serde(deserialize_with = "literal")]
        max: Duration,
        #[serde(deserialize_with = "literal")]
        sustained: Duration,
        #[serde(deserialize_with = "literal")]
        grace: Duration,
        /// Of the variants with one of these entries; of all where there are none.
        #[serde(default)]
        only: Vec<String>,
    },
    /// The interval of a ratio against a bound; exactly one is given.
    Ratio {
        of: Metric,
        #[serde(default, deserialize_with = "optional")]
        at_least: Option<f64>,
        #[serde(default, deserialize_with = "optional")]
        at_most: Option<f64>,
        #[serde(default, deserialize_with = "optional")]
        equal_within: Option<f64>,
        note: Option<String>,
    },
    /// A metric in every run against a bound; exactly one is given.
    Value {
        of: Metric,
        #[serde(default, deserialize_with = "optional")]
        at_least: Option<f64>,
        #[serde(default, deserialize_with = "optional")]
        at_most: Option<f64>,
        note: Option<String>,
    },
    /// Every run, and every database in it, made what it was offered.
    Offered {},
    /// Every run reached a steady state. (With braces, because serde lets unit variants have unknown keys.)
    Steady {},
    /// Little's law, bytes = operations x size, and the layers' counters agree.
    Plausible {},
    /// All conditions of the database hold after every run and in every snapshot, and what was acknowledged
    /// is there.
    Consistency {},
    /// The rate in the seconds behind each snapshot is at least this share of the rate before it.
    Undisturbed {
        #[serde(deserialize_with = "literal")]
        at_least: f64,
    },
}

impl Scenario {
    pub fn parse(text: &str) -> Result<Scenario> {
        let scenario: Scenario = toml::from_str(text).map_err(|error| Error::from_text(&error, text))?;
        scenario.check().map_err(|error| error.within(&scenario.id))?;
        Ok(scenario)
    }

    fn check(&self) -> Result<()> {
        if self.format != FORMAT {
            return Err(Error::file(format!("format {} is unknown, this is {FORMAT}", self.format)));
        }
        let is_id = self.id.split_once('/').is_some_and(|(seed, name)| is_name(seed) && is_name(name));
        if !is_id {
            return Err(Error::file("id is not of the form seed/name"));
        }
        if !self.is_untimed() && self.phases == Phases::default() {
            return Err(Error::file("missing [phases]: a run has a warmup, and a measure above 0 s"));
        }
        self.check_matrix()?;
        self.check_log()?;
        self.metrics().try_for_each(|metric| self.check_metric(metric))?;
        self.checks.iter().try_for_each(|check| self.check_only(check))?;
        self.check_events()?;
        self.checks.iter().try_for_each(check_bounds)
    }

    /// Nothing of it is run: it is worked out from the file, and needs no target.
    #[must_use]
    pub fn is_calculated(&self) -> bool {
        self.kind() == BILL
    }

    /// Of the workload.
    fn kind(&self) -> &str {
        self.workload.get("kind").and_then(toml::Value::as_str).unwrap_or_default()
    }

    /// No time is measured in it: it is worked out, or counts room.
    fn is_untimed(&self) -> bool {
        self.is_calculated() || ["space", "restore"].contains(&self.kind())
    }

    /// It is as large as its target has room for, or a share of that.
    #[must_use]
    pub fn asks_for_space(&self) -> bool {
        let overrides = self.matrix.iter().flat_map(|axis| &axis.entries).map(|entry| &entry.overrides);
        overrides.chain([&self.workload]).any(|table| table.values().any(asks_for_space))
    }

    /// Experiments whose results tell it what arrays do.
    #[must_use]
    pub fn rates_of(&self) -> Vec<&str> {
        let named = self.workload.get("rates_of").and_then(toml::Value::as_array);
        named.into_iter().flatten().filter_map(toml::Value::as_str).collect()
    }

    /// Entries have names that make a run's id, no two the same, and overrides that the workload knows.
    fn check_matrix(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for axis in &self.matrix {
            for entry in &axis.entries {
                let (axis, id) = (&axis.name, &entry.id);
                if !is_name(id) || !names.insert(id) {
                    let rule = "is used twice, or not made of a-z, 0-9 and -";
                    return Err(Error::file(format!("[[matrix.{axis}]]: entry id `{id}` {rule}")));
                }
            }
            if axis.entries.is_empty() {
                return Err(Error::file(format!("matrix.{} has no entries", axis.name)));
            }
        }
        let first: Vec<&Entry> = self.matrix.iter().map(|axis| &axis.entries[0]).collect();
        self.workload(&first)?;
        for (index, axis) in self.matrix.iter().enumerate() {
            for entry in &axis.entries[1..] {
                let mut choice = first.clone();
                choice[index] = entry;
                self.workload(&choice)?;
            }
        }
        Ok(())
    }

    /// The workload of one entry of each axis: their keys replace those of the file.
    pub(crate) fn workload(&self, choice: &[&Entry]) -> Result<Workload> {
        let mut table = self.workload.clone();
        for entry in choice {
            let mut overrides = entry.overrides.clone();
            // Two axes may each have a part of it.
            if let (Some(toml::Value::Table(layout)), Some(toml::Value::Table(of_entry))) =
                (table.get(LAYOUT), overrides.get_mut(LAYOUT))
            {
                let own = std::mem::replace(of_entry, layout.clone());
                of_entry.extend(own);
            }
            table.extend(overrides);
        }
        Workload::from_table(table).map_err(|error| {
            let key = unknown_key(error.message());
            let source = key.and_then(|key| choice.iter().find(|entry| has_key(&entry.overrides, key)));
            let (place, also) = match source {
                Some(entry) => (format!("matrix entry `{}`", entry.id), &ENTRY_KEYS[..]),
                None => ("workload".to_string(), &["kind"][..]),
            };
            // For a wrong value, what the error prints has the key; for an unknown key, the message does.
            let message = if key.is_some() { error.message().to_string() } else { error.to_string() };
            Error::file(in_our_words(&message, also)).within(&place)
        })
    }

    /// Every metric that the file names.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &Metric> {
        let checked = self.checks.iter().filter_map(|check| match check {
            Check::Ratio { of, .. } | Check::Value { of, .. } => Some(of),
            _ => None,
        });
        self.published.iter().map(|published| &published.metric).chain(checked)
    }

    /// Only a server on the target has a log to be put anywhere.
    fn check_log(&self) -> Result<()> {
        let has_server = !matches!(self.engine, Engine::None {}) && !self.is_untimed();
        match self.roles.log {
            LogRole::Apart if !has_server => {
                Err(Error::file("roles: a log apart is that of a database which a run works on"))
            }
            LogRole::Apart | LogRole::WithData => Ok(()),
        }
    }

    /// Snapshots are of a database, within the measured time.
    fn check_events(&self) -> Result<()> {
        for Event::Snapshot { at } in &self.events {
            if !(0.0..1.0).contains(at) || matches!(self.engine, Engine::None {}) {
                return Err(Error::file(
                    "event: a snapshot is of a database, at 0% to 99% of the measured time",
                ));
            }
        }
        // The others know of no promise that a copy could be held against.
        if !self.events.is_empty() && !["orders", "broker"].contains(&self.kind()) {
            return Err(Error::file("event: snapshots are checked for the workloads orders and broker"));
        }
        let asks = self.checks.iter().any(|check| matches!(check, Check::Undisturbed { .. }));
        if asks && self.events.is_empty() {
            return Err(Error::file("check `undisturbed` asks for an [[event]] of kind snapshot"));
        }
        Ok(())
    }

    /// The entries that a check is of exist.
    fn check_only(&self, check: &Check) -> Result<()> {
        let Check::Latency { only, .. } = check else { return Ok(()) };
        let is_known = |id: &String| self.matrix.iter().any(|axis| axis.entries.iter().any(|e| e.id == *id));
        match only.iter().find(|id| !is_known(id)) {
            Some(id) => Err(Error::file(format!("check of latency: the matrix has no entry `{id}`"))),
            None => Ok(()),
        }
    }

    fn check_metric(&self, metric: &Metric) -> Result<()> {
        let axis_of = |id: &str| self.matrix.iter().position(|axis| axis.entries.iter().any(|e| e.id == id));
        let wrong = |reason: String| Err(Error::file(format!("metric `{}`: {reason}", metric.text)));
        for entry in metric.entries() {
            if axis_of(entry).is_none() {
                return wrong(format!("the matrix has no entry `{entry}`"));
            }
        }
        match &metric.over {
            Over::Ratio(of, to) if axis_of(of) != axis_of(to) => wrong("a ratio is of one axis".to_string()),
            Over::Ratio(..) | Over::Every | Over::Entry(_) | Over::Under(_) => Ok(()),
        }
    }
}

/// True of a table of presets whose invariant has the name.
fn asks_for_space(value: &toml::Value) -> bool {
    let invariant = value.get("invariant").and_then(toml::Value::as_str).unwrap_or_default();
    invariant.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(|word| word == SPACE)
}

fn check_bounds(check: &Check) -> Result<()> {
    if let Check::Value { of, at_least, at_most, .. } = check
        && (at_least.is_some() == at_most.is_some() || !matches!(of.over, Over::Every | Over::Entry(_)))
    {
        let rule = "is not a metric of variants with one of at_least and at_most";
        return Err(Error::file(format!("check of `{}` {rule}", of.text)));
    }
    let Check::Ratio { of, at_least, at_most, equal_within, .. } = check else {
        return Ok(());
    };
    let bounds = [at_least, at_most, equal_within].iter().filter(|bound| bound.is_some()).count();
    if bounds != 1 || !matches!(of.over, Over::Ratio(..)) {
        let rule = "is not a ratio with one of at_least, at_most and equal_within";
        return Err(Error::file(format!("check of `{}` {rule}", of.text)));
    }
    Ok(())
}

/// True of a word that can stand in a run's id, which is also a file's name.
pub(crate) fn is_name(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    !word.is_empty() && word.chars().all(is_plain)
}

/// True if the key is anywhere in the table: printed, each key begins a line or follows a brace or comma.
fn has_key(table: &toml::Table, key: &str) -> bool {
    let printed = table.to_string().replace(['{', ','], "\n");
    printed.lines().any(|line| line.trim_start().starts_with(&format!("{key} =")))
}

/// A table forgets the order of its keys; the place in the text tells it.
fn axes<'de, D: Deserializer<'de>>(form: D) -> std::result::Result<Vec<Axis>, D::Error> {
    let tables = BTreeMap::<String, toml::Spanned<Vec<Entry>>>::deserialize(form)?;
    let mut tables: Vec<_> = tables.into_iter().collect();
    tables.sort_by_key(|(_, entries)| entries.span().start);
    Ok(tables.into_iter().map(|(name, entries)| Axis { name, entries: entries.into_inner() }).collect())
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::None {}
    }
}

impl Default for Phases {
    fn default() -> Phases {
        Phases {
            warmup: Scaled::same(Duration::ZERO),
            measure: Scaled::same(Duration::ZERO),
            repeat: Scaled::same(1),
        }
    }
}

impl Default for Role {
    fn default() -> Role {
        Role { files: 1 }
    }
}

#[cfg(test)]
mod tests;
