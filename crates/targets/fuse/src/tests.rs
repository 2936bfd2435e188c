//! Decoder, session and volume work, driven without a kernel.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ashlar_block::{BlockDevice, Catalogue, Identity};
use ashlar_layers::MemoryDevice;
use ashlar_telemetry::{Operation as Counted, Registry};

use crate::error::Errno;
use crate::legacy::Will;
use crate::session::{Answer, Session, TAKER_FLAG};
use crate::settings::Settings;
use crate::wire::{self, InHeader, Request, opcode};

#[derive(Default)]
struct Shelf(RefCell<BTreeMap<String, Rc<MemoryDevice>>>, RefCell<Option<String>>);

impl Shelf {
    fn put(&self, name: &str, size_bytes: u64, block: u32) -> Rc<MemoryDevice> {
        let device = Rc::new(MemoryDevice::new(size_bytes, block));
        self.0.borrow_mut().insert(name.to_string(), device.clone());
        device
    }
}

impl Catalogue for Shelf {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        self.0.borrow().get(name).map(|device| device.clone() as Rc<dyn BlockDevice>)
    }

    fn names(&self) -> Vec<String> {
        self.0.borrow().keys().cloned().collect()
    }

    fn identity(&self, name: &str) -> Option<Identity> {
        let shelf = self.0.borrow();
        Some(Identity { pool: 7, image: Rc::as_ptr(shelf.get(name)?) as u64 })
    }

    fn is_taken(&self, name: &str) -> bool {
        self.1.borrow().as_deref() == Some(name)
    }
}

fn session() -> (Rc<Shelf>, Session) {
    let shelf = Rc::new(Shelf::default());
    (shelf.clone(), Session::new(shelf, Rc::new(Registry::new()), Settings::default(), 1_000))
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a memory device answers at once"),
    }
}

fn small(answer: Answer) -> Vec<u8> {
    match answer {
        Answer::Small(reply) => reply.as_bytes().to_vec(),
        Answer::Failed(errno) => panic!("failed: {errno:?}"),
        _ => panic!("not a small reply"),
    }
}

fn failure(answer: Answer) -> i32 {
    match answer {
        Answer::Failed(errno) => errno.0,
        _ => panic!("expected a failure"),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// A request about this node, with a number of its own.
fn about(node: u64) -> InHeader {
    thread_local!(static NUMBER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    let unique = NUMBER.with(|number| {
        number.set(number.get() + 2);
        number.get()
    });
    InHeader { length: 0, opcode: 0, unique, node }
}

fn lookup(session: &mut Session, name: &str) -> u64 {
    u64_at(&small(session.apply(&about(wire::ROOT_NODE), Request::Lookup { name: name.as_bytes() })), 0)
}

fn open(session: &mut Session, name: &str) -> (u64, u64) {
    let node = lookup(session, name);
    (node, u64_at(&small(session.apply(&about(node), Request::Open { flags: libc::O_RDWR as u32 })), 0))
}

fn work(session: &mut Session, request: Request<'_>, payload: &mut [u8]) -> Result<usize, Errno> {
    match session.apply(&about(2), request) {
        Answer::Volume(work) => now(work.perform(payload)),
        Answer::Failed(errno) => Err(errno),
        _ => panic!("not work on a volume"),
    }
}

fn write(session: &mut Session, handle: u64, offset: u64, data: &[u8]) -> Result<(), Errno> {
    let mut payload = data.to_vec();
    payload.resize(data.len().max(128), 0);
    let request = Request::Write { handle, offset, size: data.len() as u32, flags: 0 };
    let length = work(session, request, &mut payload)?;
    assert_eq!((length, u32_at(&payload, 0)), (8, data.len() as u32), "a write is answered in full");
    Ok(())
}

fn read(session: &mut Session, handle: u64, offset: u64, size: u32) -> Vec<u8> {
    let mut payload = vec![0xEE; size as usize];
    let length = work(session, Request::Read { handle, offset, size }, &mut payload).unwrap();
    payload.truncate(length);
    payload
}

#[test]
fn a_volume_is_found_opened_and_measured_and_its_new_size_is_seen() {
    let (shelf, mut session) = session();
    let device = shelf.put("db", 1 << 20, 4096);
    let entry = small(session.apply(&about(1), Request::Lookup { name: b"db" }));
    assert_eq!((entry.len(), u64_at(&entry, 0)), (128, 2));
    // Entry and attribute times are zero, so the kernel asks each time.
    assert_eq!((u64_at(&entry, 16), u64_at(&entry, 24)), (0, 0));
    assert_eq!(u64_at(&entry, 48), 1 << 20);
    let (node, handle) = open(&mut session, "db");
    device.set_size(2 << 20);
    let attributes = small(session.apply(&about(node), Request::GetAttr { handle: Some(handle) }));
    assert_eq!((attributes.len(), u64_at(&attributes, 24)), (104, 2 << 20));
    assert_eq!(u32_at(&attributes, 16 + 60), libc::S_IFREG | 0o600);
    assert_eq!(session.open_files(), 1);
    assert_eq!(session.open_names(), [("db".into(), true)]);
    small(session.apply(&about(node), Request::Release { handle }));
    assert_eq!(session.open_files(), 0);
    assert_eq!(failure(session.apply(&about(node), Request::Release { handle })), libc::EBADF);
}

#[test]
fn files_come_and_go_with_the_catalogue() {
    let (shelf, mut session) = session();
    assert_eq!(failure(session.apply(&about(1), Request::Lookup { name: b"a" })), libc::ENOENT);
    shelf.put("a", 4096, 4096);
    let (node, handle) = open(&mut session, "a");
    shelf.0.borrow_mut().remove("a").unwrap().set_gone();
    assert_eq!(failure(session.apply(&about(1), Request::Lookup { name: b"a" })), libc::ENOENT);
    assert_eq!(failure(session.apply(&about(node), Request::GetAttr { handle: None })), libc::ESTALE);
    assert_eq!(failure(session.apply(&about(node), Request::Open { flags: 0 })), libc::ESTALE);
    // The open handle keeps the old device, which says that it is gone.
    let mut payload = vec![0; 4096];
    let request = Request::Read { handle, offset: 0, size: 4096 };
    assert_eq!(work(&mut session, request, &mut payload), Err(Errno(libc::ENODEV)));
    shelf.put("a", 8192, 4096);
    assert_eq!(work(&mut session, request, &mut payload), Err(Errno(libc::ENODEV)));
    let (_, other) = open(&mut session, "a");
    assert_eq!(read(&mut session, other, 0, 4096), vec![0; 4096]);
}

#[test]
fn forgotten_nodes_are_dropped_and_their_numbers_are_not_used_again() {
    let (shelf, mut session) = session();
    shelf.put("a", 4096, 4096);
    let first = lookup(&mut session, "a");
    assert_eq!(lookup(&mut session, "a"), first);
    assert!(matches!(session.apply(&about(first), Request::Forget { lookups: 1 }), Answer::Silent));
    assert_eq!(lookup(&mut session, "a"), first);
    let batch: Vec<u8> = [first, 2, 77, u64::MAX].iter().flat_map(|n| n.to_ne_bytes()).collect();
    assert!(matches!(session.apply(&about(0), Request::BatchForget { entries: &batch }), Answer::Silent));
    assert_eq!(lookup(&mut session, "a"), first + 1);
}

#[test]
fn any_byte_range_reads_and_writes_like_a_file() {
    let (shelf, mut session) = session();
    for block in [512u32, 4096] {
        shelf.put("v", 64 << 10, block);
        let (_, handle) = open(&mut session, "v");
        let mut model = vec![0u8; 64 << 10];
        let mut seed = 7u64;
        for round in 0..500u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = (seed >> 33) as usize % model.len();
            let length = ((seed >> 13) as usize % 9000).min(model.len() - offset);
            if round % 5 == 0 {
                let mode =
                    if round % 2 == 0 { libc::FALLOC_FL_PUNCH_HOLE } else { libc::FALLOC_FL_ZERO_RANGE };
                let (offset, length) = (offset as u64, length as u64);
                let mode = (mode | libc::FALLOC_FL_KEEP_SIZE) as u32;
                work(&mut session, Request::Fallocate { handle, offset, length, mode }, &mut []).unwrap();
                model[offset as usize..(offset + length) as usize].fill(0);
            } else {
                let data: Vec<u8> = (0..length).map(|index| (round as usize + index) as u8).collect();
                write(&mut session, handle, offset as u64, &data).unwrap();
                model[offset..offset + length].copy_from_slice(&data);
            }
            let at = (seed >> 40) as usize % model.len();
            let count = (model.len() - at).min(5000);
            assert_eq!(read(&mut session, handle, at as u64, count as u32), &model[at..at + count]);
        }
        assert_eq!(read(&mut session, handle, 0, 64 << 10), model);
    }
}

#[test]
fn reads_end_at_the_end_and_writes_past_it_are_refused_whole() {
    let (shelf, mut session) = session();
    shelf.put("v", 8192, 512);
    let (_, handle) = open(&mut session, "v");
    assert_eq!(read(&mut session, handle, 8000, 4096).len(), 192);
    assert_eq!(read(&mut session, handle, 8192, 4096).len(), 0);
    assert_eq!(read(&mut session, handle, u64::MAX, 4096).len(), 0);
    assert_eq!(write(&mut session, handle, 8000, &[1; 193]), Err(Errno(libc::ENOSPC)));
    assert_eq!(write(&mut session, handle, u64::MAX, &[1; 193]), Err(Errno(libc::ENOSPC)));
    assert_eq!(read(&mut session, handle, 7680, 512), vec![0; 512]);
    write(&mut session, handle, 8191, &[1]).unwrap();
}

#[test]
fn sizes_are_not_changed_not_even_by_a_truncating_open() {
    let (shelf, mut session) = session();
    shelf.put("v", 8192, 512);
    let (node, handle) = open(&mut session, "v");
    let set = |size, handle| Request::SetAttr { size, handle, is_of_access: false };
    let kept = [7; 8192];
    write(&mut session, handle, 0, &kept).unwrap();
    // What open with O_TRUNC and truncate(2) send; to say yes and keep the bytes would be a lie.
    assert_eq!(failure(session.apply(&about(node), set(Some(0), None))), libc::EPERM);
    small(session.apply(&about(node), set(Some(8192), Some(handle))));
    small(session.apply(&about(node), set(Some(8192), None)));
    small(session.apply(&about(node), set(None, None)));
    assert_eq!(failure(session.apply(&about(node), set(Some(0), Some(handle)))), libc::EPERM);
    assert_eq!(failure(session.apply(&about(node), set(Some(4096), None))), libc::EPERM);
    assert_eq!(failure(session.apply(&about(node), set(Some(8193), None))), libc::EPERM);
    let chmod = Request::SetAttr { size: None, handle: None, is_of_access: true };
    assert_eq!(failure(session.apply(&about(node), chmod)), libc::EPERM);
    assert_eq!(read(&mut session, handle, 0, 8192), kept);
    assert_eq!(failure(session.apply(&about(1), Request::ChangeDirectory)), libc::EPERM);
    assert_eq!(failure(session.apply(&about(1), Request::Unknown)), libc::ENOSYS);
}

#[test]
fn read_only_volumes_refuse_to_be_opened_for_writing() {
    let (shelf, mut session) = session();
    shelf.put("s", 8192, 512).set_read_only(true);
    let node = lookup(&mut session, "s");
    assert_eq!(
        failure(session.apply(&about(node), Request::Open { flags: libc::O_RDWR as u32 })),
        libc::EROFS
    );
    let handle =
        u64_at(&small(session.apply(&about(node), Request::Open { flags: libc::O_RDONLY as u32 })), 0);
    assert_eq!(write(&mut session, handle, 0, &[1; 512]), Err(Errno(libc::EROFS)));
}

#[test]
fn seeking_finds_data_and_holes() {
    let (shelf, mut session) = session();
    shelf.put("v", 1 << 20, 4096);
    let (_, handle) = open(&mut session, "v");
    write(&mut session, handle, 128 << 10, &[1; 8192]).unwrap();
    let mut seek = |offset, whence: i32| {
        let mut payload = [0; 128];
        let request = Request::Lseek { handle, offset, whence: whence as u32 };
        work(&mut session, request, &mut payload).map(|_| u64_at(&payload, 0))
    };
    assert_eq!(seek(5, libc::SEEK_DATA), Ok(128 << 10));
    assert_eq!(seek((128 << 10) + 5, libc::SEEK_DATA), Ok((128 << 10) + 5));
    assert_eq!(seek(128 << 10, libc::SEEK_HOLE), Ok(136 << 10));
    assert_eq!(seek(140 << 10, libc::SEEK_DATA), Err(Errno(libc::ENXIO)));
    assert_eq!(seek(1 << 20, libc::SEEK_HOLE), Err(Errno(libc::ENXIO)));
    assert_eq!(seek(0, libc::SEEK_SET), Err(Errno(libc::EINVAL)));
}

#[test]
fn the_directory_lists_every_volume_in_pieces_of_any_size() {
    let (shelf, mut session) = session();
    let names: Vec<String> = (0..40).map(|index| format!("volume-{index:02}")).collect();
    names.iter().for_each(|name| drop(shelf.put(name, 4096, 4096)));
    let handle = u64_at(&small(session.apply(&about(1), Request::OpenDir)), 0);
    let mut seen = Vec::new();
    let mut next = 0;
    loop {
        let answer = session.apply(&about(1), Request::ReadDir { handle, offset: next, size: 200 });
        let Answer::Directory { entries, first, size } = answer else { panic!("not a listing") };
        let mut bytes = vec![0; size as usize];
        let used = wire::encode_directory(&entries, first, &mut bytes);
        let mut at = 0;
        while at < used {
            next = u64_at(&bytes, at + 8);
            let length = u32_at(&bytes, at + 16) as usize;
            seen.push(String::from_utf8(bytes[at + 24..at + 24 + length].to_vec()).unwrap());
            at += (24 + length).next_multiple_of(8);
        }
        if used == 0 {
            break;
        }
    }
    assert_eq!(seen[..2], [".", ".."]);
    assert_eq!(seen[2..], names[..]);
}

#[test]
fn init_asks_only_for_what_the_kernel_offers() {
    use wire::init_flags as flag;
    let (_, mut session) = session();
    let mut init = wire::InitRequest { major: 7, minor: 45, readahead_bytes_max: 1 << 17, flags: u64::MAX };
    let (negotiated, reply) = session.init(&init, true).unwrap();
    assert!(negotiated.is_over_io_uring);
    assert_eq!((reply.as_bytes().len(), u32_at(reply.as_bytes(), 4)), (64, wire::KERNEL_MINOR));
    assert_eq!(u32_at(reply.as_bytes(), 32), (flag::OVER_IO_URING >> 32) as u32);
    assert!(!session.init(&init, false).unwrap().0.is_over_io_uring);
    init.flags = flag::ASYNC_READ;
    let (negotiated, reply) = session.init(&init, true).unwrap();
    assert!(!negotiated.is_over_io_uring);
    assert_eq!(u32_at(reply.as_bytes(), 12), flag::ASYNC_READ as u32);
    init.minor = 12;
    assert!(session.init(&init, true).is_err());
}

#[test]
fn durable_writes_are_told_by_the_flags_and_work_is_named_for_the_counters() {
    let (shelf, mut session) = session();
    shelf.put("v", 8192, 512);
    let (_, handle) = open(&mut session, "v");
    for (flags, expected) in [(0, false), (libc::O_DSYNC, true), (libc::O_SYNC, true)] {
        let request = Request::Write { handle, offset: 4096, size: 512, flags: flags as u32 };
        let Answer::Volume(work) = session.apply(&about(2), request) else { panic!("not work") };
        assert!(matches!(
            work.operation,
            crate::volume_work::Operation::Write { is_durable, .. } if is_durable == expected
        ));
        assert_eq!(work.operation.counted(), (Counted::Write, 4096, 512));
    }
}

#[test]
fn messages_too_short_or_with_rubbish_in_them_are_refused() {
    assert!(wire::InHeader::decode(&[0; 39]).is_none());
    for code in 0..64u32 {
        for length in 0..100 {
            let body = vec![0xFF; length];
            if let Ok((fixed, data)) = wire::split_classic(code, &body) {
                let _ = wire::decode(code, fixed, data);
            }
        }
    }
    assert_eq!(wire::decode(opcode::LOOKUP, &[], b"no end"), Err(Errno(libc::EINVAL)));
    assert_eq!(wire::decode(opcode::WRITE, &[0xFF; 40], &[0; 64]), Err(Errno(libc::EINVAL)));
    let mut batch = [0u8; 8];
    batch[..4].fill(0xFF);
    assert_eq!(wire::decode(opcode::BATCH_FORGET, &batch, &[0; 64]), Err(Errno(libc::EINVAL)));
}

/// Random bytes, and random messages with a sound header, never panic.
#[test]
fn rubbish_never_panics() {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..3_000 {
        let mut data = Vec::new();
        for _ in 0..8 {
            let length = 40 + (next() % 200) as usize;
            let mut message: Vec<u8> = (0..length).map(|_| next() as u8).collect();
            if round % 4 != 0 {
                message.resize(length.max(88), 0);
                message[4..8].copy_from_slice(&((next() % 55) as u32).to_ne_bytes());
                message[16..24].copy_from_slice(&(1 + next() % 3).to_ne_bytes());
                message[40..48].copy_from_slice(&(next() % 3).to_ne_bytes());
                let offset = next() % (1 << (next() % 64).max(1));
                message[48..56].copy_from_slice(&offset.to_ne_bytes());
                message[56..60].copy_from_slice(&((next() % 70_000) as u32).to_ne_bytes());
            }
            data.extend((message.len() as u16).to_le_bytes());
            data.extend(message);
        }
        crate::fuzz_requests(&data);
    }
}

#[test]
fn queue_depth_gives_way_to_the_memory_cap() {
    let settings = Settings::default();
    assert_eq!(settings.depth_for(2), 32);
    assert_eq!(settings.depth_for(64), 16);
    assert_eq!(settings.depth_for(100_000), 1);
}

#[test]
fn a_sync_reaches_the_device_unless_writes_are_durable_anyway() {
    let (shelf, mut session) = session();
    shelf.put("v", 8192, 4096);
    let (_, handle) = open(&mut session, "v");
    let mut nothing = [0; 128];
    assert_eq!(work(&mut session, Request::Fsync { handle }, &mut nothing), Ok(0));

    let settings = Settings { is_write_durable: true, ..Settings::default() };
    let mut session = Session::new(shelf, Rc::new(Registry::new()), settings, 1_000);
    let (node, handle) = open(&mut session, "v");
    // The kernel then asks no more.
    assert_eq!(failure(session.apply(&about(node), Request::Fsync { handle })), libc::ENOSYS);
}

#[test]
fn nobody_begins_to_write_to_what_somebody_has_for_himself() {
    let (shelf, mut session) = session();
    shelf.put("v", 1 << 20, 4096);
    shelf.1.replace(Some("v".to_string()));
    let node = lookup(&mut session, "v");
    for flags in [libc::O_WRONLY, libc::O_RDWR] {
        assert_eq!(failure(session.apply(&about(node), Request::Open { flags: flags as u32 })), libc::EBUSY);
    }
    small(session.apply(&about(node), Request::Open { flags: libc::O_RDONLY as u32 }));
    small(session.apply(&about(node), Request::Open { flags: (libc::O_RDWR | TAKER_FLAG) as u32 }));
    shelf.1.replace(None);
    open(&mut session, "v");
}

fn successor(shelf: &Rc<Shelf>, will: &Will) -> Result<Session, Vec<String>> {
    Session::restored(shelf.clone(), Rc::new(Registry::new()), Settings::default(), 2_000, will)
}

#[test]
fn a_successor_goes_on_with_what_is_open_and_gives_no_number_twice() {
    let (shelf, mut session) = session();
    shelf.put("db", 64 << 10, 512);
    let (node, handle) = open(&mut session, "db");
    let directory = u64_at(&small(session.apply(&about(1), Request::OpenDir)), 0);
    write(&mut session, handle, 0, b"kept").unwrap();
    let will = session.take_will().unwrap();
    assert_eq!(session.take_will(), None, "nothing changed since");
    let mut second = successor(&shelf, &Will::decode(&will.encode()).unwrap()).unwrap();
    assert_eq!(read(&mut second, handle, 0, 4), b"kept");
    assert_eq!(second.open_names(), [("db".into(), true)]);
    assert_eq!(lookup(&mut second, "db"), node, "one name has one node");
    let request = Request::ReadDir { handle: directory, offset: 0, size: 4096 };
    assert!(matches!(second.apply(&about(1), request), Answer::Directory { .. }));
    shelf.put("other", 4096, 512);
    let (other_node, other) = open(&mut second, "other");
    assert!(other > directory.max(handle) && other_node >> 32 == 1, "{other_node:x}");
    // And once more: what the second opened and closed is no number of the third.
    small(second.apply(&about(other_node), Request::Release { handle: other }));
    let mut third = successor(&shelf, &second.take_will().unwrap()).unwrap();
    assert_eq!(failure(third.apply(&about(other_node), Request::Release { handle: other })), libc::EBADF);
    let (third_node, third_handle) = open(&mut third, "other");
    assert!(third_handle > other && third_node >> 32 == 2);
    small(third.apply(&about(node), Request::Release { handle }));
    assert_eq!(third.open_names(), [("other".into(), true)]);
}

#[test]
fn a_successor_refuses_volumes_that_are_gone_or_others() {
    let (shelf, mut session) = session();
    shelf.put("a", 4096, 512);
    shelf.put("b", 4096, 512);
    open(&mut session, "a");
    open(&mut session, "b");
    let will = session.take_will().unwrap();
    let before = shelf.put("a", 8192, 512);
    assert_eq!(successor(&shelf, &will).err().unwrap(), ["a"]);
    drop(before);
    shelf.0.borrow_mut().clear();
    assert_eq!(successor(&shelf, &will).err().unwrap(), ["a", "b"]);
}

/// Handed out again, an open gives the handle that it gave before: nobody would ever close the other.
#[test]
fn what_is_handed_out_again_opens_nothing_twice_and_closes_nothing_else() {
    let (shelf, mut session) = session();
    shelf.put("db", 4096, 512);
    let node = lookup(&mut session, "db");
    let header = about(node);
    let flags = libc::O_RDWR as u32;
    let handle = u64_at(&small(session.apply(&header, Request::Open { flags })), 0);
    let mut second = successor(&shelf, &session.take_will().unwrap()).unwrap();
    let again = InHeader { unique: header.unique | wire::RESENT, ..header };
    assert_eq!(u64_at(&small(second.apply(&again, Request::Open { flags })), 0), handle);
    assert_eq!(second.open_files(), 1);
    small(second.apply(&about(node), Request::Release { handle }));
    let (_, other) = open(&mut second, "db");
    assert_eq!(failure(second.apply(&about(node), Request::Release { handle })), libc::EBADF);
    assert_eq!(read(&mut second, other, 0, 4), [0; 4]);
    // Where nothing can be written down, what was opened is taken back.
    let header = about(node);
    small(second.apply(&header, Request::Open { flags }));
    assert!(second.undo_open(&header) && second.open_files() == 1 && !second.undo_open(&header));
}

#[test]
fn the_kernel_is_asked_to_hand_out_again() {
    let notice = wire::resend_notice();
    assert_eq!((u32_at(&notice, 0), u32_at(&notice, 4), u64_at(&notice, 8)), (16, 7, 0));
}
