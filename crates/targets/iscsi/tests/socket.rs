//! The server behind a real socket: sessions, commands, resets, a shutdown, as an initiator sees them.
// The other side of the socket is a process of its own world: sockets and time are real here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

mod rig;

use std::time::Duration;

use ashlar_iscsi::Settings;
use ashlar_telemetry::Operation;
use rig::{Initiator, Rig};

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

/// Answers are gathered in buffers of one send each, and a large one reaches over their ends.
#[test]
fn large_and_small_reads_under_way_at_once_get_their_own_bytes() {
    let rig = Rig::new(Settings::default());
    let mut initiator = Initiator::with(&rig, 1, "MaxRecvDataSegmentLength=262144\0");
    let data: Vec<u8> = (0..200 * 512_u32).map(|index| (index / 7) as u8).collect();
    assert_eq!(initiator.command(&WRITE, 0, &data).header[3], 0);
    for _ in 0..20 {
        let mut asked = std::collections::BTreeMap::new();
        // Blocks, and bytes that the host has room for.
        for (blocks, room) in
            [(1, 512), (200, 102_400), (128, 65_536), (2, 1024), (129, 65_537), (200, 70_001), (127, 65_024)]
        {
            let cdb = [0x28, 0, 0, 0, 0, 8, 0, 0, blocks, 0];
            asked.insert(initiator.begin(&cdb, room, &[]), room as usize);
        }
        while !asked.is_empty() {
            let answer = initiator.receive().unwrap();
            let room = asked.remove(&answer.u32_at(16)).unwrap();
            assert_eq!(answer.header[1] & 0x81, 0x81, "all of it, with its status");
            assert!(answer.data == data[..room], "other bytes came back");
        }
    }
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
    // A session holds no more than it leaves free.
    let settings = Settings { payload_bytes_max: 256 << 10, ..Settings::default() };
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
