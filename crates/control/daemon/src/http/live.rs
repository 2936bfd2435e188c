//! Figures and events as they come, as server-sent events (HTML standard, section 9.2), and series of them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use ashlar_api as api;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::extract::{Name, Question};
use super::handlers::{Answer, Array};
use crate::asker::Asker;
use crate::service::{FIGURES_INTERVAL, Service};

/// Somebody who listens.
struct Listener {
    array: Arc<Service>,
    asker: Asker,
    figures: watch::Receiver<Option<Arc<api::Figures>>>,
    /// The last event that was sent.
    after: u64,
    waiting: VecDeque<Event>,
}

pub(super) async fn live(
    State(array): Array,
    asker: Asker,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let after = missed_after(last, &array.boot_id).unwrap_or_else(|| array.log.newest());
    let hello = api::Hello {
        boot_id: array.boot_id.clone(),
        interval_millis: FIGURES_INTERVAL.as_millis() as u64,
        version: env!("CARGO_PKG_VERSION").to_string(),
    };
    let waiting = VecDeque::from([message("hello", None, &hello)]);
    let listener = Listener { figures: array.figures.watch(), array, asker, after, waiting };
    let messages = unfold(listener, |mut listener| async move {
        let message = listener.next().await?;
        Some((Ok(message), listener))
    });
    Sse::new(messages).keep_alive(KeepAlive::default())
}

/// The number of the event behind which somebody comes back: nothing for whoever comes first, the beginning
/// for whoever heard another life of the array.
fn missed_after(last: Option<&str>, boot_id: &str) -> Option<u64> {
    let (boot, sequence) = last?.split_once(':')?;
    if boot != boot_id {
        return Some(0);
    }
    sequence.parse().ok()
}

impl Listener {
    /// The next message; `None` when the array stops, or whoever listens is let in no more.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            if self.array.is_stopping() {
                return None;
            }
            self.figures.changed().await.ok()?;
            let figures = self.figures.borrow_and_update().clone()?;
            if !self.array.is_let_in(&self.asker) {
                return None;
            }
            self.waiting.push_back(message("figures", None, &*figures));
            for event in self.array.log.after(self.after) {
                self.after = event.sequence;
                let id = format!("{}:{}", self.array.boot_id, event.sequence);
                self.waiting.push_back(message("event", Some(id), &event));
            }
        }
    }
}

fn message(name: &str, id: Option<String>, data: &impl Serialize) -> Event {
    let named = Event::default().event(name);
    let named = id.into_iter().fold(named, |event, id| event.id(id));
    // JSON has no line breaks outside of its strings, where they are escaped.
    named.data(serde_json::to_string(data).expect("messages are plain data"))
}

/// The query of `/v1/history` and `/v1/latencies`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    object: String,
    range: api::HistoryRange,
}

pub(super) async fn history(
    State(array): Array,
    Question(query): Question<HistoryQuery>,
) -> Answer<api::History> {
    array.history(&query.object, query.range).map(Json)
}

pub(super) async fn latencies(
    State(array): Array,
    Question(query): Question<HistoryQuery>,
) -> Answer<api::Latencies> {
    array.latencies(&query.object, query.range).map(Json)
}

pub(super) async fn slow_requests(State(array): Array) -> Answer<Vec<api::SlowRequest>> {
    array.slow_requests().await.map(Json)
}

/// The query of `/v1/volumes/{volume}/profile`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileQuery {
    seconds: Option<u64>,
}

pub(super) async fn volume_profile(
    State(array): Array,
    Name(volume): Name,
    Question(query): Question<ProfileQuery>,
) -> Answer<api::IoProfile> {
    array.volume_profile(&volume, query.seconds).await.map(Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_back_hears_what_was_missed() {
        assert_eq!(missed_after(None, "a-b"), None);
        assert_eq!(missed_after(Some("a-b:17"), "a-b"), Some(17));
        assert_eq!(missed_after(Some("a-c:17"), "a-b"), Some(0));
        assert_eq!(missed_after(Some("rubbish"), "a-b"), None);
        assert_eq!(missed_after(Some("a-b:x"), "a-b"), None);
    }
}
