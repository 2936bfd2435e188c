//! The read cache: hits, bounds, resistance to scans.

use std::rc::Rc;

use super::{Random, data};
use crate::BlockCache;

fn chunk(number: u64) -> Rc<[u8]> {
    let length = 4096 * (1 + number % 4) as usize;
    Rc::from(vec![number as u8; length])
}

#[test]
fn any_block_of_a_chunk_finds_it() {
    let mut cache = BlockCache::new(1 << 20);
    assert!(cache.get(data(1)).is_none());
    cache.insert(data(1).with_block_index(3), chunk(1));
    assert_eq!(cache.get(data(1).with_block_index(2)).unwrap()[0], 1);
    assert_eq!((cache.counters().hits, cache.counters().misses), (1, 1));
    cache.verify().unwrap();
}

#[test]
fn a_scan_leaves_the_working_set_alone() {
    let mut cache = BlockCache::new(1000 * 5000);
    let mut number = 1_000_000;
    for _ in 0..20 {
        for hot in 0..200 {
            if cache.get(data(hot)).is_none() {
                cache.insert(data(hot), Rc::from([0; 4096]));
            }
        }
        for _ in 0..500 {
            number += 1;
            cache.insert(data(number), Rc::from([0; 4096]));
        }
    }
    for _ in 0..5000 {
        number += 1;
        cache.insert(data(number), Rc::from([0; 4096]));
    }
    let kept = (0..200).filter(|hot| cache.get(data(*hot)).is_some()).count();
    assert!(kept >= 195, "{kept} of 200 survived the scan");
}

#[test]
fn the_wrong_chunk_never_comes_and_the_bound_holds() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut cache = BlockCache::new(200_000);
        for step in 0..5000 {
            let number = random.below(20).min(random.below(200)) + random.below(2) * 37;
            match cache.get(data(number)) {
                Some(found) => assert!(found == chunk(number)),
                None => cache.insert(data(number), chunk(number)),
            }
            if step % 97 == 0 {
                cache.set_capacity_bytes(random.below(300_000) as usize);
                cache.verify().unwrap();
            }
        }
        assert!(cache.counters().hits > 500);
    }
}

#[test]
fn without_capacity_nothing_is_kept() {
    let mut cache = BlockCache::new(0);
    cache.insert(data(1), chunk(1));
    assert_eq!((cache.bytes_used(), cache.get(data(1)).is_some()), (0, false));
}
