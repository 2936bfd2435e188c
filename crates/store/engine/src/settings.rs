//! What an operator may change at a restart. What the data depend on is in the pool's format.

use std::time::Duration;

use ashlar_pool::Opening;

/// Settings of an open pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes of decoded chunks kept for reads. Default 256 MiB: a few per cent of a small server,
    /// filled only by reads. Takes effect at restart.
    pub cache_bytes: u64,
    /// Bytes of map pages kept. Default 128 MiB: the leaves of 64 GiB of volume. Pages changed since
    /// the last checkpoint count too: when they take half of it, a checkpoint starts.
    pub map_cache_bytes: u64,
    /// A checkpoint at the latest this long after a change. Default 30 s: bounds what replay reads
    /// when little is written; busy pools checkpoint by volume of changes.
    pub checkpoint_interval: Duration,
    /// Bytes of host writes taken in and not yet acknowledged, at most. Default 32 MiB: well above
    /// what eight groups in flight hold.
    pub write_bytes_in_flight: u64,
    /// The cleaner empties segments while less than this share of the pool is free beyond the reserve.
    /// Default 1: it keeps up with hosts a few segments at a time, and what they take during a mark comes on
    /// top. Every per cent kept free is one less for dead data to collect in, which makes the segments that
    /// must be emptied fuller: in a pool 80 % full 12 % cost twice the moving that 3 % cost.
    pub free_percent_wanted: u8,
    /// Bytes of the fingerprint index at most; 0 switches dedupe off. Default 64 MiB: 2 GiB know every
    /// block of a TiB. Not taken before a volume with dedupe is written to, and never more than the
    /// pool's blocks could fill.
    pub dedupe_index_bytes_max: u64,
    /// Fewer equal blocks in a row than this are left alone. Default 2: a single equal block saves 4 KiB
    /// at most and makes a later sequential read slower. Range 1 to 16.
    pub dedupe_run_blocks_min: u8,
    /// One in two to this power of fingerprints is recorded. Default 0, all: 3 finds runs of eight
    /// blocks and more with an eighth of the memory. Range 0 to 8.
    pub dedupe_sample_shift: u8,
    /// So long a write to a full pool waits for room, since somebody may delete or unmap, or the pool may
    /// grow. Default 0: it is refused once cleaning does not help.
    pub no_space_wait: Duration,
    /// Where the first writes of an opening fail, open the pool to read rather than not at all. Default
    /// false. Not a setting of an operator.
    pub may_only_read: bool,
    /// Who opens the pool, and what is known of it. Not a setting of an operator.
    pub opening: Opening,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cache_bytes: 256 << 20,
            map_cache_bytes: 128 << 20,
            checkpoint_interval: Duration::from_secs(30),
            write_bytes_in_flight: 32 << 20,
            free_percent_wanted: 1,
            dedupe_index_bytes_max: 64 << 20,
            dedupe_run_blocks_min: 2,
            dedupe_sample_shift: 0,
            no_space_wait: Duration::ZERO,
            may_only_read: false,
            opening: Opening::default(),
        }
    }
}
