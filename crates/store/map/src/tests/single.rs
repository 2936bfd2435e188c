//! Single behaviours of trees, one at a time.

use ashlar_format::Pointer;

use super::{Media, data};
use crate::{
    BLOCKS_MAX, Extent, ExtentKind, LEVELS, Missing, PAGE_POINTERS, Page, PageArena, PageInvalid, PageWalk,
    SetOutcome, TrackedPage, WriteOrder,
};

const HOLE: Pointer = Pointer::HOLE;
const ZERO: Pointer = Pointer::ZERO;
const LEAF: u64 = PAGE_POINTERS as u64;
const TIB_BLOCKS: u64 = 1 << 28;

fn arena() -> PageArena {
    PageArena::new(64 << 20)
}

/// Persists everything below a root, which stays held.
fn persist(arena: &mut PageArena, media: &mut Media, root: &mut Pointer) -> usize {
    let mut order = WriteOrder::new(*root);
    let mut count = 0;
    while let Some(next) = order.next(arena) {
        assert_eq!(order.next(arena), Some(next), "not persisted yet, so it comes again");
        let place = media.assign();
        let form = media.write(place, next, arena.encode(next.page), true);
        arena.set_persisted(next.page, place, form);
        arena.unpin(next.page);
        count += 1;
    }
    assert!(arena.normalise(root));
    count
}

/// The same pages in another arena, as after a restart.
fn reopened() -> PageArena {
    PageArena::new(64 << 20)
}

#[test]
fn blocks_come_back_and_neighbours_stay_holes() {
    let mut arena = arena();
    let mut root = HOLE;
    for block in [0, 511, 512, LEAF * LEAF, BLOCKS_MAX - 1] {
        let outcome = arena.set(&mut root, block, &[data(block % 1000)]).unwrap();
        assert_eq!(outcome, SetOutcome { data_blocks_before: 0, data_blocks_after: 1 });
        assert_eq!(arena.lookup(root, block), Ok(data(block % 1000)));
    }
    assert_eq!(arena.lookup(root, 1), Ok(HOLE));
    assert_eq!(arena.lookup(root, BLOCKS_MAX - 2), Ok(HOLE));
    let again = arena.set(&mut root, 510, &[data(1), ZERO, data(3)]).unwrap();
    assert_eq!(again, SetOutcome { data_blocks_before: 2, data_blocks_after: 2 });
    let mut run = vec![ZERO];
    arena.lookup_run(root, 509, 5, &mut run).unwrap();
    assert_eq!(run, [ZERO, HOLE, data(1), ZERO, data(3), HOLE]);
    arena.verify(&[root]).unwrap();
}

#[test]
fn a_snapshot_keeps_its_content_and_only_the_path_is_copied() {
    let mut arena = arena();
    let mut root = HOLE;
    for leaf in 0..20 {
        arena.set(&mut root, leaf * LEAF, &[data(leaf)]).unwrap();
    }
    let before = arena.dirty_count();
    let snapshot = arena.share(root);
    assert_eq!(arena.dirty_count(), before);
    arena.set(&mut root, 3 * LEAF, &[data(99)]).unwrap();
    assert_eq!(arena.dirty_count(), before + usize::from(LEVELS));
    arena.set(&mut root, 3 * LEAF + 1, &[data(98)]).unwrap();
    assert_eq!(arena.dirty_count(), before + usize::from(LEVELS), "the copied path is changed in place");
    assert_eq!(arena.lookup(snapshot, 3 * LEAF), Ok(data(3)));
    assert_eq!(arena.lookup(snapshot, 3 * LEAF + 1), Ok(HOLE));
    assert_eq!(arena.lookup(root, 3 * LEAF), Ok(data(99)));
    arena.verify(&[root, snapshot]).unwrap();
    arena.release(snapshot);
    while arena.reap(1) > 0 {}
    assert_eq!(arena.dirty_count(), before);
    arena.verify(&[root]).unwrap();
}

#[test]
fn dropping_a_big_dirty_volume_is_one_step_and_reaping_is_bounded() {
    let mut arena = arena();
    let mut root = HOLE;
    for leaf in 0..3000 {
        arena.set(&mut root, leaf * LEAF, &[data(leaf)]).unwrap();
    }
    let pages = arena.dirty_count();
    arena.release(root);
    assert_eq!(arena.counters().condemned_pages, 1);
    let mut rounds = 0;
    while arena.reap(10) > 0 {
        rounds += 1;
        arena.verify(&[]).unwrap();
    }
    assert!(rounds >= pages / 10 - 1, "{rounds} rounds for {pages} pages");
    assert_eq!((arena.bytes_used(), arena.dirty_count()), (0, 0));
}

#[test]
fn filling_a_tebibyte_touches_a_few_pages() {
    let mut arena = arena();
    let mut root = HOLE;
    for at in 0..1000 {
        arena.set(&mut root, at * (TIB_BLOCKS / 1000), &[data(at)]).unwrap();
    }
    let before = arena.bytes_used();
    let outcome = arena.fill(&mut root, 5, TIB_BLOCKS, ZERO).unwrap();
    assert_eq!(outcome.data_blocks_before, None);
    assert!(arena.bytes_used() <= before + 16 * 4096);
    assert_eq!(arena.lookup(root, 0), Ok(data(0)));
    for block in [5, 511, 512, TIB_BLOCKS / 2, TIB_BLOCKS + 4] {
        assert_eq!(arena.lookup(root, block), Ok(ZERO), "block {block}");
    }
    assert_eq!(arena.lookup(root, TIB_BLOCKS + 5), Ok(HOLE));
    while arena.reap(100) > 0 {}
    assert!(arena.dirty_count() < 10, "{} pages left", arena.dirty_count());
    arena.verify(&[root]).unwrap();
}

#[test]
fn a_tree_filled_to_its_edges_is_its_root_pointer_again() {
    let mut arena = arena();
    let mut root = HOLE;
    arena.set(&mut root, 1000, &[data(1)]).unwrap();
    arena.fill(&mut root, 0, BLOCKS_MAX, ZERO).unwrap();
    assert_eq!(root, ZERO);
    arena.set(&mut root, 77, &[data(1)]).unwrap();
    assert_eq!(arena.lookup(root, 78), Ok(ZERO));
    // Back to uniform through a single block: every level collapses.
    let outcome = arena.fill(&mut root, 77, 1, ZERO).unwrap();
    assert_eq!((root, outcome.data_blocks_before), (ZERO, Some(1)));
    while arena.reap(100) > 0 {}
    assert_eq!(arena.bytes_used(), 0);
    assert_eq!(arena.fill(&mut root, 3, 1 << 30, ZERO).unwrap().data_blocks_before, Some(0));
    assert_eq!((root, arena.bytes_used()), (ZERO, 0), "what is uniform already is not unfolded");
}

#[test]
fn filling_what_is_filled_dirties_nothing() {
    let (mut arena, mut media) = (arena(), Media::default());
    let mut root = HOLE;
    arena.set(&mut root, 10, &[data(1), HOLE, HOLE, data(2)]).unwrap();
    persist(&mut arena, &mut media, &mut root);
    arena.fill(&mut root, 11, 2, HOLE).unwrap();
    arena.fill(&mut root, 512, 1 << 20, HOLE).unwrap();
    assert_eq!(arena.dirty_count(), 0);
    assert!(root.as_in_memory().is_none());
}

#[test]
fn a_persisted_tree_is_read_again_page_by_page() {
    let (mut writer, mut media) = (arena(), Media::default());
    let mut root = HOLE;
    for leaf in 0..30 {
        writer.set(&mut root, leaf * LEAF * 40, &[data(leaf)]).unwrap();
    }
    let pages = persist(&mut writer, &mut media, &mut root);
    assert_eq!(pages, writer.counters().clean_pages);
    let mut arena = reopened();
    let missing = Missing { pointer: root, level: 3, index: 0 };
    assert_eq!(arena.lookup(root, 0), Err(missing));
    for leaf in 0..30 {
        let found = media.retry(&mut arena, |arena| arena.lookup(root, leaf * LEAF * 40));
        assert_eq!(found, data(leaf));
    }
    assert_eq!(media.loads, pages as u64, "each page is loaded once");
    // Only the path is dirtied by a change, and the old tree is still there.
    let old = arena.share(root);
    arena.set(&mut root, 0, &[data(500)]).unwrap();
    assert_eq!(arena.dirty_count(), usize::from(LEVELS));
    assert_eq!(arena.lookup(old, 0), Ok(data(0)));
    assert_eq!(persist(&mut arena, &mut media, &mut root), usize::from(LEVELS));
    assert_ne!(root, old);
    arena.verify(&[root, old]).unwrap();
}

#[test]
fn missing_names_the_page_and_changes_nothing() {
    let (mut writer, mut media) = (arena(), Media::default());
    let mut root = HOLE;
    writer.set(&mut root, 5 * LEAF, &[data(1)]).unwrap();
    writer.set(&mut root, 9 * LEAF, &[data(2)]).unwrap();
    persist(&mut writer, &mut media, &mut root);
    let mut arena = reopened();
    let stored = root;
    let mut levels = Vec::new();
    while let Err(missing) = arena.set(&mut root, 5 * LEAF, &[data(3)]) {
        assert_eq!((root, arena.dirty_count()), (stored, 0));
        assert_eq!(missing.index, if missing.level == 0 { 5 } else { 0 });
        levels.push(missing.level);
        media.load(&mut arena, missing);
    }
    assert_eq!(levels, [3, 2, 1, 0]);
    // A fill that needs one more page at its far edge leaves the near edge alone until it is there.
    let missing = arena.fill(&mut root, 5 * LEAF, 4 * LEAF + 7, HOLE).unwrap_err();
    assert_eq!((missing.level, missing.index), (0, 9));
    assert_eq!(arena.lookup(root, 5 * LEAF), Ok(data(3)));
    let mut out = vec![ZERO];
    arena.lookup_run(root, 5 * LEAF, 5 * LEAF, &mut out).unwrap_err();
    assert_eq!(out, [ZERO]);
    // What exists is told up to the page that is not there.
    let extents = arena.extents(root, 5 * LEAF, 5 * LEAF, 10).unwrap();
    assert_eq!(extents.iter().map(|extent| extent.blocks).sum::<u64>(), 4 * LEAF);
    arena.verify(&[root]).unwrap();
}

#[test]
fn a_shared_subtree_is_written_once_and_live_copies_heal() {
    let (mut arena, mut media) = (arena(), Media::default());
    let mut root = HOLE;
    for leaf in 0..8 {
        arena.set(&mut root, leaf * LEAF, &[data(leaf)]).unwrap();
    }
    let mut first = arena.share(root);
    arena.set(&mut root, 0, &[data(100)]).unwrap();
    let mut second = arena.share(root);
    arena.set(&mut root, LEAF, &[data(101)]).unwrap();
    assert_eq!(persist(&mut arena, &mut media, &mut first), 8 + 3);
    arena.verify(&[root, first, second]).unwrap();
    assert_eq!(persist(&mut arena, &mut media, &mut second), 1 + 3, "seven leaves are shared with the first");
    arena.verify(&[root, first, second]).unwrap();
    assert!(
        arena.slots.iter().any(|slot| slot.references > 0 && slot.media.is_page()),
        "the live tree has them"
    );
    for leaf in 0..8 {
        arena.lookup(root, leaf * LEAF).unwrap();
    }
    assert!(
        !arena.slots.iter().any(|slot| slot.references > 0 && slot.media.is_page()),
        "healed by look-ups"
    );
    assert_eq!(persist(&mut arena, &mut media, &mut root), 1 + 3);
    arena.verify(&[root, first, second]).unwrap();
}

/// A clean page can be evicted once only clean pages lead to it: neither sharing nor copying may take new
/// references to it.
#[test]
fn clean_pages_gain_no_references() {
    let (mut arena, mut media) = (arena(), Media::default());
    let mut root = HOLE;
    for leaf in 0..4 {
        arena.set(&mut root, leaf * LEAF, &[data(leaf)]).unwrap();
    }
    let mut frozen = arena.share(root);
    let mut order = WriteOrder::new(frozen);
    let clean_references = |arena: &PageArena| {
        let clean = arena.slots.iter().filter(|slot| slot.media.is_page());
        clean.map(|slot| slot.references).sum::<u32>()
    };
    for leaf in 0..4 {
        let next = order.next(&arena).unwrap();
        assert_eq!((next.level, next.index), (0, leaf));
        let place = media.assign();
        let form = media.write(place, next, arena.encode(next.page), true);
        arena.set_persisted(next.page, place, form);
        arena.unpin(next.page);
    }
    assert_eq!(clean_references(&arena), 4, "from their parent");
    arena.set(&mut root, 0, &[data(9)]).unwrap();
    assert!(clean_references(&arena) <= 4, "the parent was copied and its copy has media pointers");
    arena.release(root);

    root = arena.share(frozen);
    persist(&mut arena, &mut media, &mut frozen);
    assert_eq!(clean_references(&arena), 1, "the root that is still to be normalised");
    assert_eq!(arena.share(root), frozen);
    assert_eq!(clean_references(&arena), 1);
    while arena.reap(10) > 0 {}
    arena.verify(&[root]).unwrap();
    assert!(arena.normalise(&mut root));
    assert_eq!(clean_references(&arena), 0);
}

#[test]
fn a_checkpoint_given_up_half_way_leaves_the_live_tree_whole() {
    let (mut arena, mut media) = (arena(), Media::default());
    let mut root = HOLE;
    for leaf in 0..8 {
        arena.set(&mut root, leaf * LEAF, &[data(leaf)]).unwrap();
    }
    let frozen = arena.share(root);
    let mut order = WriteOrder::new(frozen);
    let mut written = Vec::new();
    for _ in 0..4 {
        let next = order.next(&arena).unwrap();
        let place = media.assign();
        let form = media.write(place, next, arena.encode(next.page), true);
        arena.set_persisted(next.page, place, form);
        written.push(next.page);
        arena.set(&mut root, 7 * LEAF, &[data(200)]).unwrap();
    }
    arena.release(frozen);
    written.into_iter().for_each(|page| arena.unpin(page));
    while arena.reap(3) > 0 {}
    arena.verify(&[root]).unwrap();
    for leaf in 0..7 {
        assert_eq!(arena.lookup(root, leaf * LEAF), Ok(data(leaf)));
    }
    assert_eq!(persist(&mut arena, &mut media, &mut root), 4 + 3);
}

#[test]
fn extents_join_neighbours_and_skip_whole_subtrees() {
    let mut arena = arena();
    let mut root = HOLE;
    arena.set(&mut root, 510, &[data(1), data(2), data(3), ZERO]).unwrap();
    arena.fill(&mut root, 514, TIB_BLOCKS, ZERO).unwrap();
    let extent = |blocks, kind| Extent { blocks, kind };
    let all = [
        extent(510, ExtentKind::Hole),
        extent(3, ExtentKind::Data),
        extent(TIB_BLOCKS + 1, ExtentKind::Zero),
        extent(BLOCKS_MAX - 514 - TIB_BLOCKS, ExtentKind::Hole),
    ];
    assert_eq!(arena.extents(root, 0, BLOCKS_MAX, 10).unwrap(), all);
    assert_eq!(arena.extents(root, 0, BLOCKS_MAX, 2).unwrap(), all[..2]);
    assert_eq!(arena.extents(root, 511, 1, 2).unwrap(), [extent(1, ExtentKind::Data)]);
    assert_eq!(arena.extents(root, 0, 0, 1).unwrap(), []);
    assert_eq!(arena.extents(HOLE, 7, 9, 1).unwrap(), [extent(9, ExtentKind::Hole)]);
}

#[test]
fn impossible_pages_are_refused() {
    let mut arena = arena();
    let mut media = Media::default();
    let mut try_page = |level, found| {
        let mut page = Box::new([HOLE; PAGE_POINTERS]);
        page[7] = found;
        let place = media.assign();
        arena.insert_clean(place, level, TrackedPage::full(place, page))
    };
    let somewhere = Media::default().assign();
    for (level, found) in [
        (0, somewhere),
        (0, Pointer(1)),
        (0, Pointer(ZERO.0 | 4)),
        (1, data(1)),
        (3, data(1)),
        (2, Pointer::in_memory(3)),
    ] {
        assert!(
            matches!(try_page(level, found), Err(PageInvalid::Slot { slot: 7, .. })),
            "{level} {found:?}"
        );
    }
    for (level, found) in [(0, data(1)), (1, somewhere), (3, ZERO)] {
        assert_eq!(try_page(level, found), Ok(()));
    }
    let page: Box<Page> = Box::new([HOLE; PAGE_POINTERS]);
    for pointer in [HOLE, data(1), Pointer::in_memory(0)] {
        let page = TrackedPage::full(pointer, page.clone());
        assert_eq!(arena.insert_clean(pointer, 0, page), Err(PageInvalid::Pointer { pointer }));
    }
}

/// Two parents that name the same page at different levels: the second load says so, so that the caller
/// does not load for ever.
#[test]
fn a_page_wanted_at_two_levels_is_damage() {
    let mut arena = arena();
    let mut media = Media::default();
    let (upper, lower) = (media.assign(), media.assign());
    let mut root_page = Box::new([HOLE; PAGE_POINTERS]);
    root_page[0] = lower;
    arena.insert_clean(upper, 3, TrackedPage::full(upper, root_page.clone())).unwrap();
    arena.insert_clean(lower, 3, TrackedPage::full(lower, root_page.clone())).unwrap();
    let missing = arena.lookup(upper, 0).unwrap_err();
    assert_eq!((missing.pointer, missing.level), (lower, 2));
    let error = arena.insert_clean(lower, 2, TrackedPage::full(lower, root_page)).unwrap_err();
    assert_eq!(error, PageInvalid::Level { pointer: lower, level: 2, loaded_level: 3 });
}

#[test]
fn clean_pages_go_when_the_capacity_is_passed_and_pinned_ones_stay() {
    let mut arena = PageArena::with_clean_pages_min(0, 8);
    let mut media = Media::default();
    let mut root = HOLE;
    for leaf in 0..200 {
        arena.set(&mut root, leaf * LEAF, &[data(leaf)]).unwrap();
    }
    let mut order = WriteOrder::new(root);
    let mut written = Vec::new();
    while let Some(next) = order.next(&arena) {
        let place = media.assign();
        let form = media.write(place, next, arena.encode(next.page), true);
        arena.set_persisted(next.page, place, form);
        written.push(next.page);
    }
    assert_eq!(arena.counters().clean_pages, 203);
    assert!(arena.normalise(&mut root));
    written.into_iter().for_each(|page| arena.unpin(page));
    assert_eq!(arena.counters().clean_pages, 8);
    for leaf in 0..200 {
        assert_eq!(media.retry(&mut arena, |arena| arena.lookup(root, leaf * LEAF)), data(leaf));
        assert!(arena.counters().clean_pages <= 9);
    }
    assert!(media.loads < 230, "inner pages are hot and stay: {} loads", media.loads);
    arena.verify(&[root]).unwrap();
}

#[test]
fn a_walk_meets_every_page_once_and_can_leave_subtrees_out() {
    let (mut writer, mut media) = (arena(), Media::default());
    let mut root = HOLE;
    let blocks: Vec<u64> = (0..40).map(|at| at * at * 7919 * 13).collect();
    for block in &blocks {
        writer.set(&mut root, *block, &[data(*block & 0xffff)]).unwrap();
    }
    persist(&mut writer, &mut media, &mut root);
    let mut arena = PageArena::with_clean_pages_min(0, 8);
    let mut walk = PageWalk::new(root);
    let (mut pages, mut found) = (0, Vec::new());
    loop {
        let visit = match walk.next(&mut arena) {
            Ok(Some(visit)) => visit,
            Ok(None) => break,
            Err(missing) => {
                media.load(&mut arena, missing);
                continue;
            }
        };
        pages += 1;
        assert!(visit.media.is_some());
        if visit.level == 0 {
            let data_slots = visit.pointers.iter().enumerate().filter(|(_, pointer)| pointer.is_data());
            found.extend(data_slots.map(|(slot, _)| visit.first_block + slot as u64));
        }
    }
    assert_eq!((pages, found), (media.records.len(), blocks));

    let mut walk = PageWalk::new(root);
    let mut levels = Vec::new();
    while let Some(visit) =
        media.retry(&mut arena, |arena| walk.next(arena).map(|visit| visit.map(|visit| visit.level)))
    {
        levels.push(visit);
        if visit == 1 {
            walk.skip_children();
        }
    }
    assert!(levels.contains(&1) && !levels.contains(&0));
}
