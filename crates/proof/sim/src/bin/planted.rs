//! Runs seeds with one planted fault until the simulator finds it.
//!
//! `cargo xtask planted` calls it, one process for each fault: a fault may end in a panic, which
//! ends the process. It answers with one line on stdout, its parts between tabs:
//!
//! ```text
//! found   SEED    LINES RUN   HOW
//! missed  SEEDS   LINES RUN
//! ```

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ashlar_sim::cpu_time;
use ashlar_units::{Fault, plant, reached};

/// As in the array's program: a seed allocates millions of small things.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Processor time after which a seed counts as hung: far above the two minutes of the longest. Real time
/// would count what else the machine does; nothing in a seed waits without working.
const HANG: Duration = Duration::from_secs(600);

const USAGE: &str = "\
usage: planted list                          the faults: name, file, loss
       planted NAME FIRST SEEDS SECONDS      seeds until one fails, none begun after so long; NAME `none`: no fault";

/// The seed that runs now.
static SEED: AtomicU64 = AtomicU64::new(0);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => {
            for fault in Fault::ALL {
                say(&format!("{}\t{}\t{}", fault.name(), fault.place(), fault.loss()));
            }
        }
        [name, first, seeds, seconds] => {
            let fault = Fault::ALL.iter().copied().find(|fault| fault.name() == *name);
            let numbers = (first.parse(), seeds.parse(), seconds.parse());
            let (Ok(first), Ok(seeds), Ok(seconds)) = numbers else { refuse() };
            if fault.is_none() && *name != "none" {
                refuse();
            }
            plant(fault);
            search(first, seeds, Duration::from_secs(seconds));
        }
        _ => refuse(),
    }
}

fn search(first: u64, seeds: u64, time: Duration) {
    // A panic is an answer, too, and the last thing this process does.
    std::panic::set_hook(Box::new(|panic| {
        found(SEED.load(Ordering::Relaxed), &panic_text(panic));
    }));
    let begin = Instant::now();
    let mut run = 0;
    while run < seeds && begin.elapsed() < time {
        let seed = first + run;
        SEED.store(seed, Ordering::Relaxed);
        std::thread::spawn(move || watch(seed));
        if let Some(verdict) = ashlar_sim::verdict_of(seed) {
            found(seed, &verdict);
        }
        run += 1;
    }
    SEED.store(u64::MAX, Ordering::Relaxed);
    say(&format!("missed\t{run}\t{}", reached()));
}

/// Ends a seed that goes on for ever.
fn watch(seed: u64) {
    let begin = cpu_time();
    while SEED.load(Ordering::Relaxed) == seed {
        if cpu_time() - begin > HANG {
            found(seed, "a step does not end");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn found(seed: u64, how: &str) -> ! {
    let how = how.replace(['\t', '\n'], " ");
    say(&format!("found\t{seed}\t{}\t{how}", reached()));
    std::process::exit(0)
}

fn panic_text(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let message = panic.payload();
    let text = message.downcast_ref::<&str>().copied().map(str::to_string);
    let text = text.or_else(|| message.downcast_ref::<String>().cloned()).unwrap_or_default();
    let file = panic.location().map_or("?", std::panic::Location::file);
    format!("an assert in {}: {text}", file.rsplit_once("crates/").map_or(file, |(_, inside)| inside))
}

fn say(line: &str) {
    let _unheard = writeln!(std::io::stdout(), "{line}");
}

fn refuse() -> ! {
    let _unheard = writeln!(std::io::stderr(), "{USAGE}");
    std::process::exit(2)
}
