//! The blocks at which two images differ, by their maps alone: nothing that they share is looked at, and no
//! data is read.
//!
//! Both are taken as the same checkpoint has them, so they are compared at one instant. Nothing that the walk
//! may still read is freed meanwhile: the cleaner waits, as it does for the accounts. Writes and checkpoints
//! go on.

use std::ops::Range;
use std::time::Duration;

use ashlar_format::Pointer;
use ashlar_format::catalogue::VolumeEntry;
use ashlar_map::{Missing, PagePair, TrackedPage, TreeDiff};
use ashlar_units::VolumeId;
use rustc_hash::FxHashMap;

use crate::accounting::{Frozen, Turn};
use crate::engine::{Engine, Inner};
use crate::walk::{PAGES_AT_ONCE, load_pages};
use crate::{Error, ErrorKind, Result};

/// What differs between two images.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Difference {
    /// The size of the one.
    pub one_bytes: u64,
    /// The size of the other.
    pub other_bytes: u64,
    /// How many blocks may differ, from where it was asked on. A few of them may be equal all the same: those
    /// that were written with what was there, and those that dedupe shared in one of the two.
    pub blocks: u64,
    /// Which ones, in order, as far as so many runs were asked for.
    pub runs: Vec<Range<u64>>,
    /// The first block that is in no run and may differ.
    pub next_block: Option<u64>,
    /// Map pages that were looked at.
    pub pages: u64,
}

impl Difference {
    fn tell(&mut self, run: Range<u64>, runs_max: usize) {
        self.blocks += run.end - run.start;
        let has_room = self.runs.len() < runs_max;
        match self.runs.last_mut() {
            _ if self.next_block.is_some() => {}
            Some(last) if last.end == run.start => last.end = run.end,
            _ if has_room => self.runs.push(run),
            _ => self.next_block = Some(run.start),
        }
    }
}

impl Engine {
    /// What differs between two of `VOLUME` and `VOLUME@SNAPSHOT`, from a block on; at most so many runs are
    /// told, all blocks are counted. `Busy` when that takes longer.
    pub async fn difference(
        &self,
        one: &str,
        other: &str,
        from_block: u64,
        runs_max: usize,
        within: Duration,
    ) -> Result<Difference> {
        let images = [self.image_to_compare(one)?, self.image_to_compare(other)?];
        self.count(move |inner| {
            Box::pin(async move {
                let turn = Turn::begin(&inner, within).await?;
                inner.check_news_can_be_published()?;
                let frozen = Frozen::take(&inner).await?;
                let [one, other] = images.map(|id| frozen.image(id));
                compare(&turn, one?, other?, from_block, runs_max).await
            })
        })
        .await
    }

    fn image_to_compare(&self, name: &str) -> Result<VolumeId> {
        self.image_named(name).ok_or_else(|| {
            let what = format!("there is no volume or image {name}");
            Error::new(ErrorKind::NotFound, what).and_do("name VOLUME or VOLUME@SNAPSHOT")
        })
    }
}

impl Frozen {
    fn image(&self, id: VolumeId) -> Result<&VolumeEntry> {
        let found = self.images.iter().find(|entry| entry.id == id);
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the volume or its snapshot was deleted meanwhile")
        })
    }
}

impl Inner {
    /// Refuses to compare images of a pool that stopped before its last changes came into a checkpoint.
    fn check_news_can_be_published(&self) -> Result<()> {
        let has_news = self.applied.get().next_lsn.0 != self.checkpoints.published_lsn.get();
        if has_news { self.check_online() } else { Ok(()) }
    }
}

async fn compare(
    turn: &Turn<'_>,
    one: &VolumeEntry,
    other: &VolumeEntry,
    from_block: u64,
    runs_max: usize,
) -> Result<Difference> {
    let (one_bytes, other_bytes) = (one.size_bytes, other.size_bytes);
    let mut difference = Difference { one_bytes, other_bytes, ..Difference::default() };
    let mut diff = TreeDiff::new(one.root, other.root, from_block);
    loop {
        let pairs = diff.next(PAGES_AT_ONCE / 2);
        if pairs.is_empty() {
            return Ok(difference);
        }
        turn.step().await?;
        let wanted: Vec<Missing> = pairs.iter().flat_map(PagePair::pages).flatten().collect();
        difference.pages += wanted.len() as u64;
        let loaded: FxHashMap<Pointer, TrackedPage> =
            load_pages(turn.inner, &wanted).await?.into_iter().map(|(at, page)| (at.pointer, page)).collect();
        for pair in &pairs {
            turn.step().await?;
            let page = |at: Missing| loaded[&at.pointer].pointers();
            let [one, other] = pair.pages().map(|at| at.map(page));
            diff.compare(pair, one, other, &mut |run| difference.tell(run, runs_max));
        }
    }
}
