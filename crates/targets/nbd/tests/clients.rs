//! The server against real clients: libnbd's tools, QEMU's, and fio. Missing tools skip their tests,
//! unless `ASHLAR_E2E=1` says that they must be there.
// The other side of the socket is a process of its own world: files, sockets and time are real here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

mod rig;

use std::path::Path;
use std::process::Command;

use ashlar_nbd::Settings;
use ashlar_runtime::DriverChoice;
use ashlar_telemetry::Operation;
use rig::{Rig, Volume, drivers};

const SIZE: u64 = 64 << 20;

fn has_tools(tools: &[&str]) -> bool {
    let is_there = |tool: &str| {
        std::env::var("PATH").is_ok_and(|path| path.split(':').any(|dir| Path::new(dir).join(tool).is_file()))
    };
    for tool in tools {
        if !is_there(tool) {
            assert!(
                std::env::var("ASHLAR_E2E").as_deref() != Ok("1"),
                "{tool} is missing: install nbdinfo and nbdcopy (libnbd-bin), qemu-utils and fio"
            );
            println!("skipped: {tool} is not installed");
            return false;
        }
    }
    true
}

/// Runs a tool that must succeed; what it printed.
fn run(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new("timeout").arg("120").arg(tool).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {}\n{text}{errors}", output.status);
    text
}

fn disk() -> [Volume; 1] {
    [Volume::new("disk", SIZE)]
}

/// A sparse file with data of several shapes.
fn source(rig: &Rig) -> String {
    use std::os::unix::fs::FileExt;
    let path = rig.directory.join("source.raw");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(SIZE).unwrap();
    for (n, (offset, length)) in
        [(0, 512), (4096, 4096), (1 << 20, 3 << 20), (9_999_360, 100_352), (SIZE - 512, 512)]
            .iter()
            .enumerate()
    {
        let data: Vec<u8> = (0..*length).map(|i: u64| (i * 31 + i / 251 + n as u64) as u8 | 1).collect();
        file.write_all_at(&data, *offset).unwrap();
    }
    path.to_str().unwrap().to_string()
}

#[test]
fn nbdinfo_sees_sizes_flags_and_the_map() {
    if !has_tools(&["nbdinfo", "qemu-io"]) {
        return;
    }
    for driver in drivers() {
        let rig = Rig::new(driver, &disk());
        let json = run("nbdinfo", &["--json", &rig.uri("disk")]);
        for expected in [
            "\"protocol\": \"newstyle-fixed\"",
            "\"structured\": true",
            "\"export-size\": 67108864",
            "\"base:allocation\"",
            "\"block_size_minimum\": 512",
            "\"block_size_preferred\": 4096",
            "\"block_size_maximum\": 33554432",
            "\"can_multi_conn\": true",
            "\"can_df\": true",
            "\"can_fua\": true",
            "\"can_trim\": true",
            "\"can_zero\": true",
            "\"can_fast_zero\": true",
            "\"can_cache\": true",
            "\"is_read_only\": false",
        ] {
            assert!(json.contains(expected), "{expected} is not in {json}");
        }
        let write = "write -P 7 1M 64k";
        run("qemu-io", &["-f", "raw", "-c", write, "-c", "write -z 2M 64k", &rig.uri("disk")]);
        let map = run("nbdinfo", &["--map", &rig.uri("disk")]);
        let words: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
        let starts: Vec<(&str, &str)> = words.iter().map(|line| (line[0], line[2])).collect();
        let expected = [("0", "3"), ("1048576", "0"), ("1114112", "3"), ("2097152", "2"), ("2162688", "3")];
        assert_eq!(starts, expected, "{map}");
        rig.stop();
    }
}

#[test]
fn nbdinfo_lists_every_export_and_a_wrong_name_is_an_error() {
    if !has_tools(&["nbdinfo"]) {
        return;
    }
    let rig = Rig::new(DriverChoice::Auto, &[Volume::new("alpha", SIZE), Volume::new("beta", SIZE)]);
    let list = run("nbdinfo", &["--list", "--json", &rig.uri("")]);
    assert!(list.contains("\"alpha\"") && list.contains("\"beta\""), "{list}");
    let output = Command::new("nbdinfo").arg(rig.uri("gamma")).output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("for export: gamma"), "{errors}");
}

#[test]
fn nbdcopy_brings_a_sparse_file_there_and_back() {
    if !has_tools(&["nbdcopy", "cmp"]) {
        return;
    }
    for driver in drivers() {
        for is_tcp in [false, true] {
            let rig = Rig::with(driver, &disk(), Settings::default(), is_tcp);
            let source = source(&rig);
            let back = rig.directory.join("back.raw").to_str().unwrap().to_string();
            run("nbdcopy", &["--flush", &source, &rig.uri("disk")]);
            run("nbdcopy", &[&rig.uri("disk"), &back]);
            run("cmp", &[&source, &back]);
            // Holes stayed holes on the way in.
            let allocated =
                rig.run(|on_shard| Box::pin(async move { on_shard.devices["disk"].allocated_bytes() }));
            assert!(allocated < 8 << 20, "{allocated} bytes for a file with 3 MiB of data");
            rig.stop();
        }
    }
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    if !has_tools(&["qemu-img"]) {
        return;
    }
    for driver in drivers() {
        let rig = Rig::new(driver, &disk());
        let source = source(&rig);
        let uri = rig.uri("disk");
        run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "16", &source, &uri]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &source, &uri]);
        let map = run("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
        assert!(map.contains("\"data\": false") && map.contains("\"data\": true"), "{map}");
        let back = rig.directory.join("back.qcow2").to_str().unwrap().to_string();
        run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &back]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &source, &back]);
        rig.stop();
    }
}

#[test]
fn qemu_io_writes_zeroes_discards_and_reads_what_it_expects() {
    if !has_tools(&["qemu-io"]) {
        return;
    }
    for driver in drivers() {
        let rig = Rig::new(driver, &disk());
        let script = [
            "write -P 0xab 0 1M",
            "write -f -P 0xcd 1M 512",
            "read -P 0xab 0 1M",
            "write -z 4k 8k",
            "read -P 0 4k 8k",
            "read -P 0xab 12k 4k",
            "write -z -u 64k 64k",
            "read -P 0 64k 64k",
            "discard 128k 64k",
            "read -P 0 128k 64k",
            "aio_write -P 1 2M 1M",
            "aio_write -P 2 3M 1M",
            "aio_read -P 0xcd 1M 512",
            "aio_flush",
            "flush",
            "read -P 1 2M 1M",
            "read -P 2 3M 1M",
            "write -P 3 8M 31M",
            "read -P 3 8M 31M",
        ];
        let uri = rig.uri("disk");
        let mut arguments = vec!["-f", "raw"];
        for line in &script {
            arguments.extend(["-c", line]);
        }
        arguments.push(&uri);
        let text = run("qemu-io", &arguments);
        assert!(!text.contains("failed") && !text.contains("error"), "{text}");
        let counters = rig.counters().volume("disk");
        assert!(counters.of(Operation::Flush).completed > 0);
        assert_eq!(counters.of(Operation::Unmap).completed, 1);
        assert_eq!(counters.of(Operation::WriteZeroes).completed, 2);
        rig.stop();
    }
}

/// fio writes with checksums at depth over four connections, mixed with reads, trims and fsyncs, then
/// reads everything back.
#[test]
fn fio_verifies_what_it_wrote() {
    if !has_tools(&["fio"]) || !run("fio", &["--enghelp"]).contains("nbd") {
        return;
    }
    for driver in drivers() {
        for (block, pattern) in [("4k-4k", "randrw"), ("512-512", "randwrite"), ("4k-512k", "randrw")] {
            let rig = Rig::new(driver, &disk());
            let uri = format!("--uri={}", rig.uri("disk"));
            let text = run(
                "fio",
                &[
                    "--name=verify",
                    "--ioengine=nbd",
                    &uri,
                    &format!("--rw={pattern}"),
                    &format!("--bsrange={block}"),
                    "--size=16m",
                    "--iodepth=64",
                    "--numjobs=2",
                    "--offset_increment=16m",
                    "--fsync=64",
                    "--verify=crc32c",
                    "--verify_fatal=1",
                    "--verify_backlog=1024",
                    "--verify_backlog_batch=256",
                    "--group_reporting",
                ],
            );
            assert!(text.contains("err= 0"), "{text}");
            assert!(rig.counters().volume("disk").of(Operation::Write).completed > 0);
            rig.stop();
        }
    }
}
