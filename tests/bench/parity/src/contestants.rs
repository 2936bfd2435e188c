//! Who is measured, each on buffers of its own beside the data they share.

use ashlar_parity::{Column, Kernel};

#[cfg(feature = "isal")]
use crate::isal;
use crate::rust_rival;

pub const OURS: &str = "ashlar";

/// Alignment of columns: that of the product's buffers.
const ALIGNMENT: usize = 4096;

pub type Run<'a> = Box<dyn FnMut() + 'a>;

/// Page-aligned columns, one behind the other.
pub struct Columns {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Columns {
    pub fn new(count: usize, length: usize) -> Columns {
        let bytes = vec![0; count * length + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Columns { bytes, start, length }
    }

    pub fn all(&self) -> Vec<&[u8]> {
        let count = (self.bytes.len() - ALIGNMENT) / self.length;
        self.bytes[self.start..].chunks_exact(self.length).take(count).collect()
    }

    pub fn all_mut(&mut self) -> Vec<&mut [u8]> {
        let count = (self.bytes.len() - ALIGNMENT) / self.length;
        self.bytes[self.start..].chunks_exact_mut(self.length).take(count).collect()
    }

    pub fn fill_with_noise(&mut self) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for byte in &mut self.bytes {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
    }
}

/// Who takes part: a name, whether its answer is compared with ours, and one run of it.
pub type Contestants<'a> = Vec<(&'static str, bool, Run<'a>)>;

fn kernels(every: bool) -> Vec<(&'static str, Kernel)> {
    let mut kernels = vec![(OURS, Kernel::detect())];
    if every {
        kernels.extend(Kernel::all().map(|kernel| (kernel.name(), kernel)));
    }
    kernels
}

pub fn encoders<'a>(
    data: &'a [&'a [u8]],
    m: usize,
    room: &mut impl FnMut() -> Vec<&'a mut [u8]>,
    every_kernel: bool,
) -> Contestants<'a> {
    let mut all: Contestants<'a> = Vec::new();
    for (name, kernel) in kernels(every_kernel) {
        let mut targets = room();
        all.push((
            name,
            true,
            Box::new(move || match &mut targets[..] {
                [p, q] => kernel.generate(data, p, Some(q)),
                [p] => kernel.generate(data, p, None),
                _ => unreachable!("one or two parity columns"),
            }),
        ));
    }
    #[cfg(feature = "isal")]
    {
        let mut raid = isal::Raid::new(data, room());
        all.push(("isa-l raid", true, Box::new(move || raid.run())));
        let mut erasure = isal::Erasure::encode(data, room());
        all.push(("isa-l ec", true, Box::new(move || erasure.run())));
    }
    all.push(("reed-solomon-simd", false, Box::new(rust_rival::encode(data, m))));
    all
}

pub fn decoders<'a>(
    data: &'a [&'a [u8]],
    parity: &[&'a [u8]],
    lost: &'static [usize],
    room: &mut impl FnMut() -> Vec<&'a mut [u8]>,
    every_kernel: bool,
) -> Contestants<'a> {
    let mut all: Contestants<'a> = Vec::new();
    let (p, q) = (parity[0], parity.get(1).copied());
    for (name, kernel) in kernels(every_kernel) {
        let mut targets = room().into_iter();
        let mut columns: Vec<Column<'a>> = Vec::new();
        for (index, column) in data.iter().enumerate() {
            let target = if lost.contains(&index) { targets.next() } else { None };
            columns.push(target.map_or(Column::Present(column), Column::Missing));
        }
        all.push((
            name,
            true,
            Box::new(move || {
                kernel.reconstruct(
                    &mut columns,
                    Column::Present(p),
                    q.map_or(Column::Absent, Column::Present),
                );
            }),
        ));
    }
    #[cfg(feature = "isal")]
    {
        let mut sources: Vec<&[u8]> = data.to_vec();
        for index in lost.iter().rev() {
            sources.remove(*index);
        }
        sources.extend(&parity[..lost.len()]);
        let first = |mut targets: Vec<&'a mut [u8]>| {
            targets.truncate(lost.len());
            targets
        };
        if lost.len() == 1 {
            let mut raid = isal::Raid::new(&sources, first(room()));
            all.push(("isa-l raid", true, Box::new(move || raid.run())));
        }
        let mut erasure = isal::Erasure::decode(data.len(), lost, &sources, first(room()));
        all.push(("isa-l ec", true, Box::new(move || erasure.run())));
    }
    all.push(("reed-solomon-simd", false, Box::new(rust_rival::decode(data, lost, parity.len()))));
    all
}
