//! Messages between array and keeper, over a socket that keeps their bounds (SOCK_SEQPACKET).
//!
//! ```text
//!  keep:  'K' | name length 1 | name | note           with a descriptor     answer: done
//!  drop:  'D' | name                                                        answer: done
//!  list:  'L'                                                               answers: entries, then done
//!  leave: 'B'                                                               answer: done
//!  wait:  'W' | seconds 8, little-endian; 0: for ever                       answer: done
//!  entry: 'E' | name length 1 | name | note           with a descriptor
//!  done:  'O' | nanoseconds 8, after `list`: how long the keeper had no array before this one
//!  refused: 'X' | why
//! ```

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::entry::{Entry, NAME_BYTES_MAX, NOTE_BYTES_MAX};

const MESSAGE_BYTES_MAX: usize = 2 + NAME_BYTES_MAX + NOTE_BYTES_MAX;

/// A message, as it was received.
#[derive(Debug)]
pub(crate) enum Message {
    Keep(Entry),
    Drop {
        name: String,
    },
    List,
    Leave,
    Wait {
        seconds: u64,
    },
    Entry(Entry),
    Done {
        alone: Duration,
    },
    Refused(String),
    /// The other side closed the connection.
    Closed,
}

/// Sends an entry: as an answer to `list`, or to be kept.
pub(crate) fn send_entry(
    socket: impl AsFd,
    kind: u8,
    name: &str,
    note: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || note.len() > NOTE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name or note is too long to be kept"));
    }
    let head = [kind, name.len() as u8];
    let parts = [IoSlice::new(&head), IoSlice::new(name.as_bytes()), IoSlice::new(note)];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let descriptors = [descriptor];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Sends a message without a descriptor.
pub(crate) fn send(socket: impl AsFd, kind: u8, body: &[u8]) -> io::Result<()> {
    let head = [kind];
    let parts = [IoSlice::new(&head), IoSlice::new(body)];
    sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for a message.
pub(crate) fn receive(socket: impl AsFd) -> io::Result<Message> {
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    parse(&bytes[..received.bytes], descriptor)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a message that is none of ours"))
}

fn parse(bytes: &[u8], descriptor: Option<OwnedFd>) -> Option<Message> {
    let Some((kind, body)) = bytes.split_first() else { return Some(Message::Closed) };
    Some(match kind {
        b'K' => Message::Keep(entry(body, descriptor?)?),
        b'E' => Message::Entry(entry(body, descriptor?)?),
        b'D' => Message::Drop { name: std::str::from_utf8(body).ok()?.to_string() },
        b'L' => Message::List,
        b'W' => Message::Wait { seconds: u64::from_le_bytes(body.try_into().ok()?) },
        b'B' => Message::Leave,
        b'O' if body.is_empty() => Message::Done { alone: Duration::ZERO },
        b'O' => Message::Done { alone: Duration::from_nanos(u64::from_le_bytes(body.try_into().ok()?)) },
        b'X' => Message::Refused(String::from_utf8_lossy(body).into_owned()),
        _ => return None,
    })
}

fn entry(body: &[u8], descriptor: OwnedFd) -> Option<Entry> {
    let (length, rest) = body.split_first()?;
    let (name, note) = rest.split_at_checked(usize::from(*length))?;
    let is_sound = (1..=NAME_BYTES_MAX).contains(&name.len()) && note.len() <= NOTE_BYTES_MAX;
    let name = std::str::from_utf8(name).ok().filter(|_| is_sound)?;
    Some(Entry { name: name.to_string(), note: note.to_vec(), descriptor })
}
