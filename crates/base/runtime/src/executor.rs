//! Tasks of one shard: a table of futures, four queues, wakers that any thread may call.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use crate::inbox::Inbox;
use crate::slots::Slots;

/// How urgent a task is. Lower ranks get fewer turns while higher ones have work, never none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// A host waits for it.
    Host,
    /// The journal: many hosts wait for it.
    Journal,
    /// Moving journalled data to their place.
    Destage,
    /// Cleaning, scrubbing, rebuilding.
    Background,
}

const PRIORITIES: usize = 4;
/// Polls per turn of the loop for each queue while hosts have more to do than a turn takes on, and while
/// they have not. Few of theirs, so that answers leave and requests arrive while others are worked on: with
/// 64 a burst of 32 cached reads went through the shard as one convoy, a seventh slower. The others' shares
/// follow, but only then: a turn has a price of its own, and work of many small steps would pay it for each.
const CREDITS_OF_BURST: [u32; PRIORITIES] = [16, 16, 4, 1];
const CREDITS: [u32; PRIORITIES] = [16, 64, 16, 4];

type LocalTask = Pin<Box<dyn Future<Output = ()>>>;

/// The queues of runnable tasks, by priority.
#[derive(Default)]
pub(crate) struct RunQueues {
    queues: RefCell<[VecDeque<u32>; PRIORITIES]>,
}

impl RunQueues {
    fn push(&self, priority: Priority, task: u32) {
        self.queues.borrow_mut()[priority as usize].push_back(task);
    }

    fn pop(&self, priority: usize) -> Option<u32> {
        self.queues.borrow_mut()[priority].pop_front()
    }

    fn len_of(&self, priority: Priority) -> usize {
        self.queues.borrow()[priority as usize].len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.borrow().iter().all(VecDeque::is_empty)
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.borrow().iter().map(VecDeque::len).sum()
    }

    /// Takes the runnable task at `position`, counted over all queues.
    pub(crate) fn take_nth(&self, mut position: usize) -> Option<u32> {
        for queue in self.queues.borrow_mut().iter_mut() {
            if position < queue.len() {
                return queue.remove(position);
            }
            position -= queue.len();
        }
        None
    }
}

/// The shard whose loop runs on this thread, if any.
#[derive(Clone, Copy)]
struct Current {
    inbox: *const Inbox,
    queues: *const RunQueues,
}

impl Current {
    const NONE: Current = Current { inbox: std::ptr::null(), queues: std::ptr::null() };
}

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(Current::NONE) };
}

/// Marks this thread as the executor's until dropped; wakes then take the short way.
pub(crate) struct Entered<'a> {
    previous: Current,
    _executor: &'a Executor,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}

struct TaskHeader {
    inbox: Arc<Inbox>,
    task: u32,
    priority: Priority,
    /// In a queue or in the inbox already.
    is_scheduled: AtomicBool,
}

impl Wake for TaskHeader {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let current = CURRENT.get();
        if std::ptr::eq(current.inbox, Arc::as_ptr(&self.inbox)) {
            // SAFETY: the pointer is set by `Executor::enter` for exactly as long as the executor is
            // borrowed on this thread, so the queues live and are used by this thread only.
            unsafe { (*current.queues).push(self.priority, self.task) };
        } else {
            self.inbox.wake_task(self.priority, self.task);
        }
    }
}

struct TaskSlot {
    /// Absent while the task is being polled.
    future: Option<LocalTask>,
    header: Arc<TaskHeader>,
    waker: Option<Waker>,
}

pub(crate) struct Executor {
    tasks: RefCell<Slots<TaskSlot>>,
    queues: Rc<RunQueues>,
    inbox: Arc<Inbox>,
    is_closed: Cell<bool>,
}

impl Executor {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Executor {
        Executor {
            tasks: RefCell::new(Slots::new()),
            queues: Rc::new(RunQueues::default()),
            inbox,
            is_closed: Cell::new(false),
        }
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    pub(crate) fn queues(&self) -> &RunQueues {
        &self.queues
    }

    pub(crate) fn enter(&self) -> Entered<'_> {
        let current = Current { inbox: Arc::as_ptr(&self.inbox), queues: Rc::as_ptr(&self.queues) };
        Entered { previous: CURRENT.replace(current), _executor: self }
    }

    pub(crate) fn spawn(&self, priority: Priority, future: LocalTask) {
        if self.is_closed.get() {
            return;
        }
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.insert_with(|task| {
            let inbox = self.inbox.clone();
            let header = Arc::new(TaskHeader { inbox, task, priority, is_scheduled: AtomicBool::new(true) });
            let waker = Some(Waker::from(header.clone()));
            TaskSlot { future: Some(future), header, waker }
        });
        drop(tasks);
        self.queues.push(priority, task);
    }

    /// Queues a task woken by another thread.
    pub(crate) fn accept_wake(&self, priority: Priority, task: u32) {
        self.queues.push(priority, task);
    }

    /// Runs ready tasks within one turn's credits; true when any ran.
    pub(crate) fn run_turn(&self) -> bool {
        let is_burst = self.queues.len_of(Priority::Host) > CREDITS[Priority::Host as usize] as usize;
        let mut has_run = false;
        for (priority, credits) in if is_burst { CREDITS_OF_BURST } else { CREDITS }.iter().enumerate() {
            for _ in 0..*credits {
                let Some(task) = self.queues.pop(priority) else { break };
                self.poll_task(task);
                has_run = true;
            }
        }
        has_run
    }

    pub(crate) fn poll_task(&self, task: u32) {
        let (mut future, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            // A wake may outlive its task; the slot is then empty or another task's, which a needless
            // poll does not harm.
            let Some(slot) = tasks.get_mut(task) else { return };
            slot.header.is_scheduled.store(false, Ordering::Release);
            let (Some(future), Some(waker)) = (slot.future.take(), slot.waker.take()) else { return };
            (future, waker)
        };
        let is_done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut tasks = self.tasks.borrow_mut();
        if is_done || self.is_closed.get() {
            let slot = tasks.remove(task);
            drop(tasks);
            // Dropped with nothing borrowed: destructors may spawn or wake.
            drop(future);
            drop(slot);
        } else if let Some(slot) = tasks.get_mut(task) {
            slot.future = Some(future);
            slot.waker = Some(waker);
        }
    }

    /// Drops every task; later spawns are dropped at once.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        let slots = std::mem::replace(&mut *self.tasks.borrow_mut(), Slots::new());
        for slot in slots.into_values() {
            drop(slot);
        }
    }
}
