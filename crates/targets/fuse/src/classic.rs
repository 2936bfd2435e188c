//! The classic transport: messages read from and written to `/dev/fuse`.
//!
//! One task reads. It waits through the runtime for the first message, then takes what else is there
//! without waiting, up to a limit, so that a burst costs one wake-up. Work on a volume runs in tasks
//! of its own with buffers of its own; everything else is answered on the spot. Over io_uring this
//! transport stays, for the few messages the kernel sends no other way.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use ashlar_runtime::{Buf, Priority};

use crate::connection::Connection;
use crate::error::Errno;
use crate::session::Answer;
use crate::system;
use crate::volume_work::{Operation, VolumeWork};
use crate::wire::{self, InHeader, SmallReply};

/// Messages taken without waiting after one that was waited for. Arbitrary: large enough to share the
/// wake-up, small enough that running requests get their turn.
const BURST_MAX: usize = 32;
/// Data up to this size are copied out of the reader's buffer, so that it is free again at once; the
/// copy costs less than a fresh buffer of the largest message's size. Arbitrary.
const COPIED_BYTES_MAX: usize = 64 << 10;
/// Room for the header and fixed part of a message beside its data.
const MESSAGE_HEAD_BYTES: usize = 4096;
/// Buffer for work that reads no data: its reply fits.
const SMALL_BYTES: usize = 128;

/// What a message asks for, once its bytes are dealt with.
enum Step {
    Done,
    /// Work on a volume with the buffer that holds the data or takes them.
    Work {
        unique: u64,
        work: VolumeWork,
        payload: Buf,
    },
    /// The same, with data at this offset in the reader's own buffer, which is too full to copy.
    WorkInPlace {
        unique: u64,
        work: VolumeWork,
        start: usize,
    },
}

/// Size of the buffer that takes any message.
pub(crate) fn message_bytes_max(connection: &Connection) -> usize {
    connection.settings.payload_bytes as usize + MESSAGE_HEAD_BYTES
}

/// Serves messages until the kernel closes the connection, or a successor is to take over.
pub(crate) async fn serve(connection: Rc<Connection>) {
    let mut buf = message_buffer(&connection);
    while !connection.is_leaving() {
        connection.wait_for_room().await;
        let (result, returned) = connection.runtime.read_fd(connection.device.as_raw_fd(), buf).await;
        buf = returned;
        let mut length = match result {
            Ok(length) => length,
            Err(error) if is_passing(&error) => continue,
            Err(_) => return,
        };
        // Each message that was read is taken before anything else may end the burst.
        for messages_taken in 1.. {
            buf = take(&connection, buf, length);
            if messages_taken == BURST_MAX || connection.is_full() || connection.is_leaving() {
                break;
            }
            match system::read_now(connection.device(), &mut buf) {
                Ok(next) => length = next,
                Err(error) if is_passing(&error) => break,
                Err(_) => return,
            }
        }
    }
}

/// A buffer for any message, in memory that is there.
fn message_buffer(connection: &Connection) -> Buf {
    let mut buf = connection.runtime.buffer(message_bytes_max(connection));
    system::make_resident(&mut buf);
    buf
}

/// Nothing there, interrupted, or a request that its caller gave up while we read it.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOENT))
}

/// Handles the message in the first `length` bytes; gives back a buffer for the next one.
fn take(connection: &Rc<Connection>, mut buf: Buf, length: usize) -> Buf {
    match decide(connection, &mut buf, length) {
        Step::Done => buf,
        Step::Work { unique, work, payload } => {
            start(connection, unique, work, payload, 0);
            buf
        }
        Step::WorkInPlace { unique, work, start: at } => {
            start(connection, unique, work, buf, at);
            message_buffer(connection)
        }
    }
}

fn decide(connection: &Connection, buf: &mut Buf, length: usize) -> Step {
    let Some(header) = InHeader::decode(&buf[..length]) else { return Step::Done };
    let unique = header.unique;
    let body = &buf[wire::IN_HEADER_BYTES..length];
    let decoded = wire::split_classic(header.opcode, body)
        .and_then(|(fixed, data)| Ok((wire::decode(header.opcode, fixed, data)?, data)));
    let (request, data) = match decoded {
        Ok(decoded) => decoded,
        Err(errno) => return send(connection, unique, Err(errno), &[]),
    };
    let answer = connection.apply(&header, request);
    match answer {
        Answer::Silent => Step::Done,
        Answer::Failed(errno) => send(connection, unique, Err(errno), &[]),
        Answer::Small(reply) => send_small(connection, unique, &reply),
        Answer::Directory { entries, first, size } => {
            let room = buf.len().min(size as usize);
            let used = wire::encode_directory(&entries, first, &mut buf[..room]);
            send(connection, unique, Ok(used), &buf[..used])
        }
        Answer::Volume(work) => match work.operation {
            Operation::Read { size, .. } => {
                Step::Work { unique, work, payload: connection.runtime.buffer(size as usize) }
            }
            Operation::Write { .. } if data.len() > COPIED_BYTES_MAX => {
                Step::WorkInPlace { unique, work, start: length - data.len() }
            }
            Operation::Write { .. } => {
                let mut payload = connection.runtime.buffer(data.len().max(SMALL_BYTES));
                payload[..data.len()].copy_from_slice(data);
                Step::Work { unique, work, payload }
            }
            Operation::Flush | Operation::Zero { .. } | Operation::Seek { .. } => {
                Step::Work { unique, work, payload: connection.runtime.buffer(SMALL_BYTES) }
            }
        },
    }
}

fn start(connection: &Rc<Connection>, unique: u64, work: VolumeWork, mut payload: Buf, at: usize) {
    connection.begin();
    let connection = connection.clone();
    let runtime = connection.runtime.clone();
    drop(runtime.spawn(Priority::Host, async move {
        let payload = &mut payload[at..];
        let result = connection.perform(&work, payload).await;
        send(&connection, unique, result, &payload[..result.unwrap_or(0)]);
        connection.finish();
    }));
}

fn send_small(connection: &Connection, unique: u64, reply: &SmallReply) -> Step {
    send(connection, unique, Ok(reply.as_bytes().len()), reply.as_bytes())
}

fn send(connection: &Connection, unique: u64, result: Result<usize, Errno>, payload: &[u8]) -> Step {
    let header = wire::out_header(unique, result);
    // The kernel refuses a reply only when the request was given up (ENOENT) or the connection is
    // closed: in both nobody is left to tell.
    let _ = system::reply(connection.device(), &header, payload);
    Step::Done
}
