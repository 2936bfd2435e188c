//! Receives LLVM's coverage counters and compared values from the instrumented crates.
//!
//! The compiler calls the `__sanitizer_cov_*` functions below; this crate itself is not instrumented
//! (a comparison in a callback would call the callback). Without instrumentation, as under
//! `cargo test`, nothing calls them and coverage is empty: the loop then only mutates.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;

/// Where the counters of each instrumented module lie, as address and length.
static REGIONS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Compared pairs kept of a run: enough for the magics and lengths of one request (arbitrary).
const PAIRS_MAX: usize = 128;

/// Two values that a run compared and found different, and their width in bytes.
#[derive(Clone, Copy)]
pub struct Pair {
    pub width_bytes: u8,
    pub first: u64,
    pub second: u64,
}

thread_local! {
    static PAIRS: RefCell<Vec<Pair>> = const { RefCell::new(Vec::new()) };
    static PAIRS_SEEN: Cell<usize> = const { Cell::new(0) };
}

/// Called by each instrumented module before `main`, possibly several times with the same range.
///
/// # Safety
/// `start..stop` is one live array of counters, as LLVM's interface promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    let region = (start as usize, stop as usize - start as usize);
    let mut regions = REGIONS.lock().expect("no holder of this lock panics");
    if region.1 > 0 && !regions.contains(&region) {
        regions.push(region);
    }
}

/// Calls `visit` with the counters of every region in turn.
fn visit(mut visit: impl FnMut(&mut [u8])) {
    for (start, length) in REGIONS.lock().expect("no holder of this lock panics").iter() {
        // SAFETY: the range was handed over by the compiler's own module constructor, lives for the
        // whole program, and the fuzzed code that also writes it runs on this thread, not now.
        visit(unsafe { std::slice::from_raw_parts_mut(*start as *mut u8, *length) });
    }
}

/// Forgets the run before.
pub fn reset() {
    visit(|counters| counters.fill(0));
    PAIRS.with_borrow_mut(Vec::clear);
    PAIRS_SEEN.set(0);
}

/// How many places are instrumented.
pub fn count() -> usize {
    let mut total = 0;
    visit(|counters| total += counters.len());
    total
}

/// Adds what this run reached to `seen`; true when something is new. A place reached once, twice,
/// a few or many times counts as different things, so that loops are explored too.
pub fn merge(seen: &mut Vec<u8>) -> bool {
    let mut at = 0;
    let mut is_new = false;
    visit(|counters| {
        if seen.len() < at + counters.len() {
            seen.resize(at + counters.len(), 0);
        }
        for (counter, seen) in counters.iter().zip(&mut seen[at..]) {
            if *counter != 0 {
                let class = 1_u8 << (8 - counter.leading_zeros()).saturating_sub(1).min(7);
                is_new |= *seen & class == 0;
                *seen |= class;
            }
        }
        at += counters.len();
    });
    is_new
}

/// The values the last run compared.
pub fn pairs() -> Vec<Pair> {
    PAIRS.with_borrow(Clone::clone)
}

fn compared(width_bytes: u8, first: u64, second: u64) {
    if first == second {
        return;
    }
    let seen = PAIRS_SEEN.get();
    PAIRS_SEEN.set(seen + 1);
    PAIRS.with_borrow_mut(|pairs| {
        let pair = Pair { width_bytes, first, second };
        if pairs.len() < PAIRS_MAX {
            pairs.push(pair);
        } else {
            // A loop must not push out everything that was compared before it.
            let slot = seen.wrapping_mul(0x9e37_79b1) % (PAIRS_MAX * 4);
            if let Some(old) = pairs.get_mut(slot) {
                *old = pair;
            }
        }
    });
}

macro_rules! comparison {
    ($($name:ident($type:ty)),*) => {$(
        /// Called by instrumented code before a comparison.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(first: $type, second: $type) {
            compared(size_of::<$type>() as u8, u64::from(first), u64::from(second));
        }
    )*};
}

comparison!(
    __sanitizer_cov_trace_cmp1(u8),
    __sanitizer_cov_trace_cmp2(u16),
    __sanitizer_cov_trace_cmp4(u32),
    __sanitizer_cov_trace_cmp8(u64),
    __sanitizer_cov_trace_const_cmp1(u8),
    __sanitizer_cov_trace_const_cmp2(u16),
    __sanitizer_cov_trace_const_cmp4(u32),
    __sanitizer_cov_trace_const_cmp8(u64)
);

/// Called by instrumented code before a `match` on integers.
///
/// # Safety
/// `table` is LLVM's: the number of cases, the width in bits, then the cases.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_trace_switch(value: u64, table: *const u64) {
    // SAFETY: the first two words are the table's fixed head.
    let (count, bits) = unsafe { (*table as usize, *table.add(1)) };
    for index in 0..count.min(PAIRS_MAX / 4) {
        // SAFETY: `count` cases follow the head.
        let case = unsafe { *table.add(2 + index) };
        compared((bits / 8).clamp(1, 8) as u8, value, case);
    }
}
