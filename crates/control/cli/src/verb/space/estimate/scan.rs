//! Passing a target's regions to the estimator: which are read, in what order.

use std::ops::Range;
use std::time::Duration;

use ashlar_reduction::estimate::{Coverage, Draw, Estimate, Estimator, Population, REGION_BYTES};
use ashlar_units::{BLOCK_BYTES, ByteCount};

use super::target::Content;
use crate::failure::Result;

/// Regions of one read where everything is read: 1 MiB, enough for a drive to stream.
const BATCH_REGIONS: u64 = 16;

/// What of a target is read.
pub struct Plan {
    size_bytes: u64,
    /// Regions that may hold data, by number, in order.
    regions: Vec<Range<u64>>,
    population: Population,
    drawn: Draw,
}

impl Plan {
    /// Asks the target where it has data. A quick plan that would draw every region is a whole one.
    pub fn new(content: &mut dyn Content, sample_bytes: u64, is_quick: bool) -> Result<Plan> {
        let size_bytes = content.size_bytes();
        let regions = to_regions(&content.data_ranges()?, size_bytes);
        let count: u64 = regions.iter().map(|range| range.end - range.start).sum();
        let drawn = Draw::new(count, sample_bytes / REGION_BYTES);
        let coverage = if is_quick && drawn.wanted() < count { Coverage::Drawn } else { Coverage::All };
        let region_blocks = regions.iter().map(|range| blocks_of(range, size_bytes)).sum();
        let hole_blocks = ByteCount(size_bytes).to_blocks_ceil() - region_blocks;
        let population = Population { coverage, regions: count, region_blocks, hole_blocks };
        Ok(Plan { size_bytes, regions, population, drawn })
    }

    /// Bytes that will be read.
    pub fn read_bytes(&self) -> u64 {
        match self.population.coverage {
            Coverage::All => self.population.region_blocks * BLOCK_BYTES,
            Coverage::Drawn => self.drawn.wanted() * REGION_BYTES,
        }
    }

    /// What the regions are a part of.
    pub fn population(&self) -> Population {
        self.population
    }
}

/// The regions that ranges of bytes touch.
fn to_regions(ranges: &[Range<u64>], size_bytes: u64) -> Vec<Range<u64>> {
    let mut regions: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let touched = range.start / REGION_BYTES..range.end.min(size_bytes).div_ceil(REGION_BYTES);
        match regions.last_mut() {
            Some(last) if touched.start <= last.end => last.end = last.end.max(touched.end),
            _ if touched.is_empty() => {}
            _ => regions.push(touched),
        }
    }
    regions
}

/// Blocks in a range of regions; the target may end within the last one.
fn blocks_of(regions: &Range<u64>, size_bytes: u64) -> u64 {
    let end = (regions.end * REGION_BYTES).min(size_bytes);
    ByteCount(end - regions.start * REGION_BYTES).to_blocks_ceil()
}

/// Reads what the plan says and estimates; tells the bytes done after each read.
pub fn scan(content: &mut dyn Content, plan: &Plan, progress: &mut dyn FnMut(u64)) -> Result<Estimate> {
    let mut estimator = Estimator::new(&processor_time);
    let mut draw = plan.drawn.clone();
    let mut buffer = vec![0; (BATCH_REGIONS * REGION_BYTES) as usize];
    let mut done_bytes = 0;
    for range in &plan.regions {
        estimator.gap();
        let mut at = range.start;
        while at < range.end {
            let is_whole = plan.population.coverage == Coverage::All;
            let batch = at..range.end.min(at + if is_whole { BATCH_REGIONS } else { 1 });
            at = batch.end;
            let drawn: Vec<bool> = batch.clone().map(|_| draw.is_next_drawn()).collect();
            if !is_whole && !drawn[0] {
                estimator.gap();
                continue;
            }
            let bytes = read(content, &batch, plan.size_bytes, &mut buffer)?;
            for (index, region) in bytes.chunks(REGION_BYTES as usize).enumerate() {
                let block = (batch.start + index as u64) * REGION_BYTES / BLOCK_BYTES;
                estimator.add(block, region, drawn[index]);
            }
            done_bytes += bytes.len() as u64;
            progress(done_bytes);
        }
    }
    Ok(estimator.finish(plan.population))
}

/// Reads regions; a last block that is not whole is filled up with zeroes, as a file system does.
fn read<'b>(
    content: &mut dyn Content,
    regions: &Range<u64>,
    size_bytes: u64,
    buffer: &'b mut [u8],
) -> Result<&'b [u8]> {
    let start = regions.start * REGION_BYTES;
    let length = ((regions.end * REGION_BYTES).min(size_bytes) - start) as usize;
    let whole = length.next_multiple_of(BLOCK_BYTES as usize);
    content.read(start, &mut buffer[..length])?;
    buffer[length..whole].fill(0);
    Ok(&buffer[..whole])
}

/// Not the time on the wall: on a busy machine that would count the work of others.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
