//! `ashlar space estimate` on files, directories and volumes with a known content, and its refusals.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use serde_json::Value;
use support::Array;

const BLOCK: usize = 4096;
/// What a block that does not compress takes: a header of 32 bytes, rounded up to 64.
const STORED_BLOCK_BYTES: u64 = 4160;

/// A block that compresses with nothing, one for each number.
fn block(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..BLOCK / 8)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 29).to_le_bytes()
        })
        .collect()
}

/// The blocks of these numbers; zeroes for number 0.
fn blocks(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| if number == 0 { vec![0; BLOCK] } else { block(number) }).collect()
}

fn case<'v>(report: &'v Value, profile: &str, codec: &str) -> &'v Value {
    let cases = report["compression"].as_array().unwrap();
    cases.iter().find(|case| case["profile"] == profile && case["codec"] == codec).unwrap()
}

fn exactly(range: &Value, number: f64) {
    for bound in ["value", "low", "high"] {
        assert!((range[bound].as_f64().unwrap() - number).abs() < 1e-9, "{range} is not {number}");
    }
}

/// 100 blocks: 20 zero, 60 different ones, a copy in one run of 19 of them, and one alone.
fn sample() -> Vec<u8> {
    let copies = (21..40).chain([2]);
    blocks((0..20).map(|_| 0).chain(1..61).chain(copies))
}

#[test]
fn a_file_is_counted_exactly_without_an_array() {
    let array = Array::unstarted();
    let path = array.path("sample");
    std::fs::write(&path, sample()).unwrap();
    let report = array.json(&["space", "estimate", path.to_str().unwrap()]);
    assert_eq!((&report["kind"], &report["size_bytes"]), (&"file".into(), &409_600.into()));
    exactly(&report["zero_share"], 0.2);
    for (profile, codec) in [("oltp", "lz4"), ("general", "zstd")] {
        let case = case(&report, profile, codec);
        exactly(&case["stored_bytes"], (80 * STORED_BLOCK_BYTES) as f64);
        exactly(&case["ratio"], 4096.0 / 4160.0);
    }
    exactly(&report["dedupe"]["saved_share"], 20.0 / 80.0);
    exactly(&report["dedupe"]["saved_share_run_2"], 19.0 / 80.0);
    exactly(&report["dedupe"]["index_bytes"], 60.0 * 8.0);
    let text = array.good(&["space", "estimate", path.to_str().unwrap()]);
    assert!(text.contains("zero blocks  20.00 %"), "{text}");
    assert!(text.contains("25.00 % of the blocks"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), sample(), "an estimate writes nothing");
}

#[test]
fn holes_and_an_unfinished_last_block_are_counted() {
    let array = Array::unstarted();
    let path = array.path("sparse");
    let file = File::create(&path).unwrap();
    file.set_len((8 << 20) + 100).unwrap();
    file.write_all_at(&blocks(1..17), 4 << 20).unwrap();
    let report = array.json(&["space", "estimate", path.to_str().unwrap()]);
    exactly(&report["zero_share"], 1.0 - 16.0 / 2049.0);
    exactly(&case(&report, "oltp", "lz4")["stored_bytes"], (16 * STORED_BLOCK_BYTES) as f64);
}

#[test]
fn a_directory_is_its_files_on_whole_blocks() {
    let array = Array::unstarted();
    let directory = array.path("tree");
    std::fs::create_dir_all(directory.join("below")).unwrap();
    std::fs::write(directory.join("a"), &blocks(1..4)[..2 * BLOCK + 10]).unwrap();
    std::fs::write(directory.join("below/b"), blocks(1..3)).unwrap();
    std::fs::write(directory.join("empty"), "").unwrap();
    std::fs::hard_link(directory.join("a"), directory.join("c")).unwrap();
    std::os::unix::fs::symlink("/etc", directory.join("link")).unwrap();
    let report = array.json(&["space", "estimate", directory.to_str().unwrap()]);
    assert_eq!((&report["kind"], &report["size_bytes"]), (&"directory".into(), &(5 * BLOCK).into()));
    exactly(&report["dedupe"]["saved_share"], 2.0 / 5.0);
    assert_eq!(report["changed_files"], 0);
}

#[test]
fn quick_reads_a_part_and_does_not_claim_to_know_the_copies() {
    let array = Array::unstarted();
    let path = array.path("large");
    // 1,024 regions of half zeroes; every block is there twice, 32 MiB apart.
    let half = blocks((0..8192).map(|number| if number % 2 == 0 { 0 } else { number }));
    std::fs::write(&path, [half.clone(), half].concat()).unwrap();
    let path = path.to_str().unwrap();
    let report = array.json(&["space", "estimate", path, "--quick", "--sample-bytes", "8MiB"]);
    assert_eq!(report["read_bytes"], 8 << 20);
    let dedupe = &report["dedupe"];
    assert!(dedupe["saved_share"].is_null() && dedupe["distinct_blocks"].is_null(), "{dedupe}");
    assert!((0.0..0.5).contains(&dedupe["saved_share_min"].as_f64().unwrap()), "{dedupe}");
    let zero = &report["zero_share"];
    let bound = |name: &str| zero[name].as_f64().unwrap();
    assert!(bound("low") <= 0.5 && bound("high") >= 0.5 && bound("low") < bound("high"), "{zero}");
    let text = array.good(&["space", "estimate", path, "--quick", "--sample-bytes", "8MiB"]);
    assert!(text.contains("unknown without reading everything"), "{text}");
    // The whole knows: half of the data are copies.
    exactly(&array.json(&["space", "estimate", path])["dedupe"]["saved_share"], 0.5);
}

/// Writes over NBD with the shortest dialogue there is: option 1 (`NBD_OPT_EXPORT_NAME`), command 1
/// (`NBD_CMD_WRITE`), a simple reply.
fn write_volume(array: &Array, volume: &str, offset: u64, data: &[u8]) {
    let mut stream = UnixStream::connect(array.state().join("nbd.sock")).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    let mut request = [0, 0, 0, 3].to_vec();
    request.extend_from_slice(b"IHAVEOPT");
    request.extend_from_slice(&1u32.to_be_bytes());
    request.extend_from_slice(&(volume.len() as u32).to_be_bytes());
    request.extend_from_slice(volume.as_bytes());
    request.extend_from_slice(&0x2560_9513_0000_0001u64.to_be_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(&offset.to_be_bytes());
    request.extend_from_slice(&(data.len() as u32).to_be_bytes());
    request.extend_from_slice(data);
    stream.write_all(&request).unwrap();
    let mut reply = [0; 10 + 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[10..18], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "the write was refused");
}

#[test]
fn a_volume_and_its_snapshot_are_read_through_the_array() {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1TiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    let report = array.json(&["space", "estimate", "db@noon"]);
    assert_eq!((&report["kind"], &report["size_bytes"]), (&"snapshot".into(), &(1u64 << 40).into()));
    exactly(&report["zero_share"], 1.0);
    assert_eq!(report["read_bytes"], 0, "a hole is not read");
    write_volume(&array, "db", 5 << 30, &sample());
    let report = array.json(&["space", "estimate", "db"]);
    assert_eq!(report["kind"], "volume");
    exactly(&case(&report, "oltp", "lz4")["stored_bytes"], (80 * STORED_BLOCK_BYTES) as f64);
    exactly(&report["dedupe"]["saved_share"], 20.0 / 80.0);
    // The array itself says the same, to the byte.
    let stored = &array.json(&["volume", "show", "db"])["unique_bytes"];
    assert_eq!(stored.as_u64(), Some(80 * STORED_BLOCK_BYTES));
    exactly(&array.json(&["space", "estimate", "db@noon"])["zero_share"], 1.0);
}

#[test]
fn what_cannot_be_estimated_is_named() {
    let array = Array::unstarted();
    let empty = array.path("empty");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    array.refused(&["space", "estimate", empty], &["file", empty, "empty"]);
    array.refused(&["space", "estimate", "/nonexistent/file"], &["/nonexistent/file", "check the path"]);
    array.refused(&["space", "estimate", "/dev/null"], &["/dev/null", "neither"]);
    array.refused(&["space", "estimate", "db"], &["`db`", "no file", "ashlar serve"]);
    array.misused(&["space", "estimate"], &["TARGET"]);
    array.misused(&["space", "estimate", empty, "--sample-bytes", "1MiB"], &["8 MiB"]);
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    array.good(&["volume", "create", "other", "--size", "1GiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array.refused(&["space", "estimate", "nope"], &["`nope`", "does not exist"]);
    array.refused(&["space", "estimate", "db@nope"], &["`nope`", "does not exist"]);
    array.refused(&["space", "estimate", "other@noon"], &["`noon`", "`other`"]);
}

#[test]
fn a_closed_nbd_socket_is_said() {
    let mut array = Array::unstarted();
    array.configure("nbd_tcp = \"off\"\nnbd_socket = \"off\"\n");
    array.start();
    let drive = format!("{},size=1GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    array.refused(&["space", "estimate", "db"], &["nbd_socket"]);
}
