//! The stream's cuts and its rubbish: same answers however it is cut, no panic whatever it holds.

use super::{Client, context_data, info_data};
use crate::fuzz::{Exercise, NAME, fuzz_session};
use crate::wire::{command, flag, option};

/// A session that uses nearly everything.
fn busy_client(extended: bool) -> Vec<u8> {
    let contexts = context_data(NAME, &["base:allocation"]);
    let client = Client::new()
        .option(99, b"unknown")
        .option(option::LIST, &[])
        .option(option::STRUCTURED_REPLY, &[])
        .option(option::SET_META_CONTEXT, &contexts)
        .option(option::INFO, &info_data("", &[1, 2, 3]));
    let mut client = if extended { client.option(option::EXTENDED_HEADERS, &[]).go() } else { client.go() };
    for round in 0..4u64 {
        let mut put = |flags, kind, offset, length: u32, payload: &[u8]| {
            let now = std::mem::take(&mut client);
            let now = if extended {
                let flags = if payload.is_empty() { flags } else { flags | flag::PAYLOAD_LEN };
                now.extended(flags, kind, round, offset, u64::from(length))
            } else {
                now.request(flags, kind, round, offset, length)
            };
            client = now.payload(payload);
        };
        put(flag::FUA, command::WRITE, round * 4096, 1024, &[round as u8 + 1; 1024]);
        put(0, command::WRITE, 1, 300, &[0x25; 300]);
        put(0, command::READ, 0, 40_960, &[]);
        put(0, command::BLOCK_STATUS, 0, 16_384, &[]);
        put(0, command::FLUSH, 0, 0, &[]);
        put(0, command::READ, 7, 7, &[]);
        put(flag::NO_HOLE, command::WRITE_ZEROES, round * 4096, 512, &[]);
        put(0, 55, 0, 0, &[]);
    }
    let mut client =
        if extended { client.extended(0, command::DISC, 0, 0, 0) } else { client.request(0, 2, 0, 0, 0) };
    client.bytes.extend_from_slice(b"ignored");
    client.bytes
}

fn run(pieces: &[&[u8]]) -> Exercise {
    let mut exercise = Exercise::new(false);
    for piece in pieces {
        exercise.feed(piece);
    }
    exercise
}

#[test]
fn every_cut_in_two_gives_the_same_answers() {
    for extended in [false, true] {
        let bytes = busy_client(extended);
        let whole = run(&[&bytes]);
        assert!(whole.end.is_some(), "the whole stream was understood");
        for cut in 0..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            let pieces = run(&[head, tail]);
            assert!(pieces.output == whole.output, "cut at {cut}");
            assert!(pieces.device == whole.device, "cut at {cut}");
        }
    }
}

#[test]
fn byte_by_byte_gives_the_same_answers() {
    for extended in [false, true] {
        let bytes = busy_client(extended);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert!(run(&single).output == run(&[&bytes]).output);
    }
}

/// A small deterministic generator (splitmix64), so that a failure repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[test]
fn random_bytes_never_panic_and_do_not_depend_on_cuts() {
    for seed in 0..2000 {
        let mut random = Random(seed);
        let length = random.next() % 600;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        // Some magics among the rubbish, or every session would end at its first bytes.
        for _ in 0..random.next() % 8 {
            let magic: &[u8] = match random.next() % 3 {
                0 => b"IHAVEOPT",
                1 => &[0x25, 0x60, 0x95, 0x13],
                _ => &[0x21, 0xe4, 0x1c, 0x71],
            };
            let at = random.next() as usize % (bytes.len() + 1);
            bytes.splice(at..at, magic.iter().copied());
        }
        fuzz_session(&bytes);
    }
}

#[test]
fn mutated_sessions_never_panic_and_do_not_depend_on_cuts() {
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut bytes = busy_client(seed % 2 == 0);
        bytes.truncate(1 + random.next() as usize % bytes.len());
        for _ in 0..1 + random.next() % 6 {
            let at = random.next() as usize % bytes.len();
            match random.next() % 3 {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] ^= 1 << (random.next() % 8),
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                break;
            }
        }
        // Choice 0 adds no handshake of its own.
        bytes.insert(0, 0);
        fuzz_session(&bytes);
    }
}
