//! What the daemon tells the person who runs it: lines on stderr, and the ring of events.
//!
//! Where the systemd journal reads stderr it is told in its own words, with the object and the level as
//! fields. A journal that does not take them gets a line.

mod journal;

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ashlar_api::{Event, EventLevel};
use tokio::sync::watch;

use crate::settings::LogFormat;
use journal::Journal;

/// Events kept in memory. Arbitrary: a day of a busy person's changes.
const EVENTS_MAX: usize = 4096;

/// The log.
pub(crate) struct Log {
    is_json: AtomicBool,
    /// Lines get systemd's `<6>` prefixes only where the journal reads them.
    has_priorities: bool,
    /// Another one for each start of the array.
    boot_id: String,
    journal: Option<Journal>,
    /// The number of the last event that was written. One writes at a time, so that lines and events are in
    /// one order; who reads events does not wait for a line.
    written: Mutex<u64>,
    ring: Mutex<Ring>,
    /// The number of an event, for who waits for the next.
    heard: watch::Sender<u64>,
}

struct Ring {
    events: VecDeque<Event>,
    sequence_last: u64,
}

impl Log {
    /// A log; `journal_stream` is what systemd says of a stderr that its journal reads (systemd.exec(5)).
    pub(crate) fn new(format: LogFormat, journal_stream: Option<&str>) -> Log {
        Log {
            is_json: AtomicBool::new(format == LogFormat::Json),
            has_priorities: journal_stream.is_some(),
            boot_id: random_id(),
            journal: journal_stream.and_then(Journal::of_stderr),
            written: Mutex::new(0),
            ring: Mutex::new(Ring { events: VecDeque::new(), sequence_last: 0 }),
            heard: watch::Sender::new(0),
        }
    }

    /// What tells this start of the array from all others.
    pub(crate) fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// A log that no journal reads.
    #[cfg(test)]
    pub(crate) fn plain() -> Log {
        Log::new(LogFormat::Text, None)
    }

    /// Writes from now on like this.
    pub(crate) fn set_format(&self, format: LogFormat) {
        self.is_json.store(format == LogFormat::Json, Ordering::Relaxed);
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
        let unix_millis =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let mut written = self.written.lock().expect("no holder of this lock panics");
        let (sequence, boot_id) = (*written + 1, self.boot_id.clone());
        let event = Event { sequence, boot_id, unix_millis, level, object, message };
        *written = event.sequence;
        self.write(&event);
        let mut ring = self.ring.lock().expect("no holder of this lock panics");
        ring.sequence_last = event.sequence;
        if ring.events.len() == EVENTS_MAX {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
        self.heard.send_replace(ring.sequence_last);
    }

    fn write(&self, event: &Event) {
        let is_json = self.is_json.load(Ordering::Relaxed);
        if !is_json && self.journal.as_ref().is_some_and(|journal| journal.take(event)) {
            return;
        }
        let line = line(event, is_json, self.has_priorities);
        // A closed stderr must not stop the array.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Hears that there are new events.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.heard.subscribe()
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
pub(crate) fn random_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    id.trim().to_string()
}

fn line(event: &Event, is_json: bool, has_priorities: bool) -> String {
    let Event { level, object, message, .. } = event;
    let priority = match has_priorities {
        true => format!("<{}>", priority(*level)),
        false => String::new(),
    };
    if is_json {
        let json = serde_json::to_string(event).expect("events are plain data");
        return format!("{priority}{json}\n");
    }
    match has_priorities {
        true => format!("{priority}{object}: {message}\n"),
        false => format!("{}: {object}: {message}\n", word(*level)),
    }
}

/// As syslog(3) counts.
fn priority(level: EventLevel) -> u8 {
    match level {
        EventLevel::Info => 6,
        EventLevel::Warning => 4,
        EventLevel::Error => 3,
    }
}

fn word(level: EventLevel) -> &'static str {
    match level {
        EventLevel::Info => "info",
        EventLevel::Warning => "warning",
        EventLevel::Error => "error",
    }
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
        let log = Log::plain();
        for number in 0..EVENTS_MAX + 10 {
            log.info("test", number.to_string());
        }
        let events = log.after(0);
        assert_eq!(events.len(), EVENTS_MAX);
        assert_eq!(events[0].sequence, 11);
        assert_eq!(log.after((EVENTS_MAX + 9) as u64).len(), 1);
    }

    #[test]
    fn a_line_is_words_or_one_object() {
        let event = Event {
            sequence: 7,
            boot_id: "b".to_string(),
            unix_millis: 1_798_761_599_000,
            level: EventLevel::Warning,
            object: "pool \"a\"".to_string(),
            message: "two\nlines".to_string(),
        };
        assert_eq!(line(&event, false, false), "warning: pool \"a\": two\nlines\n");
        assert_eq!(line(&event, false, true), "<4>pool \"a\": two\nlines\n");
        let json = line(&event, true, false);
        assert_eq!(json.lines().count(), 1, "{json}");
        assert_eq!(serde_json::from_str::<Event>(&json).ok(), Some(event.clone()));
        assert_eq!(line(&event, true, true), format!("<4>{json}"));
    }

    #[test]
    fn whoever_waits_hears_of_an_event() {
        let log = Log::plain();
        let mut heard = log.subscribe();
        assert!(heard.has_changed().is_ok_and(|has_changed| !has_changed));
        log.info("x", "y");
        assert!(heard.has_changed().is_ok_and(|has_changed| has_changed));
        assert_eq!(*heard.borrow_and_update(), 1);
    }
}
