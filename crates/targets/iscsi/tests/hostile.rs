//! Initiators that take places and memory and do nothing for it: each is ended by a limit, and others get on.
// The other side of the socket is a process of its own world: sockets and time are real here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

mod rig;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ashlar_iscsi::{Server, Settings};
use ashlar_layers::FaultSettings;
use rig::{Initiator, Rig, SECOND, TARGET};

/// 200 blocks of 512 bytes.
const WRITE: [u8; 10] = [0x2a, 0, 0, 0, 0, 8, 0, 0, 200, 0];
/// All blocks there are: 2 MiB.
const READ_ALL: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];
const ALL_BYTES: usize = 2 << 20;
const GOOD: u8 = 0;
/// One block.
const WRITE_ONE: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const TASK_SET_FULL: u8 = 0x28;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A connection that begins a login and does not end it.
fn half_login(rig: &Rig, bytes: usize) -> TcpStream {
    let mut header = [0; 48];
    (header[0], header[1], header[6]) = (0x43, 0x87, 0x10);
    let mut stream = TcpStream::connect(rig.address).unwrap();
    stream.write_all(&header[..bytes]).unwrap();
    stream
}

fn has_ended(stream: &mut TcpStream, patience: Duration) -> bool {
    stream.set_read_timeout(Some(patience)).unwrap();
    match stream.read(&mut [0; 48]) {
        Ok(length) => length == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// Writes all of the first 200 blocks, and reads them again.
fn works(initiator: &mut Initiator, byte: u8) {
    let data = vec![byte; 200 * 512];
    assert_eq!(initiator.command(&WRITE, 0, &data).header[3], GOOD);
    let mut last = initiator.command(&[0x28, 0, 0, 0, 0, 8, 0, 0, 200, 0], 200 * 512, &[]);
    let mut read = Vec::new();
    while last.header[1] & 1 == 0 {
        read.append(&mut last.data);
        last = initiator.receive().unwrap();
    }
    read.append(&mut last.data);
    assert!(read == data, "other bytes came back");
}

#[test]
fn logins_that_never_end_keep_nobody_out_and_are_ended() {
    let settings =
        Settings { sessions_max: 8, logins_max: 3, login_max: millis(1500), ..Settings::default() };
    let rig = Rig::new(settings);
    let mut staying = Initiator::new(&rig, 1);
    let begun = Instant::now();
    let mut half: Vec<TcpStream> =
        [0, 1, 47, 48].into_iter().cycle().take(20).map(|bytes| half_login(&rig, bytes)).collect();
    // Three times as many as there are places; whoever is in stays, and others come in.
    for port in 2..5 {
        works(&mut Initiator::new(&rig, port), port);
        works(&mut staying, port + 10);
    }
    assert!(has_ended(&mut half[0], millis(1000)), "the one that is there longest goes for others");
    assert!(begun.elapsed() < millis(1500), "a slow machine: this shows nothing");
    rig.wait_until("logins are given up", |server: &Server| server.sessions() == 1);
    assert!(half.iter_mut().all(|stream| has_ended(stream, millis(1000))));
    assert_eq!(rig.ask(Server::cut), 20);
    works(&mut staying, 9);
}

#[test]
fn data_that_never_come_end_their_session_whatever_else_it_says() {
    let settings = Settings { payload_bytes_max: 1 << 20, stall_max: millis(800), ..Settings::default() };
    let rig = Rig::new(settings);
    let (mut other, mut hog) = (Initiator::new(&rig, 1), Initiator::new(&rig, 2));
    for _ in 0..5 {
        hog.begin(&WRITE, 0, &[0; 200 * 512]);
        assert_eq!(hog.receive().unwrap().header[0], 0x31, "it is asked for its data");
    }
    assert_eq!(hog.command(&WRITE, 0, &[0; 200 * 512]).header[3], TASK_SET_FULL, "half of all memory");
    works(&mut other, 1);
    // It shows that it is alive, and says nothing else.
    let begun = Instant::now();
    let nop: [(usize, &[u8]); 4] = [(0, &[0x40, 0x80]), (16, &[0, 0, 9, 9]), (20, &[0xff; 4]), (27, &[1])];
    while hog.try_send(&nop, &[]) && hog.receive().is_some() {
        works(&mut other, 2);
        assert!(begun.elapsed() < Duration::from_secs(10), "it is still there");
    }
    let told = rig.ask(Server::take_notices);
    assert!(
        told.len() == 1 && told[0].contains("iqn.x:host") && told[0].contains("did not send"),
        "{told:?}"
    );
    assert_eq!((rig.ask(Server::cut), rig.ask(Server::sessions)), (1, 1));
    for _ in 0..5 {
        other.begin(&WRITE, 0, &[0; 200 * 512]);
        assert_eq!(other.receive().unwrap().header[0], 0x31, "what the other held is free");
    }
}

#[test]
fn answers_that_nobody_takes_end_their_session_and_hold_up_nobody_else() {
    let settings = Settings { payload_bytes_max: 128 << 20, stall_max: millis(800), ..Settings::default() };
    let rig = Rig::new(settings);
    let (mut other, mut hog) = (Initiator::new(&rig, 1), Initiator::new(&rig, 2));
    // 120 reads of 2 MiB, of which a half of the memory is given; nothing is read of the answers.
    for _ in 0..120 {
        hog.begin(&READ_ALL, ALL_BYTES as u32, &[]);
    }
    for byte in 0..10 {
        works(&mut other, byte);
    }
    rig.wait_until("who takes nothing is cut off", |server: &Server| server.sessions() == 1);
    let told = rig.ask(Server::take_notices);
    assert!(told.len() == 1 && told[0].contains("did not take the answers"), "{told:?}");
    works(&mut other, 3);
}

/// The loss would be a reader on a slow line that is cut off although it reads all the time.
#[test]
fn a_slow_reader_that_goes_on_reading_is_not_cut_off() {
    let settings = Settings { stall_max: millis(3000), silence_max: millis(1000), ..Settings::default() };
    let rig = Rig::new(settings);
    let mut slow = Initiator::new(&rig, 1);
    for _ in 0..24 {
        slow.begin(&READ_ALL, ALL_BYTES as u32, &[]);
    }
    let begun = Instant::now();
    let mut statuses = 0;
    while statuses < 24 {
        let Some(pdu) = slow.receive() else {
            panic!("behind {statuses} reads and {:?}: {:?}", begun.elapsed(), rig.ask(Server::take_notices))
        };
        // A ping of the server, which it hears late.
        if pdu.header[0] == 0x20 {
            continue;
        }
        statuses += usize::from(pdu.header[1] & 1);
        // A MiB in 80 ms: slower than it may be silent, faster than a thirtieth of the time for each.
        if pdu.u32_at(40) % (1 << 20) == 0 {
            std::thread::sleep(millis(80));
        }
    }
    assert!(begun.elapsed() > millis(3000), "it was to be slower than what one may stall or be silent");
    assert_eq!(rig.ask(Server::cut), 0);
}

/// Whatever it asks for, a command takes memory of the budget: also one that only looks.
#[test]
fn commands_that_carry_no_data_take_their_memory_of_the_budget() {
    let settings = Settings { payload_bytes_max: 1536 << 10, ..Settings::default() };
    let rig = Rig::new(settings);
    let mut initiator = Initiator::new(&rig, 1);
    for cdb in [[0x2f, 0, 0, 0, 0, 0, 0, 0x10, 0, 0], [0x34, 0, 0, 0, 0, 0, 0, 0x10, 0, 0]] {
        assert_eq!(initiator.command(&cdb, 0, &[]).header[3], TASK_SET_FULL, "a MiB to look through");
    }
    assert_eq!(initiator.command(&[0x2f, 0, 0, 0, 0, 0, 0, 2, 0, 0], 0, &[]).header[3], GOOD);
}

/// The loss would be a host that no other host lets in.
#[test]
fn one_initiator_leaves_sessions_to_others_and_that_is_told() {
    let rig = Rig::new(Settings { sessions_of_one_max: 3, ..Settings::default() });
    let mut own: Vec<Initiator> = (0..3).map(|port| Initiator::new(&rig, port)).collect();
    for port in 3..6 {
        let (_refused, status) = Initiator::attempt(&rig, "iqn.x:host", port, "");
        assert_eq!(status, 0x0302, "out of resources");
    }
    let told = rig.ask(|server| server.take_notices());
    assert_eq!(told, ["iqn.x:host has 3 sessions, the most of one: more are refused"], "once a minute");
    // Names are the same in any letters, and who comes to learn of targets is there, too.
    for (name, more) in [("iqn.X:Host", ""), ("iqn.x:host", "SessionType=Discovery\0")] {
        assert_eq!(Initiator::attempt(&rig, name, 3, more).1, 0x0302);
    }
    let (_other, status) = Initiator::attempt(&rig, "iqn.x:other", 0, "");
    assert_eq!(status, 0);
    // A port that comes again takes no further place.
    own[1] = Initiator::new(&rig, 1);
    drop(own.pop());
    rig.wait_until("one has left", |server| server.sessions() <= 3);
    own.push(Initiator::new(&rig, 7));
}

/// Learning of targets takes a moment. The loss would be places that nobody sees and nobody can free.
#[test]
fn who_comes_to_learn_of_targets_does_not_stay() {
    let settings = Settings { sessions_of_one_max: 3, login_max: millis(800), ..Settings::default() };
    let rig = Rig::new(settings);
    let mut staying = Initiator::new(&rig, 9);
    let learn = |port| Initiator::attempt(&rig, "iqn.x:host", port, "SessionType=Discovery\0");
    let mut learning: Vec<Initiator> = (0..2).map(|port| learn(port).0).collect();
    assert_eq!(learn(2).1, 0x0302);
    rig.wait_until("they are ended", |server| server.sessions() == 1);
    assert!(learning.iter_mut().all(|one| one.receive().is_none()));
    works(&mut staying, 1);
}

#[test]
fn one_address_leaves_places_to_the_next() {
    let mut rig = Rig::new(Settings { sessions_max: 8, ..Settings::default() });
    let first = rig.address;
    rig.move_on();
    let second = std::mem::replace(&mut rig.address, first);
    let mut at_first: Vec<Initiator> = (0..6).map(|port| Initiator::new(&rig, port)).collect();
    let mut seventh = TcpStream::connect(first).unwrap();
    assert!(has_ended(&mut seventh, millis(2000)));
    rig.address = second;
    works(&mut Initiator::new(&rig, 7), 1);
    works(&mut at_first[0], 2);
    let told = rig.ask(|server| server.take_notices());
    assert_eq!(told, [format!("6 sessions are open at {first}, which is the limit of one address")]);
}

/// A volume that takes up to a second for each write.
fn slow() -> FaultSettings {
    FaultSettings {
        seed: 3,
        delays_per_million: 1_000_000,
        delay_max: millis(1000),
        ..FaultSettings::default()
    }
}

/// Begins a write, and sends its data when they are asked for; how many answers to those before came.
fn send_write(initiator: &mut Initiator) -> usize {
    let tag = initiator.begin(&WRITE_ONE, 0, &[5; 512]);
    let mut answers = 0;
    let asked = loop {
        let pdu = initiator.receive().unwrap();
        match pdu.header[0] {
            0x31 => break pdu,
            _ => answers += 1,
        }
    };
    let fields: [(usize, &[u8]); 3] =
        [(0, &[0x05, 0x80]), (16, &tag.to_be_bytes()), (20, &asked.header[20..24])];
    initiator.send(&fields, &[5; 512]);
    answers
}

/// The loss would be a host that mounts what another one has let go of, and finds it change.
#[test]
fn who_has_logged_out_writes_nothing_more() {
    let rig = Rig::of(Settings::default(), slow());
    let mut leaving = Initiator::new(&rig, 1);
    let before: usize = (0..8).map(|_| send_write(&mut leaving)).sum();
    leaving.manage(0x06, 0, 0);
    let answers: Vec<u8> = std::iter::from_fn(|| leaving.receive()).map(|answer| answer.header[0]).collect();
    assert_eq!(answers, [vec![0x21; 8 - before], vec![0x26]].concat());
}

/// The loss would be all places, taken by attempts to come back.
#[test]
fn of_those_that_wait_to_be_one_port_the_newest_counts() {
    let rig = Rig::of(Settings { sessions_max: 8, ..Settings::default() }, slow());
    let mut before = Initiator::new(&rig, 1);
    for _ in 0..16 {
        send_write(&mut before);
    }
    let mut again: Vec<Initiator> =
        (0..5).map(|_| Initiator::ask(&rig, TARGET, "iqn.x:host", 1, "")).collect();
    let mut newest = again.pop().unwrap();
    assert!(again.iter_mut().all(|one| one.receive().is_none()), "they wait no more");
    assert_eq!(newest.status(), 0);
    assert_eq!(newest.command(&[0; 6], 0, &[]).header[3], 2, "it comes in");
    rig.wait_until("the rest has ended", |server| server.sessions() == 1);
}

/// Another host may write as soon as this one is in again. The loss would be what it wrote.
#[test]
fn who_is_in_again_has_no_write_of_before_under_way() {
    let rig = Rig::of(Settings::default(), slow());
    let (mut before, mut other) = (Initiator::new(&rig, 1), Initiator::new(&rig, 2));
    for _ in 0..16 {
        send_write(&mut before);
    }
    assert_eq!(Initiator::attempt(&rig, "iqn.x:host", 1, "").1, 0);
    assert_eq!(other.command(&WRITE_ONE, 0, &[9; 512]).header[3], GOOD);
    std::thread::sleep(millis(1100));
    let read = other.command(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512, &[]);
    assert!(read.data == [9; 512], "what was there before came over it");
}

/// One port of a host has a session at each target. The loss would be one that ends for the other.
#[test]
fn a_login_at_one_target_ends_none_at_another() {
    let rig = Rig::of(Settings::default(), slow());
    let mut before = Initiator::new(&rig, 1);
    for _ in 0..8 {
        send_write(&mut before);
    }
    let mut waiting = Initiator::ask(&rig, TARGET, "iqn.x:host", 1, "");
    let (mut second, status) = Initiator::attempt_at(&rig, SECOND, "iqn.x:host", 1, "");
    assert_eq!((status, waiting.status()), (0, 0));
    for initiator in [&mut waiting, &mut second] {
        assert_eq!(initiator.command(&[0; 6], 0, &[]).header[3], 2, "it comes in");
        works(initiator, 3);
    }
    rig.wait_until("the first has ended", |server| server.sessions() == 2);
}

/// Each of them counts: at one target it takes no place of the other.
#[test]
fn sessions_of_one_port_at_two_targets_are_two() {
    let rig = Rig::new(Settings { sessions_of_one_max: 2, ..Settings::default() });
    let mut first = Initiator::new(&rig, 1);
    let (mut second, status) = Initiator::attempt_at(&rig, SECOND, "iqn.x:host", 1, "");
    assert_eq!(status, 0);
    assert_eq!(Initiator::attempt(&rig, "iqn.x:host", 2, "").1, 0x0302, "out of resources");
    works(&mut first, 1);
    assert_eq!(second.command(&[0; 6], 0, &[]).header[3], 2);
    works(&mut second, 2);
}
