//! The expensive check of every invariant that one state can show, for tests and the simulator.

use std::fmt::Debug;

use ashlar_format::{Pointer, PointerKind};

use crate::arena::{PageArena, PageState, Slot};
use crate::geometry::Page;
use crate::lineage::{OVERRIDES_MAX, TrackedPage};

impl PageArena {
    /// Recounts everything, given all the roots that are held, each as often as it is held.
    ///
    /// The error names the invariant (see the crate's documentation) and the page.
    pub fn verify(&self, roots: &[Pointer]) -> Result<(), String> {
        self.verify_references(roots)?;
        self.verify_lists()?;
        for (number, slot) in self.slots.iter().enumerate() {
            if let Some(page) = &slot.page {
                self.verify_page(number, slot, page.pointers())?;
                self.verify_base(number, slot, page)?;
            }
        }
        Ok(())
    }

    fn verify_references(&self, roots: &[Pointer]) -> Result<(), String> {
        let mut counted = vec![0u32; self.slots.len()];
        let pages = self.slots.iter().filter_map(|slot| slot.page.as_ref());
        for pointer in roots.iter().chain(pages.flat_map(|page| page.pointers())) {
            if let Some(number) = pointer.as_in_memory() {
                *counted.get_mut(number as usize).ok_or(format!("invariant 1: no page {number}"))? += 1;
            }
        }
        for (number, slot) in self.slots.iter().enumerate() {
            expect_equal(1, number, "references", slot.references, counted[number])?;
            match slot.state {
                PageState::Free => expect_equal(3, number, "free with a page", slot.page.is_some(), false)?,
                PageState::Dirty => expect_equal(3, number, "unreferenced", slot.references == 0, false)?,
                PageState::Condemned => expect_equal(3, number, "references", slot.references, 0)?,
                PageState::Clean => {}
            }
        }
        Ok(())
    }

    fn verify_lists(&self) -> Result<(), String> {
        let mut queued = vec![0; self.slots.len()];
        let mut condemned = vec![0; self.slots.len()];
        let mut free = vec![0; self.slots.len()];
        self.eviction_queue.iter().for_each(|number| queued[*number as usize] += 1);
        self.condemned.iter().for_each(|number| condemned[*number as usize] += 1);
        self.free.iter().for_each(|number| free[*number as usize] += 1);
        let (mut dirty_count, mut held_count) = (0, 0);
        for (number, slot) in self.slots.iter().enumerate() {
            let is_clean = slot.state == PageState::Clean;
            expect_equal(5, number, "times queued", queued[number], usize::from(is_clean))?;
            let is_condemned = slot.state == PageState::Condemned;
            expect_equal(3, number, "times condemned", condemned[number], usize::from(is_condemned))?;
            let is_free = slot.state == PageState::Free;
            expect_equal(3, number, "times free", free[number], usize::from(is_free))?;
            dirty_count += usize::from(slot.state == PageState::Dirty);
            held_count += usize::from(is_clean && !slot.is_evictable());
            let found = self.by_media.get(&slot.media.0).map(|found| *found as usize);
            expect_equal(5, number, "found by media", found, is_clean.then_some(number))?;
            expect_equal(5, number, "pinned and not clean", slot.is_pinned && !is_clean, false)?;
        }
        expect_equal(5, 0, "pages found by media", self.by_media.len(), self.eviction_queue.len())?;
        expect_equal(5, 0, "clean pages held", self.held_count, held_count)?;
        expect_equal(3, 0, "dirty pages", self.dirty_count, dirty_count)
    }

    fn verify_page(&self, number: usize, slot: &Slot, page: &Page) -> Result<(), String> {
        for pointer in page {
            let is_allowed = match pointer.kind() {
                PointerKind::Hole => *pointer == Pointer::HOLE,
                PointerKind::Zero => *pointer == Pointer::ZERO,
                PointerKind::Data => slot.level == 0,
                PointerKind::Page => slot.level > 0,
            };
            expect_equal(6, number, "allowed pointer", is_allowed, true)?;
            let Some(child) = pointer.as_in_memory() else { continue };
            expect_equal(2, number, "clean with memory pointer", slot.state == PageState::Clean, false)?;
            let child_slot = self.slot(child);
            expect_equal(4, number, "child level", child_slot.level + 1, slot.level)?;
            let is_alive = matches!(child_slot.state, PageState::Dirty | PageState::Clean);
            expect_equal(4, number, "child alive", is_alive, true)?;
        }
        Ok(())
    }

    fn verify_base(&self, number: usize, slot: &Slot, page: &TrackedPage) -> Result<(), String> {
        let overrides = page.override_count();
        if slot.state == PageState::Clean {
            expect_equal(8, number, "has a base", page.base().is_some(), true)?;
            expect_equal(8, number, "too many overrides", overrides > OVERRIDES_MAX, false)?;
            let is_own = page.base() == Some(slot.media);
            expect_equal(8, number, "overrides of itself", is_own && overrides > 0, false)?;
        }
        expect_equal(8, number, "told by its base", self.is_told_by_base(number as u32), true)
    }
}

fn expect_equal<T: PartialEq + Debug>(
    invariant: u32,
    number: usize,
    what: &str,
    found: T,
    expected: T,
) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("invariant {invariant}: page {number}: {what}: found {found:?}, expected {expected:?}"))
}
