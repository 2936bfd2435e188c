//! What was run, and on what: the plan, the data sets, the targets and the machine.

use ashlar_report::{Page, bytes};
use ashlar_scenario::{Content, DataSet, FileSystem, Load, Precondition};

use crate::record::Site;
use crate::text::many;
use crate::{Outcome, answer};

impl Outcome {
    pub(super) fn configuration(&self, page: &mut Page) {
        page.heading("What was run, and on what");
        let plan = &self.plan;
        let machine = &self.machine;
        let virtual_one = if machine.hypervisor.is_empty() { "" } else { ", a virtual machine" };
        let mut rows = vec![
            vec!["Question".to_string(), self.question.clone()],
            vec![
                "Plan".into(),
                format!(
                    "{}, {} in random order (seed {}), {}",
                    many(plan.variants.len(), "variant"),
                    many(plan.repeat as usize, "repetition"),
                    plan.seed,
                    match self.outline.plan.is_timed() {
                        true => format!(
                            "{} s of warm-up and {} s measured each",
                            plan.warmup_seconds, plan.measure_seconds
                        ),
                        false => "each as long as it takes".into(),
                    }
                ),
            ],
        ];
        for axis in &self.outline.scenario.matrix {
            let is_run = |id: &str| {
                self.outline.plan.variants.iter().any(|one| one.entries.iter().any(|entry| entry == id))
            };
            let ids = axis.entries.iter().map(|entry| entry.id.as_str()).filter(|id| is_run(id));
            let ids: Vec<&str> = ids.collect();
            rows.push(vec![format!("Varies: {}", axis.name), ids.join(", ")]);
        }
        rows.extend(self.sets().into_iter().map(|set| vec!["Data set".into(), set]));
        rows.extend(
            self.targets.iter().map(|target| vec![format!("Target {}", target.id), stands_on(target)]),
        );
        rows.extend(self.logs.iter().map(|site| vec!["Logs".to_string(), stands_on(site)]));
        rows.push(vec![
            "Machine".into(),
            format!(
                "{} cores of {}, {} of memory, Linux {}{virtual_one}",
                machine.cores,
                machine.processor,
                bytes(machine.memory_bytes),
                machine.kernel
            ),
        ]);
        let engine = self.runs.iter().find_map(|figures| figures.database.as_ref());
        let counted = self.runs.iter().find_map(|figures| Some(figures.space.as_ref()?.engine.clone()));
        let driver = match engine.map(|database| database.engine.clone()).or(counted) {
            Some(engine) => engine,
            None if self.runs.iter().any(|figures| figures.restored.is_some()) => {
                "files written and read".into()
            }
            None => {
                format!("{}, direct I/O by io_uring, by libaio at depths that are no powers of two", self.fio)
            }
        };
        rows.push(vec!["Tools".into(), format!("ashlar {}, {driver}", self.version)]);
        page.table(&["", ""], &[], &rows);
    }

    /// What lay on the targets, each once.
    fn sets(&self) -> Vec<String> {
        let mut sets: Vec<String> = Vec::new();
        for variant in &self.outline.plan.variants {
            let log = match &variant.log {
                Some(address) if *address == variant.target.address => "; its log lies apart".to_string(),
                Some(address) => format!("; its log lies on {address}"),
                None => String::new(),
            };
            let load = match &variant.load {
                Load::Io(load) => load,
                Load::Several(load) => {
                    let servers = load.bases.servers.iter().map(|(name, base)| {
                        let memory = base.memory.map_or("all the machine's memory".into(), |memory| {
                            format!("{} of memory", bytes(memory.0))
                        });
                        format!("server {name} has {memory}")
                    });
                    let servers: Vec<String> = servers.collect();
                    sets.push(format!("{}; {}{log}", load.in_words(), servers.join(", ")));
                    continue;
                }
                Load::Space(load) => {
                    sets.push(load.in_words());
                    continue;
                }
                Load::Restore(load) => {
                    sets.push(load.in_words());
                    continue;
                }
                Load::Database(load) => {
                    let memory = load.base.memory.map_or("all the machine's memory".into(), |memory| {
                        format!("{} of memory", bytes(memory.0))
                    });
                    sets.push(format!("{}; the server has {memory}{log}", load.in_words()));
                    continue;
                }
                Load::Bill(_) => continue,
            };
            let set = &load.set;
            let content = match set.content {
                Content::Sqlio => "the same block everywhere".into(),
                Content::Made { compress, duplicates } => made(compress, duplicates),
            };
            let age = match set.precondition {
                Precondition::Ordered => "written once, in order",
                Precondition::Aged => "written once in order and overwritten once at random",
            };
            let files = many(set.files as usize, "file");
            let text = format!("{} in {files}{}, {content}, {age}", bytes(set.size.0), below(set));
            sets.push(text);
        }
        sets.sort();
        sets.dedup();
        sets
    }
}

/// What lies below the files, where it was asked for.
fn below(set: &DataSet) -> &'static str {
    match set.layout.file_system {
        Some(FileSystem::None) => " on a volume itself",
        Some(FileSystem::Ext4) => " on an ext4 on a volume",
        None => "",
    }
}

fn made(compress: f64, duplicates: f64) -> String {
    let smaller = match compress {
        c if c > 1.0 => format!("content that compresses {c}:1"),
        _ => "content that does not compress".into(),
    };
    match duplicates {
        d if d > 0.0 => {
            format!("{smaller}, in which {} % of the blocks exist already", answer::number(100.0 * d))
        }
        _ => format!("{smaller} and does not repeat"),
    }
}

/// File system and devices of a target.
fn stands_on(site: &Site) -> String {
    format!("{}: {}", site.address, site.footing.in_words())
}
