//! What the kernel of a host keeps while its array is dead: mounts, what is open in them, and the requests
//! that got no answer. A loss of power takes it along.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ashlar_fuse::Will;

use crate::content::Value;
use crate::drives::Crash;

/// A request that the array took.
#[derive(Clone)]
pub struct Asked {
    /// As it was sent.
    pub message: Vec<u8>,
    /// What it changes, if anything.
    pub change: Option<Written>,
}

/// Bytes of a volume and what they become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// Their content.
    pub value: Value,
}

/// A mount with one open file.
pub struct Mounted {
    /// Which volume of that name it is.
    pub incarnation: u32,
    /// Largest read or write of one request.
    pub payload_bytes: u64,
    /// The file.
    pub node: Cell<u64>,
    /// Its handle.
    pub handle: Cell<u64>,
    /// The number of the last request.
    pub unique: Cell<u64>,
    will: RefCell<Will>,
    unanswered: RefCell<BTreeMap<u64, Asked>>,
}

impl Mounted {
    /// A mount in which nothing is known yet but its directory.
    #[must_use]
    pub fn new(incarnation: u32, payload_bytes: u64, root: u64) -> Mounted {
        Mounted {
            incarnation,
            payload_bytes,
            node: Cell::new(root),
            handle: Cell::new(0),
            unique: Cell::new(0),
            will: RefCell::default(),
            unanswered: RefCell::default(),
        }
    }

    /// What the array leaves to its successor.
    pub fn leave(&self, will: Will) {
        self.will.replace(will);
    }

    /// What the last array left.
    #[must_use]
    pub fn will(&self) -> Will {
        self.will.borrow().clone()
    }

    /// A request is on its way.
    pub fn ask(&self, number: u64, asked: Asked) {
        self.unanswered.borrow_mut().insert(number, asked);
    }

    /// It was answered; false when nobody waits for that.
    #[must_use]
    pub fn is_answered(&self, number: u64) -> bool {
        self.unanswered.borrow_mut().remove(&number).is_some()
    }

    /// Requests that wait for an answer, in their order.
    #[must_use]
    pub fn unanswered(&self) -> Vec<(u64, Asked)> {
        self.unanswered.borrow().iter().map(|(number, asked)| (*number, asked.clone())).collect()
    }
}

/// The mounts, by the name of their volume.
#[derive(Default)]
pub struct Kernel {
    mounts: RefCell<BTreeMap<String, Rc<Mounted>>>,
}

impl Kernel {
    /// A volume is mounted; an earlier mount of this name is gone.
    pub fn mount(&self, volume: &str, mounted: Rc<Mounted>) {
        self.mounts.borrow_mut().insert(volume.to_string(), mounted);
    }

    /// The machine stops in this way: a loss of power leaves no mount.
    pub fn outlive(&self, how: Crash) {
        if matches!(how, Crash::Power { .. }) {
            drop(self.take());
        }
    }

    /// All mounts; none is left.
    #[must_use]
    pub fn take(&self) -> BTreeMap<String, Rc<Mounted>> {
        self.mounts.take()
    }
}
