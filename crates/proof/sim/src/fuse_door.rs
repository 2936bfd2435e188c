//! A volume behind the FUSE target: every request of the workload as kernel messages through a real
//! session.
//!
//! This is the kernel's side: it looks the volume up, opens it, cuts large requests into pieces that
//! run at the same time, and takes an operation for done when all its pieces are. Only `/dev/fuse` is
//! missing; messages, session and the work on the volume are the shipped ones.
//!
//! The array may die at any point. The next one takes the mount over by what this one left, and is handed
//! every request again that got no answer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ashlar_block::{
    BlockDevice, Catalogue, Error, ErrorKind, Extent, Geometry, Identity, LocalFuture, Result,
};
use ashlar_fuse::wire::{self, InHeader, ROOT_NODE, opcode};
use ashlar_fuse::{Answer, Errno, Operation, Session, Settings};
use ashlar_runtime::{Priority, Runtime};
use ashlar_telemetry::Registry;

use crate::chance::Chance;
use crate::content::{SECTOR_BYTES, Value};
use crate::kernel::{Asked, Mounted, Written};
use crate::record::Record;

/// `FALLOC_FL_KEEP_SIZE`, `FALLOC_FL_PUNCH_HOLE`, `FALLOC_FL_ZERO_RANGE` of `linux/falloc.h`.
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;
/// `O_RDWR` and `O_DSYNC` of `asm-generic/fcntl.h`.
const OPEN_READ_WRITE: u32 = 0o2;
const OPEN_DSYNC: u32 = 0o10000;

/// Where a message has its number (`fuse_in_header` of `linux/fuse.h`).
const UNIQUE_AT: usize = 8;

/// Error numbers the door knows to translate back.
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

/// An open file of a mount of its own.
pub struct FuseDoor {
    mount: Rc<Mount>,
}

struct Mount {
    runtime: Runtime,
    record: Rc<Record>,
    device: Rc<dyn BlockDevice>,
    session: RefCell<Session>,
    kernel: Rc<Mounted>,
    /// What the next write carries.
    carries: Rc<Cell<Value>>,
}

/// What a door is opened with.
pub struct Opening {
    /// The simulated shard.
    pub runtime: Runtime,
    /// The notebook.
    pub record: Rc<Record>,
    /// The volume's name, and which of that name it is.
    pub volume: (String, u32),
    /// The volume.
    pub device: Rc<dyn BlockDevice>,
    /// What the next write carries, told before it is issued.
    pub carries: Rc<Cell<Value>>,
}

struct OneVolume {
    name: String,
    incarnation: u32,
    device: Rc<dyn BlockDevice>,
}

impl Opening {
    fn catalogue(&self) -> Rc<OneVolume> {
        let (name, incarnation) = self.volume.clone();
        Rc::new(OneVolume { name, incarnation, device: self.device.clone() })
    }

    fn into_door(self, session: Session, kernel: Rc<Mounted>) -> FuseDoor {
        let Opening { runtime, record, device, carries, .. } = self;
        let session = RefCell::new(session);
        FuseDoor { mount: Rc::new(Mount { runtime, record, device, session, kernel, carries }) }
    }
}

fn settings_of(payload_bytes: u64) -> Settings {
    Settings { payload_bytes: payload_bytes as u32, ..Settings::default() }
}

impl Catalogue for OneVolume {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        (name == self.name).then(|| self.device.clone())
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn identity(&self, name: &str) -> Option<Identity> {
        (name == self.name).then_some(Identity { pool: 1, image: u64::from(self.incarnation) })
    }
}

impl FuseDoor {
    /// Mounts a directory with this volume and opens it.
    #[must_use]
    pub fn open(opening: Opening, mut chance: Chance) -> FuseDoor {
        let payload_bytes = *chance.pick(&[8 << 10, 64 << 10, 256 << 10, 1 << 20]);
        let registry = Rc::new(Registry::new());
        let session = Session::new(opening.catalogue(), registry, settings_of(payload_bytes), 0);
        let (name, incarnation) = opening.volume.clone();
        let kernel = Rc::new(Mounted::new(incarnation, payload_bytes, ROOT_NODE));
        let door = opening.into_door(session, kernel.clone());
        let mut path = name.into_bytes();
        path.push(0);
        kernel.node.set(door.mount.small(opcode::LOOKUP, &path));
        let mut flags = OPEN_READ_WRITE.to_ne_bytes().to_vec();
        flags.extend_from_slice(&[0; 4]);
        kernel.handle.set(door.mount.small(opcode::OPEN, &flags));
        door
    }

    /// Takes over a mount whose array died.
    #[must_use]
    pub fn take_over(opening: Opening, kernel: Rc<Mounted>) -> Option<FuseDoor> {
        let registry = Rc::new(Registry::new());
        let settings = settings_of(kernel.payload_bytes);
        match Session::restored(opening.catalogue(), registry, settings, 0, &kernel.will()) {
            Ok(session) => {
                let door = opening.into_door(session, kernel);
                door.mount.leave_will();
                Some(door)
            }
            Err(missing) => {
                opening.record.fail(format!("FUSE: a mount is not taken over: {missing:?} are not there"));
                None
            }
        }
    }

    /// The kernel's side of it.
    #[must_use]
    pub fn mounted(&self) -> Rc<Mounted> {
        self.mount.kernel.clone()
    }

    /// Hands a request out again.
    pub async fn again(&self, number: u64, asked: &Asked) -> Result<()> {
        let mut message = asked.message.clone();
        message[UNIQUE_AT..UNIQUE_AT + 8].copy_from_slice(&(number | wire::RESENT).to_ne_bytes());
        self.mount.record.add_probes(&[("requests handed out again over FUSE", 1)]);
        self.mount.ask(number, &message).await.map(drop)
    }

    /// The volume was deleted since.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.mount.device.geometry().size_bytes == 0
    }

    /// Runs one operation in pieces of at most `piece_max` bytes, all at the same time.
    async fn in_pieces(
        &self,
        offset: u64,
        length: u64,
        piece_max: u64,
        message: impl Fn(&Mount, u64, u64) -> (u32, Vec<u8>),
        value: Option<Value>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut pieces = Vec::new();
        let mut at = offset;
        while at < offset + length {
            let piece = piece_max.min(offset + length - at);
            let (code, body) = message(&self.mount, at, piece);
            let change = value.map(|value| Written { offset: at, length: piece, value });
            let mount = self.mount.clone();
            let sent = async move { mount.send(code, &body, change).await };
            pieces.push(self.mount.runtime.spawn(Priority::Host, sent));
            at += piece;
        }
        let mut replies = Vec::new();
        let mut result = Ok(());
        for piece in pieces {
            match piece.await {
                Ok(reply) => replies.push(reply),
                Err(error) => result = Err(error),
            }
        }
        result.map(|()| replies)
    }

    async fn fallocate(&self, offset: u64, length: u64, mode: u32) -> Result<()> {
        let body = |mount: &Mount, offset: u64, length: u64| {
            let mut body = Vec::new();
            for word in [mount.kernel.handle.get(), offset, length, u64::from(mode)] {
                body.extend_from_slice(&word.to_ne_bytes());
            }
            (opcode::FALLOCATE, body)
        };
        self.in_pieces(offset, length, u64::MAX, body, Some(Value::ZERO)).await.map(drop)
    }
}

impl Mount {
    fn message(&self, code: u32, body: &[u8]) -> Vec<u8> {
        let kernel = &self.kernel;
        kernel.unique.set(kernel.unique.get() + 2);
        let mut message = Vec::with_capacity(wire::IN_HEADER_BYTES + body.len());
        message.extend_from_slice(&((wire::IN_HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&code.to_ne_bytes());
        message.extend_from_slice(&kernel.unique.get().to_ne_bytes());
        message.extend_from_slice(&kernel.node.get().to_ne_bytes());
        message.resize(wire::IN_HEADER_BYTES, 0);
        message.extend_from_slice(body);
        message
    }

    /// A request that is answered at once; the first number of the reply.
    fn small(&self, code: u32, body: &[u8]) -> u64 {
        let message = self.message(code, body);
        match self.apply(&message) {
            Ok((Answer::Small(reply), _)) => {
                let first = reply.as_bytes().first_chunk::<8>();
                first.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
            }
            // A volume that is deleted at this moment; its requests will say so.
            Ok((Answer::Failed(_), _)) | Err(_) => 0,
            Ok(_) => {
                self.record.fail(format!("FUSE: opcode {code} was not answered at once"));
                0
            }
        }
    }

    fn apply<'a>(&self, message: &'a [u8]) -> std::result::Result<(Answer, &'a [u8]), Errno> {
        let header = InHeader::decode(message).ok_or(Errno(EINVAL))?;
        let (fixed, data) = wire::split_classic(header.opcode, &message[wire::IN_HEADER_BYTES..])?;
        let request = wire::decode(header.opcode, fixed, data)?;
        let answer = self.session.borrow_mut().apply(&header, request);
        self.leave_will();
        Ok((answer, data))
    }

    fn leave_will(&self) {
        self.session.borrow_mut().take_will().into_iter().for_each(|will| self.kernel.leave(will));
    }

    /// A request on the volume; the payload of its reply.
    async fn send(&self, code: u32, body: &[u8], change: Option<Written>) -> Result<Vec<u8>> {
        self.record.add_probes(&[("requests over FUSE", 1)]);
        let message = self.message(code, body);
        let number = self.kernel.unique.get();
        self.kernel.ask(number, Asked { message: message.clone(), change });
        self.ask(number, &message).await
    }

    async fn ask(&self, number: u64, message: &[u8]) -> Result<Vec<u8>> {
        let answered = self.answer(message).await;
        if !self.kernel.is_answered(number) {
            self.record.fail(format!("FUSE: request {number} was answered twice"));
        }
        answered
    }

    async fn answer(&self, message: &[u8]) -> Result<Vec<u8>> {
        let code = InHeader::decode(message).map_or(0, |header| header.opcode);
        let (answer, data) = self.apply(message).map_err(|errno| error_of(errno, code))?;
        match answer {
            Answer::Volume(work) => {
                let mut payload = vec![0x5d; self.kernel.payload_bytes as usize];
                payload[..data.len()].copy_from_slice(data);
                let operation = work.operation;
                let length = work.perform(&mut payload).await.map_err(|errno| match operation {
                    // Behind the end a file has no space; the pool is not full. A deleted volume has no end.
                    Operation::Write { offset, size, .. }
                        if errno.0 == ENOSPC
                            && (1..offset + u64::from(size)).contains(&self.device.geometry().size_bytes) =>
                    {
                        error_of(Errno(EINVAL), code)
                    }
                    _ => error_of(errno, code),
                })?;
                payload.truncate(length);
                Ok(payload)
            }
            Answer::Failed(errno) => Err(error_of(errno, code)),
            Answer::Silent | Answer::Small(_) | Answer::Directory { .. } => {
                self.record.fail(format!("FUSE: opcode {code} was answered without the volume"));
                Err(Error::new(ErrorKind::Invalid, "answered without the volume"))
            }
        }
    }

    /// The fixed part of READ and WRITE.
    fn transfer(&self, offset: u64, length: u64, flags: u32) -> Vec<u8> {
        let mut body = Vec::with_capacity(wire::WRITE_IN_BYTES + length as usize);
        body.extend_from_slice(&self.kernel.handle.get().to_ne_bytes());
        body.extend_from_slice(&offset.to_ne_bytes());
        body.extend_from_slice(&(length as u32).to_ne_bytes());
        body.extend_from_slice(&[0; 12]);
        body.extend_from_slice(&flags.to_ne_bytes());
        body.extend_from_slice(&[0; 4]);
        body
    }
}

fn error_of(errno: Errno, code: u32) -> Error {
    let kind = match errno.0 {
        ENODEV => ErrorKind::Gone,
        EINVAL => ErrorKind::Invalid,
        ENOSPC => ErrorKind::NoSpace,
        EROFS => ErrorKind::ReadOnly,
        _ => ErrorKind::Medium,
    };
    Error::new(kind, format!("over FUSE, opcode {code}, errno {}", errno.0))
}

impl BlockDevice for FuseDoor {
    /// A file has no blocks: hosts write what the oracle can tell apart.
    fn geometry(&self) -> Geometry {
        Geometry { logical_block_bytes: SECTOR_BYTES as u32, ..self.mount.device.geometry() }
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let body = |mount: &Mount, at: u64, length: u64| (opcode::READ, mount.transfer(at, length, 0));
            let piece_max = self.mount.kernel.payload_bytes;
            let pieces = self.in_pieces(offset, into.len() as u64, piece_max, body, None).await?;
            let bytes = pieces.concat();
            if bytes.len() < into.len() {
                // The end of the file, where a resize put it meanwhile; the caller knows whether one did.
                let what = format!("FUSE: a read of {} bytes got {}", into.len(), bytes.len());
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            into.copy_from_slice(&bytes);
            Ok(())
        })
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], is_fua: bool) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let flags = OPEN_READ_WRITE | if is_fua { OPEN_DSYNC } else { 0 };
            let body = |mount: &Mount, at: u64, length: u64| {
                let mut body = mount.transfer(at, length, flags);
                let start = (at - offset) as usize;
                body.extend_from_slice(&data[start..start + length as usize]);
                (opcode::WRITE, body)
            };
            let (piece_max, value) = (self.mount.kernel.payload_bytes, self.mount.carries.get());
            let replies = self.in_pieces(offset, data.len() as u64, piece_max, body, Some(value)).await?;
            let written: u64 = replies
                .iter()
                .filter_map(|reply| reply.first_chunk::<4>())
                .map(|size| u64::from(u32::from_ne_bytes(*size)))
                .sum();
            if written != data.len() as u64 {
                self.mount.record.fail(format!("FUSE: a write of {} bytes took {written}", data.len()));
            }
            Ok(())
        })
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async {
            let mut body = self.mount.kernel.handle.get().to_ne_bytes().to_vec();
            body.extend_from_slice(&[0; 8]);
            self.mount.send(opcode::FSYNC, &body, None).await.map(drop)
        })
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        Box::pin(self.fallocate(offset, length, KEEP_SIZE | PUNCH_HOLE))
    }

    fn write_zeroes(&self, offset: u64, length: u64, _may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        Box::pin(self.fallocate(offset, length, KEEP_SIZE | ZERO_RANGE))
    }

    fn extents(&self, offset: u64, length: u64, max: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        // Files have SEEK_HOLE only, which says less.
        self.mount.device.extents(offset, length, max)
    }
}
