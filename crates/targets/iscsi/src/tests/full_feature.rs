//! The full feature phase: numbers and windows, pings, task management, text, logout.

use super::{Received, command, data_out, logged_in, pdu, read};
use crate::fuzz::{Exercise, OneTarget, TARGET};
use crate::login::Authentication;
use crate::parameters::Offer;
use crate::session::{Aborted, Event, Managed, Session};

fn fresh() -> Exercise {
    logged_in(&[], Offer::default())
}

/// NOP-Out with a tag.
fn nop(flags: u8, tag: u32, cmd_sn: u32, data: &[u8]) -> Vec<u8> {
    let fields: [(usize, &[u8]); 4] =
        [(0, &[flags, 0x80]), (16, &tag.to_be_bytes()), (20, &[0xff; 4]), (24, &cmd_sn.to_be_bytes())];
    pdu(&fields, data)
}

fn manage(function: u8, tag: u32, referenced: u32, cmd_sn: u32) -> Vec<u8> {
    let fields: [(usize, &[u8]); 4] = [
        (0, &[0x02, 0x80 | function]),
        (16, &tag.to_be_bytes()),
        (20, &referenced.to_be_bytes()),
        (24, &cmd_sn.to_be_bytes()),
    ];
    pdu(&fields, &[])
}

fn ask_text(tag: u32, transfer: u32, cmd_sn: u32, text: &[u8]) -> Vec<u8> {
    let fields: [(usize, &[u8]); 4] = [
        (0, &[0x04, 0x80]),
        (16, &tag.to_be_bytes()),
        (20, &transfer.to_be_bytes()),
        (24, &cmd_sn.to_be_bytes()),
    ];
    pdu(&fields, text)
}

#[test]
fn commands_outside_the_window_are_not_heard_of() {
    let mut exercise = fresh();
    // Below it, right above it (the window is 1 to 4), and far away.
    for cmd_sn in [0, 5, 0x8000_0000, u32::MAX] {
        exercise.feed(&read(cmd_sn ^ 1, cmd_sn, 10, 10));
        assert!(exercise.output.is_empty() && exercise.end.is_none(), "{cmd_sn}");
    }
    exercise.feed(&read(9, 1, 10, 10));
    assert_eq!(exercise.one().numbers(), [1, 2, 5]);
}

#[test]
fn a_gap_is_rejected_with_the_header_that_made_it() {
    let mut exercise = fresh();
    let bytes = read(9, 3, 10, 10);
    exercise.feed(&bytes);
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[2], &answer.data[..]), (0x3f, 4, &bytes[..48]));
    exercise.feed(&read(9, 1, 10, 10));
    assert_eq!(exercise.one().opcode(), 0x25);
}

#[test]
fn the_window_closes_while_commands_run_and_opens_with_their_answers() {
    let mut exercise = fresh();
    exercise.keeps_commands = true;
    for cmd_sn in 1..=4 {
        exercise.feed(&read(cmd_sn, cmd_sn, 10, 10));
    }
    assert_eq!(exercise.kept, [1, 2, 3, 4]);
    exercise.feed(&read(5, 5, 10, 10));
    assert_eq!((exercise.kept.len(), exercise.end), (4, None));
    exercise.session.answer(2, &ashlar_scsi::Answer::good(), 0, &mut exercise.output);
    assert_eq!(exercise.one().numbers(), [1, 5, 5]);
    exercise.feed(&read(5, 5, 10, 10));
    assert_eq!(exercise.kept.len(), 5);
}

#[test]
fn an_immediate_command_takes_no_number_and_there_are_only_so_many() {
    let mut exercise = fresh();
    exercise.keeps_commands = true;
    let immediate = |tag| {
        let mut bytes = read(tag, 1, 10, 10);
        bytes[0] |= 0x40;
        bytes
    };
    exercise.feed(&immediate(1));
    assert_eq!(exercise.kept, [1]);
    exercise.feed(&immediate(2));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[2], answer.numbers()), (0x3f, 6, [1, 1, 4]));
}

#[test]
fn a_tag_in_use_and_no_tag_are_rejected() {
    let mut exercise = fresh();
    exercise.keeps_commands = true;
    exercise.feed(&read(1, 1, 10, 10));
    exercise.feed(&read(1, 2, 10, 10));
    assert_eq!(exercise.one().header[2], 7);
    exercise.feed(&read(u32::MAX, 3, 10, 10));
    assert_eq!(exercise.one().header[2], 9);
    assert_eq!(exercise.session.in_flight(), 1);
}

#[test]
fn a_ping_comes_back_as_far_as_it_is_taken() {
    let mut exercise = logged_in(&[("MaxRecvDataSegmentLength", "512")], Offer::default());
    exercise.feed(&nop(0x40, 5, 1, &[0x5a; 600]));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.u32_at(16), answer.u32_at(20)), (0x20, 5, u32::MAX));
    assert_eq!((answer.data, answer.header[1]), (vec![0x5a; 512], 0x80));
    // One with a number of its own.
    exercise.feed(&nop(0, 6, 1, &[]));
    assert_eq!(exercise.one().numbers(), [2, 2, 5]);
    // An answer to a ping of ours is not answered.
    exercise.session.ping(&mut exercise.output);
    let ping = exercise.one();
    assert_eq!((ping.u32_at(16), ping.numbers()[0]), (u32::MAX, 3));
    assert!(ping.u32_at(20) != u32::MAX);
    exercise.feed(&nop(0x40, u32::MAX, 2, &[]));
    assert!(exercise.output.is_empty());
}

#[test]
fn an_aborted_command_is_answered_no_more() {
    let mut exercise = fresh();
    exercise.keeps_commands = true;
    exercise.feed(&read(1, 1, 10, 10));
    assert_eq!(exercise.session.abort(1), Aborted::Running);
    exercise.session.answer(1, &ashlar_scsi::Answer::good(), 0, &mut exercise.output);
    assert!(exercise.output.is_empty());
    assert_eq!((exercise.session.in_flight(), exercise.session.abort(1)), (0, Aborted::Unknown));
    // One whose data have not come is gone at once, and its data are let go.
    exercise.feed(&command(0xa0, 2, 2, 512, &[0x2a], &[]));
    let tag = exercise.one().u32_at(20);
    assert_eq!(exercise.session.abort(2), Aborted::Gone);
    exercise.feed(&data_out(true, 2, tag, 0, 0, &[1; 512]));
    assert!(exercise.output.is_empty() && exercise.written.is_empty());
}

#[test]
fn task_management_is_answered_and_what_is_not_there_is_told() {
    let mut exercise = fresh();
    exercise.keeps_commands = true;
    exercise.feed(&read(1, 1, 10, 10));
    exercise.feed(&manage(5, 2, u32::MAX, 2));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[2], answer.u32_at(16)), (0x22, 0, 2));
    assert_eq!((answer.numbers(), exercise.session.in_flight()), ([1, 3, 6], 0));
    // CLEAR ACA, TASK REASSIGN, and one there is no word for.
    for (cmd_sn, function) in (3..).zip([3, 8, 9]) {
        exercise.feed(&manage(function, 2, u32::MAX, cmd_sn));
        assert_eq!(exercise.one().header[2], 5, "{function}");
    }
}

#[test]
fn what_is_not_there_is_rejected() {
    let mut exercise = fresh();
    for opcode in [0x10, 0x1c, 0x3f, 0x20] {
        exercise.feed(&pdu(&[(0, &[opcode, 0x80])], &[]));
        let answer = exercise.one();
        assert_eq!((answer.opcode(), answer.header[2]), (0x3f, 5), "{opcode:x}");
    }
    // A login after the login.
    exercise.feed(&crate::fuzz::login_request(0x87, &[]));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[2]), (0x3f, 4));
    assert!(exercise.end.is_none());
}

#[test]
fn text_tells_of_this_target_and_comes_in_pieces_if_it_is_long() {
    let mut exercise = fresh();
    exercise.feed(&ask_text(1, u32::MAX, 1, b"SendTargets=\0X-key=1\0"));
    let answer = exercise.one();
    assert_eq!(answer.value("TargetName").as_deref(), Some(TARGET));
    assert_eq!(answer.value("X-key").as_deref(), Some("NotUnderstood"));
    exercise.feed(&ask_text(2, u32::MAX, 2, b"SendTargets=All\0"));
    assert_eq!(exercise.one().value("SendTargets").as_deref(), Some("Reject"));

    // As short a segment as there is, and text that is longer.
    let keys: Vec<u8> = (0..60).flat_map(|number| format!("X-{number}=1\0").into_bytes()).collect();
    exercise.feed(&ask_text(3, u32::MAX, 3, &[b"MaxRecvDataSegmentLength=512\0", &keys[..]].concat()));
    let mut pieces = vec![exercise.one()];
    while pieces.last().unwrap().header[1] & 0x80 == 0 {
        let last = pieces.last().unwrap();
        assert_eq!((last.header[1], last.data.len()), (0x40, 512));
        let transfer = last.u32_at(20);
        exercise.feed(&ask_text(3, transfer, 3 + pieces.len() as u32, &[]));
        pieces.push(exercise.one());
    }
    let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.data.clone()).collect();
    let whole = Received { header: pieces[0].header, data: whole };
    assert_eq!(whole.text().len(), 60);
    // A tag that belongs to no exchange.
    exercise.feed(&ask_text(4, 0x1234, 3 + pieces.len() as u32, &[]));
    assert_eq!(exercise.one().opcode(), 0x3f);
}

#[test]
fn logout_ends_the_session_and_what_is_behind_it_is_not_read() {
    let logout = |reason: u8, cmd_sn: u32| {
        pdu(&[(0, &[0x06, 0x80 | reason]), (16, &[0, 0, 0, 3]), (24, &cmd_sn.to_be_bytes())], &[])
    };
    let mut exercise = fresh();
    exercise.feed(&logout(2, 1));
    assert_eq!(exercise.one().header[2], 2, "recovery is not there");
    exercise.feed(&[logout(0, 2), read(9, 3, 10, 10)].concat());
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[2], answer.u32_at(16)), (0x26, 0, 3));
    assert_eq!(exercise.end, Some(""));
    exercise.session.ping(&mut exercise.output);
    exercise.session.request_logout(1, &mut exercise.output);
    assert!(exercise.output.is_empty(), "nothing is said to who has left");
}

#[test]
fn the_target_can_ask_for_a_logout() {
    let mut exercise = fresh();
    exercise.session.request_logout(10, &mut exercise.output);
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[36], answer.header[42..44].to_vec()), (0x32, 1, vec![0, 10]));
    assert_eq!(answer.u32_at(16), u32::MAX);
}

/// What the fuzzer looks for, over the pieces these tests are made of.
#[test]
fn answers_do_not_depend_on_how_the_stream_was_cut() {
    let stream = [
        command(0xa0, 3, 1, 2048, &[0x2a], &[7; 512]),
        read(4, 2, 10, 10),
        nop(0x40, 5, 3, &[1; 9]),
        ask_text(6, u32::MAX, 3, b"SendTargets=\0"),
        data_out(true, 3, 1, 0, 512, &[8; 1536]),
        manage(2, 7, u32::MAX, 4),
    ]
    .concat();
    // Every login, and pieces from 1 to 64 bytes.
    for choice in (0..=255).step_by(21) {
        crate::fuzz::fuzz_session(&[&[choice][..], &stream].concat());
    }
}

/// Some thousand times the same key would each be answered with the list of all targets.
#[test]
fn a_key_is_said_once_in_an_exchange() {
    let mut exercise = fresh();
    exercise.feed(&ask_text(6, u32::MAX, 1, b"SendTargets=\0SendTargets=\0"));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[2]), (0x3f, 4));
    exercise.feed(&ask_text(6, u32::MAX, 2, b"SendTargets=\0X-a=1\0"));
    assert_eq!(exercise.one().opcode(), 0x24);
}

#[test]
fn task_management_functions_beyond_so_many_are_rejected() {
    let (mut session, mut out) = (fresh().session, Vec::new());
    let directory = OneTarget { authentication: Authentication::None };
    let mut answered = |bytes: &[u8], session: &mut Session| {
        out.clear();
        let event = session.receive(bytes, &directory, &|_| {}, &mut out).event;
        (matches!(event, Event::Management(_)), out.get(2).copied())
    };
    // The limit of the exercise is one.
    assert_eq!(answered(&manage(5, 7, u32::MAX, 1), &mut session), (true, None));
    assert_eq!(answered(&manage(5, 8, u32::MAX, 2), &mut session), (false, Some(255)));
    session.finish_management(7, Managed::Complete, &mut Vec::new());
    assert_eq!(answered(&manage(5, 9, u32::MAX, 3), &mut session), (true, None));
}

#[test]
fn others_have_a_turn_between_many_pdus_that_need_nothing() {
    let mut exercise = fresh();
    let (directory, nothing) = (OneTarget { authentication: Authentication::None }, Vec::new());
    let pings: Vec<u8> = (0..1000).flat_map(|tag| nop(0x40, tag, 1, &nothing)).collect();
    let step = exercise.session.receive(&pings, &directory, &|_| {}, &mut exercise.output);
    assert!(matches!(step.event, Event::Rest));
    assert_eq!(exercise.received().len(), step.consumed / 48);
    assert!(step.consumed < pings.len() / 4, "{}", step.consumed);
}
