//! Turns every way a parser can go wrong into a saved input and a line that repeats it.
//!
//! A panic, a run of more than ten seconds and an allocation beyond any honest structure are caught
//! here. What kills the process outright (a stack overflow, a second panic) leaves the input behind
//! in `artifacts/last-TARGET.bin`, because each input is written there before it runs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Inputs are at most 64 KiB; a parser that asks for this much believed a length it should not have.
const ALLOCATION_BYTES_MAX: usize = 256 << 20;
/// Far above any honest run, even on a busy machine with two cores.
const RUN_SECONDS_MAX: u64 = 10;

/// Counts runs; the watcher sees by it that the fuzzer moves. Odd while a run is on.
static RUNS: AtomicU64 = AtomicU64::new(0);
static IS_FAILING: AtomicBool = AtomicBool::new(false);
static PLACE: OnceLock<std::sync::Mutex<Place>> = OnceLock::new();

/// What a failure report names.
struct Place {
    target: &'static str,
    seed: u64,
    last: PathBuf,
}

struct BoundedAllocator;

// SAFETY: every call goes on to the system's allocator with the same arguments, or ends the process.
unsafe impl GlobalAlloc for BoundedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > ALLOCATION_BYTES_MAX && !IS_FAILING.load(Ordering::Relaxed) {
            fail(&format!("one allocation of {} bytes", layout.size()));
        }
        // SAFETY: the caller keeps GlobalAlloc's contract, which is System's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from System, through `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: BoundedAllocator = BoundedAllocator;

/// Watches the runs of one target.
pub struct Guard {
    last: File,
    path: PathBuf,
}

impl Guard {
    /// Starts watching. The panic hook and the watcher thread are made once.
    pub fn start(target: &'static str, seed: u64) -> Result<Guard, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts");
        let path = folder.join(format!("last-{target}.bin"));
        let last = std::fs::create_dir_all(&folder)
            .and_then(|()| File::create(&path))
            .map_err(|error| format!("create {}: {error}", path.display()))?;
        let place = Place { target, seed, last: path.clone() };
        if let Some(known) = PLACE.get() {
            *known.lock().expect("no holder of this lock panics") = place;
        } else {
            PLACE.get_or_init(|| std::sync::Mutex::new(place));
            std::panic::set_hook(Box::new(|panic| fail(&panic.to_string())));
            std::thread::spawn(watch);
        }
        Ok(Guard { last, path })
    }

    /// Remembers the input that is about to run.
    pub fn before(&self, input: &[u8]) {
        self.last.write_all_at(input, 0).and_then(|()| self.last.set_len(input.len() as u64)).unwrap_or_else(
            |error| {
                eprintln!("fuzz: write {}: {error}", self.path.display());
                std::process::exit(2);
            },
        );
        RUNS.fetch_add(1, Ordering::Relaxed);
    }

    /// The run ended well.
    pub fn after(&self) {
        RUNS.fetch_add(1, Ordering::Relaxed);
    }

    /// The target ended well: the last input is of no interest.
    pub fn finish(self) {
        // A leftover file harms nothing; the next run overwrites it.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn watch() {
    let mut last_runs = 0;
    let mut since = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let runs = RUNS.load(Ordering::Relaxed);
        if runs != last_runs || runs.is_multiple_of(2) {
            last_runs = runs;
            since = Instant::now();
        } else if since.elapsed() > Duration::from_secs(RUN_SECONDS_MAX) {
            fail(&format!("one run takes more than {RUN_SECONDS_MAX} s"));
        }
    }
}

/// Saves the input under a name of its own, says how to repeat it, and ends the process.
fn fail(reason: &str) -> ! {
    // A failure while failing must not report itself again.
    if IS_FAILING.swap(true, Ordering::SeqCst) {
        std::process::abort();
    }
    eprintln!("fuzz: FAILED: {reason}");
    if let Some(place) = PLACE.get().and_then(|place| place.lock().ok())
        && let Ok(input) = std::fs::read(&place.last)
    {
        let name = format!("{}-{:016x}.bin", place.target, ashlar_format::checksum(0, &input));
        let path = place.last.with_file_name(name);
        match std::fs::copy(&place.last, &path) {
            Ok(_) => eprintln!(
                "fuzz: seed {}, {} bytes saved; repeat: cargo xtask fuzz {} --input {}",
                place.seed,
                input.len(),
                place.target,
                path.display()
            ),
            Err(error) => eprintln!("fuzz: could not save {}: {error}", path.display()),
        }
    }
    std::process::exit(1);
}
