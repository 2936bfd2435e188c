//! Arrays as a host sees them: nothing lost, nothing too early, and the known effects of RAID and caches.

use std::collections::BTreeSet;
use std::time::Duration;

use ashlar_model::array::spec::Spec;
use ashlar_model::array::{Array, Counters, RequestId};
use ashlar_model::load::mix::{Mix, Order};
use ashlar_model::load::{Outcome, Span, Timed, Users, closed_loop, open_loop, replay};
use ashlar_model::{Kind, Request};

const GIB: u64 = 1 << 30;

fn array(settings: &str, seed: u64) -> Array {
    let spec = Spec::parse(&format!("sim-hdd:{settings}")).expect(settings);
    Array::new(spec, seed).expect(settings)
}

fn span(warmup_millis: u64, measured_millis: u64) -> Span {
    let [warmup, measured] = [warmup_millis, measured_millis].map(Duration::from_millis);
    Span { warmup, measured }
}

fn users(count: u32) -> Users {
    Users { count, other_time: Duration::ZERO }
}

/// Always so many under way for five seconds.
fn load(settings: &str, mix: &Mix, count: u32) -> (Outcome, Counters) {
    load_for(span(500, 5000), settings, mix, count)
}

fn load_for(span: Span, settings: &str, mix: &Mix, count: u32) -> (Outcome, Counters) {
    let mut array = array(settings, 1);
    let outcome = closed_loop(&mut array, mix, users(count), span, 1).expect(settings);
    (outcome, array.counters())
}

fn writes(block_bytes: u64, region_bytes: u64) -> Mix {
    Mix { read_share: 0.0, ..Mix::random_reads(block_bytes, region_bytes) }
}

fn sequential(read_share: f64, block_bytes: u64, region_start_bytes: u64) -> Mix {
    let order = Order::Sequential;
    Mix { read_share, block_bytes, order, region_start_bytes, region_bytes: 8 * GIB }
}

/// Arrays of every kind, with and without caches.
const ARRAYS: [&str; 8] = [
    "drives=1,raid=0,discipline=fcfs",
    "drives=3,raid=0,discipline=cscan,window=8",
    "drives=2,raid=1,model=10k-300g",
    "drives=7,raid=10,window=16",
    "drives=5,raid=5,model=7k2",
    "drives=6,raid=6,window=4",
    "drives=5,raid=5,write_cache=4MiB,read_cache=16MiB",
    "drives=4,raid=10,flash=64MiB,flash_admit=second,write_cache=1MiB",
];

/// Requests of all sizes and both kinds, in bursts and pauses, some of them at the same places.
fn requests(capacity: u64, count: u64) -> Vec<Timed> {
    // Knuth's generator: the model's own is private.
    let mut state = 12345_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 16) % below
    };
    let mut at = Duration::ZERO;
    let mut trace = Vec::new();
    for index in 0..count {
        if next(4) == 0 {
            at += Duration::from_micros(next(20_000));
        }
        let region = if next(3) == 0 { 8 << 20 } else { capacity / 2 };
        let length_bytes = if next(10) == 0 { 1 + next(2 << 20) } else { 512 * (1 + next(32)) };
        let kind = if next(2) == 0 { Kind::Read } else { Kind::Write };
        let offset_bytes = if index % 16 == 0 { 0 } else { next(region) };
        trace.push(Timed { at, request: Request { kind, offset_bytes, length_bytes } });
    }
    trace
}

/// The room that delays a volume may keep its array on another thread.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Array>();
};

/// Submits a trace and collects when each request was done, looking at the array every `tick`, or at every
/// event.
fn answers(array: &mut Array, trace: &[Timed], tick: Option<Duration>) -> Vec<(RequestId, Duration)> {
    let mut done = Vec::new();
    let mut take = |array: &mut Array, to: Duration| {
        done.extend(array.advance(to).into_iter().map(|completion| (completion.id, completion.at)));
    };
    for timed in trace {
        while let Some(next) = array.next_event().filter(|next| *next <= timed.at) {
            take(array, tick.map_or(next, |tick| (next + tick).min(timed.at)));
        }
        array.submit(timed.at, timed.request);
    }
    while array.under_way() > 0 {
        let next = array.next_event().expect("something is under way");
        take(array, next + tick.unwrap_or_default());
    }
    take(array, array.now());
    done
}

#[test]
fn every_request_is_completed_once_and_in_order_of_time() {
    for settings in ARRAYS {
        let mut array = array(settings, 3);
        let trace = requests(array.capacity_bytes(), 2000);
        let done = answers(&mut array, &trace, None);
        assert_eq!(done.len(), trace.len(), "{settings}");
        let ids: BTreeSet<RequestId> = done.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids.len(), trace.len(), "{settings}");
        assert!(done.is_sorted_by_key(|(_, at)| *at), "{settings}");
        let counters = array.counters();
        assert_eq!(counters.host_reads + counters.host_writes, 2000);
        assert!(counters.drives_busy <= array.now() * array.spec().drives as u32);
    }
}

#[test]
fn the_same_seed_gives_the_same_answers_and_another_one_others() {
    for settings in ARRAYS {
        let trace = requests(array(settings, 1).capacity_bytes(), 500);
        let answers = |seed| answers(&mut array(settings, seed), &trace, None);
        assert_eq!(answers(1), answers(1), "{settings}");
        assert_ne!(answers(1), answers(2), "{settings}");
    }
}

/// A volume that delays looks only so often; the times are the model's all the same.
#[test]
fn a_caller_that_comes_late_gets_the_same_times() {
    for settings in ARRAYS {
        let trace = requests(array(settings, 1).capacity_bytes(), 500);
        let exact = answers(&mut array(settings, 1), &trace, None);
        let late = answers(&mut array(settings, 1), &trace, Some(Duration::from_micros(350)));
        assert_eq!(exact, late, "{settings}");
        let lazy = answers(&mut array(settings, 1), &trace, Some(Duration::from_secs(1)));
        assert_eq!(exact, lazy, "{settings}");
    }
}

/// Nothing is faster than the controller's overhead and the interface; and a place on the platter comes once
/// a turn: over and over, it is written at most 250 times a second at 15,000 turns a minute.
#[test]
fn nothing_is_done_before_it_can_be() {
    for settings in ARRAYS.iter().filter(|settings| !settings.contains("cache")) {
        let mut array = array(settings, 5);
        let trace = requests(array.capacity_bytes(), 1000);
        let drives = array.spec().drives as f64;
        let overhead = array.spec().overhead;
        for (id, at) in answers(&mut array, &trace, None) {
            let Timed { at: began, request } = trace[id.0 as usize];
            let seconds = request.length_bytes as f64 / 600e6 / drives;
            let is_hit = settings.contains("flash") && request.kind == Kind::Read;
            let fastest = if is_hit { Duration::from_micros(100) } else { overhead };
            assert!(
                at >= began + fastest + Duration::from_secs_f64(seconds * 0.999),
                "{settings} {request:?}"
            );
        }
    }
    let same_place = Mix { read_share: 0.0, ..Mix::random_reads(4096, 4096) };
    for count in [1, 4] {
        let (outcome, _) = load("drives=1,raid=0", &same_place, count);
        let rate = outcome.per_second();
        assert!((249.0..=250.1).contains(&rate), "{count}: {rate}");
    }
}

/// Khinchine and Pollaczek: with arrivals by chance the mean wait is a sum over the services alone. Services
/// are measured one at a time, the wait in the open loop; nothing in the machine knows the formula.
#[test]
fn the_wait_at_half_load_is_what_queueing_theory_says() {
    let mix = Mix::random_reads(4096, 200 * GIB);
    let settings = "drives=1,raid=0,discipline=fcfs,overhead=0";
    let alone = closed_loop(&mut array(settings, 1), &mix, users(1), span(0, 100_000), 1).expect("fits");
    let (mut sum, mut squares) = (0.0, 0.0);
    for (nanos, count) in alone.reads.bins() {
        let (service, count) = (nanos as f64 / 1e9, count as f64);
        sum += service * count;
        squares += service * service * count;
    }
    let count = alone.reads.count() as f64;
    let (service, square) = (sum / count, squares / count);
    let rate = 0.5 / service;
    let open = open_loop(&mut array(settings, 2), &mix, rate, span(1000, 400_000), 3).expect("fits");
    let wait = open.reads.mean_nanos().expect("some") / 1e9 - service;
    let expected = rate * square / (2.0 * 0.5);
    assert!((wait / expected - 1.0).abs() < 0.05, "{wait} {expected}");
    assert!((open.per_second() / rate - 1.0).abs() < 0.02);
}

/// N = X x R, of the queue added up over time, the throughput and the latencies; and with the users' other
/// time, which is drawn, N = X x (R + Z).
#[test]
fn little_s_law_holds_within_a_percent() {
    let mix = Mix { read_share: 0.7, ..Mix::random_reads(8192, 50 * GIB) };
    for settings in ["drives=8", "drives=5,raid=5", "drives=4,write_cache=8MiB", "drives=2,flash=1GiB"] {
        let loop_users = Users { count: 40, other_time: Duration::from_millis(12) };
        let outcome =
            closed_loop(&mut array(settings, 1), &mix, loop_users, span(3000, 40_000), 1).expect(settings);
        let latency = outcome.latencies().mean_nanos().expect("some") / 1e9;
        let queue = outcome.per_second() * latency;
        assert!((outcome.queue_mean / queue - 1.0).abs() < 0.01, "{settings}: {queue}");
        let all = outcome.per_second() * (latency + 0.012);
        assert!((all / 40.0 - 1.0).abs() < 0.01, "{settings}: {all}");
    }
}

/// 202 MB/s at the outer edge and 152 at the inner one: with one request under way thanks to the drive's
/// reading on, and with more by their order. Writes have no buffer: alone, each waits for the next turn.
#[test]
fn sequential_reads_reach_the_zone_s_transfer_rate() {
    let rate = |mix: &Mix, count| load("drives=1,raid=0", mix, count).0.bytes_per_second() / 1e6;
    let inner = 290_000_000_000;
    for count in [1, 2, 8] {
        let (outer, inner) =
            (rate(&sequential(1.0, 65_536, 0), count), rate(&sequential(1.0, 65_536, inner), count));
        assert!((outer / 202.0 - 1.0).abs() < 0.01, "{count}: {outer}");
        assert!((inner / 152.0 - 1.0).abs() < 0.01, "{count}: {inner}");
    }
    let written = rate(&sequential(0.0, 65_536, 0), 4);
    assert!((written / 202.0 - 1.0).abs() < 0.01, "{written}");
    let alone = rate(&sequential(0.0, 65_536, 0), 1);
    assert!((alone / (65_536.0 / 4.3) * 1e3 - 1.0).abs() < 0.05, "{alone}");
    let striped = load("drives=4,raid=0", &sequential(1.0, 1 << 20, 0), 4).0.bytes_per_second() / 1e6;
    assert!(striped > 3.0 * 202.0, "{striped}");
}

#[test]
fn reordering_pays_at_depth_and_not_without_a_queue() {
    let mix = Mix::random_reads(4096, 100 * GIB);
    let rate =
        |settings: &str, count| load(&format!("drives=1,raid=0,{settings}"), &mix, count).0.per_second();
    let fcfs = rate("discipline=fcfs", 32);
    let (sweep, sptf) = (rate("discipline=cscan,window=16", 32), rate("window=16", 32));
    assert!(sweep > 1.15 * fcfs && sptf > 1.4 * sweep, "{fcfs} {sweep} {sptf}");
    assert_eq!(rate("discipline=fcfs", 1), rate("window=16", 1));
    assert_eq!(fcfs, rate("window=1", 32));
}

/// Two accesses for a mirrored write, four for RAID 5, six for RAID 6; and about as much slower, but that the
/// write of each pair waits for its sector to come round again.
#[test]
fn small_writes_cost_what_raid_is_known_for() {
    let run = |settings: &str| {
        let (outcome, counters) = load(&format!("drives=8,{settings}"), &writes(4096, 100 * GIB), 64);
        let accesses = counters.drive_reads + counters.drive_writes;
        (outcome.per_second(), accesses as f64 / counters.host_writes as f64)
    };
    let (plain, of_plain) = run("raid=0");
    assert_eq!(of_plain, 1.0);
    for (settings, accesses) in [("raid=10", 2.0), ("raid=5", 4.0), ("raid=6", 6.0)] {
        let (rate, of_write) = run(settings);
        // A block of 4 KiB never crosses a chunk.
        assert!((of_write - accesses).abs() < 1e-9, "{settings}: {of_write}");
        let penalty = plain / rate;
        assert!((0.85..1.25).contains(&(penalty / accesses)), "{settings}: {penalty}");
    }
}

/// A row of five drives holds four chunks of data: 256 KiB. Written whole and in order it costs no read, and
/// runs at four drives' rate.
#[test]
fn whole_rows_are_written_without_reads_and_fast() {
    let (outcome, counters) = load("drives=5,raid=5", &sequential(0.0, 1 << 20, 0), 8);
    assert_eq!(counters.drive_reads, 0);
    assert_eq!(counters.drive_writes, counters.host_writes * 5);
    let rate = outcome.bytes_per_second() / 1e6;
    assert!(rate > 0.9 * 4.0 * 202.0 && rate < 4.0 * 203.0, "{rate}");
    let (partial, counters) = load("drives=5,raid=5", &sequential(0.0, 64 << 10, 0), 8);
    assert_eq!(counters.drive_reads, counters.drive_writes);
    assert!(partial.bytes_per_second() < outcome.bytes_per_second() / 4.0);
}

/// A parity update writes where it has just read: that place comes a turn later.
#[test]
fn a_parity_update_takes_a_turn_at_least() {
    let shortest = |settings: &str| {
        let (outcome, _) = load(settings, &writes(4096, 100 * GIB), 1);
        outcome.writes.bins().next().expect("some").0
    };
    assert!(shortest("drives=8,raid=5") > 4_070_000);
    assert!(shortest("drives=8,raid=6") > 4_070_000);
    assert!(shortest("drives=8,raid=10") < 4_070_000);
}

/// A read of 64 MiB keeps one drive of the pair at work for a third of a second. Small reads that come
/// meanwhile go to the other; taking turns, half of them would wait for the large one.
#[test]
fn the_shorter_queue_of_a_mirror_is_taken() {
    let read = |millis, offset_bytes, length_bytes| Timed {
        at: Duration::from_millis(millis),
        request: Request { kind: Kind::Read, offset_bytes, length_bytes },
    };
    let mut trace = vec![read(0, 0, 64 << 20)];
    trace.extend((1..=12).map(|index| read(index * 20, index * 997 % 100 * GIB, 4096)));
    let done = answers(&mut array("drives=2,raid=1", 1), &trace, None);
    assert_eq!(done.last().map(|(id, _)| id.0), Some(0), "the large one is the last");
    for (id, at) in &done[..12] {
        assert!(*at < trace[id.0 as usize].at + Duration::from_millis(15), "{id:?} {at:?}");
    }
}

/// 8 MiB take 2,048 blocks. A burst of 1,500 is answered at the controller's pace; a load that does not end
/// is held up by the drives, which gain only by the order of addresses.
#[test]
fn the_write_cache_absorbs_a_burst_and_is_then_limited_by_the_drives() {
    let settings = "drives=8,write_cache=8MiB";
    let mut array = array(settings, 1);
    let mix = writes(4096, 100 * GIB);
    let trace: Vec<Timed> = (0..1500)
        .map(|index| Timed {
            at: Duration::from_micros(index * 10),
            request: Request {
                kind: Kind::Write,
                offset_bytes: index * 7_654_321 % 20_000 * 4096 * 1000,
                length_bytes: 4096,
            },
        })
        .collect();
    let burst = replay(&mut array, &trace).expect("fits");
    assert_eq!(burst.writes.max_nanos(), Some(70_000));
    assert_eq!(array.counters().writes_absorbed, 1500);
    assert_eq!(array.counters().drive_writes, 0, "below the high-water mark nothing is written");
    let long = closed_loop(&mut array, &mix, users(64), span(2000, 20_000), 1).expect("fits");
    assert!(array.write_cache_bytes_used() <= 8 << 20);
    assert!(array.counters().writes_delayed > 0);
    let without = load("drives=8", &mix, 64).0.per_second();
    let gain = long.per_second() / without;
    assert!((0.9..2.5).contains(&gain), "{gain}");
    // Little: 64 under way at the drives' rate.
    let mean = long.writes.mean_nanos().expect("some") / 1e9;
    assert!((mean * long.per_second() / 64.0 - 1.0).abs() < 0.01);
}

/// Writes over and over to the same 4 MiB go to the drives only once in a while; in order they leave as whole
/// rows.
#[test]
fn the_write_cache_joins_what_is_overwritten_and_what_is_in_order() {
    let settings = "drives=5,raid=5,write_cache=8MiB";
    let (hot, counters) = load_for(span(0, 500), settings, &writes(4096, 4 << 20), 4);
    assert_eq!(hot.writes.max_nanos(), Some(70_000));
    assert_eq!(counters.drive_writes, 0, "half of the cache is below the mark");
    assert_eq!(counters.overwritten_blocks, counters.host_writes - 1024);
    let settings = "drives=5,raid=5,write_cache=32MiB";
    let (ordered, counters) = load(settings, &sequential(0.0, 8192, 0), 16);
    assert!(counters.drive_reads * 100 < counters.drive_writes, "{counters:?}");
    assert!(ordered.bytes_per_second() > 2.0 * 202e6, "{}", ordered.bytes_per_second());
}

#[test]
fn the_read_cache_answers_what_was_read_or_written_lately() {
    let mix = Mix::random_reads(8192, 16 << 20);
    let share_of_hits = |settings: &str| {
        let mut array = array(settings, 1);
        let mut pass = || {
            let before = array.counters();
            let outcome = closed_loop(&mut array, &mix, users(8), span(0, 1500), 1).expect("fits");
            let after = array.counters();
            let (hits, reads) =
                (after.read_cache_hits - before.read_cache_hits, after.host_reads - before.host_reads);
            (hits as f64 / reads as f64, outcome)
        };
        pass();
        pass()
    };
    let (share, outcome) = share_of_hits("drives=4,read_cache=32MiB");
    assert_eq!((share, outcome.reads.max_nanos()), (1.0, Some(70_000)));
    let (share, _) = share_of_hits("drives=4,read_cache=8MiB");
    assert!((share - 0.5).abs() < 0.03, "half of the region is in it: {share}");
    let mut array = array("drives=4,write_cache=8MiB", 1);
    let request = |kind| Request { kind, offset_bytes: 0, length_bytes: 4096 };
    let timed = |millis, kind| Timed { at: Duration::from_millis(millis), request: request(kind) };
    let outcome = replay(&mut array, &[timed(0, Kind::Write), timed(1, Kind::Read)]).expect("fits");
    assert_eq!(outcome.reads.max_nanos(), Some(70_000), "out of the write cache");
}

/// A region as large as the cache, in passes: every pass finds more of it in the flash.
#[test]
fn the_flash_cache_s_hits_grow_until_it_is_warm() {
    let region = 16 << 20;
    let mix = Mix::random_reads(8192, region);
    let mut array = array("drives=2,model=10k-300g,raid=1,flash=16MiB", 1);
    let mut shares = Vec::new();
    let mut rates = Vec::new();
    let mut before = array.counters();
    for pass in 0..4 {
        let outcome = closed_loop(&mut array, &mix, users(16), span(0, 2000), pass).expect("fits");
        let after = array.counters();
        let hits = after.flash_hits - before.flash_hits;
        let misses = after.flash_misses - before.flash_misses;
        shares.push(hits as f64 / (hits + misses) as f64);
        rates.push(outcome.per_second());
        before = after;
    }
    assert!(shares.is_sorted() && shares[0] < 0.8 && shares[3] > 0.99, "{shares:?}");
    assert!(rates[3] > 5.0 * rates[0], "{rates:?}");
    // 100 us of latency and 8.2 of transfer, which all hits share.
    let warm = closed_loop(&mut array, &mix, users(1), span(0, 1000), 9).expect("fits");
    assert_eq!(warm.reads.histogram().percentile(0.5).map(|nanos| nanos / 1000), Some(108));
}

/// One scan leaves nothing behind in a cache that admits on the second read; and writes never fill it.
#[test]
fn admission_on_the_second_read_keeps_a_scan_out() {
    let pass = |array: &mut Array, kind| {
        let before = array.counters().flash_hits;
        let trace: Vec<Timed> = (0..1000)
            .map(|index| Timed {
                at: Duration::from_millis(index),
                request: Request { kind, offset_bytes: index * 8192, length_bytes: 8192 },
            })
            .collect();
        replay(array, &trace).expect("fits");
        array.counters().flash_hits - before
    };
    let mut second = array("flash=16MiB,flash_admit=second", 1);
    let hits: Vec<u64> = (0..4).map(|_| pass(&mut second, Kind::Read)).collect();
    assert_eq!(hits, [0, 0, 1000, 1000]);
    let mut first = array("flash=16MiB", 1);
    assert_eq!(pass(&mut first, Kind::Write), 0);
    let hits: Vec<u64> = (0..2).map(|_| pass(&mut first, Kind::Read)).collect();
    assert_eq!(hits, [0, 1000]);
    let mut small = array("flash=1MiB", 1);
    let hits: Vec<u64> = (0..3).map(|_| pass(&mut small, Kind::Read)).collect();
    assert_eq!(hits, [0, 0, 0], "a loop larger than the cache never finds anything in it");
}

#[test]
fn an_open_loop_that_offers_too_much_is_told_so() {
    let mut array = array("drives=1,raid=0", 1);
    let mix = Mix::random_reads(4096, GIB);
    let error = open_loop(&mut array, &mix, 1e6, span(0, 10_000), 1).expect_err("a drive does 400");
    assert!(error.to_string().starts_with("250000 requests wait after 0.25"), "{error}");
}
