//! The stop: goes through all of it whatever fails or hangs, and says what it did not wait for.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Service;

// Longer than each takes on a busy machine, and in sum less than the unit gives a stop (TimeoutStopSec). What
// is cut short loses nothing that was acknowledged: the next start replays the journal.
const CHANGE_MAX: Duration = Duration::from_secs(30);
/// A last checkpoint takes its time.
const DATABASES_MAX: Duration = Duration::from_secs(120);
/// A `mkfs` of a large volume.
const ATTACH_MAX: Duration = Duration::from_secs(60);
const DETACH_MAX: Duration = Duration::from_secs(120);
const TELL_MAX: Duration = Duration::from_secs(5);
const DOORS_MAX: Duration = Duration::from_secs(20);
const AGES_MAX: Duration = Duration::from_secs(5);
const POOLS_MAX: Duration = Duration::from_secs(90);
const SHARD_MAX: Duration = Duration::from_secs(10);

impl Service {
    /// Lets work on databases come to its end, stops them unless another program goes on, then the doors,
    /// closes every pool, ends the data shard. What is attached is left to the keeper where it may and can
    /// be, else detached first. Goes through all of it whatever fails; true when nothing did.
    pub(crate) async fn stop(&self, may_leave: bool, goes_on: bool) -> bool {
        self.is_stopping.store(true, Ordering::Release);
        self.figures.end();
        // Hosts are to have their answers before doors close, whatever their volumes' rates are.
        self.array.hurry().await;
        // Before the turn is taken: that work changes volumes.
        self.at_most("work on databases", DATABASES_MAX, self.finish_databases()).await;
        self.is_closed.store(true, Ordering::Release);
        let turn = self.at_most("a change that is under way", CHANGE_MAX, self.changes.lock()).await;
        let mut is_clean = turn.is_some();
        if !goes_on {
            self.at_most("stopping databases", DATABASES_MAX, self.stop_databases()).await;
        }
        self.at_most("a volume that is being attached or detached", ATTACH_MAX, self.finish_attaching())
            .await;
        let is_left = !self.attachments().is_empty() && self.keeping.is_keeping() && may_leave;
        if is_left {
            self.keeping.leave();
            self.tell_left();
        } else {
            is_clean &= self.at_most("detaching volumes", DETACH_MAX, self.detach_all()).await == Some(true);
            self.at_most("looking for users", TELL_MAX, self.tell_users()).await;
        }
        let doors = self.doors.stop(&self.array, is_left, &self.log);
        is_clean &= self.at_most("closing the doors", DOORS_MAX, doors).await == Some(true);
        if !is_left {
            self.keeping.forget();
        }
        // Without it charts lack their last minute.
        if let Some(Some(why)) = self.at_most("keeping charts", AGES_MAX, self.keep_all_figures()).await {
            self.log.warning("array", format!("charts lack their last minute: {why}"));
        }
        // Without it deleted volumes are only kept longer.
        self.at_most("noting how old deleted volumes are", AGES_MAX, self.store_ages()).await;
        is_clean &= self.at_most("closing pools", POOLS_MAX, self.close_pools()).await == Some(true);
        self.store_wear_or_tell();
        self.store_uses();
        is_clean &= self.at_most("ending the data shard", SHARD_MAX, self.array.stop()).await.is_some();
        is_clean
    }

    /// Work that may hang for what this array has no hand in: a drive, a mount, another program.
    async fn at_most<T>(&self, what: &str, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let done = tokio::time::timeout(limit, work).await.ok();
        if done.is_none() {
            let seconds = limit.as_secs();
            self.log
                .error("array", format!("{what} takes longer than {seconds} s: the stop goes on without"));
        }
        done
    }

    async fn close_pools(&self) -> bool {
        let mut is_clean = true;
        for pool in self.open_pools() {
            match self.pool_close(&pool).await {
                Ok(()) => self.log.info(format!("pool {pool}"), "closed"),
                Err(error) => {
                    is_clean = false;
                    self.log.error(format!("pool {pool}"), format!("close: {error}"));
                }
            }
        }
        is_clean
    }
}
