//! What a command started: found and ended, also what has left its session or is no child of it any more.
//!
//! It is known by its process group, by a mark in its environment, which a process gets from the one that
//! starts it, and by who its ancestors are. What another service starts on request is not reached, nor what
//! has lost its parent and its environment, both.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that holds the mark.
pub(super) const MARK: &str = "ASHLAR_EVENT_COMMAND";
/// How often is looked again at what was started meanwhile. Arbitrary: one look finds nearly always all.
const LOOKS_MAX: usize = 20;

/// The processes of one run of a command. What of them is left when this is dropped is ended.
pub(super) struct Started {
    mark: String,
    leader: Option<u32>,
    is_kept: bool,
}

impl Started {
    /// Those of a command with this mark, which leads a process group of its own.
    pub(super) fn new(mark: String, leader: Option<u32>) -> Started {
        Started { mark, leader, is_kept: false }
    }

    /// It came to its end in time: what it left running may go on.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    /// All are found before the first is ended: a process whose parent is gone is not known by it any more.
    fn end_all(&self) {
        for _ in 0..LOOKS_MAX {
            let found = self.find();
            found.iter().for_each(|(pid, process)| process.end(*pid));
            if found.is_empty() {
                return;
            }
        }
    }

    /// All that live: those with the mark or in the group, and what descends from them.
    fn find(&self) -> BTreeMap<u32, Process> {
        let mut others = processes();
        let is_own =
            |pid: &u32, process: &Process| Some(process.group) == self.leader || has_mark(*pid, &self.mark);
        let mut found: BTreeMap<u32, Process> = others.extract_if(.., |pid, one| is_own(pid, one)).collect();
        loop {
            let more: Vec<_> = others.extract_if(.., |_, one| found.contains_key(&one.parent)).collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.is_kept {
            self.end_all();
        }
    }
}

#[derive(PartialEq, Eq)]
struct Process {
    parent: u32,
    group: u32,
    /// In ticks since the machine started: whoever has the number later started later.
    start: u64,
}

impl Process {
    fn end(&self, pid: u32) {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(opened) = pidfd_open(number, PidfdFlags::empty()) else { return };
        if process(pid).is_some_and(|now| now.start == self.start) {
            let _gone = pidfd_send_signal(&opened, Signal::KILL);
        }
    }
}

/// All processes that have not ended.
fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

/// proc_pid_stat(5): the name in brackets may hold anything; behind it stand state, parent and group, and
/// as the 20th field the start.
fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let is_over = matches!(*fields.first()?, "Z" | "X");
    let (parent, group, start) = (fields.get(1)?, fields.get(2)?, fields.get(19)?);
    let process =
        Process { parent: parent.parse().ok()?, group: group.parse().ok()?, start: start.parse().ok()? };
    (!is_over).then_some(process)
}

fn has_mark(pid: u32, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}
