//! Pools of a real array, stopped in order or killed, then told and saved by `ashlar inspect` alone.
//!
//! Every block of a saved image is compared with what was written. It may differ only where the report
//! says that it is gone, and then it must be zeroes; with as many drives as the protection asks for
//! nothing may be gone at all.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use serde_json::Value;
use support::Array;
use support::nbd::Nbd;

const VOLUME_BYTES: usize = 16 << 20;
const DRIVE: &str = "size=64MiB";
const DRIVE_BYTES: u64 = 64 << 20;
/// Before this are superblocks.
const CELLS_AT: u64 = 1 << 20;
const WHOLE: i32 = 0;
const PART: i32 = 3;
const REDUCED: i32 = 4;

/// What every image must hold.
type Images = BTreeMap<String, Vec<u8>>;

struct Site {
    array: Array,
    images: Images,
}

/// Content of which a part compresses, different for every seed and block.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|at| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if at % 8 < 4 { (state >> 56) as u8 } else { seed as u8 }
        })
        .collect()
}

impl Site {
    fn new(protection: &str, drives: usize) -> Site {
        Site::of_size(protection, drives, DRIVE)
    }

    fn of_size(protection: &str, drives: usize, size: &str) -> Site {
        let array = Array::started();
        let drives: Vec<String> =
            (0..drives).map(|drive| format!("{},{size}", path(&array, drive))).collect();
        let mut arguments = vec!["pool", "create", "main", "--protection", protection];
        drives.iter().for_each(|drive| arguments.extend(["--drive", drive]));
        array.good(&arguments);
        Site { array, images: Images::new() }
    }

    fn volume(&mut self, name: &str) {
        self.array.good(&["volume", "create", name, "--size", "16MiB", "--logical-block", "512"]);
        self.images.insert(name.to_string(), vec![0; VOLUME_BYTES]);
    }

    fn write(&mut self, name: &str, pieces: impl Iterator<Item = (usize, usize)>, seed: u64) {
        let mut nbd = Nbd::connect(self.array.state(), name);
        let image = self.images.get_mut(name).unwrap();
        for (index, (offset, length)) in pieces.enumerate() {
            let bytes = pattern(seed + index as u64, length);
            nbd.write(offset as u64, &bytes);
            image[offset..offset + length].copy_from_slice(&bytes);
        }
    }

    fn unmap(&mut self, name: &str, offset: usize, length: usize) {
        Nbd::connect(self.array.state(), name).unmap(offset as u64, length);
        self.images.get_mut(name).unwrap()[offset..offset + length].fill(0);
    }

    fn copy(&mut self, from: &str, to: &str) {
        let image = self.images[from].clone();
        self.images.insert(to.to_string(), image);
    }

    /// All kinds of changes, some before a checkpoint and some behind it.
    fn fill(&mut self) {
        self.volume("db");
        self.volume("log");
        self.write("db", (0..200).map(|piece| (piece * 65536, 65536)), 1);
        self.write("log", (0..100).map(|piece| (piece * 12288, 8192)), 1000);
        self.array.good(&["snapshot", "create", "one", "db"]);
        self.copy("db", "db@one");
        self.write("db", (0..300).map(|piece| (piece * 7 * 4096, 4096)), 2000);
        // A check writes a checkpoint first.
        self.array.good(&["pool", "check", "main"]);
        self.write("db", (0..40).map(|piece| (piece * 65536 + 512, 1024)), 3000);
        self.array.good(&["snapshot", "create", "two", "db", "log"]);
        self.copy("db", "db@two");
        self.copy("log", "log@two");
        self.unmap("db", 1 << 20, 1 << 20);
        self.array.good(&["clone", "create", "copy", "--from", "db@one"]);
        self.copy("db@one", "copy");
        self.write("copy", (0..30).map(|piece| (piece * 131_072, 20480)), 4000);
        self.array.good(&["volume", "create", "passing", "--size", "16MiB"]);
        self.array.good(&["volume", "delete", "passing", "--now", "--yes"]);
        self.array.good(&["snapshot", "create", "three", "log"]);
        self.copy("log", "log@three");
        self.write("log", (0..10).map(|piece| (piece * 200_704, 4096)), 4500);
        self.array.good(&["snapshot", "restore", "three", "--no-backup", "--yes"]);
        self.copy("log@three", "log");
        self.write("log", (0..50).map(|piece| (piece * 100_000 / 4096 * 4096, 4096)), 5000);
    }

    fn inspect(&self, drives: &[usize], options: &[&str]) -> (i32, Value) {
        let paths: Vec<String> = drives.iter().map(|drive| path(&self.array, *drive)).collect();
        let mut arguments = vec!["inspect", "--json"];
        arguments.extend(paths.iter().map(String::as_str));
        arguments.extend(options);
        let done = self.array.run(&arguments);
        let value = serde_json::from_str(&done.out).unwrap_or(Value::Null);
        assert!(done.status != 0 || done.err.is_empty(), "{}", done.err);
        (done.status, value)
    }

    /// Saves everything and compares. Returns status, report and the bytes that are gone.
    fn salvage(&self, drives: &[usize], target: &str) -> (i32, Value, u64) {
        let directory = self.array.path(target);
        let options = ["--salvage", directory.to_str().unwrap(), "--snapshots"];
        let (status, report) = self.inspect(drives, &options);
        let kept: Value =
            serde_json::from_slice(&std::fs::read(directory.join("report.json")).unwrap()).unwrap();
        assert_eq!(kept, report, "{target}");
        let is_current = matches!(report["journal"]["end"].as_str(), Some("closed" | "plain" | "cut-off"));
        let mut gone_bytes = 0;
        for image in report["images"].as_array().unwrap() {
            let name = image["name"].as_str().unwrap();
            let saved = std::fs::read(directory.join(format!("{name}.img"))).unwrap();
            gone_bytes +=
                compare(&self.images[name], &saved, image, is_current, &format!("{target}: {name}"));
        }
        (status, report, gone_bytes)
    }
}

/// Compares a saved image with what was written. Returns how much is gone by the report.
fn compare(expected: &[u8], saved: &[u8], image: &Value, is_current: bool, what: &str) -> u64 {
    assert_eq!(saved.len(), expected.len(), "{what}");
    let mut is_gone = vec![false; expected.len() / 4096];
    for range in image["gone"].as_array().unwrap() {
        let bytes = |field: &str| range[field].as_u64().unwrap() as usize;
        let (offset, length) = (bytes("offset_bytes"), bytes("length_bytes"));
        is_gone[offset / 4096..(offset + length) / 4096].fill(true);
    }
    for (block, is_gone) in is_gone.iter().enumerate() {
        let at = block * 4096..(block + 1) * 4096;
        if *is_gone {
            assert!(saved[at].iter().all(|byte| *byte == 0), "{what}: bytes of nobody in block {block}");
        } else if is_current {
            assert!(saved[at.clone()] == expected[at], "{what}: block {block} differs");
        }
    }
    let gone = is_gone.iter().filter(|is_gone| **is_gone).count() as u64 * 4096;
    assert_eq!(image["gone_bytes"].as_u64().unwrap(), gone, "{what}");
    gone
}

fn path(array: &Array, drive: usize) -> String {
    array.path(&format!("{drive}.img")).display().to_string()
}

fn spoil(site: &Site, drive: usize, from: u64, length: u64) {
    let file = std::fs::File::options().write(true).open(path(&site.array, drive)).unwrap();
    file.write_all_at(&pattern(from + 9, length as usize), from).unwrap();
}

fn names(report: &Value) -> Vec<&str> {
    report["images"].as_array().unwrap().iter().map(|image| image["name"].as_str().unwrap()).collect()
}

#[test]
fn a_pool_is_told_and_saved_whole_after_a_stop_and_after_a_kill() {
    let mut site = Site::new("none", 2);
    site.fill();
    site.array.kill();
    let (status, report) = site.inspect(&[0, 1], &["--deep"]);
    assert_eq!(status, WHOLE, "{report}");
    assert_eq!(report["journal"]["end"], "plain");
    assert!(report["journal"]["records"].as_u64().unwrap() > 20, "{}", report["journal"]);
    let mut expected: Vec<&str> = site.images.keys().map(String::as_str).collect();
    let mut found = names(&report);
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let (status, report, gone) = site.salvage(&[0, 1], "killed");
    assert_eq!((status, gone), (WHOLE, 0), "{report}");
    assert_eq!(report["outcome"], "whole");

    site.array.start();
    site.write("db", (0..20).map(|piece| (piece * 40960, 4096)), 6000);
    assert_eq!(site.array.terminate(), Some(0));
    let (status, report, gone) = site.salvage(&[1, 0], "stopped");
    assert_eq!((status, gone), (WHOLE, 0), "{report}");
    assert_eq!(report["journal"]["end"], "closed");
    let text =
        site.array.good(&["inspect", &path(&site.array, 0), &path(&site.array, 1), "--volume", "db@one"]);
    assert!(text.contains("generation") && text.contains("db@one") && text.contains("VERIFIED"), "{text}");
    let missing =
        site.array.run(&["inspect", &path(&site.array, 0), &path(&site.array, 1), "--volume", "no"]);
    assert!(missing.status == 1 && missing.err.contains("db@two"), "{}", missing.err);
}

#[test]
fn drives_that_protection_covers_are_not_missed() {
    for (protection, count, missing) in [("single", 4_usize, 1_usize), ("dual", 5, 2)] {
        let mut site = Site::new(protection, count);
        site.fill();
        site.array.kill();
        let all: Vec<usize> = (0..count).collect();
        let (status, report) = site.inspect(&all, &["--deep"]);
        assert_eq!(status, WHOLE, "{protection}: {report}");
        for first in 0..count {
            let gone: Vec<usize> = (0..missing).map(|next| (first + next) % count).collect();
            let left: Vec<usize> = all.iter().copied().filter(|drive| !gone.contains(drive)).collect();
            let (status, report, bytes) = site.salvage(&left, &format!("without-{first}"));
            assert_eq!((status, bytes), (WHOLE, 0), "{protection} without {gone:?}: {report}");
        }
        // Rubbish on one drive, its superblocks too, counts like a drive that is gone.
        spoil(&site, 1, 0, DRIVE_BYTES);
        let (status, report, bytes) = site.salvage(&all, "rubbish");
        assert_eq!(bytes, 0, "{protection}: {report}");
        assert_eq!(status, WHOLE, "{protection}: {report}");
        // It is a finding all the same, and so is one that is not there.
        let (status, report) = site.inspect(&all, &[]);
        assert_eq!((status, &report["damage"]), (REDUCED, &serde_json::json!([])), "{report}");
        let redundancy = &report["redundancy"];
        assert_eq!(redundancy["drives_left"], missing - 1, "{redundancy}");
        let told = redundancy["findings"].to_string();
        assert!(told.contains("drive 1 of pool `main`") && told.contains("no superblock"), "{told}");
        let without: Vec<usize> = all.iter().copied().filter(|drive| *drive != 1).collect();
        let (status, report) = site.inspect(&without, &["--volume", "db"]);
        assert_eq!(status, REDUCED, "{report}");
        assert!(report["redundancy"]["findings"].to_string().contains("is missing"), "{report}");
        let (status, report) = site.inspect(&all[..count - missing - 1], &[]);
        assert_eq!(status, PART, "{report}");
        assert!(report["damage"].to_string().contains("is missing"), "{report}");
    }
}

#[test]
fn what_too_many_lost_drives_leave_is_saved_and_the_rest_is_named() {
    let cases: [(&str, usize, &[usize], bool); 4] = [
        ("single", 4, &[0, 2], false),
        ("none", 3, &[0, 1], false),
        ("none", 3, &[0, 2], true),
        ("dual", 4, &[3], false),
    ];
    for (protection, count, left, is_killed) in cases {
        let mut site = Site::new(protection, count);
        site.fill();
        if is_killed {
            site.array.kill();
        } else {
            assert_eq!(site.array.terminate(), Some(0));
        }
        let (status, report, gone) = site.salvage(left, "left");
        assert_ne!(status, WHOLE, "{protection}: {report}");
        let is_less = !report["damage"].as_array().unwrap().is_empty() || gone > 0;
        assert!(is_less, "{protection}: {report}");
        let end = &report["journal"]["end"];
        println!(
            "{protection} with {left:?}: {status}, {gone} bytes gone, journal {end}, {:?}",
            names(&report)
        );
    }
}

#[test]
fn rubbish_in_one_drive_without_protection_is_named_to_the_block() {
    let mut site = Site::new("none", 2);
    site.fill();
    assert_eq!(site.array.terminate(), Some(0));
    for round in 0..6_u64 {
        // From behind: in front are the tables, without which nothing is found.
        spoil(&site, (round % 2) as usize, CELLS_AT + (12 - 2 * round) * (1 << 20), 1 << 20);
        let (status, report, gone) = site.salvage(&[0, 1], &format!("round-{round}"));
        let is_damaged = gone > 0 || !report["damage"].as_array().unwrap().is_empty();
        assert_eq!(status, if is_damaged { PART } else { WHOLE }, "round {round}: {report}");
        println!("round {round}: status {status}, {gone} bytes gone, {}", report["damage"]);
    }
}

/// Sessions that write until the array is gone.
fn load(array: &Array, volume: &'static str, sessions: u64) -> Vec<std::thread::JoinHandle<()>> {
    let writer = |session: u64, state: std::path::PathBuf| {
        let mut nbd = Nbd::connect(&state, volume);
        for piece in 0_u64.. {
            let length = [4096, 16384, 65536, 262_144][(piece * 7 + session) as usize % 4];
            let offset = (piece * 37 + session * 11) % 56 * 262_144;
            if nbd.try_write(offset, &pattern(piece * 8 + session, length)).is_err() {
                return;
            }
        }
    };
    (0..sessions)
        .map(|session| {
            let state = array.state().to_path_buf();
            std::thread::spawn(move || writer(session, state))
        })
        .collect()
}

/// Once every pool that was killed while it was written to was called damaged: what was on its way to the
/// drives then was told to nobody, and opening the pool cuts it off without a word. Now and then nothing
/// tells: a write was cut off in the middle of what looks like data.
#[test]
fn a_pool_that_was_killed_under_load_is_whole() {
    for (protection, drives) in [("none", 2), ("dual", 5)] {
        let mut site = Site::new(protection, drives);
        site.volume("db");
        let all: Vec<usize> = (0..drives).collect();
        let mut unsure = 0;
        for round in 0..6_u64 {
            let sessions = load(&site.array, "db", 24);
            std::thread::sleep(std::time::Duration::from_millis(300 + 170 * round));
            site.array.kill();
            sessions.into_iter().for_each(|session| session.join().unwrap());
            let (status, report) = site.inspect(&all, &["--deep"]);
            println!("{protection} {round}: {status} {} {}", report["journal"], report["damage"]);
            if report["journal"]["end"] == "unsure" && unsure == 0 {
                unsure += 1;
                site.array.start();
                continue;
            }
            assert_eq!(status, WHOLE, "{protection}, round {round}: {}", report["damage"]);
            let directory = site.array.path(&format!("saved-{round}"));
            let (status, report) = site.inspect(&all, &["--salvage", directory.to_str().unwrap()]);
            assert_eq!((status, &report["outcome"]), (WHOLE, &"whole".into()), "{protection}: {report}");
            std::fs::remove_dir_all(directory).unwrap();
            site.array.start();
        }
    }
}

#[test]
fn a_pool_that_is_served_is_told_without_calling_it_damaged() {
    for (protection, drives) in [("none", 2), ("dual", 5)] {
        let mut site = Site::new(protection, drives);
        site.volume("db");
        let all: Vec<usize> = (0..drives).collect();
        let sessions = load(&site.array, "db", 6);
        for round in 0..5 {
            let (status, report) = site.inspect(&all, &["--volume", "db"]);
            println!("{protection} {round}: {status} {} {}", report["journal"], report["damage"]);
            assert_eq!(status, WHOLE, "{protection}, round {round}: {report}");
            assert!(report["notes"].to_string().contains("served"), "{report}");
        }
        site.array.kill();
        sessions.into_iter().for_each(|session| session.join().unwrap());
    }
}

/// Where a pool had not written yet its drives hold what they held before they joined, and that was called
/// damage: a whole pool was refused by whoever went by the status.
#[test]
fn what_drives_held_before_they_joined_is_no_damage() {
    for (protection, drives) in [("none", 1), ("single", 3), ("dual", 4)] {
        let array = Array::started();
        let paths: Vec<String> = (0..drives).map(|drive| path(&array, drive)).collect();
        let mut arguments = vec!["pool", "create", "main", "--protection", protection, "--force", "--yes"];
        for (drive, path) in paths.iter().enumerate() {
            std::fs::write(path, pattern(77 + drive as u64, DRIVE_BYTES as usize)).unwrap();
            arguments.extend(["--drive", path]);
        }
        array.good(&arguments);
        let mut site = Site { array, images: Images::new() };
        site.volume("db");
        let all: Vec<usize> = (0..drives).collect();
        for round in 0..4_usize {
            site.write("db", (0..200 * round).map(|piece| (piece % 256 * 65536, 20480)), round as u64);
            if round == 2 {
                site.array.good(&["snapshot", "create", "one", "db"]);
                site.copy("db", "db@one");
            }
            site.array.kill();
            let (status, report) = site.inspect(&all, &["--deep"]);
            assert_eq!(status, WHOLE, "{protection}, round {round}: {report}");
            let (status, report, gone) = site.salvage(&all, &format!("saved-{round}"));
            assert_eq!((status, gone), (WHOLE, 0), "{protection}, round {round}: {report}");
            site.array.start();
        }
    }
}

/// The last group of a pool that was killed lacks a block that was never written, or holds one that is not
/// what was written: only that is damage.
#[test]
fn a_group_that_was_cut_off_is_told_from_one_that_is_damaged() {
    for (spoilt, status, end) in [(0_u8, WHOLE, "cut-off"), (0x5a, PART, "unsure")] {
        let mut site = Site::new("none", 1);
        site.volume("db");
        site.write("db", (0..20).map(|piece| (piece * 65536, 65536)), 1);
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let last: Vec<u8> = (0..65536).map(|_| noise()).collect();
        Nbd::connect(site.array.state(), "db").write(8 << 20, &last);
        site.array.kill();
        let drive = std::fs::read(path(&site.array, 0)).unwrap();
        let at = drive.windows(32).position(|bytes| bytes == &last[40_000..40_032]).unwrap();
        let file = std::fs::File::options().write(true).open(path(&site.array, 0)).unwrap();
        file.write_all_at(&[spoilt; 4096], (at / 4096 * 4096) as u64).unwrap();
        let (found, report) = site.inspect(&[0], &["--deep"]);
        assert_eq!((found, &report["journal"]["end"]), (status, &end.into()), "{report}");
        assert_eq!(report["notes"].to_string().contains("nobody was told"), status == WHOLE, "{report}");
        let (found, report, gone) = site.salvage(&[0], "saved");
        assert_eq!((found, gone), (status, 0), "{report}");
        let text = site.array.run(&["inspect", &path(&site.array, 0)]).out;
        assert_eq!(text.contains("nothing that was read is damaged or gone"), status == WHOLE, "{text}");
    }
}

/// A drive was taken out, its places were used again without it, and the array was killed: the header that
/// the drive still has of a place's former segment went before the present one's, so that the journal seemed
/// to end early. Salvage gave back old blocks and called them whole, and a healthy pool was called damaged.
#[test]
fn what_a_drive_that_is_out_says_of_places_used_again_counts_for_nothing() {
    const BYTES: usize = 40 << 20;
    for (protection, drives) in [("single", 3), ("dual", 4)] {
        let mut site = Site::of_size(protection, drives, "size=80MiB");
        site.array.good(&["volume", "create", "db", "--size", "40MiB"]);
        site.images.insert("db".to_string(), vec![0; BYTES]);
        let whole = |seed| ((0..BYTES / 65536).map(|piece| (piece * 65536, 65536)), seed);
        for (pieces, seed) in [whole(1), whole(10_000)] {
            site.write("db", pieces, seed);
        }
        let all: Vec<usize> = (0..drives).collect();
        for round in 0..6_usize {
            assert_eq!(site.array.terminate(), Some(0));
            site.array.start();
            let out = round % drives;
            site.array.good(&["pool", "offline-drive", "main", &out.to_string(), "--yes"]);
            let pieces = (0..160 + 40 * round).map(|piece| ((piece * 7 + round) % 640 * 65536, 65536));
            site.write("db", pieces, 20_000 + 1000 * round as u64);
            site.array.kill();
            let what = format!("{protection}, round {round}");
            let (status, report, gone) = site.salvage(&all, &format!("saved-{round}"));
            assert_eq!((status, gone), (WHOLE, 0), "{what}: {}", report["damage"]);
            std::fs::remove_dir_all(site.array.path(&format!("saved-{round}"))).unwrap();
            let (status, report) = site.inspect(&all, &["--deep"]);
            assert_eq!(status, REDUCED, "{what}: {} {}", report["damage"], report["deep"]["damage"]);
            let told = report["redundancy"]["findings"].to_string();
            assert!(told.contains(&format!("drive {out} of pool `main`")), "{what}: {told}");
            site.array.start();
            site.array.good(&["pool", "online-drive", "main", &out.to_string(), "--wait"]);
        }
    }
}

/// A drive was put back as it once was. Its own superblocks tell, whatever the pool's says of it.
#[test]
fn an_older_copy_of_a_drive_is_found_and_not_believed() {
    let mut site = Site::new("single", 3);
    site.volume("db");
    site.write("db", (0..100).map(|piece| (piece * 65536, 65536)), 1);
    assert_eq!(site.array.terminate(), Some(0));
    let copy = site.array.path("copy");
    std::fs::copy(path(&site.array, 0), &copy).unwrap();
    site.array.start();
    for round in 0..4 {
        site.write("db", (0..200).map(|piece| (piece * 65536, 65536)), 1000 * (round + 1));
        site.array.good(&["pool", "check", "main"]);
    }
    site.array.kill();
    std::fs::copy(&copy, path(&site.array, 0)).unwrap();
    let (status, report) = site.inspect(&[0, 1, 2], &["--deep"]);
    assert_eq!(status, REDUCED, "{} {}", report["damage"], report["deep"]["damage"]);
    let told = report["redundancy"]["findings"].to_string();
    assert!(told.contains("drive 0 of pool `main`") && told.contains("out of date"), "{told}");
    let (status, report, gone) = site.salvage(&[0, 1, 2], "saved");
    assert_eq!((status, gone), (WHOLE, 0), "{report}");
}
