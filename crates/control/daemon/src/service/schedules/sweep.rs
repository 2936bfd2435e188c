//! What the rules do not keep is deleted, in turn and in batches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_schedule::Taken;

use super::super::Service;
use super::records::{Known, own_snapshots};
use crate::error::Result;
use crate::tag::Seen;

/// Deleted together: many take little longer than one.
const BATCH_MAX: usize = 512;
/// A batch waits until it is this part of what the rule keeps: each has the cleaner go through the pool anew.
const BATCH_PART: usize = 50;
/// But no longer than this. Arbitrary.
const BATCH_WAIT_MAX: Duration = Duration::from_secs(60);

impl Service {
    /// Goes through all schedules once.
    pub(super) async fn sweep(self: Arc<Self>, all: Vec<Known>) {
        let Ok(snapshots) = self.snapshots().await else { return };
        for known in all.iter().filter(|known| !known.record.is_paused) {
            let own = own_snapshots(known, &snapshots);
            let taken: Vec<Taken> = own.into_iter().map(taken).collect();
            let gone = known.record.keep.expired(&taken);
            let swept = self.schedules.with(&known.record, |mind| mind.swept);
            if !is_worth_it(gone.len(), known.record.keep.count_max(), swept.map(|at| at.elapsed())) {
                continue;
            }
            // Somebody holds one in this moment, or the pool takes no changes: the next time shows.
            if self.delete_unused(known, gone, false).await.is_ok_and(|count| count > 0) {
                self.schedules.with(&known.record, |mind| mind.swept = Some(Instant::now()));
            }
        }
    }

    /// Deletes those of these snapshots that nobody uses and no clone is reset to, the oldest first; how
    /// many.
    pub(super) async fn delete_unused(
        &self,
        known: &Known,
        names: Vec<String>,
        is_told: bool,
    ) -> Result<usize> {
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let snapshot_of = |image: &str| image.split_once('@').map(|(_, snapshot)| snapshot.to_string());
        let users =
            self.users(|image| snapshot_of(image).is_some_and(|name| wanted.contains(&name[..]))).await?;
        let mut used: BTreeMap<String, String> = BTreeMap::new();
        for user in &users {
            if let Some(snapshot) = snapshot_of(&user.volume) {
                used.entry(snapshot).or_insert_with(|| user.who.clone());
            }
        }
        let needed = self.needed_snapshots().await?.into_iter();
        let needed = needed.filter(|(snapshot, _)| wanted.contains(&snapshot[..]));
        used.extend(needed.map(|(snapshot, clone)| (snapshot, format!("database {clone} is reset to it"))));
        self.tell_used(known, &used);
        let free: Vec<String> = names.into_iter().filter(|name| !used.contains_key(name)).collect();
        let mut count = 0;
        for batch in free.chunks(BATCH_MAX) {
            let request = api::SnapshotsDelete { names: batch.to_vec(), force: false };
            self.snapshots_remove(request, is_told, &Seen::Unsaid).await?;
            count += batch.len();
        }
        Ok(count)
    }

    /// Each is told once while it is used.
    fn tell_used(&self, known: &Known, used: &BTreeMap<String, String>) {
        let names = used.keys().cloned().collect();
        let before = self.schedules.with(&known.record, |mind| std::mem::replace(&mut mind.used, names));
        for (name, who) in used.iter().filter(|(name, _)| !before.contains(*name)) {
            let what = format!("snapshot {name} is not kept any more, and stays while it is used: {who}");
            self.log.info(format!("schedule {}", known.record.name), what);
        }
    }
}

fn taken(snapshot: &api::Snapshot) -> Taken {
    Taken {
        name: snapshot.name.clone(),
        unix_seconds: snapshot.created_unix_seconds,
        is_held: snapshot.hold.is_some(),
    }
}

/// Whether so many are worth a batch, where the rule keeps so many and the last batch is so long ago.
fn is_worth_it(gone: usize, kept: usize, since: Option<Duration>) -> bool {
    let is_late = since.is_none_or(|since| since >= BATCH_WAIT_MAX);
    gone > 0 && (is_late || gone >= kept / BATCH_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_deleted_together_and_few_at_once() {
        let second = Some(Duration::from_secs(1));
        assert!(is_worth_it(1, 35, second), "a schedule of hours");
        assert!(!is_worth_it(5, 3624, second) && is_worth_it(73, 3624, second), "one of seconds");
        assert!(is_worth_it(5, 3624, Some(BATCH_WAIT_MAX)) && is_worth_it(1, 3624, None));
        assert!(!is_worth_it(0, 35, None));
    }
}
