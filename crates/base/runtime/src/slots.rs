//! A vector with holes: stable small keys, free slots reused first.

pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.insert_with(|_| value)
    }

    /// Inserts a value that knows its own key.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(u32) -> T) -> u32 {
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = Some(make(key));
            return key;
        }
        let key = u32::try_from(self.slots.len()).expect("fewer than 2^32 live entries fit in memory");
        self.slots.push(Some(make(key)));
        key
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.slots.get_mut(key as usize).and_then(Option::as_mut)
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let value = self.slots.get_mut(key as usize).and_then(Option::take);
        if value.is_some() {
            self.free.push(key);
        }
        value
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().flatten()
    }
}
