//! A server with two targets of a volume each, and an initiator with blocking calls.
// The other side of the socket is a process of its own world: sockets and time are real here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]
// Each test file uses its part of this.
#![allow(dead_code)]

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ashlar_block::Identity;
use ashlar_iscsi::{Admission, Authentication, Directory, Established, Portal, Server, Settings};
use ashlar_layers::{FaultSettings, Faulty, MemoryDevice};
use ashlar_runtime::sync::Notify;
use ashlar_runtime::{Address, Buf, LocalFuture, Runtime, ShardSettings, ShardThread, start_shard};
use ashlar_scsi::{Limits, MemoryStore, Port, Saved, Target, Unit, UnitAddress, UnitSettings};
use ashlar_telemetry::Registry;

pub const TARGET: &str = "iqn.2026-11.io.ashlar:p";
/// Another one, with a volume of its own.
pub const SECOND: &str = "iqn.2026-11.io.ashlar:q";
const BLOCKS: u64 = 4096;

struct Two([Rc<Target>; 2]);

impl Directory for Two {
    fn admit(&self, _initiator: &str, target: Option<&str>) -> Admission {
        match target {
            Some(TARGET | SECOND) | None => Admission::Allowed(Authentication::None),
            Some(_) => Admission::NotFound,
        }
    }

    fn targets(&self, _initiator: &str) -> Vec<(String, Vec<String>)> {
        vec![(TARGET.to_string(), vec!["127.0.0.1:3260".to_string()])]
    }
}

impl Portal for Two {
    fn target(&self, established: &Established) -> Option<Rc<Target>> {
        let is_second = established.target.as_deref() == Some(SECOND);
        Some(self.0[usize::from(is_second)].clone())
    }

    fn volume(&self, _target: &str, _address: UnitAddress) -> Option<String> {
        Some("v".to_string())
    }

    fn number(&self) -> u64 {
        1
    }
}

pub struct OnShard {
    pub server: Server,
    portal: Rc<Two>,
    pub registry: Rc<Registry>,
    stop: Notify,
}

thread_local! {
    static ON_SHARD: RefCell<Option<Rc<OnShard>>> = const { RefCell::new(None) };
}

/// A target with one volume of 2 MiB.
fn target_of(runtime: &Runtime, name: &str, faults: FaultSettings) -> Rc<Target> {
    let target = Target::new(Port {
        relative_id: 1,
        group: 1,
        name: format!("{name},t,0x0001"),
        device_name: name.to_string(),
    });
    let buffers = runtime.clone();
    let unit = Unit::new(
        Rc::new(Faulty::new(Rc::new(MemoryDevice::new(BLOCKS * 512, 512)), runtime, faults)),
        UnitSettings {
            identity: Identity { pool: 1, image: 1 },
            block_bytes: 512,
            revision: "1".to_string(),
            limits: Limits::default(),
            store: Some(Rc::new(MemoryStore::default())),
            saved: Saved::default(),
            allocate: Rc::new(move |length| -> Buf { buffers.buffer(length) }),
        },
    );
    assert!(target.add(UnitAddress::new(0).unwrap(), Rc::new(unit)));
    target
}

/// A server with two targets.
pub struct Rig {
    pub address: SocketAddr,
    shard: Option<ShardThread>,
}

impl Rig {
    pub fn new(settings: Settings) -> Rig {
        Rig::of(settings, FaultSettings::default())
    }

    /// With a volume that dawdles.
    pub fn of(settings: Settings, faults: FaultSettings) -> Rig {
        let (started, wait) = std::sync::mpsc::channel();
        let shard = ShardSettings { buffer_pool_bytes: 16 << 20, ..ShardSettings::default() };
        let shard = start_shard(shard, move |runtime| {
            Box::pin(async move {
                let listener = runtime.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
                let targets = [TARGET, SECOND].map(|name| target_of(&runtime, name, faults));
                let registry = Rc::new(Registry::new());
                let random = Rc::new(|bytes: &mut [u8]| bytes.fill(7));
                let portal = Rc::new(Two(targets));
                let server = Server::new(&runtime, portal.clone(), random, settings, registry.clone());
                let Address::Tcp(address) = server.listen(listener, portal.clone()) else {
                    panic!("not TCP")
                };
                let stop = Notify::new();
                let on_shard = Rc::new(OnShard { server, portal, registry, stop: stop.clone() });
                ON_SHARD.set(Some(on_shard.clone()));
                started.send(address).unwrap();
                stop.notified().await;
                on_shard.server.shutdown().await;
            })
        })
        .unwrap();
        Rig { address: wait.recv().expect("the server did not start"), shard: Some(shard) }
    }

    /// Runs something next to the server.
    pub fn run<T: Send + 'static>(
        &self,
        action: impl FnOnce(Rc<OnShard>) -> LocalFuture<'static, T> + Send + 'static,
    ) -> T {
        let remote = self.shard.as_ref().unwrap().remote();
        let result = remote.run(move |_| action(ON_SHARD.with_borrow(|on_shard| on_shard.clone().unwrap())));
        result.wait().expect("the shard lives")
    }

    /// Opens another address, where initiators come in from now on.
    pub fn move_on(&mut self) {
        let remote = self.shard.as_ref().unwrap().remote();
        let listened = remote.run(move |runtime| {
            let on_shard = ON_SHARD.with_borrow(|on_shard| on_shard.clone().unwrap());
            Box::pin(async move {
                let listener = runtime.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
                match on_shard.server.listen(listener, on_shard.portal.clone()) {
                    Address::Tcp(address) => address,
                    _ => panic!("not TCP"),
                }
            })
        });
        self.address = listened.wait().expect("the shard lives");
    }

    /// Asks the server something.
    pub fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&Server) -> T + Send + 'static) -> T {
        self.run(move |on_shard| Box::pin(async move { ask(&on_shard.server) }))
    }

    /// Waits until this holds.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&Server) -> bool + Copy + Send + 'static) {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.ask(holds) {
            assert!(Instant::now() < end, "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.run(|on_shard| Box::pin(async move { on_shard.stop.notify_one() }));
        self.shard.take().unwrap().join();
    }
}

pub struct Pdu {
    pub header: [u8; 48],
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.header[at..at + 4].try_into().unwrap())
    }
}

/// An initiator with blocking calls; it has heard all unit attentions.
pub struct Initiator {
    pub stream: TcpStream,
    pub tag: u32,
    pub cmd_sn: u32,
}

impl Initiator {
    /// Logs in as one of the ports of a host.
    pub fn new(rig: &Rig, port: u8) -> Initiator {
        Initiator::with(rig, port, "")
    }

    /// The same with further keys and values.
    pub fn with(rig: &Rig, port: u8, more: &str) -> Initiator {
        let (mut initiator, status) = Initiator::attempt(rig, "iqn.x:host", port, more);
        assert_eq!(status, 0);
        // POWER ON or NEXUS LOSS.
        assert_eq!(initiator.command(&[0; 6], 0, &[]).header[3], 2);
        initiator
    }

    /// Asks to be let in; with what status that ends (RFC 7143 11.13.5).
    pub fn attempt(rig: &Rig, name: &str, port: u8, more: &str) -> (Initiator, u16) {
        Initiator::attempt_at(rig, TARGET, name, port, more)
    }

    /// The same at another target.
    pub fn attempt_at(rig: &Rig, target: &str, name: &str, port: u8, more: &str) -> (Initiator, u16) {
        let mut initiator = Initiator::ask(rig, target, name, port, more);
        let status = initiator.status();
        (initiator, status)
    }

    /// Asks and does not wait for the answer.
    pub fn ask(rig: &Rig, target: &str, name: &str, port: u8, more: &str) -> Initiator {
        let stream = TcpStream::connect(rig.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut initiator = Initiator { stream, tag: 1, cmd_sn: 1 };
        let text =
            format!("InitiatorName={name}\0TargetName={target}\0InitialR2T=No\0ImmediateData=No\0{more}");
        initiator.send(&[(0, &[0x43, 0x87]), (13, &[port]), (27, &[1])], text.as_bytes());
        initiator
    }

    /// With what status its login ends.
    pub fn status(&mut self) -> u16 {
        let answer = self.receive().unwrap();
        assert_eq!(answer.header[0], 0x23);
        u16::from_be_bytes([answer.header[36], answer.header[37]])
    }

    pub fn send(&mut self, fields: &[(usize, &[u8])], data: &[u8]) {
        assert!(self.try_send(fields, data), "the connection has ended");
    }

    /// False where the connection has ended.
    pub fn try_send(&mut self, fields: &[(usize, &[u8])], data: &[u8]) -> bool {
        let mut bytes = vec![0; 48];
        bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        fields.iter().for_each(|(at, part)| bytes[*at..*at + part.len()].copy_from_slice(part));
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.write_all(&bytes).is_ok()
    }

    /// The next PDU; `None` where the connection has ended.
    pub fn receive(&mut self) -> Option<Pdu> {
        let mut header = [0; 48];
        self.stream.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(length);
        Some(Pdu { header, data })
    }

    /// Sends a command that reads `expected` bytes, or writes these when asked for them; its last PDU.
    pub fn command(&mut self, cdb: &[u8], expected: u32, write: &[u8]) -> Pdu {
        let tag = self.begin(cdb, expected, write);
        loop {
            let answer = self.receive().expect("an answer");
            if answer.header[0] != 0x31 {
                assert_eq!(answer.u32_at(16), tag);
                return answer;
            }
            let (offset, length) = (answer.u32_at(40) as usize, answer.u32_at(44) as usize);
            let transfer = answer.u32_at(20).to_be_bytes();
            let fields: [(usize, &[u8]); 4] =
                [(0, &[0x05, 0x80]), (16, &tag.to_be_bytes()), (20, &transfer), (40, &answer.header[40..44])];
            self.send(&fields, &write[offset..offset + length]);
        }
    }

    pub fn begin(&mut self, cdb: &[u8], expected: u32, write: &[u8]) -> u32 {
        let (tag, cmd_sn) = (self.tag, self.cmd_sn);
        (self.tag, self.cmd_sn) = (tag + 1, cmd_sn + 1);
        let flags = if write.is_empty() { 0xc0 } else { 0xa0 };
        let expected = if write.is_empty() { expected } else { write.len() as u32 };
        let fields: [(usize, &[u8]); 5] = [
            (0, &[0x01, flags]),
            (16, &tag.to_be_bytes()),
            (20, &expected.to_be_bytes()),
            (24, &cmd_sn.to_be_bytes()),
            (32, cdb),
        ];
        self.send(&fields, &[]);
        tag
    }

    /// An immediate task management request, or a logout.
    pub fn manage(&mut self, opcode: u8, function: u8, referenced: u32) {
        let (tag, cmd_sn) = (self.tag, self.cmd_sn);
        self.tag += 1;
        let fields: [(usize, &[u8]); 4] = [
            (0, &[0x40 | opcode, 0x80 | function]),
            (16, &tag.to_be_bytes()),
            (20, &referenced.to_be_bytes()),
            (24, &cmd_sn.to_be_bytes()),
        ];
        self.send(&fields, &[]);
    }
}
