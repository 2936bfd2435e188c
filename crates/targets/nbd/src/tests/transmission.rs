//! Each command, in each style of reply, and its errors.

use ashlar_block::{Error, ErrorKind, Extent, ExtentKind};

use super::{Client, concat, context_data};
use crate::fuzz::{Exercise, NAME, SIZE_BYTES};
use crate::reply::Outcome;
use crate::session::{Command, Event, Export, Exports, Limits, PAYLOAD_BYTES_MAX, Request, Session};
use crate::wire::{command, flag, option};

const SIMPLE: [u8; 4] = [0x67, 0x44, 0x66, 0x98];
const STRUCTURED: [u8; 4] = [0x66, 0x8e, 0x33, 0xef];
const EXTENDED: [u8; 4] = [0x6e, 0x8a, 0x27, 0x8c];
const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const ENOTSUP: u32 = 95;
const ESHUTDOWN: u32 = 108;

fn opened(options: &[u32]) -> Exercise {
    opened_on(options, false)
}

fn opened_on(options: &[u32], is_read_only: bool) -> Exercise {
    let mut client = Client::new();
    for kind in options {
        client = client.option(*kind, &[]);
    }
    let mut exercise = client
        .option(option::SET_META_CONTEXT, &context_data(NAME, &["base:allocation"]))
        .go()
        .run_on(Exercise::new(is_read_only));
    exercise.output.clear();
    exercise
}

fn simple() -> Exercise {
    opened(&[])
}

fn structured() -> Exercise {
    opened(&[option::STRUCTURED_REPLY])
}

fn extended() -> Exercise {
    opened(&[option::EXTENDED_HEADERS])
}

fn client() -> Client {
    Client::default()
}

fn simple_reply(error: u32, cookie: u64) -> Vec<u8> {
    concat(&[&SIMPLE, &error.to_be_bytes(), &cookie.to_be_bytes()])
}

/// (flags, type, cookie, payload) of each structured chunk.
fn chunks(mut bytes: &[u8]) -> Vec<(u16, u16, u64, Vec<u8>)> {
    let mut chunks = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[..4], STRUCTURED);
        let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let cookie = u64::from_be_bytes(bytes[8..16].try_into().expect("eight"));
        let end = 20 + u32::from_be_bytes(bytes[16..20].try_into().expect("four")) as usize;
        chunks.push((short(4), short(6), cookie, bytes[20..end].to_vec()));
        bytes = &bytes[end..];
    }
    chunks
}

/// The errno of the one error a structured session sent.
fn structured_error(exercise: &Exercise) -> u32 {
    let chunks = chunks(&exercise.output);
    assert_eq!(chunks.len(), 1, "{chunks:?}");
    let (flags, kind, cookie, payload) = &chunks[0];
    assert_eq!((*flags, *kind, *cookie), (1, 32_769, 9));
    let length = u16::from_be_bytes([payload[4], payload[5]]) as usize;
    assert_eq!(payload.len(), 6 + length);
    assert!(std::str::from_utf8(&payload[6..]).is_ok_and(|text| !text.is_empty()));
    u32::from_be_bytes(payload[..4].try_into().expect("four"))
}

#[test]
fn a_write_is_read_back_with_simple_replies() {
    let exercise = client()
        .request(0, command::WRITE, 7, 1024, 512)
        .payload(&[0xab; 512])
        .request(0, command::READ, 8, 512, 1024)
        .run_on(simple());
    let expected = concat(&[&simple_reply(0, 7), &simple_reply(0, 8), &[0; 512], &[0xab; 512]]);
    assert_eq!(exercise.output, expected);
}

#[test]
fn a_structured_read_is_one_chunk_and_writes_stay_simple() {
    let exercise = client()
        .request(flag::FUA, command::WRITE, 7, 0, 512)
        .payload(&[0xab; 512])
        .request(0, command::READ, 8, 0, 512)
        .run_on(structured());
    let (write, read) = exercise.output.split_at(16);
    assert_eq!(write, simple_reply(0, 7));
    assert_eq!(chunks(read), [(1, 1, 8, concat(&[&0u64.to_be_bytes(), &[0xab; 512]]))]);
}

#[test]
fn long_runs_of_zeroes_are_sent_as_holes_unless_fragments_are_forbidden() {
    const GRANULE: u64 = 32 << 10;
    let mut exercise = structured();
    exercise.device[GRANULE as usize..][..512].fill(1);
    let exercise = client().request(0, command::READ, 9, 0, SIZE_BYTES as u32).run_on(exercise);
    let hole = |offset: u64, length: u64| concat(&[&offset.to_be_bytes(), &(length as u32).to_be_bytes()]);
    let data = &exercise.device[GRANULE as usize..2 * GRANULE as usize];
    let expected = [
        (0, 2, 9, hole(0, GRANULE)),
        (0, 1, 9, concat(&[&GRANULE.to_be_bytes(), data])),
        (1, 2, 9, hole(2 * GRANULE, SIZE_BYTES - 2 * GRANULE)),
    ];
    assert_eq!(chunks(&exercise.output), expected);

    let exercise = client().request(flag::DF, command::READ, 9, 0, SIZE_BYTES as u32).run_on(exercise);
    let chunks = chunks(&exercise.output);
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0].3[8..], exercise.device);
}

#[test]
fn a_hole_in_the_middle_and_a_short_tail_cover_the_read_exactly() {
    let mut exercise = structured();
    exercise.device.fill(3);
    exercise.device[65_536..98_304].fill(0);
    let exercise = client().request(0, command::READ, 9, 0, 131_584).run_on(exercise);
    let mut covered = vec![0xee; 131_584];
    let chunks = chunks(&exercise.output);
    assert_eq!(chunks.iter().map(|c| c.1).collect::<Vec<_>>(), [1, 2, 1]);
    for (_, kind, _, payload) in chunks {
        let offset = u64::from_be_bytes(payload[..8].try_into().expect("eight")) as usize;
        if kind == 1 {
            covered[offset..offset + payload.len() - 8].copy_from_slice(&payload[8..]);
        } else {
            let length = u32::from_be_bytes(payload[8..].try_into().expect("four")) as usize;
            covered[offset..offset + length].fill(0);
        }
    }
    assert_eq!(covered, exercise.device[..131_584]);
}

#[test]
fn extended_requests_get_extended_replies_that_repeat_the_offset() {
    let exercise = client()
        .extended(flag::PAYLOAD_LEN, command::WRITE, 7, 512, 512)
        .payload(&[5; 512])
        .extended(0, command::READ, 8, 512, 512)
        .extended(0, command::FLUSH, 9, 0, 0)
        .extended(0, command::BLOCK_STATUS, 10, 1024, 4096)
        .run_on(extended());
    let header = |kind: u16, cookie: u64, offset: u64, length: u64| {
        concat(&[
            &EXTENDED,
            &[0, 1],
            &kind.to_be_bytes(),
            &cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &length.to_be_bytes(),
        ])
    };
    let expected = concat(&[
        &header(0, 7, 512, 0),
        &header(1, 8, 512, 520),
        &512u64.to_be_bytes(),
        &[5; 512],
        &header(0, 9, 0, 0),
        &header(6, 10, 1024, 40),
        &1u32.to_be_bytes(),
        &2u32.to_be_bytes(),
        &2048u64.to_be_bytes(),
        &0u64.to_be_bytes(),
        &2048u64.to_be_bytes(),
        &3u64.to_be_bytes(),
    ]);
    assert_eq!(exercise.output, expected);
}

#[test]
fn an_extended_payload_nobody_asked_for_is_consumed_and_refused() {
    let exercise = client()
        .extended(flag::PAYLOAD_LEN, command::TRIM, 7, 0, 1024)
        .payload(&[5; 1024])
        .extended(0, command::WRITE, 8, 0, 512)
        .extended(0, command::FLUSH, 9, 0, 0)
        .run_on(extended());
    let errors: Vec<_> = exercise.output.windows(4).filter(|w| *w == EINVAL.to_be_bytes()).collect();
    assert_eq!(errors.len(), 2);
    assert_eq!(exercise.output[exercise.output.len() - 24..][..8], 9u64.to_be_bytes());
}

#[test]
fn an_extended_payload_above_the_maximum_ends_the_session() {
    let exercise = client()
        .extended(flag::PAYLOAD_LEN, command::WRITE, 7, 0, PAYLOAD_BYTES_MAX + 512)
        .run_on(extended());
    assert!(matches!(exercise.end, Some(Event::Close(_))));
}

#[test]
fn trim_and_write_zeroes_make_zeroes() {
    let mut exercise = simple();
    exercise.device.fill(1);
    let exercise = client()
        .request(0, command::TRIM, 1, 0, 512)
        .request(flag::NO_HOLE, command::WRITE_ZEROES, 2, 1024, 512)
        .request(flag::FAST_ZERO, command::WRITE_ZEROES, 3, 4096, 4096)
        .run_on(exercise);
    let expected = concat(&[&simple_reply(0, 1), &simple_reply(0, 2), &simple_reply(0, 3)]);
    assert_eq!(exercise.output, expected);
    assert!(exercise.device[..512].iter().all(|byte| *byte == 0));
    assert!(exercise.device[512..1024].iter().all(|byte| *byte == 1));
    assert!(exercise.device[4096..8192].iter().all(|byte| *byte == 0));
}

#[test]
fn a_fast_zero_of_part_of_a_block_is_refused_and_changes_nothing() {
    let mut exercise = simple();
    exercise.device.fill(1);
    let exercise = client().request(flag::FAST_ZERO, command::WRITE_ZEROES, 3, 512, 4096).run_on(exercise);
    assert_eq!(exercise.output, simple_reply(ENOTSUP, 3));
    assert!(exercise.device.iter().all(|byte| *byte == 1));
}

#[test]
fn block_status_tells_extents_and_only_one_when_asked() {
    let exercise = client()
        .request(0, command::BLOCK_STATUS, 5, 0, 8192)
        .request(flag::REQ_ONE, command::BLOCK_STATUS, 6, 0, 8192)
        .run_on(structured());
    let two: Vec<u8> = [1u32, 4096, 0, 4096, 3].iter().flat_map(|n| n.to_be_bytes()).collect();
    let one: Vec<u8> = [1u32, 4096, 0].iter().flat_map(|n| n.to_be_bytes()).collect();
    assert_eq!(chunks(&exercise.output), [(1, 5, 5, two), (1, 5, 6, one)]);
}

#[test]
fn block_status_needs_the_context_for_this_very_export() {
    let exercise = Client::new()
        .option(option::STRUCTURED_REPLY, &[])
        .option(option::SET_META_CONTEXT, &context_data("", &["base:allocation"]))
        .go()
        .run();
    let mut exercise = client().run_on(exercise);
    exercise.output.clear();
    let exercise = client().request(0, command::BLOCK_STATUS, 9, 0, 8192).run_on(exercise);
    assert_eq!(structured_error(&exercise), EINVAL);
}

#[test]
fn requests_that_break_a_rule_get_the_right_error() {
    let end = SIZE_BYTES;
    let huge = PAYLOAD_BYTES_MAX as u32 + 512;
    for (flags, kind, offset, length, expected) in [
        (0, command::READ, 1, 512, EINVAL),
        (0, command::READ, 0, 511, EINVAL),
        (0, command::READ, end, 512, EINVAL),
        (0, command::READ, u64::MAX - 511, 512, EINVAL),
        (0, command::READ, 0, huge, EOVERFLOW),
        (flag::REQ_ONE, command::READ, 0, 512, EINVAL),
        (flag::PAYLOAD_LEN, command::READ, 0, 512, EINVAL),
        (1 << 15, command::READ, 0, 512, EINVAL),
        (0, command::FLUSH, 512, 0, EINVAL),
        (0, command::FLUSH, 0, 512, EINVAL),
        (0, command::TRIM, end, 512, EINVAL),
        (flag::NO_HOLE, command::TRIM, 0, 512, EINVAL),
        (0, command::TRIM, 100, 512, EINVAL),
        (0, command::CACHE, end, 512, EINVAL),
        (0, command::WRITE_ZEROES, end - 512, 1024, ENOSPC),
        (0, command::WRITE_ZEROES, 1, 512, EINVAL),
        (flag::DF, command::WRITE_ZEROES, 0, 512, EINVAL),
        (0, command::BLOCK_STATUS, end, 512, EINVAL),
        (0, command::BLOCK_STATUS, 0, 0, EINVAL),
        (0, 8, 0, 512, EINVAL),
        (0, 0xffff, 0, 0, EINVAL),
    ] {
        let exercise = client().request(flags, kind, 9, offset, length).run_on(structured());
        assert_eq!(structured_error(&exercise), expected, "command {kind} {offset}+{length} flags {flags}");
        assert_eq!(exercise.end, None);
    }
}

#[test]
fn an_oversized_read_with_simple_replies_is_invalid() {
    let exercise = client().request(0, command::READ, 9, 0, PAYLOAD_BYTES_MAX as u32 + 512).run_on(simple());
    assert_eq!(exercise.output, simple_reply(EINVAL, 9));
    let exercise = client().request(flag::DF, command::READ, 9, 0, 512).run_on(exercise);
    assert_eq!(exercise.output, simple_reply(EINVAL, 9));
}

#[test]
fn a_refused_write_is_drained_and_the_next_request_is_served() {
    for (offset, length, flags, expected) in [
        (1, 512, 0, EINVAL),
        (0, 100, 0, EINVAL),
        (SIZE_BYTES, 512, 0, ENOSPC),
        (SIZE_BYTES - 512, 1024, 0, ENOSPC),
        (0, 512, flag::DF, EINVAL),
        (0, PAYLOAD_BYTES_MAX as u32 + 512, 0, EINVAL),
    ] {
        let exercise = client()
            .request(flags, command::WRITE, 7, offset, length)
            .payload(&vec![0x25; length as usize])
            .request(0, command::FLUSH, 8, 0, 0)
            .run_on(simple());
        let expected = concat(&[&simple_reply(expected, 7), &simple_reply(0, 8)]);
        assert_eq!(exercise.output, expected, "write {offset}+{length}");
        assert!(exercise.device.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_write_far_above_the_maximum_ends_the_session() {
    let exercise = client().request(0, command::WRITE, 7, 0, u32::MAX).run_on(simple());
    assert!(matches!(exercise.end, Some(Event::Close(_))));
}

#[test]
fn a_read_only_export_refuses_every_change() {
    for kind in [command::TRIM, command::WRITE_ZEROES, command::WRITE] {
        let mut client = client().request(0, kind, 9, 0, 512);
        if kind == command::WRITE {
            client = client.payload(&[1; 512]);
        }
        let exercise = client.run_on(opened_on(&[option::STRUCTURED_REPLY], true));
        assert_eq!(structured_error(&exercise), EPERM, "command {kind}");
    }
}

#[test]
fn empty_requests_succeed_and_do_nothing() {
    let exercise = client()
        .request(0, command::READ, 1, 0, 0)
        .request(0, command::WRITE, 2, 0, 0)
        .request(0, command::TRIM, 3, 0, 0)
        .run_on(simple());
    let expected = concat(&[&simple_reply(0, 1), &simple_reply(0, 2), &simple_reply(0, 3)]);
    assert_eq!(exercise.output, expected);
    // An OFFSET_DATA chunk must carry a byte, so an empty structured read is a NONE chunk.
    let exercise = client().request(0, command::READ, 9, 0, 0).run_on(structured());
    assert_eq!(chunks(&exercise.output), [(1, 0, 9, vec![])]);
}

#[test]
fn fua_is_accepted_on_every_command() {
    for kind in [command::READ, command::FLUSH, command::TRIM, command::CACHE, command::WRITE_ZEROES] {
        let length = if kind == command::FLUSH { 0 } else { 512 };
        let exercise = client().request(flag::FUA, kind, 9, 0, length).run_on(simple());
        assert_eq!(exercise.output[..16], simple_reply(0, 9), "command {kind}");
    }
}

#[test]
fn a_disconnect_gets_no_reply_and_what_follows_is_ignored() {
    let exercise =
        client().request(0, command::DISC, 9, 0, 0).request(0, command::READ, 10, 0, 512).run_on(simple());
    assert_eq!(exercise.output, b"");
    assert_eq!(exercise.end, Some(Event::Finish));
}

#[test]
fn a_wrong_request_magic_ends_the_session() {
    // The extended magic where compact requests were negotiated is as wrong as any.
    let exercise = client().extended(0, command::READ, 9, 0, 512).run_on(simple());
    assert!(matches!(exercise.end, Some(Event::Close(_))));
    let exercise = client().request(0, command::READ, 9, 0, 512).payload(&[0; 4]).run_on(extended());
    assert!(matches!(exercise.end, Some(Event::Close(_))));
}

#[test]
fn a_server_that_shuts_down_answers_so_and_still_drains_payloads() {
    let mut exercise = simple();
    exercise.session.begin_shutdown();
    let exercise = client()
        .request(0, command::WRITE, 7, 0, 512)
        .payload(&[1; 512])
        .request(0, command::READ, 8, 0, 512)
        .run_on(exercise);
    assert_eq!(exercise.output, concat(&[&simple_reply(ESHUTDOWN, 7), &simple_reply(ESHUTDOWN, 8)]));
}

/// An export as large as they come, so that only limits refuse requests.
struct Huge;

impl Exports for Huge {
    fn export(&self, name: &str) -> Option<Export> {
        Some(Export {
            name: name.to_string(),
            description: String::new(),
            size_bytes: 1 << 60,
            block_bytes_min: 4096,
            block_bytes_preferred: 4096,
            is_read_only: false,
        })
    }

    fn names(&self) -> Vec<String> {
        vec![]
    }
}

fn huge(limits: Limits, options: &[u32]) -> (Session, Vec<u8>) {
    let mut out = Vec::new();
    let mut session = Session::new(limits, &mut out);
    let mut client = Client::new();
    for kind in options {
        client = client.option(*kind, &[]);
    }
    let bytes = client.option(option::SET_META_CONTEXT, &context_data(NAME, &["base:allocation"])).go().bytes;
    let step = session.receive(&bytes, &Huge, &mut out);
    assert!(matches!(step.event, Event::Opened(_)));
    assert_eq!(step.consumed, bytes.len());
    out.clear();
    (session, out)
}

fn next_request(session: &mut Session, client: Client, out: &mut Vec<u8>) -> Option<Request> {
    let step = session.receive(&client.bytes, &Huge, out);
    match step.event {
        Event::Request(request) => Some(request),
        Event::Full => {
            assert_eq!(step.consumed, 0, "what finds no room stays unconsumed");
            None
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_requests_than_the_limit_wait_until_one_is_done() {
    let (mut session, mut out) = huge(Limits { requests_max: 2, bytes_max: 1 << 30 }, &[]);
    let read = || client().request(0, command::READ, 1, 0, 4096);
    let first = next_request(&mut session, read(), &mut out).expect("room for the first");
    let _second = next_request(&mut session, read(), &mut out).expect("room for the second");
    assert!(next_request(&mut session, read(), &mut out).is_none());
    let error = Error::new(ErrorKind::Medium, "bad");
    session.complete(first.id, Outcome::Failed(&error), &mut out);
    assert!(next_request(&mut session, read(), &mut out).is_some());
}

#[test]
fn more_bytes_than_the_limit_wait_but_one_large_request_alone_passes() {
    let (mut session, mut out) = huge(Limits { requests_max: 100, bytes_max: 1 << 20 }, &[]);
    let read = |length| client().request(0, command::READ, 1, 0, length);
    let large = next_request(&mut session, read(32 << 20), &mut out).expect("alone it passes");
    assert!(next_request(&mut session, read(4096), &mut out).is_none());
    assert!(next_request(&mut session, client().request(0, command::FLUSH, 1, 0, 0), &mut out).is_none());
    let error = Error::new(ErrorKind::Gone, "gone");
    session.complete(large.id, Outcome::Failed(&error), &mut out);
    assert_eq!(out, simple_reply(ESHUTDOWN, 1));
    assert!(next_request(&mut session, read(4096), &mut out).is_some());
}

#[test]
fn lengths_of_more_than_32_bits_pass_for_commands_without_payload() {
    let limits = Limits { requests_max: 10, bytes_max: 1 << 20 };
    let (mut session, mut out) = huge(limits, &[option::EXTENDED_HEADERS]);
    let zero = client().extended(0, command::WRITE_ZEROES, 1, 0, 1 << 40);
    let request = next_request(&mut session, zero, &mut out).expect("room");
    assert_eq!(request.command, Command::WriteZeroes { may_unmap: true });
    assert_eq!(request.length, 1 << 40);
    let status = client().extended(0, command::BLOCK_STATUS, 2, 0, 1 << 50);
    let request = next_request(&mut session, status, &mut out).expect("room");
    let extents = [
        Extent { length_bytes: 1 << 40, kind: ExtentKind::Zero },
        Extent { length_bytes: 1 << 60, kind: ExtentKind::Zero },
    ];
    session.complete(request.id, Outcome::Extents(&extents), &mut out);
    // Equal neighbours are one run that ends with the request.
    assert_eq!(out[out.len() - 16..], concat(&[&(1u64 << 50).to_be_bytes(), &2u64.to_be_bytes()]));
}

#[test]
fn a_long_error_text_is_cut_at_a_character() {
    let limits = Limits { requests_max: 10, bytes_max: 1 << 20 };
    let (mut session, mut out) = huge(limits, &[option::STRUCTURED_REPLY]);
    let read = client().request(0, command::READ, 9, 0, 4096);
    let request = next_request(&mut session, read, &mut out).expect("room");
    let error = Error::new(ErrorKind::Medium, format!("x{}", "ä".repeat(300)));
    session.complete(request.id, Outcome::Failed(&error), &mut out);
    let text = &out[26..];
    assert!(text.len() <= 256 && std::str::from_utf8(text).is_ok());
}

#[test]
fn payload_may_go_straight_into_the_write_buffer() {
    let (mut session, mut out) = huge(Limits { requests_max: 10, bytes_max: 1 << 30 }, &[]);
    let write = client().request(0, command::WRITE, 3, 0, 8192);
    let request = next_request(&mut session, write, &mut out).expect("room");
    assert_eq!(session.payload_remaining(), 8192);
    let step = session.receive(&[1; 100], &Huge, &mut out);
    assert_eq!(step.event, Event::Payload { length: 100, is_last: false });
    assert!(!session.payload_received(8000));
    assert!(session.payload_received(92));
    assert_eq!(session.payload_remaining(), 0);
    session.complete(request.id, Outcome::Done, &mut out);
    assert_eq!(out, simple_reply(0, 3));
}
