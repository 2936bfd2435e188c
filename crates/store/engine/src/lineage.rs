//! What outlives one opening of a pool: a pool that stopped is closed and opened anew, and the devices that
//! doors keep go on with the new opening.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use ashlar_runtime::Runtime;
use ashlar_units::{PoolId, VolumeId};

use crate::engine::{Inner, Life};
use crate::{Engine, Result, Settings};

/// Which pool it is, and its present opening.
type Present = Option<(PoolId, Weak<Inner>)>;

/// Leads to the present opening of a pool, weakly: who keeps it keeps no drive.
#[derive(Clone, Default)]
pub struct Lineage(Rc<Line>);

#[derive(Default)]
struct Line {
    present: RefCell<Present>,
    /// How often each deleted volume was brought back.
    returns: RefCell<BTreeMap<VolumeId, u32>>,
}

impl Lineage {
    /// The pool, while it is open.
    pub(crate) fn pool(&self) -> Option<Rc<Inner>> {
        self.0.present.borrow().as_ref()?.1.upgrade()
    }

    /// Goes on with this opening; false where that is another pool's.
    pub(crate) fn go_on(&self, inner: &Rc<Inner>) -> bool {
        let id = inner.pool.superblock().pool;
        let mut now = self.0.present.borrow_mut();
        if now.as_ref().is_some_and(|(before, _)| *before != id) {
            return false;
        }
        *now = Some((id, Rc::downgrade(inner)));
        true
    }

    /// How often a volume was brought back: a device from before leads to it no more.
    pub(crate) fn returns_of(&self, volume: VolumeId) -> u32 {
        self.0.returns.borrow().get(&volume).copied().unwrap_or(0)
    }

    pub(crate) fn brings_back(&self, volume: VolumeId) {
        *self.0.returns.borrow_mut().entry(volume).or_default() += 1;
    }
}

impl Engine {
    /// What leads from this opening to the next.
    #[must_use]
    pub fn lineage(&self) -> Lineage {
        self.lineage.clone()
    }

    /// Opens a pool, and has devices of an earlier opening go on with it. Volumes keep their identities, so a
    /// device never leads to another volume.
    pub async fn open_again(
        runtime: &Runtime,
        drives: &[String],
        settings: Settings,
        lineage: Lineage,
    ) -> Result<Engine> {
        let engine = Engine::open(runtime, drives, settings).await?;
        if lineage.go_on(&engine.inner) {
            return Ok(Engine { lineage, ..engine });
        }
        Ok(engine)
    }

    /// True for a pool that stopped writing for what may pass: its drives failed, or were full. Not for one
    /// that another array has now, nor where a later program allows reading only.
    #[must_use]
    pub fn may_come_back(&self) -> bool {
        let is_stopped = matches!(&*self.inner.life.borrow(), Life::Stopped(_));
        is_stopped && !self.inner.must_only_read && self.inner.pool.taken_over().is_none()
    }

    /// Fails while the drives of a pool that stopped take no writes.
    pub async fn try_writing(&self) -> Result<()> {
        Ok(self.inner.pool.try_writing().await?)
    }
}
