//! What the next record of a page may leave out, and why the record it refers to is still there.
//!
//! A page knows its *base*, the FULL record it derives from, and the slots in which it may differ from
//! it. With few such slots a checkpoint writes a DELTA: base and overrides. The fields are private: no
//! slot changes without being noted.
//!
//! ```text
//! FULL written at B     base B, no overrides           DELTA written     base and overrides stay
//! slot changed          one override more              copied            both go along, see below
//! read from a drive     as the record says             new, unfolded     no base: FULL is next
//! ```
//!
//! **A base must be alive when a DELTA that names it is published**, or the cleaner may have freed it
//! meanwhile. The cleaner frees what no image of a published checkpoint refers to, a DELTA referring to
//! its base too. So the rule to be kept is:
//!
//! > The base of a dirty page is in use by an image of the last published checkpoint, or was written
//! > after that one's cut.
//!
//! Then it is in use, as the DELTA is published, by the image that has the DELTA; and in between nobody
//! could free it. The rule holds by induction over checkpoints. A dirty page is a copy:
//!
//! 1. Of a clean page that a tree reaches. That page is in an image of the last published checkpoint,
//!    and with it its base; or it was persisted after that one's cut by a checkpoint that is under way
//!    or was given up. Then its base is its own record, which is young, or was its base as a dirty page,
//!    for which the rule held. (What a given up checkpoint wrote the cleaner leaves alone until one is
//!    published: that one has all pages which the trees still reach.)
//! 2. Of a dirty page that no checkpoint has frozen. Both are in the next cut, the rule goes on.
//! 3. Of a dirty page that a checkpoint under way has frozen and not written yet. If that page is then
//!    written FULL, the published checkpoint may no longer use the old base, and the copy, which comes
//!    with the next checkpoint, would refer to nothing. So the two agree when the copy is made: a frozen
//!    page does not change any more, hence its overrides are counted already. Few: it *owes* a DELTA,
//!    whatever else would be shorter. Many: it will be FULL, and so will the copy, which has as many.
//!
//! Restore, clone and delete move roots between images; they make no page and no record. A page that
//! was evicted comes back with what its record says. After a crash nothing is dirty, and replay copies
//! pages of the published checkpoint. Pages of a checkpoint given up that stay dirty keep their base:
//! the published checkpoint is still the one before.

use ashlar_format::Pointer;
use ashlar_format::overrides::Override;
use ashlar_units::{Fault, planted};

use crate::geometry::{PAGE_POINTERS, Page};

/// A page with more overrides is written FULL. With 64, a record of overrides is a seventh of a FULL one
/// of random pointers.
pub(crate) const OVERRIDES_MAX: usize = 64;

const _: () = assert!(OVERRIDES_MAX <= ashlar_format::overrides::OVERRIDES_MAX);

/// Slots of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SlotSet([u64; PAGE_POINTERS / 64]);

impl SlotSet {
    fn insert(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    fn has(&self, slot: usize) -> bool {
        self.0[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// A page, its base and the slots in which it may differ from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrackedPage {
    pointers: Box<Page>,
    /// A FULL record of this page; a hole when there is none to refer to.
    base: Pointer,
    overridden: SlotSet,
    /// Somebody copied it while it was dirty and relies on its base.
    is_delta_owed: bool,
}

impl TrackedPage {
    /// A page that is on no drive.
    pub(crate) fn new(pointers: Box<Page>) -> TrackedPage {
        let overridden = SlotSet::default();
        TrackedPage { pointers, base: Pointer::HOLE, overridden, is_delta_owed: false }
    }

    /// The page of a FULL record.
    #[must_use]
    pub fn full(record: Pointer, pointers: Box<Page>) -> TrackedPage {
        TrackedPage { base: record, ..TrackedPage::new(pointers) }
    }

    /// The page of a DELTA: its base's pointers with these overrides.
    #[must_use]
    pub fn delta(base: Pointer, pointers: Box<Page>, overrides: &[Override]) -> TrackedPage {
        let mut page = TrackedPage::full(base, pointers);
        for entry in overrides {
            page.pointers[usize::from(entry.slot)] = entry.pointer;
            page.overridden.insert(usize::from(entry.slot));
        }
        page
    }

    /// The page.
    #[inline]
    #[must_use]
    pub fn pointers(&self) -> &Page {
        &self.pointers
    }

    /// The FULL record it derives from: for a page on a drive its own, or the one its DELTA names.
    #[must_use]
    pub fn base(&self) -> Option<Pointer> {
        self.base.is_page().then_some(self.base)
    }

    /// How many slots may differ from the base.
    pub(crate) fn override_count(&self) -> usize {
        self.overridden.len()
    }

    /// Changes a slot; returns what it held.
    #[inline]
    pub(crate) fn put(&mut self, slot: usize, pointer: Pointer) -> Pointer {
        let old = std::mem::replace(&mut self.pointers[slot], pointer);
        if old != pointer && !(planted(Fault::DeltaForgetsSlot) && slot == 7) {
            self.overridden.insert(slot);
        }
        old
    }

    /// Changes slots that follow each other.
    pub(crate) fn put_run(&mut self, first_slot: usize, pointers: &[Pointer]) {
        let end = first_slot + pointers.len();
        assert!(end <= PAGE_POINTERS, "slots {first_slot}..{end} of one page");
        for (slot, pointer) in (first_slot..).zip(pointers) {
            self.put(slot, *pointer);
        }
    }

    /// A copy to be changed, of a clean page.
    pub(crate) fn copy_clean(&self) -> TrackedPage {
        TrackedPage { is_delta_owed: false, ..self.clone() }
    }

    /// A copy to be changed, of a page that is still to be written (3 above).
    pub(crate) fn copy_dirty(&mut self) -> TrackedPage {
        self.is_delta_owed |= self.base.is_page() && self.overridden.len() <= OVERRIDES_MAX;
        self.copy_clean()
    }

    /// The page as the difference from its base; `None` when it has none or differs too much.
    pub(crate) fn as_delta(&self) -> Option<Delta> {
        let base = self.base().filter(|_| self.overridden.len() <= OVERRIDES_MAX)?;
        let slots = (0..PAGE_POINTERS).filter(|slot| self.overridden.has(*slot));
        let entry = |slot| Override { slot: slot as u16, pointer: self.pointers[slot] };
        Some(Delta { base, overrides: slots.map(entry).collect(), is_owed: self.is_delta_owed })
    }

    /// Notes in which form it was written.
    pub(crate) fn persisted(&mut self, media: Pointer, form: RecordForm) {
        assert!(media.is_page(), "{media:?} is no record of a page");
        match form {
            RecordForm::Full => {
                let is_owed = self.is_delta_owed && self.overridden.len() <= OVERRIDES_MAX;
                assert!(!is_owed, "invariant 8: a copy relies on the base {:?}", self.base);
                (self.base, self.overridden) = (media, SlotSet::default());
            }
            RecordForm::Delta => {
                assert!(self.base.is_page(), "a delta without a base");
                assert!(self.overridden.len() <= OVERRIDES_MAX, "{} overrides", self.overridden.len());
            }
        }
        self.is_delta_owed = false;
    }

    /// Whether base and overrides tell this page.
    pub(crate) fn is_told_by(&self, base: &Page) -> bool {
        (0..PAGE_POINTERS).all(|slot| self.overridden.has(slot) || self.pointers[slot] == base[slot])
    }
}

/// A page told by the difference from its base.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delta {
    /// The FULL record.
    pub base: Pointer,
    /// The slots that differ, ascending.
    pub overrides: Vec<Override>,
    /// It must be written so: see the module `lineage`.
    pub is_owed: bool,
}

/// The forms of a page record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordForm {
    /// The whole page.
    Full,
    /// The difference from its base.
    Delta,
}
