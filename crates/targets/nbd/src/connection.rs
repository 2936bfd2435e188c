//! One client's connection: receives, starts requests on the device, sends their replies.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use ashlar_block::{BlockDevice, Catalogue, Result};
use ashlar_runtime::sync::Notify;
use ashlar_runtime::{Buf, Instant, Priority, Runtime, Stream};
use ashlar_telemetry::{Counters, Operation, Registry};
use ashlar_units::ByteCount;

use crate::client::Client;
use crate::door::{Door, Share};
use crate::negotiation::OPTION_BYTES_MAX;
use crate::outbox::{Outbox, Outgoing};
use crate::reply::{Outcome, ReadReply};
use crate::session::{Command, Event, Export, Exports, Request, RequestId, Session};
use crate::settings::Settings;
use crate::wire::OPTION_HEADER_BYTES;

/// The name under which this door counts.
const DOOR: &str = "nbd";
/// Room for many requests in one receive: 60 writes of 4 KiB, or thousands of reads.
const RECEIVE_BYTES: usize = 256 << 10;
const _: () = assert!(RECEIVE_BYTES >= OPTION_HEADER_BYTES + OPTION_BYTES_MAX as usize);
/// When a write lacks this much it is received straight into its buffer; below, the copy is cheaper
/// than a receive that brings no further request with it.
const DIRECT_BYTES_MIN: u64 = 32 << 10;
/// No further request is started while this many reply bytes wait for a client that does not take
/// them. Arbitrary: 16 batches.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// A cache request reads in pieces of this size, and no more than the maximum.
const CACHE_PIECE_BYTES: u64 = 256 << 10;
const CACHE_BYTES_MAX: u64 = 32 << 20;

/// The catalogue as the session wants to see it.
pub(crate) struct CatalogueExports {
    pub catalogue: Rc<dyn Catalogue>,
}

impl CatalogueExports {
    /// The empty name is the only volume, if there is exactly one; its snapshots do not count.
    fn resolve(&self, name: &str) -> Option<String> {
        if !name.is_empty() {
            return Some(name.to_string());
        }
        match self.catalogue.names().as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }
}

impl Exports for CatalogueExports {
    fn export(&self, name: &str) -> Option<Export> {
        let name = self.resolve(name)?;
        let geometry = self.catalogue.device(&name)?.geometry();
        Some(Export {
            description: format!("Ashlar volume of {}", ByteCount(geometry.size_bytes)),
            name,
            size_bytes: geometry.size_bytes,
            block_bytes_min: geometry.logical_block_bytes,
            block_bytes_preferred: geometry.optimal_block_bytes.max(geometry.logical_block_bytes),
            is_read_only: geometry.is_read_only,
        })
    }

    fn names(&self) -> Vec<String> {
        self.catalogue.names()
    }

    fn absence(&self) -> Option<String> {
        self.catalogue.absence()
    }
}

/// What transmission works on.
struct Opened {
    name: String,
    device: Rc<dyn BlockDevice>,
    counters: Rc<Counters>,
}

/// While others wait for memory, patience with a client that stalls is so many times shorter. Arbitrary: five
/// seconds, and ten for the largest request.
const HURRY: u32 = 6;

/// A write whose payload is arriving.
struct ArrivingWrite {
    request: Request,
    payload: Buf,
    received: usize,
    share: Share,
}

/// Bytes on their way from or to the client, and since when.
#[derive(Clone, Copy)]
struct Transfer {
    since: Instant,
    bytes: usize,
}

/// One connection; its tasks share it.
pub(crate) struct Connection {
    runtime: Runtime,
    stream: Stream,
    session: RefCell<Session>,
    outbox: RefCell<Outbox>,
    settings: Settings,
    door: Door,
    /// The payload that is arriving.
    arriving: Cell<Option<Transfer>>,
    /// The reply that is being sent.
    leaving: Cell<Option<Transfer>>,
    opened: OnceCell<Opened>,
    connected_at: Instant,
    /// Requests whose tasks have not ended.
    running: Cell<usize>,
    is_receiving_over: Cell<bool>,
    is_shutting_down: Cell<bool>,
    /// Rings when a request was completed or output was sent.
    has_room: Notify,
    /// Rings when the sender has something to do or to decide.
    has_output: Notify,
}

impl Connection {
    pub fn new(runtime: &Runtime, stream: Stream, settings: &Settings, door: &Door) -> Rc<Connection> {
        let mut outbox = Outbox::new(runtime);
        let session = Session::new(settings.limits(), &mut outbox);
        Rc::new(Connection {
            runtime: runtime.clone(),
            stream,
            session: RefCell::new(session),
            outbox: RefCell::new(outbox),
            settings: *settings,
            door: door.clone(),
            arriving: Cell::new(None),
            leaving: Cell::new(None),
            opened: OnceCell::new(),
            connected_at: runtime.now(),
            running: Cell::new(0),
            is_receiving_over: Cell::new(false),
            is_shutting_down: Cell::new(false),
            has_room: Notify::new(),
            has_output: Notify::new(),
        })
    }

    /// The name of the export, once one was chosen.
    pub fn export_name(&self) -> Option<&str> {
        self.opened.get().map(|opened| opened.name.as_str())
    }

    /// What a person is told of its client.
    pub fn client(&self, number: u64, now: Instant) -> Client {
        Client {
            number,
            peer: self.stream.peer(),
            is_encrypted: false,
            export: self.export_name().map(str::to_string),
            is_read_only: self.session.borrow().is_read_only(),
            connected: now - self.connected_at,
            in_flight: self.running.get(),
        }
    }

    /// Answers every option with this sentence.
    pub fn refuse_all(&self, why: String) {
        self.session.borrow_mut().refuse_all(why);
    }

    /// Answers everything further with an error, and ends once nothing is in flight.
    pub fn begin_shutdown(&self) {
        self.is_shutting_down.set(true);
        self.session.borrow_mut().begin_shutdown();
        self.has_output.notify_one();
    }

    /// Ends the connection now. Requests in flight still run to their end.
    pub fn cut(&self) {
        self.stream.shutdown();
    }

    /// Why the client must be cut off for stalling, if it must: memory that others need waits for it. Told
    /// once, because a connection that was cut takes a moment to end.
    pub fn stalled(&self, now: Instant) -> Option<String> {
        let hurry = if self.door.is_contended() { HURRY } else { 1 };
        let is_late =
            |transfer: &Transfer| now - transfer.since > self.settings.patience(transfer.bytes) / hurry;
        let export = self.export_name().unwrap_or_default();
        if let Some(Transfer { bytes, since }) = self.arriving.get().filter(is_late) {
            self.arriving.set(None);
            let seconds = (now - since).as_secs();
            return Some(format!(
                "a client of {export} was cut off: it began a write of {bytes} bytes {seconds} s ago and does not end it"
            ));
        }
        let leaving = self.leaving.get().filter(is_late).filter(|_| self.door.is_contended());
        leaving.map(|Transfer { bytes, since }| {
            self.leaving.set(None);
            let seconds = (now - since).as_secs();
            let what = format!("it has not taken {bytes} bytes of replies for {seconds} s");
            format!("a client of {export} was cut off: {what}, and others wait for the memory")
        })
    }

    /// Serves the client until it leaves, is cut off, or the server shuts down.
    pub async fn run(self: Rc<Connection>, exports: CatalogueExports, registry: Rc<Registry>) {
        let sender = self.runtime.spawn(Priority::Host, self.clone().send_all());
        self.receive_all(&exports, &registry).await;
        self.is_receiving_over.set(true);
        self.has_output.notify_one();
        sender.await;
        self.stream.shutdown();
    }

    async fn receive_all(self: &Rc<Connection>, exports: &CatalogueExports, registry: &Registry) {
        let mut buf = self.runtime.buffer(RECEIVE_BYTES);
        let mut filled = 0;
        let mut write = None;
        loop {
            let consumed = match self.take_input(&buf[..filled], exports, registry, &mut write).await {
                Some(consumed) => consumed,
                None => return,
            };
            self.wake_sender();
            buf.copy_within(consumed..filled, 0);
            filled -= consumed;

            let payload_bytes = self.session.borrow().payload_remaining();
            if payload_bytes >= DIRECT_BYTES_MIN {
                assert_eq!(filled, 0, "a write that lacks payload has taken all there was");
                let ArrivingWrite { request, payload, received, share } =
                    write.take().expect("a write lacks payload");
                let (result, payload) = self.stream.receive_exact_at(payload, received).await;
                if result.is_err() {
                    return;
                }
                self.session.borrow_mut().payload_received(payload_bytes);
                self.arriving.set(None);
                self.start(request, Some(payload), share, self.runtime.now());
                continue;
            }
            let (result, back) = self.stream.receive_at(buf, filled).await;
            buf = back;
            match result {
                Ok(0) | Err(_) => return,
                Ok(length) => filled += length,
            }
        }
    }

    /// Feeds input to the session and starts what comes out, all in one go, so that the writes of one
    /// receive meet in one group commit. Returns how much was consumed; `None` ends the connection.
    async fn take_input(
        self: &Rc<Connection>,
        input: &[u8],
        exports: &CatalogueExports,
        registry: &Registry,
        write: &mut Option<ArrivingWrite>,
    ) -> Option<usize> {
        let mut consumed = 0;
        let mut now = self.runtime.now();
        loop {
            let step = {
                let mut outbox = self.outbox.borrow_mut();
                self.session.borrow_mut().receive(&input[consumed..], exports, &mut *outbox)
            };
            consumed += step.consumed;
            match step.event {
                Event::Starved => return Some(consumed),
                Event::Opened(export) => self.open(export, exports, registry)?,
                Event::Request(request) if request.command == Command::Write => {
                    let (bytes, share) = (request.length as usize, self.share(&request, &mut now).await);
                    self.arriving.set(Some(Transfer { since: now, bytes }));
                    let payload = self.runtime.buffer(bytes);
                    *write = Some(ArrivingWrite { request, payload, received: 0, share });
                }
                Event::Request(request) => {
                    let share = self.share(&request, &mut now).await;
                    self.start(request, None, share, now);
                }
                Event::Payload { length, is_last } => {
                    let arriving = write.as_mut().expect("payload belongs to a write");
                    arriving.payload[arriving.received..arriving.received + length]
                        .copy_from_slice(&input[consumed - length..consumed]);
                    arriving.received += length;
                    if is_last {
                        let ArrivingWrite { request, payload, share, .. } = write.take().expect("just used");
                        self.arriving.set(None);
                        self.start(request, Some(payload), share, now);
                    }
                }
                Event::Full => {
                    self.wait_for_room().await;
                    now = self.runtime.now();
                }
                Event::Finish | Event::Close(_) => return None,
            }
            while self.outbox.borrow().bytes() > OUTPUT_BYTES_MAX {
                self.wait_for_room().await;
            }
        }
    }

    /// The request's share of the door's budget. Nothing is received while it waits.
    async fn share(&self, request: &Request, now: &mut Instant) -> Share {
        let bytes = memory_bytes(request);
        if let Some(share) = self.door.try_share(bytes) {
            return share;
        }
        self.wake_sender();
        let share = self.door.share(bytes).await;
        *now = self.runtime.now();
        share
    }

    async fn wait_for_room(&self) {
        self.wake_sender();
        self.has_room.notified().await;
    }

    fn wake_sender(&self) {
        if !self.outbox.borrow().is_empty() {
            self.has_output.notify_one();
        }
    }

    fn open(&self, export: Export, exports: &CatalogueExports, registry: &Registry) -> Option<()> {
        let device = exports.catalogue.device(&export.name)?;
        let counters = registry.counters(DOOR, &export.name);
        let is_first = self.opened.set(Opened { name: export.name, device, counters }).is_ok();
        assert!(is_first, "a session opens one export");
        Some(())
    }

    fn start(
        self: &Rc<Connection>,
        request: Request,
        payload: Option<Buf>,
        share: Share,
        received_at: Instant,
    ) {
        self.running.set(self.running.get() + 1);
        self.count_arrival(&request);
        let connection = self.clone();
        // Dropping the handle lets the task run on.
        drop(self.runtime.spawn(Priority::Host, async move {
            connection.serve(request, payload, received_at).await;
            connection.outbox.borrow_mut().hold(share);
            connection.running.set(connection.running.get() - 1);
            connection.has_room.notify_one();
            connection.has_output.notify_one();
        }));
    }

    /// What a client asks, in its order. What it only wants to know, or have cached, moves nothing.
    fn count_arrival(&self, request: &Request) {
        let operation = match request.command {
            Command::Read => Operation::Read,
            Command::Write => Operation::Write,
            Command::Flush => Operation::Flush,
            Command::Trim => Operation::Unmap,
            Command::WriteZeroes { .. } => Operation::WriteZeroes,
            Command::BlockStatus { .. } | Command::Cache => return,
        };
        let Opened { counters, .. } = self.opened.get().expect("requests come after an export");
        counters.arrived(operation, request.offset, request.length);
    }

    /// Runs one request on the device and queues its reply.
    async fn serve(&self, request: Request, payload: Option<Buf>, received_at: Instant) {
        let Opened { device, .. } = self.opened.get().expect("requests come after an export");
        let Request { id, command, offset, length, is_fua } = request;
        let (operation, result) = match command {
            Command::Read => return self.serve_read(id, offset, length, received_at).await,
            Command::BlockStatus { extents_max } => {
                return match device.extents(offset, length, extents_max).await {
                    Ok(extents) => {
                        self.reply(id, Outcome::Extents(&extents));
                        self.count(Operation::Extents, length, received_at, true);
                    }
                    Err(error) => self.finish(id, Operation::Extents, length, received_at, Err(error)),
                };
            }
            Command::Write => {
                let payload = payload.expect("a write has its payload");
                (Operation::Write, device.write(offset, &payload, is_fua).await)
            }
            Command::Flush => (Operation::Flush, device.flush().await),
            Command::Trim => {
                let result = device.unmap(offset, length).await;
                (Operation::Unmap, then_flush(device, result, is_fua).await)
            }
            Command::WriteZeroes { may_unmap } => {
                let result = device.write_zeroes(offset, length, may_unmap).await;
                (Operation::WriteZeroes, then_flush(device, result, is_fua).await)
            }
            Command::Cache => (Operation::Read, self.prefetch(device, offset, length).await),
        };
        self.finish(id, operation, length, received_at, result);
    }

    async fn serve_read(&self, id: RequestId, offset: u64, length: u64, received_at: Instant) {
        let Opened { device, .. } = self.opened.get().expect("requests come after an export");
        let header_bytes = self.session.borrow().read_header_bytes();
        let mut buf = self.runtime.buffer(header_bytes + length as usize);
        if let Err(error) = device.read(offset, &mut buf[header_bytes..]).await {
            self.finish(id, Operation::Read, length, received_at, Err(error));
            return;
        }
        let mut outbox = self.outbox.borrow_mut();
        match self.session.borrow_mut().complete_read(id, &mut buf, &mut *outbox) {
            ReadReply::InPlace => outbox.push(buf),
            ReadReply::Encoded => {}
        }
        self.count(Operation::Read, length, received_at, true);
    }

    /// Reads a range for what that leaves in the device's cache.
    async fn prefetch(&self, device: &Rc<dyn BlockDevice>, offset: u64, length: u64) -> Result<()> {
        let length = length.min(CACHE_BYTES_MAX);
        let mut buf = self.runtime.buffer(length.min(CACHE_PIECE_BYTES) as usize);
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(CACHE_PIECE_BYTES);
            device.read(offset + done, &mut buf[..piece as usize]).await?;
            done += piece;
        }
        Ok(())
    }

    fn finish(
        &self,
        id: RequestId,
        operation: Operation,
        length: u64,
        received_at: Instant,
        result: Result<()>,
    ) {
        self.count(operation, length, received_at, result.is_ok());
        match result {
            Ok(()) => self.reply(id, Outcome::Done),
            Err(error) => self.reply(id, Outcome::Failed(&error)),
        }
    }

    fn reply(&self, id: RequestId, outcome: Outcome<'_>) {
        let mut outbox = self.outbox.borrow_mut();
        self.session.borrow_mut().complete(id, outcome, &mut *outbox);
    }

    fn count(&self, operation: Operation, length: u64, received_at: Instant, is_done: bool) {
        let Opened { counters, .. } = self.opened.get().expect("requests come after an export");
        if is_done {
            counters.completed(operation, length, self.runtime.now() - received_at);
        } else {
            counters.failed(operation);
        }
    }

    /// Sends what is queued until nothing more can come, or the client does not take it.
    async fn send_all(self: Rc<Connection>) {
        let mut is_broken = false;
        loop {
            let next = self.outbox.borrow_mut().pop();
            if let Some(Outgoing { buf, share: _held }) = next {
                let buf = if is_broken {
                    buf
                } else {
                    self.leaving.set(Some(Transfer { since: self.runtime.now(), bytes: buf.len() }));
                    let (result, buf) = self.stream.send(buf).await;
                    self.leaving.set(None);
                    if result.is_err() {
                        is_broken = true;
                        self.stream.shutdown();
                    }
                    buf
                };
                self.outbox.borrow_mut().sent(buf);
                self.has_room.notify_one();
                continue;
            }
            if self.running.get() == 0 {
                if self.is_receiving_over.get() {
                    return;
                }
                if self.is_shutting_down.get() {
                    // The receiver sees the end of the stream and comes to its own.
                    self.stream.shutdown();
                }
            }
            self.has_output.notified().await;
        }
    }
}

/// Bytes of memory that a request takes for its payload or its reply.
fn memory_bytes(request: &Request) -> usize {
    match request.command {
        Command::Read | Command::Write => request.length as usize,
        Command::Cache => request.length.min(CACHE_PIECE_BYTES) as usize,
        // No extent is shorter than a block, and each takes at most 16 bytes of the reply.
        Command::BlockStatus { extents_max } => {
            extents_max.min(usize::try_from(request.length / 512).unwrap_or(usize::MAX)) * 16
        }
        Command::Flush | Command::Trim | Command::WriteZeroes { .. } => 0,
    }
}

/// The second half of a request with FUA for which the device has no such flag.
async fn then_flush(device: &Rc<dyn BlockDevice>, result: Result<()>, is_fua: bool) -> Result<()> {
    match result {
        Ok(()) if is_fua => device.flush().await,
        Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}
