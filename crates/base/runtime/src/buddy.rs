//! Which blocks of a region are free: powers of two from 4 KiB to 4 MiB, halves that find each other.

const SMALLEST_SHIFT: u32 = 12;
const ORDERS: usize = 11;
/// Freed blocks kept whole per order, so that the next taker need not split a big one again.
const QUICK_BLOCKS: usize = 64;
const QUICK_BYTES: usize = 4 << 20;

const USED: u8 = 0xFF;

/// The allocator of one region; offsets in bytes.
pub(crate) struct Buddy {
    /// For each smallest block that starts a free block: that block's order; otherwise [`USED`].
    free_order: Vec<u8>,
    /// Position of that free block in its list.
    position: Vec<u32>,
    lists: [Vec<u32>; ORDERS],
    /// Blocks freed lately, not merged with their halves.
    quick: [Vec<u32>; ORDERS],
}

impl Buddy {
    pub(crate) const LARGEST_BYTES: usize = 1 << (SMALLEST_SHIFT as usize + ORDERS - 1);

    /// All of `bytes` (a multiple of the largest block) free.
    pub(crate) fn new(bytes: usize) -> Buddy {
        let count = bytes >> SMALLEST_SHIFT;
        let mut buddy = Buddy {
            free_order: vec![USED; count],
            position: vec![0; count],
            lists: Default::default(),
            quick: Default::default(),
        };
        let top = ORDERS - 1;
        for block in (0..count).step_by(1 << top).rev() {
            buddy.insert(block as u32, top as u8);
        }
        buddy
    }

    pub(crate) fn order_bytes(order: u8) -> usize {
        1 << (SMALLEST_SHIFT as usize + usize::from(order))
    }

    fn order_of(length: usize) -> Option<u8> {
        let blocks = length.div_ceil(1 << SMALLEST_SHIFT).max(1).next_power_of_two();
        let order = blocks.trailing_zeros() as usize;
        (order < ORDERS).then_some(order as u8)
    }

    /// Takes a block of at least `length` bytes: its offset and order.
    pub(crate) fn take(&mut self, length: usize) -> Option<(usize, u8)> {
        let order = Buddy::order_of(length)?;
        let block = match self.quick[usize::from(order)].pop() {
            Some(block) => block,
            None => match self.split(order) {
                Some(block) => block,
                None => {
                    self.merge_quick();
                    self.split(order)?
                }
            },
        };
        Some(((block as usize) << SMALLEST_SHIFT, order))
    }

    pub(crate) fn give_back(&mut self, offset: usize, order: u8) {
        let block = (offset >> SMALLEST_SHIFT) as u32;
        let quick = &mut self.quick[usize::from(order)];
        if quick.len() < QUICK_BLOCKS && quick.len() * Buddy::order_bytes(order) < QUICK_BYTES {
            quick.push(block);
        } else {
            self.merge(block, order);
        }
    }

    fn split(&mut self, order: u8) -> Option<u32> {
        let mut from = (usize::from(order)..ORDERS).find(|&candidate| !self.lists[candidate].is_empty())?;
        let block = *self.lists[from].last()?;
        self.remove(block);
        while from > usize::from(order) {
            from -= 1;
            self.insert(block + (1 << from), from as u8);
        }
        Some(block)
    }

    fn merge(&mut self, mut block: u32, mut order: u8) {
        while usize::from(order) < ORDERS - 1 {
            let other = block ^ (1 << order);
            if self.free_order[other as usize] != order {
                break;
            }
            self.remove(other);
            block = block.min(other);
            order += 1;
        }
        self.insert(block, order);
    }

    fn merge_quick(&mut self) {
        for order in 0..ORDERS {
            for block in std::mem::take(&mut self.quick[order]) {
                self.merge(block, order as u8);
            }
        }
    }

    fn insert(&mut self, block: u32, order: u8) {
        let list = &mut self.lists[usize::from(order)];
        self.position[block as usize] = list.len() as u32;
        self.free_order[block as usize] = order;
        list.push(block);
    }

    fn remove(&mut self, block: u32) {
        let order = usize::from(self.free_order[block as usize]);
        let position = self.position[block as usize] as usize;
        self.lists[order].swap_remove(position);
        if let Some(&moved) = self.lists[order].get(position) {
            self.position[moved as usize] = position as u32;
        }
        self.free_order[block as usize] = USED;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::random::Random;

    #[test]
    fn blocks_never_overlap_and_all_room_comes_back() {
        for seed in 0..20 {
            let mut random = Random::from_seed(seed);
            let bytes = 4 * Buddy::LARGEST_BYTES;
            let mut buddy = Buddy::new(bytes);
            let mut owner = vec![false; bytes >> SMALLEST_SHIFT];
            let mut held: Vec<(usize, u8)> = Vec::new();
            for _ in 0..20_000 {
                if random.below(100) < 55 {
                    let scale = 10 + random.below(13);
                    let length = 1 + random.below(1 << scale) as usize;
                    let Some((offset, order)) = buddy.take(length) else { continue };
                    assert!(Buddy::order_bytes(order) >= length);
                    assert_eq!(offset % Buddy::order_bytes(order), 0);
                    let first = offset >> SMALLEST_SHIFT;
                    for slot in &mut owner[first..first + (1 << order)] {
                        assert!(!*slot, "block handed out twice");
                        *slot = true;
                    }
                    held.push((offset, order));
                } else if !held.is_empty() {
                    let (offset, order) = held.swap_remove(random.below(held.len() as u64) as usize);
                    let first = offset >> SMALLEST_SHIFT;
                    owner[first..first + (1 << order)].fill(false);
                    buddy.give_back(offset, order);
                }
            }
            for (offset, order) in held.drain(..) {
                buddy.give_back(offset, order);
            }
            for _ in 0..4 {
                assert!(buddy.take(Buddy::LARGEST_BYTES).is_some(), "the region came back in pieces");
            }
            assert!(buddy.take(1).is_none());
        }
    }

    #[test]
    fn a_request_beyond_the_largest_block_is_refused() {
        let mut buddy = Buddy::new(Buddy::LARGEST_BYTES);
        assert!(buddy.take(Buddy::LARGEST_BYTES + 1).is_none());
        assert_eq!(buddy.take(Buddy::LARGEST_BYTES).unwrap(), (0, (ORDERS - 1) as u8));
        assert!(buddy.take(1).is_none());
    }
}
