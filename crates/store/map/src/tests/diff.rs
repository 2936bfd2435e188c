//! What the difference of two trees asks for, and what it tells. Random trees are in the model test.

use std::ops::Range;

use ashlar_format::Pointer;

use super::{Media, data};
use crate::{Page, PageArena, RecordForm, TreeDiff, WriteOrder};

/// The runs of blocks that differ, and how many pages were read for that.
pub(super) fn diff(media: &Media, one: Pointer, other: Pointer, from_block: u64) -> (Vec<Range<u64>>, usize) {
    let (mut runs, mut pages) = (Vec::new(), 0);
    let mut walk = TreeDiff::new(one, other, from_block);
    loop {
        let pairs = walk.next(5);
        if pairs.is_empty() {
            return (runs, pages);
        }
        for pair in pairs {
            let read = pair.pages().map(|at| at.map(|at| media.read(at)));
            pages += read.iter().flatten().count();
            let [one, other] = read.each_ref().map(|page| page.as_ref().map(|page| page.pointers() as &Page));
            walk.compare(&pair, one, other, &mut |run| runs.push(run));
        }
    }
}

/// Two trees on drives: one with data in many places, and a copy of it that was changed.
fn stored(change: impl FnOnce(&mut PageArena, &mut Pointer)) -> (Media, Pointer, Pointer) {
    let (mut arena, mut media) = (PageArena::new(1 << 26), Media::default());
    let mut one = Pointer::HOLE;
    for block in (0..512 * 4096).step_by(512 * 16) {
        arena.set(&mut one, block, &[data(block + 1), data(block + 2)]).unwrap();
    }
    let mut other = arena.share(one);
    change(&mut arena, &mut other);
    for root in [&mut one, &mut other] {
        let mut order = WriteOrder::new(*root);
        while let Some(next) = order.next(&arena) {
            let place = media.assign();
            assert_eq!(media.write(place, next, arena.encode(next.page), false), RecordForm::Full);
            arena.set_persisted(next.page, place, RecordForm::Full);
            arena.unpin(next.page);
        }
        assert!(arena.normalise(root));
    }
    (media, one, other)
}

#[test]
fn a_copy_that_nobody_changed_costs_nothing() {
    let (media, one, other) = stored(|_, _| {});
    assert_eq!(diff(&media, one, other, 0), (Vec::new(), 0));
}

#[test]
fn one_changed_block_costs_its_path() {
    let (media, one, other) = stored(|arena, root| {
        arena.set(root, 512 * 16 * 7 + 1, &[data(1 << 30)]).unwrap();
    });
    let block = 512 * 16 * 7 + 1;
    assert_eq!(diff(&media, one, other, 0), (vec![block..block + 1], 8));
    assert_eq!(diff(&media, other, one, block), (vec![block..block + 1], 8));
    // Behind it nothing differs, and what lies before is not read.
    assert_eq!(diff(&media, one, other, block + 1), (Vec::new(), 8));
    assert_eq!(diff(&media, one, other, block + 512), (Vec::new(), 6));
}

#[test]
fn holes_and_zeroes_are_the_same_and_data_is_told_from_both() {
    let (media, one, other) = stored(|arena, root| {
        arena.fill(root, 2, 300, Pointer::ZERO).unwrap();
        arena.fill(root, 512 * 16, 512 * 16, Pointer::HOLE).unwrap();
        arena.fill(root, 1 << 26, 1 << 20, Pointer::ZERO).unwrap();
        arena.fill(root, 512 * 32, 1, Pointer::ZERO).unwrap();
    });
    let expected = [512 * 16..512 * 16 + 2, 512 * 32..512 * 32 + 1];
    assert_eq!(diff(&media, one, other, 0).0, expected);
    assert_eq!(diff(&media, other, one, 0).0, expected);
    let all = diff(&media, Pointer::HOLE, one, 0).0;
    assert_eq!(all.len(), 4096 / 16);
    assert_eq!(diff(&media, Pointer::ZERO, one, 0).0, all);
    assert_eq!(diff(&media, Pointer::ZERO, Pointer::HOLE, 0).0, []);
}
