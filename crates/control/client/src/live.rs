//! Figures and events as they come: server-sent events (HTML standard, section 9.2).

use std::time::Duration;

use ashlar_api::{ErrorKind, Event, Figures, Hello};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;

use crate::call::Client;
use crate::error::{Error, Result};
use crate::transport::{broken, open};

/// The array says something at least every second. Arbitrary: a busy machine may take long.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A message of the array.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// The first one.
    Hello(Hello),
    /// What hosts did in the last second.
    Figures(Figures),
    /// Something happened.
    Event {
        /// What to name to hear all events after this one.
        id: String,
        /// What happened.
        event: Event,
    },
}

/// A stream of messages.
pub struct Live<'a> {
    client: &'a Client,
    body: Incoming,
    /// What came and is no whole message yet.
    begun: Vec<u8>,
}

impl Client {
    /// Listens to the array. With the id of an event come all after it first; of another life of the array,
    /// all there are.
    pub fn live(&self, last_event: Option<&str>) -> Result<Live<'_>> {
        let more: Vec<(&str, &str)> = last_event.map(|id| ("last-event-id", id)).into_iter().collect();
        let asked = open(self.address(), self.token(), Method::GET, "/v1/live", None, &more);
        let body = self.runtime().block_on(asked)?.into_body();
        Ok(Live { client: self, body, begun: Vec::new() })
    }
}

impl Live<'_> {
    /// Waits for the next message; `None` when the array ends the stream, as it does when it stops.
    // Not an iterator: it waits, and what goes wrong ends it.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Message>> {
        loop {
            while let Some(end) = end_of_message(&self.begun) {
                let text: Vec<u8> = self.begun.drain(..end).collect();
                if let Some(message) = message(&String::from_utf8_lossy(&text)) {
                    return Ok(Some(message));
                }
            }
            let address = self.client.address();
            let next = async { tokio::time::timeout(SILENCE_MAX, self.body.frame()).await };
            let frame = self.client.runtime().block_on(next).map_err(|_| {
                let what = format!("the array at {address} said nothing for {} s", SILENCE_MAX.as_secs());
                Error::new(ErrorKind::Closed, what, "look at the output of `ashlar serve`")
            })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| broken(address, &error.to_string()))?;
            if let Ok(bytes) = frame.into_data() {
                self.begun.extend_from_slice(&bytes);
            }
        }
    }
}

/// Behind an empty line.
fn end_of_message(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|two| two == b"\n\n").map(|at| at + 2)
}

/// What the lines of one message say; `None` for what a later version says, and for signs of life.
fn message(text: &str) -> Option<Message> {
    let field = |name: &str| {
        let value =
            |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(|rest| rest.trim().to_string());
        text.lines().find_map(value)
    };
    let data = field("data")?;
    match field("event")?.as_str() {
        "hello" => serde_json::from_str(&data).ok().map(Message::Hello),
        "figures" => serde_json::from_str(&data).ok().map(Message::Figures),
        "event" => Some(Message::Event { id: field("id")?, event: serde_json::from_str(&data).ok()? }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_empty_lines_and_unknown_ones_are_left_out() {
        let text = "event: event\nid: a-b:7\ndata: {\"sequence\":7,\"unix_millis\":1,\"level\":\"info\",\
            \"object\":\"array\",\"message\":\"ready\"}\n\n: still here\n\nevent: later\ndata: {}\n\nevent: h";
        let mut rest = text.as_bytes();
        let mut found = Vec::new();
        while let Some(end) = end_of_message(rest) {
            found.push(message(std::str::from_utf8(&rest[..end]).expect("it is text")));
            rest = &rest[end..];
        }
        assert_eq!(rest, b"event: h");
        let Some(Message::Event { id, event }) = &found[0] else { panic!("{found:?}") };
        assert_eq!((id.as_str(), event.sequence, event.message.as_str()), ("a-b:7", 7, "ready"));
        assert_eq!(found[1..], [None, None]);
    }
}
