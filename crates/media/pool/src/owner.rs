//! One opener at a time: the owner block says who has the pool open, and that the owner is alive.
//!
//! Locks see one path on one machine. A drive has more: two paths of one LUN, a file and a loop device over
//! it, a host and its guest, two machines. So the array that has a pool open writes a beat to the owner
//! block of up to three drives. Who would open a pool that was not closed watches for two beats first. Who
//! finds that another opening has begun stops at once.
//!
//! Invariants:
//! 1. An owner block is written by the opening that it names, and by no other.
//! 2. Nothing is written after a beat is overdue before the owner block was read and found to be ours.
//!
//! 3. Where the owner before may still write, an opening claims the pool first, waits, and reads then.
//! 4. A drive that was given up is recorded as such within a beat or two, though nobody writes: drives that
//!    fail one after the other would else be half of the pool for the opening after a crash.
//!
//! Late writes: what an owner asked of a drive may land long after that owner is gone, from another machine's
//! queue or a server's. On this machine the drives' locks tell: a file is not let go before its requests have
//! ended, and a reboot ends them. So only an owner on another machine, or one that is put out by force, is
//! waited for. A write that outlives that wait, of a guest that was frozen with its queue, is what is left:
//! nothing goes on in a segment that a crash left open, and places that such a write may know are used last.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use ashlar_drive::Drive;
use ashlar_format::owner::{MACHINE_NAME_BYTES_MAX, Owner};
use ashlar_format::superblock::{DriveState, Opener, Superblock};
use ashlar_runtime::sync::Mutex;
use ashlar_runtime::{Instant, Priority, Runtime};
use ashlar_units::{Fault, planted};

use crate::drives::KnownDrive;
use crate::opening::Opening;
use crate::{Error, ErrorKind, Inner, Pool, Result};

/// From one beat to the next. An idle pool writes 4 KiB a second for it, a hundredth of a percent of what
/// wears a small drive out in five years; a pool that another machine left open opens after two.
const BEAT: Duration = Duration::from_secs(1);
/// Without a beat for so long an opening looks before it writes.
const OVERDUE: Duration = Duration::from_millis(1500);
/// How long a claim stands before it is read again, where another machine had the pool before: two that
/// open it at the same moment see each other.
const CLAIM: Duration = Duration::from_millis(200);
/// How long writes of an owner before may still land once it has stopped: as long as Linux gives a request of
/// a SCSI or NVMe drive before it gives it up. Nobody measured it.
const LANDING: Duration = Duration::from_secs(30);
/// Drives that carry the owner block.
const VOTERS: usize = 3;

/// This opening's claim.
pub(crate) struct Ownership {
    owner: RefCell<Owner>,
    /// When the owner block was last known to be ours.
    seen: Cell<Option<Instant>>,
    /// One look or beat at a time.
    turn: Mutex<()>,
    /// Why the pool is another's.
    lost: RefCell<Option<Error>>,
    /// How long writes of the owner before may still land.
    landing: Duration,
}

impl Ownership {
    /// Claims the pool from an owner that may still write, and waits until all of that has landed: one that
    /// works finds the claim with its next beat. What is on the drives is to be read anew then.
    pub(crate) async fn take_from(
        &self,
        runtime: &Runtime,
        drives: &[KnownDrive],
        pool: &Superblock,
    ) -> Result<()> {
        let owner = {
            let mut owner = self.owner.borrow_mut();
            owner.beat += 1;
            owner.beat_unix_seconds = runtime.unix_nanos() / 1_000_000_000;
            owner.clone()
        };
        let mut claimed =
            Err(Error::new(ErrorKind::Damaged, format!("pool {} has no drive to claim", pool.name)));
        for (_, drive) in voters(drives) {
            let written = drive.write_owner(&pool.key, &owner).await;
            claimed = if claimed.is_ok() { claimed } else { written.map_err(Error::from) };
        }
        claimed?;
        if !planted(Fault::LateWritesNotAwaited) {
            runtime.sleep(OVERDUE + self.landing).await;
        }
        match newest_owner(drives, pool).await {
            Some(found) if found.session >= owner.session && !is_same_opener(&found, &owner) => {
                Err(in_use(&found, &pool.name))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The owner before wrote this superblock last.
    pub(crate) fn follow(&self, pool: &Superblock) {
        let mut owner = self.owner.borrow_mut();
        owner.session = owner.session.max(pool.session + 1);
    }

    /// A claim that is not made yet.
    pub(crate) fn new(opening: &Opening, pool: &Superblock, session_before: u32) -> Ownership {
        let identity = &opening.identity;
        let mut machine_name = identity.machine_name.clone();
        machine_name.truncate(MACHINE_NAME_BYTES_MAX);
        let owner = Owner {
            pool: pool.pool,
            copy: pool.copy,
            machine: identity.machine,
            boot: identity.boot,
            session: pool.session.max(session_before) + 1,
            beat: 0,
            beat_unix_seconds: 0,
            interval_millis: BEAT.as_millis() as u32,
            process: identity.process,
            process_started: identity.process_started,
            is_open: true,
            machine_name,
        };
        Ownership {
            owner: RefCell::new(owner),
            seen: Cell::new(None),
            turn: Mutex::new(()),
            lost: RefCell::default(),
            landing: opening.landing.unwrap_or(LANDING),
        }
    }
}

/// The owner that the owner blocks tell of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Before {
    /// Its opening.
    pub(crate) session: u32,
    /// What it asked of the drives may not have landed yet.
    pub(crate) may_still_write: bool,
}

/// Refuses a pool that somebody else has open. Only reads.
pub(crate) async fn check_free(
    runtime: &Runtime,
    drives: &[KnownDrive],
    pool: &Superblock,
    opening: &Opening,
) -> Result<Before> {
    let Some(found) = newest_owner(drives, pool).await else { return Ok(Before::default()) };
    let before = Before { session: found.session, may_still_write: false };
    if !found.is_open || is_gone(&found, opening) {
        return Ok(before);
    }
    // 0: a machine without a number, which may be any.
    let is_of_this_machine = found.machine == opening.identity.machine && found.machine != 0;
    if opening.is_forced {
        return Ok(Before { may_still_write: true, ..before });
    }
    match change_of(runtime, &found, async || Ok(newest_owner(drives, pool).await)).await? {
        Some(now) if !now.is_open => return Ok(Before { session: now.session, ..before }),
        Some(now) => return Err(in_use(&now, &pool.name)),
        None => {}
    }
    Ok(Before { may_still_write: !is_of_this_machine, ..before })
}

/// Refuses a drive of a pool that somebody has open: what is on it may be given up by force, and not what is
/// in use. The first drives of a pool tell, those with an owner block.
pub async fn check_not_served(runtime: &Runtime, path: &str) -> Result<()> {
    let drive = Drive::open(runtime, path, None).await?;
    let Some(pool) = drive.read_ring().await?.valid.into_iter().next() else { return Ok(()) };
    let is_of_pool = |owner: &Owner| (owner.pool, owner.copy) == (pool.pool, pool.copy) && owner.is_open;
    let Some(found) = drive.read_owner(&pool.key).await?.filter(is_of_pool) else { return Ok(()) };
    let read = async || Ok(drive.read_owner(&pool.key).await?.filter(is_of_pool));
    match change_of(runtime, &found, read).await? {
        None => Ok(()),
        Some(now) => {
            let what = format!("drive {path}: {}", in_use(&now, &pool.name).context);
            Err(Error::new(ErrorKind::Busy, what)
                .and_do("close the pool there first, or choose another drive"))
        }
    }
}

/// Watches an owner block for two beats: the first that says something else, if any does.
async fn change_of(
    runtime: &Runtime,
    found: &Owner,
    read: impl AsyncFn() -> Result<Option<Owner>>,
) -> Result<Option<Owner>> {
    let interval = Duration::from_millis(u64::from(found.interval_millis.clamp(100, 60_000)));
    // A beat may have been written just before, and the next may be a little late.
    let end = runtime.now() + interval * 2 + interval / 2;
    let state_of = |owner: &Owner| (owner.session, owner.beat, owner.is_open);
    while runtime.now() < end {
        runtime.sleep(interval / 4).await;
        if let Some(now) = read().await?.filter(|now| state_of(now) != state_of(found)) {
            return Ok(Some(now));
        }
    }
    Ok(None)
}

/// Beats until the pool is closed. Between two beats it does not keep the drives open.
async fn keep_beating(runtime: Runtime, inner: Weak<Inner>) {
    loop {
        runtime.sleep(BEAT).await;
        let Some(inner) = inner.upgrade() else { return };
        let pool = Pool { inner };
        if pool.inner.is_settling.get() || pool.taken_over().is_some() {
            return;
        }
        // Whoever writes next is told of a failure.
        let _told = pool.beat().await;
        let _told = pool.record_drives().await;
    }
}

/// Whether the owner is a process of this boot that is not there any more.
fn is_gone(owner: &Owner, opening: &Opening) -> bool {
    let identity = &opening.identity;
    if (owner.machine, owner.boot) != (identity.machine, identity.boot) {
        return false;
    }
    let is_self = (owner.process, owner.process_started) == (identity.process, identity.process_started);
    // Within one process the drives' locks tell.
    let is_there = opening
        .is_process_there
        .as_ref()
        .is_some_and(|is_there| !is_self && is_there(owner.process, owner.process_started));
    !is_there
}

/// Whether two owner blocks are of one process.
fn is_same_opener(one: &Owner, other: &Owner) -> bool {
    let who = |owner: &Owner| (owner.machine, owner.boot, owner.process, owner.process_started);
    who(one) == who(other)
}

fn in_use(owner: &Owner, pool: &str) -> Error {
    let machine = match owner.machine_name.as_str() {
        "" => "another machine",
        name => name,
    };
    let what = format!(
        "pool {pool} is open on {machine} (process {}), which wrote to it a moment ago",
        owner.process
    );
    let action = format!(
        "close it there; `ashlar pool import {pool} --force` takes it over, and the other stops with errors"
    );
    Error::new(ErrorKind::Busy, what).and_do(action)
}

/// The latest owner block on any drive.
async fn newest_owner(drives: &[KnownDrive], pool: &Superblock) -> Option<Owner> {
    let mut newest: Option<Owner> = None;
    for drive in drives.iter().filter_map(|known| known.drive.clone()) {
        let Ok(Some(owner)) = drive.read_owner(&pool.key).await else { continue };
        let is_later = |newest: &Owner| (owner.session, owner.beat) > (newest.session, newest.beat);
        if (owner.pool, owner.copy) == (pool.pool, pool.copy) && newest.as_ref().is_none_or(is_later) {
            newest = Some(owner);
        }
    }
    newest
}

impl Pool {
    /// A new opening of the pool: segments opened from now on carry its number; the next superblock
    /// makes it durable.
    pub fn begin_session(&self) {
        self.inner.state.borrow_mut().superblock.session = self.inner.ownership.owner.borrow().session;
    }

    /// Says that this opening has the pool, before anything else is written.
    pub async fn claim(&self) -> Result<()> {
        let (opener, is_first_here) = {
            let owner = self.inner.ownership.owner.borrow();
            let before = self.inner.state.borrow().superblock.opener;
            let seconds = self.runtime().unix_nanos() / 1_000_000_000;
            let opener = Opener { machine: owner.machine, boot: owner.boot, opened_unix_seconds: seconds };
            (opener, before.machine != owner.machine && before != Opener::default())
        };
        self.inner.state.borrow_mut().superblock.opener = opener;
        self.beat().await?;
        if is_first_here {
            self.runtime().sleep(CLAIM).await;
            self.check_owner().await?;
        }
        self.runtime()
            .spawn(Priority::Journal, keep_beating(self.runtime().clone(), Rc::downgrade(&self.inner)));
        Ok(())
    }

    /// Says that the pool is closed.
    pub(crate) async fn release(&self) {
        if self.taken_over().is_some() || self.inner.is_fenced.get() {
            return;
        }
        self.inner.ownership.owner.borrow_mut().is_open = false;
        // Whoever comes next waits for two beats where it could not be written.
        let _closed_anyway = self.beat().await;
    }

    /// Writes a beat, unless the pool is another's by now.
    async fn beat(&self) -> Result<()> {
        let ownership = &self.inner.ownership;
        let _turn = ownership.turn.lock().await;
        self.look().await?;
        let begun = self.runtime().now();
        let owner = {
            let mut owner = ownership.owner.borrow_mut();
            owner.beat += 1;
            owner.beat_unix_seconds = self.runtime().unix_nanos() / 1_000_000_000;
            owner.clone()
        };
        let mut is_written = false;
        for (index, drive) in self.voters() {
            match drive.write_owner(self.key(), &owner).await {
                Ok(()) => is_written = true,
                Err(error) => self.failed_if_spared(index, &drive, &error.context),
            }
        }
        if is_written {
            ownership.seen.set(Some(begun));
        }
        Ok(())
    }

    /// Before anything is written: where a beat is overdue, whether the pool is still ours.
    pub(crate) async fn check_owner_if_overdue(&self) -> Result<()> {
        if let Some(lost) = self.taken_over() {
            return Err(lost);
        }
        if !self.is_beat_overdue() {
            return Ok(());
        }
        let _turn = self.inner.ownership.turn.lock().await;
        // One look serves all that waited for it.
        if self.taken_over().is_none() && !self.is_beat_overdue() {
            return Ok(());
        }
        self.look().await
    }

    /// Before an answer tells what the pool holds: the same. Another array may have changed it meanwhile. An
    /// opening that only reads beats nowhere, and is not asked.
    pub async fn check_still_ours(&self) -> Result<()> {
        if self.inner.ownership.seen.get().is_none() || planted(Fault::LoserReads) {
            return Ok(());
        }
        self.check_owner_if_overdue().await
    }

    fn is_beat_overdue(&self) -> bool {
        let seen = self.inner.ownership.seen.get();
        if planted(Fault::BeatByWallClock) {
            let beat = self.inner.ownership.owner.borrow().beat_unix_seconds;
            return self.runtime().unix_nanos() / 1_000_000_000 > beat + 1;
        }
        seen.is_none_or(|seen| self.runtime().now().duration_since(seen) >= OVERDUE)
    }

    /// Whether the pool is still ours, by what the drives say.
    pub(crate) async fn check_owner(&self) -> Result<()> {
        let _turn = self.inner.ownership.turn.lock().await;
        self.look().await
    }

    async fn look(&self) -> Result<()> {
        let ownership = &self.inner.ownership;
        if let Some(lost) = self.taken_over() {
            return Err(lost);
        }
        let (begun, mut is_read) = (self.runtime().now(), false);
        for (_, drive) in self.voters() {
            let Ok(found) = drive.read_owner(self.key()).await else { continue };
            is_read = true;
            let Some(found) = found else {
                if drive.has_owner() && !self.carries_the_pool(&drive).await {
                    self.lose_drive(&drive)?;
                }
                continue;
            };
            let own = ownership.owner.borrow().clone();
            let is_of_pool = (found.pool, found.copy) == (own.pool, own.copy);
            let is_others = is_of_pool && found.session >= own.session && !is_same_opener(&found, &own);
            if is_others && !planted(Fault::NewerOwnerIgnored) {
                return Err(self.lose_to(&found));
            }
        }
        if is_read {
            ownership.seen.set(Some(begun));
        }
        Ok(())
    }

    /// Whether a drive without an owner block is the pool's all the same: a block may rot.
    async fn carries_the_pool(&self, drive: &Drive) -> bool {
        let Ok(ring) = drive.read_ring().await else { return true };
        let (pool, copy) = {
            let state = self.inner.state.borrow();
            (state.superblock.pool, state.superblock.copy)
        };
        ring.valid.first().is_some_and(|newest| (newest.pool, newest.copy) == (pool, copy))
    }

    /// Somebody took a drive away for something else: nothing more is written to it.
    fn lose_drive(&self, drive: &Rc<Drive>) -> Result<()> {
        let (path, name) = (drive.path(), self.superblock().name);
        let what = format!("drive {path} of pool {name} was taken by somebody else: its marks are gone");
        if self.inner.striping.is_some() {
            let is_it = |known: &KnownDrive| known.drive.as_ref().is_some_and(|one| Rc::ptr_eq(one, drive));
            let index = self.inner.drives.borrow().iter().position(is_it);
            return index.map_or(Ok(()), |index| self.failed(index, drive, &what));
        }
        let lost = Error::new(ErrorKind::Medium, what).and_do("end whoever has it, and restore the pool");
        self.inner.ownership.lost.replace(Some(lost.clone()));
        self.fence();
        Err(lost)
    }

    /// Another opening has the pool: nothing is written any more.
    fn lose_to(&self, owner: &Owner) -> Error {
        let by = format!("on {} (process {})", owner.machine_name, owner.process);
        let what =
            format!("pool {} was opened by another array {by}: this one has stopped", self.superblock().name);
        let lost = Error::new(ErrorKind::Medium, what).and_do("export the pool where it is not to be served");
        self.inner.ownership.lost.replace(Some(lost.clone()));
        self.fence();
        lost
    }

    /// The claim as it was written last.
    pub(crate) fn owner_now(&self) -> Owner {
        self.inner.ownership.owner.borrow().clone()
    }

    /// Why the pool is another array's, if it is.
    #[must_use]
    pub fn taken_over(&self) -> Option<Error> {
        self.inner.ownership.lost.borrow().clone()
    }

    /// The drives that carry the owner block, with their numbers.
    fn voters(&self) -> Vec<(usize, Rc<Drive>)> {
        voters(&self.inner.drives.borrow())
    }
}

fn voters(drives: &[KnownDrive]) -> Vec<(usize, Rc<Drive>)> {
    let can_vote = |(_, known): &(usize, &KnownDrive)| match known.state {
        DriveState::InService | DriveState::Leaving | DriveState::Rebuilding => true,
        DriveState::Out | DriveState::Gone => false,
    };
    let there = |(index, known): (usize, &KnownDrive)| Some((index, known.drive.clone()?));
    drives.iter().enumerate().filter(can_vote).filter_map(there).take(VOTERS).collect()
}
