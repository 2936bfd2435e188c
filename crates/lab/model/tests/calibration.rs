//! The rows of the design's section 6.6: what its prototype gave, and what the papers imply.
//!
//! The prototype's region was a share of the stroke; ours is bytes, and the outer zones hold more of them on
//! a track. So the same bytes are a shorter way here, and all rates a little higher: 25 of 300 GB of the 10K
//! drive are 8.3 % of the bytes and 6.4 % of the stroke. Where a row is meant by stroke, it is tried so too.

use std::time::Duration;

use ashlar_model::array::Array;
use ashlar_model::array::spec::Spec;
use ashlar_model::load::mix::Mix;
use ashlar_model::load::{Outcome, Span, Users, closed_loop};

fn run(address: &str, mix: &Mix, count: u32, other_time: Duration, measured: Duration) -> Outcome {
    let spec = Spec::parse(address).expect(address);
    let mut array = Array::new(spec, 1).expect(address);
    let span = Span { warmup: measured / 3, measured };
    closed_loop(&mut array, mix, Users { count, other_time }, span, 7).expect(address)
}

#[track_caller]
fn assert_within(value: f64, target: f64, percent: f64) {
    let off = (value / target - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{value:.1} is {off:+.1} % off {target}, allowed are {percent} %");
}

fn gigabytes(count: f64) -> u64 {
    (count * 1e9) as u64
}

/// Over 40 s there are 8,000 reads or more with a deviation of about a third of their mean: 0.4 % of it.
/// Region by bytes: 10 % of them are 8.8 % of the stroke, which is worth 2 %.
#[test]
fn one_15k_drive_does_200_reads_and_more_over_a_short_stroke() {
    let rate = |region: u64| {
        let mix = Mix::random_reads(4096, region);
        run("sim-hdd:drives=1,raid=0", &mix, 1, Duration::ZERO, Duration::from_secs(40)).per_second()
    };
    assert_within(rate(gigabytes(299.9)), 200.0, 2.0);
    assert_within(rate(gigabytes(30.0)), 324.0, 3.5);
    assert_within(rate(gigabytes(18.0)), 344.0, 3.5);
    // 10 % and 6 % of the stroke.
    assert_within(rate(gigabytes(34.0)), 324.0, 2.0);
    assert_within(rate(gigabytes(20.5)), 344.0, 2.0);
}

const FUJITSU: [(usize, f64); 6] =
    [(1, 461.0), (2, 616.0), (3, 725.0), (4, 803.0), (8, 1013.0), (32, 1470.0)];

fn fujitsu(window: usize, region: u64) -> f64 {
    let address = format!("sim-hdd:drives=2,raid=1,model=10k-300g,window={window}");
    let mix = Mix::random_reads(4096, region);
    run(&address, &mix, 64, Duration::ZERO, Duration::from_secs(12)).per_second()
}

/// The paper's 25 GB file: the prototype's rates within 12 %, and the default window where the paper points.
#[test]
fn fujitsu_s_mirror_does_what_the_paper_implies() {
    for (window, target) in FUJITSU {
        let rate = fujitsu(window, gigabytes(25.0));
        assert_within(rate, target, 12.0);
        if window == Spec::default().window {
            assert!((520.0..=700.0).contains(&rate), "{rate}");
        }
    }
}

/// By stroke, as in the prototype: 8.3 % of it are 32.2 GB. What is left is probably the overhead, which goes
/// on beside the drive here. A window of 32 depends on the limit of passing over, which was chosen with it in
/// sight: with ten times the limit it is 6 % more.
#[test]
fn fujitsu_s_mirror_does_what_the_prototype_did_over_the_same_stroke() {
    for (window, target) in FUJITSU {
        assert_within(fujitsu(window, gigabytes(32.2)), target, 5.0);
    }
}

/// An array and twice the drives under the same users.
struct Doubled {
    throughput: f64,
    latency: f64,
    /// Of a flash array with a tenth of the small array's latency: arithmetic, no model.
    flash: f64,
}

/// Dell's users on both arrays. Their other time is a share of the small array's latency, which depends on it
/// in turn: three rounds bring it within a percent. 2 TB of data on 115 drives, or as much for each of fewer.
fn dell(drives: u32, users: u32, window: usize, other_share: f64) -> Doubled {
    let mix = Mix {
        read_share: READ_SHARE,
        ..Mix::random_reads(8192, 2_000_000_000_000 / 115 * u64::from(drives))
    };
    // As many requests for arrays of any size.
    let measured = Duration::from_secs_f64(45.0 / f64::from(drives));
    let latency = |outcome: &Outcome| outcome.latencies().mean_nanos().expect("there are some") / 1e9;
    let run = |drives: u32, other: f64, measured| {
        let address = format!("sim-hdd:drives={drives},window={window}");
        run(&address, &mix, users, Duration::from_secs_f64(other), measured)
    };
    let mut other = 0.003;
    for _ in 0..3 {
        other = other_share * latency(&run(drives, other, measured / 3));
    }
    let small = run(drives, other, measured);
    let large = run(2 * drives, other, measured);
    let before = latency(&small);
    Doubled {
        throughput: large.per_second() / small.per_second(),
        latency: latency(&large) / before,
        flash: (before + other) / (before / 10.0 + other),
    }
}

/// The paper does not tell the read share. Reads alone give the prototype's rows.
const READ_SHARE: f64 = 1.0;

/// The other time's share of the small array's latency, smallest and largest, that fit the flash result.
const OTHER_SHARES: [f64; 2] = [0.41, 0.32];

/// The window decides by how much twice the drives help. The margin is 0.03 for the runs' own spread (some
/// 15,000 requests) and for the regions' shorter stroke. For a window of 16 the prototype's rows disagree:
/// 1.31 to 1.35 in one, 1.35 to 1.41 in the next. The queue of a drive is about four long here, so a window
/// of 16 can hardly differ from one of 4, and we give 1.37 to 1.40.
///
/// The latency falls by 54 % with a window of 1, which is as near as it comes to the paper's 64 %.
#[test]
fn dell_s_ratio_of_twice_the_drives_falls_with_the_window() {
    for (window, low, high) in [(1, 1.63, 1.68), (2, 1.51, 1.57), (4, 1.38, 1.42), (16, 1.35, 1.41)] {
        for (other_share, target) in OTHER_SHARES.into_iter().zip([low, high]) {
            let Doubled { throughput, latency, flash } = dell(115, 575, window, other_share);
            assert!((throughput - target).abs() < 0.03, "window {window}, {other_share}: {throughput:.3}");
            assert!((2.7..3.2).contains(&flash), "{flash:.2}");
            assert!(window > 1 || (latency - 0.46).abs() < 0.02, "{latency:.3}");
        }
    }
}

/// 36 users on 7 and 14 drives, as 575 on 115 and 230. Odd numbers of drives are mirrored by chunks. At a
/// window of 16 the prototype gave 1.36 to 1.40.
#[test]
fn dell_s_ratio_is_kept_at_a_sixteenth_of_the_size() {
    for window in [1, 16] {
        let other_share = OTHER_SHARES[1];
        let (full, scaled) = (dell(115, 575, window, other_share), dell(7, 36, window, other_share));
        let off = scaled.throughput / full.throughput - 1.0;
        assert!(off.abs() < 0.025, "window {window}: {:.3} {:.3}", scaled.throughput, full.throughput);
    }
}
