//! A lock that may be held across an await.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};

use super::{Permit, Semaphore};

/// Exclusive access to a value, given in order of asking.
pub struct Mutex<T> {
    turn: Semaphore,
    value: RefCell<T>,
}

/// The lock, held until dropped.
pub struct MutexGuard<'a, T> {
    // Field order matters: the value is released before the turn passes on.
    value: RefMut<'a, T>,
    _turn: Permit,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> Mutex<T> {
    /// An unlocked mutex round `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex { turn: Semaphore::new(1), value: RefCell::new(value) }
    }

    /// Waits for the lock.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        let turn = self.turn.acquire(1).await;
        MutexGuard { value: self.value.borrow_mut(), _turn: turn }
    }

    /// Takes the lock if nobody holds it or waits for it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let turn = self.turn.try_acquire(1)?;
        Some(MutexGuard { value: self.value.borrow_mut(), _turn: turn })
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
