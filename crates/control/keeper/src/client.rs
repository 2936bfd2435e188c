//! The array's side of the keeper.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::SOCKET;
use crate::entry::Entry;
use crate::message::{self, Message};

/// How long the keeper may take to answer. Arbitrary: it does nothing else.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a new one may take to listen.
const START_MAX: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(5);
/// What a keeper has to say that nobody asked for.
const LOG: &str = "keeper.log";

/// A connection to the keeper of a state directory. Closed, the keeper counts the seconds.
pub struct Keeper {
    socket: OwnedFd,
}

impl Keeper {
    /// The keeper that is there; `None` when there is none.
    pub fn find(state: &Path) -> io::Result<Option<Keeper>> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        match connect(&socket, &SocketAddrUnix::new(state.join(SOCKET))?) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_MAX))?;
        set_socket_timeout(&socket, Timeout::Send, Some(ANSWER_MAX))?;
        Ok(Some(Keeper { socket }))
    }

    /// Starts one: `program` with these arguments must call [`crate::run`].
    pub fn start(state: &Path, program: &Path, arguments: &[&str]) -> io::Result<Keeper> {
        let log =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(state.join(LOG))?;
        let mut child = Command::new(program)
            .args(arguments)
            // As whoever looks for what an array left finds it.
            .current_dir(state)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let end = Instant::now() + START_MAX;
        loop {
            if let Some(keeper) = Keeper::find(state)? {
                // Whoever starts a process has to ask how it ended.
                thread::Builder::new().name("keeper".to_string()).spawn(move || child.wait())?;
                return Ok(keeper);
            }
            if let Some(status) = child.try_wait()? {
                let log: PathBuf = state.join(LOG);
                return Err(io::Error::other(format!("it ended with {status}; see {}", log.display())));
            }
            if Instant::now() >= end {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not listen"));
            }
            thread::sleep(START_POLL);
        }
    }

    /// Has a descriptor kept, in place of one of the same name. With a note, that directory is cut off when
    /// no array comes back.
    pub fn keep(&self, name: &str, note: &[u8], descriptor: impl AsFd) -> io::Result<()> {
        message::send_entry(&self.socket, b'K', name, note, descriptor.as_fd())?;
        self.done()
    }

    /// Has it dropped; one that is not kept is dropped already.
    pub fn drop(&self, name: &str) -> io::Result<()> {
        message::send(&self.socket, b'D', name.as_bytes())?;
        self.done()
    }

    /// How long the keeper waits for an array once this one is gone; `None`: for ever.
    pub fn wait_at_most(&self, wait: Option<Duration>) -> io::Result<()> {
        let seconds = wait.map_or(0, |wait| wait.as_secs().max(1));
        message::send(&self.socket, b'W', &seconds.to_le_bytes())?;
        self.done()
    }

    /// From now on what is kept waits for the next array.
    pub fn leave(&self) -> io::Result<()> {
        message::send(&self.socket, b'B', &[])?;
        self.done()
    }

    /// All that is kept, by name, and how long it had no array before this one.
    pub fn list(&self) -> io::Result<(BTreeMap<String, Entry>, Duration)> {
        message::send(&self.socket, b'L', &[])?;
        let mut entries = BTreeMap::new();
        loop {
            match self.answer()? {
                Message::Entry(entry) => drop(entries.insert(entry.name.clone(), entry)),
                Message::Done { alone } => return Ok((entries, alone)),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// False when the keeper is gone.
    pub fn is_there(&self) -> bool {
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // It never speaks first: what there is to read is the end.
        poll(&mut watched, Some(&now)).is_ok_and(|ready| ready == 0)
    }

    fn answer(&self) -> io::Result<Message> {
        message::receive(&self.socket).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let seconds = ANSWER_MAX.as_secs();
                io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {seconds} s"))
            }
            _ => error,
        })
    }

    fn done(&self) -> io::Result<()> {
        match self.answer()? {
            Message::Done { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(message: &Message) -> io::Error {
    match message {
        Message::Closed => io::Error::new(io::ErrorKind::UnexpectedEof, "the keeper is gone"),
        Message::Refused(why) => io::Error::other(why.clone()),
        _ => io::Error::new(io::ErrorKind::InvalidData, "the keeper answers something else"),
    }
}
