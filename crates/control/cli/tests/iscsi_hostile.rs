//! Initiators that send rubbish beside one that works: a real array goes on serving it, as fast as may be.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::Array;
use support::iscsi::{GOOD, Initiator};

const HOST: &str = "iqn.2026-11.io.example:db1";
/// Blocks of 4 KiB that the host writes over and over.
const BLOCKS: u64 = 256;
/// What each way to send rubbish is called, in the order of [`Rubbish::send`].
const WAYS: [&str; 9] = [
    "bytes instead of a login",
    "half a login",
    "a login of 16 MiB",
    "wrong digests",
    "PDUs of chance",
    "commands beyond the window",
    "data out of order",
    "answers that nobody takes",
    "functions of task management",
];

/// A generator of chance whose runs repeat (xorshift of 64 bits).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// A PDU: fields of its header, data filled to four bytes.
fn pdu(fields: &[(usize, &[u8])], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    fields.iter().for_each(|(at, part)| bytes[*at..*at + part.len()].copy_from_slice(part));
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A write of 256 blocks at unit 1, the unit of everybody, whose data are to be asked for.
fn write_command(tag: u32, cmd_sn: u32) -> Vec<u8> {
    let fields: [(usize, &[u8]); 6] = [
        (0, &[0x01, 0xa0]),
        (8, &[0, 1]),
        (16, &tag.to_be_bytes()),
        (20, &(1_u32 << 20).to_be_bytes()),
        (24, &cmd_sn.to_be_bytes()),
        (32, &[0x2a, 0, 0, 0, 0, 0, 0, 1, 0, 0]),
    ];
    pdu(&fields, &[])
}

/// Somebody who sends rubbish.
struct Rubbish<'a> {
    port: u16,
    target: &'a str,
    number: u64,
    chance: Chance,
    counts: &'a [AtomicU64],
}

impl Rubbish<'_> {
    fn connect(&self) -> Option<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        Some(stream)
    }

    /// A session that has logged in, with these keys beside its names.
    fn log_in(&mut self, more: &str) -> Option<TcpStream> {
        let (mut stream, number) = (self.connect()?, self.number);
        let text = format!("InitiatorName=iqn.x:r{number}\0TargetName={}\0{more}", self.target);
        let login = pdu(&[(0, &[0x43, 0x87]), (13, &[number as u8]), (27, &[1])], text.as_bytes());
        stream.write_all(&login).ok()?;
        let mut header = [0; 48];
        stream.read_exact(&mut header).ok()?;
        let length = usize::from(u16::from_be_bytes([header[6], header[7]]));
        stream.read_exact(&mut vec![0; length.next_multiple_of(4)]).ok()?;
        (header[36] == 0).then_some(stream)
    }

    /// Sends rubbish of one way, and takes some of what comes back.
    fn send(&mut self, way: usize) -> Option<()> {
        let mut stream = match way {
            0..=2 => self.connect()?,
            3 => self.log_in("HeaderDigest=CRC32C\0DataDigest=CRC32C\0")?,
            7 => self.log_in("MaxRecvDataSegmentLength=262144\0")?,
            _ => self.log_in("")?,
        };
        let bytes = match way {
            0 => self.chance.bytes(4096),
            1 => pdu(&[(0, &[0x43, 0x87])], &[b'a'; 100])[..77].to_vec(),
            2 => pdu(&[(0, &[0x43, 0x87]), (5, &[0xff, 0xff, 0xff])], &[b'a'; 100]),
            3 => pdu(&[(0, &[0x40, 0x80])], &self.chance.bytes(64)),
            4 => self.pdus_of_chance(),
            5 => (0..500_u32).flat_map(|step| write_command(step, 1 + step * 300)).collect(),
            6 => self.data_out_of_order(),
            7 => (0..120_u32).flat_map(read_all).collect(),
            _ => (0..200_u32).flat_map(|tag| manage(tag, 1 + (tag % 7) as u8)).collect(),
        };
        // The array may have ended the connection by now: that is its right.
        let _ = stream.write_all(&bytes);
        if way != 7 {
            self.take(&mut stream);
        }
        self.counts[way].fetch_add(1, Ordering::Relaxed);
        Some(())
    }

    /// Headers of any content, some with the numbers that the array waits for.
    fn pdus_of_chance(&mut self) -> Vec<u8> {
        let opcodes = [0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x10, 0x1c, 0x20, 0x3f];
        let mut all = Vec::new();
        for step in 0..100_u32 {
            let mut bytes = self.chance.bytes(48);
            bytes[0] = opcodes[(self.chance.next() % 10) as usize] | self.chance.next() as u8 & 0x40;
            let length = (self.chance.next() % 300) as usize;
            bytes[4] = 0;
            bytes[5..8].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
            if step % 2 == 0 {
                bytes[24..28].copy_from_slice(&(1 + step / 2).to_be_bytes());
            }
            bytes.extend_from_slice(&self.chance.bytes(length.next_multiple_of(4)));
            all.extend_from_slice(&bytes);
        }
        all
    }

    /// Writes whose data come in wrong places, with wrong numbers, for nobody.
    fn data_out_of_order(&mut self) -> Vec<u8> {
        let mut all: Vec<u8> = (1..=100_u32).flat_map(|tag| write_command(tag, tag)).collect();
        for tag in 1..=200_u32 {
            let (transfer, offset) = (self.chance.next() as u32 % 400, self.chance.next() as u32);
            let fields: [(usize, &[u8]); 5] = [
                (0, &[0x05, 0x80]),
                (16, &tag.to_be_bytes()),
                (20, &transfer.to_be_bytes()),
                (36, &[0, 0, 0, transfer as u8 % 3]),
                (40, &(offset % 5 * 4096).to_be_bytes()),
            ];
            all.extend_from_slice(&pdu(&fields, &self.chance.bytes(512)));
        }
        all
    }

    fn take(&self, stream: &mut TcpStream) {
        let mut taken = [0; 16 << 10];
        while let Ok(1..) = stream.read(&mut taken) {
            if stream.set_read_timeout(Some(Duration::from_millis(5))).is_err() {
                return;
            }
        }
    }
}

fn read_all(tag: u32) -> Vec<u8> {
    let fields: [(usize, &[u8]); 6] = [
        (0, &[0x01, 0xc0]),
        (8, &[0, 1]),
        (16, &tag.to_be_bytes()),
        (20, &(16_u32 << 20).to_be_bytes()),
        (24, &(1 + tag).to_be_bytes()),
        (32, &[0x28, 0, 0, 0, 0, 0, 0, 0x10, 0, 0]),
    ];
    pdu(&fields, &[])
}

fn manage(tag: u32, function: u8) -> Vec<u8> {
    let fields: [(usize, &[u8]); 4] =
        [(0, &[0x42, 0x80 | function]), (8, &[0, 1]), (16, &tag.to_be_bytes()), (20, &[0xff; 4])];
    pdu(&fields, &[])
}

fn content(block: u64, round: u64) -> Vec<u8> {
    (block << 32 | round).to_be_bytes().repeat(512)
}

fn ten(opcode: u8, block: u64) -> [u8; 10] {
    [opcode, 0, 0, 0, 0, block as u8, 0, 0, 1, 0]
}

/// Writes a block, and reads and compares another, until the time is up.
struct Load {
    host: Initiator,
    /// What each block holds.
    written: Vec<Option<u64>>,
    round: u64,
    slowest: Duration,
}

impl Load {
    /// How many commands a second.
    fn run(&mut self, time: Duration) -> f64 {
        let begun = Instant::now();
        let mut done = 0;
        self.slowest = Duration::ZERO;
        while begun.elapsed() < time {
            self.round += 1;
            let since = Instant::now();
            let block = self.round % BLOCKS;
            let written = self.host.command(0, &ten(0x2a, block), &content(block, self.round));
            assert_eq!(written.status, GOOD);
            self.written[block as usize] = Some(self.round);
            self.check(self.round * 7 % BLOCKS);
            self.slowest = self.slowest.max(since.elapsed());
            done += 2;
        }
        f64::from(done) / begun.elapsed().as_secs_f64()
    }

    fn check(&mut self, block: u64) {
        let read = self.host.command(0, &ten(0x28, block), &[]);
        let expected = self.written[block as usize].map_or(vec![0; 4096], |round| content(block, round));
        assert!(read.data == expected, "block {block} holds other bytes");
    }
}

/// An array whose volume `db` one host sees, as unit 0, and whose volume `all` everybody does, as unit 1.
fn array() -> (Array, u16, String) {
    let mut array = Array::unstarted();
    array.configure("iscsi_listen = [\"127.0.0.1:0\"]\n");
    array.start();
    let drive = format!("{},size=2GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["host", "create", "db1", "--iqn", HOST]);
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.good(&["volume", "create", "all", "--size", "64MiB"]);
    array.good(&["export", "create", "db", "--host", "db1", "--lun", "0"]);
    let export = array.json(&["export", "create", "all", "--lun", "1"]);
    let address = export["addresses"][0].as_str().unwrap();
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let target = export["target"].as_str().unwrap().to_string();
    (array, port, target)
}

/// The loss would be a host whose disk stands still because another one is broken or wicked.
#[test]
fn two_sessions_of_rubbish_do_not_disturb_a_third() {
    let (array, port, target) = array();
    let mut host = Initiator::log_in(port, HOST, &target).unwrap();
    host.hear(0);
    let mut load = Load { host, written: vec![None; BLOCKS as usize], round: 0, slowest: Duration::ZERO };
    let alone = load.run(Duration::from_secs(3));
    let counts: Vec<AtomicU64> = WAYS.iter().map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        for number in 1..=2 {
            let (target, counts, is_over) = (target.as_str(), &counts[..], &is_over);
            scope.spawn(move || {
                let chance = Chance(0x9e37_79b9_7f4a_7c15 ^ number);
                let mut rubbish = Rubbish { port, target, number, chance, counts };
                while !is_over.load(Ordering::Relaxed) {
                    let way = (rubbish.chance.next() % WAYS.len() as u64) as usize;
                    rubbish.send(way);
                }
            });
        }
        let beside = load.run(Duration::from_secs(10));
        is_over.store(true, Ordering::Relaxed);
        beside
    });
    println!("{alone:.0} commands a second alone, {beside:.0} beside rubbish, slowest {:?}", load.slowest);
    for (way, count) in WAYS.iter().zip(&counts) {
        println!("{:5} times {way}", count.load(Ordering::Relaxed));
        assert!(count.load(Ordering::Relaxed) >= 3, "{way} was hardly sent");
    }
    // Three clients and the array share two processors: a share of a third would be fair.
    assert!(beside > alone / 10.0, "{beside:.0} commands a second beside rubbish, {alone:.0} alone");
    assert!(load.slowest < Duration::from_secs(5), "a command took {:?}", load.slowest);
    (0..BLOCKS).for_each(|block| load.check(block));
    assert!(!array.log().contains("panic"), "{}", array.log());
    assert_eq!(array.json(&["host", "show", "db1"])["sessions"].as_array().unwrap().len(), 1);
}

/// A process that opens connections and says nothing takes no place for ever.
#[test]
fn connections_that_say_nothing_keep_no_host_out() {
    let (_array, port, target) = array();
    let silent: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    for _ in 0..10 {
        assert!(Initiator::log_in(port, HOST, &target).is_ok(), "a host is kept out");
    }
    let ended = silent.into_iter().filter(|stream| {
        let mut stream = stream;
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let waits = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
        !matches!(stream.read(&mut [0]), Err(error) if waits(error.kind()))
    });
    assert!(ended.count() >= 400 - 64, "more than a few wait for a login that does not come");
}
