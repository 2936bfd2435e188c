//! Pools that stopped writing: which may be opened again, and the first half of that.

use std::rc::Rc;

use super::{Array, Shard, from_engine};
use crate::error::Result;

/// A pool that stopped writing for what may pass.
pub(crate) struct Stopped {
    pub(crate) name: String,
    /// Why, in the engine's words.
    pub(crate) reason: String,
}

impl Array {
    /// The pools that stopped writing for what may pass.
    pub(crate) async fn pools_stopped(&self) -> Result<Vec<Stopped>> {
        self.run(|_, shard| {
            Box::pin(async move {
                let engines = shard.engines.borrow();
                let stopped = engines.iter().filter(|(_, engine)| engine.may_come_back());
                let view = |(name, engine): (&String, &ashlar_engine::Engine)| {
                    let state = engine.status().state;
                    let reason = state.strip_prefix("read-only: ").unwrap_or(&state).to_string();
                    Stopped { name: name.clone(), reason }
                };
                Ok(stopped.map(view).collect())
            })
        })
        .await
    }

    /// Fails while the drives of a pool that stopped take no writes.
    pub(crate) async fn pool_try_writing(&self, name: &str) -> Result<()> {
        self.with_pool(name, |engine, _| Box::pin(async move { engine.try_writing().await })).await
    }

    /// Lets go of a pool that stopped, to be opened again: what waits for it gets errors, and the devices
    /// that doors keep go on with its next opening.
    pub(crate) async fn pool_let_go(&self, name: &str) -> Result<()> {
        let name = name.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                let engine = shard.engine(&name)?;
                shard.engines.borrow_mut().remove(&name);
                shard.keep_lineage(&name, &engine);
                // Why it stopped is known, and that there is nothing to write.
                let _stopped = engine.close().await.map_err(from_engine);
                Ok(())
            })
        })
        .await
    }
}

impl Shard {
    fn keep_lineage(self: &Rc<Self>, name: &str, engine: &ashlar_engine::Engine) {
        self.lineages.borrow_mut().insert(name.to_string(), engine.lineage());
    }
}

/// Why a pool takes no writes, with what to do where that is known.
pub(super) fn reason(engine: &ashlar_engine::Engine, name: &str, state: &str) -> String {
    let why = state.strip_prefix("read-only: ").unwrap_or(state);
    if !engine.may_come_back() {
        return why.to_string();
    }
    let cure = if why.contains("No space left") || why.contains("quota") {
        "make room on the file system of that drive"
    } else {
        "mend the drive"
    };
    format!("{why}: {cure}; the pool then comes back by itself, or at once by `ashlar pool reopen {name}`")
}
