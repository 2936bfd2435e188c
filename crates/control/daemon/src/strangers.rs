//! Connections over TCP that have shown no token yet, nor a certificate where one is asked for. Everybody can
//! open them, so they have little time, and the oldest gives way when no place is left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

/// How long a connection may stay without, whatever it does. Arbitrary: programs show a token in their first
/// request, a handshake and the files of the console take milliseconds.
const STRANGER_MAX: Duration = Duration::from_secs(10);

/// A place at an entrance; free again when this is dropped.
pub(crate) struct Place {
    pub(crate) _of_all: OwnedSemaphorePermit,
    pub(crate) _of_guests: Option<OwnedSemaphorePermit>,
}

/// The strangers at one entrance, the oldest first.
#[derive(Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    last: u64,
    entries: VecDeque<Entry>,
}

struct Entry {
    number: u64,
    place: Place,
    gives_way: Arc<Notify>,
}

impl Strangers {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// One more.
    pub(crate) fn add(&self, place: Place) -> Standing {
        let gives_way = Arc::new(Notify::new());
        let mut table = self.table();
        table.last += 1;
        let number = table.last;
        table.entries.push_back(Entry { number, place, gives_way: gives_way.clone() });
        let end = Instant::now() + STRANGER_MAX;
        Standing { strangers: self.clone(), number, gives_way, end, own: Mutex::new(None) }
    }

    /// Takes its place from the oldest, which ends then.
    pub(crate) fn replace_oldest(&self) -> Option<Place> {
        let oldest = self.table().entries.pop_front()?;
        oldest.gives_way.notify_one();
        Some(oldest.place)
    }

    fn remove(&self, number: u64) -> Option<Place> {
        let mut table = self.table();
        let index = table.entries.iter().position(|entry| entry.number == number)?;
        table.entries.remove(index).map(|entry| entry.place)
    }
}

/// Whether a connection has shown a token.
pub(crate) struct Standing {
    strangers: Strangers,
    number: u64,
    gives_way: Arc<Notify>,
    end: Instant,
    /// Its place, once it is nobody's to take.
    own: Mutex<Option<Place>>,
}

impl Standing {
    /// It showed the right one, or a certificate: it is no stranger any more.
    pub(crate) fn show_token(&self) {
        let mut own = self.own.lock().expect("no holder of this lock panics");
        if own.is_none() {
            *own = self.strangers.remove(self.number);
        }
    }

    /// It showed one, be it long ago.
    pub(crate) fn has_shown_token(&self) -> bool {
        self.own.lock().expect("no holder of this lock panics").is_some()
    }

    /// Returns when it must end.
    pub(crate) async fn until_unwelcome(&self) {
        if tokio::time::timeout_at(self.end, self.gives_way.notified()).await.is_ok() {
            return;
        }
        let is_stranger = self.strangers.table().entries.iter().any(|entry| entry.number == self.number);
        if !is_stranger {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        drop(self.strangers.remove(self.number));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::sync::Semaphore;

    use super::*;

    fn place(places: &Arc<Semaphore>) -> Place {
        Place { _of_all: places.clone().try_acquire_owned().unwrap(), _of_guests: None }
    }

    #[tokio::test]
    async fn the_oldest_without_a_token_gives_way_and_who_showed_one_stays() {
        let (places, strangers) = (Arc::new(Semaphore::new(3)), Strangers::default());
        let known = strangers.add(place(&places));
        known.show_token();
        let (first, second) = (strangers.add(place(&places)), strangers.add(place(&places)));
        let third = strangers.add(strangers.replace_oldest().unwrap());
        first.until_unwelcome().await;
        // Too late: its place is another's.
        first.show_token();
        drop(first);
        assert_eq!(places.available_permits(), 0);
        third.show_token();
        assert!(strangers.replace_oldest().is_some() && strangers.replace_oldest().is_none());
        assert_eq!(places.available_permits(), 1);
        second.until_unwelcome().await;
        drop((known, third));
        assert_eq!(places.available_permits(), 3);
    }

    #[tokio::test]
    async fn who_shows_no_token_has_little_time() {
        let (places, strangers) = (Arc::new(Semaphore::new(2)), Strangers::default());
        let (mut known, mut stranger) = (strangers.add(place(&places)), strangers.add(place(&places)));
        assert!(stranger.end <= Instant::now() + STRANGER_MAX);
        known.show_token();
        (known.end, stranger.end) = (Instant::now(), Instant::now());
        stranger.until_unwelcome().await;
        let more = tokio::time::timeout(Duration::from_millis(50), known.until_unwelcome()).await;
        assert!(more.is_err());
    }
}
