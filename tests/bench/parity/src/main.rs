//! The parity kernel beside its peers: one program, one run, contestants taking turns.
//!
//! Rates count the data of a row (k columns), whatever is computed from them. Prints a table, and a JSON line
//! for each cell and contestant with the rate of each round.

mod contestants;
#[cfg(feature = "isal")]
mod isal;
mod rust_rival;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ashlar_parity::Kernel;
use contestants::{Columns, OURS, Run, decoders, encoders};

/// Rows measured: data and parity columns.
const SHAPES: [(usize, usize); 4] = [(6, 2), (14, 2), (2, 1), (6, 1)];
const LENGTHS: [usize; 3] = [4 << 10, 64 << 10, 256 << 10];

/// Fresh sets of buffers in a round. Which physical pages a set has decides how well a row fits the
/// second-level cache: one set gave ratios from 0.88 to 1.20 from run to run.
const PLACES: usize = 8;
/// Turns each contestant gets in a place; the round's rate is the median of all.
const TURNS: usize = 4;
/// Rooms in a place: more than there are contestants.
const ROOMS: usize = 6;
/// The clock is read after about so much data, so that reading it costs nothing.
const BATCH_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Generate,
    Rebuild(&'static [usize]),
}

const OPERATIONS: [(&str, Operation); 3] = [
    ("generate", Operation::Generate),
    ("rebuild one", Operation::Rebuild(&[1])),
    ("rebuild two", Operation::Rebuild(&[0, 1])),
];

struct Settings {
    rounds: usize,
    turn: Duration,
    /// Every kernel takes part, not only the one the product would choose.
    kernels: bool,
    /// Cells whose name holds this word.
    only: String,
}

fn main() {
    let settings = settings();
    let mut lines = Vec::new();
    println!("GB/s of data on one processor, median of {} rounds ± half the range", settings.rounds);
    for (word, operation) in OPERATIONS {
        for (k, m) in SHAPES {
            if matches!(operation, Operation::Rebuild(lost) if lost.len() > m) {
                continue;
            }
            for length in LENGTHS {
                let cell = format!("{word} {k}+{m} {} KiB", length >> 10);
                if !cell.contains(&settings.only) {
                    continue;
                }
                let rates = measure_cell(operation, k, m, length, &settings);
                print_row(&cell, &rates);
                lines.extend(rates.iter().map(|(name, rates)| json_line(&cell, name, rates)));
            }
        }
    }
    lines.iter().for_each(|line| println!("{line}"));
}

fn settings() -> Settings {
    let mut settings =
        Settings { rounds: 5, turn: Duration::from_micros(500), kernels: false, only: String::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut word = || arguments.next().expect("a word follows");
        let number = |word: String| word.parse::<usize>().expect("a number follows");
        match argument.as_str() {
            "--rounds" => settings.rounds = number(word()),
            "--turn-micros" => settings.turn = Duration::from_micros(number(word()) as u64),
            "--only" => settings.only = word(),
            "--kernels" => settings.kernels = true,
            _ => panic!("usage: bench-parity [--rounds N] [--turn-micros N] [--only WORD] [--kernels]"),
        }
    }
    settings
}

/// Rates by contestant: one for each turn of a round, or one for each round.
type Rates = BTreeMap<&'static str, Vec<f64>>;

/// Rates of every contestant, one for each round.
fn measure_cell(operation: Operation, k: usize, m: usize, length: usize, settings: &Settings) -> Rates {
    let mut rates = Rates::new();
    for _ in 0..settings.rounds {
        let mut turns = Rates::new();
        // Places live until the round ends, so that each has other pages.
        let mut places: Vec<Place> = (0..PLACES).map(|_| Place::new(k, m, length)).collect();
        places.iter_mut().for_each(|place| place.measure(operation, settings, &mut turns));
        for (name, mut turns) in turns {
            rates.entry(name).or_default().push(median(&mut turns));
        }
    }
    rates
}

/// A row, and room for what each contestant computes.
struct Place {
    row: Columns,
    rooms: Vec<Columns>,
    data_count: usize,
}

impl Place {
    fn new(k: usize, m: usize, length: usize) -> Place {
        let mut row = Columns::new(k + m, length);
        row.fill_with_noise();
        let mut columns = row.all_mut();
        let mut parity = columns.split_off(k).into_iter();
        let data: Vec<&[u8]> = columns.into_iter().map(|column| &*column).collect();
        Kernel::detect().generate(&data, parity.next().expect("every row has P"), parity.next());
        Place { row, rooms: (0..ROOMS).map(|_| Columns::new(m, length)).collect(), data_count: k }
    }

    /// Contestants take turns; then what they wrote is compared.
    fn measure(&mut self, operation: Operation, settings: &Settings, rates: &mut Rates) {
        let columns = self.row.all();
        let (data, parity) = columns.split_at(self.data_count);
        let row_bytes = data.len() * data[0].len();
        let mut rooms = self.rooms.iter_mut().map(Columns::all_mut);
        let mut room = || rooms.next().expect("a room for each contestant");
        let mut contestants = match operation {
            Operation::Generate => encoders(data, parity.len(), &mut room, settings.kernels),
            Operation::Rebuild(lost) => decoders(data, parity, lost, &mut room, settings.kernels),
        };
        for _ in 0..TURNS {
            for (name, _, run) in &mut contestants {
                rates.entry(name).or_default().push(turn(run, row_bytes, settings.turn));
            }
        }
        let compared: Vec<bool> = contestants.iter().map(|(_, is_compared, _)| *is_compared).collect();
        drop(contestants);
        let wanted: Vec<&[u8]> = match operation {
            Operation::Generate => parity.to_vec(),
            Operation::Rebuild(lost) => lost.iter().map(|index| data[*index]).collect(),
        };
        for (room, _) in self.rooms.iter().zip(compared).filter(|(_, is_compared)| *is_compared) {
            assert!(room.all().iter().zip(&wanted).all(|(found, wanted)| found == wanted), "a wrong answer");
        }
    }
}

/// The rate of one contestant in GB/s, measured over at least the time given.
fn turn(run: &mut Run<'_>, row_bytes: usize, least: Duration) -> f64 {
    let batch = (BATCH_BYTES / row_bytes).max(1);
    run();
    let (begin, mut count) = (Instant::now(), 0);
    loop {
        (0..batch).for_each(|_| run());
        count += batch;
        let taken = begin.elapsed();
        if taken >= least {
            return (count * row_bytes) as f64 / taken.as_secs_f64() / 1e9;
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A line of the table; the ratio is ours over the best peer's of the same round.
fn print_row(cell: &str, rates: &Rates) {
    let is_peer = |name: &str| name != OURS && Kernel::all().all(|kernel| kernel.name() != name);
    let ours = &rates[OURS];
    let mut ratios: Vec<f64> = (0..ours.len())
        .map(|round| {
            let peers = rates.iter().filter(|(name, _)| is_peer(name)).map(|(_, rates)| rates[round]);
            ours[round] / peers.fold(0.0, f64::max)
        })
        .collect();
    let mut line = format!("{cell:24}");
    for (name, rates) in rates {
        let mut rates = rates.clone();
        let middle = median(&mut rates);
        let spread = (rates[rates.len() - 1] - rates[0]) / 2.0 / middle * 100.0;
        line += &format!("  {name} {middle:6.1} ±{spread:2.0} %");
    }
    println!("{line}  ratio {:.2}", median(&mut ratios));
}

fn json_line(cell: &str, name: &str, rates: &[f64]) -> String {
    let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.3}")).collect();
    format!("{{\"cell\": \"{cell}\", \"contestant\": \"{name}\", \"gb_s\": [{}]}}", rates.join(", "))
}
