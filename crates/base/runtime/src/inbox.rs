//! What other threads put before a shard: woken tasks, closures to run, finished blocking work.
//!
//! Each of the three has a bound. Closures: [`WORKS_MAX`], those counted that the shard took out and has not
//! finished. Wakes: one for each task, because a task that is scheduled already is not put in again. Finished
//! work: one for each request, and the shard bounds its requests itself.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Priority, Runtime};

/// Works of other threads that a shard has under way at most. The control side sends one for each request of
/// an operator and a few of its own; thousands at once mean that they do not end. Arbitrary.
pub const WORKS_MAX: usize = 1024;

/// A closure sent to the shard.
pub(crate) type Message = Box<dyn FnOnce(Runtime) + Send>;

#[derive(Default)]
struct Content {
    wakes: Vec<(Priority, u32)>,
    messages: VecDeque<Message>,
    /// Finished operations of the threads driver: key and result.
    completions: Vec<(u32, i32)>,
    is_closed: bool,
}

pub(crate) struct Inbox {
    content: Mutex<Content>,
    has_content: AtomicBool,
    /// The shard is, or is about to be, asleep in the kernel.
    is_asleep: AtomicBool,
    /// Works of other threads that were begun and have not ended.
    works: AtomicUsize,
    /// Absent in the simulator, which never sleeps.
    event: Option<OwnedFd>,
}

impl Inbox {
    pub(crate) fn simulated() -> Inbox {
        Inbox::with_event(None)
    }

    pub(crate) fn new() -> io::Result<Inbox> {
        // SAFETY: no pointers; the result is checked and owned below.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor nobody else owns.
        Ok(Inbox::with_event(Some(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    fn with_event(event: Option<OwnedFd>) -> Inbox {
        Inbox {
            content: Mutex::new(Content::default()),
            has_content: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
            works: AtomicUsize::new(0),
            event,
        }
    }

    pub(crate) fn event_fd(&self) -> Option<RawFd> {
        self.event.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // No code runs under the lock that could leave it half changed.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake_task(&self, priority: Priority, task: u32) {
        let mut content = self.lock();
        if content.is_closed {
            return;
        }
        content.wakes.push((priority, task));
        drop(content);
        self.announce();
    }

    pub(crate) fn complete(&self, key: u32, result: i32) {
        self.lock().completions.push((key, result));
        self.announce();
    }

    /// A place among the works of other threads; `None` when all are taken.
    pub(crate) fn begin_work(inbox: &Arc<Inbox>) -> Option<Work> {
        let before = inbox.works.fetch_add(1, Ordering::AcqRel);
        // Made before the look, so that it gives the place back.
        let work = Work { inbox: inbox.clone() };
        (before < WORKS_MAX).then_some(work)
    }

    /// Queues a closure, or gives it back when the shard has ended.
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        let mut content = self.lock();
        if content.is_closed {
            return Err(message);
        }
        content.messages.push_back(message);
        drop(content);
        self.announce();
        Ok(())
    }

    /// Refuses further closures and hands out those not run.
    pub(crate) fn close(&self) -> VecDeque<Message> {
        let mut content = self.lock();
        content.is_closed = true;
        std::mem::take(&mut content.messages)
    }

    fn announce(&self) {
        self.has_content.store(true, Ordering::SeqCst);
        if self.is_asleep.swap(false, Ordering::SeqCst)
            && let Some(event) = &self.event
        {
            let one = 1u64.to_ne_bytes();
            // SAFETY: eight readable bytes; a full counter already wakes the sleeper.
            unsafe { libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// Announces the sleep; false when there is something to do first.
    pub(crate) fn prepare_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        if self.has_content.load(Ordering::SeqCst) {
            self.is_asleep.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Reads the event counter back to zero; it was reported readable.
    pub(crate) fn clear_event(&self) {
        if let Some(event) = &self.event {
            let mut counter = [0u8; 8];
            // SAFETY: eight writable bytes.
            unsafe { libc::read(event.as_raw_fd(), counter.as_mut_ptr().cast(), counter.len()) };
        }
    }

    pub(crate) fn end_sleep(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    pub(crate) fn has_content(&self) -> bool {
        self.has_content.load(Ordering::Acquire)
    }

    /// Moves everything out; `None` when there is nothing.
    pub(crate) fn take(&self) -> Option<Taken> {
        if !self.has_content() {
            return None;
        }
        let mut content = self.lock();
        self.has_content.store(false, Ordering::SeqCst);
        Some(Taken {
            wakes: std::mem::take(&mut content.wakes),
            messages: std::mem::take(&mut content.messages),
            completions: std::mem::take(&mut content.completions),
        })
    }
}

/// One work's place, given back when the work ends or is dropped.
pub(crate) struct Work {
    inbox: Arc<Inbox>,
}

impl Drop for Work {
    fn drop(&mut self) {
        let before = self.inbox.works.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a work ended that was not begun");
    }
}

/// What was in the inbox.
pub(crate) struct Taken {
    pub(crate) wakes: Vec<(Priority, u32)>,
    pub(crate) messages: VecDeque<Message>,
    pub(crate) completions: Vec<(u32, i32)>,
}
