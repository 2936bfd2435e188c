//! Stream sockets: UNIX and TCP, listening, connecting, and both directions at once.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;

use crate::driver::Driver;
use crate::operation::{Operation, Submitted, count, is_transient};
use crate::sync::Mutex;
use crate::{Buf, Runtime};

/// Where a listener listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A UNIX socket's path.
    Unix(String),
    /// A TCP address with the port really bound.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => f.write_str(path),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// Who is at the other end of a connection, as the kernel tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The process that connected, and its user.
    Process {
        /// Its number in our namespace; 0 where it is in none that we see.
        process_id: u32,
        /// The user it ran as when it connected.
        user_id: u32,
    },
    /// A TCP address.
    Tcp(SocketAddr),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Process { process_id, user_id } => write!(f, "process {process_id} of user {user_id}"),
            Peer::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// A listening socket. A UNIX socket's file is removed when it is dropped.
pub struct Listener {
    runtime: Runtime,
    socket: Rc<OwnedFd>,
    address: Address,
}

/// A connection. Clones are the same connection; one may receive while another sends.
#[derive(Clone)]
pub struct Stream {
    inner: Rc<Inner>,
}

struct Inner {
    runtime: Runtime,
    socket: Rc<OwnedFd>,
    /// Whole sends take turns, so two never interleave.
    sending: Mutex<()>,
    /// Who is at the other end, where the kernel does not know.
    told_peer: Option<Peer>,
}

impl Runtime {
    /// Listens on a UNIX socket; a stale socket file in the way is removed, a live one is an error.
    pub fn listen_unix(&self, path: &str) -> io::Result<Listener> {
        if let Some(error) = self.refuse_in_simulation() {
            return Err(error);
        }
        remove_stale(path)?;
        let listener = UnixListener::bind(path)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {path}: {error}")))?;
        listener.set_nonblocking(self.wants_nonblocking())?;
        let address = Address::Unix(path.to_owned());
        Ok(Listener { runtime: self.clone(), socket: Rc::new(listener.into()), address })
    }

    /// Listens on a TCP address; port zero takes any free one.
    pub fn listen_tcp(&self, address: SocketAddr) -> io::Result<Listener> {
        if let Some(error) = self.refuse_in_simulation() {
            return Err(error);
        }
        let listener = TcpListener::bind(address)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))?;
        listener.set_nonblocking(self.wants_nonblocking())?;
        let address = Address::Tcp(listener.local_addr()?);
        Ok(Listener { runtime: self.clone(), socket: Rc::new(listener.into()), address })
    }

    /// Connects to a UNIX socket.
    pub async fn connect_unix(&self, path: &str) -> io::Result<Stream> {
        if let Some(error) = self.refuse_in_simulation() {
            return Err(error);
        }
        let path = path.to_owned();
        let stream = self.run_blocking(move || UnixStream::connect(path)).await?;
        stream.set_nonblocking(self.wants_nonblocking())?;
        Ok(Stream::new(self, stream.into()))
    }

    /// Connects to a TCP address.
    pub async fn connect_tcp(&self, address: SocketAddr) -> io::Result<Stream> {
        if let Some(error) = self.refuse_in_simulation() {
            return Err(error);
        }
        let stream = self.run_blocking(move || TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(self.wants_nonblocking())?;
        Ok(Stream::new(self, stream.into()))
    }

    /// A connection that somebody else accepted; `peer` is who is told to be at its other end.
    pub fn adopt(&self, socket: UnixStream, peer: Peer) -> io::Result<Stream> {
        if let Some(error) = self.refuse_in_simulation() {
            return Err(error);
        }
        socket.set_nonblocking(self.wants_nonblocking())?;
        Ok(Stream::of(self, socket.into(), Some(peer)))
    }

    /// io_uring waits for a blocking socket by itself but gives up at once on a non-blocking one;
    /// the threads driver needs the opposite.
    fn wants_nonblocking(&self) -> bool {
        match &self.shard.driver {
            Driver::Threads(_) => true,
            Driver::Uring(_) | Driver::Sim(_) => false,
        }
    }
}

fn remove_stale(path: &str) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("another process listens on {path} already"),
        )),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

impl Listener {
    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> Address {
        self.address.clone()
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            let operation = Operation::Accept { socket: self.socket.clone() };
            let (result, _) = Submitted::new(&self.runtime, operation).await;
            if is_transient(result) || result == -libc::ECONNABORTED {
                continue;
            }
            let fd = i32::try_from(count(result)?).expect("the kernel gave an i32");
            // SAFETY: the kernel just made this descriptor for this request.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            if let Address::Tcp(_) = self.address {
                set_nodelay(&socket);
            }
            return Ok(Stream::new(&self.runtime, socket));
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // Gone already, or not ours to remove: either way there is nothing left to do.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn set_nodelay(socket: &OwnedFd) {
    let one: libc::c_int = 1;
    let size = size_of_val(&one) as libc::socklen_t;
    // SAFETY: the option's value is one int, valid for the call. A refusal costs latency only.
    unsafe {
        let value = (&raw const one).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, value, size);
    }
}

impl Stream {
    fn new(runtime: &Runtime, socket: OwnedFd) -> Stream {
        Stream::of(runtime, socket, None)
    }

    fn of(runtime: &Runtime, socket: OwnedFd, told_peer: Option<Peer>) -> Stream {
        let (runtime, socket) = (runtime.clone(), Rc::new(socket));
        Stream { inner: Rc::new(Inner { runtime, socket, sending: Mutex::new(()), told_peer }) }
    }

    /// Receives what is there, at least one byte, at most `buf.len()`; zero when the peer has ended.
    pub async fn receive(&self, buf: Buf) -> (io::Result<usize>, Buf) {
        self.receive_at(buf, 0).await
    }

    /// The same behind the first `start` bytes of `buf`, which stay as they are.
    pub async fn receive_at(&self, mut buf: Buf, start: usize) -> (io::Result<usize>, Buf) {
        assert!(start <= buf.len(), "no room behind {start} of {} bytes", buf.len());
        loop {
            let (result, back) = self.receive_piece(buf, start, false).await;
            buf = back;
            if !is_transient(result) {
                return (count(result), buf);
            }
        }
    }

    /// Receives exactly `buf.len()` bytes; `UnexpectedEof` when the peer ends before.
    pub async fn receive_exact(&self, buf: Buf) -> (io::Result<()>, Buf) {
        self.receive_exact_at(buf, 0).await
    }

    /// Receives exactly what `buf` lacks behind its first `start` bytes, which stay as they are.
    pub async fn receive_exact_at(&self, mut buf: Buf, start: usize) -> (io::Result<()>, Buf) {
        let mut done = start;
        while done < buf.len() {
            let (result, back) = self.receive_piece(buf, done, true).await;
            buf = back;
            match count(result) {
                Ok(0) => return (Err(io::ErrorKind::UnexpectedEof.into()), buf),
                Ok(length) => done += length,
                Err(_) if is_transient(result) => {}
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    async fn receive_piece(&self, buf: Buf, start: usize, is_whole: bool) -> (i32, Buf) {
        let operation = Operation::Receive { socket: self.inner.socket.clone(), buf, start, is_whole };
        let (result, operation) = Submitted::new(&self.inner.runtime, operation).await;
        (result, operation.into_buf().expect("a receive carries its buffer"))
    }

    /// Sends all of `buf`; sends asked for at the same time go out one after the other.
    pub async fn send(&self, mut buf: Buf) -> (io::Result<()>, Buf) {
        let _turn = self.inner.sending.lock().await;
        let mut done = 0;
        while done < buf.len() {
            let operation = Operation::Send { socket: self.inner.socket.clone(), buf, start: done };
            let (result, operation) = Submitted::new(&self.inner.runtime, operation).await;
            buf = operation.into_buf().expect("a send carries its buffer");
            match count(result) {
                Ok(length) => done += length,
                Err(_) if is_transient(result) => {}
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Who is at the other end; `None` when it has left already.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        if self.inner.told_peer.is_some() {
            return self.inner.told_peer;
        }
        let fd = self.inner.socket.as_raw_fd();
        // SAFETY: the descriptor stays ours: the wrapper is never dropped.
        let tcp = std::mem::ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
        if let Ok(address) = tcp.peer_addr() {
            return Some(Peer::Tcp(address));
        }
        let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of_val(&credentials) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to a structure of that size.
        let result = unsafe {
            let value = (&raw mut credentials).cast();
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut length)
        };
        // A socket without a peer has no process.
        let process_id = u32::try_from(credentials.pid).ok()?;
        (result == 0).then_some(Peer::Process { process_id, user_id: credentials.uid })
    }

    /// Ends both directions: receives see the end, sends fail.
    pub fn shutdown(&self) {
        // SAFETY: no pointers; the descriptor is open. Fails only if the peer ended it before.
        unsafe { libc::shutdown(self.inner.socket.as_fd().as_raw_fd(), libc::SHUT_RDWR) };
    }
}
