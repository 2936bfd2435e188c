//! The two system clocks, as nanoseconds.

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; the clock ids used exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

pub(crate) fn monotonic_nanos() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

pub(crate) fn unix_nanos() -> u64 {
    read(libc::CLOCK_REALTIME)
}
