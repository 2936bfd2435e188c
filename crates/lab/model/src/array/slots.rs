//! Values under a number, whose places are used again: tasks and steps come and go.

/// Values by index, whose places are used again.
#[derive(Debug)]
pub(super) struct Slots<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.values[index] = Some(value);
            return index;
        }
        self.values.push(Some(value));
        self.values.len() - 1
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut T {
        self.values[index].as_mut().expect("a slot in use")
    }

    pub(super) fn remove(&mut self, index: usize) -> T {
        self.free.push(index);
        self.values[index].take().expect("a slot in use")
    }
}
