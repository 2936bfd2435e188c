//! The memory for data that all sessions share, so that no session takes what the others need.
//!
//! Nobody waits for a share: a command for which none is there is told to come again. A session holds no more
//! than it leaves free, so however many take all they get, there is something left for the next: one session
//! alone gets a half of all, and one that comes behind two greedy ones an eighth.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ashlar_runtime::sync::{Permit, Semaphore};

/// Payload bytes of all commands under way.
pub(crate) struct Budget {
    all: Semaphore,
}

/// What one session holds of it.
#[derive(Clone, Default)]
pub(crate) struct Held(Rc<Cell<usize>>);

/// A part that a command took; it goes back when this is dropped.
pub(crate) struct Share {
    _permit: Permit,
    bytes: usize,
    held: Held,
}

impl Held {
    pub fn bytes(&self) -> usize {
        self.0.get()
    }
}

impl Budget {
    pub fn new(bytes: usize) -> Budget {
        Budget { all: Semaphore::new(bytes) }
    }

    /// Takes so many bytes for a session, if they are there and it leaves enough to the others.
    pub fn take(&self, held: &Held, bytes: usize) -> Option<Share> {
        let left = self.all.available().checked_sub(bytes)?;
        let after = held.0.get() + bytes;
        if after > left {
            return None;
        }
        let permit = self.all.try_acquire(bytes)?;
        held.0.set(after);
        Some(Share { _permit: permit, bytes, held: held.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let held = &self.held.0;
        held.set(held.get() - self.bytes);
    }
}

/// How long so many bytes may be on their way from or to an initiator: the time that it may stall, and a
/// thirtieth more for each MiB.
pub(crate) fn patience(stall_max: Duration, bytes: usize) -> Duration {
    let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    stall_max + (stall_max / 30).saturating_mul(mebibytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes pieces until there are no more.
    fn take_all(budget: &Budget, held: &Held) -> Vec<Share> {
        std::iter::from_fn(|| budget.take(held, 1)).collect()
    }

    #[test]
    fn however_many_take_all_they_get_the_next_gets_something() {
        let budget = Budget::new(1000);
        let sessions: Vec<Held> = (0..10).map(|_| Held::default()).collect();
        let mut shares = Vec::new();
        let mut sizes = Vec::new();
        for session in &sessions {
            let taken = take_all(&budget, session);
            sizes.push(taken.len());
            shares.extend(taken);
        }
        assert_eq!(sizes[..4], [500, 250, 125, 62], "a half of what is there");
        assert!(sizes[6] > 0, "{sizes:?}");
        assert_eq!(shares.len(), 1000 - budget.all.available());
    }

    #[test]
    fn what_is_given_back_may_be_taken_again_by_all() {
        let budget = Budget::new(80);
        let (one, other) = (Held::default(), Held::default());
        let first = budget.take(&one, 40).unwrap();
        assert!(budget.take(&one, 1).is_none(), "it holds as much as is free");
        assert!(budget.take(&other, 21).is_none());
        drop(budget.take(&other, 20).unwrap());
        drop(first);
        assert_eq!((one.0.get(), other.0.get(), budget.all.available()), (0, 0, 80));
        assert!(budget.take(&other, 40).is_some());
    }

    #[test]
    fn patience_grows_with_what_is_on_its_way() {
        let second = Duration::from_secs(1);
        assert_eq!(patience(30 * second, 512), 30 * second);
        assert_eq!(patience(30 * second, 100 << 20), 130 * second);
    }
}
