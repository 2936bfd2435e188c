//! The two system clocks, as nanoseconds, and a pause of the whole thread.

use std::time::Duration;

/// Nanoseconds since an origin, of what may lie before it or beyond what fits: the nearest that fits.
pub(crate) fn clamped_nanos(nanos: i128) -> u64 {
    nanos.clamp(0, i128::from(u64::MAX)) as u64
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; the clock ids used exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    // A wall clock may have been set to before 1970.
    clamped_nanos(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec))
}

pub(crate) fn monotonic_nanos() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

pub(crate) fn unix_nanos() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Stops this thread for about so long; a signal may end it early. For a driver that can do nothing else, and
/// for threads beside the shard: a task waits with a timer.
pub(crate) fn pause(duration: Duration) {
    assert!(duration < Duration::from_secs(1), "a shard does nothing meanwhile: {duration:?}");
    let nanos = libc::c_long::from(duration.subsec_nanos().cast_signed());
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanos };
    // SAFETY: `time` is a valid timespec to read; nobody asks for what was left.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}
