//! Where an array's bytes lie on its drives, and what a read or write of them asks of the drives.
//!
//! ```text
//! RAID 0, 1, 10: chunk k has copies at the positions c*k .. c*k + c - 1; position p is on drive p mod n in
//!                row p div n. So odd numbers of drives can be mirrored too, chunk by chunk.
//! RAID 5, 6:     row r has its parity on drive n - 1 - r mod n (and the one behind it), data behind that.
//! ```
//! Pure functions; nothing here knows of time. Parity updates read the old data and the old parity, whatever
//! the number of drives; rows that are written whole read nothing.

use crate::Kind;

/// How an array protects its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raid {
    /// Chunks over all drives, once each.
    Stripes,
    /// Every drive holds everything.
    Mirror,
    /// Chunks over all drives, twice each.
    StripedMirrors,
    /// One chunk of each row is parity.
    Parity,
    /// Two chunks of each row are parity.
    DoubleParity,
}

impl Raid {
    /// All of them, in the order in which they are listed to a reader.
    pub const ALL: [Raid; 5] =
        [Raid::Stripes, Raid::Mirror, Raid::StripedMirrors, Raid::Parity, Raid::DoubleParity];

    /// The number by which everybody knows it.
    #[must_use]
    pub fn level(self) -> &'static str {
        match self {
            Raid::Stripes => "0",
            Raid::Mirror => "1",
            Raid::StripedMirrors => "10",
            Raid::Parity => "5",
            Raid::DoubleParity => "6",
        }
    }

    /// The fewest drives it makes sense with.
    #[must_use]
    pub fn drives_min(self) -> usize {
        match self {
            Raid::Stripes => 1,
            Raid::Mirror | Raid::StripedMirrors => 2,
            Raid::Parity => 3,
            Raid::DoubleParity => 4,
        }
    }

    fn copies(self, drives: u64) -> u64 {
        match self {
            Raid::Mirror => drives,
            Raid::StripedMirrors => 2,
            Raid::Stripes | Raid::Parity | Raid::DoubleParity => 1,
        }
    }

    fn parities(self) -> u64 {
        match self {
            Raid::Stripes | Raid::Mirror | Raid::StripedMirrors => 0,
            Raid::Parity => 1,
            Raid::DoubleParity => 2,
        }
    }
}

/// What is asked of one drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) drive: usize,
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A run of bytes that can be read in one place, or in any of several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// Drive and offset of each copy.
    pub(crate) places: Vec<(usize, u64)>,
    pub(crate) length: u64,
}

/// Writes that may begin when the reads are done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Update {
    pub(crate) reads: Vec<Part>,
    pub(crate) writes: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    raid: Raid,
    drives: u64,
    chunk: u64,
    /// Chunks that hold data, in a row of an array with parity.
    data_chunks: u64,
    capacity: u64,
}

impl Layout {
    pub(crate) fn new(raid: Raid, drives: usize, chunk: u64, drive_capacity: u64) -> Layout {
        assert!(drives >= raid.drives_min(), "{drives} drives of RAID {}", raid.level());
        let drives = drives as u64;
        let rows = drive_capacity / chunk;
        let data_chunks = drives - raid.parities();
        let chunks = rows * data_chunks / raid.copies(drives);
        Layout { raid, drives, chunk, data_chunks, capacity: chunks * chunk }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The end of the run around `byte` that is best written in one go: a row with its parity, or a chunk.
    pub(crate) fn run_end(&self, byte: u64) -> u64 {
        let unit = if self.raid.parities() > 0 { self.data_chunks * self.chunk } else { self.chunk };
        (byte / unit + 1) * unit
    }

    /// What to read, neighbours on the same drives as one.
    pub(crate) fn pieces(&self, offset: u64, length: u64) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for (chunk, within, length) in self.chunks(offset, length) {
            let places = self.places(chunk, within);
            let continues = |piece: &&mut Piece| {
                let pairs = piece.places.iter().zip(&places);
                pairs.clone().all(|(old, new)| *new == (old.0, old.1 + piece.length))
            };
            match pieces.iter_mut().rev().take(self.drives as usize).find(continues) {
                Some(piece) => piece.length += length,
                None => pieces.push(Piece { places, length }),
            }
        }
        pieces
    }

    /// What to do for a write. The updates are independent of each other.
    pub(crate) fn updates(&self, offset: u64, length: u64) -> Vec<Update> {
        if self.raid.parities() == 0 {
            let writes = self.pieces(offset, length).into_iter().flat_map(|piece| {
                let place =
                    move |(drive, offset)| Part { drive, kind: Kind::Write, offset, length: piece.length };
                piece.places.into_iter().map(place)
            });
            return vec![Update { reads: Vec::new(), writes: writes.collect() }];
        }
        let row_bytes = self.data_chunks * self.chunk;
        let end = offset + length;
        let whole_from = offset.next_multiple_of(row_bytes);
        let whole_to = end / row_bytes * row_bytes;
        if whole_from >= whole_to {
            // No whole row, and so at most two.
            let first_end = end.min(self.run_end(offset));
            let spans = [(offset, first_end), (first_end, end)];
            return spans.iter().filter(|span| span.0 < span.1).map(|span| self.partial(*span)).collect();
        }
        let mut updates = vec![self.whole_rows(whole_from / row_bytes, whole_to / row_bytes)];
        for span in [(offset, whole_from), (whole_to, end)] {
            if span.0 < span.1 {
                updates.push(self.partial(span));
            }
        }
        updates
    }

    /// Rows written whole: every drive gets its chunk of each of them, and nothing is read.
    fn whole_rows(&self, first: u64, end: u64) -> Update {
        let (offset, length) = (first * self.chunk, (end - first) * self.chunk);
        let part = |drive| Part { drive: drive as usize, kind: Kind::Write, offset, length };
        Update { reads: Vec::new(), writes: (0..self.drives).map(part).collect() }
    }

    /// A part of one row: old data and old parity are read, then both are written.
    fn partial(&self, (offset, end): (u64, u64)) -> Update {
        let row = offset / (self.data_chunks * self.chunk);
        let mut places: Vec<(u64, u64, u64)> = Vec::new();
        let (mut low, mut high) = (self.chunk, 0);
        for (chunk, within, length) in self.chunks(offset, end - offset) {
            places.push((self.drive_of(row, chunk % self.data_chunks), within, length));
            (low, high) = (low.min(within), high.max(within + length));
        }
        for parity in 0..self.raid.parities() {
            places.push(((self.parity_drive(row) + parity) % self.drives, low, high - low));
        }
        let parts = |kind| {
            let part = move |(drive, within, length): &(u64, u64, u64)| Part {
                drive: *drive as usize,
                kind,
                offset: row * self.chunk + within,
                length: *length,
            };
            places.iter().map(part).collect()
        };
        Update { reads: parts(Kind::Read), writes: parts(Kind::Write) }
    }

    /// Chunk by chunk: its number, the offset in it, and how many bytes.
    fn chunks(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        assert!(length > 0 && offset + length <= self.capacity, "{length} bytes at {offset}");
        let (chunk, end) = (self.chunk, offset + length);
        (offset / chunk..end.div_ceil(chunk)).map(move |number| {
            let from = offset.max(number * chunk);
            let to = end.min((number + 1) * chunk);
            (number, from - number * chunk, to - from)
        })
    }

    fn places(&self, chunk: u64, within: u64) -> Vec<(usize, u64)> {
        if self.raid.parities() > 0 {
            let row = chunk / self.data_chunks;
            let drive = self.drive_of(row, chunk % self.data_chunks);
            return vec![(drive as usize, row * self.chunk + within)];
        }
        let copies = self.raid.copies(self.drives);
        let place =
            |position: u64| ((position % self.drives) as usize, position / self.drives * self.chunk + within);
        (chunk * copies..(chunk + 1) * copies).map(place).collect()
    }

    fn parity_drive(&self, row: u64) -> u64 {
        self.drives - 1 - row % self.drives
    }

    fn drive_of(&self, row: u64, column: u64) -> u64 {
        (self.parity_drive(row) + self.raid.parities() + column) % self.drives
    }
}

#[cfg(test)]
mod tests;
