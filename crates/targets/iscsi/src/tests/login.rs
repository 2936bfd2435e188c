//! Login: stages, names, CHAP, and everything that must not get in.

use super::Received;
use crate::chap::{Algorithm, Credential};
use crate::fuzz::{Exercise, INITIATOR, OneTarget, TARGET, login_request, login_text};
use crate::login::Authentication;
use crate::parameters::Offer;
use crate::text;

fn open() -> Exercise {
    Exercise::new(OneTarget { authentication: Authentication::None }, Offer::default())
}

fn guarded() -> Exercise {
    Exercise::new(OneTarget::with_chap(), Offer::default())
}

fn said(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut said = Vec::new();
    pairs.iter().for_each(|(key, value)| text::put(&mut said, key, value));
    said
}

/// Sends one request; the answer.
fn ask(exercise: &mut Exercise, flags: u8, text: &[u8]) -> Received {
    exercise.feed(&login_request(flags, text));
    exercise.one()
}

fn status(answer: &Received) -> u16 {
    u16::from_be_bytes([answer.header[36], answer.header[37]])
}

#[test]
fn one_request_is_enough_where_nothing_must_be_proven() {
    let mut exercise = open();
    let answer = ask(&mut exercise, 0x87, &login_text(&[("ImmediateData", "Yes"), ("InitialR2T", "No")]));
    assert_eq!((answer.opcode(), answer.header[1], status(&answer)), (0x23, 0x87, 0));
    assert_eq!(answer.header[8..16], [0, 2, 0x3d, 0, 0, 1, 0, 7], "ISID, and the handle");
    // StatSN as the initiator expects it, ExpCmdSN as it began, and a window of four.
    assert_eq!(answer.numbers(), [0, 1, 4]);
    assert_eq!(answer.value("TargetPortalGroupTag").as_deref(), Some("1"));
    assert_eq!(answer.value("MaxRecvDataSegmentLength").as_deref(), Some("262144"));
    assert_eq!(answer.value("InitialR2T").as_deref(), Some("No"));
    let opened = exercise.opened.unwrap();
    assert_eq!((opened.initiator.as_str(), opened.target.as_deref()), (INITIATOR, Some(TARGET)));
    assert_eq!(opened.initiator_port(), format!("{INITIATOR},i,0x00023d000001"));
    assert!(!opened.parameters.is_initial_r2t);
}

#[test]
fn stages_follow_each_other_and_none_is_entered_twice() {
    let mut exercise = open();
    let answer = ask(&mut exercise, 0x81, &login_text(&[("AuthMethod", "CHAP,None")]));
    assert_eq!((answer.header[1], answer.value("AuthMethod").as_deref()), (0x81, Some("None")));
    let answer = ask(&mut exercise, 0x04, &said(&[("MaxBurstLength", "65536")]));
    assert_eq!((answer.header[1], answer.value("MaxBurstLength").as_deref()), (0x04, Some("65536")));
    assert!(exercise.opened.is_none(), "T was not set");
    let answer = ask(&mut exercise, 0x87, &[]);
    assert_eq!((answer.header[1], answer.numbers()[0]), (0x87, 2));
    assert!(exercise.opened.is_some());

    let mut exercise = open();
    ask(&mut exercise, 0x81, &login_text(&[]));
    assert_eq!(status(&ask(&mut exercise, 0x81, &[])), 0x020b, "back to security");
    assert!(exercise.end.is_some() && exercise.opened.is_none());
}

#[test]
fn stages_that_cannot_be_end_the_login() {
    for flags in [0x80, 0x82, 0x84, 0x85, 0x88, 0x8c, 0xc7, 0x0c] {
        let mut exercise = open();
        assert_eq!(status(&ask(&mut exercise, flags, &login_text(&[]))), 0x020b, "flags {flags:x}");
        assert!(exercise.end.is_some() && exercise.opened.is_none());
    }
}

#[test]
fn names_that_are_missing_wrong_or_unknown_are_told_apart() {
    let cases: [(&[(&str, &str)], u16); 8] = [
        (&[], 0x0207),
        (&[("InitiatorName", INITIATOR)], 0x0207),
        (&[("TargetName", TARGET)], 0x0207),
        (&[("InitiatorName", "host"), ("TargetName", TARGET)], 0x0200),
        (&[("InitiatorName", "iqn.a b"), ("TargetName", TARGET)], 0x0200),
        (&[("InitiatorName", INITIATOR), ("TargetName", "iqn.other")], 0x0203),
        (&[("InitiatorName", "iqn.2026-11.io.example:stranger"), ("TargetName", TARGET)], 0x0202),
        (&[("InitiatorName", INITIATOR), ("SessionType", "Odd"), ("TargetName", TARGET)], 0x0200),
    ];
    for (pairs, expected) in cases {
        let mut exercise = open();
        assert_eq!(status(&ask(&mut exercise, 0x87, &said(pairs))), expected, "{pairs:?}");
        assert!(exercise.end.is_some() && exercise.opened.is_none());
    }
}

#[test]
fn texts_that_cannot_be_read_or_repeat_themselves_end_the_login() {
    let twice = login_text(&[("MaxBurstLength", "512"), ("MaxBurstLength", "512")]);
    for text in [b"InitiatorName\0".to_vec(), vec![0xff, b'=', 0], twice] {
        let mut exercise = open();
        assert_eq!(status(&ask(&mut exercise, 0x87, &text)), 0x0200);
    }
    let mut exercise = open();
    ask(&mut exercise, 0x04, &login_text(&[]));
    assert_eq!(status(&ask(&mut exercise, 0x87, &said(&[("InitiatorName", INITIATOR)]))), 0x0200);
}

#[test]
fn text_may_come_in_pieces_but_not_without_end() {
    let text = login_text(&[("MaxBurstLength", "65536")]);
    let mut exercise = open();
    let (first, second) = text.split_at(30);
    let answer = ask(&mut exercise, 0x44, first);
    assert_eq!((answer.header[1], answer.data.len()), (0x04, 0));
    let answer = ask(&mut exercise, 0x87, second);
    assert_eq!((answer.header[1], answer.value("MaxBurstLength").as_deref()), (0x87, Some("65536")));

    let mut exercise = open();
    let mut last = 0;
    for _ in 0..20 {
        if exercise.end.is_none() {
            last = status(&ask(&mut exercise, 0x44, &[b'a'; 8000]));
        }
    }
    assert_eq!(last, 0x0200);
    let mut exercise = open();
    for _ in 0..40 {
        if exercise.end.is_none() {
            last = status(&ask(&mut exercise, 0x44, b""));
        }
    }
    assert_eq!((last, exercise.end.is_some()), (0x0200, true), "so many requests");
}

/// What an initiator does with a challenge.
struct Challenge {
    identifier: u8,
    bytes: Vec<u8>,
}

fn challenged(exercise: &mut Exercise, algorithms: &str) -> Challenge {
    let answer = ask(exercise, 0x00, &login_text(&[("AuthMethod", "CHAP,None")]));
    assert_eq!((answer.header[1], answer.value("AuthMethod").as_deref()), (0x00, Some("CHAP")));
    let answer = ask(exercise, 0x00, &said(&[("CHAP_A", algorithms)]));
    let identifier = answer.value("CHAP_I").unwrap().parse().unwrap();
    Challenge { identifier, bytes: text::binary(&answer.value("CHAP_C").unwrap()).unwrap() }
}

fn response(secret: &[u8], algorithm: Algorithm, challenge: &Challenge) -> String {
    let credential = Credential::new("host", secret).unwrap();
    text::to_binary(&credential.response(algorithm, challenge.identifier, &challenge.bytes))
}

#[test]
fn who_knows_the_secret_gets_in_with_every_algorithm() {
    for (number, algorithm) in [("5", Algorithm::Md5), ("6", Algorithm::Sha1), ("9,7", Algorithm::Sha256)] {
        let mut exercise = guarded();
        let challenge = challenged(&mut exercise, number);
        let right = response(b"secret of the host", algorithm, &challenge);
        let answer = ask(&mut exercise, 0x83, &said(&[("CHAP_N", "host"), ("CHAP_R", right.as_str())]));
        assert_eq!((answer.header[1], status(&answer)), (0x83, 0), "{number}");
        assert_eq!(exercise.opened.unwrap().proven_name.as_deref(), Some("host"));
    }
}

#[test]
fn a_wrong_secret_name_or_response_is_refused_alike() {
    let mut exercise = guarded();
    let challenge = challenged(&mut exercise, "5");
    let wrong = response(b"another secret", Algorithm::Md5, &challenge);
    let right = response(b"secret of the host", Algorithm::Md5, &challenge);
    for (name, response) in
        [("host", wrong.as_str()), ("guest", right.as_str()), ("host", "0x"), ("host", "1")]
    {
        let mut exercise = guarded();
        challenged(&mut exercise, "5");
        let answer = ask(&mut exercise, 0x83, &said(&[("CHAP_N", name), ("CHAP_R", response)]));
        assert_eq!((status(&answer), answer.data.len()), (0x0201, 0));
        assert!(exercise.end.is_some() && exercise.opened.is_none());
    }
}

#[test]
fn nobody_gets_round_the_proof() {
    // Straight to the second stage, or to the end; another method; no algorithm in common; T in the middle.
    let mut exercise = guarded();
    assert_eq!(status(&ask(&mut exercise, 0x87, &login_text(&[]))), 0x0201);
    let mut exercise = guarded();
    assert_eq!(status(&ask(&mut exercise, 0x83, &login_text(&[("AuthMethod", "None")]))), 0x0201);
    let mut exercise = guarded();
    ask(&mut exercise, 0x00, &login_text(&[("AuthMethod", "CHAP")]));
    assert_eq!(status(&ask(&mut exercise, 0x00, &said(&[("CHAP_A", "8,99")]))), 0x0201);
    let mut exercise = guarded();
    let answer = ask(&mut exercise, 0x83, &login_text(&[]));
    assert_eq!((answer.header[1], status(&answer)), (0x00, 0), "T is not answered before the proof");
    let answer = ask(&mut exercise, 0x83, &said(&[("AuthMethod", "CHAP")]));
    assert_eq!(answer.header[1], 0x00);
    assert_eq!(status(&ask(&mut exercise, 0x83, &said(&[("CHAP_N", "host"), ("CHAP_R", "0x00")]))), 0x020b);
    assert!(exercise.opened.is_none());
    let mut exercise = guarded();
    assert_eq!(status(&ask(&mut exercise, 0x83, &login_text(&[("CHAP_A", "5")]))), 0x020b);
}

#[test]
fn this_side_proves_itself_when_asked() {
    let mut exercise = guarded();
    let challenge = challenged(&mut exercise, "7");
    let right = response(b"secret of the host", Algorithm::Sha256, &challenge);
    let pairs = [("CHAP_N", "host"), ("CHAP_R", right.as_str()), ("CHAP_I", "9"), ("CHAP_C", "0x0102030405")];
    let answer = ask(&mut exercise, 0x83, &said(&pairs));
    let own = Credential::new("array", b"secret of the array").unwrap();
    let expected = text::to_binary(&own.response(Algorithm::Sha256, 9, &[1, 2, 3, 4, 5]));
    assert_eq!(answer.value("CHAP_N").as_deref(), Some("array"));
    assert_eq!(answer.value("CHAP_R"), Some(expected));
}

/// An attacker that sends our own challenge back would be told the response it needs elsewhere.
#[test]
fn our_own_challenge_is_not_answered_and_neither_is_half_a_one() {
    for (identifier, challenge_back, expected) in
        [("66", None, 0x0201), ("1", Some("0x"), 0x0200), ("256", Some("0x01"), 0x0200)]
    {
        let mut exercise = guarded();
        let challenge = challenged(&mut exercise, "5");
        let right = response(b"secret of the host", Algorithm::Md5, &challenge);
        let own = text::to_binary(&challenge.bytes);
        let back = challenge_back.unwrap_or(&own);
        let pairs =
            [("CHAP_N", "host"), ("CHAP_R", right.as_str()), ("CHAP_I", identifier), ("CHAP_C", back)];
        assert_eq!(status(&ask(&mut exercise, 0x83, &said(&pairs))), expected, "{back}");
    }
    let mut exercise = guarded();
    let challenge = challenged(&mut exercise, "5");
    let right = response(b"secret of the host", Algorithm::Md5, &challenge);
    let half = [("CHAP_N", "host"), ("CHAP_R", right.as_str()), ("CHAP_I", "1")];
    assert_eq!(status(&ask(&mut exercise, 0x83, &said(&half))), 0x020b);
}

#[test]
fn versions_and_sessions_that_are_not_there_are_refused() {
    let mut exercise = open();
    let mut bytes = login_request(0x87, &login_text(&[]));
    bytes[3] = 1;
    exercise.feed(&bytes);
    assert_eq!(status(&exercise.one()), 0x0205);
    let mut exercise = open();
    let mut bytes = login_request(0x87, &login_text(&[]));
    bytes[15] = 9;
    exercise.feed(&bytes);
    assert_eq!(status(&exercise.one()), 0x020a);
    // Anything but a login before the login.
    let mut exercise = open();
    exercise.feed(&super::read(1, 1, 96, 96));
    assert!(exercise.end.is_some() && exercise.output.is_empty());
}

#[test]
fn a_discovery_session_hears_of_targets_and_does_nothing_else() {
    let mut exercise = open();
    let names = [("InitiatorName", INITIATOR), ("SessionType", "Discovery"), ("MaxBurstLength", "512")];
    let answer = ask(&mut exercise, 0x87, &said(&names));
    assert_eq!(answer.value("MaxBurstLength").as_deref(), Some("Irrelevant"));
    assert_eq!(answer.value("TargetPortalGroupTag"), None);
    assert_eq!(exercise.opened.as_ref().unwrap().target, None);
    exercise.feed(&super::pdu(
        &[(0, &[0x04, 0x80]), (16, &[0, 0, 0, 5, 255, 255, 255, 255, 0, 0, 0, 1])],
        b"SendTargets=All\0",
    ));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[1], answer.u32_at(20)), (0x24, 0x80, u32::MAX));
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    assert_eq!(
        answer.text(),
        [
            pair("TargetName", TARGET),
            pair("TargetAddress", "192.0.2.1:3260,1"),
            pair("TargetAddress", "192.0.2.2:3260,1"),
        ]
    );
    exercise.feed(&super::read(6, 2, 96, 96));
    let answer = exercise.one();
    assert_eq!((answer.opcode(), answer.header[2]), (0x3f, 4), "a command is rejected");
}
