//! A lock that many whole-block writes share and one read-modify-write has to itself.
//!
//! Without it an aligned write that is acknowledged between the read and the write of somebody's
//! read-modify-write of the same block would be overwritten by older bytes. Single-threaded; who
//! waits for the gate alone is served before new sharers, so neither side starves.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

#[derive(Default)]
struct State {
    sharers: usize,
    is_alone: bool,
    /// Those that want the gate alone, oldest first, by ticket.
    waiting_alone: VecDeque<(u64, Waker)>,
    waiting_shared: Vec<Waker>,
    ticket_next: u64,
}

/// The gate of one file.
#[derive(Default)]
pub struct Gate(RefCell<State>);

/// Passage through the gate; it ends when dropped.
pub struct Passage<'a> {
    gate: &'a Gate,
    is_alone: bool,
}

impl Gate {
    /// Passes together with other sharers.
    pub async fn shared(&self) -> Passage<'_> {
        poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            if state.is_alone || !state.waiting_alone.is_empty() {
                state.waiting_shared.push(context.waker().clone());
                return Poll::Pending;
            }
            state.sharers += 1;
            Poll::Ready(())
        })
        .await;
        Passage { gate: self, is_alone: false }
    }

    /// Passes with nobody else inside.
    pub async fn alone(&self) -> Passage<'_> {
        let ticket = {
            let mut state = self.0.borrow_mut();
            state.ticket_next += 1;
            state.ticket_next
        };
        poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            let is_first = state.waiting_alone.front().is_none_or(|(first, _)| *first == ticket);
            if is_first && !state.is_alone && state.sharers == 0 {
                state.waiting_alone.retain(|(waiting, _)| *waiting != ticket);
                state.is_alone = true;
                return Poll::Ready(());
            }
            match state.waiting_alone.iter_mut().find(|(waiting, _)| *waiting == ticket) {
                Some((_, waker)) => waker.clone_from(context.waker()),
                None => state.waiting_alone.push_back((ticket, context.waker().clone())),
            }
            Poll::Pending
        })
        .await;
        Passage { gate: self, is_alone: true }
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.0.borrow_mut();
        if self.is_alone {
            state.is_alone = false;
        } else {
            state.sharers -= 1;
        }
        if state.sharers > 0 {
            return;
        }
        let next_alone = state.waiting_alone.front().map(|(_, waker)| waker.clone());
        let wakers = match next_alone {
            Some(waker) => vec![waker],
            None => std::mem::take(&mut state.waiting_shared),
        };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}
