//! The fallback driver: worker threads for drives, epoll for sockets.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::Wait;
use crate::inbox::Inbox;
use crate::operation::{Operation, descriptor};
use crate::runtime::Shard;
use crate::{Durability, Instant, clock};

const WORKERS: usize = 8;
const EVENTS_PER_TURN: usize = 64;

pub(crate) struct ThreadsDriver {
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    /// Requests that wait for a descriptor to become ready.
    watches: RefCell<BTreeMap<RawFd, Watch>>,
    /// Results known without waiting; told in the next turn, never from inside `submit`.
    finished: RefCell<Vec<(u32, i32)>>,
    queue: Arc<JobQueue>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Watch {
    readers: VecDeque<u32>,
    writers: VecDeque<u32>,
}

/// A request for a worker. The memory belongs to the shard's operations until the worker reports.
struct Job {
    key: u32,
    fd: RawFd,
    work: Work,
}

enum Work {
    Read { pointer: *mut u8, length: usize, offset: u64 },
    Write { pointer: *const u8, length: usize, offset: u64, flags: i32 },
    Sync,
    Discard { offset: u64, len: u64 },
    PlainRead { pointer: *mut u8, length: usize },
    PlainWrite { pointer: *const u8, length: usize },
}

// SAFETY: the pointers name memory that the submitting shard does not touch until the worker has
// reported the job through the inbox, so only one thread uses it at a time.
unsafe impl Send for Job {}

#[derive(Default)]
struct JobQueue {
    jobs: Mutex<(VecDeque<Job>, bool)>,
    ready: Condvar,
}

impl JobQueue {
    fn push(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).0.push_back(job);
        self.ready.notify_one();
    }

    fn stop(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.ready.notify_all();
    }

    fn pop(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = jobs.0.pop_front() {
                return Some(job);
            }
            if jobs.1 {
                return None;
            }
            jobs = self.ready.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn result_of(returned: isize) -> i32 {
    if returned < 0 {
        -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
    } else {
        returned as i32
    }
}

impl Job {
    fn run(&self) -> i32 {
        // SAFETY: every pointer and length describes a buffer kept by the shard's operations until
        // this job is reported; the descriptor is kept open by the same request.
        unsafe {
            match self.work {
                Work::Read { pointer, length, offset } => {
                    result_of(libc::pread(self.fd, pointer.cast(), length, offset as libc::off_t))
                }
                Work::Write { pointer, length, offset, flags } => {
                    let vector = libc::iovec { iov_base: pointer.cast_mut().cast(), iov_len: length };
                    result_of(libc::pwritev2(self.fd, &vector, 1, offset as libc::off_t, flags))
                }
                Work::Sync => result_of(libc::fdatasync(self.fd) as isize),
                Work::Discard { offset, len } => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    let (offset, len) = (offset as libc::off_t, len as libc::off_t);
                    result_of(libc::fallocate(self.fd, mode, offset, len) as isize)
                }
                Work::PlainRead { pointer, length } => result_of(libc::read(self.fd, pointer.cast(), length)),
                Work::PlainWrite { pointer, length } => {
                    result_of(libc::write(self.fd, pointer.cast(), length))
                }
            }
        }
    }
}

impl ThreadsDriver {
    pub(crate) fn start(inbox: &Arc<Inbox>) -> io::Result<ThreadsDriver> {
        // SAFETY: no pointers; the result is checked and owned below.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor nobody else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        if let Some(event) = inbox.event_fd() {
            control(&epoll, libc::EPOLL_CTL_ADD, event, libc::EPOLLIN as u32)?;
        }
        let mut driver = ThreadsDriver {
            inbox: inbox.clone(),
            epoll,
            watches: RefCell::new(BTreeMap::new()),
            finished: RefCell::new(Vec::new()),
            queue: Arc::new(JobQueue::default()),
            workers: Vec::new(),
        };
        for index in 0..WORKERS {
            let (queue, inbox) = (driver.queue.clone(), inbox.clone());
            let worker = std::thread::Builder::new().name(format!("ashlar-io-{index}")).spawn(move || {
                while let Some(job) = queue.pop() {
                    let result = job.run();
                    inbox.complete(job.key, result);
                }
            })?;
            driver.workers.push(worker);
        }
        Ok(driver)
    }

    pub(crate) fn submit(&self, key: u32, operation: &mut Operation) {
        let fd = descriptor(operation);
        let work = match operation {
            Operation::Read { offset, buf, start, .. } => {
                let rest = &mut buf[*start..];
                let offset = *offset + *start as u64;
                Work::Read { pointer: rest.as_mut_ptr(), length: rest.len(), offset }
            }
            Operation::Write { offset, buf, start, durability, .. } => {
                let flags = if *durability == Durability::Durable { libc::RWF_DSYNC } else { 0 };
                let rest = &buf[*start..];
                let offset = *offset + *start as u64;
                Work::Write { pointer: rest.as_ptr(), length: rest.len(), offset, flags }
            }
            Operation::Sync { .. } => Work::Sync,
            Operation::Discard { offset, len, .. } => Work::Discard { offset: *offset, len: *len },
            Operation::Accept { .. }
            | Operation::Receive { .. }
            | Operation::Send { .. }
            | Operation::ReadFd { .. }
            | Operation::WriteFd { .. } => {
                self.submit_stream(key, fd, operation);
                return;
            }
            Operation::Command { .. } => {
                self.finished.borrow_mut().push((key, -libc::EOPNOTSUPP));
                return;
            }
        };
        self.queue.push(Job { key, fd, work });
    }

    /// Tries at once, in turn behind earlier requests; waits for readiness otherwise.
    fn submit_stream(&self, key: u32, fd: RawFd, operation: &mut Operation) {
        if let Operation::ReadFd { .. } | Operation::WriteFd { .. } = operation {
            set_nonblocking(fd);
        }
        let mut watches = self.watches.borrow_mut();
        let is_write = is_write(operation);
        let is_first = watches
            .get(&fd)
            .is_none_or(|watch| if is_write { watch.writers.is_empty() } else { watch.readers.is_empty() });
        if is_first {
            let result = attempt(fd, operation);
            if result != -libc::EAGAIN {
                self.finished.borrow_mut().push((key, result));
                return;
            }
        }
        let is_new = !watches.contains_key(&fd);
        let watch = watches.entry(fd).or_default();
        let side = if is_write { &mut watch.writers } else { &mut watch.readers };
        side.push_back(key);
        if let Err(error) = arm(&self.epoll, fd, watch, is_new) {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            let refused = watches.remove(&fd).unwrap_or_default();
            if errno == libc::EPERM {
                // Not a descriptor one can wait for: a worker blocks on it instead.
                if let Some(work) = plain(operation) {
                    self.queue.push(Job { key, fd, work });
                    return;
                }
            }
            let keys = refused.readers.into_iter().chain(refused.writers);
            self.finished.borrow_mut().extend(keys.map(|key| (key, -errno)));
        }
    }

    pub(crate) fn cancel(&self, key: u32, operation: &Operation) {
        let fd = descriptor(operation);
        let mut watches = self.watches.borrow_mut();
        let Some(watch) = watches.get_mut(&fd) else { return };
        let side = if is_write(operation) { &mut watch.writers } else { &mut watch.readers };
        let before = side.len();
        side.retain(|&waiting| waiting != key);
        if side.len() == before {
            return;
        }
        self.finished.borrow_mut().push((key, -libc::ECANCELED));
        settle(&self.epoll, fd, &mut watches);
    }

    pub(crate) fn turn(&self, shard: &Shard, wait: Wait) {
        let wait = if self.finished.borrow().is_empty() { wait } else { Wait::No };
        self.poll_ready(shard, wait);
        let finished = std::mem::take(&mut *self.finished.borrow_mut());
        for (key, result) in finished {
            shard.operations.complete(key, result);
        }
    }

    fn poll_ready(&self, shard: &Shard, wait: Wait) {
        if matches!(wait, Wait::No) && self.watches.borrow().is_empty() {
            return;
        }
        let may_sleep = !matches!(wait, Wait::No) && self.inbox.prepare_sleep();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_PER_TURN];
        let count = wait_for_events(&self.epoll, &mut events, if may_sleep { wait } else { Wait::No });
        if may_sleep {
            self.inbox.end_sleep();
        }
        for event in &events[..count] {
            let fd = event.u64 as RawFd;
            if Some(fd) == self.inbox.event_fd() {
                self.inbox.clear_event();
            } else {
                self.serve(shard, fd, event.events);
            }
        }
    }

    fn serve(&self, shard: &Shard, fd: RawFd, ready: u32) {
        let mut watches = self.watches.borrow_mut();
        let Some(watch) = watches.get_mut(&fd) else { return };
        let broken = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let sides = [
            (&mut watch.readers, (libc::EPOLLIN | libc::EPOLLRDHUP) as u32),
            (&mut watch.writers, libc::EPOLLOUT as u32),
        ];
        for (side, mask) in sides {
            if ready & (mask | broken) == 0 {
                continue;
            }
            while let Some(&key) = side.front() {
                let result = shard.operations.with(key, |operation| attempt(fd, operation));
                if result == Some(-libc::EAGAIN) {
                    break;
                }
                side.pop_front();
                self.finished.borrow_mut().push((key, result.unwrap_or(-libc::ECANCELED)));
            }
        }
        settle(&self.epoll, fd, &mut watches);
    }
}

impl Drop for ThreadsDriver {
    fn drop(&mut self) {
        self.queue.stop();
        for worker in self.workers.drain(..) {
            // A worker runs system calls only; it has nothing to panic about.
            let _ = worker.join();
        }
    }
}

fn is_write(operation: &Operation) -> bool {
    matches!(operation, Operation::Send { .. } | Operation::WriteFd { .. })
}

fn plain(operation: &mut Operation) -> Option<Work> {
    match operation {
        Operation::ReadFd { buf, .. } => {
            Some(Work::PlainRead { pointer: buf.as_mut_ptr(), length: buf.len() })
        }
        Operation::WriteFd { buf, .. } => Some(Work::PlainWrite { pointer: buf.as_ptr(), length: buf.len() }),
        Operation::Read { .. }
        | Operation::Write { .. }
        | Operation::Sync { .. }
        | Operation::Discard { .. }
        | Operation::Accept { .. }
        | Operation::Receive { .. }
        | Operation::Send { .. }
        | Operation::Command { .. } => None,
    }
}

/// One try without blocking.
fn attempt(fd: RawFd, operation: &mut Operation) -> i32 {
    // SAFETY: the pointers and lengths describe the request's own buffer, borrowed for the call.
    unsafe {
        match operation {
            Operation::Accept { .. } => {
                let null = std::ptr::null_mut();
                let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
                result_of(libc::accept4(fd, null, null.cast(), flags) as isize)
            }
            Operation::Receive { buf, start, .. } => {
                let rest = &mut buf[*start..];
                result_of(libc::recv(fd, rest.as_mut_ptr().cast(), rest.len(), libc::MSG_DONTWAIT))
            }
            Operation::Send { buf, start, .. } => {
                let rest = &buf[*start..];
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                result_of(libc::send(fd, rest.as_ptr().cast(), rest.len(), flags))
            }
            Operation::ReadFd { buf, .. } => result_of(libc::read(fd, buf.as_mut_ptr().cast(), buf.len())),
            Operation::WriteFd { buf, .. } => result_of(libc::write(fd, buf.as_ptr().cast(), buf.len())),
            Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Sync { .. }
            | Operation::Discard { .. }
            | Operation::Command { .. } => -libc::EINVAL,
        }
    }
}

fn set_nonblocking(fd: RawFd) {
    // SAFETY: no pointers. A refusal shows as a blocking call, not as wrong data.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags >= 0 && flags & libc::O_NONBLOCK == 0 {
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
    }
}

fn control(epoll: &OwnedFd, action: i32, fd: RawFd, events: u32) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: fd as u64 };
    // SAFETY: `event` is valid for the call.
    if unsafe { libc::epoll_ctl(epoll.as_raw_fd(), action, fd, &mut event) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Asks for the next readiness of what the watch waits for.
fn arm(epoll: &OwnedFd, fd: RawFd, watch: &Watch, is_new: bool) -> io::Result<()> {
    let mut events = libc::EPOLLONESHOT as u32;
    if !watch.readers.is_empty() {
        events |= (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
    }
    if !watch.writers.is_empty() {
        events |= libc::EPOLLOUT as u32;
    }
    control(epoll, if is_new { libc::EPOLL_CTL_ADD } else { libc::EPOLL_CTL_MOD }, fd, events)
}

/// After a change: arms the watch again, or forgets it when nobody waits.
fn settle(epoll: &OwnedFd, fd: RawFd, watches: &mut BTreeMap<RawFd, Watch>) {
    let Some(watch) = watches.get(&fd) else { return };
    if watch.readers.is_empty() && watch.writers.is_empty() {
        // The descriptor may be closed already, which removed it too.
        let _ = control(epoll, libc::EPOLL_CTL_DEL, fd, 0);
        watches.remove(&fd);
    } else {
        arm(epoll, fd, watch, false).expect("a watched descriptor is open: its requests hold it");
    }
}

fn wait_for_events(epoll: &OwnedFd, events: &mut [libc::epoll_event], wait: Wait) -> usize {
    let left = match wait {
        Wait::No => Some(std::time::Duration::ZERO),
        Wait::Forever => None,
        Wait::Until(deadline) => Some(deadline.duration_since(Instant(clock::monotonic_nanos()))),
    };
    // Rounded up: waking a little late beats turning idly until the deadline.
    let millis = match left {
        None => -1,
        Some(left) => i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
    };
    let capacity = i32::try_from(events.len()).unwrap_or(i32::MAX);
    // SAFETY: `events` has room for `capacity` entries.
    let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), capacity, millis) };
    usize::try_from(count).unwrap_or(0)
}
