//! Random histories against a plain model: content, reference counts and durability.

use std::collections::{BTreeMap, BTreeSet};

use ashlar_format::Pointer;

use super::{Media, Random, data};
use crate::{ExtentKind, PageArena, PageNumber, PageWalk, WriteOrder};

/// Blocks that the histories use: the first two leaves, both sides of a level 1, a level 2 and a level 3
/// boundary, and one lonely place. Dense enough that operations meet.
const REGIONS: [u64; 5] = [0, (1 << 18) - 600, (1 << 27) - 600, 3 << 27, 77 << 20];
const REGION_BLOCKS: u64 = 1200;
const TREES_MAX: usize = 5;

/// A tree and what it must contain; a missing key is a hole.
struct Tree {
    root: Pointer,
    model: Model,
}

#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    /// Value from this block on, until the next key.
    runs: BTreeMap<u64, Pointer>,
}

impl Model {
    fn get(&self, block: u64) -> Pointer {
        self.runs.range(..=block).next_back().map_or(Pointer::HOLE, |(_, value)| *value)
    }

    fn put(&mut self, first: u64, count: u64, value: Pointer) {
        let after = self.get(first + count);
        let covered: Vec<u64> = self.runs.range(first..first + count).map(|(block, _)| *block).collect();
        for block in covered {
            self.runs.remove(&block);
        }
        self.runs.insert(first, value);
        self.runs.insert(first + count, after);
    }
}

/// A checkpoint under way.
struct Checkpoint {
    /// Root, content when frozen, and whether it was given to the writer yet.
    frozen: Vec<Tree>,
    order: WriteOrder,
    current: usize,
    pinned: Vec<PageNumber>,
}

struct History {
    random: Random,
    arena: PageArena,
    media: Media,
    trees: Vec<Tree>,
    checkpoint: Option<Checkpoint>,
    /// Roots on the drives with their content, as after completed checkpoints.
    stored: Vec<Tree>,
    written_numbers: u64,
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random(seed);
        // An operation touches up to 8 pages, which must fit together.
        let clean_pages_min = 16 + random.below(20) as usize;
        let capacity = random.below(60) as usize * 4096;
        History {
            random,
            arena: PageArena::with_clean_pages_min(capacity, clean_pages_min),
            media: Media::default(),
            trees: vec![Tree { root: Pointer::HOLE, model: Model::default() }],
            checkpoint: None,
            stored: Vec::new(),
            written_numbers: 0,
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=39 => self.set(),
            40..=54 => self.fill(),
            55..=60 => self.share(),
            61..=66 => self.release(),
            67..=76 => self.read(),
            77..=79 => {
                let pages_max = self.random.below(4) as usize;
                self.arena.reap(pages_max);
            }
            80..=81 => self.extents(),
            82 => {
                self.read_stored();
                self.diff_stored();
            }
            83 => self.abandon_checkpoint(),
            _ => {
                // Bursts, so that some trees stay unchanged through a whole checkpoint.
                for _ in 0..1 << self.random.below(7) {
                    self.checkpoint_step();
                }
            }
        }
    }

    fn place(&mut self) -> u64 {
        REGIONS[self.random.below(REGIONS.len() as u64) as usize] + self.random.below(REGION_BLOCKS)
    }

    fn tree(&mut self) -> usize {
        self.random.below(self.trees.len() as u64) as usize
    }

    fn set(&mut self) {
        let (first, tree) = (self.place(), self.tree());
        let length =
            if self.random.below(8) == 0 { self.random.below(700) } else { 1 + self.random.below(16) };
        let pointers: Vec<Pointer> = (0..length)
            .map(|_| {
                self.written_numbers += 1;
                if self.random.below(10) == 0 { Pointer::ZERO } else { data(self.written_numbers) }
            })
            .collect();
        let Tree { root, model } = &mut self.trees[tree];
        let outcome = self.media.retry(&mut self.arena, |arena| arena.set(root, first, &pointers));
        let before = (first..first + length).filter(|block| model.get(*block).is_data()).count();
        assert_eq!(outcome.data_blocks_before, before as u64);
        assert_eq!(
            outcome.data_blocks_after,
            pointers.iter().filter(|pointer| pointer.is_data()).count() as u64
        );
        for (pointer, block) in pointers.into_iter().zip(first..) {
            model.put(block, 1, pointer);
        }
    }

    fn fill(&mut self) {
        let (mut first, tree) = (self.place(), self.tree());
        let mut count = match self.random.below(4) {
            0 | 1 => self.random.below(1500),
            2 => self.random.below(1 << 19),
            _ => self.random.below(1 << 30),
        };
        if self.random.below(4) == 0 {
            let unit = 1 << (9 * (1 + self.random.below(4)));
            (first, count) = (first / unit * unit, (count / unit).max(1) * unit);
        }
        let value = if self.random.below(2) == 0 { Pointer::HOLE } else { Pointer::ZERO };
        let Tree { root, model } = &mut self.trees[tree];
        let outcome = self.media.retry(&mut self.arena, |arena| arena.fill(root, first, count, value));
        if let Some(blocks) = outcome.data_blocks_before {
            let runs = model.runs.range(first..first + count).filter(|(_, value)| value.is_data()).count();
            let starts_inside = !model.runs.contains_key(&first) && model.get(first).is_data() && count > 0;
            assert_eq!(
                blocks,
                (runs + usize::from(starts_inside)) as u64,
                "every data run of the model is one block"
            );
        }
        if count > 0 {
            model.put(first, count, value);
        }
    }

    fn share(&mut self) {
        if self.trees.len() < TREES_MAX {
            let source = self.tree();
            let root = self.arena.share(self.trees[source].root);
            let model = self.trees[source].model.clone();
            self.trees.push(Tree { root, model });
        }
    }

    fn release(&mut self) {
        if self.trees.len() > 1 {
            let tree = self.tree();
            let tree = self.trees.swap_remove(tree);
            self.arena.release(tree.root);
        }
    }

    fn read(&mut self) {
        let (first, tree) = (self.place(), self.tree());
        let count = self.random.below(600);
        let Tree { root, model } = &self.trees[tree];
        let mut run = Vec::new();
        self.media.retry(&mut self.arena, |arena| arena.lookup_run(*root, first, count, &mut run));
        assert_eq!(run.len() as u64, count);
        for (found, block) in run.iter().zip(first..) {
            assert_eq!(*found, model.get(block), "block {block}");
        }
        let found = self.media.retry(&mut self.arena, |arena| arena.lookup(*root, first));
        assert_eq!(found, model.get(first));
    }

    fn extents(&mut self) {
        let (first, tree) = (self.place(), self.tree());
        let end = first + 1 + self.random.below(1 << 29);
        let extents_max = 1 + self.random.below(20) as usize;
        let Tree { root, model } = &self.trees[tree];
        let mut block = first;
        for _ in 0..20 {
            let ask = |arena: &mut PageArena| arena.extents(*root, block, end - block, extents_max);
            let extents = self.media.retry(&mut self.arena, ask);
            assert!(extents.len() <= extents_max && (block == end || !extents.is_empty()));
            for extent in extents {
                let kind = |block| match model.get(block) {
                    Pointer::HOLE => ExtentKind::Hole,
                    Pointer::ZERO => ExtentKind::Zero,
                    _ => ExtentKind::Data,
                };
                let extent_end = block + extent.blocks;
                assert_eq!(kind(block), extent.kind);
                for start in model.runs.range(block..extent_end) {
                    assert_eq!(kind(*start.0), extent.kind, "run at {}", start.0);
                }
                block = extent_end;
            }
            assert!(block <= end);
        }
    }

    /// One move of the checkpoint: freeze, encode, persist, complete a write, or finish.
    fn checkpoint_step(&mut self) {
        let Some(mut checkpoint) = self.checkpoint.take() else {
            self.checkpoint = Some(self.freeze());
            return;
        };
        if self.random.below(3) == 0 && !checkpoint.pinned.is_empty() {
            let write = self.random.below(checkpoint.pinned.len() as u64) as usize;
            self.arena.unpin(checkpoint.pinned.swap_remove(write));
        }
        if let Some(next) = checkpoint.order.next(&self.arena) {
            let place = self.media.assign();
            let is_delta_wanted = self.random.below(4) > 0;
            let form = self.media.write(place, next, self.arena.encode(next.page), is_delta_wanted);
            self.arena.set_persisted(next.page, place, form);
            checkpoint.pinned.push(next.page);
        } else {
            let tree = &mut checkpoint.frozen[checkpoint.current];
            assert!(self.arena.normalise(&mut tree.root));
            checkpoint.current += 1;
            let Some(tree) = checkpoint.frozen.get(checkpoint.current) else {
                checkpoint.pinned.drain(..).for_each(|page| self.arena.unpin(page));
                self.stored = checkpoint.frozen;
                // What no image uses now, neither trees nor what they will write may need.
                let roots: Vec<Pointer> = self.stored.iter().map(|tree| tree.root).collect();
                self.media.free_all_but(&roots);
                return;
            };
            checkpoint.order = WriteOrder::new(tree.root);
        }
        self.checkpoint = Some(checkpoint);
    }

    fn freeze(&mut self) -> Checkpoint {
        let mut frozen = Vec::new();
        for tree in &mut self.trees {
            self.arena.normalise(&mut tree.root);
            frozen.push(Tree { root: self.arena.share(tree.root), model: tree.model.clone() });
        }
        let order = WriteOrder::new(frozen[0].root);
        Checkpoint { frozen, order, current: 0, pinned: Vec::new() }
    }

    fn abandon_checkpoint(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        checkpoint.frozen.into_iter().for_each(|tree| self.arena.release(tree.root));
        checkpoint.pinned.into_iter().for_each(|page| self.arena.unpin(page));
    }

    /// A crash: a new arena reads the last complete checkpoint from the drives alone.
    fn read_stored(&mut self) {
        let mut arena = PageArena::with_clean_pages_min(0, 20);
        for tree in &self.stored {
            check_whole_tree(&mut arena, &mut self.media, tree);
        }
    }

    /// Two trees of the last complete checkpoint: every block that differs is told, and no other.
    fn diff_stored(&mut self) {
        let Some(last) = self.stored.len().checked_sub(1) else { return };
        let draw = |random: &mut Random| random.below(last as u64 + 1) as usize;
        let (one, other) = (draw(&mut self.random), draw(&mut self.random));
        let from_block = if self.random.below(2) == 0 { 0 } else { self.place() };
        let (one, other) = (&self.stored[one], &self.stored[other]);
        let (runs, _) = super::diff::diff(&self.media, one.root, other.root, from_block);
        let told: BTreeSet<u64> = runs.into_iter().flatten().collect();
        let content = |tree: &Tree, block| Some(tree.model.get(block)).filter(|pointer| pointer.is_data());
        let differs = |block: &u64| content(one, *block) != content(other, *block);
        // As far as the longest change that begins in a region reaches.
        let places = REGIONS.into_iter().flat_map(|region| region..region + REGION_BLOCKS + 700);
        let expected: BTreeSet<u64> = places.filter(|block| *block >= from_block).filter(differs).collect();
        assert_eq!(told, expected);
    }

    fn verify(&self) {
        let mut roots: Vec<Pointer> = self.trees.iter().map(|tree| tree.root).collect();
        if let Some(checkpoint) = &self.checkpoint {
            roots.extend(checkpoint.frozen.iter().map(|tree| tree.root));
        }
        self.arena.verify(&roots).unwrap();
    }

    fn finish(mut self) {
        self.abandon_checkpoint();
        for tree in &self.trees {
            check_whole_tree(&mut self.arena, &mut self.media, tree);
        }
        self.read_stored();
        self.trees.drain(..).for_each(|tree| self.arena.release(tree.root));
        while self.arena.reap(100) > 0 {}
        self.arena.verify(&[]).unwrap();
        assert_eq!(self.arena.dirty_count(), 0);
        assert_eq!(self.arena.bytes_used(), self.arena.counters().clean_pages * 4096);
    }
}

/// Every block of the regions, and every data block anywhere by the walk.
fn check_whole_tree(arena: &mut PageArena, media: &mut Media, tree: &Tree) {
    for region in REGIONS {
        let mut run = Vec::new();
        media.retry(arena, |arena| arena.lookup_run(tree.root, region, REGION_BLOCKS, &mut run));
        for (found, block) in run.iter().zip(region..) {
            assert_eq!(*found, tree.model.get(block), "block {block}");
        }
    }
    let mut walk = PageWalk::new(tree.root);
    let mut data_blocks = 0;
    loop {
        match walk.next(arena) {
            Ok(None) => break,
            Err(missing) => media.load(arena, missing),
            Ok(Some(visit)) => {
                data_blocks += visit.pointers.iter().filter(|pointer| pointer.is_data()).count();
            }
        }
    }
    assert_eq!(data_blocks, tree.model.runs.values().filter(|value| value.is_data()).count());
}

/// Proves the content of all trees, the recounted references and what a crash would find, over
/// histories that mix changes, snapshots, evictions and every interleaving of a checkpoint, while
/// everything that no published image uses is freed at once.
#[test]
fn random_histories_agree_with_the_model() {
    let mut deltas = 0;
    for seed in 0..24 {
        println!("seed {seed}"); // shown when it fails
        let mut history = History::new(seed);
        for step in 0..2000 {
            history.step();
            if step % 16 == 0 {
                history.verify();
            }
        }
        deltas += history.media.deltas;
        history.finish();
    }
    assert!(deltas > 1000, "{deltas} deltas were written");
}
