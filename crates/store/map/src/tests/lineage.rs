//! What records leave out: which form may be written when, and what a copy may rely on.

use ashlar_format::Pointer;

use super::{Media, data};
use crate::lineage::OVERRIDES_MAX;
use crate::{PAGE_POINTERS, PageArena, PageToWrite, RecordForm, WriteOrder};

const LEAF: u64 = PAGE_POINTERS as u64;

/// A leaf full of data in a tree that is on the drives.
fn stored_leaf(arena: &mut PageArena, media: &mut Media) -> Pointer {
    let mut root = Pointer::HOLE;
    let pointers: Vec<Pointer> = (0..LEAF).map(data).collect();
    arena.set(&mut root, 0, &pointers).unwrap();
    write_all(arena, media, &mut root, true);
    root
}

fn write_one(arena: &mut PageArena, media: &mut Media, next: PageToWrite, is_wanted: bool) -> RecordForm {
    let place = media.assign();
    let form = media.write(place, next, arena.encode(next.page), is_wanted);
    arena.set_persisted(next.page, place, form);
    arena.unpin(next.page);
    form
}

/// Writes what is left of a frozen root; the forms, leaf first.
fn write_all(
    arena: &mut PageArena,
    media: &mut Media,
    root: &mut Pointer,
    is_wanted: bool,
) -> Vec<RecordForm> {
    let mut order = WriteOrder::new(*root);
    let mut forms = Vec::new();
    while let Some(next) = order.next(arena) {
        forms.push(write_one(arena, media, next, is_wanted));
    }
    assert!(arena.normalise(root));
    forms
}

fn overwrite(arena: &mut PageArena, root: &mut Pointer, blocks: u64, round: u64) {
    for block in 0..blocks {
        arena.set(root, block * 7, &[data(round * 1000 + block)]).unwrap();
    }
}

#[test]
fn overrides_add_up_until_they_are_too_many() {
    let (mut arena, mut media) = (PageArena::new(1 << 20), Media::default());
    let mut root = stored_leaf(&mut arena, &mut media);
    for blocks in [1, 10, 40, OVERRIDES_MAX as u64] {
        overwrite(&mut arena, &mut root, blocks, blocks);
        assert_eq!(write_all(&mut arena, &mut media, &mut root, true), [RecordForm::Delta; 4]);
    }
    // The slots overwritten again count once; one more is one too many.
    overwrite(&mut arena, &mut root, OVERRIDES_MAX as u64 + 1, 70);
    let forms = write_all(&mut arena, &mut media, &mut root, true);
    assert_eq!(forms[0], RecordForm::Full);
    overwrite(&mut arena, &mut root, 1, 71);
    assert_eq!(write_all(&mut arena, &mut media, &mut root, true)[0], RecordForm::Delta);
    let mut reopened = PageArena::new(1 << 20);
    for block in 0..LEAF {
        let expected = arena.lookup(root, block);
        assert_eq!(media.retry(&mut reopened, |arena| arena.lookup(root, block)), expected.unwrap());
    }
}

#[test]
fn a_new_page_is_written_full() {
    let (mut arena, mut media) = (PageArena::new(1 << 20), Media::default());
    let mut root = Pointer::HOLE;
    arena.set(&mut root, 5, &[data(1)]).unwrap();
    assert_eq!(write_all(&mut arena, &mut media, &mut root, true), [RecordForm::Full; 4]);
}

/// A page read back is changed again: its DELTA names the same base, with the old overrides too.
#[test]
fn what_was_evicted_goes_on_from_the_same_base() {
    let (mut arena, mut media) = (PageArena::new(1 << 20), Media::default());
    let mut root = stored_leaf(&mut arena, &mut media);
    overwrite(&mut arena, &mut root, 3, 1);
    write_all(&mut arena, &mut media, &mut root, true);
    let mut reopened = PageArena::new(1 << 20);
    media.retry(&mut reopened, |arena| arena.set(&mut root, 500, &[data(7)]));
    let leaf = WriteOrder::new(root).next(&reopened).unwrap();
    let delta = reopened.encode(leaf.page).delta.unwrap();
    let slots: Vec<u16> = delta.overrides.iter().map(|entry| entry.slot).collect();
    assert_eq!(slots, [0, 7, 14, 500]);
}

/// The frozen page has few overrides and was copied before it was written: it must be a DELTA, so that
/// its base lives on for the copy.
#[test]
fn a_frozen_page_that_was_copied_owes_a_delta() {
    let (mut arena, mut media) = (PageArena::new(1 << 20), Media::default());
    let mut root = stored_leaf(&mut arena, &mut media);
    overwrite(&mut arena, &mut root, 3, 1);
    let mut frozen = arena.share(root);
    overwrite(&mut arena, &mut root, 5, 2);
    assert_eq!(write_all(&mut arena, &mut media, &mut frozen, false), [RecordForm::Delta; 4]);
    media.free_all_but(&[frozen]);
    // Nothing was copied this time.
    assert_eq!(write_all(&mut arena, &mut media, &mut root, false), [RecordForm::Full; 4]);
}

/// The frozen page has too many overrides and will be FULL: nobody may rely on its old base any more.
#[test]
fn a_copy_of_a_page_that_will_be_full_will_be_full_too() {
    let (mut arena, mut media) = (PageArena::new(1 << 20), Media::default());
    let mut root = stored_leaf(&mut arena, &mut media);
    overwrite(&mut arena, &mut root, OVERRIDES_MAX as u64 + 1, 1);
    let mut frozen = arena.share(root);
    overwrite(&mut arena, &mut root, 1, 2);
    assert_eq!(write_all(&mut arena, &mut media, &mut frozen, true)[0], RecordForm::Full);
    media.free_all_but(&[frozen]);
    assert_eq!(write_all(&mut arena, &mut media, &mut root, true)[0], RecordForm::Full);
    media.free_all_but(&[root]);
    overwrite(&mut arena, &mut root, 1, 3);
    assert_eq!(write_all(&mut arena, &mut media, &mut root, true)[0], RecordForm::Delta);
}
