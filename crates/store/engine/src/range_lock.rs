//! Keeps a write of part of a block apart from the other writes of that block, by whatever doors they
//! come.
//!
//! A partial write reads the blocks it touches, changes them and writes them whole. What somebody else
//! wrote there between the read and the write would be lost. So every write says here which blocks it
//! is about to change, and the write path writes nothing without that:
//!
//! | whose turn | waits for those that came before and share a block with it |
//! | --- | --- |
//! | a partial write | every write, and a replacement |
//! | a whole write (unmap and zeroing of whole blocks, too) | partial writes |
//! | a replacement of the content (restore, resize) | partial writes, and a replacement |
//!
//! Whole writes and replacements need not wait for each other: the journal puts them in order, and
//! neither brings back what the other replaced. Snapshots, clones and deletes are not here at all: a
//! partial write lands before or behind them as a whole.
//!
//! Invariants:
//! 1. A partial write reads when every write of its blocks that came before is applied, so it reads
//!    what they wrote: an entry goes only when its write is applied or refused.
//! 2. Who came later submits nothing for these blocks before the partial write is applied.
//! 3. Everybody waits for earlier tickets only: there is no circle, and nobody is overtaken for ever.
//! 4. There is an entry for a request under way, and for nothing else: what a volume needed goes with
//!    its requests.
//!
//! A whole write pays one look at an empty list and a place in a table that is used again: no memory is
//! taken and nothing is waited for while no partial write is under way.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::task::{Poll, Waker};

use ashlar_units::{Fault, VolumeId, planted};

/// What is to happen to the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Blocks are read, changed in part and written.
    Part,
    /// Blocks are written, unmapped or zeroed without a look at them.
    Whole,
    /// The volume gets another content or size.
    Replace,
}

/// The blocks of all requests that change volumes at this moment.
#[derive(Default)]
pub(crate) struct RangeLock {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    ticket_next: u64,
    /// Partial writes and replacements, by ticket.
    alone: Vec<Entry>,
    /// Whole writes, in any order. An empty place is in `whole_free`.
    whole: Vec<Option<Entry>>,
    whole_free: Vec<usize>,
}

struct Entry {
    wanted: Wanted,
    /// Who is to be told when something is released that it may wait for.
    waker: Option<Waker>,
}

#[derive(Clone, Copy)]
struct Wanted {
    ticket: u64,
    turn: Turn,
    volume: VolumeId,
    first: u64,
    end: u64,
}

/// Blocks that are this request's turn until it is dropped.
pub(crate) struct HeldRange<'a> {
    lock: &'a RangeLock,
    wanted: Wanted,
    /// Its place among the whole writes.
    place: usize,
}

impl Wanted {
    fn waits_for(&self, other: &Wanted) -> bool {
        let is_rival = match (self.turn, other.turn) {
            (Turn::Part, _) | (Turn::Whole | Turn::Replace, Turn::Part) | (Turn::Replace, Turn::Replace) => {
                true
            }
            (Turn::Whole, Turn::Whole | Turn::Replace) | (Turn::Replace, Turn::Whole) => false,
        };
        is_rival
            && !(planted(Fault::WholeDoesNotWait) && self.turn == Turn::Whole)
            && other.ticket < self.ticket
            && other.volume == self.volume
            && !(planted(Fault::PartsDoNotWait) && self.turn == other.turn)
            && other.first < self.end
            && self.first < other.end
    }
}

impl RangeLock {
    /// Waits until the blocks are ours.
    pub(crate) async fn hold(&self, turn: Turn, volume: VolumeId, blocks: Range<u64>) -> HeldRange<'_> {
        let held = self.enter(turn, volume, blocks);
        if !self.state.borrow().must_wait(&held.wanted) {
            return held;
        }
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            if !state.must_wait(&held.wanted) {
                return Poll::Ready(());
            }
            state.entry_mut(&held).waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        held
    }

    fn enter(&self, turn: Turn, volume: VolumeId, blocks: Range<u64>) -> HeldRange<'_> {
        let Range { start: first, end } = blocks;
        assert!(first < end, "a range of no block: {first} up to {end}");
        let mut state = self.state.borrow_mut();
        let ticket = state.ticket_next;
        state.ticket_next += 1;
        let wanted = Wanted { ticket, turn, volume, first, end };
        let entry = Entry { wanted, waker: None };
        let place = match turn {
            Turn::Part | Turn::Replace => {
                state.alone.push(entry);
                usize::MAX
            }
            Turn::Whole => match state.whole_free.pop() {
                Some(place) => {
                    let before = state.whole[place].replace(entry);
                    assert!(before.is_none(), "place {place} is somebody's");
                    place
                }
                None => {
                    state.whole.push(Some(entry));
                    state.whole.len() - 1
                }
            },
        };
        HeldRange { lock: self, wanted, place }
    }

    /// Requests that are in the table.
    #[cfg(test)]
    fn entries(&self) -> usize {
        let state = self.state.borrow();
        state.alone.len() + state.whole.len() - state.whole_free.len()
    }
}

impl State {
    fn must_wait(&self, wanted: &Wanted) -> bool {
        let is_before = |entry: &Entry| wanted.waits_for(&entry.wanted);
        self.alone.iter().any(is_before)
            || (wanted.turn == Turn::Part
                && !planted(Fault::PartDoesNotWait)
                && self.whole.iter().flatten().any(is_before))
    }

    fn entry_mut(&mut self, held: &HeldRange<'_>) -> &mut Entry {
        match held.wanted.turn {
            Turn::Part | Turn::Replace => {
                let index = self.index_of(held.wanted.ticket);
                &mut self.alone[index]
            }
            Turn::Whole => self.whole[held.place].as_mut().expect("a held place is not empty"),
        }
    }

    fn index_of(&self, ticket: u64) -> usize {
        let found = self.alone.binary_search_by_key(&ticket, |entry| entry.wanted.ticket);
        found.expect("an entry stays until its holder is dropped")
    }

    /// Takes out who may wait for what is released, in the order of their tickets.
    fn take_waiting(&mut self, released: &Wanted) -> Vec<Waker> {
        if self.alone.is_empty() && released.turn != Turn::Part {
            // Whole writes wait for partial ones only.
            return Vec::new();
        }
        let mut woken = Vec::new();
        for entry in self.alone.iter_mut().chain(self.whole.iter_mut().flatten()) {
            if entry.waker.is_some() && entry.wanted.waits_for(released) {
                woken.extend(entry.waker.take().map(|waker| (entry.wanted.ticket, waker)));
            }
        }
        woken.sort_unstable_by_key(|(ticket, _)| *ticket);
        woken.into_iter().map(|(_, waker)| waker).collect()
    }
}

impl HeldRange<'_> {
    /// True when these blocks of the volume are this request's to write.
    pub(crate) fn covers(&self, volume: VolumeId, blocks: Range<u64>) -> bool {
        let Wanted { turn, volume: own, first, end, .. } = self.wanted;
        turn != Turn::Replace && own == volume && first <= blocks.start && blocks.end <= end
    }
}

impl Drop for HeldRange<'_> {
    fn drop(&mut self) {
        let woken = {
            let mut state = self.lock.state.borrow_mut();
            match self.wanted.turn {
                Turn::Part | Turn::Replace => {
                    let index = state.index_of(self.wanted.ticket);
                    state.alone.remove(index);
                }
                Turn::Whole => {
                    let entry = state.whole[self.place].take().expect("a held place is not empty");
                    assert_eq!(entry.wanted.ticket, self.wanted.ticket, "place {}", self.place);
                    state.whole_free.push(self.place);
                }
            }
            state.take_waiting(&self.wanted)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    const VOLUME: VolumeId = VolumeId(7);

    /// Counts how often it is told.
    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Bell>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    type Holding<'a> = Pin<Box<dyn Future<Output = HeldRange<'a>> + 'a>>;

    fn begin(lock: &RangeLock, turn: Turn, blocks: Range<u64>) -> Holding<'_> {
        Box::pin(lock.hold(turn, VOLUME, blocks))
    }

    fn poll<'a>(holding: &mut Holding<'a>, bell: &Arc<Bell>) -> Option<HeldRange<'a>> {
        match holding.as_mut().poll(&mut Context::from_waker(&bell.clone().into())) {
            Poll::Ready(held) => Some(held),
            Poll::Pending => None,
        }
    }

    fn now<'a>(lock: &'a RangeLock, turn: Turn, blocks: Range<u64>) -> HeldRange<'a> {
        poll(&mut begin(lock, turn, blocks), &Arc::default()).expect("nobody is in the way")
    }

    #[test]
    fn each_kind_waits_for_whom_the_table_says_and_for_nobody_else() {
        use Turn::{Part, Replace, Whole};
        let waits = [(Part, Part), (Part, Whole), (Part, Replace), (Whole, Part), (Replace, Part)];
        for later in [Part, Whole, Replace] {
            for earlier in [Part, Whole, Replace] {
                let lock = RangeLock::default();
                let held = now(&lock, earlier, 4..6);
                let bell = Arc::default();
                let mut waiting = begin(&lock, later, 5..9);
                let must_wait = waits.contains(&(later, earlier)) || (later, earlier) == (Replace, Replace);
                let taken = poll(&mut waiting, &bell);
                assert_eq!(taken.is_none(), must_wait, "{later:?} behind {earlier:?}");
                drop(held);
                assert_eq!(bell.0.load(Ordering::Relaxed), usize::from(must_wait));
                let taken = taken.or_else(|| poll(&mut waiting, &bell));
                assert!(taken.is_some(), "{later:?} behind {earlier:?} that is gone");
                // Neighbours, and the same blocks of another volume.
                drop((now(&lock, Part, 3..5), now(&lock, Part, 9..10)));
                let mut other = Box::pin(lock.hold(Part, VolumeId(8), 5..6)) as Holding<'_>;
                assert!(poll(&mut other, &bell).is_some());
            }
        }
    }

    #[test]
    fn nobody_is_overtaken_and_nothing_stays_behind() {
        let lock = RangeLock::default();
        let first = now(&lock, Turn::Whole, 0..8);
        let bells: [Arc<Bell>; 3] = Default::default();
        let mut part = begin(&lock, Turn::Part, 2..3);
        assert!(poll(&mut part, &bells[0]).is_none());
        // Whole writes come without end: those behind the partial one let it go first.
        let mut second = begin(&lock, Turn::Whole, 0..8);
        assert!(poll(&mut second, &bells[1]).is_none());
        let aside = now(&lock, Turn::Whole, 3..8);
        let mut restore = begin(&lock, Turn::Replace, 0..u64::MAX);
        assert!(poll(&mut restore, &bells[2]).is_none());
        drop(aside);
        drop(first);
        let rung = |index: usize| bells[index].0.load(Ordering::Relaxed);
        assert_eq!((rung(0), rung(1), rung(2)), (1, 0, 0), "only who can go on is told");
        let held = poll(&mut part, &bells[0]).expect("its turn");
        assert!(held.covers(VOLUME, 2..3) && !held.covers(VOLUME, 2..4) && !held.covers(VolumeId(8), 2..3));
        drop(held);
        assert_eq!((rung(0), rung(1), rung(2)), (1, 1, 1));
        drop((poll(&mut second, &bells[1]).unwrap(), poll(&mut restore, &bells[2]).unwrap()));
        assert_eq!(lock.entries(), 0);
        assert_eq!(lock.state.borrow().whole.len(), 3, "places are used again");
        // Who gives up waiting is not waited for.
        let first = now(&lock, Turn::Part, 0..1);
        let mut given_up = begin(&lock, Turn::Part, 0..1);
        assert!(poll(&mut given_up, &bells[0]).is_none());
        let mut behind = begin(&lock, Turn::Part, 0..1);
        assert!(poll(&mut behind, &bells[1]).is_none());
        drop(given_up);
        drop(first);
        assert!(poll(&mut behind, &bells[1]).is_some());
        assert_eq!(lock.entries(), 0);
    }
}
