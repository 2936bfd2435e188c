//! Each option, its answers and its errors.

use super::{Client, concat, context_data, info_data, option_replies};
use crate::fuzz::{Exercise, NAME, OneExport, SIZE_BYTES};
use crate::session::{Event, Export, Exports, Limits, Session};
use crate::wire::{self, option, reply};

/// HAS_FLAGS, FLUSH, FUA, TRIM, WRITE_ZEROES, MULTI_CONN, CACHE, FAST_ZERO as the protocol numbers them.
const FLAGS: u16 = 1 | 4 | 8 | 32 | 64 | 256 | 1024 | 2048;
const FLAG_DF: u16 = 128;

fn kinds(exercise: &Exercise) -> Vec<u32> {
    option_replies(&exercise.output).into_iter().map(|(_, kind, _)| kind).collect()
}

#[test]
fn the_greeting_offers_fixed_newstyle_without_zeroes() {
    assert_eq!(Exercise::new(false).output, b"NBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn unknown_client_flags_end_the_session() {
    let mut exercise = Exercise::new(false);
    exercise.feed(&4u32.to_be_bytes());
    assert!(matches!(exercise.end, Some(Event::Close(_))));
}

#[test]
fn a_wrong_option_magic_ends_the_session() {
    let mut exercise = Client::new().run();
    exercise.feed(b"IHAVEOPS\0\0\0\x01\0\0\0\0");
    assert!(matches!(exercise.end, Some(Event::Close(_))));
}

#[test]
fn export_name_answers_size_flags_and_zeroes_unless_declined() {
    let expected = concat(&[&SIZE_BYTES.to_be_bytes(), &FLAGS.to_be_bytes()]);
    let exercise = Client::new().option(option::EXPORT_NAME, NAME.as_bytes()).run();
    assert_eq!(exercise.output, expected);

    let old = Client { bytes: 1u32.to_be_bytes().to_vec() };
    let exercise = old.option(option::EXPORT_NAME, b"").run();
    assert_eq!(exercise.output, concat(&[&expected, &[0; 124]]));
}

#[test]
fn export_name_of_an_unknown_export_ends_the_session_without_a_word() {
    let exercise = Client::new().option(option::EXPORT_NAME, b"nothing").run();
    assert!(exercise.output.is_empty());
    assert!(matches!(exercise.end, Some(Event::Close(_))));
}

#[test]
fn abort_is_acknowledged_and_ends_the_session() {
    let exercise = Client::new().option(option::ABORT, b"ignored").run();
    assert_eq!(option_replies(&exercise.output), [(option::ABORT, reply::ACK, vec![])]);
    assert_eq!(exercise.end, Some(Event::Finish));
}

#[test]
fn list_names_the_exports() {
    let exercise = Client::new().option(option::LIST, &[]).run();
    let named = concat(&[&4u32.to_be_bytes(), b"disk"]);
    let expected = [(option::LIST, reply::SERVER, named), (option::LIST, reply::ACK, vec![])];
    assert_eq!(option_replies(&exercise.output), expected);
}

#[test]
fn options_without_data_refuse_data() {
    for kind in [option::LIST, option::STRUCTURED_REPLY, option::EXTENDED_HEADERS, option::STARTTLS] {
        assert_eq!(kinds(&Client::new().option(kind, b"x").run()), [reply::ERR_INVALID], "option {kind}");
    }
}

#[test]
fn unknown_options_and_tls_are_refused_and_haggling_goes_on() {
    let exercise =
        Client::new().option(4, b"peek").option(77, &[9; 300]).option(option::STARTTLS, &[]).go().run();
    let kinds = kinds(&exercise);
    assert_eq!(kinds[..3], [reply::ERR_UNSUP, reply::ERR_UNSUP, reply::ERR_POLICY]);
    assert_eq!(kinds.last(), Some(&reply::ACK));
}

#[test]
fn go_tells_size_flags_and_block_sizes() {
    let exercise = Client::new().option(option::GO, &info_data(NAME, &[])).run();
    let export = concat(&[&[0, 0], &SIZE_BYTES.to_be_bytes(), &FLAGS.to_be_bytes()]);
    let sizes =
        concat(&[&[0, 3], &512u32.to_be_bytes(), &4096u32.to_be_bytes(), &33_554_432u32.to_be_bytes()]);
    let expected = [
        (option::GO, reply::INFO, export),
        (option::GO, reply::INFO, sizes),
        (option::GO, reply::ACK, vec![]),
    ];
    assert_eq!(option_replies(&exercise.output), expected);
}

#[test]
fn info_tells_name_and_description_when_asked_and_haggling_goes_on() {
    let exercise = Client::new().option(option::INFO, &info_data("", &[1, 2, 3, 99])).run();
    let replies = option_replies(&exercise.output);
    assert!(replies.contains(&(option::INFO, reply::INFO, b"\x00\x01disk".to_vec())));
    assert!(replies.contains(&(option::INFO, reply::INFO, b"\x00\x02a test".to_vec())));
    assert_eq!(replies.last(), Some(&(option::INFO, reply::ACK, vec![])));
    let exercise = Client { bytes: vec![] }.option(option::LIST, &[]).run_on(exercise);
    assert_eq!(kinds(&exercise), [reply::SERVER, reply::ACK]);
}

#[test]
fn dont_fragment_is_offered_with_structured_replies_only() {
    let exercise = Client::new().option(option::STRUCTURED_REPLY, &[]).go().run();
    let replies = option_replies(&exercise.output);
    assert_eq!(replies[1].2[10..], (FLAGS | FLAG_DF).to_be_bytes());
}

#[test]
fn a_read_only_export_says_so_and_offers_no_writes() {
    let exercise = Client::new().go().run_on(Exercise::new(true));
    let flags = u16::from_be_bytes(option_replies(&exercise.output)[0].2[10..].try_into().expect("two"));
    assert_eq!(flags, 1 | 2 | 4 | 8 | 256 | 1024);
}

#[test]
fn go_of_an_unknown_export_is_an_error_and_haggling_goes_on() {
    let exercise = Client::new().option(option::GO, &info_data("nothing", &[])).go().run();
    let kinds = kinds(&exercise);
    assert_eq!(kinds[0], reply::ERR_UNKNOWN);
    assert_eq!(kinds.last(), Some(&reply::ACK));
}

#[test]
fn malformed_go_requests_are_invalid() {
    let long_name = concat(&[&100u32.to_be_bytes(), b"disk", &[0, 0]]);
    let huge_name = concat(&[&u32::MAX.to_be_bytes(), b"disk", &[0, 0]]);
    let missing_info = concat(&[&4u32.to_be_bytes(), b"disk", &[0, 2, 0, 3]]);
    let trailing = concat(&[&4u32.to_be_bytes(), b"disk", &[0, 0, 0]]);
    let no_text = concat(&[&2u32.to_be_bytes(), b"\xff\xfe", &[0, 0]]);
    let nul = concat(&[&4u32.to_be_bytes(), b"di\0k", &[0, 0]]);
    let too_long = concat(&[&5000u32.to_be_bytes(), &[b'x'; 5000], &[0, 0]]);
    for data in
        [&[][..], &[0; 5], &long_name, &huge_name, &missing_info, &trailing, &no_text, &nul, &too_long]
    {
        let exercise = Client::new().option(option::GO, data).run();
        assert_eq!(kinds(&exercise), [reply::ERR_INVALID], "{data:?}");
    }
}

#[test]
fn oversized_option_data_is_skipped_and_answered() {
    let exercise = Client::new().option(option::INFO, &vec![1; 100_000]).go().run();
    let replies = option_replies(&exercise.output);
    assert_eq!(replies[0].0, option::INFO);
    assert_eq!(replies[0].1, reply::ERR_TOO_BIG);
    assert_eq!(replies.last().map(|r| r.1), Some(reply::ACK));
}

#[test]
fn metadata_contexts_need_structured_replies() {
    for kind in [option::LIST_META_CONTEXT, option::SET_META_CONTEXT] {
        let exercise = Client::new().option(kind, &context_data(NAME, &[])).run();
        assert_eq!(kinds(&exercise), [reply::ERR_INVALID]);
    }
}

#[test]
fn metadata_contexts_are_listed_by_wildcard_name_or_all() {
    let listed: (u32, u32, Vec<u8>) =
        (option::LIST_META_CONTEXT, reply::META_CONTEXT, concat(&[&0u32.to_be_bytes(), b"base:allocation"]));
    for (queries, is_listed) in [
        (&[][..], true),
        (&["base:"], true),
        (&["base:allocation", "base:"], true),
        (&["base:nothing"], false),
        (&["x-other:thing", "no colon"], false),
    ] {
        let exercise = Client::new()
            .option(option::STRUCTURED_REPLY, &[])
            .option(option::LIST_META_CONTEXT, &context_data(NAME, queries))
            .run();
        let replies = option_replies(&exercise.output);
        assert_eq!(replies.contains(&listed), is_listed, "{queries:?}");
        assert_eq!(replies.last().map(|r| r.1), Some(reply::ACK));
    }
}

#[test]
fn metadata_contexts_are_selected_by_exact_name_only() {
    for (queries, is_selected) in
        [(&[][..], false), (&["base:"], false), (&["base:allocation"], true), (&["qemu:dirty"], false)]
    {
        let exercise = Client::new()
            .option(option::STRUCTURED_REPLY, &[])
            .option(option::SET_META_CONTEXT, &context_data(NAME, queries))
            .run();
        let replies = option_replies(&exercise.output);
        assert_eq!(replies.iter().any(|r| r.1 == reply::META_CONTEXT), is_selected, "{queries:?}");
    }
}

#[test]
fn malformed_context_lists_are_invalid() {
    let good = context_data(NAME, &["base:allocation"]);
    let mut lying_count = good.clone();
    lying_count[11] = 200;
    let mut huge_count = good.clone();
    huge_count[8..12].fill(0xff);
    for data in [&good[..good.len() - 1], &lying_count, &huge_count, &[&good[..], b"x"].concat(), &[]] {
        let exercise =
            Client::new().option(option::STRUCTURED_REPLY, &[]).option(option::SET_META_CONTEXT, data).run();
        assert_eq!(kinds(&exercise)[1], reply::ERR_INVALID, "{data:?}");
    }
}

#[test]
fn extended_headers_take_precedence_over_structured_replies_and_export_name() {
    let client = || Client::new().option(option::EXTENDED_HEADERS, &[]);
    let exercise = client().option(option::STRUCTURED_REPLY, &[]).run();
    assert_eq!(kinds(&exercise), [reply::ACK, reply::ERR_EXT_HEADER_REQD]);
    let exercise = client().option(option::EXPORT_NAME, b"disk").run();
    assert!(matches!(exercise.end, Some(Event::Close(_))));
}

#[test]
fn a_server_that_shuts_down_refuses_options_but_takes_abort() {
    let mut exercise = Client::new().run();
    exercise.session.begin_shutdown();
    let exercise = Client { bytes: vec![] }.go().option(option::ABORT, &[]).run_on(exercise);
    assert_eq!(kinds(&exercise), [reply::ERR_SHUTDOWN, reply::ACK]);
    assert_eq!(exercise.end, Some(Event::Finish));
}

#[test]
fn endless_haggling_ends_the_session() {
    let mut client = Client::new();
    for _ in 0..5000 {
        client = client.option(option::LIST, &[]);
    }
    assert!(matches!(client.run().end, Some(Event::Close(_))));
}

/// With 3,000 volumes a lister that asks twice for each export was cut off in the middle.
#[test]
fn who_lists_the_exports_may_ask_for_each_of_them() {
    struct Many;
    impl Exports for Many {
        fn export(&self, name: &str) -> Option<Export> {
            OneExport { is_read_only: false }
                .export("")
                .map(|export| Export { name: name.to_string(), ..export })
        }
        fn names(&self) -> Vec<String> {
            (0..30_000).map(|number| format!("v{number}")).collect()
        }
    }
    let asked = |counts: usize, has_list: bool| {
        let mut client = Client::new();
        if has_list {
            client = client.option(option::LIST, &[]);
        }
        for number in 0..counts {
            client = client.option(option::INFO, &info_data(&format!("v{}", number / 2), &[]));
        }
        let (mut out, mut at) = (Vec::new(), 0);
        let mut session = Session::new(Limits { requests_max: 1, bytes_max: 1 }, &mut out);
        loop {
            let step = session.receive(&client.bytes[at..], &Many, &mut out);
            at += step.consumed;
            if step.event == Event::Starved {
                return at == client.bytes.len();
            }
            if let Event::Close(_) = step.event {
                return false;
            }
        }
    };
    assert!(asked(60_000, true));
    assert!(!asked(60_000, false), "who has no list has no reason to ask so often");
    assert!(!asked(150_000, true), "the list is no leave to ask for ever");
}

#[test]
fn a_client_that_is_refused_hears_why_whatever_it_asks() {
    let mut exercise = Client::new().run();
    exercise.session.refuse_all("256 clients are in".to_string());
    let client = Client { bytes: vec![] }.option(option::STRUCTURED_REPLY, &[]).go();
    let exercise = client.option(option::LIST, &[]).option(option::ABORT, &[]).run_on(exercise);
    assert_eq!(kinds(&exercise), [reply::ERR_POLICY, reply::ERR_POLICY, reply::ERR_POLICY, reply::ACK]);
    let replies = option_replies(&exercise.output);
    assert_eq!(replies[1].2, b"256 clients are in");
    assert_eq!(exercise.end, Some(Event::Finish));
    // The oldest option has no way to say so.
    let mut exercise = Client::new().run();
    exercise.session.refuse_all("256 clients are in".to_string());
    let exercise = Client { bytes: vec![] }.option(option::EXPORT_NAME, b"disk").run_on(exercise);
    assert!(matches!(exercise.end, Some(Event::Close(_))));
}

#[test]
fn the_numbers_of_the_protocol_are_what_its_document_says() {
    assert_eq!(wire::MAGIC.to_be_bytes(), *b"NBDMAGIC");
    assert_eq!(wire::OPTION_MAGIC.to_be_bytes(), *b"IHAVEOPT");
    assert_eq!(wire::OPTION_REPLY_MAGIC, 0x3e889045565a9);
    assert_eq!(reply::ERR_UNKNOWN, 2_147_483_654);
    assert_eq!(wire::chunk::ERROR, 32_769);
}
