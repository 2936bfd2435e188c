//! A volume behind the NBD target: every request of the workload as bytes through a real session.
//!
//! ```text
//!   workload ─► NbdDoor ─► client ─ bytes, cut anywhere ─► Session ─► device
//!                             ◄──── bytes, cut anywhere ─────┘
//! ```
//!
//! Only the socket is missing. The session is the shipped one; the client is the tester's own. A
//! breach of the protocol by the session fails the run.

mod client;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ashlar_block::{BlockDevice, Error, ErrorKind, Extent, Geometry, LocalFuture, Result};
use ashlar_nbd::session::{Command, Event, Export, Exports, Limits, Request, RequestId, Session};
use ashlar_nbd::wire::{command, flag};
use ashlar_nbd::{Outcome, ReadReply};
use ashlar_runtime::sync::{Notify, oneshot};
use ashlar_runtime::{Priority, Runtime};

use crate::chance::Chance;
use crate::record::Record;
use client::{Answer, Client};

pub use client::Style;

/// One connection to one volume.
pub struct NbdDoor {
    door: Rc<Door>,
}

struct Door {
    runtime: Runtime,
    record: Rc<Record>,
    device: Rc<dyn BlockDevice>,
    export: Export,
    session: RefCell<Session>,
    client: RefCell<Client>,
    chance: RefCell<Chance>,
    to_server: RefCell<Vec<u8>>,
    to_client: RefCell<Vec<u8>>,
    /// The write whose payload arrives.
    arriving: RefCell<Option<(Request, Vec<u8>)>>,
    is_full: Cell<bool>,
    has_work: Notify,
}

struct OneExport<'a>(&'a Export);

impl Exports for OneExport<'_> {
    fn export(&self, name: &str) -> Option<Export> {
        (name == self.0.name).then(|| self.0.clone())
    }

    fn names(&self) -> Vec<String> {
        vec![self.0.name.clone()]
    }
}

impl NbdDoor {
    /// Connects to the device. Its size is what it is now, as in the protocol.
    #[must_use]
    pub fn connect(
        runtime: &Runtime,
        record: Rc<Record>,
        name: &str,
        device: Rc<dyn BlockDevice>,
        mut chance: Chance,
    ) -> NbdDoor {
        let geometry = device.geometry();
        let export = Export {
            name: name.to_string(),
            description: String::new(),
            size_bytes: geometry.size_bytes,
            block_bytes_min: geometry.logical_block_bytes,
            block_bytes_preferred: geometry.optimal_block_bytes,
            is_read_only: geometry.is_read_only,
        };
        let style = *chance.pick(&[Style::Simple, Style::Structured, Style::Extended]);
        // Little enough in flight that the session has to hold requests back.
        let limits =
            Limits { requests_max: chance.between(1, 16) as usize, bytes_max: chance.between(4096, 1 << 20) };
        let mut greeting = Vec::new();
        let session = Session::new(limits, &mut greeting);
        let (client, first) = Client::new(style, name);
        let door = Rc::new(Door {
            runtime: runtime.clone(),
            record,
            device,
            export,
            session: RefCell::new(session),
            client: RefCell::new(client),
            chance: RefCell::new(chance),
            to_server: RefCell::new(first),
            to_client: RefCell::new(greeting),
            arriving: RefCell::new(None),
            is_full: Cell::new(false),
            has_work: Notify::new(),
        });
        let carrier = Rc::downgrade(&door);
        let has_work = door.has_work.clone();
        has_work.notify_one();
        drop(runtime.spawn(Priority::Host, async move {
            loop {
                has_work.notified().await;
                let Some(door) = carrier.upgrade() else { return };
                door.carry();
            }
        }));
        NbdDoor { door }
    }

    /// The size the client was told.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.door.export.size_bytes
    }

    /// The volume was deleted since.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.door.device.geometry().size_bytes == 0
    }

    /// True when nothing is under way: the connection may be closed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.door.client.borrow().is_settled()
    }

    async fn request(
        &self,
        kind: u16,
        flags: u16,
        offset: u64,
        length: u64,
        payload: &[u8],
    ) -> Result<Answer> {
        self.door.record.add_probes(&[("requests over NBD", 1)]);
        let (done, answer) = oneshot();
        let bytes = self.door.client.borrow_mut().request(kind, flags, offset, length, payload, done);
        self.door.to_server.borrow_mut().extend_from_slice(&bytes);
        self.door.has_work.notify_one();
        answer.await.unwrap_or_else(|_closed| Err(Error::new(ErrorKind::Gone, "the connection ended")))
    }

    /// A request without payload, in pieces the client's style can express.
    async fn long_request(&self, kind: u16, flags: u16, offset: u64, length: u64) -> Result<()> {
        let piece_max = self.door.client.borrow().length_max() / 4096 * 4096;
        let mut done = 0;
        while done < length {
            let piece = piece_max.min(length - done);
            self.request(kind, flags, offset + done, piece, &[]).await?;
            done += piece;
        }
        Ok(())
    }
}

impl Door {
    /// Moves bytes both ways until nothing moves.
    fn carry(self: &Rc<Door>) {
        loop {
            let has_fed = self.feed_server();
            let has_taken = self.feed_client();
            if !has_fed && !has_taken {
                return;
            }
        }
    }

    /// Cuts the stream anywhere, often into very small pieces.
    fn cut(&self, length: usize) -> usize {
        let mut chance = self.chance.borrow_mut();
        let longest = *chance.pick(&[3, 40, 5_000, 300_000]);
        (chance.between(1, longest) as usize).min(length)
    }

    fn feed_client(&self) -> bool {
        let piece = {
            let mut waiting = self.to_client.borrow_mut();
            if waiting.is_empty() {
                return false;
            }
            let length = self.cut(waiting.len());
            waiting.drain(..length).collect::<Vec<u8>>()
        };
        if let Err(breach) = self.client.borrow_mut().receive(&piece) {
            self.record.fail(format!("NBD: {breach}"));
        }
        true
    }

    fn feed_server(self: &Rc<Door>) -> bool {
        if self.is_full.get() {
            return false;
        }
        let input = std::mem::take(&mut *self.to_server.borrow_mut());
        if input.is_empty() {
            return false;
        }
        // What the session did not consume comes again with what arrived behind it.
        let mut given = self.cut(input.len());
        let mut consumed = 0;
        while consumed < input.len() {
            let step = {
                let (mut session, mut out) = (self.session.borrow_mut(), self.to_client.borrow_mut());
                session.receive(&input[consumed..given.max(consumed)], &OneExport(&self.export), &mut *out)
            };
            consumed += step.consumed;
            match step.event {
                Event::Starved if given < input.len() => {
                    given = (given + self.cut(input.len())).min(input.len())
                }
                Event::Starved => break,
                Event::Opened(_) => {}
                Event::Request(request) if request.command == Command::Write && request.length > 0 => {
                    *self.arriving.borrow_mut() = Some((request, Vec::new()));
                }
                Event::Request(request) => self.start(request, Vec::new()),
                Event::Payload { length, is_last } => {
                    let mut arriving = self.arriving.borrow_mut();
                    let (_, payload) = arriving.as_mut().expect("payload follows a write");
                    payload.extend_from_slice(&input[consumed - length..consumed]);
                    let whole = if is_last { arriving.take() } else { None };
                    drop(arriving);
                    if let Some((request, payload)) = whole {
                        self.start(request, payload);
                    }
                }
                Event::Full => {
                    self.is_full.set(true);
                    break;
                }
                Event::Finish => break,
                Event::Close(why) => {
                    self.record.fail(format!("NBD: the session closed on a valid client: {why}"));
                    return false;
                }
            }
        }
        let mut rest = input[consumed..].to_vec();
        let mut waiting = self.to_server.borrow_mut();
        rest.append(&mut waiting);
        *waiting = rest;
        consumed > 0
    }

    fn start(self: &Rc<Door>, request: Request, payload: Vec<u8>) {
        let door = self.clone();
        drop(self.runtime.spawn(Priority::Host, async move {
            door.serve(request, payload).await;
            door.is_full.set(false);
            door.has_work.notify_one();
        }));
    }

    async fn serve(&self, request: Request, payload: Vec<u8>) {
        let Request { id, command, offset, length, is_fua } = request;
        let result = match command {
            Command::Read => return self.serve_read(id, offset, length).await,
            Command::BlockStatus { extents_max } => {
                match self.device.extents(offset, length, extents_max).await {
                    Ok(extents) => return self.complete(id, Outcome::Extents(&extents)),
                    Err(error) => Err(error),
                }
            }
            Command::Write => self.device.write(offset, &payload, is_fua).await,
            Command::Flush => self.device.flush().await,
            Command::Trim => self.device.unmap(offset, length).await,
            Command::WriteZeroes { may_unmap } => self.device.write_zeroes(offset, length, may_unmap).await,
            Command::Cache => Ok(()),
        };
        match result {
            Ok(()) => self.complete(id, Outcome::Done),
            Err(error) => self.complete(id, Outcome::Failed(&error)),
        }
    }

    async fn serve_read(&self, id: RequestId, offset: u64, length: u64) {
        let header_bytes = self.session.borrow().read_header_bytes();
        let mut buffer = vec![0x3c; header_bytes + length as usize];
        if let Err(error) = self.device.read(offset, &mut buffer[header_bytes..]).await {
            return self.complete(id, Outcome::Failed(&error));
        }
        let mut out = self.to_client.borrow_mut();
        match self.session.borrow_mut().complete_read(id, &mut buffer, &mut *out) {
            ReadReply::InPlace => out.extend_from_slice(&buffer),
            ReadReply::Encoded => {}
        }
    }

    fn complete(&self, id: RequestId, outcome: Outcome<'_>) {
        self.session.borrow_mut().complete(id, outcome, &mut *self.to_client.borrow_mut());
    }
}

impl BlockDevice for NbdDoor {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.door.export.size_bytes, ..self.door.device.geometry() }
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            match self.request(command::READ, 0, offset, into.len() as u64, &[]).await? {
                Answer::Bytes(bytes) => into.copy_from_slice(&bytes),
                other => self.door.record.fail(format!("NBD: a read was answered with {other:?}")),
            }
            Ok(())
        })
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], is_fua: bool) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let flags = if is_fua { flag::FUA } else { 0 };
            self.request(command::WRITE, flags, offset, data.len() as u64, data).await.map(drop)
        })
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async { self.request(command::FLUSH, 0, 0, 0, &[]).await.map(drop) })
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        Box::pin(self.long_request(command::TRIM, 0, offset, length))
    }

    fn write_zeroes(&self, offset: u64, length: u64, may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        let flags = if may_unmap { 0 } else { flag::NO_HOLE };
        Box::pin(self.long_request(command::WRITE_ZEROES, flags, offset, length))
    }

    fn extents(&self, offset: u64, length: u64, extents_max: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        Box::pin(async move {
            if !self.door.client.borrow().has_extents() {
                return self.door.device.extents(offset, length, extents_max).await;
            }
            let flags = if extents_max == 1 { flag::REQ_ONE } else { 0 };
            match self.request(command::BLOCK_STATUS, flags, offset, length, &[]).await? {
                Answer::Extents(extents) => Ok(extents),
                other => {
                    self.door.record.fail(format!("NBD: block status was answered with {other:?}"));
                    Ok(Vec::new())
                }
            }
        })
    }
}
