//! Replies on their way to the socket: many small ones in one buffer, large ones as they are.

use std::collections::VecDeque;

use ashlar_runtime::{Buf, Runtime};

use crate::door::Share;
use crate::session::Output;

/// Size of a buffer that gathers small replies. 64 replies to 4 KiB reads fit, the depth benchmarks
/// use; a UNIX socket's own buffer is about as large.
const BATCH_BYTES: usize = 256 << 10;
/// A reply of this size is not copied into a batch. At 64 KiB a copy costs a few microseconds, about
/// what another send costs.
const OWN_BUFFER_BYTES_MIN: usize = 64 << 10;
/// Batch buffers kept for the next batch: one is filled while the other is sent.
const SPARE_MAX: usize = 2;

/// A buffer to send, with the memory its replies took of the door's budget.
pub(crate) struct Outgoing {
    pub buf: Buf,
    pub share: Share,
}

/// The queue of bytes that one connection has still to send.
pub(crate) struct Outbox {
    runtime: Runtime,
    queue: VecDeque<Outgoing>,
    /// The last buffer of the queue is a batch with room at its end.
    is_last_open: bool,
    spare: Vec<Buf>,
    /// Bytes queued, and those a send is working on.
    bytes: usize,
}

impl Outbox {
    pub fn new(runtime: &Runtime) -> Outbox {
        Outbox {
            runtime: runtime.clone(),
            queue: VecDeque::new(),
            is_last_open: false,
            spare: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes that were queued and not yet sent.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues a reply that has a buffer of its own.
    pub fn push(&mut self, buf: Buf) {
        if buf.len() < OWN_BUFFER_BYTES_MIN {
            self.put(&buf);
            return;
        }
        self.bytes += buf.len();
        self.queue.push_back(Outgoing { buf, share: Share::default() });
        self.is_last_open = false;
    }

    /// Keeps a share until everything queued now has left.
    pub fn hold(&mut self, share: Share) {
        if let Some(last) = self.queue.back_mut() {
            last.share.absorb(share);
        }
    }

    /// Takes the next buffer to send; give it back with [`Outbox::sent`].
    pub fn pop(&mut self) -> Option<Outgoing> {
        let next = self.queue.pop_front()?;
        if self.queue.is_empty() {
            self.is_last_open = false;
        }
        Some(next)
    }

    /// The buffer's bytes are on their way, or will never be.
    pub fn sent(&mut self, buf: Buf) {
        self.bytes -= buf.len();
        if self.spare.len() < SPARE_MAX && buf.capacity() == BATCH_BYTES {
            self.spare.push(buf);
        }
    }

    fn open_batch(&mut self) {
        let mut batch = self.spare.pop().unwrap_or_else(|| self.runtime.buffer(BATCH_BYTES));
        batch.set_len(0);
        self.queue.push_back(Outgoing { buf: batch, share: Share::default() });
        self.is_last_open = true;
    }
}

impl Output for Outbox {
    fn put(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if !self.is_last_open {
                self.open_batch();
            }
            let last = self.queue.back_mut().expect("an open batch is the last of the queue");
            let batch = &mut last.buf;
            let filled = batch.len();
            let length = rest.len().min(BATCH_BYTES - filled);
            batch.set_len(filled + length);
            batch[filled..].copy_from_slice(&rest[..length]);
            self.is_last_open = filled + length < BATCH_BYTES;
            self.bytes += length;
            rest = &rest[length..];
        }
    }
}
