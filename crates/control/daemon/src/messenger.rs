//! Events are handed to a command and to a web address, as the settings say.
//!
//! ```text
//!   log ──► ring of events ◄── messenger of the command ──► a process
//!                          ◄── messenger of the address ──► POST
//! ```
//!
//! Nobody waits for a messenger: it reads the ring when it has time, at most so many events behind, and what
//! it passes over is counted. A failure is an event once, until it works again. Events about handing events
//! on are not handed on: two ways that fail in turn would never come to an end.

mod address;
mod command;
mod started;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use ashlar_api::{Event, EventLevel};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::identity;
use crate::log::Log;
use crate::service::Service;
use crate::settings::{Settings, Severity};

pub(crate) use address::WebAddress;

/// Events that wait for a slow receiver. Arbitrary: more than a bad hour brings, and read by a person.
const WAITING_MAX: usize = 256;
/// How long a command may take. Arbitrary: a mail is sent in seconds.
const COMMAND_MAX: Duration = Duration::from_secs(30);
/// How long an answer to a POST may take. Arbitrary.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Pauses before an event is tried again. Arbitrary: a receiver that is started anew is back by then.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// How long a stop waits for what is on its way. Arbitrary: where nothing is wrong both take milliseconds.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// How an event goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Command,
    Webhook,
}

impl Way {
    const ALL: [Way; 2] = [Way::Command, Way::Webhook];

    /// What events about it are about.
    fn object(self) -> &'static str {
        match self {
            Way::Command => "event command",
            Way::Webhook => "event webhook",
        }
    }

    fn is_on(self, settings: &Settings) -> bool {
        match self {
            Way::Command => !settings.event_command.is_empty(),
            Way::Webhook => settings.event_webhook.is_some(),
        }
    }

    /// Hands one event on; says why it could not, without what may be a secret.
    async fn deliver(self, settings: &Settings, body: &str) -> Result<(), String> {
        match (self, &settings.event_webhook) {
            (Way::Command, _) => command::run(&settings.event_command, body, COMMAND_MAX).await,
            (Way::Webhook, Some(address)) => webhook::post(address, body, ANSWER_MAX).await,
            (Way::Webhook, None) => Ok(()),
        }
    }
}

/// The tasks that hand events on.
pub(crate) struct Messengers {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Messengers {
    /// Begins with the first event of this array.
    pub(crate) fn start(service: &Arc<Service>) -> Messengers {
        let (stop, stopped) = watch::channel(false);
        let machine: Arc<str> = identity::own().machine_name.into();
        let task = |way| {
            let messenger = Messenger {
                service: service.clone(),
                way,
                machine: machine.clone(),
                heard: service.log.subscribe(),
                stopped: stopped.clone(),
                after: 0,
                passed_over: 0,
                is_failing: false,
            };
            tokio::spawn(messenger.run())
        };
        Messengers { stop, tasks: Way::ALL.into_iter().map(task).collect() }
    }

    /// Ends them; what is on its way has a moment left where `may_wait`.
    pub(crate) async fn finish(self, may_wait: bool) {
        self.stop.send_replace(true);
        let end = tokio::time::Instant::now() + if may_wait { FLUSH_MAX } else { Duration::ZERO };
        for mut task in self.tasks {
            if tokio::time::timeout_at(end, &mut task).await.is_err() {
                task.abort();
                // What its command started is ended by then.
                let _cancelled = task.await;
            }
        }
    }
}

/// Who hands events on in one way.
struct Messenger {
    service: Arc<Service>,
    way: Way,
    machine: Arc<str>,
    heard: watch::Receiver<u64>,
    stopped: watch::Receiver<bool>,
    /// The last event that was handed on, or was not to be.
    after: u64,
    /// Events that were to be handed on and were not, since one last was.
    passed_over: usize,
    is_failing: bool,
}

/// What a receiver gets.
#[derive(Serialize)]
struct Message<'a> {
    machine: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}

impl Messenger {
    async fn run(mut self) {
        loop {
            self.heard.mark_unchanged();
            let is_last = *self.stopped.borrow_and_update();
            self.hand_on_all().await;
            if is_last {
                return;
            }
            tokio::select! {
                heard = self.heard.changed() => if heard.is_err() { return },
                stopped = self.stopped.changed() => if stopped.is_err() { return },
            }
        }
    }

    /// Hands on what there is now.
    async fn hand_on_all(&mut self) {
        let settings = self.service.settings.now();
        let due = Due::of(&self.service.log, self.after, settings.event_minimum);
        self.after = due.newest;
        if !self.way.is_on(&settings) {
            (self.passed_over, self.is_failing) = (0, false);
            return;
        }
        self.passed_over += due.passed_over;
        for event in due.events {
            self.hand_on(&event).await;
        }
    }

    async fn hand_on(&mut self, event: &Event) {
        let machine = &*self.machine;
        let body = serde_json::to_string(&Message { machine, event }).expect("events are plain data");
        // One that fails anyway is asked once for each event, so that the newest is not long in coming.
        let retries: &[Duration] = if self.is_failing { &[] } else { &RETRIES };
        let mut pauses = retries.iter();
        let why = loop {
            // Read anew: a reload may have mended what is wrong.
            let settings = self.service.settings.now();
            let Err(why) = self.way.deliver(&settings, &body).await else { break None };
            match pauses.next() {
                Some(pause) => tokio::time::sleep(*pause).await,
                None => break Some(why),
            }
        };
        match why {
            None => self.tell_success(),
            Some(why) => self.tell_failure(&why),
        }
    }

    fn tell_success(&mut self) {
        let passed_over = std::mem::take(&mut self.passed_over);
        let object = self.way.object();
        if std::mem::take(&mut self.is_failing) {
            let what = format!("takes events again; {passed_over} were not handed on");
            self.service.log.info(object, what);
        } else if passed_over > 0 {
            let what = format!("too slow: {passed_over} events were not handed on; `ashlar events` has them");
            self.service.log.warning(object, what);
        }
    }

    fn tell_failure(&mut self, why: &str) {
        self.passed_over += 1;
        if !std::mem::replace(&mut self.is_failing, true) {
            let what = format!("{why}: this event and those until it works are not handed on");
            let way_out = "`ashlar events` has them; mend it, or change the setting and `ashlar reload`";
            self.service.log.warning(self.way.object(), format!("{what}; {way_out}"));
        }
    }
}

/// What is to be handed on.
#[derive(PartialEq, Eq, Debug)]
struct Due {
    /// The newest, oldest first.
    events: Vec<Event>,
    /// How many there were before them.
    passed_over: usize,
    /// The number of the last event there is.
    newest: u64,
}

impl Due {
    fn of(log: &Log, after: u64, minimum: Severity) -> Due {
        let mut events = log.after(after);
        let newest = events.last().map_or(after, |event| event.sequence);
        let oldest = events.first().map_or(after + 1, |event| event.sequence);
        // The ring did not wait either; of what it dropped nobody knows whether it was to be handed on.
        let dropped = usize::try_from(oldest.saturating_sub(after + 1)).unwrap_or(usize::MAX);
        let is_ours = |event: &Event| Way::ALL.iter().any(|way| event.object == way.object());
        events.retain(|event| severity(event.level) >= minimum && !is_ours(event));
        let excess = events.len().saturating_sub(WAITING_MAX);
        events.drain(..excess);
        Due { events, passed_over: dropped + excess, newest }
    }
}

fn severity(level: EventLevel) -> Severity {
    match level {
        EventLevel::Info => Severity::Info,
        EventLevel::Warning => Severity::Warning,
        EventLevel::Error => Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &Log, after: u64, minimum: Severity) -> Vec<String> {
        Due::of(log, after, minimum).events.into_iter().map(|event| event.message).collect()
    }

    #[test]
    fn events_below_the_minimum_and_those_about_handing_on_are_left_out() {
        let log = Log::plain();
        log.info("volume a", "1");
        log.warning("pool p", "2");
        log.error("event webhook", "3");
        log.error("pool p", "4");
        assert_eq!(messages(&log, 0, Severity::Info), ["1", "2", "4"]);
        assert_eq!(messages(&log, 0, Severity::Warning), ["2", "4"]);
        assert_eq!(messages(&log, 2, Severity::Error), ["4"]);
        let nothing = Due { events: Vec::new(), passed_over: 0, newest: 4 };
        assert_eq!(Due::of(&log, 4, Severity::Info), nothing);
        assert_eq!(Due::of(&log, 0, Severity::Info).newest, 4);
    }

    #[test]
    fn who_is_slow_gets_the_newest_and_a_count_of_the_others() {
        let log = Log::plain();
        let count = 2 * WAITING_MAX;
        for number in 0..count {
            log.info("x", number.to_string());
        }
        let due = Due::of(&log, 10, Severity::Info);
        assert_eq!((due.events.len(), due.passed_over), (WAITING_MAX, count - 10 - WAITING_MAX));
        assert_eq!(due.events.last().map(|event| event.sequence), Some(count as u64));
        // More than the ring holds went by.
        for number in 0..5000 {
            log.info("x", number.to_string());
        }
        let due = Due::of(&log, 10, Severity::Info);
        assert_eq!(due.events.len() + due.passed_over, count + 5000 - 10);
    }
}
