//! Snapshots taken while a database works, and what is in them: a clone of each is opened behind the run, its
//! database recovered, and everything asked of it that is asked of the database itself.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ashlar_fio::Second;
use ashlar_postgres::{Adoption, Places, Server, Session};
use ashlar_target::Copies;
use ashlar_workload::driver::{Observer, Phase};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The rate is compared over so many seconds before and behind a snapshot, or as many as there are.
const WINDOW_SECONDS: f64 = 10.0;
/// How often the thread that takes them looks at its clock.
const LOOK: Duration = Duration::from_millis(5);

/// A snapshot that was taken under load, and what was found in it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CopyFigures {
    /// Of the measured time.
    pub at_seconds: f64,
    /// What the host waited for it.
    pub took_nanos: u64,
    /// Transactions a second before it and behind it; absent at the edges of the measured time.
    pub per_second_before: Option<f64>,
    pub per_second_after: Option<f64>,
    /// From the snapshot to a mounted clone.
    pub open_nanos: u64,
    /// Until the database of the clone answered.
    pub recovery_nanos: u64,
    /// Acknowledged before the snapshot, looked for and found.
    pub acknowledged: u64,
    /// What does not hold in it, in sentences.
    pub offences: Vec<String>,
}

/// What a server promised by acknowledging it, and whatever else must hold.
pub(crate) trait Promises: Sync {
    /// The moment of a copy.
    type Mark: Copy + Send;

    /// Has something done that makes a copy, and answers its moment.
    fn mark_while<T>(&self, make: impl FnOnce() -> T) -> (Self::Mark, T);

    /// Asks all of it in a database, or in a copy of this moment.
    fn look(&self, session: &mut Session, mark: Self::Mark) -> Result<Kept>;
}

/// What was asked of a database or of a copy.
pub(crate) struct Kept {
    /// What does not hold, in sentences.
    pub(crate) offences: Vec<String>,
    /// Acknowledged, looked for, and found.
    pub(crate) acknowledged: u64,
}

/// A snapshot that nobody has looked into yet.
pub(crate) struct Taken<M> {
    name: String,
    at_seconds: f64,
    took: Duration,
    mark: M,
}

/// When the measured time began, told by whoever drives.
#[derive(Default)]
pub(crate) struct Clock(Mutex<Option<Instant>>);

/// The driver's observer that sets it.
pub(crate) struct Setting<'a>(pub(crate) &'a Clock);

impl Observer for Setting<'_> {
    fn began(&mut self, phase: Phase) {
        if phase == Phase::Measured {
            *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}

impl Clock {
    fn elapsed(&self) -> Option<Duration> {
        Some(self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.elapsed())
    }
}

/// Takes a snapshot at each of these times of the measured phase, until it is over.
pub(crate) fn take<P: Promises>(
    copies: &Copies,
    (name, times): (&str, &[Duration]),
    promises: &P,
    (clock, is_over): (&Clock, &AtomicBool),
) -> Result<Vec<Taken<P::Mark>>> {
    let mut taken = Vec::new();
    for (index, time) in times.iter().enumerate() {
        while clock.elapsed().is_none_or(|elapsed| elapsed < *time) {
            if is_over.load(Ordering::SeqCst) {
                return Ok(taken);
            }
            std::thread::sleep(LOOK);
        }
        let name = format!("{name}-{}", index + 1);
        let at_seconds = clock.elapsed().unwrap_or_default().as_secs_f64();
        let begun = Instant::now();
        let (mark, made) = promises.mark_while(|| copies.snapshot(&name));
        made.map_err(|refusal| Error::environment(refusal.to_string()))?;
        taken.push(Taken { name, at_seconds, took: begun.elapsed(), mark });
    }
    Ok(taken)
}

/// Opens a clone of each, lets its database recover, and asks everything of it. The clones and the snapshots
/// are removed.
pub(crate) fn look<P: Promises>(
    copies: &Copies,
    taken: Vec<Taken<P::Mark>>,
    (server, scratch): (&Server, &Path),
    promises: &P,
) -> Result<Vec<CopyFigures>> {
    let mut found = Vec::new();
    for one in taken {
        found.push(look_into(copies, &one, (server, scratch), promises)?);
        copies.delete(&one.name).map_err(|refusal| Error::environment(refusal.to_string()))?;
    }
    Ok(found)
}

fn look_into<P: Promises>(
    copies: &Copies,
    taken: &Taken<P::Mark>,
    (source, scratch): (&Server, &Path),
    promises: &P,
) -> Result<CopyFigures> {
    let begun = Instant::now();
    let opened = copies.open(&taken.name, &scratch.join("clone"));
    let opened = opened.map_err(|refusal| Error::environment(refusal.to_string()))?;
    let open = begun.elapsed();
    let places = source.places();
    let below = places.data.file_name().unwrap_or_default();
    let log_below = places.wal.as_deref().and_then(Path::file_name).unwrap_or_default();
    let places = Places {
        data: opened.directory.join(below),
        wal: opened.log.as_ref().map(|log| log.join(log_below)),
        tablespaces: Vec::new(),
        temporary: None,
        socket: scratch.join("clone-socket"),
        port: places.port,
    };
    let mut server = Server::new(source.installation(), places, source.settings().clone());
    server.adopt(&Adoption::default())?;
    let recovery = server.start()?;
    let mut session = server.session()?;
    let Kept { offences, acknowledged } = promises.look(&mut session, taken.mark)?;
    drop(session);
    server.stop()?;
    drop(server);
    drop(opened);
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Ok(CopyFigures {
        at_seconds: taken.at_seconds,
        took_nanos: nanos(taken.took),
        per_second_before: None,
        per_second_after: None,
        open_nanos: nanos(open),
        recovery_nanos: nanos(recovery),
        acknowledged,
        offences,
    })
}

/// The rates around each snapshot, from the course of the run: of whole seconds, back to the snapshot before
/// it and on to the one behind it.
pub(crate) fn rates(copies: &mut [CopyFigures], course: &[Second]) {
    let times: Vec<f64> = copies.iter().map(|copy| copy.at_seconds).collect();
    for (index, copy) in copies.iter_mut().enumerate() {
        let at = copy.at_seconds;
        let from = index.checked_sub(1).map_or(0.0, |before| times[before]).max(at - WINDOW_SECONDS - 1.0);
        let until = times.get(index + 1).copied().unwrap_or(f64::INFINITY).min(at + WINDOW_SECONDS + 1.0);
        // A second is told at its end. The one with the snapshot in it counts as behind it.
        copy.per_second_before = mean(course, |end| end <= at && end - 1.0 >= from.floor());
        copy.per_second_after = mean(course, |end| end - 1.0 >= at.floor() && end <= until.floor());
    }
}

fn mean(course: &[Second], is_in: impl Fn(f64) -> bool) -> Option<f64> {
    let inside: Vec<f64> =
        course.iter().filter(|second| is_in(second.at_seconds)).map(|second| second.requests).collect();
    (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_behind_a_snapshot_is_seen_and_one_elsewhere_is_not() {
        let second = |end: u32| Second {
            at_seconds: f64::from(end),
            requests: if (21..=23).contains(&end) { 0.0 } else { 100.0 },
            latency_nanos: None,
        };
        let course: Vec<Second> = (1..=60).map(second).collect();
        let at = |at_seconds: f64| CopyFigures { at_seconds, ..CopyFigures::default() };
        let mut copies = [at(20.4), at(45.0)];
        rates(&mut copies, &course);
        let [first, other] = &copies;
        assert_eq!(first.per_second_before, Some(100.0));
        assert!(first.per_second_after.is_some_and(|rate| (60.0..80.0).contains(&rate)), "{first:?}");
        assert_eq!((other.per_second_before, other.per_second_after), (Some(100.0), Some(100.0)));
        // Close to each other, each still has seconds of its own.
        let mut close = [at(3.005), at(6.0), at(9.002)];
        rates(&mut close, &course);
        assert!(close.iter().all(|copy| copy.per_second_before.is_some() && copy.per_second_after.is_some()));
    }
}
