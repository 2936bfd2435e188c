//! What to do when the kernel refuses to enter the shard's ring: try again, pause first, or stop for good.
//!
//! The decision is a pure function, so that it is tested without a kernel that is short of memory. The
//! requests in the queue stay there when the kernel refuses, so trying again loses nothing.

use std::time::Duration;

/// What follows a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It was no refusal: a signal came, or the deadline passed.
    Again,
    /// The kernel is short of something: give it this long to find it, then try again.
    Pause(Duration),
    /// No later try can succeed: the ring is not one, or not ours.
    Stop,
}

/// The first pause; each further refusal in a row doubles it. A page that is written back, which is what
/// memory pressure waits for, takes about as long.
const PAUSE_MIN: Duration = Duration::from_micros(100);
/// The longest pause. A host does not notice it beside what made the kernel refuse, and fifty tries a
/// second cost nothing.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Doublings that lead from the first pause beyond the longest.
const DOUBLINGS_MAX: u32 = 8;
const _: () = assert!(PAUSE_MIN.as_micros() << DOUBLINGS_MAX >= PAUSE_MAX.as_micros());

/// What follows the error number of entering the ring, after this many refusals in a row before it.
///
/// Numbers that say "never" are listed, all others pass: a kernel may invent a new one for a shortage, and a
/// shard that stops takes its pools with it, while one that waits can still be stopped.
pub(crate) fn answer(errno: i32, refusals: u32) -> Answer {
    match errno {
        libc::EINTR | libc::ETIME => Answer::Again,
        // io_uring_enter(2): not a ring, not open, not enabled, not from this thread, or bad arguments.
        libc::EBADF
        | libc::EBADFD
        | libc::EEXIST
        | libc::EFAULT
        | libc::EINVAL
        | libc::ENXIO
        | libc::EOPNOTSUPP
        | libc::ENOSYS
        | libc::EACCES
        | libc::EPERM
        | libc::EOWNERDEAD => Answer::Stop,
        _ => Answer::Pause((PAUSE_MIN * (1 << refusals.min(DOUBLINGS_MAX))).min(PAUSE_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_short_of_memory_is_asked_again_after_a_pause() {
        for errno in [libc::ENOMEM, libc::EAGAIN, libc::EBUSY, libc::ENOBUFS, libc::ENFILE] {
            assert_eq!(answer(errno, 0), Answer::Pause(PAUSE_MIN), "error {errno}");
        }
    }

    #[test]
    fn pauses_grow_and_end_at_the_longest() {
        let pauses: Vec<_> = (0..1000).map(|refusals| answer(libc::ENOMEM, refusals)).collect();
        assert!(pauses.is_sorted_by(|left, right| match (left, right) {
            (Answer::Pause(left), Answer::Pause(right)) => left <= right,
            _ => false,
        }));
        assert_eq!(pauses.last(), Some(&Answer::Pause(PAUSE_MAX)));
        assert_eq!(answer(libc::ENOMEM, u32::MAX), Answer::Pause(PAUSE_MAX));
    }

    #[test]
    fn signals_and_deadlines_are_no_refusals() {
        assert_eq!(answer(libc::EINTR, 7), Answer::Again);
        assert_eq!(answer(libc::ETIME, 7), Answer::Again);
    }

    #[test]
    fn only_what_can_never_pass_stops_the_shard() {
        for errno in [libc::EBADF, libc::EBADFD, libc::EEXIST, libc::EFAULT, libc::EINVAL, libc::ENXIO] {
            assert_eq!(answer(errno, 0), Answer::Stop, "error {errno}");
        }
        // A number no kernel has today.
        assert_eq!(answer(4000, 0), Answer::Pause(PAUSE_MIN));
    }
}
