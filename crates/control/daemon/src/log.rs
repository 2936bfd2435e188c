//! What the daemon tells the person who runs it: lines on stderr, and the ring of events.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use ashlar_api::{Event, EventLevel};

/// Events kept in memory. Arbitrary: a day of a busy person's changes.
const EVENTS_MAX: usize = 4096;

/// The log. Lines get systemd's `<6>` priority prefixes only where the journal reads them.
pub(crate) struct Log {
    has_priorities: bool,
    /// Another one for each start of the array.
    boot_id: String,
    ring: Mutex<Ring>,
}

struct Ring {
    events: VecDeque<Event>,
    sequence_last: u64,
}

impl Log {
    /// A log; `has_priorities` when stderr is the systemd journal.
    pub(crate) fn new(has_priorities: bool) -> Log {
        let ring = Mutex::new(Ring { events: VecDeque::new(), sequence_last: 0 });
        Log { has_priorities, boot_id: random_id(), ring }
    }

    /// What tells this start of the array from all others.
    pub(crate) fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// A state changed as asked.
    pub(crate) fn info(&self, object: impl Into<String>, message: impl Into<String>) {
        self.record(EventLevel::Info, object.into(), message.into());
    }

    /// Something is not as configured; service goes on.
    pub(crate) fn warning(&self, object: impl Into<String>, message: impl Into<String>) {
        self.record(EventLevel::Warning, object.into(), message.into());
    }

    /// A person must look.
    pub(crate) fn error(&self, object: impl Into<String>, message: impl Into<String>) {
        self.record(EventLevel::Error, object.into(), message.into());
    }

    fn record(&self, level: EventLevel, object: String, message: String) {
        let (priority, word) = match level {
            EventLevel::Info => ("<6>", "info"),
            EventLevel::Warning => ("<4>", "warning"),
            EventLevel::Error => ("<3>", "error"),
        };
        let line = if self.has_priorities {
            format!("{priority}{object}: {message}\n")
        } else {
            format!("{word}: {object}: {message}\n")
        };
        // A closed stderr must not stop the array.
        let _ = std::io::stderr().write_all(line.as_bytes());
        let unix_millis =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let mut ring = self.ring.lock().expect("no holder of this lock panics");
        ring.sequence_last += 1;
        let (sequence, boot_id) = (ring.sequence_last, self.boot_id.clone());
        let event = Event { sequence, boot_id, unix_millis, level, object, message };
        if ring.events.len() == EVENTS_MAX {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
    }

    /// The number of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        self.ring.lock().expect("no holder of this lock panics").sequence_last
    }

    /// Events with a sequence number above `after`, oldest first.
    pub(crate) fn after(&self, after: u64) -> Vec<Event> {
        let ring = self.ring.lock().expect("no holder of this lock panics");
        ring.events.iter().filter(|event| event.sequence > after).cloned().collect()
    }
}

/// What no other start of any array has.
fn random_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    id.trim().to_string()
}

/// A line of the start, on standard output where scripts read it.
pub(crate) fn announce(line: &str) {
    // A closed standard output must not stop the array.
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest_and_never_reuses_a_number() {
        let log = Log::new(false);
        for number in 0..EVENTS_MAX + 10 {
            log.info("test", number.to_string());
        }
        let events = log.after(0);
        assert_eq!(events.len(), EVENTS_MAX);
        assert_eq!(events[0].sequence, 11);
        assert_eq!(log.after((EVENTS_MAX + 9) as u64).len(), 1);
    }
}
