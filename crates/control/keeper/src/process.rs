//! The keeper's own process.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::mount::{UnmountFlags, unmount};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt,
};

use crate::SOCKET;
use crate::entry::Entry;
use crate::message::{self, Message};
use crate::supervisor::notify_supervisor;

/// Entries at most. Arbitrary: an array has two now.
const ENTRIES_MAX: usize = 4096;
/// By this name it is found among processes.
const NAME: &str = "ashlar-keep";
/// How long a keeper that holds nothing waits for its array.
const IDLE_WAIT: Duration = Duration::from_secs(10);

/// Keeps what arrays give it until it holds nothing and nobody is connected, or nobody came for too long.
/// Prints what it does that nobody asked for.
pub fn run(state: &Path) -> io::Result<()> {
    // Its own session: what ends the array's terminal, or its group, does not end it. Who leads a group
    // already has one.
    let _ = rustix::process::setsid();
    stay();
    let path = state.join(SOCKET);
    let _ = fs::remove_file(&path);
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = bind(&listener, &SocketAddrUnix::new(&path)?);
    rustix::process::umask(umask);
    bound?;
    listen(&listener, 4)?;
    let mut keeper = Process {
        listener,
        entries: Vec::new(),
        client: None,
        wait: None,
        is_alone: true,
        alone_since: Instant::now(),
        was_alone: Duration::ZERO,
    };
    // A supervisor that does not hear it says so itself.
    let _ = notify_supervisor(std::env::var_os("NOTIFY_SOCKET").as_deref(), "READY=1");
    let kept = keeper.serve();
    let _ = fs::remove_file(&path);
    kept
}

/// Whatever needs memory or hunts for it: this process is not what it gets.
fn stay() {
    let _ = fs::write("/proc/self/comm", NAME);
    // Both are refused to who is not root; the keeper then is as mortal as anybody.
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
}

struct Process {
    listener: OwnedFd,
    entries: Vec<Entry>,
    client: Option<OwnedFd>,
    /// How long to hold on without an array; `None`: for ever.
    wait: Option<Duration>,
    is_alone: bool,
    alone_since: Instant,
    /// How long there was no array before the one that is here.
    was_alone: Duration,
}

impl Process {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let left = self.patience().map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                self.give_up();
                return Ok(());
            }
            let (is_call, is_word) = self.wait_for(left)?;
            if is_call {
                self.answer_call()?;
            }
            if is_word {
                self.hear();
            }
        }
    }

    /// When nobody is to be waited for any longer; `None` while an array is there, or for ever.
    fn patience(&self) -> Option<Instant> {
        if self.client.is_some() {
            return None;
        }
        let wait = if self.entries.is_empty() { Some(IDLE_WAIT) } else { self.wait };
        wait.map(|wait| self.alone_since + wait)
    }

    /// Whether somebody calls, and whether the array says something.
    fn wait_for(&self, left: Option<Duration>) -> io::Result<(bool, bool)> {
        let mut watched = vec![PollFd::new(&self.listener, PollFlags::IN)];
        watched.extend(self.client.as_ref().map(|client| PollFd::new(client, PollFlags::IN)));
        let timeout =
            left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| watched.get(at).is_some_and(|one| !one.revents().is_empty());
        Ok((is_ready(0), is_ready(1)))
    }

    /// The newest array counts: it holds the lock of the state directory, so whoever was there is gone.
    fn answer_call(&mut self) -> io::Result<()> {
        let client = match accept_with(&self.listener, SocketFlags::CLOEXEC) {
            Ok(client) => client,
            Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let own = rustix::process::geteuid();
        let is_ours =
            sockopt::socket_peercred(&client).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own);
        if is_ours {
            self.be_alone();
            self.client = Some(client);
            (self.is_alone, self.was_alone) = (false, self.alone_since.elapsed());
        }
        Ok(())
    }

    /// There is no array, or it will be gone soon.
    fn be_alone(&mut self) {
        if !self.is_alone {
            (self.is_alone, self.alone_since) = (true, Instant::now());
        }
    }

    fn hear(&mut self) {
        let Some(client) = &self.client else { return };
        let answered = match message::receive(client) {
            Ok(Message::Closed) | Err(_) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(Message::Keep(entry)) if self.entries.len() < ENTRIES_MAX => {
                self.entries.retain(|kept| kept.name != entry.name);
                self.entries.push(entry);
                message::send(client, b'O', &[])
            }
            Ok(Message::Keep(_)) => message::send(client, b'X', b"too many descriptors are kept"),
            Ok(Message::Drop { name }) => {
                self.entries.retain(|kept| kept.name != name);
                message::send(client, b'O', &[])
            }
            Ok(Message::List) => self.tell_all(client),
            Ok(Message::Leave) => {
                let told = message::send(client, b'O', &[]);
                self.be_alone();
                told
            }
            Ok(Message::Wait { seconds }) => {
                self.wait = (seconds > 0).then(|| Duration::from_secs(seconds));
                message::send(client, b'O', &[])
            }
            Ok(Message::Entry(_) | Message::Done { .. } | Message::Refused(_)) => {
                message::send(client, b'X', b"that is for the keeper to say")
            }
        };
        if answered.is_err() {
            self.client = None;
            self.be_alone();
        }
    }

    fn tell_all(&self, client: &OwnedFd) -> io::Result<()> {
        for Entry { name, note, descriptor } in &self.entries {
            message::send_entry(client, b'E', name, note, descriptor.as_fd())?;
        }
        let nanos = u64::try_from(self.was_alone.as_nanos()).unwrap_or(u64::MAX);
        message::send(client, b'O', &nanos.to_le_bytes())
    }

    /// Nobody comes any more: whoever waits hears so.
    fn give_up(&mut self) {
        for entry in self.entries.drain(..).filter(|entry| !entry.note.is_empty()) {
            let directory = Path::new(OsStr::from_bytes(&entry.note));
            eprintln!("keeper: no array came back: {} is cut off", directory.display());
            // The forced call cuts the connection even where it then finds the mount busy. That one stays:
            // by it the next array finds what stands on it.
            let _ = unmount(directory, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW);
        }
    }
}
