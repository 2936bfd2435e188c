//! Commands with data: what is asked for, how data are cut, residuals, digests.

use super::{Received, command, data_out, logged_in, read};
use crate::parameters::Offer;
use crate::wire::Digests;

const NO_TAG: u32 = u32::MAX;

fn is_good(answer: &Received) -> bool {
    answer.opcode() == 0x21 && answer.header[3] == 0
}

#[test]
fn a_short_read_comes_with_its_status() {
    let mut exercise = logged_in(&[], Offer::default());
    exercise.feed(&read(9, 1, 96, 96));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[1], answer.header[3]), (0x25, 0x81, 0));
    assert_eq!((answer.u32_at(16), answer.u32_at(20), answer.u32_at(36)), (9, NO_TAG, 0));
    assert_eq!((answer.data.len(), answer.numbers()), (96, [1, 2, 5]));
}

#[test]
fn residuals_say_what_is_left_over_and_what_lacks() {
    let mut exercise = logged_in(&[], Offer::default());
    // Ten bytes where the host has room for 4, 10, and 30.
    for (cmd_sn, (expected, length, flags, residual)) in
        (1..).zip([(4, 4, 0x85, 6), (10, 10, 0x81, 0), (30, 10, 0x83, 20)])
    {
        exercise.feed(&read(cmd_sn, cmd_sn, expected, 10));
        let answer = exercise.one();
        assert_eq!((answer.data.len(), answer.header[1], answer.u32_at(44)), (length, flags, residual));
    }
    // Nothing at all, by a status that has no sense data.
    exercise.feed(&read(9, 4, 512, 0));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[1], answer.header[3]), (0x21, 0x82, 0x18));
    assert_eq!((answer.u32_at(44), answer.u32_at(36)), (512, 0));
    // No data flag, and data: all are too many.
    exercise.feed(&command(0x80, 10, 5, 0, &[0x12, 0, 0, 0, 7], &[]));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[1], answer.u32_at(44)), (0x21, 0x84, 7));
}

#[test]
fn data_in_are_cut_at_segments_and_bursts() {
    let more = [("MaxRecvDataSegmentLength", "512"), ("MaxBurstLength", "768")];
    let mut exercise = logged_in(&more, Offer::default());
    // Two hundred bytes at most come from the exercise, so the session is asked directly.
    exercise.keeps_commands = true;
    exercise.feed(&read(9, 1, 2000, 1));
    let answer = ashlar_scsi::Answer::parameters((0..2000_u32).map(|byte| byte as u8).collect());
    exercise.session.answer(9, &answer, 0, &mut exercise.output);
    let parts: Vec<(usize, u8, u32, u32)> = exercise
        .received()
        .iter()
        .map(|part| (part.data.len(), part.header[1], part.u32_at(36), part.u32_at(40)))
        .collect();
    assert_eq!(
        parts,
        [
            (512, 0x00, 0, 0),
            (256, 0x80, 1, 512),
            (512, 0x00, 2, 768),
            (256, 0x80, 3, 1280),
            (464, 0x81, 4, 1536),
        ]
    );
}

#[test]
fn a_write_with_all_its_data_runs_at_once() {
    let mut exercise = logged_in(&[], Offer::default());
    exercise.feed(&command(0xa0, 3, 1, 512, &[0x2a], &[7; 512]));
    assert!(is_good(&exercise.one()));
    assert_eq!(exercise.written, [7; 512]);
}

#[test]
fn a_write_without_data_is_asked_for_them() {
    let mut exercise = logged_in(&[("ImmediateData", "No")], Offer::default());
    exercise.feed(&command(0xa0, 3, 1, 1024, &[0x2a], &[]));
    let asked = exercise.one();
    assert_eq!((asked.opcode(), asked.header[1], asked.u32_at(16)), (0x31, 0x80, 3));
    assert_eq!((asked.u32_at(36), asked.u32_at(40), asked.u32_at(44)), (0, 0, 1024));
    assert_eq!(asked.numbers()[0], 1, "a request for data has no status, so it is not counted");
    let tag = asked.u32_at(20);
    exercise.feed(&data_out(false, 3, tag, 0, 0, &[1; 512]));
    assert!(exercise.output.is_empty());
    exercise.feed(&data_out(true, 3, tag, 1, 512, &[2; 512]));
    let answer = exercise.one();
    assert!(is_good(&answer) && answer.numbers()[0] == 1);
    assert_eq!(exercise.written, [[1; 512], [2; 512]].concat());
}

#[test]
fn immediate_unsolicited_and_asked_data_make_one_write() {
    let more = [("InitialR2T", "No"), ("FirstBurstLength", "1024"), ("MaxBurstLength", "1024")];
    let mut exercise = logged_in(&more, Offer::default());
    exercise.feed(&command(0x20, 3, 1, 3072, &[0x2a], &[1; 512]));
    assert!(exercise.output.is_empty(), "unsolicited data follow");
    exercise.feed(&data_out(true, 3, NO_TAG, 0, 512, &[2; 512]));
    let asked = exercise.received();
    let places: Vec<(u32, u32)> = asked.iter().map(|asked| (asked.u32_at(40), asked.u32_at(44))).collect();
    assert_eq!(places, [(1024, 1024)], "one at a time, unless more was agreed on");
    exercise.feed(&data_out(true, 3, asked[0].u32_at(20), 0, 1024, &[3; 1024]));
    let asked = exercise.one();
    exercise.feed(&data_out(true, 3, asked.u32_at(20), 0, 2048, &[4; 1024]));
    assert!(is_good(&exercise.one()));
    let expected = [&[1; 512][..], &[2; 512], &[3; 1024], &[4; 1024]].concat();
    assert_eq!(exercise.written, expected);
}

#[test]
fn data_that_may_not_come_unasked_abort_the_command() {
    // InitialR2T=Yes, and more to come; more immediate data than the first burst.
    for (more, expected, flags, data, code) in [
        (("InitialR2T", "Yes"), 1024, 0x20, 512, [0x0c, 0x0c]),
        (("ImmediateData", "No"), 1024, 0xa0, 512, [0x0c, 0x0c]),
        (("FirstBurstLength", "512"), 1024, 0xa0, 516, [0x0c, 0x0d]),
        (("InitialR2T", "Yes"), 100, 0xa0, 512, [0x0c, 0x0d]),
    ] {
        let mut exercise = logged_in(&[more], Offer::default());
        exercise.feed(&command(flags, 3, 1, expected, &[0x2a], &vec![1; data]));
        let answer = exercise.one();
        assert_eq!((answer.opcode(), answer.header[3]), (0x21, 2), "{more:?}");
        assert_eq!((answer.data[2 + 2], &answer.data[14..16]), (0x0b, &code[..]), "{more:?}");
        assert!(exercise.written.is_empty());
        // The session goes on, and what still comes for the command is let go.
        exercise.feed(&data_out(true, 3, NO_TAG, 0, 512, &[1; 512]));
        exercise.feed(&read(4, 2, 10, 10));
        assert_eq!(exercise.one().opcode(), 0x25);
    }
}

/// What libiscsi's suite tries as iSCSIdatasn.
#[test]
fn data_out_of_order_abort_the_command_and_not_the_session() {
    let mut exercise = logged_in(&[("ImmediateData", "No")], Offer::default());
    exercise.feed(&command(0xa0, 3, 1, 1024, &[0x2a], &[]));
    let tag = exercise.one().u32_at(20);
    exercise.feed(&data_out(false, 3, tag, 1, 512, &[1; 512]));
    let answer = exercise.one();
    assert_eq!((answer.header[3], answer.data[4], &answer.data[14..16]), (2, 0x0b, &[0x0c, 0x0d][..]));
    exercise.feed(&data_out(true, 3, tag, 0, 0, &[1; 512]));
    assert!(exercise.output.is_empty() && exercise.written.is_empty());
    assert_eq!(exercise.session.in_flight(), 0);
}

#[test]
fn a_command_in_both_directions_is_refused() {
    let mut exercise = logged_in(&[], Offer::default());
    exercise.feed(&command(0xe0, 3, 1, 512, &[0x53], &[]));
    let answer = exercise.one();
    assert_eq!((answer.header[3], answer.data[4], &answer.data[14..16]), (2, 0x05, &[0x0e, 0x03][..]));
}

#[test]
fn with_digests_every_pdu_has_them_and_a_wrong_one_ends_the_session() {
    let both = Digests { header: true, data: true };
    let more = [("HeaderDigest", "CRC32C,None"), ("DataDigest", "CRC32C,None")];
    let sealed = |bytes: &[u8]| {
        let (header, data) = bytes.split_at(48);
        let mut sealed = [header, &crate::wire::digest(&[header])[..]].concat();
        if !data.is_empty() {
            sealed.extend_from_slice(data);
            sealed.extend_from_slice(&crate::wire::digest(&[data]));
        }
        sealed
    };
    let mut exercise = logged_in(&more, Offer::default());
    exercise.feed(&sealed(&command(0xa0, 3, 1, 512, &[0x2a], &[7; 512])));
    exercise.feed(&sealed(&read(4, 2, 10, 10)));
    let answers = exercise.received_with(both);
    assert!(is_good(&answers[0]));
    assert_eq!((answers[1].opcode(), answers[1].data.len()), (0x25, 10));
    for byte in [1, 60] {
        let mut exercise = logged_in(&more, Offer::default());
        let mut wrong = sealed(&command(0xa0, 3, 1, 512, &[0x2a], &[7; 512]));
        wrong[byte] ^= 1;
        exercise.feed(&wrong);
        assert!(exercise.end.is_some_and(|why| why.contains("digest mismatch")), "byte {byte}");
        assert!(exercise.written.is_empty());
    }
}
