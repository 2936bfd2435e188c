//! Dedupe of a pool, in the API's types.

use ashlar_api as api;
use ashlar_engine::{DedupeCounters, DedupeStatus};

use super::{Array, from_engine};
use crate::error::{Error, Result};

const BLOCK_BYTES: u64 = 4096;

impl Array {
    pub(crate) async fn pool_dedupe(&self, pool: &str) -> Result<api::Dedupe> {
        let pool = pool.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                let status = shard.engine(&pool)?.status().dedupe;
                Ok(view(pool, &status))
            })
        })
        .await
    }

    pub(crate) async fn pool_dedupe_change(
        &self,
        pool: &str,
        request: api::DedupeRequest,
    ) -> Result<api::Dedupe> {
        let pool = pool.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                let engine = shard.engine(&pool)?;
                let status = match (request.action, request.index_max_bytes) {
                    (api::DedupeAction::Rebuild, None) => engine.dedupe_rebuild(),
                    (api::DedupeAction::Drop, None) => Ok(engine.dedupe_drop()),
                    (api::DedupeAction::Resize, Some(bytes)) => engine.dedupe_resize(bytes),
                    (api::DedupeAction::Resize, None) => {
                        let what = "a resize without `index_max_bytes` says nothing";
                        return Err(Error::unfit(what, "name the bytes; 0 switches dedupe off"));
                    }
                    (_, Some(_)) => {
                        let what = "`index_max_bytes` belongs to a resize";
                        return Err(Error::unfit(what, "leave it out, or ask for `resize`"));
                    }
                };
                Ok(view(pool, &status.map_err(from_engine)?))
            })
        })
        .await
    }
}

fn view(pool: String, status: &DedupeStatus) -> api::Dedupe {
    // Taken apart without `..`, so that a new counter of the engine is not forgotten here.
    let DedupeCounters {
        looked_up,
        hits,
        compared,
        extended,
        shared,
        shared_in_cycle,
        shared_moved,
        mismatched,
        stale,
        condemned,
        short,
        partial,
        overtaken,
        dropped,
        without_room,
        unreadable,
    } = status.counters;
    api::Dedupe {
        pool,
        index_bytes: status.index_bytes,
        index_max_bytes: status.index_bytes_max,
        index_entry_count: status.index_entries,
        queued_block_count: status.queued_blocks,
        rebuild_percent: status.rebuild_percent,
        blocks: api::DedupeBlocks {
            looked_up_count: looked_up,
            hit_count: hits,
            compared_count: compared,
            extended_count: extended,
            shared_count: shared,
            shared_bytes: shared * BLOCK_BYTES,
            shared_beside_cleaning_count: shared_in_cycle,
            shared_moved_count: shared_moved,
            mismatched_count: mismatched,
            stale_count: stale,
            condemned_count: condemned,
            short_run_count: short,
            partial_chunk_count: partial,
            overtaken_count: overtaken,
            dropped_count: dropped,
            no_room_count: without_room,
            unreadable_count: unreadable,
        },
    }
}

/// The same as counters of the pool.
pub(super) fn counter_views(status: &DedupeStatus) -> impl Iterator<Item = (&'static str, u64)> + use<> {
    let view = view(String::new(), status);
    let blocks = view.blocks;
    [
        ("dedupe_index_bytes", view.index_bytes),
        ("dedupe_index_entries", view.index_entry_count),
        ("dedupe_blocks_queued", view.queued_block_count),
        ("dedupe_blocks_looked_up", blocks.looked_up_count),
        ("dedupe_blocks_hit", blocks.hit_count),
        ("dedupe_blocks_compared", blocks.compared_count),
        ("dedupe_blocks_extended", blocks.extended_count),
        ("dedupe_blocks_shared", blocks.shared_count),
        ("dedupe_shared_bytes", blocks.shared_bytes),
        ("dedupe_blocks_shared_beside_cleaning", blocks.shared_beside_cleaning_count),
        ("dedupe_blocks_shared_moved", blocks.shared_moved_count),
        ("dedupe_blocks_mismatched", blocks.mismatched_count),
        ("dedupe_blocks_stale", blocks.stale_count),
        ("dedupe_blocks_condemned", blocks.condemned_count),
        ("dedupe_blocks_short_run", blocks.short_run_count),
        ("dedupe_blocks_partial_chunk", blocks.partial_chunk_count),
        ("dedupe_blocks_overtaken", blocks.overtaken_count),
        ("dedupe_blocks_dropped", blocks.dropped_count),
        ("dedupe_blocks_no_room", blocks.no_room_count),
        ("dedupe_blocks_unreadable", blocks.unreadable_count),
    ]
    .into_iter()
}
