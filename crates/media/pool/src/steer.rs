//! Steering round slow drives: a read that takes far longer than reads take here is given up, and the other
//! drives of the row are asked. One that is slow again and again is left alone, but for a try now and then.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use ashlar_drive::Drive;
use ashlar_runtime::{Buf, Runtime};

use crate::Pool;
use crate::stripes::Striping;

/// A read is never given up before: what flash may take when it collects garbage.
const PATIENCE_MIN: Duration = Duration::from_millis(10);
/// How many times as long as the drives take in the middle a read may take.
const PATIENCE_FACTOR: u64 = 8;

/// A drive that takes less is never slow.
const SLOW_MIN: Duration = Duration::from_millis(2);
/// How many times as long as the drives take in the middle a slow drive takes.
const SLOW_FACTOR: u64 = 4;
/// One in so many reads goes to a slow drive, to see whether it still is.
const TRY_EVERY: u64 = 32;

/// Reads after which the middle is looked at again.
const REVIEW_EVERY: u64 = 64;

/// How long the drives of a pool took lately.
#[derive(Default)]
pub(crate) struct Paces {
    /// By number.
    drives: RefCell<Vec<DrivePace>>,
    middle_nanos: Cell<u64>,
    reads: Cell<u64>,
}

#[derive(Clone, Copy, Default)]
struct DrivePace {
    /// A running mean over about eight reads; 0 before the first.
    recent_nanos: u64,
    /// Reads since it was last tried.
    left_alone: u64,
}

impl Paces {
    fn note(&self, drive: usize, took: Duration) {
        let mut drives = self.drives.borrow_mut();
        if drives.len() <= drive {
            drives.resize(drive + 1, DrivePace::default());
        }
        let took = (took.as_nanos() as u64).max(1);
        let before = drives[drive].recent_nanos;
        drives[drive].recent_nanos = if before == 0 { took } else { before - before / 8 + took / 8 };
        let reads = self.reads.replace(self.reads.get() + 1);
        if reads.is_multiple_of(REVIEW_EVERY) {
            let recent = drives.iter().map(|drive| drive.recent_nanos);
            let mut known: Vec<u64> = recent.filter(|nanos| *nanos > 0).collect();
            known.sort_unstable();
            self.middle_nanos.set(known[(known.len() - 1) / 2]);
        }
    }

    fn patience(&self) -> Duration {
        PATIENCE_MIN.max(Duration::from_nanos(self.middle_nanos.get() * PATIENCE_FACTOR))
    }

    /// Whether a drive is slow, and it is not its turn to be tried.
    fn is_left_alone(&self, drive: usize) -> bool {
        let mut drives = self.drives.borrow_mut();
        let Some(pace) = drives.get_mut(drive) else { return false };
        let slow = (self.middle_nanos.get() * SLOW_FACTOR).max(SLOW_MIN.as_nanos() as u64);
        if pace.recent_nanos <= slow {
            return false;
        }
        pace.left_alone = (pace.left_alone + 1) % TRY_EVERY;
        pace.left_alone != 0
    }
}

impl Pool {
    /// Reads from a drive; `None` when it fails, or lets its reader wait although the others can answer.
    pub(crate) async fn ask(
        &self,
        striping: &Striping,
        (index, drive): (usize, Rc<Drive>),
        address: u64,
        length: usize,
    ) -> Option<Buf> {
        let can_do_without = self.drives_out() < striping.parity;
        if can_do_without && striping.paces.is_left_alone(index) {
            drive.note_steered();
            return None;
        }
        let since = self.runtime().now();
        let read = drive.read(address, length);
        let answer = match can_do_without {
            true => within(self.runtime(), striping.paces.patience(), read).await,
            false => Some(read.await),
        };
        striping.paces.note(index, self.runtime().now().duration_since(since));
        match answer {
            Some(Ok(buffer)) => Some(buffer),
            Some(Err(error)) => {
                self.read_failed(index, &drive, &error);
                None
            }
            None => {
                drive.note_steered();
                None
            }
        }
    }
}

/// What a future gives, or `None` when it takes longer. The drive goes on with what nobody waits for.
async fn within<T>(runtime: &Runtime, patience: Duration, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut alarm) = (pin!(work), pin!(runtime.sleep(patience)));
    std::future::poll_fn(|context| {
        if let Poll::Ready(result) = work.as_mut().poll(context) {
            return Poll::Ready(Some(result));
        }
        alarm.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_is_slow_again_and_again_is_left_alone_but_for_a_try_now_and_then() {
        let paces = Paces::default();
        for _ in 0..64 {
            (0..4).for_each(|drive| paces.note(drive, Duration::from_micros(100)));
            paces.note(4, Duration::from_millis(20));
        }
        assert_eq!(paces.patience(), PATIENCE_MIN);
        assert!((0..4).all(|drive| !paces.is_left_alone(drive)));
        let tries = (0..1000).filter(|_| !paces.is_left_alone(4)).count();
        assert_eq!(tries, 1000 / TRY_EVERY as usize);
        // It is well again.
        for _ in 0..20 {
            paces.note(4, Duration::from_micros(100));
        }
        assert!((0..100).all(|_| !paces.is_left_alone(4)));
    }

    #[test]
    fn drives_that_are_all_slow_are_all_waited_for() {
        let paces = Paces::default();
        for _ in 0..64 {
            (0..5).for_each(|drive| paces.note(drive, Duration::from_millis(30)));
        }
        assert!((0..5).all(|drive| !paces.is_left_alone(drive)));
        assert!(paces.patience() > Duration::from_millis(200));
    }
}
