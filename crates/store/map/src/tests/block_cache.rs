//! The read cache: hits, bounds, resistance to scans.

use super::{Random, data};
use crate::BlockCache;

const BLOCK: usize = 4096;

fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK / 8)
}

fn copy(cache: &mut BlockCache, number: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0xee; BLOCK];
    cache.copy(data(number), &mut bytes).then_some(bytes)
}

#[test]
fn a_block_is_found_by_its_chunk_and_its_place_in_it() {
    let mut cache = BlockCache::new(1 << 20);
    let mut bytes = block(0);
    assert!(!cache.copy(data(1), &mut bytes));
    cache.insert(data(1).with_block_index(3), &block(7));
    assert!(!cache.copy(data(1).with_block_index(2), &mut bytes));
    assert!(cache.copy(data(1).with_block_index(3), &mut bytes));
    assert_eq!(bytes, block(7));
    assert_eq!((cache.counters().hits, cache.counters().misses), (1, 2));
    cache.verify().unwrap();
}

#[test]
fn a_scan_leaves_the_working_set_alone() {
    let mut cache = BlockCache::new(1000 * 5000);
    let mut number = 1_000_000;
    for _ in 0..20 {
        for hot in 0..200 {
            if copy(&mut cache, hot).is_none() {
                cache.insert(data(hot), &block(hot));
            }
        }
        for _ in 0..500 {
            number += 1;
            cache.insert(data(number), &block(number));
        }
    }
    for _ in 0..5000 {
        number += 1;
        cache.insert(data(number), &block(number));
    }
    let kept = (0..200).filter(|hot| copy(&mut cache, *hot).is_some()).count();
    assert!(kept >= 195, "{kept} of 200 survived the scan");
}

#[test]
fn the_wrong_block_never_comes_and_the_bound_holds() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let capacity = 20_000 + random.below(300_000) as usize;
        let mut cache = BlockCache::new(capacity);
        for step in 0..5000 {
            let number = random.below(20).min(random.below(200)) + random.below(2) * 37;
            match copy(&mut cache, number) {
                Some(found) => assert!(found == block(number)),
                None => cache.insert(data(number), &block(number)),
            }
            if step % 97 == 0 {
                cache.verify().unwrap();
                assert!(cache.bytes_used() <= capacity);
            }
        }
        assert!(cache.counters().hits > 500);
    }
}

#[test]
fn without_capacity_nothing_is_kept() {
    let mut cache = BlockCache::new(0);
    cache.insert(data(1), &block(1));
    assert_eq!((cache.bytes_used(), copy(&mut cache, 1)), (0, None));
}

#[test]
fn a_full_cache_keeps_a_block_when_it_is_asked_for_again() {
    let mut cache = BlockCache::new(100 * 5000);
    for number in 0..200 {
        cache.insert(data(number), &block(number));
    }
    let evictions = cache.counters().evictions;
    cache.offer(data(500), &block(500));
    assert_eq!((copy(&mut cache, 500), cache.counters().evictions), (None, evictions));
    cache.offer(data(500), &block(500));
    assert_eq!(copy(&mut cache, 500), Some(block(500)));
    cache.verify().unwrap();

    let mut empty = BlockCache::new(100 * 5000);
    empty.offer(data(1), &block(1));
    assert_eq!(copy(&mut empty, 1), Some(block(1)), "a cache with room takes what it gets");
}
