//! What differs between two images of a pool.

use std::time::Duration;

use ashlar_engine::Difference;

use super::Array;
use super::space::from_count;
use crate::error::Result;

impl Array {
    /// Of two of `VOLUME` and `VOLUME@SNAPSHOT`, from a block on: so many runs of blocks, and how many
    /// blocks.
    pub(crate) async fn difference(
        &self,
        pool: &str,
        images: [&str; 2],
        from_block: u64,
        runs_max: usize,
        within: Duration,
    ) -> Result<Difference> {
        let (pool, [one, other]) = (pool.to_string(), images.map(str::to_string));
        self.run(move |_, shard| {
            Box::pin(async move {
                let engine = shard.engine(&pool)?;
                engine.difference(&one, &other, from_block, runs_max, within).await.map_err(from_count)
            })
        })
        .await
    }
}
