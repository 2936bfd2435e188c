//! The server's own counters, in one shape for versions 14 to 18.
//!
//! They moved between views from version to version (manual, chapter 28): checkpoints left `pg_stat_bgwriter`
//! for `pg_stat_checkpointer` in 17, what sessions write themselves is in `pg_stat_io` from 16 on, and the
//! times of the write-ahead log moved there in 18.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::server::Server;
use crate::session::{Rows, Session};

/// Counters of the whole server since they were reset, or the difference of two readings.
///
/// A block has `block_bytes`. Sessions hand their counts over when they end or are idle for a second or so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Version as a number: 150006 is 15.6.
    pub version_number: u64,
    /// Size of a block: 8192 unless built otherwise.
    pub block_bytes: u64,
    /// Transactions committed, in all databases.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Blocks not found in the server's buffers: read from the kernel, which may have had them.
    pub blocks_read: u64,
    /// Blocks found in the server's buffers.
    pub blocks_hit: u64,
    /// Written to temporary files by sorts and joins that do not fit memory.
    pub temp_bytes: u64,
    /// Transactions that waited for each other in a circle.
    pub deadlocks: u64,
    /// Written-ahead log made.
    pub wal_bytes: u64,
    /// Records in it.
    pub wal_records: u64,
    /// Whole pages in it, after each checkpoint.
    pub wal_full_page_images: u64,
    /// Times that the log was written; before 18 only by those who found its buffers full or wait for it.
    pub wal_writes: u64,
    /// Times that the log was flushed.
    pub wal_flushes: u64,
    /// Time in flushing it, in milliseconds; zero unless `track_wal_io_timing` is on.
    pub wal_flush_millis: f64,
    /// Checkpoints begun because it was time.
    pub checkpoints_timed: u64,
    /// Checkpoints asked for, by a statement or because the log grew.
    pub checkpoints_requested: u64,
    /// Time in writing at checkpoints, in milliseconds.
    pub checkpoint_write_millis: f64,
    /// Time in flushing files at checkpoints, in milliseconds.
    pub checkpoint_flush_millis: f64,
    /// Blocks written by checkpoints.
    pub checkpoint_blocks_written: u64,
    /// Blocks written by the background writer.
    pub cleaner_blocks_written: u64,
    /// Blocks written or added to a table by sessions themselves: they had to wait for it.
    pub backend_blocks_written: u64,
}

impl Statistics {
    /// Reads the counters of the server of a session.
    ///
    /// # Errors
    /// When the server is older than 14, refuses or does not answer.
    pub fn read(session: &mut Session) -> Result<Statistics> {
        let rows = session.run("select current_setting('server_version_num')")?;
        let version_number = Reading { query: "server_version_num", rows }.number(0)?;
        let major = version_number / 10_000;
        if major < u64::from(crate::installation::MAJOR_MIN) {
            return Err(Error::environment(format!(
                "server version {version_number}: 14 or newer is needed"
            )));
        }
        let mut ask = |query: &'static str| session.run(query).map(|rows| Reading { query, rows });
        let bases = ask(DATABASES)?;
        let wal = ask(if major < 18 { WAL_UNTIL_17 } else { WAL_FROM_18 })?;
        let checkpoints = ask(if major < 17 { CHECKPOINTS_UNTIL_16 } else { CHECKPOINTS_FROM_17 })?;
        let backends = ask(match major {
            ..16 => BACKENDS_UNTIL_15,
            16 | 17 => BACKENDS_OF_16_AND_17,
            18.. => BACKENDS_FROM_18,
        })?;
        Ok(Statistics {
            version_number,
            commits: bases.number(0)?,
            rollbacks: bases.number(1)?,
            blocks_read: bases.number(2)?,
            blocks_hit: bases.number(3)?,
            temp_bytes: bases.number(4)?,
            deadlocks: bases.number(5)?,
            block_bytes: bases.number(6)?,
            wal_bytes: wal.number(0)?,
            wal_records: wal.number(1)?,
            wal_full_page_images: wal.number(2)?,
            wal_writes: wal.number(3)?,
            wal_flushes: wal.number(4)?,
            wal_flush_millis: wal.millis(5)?,
            checkpoints_timed: checkpoints.number(0)?,
            checkpoints_requested: checkpoints.number(1)?,
            checkpoint_write_millis: checkpoints.millis(2)?,
            checkpoint_flush_millis: checkpoints.millis(3)?,
            checkpoint_blocks_written: checkpoints.number(4)?,
            cleaner_blocks_written: checkpoints.number(5)?,
            backend_blocks_written: backends.number(0)?,
        })
    }

    /// What happened between an earlier reading and this one.
    ///
    /// # Errors
    /// When a counter went back: the server was reset, or came back from a crash, in between.
    pub fn since(&self, earlier: &Statistics) -> Result<Statistics> {
        let mut out = self.clone();
        let before = earlier.counters();
        for ((name, value), (_, before)) in out.counters_mut().into_iter().zip(before) {
            *value = value.checked_sub(before).ok_or_else(|| went_back(name))?;
        }
        let before = earlier.times();
        for ((name, value), (_, before)) in out.times_mut().into_iter().zip(before) {
            *value -= before;
            // The times are sums of floating point numbers.
            if *value < -1e-3 {
                return Err(went_back(name));
            }
            *value = value.max(0.0);
        }
        Ok(out)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.clone().counters_mut().into_iter().map(|(name, value)| (name, *value)).collect()
    }

    fn times(&self) -> Vec<(&'static str, f64)> {
        self.clone().times_mut().into_iter().map(|(name, value)| (name, *value)).collect()
    }

    fn counters_mut(&mut self) -> [(&'static str, &mut u64); 16] {
        [
            ("commits", &mut self.commits),
            ("rollbacks", &mut self.rollbacks),
            ("blocks_read", &mut self.blocks_read),
            ("blocks_hit", &mut self.blocks_hit),
            ("temp_bytes", &mut self.temp_bytes),
            ("deadlocks", &mut self.deadlocks),
            ("wal_bytes", &mut self.wal_bytes),
            ("wal_records", &mut self.wal_records),
            ("wal_full_page_images", &mut self.wal_full_page_images),
            ("wal_writes", &mut self.wal_writes),
            ("wal_flushes", &mut self.wal_flushes),
            ("checkpoints_timed", &mut self.checkpoints_timed),
            ("checkpoints_requested", &mut self.checkpoints_requested),
            ("checkpoint_blocks_written", &mut self.checkpoint_blocks_written),
            ("cleaner_blocks_written", &mut self.cleaner_blocks_written),
            ("backend_blocks_written", &mut self.backend_blocks_written),
        ]
    }

    fn times_mut(&mut self) -> [(&'static str, &mut f64); 3] {
        [
            ("wal_flush_millis", &mut self.wal_flush_millis),
            ("checkpoint_write_millis", &mut self.checkpoint_write_millis),
            ("checkpoint_flush_millis", &mut self.checkpoint_flush_millis),
        ]
    }
}

fn went_back(name: &str) -> Error {
    Error::command(format!("statistics: {name} went back, the server was reset or crashed in between"))
}

impl Server {
    /// Reads the server's counters.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn statistics(&self) -> Result<Statistics> {
        Statistics::read(&mut self.session()?)
    }
}

const DATABASES: &str = "select sum(xact_commit), sum(xact_rollback), sum(blks_read), sum(blks_hit), \
     sum(temp_bytes), sum(deadlocks), current_setting('block_size') from pg_stat_database";
const WAL_UNTIL_17: &str = "select wal_bytes, wal_records, wal_fpi, wal_write, wal_sync, wal_sync_time \
     from pg_stat_wal";
const WAL_FROM_18: &str = "select wal_bytes, wal_records, wal_fpi, io.writes, io.fsyncs, io.fsync_time \
     from pg_stat_wal, (select sum(writes) writes, sum(fsyncs) fsyncs, sum(fsync_time) fsync_time \
     from pg_stat_io where object = 'wal') io";
const CHECKPOINTS_UNTIL_16: &str = "select checkpoints_timed, checkpoints_req, checkpoint_write_time, \
     checkpoint_sync_time, buffers_checkpoint, buffers_clean from pg_stat_bgwriter";
const CHECKPOINTS_FROM_17: &str = "select num_timed, num_requested, write_time, sync_time, \
     buffers_written, buffers_clean from pg_stat_checkpointer, pg_stat_bgwriter";
const BACKENDS_UNTIL_15: &str = "select buffers_backend from pg_stat_bgwriter";
/// Until 17 `writes` and `extends` count blocks, however many a call wrote.
const BACKENDS_OF_16_AND_17: &str = "select sum(coalesce(writes, 0) + coalesce(extends, 0)) from pg_stat_io \
     where object = 'relation' and backend_type not in ('checkpointer', 'background writer')";
/// From 18 on they count calls, and the bytes have columns of their own.
const BACKENDS_FROM_18: &str = "select sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) \
     / current_setting('block_size')::numeric from pg_stat_io \
     where object = 'relation' and backend_type not in ('checkpointer', 'background writer')";

/// The one row that a query answered.
struct Reading {
    query: &'static str,
    rows: Rows,
}

impl Reading {
    fn millis(&self, column: usize) -> Result<f64> {
        let value = self.rows.first().and_then(|row| row.get(column)?.as_deref());
        // NULL: not counted in this version or with these settings.
        let value = value.unwrap_or("0");
        value.parse().map_err(|_| Error::command(format!("`{}` answered {value:?}", self.query)))
    }

    /// Sums come with a fraction of zeros.
    fn number(&self, column: usize) -> Result<u64> {
        Ok(self.millis(column)?.round() as u64)
    }
}

#[cfg(test)]
mod tests;
