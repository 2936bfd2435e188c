//! The io_uring driver: one ring per shard, fixed buffers, fixed files, deferred completions.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::squeue::Entry128;
use io_uring::types::{CancelBuilder, Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::Wait;
use super::refusal::{Answer, answer};
use crate::buffer::BufferPool;
use crate::drive::FileHandle;
use crate::inbox::Inbox;
use crate::operation::{Operation, UringCommand};
use crate::runtime::Shard;
use crate::{Buf, Durability, Instant, clock};

type Ring = IoUring<Entry128, cqueue::Entry>;

const SUBMISSION_ENTRIES: u32 = 512;
const COMPLETION_ENTRIES: u32 = 4096;
const FILE_SLOTS: u32 = 64;

/// Completions that belong to no request; requests have 32-bit keys.
const EVENT: u64 = 1 << 32;
const CANCELLED: u64 = 1 << 33;

/// Drive reads handed to the kernel together before the turn ends. 2 to 4 measured best, 1 and 8 up to
/// a fifth worse.
const READS_AT_ONCE: u32 = 4;

/// The longest piece one request moves; a result is a positive `i32`.
const MAX_PIECE: usize = 1 << 30;

pub(crate) struct UringDriver {
    ring: RefCell<Ring>,
    inbox: Arc<Inbox>,
    free_slots: RefCell<Vec<u32>>,
    has_fixed_buffers: bool,
    /// Where the kernel puts the event counter; boxed so it stays put.
    event_bytes: RefCell<Box<[u8; 8]>>,
    is_event_armed: Cell<bool>,
    /// Drive reads pushed since the kernel last took the queue.
    reads_queued: Cell<u32>,
    /// Times in a row that the kernel refused the ring.
    refusals: Cell<u32>,
    /// Reused between turns.
    reaped: RefCell<Vec<(u64, i32)>>,
}

/// The flags to try, best first.
fn build_ring() -> io::Result<(Ring, &'static str)> {
    let best = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_cqsize(COMPLETION_ENTRIES)
        .build(SUBMISSION_ENTRIES);
    if let Ok(ring) = best {
        return Ok((ring, "DEFER_TASKRUN"));
    }
    let cooperative = IoUring::builder()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_cqsize(COMPLETION_ENTRIES)
        .build(SUBMISSION_ENTRIES);
    if let Ok(ring) = cooperative {
        return Ok((ring, "COOP_TASKRUN"));
    }
    let plain = IoUring::builder().setup_cqsize(COMPLETION_ENTRIES).build(SUBMISSION_ENTRIES)?;
    Ok((plain, "no task flags"))
}

fn check_opcodes(ring: &Ring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        (opcode::Read::CODE, "READ"),
        (opcode::Write::CODE, "WRITE"),
        (opcode::ReadFixed::CODE, "READ_FIXED"),
        (opcode::WriteFixed::CODE, "WRITE_FIXED"),
        (opcode::Fsync::CODE, "FSYNC"),
        (opcode::Fallocate::CODE, "FALLOCATE"),
        (opcode::Accept::CODE, "ACCEPT"),
        (opcode::Recv::CODE, "RECV"),
        (opcode::Send::CODE, "SEND"),
        (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
    ];
    for (code, name) in needed {
        if !probe.is_supported(code) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, format!("no {name}")));
        }
    }
    if !ring.params().is_feature_ext_arg() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "no waiting with a deadline"));
    }
    Ok(())
}

impl UringDriver {
    pub(crate) fn start(inbox: &Arc<Inbox>, buffers: &BufferPool) -> io::Result<(UringDriver, String)> {
        let (ring, flags) = build_ring()?;
        check_opcodes(&ring)?;
        let free_slots = match ring.submitter().register_files_sparse(FILE_SLOTS) {
            Ok(()) => (0..FILE_SLOTS).rev().collect(),
            Err(_) => Vec::new(),
        };
        let mut has_fixed_buffers = false;
        let fixed = match buffers.region() {
            None => "no fixed buffers".to_owned(),
            Some((base, bytes)) => {
                let vector = libc::iovec { iov_base: base.cast(), iov_len: bytes };
                // SAFETY: the region is mapped and outlives the ring: the shard owns both and drops
                // the ring first, after the last request completed.
                match unsafe { ring.submitter().register_buffers(&[vector]) } {
                    Ok(()) => {
                        has_fixed_buffers = true;
                        format!("fixed buffers {} MiB", bytes >> 20)
                    }
                    Err(error) => format!("no fixed buffers: {error}"),
                }
            }
        };
        let driver = UringDriver {
            ring: RefCell::new(ring),
            inbox: inbox.clone(),
            free_slots: RefCell::new(free_slots),
            has_fixed_buffers,
            event_bytes: RefCell::new(Box::new([0; 8])),
            is_event_armed: Cell::new(false),
            reads_queued: Cell::new(0),
            refusals: Cell::new(0),
            reaped: RefCell::new(Vec::with_capacity(COMPLETION_ENTRIES as usize)),
        };
        Ok((driver, format!("io: io_uring ({fixed}, {flags})")))
    }

    pub(crate) fn adopt_file(&self, fd: RawFd) -> Option<u32> {
        let slot = self.free_slots.borrow_mut().pop()?;
        let ring = self.ring.borrow();
        if ring.submitter().register_files_update(slot, &[fd]).is_err() {
            self.free_slots.borrow_mut().push(slot);
            return None;
        }
        Some(slot)
    }

    pub(crate) fn release_file(&self, slot: u32) {
        let ring = self.ring.borrow();
        if ring.submitter().register_files_update(slot, &[-1]).is_ok() {
            self.free_slots.borrow_mut().push(slot);
        }
    }

    fn push(&self, entry: &Entry128) {
        let mut ring = self.ring.borrow_mut();
        loop {
            // SAFETY: the entry's memory belongs to a slot of the shard's operations (or to this
            // driver), which keeps it until the completion arrives.
            if unsafe { ring.submission().push(entry) }.is_ok() {
                return;
            }
            // The queue is full: hand it to the kernel. EBUSY means completions must be reaped first;
            // the kernel keeps those, so trying again makes room.
            let entered = ring.submit();
            let reaped = self.reap_into_scratch(&mut ring);
            self.judge(entered, reaped > 0);
        }
    }

    pub(crate) fn submit(&self, key: u32, operation: &mut Operation) {
        let entry = match operation {
            Operation::Command { command } => command_entry(command),
            Operation::Read { file, offset, buf, start } => {
                self.read_entry(file, *offset, buf, *start).into()
            }
            Operation::Write { file, offset, buf, start, durability } => {
                self.write_entry(file, *offset, buf, *start, *durability).into()
            }
            Operation::Sync { file } => match file.slot {
                Some(slot) => opcode::Fsync::new(Fixed(slot)).flags(FsyncFlags::DATASYNC).build().into(),
                None => opcode::Fsync::new(Fd(file.fd())).flags(FsyncFlags::DATASYNC).build().into(),
            },
            Operation::Discard { file, offset, len } => opcode::Fallocate::new(Fd(file.fd()), *len)
                .offset(*offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build()
                .into(),
            Operation::Accept { socket } => {
                let null = std::ptr::null_mut();
                let accept = opcode::Accept::new(Fd(socket.as_raw_fd()), null, null.cast());
                accept.flags(libc::SOCK_CLOEXEC).build().into()
            }
            Operation::Receive { socket, buf, start, is_whole } => {
                let (pointer, length) = piece(buf, *start);
                let flags = if *is_whole { libc::MSG_WAITALL } else { 0 };
                opcode::Recv::new(Fd(socket.as_raw_fd()), pointer, length).flags(flags).build().into()
            }
            Operation::Send { socket, buf, start } => {
                let (pointer, length) = piece(buf, *start);
                let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
                opcode::Send::new(Fd(socket.as_raw_fd()), pointer, length).flags(flags).build().into()
            }
            Operation::ReadFd { fd, buf } => {
                let (pointer, length) = piece(buf, 0);
                // All ones: at the file's own position.
                opcode::Read::new(Fd(*fd), pointer, length).offset(u64::MAX).build().into()
            }
            Operation::WriteFd { fd, buf } => {
                let (pointer, length) = piece(buf, 0);
                opcode::Write::new(Fd(*fd), pointer, length).offset(u64::MAX).build().into()
            }
        };
        let is_read = matches!(operation, Operation::Read { .. });
        self.push(&Entry128::user_data(entry, u64::from(key)));
        if is_read {
            self.hand_over_reads();
        }
    }

    /// Gives reads to the kernel a few at a time, so that the drive works on the first while the shard
    /// prepares the next; otherwise a burst of requests goes through shard and drive as one convoy.
    fn hand_over_reads(&self) {
        let queued = self.reads_queued.get() + 1;
        self.reads_queued.set(queued % READS_AT_ONCE);
        if queued == READS_AT_ONCE {
            // The turn's end submits again and looks at the error.
            let _ = self.ring.borrow_mut().submit();
        }
    }

    fn read_entry(&self, file: &FileHandle, offset: u64, buf: &mut Buf, start: usize) -> squeue::Entry {
        let is_fixed = self.has_fixed_buffers && buf.is_pooled();
        let (pointer, length) = piece(buf, start);
        let offset = offset + start as u64;
        match (is_fixed, file.slot) {
            (true, Some(slot)) => {
                opcode::ReadFixed::new(Fixed(slot), pointer, length, 0).offset(offset).build()
            }
            (true, None) => opcode::ReadFixed::new(Fd(file.fd()), pointer, length, 0).offset(offset).build(),
            (false, Some(slot)) => opcode::Read::new(Fixed(slot), pointer, length).offset(offset).build(),
            (false, None) => opcode::Read::new(Fd(file.fd()), pointer, length).offset(offset).build(),
        }
    }

    fn write_entry(
        &self,
        file: &FileHandle,
        offset: u64,
        buf: &mut Buf,
        start: usize,
        durability: Durability,
    ) -> squeue::Entry {
        let is_fixed = self.has_fixed_buffers && buf.is_pooled();
        let (pointer, length) = piece(buf, start);
        let offset = offset + start as u64;
        let flags = match durability {
            Durability::Durable => libc::RWF_DSYNC,
            Durability::Cached => 0,
        };
        match (is_fixed, file.slot) {
            (true, Some(slot)) => {
                let write = opcode::WriteFixed::new(Fixed(slot), pointer, length, 0);
                write.offset(offset).rw_flags(flags).build()
            }
            (true, None) => {
                let write = opcode::WriteFixed::new(Fd(file.fd()), pointer, length, 0);
                write.offset(offset).rw_flags(flags).build()
            }
            (false, Some(slot)) => {
                opcode::Write::new(Fixed(slot), pointer, length).offset(offset).rw_flags(flags).build()
            }
            (false, None) => {
                opcode::Write::new(Fd(file.fd()), pointer, length).offset(offset).rw_flags(flags).build()
            }
        }
    }

    pub(crate) fn cancel(&self, key: u32) {
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::user_data(u64::from(key)));
        self.push(&cancel.build().user_data(CANCELLED).into());
    }

    fn arm_event(&self) {
        let Some(fd) = self.inbox.event_fd() else { return };
        if self.is_event_armed.replace(true) {
            return;
        }
        let pointer = self.event_bytes.borrow_mut().as_mut_ptr();
        self.push(&opcode::Read::new(Fd(fd), pointer, 8).build().user_data(EVENT).into());
    }

    pub(crate) fn turn(&self, shard: &Shard, wait: Wait) {
        self.arm_event();
        self.enter(wait);
        let mut reaped = std::mem::take(&mut *self.reaped.borrow_mut());
        for (tag, result) in reaped.drain(..) {
            match tag {
                EVENT => self.is_event_armed.set(false),
                CANCELLED => {}
                key => shard.operations.complete(key as u32, result),
            }
        }
        // Completing may have reaped more (a full queue): keep those, and the larger allocation.
        let mut scratch = self.reaped.borrow_mut();
        reaped.append(&mut scratch);
        *scratch = reaped;
    }

    fn enter(&self, wait: Wait) {
        self.reads_queued.set(0);
        let mut ring = self.ring.borrow_mut();
        let has_completions = !ring.completion().is_empty() || !self.reaped.borrow().is_empty();
        let may_sleep = !has_completions && !matches!(wait, Wait::No) && self.inbox.prepare_sleep();
        let entered = if may_sleep {
            let entered = match wait {
                Wait::Until(deadline) => {
                    let left = deadline.duration_since(Instant(clock::monotonic_nanos()));
                    let timeout = Timespec::from(left);
                    ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
                }
                Wait::Forever | Wait::No => ring.submit_and_wait(1),
            };
            self.inbox.end_sleep();
            entered
        } else {
            let submission = ring.submission();
            let needs_kernel = !submission.is_empty() || submission.taskrun() || submission.cq_overflow();
            drop(submission);
            if needs_kernel { ring.submit() } else { Ok(0) }
        };
        let reaped = self.reap_into_scratch(&mut ring);
        self.judge(entered, has_completions || reaped > 0);
    }

    /// Goes on after entering the ring, at once or after a pause. What was completed is what the kernel may
    /// have lacked, so nobody pauses with completions in hand.
    ///
    /// # Panics
    /// When the ring can never be entered again: the requests in it have no other way to the kernel.
    fn judge(&self, entered: io::Result<usize>, has_completions: bool) {
        let Err(error) = entered else {
            self.refusals.set(0);
            return;
        };
        let refusals = self.refusals.get();
        match answer(error.raw_os_error().unwrap_or(libc::EIO), refusals) {
            Answer::Again => self.refusals.set(0),
            Answer::Pause(pause) => {
                self.refusals.set(refusals.saturating_add(1));
                if !has_completions {
                    clock::pause(pause);
                }
            }
            Answer::Stop => {
                panic!("io_uring does not serve this shard any more and never will (io_uring_enter: {error})")
            }
        }
    }

    /// Takes over what was completed, and tells how many.
    fn reap_into_scratch(&self, ring: &mut Ring) -> usize {
        let mut reaped = self.reaped.borrow_mut();
        let before = reaped.len();
        reaped.extend(ring.completion().map(|entry| (entry.user_data(), entry.result())));
        reaped.len() - before
    }
}

/// The part of a buffer from `start`, cut to what one request moves.
fn piece(buf: &mut Buf, start: usize) -> (*mut u8, u32) {
    let rest = &mut buf[start..];
    let length = rest.len().min(MAX_PIECE);
    (rest.as_mut_ptr(), length as u32)
}

fn command_entry(command: &UringCommand) -> Entry128 {
    let built =
        opcode::UringCmd80::new(Fd(command.fd), command.code).cmd(command.area).addr(Some(command.address));
    let mut entry = built.build();
    // The builder has no way to set `len`, which lies at byte 24 of every entry (io_uring.h).
    const LENGTH_OFFSET: usize = 24;
    // SAFETY: an entry is 128 plain bytes in the kernel's layout; four of them at 24 are `len`.
    unsafe {
        let length = (&raw mut entry).cast::<u8>().add(LENGTH_OFFSET).cast::<u32>();
        length.write(command.length);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_lies_in_the_entry_where_the_kernel_looks() {
        let area = std::array::from_fn(|index| index as u8 + 100);
        let command = UringCommand {
            fd: 7,
            code: 0x0102_0304,
            area,
            address: 0x1122_3344_5566_7788,
            length: 0x0A0B_0C0D,
        };
        let entry = Entry128::user_data(command_entry(&command), 42);
        // SAFETY: an entry is 128 plain initialised bytes.
        let bytes: [u8; 128] = unsafe { std::mem::transmute(entry) };
        assert_eq!(bytes[0], opcode::UringCmd80::CODE);
        assert_eq!(bytes[4..8], 7i32.to_ne_bytes());
        assert_eq!(bytes[8..12], command.code.to_ne_bytes());
        assert_eq!(bytes[16..24], command.address.to_ne_bytes());
        assert_eq!(bytes[24..28], command.length.to_ne_bytes());
        assert_eq!(bytes[32..40], 42u64.to_ne_bytes());
        assert_eq!(bytes[48..128], area);
    }
}
