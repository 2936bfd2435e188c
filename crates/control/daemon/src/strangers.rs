//! Connections over TCP that have shown no token yet, nor a certificate where one is asked for. Everybody can
//! open them, so they have little time, and the oldest gives way when no place is left.

use std::collections::{BTreeMap, VecDeque};
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

/// The strangers at one entrance, the oldest first, and who is none any more.
#[derive(Clone)]
pub(crate) struct Strangers {
    table: Arc<Mutex<Table>>,
    /// Connections that one account may have: the rest is for others.
    of_one_max: usize,
}

#[derive(Default)]
struct Table {
    last: u64,
    entries: VecDeque<Entry>,
    /// Connections of each account.
    known: BTreeMap<String, usize>,
}

struct Entry {
    number: u64,
    place: Place,
    gives_way: Arc<Notify>,
}

impl Strangers {
    /// At an entrance where one account may have so many connections.
    pub(crate) fn new(of_one_max: usize) -> Strangers {
        Strangers { table: Arc::default(), of_one_max }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder of this lock panics")
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

    /// The place of one that an account has from now on; `None` where it is another's already.
    fn take(&self, number: u64, account: String) -> Result<Option<Own>, TooMany> {
        let mut table = self.table();
        let count = table.known.get(&account).copied().unwrap_or(0);
        if count >= self.of_one_max {
            return Err(TooMany(count));
        }
        let Some(place) = table.remove(number) else { return Ok(None) };
        table.known.insert(account.clone(), count + 1);
        Ok(Some(Own { strangers: self.clone(), account, _place: place }))
    }
}

impl Table {
    fn remove(&mut self, number: u64) -> Option<Place> {
        let index = self.entries.iter().position(|entry| entry.number == number)?;
        self.entries.remove(index).map(|entry| entry.place)
    }
}

/// An account has so many connections, which is the most of one.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct TooMany(pub(crate) usize);

/// A place that is nobody's to take.
struct Own {
    strangers: Strangers,
    account: String,
    _place: Place,
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut table = self.strangers.table();
        let count = table.known.get(&self.account).map_or(0, |count| count - 1);
        match count {
            0 => drop(table.known.remove(&self.account)),
            count => drop(table.known.insert(self.account.clone(), count)),
        }
    }
}

/// Whether a connection has shown a token.
pub(crate) struct Standing {
    strangers: Strangers,
    number: u64,
    gives_way: Arc<Notify>,
    end: Instant,
    /// Its place, once it is nobody's to take.
    own: Mutex<Option<Own>>,
}

impl Standing {
    /// It showed the right one, or a certificate, of this account: it is no stranger any more. Refused where
    /// that has as many connections as one may.
    pub(crate) fn show_token(&self, account: impl FnOnce() -> String) -> Result<(), TooMany> {
        let mut own = self.own.lock().expect("no holder of this lock panics");
        if own.is_none() {
            *own = self.strangers.take(self.number, account())?;
        }
        Ok(())
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
        drop(self.strangers.table().remove(self.number));
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
        let (places, strangers) = (Arc::new(Semaphore::new(3)), Strangers::new(3));
        let known = strangers.add(place(&places));
        known.show_token(|| "a".to_string()).unwrap();
        let (first, second) = (strangers.add(place(&places)), strangers.add(place(&places)));
        let third = strangers.add(strangers.replace_oldest().unwrap());
        first.until_unwelcome().await;
        // Too late: its place is another's.
        first.show_token(|| "a".to_string()).unwrap();
        drop(first);
        assert_eq!(places.available_permits(), 0);
        third.show_token(|| "a".to_string()).unwrap();
        assert!(strangers.replace_oldest().is_some() && strangers.replace_oldest().is_none());
        assert_eq!(places.available_permits(), 1);
        second.until_unwelcome().await;
        drop((known, third));
        assert_eq!(places.available_permits(), 3);
    }

    /// The harm: one program with the token of a viewer keeps every admin out.
    #[test]
    fn one_account_leaves_places_to_the_next() {
        let (places, strangers) = (Arc::new(Semaphore::new(4)), Strangers::new(2));
        let mut own: Vec<Standing> = (0..3).map(|_| strangers.add(place(&places))).collect();
        assert!(own[..2].iter().all(|one| one.show_token(|| "a".to_string()) == Ok(())));
        assert_eq!(own[2].show_token(|| "a".to_string()), Err(TooMany(2)));
        assert_eq!(own[2].show_token(|| "b".to_string()), Ok(()));
        // What it has goes on.
        assert!(own[0].show_token(|| "a".to_string()) == Ok(()) && own[0].has_shown_token());
        drop(own.remove(0));
        assert_eq!(strangers.add(place(&places)).show_token(|| "a".to_string()), Ok(()));
        drop(own);
        assert_eq!((places.available_permits(), strangers.table().known.len()), (4, 0));
    }

    #[tokio::test]
    async fn who_shows_no_token_has_little_time() {
        let (places, strangers) = (Arc::new(Semaphore::new(2)), Strangers::new(2));
        let (mut known, mut stranger) = (strangers.add(place(&places)), strangers.add(place(&places)));
        assert!(stranger.end <= Instant::now() + STRANGER_MAX);
        known.show_token(|| "a".to_string()).unwrap();
        (known.end, stranger.end) = (Instant::now(), Instant::now());
        stranger.until_unwelcome().await;
        let more = tokio::time::timeout(Duration::from_millis(50), known.until_unwelcome()).await;
        assert!(more.is_err());
    }
}
