//! Bytes on their way to the socket, gathered in buffers of one send each.

use std::collections::VecDeque;
use std::time::Duration;

use ashlar_runtime::{Buf, Instant, Runtime};

use crate::budget::{Share, patience};
use crate::wire::Output;

/// Size of a buffer. Arbitrary: the same as NBD's, which holds 64 answers of 4 KiB.
const BATCH_BYTES: usize = 256 << 10;
/// Buffers kept for later: one is filled while another is sent.
const SPARE_MAX: usize = 2;

/// A buffer to send, with the shares of the budget that go back when it has left.
pub(crate) struct Outgoing {
    pub buf: Buf,
    pub shares: Vec<Share>,
    /// An initiator that has not taken it by then is cut off.
    pub due: Instant,
}

/// The queue of bytes that one connection has still to send.
pub(crate) struct Outbox {
    runtime: Runtime,
    stall_max: Duration,
    queue: VecDeque<Outgoing>,
    spare: Vec<Buf>,
    /// Bytes queued, and those a send is working on.
    bytes: usize,
}

impl Outbox {
    pub fn new(runtime: &Runtime, stall_max: Duration) -> Outbox {
        Outbox { runtime: runtime.clone(), stall_max, queue: VecDeque::new(), spare: Vec::new(), bytes: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Keeps a share until everything queued now has left.
    pub fn hold(&mut self, share: Share) {
        if let Some(last) = self.queue.back_mut() {
            last.shares.push(share);
        }
    }

    /// Takes the next buffer to send; give it back with [`Outbox::sent`].
    pub fn pop(&mut self) -> Option<Outgoing> {
        self.queue.pop_front()
    }

    /// The buffer's bytes are on their way, or will never be.
    pub fn sent(&mut self, buf: Buf) {
        self.bytes -= buf.len();
        if self.spare.len() < SPARE_MAX && buf.capacity() == BATCH_BYTES {
            self.spare.push(buf);
        }
    }

    /// The last buffer if it has room, or a new one.
    fn open(&mut self) -> &mut Buf {
        if self.queue.back().is_none_or(|last| last.buf.len() == BATCH_BYTES) {
            let mut buf = self.spare.pop().unwrap_or_else(|| self.runtime.buffer(BATCH_BYTES));
            buf.set_len(0);
            // Whatever is ahead of it must leave first.
            let due = self.runtime.now() + patience(self.stall_max, self.bytes);
            self.queue.push_back(Outgoing { buf, shares: Vec::new(), due });
        }
        &mut self.queue.back_mut().expect("one was just put there").buf
    }
}

impl Output for Outbox {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        let mut rest = bytes;
        while !rest.is_empty() {
            let buf = self.open();
            let filled = buf.len();
            let (now, later) = rest.split_at(rest.len().min(BATCH_BYTES - filled));
            buf.set_len(filled + now.len());
            buf[filled..].copy_from_slice(now);
            rest = later;
        }
    }
}
