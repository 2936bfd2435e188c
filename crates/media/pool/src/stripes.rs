//! Segments over columns: whole stripes are written, single blocks are read, lost columns are computed.
//!
//! A stripe is one block of each column: block `b` of a segment is in column `b mod k` of the `k` data
//! columns, in stripe `b / k`. A write covers whole stripes and no address is written twice, so parity is
//! never updated, only written: there is nothing to read before a write, and a torn write can only spoil
//! stripes that nobody was told of.

use std::cell::RefCell;
use std::ops::Range;

use ashlar_format::rows::Rows;
use ashlar_format::segment::Place;
use ashlar_parity::{Column, Kernel};
use ashlar_runtime::{Buf, Durability, Priority, Runtime};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, Fault, SegmentId, planted};

use crate::homes::Moving;
use crate::steer::Paces;
use crate::{Error, ErrorKind, Pool, Result};

/// What a pool with parity knows beyond one without.
pub(crate) struct Striping {
    /// More come at the end when drives are added.
    pub(crate) rows: RefCell<Rows>,
    /// Parity columns.
    pub(crate) parity: usize,
    pub(crate) cell_bytes: u64,
    pub(crate) kernel: Kernel,
    pub(crate) paces: Paces,
    /// A drive's content on its way elsewhere.
    pub(crate) moving: RefCell<Option<Moving>>,
    /// Why the last moving was given up.
    pub(crate) moving_error: RefCell<Option<String>>,
}

impl Striping {
    /// Columns of a row.
    pub(crate) fn width(&self) -> usize {
        self.rows.borrow().width()
    }

    pub(crate) fn row_count(&self) -> u32 {
        self.rows.borrow().count()
    }

    /// Data columns.
    pub(crate) fn data(&self) -> usize {
        self.width() - self.parity
    }
}

/// The blocks of one column that a range of a segment touches.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    column: usize,
    stripes: Range<u64>,
}

/// The parts of a range of blocks over `data` columns.
fn parts_of(blocks: &Range<u64>, data: usize) -> Vec<Part> {
    let k = data as u64;
    let first_columns = blocks.clone().take(data);
    let mut parts: Vec<Part> = first_columns
        .map(|first| {
            let column = first % k;
            let end = (blocks.end - 1 - column) / k + 1;
            Part { column: column as usize, stripes: first / k..end }
        })
        .collect();
    parts.sort_unstable_by_key(|part| part.column);
    parts
}

/// Copies blocks between a run of a segment and the buffer of one column: the bytes of both.
fn each_block(part: &Part, blocks: &Range<u64>, data: usize) -> impl Iterator<Item = (usize, usize)> {
    let (start, column, first) = (blocks.start, part.column as u64, part.stripes.start);
    let (stripes, k) = (part.stripes.clone(), data as u64);
    stripes.map(move |stripe| {
        let in_run = (stripe * k + column - start) as usize * BLOCK_BYTES_USIZE;
        (in_run, (stripe - first) as usize * BLOCK_BYTES_USIZE)
    })
}

fn copy_block(into: &mut [u8], to: usize, from: &[u8], at: usize) {
    into[to..to + BLOCK_BYTES_USIZE].copy_from_slice(&from[at..at + BLOCK_BYTES_USIZE]);
}

impl Pool {
    /// Writes whole stripes with their parity. Returns when every column has them, or a durable
    /// superblock says which drive is out.
    pub(crate) async fn write_stripes(
        &self,
        striping: &Striping,
        segment: SegmentId,
        place: Place,
        offset: u64,
        buffer: Buf,
        durability: Durability,
    ) -> Result<()> {
        let stripe_bytes = striping.data() as u64 * BLOCK_BYTES;
        let is_whole =
            offset.is_multiple_of(stripe_bytes) && (buffer.len() as u64).is_multiple_of(stripe_bytes);
        assert!(is_whole, "write of {} bytes at {offset} is not of whole stripes", buffer.len());
        let stripe = offset / stripe_bytes;
        let columns = columns_with_parity(striping, self.runtime(), &buffer);
        let _passage = self.inner.gate.enter(segment, offset, offset + buffer.len() as u64);
        drop(buffer);
        self.write_columns(striping, place.cell, stripe, columns, durability).await
    }

    async fn write_columns(
        &self,
        striping: &Striping,
        row: u32,
        stripe: u64,
        columns: Vec<Buf>,
        durability: Durability,
    ) -> Result<()> {
        let mut writes = Vec::with_capacity(columns.len());
        for (column, buffer) in columns.into_iter().enumerate() {
            let mut targets = self.targets(striping, row, column, stripe);
            let Some(last) = targets.pop() else { continue };
            writes.extend(targets.into_iter().map(|target| (target, self.copy_of(&buffer))));
            writes.push((last, buffer));
        }
        self.write_to(writes, durability).await?;
        if planted(Fault::CalledOutTooLate) { Ok(()) } else { self.record_drives().await }
    }

    /// Reads a run of blocks.
    pub(crate) async fn read_stripes(
        &self,
        striping: &Striping,
        row: u32,
        blocks: Range<u64>,
    ) -> Result<Buf> {
        let parts = parts_of(&blocks, striping.data());
        let mut reads = Vec::with_capacity(parts.len());
        for part in &parts {
            let (home, address) = self.column_address(striping, row, part.column, part.stripes.start);
            let length = (part.stripes.end - part.stripes.start) as usize * BLOCK_BYTES_USIZE;
            let drive = home.at.drive;
            let Some(open) = self.readable(home) else {
                return self.read_around(striping, row, blocks, &[]).await;
            };
            if parts.len() == 1 {
                return match self.ask(striping, (drive, open), address, length).await {
                    Some(buffer) => Ok(buffer),
                    None => self.read_around(striping, row, blocks, &[part.column]).await,
                };
            }
            let pool = self.clone();
            let read = async move {
                let striping = pool.inner.striping.as_ref()?;
                pool.ask(striping, (drive, open), address, length).await
            };
            reads.push(self.runtime().spawn(Priority::Host, read));
        }
        let mut run = self.runtime().buffer((blocks.end - blocks.start) as usize * BLOCK_BYTES_USIZE);
        let mut silent = Vec::new();
        for (part, read) in parts.iter().zip(reads) {
            let Some(column) = read.await else {
                silent.push(part.column);
                continue;
            };
            each_block(part, &blocks, striping.data())
                .for_each(|(to, at)| copy_block(&mut run, to, &column, at));
        }
        if silent.is_empty() { Ok(run) } else { self.read_around(striping, row, blocks, &silent).await }
    }

    /// Reads a run of blocks although drives that hold some of them cannot be read, without asking these
    /// columns if it can be done.
    async fn read_around(
        &self,
        striping: &Striping,
        row: u32,
        blocks: Range<u64>,
        silent: &[usize],
    ) -> Result<Buf> {
        let stripes = stripes_of(&blocks, striping.data());
        let mut columns = self.read_columns_but(striping, row, &stripes, silent).await;
        match self.restore(striping, &mut columns, &[]) {
            Err(_) if !silent.is_empty() => {
                columns = self.read_columns(striping, row, &stripes).await;
                self.restore(striping, &mut columns, &[])?;
            }
            result => result?,
        }
        Ok(gather(self.runtime(), &columns, &blocks, striping.data()))
    }

    /// Reads these stripes of every column; none for those that cannot be read.
    pub(crate) async fn read_columns(
        &self,
        striping: &Striping,
        row: u32,
        stripes: &Range<u64>,
    ) -> Vec<Option<Buf>> {
        self.read_columns_but(striping, row, stripes, &[]).await
    }

    async fn read_columns_but(
        &self,
        striping: &Striping,
        row: u32,
        stripes: &Range<u64>,
        left_out: &[usize],
    ) -> Vec<Option<Buf>> {
        let length = (stripes.end - stripes.start) as usize * BLOCK_BYTES_USIZE;
        let mut reads = Vec::with_capacity(striping.width());
        for column in 0..striping.width() {
            let (home, address) = self.column_address(striping, row, column, stripes.start);
            let open = self.readable(home).filter(|_| !left_out.contains(&column));
            let asked = open.clone();
            let read = async move { Some(asked?.read(address, length).await) };
            reads.push((home.at.drive, open, self.runtime().spawn(Priority::Host, read)));
        }
        let mut columns = Vec::with_capacity(reads.len());
        for (index, drive, read) in reads {
            let read = read.await.transpose();
            if let (Some(drive), Err(error)) = (&drive, &read) {
                self.read_failed(index, drive, error);
            }
            columns.push(read.ok().flatten());
        }
        columns
    }

    /// Computes the columns that are not there, and the distrusted ones anew.
    pub(crate) fn restore(
        &self,
        striping: &Striping,
        columns: &mut [Option<Buf>],
        distrusted: &[usize],
    ) -> Result<()> {
        let is_lost = |column: usize, there: &Option<Buf>| there.is_none() || distrusted.contains(&column);
        let lost = columns.iter().enumerate().filter(|(column, there)| is_lost(*column, there)).count();
        if lost > striping.parity {
            return Err(Error::new(
                ErrorKind::Medium,
                format!("{lost} columns of a stripe cannot be read and parity restores {}", striping.parity),
            ));
        }
        restore_columns(striping, self.runtime(), columns, is_lost);
        Ok(())
    }
}

/// Stripes that a run of blocks touches.
pub(crate) fn stripes_of(blocks: &Range<u64>, data: usize) -> Range<u64> {
    blocks.start / data as u64..blocks.end.div_ceil(data as u64)
}

/// The run of blocks out of columns that start at its first stripe.
pub(crate) fn gather(runtime: &Runtime, columns: &[Option<Buf>], blocks: &Range<u64>, data: usize) -> Buf {
    let first = stripes_of(blocks, data).start;
    let mut run = runtime.buffer((blocks.end - blocks.start) as usize * BLOCK_BYTES_USIZE);
    for (index, block) in blocks.clone().enumerate() {
        let column = columns[(block % data as u64) as usize].as_ref().expect("restored");
        let at = (block / data as u64 - first) as usize * BLOCK_BYTES_USIZE;
        copy_block(&mut run, index * BLOCK_BYTES_USIZE, column, at);
    }
    run
}

/// Shares whole stripes out to their columns and computes parity.
fn columns_with_parity(striping: &Striping, runtime: &Runtime, run: &[u8]) -> Vec<Buf> {
    let (width, data) = (striping.width(), striping.data());
    let mut columns: Vec<Buf> = (0..width).map(|_| runtime.buffer(run.len() / data)).collect();
    for (block, bytes) in run.chunks_exact(BLOCK_BYTES_USIZE).enumerate() {
        let at = block / data * BLOCK_BYTES_USIZE;
        columns[block % data][at..at + BLOCK_BYTES_USIZE].copy_from_slice(bytes);
    }
    let (sources, parity) = columns.split_at_mut(data);
    let mut sources: Vec<&[u8]> = sources.iter().map(|column| &column[..]).collect();
    if planted(Fault::QOfWrongColumns) && data > 1 {
        sources.swap(0, 1);
    }
    let (p, q) = parity.split_at_mut(1);
    striping.kernel.generate(&sources, &mut p[0], q.first_mut().map(|q| &mut q[..]));
    if planted(Fault::LastParityLeftOut) {
        let at = columns[data].len() - BLOCK_BYTES_USIZE;
        columns[data][at..].fill(0);
    }
    columns
}

/// Computes anew the columns that `is_lost` names: no more than there are parity columns.
fn restore_columns(
    striping: &Striping,
    runtime: &Runtime,
    columns: &mut [Option<Buf>],
    is_lost: impl Fn(usize, &Option<Buf>) -> bool,
) {
    let length = columns.iter().flatten().map(|column| column.len()).next().expect("a column is left");
    let lost: Vec<bool> = columns.iter().enumerate().map(|(column, there)| is_lost(column, there)).collect();
    for (column, _) in lost.iter().enumerate().filter(|(_, is_lost)| **is_lost) {
        columns[column] = Some(runtime.buffer(length));
    }
    let mut views: Vec<Column<'_>> = columns
        .iter_mut()
        .zip(&lost)
        .map(|(column, is_lost)| {
            let bytes = &mut column.as_mut().expect("filled above")[..];
            if *is_lost { Column::Missing(bytes) } else { Column::Present(bytes) }
        })
        .collect();
    let mut parity = views.split_off(striping.data()).into_iter();
    let p = parity.next().expect("a pool with rows has parity");
    let q = parity.next().unwrap_or(Column::Absent);
    striping.kernel.reconstruct(&mut views, p, q);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_run_are_its_blocks() {
        for data in 1..7 {
            for start in 0..20 {
                for end in start + 1..start + 30 {
                    let run = start..end;
                    let mut blocks: Vec<u64> = parts_of(&run, data)
                        .iter()
                        .flat_map(|part| {
                            part.stripes.clone().map(|stripe| stripe * data as u64 + part.column as u64)
                        })
                        .collect();
                    blocks.sort_unstable();
                    assert_eq!(blocks, run.clone().collect::<Vec<_>>(), "{run:?} over {data}");
                    assert_eq!(stripes_of(&run, data), start / data as u64..(end - 1) / data as u64 + 1);
                }
            }
        }
    }
}
