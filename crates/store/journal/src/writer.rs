//! The journal's two tasks: one builds groups and starts their writes, the caller takes them out in
//! order as they become durable.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use ashlar_format::group::GROUP_BYTES_MAX;
use ashlar_format::segment::{FooterEntry, SegmentKind, encode_footer, footer_bytes};
use ashlar_format::superblock::JournalPosition;
use ashlar_pool::{OpenedSegment, Pool};
use ashlar_runtime::sync::{Notify, Semaphore};
use ashlar_runtime::{Durability, Priority};
use ashlar_units::{Fault, Lsn, SegmentId, planted};

use crate::builder::{GroupPlace, Room, build};
use crate::queue::Queue;
use crate::{
    DurableGroup, DurableSubmission, Error, ErrorKind, GROUP_BYTES_TARGET, Result, Submission, WINDOW,
};

/// Segments the journal may open between two published segment tables. Beyond it the journal waits
/// for a checkpoint: it bounds replay and keeps frontier slots for the checkpoint itself.
const OPENED_MAX: usize = 48;

/// What the journal has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalCounters {
    /// Groups made durable.
    pub groups: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes written, headers and padding included.
    pub written_bytes: u64,
    /// Segments opened.
    pub segments: u64,
    /// The most submissions that waited for a group at once.
    pub queued_max: u64,
}

/// The write-ahead log of an open pool.
pub struct Journal<T> {
    inner: Rc<Inner<T>>,
}

struct Inner<T> {
    pool: Pool,
    queue: Queue<T>,
    window: Semaphore,
    in_flight: RefCell<VecDeque<InFlight<T>>>,
    /// Something at the front may have changed.
    front_changed: Notify,
    /// A checkpoint was published: opened segments may have been forgotten.
    table_published: Notify,
    /// Rung when the journal cannot go on without a checkpoint.
    checkpoint_wanted: Notify,
    failure: RefCell<Option<Error>>,
    /// Groups being written.
    writing: Cell<usize>,
    /// The builder has ended.
    is_finished: Cell<bool>,
    counters: Cell<JournalCounters>,
}

struct InFlight<T> {
    sequence: u64,
    group: DurableGroup<T>,
    state: WriteState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteState {
    Writing,
    Durable,
    Failed,
}

/// Where the builder writes next.
struct Tail {
    session: u32,
    sequence: u64,
    previous_hash: u64,
    next_lsn: Lsn,
    segment: Option<OpenTail>,
}

struct OpenTail {
    segment: SegmentId,
    offset: u64,
    /// Written along with the first group.
    header: Option<OpenedSegment>,
    /// `None` after a resume: what was written before is not listed, so no footer is made.
    footer: Option<Vec<FooterEntry>>,
    groups: Rc<GroupsOfSegment>,
}

/// The groups of one segment that are being written.
#[derive(Default)]
struct GroupsOfSegment {
    writing: Cell<usize>,
    has_failed: Cell<bool>,
    ended: Notify,
}

impl GroupsOfSegment {
    fn begin(&self) {
        self.writing.set(self.writing.get() + 1);
    }

    fn end(&self, is_written: bool) {
        self.writing.set(self.writing.get() - 1);
        self.has_failed.set(self.has_failed.get() || !is_written);
        self.ended.notify_one();
    }

    /// Waits for those that were begun. True when all of the segment are written.
    async fn all_written(&self) -> bool {
        while self.writing.get() > 0 {
            self.ended.notified().await;
        }
        !self.has_failed.get()
    }
}

impl<T: 'static> Journal<T> {
    /// Starts behind `position`, continuing in its segment when `resume_offset` says where: after a clean
    /// close only, since a write of a life that crashed may still be on its way there. Rings
    /// `checkpoint_wanted` when it cannot go on without a checkpoint.
    #[must_use]
    pub fn start(
        pool: &Pool,
        position: JournalPosition,
        resume_offset: Option<u64>,
        next_lsn: Lsn,
        checkpoint_wanted: Notify,
    ) -> Journal<T> {
        let inner = Rc::new(Inner {
            pool: pool.clone(),
            queue: Queue::new(),
            window: Semaphore::new(WINDOW as usize),
            in_flight: RefCell::default(),
            front_changed: Notify::new(),
            table_published: Notify::new(),
            checkpoint_wanted,
            failure: RefCell::new(None),
            writing: Cell::new(0),
            is_finished: Cell::new(false),
            counters: Cell::default(),
        });
        let segment = resume_offset.map(|offset| OpenTail {
            segment: position.segment,
            offset,
            header: None,
            footer: None,
            groups: Rc::default(),
        });
        let tail = Tail {
            session: pool.superblock().session,
            sequence: position.sequence,
            previous_hash: position.previous_hash,
            next_lsn,
            segment,
        };
        let builder = inner.clone();
        pool.runtime().spawn(Priority::Journal, async move { builder.run(tail).await });
        Journal { inner }
    }

    /// Queues changes. They are told their outcome through `done`.
    pub fn submit(&self, submission: Submission<T>) {
        let failure = self.inner.failure.borrow().clone();
        match failure {
            Some(error) => drop(submission.done.send(Err(error))),
            // Nobody would take it out again.
            None if self.inner.queue.is_closed() => {
                drop(submission.done.send(Err(self.inner.failure_or_closed())));
            }
            None => self.inner.queue.push(submission),
        }
    }

    /// Submissions not built into a group yet.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.inner.queue.len()
    }

    /// No group is in flight and nothing is queued.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner.queue.len() == 0 && self.inner.in_flight.borrow().is_empty()
    }

    /// Bytes a submission may store at most: so that it fits a group of the smallest segment, and that
    /// little of a segment's end is left over when the next one does not fit there any more.
    #[must_use]
    pub fn submission_bytes_max(&self) -> u64 {
        let segment_bytes = self.inner.pool.segment_bytes();
        (segment_bytes / 32).max((segment_bytes / 8).min(64 << 10)).min(256 << 10)
    }

    /// The next group all of whose predecessors are durable too; `None` after close or failure.
    pub async fn next_durable(&self) -> Option<DurableGroup<T>> {
        loop {
            let is_rash = planted(Fault::ToldBeforeWritten);
            let state = |front: &InFlight<T>| if is_rash { WriteState::Durable } else { front.state };
            let front = self.inner.in_flight.borrow().front().map(state);
            match front {
                Some(WriteState::Durable) => {
                    let taken = self.inner.in_flight.borrow_mut().pop_front()?;
                    self.inner.window.add_permits(1);
                    let next = taken.group.end.sequence;
                    assert_eq!(next, taken.sequence + 1, "invariant 1: a group follows another");
                    return Some(taken.group);
                }
                Some(WriteState::Failed) => {
                    self.inner.fail_everything();
                    return None;
                }
                Some(WriteState::Writing) => {}
                None if self.inner.is_finished.get() => {
                    self.inner.fail_everything();
                    return None;
                }
                None => {}
            }
            self.inner.front_changed.notified().await;
        }
    }

    /// No more submissions; what is queued is still written.
    pub fn close(&self) {
        self.inner.queue.close();
    }

    /// Stops at once with this error: queued and later submissions get it.
    pub fn fail(&self, error: Error) {
        self.inner.set_failure(error);
        self.inner.queue.close();
        self.inner.fail_queued();
        self.inner.front_changed.notify_one();
    }

    /// Why it stopped, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.inner.failure.borrow().clone()
    }

    /// Tells the journal that a checkpoint was published.
    pub fn checkpoint_published(&self) {
        self.inner.table_published.notify_waiters();
        self.inner.table_published.notify_one();
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> JournalCounters {
        JournalCounters { queued_max: self.inner.queue.len_max() as u64, ..self.inner.counters.get() }
    }
}

impl<T: 'static> Inner<T> {
    async fn run(self: Rc<Self>, mut tail: Tail) {
        while self.queue.wait(|bytes| self.writing.get() < GROUPS_EAGER || bytes >= GROUP_BYTES_WORTH).await {
            let permit = self.window.acquire(1).await;
            permit.forget();
            if self.failure.borrow().is_some() {
                break;
            }
            if let Err(error) = self.build_group(&mut tail).await {
                self.set_failure(error);
                break;
            }
        }
        self.fail_queued();
        self.is_finished.set(true);
        self.front_changed.notify_one();
    }

    /// Takes what fits into one group, in order, and starts its write.
    // tidy: long because a group is one thing: what is in it, where it goes, what follows it.
    async fn build_group(self: &Rc<Self>, tail: &mut Tail) -> Result<()> {
        let first = match self.queue.take_if(|_| true) {
            Some(first) => first,
            None => {
                // Failed or drained meanwhile: nothing to build, the window slot is free again.
                self.window.add_permits(1);
                return Ok(());
            }
        };
        let stripe_bytes = self.pool.stripe_bytes();
        let mut room = Room::default().with(&first);
        let alone = room.group_bytes(0, stripe_bytes);
        assert!(alone <= GROUP_BYTES_MAX, "a submission of {alone} bytes");
        let mut submissions = vec![first];
        if let Err(error) = self.make_room(tail, room).await {
            submissions.into_iter().for_each(|submission| drop(submission.done.send(Err(error.clone()))));
            return Err(error);
        }
        let open = tail.segment.as_mut().expect("make_room opened a segment");
        let limit = self.pool.segment_bytes();
        while let Some(next) = self.queue.take_if(|next| {
            let wider = room.with(next);
            wider.group_bytes(open.offset, stripe_bytes) <= GROUP_BYTES_TARGET
                && fits(open, wider, limit, stripe_bytes)
        }) {
            room = room.with(&next);
            submissions.push(next);
        }
        let place = GroupPlace {
            session: tail.session,
            sequence: tail.sequence,
            previous_hash: tail.previous_hash,
            first_lsn: tail.next_lsn,
            segment: open.segment,
            offset_bytes: open.offset,
        };
        let header = open.header.take();
        let header_bytes = header.map_or(0, |opened| opened.content_start as usize);
        let group_bytes = room.group_bytes(open.offset, stripe_bytes);
        let (start, end) = (open.offset, open.offset + group_bytes);
        assert!(end.is_multiple_of(stripe_bytes), "group {} ends at {end}", tail.sequence);
        assert!(end <= limit, "group {} from {start} to {end} in {limit} bytes", tail.sequence);
        assert!(header_bytes as u64 <= start, "group {} at {start} lies in its header", tail.sequence);
        let mut buffer = self.pool.runtime().buffer(header_bytes + group_bytes as usize);
        if let Some(opened) = header {
            buffer[..header_bytes].copy_from_slice(&opened.header_block(self.pool.key()));
        }
        let built = build(self.pool.key(), place, room, &submissions, &mut buffer[header_bytes..]);
        let write_at = open.offset - header_bytes as u64;
        open.offset += group_bytes;
        if let Some(footer) = &mut open.footer {
            footer.extend(built.footer);
        }
        self.pool.with_table_mut(|table| table.set_used(open.segment, open.offset));
        let mut lsn = tail.next_lsn;
        let mut durable = Vec::with_capacity(submissions.len());
        for (submission, records) in submissions.into_iter().zip(built.records) {
            let first_lsn = lsn;
            lsn = Lsn(lsn.0 + records.len() as u64);
            let Submission { credits, done, .. } = submission;
            durable.push(DurableSubmission { first_lsn, records, credits, done });
        }
        // Invariant of replay: LSNs count records, without a gap from group to group.
        let records = lsn.0 - tail.next_lsn.0;
        assert_eq!(records, built.record_count, "LSNs given out for group {}", tail.sequence);
        tail.next_lsn = lsn;
        tail.sequence += 1;
        tail.previous_hash = built.hash;
        let end = JournalPosition {
            segment: open.segment,
            offset_bytes: open.offset,
            sequence: tail.sequence,
            previous_hash: tail.previous_hash,
        };
        let group = DurableGroup { submissions: durable, end, next_lsn: lsn };
        self.count(built.record_count, buffer.len() as u64);
        let groups = open.groups.clone();
        self.start_write(place, write_at, buffer, group, groups);
        Ok(())
    }

    fn start_write(
        self: &Rc<Self>,
        place: GroupPlace,
        offset: u64,
        buffer: ashlar_runtime::Buf,
        group: DurableGroup<T>,
        groups: Rc<GroupsOfSegment>,
    ) {
        let GroupPlace { sequence, segment, .. } = place;
        let mut in_flight = self.in_flight.borrow_mut();
        let before = in_flight.back().map_or(sequence, |last| last.sequence + 1);
        assert_eq!(sequence, before, "groups are written in order");
        // Invariant 2. After a failure groups that nobody hands out any more may be on their way still.
        let count = in_flight.len() as u64;
        assert!(count < WINDOW || self.failure.borrow().is_some(), "group {sequence} behind {count} others");
        in_flight.push_back(InFlight { sequence, group, state: WriteState::Writing });
        drop(in_flight);
        let inner = self.clone();
        self.writing.set(self.writing.get() + 1);
        groups.begin();
        self.pool.runtime().spawn(Priority::Journal, async move {
            let durability =
                if planted(Fault::ToldBeforeFlushed) { Durability::Cached } else { Durability::Durable };
            let result = inner.pool.write(segment, offset, buffer, durability).await;
            groups.end(result.is_ok());
            inner.writing.set(inner.writing.get() - 1);
            inner.queue.poke();
            let state = match result {
                Ok(()) => WriteState::Durable,
                Err(error) => {
                    inner.set_failure(error);
                    WriteState::Failed
                }
            };
            let mut in_flight = inner.in_flight.borrow_mut();
            // Gone when an earlier group failed: its submissions have been told already.
            if let Some(entry) = in_flight.iter_mut().find(|entry| entry.sequence == sequence) {
                entry.state = state;
            }
            drop(in_flight);
            inner.front_changed.notify_one();
        });
    }

    /// Sees to it that the open segment has room for a group, and is on no drive that leaves.
    async fn make_room(self: &Rc<Self>, tail: &mut Tail, room: Room) -> Result<()> {
        let (limit, stripe_bytes) = (self.pool.segment_bytes(), self.pool.stripe_bytes());
        let stays =
            |open: &OpenTail| !self.pool.is_leaving(open.segment) && fits(open, room, limit, stripe_bytes);
        if tail.segment.as_ref().is_some_and(stays) {
            return Ok(());
        }
        if let Some(full) = tail.segment.take() {
            self.seal(full);
        }
        while self.pool.opened_since_table() >= OPENED_MAX {
            if let Some(error) = self.failure.borrow().clone() {
                return Err(error);
            }
            self.checkpoint_wanted.notify_one();
            self.table_published.notified().await;
        }
        let opened = self.open_segment(tail.sequence).await?;
        assert!(opened.content_start < limit, "segment {} has no room", opened.segment);
        let mut counters = self.counters.get();
        counters.segments += 1;
        self.counters.set(counters);
        tail.segment = Some(OpenTail {
            segment: opened.segment,
            offset: opened.content_start,
            header: Some(opened),
            footer: Some(Vec::new()),
            groups: Rc::default(),
        });
        Ok(())
    }

    /// Opens a segment; when none is free, waits for the checkpoint and cleaner to make one. Host
    /// writes are refused long before (the reserve), so what waits here are deletes and the like.
    async fn open_segment(&self, first_group: u64) -> Result<OpenedSegment> {
        for _ in 0..OPEN_ATTEMPTS {
            match self.pool.open_segment(SegmentKind::Journal, first_group).await {
                Err(error) if error.kind == ErrorKind::NoSpace => {
                    self.checkpoint_wanted.notify_one();
                    self.pool.runtime().sleep(OPEN_RETRY).await;
                }
                other => return other,
            }
        }
        self.pool.open_segment(SegmentKind::Journal, first_group).await
    }

    /// Writes the footer, which spares the cleaner a walk over the groups, and marks the segment sealed when
    /// all its groups are written: the table says of no segment that it is whole whose header, written along
    /// with the first group, a crash may still tear; and a sealed one may be freed and its place given to
    /// another. Nobody waits for it.
    fn seal(self: &Rc<Self>, full: OpenTail) {
        let pool = self.pool.clone();
        let keeper = pool.clone();
        keeper.spawn(async move {
            let has_footer = write_footer(&pool, &full).await;
            let is_whole = planted(Fault::SealedUnderWay) || full.groups.all_written().await;
            pool.with_table_mut(|table| match has_footer && is_whole {
                true => table.seal_with_footer(full.segment),
                false => table.seal(full.segment),
            });
        });
    }

    fn count(&self, records: u64, bytes: u64) {
        let mut counters = self.counters.get();
        counters.groups += 1;
        counters.records += records;
        counters.written_bytes += bytes;
        self.counters.set(counters);
    }

    fn set_failure(&self, error: Error) {
        self.pool.fence();
        self.failure.borrow_mut().get_or_insert(error);
        self.table_published.notify_waiters();
        self.table_published.notify_one();
    }

    fn failure_or_closed(&self) -> Error {
        let failure = self.failure.borrow().clone();
        failure.unwrap_or_else(|| Error::new(ErrorKind::Busy, "the pool is closing".to_string()))
    }

    fn fail_queued(&self) {
        let error = self.failure_or_closed();
        for submission in self.queue.drain() {
            drop(submission.done.send(Err(error.clone())));
        }
    }

    fn fail_everything(&self) {
        let error = self.failure_or_closed();
        let in_flight: Vec<_> = self.in_flight.borrow_mut().drain(..).collect();
        for entry in in_flight {
            for submission in entry.group.submissions {
                drop(submission.done.send(Err(error.clone())));
            }
        }
        self.fail_queued();
        // The builder may be waiting for a slot; it then sees the failure and ends.
        self.window.add_permits(WINDOW as usize);
    }
}

/// This many groups are written at once however small they are: one for the host that has one request
/// at a time, another so that the next does not wait for it.
const GROUPS_EAGER: usize = 2;

/// More at once must be worth their padding to whole blocks and their flush: small ones wait and become
/// a larger one.
const GROUP_BYTES_WORTH: usize = 64 << 10;

/// How often and how long opening a journal segment waits for the cleaner.
const OPEN_ATTEMPTS: usize = 200;
const OPEN_RETRY: Duration = Duration::from_millis(20);

/// True when the segment has a footer now; one of which not all groups are known gets none.
async fn write_footer(pool: &Pool, full: &OpenTail) -> bool {
    let Some(entries) = &full.footer else { return false };
    let footer = encode_footer(pool.key(), full.segment, SegmentKind::Journal, entries);
    let (offset, buffer) = pool.footer_buffer(&footer);
    assert!(offset >= full.offset, "footer of segment {} overlaps its content", full.segment);
    pool.write(full.segment, offset, buffer, Durability::Cached).await.is_ok()
}

/// Whether a group fits behind what is written, with room for the footer of all of it.
fn fits(open: &OpenTail, room: Room, segment_bytes: u64, stripe_bytes: u64) -> bool {
    let entries = open.footer.as_ref().map_or(0, |entries| entries.len() as u64);
    let footer = footer_bytes(SegmentKind::Journal, entries + room.chunks).next_multiple_of(stripe_bytes);
    open.offset + room.group_bytes(open.offset, stripe_bytes) + footer <= segment_bytes
}
