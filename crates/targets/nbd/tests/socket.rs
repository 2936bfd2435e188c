//! The server over real sockets with a client of a few lines: what no tool can be made to do.
// The other side of the socket is a process of its own world: files, sockets and time are real here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

mod rig;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ashlar_nbd::Settings;
use ashlar_runtime::{Address, DriverChoice, Peer};
use ashlar_telemetry::Operation;
use rig::{Rig, Volume, drivers};

const SIZE: u64 = 64 << 20;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const EIO: u32 = 5;

trait Socket: Read + Write {}
impl<T: Read + Write> Socket for T {}

struct Client {
    socket: Box<dyn Socket>,
}

impl Client {
    /// Connects and greets, without an export yet.
    fn greet(rig: &Rig) -> Client {
        let timeout = Some(Duration::from_secs(30));
        let mut socket: Box<dyn Socket> = match &rig.address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(timeout).unwrap();
                Box::new(stream)
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(timeout).unwrap();
                Box::new(stream)
            }
        };
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        socket.write_all(&3u32.to_be_bytes()).unwrap();
        Client { socket }
    }

    /// Enters transmission with simple replies.
    fn open(rig: &Rig, export: &str) -> Client {
        let mut client = Client::greet(rig);
        client.option(1, export.as_bytes());
        let mut answer = [0; 10];
        client.socket.read_exact(&mut answer).unwrap();
        assert_eq!(u64::from_be_bytes(answer[..8].try_into().unwrap()), SIZE);
        client
    }

    fn option(&mut self, kind: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.socket.write_all(&bytes).unwrap();
    }

    /// Type and text of the next answer to an option.
    fn option_answer(&mut self) -> (u32, String) {
        let mut head = [0; 20];
        self.socket.read_exact(&mut head).unwrap();
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let text = self.data(number(16) as usize);
        (number(12), String::from_utf8_lossy(&text).into_owned())
    }

    fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next reply without data: cookie and error.
    fn reply(&mut self) -> (u64, u32) {
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        let cookie = u64::from_be_bytes(reply[8..].try_into().unwrap());
        (cookie, u32::from_be_bytes(reply[4..8].try_into().unwrap()))
    }

    fn data(&mut self, length: usize) -> Vec<u8> {
        let mut data = vec![0; length];
        self.socket.read_exact(&mut data).unwrap();
        data
    }

    /// The server has closed: nothing more can be read.
    fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.is_empty(), "{} bytes instead of the end", rest.len()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

/// What `NBD_OPT_GO` carries: a name, and no information asked for.
fn info_data(export: &str) -> Vec<u8> {
    [&(export.len() as u32).to_be_bytes(), export.as_bytes(), &[0, 0]].concat()
}

fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn write_request(cookie: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    [request(0, WRITE, cookie, offset, data.len() as u32), data.to_vec()].concat()
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

fn disk() -> [Volume; 1] {
    [Volume::new("disk", SIZE)]
}

/// Sizes on both sides of every threshold: gathered, alone, received straight into the buffer.
#[test]
fn what_is_written_in_any_size_is_read_back() {
    for driver in drivers() {
        for is_tcp in [false, true] {
            let rig = Rig::with(driver, &disk(), Settings::default(), is_tcp);
            let mut client = Client::open(&rig, "disk");
            for (cookie, length) in
                [512, 4096, 32 << 10, (32 << 10) + 512, 64 << 10, (256 << 10) + 512, 1 << 20, 32 << 20]
                    .into_iter()
                    .enumerate()
            {
                let cookie = cookie as u64;
                let data = pattern(cookie, length);
                client.send(&write_request(cookie, 512 * cookie, &data));
                assert_eq!(client.reply(), (cookie, 0));
                client.send(&request(0, READ, cookie, 512 * cookie, length as u32));
                assert_eq!(client.reply(), (cookie, 0));
                assert!(client.data(length) == data, "{driver:?} {length}");
            }
            client.send(&request(0, DISC, 0, 0, 0));
            client.expect_end();
            rig.stop();
        }
    }
}

#[test]
fn hundreds_of_requests_in_one_send_are_all_answered() {
    for driver in drivers() {
        let rig = Rig::new(driver, &disk());
        let mut client = Client::open(&rig, "");
        let mut bytes = Vec::new();
        for n in 0..500u64 {
            bytes.extend(write_request(n, n * 4096, &pattern(n, 4096)));
        }
        let mut replies: Vec<u64> = Vec::new();
        client.send(&bytes);
        for _ in 0..500 {
            let (cookie, error) = client.reply();
            assert_eq!(error, 0);
            replies.push(cookie);
        }
        replies.sort_unstable();
        assert!(replies.into_iter().eq(0..500));
        for n in [0, 77, 499] {
            client.send(&request(0, READ, n, n * 4096, 4096));
            assert_eq!(client.reply(), (n, 0));
            assert!(client.data(4096) == pattern(n, 4096));
        }
        let counters = rig.counters().volume("disk");
        assert_eq!(counters.of(Operation::Write).completed, 500);
        assert_eq!(counters.of(Operation::Write).bytes, 500 * 4096);
        assert_eq!(counters.of(Operation::Read).latency.count(), 3);
    }
}

#[test]
fn a_client_that_does_not_take_its_replies_holds_up_nobody_else() {
    for driver in drivers() {
        let rig = Rig::new(driver, &disk());
        let mut lazy = Client::open(&rig, "disk");
        let mut bytes = Vec::new();
        for n in 0..64 {
            bytes.extend(request(0, READ, n, 0, 1 << 20));
        }
        lazy.send(&bytes);
        let mut other = Client::open(&rig, "disk");
        other.send(&request(0, FLUSH, 1, 0, 0));
        assert_eq!(other.reply(), (1, 0));
        for _ in 0..64 {
            assert_eq!(lazy.reply().1, 0);
            assert_eq!(lazy.data(1 << 20).len(), 1 << 20);
        }
    }
}

#[test]
fn a_failing_device_is_an_error_reply_and_the_connection_lives_on() {
    let rig = Rig::new(DriverChoice::Auto, &disk());
    let mut client = Client::open(&rig, "disk");
    rig.run(|on_shard| {
        Box::pin(async move {
            on_shard.faults["disk"].fail_next(Operation::Write, 1);
            on_shard.faults["disk"].fail_next(Operation::Read, 1);
            on_shard.faults["disk"].fail_next(Operation::Flush, 1);
        })
    });
    client.send(&write_request(1, 0, &[1; 512]));
    assert_eq!(client.reply(), (1, EIO));
    client.send(&request(0, READ, 2, 0, 512));
    assert_eq!(client.reply(), (2, EIO));
    client.send(&request(0, FLUSH, 3, 0, 0));
    assert_eq!(client.reply(), (3, EIO));
    client.send(&request(0, READ, 4, 0, 512));
    assert_eq!(client.reply(), (4, 0));
    assert_eq!(client.data(512), [0; 512]);
    let counters = rig.counters().volume("disk");
    assert_eq!(counters.of(Operation::Write).failed, 1);
    assert_eq!(counters.of(Operation::Read).failed, 1);
}

#[test]
fn trim_with_fua_fails_when_its_flush_fails() {
    let rig = Rig::new(DriverChoice::Auto, &disk());
    let mut client = Client::open(&rig, "disk");
    rig.run(|on_shard| Box::pin(async move { on_shard.faults["disk"].fail_next(Operation::Flush, 2) }));
    for command in [4, 6] {
        client.send(&request(1, command, 9, 0, 4096));
        assert_eq!(client.reply(), (9, EIO));
    }
}

#[test]
fn the_empty_name_is_the_only_volume_and_nothing_when_there_are_two() {
    let rig = Rig::new(DriverChoice::Auto, &disk());
    Client::open(&rig, "");
    let rig = Rig::new(DriverChoice::Auto, &[Volume::new("a", SIZE), Volume::new("b", SIZE)]);
    let mut client = Client::greet(&rig);
    client.option(1, b"");
    client.expect_end();
    let mut client = Client::greet(&rig);
    client.option(7, &[0; 6]);
    let mut answer = [0; 20];
    client.socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[12..16], (0x8000_0006u32).to_be_bytes());
    Client::open(&rig, "a");
    Client::open(&rig, "b");
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_write_changes_nothing() {
    for driver in drivers() {
        let rig = Rig::new(driver, &disk());
        for length in [4096, 1 << 20] {
            let mut client = Client::open(&rig, "disk");
            let bytes = write_request(1, 0, &vec![1; length]);
            client.send(&bytes[..bytes.len() - 1]);
            drop(client);
        }
        let mut client = Client::open(&rig, "disk");
        client.send(&request(0, READ, 1, 0, 1 << 20));
        assert_eq!(client.reply(), (1, 0));
        assert!(client.data(1 << 20).iter().all(|byte| *byte == 0));
        rig.stop();
    }
}

/// The device is slow, so the requests outlive their client; each still runs to its end.
#[test]
fn a_client_that_vanishes_with_requests_in_flight_leaves_nothing_behind() {
    for driver in drivers() {
        let rig = Rig::new(driver, &disk());
        rig.run(|on_shard| {
            Box::pin(async move {
                on_shard.faults["disk"].set(ashlar_layers::FaultSettings {
                    delays_per_million: 1_000_000,
                    delay_max: Duration::from_millis(20),
                    ..Default::default()
                });
            })
        });
        for round in 0..20u64 {
            let mut client = Client::open(&rig, "disk");
            let mut bytes = Vec::new();
            for n in 0..100 {
                bytes.extend(write_request(n, (round * 100 + n) * 4096, &[round as u8 + 1; 4096]));
                bytes.extend(request(0, READ, n, 0, 65_536));
            }
            client.send(&bytes);
        }
        while rig.run(|on_shard| Box::pin(async move { !on_shard.server.clients().is_empty() })) {}
        let counters = rig.counters().volume("disk");
        let written = counters.of(Operation::Write).completed;
        let allocated =
            rig.run(|on_shard| Box::pin(async move { on_shard.devices["disk"].allocated_bytes() }));
        assert!(written <= 2000 && allocated >= written * 4096, "{written} writes, {allocated} bytes");
        rig.stop();
    }
}

#[test]
fn clients_of_an_export_are_cut_off_after_what_they_had_in_flight() {
    for is_tcp in [false, true] {
        let volumes = [Volume::new("disk", SIZE), Volume::new("other", SIZE)];
        let rig = Rig::with(DriverChoice::Auto, &volumes, Settings::default(), is_tcp);
        let mut first = Client::open(&rig, "disk");
        let mut other = Client::open(&rig, "other");
        let _undecided = Client::greet(&rig);
        let cut =
            rig.run(|on_shard| Box::pin(async move { on_shard.server.disconnect_export("disk").await }));
        let exports: Vec<_> = cut.iter().map(|client| client.export.as_deref()).collect();
        assert_eq!(exports, [Some("disk")]);
        first.expect_end();
        other.send(&request(0, FLUSH, 1, 0, 0));
        let left = rig.run(|on_shard| Box::pin(async move { on_shard.server.clients() }));
        let exports: Vec<_> = left.iter().map(|client| client.export.as_deref()).collect();
        assert_eq!(exports, [Some("other"), None]);
        rig.stop();
    }
}

#[test]
fn rubbish_ends_only_its_own_connection() {
    let rig = Rig::new(DriverChoice::Auto, &disk());
    let mut good = Client::open(&rig, "disk");
    for seed in 0..50 {
        let mut bad = if seed % 2 == 0 { Client::greet(&rig) } else { Client::open(&rig, "disk") };
        // The server may close before it has taken everything.
        let _ = bad.socket.write_all(&pattern(seed, 10_000));
        bad.expect_end();
    }
    good.send(&request(0, FLUSH, 1, 0, 0));
    assert_eq!(good.reply(), (1, 0));
}

/// The third was closed before the greeting, and nothing told anybody.
#[test]
fn more_clients_than_allowed_hear_why_and_a_person_does_too() {
    let settings = Settings { clients_max: 2, ..Settings::default() };
    let rig = Rig::with(DriverChoice::Auto, &disk(), settings, false);
    let first = Client::open(&rig, "disk");
    let _second = Client::open(&rig, "disk");
    let go = info_data("disk");
    for _ in 0..3 {
        let mut more = Client::greet(&rig);
        more.option(7, &go);
        let (kind, why) = more.option_answer();
        assert_eq!(kind, (1 << 31) + 2, "NBD_REP_ERR_POLICY");
        assert!(why.contains("2 NBD clients at most"), "{why}");
    }
    let told = rig.run(|on_shard| {
        Box::pin(async move { (on_shard.door.take_notices(), on_shard.door.clients_refused()) })
    });
    assert!(told.0.len() == 1 && told.0[0].contains("2 clients are connected"), "{told:?}");
    assert_eq!(told.1, 3);
    drop(first);
    // The place is free once the server has seen the first one leave.
    loop {
        let mut again = Client::greet(&rig);
        again.option(7, &go);
        if again.option_answer().0 < 1 << 31 {
            break;
        }
    }
}

/// Those that are told so must not take all descriptors either.
#[test]
fn clients_that_are_refused_and_stay_are_let_go() {
    let refusal_max = Duration::from_millis(100);
    let settings = Settings { clients_max: 1, refusal_max, ..Settings::default() };
    let rig = Rig::with(DriverChoice::Auto, &disk(), settings, false);
    let mut only = Client::open(&rig, "disk");
    let stay: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(rig.socket()).unwrap()).collect();
    for mut socket in stay {
        socket.read_to_end(&mut Vec::new()).unwrap();
    }
    only.send(&request(0, FLUSH, 1, 0, 0));
    assert_eq!(only.reply(), (1, 0));
}

#[test]
fn clients_are_listed_and_cut_off_by_their_number() {
    for is_tcp in [false, true] {
        let rig = Rig::with(DriverChoice::Auto, &disk(), Settings::default(), is_tcp);
        let mut first = Client::open(&rig, "disk");
        let mut second = Client::open(&rig, "disk");
        let clients = rig.run(|on_shard| Box::pin(async move { on_shard.server.clients() }));
        let numbers: Vec<u64> = clients.iter().map(|client| client.number).collect();
        assert_eq!(numbers, [1, 2]);
        for client in &clients {
            assert_eq!(client.export.as_deref(), Some("disk"));
            match client.peer.unwrap() {
                Peer::Process { process_id, .. } => assert!(!is_tcp && process_id == std::process::id()),
                Peer::Tcp(address) => assert!(is_tcp && address.ip().is_loopback()),
            }
        }
        let cut = rig.run(|on_shard| {
            Box::pin(async move { [1, 1 << 40].map(|number| on_shard.server.disconnect(number)) })
        });
        assert_eq!(cut, [true, false]);
        first.expect_end();
        second.send(&request(0, FLUSH, 1, 0, 0));
        assert_eq!(second.reply(), (1, 0));
    }
}

#[test]
fn a_client_that_never_chooses_an_export_is_cut_off() {
    let settings = Settings { handshake_max: Duration::from_millis(50), ..Settings::default() };
    let rig = Rig::with(DriverChoice::Auto, &disk(), settings, false);
    let mut chosen = Client::open(&rig, "disk");
    Client::greet(&rig).expect_end();
    chosen.send(&request(0, FLUSH, 1, 0, 0));
    assert_eq!(chosen.reply(), (1, 0));
}

/// A slow device holds the requests of one connection; they are answered before it is closed.
#[test]
fn a_shutdown_answers_what_is_in_flight_then_closes_and_removes_the_socket() {
    for driver in drivers() {
        let rig = Rig::new(driver, &disk());
        rig.run(|on_shard| {
            Box::pin(async move {
                on_shard.faults["disk"].set(ashlar_layers::FaultSettings {
                    delays_per_million: 1_000_000,
                    delay_max: Duration::from_millis(100),
                    ..Default::default()
                });
            })
        });
        let mut busy = Client::open(&rig, "disk");
        let mut idle = Client::open(&rig, "disk");
        let mut haggling = Client::greet(&rig);
        let mut bytes = Vec::new();
        for n in 0..50 {
            bytes.extend(write_request(n, n * 512, &[7; 512]));
        }
        busy.send(&bytes);
        // The first reply shows that the requests have arrived.
        assert_eq!(busy.reply().1, 0);
        let socket = rig.socket();
        rig.begin_stop();
        idle.expect_end();
        haggling.expect_end();
        for _ in 1..50 {
            assert_eq!(busy.reply().1, 0);
        }
        busy.expect_end();
        rig.join();
        assert!(UnixStream::connect(socket).is_err());
    }
}

#[test]
fn a_shutdown_cuts_off_a_client_that_does_not_take_its_replies() {
    let settings = Settings { drain_max: Duration::from_millis(100), ..Settings::default() };
    let rig = Rig::with(DriverChoice::Auto, &disk(), settings, false);
    let mut lazy = Client::open(&rig, "disk");
    for n in 0..8 {
        lazy.send(&request(0, READ, n, 0, 8 << 20));
    }
    lazy.data(16);
    rig.stop();
}

#[test]
fn a_deleted_volume_answers_that_the_export_is_gone() {
    let rig = Rig::new(DriverChoice::Auto, &disk());
    let mut client = Client::open(&rig, "disk");
    rig.run(|on_shard| Box::pin(async move { on_shard.devices["disk"].set_gone() }));
    client.send(&write_request(1, 0, &[1; 512]));
    assert_eq!(client.reply(), (1, 108));
}

/// Eighteen clients begin a write of 32 MiB, send a part and fall silent: six at a time hold all that there
/// is for large requests. While somebody waits they have a sixth of the time.
#[test]
fn stalled_clients_exceed_no_budget_and_hold_nobody_up_for_ever() {
    for driver in drivers() {
        let settings = Settings { stall_max: Duration::from_secs(2), ..Settings::default() };
        let rig = Rig::with(driver, &[Volume::new("disk", SIZE)], settings, false);
        let mut honest = Client::open(&rig, "disk");
        let used = |rig: &Rig| rig.run(|on| Box::pin(async move { on.door.payload_bytes_used() }));
        let stalled: Vec<Client> = (0..18)
            .map(|_| {
                let mut client = Client::open(&rig, "disk");
                client.send(&request(0, WRITE, 1, 0, 32 << 20));
                client.send(&[7; 64 << 10]);
                client
            })
            .collect();
        assert!(used(&rig) <= rig::DOOR_PAYLOAD_BYTES_MAX);
        // Small requests do not wait for them at all, large ones until some are cut off.
        honest.send(&request(0, WRITE, 2, 4096, 4096));
        honest.send(&[9; 4096]);
        assert_eq!(honest.reply(), (2, 0));
        let asked = std::time::Instant::now();
        honest.send(&request(0, WRITE, 3, 8192, 32 << 20));
        honest.send(&vec![5; 32 << 20]);
        assert_eq!(honest.reply(), (3, 0));
        // Three waves of them; with all the time they have alone it would be twelve seconds.
        assert!(asked.elapsed() < Duration::from_secs(9), "{:?}", asked.elapsed());
        assert!(used(&rig) <= rig::DOOR_PAYLOAD_BYTES_MAX);
        for mut client in stalled {
            client.expect_end();
        }
        honest.send(&request(0, READ, 4, 4096, 8192));
        assert_eq!(honest.reply(), (4, 0));
        assert!(honest.data(8192) == [[9; 4096], [5; 4096]].concat());
        let (cut, notices) =
            rig.run(|on| Box::pin(async move { (on.door.clients_cut(), on.door.take_notices()) }));
        assert_eq!((cut, notices.len()), (18, 18));
        assert!(notices[0].contains("a client of disk was cut off"), "{}", notices[0]);
        rig.stop();
    }
}

/// Replies that a client does not take are in the same budget. It is cut off, but only because others wait.
#[test]
fn a_client_that_takes_no_replies_gives_way_to_others() {
    for driver in drivers() {
        let settings = Settings { stall_max: Duration::from_millis(200), ..Settings::default() };
        let rig = Rig::with(driver, &[Volume::new("disk", SIZE)], settings, false);
        let mut lazy: Vec<Client> = (0..7).map(|_| Client::open(&rig, "disk")).collect();
        for client in &mut lazy[..6] {
            client.send(&request(0, READ, 1, 0, 32 << 20));
        }
        // Nobody else wants anything: they may take their time.
        std::thread::sleep(Duration::from_millis(1000));
        assert_eq!(rig.run(|on| Box::pin(async move { on.door.clients_cut() })), 0);
        let last = &mut lazy[6];
        last.send(&request(0, READ, 1, 0, 32 << 20));
        assert_eq!(last.reply(), (1, 0));
        assert_eq!(last.data(32 << 20).len(), 32 << 20);
        let cut = rig.run(|on| Box::pin(async move { on.door.clients_cut() }));
        assert!((1..=6).contains(&cut), "{cut}");
        rig.stop();
    }
}
