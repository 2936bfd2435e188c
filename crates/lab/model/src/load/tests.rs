//! Loads: what does not fit is refused, and what is counted agrees.

use super::*;
use crate::Kind;
use crate::array::spec::Spec;

fn array() -> Array {
    Array::new(Spec::parse("sim-hdd:drives=1,raid=0").unwrap(), 1).unwrap()
}

fn span(warmup_millis: u64, measured_millis: u64) -> Span {
    let [warmup, measured] = [warmup_millis, measured_millis].map(Duration::from_millis);
    Span { warmup, measured }
}

fn users(count: u32) -> Users {
    Users { count, other_time: Duration::ZERO }
}

#[test]
fn what_does_not_fit_the_array_is_refused() {
    let mix = Mix::random_reads(4096, 1 << 30);
    let error = |mix: Mix| closed_loop(&mut array(), &mix, users(1), span(0, 1), 1).unwrap_err().to_string();
    assert!(error(Mix { region_bytes: 1 << 50, ..mix }).starts_with("the region ends at 1125899906842624"));
    assert!(error(Mix { region_bytes: 4095, ..mix }).starts_with("no block of 4096 bytes"));
    assert!(error(Mix { block_bytes: 0, ..mix }).starts_with("no block of 0 bytes"));
    assert!(error(Mix { read_share: 1.1, ..mix }).starts_with("a read share of 1.1"));
    let no_time = closed_loop(&mut array(), &mix, users(1), span(1, 0), 1).unwrap_err();
    assert_eq!(no_time.to_string(), "a measured span of no time");
    assert!(open_loop(&mut array(), &mix, 0.0, span(0, 1), 1).is_err());
}

#[test]
fn the_next_load_finds_an_idle_array_and_goes_on_in_time() {
    let mut array = array();
    let mix = Mix::random_reads(4096, 1 << 30);
    let first = closed_loop(&mut array, &mix, users(8), span(100, 1000), 1).unwrap();
    assert_eq!((array.under_way(), first.queue_mean), (0, 8.0));
    let then = array.now();
    assert!(then >= Duration::from_millis(1100));
    let second = open_loop(&mut array, &mix, 100.0, span(100, 1000), 1).unwrap();
    assert!(array.now() >= then + Duration::from_millis(1000));
    assert!(second.requests > 50 && second.queue_mean < 3.0, "{}", second.queue_mean);
}

#[test]
fn a_trace_is_counted_to_its_last_answer() {
    let mut array = array();
    let timed = |millis, kind, offset_bytes| Timed {
        at: Duration::from_millis(millis),
        request: Request { kind, offset_bytes, length_bytes: 8192 },
    };
    let trace = [timed(0, Kind::Read, 0), timed(0, Kind::Write, 1 << 30), timed(900, Kind::Read, 1 << 35)];
    let outcome = replay(&mut array, &trace).unwrap();
    assert_eq!((outcome.requests, outcome.bytes), (3, 3 * 8192));
    assert_eq!((outcome.reads.count(), outcome.writes.count()), (2, 1));
    assert!(outcome.measured > Duration::from_millis(900) && outcome.measured < Duration::from_millis(915));
    let mean = outcome.latencies().mean_nanos().unwrap() / 1e9;
    let queue = 3.0 * mean / outcome.measured.as_secs_f64();
    assert!((outcome.queue_mean - queue).abs() < 1e-6, "{} {queue}", outcome.queue_mean);
    assert_eq!(replay(&mut array, &[]).unwrap().per_second(), 0.0);
    assert!(replay(&mut array, &[trace[2], trace[0]]).unwrap_err().to_string().contains("order of time"));
    let outside = replay(&mut array, &[timed(0, Kind::Read, u64::MAX)]).unwrap_err();
    assert!(outside.to_string().starts_with("request 0 of the trace is outside"), "{outside}");
}

#[test]
fn sequential_requests_follow_each_other_and_begin_again() {
    let mix = Mix { order: mix::Order::Sequential, region_start_bytes: 100, ..Mix::random_reads(10, 35) };
    let mut source = Source::new(&mix, 1000, 1).unwrap();
    let offsets: Vec<u64> = (0..5).map(|_| source.next().offset_bytes).collect();
    assert_eq!(offsets, [100, 110, 120, 100, 110]);
}
