//! The server behind a real socket: sessions, commands, resets, a shutdown, as an initiator sees them.
// The other side of the socket is a process of its own world: sockets and time are real here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::Identity;
use ashlar_iscsi::{Admission, Authentication, Directory, Established, Portal, Server, Settings};
use ashlar_layers::MemoryDevice;
use ashlar_runtime::sync::Notify;
use ashlar_runtime::{Address, Buf, LocalFuture, ShardSettings, ShardThread, start_shard};
use ashlar_scsi::{Limits, MemoryStore, Port, Saved, Target, Unit, UnitAddress, UnitSettings};
use ashlar_telemetry::{Operation, Registry};

const TARGET: &str = "iqn.2026-11.io.ashlar:p";
const BLOCKS: u64 = 4096;

struct One(Rc<Target>);

impl Directory for One {
    fn admit(&self, _initiator: &str, target: Option<&str>) -> Admission {
        match target {
            Some(TARGET) | None => Admission::Allowed(Authentication::None),
            Some(_) => Admission::NotFound,
        }
    }

    fn targets(&self, _initiator: &str) -> Vec<(String, Vec<String>)> {
        vec![(TARGET.to_string(), vec!["127.0.0.1:3260".to_string()])]
    }
}

impl Portal for One {
    fn target(&self, _established: &Established) -> Option<Rc<Target>> {
        Some(self.0.clone())
    }

    fn volume(&self, _target: &str, _address: UnitAddress) -> Option<String> {
        Some("v".to_string())
    }

    fn number(&self) -> u64 {
        1
    }
}

struct OnShard {
    server: Server,
    registry: Rc<Registry>,
    stop: Notify,
}

thread_local! {
    static ON_SHARD: RefCell<Option<Rc<OnShard>>> = const { RefCell::new(None) };
}

/// A server with one volume of 2 MiB.
struct Rig {
    address: SocketAddr,
    shard: Option<ShardThread>,
}

impl Rig {
    fn new(settings: Settings) -> Rig {
        let (started, wait) = std::sync::mpsc::channel();
        let shard = ShardSettings { buffer_pool_bytes: 16 << 20, ..ShardSettings::default() };
        let shard = start_shard(shard, move |runtime| {
            Box::pin(async move {
                let listener = runtime.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
                let target = Target::new(Port {
                    relative_id: 1,
                    group: 1,
                    name: format!("{TARGET},t,0x0001"),
                    device_name: TARGET.to_string(),
                });
                let buffers = runtime.clone();
                let unit = Unit::new(
                    Rc::new(MemoryDevice::new(BLOCKS * 512, 512)),
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
                let registry = Rc::new(Registry::new());
                let random = Rc::new(|bytes: &mut [u8]| bytes.fill(7));
                let portal = Rc::new(One(target));
                let server = Server::new(&runtime, portal.clone(), random, settings, registry.clone());
                let Address::Tcp(address) = server.listen(listener, portal) else { panic!("not TCP") };
                let stop = Notify::new();
                let on_shard = Rc::new(OnShard { server, registry, stop: stop.clone() });
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
    fn run<T: Send + 'static>(
        &self,
        action: impl FnOnce(Rc<OnShard>) -> LocalFuture<'static, T> + Send + 'static,
    ) -> T {
        let remote = self.shard.as_ref().unwrap().remote();
        let result = remote.run(move |_| action(ON_SHARD.with_borrow(|on_shard| on_shard.clone().unwrap())));
        result.wait().expect("the shard lives")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.run(|on_shard| Box::pin(async move { on_shard.stop.notify_one() }));
        self.shard.take().unwrap().join();
    }
}

struct Pdu {
    header: [u8; 48],
    data: Vec<u8>,
}

impl Pdu {
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.header[at..at + 4].try_into().unwrap())
    }
}

/// An initiator with blocking calls; it has heard all unit attentions.
struct Initiator {
    stream: TcpStream,
    tag: u32,
    cmd_sn: u32,
}

impl Initiator {
    /// Logs in as one of the ports of a host.
    fn new(rig: &Rig, port: u8) -> Initiator {
        let stream = TcpStream::connect(rig.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut initiator = Initiator { stream, tag: 1, cmd_sn: 1 };
        let text =
            format!("InitiatorName=iqn.x:host\0TargetName={TARGET}\0InitialR2T=No\0ImmediateData=No\0");
        initiator.send(&[(0, &[0x43, 0x87]), (13, &[port]), (27, &[1])], text.as_bytes());
        let answer = initiator.receive().unwrap();
        assert_eq!((answer.header[0], answer.u32_at(36)), (0x23, 0));
        // POWER ON or NEXUS LOSS.
        assert_eq!(initiator.command(&[0; 6], 0, &[]).header[3], 2);
        initiator
    }

    fn send(&mut self, fields: &[(usize, &[u8])], data: &[u8]) {
        let mut bytes = vec![0; 48];
        bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        fields.iter().for_each(|(at, part)| bytes[*at..*at + part.len()].copy_from_slice(part));
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next PDU; `None` where the connection has ended.
    fn receive(&mut self) -> Option<Pdu> {
        let mut header = [0; 48];
        self.stream.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(length);
        Some(Pdu { header, data })
    }

    /// Sends a command that reads `expected` bytes, or writes these when asked for them; its last PDU.
    fn command(&mut self, cdb: &[u8], expected: u32, write: &[u8]) -> Pdu {
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

    fn begin(&mut self, cdb: &[u8], expected: u32, write: &[u8]) -> u32 {
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
    fn manage(&mut self, opcode: u8, function: u8, referenced: u32) {
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

const WRITE: [u8; 10] = [0x2a, 0, 0, 0, 0, 8, 0, 0, 200, 0];
const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 8, 0, 0, 200, 0];

#[test]
fn what_is_written_by_one_host_is_read_by_another_and_counted() {
    let rig = Rig::new(Settings::default());
    let (mut writer, mut reader) = (Initiator::new(&rig, 1), Initiator::new(&rig, 2));
    let data: Vec<u8> = (0..200 * 512_u32).map(|index| (index / 7) as u8).collect();
    let answer = writer.command(&WRITE, 0, &data);
    assert_eq!((answer.header[0], answer.header[3]), (0x21, 0));
    let mut read = Vec::new();
    let mut last = reader.command(&READ, 200 * 512, &[]);
    while last.header[1] & 1 == 0 {
        assert_eq!(last.u32_at(40) as usize, read.len());
        read.append(&mut last.data);
        last = reader.receive().unwrap();
    }
    read.append(&mut last.data);
    assert!(read == data, "other bytes came back");
    let counted = rig.run(|on_shard| Box::pin(async move { on_shard.registry.snapshot().volume("v") }));
    for operation in [Operation::Read, Operation::Write] {
        assert_eq!((counted.of(operation).completed, counted.of(operation).bytes), (1, 200 * 512));
    }
    let clients = rig.run(|on_shard| Box::pin(async move { on_shard.server.clients().len() }));
    assert_eq!(clients, 2);
}

#[test]
fn the_same_port_again_ends_the_session_before_it_and_its_reserve() {
    let rig = Rig::new(Settings::default());
    let (mut first, mut other) = (Initiator::new(&rig, 1), Initiator::new(&rig, 2));
    assert_eq!(first.command(&[0x16, 0, 0, 0, 0, 0], 0, &[]).header[3], 0);
    assert_eq!(other.command(&[0; 6], 0, &[]).header[3], 0x18, "reserved");
    let mut again = Initiator::new(&rig, 1);
    assert!(first.receive().is_none(), "the old connection has ended");
    assert_eq!(again.command(&[0; 6], 0, &[]).header[3], 0);
    assert_eq!(other.command(&[0; 6], 0, &[]).header[3], 0);
}

#[test]
fn a_reset_ends_commands_that_wait_for_data_and_everybody_hears_of_it() {
    let rig = Rig::new(Settings::default());
    let (mut first, mut other) = (Initiator::new(&rig, 1), Initiator::new(&rig, 2));
    let tag = first.begin(&WRITE, 0, &[1; 200 * 512]);
    assert_eq!(first.receive().unwrap().header[0], 0x31, "it is asked for its data");
    other.manage(0x02, 5, u32::MAX);
    let answer = other.receive().unwrap();
    assert_eq!((answer.header[0], answer.header[2]), (0x22, 0));
    for initiator in [&mut first, &mut other] {
        let answer = initiator.command(&[0; 6], 0, &[]);
        assert_eq!((answer.header[3], &answer.data[14..16]), (2, &[0x29, 0x03][..]));
    }
    // The task is gone.
    first.manage(0x02, 1, tag);
    assert_eq!(first.receive().unwrap().header[2], 1);
}

#[test]
fn a_command_beyond_the_budget_is_told_to_come_again() {
    let settings = Settings { payload_bytes_max: 128 << 10, ..Settings::default() };
    let rig = Rig::new(settings);
    let mut initiator = Initiator::new(&rig, 1);
    initiator.begin(&WRITE, 0, &[1; 200 * 512]);
    assert_eq!(initiator.receive().unwrap().header[0], 0x31);
    assert_eq!(initiator.command(&READ, 200 * 512, &[]).header[3], 0x28, "TASK SET FULL");
    assert_eq!(initiator.command(&[0; 6], 0, &[]).header[3], 0, "there is room for small ones");
}

#[test]
fn a_logout_is_answered_and_a_shutdown_asks_for_one() {
    let rig = Rig::new(Settings { drain_max: Duration::from_secs(5), ..Settings::default() });
    let mut leaving = Initiator::new(&rig, 1);
    leaving.manage(0x06, 0, 0);
    assert_eq!(leaving.receive().unwrap().header[0], 0x26);
    assert!(leaving.receive().is_none());
    let mut staying = Initiator::new(&rig, 2);
    let asked = std::thread::spawn(move || {
        let asked = staying.receive().unwrap();
        staying.manage(0x06, 0, 0);
        let answered = staying.receive().unwrap();
        (asked.header[0], asked.header[36], answered.header[0], staying.receive().is_none())
    });
    drop(rig);
    assert_eq!(asked.join().unwrap(), (0x32, 1, 0x26, true));
}
