//! A volume's map with the journal's changes over it: read from drives, changed in memory only.
//!
//! What cannot be read is a slot of its own kind, [`Slot::Lost`]: a later write over it is known all the
//! same, and nothing is ever taken for a hole that may have been data.

use std::ops::Range;
use std::rc::Rc;

use ashlar_format::page::PAGE_POINTERS;
use ashlar_format::{Pointer, PointerKind};

use crate::media::Media;
use crate::why::Why;

/// Levels of pages.
const LEVELS: u8 = 4;

/// A slot of a page, or a root.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// As on the drives.
    Stored(Pointer),
    /// A page that was changed; snapshots share it.
    Changed(Rc<Vec<Slot>>),
    /// What it held cannot be had.
    Lost(Why),
}

/// What a range of blocks holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaf {
    Hole,
    Zero,
    Data(Pointer),
    Lost(Why),
}

/// Blocks below one slot of a page at `level`; with [`LEVELS`], below a root.
fn span(level: u8) -> u64 {
    (PAGE_POINTERS as u64).pow(u32::from(level))
}

/// Gives a range one value.
pub(crate) fn fill(media: &Media, root: &mut Slot, range: Range<u64>, value: &Slot) {
    let mut block = range.start;
    while block < range.end {
        let (mut slot, mut level) = (&mut *root, LEVELS);
        while !block.is_multiple_of(span(level)) || range.end - block < span(level) {
            let index = block / span(level);
            level -= 1;
            slot = &mut page_of(media, slot, level, index)[(block / span(level)) as usize % PAGE_POINTERS];
        }
        *slot = value.clone();
        block += span(level);
    }
}

/// Maps consecutive blocks to those of a chunk.
pub(crate) fn set(media: &Media, root: &mut Slot, block: u64, blocks: usize, first: Pointer) {
    for index in 0..blocks {
        let pointer = first.with_block_index(first.block_index() + index);
        let at = block + index as u64;
        fill(media, root, at..at + 1, &Slot::Stored(pointer));
    }
}

/// The page below a slot, to be changed.
fn page_of<'a>(media: &Media, slot: &'a mut Slot, level: u8, index: u64) -> &'a mut Vec<Slot> {
    if !matches!(slot, Slot::Changed(_)) {
        *slot = Slot::Changed(Rc::new(children_of(media, slot, level, index)));
    }
    match slot {
        Slot::Changed(page) => Rc::make_mut(page),
        Slot::Stored(_) | Slot::Lost(_) => unreachable!("made to one above"),
    }
}

/// The slots of the page that a slot leads to.
fn children_of(media: &Media, slot: &Slot, level: u8, index: u64) -> Vec<Slot> {
    match slot {
        Slot::Changed(page) => page.to_vec(),
        Slot::Lost(why) => vec![Slot::Lost(*why); PAGE_POINTERS],
        Slot::Stored(pointer) => match pointer.kind() {
            PointerKind::Hole | PointerKind::Zero => vec![Slot::Stored(*pointer); PAGE_POINTERS],
            PointerKind::Data => vec![Slot::Lost(Why::MapDamaged); PAGE_POINTERS],
            PointerKind::Page => match media.read_map_page(*pointer, level, index) {
                Ok(page) => page.iter().map(|pointer| Slot::Stored(*pointer)).collect(),
                Err(why) => vec![Slot::Lost(why.of_map()); PAGE_POINTERS],
            },
        },
    }
}

/// What one block holds.
pub(crate) fn look_up(media: &Media, root: &Slot, block: u64) -> Leaf {
    let mut slot = root.clone();
    for level in (0..LEVELS).rev() {
        if let Some(leaf) = uniform(&slot) {
            return leaf;
        }
        let children = children_of(media, &slot, level, block / span(level + 1));
        slot = children[(block / span(level)) as usize % PAGE_POINTERS].clone();
    }
    leaf_of(&slot)
}

/// What is below a slot of an inner page, where that is one thing.
fn uniform(slot: &Slot) -> Option<Leaf> {
    match slot {
        Slot::Changed(_) => None,
        Slot::Lost(why) => Some(Leaf::Lost(*why)),
        Slot::Stored(pointer) => match pointer.kind() {
            PointerKind::Hole => Some(Leaf::Hole),
            PointerKind::Zero => Some(Leaf::Zero),
            PointerKind::Data => Some(Leaf::Lost(Why::MapDamaged)),
            PointerKind::Page => None,
        },
    }
}

fn leaf_of(slot: &Slot) -> Leaf {
    match slot {
        Slot::Stored(pointer) if pointer.is_data() => Leaf::Data(*pointer),
        Slot::Stored(pointer) if pointer.is_page() => Leaf::Lost(Why::MapDamaged),
        _ => uniform(slot).unwrap_or(Leaf::Lost(Why::MapDamaged)),
    }
}

/// Tells what every block below `blocks` holds, in order. Uniform ranges come in pieces as they are stored.
pub(crate) fn walk<E>(
    media: &Media,
    root: &Slot,
    blocks: u64,
    mut visit: impl FnMut(Range<u64>, Leaf) -> Result<(), E>,
) -> Result<(), E> {
    let mut waiting = vec![(root.clone(), LEVELS, 0_u64)];
    while let Some((slot, level, index)) = waiting.pop() {
        let first = index * span(level);
        if first >= blocks {
            continue;
        }
        let range = first..(first + span(level)).min(blocks);
        let leaf = if level == 0 { Some(leaf_of(&slot)) } else { uniform(&slot) };
        if let Some(leaf) = leaf {
            visit(range, leaf)?;
            continue;
        }
        let children = children_of(media, &slot, level - 1, index);
        let numbered = children.into_iter().enumerate().rev();
        waiting
            .extend(numbered.map(|(at, child)| (child, level - 1, index * PAGE_POINTERS as u64 + at as u64)));
    }
    Ok(())
}
