//! Who uses which object: shared for what may go on together, exclusive for what ends or replaces it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How an object is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Others may, too.
    Shared,
    /// Nobody else.
    Exclusive,
}

/// What is used. Data and metadata of a volume are apart: a snapshot goes with writes, not with a
/// resize.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Object {
    /// The content of a volume.
    Data(String),
    /// A volume as an object.
    Volume(String),
    /// A snapshot.
    Snapshot(String),
    /// A set of the notes of a volume, or of the pool without a name.
    Notes(String, u64),
}

/// Shared users, or an exclusive one.
const EXCLUSIVE: u32 = u32::MAX;

/// The table of uses.
#[derive(Clone, Default)]
pub struct Claims {
    uses: Rc<RefCell<BTreeMap<Object, u32>>>,
    /// Objects somebody waits to have alone: nobody new shares them, or the wait would never end.
    awaited: Rc<RefCell<BTreeMap<Object, u32>>>,
}

/// A wait for exclusive uses.
pub struct Intent {
    claims: Claims,
    wanted: Vec<(Object, Use)>,
}

/// Uses that end when this is dropped.
pub struct Claim {
    claims: Claims,
    held: Vec<Object>,
}

impl Claims {
    /// All of the uses, or none when one of them is not possible now.
    #[must_use]
    pub fn try_claim(&self, wanted: Vec<(Object, Use)>) -> Option<Claim> {
        let awaited = self.awaited.borrow();
        if wanted.iter().any(|(object, _)| awaited.contains_key(object)) {
            return None;
        }
        drop(awaited);
        self.claim(wanted)
    }

    /// Announces that these uses are wanted: see [`Intent::try_claim`].
    #[must_use]
    pub fn intend(&self, wanted: Vec<(Object, Use)>) -> Intent {
        for (object, _) in &wanted {
            *self.awaited.borrow_mut().entry(object.clone()).or_insert(0) += 1;
        }
        Intent { claims: self.clone(), wanted }
    }

    fn claim(&self, wanted: Vec<(Object, Use)>) -> Option<Claim> {
        let mut uses = self.uses.borrow_mut();
        let is_free = |(object, how): &(Object, Use)| match (uses.get(object), how) {
            (None, _) => true,
            (Some(users), Use::Shared) => *users != EXCLUSIVE,
            (Some(_), Use::Exclusive) => false,
        };
        if !wanted.iter().all(is_free) {
            return None;
        }
        let mut held = Vec::new();
        for (object, how) in wanted {
            match how {
                Use::Shared => *uses.entry(object.clone()).or_insert(0) += 1,
                Use::Exclusive => drop(uses.insert(object.clone(), EXCLUSIVE)),
            }
            held.push(object);
        }
        Some(Claim { claims: self.clone(), held })
    }
}

impl Intent {
    /// The uses, once those who share them are done.
    #[must_use]
    pub fn try_claim(&self) -> Option<Claim> {
        self.claims.claim(self.wanted.clone())
    }
}

impl Drop for Intent {
    fn drop(&mut self) {
        let mut awaited = self.claims.awaited.borrow_mut();
        for (object, _) in &self.wanted {
            match awaited.get_mut(object) {
                Some(waits) if *waits > 1 => *waits -= 1,
                _ => drop(awaited.remove(object)),
            }
        }
    }
}

impl Claim {
    /// Keeps the uses for the rest of this life: the object's state is not known any more.
    pub fn keep(mut self) {
        self.held.clear();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut uses = self.claims.uses.borrow_mut();
        for object in self.held.drain(..) {
            match uses.get_mut(&object) {
                Some(users) if *users != EXCLUSIVE && *users > 1 => *users -= 1,
                _ => drop(uses.remove(&object)),
            }
        }
    }
}
